package fetcher_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/partition"
)

// bench is a stub cluster with a pool that mirrors from it.
type bench struct {
	*testing.T
	ctx     context.Context
	stub    *stubtest.Cluster
	cluster *source.Cluster
	pool    *fetcher.Pool
	list    []fetcher.Assignment

	mu      sync.Mutex
	events  []fetcher.Event
	changed chan struct{}
}

// newBench makes one for a test that runs beside others.
func newBench(t *testing.T, brokers int, change func(*fetcher.Config)) *bench {
	t.Helper()
	t.Parallel()
	return newLoneBench(t, brokers, change)
}

func newLoneBench(t *testing.T, brokers int, change func(*fetcher.Config)) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	b := &bench{T: t, ctx: ctx, stub: stubtest.NewCluster(t, brokers), changed: make(chan struct{})}
	b.cluster = dial(t, b.stub)
	cfg := fetcher.Config{MaxWait: 200 * time.Millisecond, Backoff: 100 * time.Millisecond, MetadataAge: time.Second}
	if change != nil {
		change(&cfg)
	}
	b.pool = fetcher.New(b.cluster, cfg, b.note)
	t.Cleanup(b.pool.Close)
	return b
}

func dial(t *testing.T, stub *stubtest.Cluster) *source.Cluster {
	t.Helper()
	c, err := source.Dial(source.Config{Bootstrap: stub.Bootstrap(), RequestTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (b *bench) note(e fetcher.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
	close(b.changed)
	b.changed = make(chan struct{})
}

// await returns the first event of a kind from index on, and its index.
func (b *bench) await(kind string, from int) (fetcher.Event, int) {
	b.Helper()
	for {
		b.mu.Lock()
		events, changed := b.events, b.changed
		b.mu.Unlock()
		for i := from; i < len(events); i++ {
			if events[i].Kind == kind {
				return events[i], i
			}
		}
		select {
		case <-changed:
		case <-b.ctx.Done():
			b.Fatalf("no event %q; there were %v", kind, events)
		}
	}
}

var (
	topicID = kafka.TopicID{1}
	zero    = kafka.TopicPartition{Topic: "t"}
	one     = kafka.TopicPartition{Topic: "t", Partition: 1}
)

// mirror assigns partitions, each with a target of its own that starts at 0.
func (b *bench) mirror(id kafka.TopicID, parts ...kafka.TopicPartition) []*stubtest.Target {
	var targets []*stubtest.Target
	for _, tp := range parts {
		target := stubtest.NewTarget(0)
		targets = append(targets, target)
		b.list = append(b.list, fetcher.Assignment{Source: tp, SourceID: id, Mirror: tp, Target: target})
	}
	b.pool.Assign(b.list)
	return targets
}

func (b *bench) reach(target *stubtest.Target, end kafka.Offset) {
	b.Helper()
	if !target.Await(b.ctx, func(o partition.Offsets) bool { return o.LogEnd >= end }) {
		b.Fatalf("mirror ends at %d, not %d; status %+v, events %v", target.Offsets().LogEnd, end, b.pool.Status(zero), b.events)
	}
	if got := target.Offsets().LogEnd; got != end {
		b.Fatalf("mirror ends at %d, not %d", got, end)
	}
}

func (b *bench) startsAt(target *stubtest.Target, start kafka.Offset) {
	b.Helper()
	if !target.Await(b.ctx, func(o partition.Offsets) bool { return o.LogStart == start }) {
		b.Fatalf("mirror starts at %d, not %d", target.Offsets().LogStart, start)
	}
}

func (b *bench) same(target *stubtest.Target, tp kafka.TopicPartition) {
	b.Helper()
	if !bytes.Equal(target.Batches(), b.stub.Partition(tp).Bytes()) {
		b.Fatalf("mirror of %s differs from the source", tp)
	}
}

func TestMirrorsBytesAsTheyAre(t *testing.T) {
	for _, version := range []int16{4, 11, 12, 13, 17} {
		for _, sessions := range []string{"sessions", "none"} {
			t.Run(fmt.Sprintf("v%d_%s", version, sessions), func(t *testing.T) {
				b := newBench(t, 1, nil)
				broker := b.stub.Broker(1)
				broker.MaxFetch(version)
				if sessions == "none" {
					broker.NoSessions()
				}
				id := topicID
				if version < 13 {
					id = kafka.TopicID{}
				}
				b.stub.Create("t", id, 2)
				for i := range 20 {
					b.stub.Partition(zero).Produce(3, fmt.Sprint("value ", i))
				}
				targets := b.mirror(id, zero, one)
				b.reach(targets[0], 60)
				b.stub.Partition(one).Produce(5, "late")
				b.reach(targets[1], 5)
				b.stub.Partition(zero).Produce(1, "more")
				b.reach(targets[0], 61)
				b.same(targets[0], zero)
				b.same(targets[1], one)
			})
		}
	}
}

func TestTopicWithoutIDOnANewSourceIsFetchedByName(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", kafka.TopicID{}, 1)
	b.stub.Partition(zero).Produce(3, "v")
	b.reach(b.mirror(kafka.TopicID{}, zero)[0], 3)
}

func TestC01_PositionIsAfterLastOffsetDelta(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	// Ten offsets of which compaction left the first seven, and a hole after them.
	first, err := batch.Build(batch.Spec{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastDelta: 9},
		[]batch.Record{{Offset: 0, Value: []byte("k0")}, {Offset: 6, Value: []byte("k6")}})
	if err != nil {
		t.Fatal(err)
	}
	b.stub.Partition(zero).Append(first, stubtest.Build(13, 0, 1, "filler"))
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 14)
	b.same(target, zero)
	before := len(b.stub.Fetches(zero))
	idle := time.NewTimer(time.Second)
	<-idle.C
	if n := len(b.stub.Fetches(zero)) - before; n > 8 {
		t.Errorf("%d fetches in an idle second with a long poll of 200 ms", n)
	}
	b.stub.Partition(zero).Produce(1, "next")
	b.reach(target, 15)
}

func TestC02_LogStartFollowsAQuietSource(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	for range 100 {
		b.stub.Partition(zero).Produce(10, "v")
	}
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 1000)
	b.stub.Partition(zero).Trim(700)
	b.startsAt(target, 700)
	for epoch := range kafka.LeaderEpoch(5) {
		b.stub.Partition(zero).Lead(1, epoch+1)
	}
	b.stub.Partition(zero).Trim(900)
	b.startsAt(target, 900)
	if o := target.Offsets(); o.LogEnd != 1000 {
		t.Errorf("mirror ends at %d", o.LogEnd)
	}
}

func TestC02_LogStartFollowsUpToTheSyncedEnd(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	b.stub.Partition(zero).Produce(10, "v")
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 10)
	target.Manual = true
	b.stub.Partition(zero).Produce(10, "v")
	b.reach(target, 20)
	b.stub.Partition(zero).Trim(20)
	b.startsAt(target, 10)
	target.Sync()
	b.startsAt(target, 20)
}

