package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store"
)

const (
	// sector is what a disk writes whole or not at all, in bytes.
	sector = 512
	// searchWindow is how far above the last good offset a batch found behind a bad region may
	// begin and still be taken for one of ours: batches can hold batches, as values.
	searchWindow = 1 << 32
)

// corrupt names the place of bytes that are not what was written.
func corrupt(base kafka.Offset, position int64, why error) error {
	return fmt.Errorf("%w: %s at %d: %w", ErrCorrupt, logName(base), position, why)
}

// recoverSegment reads a segment that the checkpoint does not vouch for. Segments come in order.
func (o *opening) recoverSegment(base kafka.Offset, size int64, last bool) error {
	o.recovery.Clean = false
	if err := o.readMark(); err != nil {
		return err
	}
	floor := o.floor(base, size)
	if floor == 0 && (o.torn || o.cutOff(base)) {
		o.torn = true
		o.stale, o.newNames = true, true
		o.recovery.TornBytes += size
		return o.removeSegment(base)
	}
	if size < floor {
		return corrupt(base, size, fmt.Errorf("the file ends here, %d bytes were synced", floor))
	}
	g := newSegment(o.dir, newState(base, 0))
	good, torn, err := o.readSegment(g, size, floor, last)
	if err != nil {
		g.kill()
		return err
	}
	if torn {
		o.torn = true
		o.recovery.TornBytes += size - good
		o.stale, o.newNames = true, true
		if good > 0 {
			g.closeFile() // so that it can be cut in place
			if err := o.dir.Cut(logName(base), good); err != nil {
				return err
			}
		}
	}
	return o.keep(g, floor, last)
}

// readSegment takes in what is good and says where that ends and whether it is torn there.
func (o *opening) readSegment(g *segment, size, floor int64, last bool) (good int64, torn bool, err error) {
	f, err := g.acquire()
	if err != nil {
		return 0, false, err
	}
	defer f.release()
	o.resumeFrom(g)
	if size > floor {
		// After a write or sync that failed the system may go on showing bytes that the disk does not have, and call
		// them synced when asked again: what is judged here must come from the disk.
		f.Uncache(floor&^(uncachePage-1), size)
	}
	good, why := o.walk(g, f, size)
	if why == nil {
		return good, false, nil
	}
	return good, true, o.judge(g, f, place{good, size, floor}, last, why)
}

// cutOff reports whether a segment of which nothing is known to be synced does not go on where the one
// before it ends. It is named by that end: so what it holds comes after a lost tail, or after
// a hole that no segment can span, and goes. Nothing is lost that was synced: the
// sync of a new segment's first byte writes a checkpoint that names it, unless it is the first of all and begins where the log does.
func (o *opening) cutOff(base kafka.Offset) bool {
	switch {
	case o.spoilt:
		return false
	case len(o.segs) == 0:
		return base > o.start // a first batch may begin below the start
	}
	return o.segs[len(o.segs)-1].next != base
}

func (o *opening) readMark() error {
	if o.mark != nil {
		return nil
	}
	m, err := readMark(o.dir, o.generation)
	if m == nil {
		m = &mark{tail: tail{resume: state{base: -1}}}
	}
	o.mark = m
	return err
}

// floor is how many bytes of the segment are known to be synced.
func (o *opening) floor(base kafka.Offset, size int64) int64 {
	floor := int64(0)
	switch {
	case base < o.mark.resume.base:
		floor = size
	case base == o.mark.resume.base:
		floor = o.mark.size
	}
	if t := o.ck.tail; t != nil && t.resume.base == base {
		floor = max(floor, t.size)
	}
	return floor
}

// resumeFrom takes up the highest state whose index files are whole, else begins at 0.
func (o *opening) resumeFrom(g *segment) {
	best := state{}
	if o.mark.resume.base == g.base {
		best = o.mark.resume
	}
	if t := o.ck.tail; t != nil && t.resume.base == g.base && t.resume.size > best.size {
		best = t.resume
	}
	g.idx = &index{}
	if best.size == 0 {
		return
	}
	x, err := readIndex(o.dir, g.base, best.sums)
	if err != nil {
		o.recovery.RebuiltFiles = append(o.recovery.RebuiltFiles, indexName(g.base), timeName(g.base))
		return
	}
	g.state, g.flushed, g.idx = best, best, x
}

// walk takes in the good batches from where g's state stands and says where, and why, it stopped;
// nil at the end of the file. The CRC is checked.
func (o *opening) walk(g *segment, f store.File, size int64) (good int64, err error) {
	s := scanner{file: f, pos: g.size, end: size, chunk: walkChunk}
	interval := o.cfg.Load().IndexInterval
	epoch := kafka.NoEpoch
	for {
		at := s.pos
		b, n, err := s.next()
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err == nil {
			err = follows(&g.state, b, epoch)
		}
		o.recovery.ScannedBytes += n
		if err != nil {
			return at, err
		}
		epoch = b.LeaderEpoch()
		if epoch > o.lastEpoch() {
			o.newEpoch = true
			o.epochs = append(o.epochs[:len(o.epochs):len(o.epochs)], kafka.EpochStart{Epoch: epoch, Start: b.BaseOffset()})
		}
		if g.size == 0 {
			g.created = max(b.MaxTimestamp(), 0)
		}
		g.add(b, n, interval, g.idx)
	}
}

