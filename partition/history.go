package partition

import (
	"context"
	"errors"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store"
)

// Mark identifies a batch of the log, for the comparison of two histories (rule T5).
type Mark struct {
	Base, Next kafka.Offset // the end is exclusive; NoOffset of marks that were stored with a stop point
	Epoch      kafka.LeaderEpoch
	CRC        uint32
}

// marksKept is how many batches below a cut are compared.
const marksKept = 64

// History is what a partition knows of where its records came from.
type History struct {
	Start, End kafka.Offset
	CleanedTo  kafka.Offset // see Partition.CleanedTo
	Entry      meta.Partition
	Epochs     []kafka.EpochStart
	Marks      []Mark // of the last batches below the offset that was asked for, rising
}

// History describes a partition, with the marks of the last batches that begin below an offset; 0 leaves them out.
func (o *Owner) History(id kafka.PartitionID, below kafka.Offset) (History, error) {
	p := o.Get(id)
	if p == nil {
		return History{}, kafka.Errorf(kafka.NotLeaderForPartition, "Partition %s is not open here.", id)
	}
	if err := p.Err(); err != nil {
		return History{}, err
	}
	at := p.Offsets()
	h := History{Start: at.LogStart, End: at.LogEnd, CleanedTo: p.CleanedTo(), Entry: p.Entry(), Epochs: p.Epochs()}
	if below <= 0 {
		return h, nil
	}
	if stop := h.Entry.Stop; stop != nil && below <= stop.Offset {
		// Written down before any cleaner came here after the stop.
		for _, m := range stop.LastBatches {
			if m.Base < below {
				h.Marks = append(h.Marks, Mark{m.Base, kafka.NoOffset, m.Epoch, m.CRC})
			}
		}
	}
	if len(h.Marks) > 0 && h.CleanedTo > h.Marks[0].Base {
		return h, nil
	}
	var err error
	h.Marks, err = p.MarksBelow(below, marksKept)
	return h, err
}

// MarksBelow lists at most n of the last batches that begin below the offset, rising, without holes between them but those of the log.
// Batches that the cleaner may have rewritten are left out, and so are all before them.
func (p *Partition) MarksBelow(below kafka.Offset, n int) ([]Mark, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	start, end := p.log.StartOffset(), min(p.log.EndOffset(), below)
	clean := max(start, p.log.CleanedTo())
	for back := kafka.Offset(n); ; back *= 16 {
		from := max(clean, end-back)
		var found []Mark
		if from < end {
			err := p.log.Scan(from, true, func(b batch.Batch) error {
				switch {
				case b.BaseOffset() >= end:
					return errSettled // far enough
				case b.BaseOffset() >= clean:
					found = append(found, Mark{b.BaseOffset(), b.NextOffset(), b.LeaderEpoch(), b.CRC()})
				}
				return nil
			})
			if err != nil && !errors.Is(err, errSettled) {
				return nil, p.storageError("read the last batches", err)
			}
		}
		if len(found) > n || from == clean || back > 1<<20 {
			return slices.Clone(found[max(0, len(found)-n):]), nil
		}
	}
}

// CopyTail appends everything of a partition from the offset on, up to the exclusive end, to another one, a mirror that nobody
// else writes to, at the same offsets and byte for byte; what is there already is passed over, so that it may be repeated after a crash
// (rule T7). Nothing of the first may change meanwhile. It returns when the copy is synced.
func (o *Owner) CopyTail(ctx context.Context, from, to kafka.PartitionID, first, end kafka.Offset) error {
	p, copied := o.Get(from), o.Get(to)
	if p == nil || copied == nil {
		return kafka.Errorf(kafka.NotLeaderForPartition, "Partition %s or %s is not open here.", from, to)
	}
	for {
		at := copied.Offsets()
		next := max(first, at.LogEnd)
		if next >= end {
			return copied.WaitSynced(ctx, at.LogEnd)
		}
		bytes, err := p.piece(next)
		if err != nil {
			return err
		}
		if len(bytes) == 0 { // a hole up to the end
			return copied.WaitSynced(ctx, at.LogEnd)
		}
		if err := copied.AppendMirrored(ctx, Mirrored{Generation: at.Generation, FetchedAt: at.LogEnd, Batches: bytes}); err != nil {
			return err
		}
	}
}

// piece reads some batches from the offset on.
func (p *Partition) piece(from kafka.Offset) (batch.Batches, error) {
	const most = 4 << 20
	answer, err := p.Read(Read{From: from, MaxBytes: most, AtLeastOne: true, CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
	if err != nil {
		return nil, err
	}
	defer answer.Slice.Close()
	bytes, err := answer.Slice.Bytes()
	if err != nil {
		return nil, p.storageError("read the tail", err)
	}
	return bytes, nil
}

// Tail is the bytes, about, of what a partition holds from the offset on: whole segments count.
func (o *Owner) Tail(id kafka.PartitionID, from kafka.Offset) int64 {
	p := o.Get(id)
	if p == nil || p.Err() != nil {
		return 0
	}
	var n int64
	for _, s := range p.log.Segments() {
		if s.Next > from {
			n += s.Bytes
		}
	}
	return n
}

// Room says whether the store takes so many more bytes of records; an error says what to do.
func (o *Owner) Room(bytes int64) error {
	st, ok := o.store.(store.Roomer)
	if !ok {
		return nil
	}
	if err := st.Room(bytes); err != nil {
		return kafka.Errorf(kafka.KafkaStorageError, "%d more bytes do not fit: %v", bytes, err)
	}
	return nil
}
