//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hawserio/hawser/kafka"
)

// topicNames lists a cluster's topics, internal ones included.
func topicNames(t *testing.T, client *kgo.Client) []string {
	t.Helper()
	list, err := kadm.NewClient(client).ListTopicsWithInternal(testContext(t))
	fatal(t, err)
	return list.Names()
}

// topicIDs is the id of each topic, internal ones included; none is zero or another's.
func topicIDs(t *testing.T, client *kgo.Client) map[string]kadm.TopicID {
	t.Helper()
	list, err := kadm.NewClient(client).ListTopicsWithInternal(testContext(t))
	fatal(t, err)
	ids, names := map[string]kadm.TopicID{}, map[kadm.TopicID]string{{}: "nothing"}
	for name, topic := range list {
		if other, is := names[topic.ID]; is {
			t.Errorf("topic %s has the id %s of %s", name, topic.ID, other)
		}
		ids[name], names[topic.ID] = topic.ID, name
	}
	return ids
}

// TestC44_C46_C47_C48_C50_AutoCreateOfAwkwardNames takes everything of a source, once as it is and once under a prefix: names that are
// taken, too long, alike, or internal.
func TestC44_C46_C47_C48_C50_AutoCreateOfAwkwardNames(t *testing.T) {
	t.Parallel()
	src, h := StartHawser(t), StartHawser(t)
	source, here := Client(t, src.Kafka), Client(t, h.Kafka)
	long, longer, prefix := strings.Repeat("a", 239), strings.Repeat("a", 240), strings.Repeat("p", 10)
	good := []string{"b", "c", "x.internal", "heartbeats", "__mine", "__consumer_timestamps", long, longer}
	for i := range envInt("HAWSER_AWKWARD_TOPICS", 20) {
		good = append(good, fmt.Sprintf("more-%02d", i))
	}
	never := []string{"_confluent-x", "__confluent.y", "confluent-audit-log-events", "_schemas"}
	rs, err := kadm.NewClient(source).CreateTopics(testContext(t), 1, 1, nil, slices.Concat(good, never, []string{"taken", "usa_clicks"})...)
	if err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	produce(t, source, texts(longer, "v", 0, 3)...)
	produce(t, source, texts(long, "v", 0, 3)...)
	open := Client(t, src.Kafka, kgo.TransactionalID("makes-transaction-state"))
	fatal(t, open.BeginTransaction())
	produce(t, open, texts("b", "v", 0, 1)...)
	fatal(t, open.EndTransaction(testContext(t), kgo.TryCommit))
	commit(t, source, "g", "b", 1) // makes __consumer_offsets
	if all := topicNames(t, source); !slices.Contains(all, kafka.ConsumerOffsetsTopic) || !slices.Contains(all, kafka.TransactionStateTopic) {
		t.Fatalf("the source has no internal topics: %v", all)
	}
	CreateTopic(t, here, "taken", 1, 1, nil)
	produce(t, here, texts("taken", "own", 0, 7)...)
	CreateTopic(t, here, "usa.clicks", 1, 1, nil)

	everything := map[string]string{"auto.create.mirror.topics.enable": "true", "auto.create.mirror.topics.filters": topicFilters("+*"), "auto.create.mirror.topics.interval.ms": "300"}
	h.CreateLink("plain", src.Kafka, everything)
	under := map[string]string{"cluster.link.prefix": prefix, "consumer.offset.sync.enable": "true", "consumer.offset.group.filters": groupFilters("+g")}
	for name, value := range everything {
		under[name] = value
	}
	h.CreateLink("under", src.Kafka, under)
	want := append([]string{"taken", "usa.clicks"}, good...)
	for _, name := range append(slices.Clone(good), "taken", "usa_clicks") {
		if len(prefix+name) <= 249 {
			want = append(want, prefix+name)
		}
	}
	slices.Sort(want)
	have := func() []string {
		return slices.DeleteFunc(topicNames(t, here), func(name string) bool { return kafka.IsInternal(name) && !strings.Contains(name, "schemas") })
	}
	eventually(t, 60*time.Second, "all mirrors are there", func() (bool, string) { return len(have()) >= len(want), fmt.Sprint(len(have()), " of ", len(want)) })
	reported := func(link string, words ...string) {
		t.Helper()
		eventually(t, 30*time.Second, fmt.Sprint("the task of ", link, " reports ", words), func() (bool, string) {
			state, text := h.task(link, "AutoCreateMirror")
			ok := (state == "IN_ERROR") == (len(words) > 0) && strings.Count(text, "error_code") == len(words)
			for _, word := range words {
				ok = ok && strings.Contains(text, word)
			}
			return ok, state + text
		})
	}
	reported("plain", "'taken'", "usa.clicks")
	reported("under", longer)
	waitCommitted(t, here, "g", prefix+"b", 1) // topics are renamed, groups are not
	if names := have(); !slices.Equal(names, want) {
		t.Errorf("the topics are %v, want %v", names, want)
	}
	if _, end := Ends(t, here, "taken", 0); end != 7 {
		t.Errorf("the topic that was there ends at %d", end)
	}

	// A name by itself takes what a filter for all leaves out; bad filters change nothing.
	h.alter("plain", map[string]string{"auto.create.mirror.topics.filters": topicFilters("+*", "+_schemas")})
	if rs, err := kadm.NewClient(here).DeleteTopics(testContext(t), "taken"); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	want = append(want, "_schemas")
	slices.Sort(want)
	eventually(t, 30*time.Second, "the name that was taken and _schemas are mirrors", func() (bool, string) {
		_, one := h.Call("GET", h.path("/links/plain/mirrors/taken"), nil)
		return one["mirror_status"] == "ACTIVE" && slices.Equal(have(), want), fmt.Sprint(one)
	})
	reported("plain", "usa.clicks")
	filters := func() string {
		return fmt.Sprint(h.Must("GET", h.path("/links/plain/configs/auto.create.mirror.topics.filters"), nil)["value"])
	}
	before := filters()
	for _, bad := range []string{"{", `{"topicFilters":[]}`, `{"topicFilters":[{"name":"x","patternType":"REGEX","filterType":"INCLUDE"}]}`} {
		status, body := h.Call("PUT", h.path("/links/plain/configs/auto.create.mirror.topics.filters"), map[string]any{"value": bad})
		if status != 400 || filters() != before {
			t.Errorf("filters %s: %d %v; they are now %s", bad, status, body, filters())
		}
	}
	for _, bad := range []string{"a/b", "a b", "."} {
		if status, body := h.Call("POST", h.path("/links?link_name=bad"), map[string]any{"configs": []map[string]string{
			{"name": "bootstrap.servers", "value": src.Kafka}, {"name": "cluster.link.prefix", "value": bad}}}); status != 400 && bad != "." {
			t.Errorf("prefix %q: %d %v", bad, status, body)
		} else if status == 201 {
			h.Must("DELETE", h.path("/links/bad"), nil)
		}
	}
	if status, body := h.Call("POST", h.path("/links/under/mirrors"), map[string]any{"source_topic_name": longer, "mirror_topic_name": prefix + longer}); status != 400 {
		t.Errorf("a name of 250 characters: %d %v", status, body)
	}
	ids := topicIDs(t, here)
	h.Kill()
	h.Start()
	here = Client(t, h.Kafka)
	if now := topicIDs(t, here); len(ids) <= len(want) || !maps.Equal(now, ids) { // case C96: also of mirrors and internal topics
		t.Errorf("the topics' ids were %v and are %v after a restart", ids, now)
	}
	for mirror, of := range map[string]string{longer: longer, prefix + long: long} {
		eventually(t, 30*time.Second, "long names are level after a restart", func() (bool, string) {
			_, end, err := ends(testContext(t), here, mirror, 0)
			return err == nil && end == 3, fmt.Sprint(len(of), end, err)
		})
	}
	logged(t, h, longer)
}

