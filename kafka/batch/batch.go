// Package batch is a record batch as bytes: the header read in place, its CRC
// and offsets checked, never re-encoded. The log, the handlers and the fetcher
// call it. It refuses to know where bytes come from or go to.
//
// Format: Apache Kafka, "Record Batch", magic 2 (KIP-98). Big-endian:
//
//	 0 baseOffset int64     8 batchLength int32   12 partitionLeaderEpoch int32
//	16 magic int8          17 crc uint32          21 attributes int16
//	23 lastOffsetDelta i32 27 baseTimestamp i64   35 maxTimestamp int64
//	43 producerId int64    51 producerEpoch i16   53 baseSequence int32
//	57 recordCount int32   61 records
//
// The CRC-32C covers everything from attributes on; so the base offset and the
// leader epoch may be set without touching it.
package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"

	"github.com/hawserio/hawser/kafka"
)

const (
	// HeaderSize is the size of a batch without records, in bytes.
	HeaderSize = 61
	// lengthEnd is where the bytes counted by batchLength begin.
	lengthEnd = 12
	// PrefixSize is how many bytes tell a batch's size and format: enough for SizeOf and Magic.
	PrefixSize = 17

	posEpoch     = 12
	posMagic     = 16
	posCRC       = 17
	posAttrs     = 21
	posLastDelta = 23
	posBaseTime  = 27
	posMaxTime   = 35
	posProducer  = 43
	posProdEpoch = 51
	posSequence  = 53
	posCount     = 57
)

// Codec is how a batch's records are compressed.
type Codec int8

// The codecs, with the protocol's numbers.
const (
	CodecNone Codec = iota
	CodecGzip
	CodecSnappy
	CodecLZ4
	CodecZstd
	numCodecs
)

