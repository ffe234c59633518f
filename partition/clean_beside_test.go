package partition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store/storetest"
)

// TestReadersWritersAndOrdersBesideCleanings lets everything that uses a log run while it is cleaned over and over.
func TestReadersWritersAndOrdersBesideCleanings(t *testing.T) {
	b := newBedOver(t, meta.RoleMirror, 1, storetest.NewMemory())
	b.compacting(2000)
	p := b.p(0)
	ctx, cancel := context.WithCancel(t.Context())
	budget := make(chan struct{})
	var all sync.WaitGroup
	run := func(f func(rng *rand.Rand) error) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, 2))
			for ctx.Err() == nil {
				if err := f(rng); err != nil {
					t.Error(err)
					cancel()
				}
			}
		})
	}
	for range 2 {
		run(func(rng *rand.Rand) error { return readSome(p, rng) })
	}
	run(func(rng *rand.Rand) error { // a scan of all batches, as orders and group loads do them
		last, before := kafka.NoOffset, p.Offsets()
		err := p.log.Scan(p.Offsets().LogStart, rng.IntN(2) == 0, func(one batch.Batch) error {
			if one.BaseOffset() <= last {
				return fmt.Errorf("scan: offset %d after %d", one.BaseOffset(), last)
			}
			last = one.LastOffset()
			return nil
		})
		if err != nil && before.Role == meta.RoleMirror && p.Offsets().Generation == before.Generation { // else it was cut
			return err
		}
		return nil
	})
	run(func(rng *rand.Rand) error {
		_, err := p.OffsetForTime(b.nowMs+int64(rng.IntN(3)), kafka.ReadUncommitted)
		return err
	})
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			select {
			case <-budget:
			case <-ctx.Done():
				return
			}
			list := make([]kv, 5)
			for k := range list {
				list[k] = kv{fmt.Sprint("k", (i*3+k)%37), fmt.Sprint(i)}
			}
			o := p.Offsets()
			one := b.keyed(o.LogEnd, batch.Spec{LeaderEpoch: o.Epoch, Codec: batch.Codec(i % 2 * 2)}, list...)
			err := p.AppendMirrored(ctx, Mirrored{Generation: o.Generation, FetchedAt: o.LogEnd, Batches: batch.Batches(one)})
			if err != nil && !errors.Is(err, ErrStale) && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	cleaned, cut := 0, 0
	for i := 0; i < 16 && ctx.Err() == nil; i++ {
		for range 50 {
			select {
			case budget <- struct{}{}:
			case <-ctx.Done():
			}
		}
		b.synced(0)
		done, err := p.Compact(ctx, time.UnixMilli(b.nowMs), Compaction{KeyBytes: 1 << 20})
		if err != nil && !errors.Is(err, ErrCleanAborted) {
			t.Fatal(err)
		}
		if done.Swapped > 0 {
			cleaned++
		}
		if i%6 == 5 {
			o := p.Offsets()
			if _, err := p.TruncateMirror(ctx, o.Generation, o.LogEnd-10, "test"); err != nil && !errors.Is(err, ErrStale) {
				t.Fatal(err)
			}
			cut++
		}
	}
	cancel()
	all.Wait()
	if cleaned < 5 || cut == 0 {
		t.Errorf("%d cleanings, %d cuts", cleaned, cut)
	}
	b.must(p.Err())
}

// readSome reads at a random place and checks what comes.
func readSome(p *Partition, rng *rand.Rand) error {
	o := p.Offsets()
	from := o.LogStart + kafka.Offset(rng.Int64N(int64(o.LogEnd-o.LogStart)+1))
	a, err := p.Read(Read{From: from, MaxBytes: 3000, AtLeastOne: true, Isolation: kafka.Isolation(rng.IntN(2)), CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
	if err != nil {
		if kafka.CodeOf(err) == kafka.OffsetOutOfRange || kafka.CodeOf(err) == kafka.NotLeaderForPartition {
			return nil // cut meanwhile
		}
		return err
	}
	defer a.Slice.Close()
	bytes, err := a.Slice.Bytes()
	if err != nil {
		return err
	}
	last := kafka.NoOffset
	for one, err := range bytes.All() {
		if err == nil {
			err = one.CheckCRC()
		}
		switch {
		case err != nil:
			return err
		case one.NextOffset() <= from || one.BaseOffset() <= last:
			return fmt.Errorf("read at %d: batch [%d, %d] after %d", from, one.BaseOffset(), one.LastOffset(), last)
		}
		last = one.LastOffset()
	}
	return nil
}
