package fetcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/partition"
)

// startRepair compares a partition's history with the source's beside the loops, so that its
// questions hold up nobody; at most repairsAtOnce run at a time. Then the partition is steer's.
func (p *Pool) startRepair(q *part) {
	p.wg.Go(func() {
		if !q.rest() {
			return
		}
		select {
		case p.repair <- struct{}{}:
			defer func() { <-p.repair }()
		case <-q.ctx.Done():
			return
		}
		q.align()
		if q.short == 1 && q.rest() {
			// Seen once: it is looked at again before anything is fetched, or what has grown past the mirror meanwhile would go unproven.
			q.align()
		}
		if q.ctx.Err() == nil {
			p.lose(q)
		}
	})
}

// rest waits until the partition may be looked at; it reports false when it was dropped.
func (q *part) rest() bool {
	if wait := time.Until(q.notBefore); wait > 0 {
		select {
		case <-time.After(wait):
		case <-q.ctx.Done():
		}
	}
	return q.ctx.Err() == nil
}

// align finds out where the mirror stands in the source's history and sets it right: it jumps over what the source
// removed, cuts what the source lost, or shows a fault that neither explains.
func (q *part) align() {
	f, err := q.gather()
	if err != nil {
		q.wait(q.pool.cfg.Load().Backoff)
		if fault := q.patient(faultOf(err)); fault != NoFault {
			q.show(fault, fmt.Errorf("compare the history of source partition %s with the mirror's: %w", q.Source, err))
		}
		return
	}
	v := plan.Align(f)
	if v.Course == plan.Jump || v.Course == plan.Truncate {
		if f, v, err = q.lookTwice(f, v); err != nil {
			q.wait(q.pool.cfg.Load().Backoff)
			return
		}
	}
	switch v.Course {
	case plan.GoOn:
		q.splice.Store(v.Prove)
		q.aligned, q.short = !v.Prove, 0
		q.noEpoch, q.reread = v.Unnamed, v.Reread
		q.wait(q.pool.cfg.Load().Backoff) // if this comes again at once it is not as simple as that
	case plan.LookAgain:
		q.splice.Store(q.splice.Load() || v.Prove)
		q.wait(q.pool.cfg.Load().Backoff)
	case plan.Jump:
		q.jump(f, v)
	case plan.Truncate:
		q.truncate(f, v)
	case plan.Blame:
		q.blame(v)
	}
}

// lookTwice compares the histories once more, before the mirror jumps or is cut: one wrong answer must do neither.
func (q *part) lookTwice(f plan.Histories, v plan.Aligned) (plan.Histories, plan.Aligned, error) {
	g, err := q.gather()
	if err != nil {
		return g, v, err
	}
	w := plan.Align(g)
	if w.Course != v.Course || w.Course == plan.Truncate && w.To != v.To {
		return g, plan.Aligned{Course: plan.LookAgain, Prove: v.Prove}, nil
	}
	w.To = min(w.To, v.To) // what was removed in between is found by the next look
	return g, w, nil
}

