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
)

// ErrFrameSize says that a frame's size is out of bounds. What follows on the
// connection cannot be understood: close it.
var ErrFrameSize = errors.New("request size is out of bounds")

// Limits says how many bytes a request of this API key may have, the size field
// itself not counted.
type Limits func(key int16) int32

// ReadFrame reads one request without its size field. The frame is in buf if it
// fits (buf's length does not matter), else in a new slice. progress is called
// before each wait for bytes, to move a deadline; its error ends the read. The
// error is io.EOF only if not a single byte came.
func ReadFrame(r io.Reader, buf []byte, limits Limits, progress func() error) ([]byte, error) {
	if err := progress(); err != nil {
		return nil, err
	}
	// The size and the key, because the key decides what size is too much.
	var head [6]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
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
	if limit := limits(key); size > limit {
		return nil, fmt.Errorf("%w: %d bytes for API key %d, at most %d are taken (socket.request.max.bytes)", ErrFrameSize, size, key, limit)
	}
	frame := append(buf[:0], head[4:]...)
	return readRest(r, frame, int(size), progress)
}

// ReadToken reads one bare frame of at most limit bytes, as SASL tokens come after
// SaslHandshake version 0: no header, no least size.
func ReadToken(r io.Reader, limit int32, progress func() error) ([]byte, error) {
	if err := progress(); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read token size: %w", err)
	}
	size := int32(binary.BigEndian.Uint32(head[:]))
	if size < 0 || size > limit {
		return nil, fmt.Errorf("%w: token of %d bytes, at most %d are taken", ErrFrameSize, size, limit)
	}
	return readRest(r, nil, int(size), progress)
}

func readRest(r io.Reader, frame []byte, size int, progress func() error) ([]byte, error) {
	for len(frame) < size {
		// Twice what has come already, so that a size that lies costs the liar as much as us.
		until := min(size, max(cap(frame), 2*len(frame), firstChunk))
		if cap(frame) < until {
			grown := make([]byte, len(frame), until)
			copy(grown, frame)
			frame = grown
		}
		if err := progress(); err != nil {
			return nil, err
		}
		n, err := io.ReadFull(r, frame[len(frame):until])
		frame = frame[:len(frame)+n]
		if err != nil {
			return nil, fmt.Errorf("read request: %d of %d bytes: %w", len(frame), size, noEOF(err))
		}
	}
	return frame, nil
}

// noEOF keeps an end inside a frame from looking like the end between two.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
