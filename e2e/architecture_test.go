//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const consoleConsumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"

// filtersOf writes filters of one kind, "+name" or "-name" each, with "*" at the end for a prefix.
func filtersOf(kind string, names ...string) string {
	type filter struct {
		Name        string `json:"name"`
		PatternType string `json:"patternType"`
		FilterType  string `json:"filterType"`
	}
	var list []filter
	for _, name := range names {
		f := filter{name[1:], "LITERAL", "INCLUDE"}
		if name[0] == '-' {
			f.FilterType = "EXCLUDE"
		}
		if prefix, is := strings.CutSuffix(f.Name, "*"); is && prefix != "" {
			f.Name, f.PatternType = prefix, "PREFIXED"
		}
		list = append(list, f)
	}
	text, _ := json.Marshal(map[string][]filter{kind: list})
	return string(text)
}

func topicFilters(names ...string) string { return filtersOf("topicFilters", names...) }
func groupFilters(names ...string) string { return filtersOf("groupFilters", names...) }

// TestAggregation_OneRegexReadsBothRegions gathers topics and groups of one name from two sources under two prefixes.
func TestAggregation_OneRegexReadsBothRegions(t *testing.T) {
	regions := map[string]*Kafka{"usa_": SharedKafka(t), "eu_": GuardedKafka(t)}
	h := StartHawser(t)
	mirror := Client(t, h.Kafka)
	for prefix, k := range regions {
		source := Client(t, k.Bootstrap())
		CreateTopic(t, source, "clicks", 1, 1, nil)
		produce(t, source, texts("clicks", prefix+"click", 0, 10)...)
		commit(t, source, "g1", "clicks", int64(len(prefix)))
		h.CreateLink("from-"+strings.TrimSuffix(prefix, "_"), k.Bootstrap(), map[string]string{
			"cluster.link.prefix": prefix, "consumer.group.prefix.enable": "true",
			"auto.create.mirror.topics.enable": "true", "auto.create.mirror.topics.filters": topicFilters("+clicks"),
			"consumer.offset.sync.enable": "true", "consumer.offset.group.filters": groupFilters("+g1"),
		})
	}
	for prefix, k := range regions {
		source := Client(t, k.Bootstrap())
		eventually(t, 30*time.Second, prefix+"clicks is level", func() (bool, string) {
			_, end, err := ends(testContext(t), mirror, prefix+"clicks", 0)
			return err == nil && end == 10, fmt.Sprint(end, err)
		})
		if there, here := Raw(t, source, "clicks", 0, 0, 10), Raw(t, mirror, prefix+"clicks", 0, 0, 10); !bytes.Equal(there, here) {
			t.Errorf("%sclicks has %x, its source %x", prefix, here, there)
		}
		waitCommitted(t, mirror, prefix+"g1", prefix+"clicks", int64(len(prefix)))
	}
	out, err := regions["usa_"].Run(testContext(t), consoleConsumer, "--bootstrap-server", h.Kafka, "--include", "(usa|eu)_clicks",
		"--group", "all-regions", "--from-beginning", "--max-messages", "20", "--timeout-ms", "30000")
	if err != nil {
		t.Fatal(err)
	}
	for prefix := range regions {
		for i := range 10 {
			if want := fmt.Sprintf("%sclick-%d\n", prefix, i); strings.Count(out, want) != 1 {
				t.Errorf("%q was read %d times", want, strings.Count(out, want))
			}
		}
	}
}

