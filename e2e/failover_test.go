//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFailover_SourceDead100Topics is the disaster: a source that dies while a
// hundred topics flow, one order for all of them, and everything that must hold then.
func TestFailover_SourceDead100Topics(t *testing.T) {
	const topics = 100
	k := NewKafka(t, KafkaOptions{Brokers: 1})
	w := newPairTo(t, k, map[string]string{"consumer.offset.sync.enable": "true",
		"consumer.offset.group.filters": `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`})
	var names []string
	for i := range topics {
		names = append(names, fmt.Sprintf("f-%03d", i))
	}
	rs, err := kadm.NewClient(w.source).CreateTopics(testContext(t), 1, 1, nil, names...)
	if err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	for _, name := range names {
		eventually(t, 30*time.Second, name+" has a leader", func() (bool, string) {
			broker, _, _, err := leader(testContext(t), w.source, name, 0)
			return err == nil && broker >= 0, fmt.Sprint(broker, err)
		})
		w.h.CreateMirror("east", name)
	}
	open, clamped, retried, flowing := names[0], names[1], names[2], names[3:]

	left := openTransaction(t, w, open)
	clampGroups(t, w, clamped)
	first := retriedBatch(t, w, retried)
	flow := startFlow(t, w.source, flowing)
	eventually(t, 60*time.Second, "all topics flow", func() (bool, string) {
		idle := slices.IndexFunc(flowing, func(name string) bool { _, end := Ends(t, w.mirror, name, 0); return end == 0 })
		return idle < 0, fmt.Sprint("none yet in topic ", idle)
	})

	k.KillAll()
	flow.stop()
	stopped := failOverAll(t, w, names, names[1:], flowing)
	for _, name := range names {
		w.h.WaitStatus("east", name, "STOPPED", 30*time.Second)
	}
	t.Logf("first accepted produce %v after the order on the last topic, %v on all of %d; %d records of %d new producers lost none",
		stopped.last.Round(time.Millisecond), stopped.all.Round(time.Millisecond), topics-1, stopped.acked, stopped.producers)
	if stopped.all > 10*time.Second {
		t.Errorf("failover took %v, five times its bound of 2 s", stopped.all)
	}
	transactionIsAborted(t, w, open, left)
	duplicateIsKnown(t, w, retried, first)
	if a, b := committed(t, w.mirror, "A", clamped), committed(t, w.mirror, "B", clamped); a != 80 || b != 90 {
		t.Errorf("groups A and B are at %d and %d after the failover, want 80 and 90 (case C21)", a, b)
	}
}