func TestC03_JumpsOverWhatTheSourceRemoved(t *testing.T) {
	for _, keep := range []string{"emptied", "kept"} {
		t.Run(keep, func(t *testing.T) {
			b := newBench(t, 1, func(cfg *fetcher.Config) { cfg.KeepHoles = keep == "kept" })
			b.stub.Create("t", topicID, 1)
			for range 100 {
				b.stub.Partition(zero).Produce(10, "v")
			}
			target := b.mirror(topicID, zero)[0]
			b.reach(target, 1000)
			b.pool.Drop("t")
			for range 100 {
				b.stub.Partition(zero).Produce(10, "v")
			}
			b.stub.Partition(zero).Trim(1500)
			target.Restart()
			b.pool.Assign(b.list)
			b.reach(target, 2000)
			lost, _ := b.await("lost", 0)
			if lost.From != 1000 || lost.To != 1500 || lost.Mirror != zero {
				t.Errorf("lost event says %+v", lost)
			}
			if got := b.pool.Status(zero).LostRecords; got != 500 {
				t.Errorf("%d records counted as lost", got)
			}
			want := kafka.Offset(1500)
			if keep == "kept" {
				want = 0
			}
			b.startsAt(target, want)
		})
	}
}

func TestC04_RecreatedTopicIsNotSplicedOn(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	b.stub.Partition(zero).Produce(100, "old")
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 100)
	b.stub.Create("t", kafka.TopicID{2}, 1)
	b.stub.Partition(zero).Produce(300, "new")
	fault, _ := b.await("fault", 0)
	if fault.Fault != fetcher.TopicIDChanged {
		t.Errorf("fault is %v", fault)
	}
	if o := target.Offsets(); o.LogEnd != 100 {
		t.Errorf("mirror ends at %d", o.LogEnd)
	}
}

