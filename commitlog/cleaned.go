package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
)

const (
	cleanedFile  = "log-cleaned"
	cleanedMagic = 0x6877726b // "hwrk"
	cleanedSize  = 16
)

// cleaned is how far a log was compacted.
type cleaned struct {
	// used is above the highest offset that was ever used as the newer value of a key: below it, records
	// may be missing because of others below it (protocol rule T2).
	used kafka.Offset
	// dirty is where the next cleaning begins.
	dirty kafka.Offset
}

// CleanedTo is above the highest offset that was ever used as a newer value by which an older record was removed; 0 for
// a log that was never cleaned. A cut below it would lose the newer and not bring back the older (protocol rule T2).
func (l *Log) CleanedTo() kafka.Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.cleaned.used
}

// DirtyFrom is where the next cleaning begins to learn keys.
func (l *Log) DirtyFrom() kafka.Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return max(l.cleaned.dirty, l.start)
}

// BeginCleaning notes, durably, that offsets below used will be used as newer values.
func (l *Log) BeginCleaning(used kafka.Offset) error {
	return l.noteCleaned(func(c cleaned) cleaned {
		c.used = max(c.used, used)
		return c
	})
}

// EndCleaning notes, durably, that what lies below dirty was cleaned.
func (l *Log) EndCleaning(dirty kafka.Offset) error {
	return l.noteCleaned(func(c cleaned) cleaned {
		c.dirty = max(c.dirty, dirty)
		return c
	})
}

func (l *Log) noteCleaned(change func(cleaned) cleaned) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.RLock()
	err, was := l.usable(), l.cleaned
	l.mu.RUnlock()
	if err != nil {
		return fmt.Errorf("note cleaning: %w", err)
	}
	return l.writeCleaned(was, change(was))
}

// writeCleaned needs syncMu.
func (l *Log) writeCleaned(was, now cleaned) error {
	if now == was {
		return nil
	}
	out := make([]byte, headSize, headSize+cleanedSize)
	out = binary.BigEndian.AppendUint64(out, uint64(now.used))
	out = binary.BigEndian.AppendUint64(out, uint64(now.dirty))
	if err := l.dir.WriteAtomic(cleanedFile, seal(out, cleanedMagic)); err != nil {
		return fmt.Errorf("note cleaning: %w", err)
	}
	l.mu.Lock()
	l.cleaned = now
	l.mu.Unlock()
	return nil
}

// cutCleaned forgets what was noted about offsets that are not in the log any more, after a cut. It needs syncMu.
func (l *Log) cutCleaned() error {
	l.mu.RLock()
	was, start, end := l.cleaned, l.start, l.end
	l.mu.RUnlock()
	return l.writeCleaned(was, was.below(start, end))
}

// below is what still counts of a log of [start, end).
func (c cleaned) below(start, end kafka.Offset) cleaned {
	if start == end {
		return cleaned{}
	}
	return cleaned{min(c.used, end), min(c.dirty, end)}
}

// readCleaned reads how far the log was cleaned. If that is not known, all of it may have been.
func (o *opening) readCleaned() error {
	raw, err := o.dir.ReadFile(cleanedFile)
	if errors.Is(err, store.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read how far the log was cleaned: %w", err)
	}
	body, err := unseal(raw, cleanedFile, cleanedMagic)
	if err == nil && len(body) != cleanedSize {
		err = fmt.Errorf("%s: %w", cleanedFile, errBadFile)
	}
	switch {
	case errors.Is(err, errBadFile):
		o.recovery.RebuiltFiles = append(o.recovery.RebuiltFiles, cleanedFile)
		o.cleaned = cleaned{used: o.end}
	case err != nil:
		return err
	default:
		o.cleaned = cleaned{kafka.Offset(binary.BigEndian.Uint64(body)), kafka.Offset(binary.BigEndian.Uint64(body[8:]))}
	}
	o.cleaned = o.cleaned.below(o.start, o.end)
	return nil
}
