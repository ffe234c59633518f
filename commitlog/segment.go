package commitlog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store"
)

// errGone says that a segment was removed or replaced since it was looked up: look again.
var errGone = errors.New("segment was replaced")

const (
	// maxRelative is the largest offset relative to a segment's base that an index entry can hold.
	maxRelative = 1<<31 - 1
	// maxPosition is where a segment ends at the latest, as Kafka's int32 positions demand.
	maxPosition = 1<<31 - 1
)

// state is what is known of a segment's first size bytes. All but the index sums
// follows from the batches there, so that a scan may go on from a state that was stored.
type state struct {
	base          kafka.Offset
	size          int64
	next          kafka.Offset // exclusive end; base for an empty segment
	maxTime       int64        // Unix ms; -1 while there is none
	maxTimeOffset kafka.Offset // last offset of the first batch that has maxTime
	created       int64        // Unix ms of the first append, as the clock said then
	sinceEntry    int64        // bytes since the last index entry
	lastTime      int64        // timestamp of the last time index entry, -1 if there is none
	sums          indexSums
}

func newState(base kafka.Offset, created int64) state {
	return state{base: base, next: base, maxTime: -1, maxTimeOffset: kafka.NoOffset, created: created, lastTime: -1}
}

// add takes in the next batch, size bytes long though b may be its header only, and
// notes it in x when an index entry is due: the rule is Kafka's (LogSegment.append), and so are the entries.
func (s *state) add(b batch.Batch, size, interval int64, x *index) {
	last := b.LastOffset()
	if t := b.MaxTimestamp(); t > s.maxTime {
		s.maxTime, s.maxTimeOffset = t, last
	}
	if s.sinceEntry > interval {
		x.offsets = append(x.offsets, offsetEntry{uint32(last - s.base), uint32(s.size)})
		s.addTime(x)
		s.sinceEntry = 0
	}
	s.size += size
	s.sinceEntry += size
	s.next = last + 1
}

// addTime notes the largest timestamp so far unless the index has it already.
func (s *state) addTime(x *index) {
	if s.maxTime > s.lastTime {
		x.times = append(x.times, timeEntry{s.maxTime, uint32(s.maxTimeOffset - s.base)})
		s.lastTime = s.maxTime
	}
}

// fits reports whether a batch's offsets can be told relative to the base.
func (s *state) fits(b batch.Batch) bool { return b.LastOffset()-s.base <= maxRelative }

// segment is one .log file and its indexes.
type segment struct {
	base kafka.Offset
	dir  store.Dir // where its files are: a log that was taken over has another one than before

	state            // guarded by Log.mu
	syncedSize int64 // bytes that a crash cannot take; guarded by Log.syncMu
	uncached   int64 // bytes that KeepCached has been seen to for; guarded by Log.syncMu

	sealed  atomic.Bool // takes no more batches
	settled atomic.Bool // and log and index files are synced: may be closed and read again

	mu      sync.Mutex  // guards what follows
	file    *sharedFile // nil while closed
	idx     *index      // nil while not loaded
	flushed state       // the state up to which the index files have entries, with their sums
	dead    bool        // its name now means something else, or nothing: do not open it
	cleaned bool        // and why: what is left of its batches is in a rewritten segment
}

func newSegment(dir store.Dir, st state) *segment {
	return &segment{base: st.base, dir: dir, state: st, syncedSize: st.size, uncached: st.size, flushed: st}
}

func logName(base kafka.Offset) string   { return fmt.Sprintf("%020d.log", base) }
func indexName(base kafka.Offset) string { return fmt.Sprintf("%020d.index", base) }
func timeName(base kafka.Offset) string  { return fmt.Sprintf("%020d.timeindex", base) }

// sharedFile is a file that closes when the last of its holders lets go.
type sharedFile struct {
	store.File
	refs atomic.Int32
}

func share(f store.File) *sharedFile {
	s := &sharedFile{File: f}
	s.refs.Store(1)
	return s
}

