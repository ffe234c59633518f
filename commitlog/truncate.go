package commitlog

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/hawserio/hawser/kafka"
)

// Truncate cuts every batch that ends above offset, durably; afterwards EndOffset is the end of the
// last batch that is left, so at most offset. Readers that hold a Slice keep their bytes (protocol rule T9).
// After a crash in the middle the next Open finishes it. An error wraps
// store.ErrFailed; the log is for reading only then.
func (l *Log) Truncate(offset kafka.Offset) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.RLock()
	err, start, end := l.usable(), l.start, l.end
	l.mu.RUnlock()
	switch {
	case err != nil:
		return fmt.Errorf("truncate log: %w", err)
	case offset < 0:
		return fmt.Errorf("truncate log to %d: %w", offset, ErrOutOfRange)
	case offset >= end:
		return nil
	case offset <= start:
		err = l.empty(offset, nil)
	default:
		err = l.cut(offset)
	}
	if err == nil {
		err = l.cutCleaned()
	}
	if err != nil {
		return fmt.Errorf("truncate log to %d: %w", offset, l.fail(err))
	}
	return nil
}

// Reset empties the log, durably, and makes offset its start and end. Epochs are forgotten.
func (l *Log) Reset(offset kafka.Offset) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.RLock()
	err := l.usable()
	l.mu.RUnlock()
	if err == nil && offset < 0 {
		err = ErrOutOfRange
	}
	if err != nil {
		return fmt.Errorf("reset log to %d: %w", offset, err)
	}
	if err = l.empty(offset, nil); err == nil {
		err = l.cutCleaned()
	}
	if err != nil {
		return fmt.Errorf("reset log to %d: %w", offset, l.fail(err))
	}
	return nil
}

// empty removes all segments and leaves offset as start and end. Called with syncMu held.
func (l *Log) empty(offset kafka.Offset, epochs []kafka.EpochStart) error {
	l.generation++
	c := &checkpoint{start: offset, pending: pendingEmpty, epochs: epochs}
	if err := l.writeCheckpoint(c); err != nil {
		return err
	}
	l.mu.Lock()
	gone := l.segs
	l.segs, l.epochs = nil, epochs
	l.start, l.end, l.synced = offset, offset, offset
	l.unsynced, l.newNames, l.stale, l.changed = 0, false, false, true
	l.mu.Unlock()
	if err := l.remove(gone); err != nil {
		return err
	}
	if err := l.dir.SyncDir(); err != nil {
		return err
	}
	c.pending = pendingNone
	return l.writeCheckpoint(c)
}

// remove removes segments' files, highest first. Nobody can find them any more.
func (l *Log) remove(gone []*segment) error {
	for _, g := range slices.Backward(gone) {
		g.kill()
		l.opened.drop(g)
		if err := l.removeSegment(g.base); err != nil {
			return err
		}
	}
	return nil
}

// cut shortens the log to the batches that end at offset or below. Called with syncMu held.
func (l *Log) cut(offset kafka.Offset) error {
	if _, err := l.syncLocked(); err != nil { // what stays must be durable, and vouched for
		return err
	}
	l.mu.RLock()
	segs, start := l.segs, l.start
	l.mu.RUnlock()
	i, at, x, err := l.cutPlace(segs, offset)
	if err != nil {
		return err
	}
	if at.size == 0 && i == 0 {
		return l.empty(start, nil)
	}
	end := at.next
	if at.size == 0 {
		end = segs[i-1].next
	}
	if end <= start {
		return l.empty(start, nil)
	}
	kept := segs[:i:i]
	l.generation++
	c := l.snapshotOf(kept)
	c.epochs = epochsBelow(l.epochs, end)
	c.pending, c.cutBase, c.cutSize = pendingCut, segs[i].base, at.size
	c.tail = nil
	if at.size > 0 {
		c.tail = &tail{size: at.size, resume: newState(at.base, at.created)}
	}
	if err := l.writeCheckpoint(c); err != nil {
		return err
	}
	if at.size > 0 {
		g := newSegment(l.dir, at)
		g.idx, g.flushed = x, newState(at.base, at.created)
		kept = append(kept, g)
		// Nobody may open the name before it means the shorter file.
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	l.mu.Lock()
	l.segs, l.epochs, l.end, l.synced = kept, c.epochs, end, end
	l.unsynced, l.newNames, l.stale, l.changed = 0, false, false, true
	l.mu.Unlock()
	if err := l.cutFiles(segs[i:], at); err != nil {
		return err
	}
	c.pending = pendingNone
	return l.writeCheckpoint(c)
}

// snapshotOf is a checkpoint of the log with only these segments, as far as it is synced.
func (l *Log) snapshotOf(segs []*segment) *checkpoint {
	l.mu.RLock()
	s := snapshot{start: l.start, end: l.synced, epochs: l.epochs, segs: segs}
	l.mu.RUnlock()
	return s.checkpoint()
}

// cutPlace finds the segment to shorten and the state and index of its remainder.
func (l *Log) cutPlace(segs []*segment, offset kafka.Offset) (i int, at state, x *index, err error) {
	i = slices.IndexFunc(segs, func(g *segment) bool { return g.next > offset })
	g := segs[i]
	f, err := g.acquire()
	if err != nil {
		return 0, state{}, nil, err
	}
	defer f.release()
	at = newState(g.base, g.created)
	s := scanner{file: f, end: g.size, chunk: walkChunk, heads: true}
	x = &index{}
	for interval := l.cfg.Load().IndexInterval; ; {
		b, n, err := s.next()
		if errors.Is(err, io.EOF) {
			return i, at, x, nil
		}
		if err != nil {
			return 0, state{}, nil, fmt.Errorf("read segment %s at %d: %w", logName(g.base), s.pos, err)
		}
		if b.NextOffset() > offset {
			return i, at, x, nil
		}
		at.add(b, n, interval, x)
	}
}

// cutFiles removes the segments above the first and shortens that one.
func (l *Log) cutFiles(gone []*segment, at state) error {
	if err := l.remove(gone[1:]); err != nil {
		return err
	}
	g := gone[0]
	g.kill()
	l.opened.drop(g)
	if at.size == 0 {
		if err := l.removeSegment(g.base); err != nil {
			return err
		}
		return l.dir.SyncDir()
	}
	if err := l.dir.Remove(indexName(g.base)); err != nil {
		return err
	}
	if err := l.dir.Remove(timeName(g.base)); err != nil {
		return err
	}
	if err := l.dir.Cut(logName(g.base), at.size); err != nil {
		return err
	}
	return l.dir.SyncDir()
}
