package plan

import (
	"bytes"

	"github.com/hawserio/hawser/internal/plant"
	"github.com/hawserio/hawser/kafka/batch"
)

// Likeness is how a batch of the source looks beside the mirror's.
type Likeness int

// The likenesses.
const (
	SameBatch Likeness = iota
	CompactedBatch
	OtherBatch
)

// Compare looks at two headers (rule E6): mirror is at least batch.HeaderSize bytes, source may be longer, its CRC is not
// checked. Kafka's cleaner keeps a batch's offsets, epoch and producer and leaves fewer records, or only adds a
// delete horizon (KIP-534); a batch without records it may remove, and then a later one stands at the offset.
func Compare(mirror batch.Batch, source []byte) Likeness {
	if len(source) < batch.HeaderSize {
		return OtherBatch
	}
	if plant.On("last-batch-not-compared") || bytes.Equal(mirror[:batch.HeaderSize], source[:batch.HeaderSize]) {
		return SameBatch
	}
	if _, err := batch.SizeOf(source); err != nil {
		return OtherBatch
	}
	other := batch.Batch(source)
	switch {
	case other.BaseOffset() > mirror.LastOffset():
		return CompactedBatch
	case other.BaseOffset() == mirror.BaseOffset() && other.LastOffset() == mirror.LastOffset() &&
		other.LeaderEpoch() == mirror.LeaderEpoch() &&
		other.ProducerID() == mirror.ProducerID() && other.ProducerEpoch() == mirror.ProducerEpoch() &&
		other.IsControl() == mirror.IsControl() && other.IsTransactional() == mirror.IsTransactional() &&
		(other.Count() < mirror.Count() || other.HasDeleteHorizon() && !mirror.HasDeleteHorizon()):
		return CompactedBatch
	}
	return OtherBatch
}
