package commitlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store"
)

// ErrReplaced says that the segments to be rewritten are not the log's any more, or cannot be: look again.
var ErrReplaced = errors.New("segments changed meanwhile")

// errCleaned says that a segment was rewritten since it was looked up: its batches, or
// what is left of them, are still in the log.
var errCleaned = fmt.Errorf("%w by its cleaner", errGone)

// cleanedSuffix ends the name of a segment that is being rewritten.
const cleanedSuffix = ".cleaned"

// cleanBuffer is how many bytes of a rewritten segment are written at once.
const cleanBuffer = 1 << 20

func cleanedName(base kafka.Offset) string { return fmt.Sprintf("%020d%s", base, cleanedSuffix) }

// Edit says what becomes of a batch: itself, another with the same offsets, or nil for nothing; last is set for the
// last one of the segments, which must not be dropped. The batch is valid until it returns; what it
// returns is copied.
type Edit func(b batch.Batch, last bool) (batch.Batch, error)

// Rewrite is a segment that is to take the place of one or more.
type Rewrite struct {
	log   *Log
	group []*segment
	st    state
	idx   *index
	// Read and Written are bytes of batches before and after.
	Read, Written int64
	// Changed is false when the one segment would be replaced by its like.
	Changed bool

	file store.File
	buf  []byte
}

// Rewrite writes the batches of sealed and synced segments that follow on each other, named by their bases, into
// one new file, edited. Nothing changes until Swap; one Rewrite at a time. ErrReplaced if there are no such
// segments, ErrCorrupt if a batch fails its CRC; what edit returns comes back as it is. It may run beside everything else.
func (l *Log) Rewrite(bases []kafka.Offset, edit Edit) (*Rewrite, error) {
	r := &Rewrite{log: l}
	l.mu.RLock()
	r.group = l.groupOf(bases)
	var states []state
	for _, g := range r.group {
		states = append(states, g.state)
	}
	l.mu.RUnlock()
	if r.group == nil {
		return nil, ErrReplaced
	}
	name := cleanedName(bases[0])
	if err := l.dir.Remove(name); err != nil {
		return nil, fmt.Errorf("rewrite segments: %w", err)
	}
	file, err := l.dir.Create(name)
	if err != nil {
		return nil, fmt.Errorf("rewrite segments: %w", err)
	}
	r.file, r.idx = file, &index{}
	r.st = newState(bases[0], states[len(states)-1].created)
	r.Changed = len(r.group) > 1
	for i, st := range states {
		if err := r.copy(r.group[i], st, i == len(states)-1, edit); err != nil {
			return nil, errors.Join(err, r.drop())
		}
	}
	if err := r.finish(states[len(states)-1].next); err != nil {
		return nil, errors.Join(fmt.Errorf("rewrite segments: %w", err), r.drop())
	}
	return r, nil
}

// groupOf finds the segments, nil if they are not there side by side, settled, with another behind them. It needs mu.
func (l *Log) groupOf(bases []kafka.Offset) []*segment {
	i := slices.IndexFunc(l.segs, func(g *segment) bool { return len(bases) > 0 && g.base == bases[0] })
	if i < 0 || i+len(bases) >= len(l.segs) || l.closed {
		return nil
	}
	group := l.segs[i : i+len(bases) : i+len(bases)]
	for k, g := range group {
		if g.base != bases[k] || !g.settled.Load() {
			return nil
		}
	}
	return group
}

// copy takes over one segment's batches.
func (r *Rewrite) copy(g *segment, st state, lastSegment bool, edit Edit) error {
	f, err := g.acquire()
	if errors.Is(err, errGone) {
		return ErrReplaced
	}
	if err != nil {
		return err
	}
	defer f.release()
	s := scanner{file: f, end: st.size, chunk: walkChunk}
	for {
		at := s.pos
		b, n, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			return corrupt(g.base, at, err)
		}
		r.Read += n
		out, err := edit(b, lastSegment && s.pos == st.size)
		if err != nil {
			return err
		}
		if len(out) != len(b) || out.CRC() != b.CRC() {
			r.Changed = true
		}
		if len(out) == 0 {
			continue
		}
		if err := r.write(out); err != nil {
			return fmt.Errorf("rewrite segments: %w", err)
		}
	}
}

