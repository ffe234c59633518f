package commitlog

import (
	"fmt"

	"github.com/hawserio/hawser/kafka"
)

// SetStart moves the start forward, durably, at most to EndOffset (else ErrOutOfRange), and deletes the
// segments that lie wholly below it. A lower offset is no error and changes nothing.
func (l *Log) SetStart(offset kafka.Offset) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.RLock()
	err, start, end := l.usable(), l.start, l.end
	l.mu.RUnlock()
	if err == nil && offset > end {
		err = fmt.Errorf("%w: the log ends at %d", ErrOutOfRange, end)
	}
	if err != nil {
		return fmt.Errorf("move log start to %d: %w", offset, err)
	}
	if offset <= start {
		return nil
	}
	if err := l.setStart(offset); err != nil {
		return fmt.Errorf("move log start to %d: %w", offset, l.fail(err))
	}
	return nil
}

func (l *Log) setStart(offset kafka.Offset) error {
	l.mu.RLock()
	segs, epochs, synced := l.segs, epochsFrom(l.epochs, offset), max(l.synced, offset)
	l.mu.RUnlock()
	gone := 0
	for gone < len(segs) && segs[gone].next <= offset {
		gone++
	}
	if gone == len(segs) {
		return l.empty(offset, epochs)
	}
	// The checkpoint with the new start comes first: a crash before the files are gone leaves files that
	// the next open knows to lie below the start.
	c := l.snapshotOf(segs)
	c.start, c.epochs = offset, epochsBelow(epochs, synced)
	if err := l.writeCheckpoint(c); err != nil {
		return err
	}
	l.mu.Lock()
	l.start, l.epochs = offset, epochs
	l.segs = append([]*segment(nil), segs[gone:]...)
	l.synced = synced
	l.newEpoch = l.newEpoch || len(c.epochs) < len(epochs) // the last batches before it may not be synced
	for _, g := range segs[:gone] {
		l.unsynced -= g.size - g.syncedSize
	}
	l.changed = true
	l.mu.Unlock()
	if gone == 0 {
		return nil
	}
	if err := l.remove(segs[:gone]); err != nil {
		return err
	}
	return l.dir.SyncDir()
}
