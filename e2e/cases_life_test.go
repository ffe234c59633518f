//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// TestC53_PromoteAnswersBeforeItIsDone promotes many mirrors at once while somebody tries to write to each: nothing is accepted
// before STOPPED is shown, and nothing is refused after.
func TestC53_PromoteAnswersBeforeItIsDone(t *testing.T) {
	t.Parallel()
	topics := envInt("HAWSER_PROMOTED", 40)
	w := newPair(t)
	var names []string
	base := again("c53")
	for i := range topics {
		names = append(names, fmt.Sprintf("%s-%03d", base, i))
	}
	rs, err := kadm.NewClient(w.source).CreateTopics(testContext(t), 1, 1, nil, names...)
	if err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	for _, name := range names {
		eventually(t, 30*time.Second, name+" can be mirrored", func() (bool, string) {
			status, body := w.h.Call("POST", w.h.path("/links/east/mirrors"), map[string]any{"source_topic_name": name})
			return status == 201, fmt.Sprint(body)
		})
	}
	for _, name := range names {
		w.level(name, 1)
	}
	status := func(name string) string { return w.h.Mirror("east", name).Status }
	var tries sync.WaitGroup
	begin := make(chan struct{})
	slots := make(chan struct{}, 8)
	seen := make([]string, topics)
	for i, name := range names {
		tries.Go(func() {
			<-begin
			ctx := testContext(t)
			for ctx.Err() == nil {
				slots <- struct{}{}
				before := status(name)
				b, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1}, []batch.Record{{Timestamp: 1, Value: []byte("try")}})
				if err != nil {
					t.Error(err)
				}
				code, err := tryRaw(ctx, w.mirror, name, b)
				after := status(name)
				<-slots
				accepted := err == nil && code == 0
				switch {
				case accepted && after != "STOPPED":
					t.Errorf("%s took a record, and is shown as %s", name, after)
					return
				case !accepted && before == "STOPPED":
					t.Errorf("%s is STOPPED, and a record was refused: code %d, %v", name, code, err)
					return
				case accepted:
					return
				case before == "PENDING_STOPPED":
					seen[i] = before
				}
				pause(ctx, 20*time.Millisecond)
			}
		})
	}
	close(begin)
	pause(testContext(t), 300*time.Millisecond)
	begun := time.Now()
	w.h.Order("east", "promote", names...)
	answered := time.Since(begun)
	tries.Wait()
	took := time.Since(begun)
	pending := len(slices.DeleteFunc(slices.Clone(seen), func(s string) bool { return s == "" }))
	t.Logf("the order was answered after %v, the last of %d mirrors took a record after %v; %d were seen as PENDING_STOPPED", answered.Round(time.Millisecond), topics, took.Round(time.Millisecond), pending)
	if took > 60*time.Second {
		t.Errorf("the last mirror took a record only after %v", took)
	}
	if pending == 0 {
		t.Error("none was seen on its way")
	}
}

// refusedDeletion wants the link not to be deleted, and the mirrors to be named that keep it.
func (h *Hawser) refusedDeletion(link string, mirrors ...string) {
	h.t.Helper()
	status, body := h.Call("DELETE", h.path("/links/%s", link), nil)
	text := fmt.Sprint(body["message"])
	ok := status == 409
	for _, name := range mirrors {
		ok = ok && strings.Contains(text, name)
	}
	if !ok {
		h.t.Errorf("delete link %s: %d %s; want it refused, naming %v", link, status, text, mirrors)
	}
}