// TestChainAndFanOut mirrors a mirror, and one source twice; the middle of the chain is then failed over and written to.
func TestChainAndFanOut(t *testing.T) {
	k := SharedKafka(t)
	a := Client(t, k.Bootstrap())
	CreateTopic(t, a, "chain", 2, 1, nil)
	rr := Client(t, k.Bootstrap(), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	produce(t, rr, texts("chain", "a", 0, 100)...)
	middle, last, beside := StartHawser(t), StartHawser(t), StartHawser(t)
	middle.CreateLink("from-a", k.Bootstrap(), nil)
	middle.CreateMirror("from-a", "chain")
	last.CreateLink("from-b", middle.Kafka, nil)
	last.CreateMirror("from-b", "chain")
	beside.CreateLink("from-a", k.Bootstrap(), nil)
	beside.CreateMirror("from-a", "chain")
	b, c, d := Client(t, middle.Kafka), Client(t, last.Kafka), Client(t, beside.Kafka)
	produce(t, rr, texts("chain", "a", 100, 200)...)
	for _, end := range []*kgo.Client{b, c, d} {
		WaitLevel(t, a, end, "chain", 2, 30*time.Second)
		SameAll(t, a, end, "chain", 2)
	}
	middle.Order("from-a", "failover", "chain")
	middle.WaitStatus("from-a", "chain", "STOPPED", 20*time.Second)
	produce(t, b, texts("chain", "b", 0, 100)...)
	produce(t, rr, texts("chain", "a", 200, 300)...)
	WaitLevel(t, b, c, "chain", 2, 30*time.Second)
	SameAll(t, b, c, "chain", 2)
	WaitLevel(t, a, d, "chain", 2, 30*time.Second)
	SameAll(t, a, d, "chain", 2)
	if m := last.Mirror("from-b", "chain"); m.Status != "ACTIVE" {
		t.Errorf("the end of the chain is %v", m.Raw)
	}
}

// TestMirrorDeletedUnderLoadLeavesTheNameClean deletes a mirror that is being fetched and makes a plain topic of its name at once.
func TestMirrorDeletedUnderLoadLeavesTheNameClean(t *testing.T) {
	watched := 3 * time.Second
	if n, err := strconv.Atoi(os.Getenv("HAWSER_FOREIGN_SECONDS")); err == nil {
		watched = time.Duration(n) * time.Second
	}
	w := newPair(t)
	CreateTopic(t, w.source, "renewed", 1, 1, nil)
	load, stop := context.WithCancel(testContext(t))
	done := make(chan struct{})
	defer func() { stop(); <-done }()
	go func() {
		defer close(done)
		for load.Err() == nil {
			w.source.Produce(load, &kgo.Record{Topic: "renewed", Value: []byte("foreign")}, nil)
			pause(load, time.Millisecond)
		}
	}()
	admin := kadm.NewClient(w.mirror)
	for round := range 3 {
		w.h.CreateMirror("east", "renewed")
		eventually(t, 30*time.Second, "records come over", func() (bool, string) {
			_, end, err := ends(testContext(t), w.mirror, "renewed", 0)
			return err == nil && end > 100, fmt.Sprint(end, err)
		})
		begun := time.Now()
		if rs, err := admin.DeleteTopics(testContext(t), "renewed"); err != nil || rs.Error() != nil {
			t.Fatal(err, rs.Error())
		}
		rs, err := admin.CreateTopic(testContext(t), 1, 1, nil, "renewed")
		if err != nil || rs.Err != nil {
			t.Fatal(err, rs.Err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Logf("round %d: the plain topic was there only after %v", round, took)
		}
		fresh := Client(t, w.h.Kafka)
		produce(t, fresh, texts("renewed", "own", 0, 5)...)
		last := time.Now().Add(watched)
		for time.Now().Before(last) {
			if _, end := Ends(t, fresh, "renewed", 0); end != 5 {
				t.Fatalf("round %d: the plain topic ends at %d, want 5", round, end)
			}
			pause(testContext(t), 100*time.Millisecond)
		}
		for i, v := range values(t, w.h.Kafka, "renewed", kgo.ReadUncommitted(), 5) {
			if v != fmt.Sprintf("own-%d", i) {
				t.Errorf("round %d: record %d is %q", round, i, v)
			}
		}
		if rs, err := admin.DeleteTopics(testContext(t), "renewed"); err != nil || rs.Error() != nil {
			t.Fatal(err, rs.Error())
		}
	}
}

// TestC29_PromoteCarriesTheLastCommit promotes while the next round of group offsets is a minute away.
func TestC29_PromoteCarriesTheLastCommit(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), map[string]string{
		"consumer.offset.sync.enable": "true", "consumer.offset.group.filters": groupFilters("+c29"), "consumer.offset.sync.ms": "60000",
	})
	CreateTopic(t, w.source, "c29", 1, 1, nil)
	produce(t, w.source, texts("c29", "v", 0, 1000)...)
	w.h.CreateMirror("east", "c29")
	w.level("c29", 1)
	commit(t, w.source, "c29", "c29", 1000)
	begun := time.Now()
	w.h.Order("east", "promote", "c29")
	w.h.WaitStatus("east", "c29", "STOPPED", 30*time.Second)
	took := time.Since(begun)
	t.Logf("promote at zero lag took %v", took)
	if took > 5*time.Second {
		t.Errorf("promote at zero lag took %v, want < 1 s, five times that on this machine", took)
	}
	if got := committed(t, w.mirror, "c29", "c29"); got != 1000 {
		t.Errorf("the group is at %d, want 1000", got)
	}
}

