package commitlog

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store"
)

// Slice is a run of whole batches in one segment file. It holds the file open
// until Close, whatever truncation or retention does.
type Slice struct {
	File     store.File // nil for an empty slice
	Position int64
	Length   int64
	// Next is where the next batch begins, if the slice is empty because that is at or above the bound. Else 0.
	Next    kafka.Offset
	release func()
}

// Bytes reads the run into memory.
func (s Slice) Bytes() (batch.Batches, error) {
	if s.File == nil {
		return nil, nil
	}
	out := make([]byte, s.Length)
	if n, err := s.File.ReadAt(out, s.Position); n < len(out) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read segment at %d: %w", s.Position, err)
	}
	return out, nil
}

// Close lets go of the file.
func (s Slice) Close() {
	if s.release != nil {
		s.release()
	}
}

// lookTries bounds how often a look-up is begun again because its segment was replaced meanwhile.
const lookTries = 100

// Read finds the batches from the one that holds offset from (or, if from lies in
// a gap, the next one) to the last that begins below upTo (exclusive), at most maxBytes of them but
// always at least one whole batch when atLeastOne is set. They lie in one segment, so that there may be more. from may be
// EndOffset: an empty Slice. Else ErrOutOfRange. The Slice must be closed.
func (l *Log) Read(from, upTo kafka.Offset, maxBytes int, atLeastOne bool) (Slice, error) {
	want := span{from: from, upTo: upTo, maxBytes: min(int64(maxBytes), maxPosition), atLeastOne: atLeastOne}
	for range lookTries {
		s, err := l.readOnce(want)
		if !errors.Is(err, errGone) {
			return s, err
		}
	}
	return Slice{}, fmt.Errorf("read log at offset %d: segments changed %d times meanwhile", from, lookTries)
}

// span is what Read was asked for.
type span struct {
	from, upTo kafka.Offset
	maxBytes   int64
	atLeastOne bool
}

// spot is a segment with its state at one moment.
type spot struct {
	seg *segment
	st  state
}

// spots copies the segments from the one that may hold offset on, with their states.
// limit bounds how many.
func (l *Log) spots(offset kafka.Offset, limit int, out []spot) ([]spot, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return nil, errClosed
	}
	if offset < l.start || offset > l.end {
		return nil, fmt.Errorf("%w: %d is not in [%d, %d]", ErrOutOfRange, offset, l.start, l.end)
	}
	if offset == l.end {
		return nil, nil
	}
	i := sort.Search(len(l.segs), func(i int) bool { return l.segs[i].next > offset })
	for ; i < len(l.segs) && len(out) < limit; i++ {
		out = append(out, spot{l.segs[i], l.segs[i].state})
	}
	return out, nil
}

func (l *Log) readOnce(want span) (Slice, error) {
	// The first segment that ends above from holds a batch that does: a segment ends with its last batch.
	var room [1]spot
	spots, err := l.spots(want.from, 1, room[:0])
	if err != nil || len(spots) == 0 {
		return Slice{}, err
	}
	v, err := l.view(spots[0].seg, spots[0].st)
	if err != nil {
		return Slice{}, err
	}
	from, to, next, err := v.find(want)
	if err != nil || from == to {
		v.file.release()
		return Slice{Next: next}, err
	}
	return Slice{File: v.file.File, Position: from, Length: to - from, release: v.file.release}, nil
}

// lookBufs are buffers for find.
var lookBufs = sync.Pool{New: func() any { b := make([]byte, 0, lookChunk); return &b }}

// find is where the wanted batches begin and end in the segment. If the first one lies at or above the bound,
// next is where it begins.
func (v *view) find(want span) (from, to int64, next kafka.Offset, err error) {
	buf := lookBufs.Get().(*[]byte)
	defer lookBufs.Put(buf)
	s := scanner{file: v.file, pos: v.positionOf(want.from), end: v.size, chunk: lookChunk, heads: true, buf: (*buf)[:0]}
	at, first, n, err := s.seek(want.from)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("read segment %s at %d: %w", logName(v.base), s.pos, err)
	}
	if first.BaseOffset() >= want.upTo {
		return 0, 0, first.BaseOffset(), nil
	}
	if n > want.maxBytes {
		if want.atLeastOne {
			return at, at + n, 0, nil
		}
		return 0, 0, 0, nil
	}
	limit := at + want.maxBytes
	if want.upTo >= v.next && v.size <= limit {
		return at, v.size, 0, nil
	}
	if skip := v.boundary(limit, want.upTo); skip > s.pos {
		s.pos = skip
	}
	for {
		end := s.pos
		b, _, err := s.next()
		if errors.Is(err, io.EOF) {
			return at, end, 0, nil
		}
		if err != nil {
			return 0, 0, 0, fmt.Errorf("read segment %s at %d: %w", logName(v.base), end, err)
		}
		if s.pos > limit || b.BaseOffset() >= want.upTo {
			return at, end, 0, nil
		}
	}
}

// seek walks to the first batch that ends above offset and is its position, itself (header only with heads) and its size.
func (s *scanner) seek(offset kafka.Offset) (at int64, b batch.Batch, n int64, err error) {
	for {
		at = s.pos
		b, n, err = s.next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil || b.NextOffset() > offset {
			return at, b, n, err
		}
	}
}
