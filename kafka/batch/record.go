package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/hawserio/hawser/kafka"
)

// Header is one of a record's headers. A nil Value is null.
type Header struct {
	Key   []byte
	Value []byte
}

// Record is one record, its byte fields pointing into the payload it was read
// from. A nil Key or Value is null; an empty one is not nil.
type Record struct {
	Offset    kafka.Offset
	Timestamp int64 // Unix milliseconds
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Records decodes the records. Decompression stops with an error once the
// payload has grown to maxBytes: the bytes are a stranger's. The walk ends at
// the first error.
func (b Batch) Records(maxBytes int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		payload, err := b.Decompress(maxBytes)
		if err != nil {
			yield(Record{}, err)
			return
		}
		r := reader{rest: payload}
		for range b.Count() {
			record, err := b.next(&r)
			if !yield(record, err) || err != nil {
				return
			}
		}
		if len(r.rest) > 0 {
			yield(Record{}, fmt.Errorf("record batch at offset %d has %d bytes after its last record", b.BaseOffset(), len(r.rest)))
		}
	}
}

func (b Batch) next(r *reader) (Record, error) {
	size := r.varint()
	if size < 0 || size > int64(len(r.rest)) {
		return Record{}, b.badRecord(errors.New("record length"))
	}
	body := reader{rest: r.rest[:size:size]}
	r.rest = r.rest[size:]
	body.skip(1) // attributes: none are defined
	timeDelta := body.varint()
	offsetDelta := body.varint()
	record := Record{
		Offset:    b.BaseOffset() + kafka.Offset(offsetDelta),
		Timestamp: b.BaseTimestamp() + timeDelta,
		Key:       body.bytes(),
		Value:     body.bytes(),
	}
	if b.IsLogAppendTime() {
		record.Timestamp = b.MaxTimestamp()
	}
	count := body.varint()
	// A header is at least two bytes, so that a count cannot make us allocate more than was sent.
	if count < 0 || count > int64(len(body.rest)/2) {
		return Record{}, b.badRecord(errors.New("header count"))
	}
	for range count {
		key := body.bytes()
		if key == nil {
			return Record{}, b.badRecord(errors.New("null header key"))
		}
		record.Headers = append(record.Headers, Header{Key: key, Value: body.bytes()})
	}
	if body.bad || len(body.rest) > 0 {
		return Record{}, b.badRecord(errors.New("record body"))
	}
	if offsetDelta < 0 || offsetDelta > int64(b.lastDelta()) {
		return Record{}, b.badRecord(fmt.Errorf("offset delta %d", offsetDelta))
	}
	return record, nil
}

func (b Batch) badRecord(err error) error {
	return fmt.Errorf("record batch at offset %d: malformed record: %w", b.BaseOffset(), err)
}

// reader reads the varint encoding of records; after a fault it stays bad.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) skip(n int) {
	if len(r.rest) < n {
		r.bad = true
		return
	}
	r.rest = r.rest[n:]
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.bad = true
		return math.MinInt64
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes() []byte {
	size := r.varint()
	if size == -1 {
		return nil
	}
	if r.bad || size < 0 || size > int64(len(r.rest)) {
		r.bad = true
		return nil
	}
	field := r.rest[:size:size]
	r.rest = r.rest[size:]
	return field
}