// openTransaction commits one transaction of five records and leaves one of five open; it returns the open one's last batch.
func openTransaction(t *testing.T, w *pair, topic string) batch.Batch {
	t.Helper()
	ctx := testContext(t)
	client := Client(t, w.k.Bootstrap(), kgo.TransactionalID("open-"+topic))
	begin := func() {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	produce(t, client, texts(topic, "committed", 0, 5)...)
	if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	begin()
	produce(t, client, texts(topic, "open", 0, 5)...)
	w.level(topic, 1)
	_, end := Ends(t, w.mirror, topic, 0)
	raw := Raw(t, w.mirror, topic, 0, 0, end)
	var last batch.Batch
	for b, err := range batch.Batches(raw).All() {
		if err != nil {
			t.Fatal(err)
		}
		last = b
	}
	return last
}

// transactionIsAborted wants nobody to wait for the transaction that was left open (case C06).
func transactionIsAborted(t *testing.T, w *pair, topic string, left batch.Batch) {
	t.Helper()
	_, end := Ends(t, w.mirror, topic, 0)
	if s := stable(t, w.mirror, topic); s != end {
		t.Errorf("last stable offset of %s is %d, its end %d", topic, s, end)
	}
	marker := batch.Batch(Raw(t, w.mirror, topic, 0, int64(left.NextOffset()), int64(left.NextOffset())+1))
	kind, _, ok := marker.Marker()
	if !ok || kind != batch.Abort || marker.ProducerID() != left.ProducerID() || marker.ProducerEpoch() != left.ProducerEpoch() {
		t.Errorf("after the open transaction of producer %d epoch %d stands: marker %v %v, producer %d epoch %d",
			left.ProducerID(), left.ProducerEpoch(), ok, kind, marker.ProducerID(), marker.ProducerEpoch())
	}
	produce(t, w.mirror, texts(topic, "plain", 0, 1)...)
	have := values(t, w.h.Kafka, topic, kgo.ReadCommitted(), 6)
	want := []string{"committed-0", "committed-1", "committed-2", "committed-3", "committed-4", "plain-0"}
	if !slices.Equal(have, want) {
		t.Errorf("a read_committed reader gets %v, want %v", have, want)
	}
	if have := values(t, w.h.Kafka, topic, kgo.ReadUncommitted(), 11); len(have) != 11 {
		t.Errorf("a read_uncommitted reader gets %d records, want 11", len(have))
	}
}

// clampGroups commits A at 80 and B at 95 while the mirror is held at 90 (case C21).
func clampGroups(t *testing.T, w *pair, topic string) {
	t.Helper()
	produce(t, w.source, texts(topic, "r", 0, 90)...)
	w.level(topic, 1)
	w.h.Order("east", "pause", topic)
	w.h.WaitStatus("east", topic, "PAUSED", 30*time.Second)
	produce(t, w.source, texts(topic, "r", 90, 100)...)
	commit(t, w.source, "A", topic, 80)
	commit(t, w.source, "B", topic, 95)
	waitCommitted(t, w.mirror, "A", topic, 80)
	waitCommitted(t, w.mirror, "B", topic, 90)
}

// retriedBatch produces a batch of an idempotent producer of the source, and others after it.
func retriedBatch(t *testing.T, w *pair, topic string) batch.Batch {
	t.Helper()
	produce(t, w.source, texts(topic, "before", 0, 3)...)
	id := producerID(t, w.source)
	var records []batch.Record
	for i := range 5 {
		records = append(records, batch.Record{Offset: kafka.Offset(i), Timestamp: time.Now().UnixMilli(), Value: fmt.Appendf(nil, "once-%d", i)})
	}
	b, err := batch.Build(batch.Spec{ProducerID: kafka.ProducerID(id), ProducerEpoch: 0, BaseSequence: 0}, records)
	if err != nil {
		t.Fatal(err)
	}
	if code, base := produceRaw(t, w.source, topic, 0, b); code != 0 || base != 3 {
		t.Fatalf("produce to the source: code %d, base offset %d, want 3", code, base)
	}
	w.level(topic, 1)
	return b
}

// duplicateIsKnown sends the batch again to the stopped mirror: the answer that was lost with the source.
func duplicateIsKnown(t *testing.T, w *pair, topic string, b batch.Batch) {
	t.Helper()
	_, before := Ends(t, w.mirror, topic, 0)
	if code, base := produceRaw(t, w.mirror, topic, 0, b); code != 0 || base != 3 {
		t.Errorf("a retry of a mirrored batch is answered with code %d, base offset %d; want 0 and 3", code, base)
	}
	if _, after := Ends(t, w.mirror, topic, 0); after != before {
		t.Errorf("a retry of a mirrored batch made the log grow from %d to %d", before, after)
	}
}

// flow produces numbered records to topics until it is stopped.
type flow struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func startFlow(t *testing.T, source *kgo.Client, topics []string) *flow {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	f := &flow{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for n := 0; ctx.Err() == nil; n++ {
			for _, topic := range topics {
				source.Produce(ctx, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "flow-%d", n)}, nil)
			}
			pause(ctx, 20*time.Millisecond)
		}
	}()
	return f
}

func (f *flow) stop() {
	f.cancel()
	<-f.done
}

// stopReport is what a failover under load took.
type stopReport struct {
	last, all        time.Duration // from the order to the first accepted produce, on the last topic and on every one
	producers, acked int
}

// failOverAll orders the failover of all topics, starts fifty new idempotent
// producers at that moment, and wants what they were promised. probed are tried until each takes a record.
func failOverAll(t *testing.T, w *pair, names, probed, flowing []string) stopReport {
	t.Helper()
	report := stopReport{producers: 50}
	began := time.Now()
	var group sync.WaitGroup
	accepted := make([]time.Duration, len(probed))
	for i, name := range probed {
		group.Go(func() { accepted[i] = firstAccepted(t, w.mirror, name, began) })
	}
	news := make([]*fresh, report.producers)
	for i := range news {
		news[i] = newFresh(t, w.h.Kafka, flowing[len(flowing)-1-i], i)
		group.Go(func() { news[i].run(testContext(t), 40) })
	}
	w.h.Order("east", "failover", names...)
	group.Wait()
	report.last, report.all = accepted[len(accepted)-1], slices.Max(accepted)
	for _, f := range news {
		report.acked += f.check(t, w)
	}
	for _, name := range flowing {
		isPrefix(t, w, name)
	}
	return report
}

// firstAccepted tries until a record is taken.
func firstAccepted(t *testing.T, client *kgo.Client, topic string, began time.Time) time.Duration {
	ctx := testContext(t)
	for ctx.Err() == nil {
		b, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1},
			[]batch.Record{{Timestamp: time.Now().UnixMilli(), Value: []byte("probe")}})
		if err != nil {
			t.Error(err)
			return 0
		}
		if code, err := tryRaw(ctx, client, topic, b); err == nil && code == 0 {
			return time.Since(began)
		}
		pause(ctx, 10*time.Millisecond)
	}
	t.Errorf("no record was taken by %s", topic)
	return time.Since(began)
}

func tryRaw(ctx context.Context, client *kgo.Client, topic string, b batch.Batch) (int16, error) {
	broker, id, _, err := leader(ctx, client, topic, 0)
	if err != nil {
		return 0, err
	}
	rq := kmsg.NewPtrProduceRequest()
	rq.Acks, rq.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = b
	rt.Partitions = append(rt.Partitions, rp)
	rq.Topics = append(rq.Topics, rt)
	answer, err := client.Broker(int(broker)).Request(ctx, rq)
	if err != nil {
		return 0, err
	}
	return answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, nil
}