func (r *Rewrite) write(b batch.Batch) error {
	size := int64(len(b))
	if !r.st.fits(b) || r.st.size+size > maxPosition || b.BaseOffset() < r.st.next {
		return fmt.Errorf("batch at offset %d does not fit the segment %s", b.BaseOffset(), logName(r.st.base))
	}
	r.st.add(b, size, r.log.cfg.Load().IndexInterval, r.idx)
	r.Written += size
	r.buf = append(r.buf, b...)
	if len(r.buf) < cleanBuffer {
		return nil
	}
	return r.flush()
}

func (r *Rewrite) flush() error {
	err := r.file.Append(r.buf)
	r.file.StartWriteback(r.file.Size()-int64(len(r.buf)), r.file.Size())
	r.buf = r.buf[:0]
	return err
}

// finish makes the new file durable.
func (r *Rewrite) finish(next kafka.Offset) error {
	if err := r.flush(); err != nil {
		return err
	}
	r.buf = nil
	if r.st.next != next {
		return fmt.Errorf("the rewritten segment ends at %d, not at %d", r.st.next, next)
	}
	r.st.addTime(r.idx)
	r.st.sums = r.idx.sums()
	err := r.file.Sync()
	err = errors.Join(err, r.file.Close())
	r.file = nil
	if err != nil {
		return err
	}
	return r.log.dir.SyncDir()
}

// Drop removes what was written. Not for after a Swap.
func (r *Rewrite) Drop() error {
	if err := r.drop(); err != nil {
		return fmt.Errorf("drop rewritten segment: %w", err)
	}
	return nil
}

func (r *Rewrite) drop() error {
	var err error
	if r.file != nil {
		err = r.file.Close()
		r.file = nil
	}
	return errors.Join(err, r.log.dir.Remove(cleanedName(r.st.base)))
}

// Swap puts the new segment in the place of the old ones, durably: after a crash at any moment one or the other is
// there. Readers that hold a Slice keep their bytes. ErrReplaced, and nothing done, if the old ones were cut or
// removed meanwhile. Another error wraps store.ErrFailed, the log is for reading only then.
func (r *Rewrite) Swap() error {
	l := r.log
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.RLock()
	err := l.usable()
	at := slices.Index(l.segs, r.group[0])
	if at < 0 || at+len(r.group) >= len(l.segs) || !slices.Equal(l.segs[at:at+len(r.group)], r.group) {
		err = errors.Join(err, ErrReplaced)
	}
	segs := l.segs
	l.mu.RUnlock()
	if err != nil {
		return errors.Join(fmt.Errorf("swap segments: %w", err), r.drop())
	}
	if err := r.swap(segs, at); err != nil {
		return fmt.Errorf("swap segments: %w", l.fail(err))
	}
	return nil
}

// swap needs syncMu. The checkpoint that names the new segment decides: before it the new file is rubbish, from it
// on the next Open finishes what is left to do.
func (r *Rewrite) swap(segs []*segment, at int) error {
	l := r.log
	g := newSegment(l.dir, r.st)
	g.sealed.Store(true)
	g.settled.Store(true)
	replaced := func(segs []*segment) []*segment {
		return slices.Concat(segs[:at], []*segment{g}, segs[at+len(r.group):])
	}
	l.generation++ // a mark may speak of more bytes under the same name
	c := l.snapshotOf(replaced(segs))
	c.pending, c.cutBase, c.cutSize = pendingSwap, r.st.base, r.st.size
	if err := l.writeCheckpoint(c); err != nil {
		return err
	}
	// Nobody may open the name before it means the new file.
	g.mu.Lock()
	err := r.swapFiles(g, replaced)
	g.mu.Unlock()
	if err != nil {
		return err
	}
	c = l.snapshotOf(replaced(segs))
	return l.writeCheckpoint(c)
}

