package commitlog

import (
	"errors"
	"fmt"
)

// Close syncs, writes what makes the next Open quick, and closes the files. Slices stay
// readable until they are closed. A second Close does nothing.
func (l *Log) Close() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.RLock()
	closed, failed, changed := l.closed, l.failed, l.changed
	l.mu.RUnlock()
	if closed {
		return nil
	}
	var err error
	if failed == nil && changed {
		err = l.settleForClose()
	}
	l.shut()
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("close log: %w", err)
	}
	return nil
}

// Discard closes the files and writes nothing: the log is about to be removed. What is
// left if it is not is what a crash would have left.
func (l *Log) Discard() {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.shut()
}

func (l *Log) shut() {
	l.mu.Lock()
	l.closed = true
	segs := l.segs
	l.mu.Unlock()
	for _, g := range segs {
		g.kill()
	}
}

// settleForClose makes everything durable and notes that nothing needs to be read again.
func (l *Log) settleForClose() error {
	if _, err := l.syncLocked(); err != nil {
		return err
	}
	l.mu.RLock()
	segs := l.segs
	g := l.active()
	l.mu.RUnlock()
	if g != nil {
		g.mu.Lock()
		st, idx := g.state, g.idx
		g.mu.Unlock()
		if idx != nil { // else nothing was appended since it was opened
			if err := l.flushIndex(g, st, *idx, durable); err != nil {
				return err
			}
			if len(idx.offsets)+len(idx.times) > 0 { // their files may be new
				if err := l.dir.SyncDir(); err != nil {
					return err
				}
			}
		}
	}
	return l.writeCheckpoint(l.snapshotOf(segs))
}
