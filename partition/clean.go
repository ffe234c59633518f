package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store"
)

// ErrCleanAborted says that a cleaning was given up because what it stood on has changed: the topic's configs (case
// C37), the partition's role, its log. Nothing is lost; the next one begins anew.
var ErrCleanAborted = errors.New("cleaning was aborted")

// cleanPlainMax bounds one batch's records while they are looked at, in bytes.
const cleanPlainMax = 256 << 20

// Compaction is what one cleaning may take.
type Compaction struct {
	KeyBytes int64           // memory for keys: log.cleaner.dedupe.buffer.size
	Pace     func(bytes int) // told of bytes read and written; may wait. nil for no limit
}

// Compacted is what a cleaning did.
type Compacted struct {
	Passes         int
	Read, Written  int64 // bytes
	Removed        int64 // records
	Swapped        int   // segments made
	Unreadable     int   // batches left as they are because their records cannot be read
	From, To       kafka.Offset
	AbortedDropped int // aborted transactions of which no record is left
}

// CleanedTo is above the highest offset that the cleaner ever used as a newer value (rule T2): a cut below
// it empties the partition.
func (p *Partition) CleanedTo() kafka.Offset {
	if p.Err() != nil {
		return 0
	}
	return p.log.CleanedTo()
}

// Dirt is what the cleaner could go through now, and whether the configs ask for it. Frozen partitions have none (rule R7).
func (p *Partition) Dirt(now time.Time) (d retain.Dirt, worth bool) {
	policy := p.cfg.Load().Retain
	if !policy.Compact || p.Err() != nil {
		return retain.Dirt{}, false
	}
	marks := p.Offsets()
	if marks.Role != meta.RoleOpen && marks.Role != meta.RoleMirror {
		return retain.Dirt{}, false
	}
	stable := marks.LastStable
	if plantCleanedAboveStable {
		stable = marks.HighWatermark
	}
	d = policy.Dirt(p.segments(), p.log.DirtyFrom(), stable, now.UnixMilli())
	return d, policy.Worth(d)
}

// cleaning is one cleaning under way.
type cleaning struct {
	p          *Partition
	ctx        context.Context
	with       Compaction
	nowMs      int64
	policy     retain.Policy
	generation int64
	facts      retain.Facts
	done       Compacted
}

// Compact goes through the partition's dirty segments (Dirt) and removes what newer records of the same keys, expired
// tombstones and aborted transactions leave without use, on mirrors too. Offsets, the log's end, the epoch
// cache and producers' last sequences stay. Appends, reads and orders go on beside it; it holds them up only while it
// swaps a segment. One at a time runs per partition. An error that wraps ErrCleanAborted or the context's says that it was given up.
func (p *Partition) Compact(ctx context.Context, now time.Time, with Compaction) (Compacted, error) {
	p.cleaning.Lock()
	defer p.cleaning.Unlock()
	if with.Pace == nil {
		with.Pace = func(int) {}
	}
	c := &cleaning{p: p, ctx: ctx, with: with, nowMs: now.UnixMilli(), policy: p.cfg.Load().Retain}
	dirt, _ := p.Dirt(now)
	c.done.From, c.done.To = dirt.From, dirt.From
	if dirt.DirtyBytes == 0 {
		return c.done, nil
	}
	c.generation = p.Entry().Generation
	for from := dirt.From; from < dirt.To; from = c.done.To {
		if err := c.pass(from, dirt.To); err != nil {
			return c.done, fmt.Errorf("compact partition %s: %w", p.name, err)
		}
		c.done.Passes++
	}
	return c.done, nil
}

// check says why the cleaning must be given up, nil if it can go on.
func (c *cleaning) check() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if err := c.p.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrCleanAborted, err)
	}
	if c.p.cfg.Load().Retain != c.policy {
		return fmt.Errorf("%w: the topic's configs changed", ErrCleanAborted)
	}
	if c.p.Entry().Generation != c.generation {
		return fmt.Errorf("%w: the partition changed", ErrCleanAborted)
	}
	return nil
}

