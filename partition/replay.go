package partition

import (
	"context"
	"fmt"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// replayBytes is how much Batches reads at once.
const replayBytes = 1 << 20

// Replayed is a log that a coordinator reads from end to end: a partition of an internal topic.
type Replayed interface {
	// Err says why the log is out of service, nil if it works: its bounds are then not those of what it holds.
	Err() error
	// Bounds are the first offset and the exclusive end of what may be read.
	Bounds() (start, end kafka.Offset)
	// Batches returns whole batches from the one that holds from on, none at the end. They are the caller's.
	Batches(from kafka.Offset) (batch.Batches, error)
}

// Bounds are the log start and the high watermark, exclusive.
func (p *Partition) Bounds() (start, end kafka.Offset) {
	at := p.Offsets()
	return at.LogStart, at.HighWatermark
}

// Batches reads about 1 MiB, at least one batch, from the one that holds from on; none at the high watermark.
// They are the caller's. Errors as Read's.
func (p *Partition) Batches(from kafka.Offset) (batch.Batches, error) {
	answer, err := p.Read(Read{From: from, MaxBytes: replayBytes, AtLeastOne: true,
		Isolation: kafka.ReadUncommitted, CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
	if err != nil {
		return nil, err
	}
	defer answer.Slice.Close()
	if answer.Slice.Length == 0 {
		return nil, nil
	}
	return answer.Slice.Bytes()
}

// Replay applies every batch of the log in order, control batches too, up to the end it has now. It fails with the
// first error of a read, of apply or of ctx, if batches are missing below the end or are not what was written (by their CRC), and if
// the log is out of service.
func Replay(ctx context.Context, log Replayed, apply func(batch.Batch) error) error {
	if err := log.Err(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	at, end := log.Bounds()
	for at < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		batches, err := log.Batches(at)
		if err != nil {
			return fmt.Errorf("read at offset %d: %w", at, err)
		}
		before := at
		for b, err := range batches.All() {
			if err != nil {
				return fmt.Errorf("read at offset %d: %w", at, err)
			}
			// Nobody else looks: what a disk changed would be taken for what somebody had committed.
			if err := b.CheckCRC(); err != nil {
				return fmt.Errorf("read at offset %d: the log is damaged: %w", b.BaseOffset(), err)
			}
			if err := apply(b); err != nil {
				return err
			}
			at = b.NextOffset()
		}
		if at == before {
			return fmt.Errorf("read at offset %d: the log says it ends at %d and has no more batches", at, end)
		}
	}
	return nil
}