func (s *sharedFile) retain() { s.refs.Add(1) }

// release closes the file with the last holder. What a close could report of a file
// whose writes were synced, or are to be thrown away, nobody can act on.
func (s *sharedFile) release() {
	if s.refs.Add(-1) == 0 {
		_ = s.File.Close()
	}
}

// acquire is the segment's file, held for the caller, who releases it.
func (g *segment) acquire() (*sharedFile, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.acquireLocked()
}

func (g *segment) acquireLocked() (*sharedFile, error) {
	switch {
	case g.cleaned:
		return nil, errCleaned
	case g.dead:
		return nil, errGone
	}
	if g.file == nil {
		f, err := g.dir.Open(logName(g.base))
		if err != nil {
			return nil, fmt.Errorf("open segment %s: %w", logName(g.base), err)
		}
		g.file = share(f)
	}
	g.file.retain()
	return g.file, nil
}

// closeFile lets go of the file and keeps the index.
func (g *segment) closeFile() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil {
		g.file.release()
		g.file = nil
	}
}

// shut lets go of file and index; they come back when they are needed.
func (g *segment) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file != nil {
		g.file.release()
	}
	g.file, g.idx = nil, nil
}

// kill shuts the segment for good, before its name is removed or replaced.
func (g *segment) kill() {
	g.mu.Lock()
	g.dead = true
	g.mu.Unlock()
	g.shut()
}

// view is a segment's file and index at one moment.
type view struct {
	file *sharedFile
	state
	offsets []offsetEntry
	times   []timeEntry
}

// view opens a segment at the state st that the caller copied under Log.mu. The caller releases view.file.
func (l *Log) view(g *segment, st state) (view, error) {
	g.mu.Lock()
	f, err := g.acquireLocked()
	if err == nil {
		if err = l.loadIndex(g, f, st); err != nil {
			f.release()
		}
	}
	if err != nil {
		g.mu.Unlock()
		return view{}, err
	}
	v := view{file: f, state: st, offsets: g.idx.offsets, times: g.idx.times}
	g.mu.Unlock()
	l.opened.touch(g)
	return v, nil
}

// loadIndex reads the index files, or makes the index anew if they are not what
// was written. Called with g.mu held. Only a segment to which nothing was appended since
// its files were written can be without its index in memory.
func (l *Log) loadIndex(g *segment, f store.File, st state) error {
	if g.idx != nil {
		return nil
	}
	if x, err := readIndex(g.dir, g.base, st.sums); err == nil {
		g.idx = x
		return nil
	}
	again, x, err := l.rescan(f, st)
	if err != nil {
		return fmt.Errorf("rebuild index of %s: %w", logName(g.base), err)
	}
	g.idx = x
	if g.sealed.Load() {
		again.addTime(x)
	} else {
		g.flushed = newState(g.base, st.created) // the next flush writes the files anew
	}
	return nil
}

// openList bounds how many sealed segments of one log are open: a reader that works
// its way up needs one, and ten thousand partitions must fit in the file limit.
type openList struct {
	mu   sync.Mutex
	segs []*segment // last used last
}

const sealedOpenMax = 4

func (o *openList) touch(g *segment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, have := range o.segs {
		if have == g {
			copy(o.segs[i:], o.segs[i+1:])
			o.segs[len(o.segs)-1] = g
			return
		}
	}
	o.segs = append(o.segs, g)
	if len(o.segs) <= sealedOpenMax+1 { // the active one is among them and does not count
		return
	}
	for i, have := range o.segs {
		if have.settled.Load() {
			have.shut()
			o.segs = append(o.segs[:i], o.segs[i+1:]...)
			return
		}
	}
}

// drop forgets a segment that is no more.
func (o *openList) drop(g *segment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, have := range o.segs {
		if have == g {
			o.segs = append(o.segs[:i], o.segs[i+1:]...)
			return
		}
	}
}
