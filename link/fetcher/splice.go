package fetcher

import (
	"bytes"

	"github.com/hawserio/hawser/kafka/batch"
)

// doubt is why a partition's history must be compared with the source's.
type doubt int

const (
	// histories: the source's end or its epochs do not fit the mirror's.
	histories doubt = iota
	// outOfRange: the source has not got the offset asked for.
	outOfRange
	// rewritten: the source compacted the mirror's last batch or removed it, so that its bytes prove nothing.
	rewritten
	// content: the source has other bytes than the mirror at the same offsets.
	content
)

func (q *part) mend(why doubt) verdict {
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
			return q.mend(histories)
		}
		return stay // it found no room in this answer
	}
	switch compare(last, f.Batches) {
	case sameBatch:
		q.splice, q.aligned = false, false
		q.well()
		return stay
	case compactedBatch:
		return q.mend(rewritten)
	default:
		return q.mend(content)
	}
}

// likeness is how a batch of the source looks beside the mirror's.
type likeness int

const (
	sameBatch likeness = iota
	compactedBatch
	otherBatch
)

// compare looks at two headers; source may be longer, its CRC is not checked. Kafka's cleaner keeps a batch's
// offsets, epoch and producer and leaves fewer records, or only adds a delete horizon (KIP-534); a batch
// without records it may remove, and then a later one stands at the offset.
func compare(mirror batch.Batch, source []byte) likeness {
	if bytes.Equal(mirror[:batch.HeaderSize], source[:batch.HeaderSize]) {
		return sameBatch
	}
	if _, err := batch.SizeOf(source); err != nil {
		return otherBatch
	}
	other := batch.Batch(source)
	switch {
	case other.BaseOffset() > mirror.LastOffset():
		return compactedBatch
	case other.BaseOffset() == mirror.BaseOffset() && other.LastOffset() == mirror.LastOffset() &&
		other.LeaderEpoch() == mirror.LeaderEpoch() &&
		other.ProducerID() == mirror.ProducerID() && other.ProducerEpoch() == mirror.ProducerEpoch() &&
		other.IsControl() == mirror.IsControl() && other.IsTransactional() == mirror.IsTransactional() &&
		(other.Count() < mirror.Count() || other.HasDeleteHorizon() && !mirror.HasDeleteHorizon()):
		return compactedBatch
	}
	return otherBatch
}