// alone runs a short step while no order can run, if the cleaning still stands.
func (c *cleaning) alone(step func() error) error {
	if err := c.p.lockOrder(c.ctx); err != nil {
		return err
	}
	defer c.p.unlockOrder()
	if c.p.unsettled.Load() {
		return fmt.Errorf("%w: an order is not finished", ErrCleanAborted)
	}
	if err := c.check(); err != nil {
		return err
	}
	return step()
}

// pass learns as many keys of [from, to) as fit, and goes through the log with them.
func (c *cleaning) pass(from, to kafka.Offset) error {
	p := c.p
	if err := c.alone(c.gatherFacts); err != nil {
		return err
	}
	f := retain.NewFilter(c.facts, from)
	if err := c.learn(f, from, to); err != nil {
		return err
	}
	if f.To() <= from {
		return fmt.Errorf("no batch was found in [%d, %d)", from, to)
	}
	used, err := c.used(f)
	if err != nil {
		return err
	}
	if err := c.alone(func() error { return p.log.BeginCleaning(used) }); err != nil {
		return err
	}
	segments := p.segments()
	n := slices.IndexFunc(segments, func(s retain.Segment) bool { return s.Base >= f.To() })
	if n < 0 || segments[n-1].Next > to {
		return fmt.Errorf("%w: the log was cut", ErrCleanAborted)
	}
	bounds := retain.Bounds{Bytes: p.cfg.Load().Log.SegmentBytes, Offsets: math.MaxInt32}
	for _, group := range retain.Groups(segments[:n], bounds) {
		if err := c.rewrite(f, group); err != nil {
			return err
		}
	}
	c.done.Removed += f.Removed
	c.done.Unreadable += f.Unreadable
	if err := c.alone(func() error { return c.finish(f.To()) }); err != nil {
		return err
	}
	c.done.To = f.To()
	return nil
}

// gatherFacts needs order.
func (c *cleaning) gatherFacts() error {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	c.facts = retain.Facts{
		Producers: make(map[kafka.ProducerID]retain.Last, len(p.derived.byID)),
		NowMs:     c.nowMs, DeleteRetentionMs: c.policy.DeleteRetentionMs,
		KeyBytes: c.with.KeyBytes, PlainMax: cleanPlainMax,
	}
	for id, s := range p.derived.byID {
		last := retain.Last{Offset: kafka.NoOffset, Epoch: s.epoch}
		if s.n > 0 {
			last.Offset = s.kept[s.n-1].lastOffset
		}
		c.facts.Producers[id] = last
	}
	for _, a := range p.derived.aborted {
		c.facts.Aborted = append(c.facts.Aborted, retain.Aborted{Producer: a.id, First: a.first, Last: a.last})
	}
	return nil
}

var errLearned = errors.New("enough was learned")

func (c *cleaning) learn(f *retain.Filter, from, to kafka.Offset) error {
	err := c.p.log.Scan(from, false, func(b batch.Batch) error {
		if err := c.check(); err != nil {
			return err
		}
		if b.BaseOffset() >= to {
			return errLearned
		}
		if err := b.CheckCRC(); err != nil {
			return err
		}
		c.with.Pace(len(b))
		if !f.Learn(b) {
			return errLearned
		}
		return nil
	})
	switch {
	case err == nil || errors.Is(err, errLearned):
		return nil
	case errors.Is(err, commitlog.ErrOutOfRange):
		return fmt.Errorf("%w: the log start moved: %w", ErrCleanAborted, err)
	}
	return err
}