func (r *Rewrite) swapFiles(g *segment, replaced func([]*segment) []*segment) error {
	l := r.log
	l.mu.Lock()
	l.segs = replaced(l.segs) // appends may have added to it
	l.changed = true
	l.mu.Unlock()
	for _, old := range r.group {
		old.replace()
		l.opened.drop(old)
	}
	if err := l.dir.Rename(cleanedName(g.base), logName(g.base)); err != nil {
		return err
	}
	if err := l.finishSwap(g.base, basesOf(r.group)); err != nil {
		return err
	}
	if _, err := l.writeIndex(g.base, indexSums{}, *r.idx, durable); err != nil {
		return err
	}
	return l.dir.SyncDir()
}

// finishSwap removes the old files once the new one has its name, the indexes of that name among them. It may be
// done again at any time.
func (l *Log) finishSwap(named kafka.Offset, old []kafka.Offset) error {
	// The new name must be sure before the last of the old files goes.
	err := l.dir.SyncDir()
	if err != nil {
		return err
	}
	for _, base := range slices.Backward(old) {
		if base == named {
			err = errors.Join(l.dir.Remove(indexName(base)), l.dir.Remove(timeName(base)))
		} else {
			err = l.removeSegment(base)
		}
		if err != nil {
			return err
		}
	}
	return l.dir.SyncDir()
}

func basesOf(segs []*segment) []kafka.Offset {
	bases := make([]kafka.Offset, len(segs))
	for i, g := range segs {
		bases[i] = g.base
	}
	return bases
}

// sums are those of index files that hold all of the entries.
func (x *index) sums() indexSums {
	return indexSums{
		offsets: uint32(len(x.offsets)), offsetsCRC: crc32.Checksum(encodeOffsets(nil, x.offsets), castagnoli),
		times: uint32(len(x.times)), timesCRC: crc32.Checksum(encodeTimes(nil, x.times), castagnoli),
	}
}

// replace shuts the segment for good, as its rewritten like takes its place.
func (g *segment) replace() {
	g.mu.Lock()
	g.cleaned = true
	g.mu.Unlock()
	g.kill()
}

// finishRewrite finishes the swap that a crash interrupted, and otherwise removes what was never swapped in.
func (o *opening) finishRewrite() error {
	if o.ck.pending != pendingSwap {
		return nil
	}
	i := slices.IndexFunc(o.ck.sealed, func(s state) bool { return s.base == o.ck.cutBase })
	if i < 0 {
		return fmt.Errorf("%w: the rewritten segment %s is not listed", ErrCorrupt, logName(o.ck.cutBase))
	}
	st := o.ck.sealed[i]
	var old []kafka.Offset
	for _, base := range o.bases {
		if base == st.base || base > st.base && base < st.next {
			old = append(old, base)
		}
	}
	err := o.dir.Rename(cleanedName(st.base), logName(st.base))
	if err != nil && !errors.Is(err, store.ErrNotExist) { // it was renamed before the crash
		return err
	}
	if err := o.finishSwap(st.base, old); err != nil {
		return err
	}
	o.stale, o.newNames = true, true
	o.ck.pending = pendingNone
	return o.list()
}

// removeRewrites removes files that were being written when a crash came. With a spoilt checkpoint they stay: they may
// be all that is left of a segment.
func (o *opening) removeRewrites() error {
	if o.spoilt {
		return nil
	}
	for name := range o.files {
		if _, ok := parseName(name, cleanedSuffix); !ok {
			continue
		}
		if err := o.dir.Remove(name); err != nil {
			return err
		}
		o.newNames = true
	}
	return nil
}
