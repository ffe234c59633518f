//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// half orders this cluster's half of a link and returns status and answer.
func (h *Hawser) half(name, remote string, configs map[string]string) (int, map[string]any) {
	h.t.Helper()
	all := maps.Clone(fastLink)
	all["availability.check.ms"] = "1000"
	if configs["link.mode"] == "SOURCE" {
		all = map[string]string{"availability.check.ms": "1000"}
	}
	maps.Copy(all, configs)
	var list []map[string]string
	for key, value := range all {
		list = append(list, map[string]string{"name": key, "value": value})
	}
	body := map[string]any{"configs": list}
	if remote != "" {
		body["remote_cluster_id"] = remote
	}
	return h.Call("POST", h.path("/links?link_name=%s", name), body)
}

// mustHalf is half that must succeed; it returns the link's id.
func (h *Hawser) mustHalf(name, remote string, configs map[string]string) string {
	h.t.Helper()
	status, body := h.half(name, remote, configs)
	if status != 201 {
		h.t.Fatalf("half of link %s: %d %v", name, status, body)
	}
	return body["cluster_link_id"].(string)
}

// noHalf wants the order refused with a status and words.
func (h *Hawser) noHalf(name, remote string, configs map[string]string, status int, words ...string) {
	h.t.Helper()
	got, body := h.half(name, remote, configs)
	for _, word := range words {
		if text := fmt.Sprint(body["message"]); got != status || !strings.Contains(text, word) {
			h.t.Errorf("half of link %s with %v: %d %s; want %d and %q", name, configs, got, text, status, word)
		}
	}
}

// linkIs waits until fields of the link have these values; what a value must contain only is put after a "~".
func (h *Hawser) linkIs(name string, want map[string]string) {
	h.t.Helper()
	eventually(h.t, 30*time.Second, fmt.Sprintf("link %s has %v", name, want), func() (bool, string) {
		_, body := h.Call("GET", h.path("/links/%s", name), nil)
		for field, value := range want {
			got := fmt.Sprint(body[field])
			if part, is := strings.CutPrefix(value, "~"); is && !strings.Contains(got, part) || !is && got != value {
				return false, fmt.Sprint(body)
			}
		}
		return true, ""
	})
}

// TestTwoSided_SourceInitiated lets the source dial: its destination has no address of it.
func TestTwoSided_SourceInitiated(t *testing.T) {
	t.Parallel()
	a, b := StartHawser(t), StartHawser(t)
	source, mirror := byHand(t, a.Kafka), byHand(t, b.Kafka)
	CreateTopic(t, source, "orders", 4, 1, nil)
	for p := range int32(4) {
		write(t, source, "orders", p, 1000, "before")
	}
	out := map[string]string{"link.mode": "SOURCE", "connection.mode": "OUTBOUND", "bootstrap.servers": b.Kafka}
	in := map[string]string{"link.mode": "DESTINATION", "connection.mode": "INBOUND", "consumer.offset.sync.enable": "true", "consumer.offset.group.filters": everyGroup}
	a.noHalf("l", "", out, 400, "the destination cluster does not have a link named l", "INBOUND")
	b.noHalf("l", "", in, 400, "give its id")
	b.noHalf("l", a.Cluster, map[string]string{"link.mode": "SOURCE", "connection.mode": "INBOUND"}, 400, "OUTBOUND")
	if out, code := b.CLI("link", "create", "l", "--source-cluster", a.Cluster, "--config", "connection.mode=INBOUND", "--dry-run"); code != 0 {
		t.Errorf("link create with --dry-run: %s", out)
	}
	id := b.mustHalf("l", a.Cluster, in)
	b.linkIs("l", map[string]string{"link_error": "TIMEOUT_ERROR", "link_error_message": "~has offered no connection"})
	a.noHalf("l", "", map[string]string{"link.mode": "SOURCE", "bootstrap.servers": b.Kafka, "auto.create.mirror.topics.enable": "true"}, 400, "other half")
	a.noHalf("l", "", map[string]string{"link.mode": "BIDIRECTIONAL", "bootstrap.servers": b.Kafka}, 400, "link.mode=DESTINATION")
	if got := a.mustHalf("l", "", out); got != id {
		t.Errorf("the halves have the ids %s and %s", id, got)
	}
	a.linkIs("l", map[string]string{"link_state": "ACTIVE", "destination_cluster_id": b.Cluster, "remote_link_state": "ACTIVE"})
	b.linkIs("l", map[string]string{"link_state": "ACTIVE", "source_cluster_id": a.Cluster, "remote_link_state": "ACTIVE"})
	b.CreateMirror("l", "orders")
	WaitLevel(t, source, mirror, "orders", 4, 60*time.Second)
	if status, body := a.Call("POST", a.path("/links/l/mirrors"), map[string]any{"source_topic_name": "orders"}); status != 400 || !strings.Contains(fmt.Sprint(body), "SOURCE") {
		t.Errorf("a mirror on the SOURCE half: %d %v", status, body)
	}
	commitText(t, kadm.NewClient(source), "readers", "orders", 0, 700, "")
	waitCommittedAt(t, kadm.NewClient(mirror), "readers", "orders", 0, 700)

	// Either side is killed: the source dials again.
	for _, side := range []*Hawser{a, b} {
		side.Kill()
		side.Start()
		for p := range int32(4) {
			write(t, source, "orders", p, 500, "after")
		}
		WaitLevel(t, source, mirror, "orders", 4, 60*time.Second)
	}
	SameAll(t, source, mirror, "orders", 4)
	a.Must("PUT", a.path("/links/l/configs/cluster.link.paused"), map[string]any{"value": "true"})
	b.linkIs("l", map[string]string{"link_state": "UNAVAILABLE"})
	write(t, source, "orders", 0, 10, "more")
	a.Must("PUT", a.path("/links/l/configs/cluster.link.paused"), map[string]any{"value": "false"})
	WaitLevel(t, source, mirror, "orders", 4, 60*time.Second)
	b.Order("l", "promote", "orders")
	b.WaitStatus("l", "orders", "STOPPED", 30*time.Second)
}

