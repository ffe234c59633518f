package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/hawserio/hawser/kafka"
)

// ErrMalformed says that bytes are not the message that they claim to be.
var ErrMalformed = errors.New("malformed message of a link's other side")

// AppendInt16 appends 2 bytes.
func AppendInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }

// AppendInt32 appends 4 bytes.
func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendInt64 appends 8 bytes.
func AppendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendBool appends a byte, 1 or 0.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendString appends a 16-bit length and the bytes; more than it can count are cut off.
func AppendString(b []byte, s string) []byte {
	s = s[:min(len(s), math.MaxInt16)]
	return append(AppendInt16(b, int16(len(s))), s...)
}

// AppendStrings appends a 16-bit count and the strings.
func AppendStrings(b []byte, list []string) []byte {
	list = list[:min(len(list), math.MaxInt16)]
	b = AppendInt16(b, int16(len(list)))
	for _, s := range list {
		b = AppendString(b, s)
	}
	return b
}

// AppendBytes appends a 32-bit length and the bytes.
func AppendBytes(b, p []byte) []byte { return append(AppendInt32(b, int32(len(p))), p...) }

// Reader takes a message apart. After a fault every read answers zero and End says what was wrong, so
// that a message is read in one go and checked once.
type Reader struct {
	Rest []byte
	err  error
}

func (r *Reader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.Rest)) {
		r.fail("%d bytes wanted, %d left", n, len(r.Rest))
	}
	if r.err != nil {
		return nil
	}
	taken := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return taken
}

func (r *Reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err, r.Rest = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...)), nil
	}
}

// Int16 reads 2 bytes.
func (r *Reader) Int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

// Int32 reads 4 bytes.
func (r *Reader) Int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads 8 bytes.
func (r *Reader) Int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// Bool reads a byte that must be 1 or 0.
func (r *Reader) Bool() bool {
	b := r.take(1)
	if b != nil && b[0] > 1 {
		r.fail("%d is neither yes nor no", b[0])
	}
	return b != nil && b[0] == 1
}

// ID reads 16 bytes.
func (r *Reader) ID() (id kafka.TopicID) {
	copy(id[:], r.take(len(id)))
	return id
}

// String reads a string of at most most bytes.
func (r *Reader) String(most int) string {
	n := int(r.Int16())
	if n > most {
		r.fail("a string of %d bytes where at most %d may be", n, most)
	}
	return string(r.take(n))
}

// Strings reads at most count strings of at most most bytes each.
func (r *Reader) Strings(count, most int) []string {
	n := int(r.Int16())
	if n < 0 || n > count {
		r.fail("%d strings where at most %d may be", n, count)
	}
	var list []string
	for range n {
		if r.err != nil {
			return nil
		}
		list = append(list, r.String(most))
	}
	return list
}

// Bytes reads at most most bytes; they alias the message.
func (r *Reader) Bytes(most int) []byte {
	n := int(r.Int32())
	if n > most {
		r.fail("%d bytes where at most %d may be", n, most)
	}
	return r.take(n)
}

// Count reads how many items follow, each of at least size bytes (1 or more): a count that the bytes left
// cannot hold is a fault, so that nobody makes room for a lie.
func (r *Reader) Count(most, size int) int {
	n := int(r.Int32())
	if n < 0 || n > most || n > len(r.Rest)/size {
		r.fail("%d items where at most %d may be, in %d bytes", n, most, len(r.Rest))
		return 0
	}
	return n
}

// Err is the first fault so far, nil for none.
func (r *Reader) Err() error { return r.err }

// End is the first fault, or that bytes were left.
func (r *Reader) End() error {
	if r.err == nil && len(r.Rest) > 0 {
		r.fail("%d bytes too many", len(r.Rest))
	}
	return r.err
}
