package partition

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store/storetest"
)

// TestC18_NoOffsetShowsTwoValues reads all the time while a fetcher mirrors a source that
// diverges and trims: within one truncation count no offset shows two batches, and the high watermark never falls.
func TestC18_NoOffsetShowsTwoValues(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	p := b.p(0)
	var stop atomic.Bool
	var readers sync.WaitGroup
	for n := range 3 {
		readers.Go(func() {
			if err := watchHistory(p, &stop, kafka.Isolation(n%2)); err != nil {
				t.Error(err)
			}
		})
	}
	rng := rand.New(rand.NewPCG(5, 5))
	epoch := kafka.LeaderEpoch(0)
	for range 400 {
		o := p.Offsets()
		switch rng.IntN(40) {
		case 0:
			b.must(errOf(p.TruncateMirror(t.Context(), o.Generation, max(o.LogStart, o.LogEnd-kafka.Offset(rng.IntN(40))), "test")))
			epoch++
		case 1:
			_, err := p.JumpTo(t.Context(), o.Generation, o.LogEnd+kafka.Offset(rng.IntN(9)), rng.IntN(2) == 0)
			b.must(err)
		case 2:
			b.must(p.FollowLogStart(t.Context(), o.Generation, o.LogStart+kafka.Offset(rng.IntN(20))))
		default:
			base := o.LogEnd
			var list []batch.Batch
			for range 1 + rng.IntN(3) {
				one := made{base: base, epoch: epoch, id: foreignID(int64(rng.IntN(3))), txn: true, values: []string{fmt.Sprint(rng.Uint64()), "x"}}.build(t)
				if rng.IntN(3) == 0 {
					one = markerBatch(base, epoch, foreignID(int64(rng.IntN(3))), 0, batch.Marker(rng.IntN(2)), 0)
				}
				base = one.NextOffset()
				list = append(list, one)
			}
			b.must(b.mirror(0, list...))
		}
	}
	b.must(b.stop())
	b.produce(0, made{})
	stop.Store(true)
	b.must(p.Err())
	readers.Wait()
	if o := p.Offsets(); o.LastStable != o.LogEnd {
		t.Errorf("after the stop: %+v", o)
	}
}

// watchHistory reads from the start again and again and compares with what it saw before.
func watchHistory(p *Partition, stop *atomic.Bool, isolation kafka.Isolation) error {
	type place struct {
		truncations int64
		offset      kafka.Offset
	}
	seen := map[place]uint32{}
	highest := map[int64]kafka.Offset{}
	for from := kafka.Offset(0); ; {
		done := stop.Load()
		before := p.Entry().Truncations
		a, err := p.Read(Read{From: from, MaxBytes: 4096, AtLeastOne: true, Isolation: isolation, CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
		if errors.Is(err, kafka.OffsetOutOfRange) {
			from = a.Offsets.LogStart
			continue
		}
		if errors.Is(err, kafka.NotLeaderForPartition) {
			continue
		}
		if err != nil {
			return err
		}
		bytes, err := a.Slice.Bytes()
		a.Slice.Close()
		if err != nil {
			return err
		}
		if p.Entry().Truncations != before {
			continue // it may have been cut while we read
		}
		if o := a.Offsets; o.HighWatermark < highest[before] {
			return fmt.Errorf("the high watermark fell from %d to %d", highest[before], o.HighWatermark)
		}
		highest[before] = a.Offsets.HighWatermark
		for one, err := range bytes.All() {
			if err != nil {
				return err
			}
			if one.NextOffset() > a.Offsets.HighWatermark || one.LeaderEpoch() > a.Offsets.Epoch {
				return fmt.Errorf("batch [%d..%d] of epoch %d is shown, offsets %+v", one.BaseOffset(), one.LastOffset(), one.LeaderEpoch(), a.Offsets)
			}
			at := place{before, one.BaseOffset()}
			if was, ok := seen[at]; ok && was != one.CRC() {
				return fmt.Errorf("offset %d shows two batches", one.BaseOffset())
			}
			seen[at] = one.CRC()
			from = one.NextOffset()
		}
		if len(bytes) == 0 {
			if done {
				return nil
			}
			from = 0
		}
	}
}

// TestMirroredBytesWaitForTheSharedSync tells by the fake clock when a sync begins.
func TestMirroredBytesWaitForTheSharedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBedOver(t, meta.RoleMirror, 2, storetest.NewMemory())
		b.Owner.syncer.delay = 10 * time.Millisecond
		shown := func(what string, want kafka.Offset) {
			t.Helper()
			synctest.Wait()
			for n := range int32(2) {
				if got := b.p(n).Offsets().HighWatermark; got != want {
					t.Errorf("%s: partition %d shows %d records, want %d", what, n, got, want)
				}
			}
		}
		mirror := func(base kafka.Offset) {
			t.Helper()
			for n := range int32(2) {
				b.must(b.mirror(n, made{base: base}.build(t)))
			}
		}
		mirror(0)
		shown("the first records of quiet partitions do not wait", 1)
		mirror(1)
		time.Sleep(9 * time.Millisecond)
		shown("those that follow wait for the delay", 1)
		time.Sleep(time.Millisecond)
		shown("the delay has passed", 2)
		time.Sleep(10 * time.Millisecond)
		mirror(2)
		shown("the partitions have rested", 3)
		// Enough bytes do not wait.
		b.Owner.syncer.lazyBytes = 10
		b.must(b.mirror(0, made{base: 3}.build(t)))
		synctest.Wait()
		if b.p(0).Offsets().HighWatermark != 4 {
			t.Error("many bytes waited for the delay")
		}
		if b.UnsyncedBytes() != 0 {
			t.Errorf("%d bytes count as unsynced", b.UnsyncedBytes())
		}
		b.must(b.Owner.Close())
	})
}