// TestTwoSided_NeedsAHawserOnBothSides wants an Apache Kafka refused as the other side of a link with two halves.
func TestTwoSided_NeedsAHawserOnBothSides(t *testing.T) {
	k := SharedKafka(t)
	h := StartHawser(t)
	for _, mode := range []string{"SOURCE", "BIDIRECTIONAL"} {
		h.noHalf("l", "", map[string]string{"link.mode": mode, "bootstrap.servers": k.Bootstrap()}, 400, "no hawser", "DESTINATION")
	}
}

// groupFilter is consumer.offset.group.filters for one group and the topic types.
func groupFilter(group string, types ...string) string {
	return fmt.Sprintf(`{"groupFilters":[{"name":"%s","patternType":"LITERAL","filterType":"INCLUDE","topicTypes":["%s"]}]}`, group, strings.Join(types, `","`))
}

// TestTwoSided_Bidirectional has one link with mirrors and group offsets in both directions, and a prefix on each side.
func TestTwoSided_Bidirectional(t *testing.T) {
	t.Parallel()
	a, b := StartHawser(t), StartHawser(t)
	ca, cb := byHand(t, a.Kafka), byHand(t, b.Kafka)
	CreateTopic(t, ca, "east", 2, 1, nil)
	CreateTopic(t, cb, "west", 2, 1, nil)
	for p := range int32(2) {
		write(t, ca, "east", p, 300, "from a")
		write(t, cb, "west", p, 400, "from b")
	}
	both := func(other *Hawser, more map[string]string) map[string]string {
		set := map[string]string{"link.mode": "BIDIRECTIONAL", "bootstrap.servers": other.Kafka}
		maps.Copy(set, more)
		return set
	}
	a.noHalf("l", "", both(b, map[string]string{"cluster.link.prefix": "x.", "consumer.group.prefix.enable": "true"}), 400, "invalid configuration")
	id := a.mustHalf("l", "", both(b, map[string]string{"consumer.offset.sync.enable": "true", "consumer.offset.group.filters": groupFilter("back", "REMOTE_MIRROR")}))
	a.linkIs("l", map[string]string{"link_state": "ACTIVE", "remote_link_state": "REMOTE_LINK_NOT_FOUND_ERROR"})
	if got := b.mustHalf("l", "", both(a, map[string]string{"cluster.link.prefix": "a.", "consumer.offset.sync.enable": "true",
		"consumer.offset.group.filters": groupFilter("there", "LOCAL_MIRROR")})); got != id {
		t.Errorf("the halves have the ids %s and %s", id, got)
	}
	for _, side := range []*Hawser{a, b} {
		side.linkIs("l", map[string]string{"link_state": "ACTIVE", "remote_link_state": "ACTIVE"})
	}
	a.CreateMirror("l", "west")
	b.Must("POST", b.path("/links/l/mirrors"), map[string]any{"source_topic_name": "east", "mirror_topic_name": "a.east"})
	WaitLevel(t, cb, ca, "west", 2, 60*time.Second)
	eventually(t, 60*time.Second, "the prefixed mirror is level", func() (bool, string) {
		_, end := Ends(t, cb, "a.east", 1)
		return end == 300, fmt.Sprint(end)
	})

	// Group "there" is consumed on A, "back" on B's mirror of A's topic: each comes over in its own direction only.
	onA, onB := kadm.NewClient(ca), kadm.NewClient(cb)
	commitText(t, onA, "there", "east", 0, 120, "")
	commitText(t, onB, "back", "a.east", 1, 250, "")
	waitCommittedAt(t, onB, "there", "a.east", 0, 120)
	waitCommittedAt(t, onA, "back", "east", 1, 250)
	commitText(t, onB, "back", "a.east", 1, 40, "") // back is back there, too
	waitCommittedAt(t, onA, "back", "east", 1, 40)

	// A group matched in both directions is refused by name, on both sides.
	a.Must("PUT", a.path("/links/l/configs/consumer.offset.group.filters"), map[string]any{"value": groupFilter("there", "REMOTE_MIRROR")})
	for _, side := range []*Hawser{a, b} {
		eventually(t, 30*time.Second, "the task names the group", func() (bool, string) {
			body := side.Must("GET", side.path("/links/l?include_tasks=true"), nil)
			text := fmt.Sprint(body["tasks"])
			return strings.Contains(text, "group there is matched in both directions"), text
		})
	}
	commitText(t, onA, "there", "east", 0, 130, "")
	if got := committedAt(t, onB, "there", "a.east", 0).At; got != 120 {
		t.Errorf("the offset of a refused group came over: %d", got)
	}
	a.Must("PUT", a.path("/links/l/configs/consumer.offset.group.filters"), map[string]any{"value": groupFilter("back", "REMOTE_MIRROR")})
	waitCommittedAt(t, onB, "there", "a.east", 0, 130)

	// No topic becomes a mirror of itself.
	if status, body := b.Call("POST", b.path("/links/l/mirrors"), map[string]any{"source_topic_name": "west", "mirror_topic_name": "a.west"}); status != 201 {
		t.Errorf("a mirror of a mirror under another name: %d %v", status, body)
	}
	// Either half deleted leaves the other one in use; both go.
	if status, body := a.Call("DELETE", a.path("/links/l?force=true"), nil); status != 204 {
		t.Fatalf("delete a's half: %d %v", status, body)
	}
	b.linkIs("l", map[string]string{"link_state": "ACTIVE", "remote_link_state": "REMOTE_LINK_NOT_FOUND_ERROR"})
}