func TestE6_RecreatedTopicWithoutIDIsNotSplicedOn(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", kafka.TopicID{}, 1)
	b.stub.Partition(zero).Produce(100, "old")
	target := b.mirror(kafka.TopicID{}, zero)[0]
	b.reach(target, 100)
	b.stub.Broker(1).HangUp()
	b.stub.Create("t", kafka.TopicID{}, 1)
	b.stub.Partition(zero).Produce(100, "new")
	b.stub.Partition(zero).Produce(400, "new")
	fault, _ := b.await("fault", 0)
	for i := 1; fault.Fault == fetcher.SourceUnreachable; {
		fault, i = b.await("fault", i)
	}
	if fault.Fault != fetcher.TopicIDChanged {
		t.Errorf("fault is %v", fault)
	}
	if o := target.Offsets(); o.LogEnd != 100 {
		t.Errorf("mirror ends at %d", o.LogEnd)
	}
}

func TestE6_ShorterSourceInTheSameEpochIsAFault(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	for range 10 {
		b.stub.Partition(zero).Produce(10, "v")
	}
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 100)
	b.stub.Partition(zero).Cut(90)
	fault, _ := b.await("fault", 0)
	if fault.Fault != fetcher.Truncated {
		t.Errorf("fault is %v", fault)
	}
	if cuts := target.Cuts(); len(cuts) > 0 {
		t.Errorf("mirror was cut to %v", cuts)
	}
}

func TestE6_CompactedLastBatchIsNoDivergence(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	b.stub.Partition(zero).Produce(10, "v")
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 10)
	compacted, err := batch.Build(batch.Spec{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastDelta: 9},
		[]batch.Record{{Offset: 4, Timestamp: 1, Value: []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	b.stub.Partition(zero).Replace(compacted)
	b.stub.Broker(1).HangUp()
	b.stub.Partition(zero).Produce(1, "next")
	b.reach(target, 11)
	if cuts := target.Cuts(); len(cuts) > 0 {
		t.Errorf("mirror was cut to %v", cuts)
	}
}

func TestC05_UncleanElectionTruncatesToTheSharedHistory(t *testing.T) {
	for _, version := range []int16{11, 17} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			b := newBench(t, 2, nil)
			id := topicID
			for broker := range int32(2) {
				b.stub.Broker(broker + 1).MaxFetch(version)
			}
			if version < 13 {
				id = kafka.TopicID{}
			}
			b.stub.Create("t", id, 1)
			p := b.stub.Partition(zero)
			p.Produce(100, "both")
			p.Produce(50, "lost")
			target := b.mirror(id, zero)[0]
			b.reach(target, 150)
			p.Cut(100)
			p.Lead(2, 1)
			p.Produce(80, "kept")
			cut, _ := b.await("truncated", 0)
			if cut.From != 150 || cut.To != 100 {
				t.Errorf("event says %+v", cut)
			}
			b.reach(target, 180)
			b.same(target, zero)
			if bytes.Contains(target.Batches(), []byte("lost")) {
				t.Error("lost records are still in the mirror")
			}
		})
	}
}

