// Package stubtest is a source broker that answers what a test scripted, and a mirror
// partition that lives in memory. Tests of link's packages use it. It refuses to be a
// Kafka: it knows only what a fetcher asks.
package stubtest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// Target is a mirror partition in memory. It checks what partition.Partition checks.
type Target struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and renewed at each change
	o        partition.Offsets
	batches  []batch.Batch
	count    bool // keep no bytes, only offsets
	last     batch.Batch
	open     kafka.Offset // where the oldest open transaction begins, NoOffset for none
	cuts     []kafka.Offset
	refined  [][]kafka.EpochStart
	Appends  int
	Hold     chan struct{} // where not nil, appends wait for it to be closed
	Manual   bool          // the high watermark moves only by Sync
	FailWith error         // appends answer this
}

// NewTarget makes an empty mirror partition that starts at start.
func NewTarget(start kafka.Offset) *Target {
	return &Target{changed: make(chan struct{}), open: kafka.NoOffset, o: partition.Offsets{
		LogStart: start, LastStable: start, HighWatermark: start, LogEnd: start, Role: meta.RoleMirror, Generation: 1,
	}}
}

// CountOnly makes the partition forget bytes, for measurements.
func (t *Target) CountOnly() *Target {
	t.count = true
	return t
}

func (t *Target) note() {
	if !t.Manual {
		t.o.HighWatermark, t.o.LastStable = t.o.LogEnd, t.o.LogEnd
	}
	if t.open != kafka.NoOffset {
		t.o.LastStable = t.open
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// Offsets reads the marks.
func (t *Target) Offsets() partition.Offsets {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.o
}

// OpenFrom says that a transaction has been open since offset, until a jump ends it.
func (t *Target) OpenFrom(offset kafka.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = offset
	t.note()
}

// Sync moves the high watermark to the end.
func (t *Target) Sync() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.o.HighWatermark, t.o.LastStable = t.o.LogEnd, t.o.LogEnd
	close(t.changed)
	t.changed = make(chan struct{})
}

// Await returns once ok holds of the marks, with false when ctx ends first.
func (t *Target) Await(ctx context.Context, ok func(partition.Offsets) bool) bool {
	for {
		t.mu.Lock()
		o, changed := t.o, t.changed
		t.mu.Unlock()
		if ok(o) {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// AppendMirrored is partition.Partition's.
func (t *Target) AppendMirrored(ctx context.Context, m partition.Mirrored) error {
	t.mu.Lock()
	hold := t.Hold
	t.Appends++
	t.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.FailWith != nil {
		return t.FailWith
	}
	if m.Generation != t.o.Generation || m.FetchedAt != t.o.LogEnd {
		return partition.ErrStale
	}
	fresh, err := t.check(m.Batches)
	if err != nil {
		return err
	}
	for _, b := range fresh {
		t.last = slices.Clone(b[:batch.HeaderSize])
		if !t.count {
			t.batches = append(t.batches, slices.Clone(b))
		}
		t.o.LogEnd, t.o.Size = b.NextOffset(), t.o.Size+int64(len(b))
	}
	t.note()
	return nil
}

func (t *Target) check(bs batch.Batches) ([]batch.Batch, error) {
	end, epoch := t.o.LogEnd, kafka.NoEpoch
	if t.last != nil {
		epoch = t.last.LeaderEpoch()
	}
	var fresh []batch.Batch
	for b, err := range bs.All() {
		if err == nil {
			err = b.CheckCRC()
		}
		switch {
		case err != nil:
			return nil, err
		case b.NextOffset() <= t.o.LogEnd:
			continue
		case b.BaseOffset() < end && (len(fresh) > 0 || t.last != nil && b.BaseOffset() < t.last.NextOffset()):
			return nil, fmt.Errorf("batch [%d, %d] at the log's end %d: %w", b.BaseOffset(), b.LastOffset(), end, partition.ErrOverlap)
		case b.LeaderEpoch() < epoch:
			return nil, fmt.Errorf("batch at %d has epoch %d after %d: %w", b.BaseOffset(), b.LeaderEpoch(), epoch, partition.ErrEpochBack)
		}
		end, epoch = b.NextOffset(), b.LeaderEpoch()
		fresh = append(fresh, b)
	}
	return fresh, nil
}

// FollowLogStart is partition.Partition's.
func (t *Target) FollowLogStart(_ context.Context, generation int64, source kafka.Offset) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation != t.o.Generation {
		return partition.ErrStale
	}
	t.o.LogStart = max(t.o.LogStart, min(source, t.o.HighWatermark))
	t.note()
	return nil
}

// JumpTo is partition.Partition's.
func (t *Target) JumpTo(_ context.Context, generation int64, offset kafka.Offset, keep bool) (int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation != t.o.Generation {
		return 0, partition.ErrStale
	}
	lost := int64(offset - t.o.LogEnd)
	t.o.LogEnd, t.open = offset, kafka.NoOffset
	if !keep {
		t.batches, t.last = nil, nil
		t.o.LogStart = offset
	}
	t.note()
	return lost, nil
}

// TruncateMirror is partition.Partition's.
func (t *Target) TruncateMirror(_ context.Context, generation int64, offset kafka.Offset, _ string) (kafka.Offset, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation != t.o.Generation {
		return kafka.NoOffset, partition.ErrStale
	}
	t.cuts = append(t.cuts, offset)
	t.batches = slices.DeleteFunc(t.batches, func(b batch.Batch) bool { return b.NextOffset() > offset })
	t.last = nil
	if n := len(t.batches); n > 0 {
		t.last = t.batches[n-1][:batch.HeaderSize]
	}
	t.o.LogEnd = min(t.o.LogEnd, offset)
	t.o.HighWatermark, t.o.LastStable = min(t.o.HighWatermark, offset), min(t.o.LastStable, offset)
	t.note()
	return min(offset, t.o.LogEnd), nil
}

// Cuts is the offsets the log was truncated to, in order.
func (t *Target) Cuts() []kafka.Offset {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.cuts)
}

// Epochs is the epoch cache.
func (t *Target) Epochs() []kafka.EpochStart {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []kafka.EpochStart
	for _, b := range t.batches {
		if n := len(list); n == 0 || list[n-1].Epoch != b.LeaderEpoch() {
			list = append(list, kafka.EpochStart{Epoch: b.LeaderEpoch(), Start: b.BaseOffset()})
		}
	}
	for _, starts := range t.refined {
		last := starts[len(starts)-1].Epoch
		if i := slices.IndexFunc(list, func(e kafka.EpochStart) bool { return e.Epoch == last }); i >= 0 {
			list = slices.Concat(list[:i], starts, list[i+1:])
		}
	}
	if t.count && t.last != nil {
		list = append(list, kafka.EpochStart{Epoch: t.last.LeaderEpoch()})
	}
	return list
}

// RefineEpochs is partition.Partition's.
func (t *Target) RefineEpochs(generation int64, starts []kafka.EpochStart) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation != t.o.Generation {
		return partition.ErrStale
	}
	t.refined = append(t.refined, slices.Clone(starts))
	close(t.changed)
	t.changed = make(chan struct{})
	return nil
}

// EpochEnd answers for the largest epoch not above the one asked for.
func (t *Target) EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	epochs := t.Epochs()
	for i := len(epochs) - 1; i >= 0; i-- {
		if epochs[i].Epoch > epoch {
			continue
		}
		if i+1 < len(epochs) {
			return epochs[i].Epoch, epochs[i+1].Start
		}
		return epochs[i].Epoch, t.Offsets().LogEnd
	}
	return kafka.NoEpoch, kafka.NoOffset
}

// LastBatch is the last batch's header.
func (t *Target) LastBatch() (batch.Batch, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.last), nil
}

// Batches is all bytes held.
func (t *Target) Batches() batch.Batches {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all batch.Batches
	for _, b := range t.batches {
		all = append(all, b...)
	}
	return all
}

// AppendCount is how many appends were tried.
func (t *Target) AppendCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Appends
}

// Restart raises the generation, as when the mirror is paused and resumed.
func (t *Target) Restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.o.Generation++
	t.note()
}