// TestTwoSided_BidirectionalInbound has both directions over connections that only one side opens.
func TestTwoSided_BidirectionalInbound(t *testing.T) {
	t.Parallel()
	a, b := StartHawser(t), StartHawser(t)
	ca, cb := byHand(t, a.Kafka), byHand(t, b.Kafka)
	CreateTopic(t, ca, "east", 1, 1, nil)
	CreateTopic(t, cb, "west", 1, 1, nil)
	in := map[string]string{"link.mode": "BIDIRECTIONAL", "connection.mode": "INBOUND", "bootstrap.servers": "not-dialled:1"}
	if status, body := b.Call("POST", b.path("/links?link_name=l"), map[string]any{"remote_cluster_id": a.Cluster, "cluster_link_id": "AAAAAAAAAAAAAAAAAAAAAg", "configs": []map[string]string{
		{"name": "link.mode", "value": "BIDIRECTIONAL"}, {"name": "connection.mode", "value": "INBOUND"}}}); status != 400 || !strings.Contains(fmt.Sprint(body), "Unexpected cluster link id") {
		t.Errorf("an id for the half that gives it: %d %v", status, body)
	}
	b.mustHalf("l", a.Cluster, in)
	out, code := a.CLI("link", "create", "l", "--remote-cluster", b.Cluster, "--remote-bootstrap-server", b.Kafka,
		"--config", "availability.check.ms=1000,metadata.max.age.ms=1000,topic.config.sync.ms=1000,remote.link.connection.mode=INBOUND")
	if code != 0 {
		t.Fatalf("link create: %s", out)
	}
	b.linkIs("l", map[string]string{"link_state": "ACTIVE", "remote_link_state": "ACTIVE", "remote_cluster_id": a.Cluster})
	a.linkIs("l", map[string]string{"link_state": "ACTIVE", "remote_link_state": "ACTIVE"})
	if out, _ := a.CLI("link", "describe", "l"); !regexp.MustCompile(`(?m)Remote Link State.*ACTIVE`).MatchString(out) {
		t.Errorf("link describe: %s", out)
	}
	a.CreateMirror("l", "west")
	b.CreateMirror("l", "east")
	write(t, ca, "east", 0, 300, "from a")
	write(t, cb, "west", 0, 400, "from b")
	WaitLevel(t, cb, ca, "west", 1, 60*time.Second)
	WaitLevel(t, ca, cb, "east", 1, 60*time.Second)
	// A reversal needs questions in both directions, too.
	b.Order("l", "reverse-and-start-mirror", "east")
	b.WaitStatus("l", "east", "STOPPED", 60*time.Second)
	a.WaitStatus("l", "east", "ACTIVE", 60*time.Second)
	write(t, cb, "east", 0, 50, "from b now")
	WaitLevel(t, cb, ca, "east", 1, 60*time.Second)
	SameAll(t, cb, ca, "east", 1)
}