// TestC55_C56_C57_C67_FailoverFromEveryState brings mirrors into each state that a source can bring about, and fails each over after a
// dry run; until then its link cannot be deleted. Each failure has a code of its own.
func TestC55_C56_C57_C67_FailoverFromEveryState(t *testing.T) {
	t.Parallel()
	k := GuardedKafka(t)
	source := Client(t, k.Bootstrap())
	admin := kadm.NewClient(source)
	base := again("c55")
	scramUser(t, admin, "c55", "c55-secret")
	active, paused, promoted, deleted, recreated := base+"-active", base+"-paused", base+"-promoted", base+"-deleted", base+"-recreated"
	denied, linkFailed, unavailable := base+"-denied", base+"-link-failed", base+"-unavailable"
	topics := []string{active, paused, promoted, deleted, recreated, denied, linkFailed, unavailable}
	for _, topic := range topics {
		CreateTopic(t, source, topic, 1, 1, nil)
		produce(t, source, texts(topic, "v", 0, 5)...)
		acl(t, admin, "add", may("c55", topic, kadm.OpRead, kadm.OpDescribeConfigs))
	}
	h := StartHawser(t)
	mirror := Client(t, h.Kafka)
	proxy := NewProxy(t, k.Logins())
	link := func(name, bootstrap string) {
		configs := loginConfigs("SCRAM-SHA-256", "c55", "c55-secret")
		configs["bootstrap.address.map"] = k.Logins() + "=" + bootstrap
		configs["cluster.link.retry.timeout.ms"], configs["availability.check.ms"] = "1000", "500"
		h.CreateLink(name, bootstrap, configs)
	}
	direct := NewProxy(t, k.Logins())
	for _, name := range []string{"east", "wrong"} {
		link(name, direct.Addr())
	}
	link("away", proxy.Addr())
	linkOf := func(topic string) string {
		switch topic {
		case linkFailed:
			return "wrong"
		case unavailable:
			return "away"
		}
		return "east"
	}
	for _, topic := range topics {
		h.CreateMirror(linkOf(topic), topic)
		WaitLevel(t, source, mirror, topic, 1, 60*time.Second)
	}
	open := Client(t, k.Bootstrap(), kgo.TransactionalID(base))
	fatal(t, open.BeginTransaction())
	produce(t, open, texts(promoted, "open", 0, 1)...)
	h.Order("east", "pause", paused)
	h.Order("east", "promote", promoted)
	acl(t, admin, "remove", may("c55", denied, kadm.OpRead))
	for _, topic := range []string{deleted, recreated} {
		if rs, err := admin.DeleteTopics(testContext(t), topic); err != nil || rs.Error() != nil {
			t.Fatal(err, rs.Error())
		}
	}
	eventually(t, 30*time.Second, "the topic is made anew", func() (bool, string) {
		rs, err := admin.CreateTopic(testContext(t), 1, 1, nil, recreated)
		return err == nil && rs.Err == nil, fmt.Sprint(err, rs.Err)
	})
	h.alter("wrong", loginConfigs("SCRAM-SHA-256", "c55", "no-longer"))
	proxy.Refuse()

	want := map[string]string{active: "ACTIVE", paused: "PAUSED", promoted: "PENDING_STOPPED", deleted: "FAILED", recreated: "FAILED",
		denied: "FAILED", linkFailed: "LINK_FAILED", unavailable: "SOURCE_UNAVAILABLE"}
	codes := map[string]string{}
	for _, topic := range topics {
		h.WaitStatus(linkOf(topic), topic, want[topic], 60*time.Second)
	}
	for _, topic := range topics {
		if code := h.Mirror(linkOf(topic), topic).Error; want[topic] == "FAILED" || want[topic] == "LINK_FAILED" {
			if other := codes[code]; other != "" || code == "" || code == "NO_ERROR" {
				t.Errorf("%s has the error %q, as %q has", topic, code, other)
			}
			codes[code] = topic
		}
	}
	t.Logf("the codes are %v", codes)
	h.refusedDeletion("east", topics[:6]...)
	h.refusedDeletion("wrong", linkFailed)
	h.refusedDeletion("away", unavailable)
	for _, topic := range topics {
		link := linkOf(topic)
		before := h.Mirror(link, topic)
		dry := h.Must("POST", h.path("/links/%s/mirrors:failover?validate_only=true", link), map[string]any{"mirror_topic_names": []string{topic}})
		if one := dry["data"].([]any)[0].(map[string]any); one["error_code"] != nil {
			t.Errorf("%s: the dry run says %v", topic, one)
		}
		if now := h.Mirror(link, topic); now.Status != before.Status || fmt.Sprint(now.Raw["state_time_ms"]) != fmt.Sprint(before.Raw["state_time_ms"]) {
			t.Errorf("%s: the dry run changed %v to %v", topic, before.Raw, now.Raw)
		}
		h.Order(link, "failover", topic)
		h.WaitStatus(link, topic, "STOPPED", 30*time.Second)
		produce(t, mirror, texts(topic, "here", 0, 1)...)
		if have := values(t, h.Kafka, topic, kgo.ReadCommitted(), 6); have[0] != "v-0" || have[5] != "here-0" {
			t.Errorf("%s holds %v", topic, have)
		}
	}
	for _, name := range []string{"east", "wrong", "away"} {
		eventually(t, 10*time.Second, "the link can be deleted: STOPPED is shown a little before it is stored", func() (bool, string) {
			status, body := h.Call("DELETE", h.path("/links/%s", name), nil)
			return status == 204 || status == 200, fmt.Sprint(status, body)
		})
	}
	if names := topicNames(t, mirror); !slices.Contains(names, denied) {
		t.Errorf("the topics went with their link: %v", names)
	}
}
