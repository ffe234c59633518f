package commitlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store"
)

const (
	// lookChunk is what a look for a place reads at once: about an index interval.
	lookChunk = 8 << 10
	// walkChunk is what a walk over a segment reads at once.
	walkChunk = 256 << 10
)

// scanner reads batches from a file, one after another. A batch is valid until the
// next call. Its buffer grows to the largest batch, which the file's size bounds.
type scanner struct {
	file  io.ReaderAt
	pos   int64 // of the next batch
	end   int64 // bytes from here on are not looked at
	chunk int
	heads bool // only the headers: batches are HeaderSize long

	buf   []byte
	start int64 // position of buf[0]
}

// fill makes at least n bytes from pos on available, fewer only at the end.
func (s *scanner) fill(n int) ([]byte, error) {
	n = int(min(int64(n), s.end-s.pos))
	have := int64(0)
	if s.pos >= s.start && s.pos < s.start+int64(len(s.buf)) {
		have = s.start + int64(len(s.buf)) - s.pos
	}
	if have < int64(n) {
		want := int(min(max(int64(n), int64(s.chunk)), s.end-s.pos))
		if cap(s.buf) < want {
			s.buf = make([]byte, 0, want)
		}
		s.buf = s.buf[:want]
		s.start = s.pos
		if got, err := s.file.ReadAt(s.buf, s.pos); got < want {
			s.buf = s.buf[:0]
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	from := s.pos - s.start
	return s.buf[from:], nil
}

// next is the next batch and its whole size, header checked, CRC not; io.EOF at the end. Errors
// other than readError are those of batch.Split: the bytes are no batch. pos stays then.
func (s *scanner) next() (b batch.Batch, size int64, err error) {
	if s.pos >= s.end {
		return nil, 0, io.EOF
	}
	head, err := s.fill(batch.HeaderSize)
	if err != nil {
		return nil, 0, &readError{err}
	}
	b, whole, err := batch.Head(head)
	if err != nil {
		return nil, 0, err
	}
	size = int64(whole)
	if size > s.end-s.pos {
		return nil, 0, batch.ErrShort
	}
	if s.heads {
		s.pos += size
		return b, size, nil
	}
	full, err := s.fill(whole)
	if err != nil {
		return nil, 0, &readError{err}
	}
	s.pos += size
	return batch.Batch(full[:size:size]), size, nil
}

// readError is a failure of the store, not of the bytes.
type readError struct{ err error }

func (e *readError) Error() string { return fmt.Sprintf("read segment: %v", e.err) }
func (e *readError) Unwrap() error { return e.err }

// rescan makes a segment's state and index anew from the batches in its first
// st.size bytes.
func (l *Log) rescan(f store.File, st state) (state, *index, error) {
	again, x, interval := newState(st.base, st.created), &index{}, l.cfg.Load().IndexInterval
	s := scanner{file: f, end: st.size, chunk: walkChunk, heads: true}
	for {
		b, size, err := s.next()
		if errors.Is(err, io.EOF) {
			return again, x, nil
		}
		if err != nil {
			return again, x, fmt.Errorf("read segment %s at %d: %w", logName(st.base), s.pos, err)
		}
		again.add(b, size, interval, x)
	}
}