// TestC31_GroupFiltersChangeWhileRunning takes groups out of the filters and in again, and switches the sync off and on.
func TestC31_GroupFiltersChangeWhileRunning(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), map[string]string{
		"consumer.offset.sync.enable": "true", "consumer.offset.group.filters": groupFilters("+c31*", "-c31-tmp*"),
	})
	CreateTopic(t, w.source, "c31", 1, 1, nil)
	produce(t, w.source, texts("c31", "v", 0, 100)...)
	w.h.CreateMirror("east", "c31")
	w.level("c31", 1)
	at := int64(0)
	// all commits one offset for all groups and waits until the last of them, which is never left out, has it.
	all := func() int64 {
		t.Helper()
		at++
		for _, group := range []string{"c31-tmp1", "c31-g1", "c31-last"} {
			commit(t, w.source, group, "c31", at)
		}
		waitCommitted(t, w.mirror, "c31-last", "c31", at)
		return at
	}
	want := func(group string, offset int64) {
		t.Helper()
		if got := committed(t, w.mirror, group, "c31"); got != offset {
			t.Errorf("%s is at %d, want %d", group, got, offset)
		}
	}
	first := all()
	waitCommitted(t, w.mirror, "c31-g1", "c31", first)
	want("c31-tmp1", -1)
	w.h.alter("east", map[string]string{"consumer.offset.group.filters": groupFilters("+c31*", "-c31-tmp*", "-c31-g1")})
	all()
	all()
	want("c31-g1", first)
	w.h.alter("east", map[string]string{"consumer.offset.group.filters": groupFilters("+c31*")})
	now := all()
	waitCommitted(t, w.mirror, "c31-g1", "c31", now)
	waitCommitted(t, w.mirror, "c31-tmp1", "c31", now)
	w.h.alter("east", map[string]string{"consumer.offset.sync.enable": "false"})
	commit(t, w.source, "c31-g1", "c31", 99)
	pause(testContext(t), 2500*time.Millisecond)
	want("c31-g1", now)
}

