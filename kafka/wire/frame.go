// Package wire is frames, headers and the codec between bytes and kmsg's types.
// The handler reads requests with it and writes answers. It refuses to know
// what requests mean and which of them are served. All of it takes hostile bytes.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// minFrame is the shortest request: key, version, correlation id, null client id.
	minFrame = 10
	// firstChunk bounds what a size alone makes us allocate; beyond it, memory
	// grows only with the bytes that arrive.
	firstChunk = 64 << 10
	// trusted is how many bytes of a request must have come before memory grows faster: eight times what has come.
	trusted = 1 << 20
)

// ErrFrameSize says that a frame's size is out of bounds. What follows on the
// connection cannot be understood: close it.
var ErrFrameSize = errors.New("request size is out of bounds")

// FrameReader reads requests. All fields but Larger must be set.
type FrameReader struct {
	R io.Reader
	// Limit says how many bytes a request of this API key may have, the size field
	// itself not counted. It is called once the key has come.
	Limit func(key int16) int32
	// Progress is called before each wait for bytes, to move a deadline. Its error ends the read.
	Progress func() error
	// Buffer gives memory to read a request of this key and size into, by its capacity; nil
	// where there is none to be used again.
	Buffer func(key int16, size int) []byte
	// Larger, where it is set, moves a request of which part has come into memory for n bytes that it has to be used again, and
	// owns what it was in from then on; nil where it has none.
	Larger func(key int16, frame []byte, n int) []byte
	// Reserve is called before more than firstChunk is allocated for a request, with the bytes
	// that are added. Its error ends the read.
	Reserve func(bytes int) error
}

// Next reads one request, without its size field. The error is io.EOF only if not a single byte came.
func (f *FrameReader) Next() ([]byte, error) {
	if err := f.Progress(); err != nil {
		return nil, err
	}
	// The size and the key, because the key decides what size is too much.
	var head [6]byte
	if _, err := io.ReadFull(f.R, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read request size: %w", err)
	}
	size := int32(binary.BigEndian.Uint32(head[:]))
	key := int16(binary.BigEndian.Uint16(head[4:]))
	if size < minFrame {
		return nil, fmt.Errorf("%w: %d bytes, less than a header", ErrFrameSize, size)
	}
	if limit := f.Limit(key); size > limit {
		return nil, fmt.Errorf("%w: %d bytes for API key %d, at most %d are taken (socket.request.max.bytes)",
			ErrFrameSize, size, key, limit)
	}
	frame := append(f.Buffer(key, int(size))[:0], head[4:]...)
	return f.rest(key, frame, int(size))
}

// Token reads one bare frame of at most limit bytes, as SASL tokens come after
// SaslHandshake version 0: no header, no least size.
func (f *FrameReader) Token(limit int32) ([]byte, error) {
	if err := f.Progress(); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(f.R, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read token size: %w", err)
	}
	size := int32(binary.BigEndian.Uint32(head[:]))
	if size < 0 || size > limit {
		return nil, fmt.Errorf("%w: token of %d bytes, at most %d are taken", ErrFrameSize, size, limit)
	}
	return f.rest(noKey, nil, int(size))
}

// noKey is of a frame that has no header.
const noKey = -1

func (f *FrameReader) rest(key int16, frame []byte, size int) ([]byte, error) {
	for len(frame) < size {
		// Twice what has come already, so that a size that lies costs the liar as much as us.
		until := min(size, max(cap(frame), 2*len(frame), firstChunk))
		if len(frame) >= trusted && cap(frame) < until {
			until = min(size, 8*len(frame))
		}
		if cap(frame) < until {
			var err error
			if frame, err = f.grow(key, frame, until); err != nil {
				return nil, err
			}
		}
		if err := f.Progress(); err != nil {
			return nil, err
		}
		n, err := io.ReadFull(f.R, frame[len(frame):until])
		frame = frame[:len(frame)+n]
		if err != nil {
			return nil, fmt.Errorf("read request: %d of %d bytes: %w", len(frame), size, noEOF(err))
		}
	}
	return frame, nil
}

// grow moves what has come into memory for until bytes.
func (f *FrameReader) grow(key int16, frame []byte, until int) ([]byte, error) {
	if until > firstChunk {
		if err := f.Reserve(until - cap(frame)); err != nil {
			return nil, err
		}
	}
	if f.Larger != nil {
		if larger := f.Larger(key, frame, until); larger != nil {
			return larger, nil
		}
	}
	grown := make([]byte, len(frame), until)
	copy(grown, frame)
	return grown, nil
}

// noEOF keeps an end inside a frame from looking like the end between two.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