func TestC05_TruncationSkipsEpochsTheSourceNeverHad(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	p := b.stub.Partition(zero)
	p.Produce(10, "0")
	p.Lead(1, 1)
	p.Produce(10, "1")
	p.Lead(1, 3)
	p.Produce(10, "3")
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 30)
	// The new leader never saw epochs 1 and 3; it reigned in 2 and now in 4.
	p.Cut(10)
	p.Lead(1, 2)
	p.Produce(5, "2")
	p.Lead(1, 4)
	p.Produce(5, "4")
	b.await("truncated", 0)
	b.reach(target, 20)
	b.same(target, zero)
}

func TestC09_OldFormatIsNamedAndNothingOfItIsCopied(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 2)
	for range 10 {
		b.stub.Partition(zero).Produce(1, "v2")
	}
	old := make([]byte, 40) // offset 10, size, CRC, magic 1
	binary.BigEndian.PutUint64(old, 10)
	binary.BigEndian.PutUint32(old[8:], uint32(len(old)-12))
	old[16] = 1
	b.stub.Partition(zero).Append(old)
	targets := b.mirror(topicID, zero, one)
	fault, _ := b.await("fault", 0)
	if fault.Fault != fetcher.OldFormat {
		t.Fatalf("fault is %v", fault)
	}
	for _, word := range []string{"'t'", "partition 0", "format 1", "offset 10"} {
		if !strings.Contains(fault.Err.Error(), word) {
			t.Errorf("%q does not name %q", fault.Err, word)
		}
	}
	b.reach(targets[0], 10)
	b.stub.Partition(one).Produce(3, "v")
	b.reach(targets[1], 3)
}

func TestC11_BatchLargerThanTheBounds(t *testing.T) {
	b := newBench(t, 1, func(cfg *fetcher.Config) {
		cfg.PartitionMax, cfg.ResponseMax = 64<<10, 256<<10
	})
	b.stub.Create("t", topicID, 2)
	large := strings.Repeat("x", 3<<20)
	b.stub.Partition(zero).Produce(1, "small")
	b.stub.Partition(zero).Produce(1, large)
	b.stub.Partition(zero).Produce(1, "small")
	for range 50 {
		b.stub.Partition(one).Produce(1, large[:1000])
	}
	targets := b.mirror(topicID, zero, one)
	b.reach(targets[1], 50)
	b.reach(targets[0], 3)
	b.same(targets[0], zero)
}

func TestC15_OverlapIsAFaultAndRepeatsAreDropped(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 2)
	b.stub.Partition(zero).Produce(5, "a")
	b.stub.Partition(zero).Produce(5, "b")
	b.stub.Partition(one).Produce(10, "a")
	targets := b.mirror(topicID, zero, one)
	b.reach(targets[0], 10)
	b.reach(targets[1], 10)
	repeat := b.stub.Partition(one).Bytes()
	b.stub.Mangle(func(tp kafka.TopicPartition, from kafka.Offset, data []byte) []byte {
		switch {
		case len(data) == 0:
			return data
		case tp == zero && from == 10:
			return stubtest.Build(5, 0, 10, "overlap")
		case tp == one:
			return append(bytes.Clone(repeat), data...)
		}
		return data
	})
	b.stub.Partition(zero).Produce(10, "c")
	b.stub.Partition(one).Produce(1, "next")
	fault, _ := b.await("fault", 0)
	if fault.Fault != fetcher.OverlappingBatch || fault.Mirror != zero {
		t.Errorf("fault is %v", fault)
	}
	b.reach(targets[1], 11)
	b.same(targets[1], one)
	if o := targets[0].Offsets(); o.LogEnd != 10 {
		t.Errorf("mirror ends at %d", o.LogEnd)
	}
}

