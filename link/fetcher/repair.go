package fetcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/partition"
)

// startRepair compares a partition's history with the source's beside the loops, so that its
// questions hold up nobody; at most repairsAtOnce run at a time. Then the partition is steer's.
func (p *Pool) startRepair(q *part) {
	p.wg.Go(func() {
		if wait := time.Until(q.notBefore); wait > 0 {
			select {
			case <-time.After(wait):
			case <-q.ctx.Done():
				return
			}
		}
		select {
		case p.repair <- struct{}{}:
			defer func() { <-p.repair }()
		case <-q.ctx.Done():
			return
		}
		q.align()
		if q.ctx.Err() == nil {
			p.lose(q)
		}
	})
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
	switch v := judge(f); v.act {
	case goOn:
		q.splice, q.aligned, q.short = false, true, 0
		q.noEpoch = f.forgotten
		q.wait(q.pool.cfg.Load().Backoff) // if this comes again at once it is not as simple as that
	case lookAgain:
		q.wait(q.pool.cfg.Load().Backoff)
	case jump:
		q.jump(f)
	case truncate:
		q.truncate(f, v)
	case blame:
		q.blame(f, v)
	}
}

// gather asks both sides.
func (q *part) gather() (facts, error) {
	f := facts{doubt: q.doubt, source: q.Source, known: !q.SourceID.IsZero() || !q.topicID.IsZero()}
	leaders, err := q.pool.src.Leaders(q.ctx, q.Source.Topic, true)
	leader, _, err := q.choose(leaders, err)
	if err != nil {
		return f, err
	}
	f.sourceEpoch = leader.Epoch
	o := q.Target.Offsets()
	f.generation, f.mirrorStart, f.mirrorEnd = o.Generation, o.LogStart, o.LogEnd
	if f.sourceStart, err = q.pool.src.ListOffset(q.ctx, q.Source, -2); err != nil {
		return f, err
	}
	if f.sourceEnd, err = q.pool.src.ListOffset(q.ctx, q.Source, -1); err != nil {
		return f, err
	}
	epochs := q.Target.Epochs()
	if f.empty = o.LogStart == o.LogEnd || len(epochs) == 0; f.empty || f.sourceStart > f.mirrorEnd {
		return f, nil
	}
	f.mirrorEpoch = epochs[len(epochs)-1].Epoch
	err = q.lineage(leader.Epoch, &f)
	return f, err
}

// lineage finds the end of the history that both sides share, asking the source for its end of one epoch
// of the mirror's after another, from the last down (KIP-101, KIP-279).
func (q *part) lineage(current kafka.LeaderEpoch, f *facts) error {
	wanted := f.mirrorEpoch
	for range len(q.Target.Epochs()) + 2 {
		epoch, end, err := q.pool.src.EpochEnd(q.ctx, q.Source, current, wanted)
		if err != nil {
			return err
		}
		if epoch < 0 || end < 0 {
			f.forgotten = true
			f.shared = min(f.sourceStart, f.mirrorEnd)
			return nil
		}
		own, ownEnd := q.Target.EpochEnd(epoch)
		switch {
		case own == epoch:
			f.shared = min(end, ownEnd, f.mirrorEnd)
			return nil
		case own < 0:
			f.shared = min(f.mirrorStart, end)
			return nil
		}
		wanted = own
	}
	return fmt.Errorf("the source's epochs do not go down from %d", f.mirrorEpoch)
}

// jump goes on at the source's log start (case C03).
func (q *part) jump(f facts) {
	var lost int64
	err := q.target(func() (err error) {
		lost, err = q.Target.JumpTo(q.ctx, f.generation, f.sourceStart, q.pool.cfg.Load().KeepHoles)
		return err
	})
	if q.targetFailed(err, fmt.Sprintf("go on at %d, the source's log start", f.sourceStart)) {
		return
	}
	q.splice, q.last.known, q.noEpoch = true, false, true
	q.mu.Lock()
	q.status.LostRecords += lost
	q.mu.Unlock()
	q.pool.tell(Event{Mirror: q.Mirror, Kind: "lost", From: f.mirrorEnd, To: f.sourceStart,
		Err: fmt.Errorf("the source removed offsets %d to %d of %s before they were mirrored: %d are lost", f.mirrorEnd, f.sourceStart-1, q.Source, lost)})
	q.well()
}

// truncate cuts what the source lost (rule E2, case C05).
func (q *part) truncate(f facts, v verdictOf) {
	err := q.target(func() error { return q.Target.TruncateMirror(q.ctx, f.generation, v.to, v.why.Error()) })
	if q.targetFailed(err, fmt.Sprintf("truncate to %d", v.to)) {
		return
	}
	q.splice, q.last.known, q.short = true, false, 0
	q.pool.tell(Event{Mirror: q.Mirror, Kind: "truncated", From: f.mirrorEnd, To: v.to, Epoch: f.sourceEpoch, Err: v.why})
	q.well()
}

// blame shows what the histories do not explain, at once or the second time it is seen.
func (q *part) blame(f facts, v verdictOf) {
	if v.twice {
		if q.short++; q.short < 2 {
			q.notBefore = time.Now().Add(q.pool.cfg.Load().Backoff)
			return
		}
	}
	q.fail(v.fault, v.why, stuckWait)
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
		q.fail(TargetFailed, fmt.Errorf("%s: %s: %w", q.Mirror, order, err), stuckWait)
	}
	return true
}