// TestTwoSided_LentConnectionsBreak cuts, refuses and swallows the connections that the source opens, under load.
func TestTwoSided_LentConnectionsBreak(t *testing.T) {
	t.Parallel()
	a, b := StartHawser(t), StartHawser(t)
	way := NewProxy(t, b.Kafka)
	source, mirror := byHand(t, a.Kafka), byHand(t, b.Kafka)
	CreateTopic(t, source, "orders", 3, 1, nil)
	short := map[string]string{"request.timeout.ms": "2000", "replica.socket.timeout.ms": "2000", "replica.fetch.backoff.ms": "100"}
	in := map[string]string{"connection.mode": "INBOUND", "reverse.connection.setup.timeout.ms": "3000"}
	out := map[string]string{"link.mode": "SOURCE", "bootstrap.servers": way.Addr(), "bootstrap.address.map": b.Kafka + "=" + way.Addr(), "request.timeout.ms": "2000"}
	maps.Copy(in, short)
	b.mustHalf("l", a.Cluster, in)
	a.mustHalf("l", "", out)
	b.linkIs("l", map[string]string{"link_state": "ACTIVE"})
	b.CreateMirror("l", "orders")
	round := 0
	more := func() {
		round++
		for p := range int32(3) {
			write(t, source, "orders", p, 200, fmt.Sprintf("round %d", round))
		}
	}
	more()
	WaitLevel(t, source, mirror, "orders", 3, 60*time.Second)
	if n, _ := b.Metric("hawser_link_lent_connections", `link="l"`, `use="in_use"`); n < 2 {
		t.Errorf("%v lent connections are in use", n)
	}
	for range 5 {
		way.Cut()
		more()
		WaitLevel(t, source, mirror, "orders", 3, 60*time.Second)
	}
	way.Refuse()
	way.Cut()
	more()
	b.linkIs("l", map[string]string{"link_state": "UNAVAILABLE", "link_error_message": "~has offered no connection"})
	a.linkIs("l", map[string]string{"link_state": "UNAVAILABLE"})
	way.Allow()
	WaitLevel(t, source, mirror, "orders", 3, 60*time.Second)
	b.linkIs("l", map[string]string{"link_state": "ACTIVE"})
	// Nothing goes through and nobody is told: time-outs find it out.
	way.Swallow()
	more()
	b.linkIs("l", map[string]string{"link_state": "UNAVAILABLE"})
	way.Mend()
	way.Cut()
	WaitLevel(t, source, mirror, "orders", 3, 60*time.Second)
	SameAll(t, source, mirror, "orders", 3)
}
