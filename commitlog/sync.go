package commitlog

import (
	"fmt"
	"slices"

	"github.com/hawserio/hawser/kafka"
)

// indexEvery is how many bytes of log are synced before the index files are brought
// up to date: what a recovery has to read again at most, beside what was not synced.
func (c *Config) indexEvery() int64 { return min(c.SegmentBytes/4, 16<<20) }

// Sync makes durable all that was appended before the call and returns the new
// SyncedEnd. It may run beside Append and reads. An error wraps store.ErrFailed; the log is
// for reading only then, until it is opened again.
func (l *Log) Sync() (kafka.Offset, error) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	synced, err := l.syncLocked()
	if err != nil {
		return synced, fmt.Errorf("sync log: %w", l.fail(err))
	}
	return synced, nil
}

// SyncBytes is Sync without the mark, which Mark writes later: a sync of a few bytes then writes nothing else, and that of a log's first
// makes one file less while somebody waits. Where more bytes were synced since the last mark than a recovery should have to take for
// unsynced, it is written all the same, and so is the first that vouches for a checkpoint: were that lost, nothing else would tell. owed says that Mark has something to write.
func (l *Log) SyncBytes() (synced kafka.Offset, owed bool, err error) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	synced, segs, err := l.syncBytes()
	if err == nil && segs != nil {
		l.owe(segs)
		if m := l.owed; m != nil && (m.unmarked(l.marked.tail) >= writebackEvery || m.needsCheckpoint() && !l.marked.needsCheckpoint()) {
			err = l.payMark()
		}
	}
	if err != nil {
		return synced, false, fmt.Errorf("sync log: %w", l.fail(err))
	}
	return synced, l.owed != nil, nil
}

// Mark writes the mark that SyncBytes left. On a closed log it does nothing.
func (l *Log) Mark() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.RLock()
	usable := l.usable() == nil
	l.mu.RUnlock()
	if !usable {
		return nil
	}
	if err := l.payMark(); err != nil {
		return fmt.Errorf("mark log: %w", l.fail(err))
	}
	return nil
}

// dirtySegment is a segment as it stood when a sync began.
type dirtySegment struct {
	*segment
	st      state
	ended   bool // it was sealed by then
	entries index
}

// snapshot is what a sync has to do.
type snapshot struct {
	end      kafka.Offset
	synced   kafka.Offset
	unsynced int64
	newNames bool
	stale    bool
	newEpoch bool
	dirty    []dirtySegment
	epochs   []kafka.EpochStart
	segs     []*segment
	start    kafka.Offset
}

// idle reports whether everything is durable.
func (s *snapshot) idle() bool { return len(s.dirty) == 0 && !s.newNames && !s.stale }

// snapshot takes note of what is to be done, which is then no longer to be done by others.
func (l *Log) snapshot() (snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return snapshot{synced: l.synced}, err
	}
	s := snapshot{
		end: l.end, synced: l.synced, unsynced: l.unsynced, newNames: l.newNames, stale: l.stale, newEpoch: l.newEpoch,
		epochs: l.epochs, segs: l.segs, start: l.start,
	}
	for i := len(l.segs); i > 0 && !l.segs[i-1].settled.Load(); i-- {
		g := l.segs[i-1]
		d := dirtySegment{segment: g, st: g.state, ended: g.sealed.Load()}
		if g.size == g.syncedSize && !d.ended {
			continue
		}
		g.mu.Lock()
		if g.idx != nil {
			d.entries = *g.idx
		}
		g.mu.Unlock()
		s.dirty = append(s.dirty, d)
	}
	slices.Reverse(s.dirty) // oldest first
	if !s.idle() {
		l.newNames, l.stale, l.newEpoch = false, false, false
	}
	return s, nil
}

// syncLocked does what Sync says. Called with syncMu held. The order matters: bytes, then names, then
// the checkpoint that vouches for them, then the mark, which is never ahead of the truth.
func (l *Log) syncLocked() (kafka.Offset, error) {
	synced, segs, err := l.syncBytes()
	if err != nil {
		return synced, err
	}
	if segs != nil {
		l.owe(segs)
	}
	return synced, l.payMark()
}

// syncBytes is syncLocked but for the mark. segs is what it has seen, nil if there was nothing to do.
func (l *Log) syncBytes() (end kafka.Offset, segs []*segment, err error) {
	s, err := l.snapshot()
	if err != nil || s.idle() {
		return s.synced, nil, err
	}
	for _, d := range s.dirty {
		if d.st.size > d.syncedSize {
			if err := l.syncSegment(d); err != nil {
				return s.synced, nil, err
			}
		}
	}
	if s.newNames {
		if err := l.dir.SyncDir(); err != nil {
			return s.synced, nil, err
		}
	}
	flushed, err := l.flushIndexes(s)
	if err != nil {
		return s.synced, nil, err
	}
	// A recovery reads from where the index files end: epochs that begin below must be known.
	if s.stale || s.newEpoch && flushed {
		if err := l.writeCheckpoint(s.checkpoint()); err != nil {
			return s.synced, nil, err
		}
		s.newEpoch = false
	}
	l.mu.Lock()
	l.newEpoch = l.newEpoch || s.newEpoch
	l.synced = max(l.synced, s.end)
	l.unsynced -= s.unsynced
	synced := l.synced
	l.mu.Unlock()
	l.uncache(s.segs)
	return synced, s.segs, nil
}

