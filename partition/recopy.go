package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// A copy of a mirror partition is a partition of its own, under an id that no topic has: it is fetched, synced, cut and recovered as
// any mirror is. SwapCopy puts its log in the place of the mirror's: what decides is the mirror's stored entry, which names the log's
// home. Before it is stored the mirror has its old log, from then on the copy's, whatever crashes.

// ErrCopyNotReady says that a copy cannot take the mirror's place yet: it lacks what the mirror holds, or
// the mirror is being cleaned. Nothing has changed; try again.
var ErrCopyNotReady error = kafka.Errorf(kafka.LeaderNotAvailable, "the copy cannot take the mirror's place yet")

// swapPatience is how long a mirror takes no records while its copy reaches its end.
const swapPatience = 500 * time.Millisecond

// newLog is the log of a copy, with the producers' state, out of the copy's hands.
type newLog struct {
	at      kafka.PartitionID
	log     *commitlog.Log
	derived *derived
	unsaved int64
}

// OpenCopy opens the partition of a copy beside the mirror's, or makes it. entry is the copy's. It may be called again, also after a
// SwapCopy that failed.
func (o *Owner) OpenCopy(id kafka.PartitionID, copied kafka.TopicID, entry meta.Partition) error {
	of := o.Get(id)
	if of == nil {
		return kafka.Errorf(kafka.NotLeaderForPartition, "Partition %s is not open here.", id)
	}
	at := kafka.PartitionID{Topic: copied, Partition: id.Partition}
	defer o.changing(copied)()
	if old := o.Get(at); old != nil {
		if old.Err() == nil {
			return nil
		}
		_ = old.close(old.Err()) // it failed before, and says so
	}
	p := o.closedPartition(at, of.name.Topic+" (copy)", of.cfg.Load(), entry)
	o.openAll([]*Partition{p})
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errors.New("open a copy: the owner is closed")
	}
	o.partitions[at] = p
	return p.Err()
}

// SwapCopy puts a copy, which has all that the mirror has, in the mirror's place, durably and in one step; readers of the mirror go on
// at their offsets. The copy is open no more afterwards, also where it fails. The mirror's old log is removed. It is
// repeatable. ErrCopyNotReady, ErrStale if the partition is no mirror any more.
func (o *Owner) SwapCopy(ctx context.Context, id kafka.PartitionID, copied kafka.TopicID) error {
	p, c := o.Get(id), o.Get(kafka.PartitionID{Topic: copied, Partition: id.Partition})
	if p == nil {
		return kafka.Errorf(kafka.NotLeaderForPartition, "Partition %s is not open here.", id)
	}
	if !p.cleaning.TryLock() {
		return ErrCopyNotReady
	}
	defer p.cleaning.Unlock()
	if err := p.lockOrder(ctx); err != nil {
		return err
	}
	defer p.unlockOrder()
	err := (&order{p: p}).begin()
	switch {
	case err != nil || p.Entry().Home == copied:
	case c == nil:
		err = ErrCopyNotReady
	default:
		err = p.swapCopy(ctx, c)
	}
	if p.Err() == nil && !p.unsettled.Load() {
		p.reopen()
		p.removeLeft()
	}
	return err
}