// Attribute bits beside the codec (the lowest three).
const (
	attrLogAppendTime = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
	attrDeleteHorizon = 1 << 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrShort says that the bytes end before the batch does.
var ErrShort = errors.New("bytes end inside a record batch")

// ErrCRC says that a batch's bytes are not those that were written.
var ErrCRC = errors.New("record batch fails its CRC")

// ErrHeader says that a batch's header contradicts itself.
var ErrHeader = errors.New("record batch header is wrong")

// ErrCodec says that a batch names a codec that there is not.
var ErrCodec = errors.New("unknown codec")

// ErrMagic says that the bytes are an older message format (v0 or v1) or none at all.
type ErrMagic int8

// Error names the format found.
func (m ErrMagic) Error() string {
	return fmt.Sprintf("message format %d is not supported, only 2 is", int8(m))
}

// Batch is exactly one record batch. Its methods may be called once Split, Parse or
// All has accepted the bytes; before that they may panic.
type Batch []byte

// SizeOf is the whole size, in bytes, of the batch that begins at b[0], which
// need hold only PrefixSize bytes. Neither the rest nor the CRC is looked at.
func SizeOf(b []byte) (int, error) {
	if len(b) < PrefixSize {
		return 0, ErrShort
	}
	length := int64(int32(binary.BigEndian.Uint32(b[8:])))
	if magic := int8(b[posMagic]); magic != 2 {
		return 0, ErrMagic(magic)
	}
	if length < HeaderSize-lengthEnd {
		return 0, fmt.Errorf("record batch says it is %d bytes long, less than its header", length+lengthEnd)
	}
	return int(length + lengthEnd), nil
}

// Split cuts the first batch off b, by reference, and checks all of its header
// that can be checked without the records. The CRC is CheckCRC's. With an error rest is b.
func Split(b []byte) (first Batch, rest []byte, err error) {
	size, err := SizeOf(b)
	if err != nil {
		return nil, b, err
	}
	if size > len(b) {
		return nil, b, ErrShort
	}
	first = Batch(b[:size:size])
	if err := first.checkHeader(); err != nil {
		return first, b, err
	}
	return first, b[size:], nil
}

// Head is the first batch without its records: HeaderSize bytes, by reference, with
// the checks of Split, and its whole size in bytes. b need hold no more than the header.
func Head(b []byte) (head Batch, size int, err error) {
	size, err = SizeOf(b)
	if err != nil {
		return nil, 0, err
	}
	if len(b) < HeaderSize {
		return nil, 0, ErrShort
	}
	head = Batch(b[:HeaderSize:HeaderSize])
	return head, size, head.checkHeader()
}

func (b Batch) checkHeader() error {
	switch {
	case b.BaseOffset() < 0:
		return fmt.Errorf("%w: base offset %d", ErrHeader, b.BaseOffset())
	case b.lastDelta() < 0:
		return fmt.Errorf("%w: at offset %d it has last offset delta %d", ErrHeader, b.BaseOffset(), b.lastDelta())
	case b.LastOffset() < b.BaseOffset():
		return fmt.Errorf("%w: at offset %d it passes the largest offset", ErrHeader, b.BaseOffset())
	case b.Count() < 0 || int64(b.Count()) > int64(b.lastDelta())+1:
		return fmt.Errorf("%w: at offset %d it says it holds %d records in %d offsets",
			ErrHeader, b.BaseOffset(), b.Count(), int64(b.lastDelta())+1)
	case b.Codec() >= numCodecs:
		return fmt.Errorf("record batch at offset %d names %w %d", b.BaseOffset(), ErrCodec, b.Codec())
	}
	return nil
}

// Batches is any number of batches end to end.
type Batches []byte

// All walks the batches. It stops after the first error; a last batch that is
// cut short is one (ErrShort), as Kafka's fetch answers end in one: callers
// that read such answers stop there.
func (bs Batches) All() iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		rest := []byte(bs)
		for len(rest) > 0 {
			var b Batch
			var err error
			b, rest, err = Split(rest)
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// BaseOffset is the first offset the batch stands for, inclusive. Compaction
// may have removed the record itself.
func (b Batch) BaseOffset() kafka.Offset { return kafka.Offset(binary.BigEndian.Uint64(b)) }

// SetBaseOffset moves the batch. The CRC does not cover it.
func (b Batch) SetBaseOffset(o kafka.Offset) { binary.BigEndian.PutUint64(b, uint64(o)) }

// LeaderEpoch is the epoch of the leader that took the batch in.
func (b Batch) LeaderEpoch() kafka.LeaderEpoch {
	return kafka.LeaderEpoch(binary.BigEndian.Uint32(b[posEpoch:]))
}

// SetLeaderEpoch sets the epoch. The CRC does not cover it.
func (b Batch) SetLeaderEpoch(e kafka.LeaderEpoch) {
	binary.BigEndian.PutUint32(b[posEpoch:], uint32(e))
}

func (b Batch) lastDelta() int32 { return int32(binary.BigEndian.Uint32(b[posLastDelta:])) }

// LastOffset is the last offset the batch stands for, inclusive.
func (b Batch) LastOffset() kafka.Offset { return b.BaseOffset() + kafka.Offset(b.lastDelta()) }

// NextOffset is the offset after the batch, also where compaction took its last records.
func (b Batch) NextOffset() kafka.Offset { return b.LastOffset() + 1 }

// CRC is the checksum in the header.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// CheckCRC compares the checksum with the bytes.
func (b Batch) CheckCRC() error {
	if crc32.Checksum(b[posAttrs:], castagnoli) != b.CRC() {
		return fmt.Errorf("offset %d: %w", b.BaseOffset(), ErrCRC)
	}
	return nil
}

// SetCRC writes the checksum of the bytes as they are.
func (b Batch) SetCRC() {
	binary.BigEndian.PutUint32(b[posCRC:], crc32.Checksum(b[posAttrs:], castagnoli))
}

func (b Batch) attrs() int16 { return int16(binary.BigEndian.Uint16(b[posAttrs:])) }

// Codec is how the records are compressed.
func (b Batch) Codec() Codec { return Codec(b.attrs() & 7) }

// IsLogAppendTime reports whether the timestamps are the broker's.
func (b Batch) IsLogAppendTime() bool { return b.attrs()&attrLogAppendTime != 0 }

// IsTransactional reports whether the batch belongs to a transaction.
func (b Batch) IsTransactional() bool { return b.attrs()&attrTransactional != 0 }

// IsControl reports whether the batch holds a transaction marker, not data.
func (b Batch) IsControl() bool { return b.attrs()&attrControl != 0 }

// HasDeleteHorizon reports whether BaseTimestamp is when the batch's tombstones
// may go (KIP-534) and not a record's time.
func (b Batch) HasDeleteHorizon() bool { return b.attrs()&attrDeleteHorizon != 0 }

// SetLogAppendTime marks the batch as stamped by the broker at ms and renews the CRC.
// It leaves the records as they are: readers take MaxTimestamp for each of them.
func (b Batch) SetLogAppendTime(ms int64) {
	binary.BigEndian.PutUint16(b[posAttrs:], uint16(b.attrs())|attrLogAppendTime)
	b.SetMaxTimestamp(ms)
}

// SetCreateTime marks the batch's times as the producer's, the largest of which is ms, and renews the CRC.
func (b Batch) SetCreateTime(ms int64) {
	binary.BigEndian.PutUint16(b[posAttrs:], uint16(b.attrs())&^attrLogAppendTime)
	b.SetMaxTimestamp(ms)
}

// BaseTimestamp is the time the records' deltas count from, in Unix milliseconds.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posBaseTime:])) }

// MaxTimestamp is the largest time of the records as the producer stated it, in
// Unix milliseconds; -1 when it did not.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posMaxTime:])) }

// SetMaxTimestamp writes the largest time and renews the CRC.
func (b Batch) SetMaxTimestamp(ms int64) {
	binary.BigEndian.PutUint64(b[posMaxTime:], uint64(ms))
	b.SetCRC()
}

// ProducerID is who wrote the batch, NoProducerID if it did not say.
func (b Batch) ProducerID() kafka.ProducerID {
	return kafka.ProducerID(binary.BigEndian.Uint64(b[posProducer:]))
}

// ProducerEpoch fences earlier lives of the producer.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[posProdEpoch:])) }

// BaseSequence is the producer's number of the first record; it wraps after 2^31-1.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[posSequence:])) }

// LastSequence is the producer's number of the last offset of the batch.
func (b Batch) LastSequence() int32 { return AddSequence(b.BaseSequence(), b.lastDelta()) }

// AddSequence adds to a sequence number as producers do: after 2^31-1 comes 0.
func AddSequence(sequence, n int32) int32 {
	return int32((int64(sequence) + int64(n)) & 0x7fffffff)
}

// Count is how many records the batch still holds; compaction lowers it.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[posCount:])) }

// Payload is the records as stored, compressed if Codec says so. It is part of b.
func (b Batch) Payload() []byte { return b[HeaderSize:] }