// uncacheAgain is how far below its place an uncaching begins, in bytes: the system keeps a block that reaches over the
// end of what it is told to let go of, and its blocks may be this large.
const uncacheAgain = 4 << 20

// uncachePage is the least that the system lets go of, in bytes, or a multiple of it.
const uncachePage = 4 << 10

// uncache lets the system forget what is synced but for the last bytes. Called with syncMu held.
func (l *Log) uncache(segs []*segment) {
	keep := l.cached.Load()
	all := keep <= 0
	for _, g := range slices.Backward(segs) {
		if g.uncached >= g.syncedSize {
			return // and so are those before it
		}
		upTo := max(g.syncedSize-keep, 0)
		keep -= min(keep, g.syncedSize)
		switch {
		case all:
			g.uncached = g.syncedSize
		case upTo > g.uncached:
			f, err := g.acquire()
			if err != nil {
				return // removed or replaced meanwhile
			}
			f.Uncache(max(g.uncached-uncacheAgain, 0), upTo)
			f.release()
			g.uncached = upTo
			if g.settled.Load() {
				l.opened.touch(g)
			}
		}
	}
}

func (l *Log) syncSegment(d dirtySegment) error {
	f, err := d.acquire()
	if err != nil {
		return err
	}
	defer f.release()
	if err := f.Sync(); err != nil {
		return err
	}
	d.syncedSize = d.st.size
	return nil
}

// flushIndexes writes the indexes of segments that were sealed, and of the active
// one when it has grown enough; it reports whether there was one.
func (l *Log) flushIndexes(s snapshot) (flushed bool, err error) {
	every := l.cfg.Load().indexEvery()
	for _, d := range s.dirty {
		d.mu.Lock()
		behind := d.st.size - d.flushed.size
		d.mu.Unlock()
		switch {
		case d.ended:
			if err := l.flushIndex(d.segment, d.st, d.entries, durable); err != nil {
				return false, err
			}
			flushed = true
			d.settled.Store(true)
			l.opened.touch(d.segment)
		case behind >= every:
			if err := l.flushIndex(d.segment, d.st, d.entries, someday); err != nil {
				return false, err
			}
			flushed = true
		}
	}
	return flushed, nil
}

// checkpoint is what the checkpoint says after this sync. Called with syncMu held.
func (s snapshot) checkpoint() *checkpoint {
	c := &checkpoint{start: s.start, epochs: epochsBelow(s.epochs, s.end)}
	if len(c.epochs) == 0 && len(s.epochs) > 0 && s.start == s.end {
		c.epochs = s.epochs[len(s.epochs)-1:]
	}
	for _, g := range s.segs {
		if !g.settled.Load() {
			if g.syncedSize > 0 {
				t := g.tail()
				c.tail = &t
			}
			break
		}
		g.mu.Lock()
		c.sealed = append(c.sealed, g.flushed)
		g.mu.Unlock()
	}
	return c
}

// tail is how far the segment is synced. Called with syncMu held.
func (g *segment) tail() tail {
	g.mu.Lock()
	defer g.mu.Unlock()
	return tail{size: g.syncedSize, resume: g.flushed}
}

func (l *Log) writeCheckpoint(c *checkpoint) error {
	c.generation = l.generation
	if err := l.dir.WriteAtomic(checkpointName, c.encode()); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return nil
}

// owe notes what the mark has to say after a sync that saw these segments. Called with syncMu held.
func (l *Log) owe(segs []*segment) {
	if len(segs) == 0 || segs[len(segs)-1].sealed.Load() {
		return // the next sync sees the segment that comes after
	}
	l.owed = &mark{generation: l.generation, tail: segs[len(segs)-1].tail()}
}

// unmarked is how many synced bytes of its segment another mark does not tell of.
func (m *mark) unmarked(by tail) int64 {
	if m.resume.base == by.resume.base {
		return m.size - by.size
	}
	return m.size
}

// needsCheckpoint reports whether there must be a checkpoint where there is such a mark (see hadCheckpoint).
func (m *mark) needsCheckpoint() bool { return m.generation > 0 || m.resume.base > 0 }

// payMark writes the mark that is owed, unless the log was cut since: that voids it. Called with syncMu held.
func (l *Log) payMark() error {
	m := l.owed
	l.owed = nil
	if m == nil || m.generation != l.generation {
		return nil
	}
	l.markBuf = m.encode(l.markBuf)
	if err := l.dir.WriteHint(markName, l.markBuf); err != nil {
		return fmt.Errorf("write synced mark: %w", err)
	}
	l.marked = *m
	if m.resume.base == l.markSent.resume.base && m.unmarked(l.markSent) < writebackEvery {
		return nil // small syncs must not cost a second write each; the system sends it in its own time
	}
	l.markSent = m.tail
	f, err := l.dir.Open(markName)
	if err != nil {
		return fmt.Errorf("send synced mark: %w", err)
	}
	f.StartWriteback(0, int64(len(l.markBuf)))
	if err := f.Close(); err != nil {
		return fmt.Errorf("send synced mark: %w", err)
	}
	return nil
}
