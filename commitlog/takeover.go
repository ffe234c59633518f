package commitlog

import "fmt"

// TakeOver makes this log what next is: its directory, batches, start, end and epochs. next must be of nobody else's
// use, and is of none afterwards. Nothing is written; which directory is the log's is for the caller to have stored. Readers that
// hold a Slice keep their bytes, and a Scan under way goes on in next from where its segment ended, so that next must be a log of the
// same offsets. It is a writer, and no Rewrite may be under way.
func (l *Log) TakeOver(next *Log) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	next.syncMu.Lock()
	defer next.syncMu.Unlock()
	next.mu.Lock()
	defer next.mu.Unlock()
	if err := next.usable(); err != nil {
		return fmt.Errorf("take over a log: %w", err)
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return fmt.Errorf("take over a log: %w", errClosed)
	}
	gone := l.segs
	l.dir, l.generation = next.dir, next.generation
	l.owed, l.marked, l.markSent = next.owed, next.marked, next.markSent
	l.segs, l.start, l.end, l.synced = next.segs, next.start, next.end, next.synced
	l.epochs, l.cleaned, l.unsynced = next.epochs, next.cleaned, next.unsynced
	l.newNames, l.stale, l.newEpoch, l.changed, l.failed = next.newNames, next.stale, next.newEpoch, next.changed, nil
	l.writeback = next.writeback
	next.segs, next.closed = nil, true
	l.mu.Unlock()
	for _, g := range gone {
		g.replace()
		l.opened.drop(g)
	}
	next.opened.mu.Lock()
	opened := next.opened.segs
	next.opened.segs = nil
	next.opened.mu.Unlock()
	for _, g := range opened {
		l.opened.touch(g)
	}
	return nil
}
