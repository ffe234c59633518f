package partition

import (
	"context"
	"errors"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

// jumpsMax bounds the holes an entry remembers.
const jumpsMax = 256

// JumpTo is for a source that has removed what the mirror has not got yet: the mirror goes on at offset,
// which is at least LogEnd. With keep the older records stay and the gap is a hole; else the log is emptied
// and starts there. Open transactions end as aborted in the index (rule D5), without a byte written: also where offset is LogEnd and
// nothing is passed over. lost is the number of offsets passed over.
func (p *Partition) JumpTo(ctx context.Context, generation int64, offset kafka.Offset, keep bool) (lost int64, err error) {
	var from, start kafka.Offset
	var ended int
	w := &order{p: p, prepare: func() error {
		if err := p.checkMirrorGeneration(generation); err != nil {
			return err
		}
		p.mu.Lock()
		ended = len(p.derived.open)
		p.mu.Unlock()
		marks := p.Offsets()
		from, start = marks.LogEnd, marks.LogStart
		switch {
		case offset < from:
			return kafka.Errorf(kafka.InvalidRequest, "Partition %s ends at %d and cannot jump back to %d.", p.name, from, offset)
		case offset == from && ended == 0 && (keep || start == from):
			return errSettled
		}
		return nil
	}}
	w.mutate = func(now meta.Partition) (meta.Partition, error) {
		if now.Generation != generation || now.Role != meta.RoleMirror {
			return now, ErrStale
		}
		now.Generation++
		jumps := make([]meta.Jump, 0, len(now.Jumps)+1)
		for _, j := range now.Jumps {
			if keep && j.To > start {
				jumps = append(jumps, j)
			}
		}
		now.Jumps = append(jumps, meta.Jump{From: from, To: offset, Reset: !keep})
		now.Jumps = now.Jumps[max(0, len(now.Jumps)-jumpsMax):]
		return now, nil
	}
	if err := p.owner.carryOut(ctx, []*order{w}); err != nil {
		return 0, err
	}
	lost = int64(offset - from)
	if lost > 0 {
		p.owner.cfg.Logger.Warn("the source removed records before they were mirrored",
			"topic", p.name.Topic, "partition", p.name.Partition,
			"from", from, "to", offset, "lost", lost, "transactions_ended", ended)
	}
	return lost, nil
}

func (p *Partition) checkMirrorGeneration(generation int64) error {
	entry := p.Entry()
	if entry.Role != meta.RoleMirror || entry.Generation != generation {
		return ErrStale
	}
	return nil
}

// TruncateMirror cuts a mirror's log to offset because its source diverged: it stores a
// strictly greater published epoch first (rule E2), then cuts and wakes readers. The cut is at the
// end of the last batch that ends at or below offset, kept. A cut below the log start empties the log, and so does one below what the
// cleaner used (rule T2); kept is the same then, and what lies below it comes again as it was.
func (p *Partition) TruncateMirror(ctx context.Context, generation int64, offset kafka.Offset,
	reason string) (kept kafka.Offset, err error) {
	c := cut{kept: offset}
	w := &order{p: p, prepare: func() (err error) {
		if err = p.checkMirrorGeneration(generation); err == nil {
			c, err = p.planCut(offset)
		}
		return err
	}}
	w.mutate = func(now meta.Partition) (meta.Partition, error) {
		if now.Generation != generation || now.Role != meta.RoleMirror {
			return now, ErrStale
		}
		return c.apply(now), nil
	}
	if err := p.owner.carryOut(ctx, []*order{w}); err != nil {
		return kafka.NoOffset, err
	}
	if c.at < c.logEnd {
		p.owner.cfg.Logger.Warn("cut a mirror because its source diverged", "topic", p.name.Topic, "partition", p.name.Partition,
			"from", c.logEnd, "to", c.at, "last_epoch", c.entry.Last, "removed_epochs", c.entry.Dead, "full_copy", c.whole,
			"reason", reason)
	}
	return c.kept, nil
}

// cut is a truncation that is planned.
type cut struct {
	at      kafka.Offset // exclusive end of what stays
	kept    kafka.Offset // the same before whole; at most the offset asked for
	logEnd  kafka.Offset // before it
	visible bool         // readers may have seen what goes
	whole   bool         // the cleaner used what goes: the partition is emptied
	last    kafka.LeaderEpoch
	entry   meta.Cut
}

// planCut looks where a cut to offset falls. Both ways in are shut.
func (p *Partition) planCut(offset kafka.Offset) (cut, error) {
	marks := p.Offsets()
	if offset >= marks.LogEnd {
		return cut{kept: marks.LogEnd}, errSettled
	}
	if offset < 0 {
		return cut{}, kafka.Errorf(kafka.InvalidRequest, "Partition %s cannot be cut to offset %d.", p.name, offset)
	}
	c := cut{at: offset, logEnd: marks.LogEnd, visible: offset < marks.HighWatermark, last: p.log.LastEpoch()}
	if c.at > marks.LogStart {
		var err error
		if c.at, err = p.endBelow(c.at); err != nil {
			return cut{}, p.storageError("find the place of a cut", err)
		}
	}
	c.kept = c.at
	if c.at < p.log.CleanedTo() && !plantCleanedMirrorCut {
		// What was compacted away for the sake of a record that goes now would be missing: copy all again (rule T2).
		c.at, c.whole = 0, true
	}
	c.entry = meta.Cut{Offset: c.at, Last: kafka.NoEpoch, Dead: deadEpochs(p.log.Epochs(), c.at), AtMs: p.now().UnixMilli()}
	if c.at > marks.LogStart {
		c.entry.Last = p.log.EpochAt(c.at - 1)
	}
	return c, nil
}

// endBelow is the end of the last batch that ends at or below the offset, or the log start. It looks
// back further and further, so that a long log is not read whole.
func (p *Partition) endBelow(offset kafka.Offset) (kafka.Offset, error) {
	start, end := p.log.StartOffset(), kafka.NoOffset
	for back := kafka.Offset(64); ; back *= 16 {
		from := max(start, offset-back)
		if from < p.log.EndOffset() {
			err := p.log.Scan(from, true, func(b batch.Batch) error {
				if b.NextOffset() > offset {
					return errSettled // far enough
				}
				end = b.NextOffset()
				return nil
			})
			if err != nil && !errors.Is(err, errSettled) {
				return 0, err
			}
		}
		if end >= 0 || from == start {
			return max(end, start), nil
		}
	}
}

// apply writes the cut into an entry: the raise and the mark that it is to be done.
func (c cut) apply(now meta.Partition) meta.Partition {
	now.Generation++
	at := c.at
	now.Cutting = &at
	if c.visible && !plantEpochNotRaised {
		now.Epoch = max(now.Epoch, c.last) + 1
	}
	if c.visible {
		now.Truncations++
		now.Cuts = addCut(now.Cuts, c.entry)
	}
	var jumps []meta.Jump
	for _, j := range now.Jumps {
		if j.To <= c.at {
			jumps = append(jumps, j)
		}
	}
	now.Jumps = jumps
	var lineage []meta.Lineage
	for _, l := range now.Lineage {
		if l.Start < c.at {
			lineage = append(lineage, l)
		}
	}
	now.Lineage = lineage
	return now
}

// BecomeMirror stores the mirror role for a new, empty topic's partition that starts at offset start.
func (p *Partition) BecomeMirror(ctx context.Context, start kafka.Offset) error {
	w := &order{p: p, prepare: func() error {
		marks, entry := p.Offsets(), p.Entry()
		switch {
		case start < 0:
			return kafka.Errorf(kafka.InvalidRequest, "Partition %s cannot start at offset %d.", p.name, start)
		case marks.LogStart == start && marks.LogEnd == start && entry.Role == meta.RoleMirror:
			return errSettled
		case marks.LogStart != marks.LogEnd || p.log.Size() > 0:
			return kafka.Errorf(kafka.InvalidRequest, "Partition %s holds records and cannot become a new mirror.", p.name)
		case marks.LogEnd > start:
			return kafka.Errorf(kafka.InvalidRequest, "Partition %s starts at offset %d already, above %d.", p.name, marks.LogEnd, start)
		}
		return nil
	}}
	w.mutate = func(now meta.Partition) (meta.Partition, error) {
		now.Role = meta.RoleMirror
		now.Generation++
		now.Stop, now.Frozen, now.Jumps = nil, nil, nil
		if start > 0 {
			now.Jumps = []meta.Jump{{To: start, Reset: true}}
		}
		return now, nil
	}
	return p.owner.carryOut(ctx, []*order{w})
}