func TestC16_CorruptBatchIsFetchedAgainSlowly(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 2)
	b.stub.Mangle(func(tp kafka.TopicPartition, _ kafka.Offset, data []byte) []byte {
		if tp == zero && len(data) > 0 {
			data = bytes.Clone(data)
			data[len(data)-1] ^= 1
		}
		return data
	})
	b.stub.Partition(zero).Produce(5, "v")
	targets := b.mirror(topicID, zero, one)
	fault, _ := b.await("fault", 0)
	if fault.Fault != fetcher.CorruptBatch {
		t.Fatalf("fault is %v", fault)
	}
	begun, before := time.Now(), targets[0].AppendCount()
	for i := range 20 {
		b.stub.Partition(one).Produce(1, "good")
		b.reach(targets[1], kafka.Offset(i+1))
		if took := time.Since(begun); took < 2*time.Second {
			timer := time.NewTimer(100 * time.Millisecond)
			<-timer.C
		}
	}
	if n, bound := targets[0].AppendCount()-before, int(2*time.Since(begun).Seconds())+1; n > bound {
		t.Errorf("%d tries in %v", n, time.Since(begun))
	}
	if o := targets[0].Offsets(); o.LogEnd != 0 {
		t.Errorf("mirror ends at %d", o.LogEnd)
	}
	b.stub.Mangle(nil)
	b.reach(targets[0], 5)
	b.same(targets[0], zero)
	b.await("healed", 0)
}

func TestC14_LeaderMovesUnderLoad(t *testing.T) {
	b := newBench(t, 3, nil)
	b.stub.Create("t", topicID, 2)
	targets := b.mirror(topicID, zero, one)
	for i := range 30 {
		for _, tp := range []kafka.TopicPartition{zero, one} {
			b.stub.Partition(tp).Produce(10, fmt.Sprint("v", i))
			b.stub.Partition(tp).Lead(int32(1+(i+int(tp.Partition))%3), kafka.LeaderEpoch(i+1))
		}
		if i%5 == 0 {
			b.stub.Broker(int32(1 + i%3)).HangUp()
		}
		b.reach(targets[0], kafka.Offset(10*(i+1)))
	}
	b.reach(targets[1], 300)
	b.same(targets[0], zero)
	b.same(targets[1], one)
}

func TestC18_NothingAboveTheSourceHighWatermark(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	p := b.stub.Partition(zero)
	p.Produce(10, "v")
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 10)
	p.Hide(10)
	p.Produce(5, "unacknowledged")
	// A source that sends more than its high watermark is not believed either.
	b.stub.Mangle(func(kafka.TopicPartition, kafka.Offset, []byte) []byte {
		return stubtest.Build(10, 0, 5, "unacknowledged")
	})
	before := len(b.stub.Fetches(zero))
	for len(b.stub.Fetches(zero)) < before+3 {
		timer := time.NewTimer(20 * time.Millisecond)
		<-timer.C
	}
	if o := target.Offsets(); o.LogEnd != 10 {
		t.Errorf("mirror ends at %d", o.LogEnd)
	}
	b.stub.Mangle(nil)
	p.Hide(-1)
	b.reach(target, 15)
}

func TestC18_HighWatermarkBehindAfterAnElectionIsNoTruncation(t *testing.T) {
	b := newBench(t, 2, nil)
	b.stub.Create("t", topicID, 1)
	p := b.stub.Partition(zero)
	p.Produce(10, "v")
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 10)
	p.Hide(5)
	p.Lead(2, 1)
	before := len(b.stub.Fetches(zero))
	for len(b.stub.Fetches(zero)) < before+4 {
		timer := time.NewTimer(20 * time.Millisecond)
		<-timer.C
	}
	p.Hide(-1)
	p.Produce(1, "next")
	b.reach(target, 11)
	if cuts := target.Cuts(); len(cuts) > 0 {
		t.Errorf("mirror was cut to %v", cuts)
	}
	if s := b.pool.Status(zero); s.Fault != fetcher.NoFault {
		t.Errorf("status is %+v", s)
	}
}