// gather asks both sides.
func (q *part) gather() (plan.Histories, error) {
	f := plan.Histories{Doubt: q.doubt, Source: q.Source, Known: !q.SourceID.IsZero() || !q.topicID.IsZero()}
	leaders, err := q.pool.src.Leaders(q.ctx, q.Source.Topic, true)
	leader, _, err := q.choose(leaders, err)
	if err != nil {
		return f, err
	}
	f.SourceEpoch = leader.Epoch
	o := q.Target.Offsets()
	f.CutUnder, f.CutTo = q.cutUnder, q.cutTo
	f.Generation, f.MirrorStart, f.MirrorEnd, f.Open = o.Generation, o.LogStart, o.LogEnd, o.LastStable < o.LogEnd
	if f.SourceStart, err = q.pool.src.ListOffset(q.ctx, q.Source, -2); err != nil {
		return f, err
	}
	if f.SourceEnd, err = q.pool.src.ListOffset(q.ctx, q.Source, -1); err != nil {
		return f, err
	}
	if f.Doubt == plan.DoubtOpen {
		if f.SourceStable, err = q.pool.src.LastStable(q.ctx, q.Source); err != nil {
			return f, err
		}
	}
	epochs := q.Target.Epochs()
	if f.Empty = o.LogStart == o.LogEnd || len(epochs) == 0; f.Empty || f.SourceStart > f.MirrorEnd {
		return f, nil
	}
	f.MirrorEpoch = epochs[len(epochs)-1].Epoch
	last, err := q.Target.LastBatch()
	if err != nil || last == nil {
		return f, errors.Join(err, partition.ErrStale)
	}
	f.LastBase = last.BaseOffset()
	// The source is asked for its end of one epoch after another.
	err = plan.FindShared(&f, q.Target, func(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error) {
		return q.pool.src.EpochEnd(q.ctx, q.Source, leader.Epoch, epoch)
	})
	return f, err
}

// jump goes on at the source's log start (case C03), or at the mirror's own end where only transactions are to end (rule D5).
func (q *part) jump(f plan.Histories, v plan.Aligned) {
	to, keep := v.To, v.Keep || q.pool.cfg.Load().KeepHoles
	var lost int64
	err := q.target(func() (err error) {
		lost, err = q.Target.JumpTo(q.ctx, f.Generation, to, keep)
		return err
	})
	if q.targetFailed(err, fmt.Sprintf("go on at %d", to)) {
		return
	}
	q.splice.Store(true)
	q.last.known, q.noEpoch = false, true
	q.mu.Lock()
	q.status.LostRecords += lost
	q.mu.Unlock()
	if lost == 0 { // only transactions were ended
		q.well()
		return
	}
	q.pool.tell(Event{Mirror: q.Mirror, Kind: "lost", From: f.MirrorEnd, To: to,
		Err: fmt.Errorf("the source removed offsets %d to %d of %s before they were mirrored: %d are lost", f.MirrorEnd, to-1, q.Source, lost)})
	q.well()
}

// truncate cuts what the source lost (rule E2, case C05).
func (q *part) truncate(f plan.Histories, v plan.Aligned) {
	var kept kafka.Offset
	err := q.target(func() (err error) {
		kept, err = q.Target.TruncateMirror(q.ctx, f.Generation, v.To, v.Why.Error())
		return err
	})
	if q.targetFailed(err, fmt.Sprintf("truncate to %d", v.To)) {
		return
	}
	q.splice.Store(true)
	q.last.known, q.short = false, 0
	q.cutUnder, q.cutTo = f.SourceEpoch, v.To
	q.pool.tell(Event{Mirror: q.Mirror, Kind: "truncated", From: f.MirrorEnd, To: kept, Epoch: f.SourceEpoch, Err: v.Why})
	q.well()
}

// blame shows what the histories do not explain, at once or the second time it is seen.
func (q *part) blame(v plan.Aligned) {
	if v.Twice {
		if q.short++; q.short < 2 {
			q.notBefore = time.Now().Add(q.pool.cfg.Load().Backoff)
			return
		}
	}
	q.splice.Store(true) // a source that is tried again may have grown past the mirror meanwhile (rule E6)
	if v.Twice {
		q.wait(stuckWait)
		q.show(Fault(v.Fault), v.Why)
		return
	}
	q.fail(Fault(v.Fault), v.Why, stuckWait)
}

// targetFailed shows why the mirror could not be changed. A stale order is none: the next look finds the mirror as it is then.
func (q *part) targetFailed(err error, order string) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, context.Canceled):
	case errors.Is(err, partition.ErrStale):
		q.wait(q.pool.cfg.Load().Backoff)
	default:
		q.fail(targetFault(err), fmt.Errorf("%s: %s: %w", q.Mirror, order, err), stuckWait)
	}
	return true
}
