package fetcher_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/hawserio/hawser/partition"
)

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

// TestD5_TransactionThatTheSourceHasForgottenEnds: a transaction is open in the mirror only. As long as one is open at the source too, the
// mirror waits for its end; what it holds stays in both cases.
func TestD5_TransactionThatTheSourceHasForgottenEnds(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	b.stub.Partition(zero).Produce(10, "v")
	b.stub.Partition(zero).Undecided(4)
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 10)
	target.OpenFrom(0)
	b.stub.Partition(zero).Produce(10, "v")
	b.reach(target, 20)
	if got := target.Offsets(); got.LastStable != 0 {
		t.Fatalf("a transaction that may be open at the source was ended: %+v", got)
	}
	b.stub.Partition(zero).Undecided(-1)
	b.stub.Partition(zero).Trim(10) // a session says nothing of a partition until something changes, or it is asked for everything again
	if !target.Await(b.ctx, func(o partition.Offsets) bool { return o.LogEnd == 20 && o.LastStable == 20 }) {
		t.Fatalf("it stays open: %+v", target.Offsets())
	}
	b.startsAt(target, 10)
}

// TestC03_LogStartInsideABatch trims the source in the middle of a batch, as DeleteRecords may: the mirror has the older records, or
// not, and the batch that the source's log begins in is its whole.
func TestC03_LogStartInsideABatch(t *testing.T) {
	for _, keep := range []string{"emptied", "kept"} {
		t.Run(keep, func(t *testing.T) {
			b := newBench(t, 1, func(cfg *fetcher.Config) { cfg.KeepHoles = keep == "kept" })
			b.stub.Create("t", topicID, 1)
			b.stub.Partition(zero).Produce(1000, "v")
			target := b.mirror(topicID, zero)[0]
			b.reach(target, 1000)
			b.pool.Drop("t")
			b.stub.Partition(zero).Produce(1000, "v")
			b.stub.Partition(zero).Trim(1500)
			target.Restart()
			b.pool.Assign(b.list)
			b.reach(target, 2000)
			b.stub.Partition(zero).Produce(10, "v")
			b.reach(target, 2010)
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
	for _, c := range []struct {
		err  error
		want fetcher.Fault
	}{
		{errors.New("out of luck"), fetcher.TargetFailed},
		{kafka.Errorf(kafka.KafkaStorageError, "out of luck"), fetcher.TargetOffline},
		{fmt.Errorf("out of luck: %w", partition.ErrNoRoom), fetcher.TargetFull},
	} {
		t.Run(string(c.want), func(t *testing.T) {
			b := newBench(t, 1, nil)
			b.stub.Create("t", topicID, 2)
			targets := b.mirror(topicID, zero, one)
			targets[0].FailWith = c.err
			b.stub.Partition(zero).Produce(1, "v")
			b.stub.Partition(one).Produce(1, "v")
			fault, _ := b.await("fault", 0)
			if fault.Fault != c.want || !strings.Contains(fault.Err.Error(), "out of luck") {
				t.Errorf("fault is %v, want %s", fault, c.want)
			}
			b.reach(targets[1], 1)
		})
	}
}