// TestC51_DeletingAnAutoCreatedMirror deletes what auto-create has made: it comes back, unless one of three things is done first.
func TestC51_DeletingAnAutoCreatedMirror(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), map[string]string{
		"auto.create.mirror.topics.enable": "true", "auto.create.mirror.topics.filters": topicFilters("+c51*"), "cluster.link.retry.timeout.ms": "1000",
	})
	admin, here := kadm.NewClient(w.source), kadm.NewClient(w.mirror)
	topics := []string{"c51-back", "c51-source-gone", "c51-excluded", "c51-off", "c51-by-hand"}
	w.h.Must("POST", w.h.path("/links/east/mirrors"), overridden(w, "c51-by-hand"))
	for _, topic := range topics {
		if topic != "c51-by-hand" {
			CreateTopic(t, w.source, topic, 1, 1, nil)
			produce(t, w.source, texts(topic, "v", 0, 10)...)
		}
	}
	for _, topic := range topics {
		w.waitMirrored(topic)
	}
	if got := configOf(t, here, "c51-by-hand", "segment.ms"); got != "60000" {
		t.Errorf("the override of the mirror made by hand is %q", got)
	}
	remove := func(topic string) {
		t.Helper()
		if rs, err := here.DeleteTopics(testContext(t), topic); err != nil || rs.Error() != nil {
			t.Fatal(err, rs.Error())
		}
	}
	remove("c51-back")
	w.waitMirrored("c51-back")
	w.level("c51-back", 1)

	if rs, err := admin.DeleteTopics(testContext(t), "c51-source-gone"); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	w.h.WaitStatus("east", "c51-source-gone", "FAILED", 30*time.Second)
	remove("c51-source-gone")
	w.h.alter("east", map[string]string{"auto.create.mirror.topics.filters": topicFilters("+c51*", "-c51-excluded", "-c51-never-was")})
	remove("c51-excluded")
	w.gone("c51-source-gone", "c51-excluded")

	w.h.alter("east", map[string]string{"auto.create.mirror.topics.enable": "false"})
	remove("c51-off")
	w.gone("c51-off")
	if filters := w.h.Must("GET", w.h.path("/links/east/configs/auto.create.mirror.topics.filters"), nil); fmt.Sprint(filters["value"]) != "" && filters["value"] != nil {
		t.Errorf("switched off, its filters are still %v", filters["value"])
	}
	w.h.alter("east", map[string]string{"auto.create.mirror.topics.enable": "true", "auto.create.mirror.topics.filters": topicFilters("+c51-off")})
	w.waitMirrored("c51-off")
}

// overridden makes a topic on the source and is the order for its mirror, with an override.
func overridden(w *pair, topic string) map[string]any {
	w.t.Helper()
	CreateTopic(w.t, w.source, topic, 1, 1, nil)
	return map[string]any{"source_topic_name": topic, "configs": []map[string]string{{"name": "segment.ms", "value": "60000"}}}
}

func (w *pair) waitMirrored(topic string) {
	w.t.Helper()
	eventually(w.t, 30*time.Second, topic+" is a mirror", func() (bool, string) {
		status, m := w.h.Call("GET", w.h.path("/links/east/mirrors/%s", topic), nil)
		return status == 200 && m["mirror_status"] == "ACTIVE", fmt.Sprint(status, m)
	})
}

// gone wants topics to stay away for three of auto-create's turns.
func (w *pair) gone(topics ...string) {
	w.t.Helper()
	pause(testContext(w.t), 3500*time.Millisecond)
	for _, topic := range topics {
		if status, m := w.h.Call("GET", w.h.path("/links/east/mirrors/%s", topic), nil); status != 404 {
			w.t.Errorf("%s is back: %v", topic, m)
		}
	}
}