// A producer's bytes do not wait, and do not take a mirror's along.
func TestProducersBytesAreSyncedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBedOver(t, meta.RoleMirror, 2, storetest.NewMemory())
		b.Owner.syncer.delay = time.Hour
		b.stream.mu.Lock()
		b.stream.topics[b.topic.ID].List[1].Role = meta.RoleOpen
		b.stream.mu.Unlock()
		b.reopen()
		b.Owner.syncer.delay = time.Hour
		b.must(b.mirror(0, made{}.build(t)))
		synctest.Wait()
		b.must(b.mirror(0, made{base: 1}.build(t)))
		_, err := b.p(1).Append(t.Context(), batch.Batches(made{}.build(t)), nil)
		b.must(err)
		synctest.Wait()
		if mirror, open := b.p(0).Offsets(), b.p(1).Offsets(); open.HighWatermark != 1 || mirror.HighWatermark != 1 {
			t.Errorf("mirror %+v, open %+v", mirror, open)
		}
		b.must(b.Owner.Close())
	})
}

func TestFailedSyncTakesThePartitionOutOfService(t *testing.T) {
	mem := storetest.NewMemory()
	b := newBedOver(t, meta.RoleOpen, 2, mem)
	b.produce(0, made{})
	b.produce(1, made{})
	bad := b.p(0).ID()
	mem.Hook(func(op storetest.Op) error {
		if op.Kind == "sync" && op.Dir == bad {
			return errors.New("input/output error")
		}
		return nil
	})
	a, err := b.p(0).Append(t.Context(), batch.Batches(made{}.build(t)), nil)
	b.must(err)
	wantCode(t, b.p(0).WaitSynced(t.Context(), a.Next), kafka.KafkaStorageError)
	if o := b.p(0).Offsets(); o.HighWatermark != 1 {
		t.Errorf("what was not synced is shown: %+v", o)
	}
	_, err = b.p(0).Append(t.Context(), batch.Batches(made{}.build(t)), nil)
	wantCode(t, err, kafka.KafkaStorageError)
	_, err = b.p(0).Read(Read{MaxBytes: 100, CurrentEpoch: -1, LastEpoch: -1})
	wantCode(t, err, kafka.KafkaStorageError)
	b.produce(1, made{})
	b.syncerIdle()
	mem.Hook(nil)
	// Another Open tries again.
	b.must(b.Owner.Open(b.topic, b.stream.get(b.topic.ID), b.cfg))
	b.produce(0, made{})
}

func TestFullDiskIsSaidAndNothingIsHalfStored(t *testing.T) {
	mem := storetest.NewMemory()
	b := newBedOver(t, meta.RoleMirror, 1, mem)
	b.mustMirror(0, made{}.build(t))
	mem.Hook(func(op storetest.Op) error {
		if op.Kind == "append" {
			return errors.New("no space left on device")
		}
		return nil
	})
	wantCode(t, b.mirror(0, made{base: 1}.build(t)), kafka.KafkaStorageError)
	wantCode(t, b.p(0).Err(), kafka.KafkaStorageError)
	mem.Hook(nil)
	b.syncerIdle()
	b.must(b.Owner.Open(b.topic, b.stream.get(b.topic.ID), b.cfg))
	wantOffsets(t, b.p(0), 0, 1, 1, 1)
	b.mustMirror(0, made{base: 1}.build(t))
}

func TestHighestProducerIDIsAnOwnOne(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	if got := b.HighestProducerID(); got != kafka.NoProducerID {
		t.Errorf("highest producer id %d", got)
	}
	b.produce(0, made{id: ownID(77)})
	b.produce(0, made{id: foreignID(99)})
	if got := b.HighestProducerID(); got != ownID(77) {
		t.Errorf("highest producer id %d, want %d", got, ownID(77))
	}
}