// fresh is an idempotent producer that is new at the moment of a failover.
type fresh struct {
	client *kgo.Client
	topic  string
	name   string
	acked  map[string]int64 // value to offset; of its own goroutine until run ends
}

func newFresh(t *testing.T, bootstrap, topic string, i int) *fresh {
	return &fresh{client: Client(t, bootstrap, kgo.RecordRetries(1000)), topic: topic, name: fmt.Sprintf("fresh%d", i), acked: map[string]int64{}}
}

// run produces n records one after the other; a refused one is tried again as another record, as an application does.
func (f *fresh) run(ctx context.Context, n int) {
	for i := 0; len(f.acked) < n && ctx.Err() == nil; i++ {
		value := fmt.Sprintf("%s-%d", f.name, i)
		r, err := f.client.ProduceSync(ctx, &kgo.Record{Topic: f.topic, Value: []byte(value)}).First()
		if err == nil {
			f.acked[value] = r.Offset
			continue
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// check wants each acknowledged record once, where the answer said.
func (f *fresh) check(t *testing.T, w *pair) int {
	t.Helper()
	_, end := Ends(t, w.mirror, f.topic, 0)
	found := map[string][]int64{}
	for b, err := range batch.Batches(Raw(t, w.mirror, f.topic, 0, 0, end)).All() {
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range b.Records(1 << 20) {
			if err != nil {
				t.Fatal(err)
			}
			if value := string(r.Value); strings.HasPrefix(value, f.name+"-") {
				found[value] = append(found[value], int64(r.Offset))
			}
		}
	}
	if len(f.acked) == 0 {
		t.Errorf("producer %s got nothing acknowledged", f.name)
	}
	for value, offset := range f.acked {
		if !slices.Equal(found[value], []int64{offset}) {
			t.Errorf("%s was acknowledged at %d of %s and is found at %v", value, offset, f.topic, found[value])
		}
	}
	return len(f.acked)
}

// isPrefix wants the mirrored part of a flow to be the records 0, 1, 2 … without a hole, and nothing mirrored after the first local record.
func isPrefix(t *testing.T, w *pair, topic string) {
	t.Helper()
	_, end := Ends(t, w.mirror, topic, 0)
	next, local := 0, false
	for b, err := range batch.Batches(Raw(t, w.mirror, topic, 0, 0, end)).All() {
		if err != nil {
			t.Fatal(err)
		}
		if b.IsControl() {
			continue
		}
		for r, err := range b.Records(1 << 20) {
			if err != nil {
				t.Fatal(err)
			}
			value := string(r.Value)
			if !strings.HasPrefix(value, "flow-") {
				local = true
				continue
			}
			if local {
				t.Fatalf("%s has mirrored record %q at %d above a local one", topic, value, r.Offset)
			}
			if want := fmt.Sprintf("flow-%d", next); value != want {
				t.Fatalf("%s has %q at %d, want %q", topic, value, r.Offset, want)
			}
			next++
		}
	}
}

// TestFailover_KilledRightAfterTheOrder kills hawser at once when it has taken the
// order, again and again: the stop goes on by itself, once, to the same end.
func TestFailover_KilledRightAfterTheOrder(t *testing.T) {
	const topics = 20
	w := newPair(t)
	var names []string
	for i := range topics {
		names = append(names, fmt.Sprintf("fk-%02d", i))
	}
	if rs, err := kadm.NewClient(w.source).CreateTopics(testContext(t), 1, 1, nil, names...); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	left := map[string]batch.Batch{}
	for _, name := range names {
		w.h.CreateMirror("east", name)
	}
	for _, name := range names[:3] {
		left[name] = openTransaction(t, w, name)
	}
	f := startFlow(t, w.source, names[3:])
	eventually(t, 60*time.Second, "all topics flow", func() (bool, string) {
		idle := slices.IndexFunc(names[3:], func(name string) bool { _, end := Ends(t, w.mirror, name, 0); return end == 0 })
		return idle < 0, fmt.Sprint("none yet in topic ", idle)
	})
	w.refuse()
	w.h.Order("east", "failover", names...)
	for range envInt("HAWSER_STOP_KILLS", 4) {
		w.h.Kill()
		w.h.Start()
	}
	f.stop()
	for _, name := range names {
		w.h.WaitStatus("east", name, "STOPPED", 30*time.Second)
	}
	for name, last := range left {
		transactionIsAborted(t, w, name, last)
		_, end := Ends(t, w.mirror, name, 0)
		if want := int64(last.NextOffset()) + 2; end != want { // one marker and one plain record
			t.Errorf("%s ends at %d, want %d: markers are written once", name, end, want)
		}
	}
	for _, name := range names[3:] {
		produce(t, w.mirror, texts(name, "here", 0, 1)...)
		isPrefix(t, w, name)
	}
}