// TestC107_ManyUpdatesOfALink alters a link over and over, kills the broker in between, and wants to find what was stored last.
func TestC107_ManyUpdatesOfALink(t *testing.T) {
	changes := 300
	if n, err := strconv.Atoi(os.Getenv("HAWSER_CHANGES")); err == nil {
		changes = n
	}
	w := newPair(t)
	CreateTopic(t, w.source, "c107", 1, 1, nil)
	w.h.CreateMirror("east", "c107")
	for i := range changes {
		w.h.alter("east", map[string]string{"acl.sync.ms": strconv.Itoa(2000 + i), "consumer.offset.group.filters": groupFilters(fmt.Sprintf("+g%d", i))})
		if i == changes/2 {
			w.h.Kill()
			w.h.Start()
		}
	}
	shown := func() string {
		t.Helper()
		configs := w.h.Must("GET", w.h.path("/links/east/configs"), nil)
		link := w.h.Must("GET", w.h.path("/links/east"), nil)
		text, err := json.Marshal([]any{configs, link["link_id"], link["topic_names"], w.h.Mirror("east", "c107").Raw["mirror_topic_name"]})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := shown()
	if !strings.Contains(before, strconv.Itoa(2000+changes-1)) {
		t.Fatalf("the last change is not shown: %s", before)
	}
	w.h.Kill()
	w.h.Start()
	if after := shown(); after != before {
		t.Errorf("after a kill -9 the link is\n%s\nbefore\n%s", after, before)
	}
	produce(t, w.source, texts("c107", "v", 0, 10)...)
	w.level("c107", 1)
}

// TestC106_SourceBrokersGetNewAddresses moves both brokers of a source to other ports, one after the other, under a link
// that was told of two dead addresses as well.
func TestC106_SourceBrokersGetNewAddresses(t *testing.T) {
	k := NewKafka(t, KafkaOptions{Brokers: 2})
	dead, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	source := Client(t, k.Bootstrap())
	CreateTopic(t, source, "c106", 2, 2, nil)
	h := StartHawser(t)
	begun := time.Now()
	h.CreateLink("east", fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d,%s", dead[0], dead[1], k.Bootstrap()), nil)
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("past two dead addresses the link took %v", took)
	}
	h.CreateMirror("east", "c106")
	mirror := Client(t, h.Kafka)
	for _, id := range []int{2, 1} {
		k.Move(t, id)
		source = Client(t, k.Bootstrap(), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
		produce(t, source, texts("c106", "v", 0, 20)...)
		WaitLevel(t, source, mirror, "c106", 2, 60*time.Second)
	}
	SameAll(t, source, mirror, "c106", 2)
	if m := h.Mirror("east", "c106"); m.Status != "ACTIVE" {
		t.Errorf("it is %v", m.Raw)
	}
}

// TestC03_IndependentRetentionKeepsWhatTheSourceRemoves leaves retention out of what a link syncs: the mirror has its own, and a log start of its own.
func TestC03_IndependentRetentionKeepsWhatTheSourceRemoves(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), map[string]string{
		"topic.config.sync.include": "max.message.bytes,cleanup.policy,message.timestamp.type,message.timestamp.difference.max.ms,min.compaction.lag.ms,max.compaction.lag.ms",
	})
	topic := "c03-own"
	CreateTopic(t, w.source, topic, 1, 1, map[string]string{"retention.ms": "86400000"})
	produce(t, w.source, texts(topic, "r", 0, 1000)...)
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	here := kadm.NewClient(w.mirror)
	if got := configOf(t, here, topic, "retention.ms"); got != "604800000" {
		t.Errorf("retention.ms of the mirror is %s, want this cluster's default", got)
	}
	days := "2592000000"
	altered, err := here.AlterTopicConfigs(testContext(t), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &days}}, topic)
	if err != nil || altered[0].Err != nil {
		t.Fatalf("retention.ms is the mirror's own: %v %+v", err, altered)
	}
	w.h.Order("east", "pause", topic)
	w.h.WaitStatus("east", topic, "PAUSED", 30*time.Second)
	for i := 1000; i < 2000; i += 100 { // so that a batch begins at 1500
		produce(t, w.source, texts(topic, "r", i, i+100)...)
	}
	deleteTo(t, w.source, topic, 1500)
	w.h.Order("east", "resume", topic)
	eventually(t, 30*time.Second, "the rest is mirrored", func() (bool, string) {
		_, end := Ends(t, w.mirror, topic, 0)
		return end == 2000, fmt.Sprint(end)
	})
	wantEnds(t, w, topic, 0, 2000)
	Same(t, w.source, w.mirror, topic, 0, 1500, 2000)
	raw, err := fetchOnce(testContext(t), w.mirror, topic, 0, 1200)
	if err != nil || len(raw) < 8 || batch.Batch(raw).BaseOffset() != 1500 {
		t.Errorf("a reader at 1200 is told %v, and given a batch that begins %x", err, raw[:min(8, len(raw))])
	}
	if got := configOf(t, here, topic, "retention.ms"); got != days {
		t.Errorf("retention.ms of the mirror went to %s", got)
	}
}