// swapCopy needs order, with both ways in shut and everything synced.
func (p *Partition) swapCopy(ctx context.Context, c *Partition) error {
	was, end := p.Entry(), p.Offsets().LogEnd
	if was.Role != meta.RoleMirror || was.Left != nil {
		return ErrStale
	}
	if err := c.reach(ctx, end); err != nil {
		return err
	}
	if err := p.continuedBy(c); err != nil {
		return err
	}
	in, err := c.handOver()
	if err != nil {
		return err
	}
	taken := c.Entry()
	if at := c.Offsets(); taken.Role != meta.RoleMirror || taken.Cutting != nil || at.HighWatermark < end || at.LogStart > end {
		return errors.Join(ErrCopyNotReady, in.log.Close())
	}
	p.taking = in
	now := &change{p: p, mutate: func(now meta.Partition) (meta.Partition, error) {
		if now.Role != meta.RoleMirror || now.Generation != was.Generation {
			return now, ErrStale
		}
		home := now.LogID(p.id).Topic
		now.Left, now.Home = &home, c.id.Topic
		now.Generation++
		now.Epoch = max(now.Epoch, taken.Epoch)
		now.Jumps = slices.Clone(taken.Jumps)
		return now, nil
	}}
	p.owner.storer.store([]*change{now})
	switch {
	case now.err != nil && now.unsure:
		p.leaveUnsettled()
		return now.err
	case now.err != nil:
		return errors.Join(now.err, p.dropTaking())
	}
	if err := p.settle(); err != nil {
		return err
	}
	p.owner.cfg.Logger.Info("a mirror's new copy took its place",
		"topic", p.name.Topic, "partition", p.name.Partition, "offset", end, "log", p.at.String())
	return nil
}

// continuedBy looks whether a copy has the mirror's last batch in its history, and so all below it: the copy may have
// learned first that the source lost records in an unclean election. Then the mirror is cut, with a higher epoch (rule
// E2), and not exchanged for something else. Where a cleaner has taken that batch away, the next one must be of its
// epoch: before one of another, the two may have parted.
func (p *Partition) continuedBy(c *Partition) error {
	last, err := p.LastBatch()
	if err != nil || last == nil {
		return err
	}
	next, err := c.headerAt(last.BaseOffset())
	if err != nil {
		return err
	}
	if !plantSwapUnproven && (next == nil || next.LeaderEpoch() != last.LeaderEpoch()) {
		return ErrCopyNotReady
	}
	return nil
}

// reach waits a little until the copy holds all below end, synced.
func (p *Partition) reach(ctx context.Context, end kafka.Offset) error {
	ctx, cancel := context.WithTimeout(ctx, swapPatience)
	defer cancel()
	w := NewWaiter()
	p.Watch(w)
	defer p.Unwatch(w)
	for {
		if err := p.Err(); err != nil {
			return err
		}
		if p.Offsets().HighWatermark >= end {
			return nil
		}
		select {
		case <-w.C:
		case <-ctx.Done():
			return ErrCopyNotReady
		}
	}
}

// handOver takes a copy out of service and gives its log away, synced.
func (p *Partition) handOver() (*newLog, error) {
	if p.unsettled.Load() {
		return nil, ErrCopyNotReady
	}
	in := &newLog{at: p.at, log: p.log}
	var err error
	p.retire(kafka.Errorf(kafka.NotLeaderForPartition, "The copy took the place of the mirror."), func() {
		_, err = p.log.Sync()
		in.derived, in.unsaved = p.derived, p.unsaved
		p.derived = nil
	})
	p.owner.mu.Lock()
	if p.owner.partitions[p.id] == p {
		delete(p.owner.partitions, p.id)
	}
	p.owner.mu.Unlock()
	if err == nil && in.derived == nil {
		err = errors.New("it has no producers' state")
	}
	if err != nil {
		return nil, errors.Join(p.storageError("hand over the copy", err), p.log.Close())
	}
	return in, nil
}

// dropTaking closes a log that did not take this one's place. It needs order.
func (p *Partition) dropTaking() error {
	in := p.taking
	if p.taking = nil; in == nil {
		return nil
	}
	return in.log.Close()
}