// used is above the highest offset that this pass relies on: of what it learned, and of the markers that decide the transactions which
// reach past it. Were the log cut between the two, such a transaction might end otherwise (rule T2). Such a marker may lie above the last
// stable offset, behind the first record of a transaction that is open still.
func (c *cleaning) used(f *retain.Filter) (kafka.Offset, error) {
	used, open := f.To(), f.Undecided()
	if plantMarkersNotUsed {
		return used, nil
	}
	for id, last := range open {
		if last != kafka.NoOffset {
			used = max(used, last+1)
			delete(open, id)
		}
	}
	if len(open) == 0 {
		return used, nil
	}
	err := c.p.log.Scan(f.To(), true, func(b batch.Batch) error {
		if err := c.check(); err != nil {
			return err
		}
		used = max(used, b.NextOffset())
		if b.IsControl() {
			delete(open, b.ProducerID())
		}
		if len(open) > 0 {
			return nil
		}
		return errLearned
	})
	switch {
	case err == nil || errors.Is(err, errLearned):
		return used, nil
	case errors.Is(err, commitlog.ErrOutOfRange):
		return 0, fmt.Errorf("%w: the log start moved: %w", ErrCleanAborted, err)
	}
	return 0, err
}

// rewrite makes one segment of a group and swaps it in.
func (c *cleaning) rewrite(f *retain.Filter, group []retain.Segment) error {
	bases := make([]kafka.Offset, len(group))
	for i, s := range group {
		bases[i] = s.Base
	}
	r, err := c.p.log.Rewrite(bases, func(b batch.Batch, last bool) (batch.Batch, error) {
		if err := c.check(); err != nil {
			return nil, err
		}
		place := retain.Inside
		if last {
			place = retain.EndsSegment
		}
		out, err := f.Batch(b, place)
		c.with.Pace(len(b) + len(out))
		return out, err
	})
	if errors.Is(err, commitlog.ErrReplaced) {
		return fmt.Errorf("%w: %w", ErrCleanAborted, err)
	}
	if err != nil {
		return err
	}
	c.done.Read += r.Read
	c.done.Written += r.Written
	if !r.Changed {
		return r.Drop()
	}
	err = c.alone(r.Swap)
	switch {
	case err == nil:
		c.done.Swapped++
		return nil
	case errors.Is(err, commitlog.ErrReplaced):
		return fmt.Errorf("%w: %w", ErrCleanAborted, err)
	case errors.Is(err, store.ErrFailed):
		failed := c.p.storageError("swap a cleaned segment", err)
		c.p.fail(failed)
		return failed
	}
	return errors.Join(err, r.Drop())
}

// finish notes what was cleaned. Aborted transactions below to have no record left: readers need not be told
// of them. That must be on disk before their markers may go, which is for a later cleaning (Facts.Aborted). It needs order.
func (c *cleaning) finish(to kafka.Offset) error {
	p := c.p
	p.syncing.Lock()
	defer p.syncing.Unlock()
	p.mu.Lock()
	kept := make(abortedIndex, 0, len(p.derived.aborted))
	for _, a := range p.derived.aborted {
		if a.last >= to {
			kept = append(kept, a)
		}
	}
	dropped := len(p.derived.aborted) - len(kept)
	p.derived.aborted = kept
	p.marks.mu.Lock()
	p.marks.aborted = kept
	p.marks.mu.Unlock()
	end, content := p.derived.end, p.derived.encode()
	p.mu.Unlock()
	if dropped > 0 {
		c.done.AbortedDropped += dropped
		if err := p.replaceSnapshots(end, content); err != nil {
			return err
		}
	}
	return p.log.EndCleaning(to)
}

// replaceSnapshots stores a snapshot and removes all others, durably.
func (p *Partition) replaceSnapshots(end kafka.Offset, content []byte) error {
	if err := p.saveSnapshot(end, content); err != nil {
		return err
	}
	ends, err := p.snapshots()
	if err != nil {
		return err
	}
	for _, at := range ends {
		if at == end {
			continue
		}
		if err := p.log.Dir().Remove(snapshotName(at)); err != nil {
			return p.storageError("remove a producer snapshot", err)
		}
	}
	if err := p.log.Dir().SyncDir(); err != nil {
		return p.storageError("remove producer snapshots", err)
	}
	return nil
}
