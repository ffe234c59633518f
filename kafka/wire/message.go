package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersionsKey is the API whose answers have the oldest header in all versions,
// because the client does not know yet what we understand (KIP-511).
const ApiVersionsKey = 18

// ErrMalformed says that bytes are not the request that they claim to be. Close the connection.
var ErrMalformed = errors.New("malformed request")

// Header is a request's header.
type Header struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      *string // nil for null
}

// ParseHeader reads the part of the header that is the same for all versions.
// rest begins at the tagged fields, if the version has them, else at the body.
// It aliases frame; the client id does not.
func ParseHeader(frame []byte) (h Header, rest []byte, err error) {
	if len(frame) < minFrame {
		return h, nil, fmt.Errorf("%w: %d bytes are less than a header", ErrMalformed, len(frame))
	}
	be := binary.BigEndian
	h.Key, h.Version = int16(be.Uint16(frame)), int16(be.Uint16(frame[2:]))
	h.CorrelationID = int32(be.Uint32(frame[4:]))
	size, rest := int(int16(be.Uint16(frame[8:]))), frame[minFrame:]
	switch {
	case size == -1:
		return h, rest, nil
	case size < -1 || size > len(rest):
		return h, nil, fmt.Errorf("%w: client id of %d bytes", ErrMalformed, size)
	}
	id := string(rest[:size])
	h.ClientID = &id
	return h, rest[size:], nil
}

// Decode reads the header's tagged fields and the body into rq, whose version
// must be set. Byte fields of rq alias rest, strings do not. The caller has checked that key and version
// are served: a decoder is never run on a version it does not know. Any error wraps
// ErrMalformed; it does not panic.
func Decode(rq kmsg.Request, rest []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %s version %d: decoder failed: %v", ErrMalformed, kmsg.NameForKey(rq.Key()), rq.GetVersion(), r)
		}
	}()
	if rq.IsFlexible() {
		tags := tagReader{rest: rest}
		kmsg.SkipTags(&tags)
		if tags.bad {
			return fmt.Errorf("%w: tagged fields of the header", ErrMalformed)
		}
		rest = tags.rest
	}
	if err := rq.ReadFrom(rest); err != nil {
		return fmt.Errorf("%w: %s version %d: %w", ErrMalformed, kmsg.NameForKey(rq.Key()), rq.GetVersion(), err)
	}
	return nil
}

// tagReader is what kmsg needs to skip tagged fields; after a fault it stays bad.
type tagReader struct {
	rest []byte
	bad  bool
}

// Ok lets kmsg stop at the first fault, whatever count was claimed.
func (r *tagReader) Ok() bool { return !r.bad }

func (r *tagReader) Uvarint() uint32 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > 1<<32-1 {
		r.rest, r.bad = nil, true
		return 0
	}
	r.rest = r.rest[n:]
	return uint32(v)
}

func (r *tagReader) Span(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.rest, r.bad = nil, true
		return nil
	}
	span := r.rest[:n]
	r.rest = r.rest[n:]
	return span
}

// AppendResponse appends the whole frame of an answer: size, header, body. The
// response's version must be set.
func AppendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = AppendResponseHeader(dst, correlationID, resp.Key(), resp.IsFlexible())
	dst = resp.AppendTo(dst)
	SetSize(dst[start:], 0)
	return dst
}

// AppendResponseHeader appends a size field to be filled by SetSize, and the header.
func AppendResponseHeader(dst []byte, correlationID int32, key int16, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexible && key != ApiVersionsKey {
		dst = append(dst, 0) // no tagged fields
	}
	return dst
}

// SetSize fills the size field at the start of a frame of which extra further
// bytes are not in b.
func SetSize(b []byte, extra int64) {
	binary.BigEndian.PutUint32(b, uint32(int64(len(b)-4)+extra))
}
