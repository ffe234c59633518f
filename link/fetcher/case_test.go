package fetcher_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
)

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

func TestC11_BoundsGrowToAFirstBatchThatIsCut(t *testing.T) {
	b := newBench(t, 1, func(cfg *fetcher.Config) { cfg.PartitionMax = 64 << 10 })
	b.stub.Broker(1).HardLimits()
	b.stub.Create("t", topicID, 1)
	b.stub.Partition(zero).Produce(1, "small")
	b.stub.Partition(zero).Produce(1, strings.Repeat("x", 3<<20))
	b.stub.Partition(zero).Produce(1, "small")
	b.reach(b.mirror(topicID, zero)[0], 3)
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
