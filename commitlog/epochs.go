package commitlog

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// LastEpoch is the leader epoch of the last batch ever appended that is still in the
// epoch cache, NoEpoch for a log that never held one.
func (l *Log) LastEpoch() kafka.LeaderEpoch {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.lastEpoch()
}

func (l *Log) lastEpoch() kafka.LeaderEpoch {
	if len(l.epochs) == 0 {
		return kafka.NoEpoch
	}
	return l.epochs[len(l.epochs)-1].Epoch
}

// EpochEnd answers OffsetForLeaderEpoch from the epochs of batches in the log
// (protocol rule E3): the largest epoch in the log that is <= epoch, and where it
// ends (exclusive): the start of the next one, or EndOffset. (NoEpoch, NoOffset) if epoch is below the first.
func (l *Log) EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i := sort.Search(len(l.epochs), func(i int) bool { return l.epochs[i].Epoch > epoch })
	switch {
	case i == 0:
		return kafka.NoEpoch, kafka.NoOffset
	case i == len(l.epochs):
		return l.epochs[i-1].Epoch, l.end
	}
	return l.epochs[i-1].Epoch, l.epochs[i].Start
}

// Epochs is the epoch cache: each epoch with the offset of its first batch, rising. The first
// may have lost its beginning to SetStart; its Start is the log's start then.
func (l *Log) Epochs() []kafka.EpochStart {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.epochs)
}

// EpochAt is the epoch of the batch that holds the offset, or of the one before it.
func (l *Log) EpochAt(offset kafka.Offset) kafka.LeaderEpoch {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return epochAt(l.epochs, offset)
}

func epochAt(epochs []kafka.EpochStart, offset kafka.Offset) kafka.LeaderEpoch {
	i := sort.Search(len(epochs), func(i int) bool { return epochs[i].Start > offset })
	if i == 0 {
		return kafka.NoEpoch
	}
	return epochs[i-1].Epoch
}

// epochsFrom is the cache of a log whose start moved to start: an epoch that reaches past it
// begins there, and the last one stays, to tell the epoch of what was last appended.
func epochsFrom(epochs []kafka.EpochStart, start kafka.Offset) []kafka.EpochStart {
	i := sort.Search(len(epochs), func(i int) bool { return epochs[i].Start > start })
	kept := slices.Clone(epochs[max(i-1, 0):])
	if len(kept) > 0 {
		kept[0].Start = max(kept[0].Start, start)
	}
	return kept
}

// epochsBelow is the cache of a log that was cut to end at end.
func epochsBelow(epochs []kafka.EpochStart, end kafka.Offset) []kafka.EpochStart {
	i := sort.Search(len(epochs), func(i int) bool { return epochs[i].Start >= end })
	return slices.Clone(epochs[:i])
}

// RefineEpochs moves the start of an epoch down into the hole before its first batch, and puts epochs into the
// hole of which the log has no batch: where a compacted source says that they began. starts rise in epoch and
// offset; the last one's epoch is in the log. ErrOutOfRange, and nothing done, if they do not lie in the hole. The
// next Sync makes it durable. It is lost when the cache must be made anew from batches.
func (l *Log) RefineEpochs(starts []kafka.EpochStart) error {
	if len(starts) == 0 {
		return nil
	}
	last := starts[len(starts)-1]
	l.mu.RLock()
	epochs := l.epochs
	l.mu.RUnlock()
	i := slices.IndexFunc(epochs, func(e kafka.EpochStart) bool { return e.Epoch == last.Epoch })
	if i < 0 || !risesBetween(epochs, i, starts) {
		return fmt.Errorf("refine epochs %v: %w", starts, ErrOutOfRange)
	}
	if hole, err := l.isHole(starts[0].Start, epochs[i].Start); err != nil || !hole {
		return errors.Join(err, fmt.Errorf("refine epochs %v: %w", starts, ErrOutOfRange))
	}
	refined := slices.Concat(epochs[:i], starts, epochs[i+1:])
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return fmt.Errorf("refine epochs: %w", err)
	}
	if len(l.epochs) < len(epochs) || !slices.Equal(l.epochs[:i+1], epochs[:i+1]) || starts[0].Start < l.start {
		return fmt.Errorf("refine epochs %v: %w: the log changed", starts, ErrOutOfRange)
	}
	l.epochs = append(refined, l.epochs[len(epochs):]...)
	l.stale, l.changed = true, true
	return nil
}

// risesBetween reports whether starts rise, above what is before entry i and at most to what it says.
func risesBetween(epochs []kafka.EpochStart, i int, starts []kafka.EpochStart) bool {
	before := kafka.EpochStart{Epoch: kafka.NoEpoch, Start: -1}
	if i > 0 {
		before = epochs[i-1]
	}
	for _, s := range starts {
		if s.Epoch <= before.Epoch || s.Start <= before.Start {
			return false
		}
		before = s
	}
	return before.Start <= epochs[i].Start
}

// isHole reports whether no batch holds an offset of [from, to).
func (l *Log) isHole(from, to kafka.Offset) (bool, error) {
	if from >= to {
		return from == to, nil
	}
	slice, err := l.Read(from, to, batch.HeaderSize, true)
	if err != nil {
		return false, err
	}
	defer slice.Close()
	return slice.Length == 0, nil
}