// logged wants the log to be quiet about something that goes wrong again in each round.
func logged(t *testing.T, h *Hawser, about string) {
	t.Helper()
	text, err := os.ReadFile(h.logPath())
	fatal(t, err)
	lines := 0
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "under") && strings.Contains(line, about) {
			lines++
		}
	}
	if lines > 10 {
		t.Errorf("%d lines of the log tell of the name that is too long", lines)
	}
}

// TestC35_C49_ConfigsThatTheSourceCannotGiveOrTheMirrorCannotTake has a scripted source refuse to tell some topics' configs in the first
// round, and then say what no broker takes.
func TestC35_C49_ConfigsThatTheSourceCannotGiveOrTheMirrorCannotTake(t *testing.T) {
	t.Parallel()
	s := newStubbed(t)
	topics := envInt("HAWSER_AUTO_TOPICS", 60)
	name := func(i int) string { return fmt.Sprintf("c49-%04d", i) }
	for i := range topics {
		s.topic(name(i), 1).Produce(1, "v")
	}
	var mu sync.Mutex
	refusing := true
	odd := map[string]string{}
	s.cluster.Configs(func(topic string) (map[string]string, kafka.ErrorCode) {
		mu.Lock()
		defer mu.Unlock()
		if refusing && topic >= name(0) && topic < name(10) {
			return nil, kafka.UnknownServerError
		}
		if topic == name(topics-1) {
			return odd, 0
		}
		return nil, 0
	})
	s.h.CreateLink("auto", strings.Join(s.cluster.Bootstrap(), ","), map[string]string{
		"auto.create.mirror.topics.enable": "true", "auto.create.mirror.topics.filters": topicFilters("+c49*"), "auto.create.mirror.topics.interval.ms": "300",
		"topic.config.sync.ms": "300", "topic.config.sync.include": "max.message.bytes,cleanup.policy,message.timestamp.type,message.timestamp.before.max.ms,message.timestamp.after.max.ms,retention.ms",
	})
	mirrors := func() int {
		data, _ := s.h.Must("GET", s.h.path("/links/auto/mirrors"), nil)["data"].([]any)
		return len(data)
	}
	eventually(t, 60*time.Second, "all but ten are mirrored, and the task lists the ten", func() (bool, string) {
		state, text := s.h.task("auto", "AutoCreateMirror")
		listed := 0
		for i := range 10 {
			if strings.Contains(text, name(i)) {
				listed++
			}
		}
		return mirrors() == topics-10 && state == "IN_ERROR" && listed == 10, fmt.Sprint(mirrors(), state, text)
	})
	mu.Lock()
	refusing = false
	mu.Unlock()
	eventually(t, 60*time.Second, "all are mirrored", func() (bool, string) {
		state, text := s.h.task("auto", "AutoCreateMirror")
		return mirrors() == topics && state == "ACTIVE", fmt.Sprint(mirrors(), state, text)
	})

	mu.Lock()
	for name, value := range map[string]string{"foo.bar": "1", "retention.ms": "abc", "cleanup.policy": "compact", "max.message.bytes": "2000000"} {
		odd[name] = value
	}
	mu.Unlock()
	last := name(topics - 1)
	eventually(t, 30*time.Second, "what can be taken is taken, and the task names the rest", func() (bool, string) {
		state, text := s.h.task("auto", "TopicConfigsSync")
		taken := describedConfig(t, s.mirror, last, "cleanup.policy") + " " + describedConfig(t, s.mirror, last, "max.message.bytes") + " " + describedConfig(t, s.mirror, last, "retention.ms")
		return taken == "compact 2000000 -1" && state == "IN_ERROR" && strings.Contains(text, last) && strings.Contains(text, "retention.ms=abc"), taken + state + text
	})
	s.cluster.Partition(kafka.TopicPartition{Topic: last}).Produce(5, "goes on")
	s.waitEnd(t, last, 0, 6)
	if m := s.h.Mirror("auto", last); m.Status != "ACTIVE" {
		t.Errorf("the mirror is %s: %v", m.Status, m.Raw)
	}
}