func TestC19_ThrottleIsObeyed(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Broker(1).Throttle(300 * time.Millisecond)
	b.stub.Create("t", topicID, 1)
	target := b.mirror(topicID, zero)[0]
	begun := time.Now()
	for i := range 5 {
		b.stub.Partition(zero).Produce(1, "v")
		b.reach(target, kafka.Offset(i+1))
	}
	if took := time.Since(begun); took < 900*time.Millisecond {
		t.Errorf("five answers in %v", took)
	}
	if s := b.pool.Status(zero); s.Fault != fetcher.NoFault {
		t.Errorf("status is %+v", s)
	}
	if n := b.stub.Broker(1).Accepted(); n > 2 {
		t.Errorf("%d connections", n)
	}
}

func TestD3_AnswerToAnOlderLifeIsNotAppended(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	target := b.mirror(topicID, zero)[0]
	b.stub.Partition(zero).Produce(1, "v")
	b.reach(target, 1)
	// While a long poll is under way the mirror is stopped and resumed.
	target.Restart()
	b.stub.Partition(zero).Produce(1, "v")
	b.reach(target, 2)
	b.same(target, zero)
}

func TestDropLeavesNothingInFlight(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	b.stub.Partition(zero).Produce(1, "v")
	target := stubtest.NewTarget(0)
	target.Hold = make(chan struct{})
	b.pool.Assign([]fetcher.Assignment{{Source: zero, SourceID: topicID, Mirror: zero, Target: target}})
	for target.AppendCount() < 1 {
		timer := time.NewTimer(5 * time.Millisecond)
		<-timer.C
	}
	done := make(chan struct{})
	go func() { b.pool.Drop("t"); close(done) }()
	select {
	case <-done:
	case <-b.ctx.Done():
		t.Fatal("Drop waits for an append that waits")
	}
	close(target.Hold)
	b.stub.Partition(zero).Produce(1, "v")
	timer := time.NewTimer(300 * time.Millisecond)
	<-timer.C
	if o := target.Offsets(); o.LogEnd != 0 {
		t.Errorf("mirror ends at %d after Drop", o.LogEnd)
	}
}

func TestFaultsOfTheSource(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrong func(*stubtest.Cluster)
		right func(*stubtest.Cluster)
		want  fetcher.Fault
	}{
		{"denied", func(s *stubtest.Cluster) { s.Partition(zero).Deny(kafka.TopicAuthorizationFailed) },
			func(s *stubtest.Cluster) { s.Partition(zero).Deny(0) }, fetcher.SourceDenied},
		{"missing", func(s *stubtest.Cluster) { s.Delete("t") }, nil, fetcher.TopicMissing},
		{"no leader", func(s *stubtest.Cluster) { s.Partition(zero).Lead(-1, 1) },
			func(s *stubtest.Cluster) { s.Partition(zero).Lead(1, 2) }, fetcher.SourceUnreachable},
		{"older epoch", func(s *stubtest.Cluster) { s.Partition(zero).Lead(1, 3) },
			func(s *stubtest.Cluster) { s.Partition(zero).Lead(1, 8) }, fetcher.EpochWentBack},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 1, nil)
			b.stub.Create("t", topicID, 1)
			b.stub.Partition(zero).Lead(1, 0)
			if c.name == "older epoch" {
				b.stub.Partition(zero).Lead(1, 7)
			}
			b.stub.Partition(zero).Produce(1, "v")
			target := b.mirror(topicID, zero)[0]
			b.reach(target, 1)
			c.wrong(b.stub)
			fault, at := b.await("fault", 0)
			if fault.Fault != c.want {
				t.Fatalf("fault is %v", fault)
			}
			if s := b.pool.Status(zero); s.Fault != c.want || s.Err == nil || s.Since.IsZero() {
				t.Errorf("status is %+v", s)
			}
			if c.right == nil {
				return
			}
			c.right(b.stub)
			b.stub.Partition(zero).Produce(1, "v")
			b.await("healed", at)
			b.reach(target, 2)
		})
	}
}

