//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// keyed makes one record a key, all with one value.
func keyed(topic, value string, keys ...string) []*kgo.Record {
	var records []*kgo.Record
	for _, key := range keys {
		records = append(records, &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)})
	}
	return records
}

// TestC01_CursorAtABatchWhoseLastRecordsWereCompactedAway mirrors a batch of ten
// offsets that holds seven records: the cursor must go on behind the tenth.
func TestC01_CursorAtABatchWhoseLastRecordsWereCompactedAway(t *testing.T) {
	w := newPair(t)
	topic := "c01"
	CreateTopic(t, w.source, topic, 1, 1, map[string]string{"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "500"})
	keys := []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"}
	one := Client(t, w.k.Bootstrap(), kgo.ProducerLinger(100*time.Millisecond))
	produce(t, one, keyed(topic, "first", keys...)...)
	produce(t, one, keyed(topic, "second", keys[7:]...)...)
	eventually(t, 60*time.Second, "the source has compacted the first batch", func() (bool, string) {
		produce(t, one, keyed(topic, time.Now().String(), "filler")...)
		head := firstBatch(t, Raw(t, w.source, topic, 0, 0, 10))
		return head.Count() == 7 && head.LastOffset() == 9, fmt.Sprintf("it has %d records up to offset %d", head.Count(), head.LastOffset())
	})
	compactAndStop(t, w.k, topic)

	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	SameAll(t, w.source, w.mirror, topic, 1)
	sameView(t, w.k, w.h, topic, 0)
	sameText(t, kcat(t, w.k.Bootstrap(), topic), kcat(t, w.h.Kafka, topic))

	const window, wait = 5 * time.Second, 500 * time.Millisecond
	before := fetchesOf(w.proxies)
	pause(testContext(t), window)
	if n := fetchesOf(w.proxies) - before; n > 3*int64(window/wait)+9 {
		t.Errorf("%d fetches went to three idle brokers in %v, more than one per %v each", n, window, wait)
	}
	produce(t, one, keyed(topic, "last", "k5")...)
	w.level(topic, 1)
	SameAll(t, w.source, w.mirror, topic, 1)
}

func firstBatch(t *testing.T, raw []byte) batch.Batch {
	t.Helper()
	head, _, err := batch.Split(raw)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func fetchesOf(proxies []*Proxy) int64 {
	var n int64
	for _, p := range proxies {
		n += p.Fetches.Load()
	}
	return n
}

// TestC02_SourceTrimsWhileTheMirrorIsBehind wants the log start to follow without any more data.
func TestC02_SourceTrimsWhileTheMirrorIsBehind(t *testing.T) {
	w := newPair(t)
	topic := "c02"
	CreateTopic(t, w.source, topic, 1, 3, nil)
	small := Client(t, w.k.Bootstrap(), kgo.MaxProduceRequestsInflightPerBroker(1))
	for i := range 4 {
		produce(t, small, texts(topic, "r", 100*i, 100*i+100)...)
	}
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	w.h.Order("east", "pause", topic)
	w.h.WaitStatus("east", topic, "PAUSED", 30*time.Second)
	for i := range 6 {
		produce(t, small, texts(topic, "r", 400+100*i, 500+100*i)...)
	}
	deleteTo(t, w.source, topic, 700)
	w.h.Order("east", "resume", topic)
	w.level(topic, 1)
	wantEnds(t, w, topic, 700, 1000)
	Same(t, w.source, w.mirror, topic, 0, 700, 1000)

	deleteTo(t, w.source, topic, 800)
	w.level(topic, 1)
	wantEnds(t, w, topic, 800, 1000)

	// The answer with the new start is lost, and the leader that would have sent it again is gone.
	w.refuse()
	deleteTo(t, w.source, topic, 900)
	for range 5 {
		moveLeaders(t, w.k, topic)
	}
	w.allow()
	w.level(topic, 1)
	wantEnds(t, w, topic, 900, 1000)
	Same(t, w.source, w.mirror, topic, 0, 900, 1000)
}

func wantEnds(t *testing.T, w *pair, topic string, start, end int64) {
	t.Helper()
	if s, e := Ends(t, w.mirror, topic, 0); s != start || e != end {
		t.Errorf("%s is [%d,%d) at the mirror, want [%d,%d)", topic, s, e, start, end)
	}
}

// TestC03_RecordsThatWereNeverMirroredAreCounted lets retention outrun a paused mirror.
func TestC03_RecordsThatWereNeverMirroredAreCounted(t *testing.T) {
	w := newPair(t)
	topic := "c03"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	produce(t, w.source, texts(topic, "r", 0, 1000)...)
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	w.h.Order("east", "pause", topic)
	w.h.WaitStatus("east", topic, "PAUSED", 30*time.Second)
	produce(t, w.source, texts(topic, "r", 1000, 2000)...)
	deleteTo(t, w.source, topic, 1500)
	w.h.Order("east", "resume", topic)
	w.level(topic, 1)
	wantEnds(t, w, topic, 1500, 2000)
	Same(t, w.source, w.mirror, topic, 0, 1500, 2000)
	if _, err := fetchOnce(testContext(t), w.mirror, topic, 0, 1200); err == nil || !strings.Contains(err.Error(), "OFFSET_OUT_OF_RANGE") {
		t.Errorf("a reader at 1200 is told %v", err)
	}
	if m := w.h.Mirror("east", topic); m.Status != "ACTIVE" || m.Error != "NO_ERROR" && m.Error != "" {
		t.Errorf("the mirror shows %s, error %s", m.Status, m.Error)
	}
	if lost, ok := w.h.Metric("hawser_mirror_lost_records_total", `topic="`+topic+`"`); !ok || lost != 500 {
		t.Errorf("hawser_mirror_lost_records_total is %v (%v), want 500", lost, ok)
	}
	text, err := os.ReadFile(w.h.logPath())
	if err != nil {
		t.Fatal(err)
	}
	var warnings []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "WARN") && strings.Contains(line, "records_lost") && strings.Contains(line, topic) {
			warnings = append(warnings, line)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "1000") || !strings.Contains(warnings[0], "1500") {
		t.Errorf("want one warning with the expected offset 1000 and the new start 1500, have %q", warnings)
	}
}

// TestC06_OpenTransactionAtFailover cuts the source off while a transaction is open.
func TestC06_OpenTransactionAtFailover(t *testing.T) {
	w := newPair(t)
	topic := "c06"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	w.h.CreateMirror("east", topic)
	left := openTransaction(t, w, topic)
	w.refuse()
	w.h.Order("east", "failover", topic)
	w.h.WaitStatus("east", topic, "STOPPED", 10*time.Second)
	transactionIsAborted(t, w, topic, left)
	w.restart()
	if _, end := Ends(t, w.mirror, topic, 0); stable(t, w.mirror, topic) != end {
		t.Errorf("after a restart the last stable offset is %d, the end %d", stable(t, w.mirror, topic), end)
	}
}

// TestC11_BatchBiggerThanTheMirrorsLimits carries a batch of 10 MB into a broker whose own limit is 1 MiB.
func TestC11_BatchBiggerThanTheMirrorsLimits(t *testing.T) {
	w := newPair(t, "--set", "message.max.bytes=1048588")
	topic, other := "c11", "c11-other"
	CreateTopic(t, w.source, topic, 1, 1, map[string]string{"max.message.bytes": "12000000"})
	CreateTopic(t, w.source, other, 1, 1, nil)
	w.h.CreateMirror("east", other)
	gaps := watchGaps(t, w, other)
	fillLarge(t, w.k, topic, 0)
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	longest := gaps()
	SameAll(t, w.source, w.mirror, topic, 1)
	if m := w.h.Mirror("east", topic); m.Lag != 0 {
		t.Errorf("lag is %d", m.Lag)
	}
	rs, err := kadm.NewClient(w.mirror).DescribeTopicConfigs(testContext(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rs[0].Configs {
		if c.Key == "max.message.bytes" && c.MaybeValue() != "12000000" {
			t.Errorf("max.message.bytes of the mirror is %s", c.MaybeValue())
		}
	}
	t.Logf("the longest gap of another topic of the link was %v", longest.Round(time.Millisecond))
	if longest > 10*time.Second {
		t.Errorf("another topic of the link stood still for %v, five times the bound of 2 s", longest)
	}
}

// watchGaps produces to a mirrored topic every 20 ms; the function it returns ends that and says the longest time without a record at the mirror.
func watchGaps(t *testing.T, w *pair, topic string) func() time.Duration {
	t.Helper()
	f := startFlow(t, w.source, []string{topic})
	reader := Client(t, w.h.Kafka, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	reader.PollFetches(testContext(t)) // the first ones are there
	longest := make(chan time.Duration, 1)
	go func() {
		last, most := time.Now(), time.Duration(0)
		for !reader.PollFetches(testContext(t)).IsClientClosed() {
			most, last = max(most, time.Since(last)), time.Now()
		}
		longest <- most
	}()
	return func() time.Duration {
		f.stop()
		reader.Close()
		return <-longest
	}
}

// TestC12_NullEmptyAndRepeated carries every odd key, value and header, and lets each client look.
func TestC12_NullEmptyAndRepeated(t *testing.T) {
	w := newPair(t)
	topic := "c12"
	CreateTopic(t, w.source, topic, 2, 1, nil)
	w.h.CreateMirror("east", topic)
	fillRecords(t, w.k, topic, 0)
	w.level(topic, 2)
	SameAll(t, w.source, w.mirror, topic, 2)
	for p := range int32(2) {
		sameView(t, w.k, w.h, topic, p)
	}
	sameText(t, kcat(t, w.k.Bootstrap(), topic), kcat(t, w.h.Kafka, topic))
	_, n := Ends(t, w.source, topic, 0)
	sameText(t, console(t, w.k, w.k.Bootstrap(), topic, int(n)), console(t, w.k, w.h.Kafka, topic, int(n)))
	sameText(t, python(t, "read.py", w.k.Bootstrap(), topic), python(t, "read.py", w.h.Kafka, topic))
	for p := range int32(2) {
		_, end := Ends(t, w.source, topic, p)
		sameText(t, saramaReads(t, w.k.Bootstrap(), topic, p, 0, int(end)), saramaReads(t, w.h.Kafka, topic, p, 0, int(end)))
	}
}

// TestC13_PartitionsAddedUnderLoad raises the source's partitions while keyed records flow.
func TestC13_PartitionsAddedUnderLoad(t *testing.T) {
	w := newPair(t)
	topic := "c13"
	CreateTopic(t, w.source, topic, 3, 1, nil)
	w.h.CreateMirror("east", topic)
	ctx := testContext(t)
	load := Client(t, w.k.Bootstrap(), kgo.DefaultProduceTopic(topic))
	for i := range 1000 {
		if i == 300 {
			if rs, err := kadm.NewClient(w.source).UpdatePartitions(ctx, 12, topic); err != nil || rs.Error() != nil {
				t.Fatal(err, rs.Error())
			}
		}
		load.Produce(ctx, kgo.KeyStringRecord(fmt.Sprint(i), fmt.Sprint(i)), nil)
		pause(ctx, time.Millisecond)
	}
	// The client learns of the new partitions by its metadata; until then keys go to the old ones.
	eventually(t, 30*time.Second, "the producer writes to new partitions", func() (bool, string) {
		produce(t, load, kgo.KeyStringRecord(time.Now().String(), "more"))
		ends, err := kadm.NewClient(w.source).ListEndOffsets(ctx, topic)
		full := 0
		ends.Each(func(o kadm.ListedOffset) {
			if o.Offset > 0 {
				full++
			}
		})
		return err == nil && full == 12, fmt.Sprintf("%d of 12 have records", full)
	})
	eventually(t, 60*time.Second, "the mirror has 12 partitions", func() (bool, string) {
		d, err := kadm.NewClient(w.mirror).ListTopics(ctx, topic)
		return err == nil && len(d[topic].Partitions) == 12, fmt.Sprint(len(d[topic].Partitions), err)
	})
	w.level(topic, 12)
	SameAll(t, w.source, w.mirror, topic, 12)
	if rs, err := kadm.NewClient(w.mirror).UpdatePartitions(ctx, 13, topic); err == nil && rs.Error() == nil {
		t.Error("CreatePartitions on a mirror was obeyed")
	}
}

// TestC21_GroupOffsetAboveTheMirrorsEndIsClamped is the example of the documentation.
func TestC21_GroupOffsetAboveTheMirrorsEndIsClamped(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), allGroups("c21-"))
	topic := "c21"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	w.h.CreateMirror("east", topic)
	produce(t, w.source, texts(topic, "r", 0, 90)...)
	w.level(topic, 1)
	w.h.Order("east", "pause", topic)
	w.h.WaitStatus("east", topic, "PAUSED", 30*time.Second)
	produce(t, w.source, texts(topic, "r", 90, 100)...)
	commit(t, w.source, "c21-A", topic, 80)
	commit(t, w.source, "c21-B", topic, 95)
	want := func() {
		t.Helper()
		waitCommitted(t, w.mirror, "c21-A", topic, 80)
		waitCommitted(t, w.mirror, "c21-B", topic, 90)
	}
	want()
	w.h.Order("east", "failover", topic)
	w.h.WaitStatus("east", topic, "STOPPED", 30*time.Second)
	want()
	produce(t, w.mirror, texts(topic, "new", 0, 10)...)
	reader := Client(t, w.h.Kafka, kgo.ConsumerGroup("c21-B"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	have := pollOffsets(t, reader, 10)
	if !slices.Equal(have, []int64{90, 91, 92, 93, 94, 95, 96, 97, 98, 99}) {
		t.Errorf("group B reads %v after the failover", have)
	}
}

// allGroups syncs the groups of one test.
func allGroups(prefix string) map[string]string {
	return map[string]string{"consumer.offset.sync.enable": "true",
		"consumer.offset.group.filters": `{"groupFilters":[{"name":"` + prefix + `","patternType":"PREFIXED","filterType":"INCLUDE"}]}`}
}

// pollOffsets reads until there are n records and returns their offsets.
func pollOffsets(t *testing.T, client *kgo.Client, n int) []int64 {
	t.Helper()
	ctx := testContext(t)
	var offsets []int64
	for len(offsets) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read %d of %d records", len(offsets), n)
		}
		fetches.EachRecord(func(r *kgo.Record) { offsets = append(offsets, r.Offset) })
	}
	return offsets
}

// TestC22_OffsetZeroIsARealCommit wants a group that committed 0 to read everything, whatever its reset policy.
func TestC22_OffsetZeroIsARealCommit(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), allGroups("c22-"))
	topic := "c22"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	w.h.CreateMirror("east", topic)
	produce(t, w.source, texts(topic, "r", 0, 10)...)
	commit(t, w.source, "c22-g", topic, 0)
	waitCommitted(t, w.mirror, "c22-g", topic, 0)
	w.level(topic, 1)
	w.h.Order("east", "promote", topic)
	w.h.WaitStatus("east", topic, "STOPPED", 60*time.Second)
	reader := Client(t, w.h.Kafka, kgo.ConsumerGroup("c22-g"), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	if have := pollOffsets(t, reader, 10); len(have) != 10 || have[0] != 0 {
		t.Errorf("the group reads %v", have)
	}
}

// aborted is the list that a raw fetch answers.
func aborted(t *testing.T, client *kgo.Client, topic string, from int64, isolation int8) []kmsg.FetchResponseTopicPartitionAbortedTransaction {
	t.Helper()
	ctx := testContext(t)
	broker, id, _, err := leader(ctx, client, topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	rq := kmsg.NewPtrFetchRequest()
	rq.MaxWaitMillis, rq.MinBytes, rq.MaxBytes, rq.SessionEpoch, rq.IsolationLevel = 500, 1, 32<<20, -1, isolation
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = topic, id
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.FetchOffset, fp.PartitionMaxBytes = from, 16<<20
	ft.Partitions = append(ft.Partitions, fp)
	rq.Topics = append(rq.Topics, ft)
	answer, err := client.Broker(int(broker)).RetriableRequest(ctx, rq)
	if err != nil {
		t.Fatal(err)
	}
	return answer.(*kmsg.FetchResponse).Topics[0].Partitions[0].AbortedTransactions
}
