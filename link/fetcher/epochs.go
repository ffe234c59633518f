package fetcher

import (
	"errors"
	"fmt"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/partition"
)

const (
	// epochsInGap bounds how many epochs are looked for in one hole.
	epochsInGap = 64
	// refineTries is how often the source is asked when it does not answer.
	refineTries = 5
	// gapsMost bounds the holes of one append that the source is asked about, and refinesMost the appends whose holes wait for that
	// at once: a source may send a new epoch with every batch. What is beyond them keeps the starts that the mirror saw.
	gapsMost    = 64
	refinesMost = 256
)

// epochGap is a hole behind which a leader epoch begins at the mirror: at the source, which compacted records
// of it away, it may have begun earlier, and others may lie in the hole whole.
type epochGap struct {
	epoch kafka.LeaderEpoch
	from  kafka.Offset // end of the batch before the hole
	base  kafka.Offset // of the first batch of the epoch
}

// epochGaps finds them among batches about to be appended at the offset that was asked for.
func (q *part) epochGaps(whole batch.Batches, last batch.Batch) []epochGap {
	known, at := kafka.NoEpoch, q.asked.offset
	if q.last.known && q.last.end == at && q.last.generation == q.asked.generation {
		if known = q.last.epoch; known == last.LeaderEpoch() {
			return nil
		}
	}
	var gaps []epochGap
	for b, err := range whole.All() {
		if err != nil {
			return gaps
		}
		if epoch := b.LeaderEpoch(); epoch != known {
			if b.BaseOffset() > at && len(gaps) < gapsMost {
				gaps = append(gaps, epochGap{epoch, at, b.BaseOffset()})
			}
			known = epoch
		}
		at = b.NextOffset()
	}
	return gaps
}

// refine asks the source where the epochs behind the gaps began and lets the mirror know, so that OffsetForLeaderEpoch
// answers the same on both sides. It runs beside the loops; an answer that does not come costs only that.
func (p *Pool) refine(q *part, generation int64, gaps []epochGap) {
	if len(gaps) == 0 {
		return
	}
	if p.refining.Add(1) > refinesMost {
		p.refining.Add(-1)
		return
	}
	p.wg.Go(func() {
		defer p.refining.Add(-1)
		for _, gap := range gaps {
			starts := q.askStarts(gap)
			if len(starts) == 0 {
				continue
			}
			err := q.target(func() error { return q.Target.RefineEpochs(generation, starts) })
			if errors.Is(err, partition.ErrStale) || q.ctx.Err() != nil {
				return // the mirror moved on
			}
		}
	})
}

// askStarts is where epochs began at the source in the gap, rising, the one behind it last; none if the source says
// what the mirror knows, or nothing.
func (q *part) askStarts(gap epochGap) []kafka.EpochStart {
	for try := range refineTries {
		if try > 0 {
			select {
			case <-time.After(q.pool.cfg.Load().Backoff << (try - 1)):
			case <-q.ctx.Done():
				return nil
			}
		}
		select { // a turn is for one try: repairs of other partitions need theirs, and are more urgent
		case q.pool.repair <- struct{}{}:
		case <-q.ctx.Done():
			return nil
		}
		starts, err := q.startsIn(gap)
		<-q.pool.repair
		if err == nil {
			return starts
		}
	}
	return nil
}

// startsIn asks for the end of the epoch before the one in question, which is its start, then the same for that one.
func (q *part) startsIn(gap epochGap) ([]kafka.EpochStart, error) {
	before := kafka.NoEpoch // the mirror's last epoch below the hole
	for _, e := range q.Target.Epochs() {
		switch {
		case e.Epoch < gap.epoch:
			before = e.Epoch
		case e.Epoch == gap.epoch && e.Start != gap.base:
			return nil, nil // not its beginning, or it was refined
		}
	}
	var starts []kafka.EpochStart
	next, limit := gap.epoch, gap.base
	for range epochsInGap {
		epoch, end, err := q.pool.src.EpochEnd(q.ctx, q.Source, q.leader.Load().Epoch, next-1)
		if err != nil {
			return nil, fmt.Errorf("ask where epoch %d began: %w", next, err)
		}
		if epoch < before || epoch < 0 || epoch >= next || end < gap.from || end > limit {
			break // an older history, or another one
		}
		starts = append([]kafka.EpochStart{{Epoch: next, Start: end}}, starts...)
		if epoch == before || end == gap.from {
			break
		}
		next, limit = epoch, end-1
	}
	if len(starts) == 1 && starts[0].Start == gap.base {
		return nil, nil
	}
	return starts, nil
}
