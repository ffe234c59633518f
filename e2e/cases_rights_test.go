//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestReversalNeedsRightsBothWays orders a reversal while the old source could not read the topic once it is its mirror: that is
// told, in a dry run as in the order, and nothing happens until the rights are there.
func TestReversalNeedsRightsBothWays(t *testing.T) {
	t.Parallel()
	a, doorA, certA := startTwoDoors(t)
	b, doorB, certB := startTwoDoors(t)
	ca, cb := byHand(t, a.Kafka), byHand(t, b.Kafka)
	adminA, adminB := kadm.NewClient(ca), kadm.NewClient(cb)
	CreateTopic(t, ca, "orders", 1, 1, nil)
	write(t, ca, "orders", 0, 10, "x")
	for _, admin := range []*kadm.Client{adminA, adminB} {
		scramUser(t, admin, "link", "link-secret")
		acl(t, admin, "add", mayCluster("link", kadm.OpAlter, kadm.OpDescribe))
		acl(t, admin, "add", may("link", "orders", kadm.OpAlter))
	}
	acl(t, adminA, "add", may("link", "orders", kadm.OpRead, kadm.OpDescribeConfigs))
	half := func(door, certificate string) map[string]string {
		set := map[string]string{"link.mode": "BIDIRECTIONAL", "bootstrap.servers": door}
		maps.Copy(set, loginAt("", "link", "link-secret", certificate))
		return set
	}
	a.mustHalf("l", "", half(doorB, certB))
	b.mustHalf("l", "", half(doorA, certA))
	a.linkIs("l", map[string]string{"link_state": "ACTIVE", "remote_link_state": "ACTIVE"})
	b.CreateMirror("l", "orders")
	WaitLevel(t, ca, cb, "orders", 1, 60*time.Second)
	ordered := func(query string) map[string]any {
		t.Helper()
		answer := b.Must("POST", b.path("/links/l/mirrors:reverse-and-start-mirror%s", query), map[string]any{"mirror_topic_names": []string{"orders"}})
		return answer["data"].([]any)[0].(map[string]any)
	}
	for _, query := range []string{"?validate_only=true", ""} {
		if text := fmt.Sprint(ordered(query)["error_message"]); !strings.Contains(text, "READ and DESCRIBE_CONFIGS") || !strings.Contains(text, a.Cluster) {
			t.Errorf("a reversal that ends in a mirror that may not read says %q (%s)", text, query)
		}
	}
	b.WaitStatus("l", "orders", "ACTIVE", 10*time.Second)
	write(t, ca, "orders", 0, 10, "still writable")
	acl(t, adminB, "add", may("link", "orders", kadm.OpRead, kadm.OpDescribeConfigs))
	acl(t, adminA, "remove", may("link", "orders", kadm.OpDescribeConfigs))
	eventually(t, 20*time.Second, "the dry run lists what is missing in the direction of now", func() (bool, string) {
		one := ordered("?validate_only=true")
		text := fmt.Sprint(one["missing_acls"])
		return one["error_message"] == nil && strings.Contains(text, "DESCRIBE_CONFIGS") && strings.Contains(text, "orders") && !strings.Contains(text, "READ"), fmt.Sprint(one)
	})
	acl(t, adminA, "add", may("link", "orders", kadm.OpDescribeConfigs))
	b.eventuallyOrder("l", "reverse-and-start-mirror", "orders")
	b.WaitStatus("l", "orders", "STOPPED", 30*time.Second)
	a.WaitStatus("l", "orders", "ACTIVE", 30*time.Second)
	write(t, cb, "orders", 0, 10, "the other way")
	WaitLevel(t, cb, ca, "orders", 1, 60*time.Second)
	SameAll(t, cb, ca, "orders", 1)
}

// TestC69_AwkwardNamesEndToEnd makes links and mirrors whose names are like parts of paths, named plainly and byte by byte.
func TestC69_AwkwardNamesEndToEnd(t *testing.T) {
	t.Parallel()
	src, h := StartHawser(t), StartHawser(t)
	source, mirror := Client(t, src.Kafka), Client(t, h.Kafka)
	topics := []string{"mirrors", ".x", "a..b", "T", "t", "-", "configs"}
	for _, topic := range topics {
		CreateTopic(t, source, topic, 1, 1, nil)
		produce(t, source, texts(topic, "v", 0, 3)...)
	}
	bytewise := func(name string) string {
		var out strings.Builder
		for i := range len(name) {
			fmt.Fprintf(&out, "%%%02X", name[i])
		}
		return out.String()
	}
	all := topics
	for _, link := range []string{"a.b", "a-b", "_x", "configs"} {
		h.CreateLink(bytewise(link), src.Kafka, nil)
		for _, topic := range topics {
			h.CreateMirror(link, topic)
			for _, at := range []string{topic, bytewise(topic)} {
				if m := h.Mirror(bytewise(link), at); m.Raw["mirror_topic_name"] != topic || m.Raw["link_name"] != link {
					t.Errorf("%s/%s is %v", link, at, m.Raw)
				}
			}
			WaitLevel(t, source, mirror, topic, 1, 30*time.Second)
		}
		if listed := h.Must("GET", h.path("/links/-/mirrors"), nil)["data"].([]any); len(listed) != len(topics) {
			t.Errorf("links/-/mirrors lists %d of %d", len(listed), len(topics))
		}
		if rs, err := kadm.NewClient(mirror).DeleteTopics(testContext(t), topics...); err != nil || rs.Error() != nil {
			t.Fatal(err, rs.Error())
		}
		topics = all[:2] // one link has all the names
		eventually(t, 20*time.Second, "the link goes once its mirrors are gone", func() (bool, string) {
			status, body := h.Call("DELETE", h.path("/links/%s", bytewise(link)), nil)
			return status/100 == 2, fmt.Sprint(status, body)
		})
	}
}