// moveHome makes log what the entry says is the partition's. It needs order, syncing and mu.
func (p *Partition) moveHome(entry meta.Partition) error {
	at := entry.LogID(p.id)
	if at == p.at {
		if err := p.dropTaking(); err != nil {
			p.owner.cfg.Logger.Warn("could not close a copy", "topic", p.name.Topic, "partition", p.name.Partition, "error", err)
		}
		return nil
	}
	in := p.taking
	if in == nil || in.at != at {
		dir, err := p.owner.store.Dir(at)
		if err != nil {
			return p.storageError("open the directory", err)
		}
		log, _, err := commitlog.Open(dir, p.cfg.Load().Log)
		if err != nil {
			return p.storageError("open the copy", err)
		}
		in = &newLog{at: at, log: log}
	}
	end := in.log.EndOffset()
	if n := len(entry.Jumps); n > 0 {
		end = max(end, entry.Jumps[n-1].To)
	}
	if end < p.end() {
		return p.storageError("take over the copy", fmt.Errorf("it ends at offset %d, the mirror at %d", end, p.end()))
	}
	if start := p.log.StartOffset(); in.log.StartOffset() < start {
		if err := in.log.SetStart(min(start, in.log.EndOffset())); err != nil {
			return p.storageError("move the copy's log start", err)
		}
	}
	in.log.Configure(p.cfg.Load().Log)
	if err := p.log.TakeOver(in.log); err != nil {
		return p.storageError("take over the copy", err)
	}
	p.at, p.taking = at, nil
	p.derived, p.unsaved = in.derived, in.unsaved
	return nil
}

// removeLeft removes the log that a copy took the place of, and notes that it is gone. It needs order; what fails is done by the next Open.
func (p *Partition) removeLeft() {
	left := p.Entry().Left
	if left == nil || *left == p.at.Topic {
		return
	}
	err := p.owner.store.Remove(kafka.PartitionID{Topic: *left, Partition: p.id.Partition})
	if err == nil {
		gone := &change{p: p, mutate: func(now meta.Partition) (meta.Partition, error) {
			now.Left = nil
			return now, nil
		}}
		p.owner.storer.store([]*change{gone})
		err = gone.err
	}
	if err != nil {
		p.owner.cfg.Logger.Warn("the log that a copy took the place of stays until the next start",
			"topic", p.name.Topic, "partition", p.name.Partition, "error", err)
	}
}

// homes are all ids under which the store may keep something of the partition.
func (p *Partition) homes() []kafka.PartitionID {
	entry := p.Entry()
	ids := []kafka.PartitionID{p.id, entry.LogID(p.id)}
	if entry.Left != nil {
		ids = append(ids, kafka.PartitionID{Topic: *entry.Left, Partition: p.id.Partition})
	}
	slices.SortFunc(ids, func(a, b kafka.PartitionID) int { return slices.Compare(a.Topic[:], b.Topic[:]) })
	return slices.Compact(ids)
}

// DropCopy closes a topic's copy and removes it, but for partitions whose places it has taken. It is repeatable, also after
// the topic is gone.
func (o *Owner) DropCopy(ctx context.Context, topic, copied kafka.TopicID, partitions int32) error {
	for n := range partitions {
		if err := o.dropCopy(ctx, kafka.PartitionID{Topic: topic, Partition: n}, copied); err != nil {
			return fmt.Errorf("drop the copy of partition %d: %w", n, err)
		}
	}
	return nil
}

func (o *Owner) dropCopy(ctx context.Context, id kafka.PartitionID, copied kafka.TopicID) error {
	if p := o.Get(id); p != nil {
		if err := p.lockOrder(ctx); err != nil {
			return err
		}
		defer p.unlockOrder()
		if p.unsettled.Load() {
			return kafka.Errorf(kafka.LeaderNotAvailable, "An order on partition %s is not finished.", p.name)
		}
		if p.Entry().Home == copied {
			return nil
		}
	}
	defer o.changing(copied)()
	at := kafka.PartitionID{Topic: copied, Partition: id.Partition}
	o.mu.Lock()
	c := o.partitions[at]
	delete(o.partitions, at)
	o.mu.Unlock()
	if c != nil {
		c.discard(kafka.Errorf(kafka.UnknownTopicOrPartition, "The copy was dropped."))
	}
	return o.removeDirs([]kafka.PartitionID{at})
}
