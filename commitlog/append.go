package commitlog

import (
	"fmt"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// writebackEvery is how many bytes are appended before the system is asked to
// start writing them: so that a sync finds most of its work done.
const writebackEvery = 4 << 20

// Append writes batches as they are. The first base offset must be at least
// EndOffset, unless the log is empty, when it may be below it so long as the
// batch ends above (a mirror's first batch may begin below its log start);
// offsets must rise, gaps are legal; epochs must not fall. CRCs are not looked at.
// bs is the caller's again on return. now decides SegmentAge only. Nothing is
// written when the batches are refused; after a failed write, which wraps
// store.ErrFailed, the log is for reading only.
func (l *Log) Append(bs batch.Batches, now time.Time) error {
	if err := l.check(bs); err != nil {
		return fmt.Errorf("append to log: %w", err)
	}
	cfg := *l.cfg.Load()
	for len(bs) > 0 {
		g, err := l.writable(bs, cfg, now)
		if err == nil {
			bs, err = l.appendRun(g, bs, cfg)
		}
		if err != nil {
			return fmt.Errorf("append to log: %w", l.fail(err))
		}
	}
	return nil
}

// check refuses batches that cannot follow on what is there.
func (l *Log) check(bs batch.Batches) error {
	l.mu.RLock()
	err, next, empty, epoch := l.usable(), l.end, len(l.segs) == 0, l.lastEpoch()
	l.mu.RUnlock()
	if err != nil {
		return err
	}
	for rest := []byte(bs); len(rest) > 0; {
		var b batch.Batch
		if b, rest, err = batch.Split(rest); err != nil {
			return err
		}
		if b.BaseOffset() < next && !(empty && b.NextOffset() > next) {
			return fmt.Errorf("batch begins at offset %d, below the end %d", b.BaseOffset(), next)
		}
		if b.LeaderEpoch() < epoch {
			return fmt.Errorf("batch at offset %d has leader epoch %d, below %d", b.BaseOffset(), b.LeaderEpoch(), epoch)
		}
		if len(b) > maxPosition {
			return fmt.Errorf("batch at offset %d has %d bytes, more than a segment can hold", b.BaseOffset(), len(b))
		}
		next, epoch, empty = b.NextOffset(), b.LeaderEpoch(), false
	}
	return nil
}

// room reports whether the segment takes the batch.
func (s *state) room(b batch.Batch, cfg Config, now int64) bool {
	if s.size == 0 {
		return s.fits(b)
	}
	return s.fits(b) && s.size+int64(len(b)) <= cfg.SegmentBytes && now-s.created <= cfg.SegmentAge.Milliseconds()
}

// writable is the active segment if it takes the first of bs, else a new one.
func (l *Log) writable(bs batch.Batches, cfg Config, now time.Time) (*segment, error) {
	first, _, err := batch.Split(bs)
	if err != nil {
		return nil, err
	}
	l.mu.RLock()
	g := l.active()
	l.mu.RUnlock()
	if g != nil {
		l.notFromTheFuture(g, now.UnixMilli())
		if g.room(first, cfg, now.UnixMilli()) {
			return g, l.prepare(g)
		}
		if err := l.sealActive(g); err != nil {
			return nil, err
		}
	}
	// Named by the end of what is there, so that after a crash a hole between two files can be
	// told from a lost end of the first; unless offsets relative to it would not fit.
	base := min(l.end, first.BaseOffset())
	if first.LastOffset()-base > maxRelative {
		base = first.BaseOffset()
	}
	g = newSegment(l.dir, newState(base, now.UnixMilli()))
	f, err := l.dir.Create(logName(base))
	if err != nil {
		return nil, fmt.Errorf("make segment: %w", err)
	}
	g.file, g.idx = share(f), &index{}
	l.writeback = 0
	l.mu.Lock()
	defer l.mu.Unlock()
	// The first segment of all needs no checkpoint to be known by: it is sound to keep whatever it holds, and the mark says
	// what of it was synced. So a partition's first record waits for two writes of names less.
	l.stale = l.stale || len(l.segs) > 0 || base > l.start
	l.segs = append(l.segs, g)
	l.newNames, l.changed = true, true
	return g, nil
}

// notFromTheFuture corrects a segment's birth, which a recovery takes from its first record or a clock
// that was set back has made too late: it would not age.
func (l *Log) notFromTheFuture(g *segment, now int64) {
	if g.created <= now {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g.created = now
}

// Writing reports whether an append finds its file open: the log was appended to since it was opened.
func (l *Log) Writing() bool {
	l.mu.RLock()
	g := l.active()
	l.mu.RUnlock()
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.file != nil && g.idx != nil
}

// prepare opens the active segment for the first append since the log was opened.
func (l *Log) prepare(g *segment) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil && g.idx != nil {
		return nil
	}
	f, err := g.acquireLocked()
	if err != nil {
		return err
	}
	defer f.release()
	l.writeback = g.size
	return l.loadIndex(g, f, g.state)
}

// sealActive ends the active segment. Its last time index entry is that of its latest batch, as Kafka has it.
func (l *Log) sealActive(g *segment) error {
	if err := l.prepare(g); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addTime(g.idx)
	g.sealed.Store(true)
	l.stale, l.changed = true, true
	return nil
}

// appendRun writes as many of bs as the segment takes, in one write, and is the rest.
func (l *Log) appendRun(g *segment, bs batch.Batches, cfg Config) (batch.Batches, error) {
	st := g.state
	x := &l.scratch
	x.offsets, x.times = x.offsets[:0], x.times[:0]
	epoch := l.lastEpoch()
	l.newEpochs = l.newEpochs[:0]
	rest := []byte(bs)
	for len(rest) > 0 {
		b, after, err := batch.Split(rest)
		if err != nil {
			return nil, err
		}
		if !st.room(b, cfg, st.created) { // age was looked at before the first
			break
		}
		st.add(b, int64(len(b)), cfg.IndexInterval, x)
		if b.LeaderEpoch() > epoch {
			epoch = b.LeaderEpoch()
			l.newEpochs = append(l.newEpochs, kafka.EpochStart{Epoch: epoch, Start: b.BaseOffset()})
		}
		rest = after
	}
	run := bs[:len(bs)-len(rest)]
	if err := g.file.Append(run); err != nil {
		return nil, err
	}
	l.publish(g, st, int64(len(run)))
	if st.size-l.writeback >= writebackEvery {
		g.file.StartWriteback(l.writeback, st.size)
		l.writeback = st.size
	}
	return rest, nil
}

// publish shows readers what was written.
func (l *Log) publish(g *segment, st state, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.mu.Lock()
	g.idx.offsets = append(g.idx.offsets, l.scratch.offsets...)
	g.idx.times = append(g.idx.times, l.scratch.times...)
	g.mu.Unlock()
	g.state = st
	l.end = st.next
	for _, e := range l.newEpochs {
		e.Start = max(e.Start, l.start)
		l.epochs = append(l.epochs, e)
		l.newEpoch = true
	}
	l.unsynced += bytes
	l.changed = true
}
