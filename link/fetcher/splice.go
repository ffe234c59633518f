package fetcher

import (
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/plan"
)

func (q *part) mend(why plan.Doubt) verdict {
	q.doubt = why
	return mend
}

// spliced compares the mirror's last batch with what the source has at its offset (rule E6).
func (q *part) spliced(f *Fetched) verdict {
	last, err := q.Target.LastBatch()
	if err != nil || last == nil || last.BaseOffset() != q.asked.offset {
		return stay // the mirror moved on; the next fetch looks again
	}
	if len(f.Batches) < batch.HeaderSize {
		if f.HighWatermark >= 0 && f.HighWatermark < last.NextOffset() {
			return q.mend(plan.DoubtHistories)
		}
		return stay // it found no room in this answer
	}
	switch plan.Compare(last, f.Batches) {
	case plan.SameBatch:
		q.splice.Store(false)
		q.aligned = false
		q.well()
		return stay
	case plan.CompactedBatch:
		return q.mend(plan.DoubtRewritten)
	default:
		return q.mend(plan.DoubtContent)
	}
}