func TestFewerPartitionsIsAFault(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	b.mirror(topicID, one)
	if fault, _ := b.await("fault", 0); fault.Fault != fetcher.PartitionsFewer {
		t.Errorf("fault is %v", fault)
	}
}

func TestTargetThatFailsIsShownAndTriedAgain(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 2)
	targets := b.mirror(topicID, zero, one)
	targets[0].FailWith = errors.New("disk full")
	b.stub.Partition(zero).Produce(1, "v")
	b.stub.Partition(one).Produce(1, "v")
	fault, _ := b.await("fault", 0)
	if fault.Fault != fetcher.TargetFailed || !strings.Contains(fault.Err.Error(), "disk full") {
		t.Errorf("fault is %v", fault)
	}
	b.reach(targets[1], 1)
}

func TestX2_CaughtUpAsksTheSource(t *testing.T) {
	b := newBench(t, 2, nil)
	b.stub.Create("t", topicID, 2)
	b.stub.Partition(one).Lead(2, 1)
	b.stub.Partition(zero).Produce(10, "v")
	targets := b.mirror(topicID, zero, one)
	b.reach(targets[0], 10)
	ask := func(want bool, words string) {
		t.Helper()
		ok, text, err := b.pool.CaughtUp(b.ctx, "t")
		if err != nil || ok != want || !strings.Contains(text, words) {
			t.Errorf("CaughtUp says %v %q %v; want %v %q", ok, text, err, want, words)
		}
	}
	ask(true, "")
	b.stub.Partition(zero).Undecided(4)
	ask(false, "open transaction from offset 4")
	b.stub.Partition(zero).Undecided(-1)
	b.stub.Partition(zero).Hide(5)
	ask(false, "ends at 5")
	b.stub.Partition(zero).Hide(-1)
	targets[1].Hold = make(chan struct{})
	b.stub.Partition(one).Produce(1, "v")
	ask(false, "t-1 ends at 1, the mirror at 0")
	close(targets[1].Hold)
	b.reach(targets[1], 1)
	ask(true, "")
}

func TestC101_BacklogDoesNotStarveOthers(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 2)
	value := strings.Repeat("x", 60<<10)
	for range 1000 {
		b.stub.Partition(zero).Produce(1, value)
	}
	targets := b.mirror(topicID, zero, one)
	var worst time.Duration
	for i := range 20 {
		begun := time.Now()
		b.stub.Partition(one).Produce(1, "quiet")
		b.reach(targets[1], kafka.Offset(i+1))
		worst = max(worst, time.Since(begun))
	}
	b.reach(targets[0], 1000)
	if worst > 2*time.Second {
		t.Errorf("a quiet partition waited %v", worst)
	}
}

func TestC98_SlowConnectionsOverADistanceAreUsedSideBySide(t *testing.T) {
	b := newBench(t, 1, func(cfg *fetcher.Config) { cfg.ResponseMax, cfg.PartitionMax = 1<<20, 1<<20 })
	const perConnection = 4 << 20 // bytes a second
	b.stub.Broker(1).Delay(20 * time.Millisecond)
	b.stub.Broker(1).Pace(perConnection)
	b.stub.Create("t", topicID, 2)
	p := b.stub.Partition(zero)
	// Batches of many sizes and offsets, with holes as compaction leaves them, and two epochs.
	size, end := 0, kafka.Offset(0)
	for i := 0; size < 64<<20; i++ {
		set := stubtest.Build(end, kafka.LeaderEpoch(0), 1+i%7, strings.Repeat("x", 1000+i*7919%30000))
		p.Append(set)
		size, end = size+len(set), end+kafka.Offset(1+i%7+i%5)
	}
	p.Produce(1, "last")
	begun := time.Now()
	targets := b.mirror(topicID, zero, one)
	if !targets[0].Await(b.ctx, func(o partition.Offsets) bool { return o.Size > int64(size) }) {
		t.Fatalf("mirror is at %+v, status %+v", targets[0].Offsets(), b.pool.Status(zero))
	}
	took := time.Since(begun)
	b.same(targets[0], zero)
	if alone := time.Duration(float64(size) / perConnection * float64(time.Second)); took > alone/2 {
		t.Errorf("%v for what one connection carries in %v", took, alone)
	}
	b.stub.Partition(one).Produce(1, "quiet")
	b.reach(targets[1], 1)
	last := targets[0].Offsets().LogEnd
	b.stub.Partition(zero).Produce(1, "after")
	b.reach(targets[0], last+1)
	b.same(targets[0], zero)
}