// follows checks a whole batch against what stands before it.
func follows(st *state, b batch.Batch, epoch kafka.LeaderEpoch) error {
	if b.BaseOffset() < st.next {
		return fmt.Errorf("batch begins at offset %d, below %d", b.BaseOffset(), st.next)
	}
	if b.LeaderEpoch() < epoch {
		return fmt.Errorf("batch at offset %d has leader epoch %d, below %d", b.BaseOffset(), b.LeaderEpoch(), epoch)
	}
	if !st.fits(b) {
		return fmt.Errorf("batch at offset %d is too far from the segment's base", b.BaseOffset())
	}
	return b.CheckCRC()
}

// place is where a segment that is being read turned bad.
type place struct {
	good  int64 // end of the good batches
	size  int64 // of the file
	floor int64 // known to be synced
}

// judge decides about a bad region: nil if it is a torn tail, to be cut; else an error that says what it is.
func (o *opening) judge(g *segment, f store.File, at place, last bool, why error) error {
	var failed *readError
	if errors.As(why, &failed) {
		return why
	}
	if at.good < at.floor {
		return corrupt(g.base, at.good, fmt.Errorf("%w (synced up to %d)", why, at.floor))
	}
	if o.spoilt && !last {
		return corrupt(g.base, at.good, fmt.Errorf("%w, and a later segment follows", why))
	}
	head := headAt(f, at)
	unwritten, err := hasUnwritten(f, at, head, g.next)
	if err != nil {
		return err
	}
	if !unwritten {
		found, err := findBatch(f, at.good+1, at.size, g.next)
		if err != nil {
			return err
		}
		if found >= 0 {
			return corrupt(g.base, at.good, fmt.Errorf("%w, and a whole batch follows at %d", why, found))
		}
	}
	if head != nil && o.recovery.FormerEnd == kafka.NoOffset && head.BaseOffset() >= g.next {
		o.recovery.FormerEnd = head.NextOffset()
	}
	return nil
}

// keep takes a recovered segment into the log, or removes it if nothing is left of it.
func (o *opening) keep(g *segment, floor int64, last bool) error {
	if g.size == 0 {
		g.kill()
		o.newNames = true
		return o.removeSegment(g.base)
	}
	g.syncedSize = min(floor, g.size) // the rest may be in the system's memory only
	if floor == 0 {
		o.newNames = true
	}
	if !last && !o.torn {
		g.addTime(g.idx)
		g.sealed.Store(true)
		o.stale = true
	}
	o.changed = true
	o.segs = append(o.segs, g)
	o.end = max(o.end, g.next)
	return nil
}

// headAt is the batch header where a segment turned bad, nil if there is none that could be one.
func headAt(f store.File, at place) batch.Batch {
	raw := make([]byte, min(batch.HeaderSize, at.size-at.good))
	if _, err := f.ReadAt(raw, at.good); err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	head, _, err := batch.Head(raw)
	if err != nil {
		return nil
	}
	return head
}

// hasUnwritten reports whether the bad batch holds blocks that were never written. Bytes that
// were not synced reach the disk in any order, sector by sector, and read as zeros
// until they do, also where later ones have arrived. Decay does not look like that.
// next is the offset that the batch begins at or above.
func hasUnwritten(f store.File, at place, head batch.Batch, next kafka.Offset) (bool, error) {
	extent := int64(2 * sector) // enough to see the sector after the one in which a broken header begins
	if head != nil {
		whole, _ := batch.SizeOf(head)
		extent = int64(whole)
	}
	s := scanner{file: f, pos: at.good, end: min((at.good+extent+sector-1)/sector*sector, at.size), chunk: walkChunk}
	for s.pos < s.end {
		// The first sector counts from the batch's begin: what is before it was there already.
		first := s.pos == at.good
		n := min((s.pos/sector+1)*sector, s.end) - s.pos
		bytesThere, err := s.fill(int(n))
		if err != nil {
			return false, &readError{err}
		}
		block := bytesThere[:n]
		s.pos += n
		enough := n == sector || s.pos == at.size || first && cannotBeZero(n, next)
		if enough && len(bytes.Trim(block, "\x00")) == 0 {
			return true, nil
		}
	}
	return false, nil
}

// cannotBeZero reports whether a batch that begins at offset next or above must have a bit set in its
// first n bytes, of which eight are the offset.
func cannotBeZero(n int64, next kafka.Offset) bool {
	return n >= batch.PrefixSize || n >= 8 && next > 0 || n < 8 && next >= 1<<(8*(8-n))
}

// findBatch looks for a whole batch that begins in [from, size) and could have been appended after offset
// next, and is its position, -1 if there is none. Its work is bounded: when checking
// what looks like batches costs too much, the region is not what a crash leaves, and it counts as found.
func findBatch(f store.File, from, size int64, next kafka.Offset) (int64, error) {
	budget := 4*(size-from) + 64<<20
	s := scanner{file: f, end: size, chunk: walkChunk}
	for s.pos = from; s.pos+batch.HeaderSize <= size; s.pos++ {
		window, err := s.fill(batch.HeaderSize)
		if err != nil {
			return 0, &readError{err}
		}
		// Skip at once to the next byte that can be a magic.
		skip := bytes.IndexByte(window[batch.PrefixSize-1:], 2)
		if skip < 0 {
			s.pos += int64(len(window) - batch.PrefixSize)
			continue
		}
		if skip > 0 {
			s.pos += int64(skip) - 1
			continue
		}
		base := kafka.Offset(binary.BigEndian.Uint64(window))
		if base < next || base-next > searchWindow {
			continue
		}
		at := s.pos
		b, n, err := s.next()
		s.pos = at
		var failed *readError
		if errors.As(err, &failed) {
			return 0, err
		}
		if err != nil {
			continue
		}
		if budget -= n; budget < 0 || b.CheckCRC() == nil {
			return at, nil
		}
	}
	return -1, nil
}