func TestC98_StripesThatDoNotFitAreGivenUp(t *testing.T) {
	b := newBench(t, 2, func(cfg *fetcher.Config) { cfg.ResponseMax, cfg.PartitionMax = 1<<20, 1<<20 })
	for id := range int32(2) {
		b.stub.Broker(id + 1).Delay(15 * time.Millisecond)
		b.stub.Broker(id + 1).Pace(4 << 20)
	}
	b.stub.Create("t", topicID, 1)
	p := b.stub.Partition(zero)
	value := strings.Repeat("x", 60<<10)
	for range 500 {
		p.Produce(1, value)
	}
	target := b.mirror(topicID, zero)[0]
	if !target.Await(b.ctx, func(o partition.Offsets) bool { return o.LogEnd > 60 }) {
		t.Fatal("nothing is mirrored")
	}
	p.Cut(400)
	p.Lead(2, 1)
	for range 50 {
		p.Produce(1, "other")
	}
	b.reach(target, 450)
	b.same(target, zero)
}

func TestC99_IdlePartitionsCostLittle(t *testing.T) {
	b := newLoneBench(t, 1, func(cfg *fetcher.Config) { cfg.MaxWait = 500 * time.Millisecond })
	const partitions = 5000
	b.stub.Create("t", topicID, partitions)
	var list []fetcher.Assignment
	targets := make([]*stubtest.Target, partitions)
	for i := range targets {
		targets[i] = stubtest.NewTarget(0)
		tp := kafka.TopicPartition{Topic: "t", Partition: int32(i)}
		list = append(list, fetcher.Assignment{Source: tp, SourceID: topicID, Mirror: tp, Target: targets[i]})
	}
	goroutines := runtime.NumGoroutine()
	b.pool.Assign(list)
	b.stub.Partition(kafka.TopicPartition{Topic: "t", Partition: partitions - 1}).Produce(1, "v")
	b.reach(targets[partitions-1], 1)
	before := b.stub.Requests(1)
	timer := time.NewTimer(2 * time.Second)
	<-timer.C
	if n := b.stub.Requests(1) - before; n > 60 {
		t.Errorf("%d fetches in two idle seconds", n)
	}
	if n := runtime.NumGoroutine() - goroutines; n > 50 {
		t.Errorf("%d goroutines more", n)
	}
}

func TestCloseLeavesNoGoroutines(t *testing.T) {
	stub := stubtest.NewCluster(t, 2)
	stub.Create("t", topicID, 2)
	stub.Partition(one).Lead(2, 1)
	before := runtime.NumGoroutine()
	c, err := source.Dial(source.Config{Bootstrap: stub.Bootstrap()})
	if err != nil {
		t.Fatal(err)
	}
	pool := fetcher.New(c, fetcher.Config{}, nil)
	targets := []*stubtest.Target{stubtest.NewTarget(0), stubtest.NewTarget(0)}
	pool.Assign([]fetcher.Assignment{
		{Source: zero, SourceID: topicID, Mirror: zero, Target: targets[0]},
		{Source: one, SourceID: topicID, Mirror: one, Target: targets[1]},
	})
	stub.Partition(zero).Produce(1, "v")
	targets[0].Await(t.Context(), func(o partition.Offsets) bool { return o.LogEnd == 1 })
	pool.Close()
	c.Close()
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if after := runtime.NumGoroutine(); after > before {
		buf := make([]byte, 1<<16)
		t.Fatalf("%d goroutines before, %d after:\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
}
