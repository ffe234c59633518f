package batch

import (
	"encoding/binary"

	"github.com/hawserio/hawser/kafka"
)

// Spec is what a batch that we write ourselves says in its header.
type Spec struct {
	BaseOffset    kafka.Offset
	LeaderEpoch   kafka.LeaderEpoch
	Codec         Codec
	ProducerID    kafka.ProducerID // NoProducerID for none; the zero value is a real id
	ProducerEpoch int16
	BaseSequence  int32 // -1 for none
	Transactional bool
	Control       bool
	LogAppendTime bool
	LastDelta     int32 // last offset delta, when it is past the last record's (holes at the end)
}

// Build encodes records into one batch. Their Offset is relative to nothing: it
// is the real one, at least spec.BaseOffset. An empty list makes the empty batch
// that compaction leaves behind.
func Build(spec Spec, records []Record) (Batch, error) {
	baseTime, maxTime := int64(-1), int64(-1)
	if len(records) > 0 {
		baseTime, maxTime = records[0].Timestamp, records[0].Timestamp
	}
	lastDelta := spec.LastDelta
	size := 0
	for i := range records {
		size += len(records[i].Key) + len(records[i].Value) + 16 // what else a record without headers takes, about
	}
	plain := make([]byte, 0, size)
	var body []byte
	for _, record := range records {
		maxTime = max(maxTime, record.Timestamp)
		lastDelta = max(lastDelta, int32(record.Offset-spec.BaseOffset))
		plain, body = appendRecord(plain, body, record, baseTime, spec.BaseOffset)
	}
	payload, err := Compress(spec.Codec, plain)
	if err != nil {
		return nil, err
	}
	b := make(Batch, HeaderSize, HeaderSize+len(payload))
	b = append(b, payload...)
	be := binary.BigEndian
	be.PutUint32(b[8:], uint32(len(b)-lengthEnd))
	b.SetBaseOffset(spec.BaseOffset)
	b.SetLeaderEpoch(spec.LeaderEpoch)
	b[posMagic] = 2
	be.PutUint16(b[posAttrs:], spec.attrs())
	be.PutUint32(b[posLastDelta:], uint32(lastDelta))
	be.PutUint64(b[posBaseTime:], uint64(baseTime))
	be.PutUint64(b[posMaxTime:], uint64(maxTime))
	be.PutUint64(b[posProducer:], uint64(spec.ProducerID))
	be.PutUint16(b[posProdEpoch:], uint16(spec.ProducerEpoch))
	be.PutUint32(b[posSequence:], uint32(spec.BaseSequence))
	be.PutUint32(b[posCount:], uint32(len(records)))
	b.SetCRC()
	return b, nil
}

func (s Spec) attrs() uint16 {
	attrs := uint16(s.Codec)
	if s.LogAppendTime {
		attrs |= attrLogAppendTime
	}
	if s.Transactional {
		attrs |= attrTransactional
	}
	if s.Control {
		attrs |= attrControl
	}
	return attrs
}

// appendRecord appends a record to plain; body is memory for it, and is given back.
func appendRecord(plain, body []byte, record Record, baseTime int64, baseOffset kafka.Offset) (grown, again []byte) {
	body = append(body[:0], 0) // attributes: none are defined
	body = binary.AppendVarint(body, record.Timestamp-baseTime)
	body = binary.AppendVarint(body, int64(record.Offset-baseOffset))
	body = appendBytes(body, record.Key)
	body = appendBytes(body, record.Value)
	body = binary.AppendVarint(body, int64(len(record.Headers)))
	for _, h := range record.Headers {
		body = appendBytes(body, h.Key)
		body = appendBytes(body, h.Value)
	}
	plain = binary.AppendVarint(plain, int64(len(body)))
	return append(plain, body...), body
}

func appendBytes(out, field []byte) []byte {
	if field == nil {
		return binary.AppendVarint(out, -1)
	}
	out = binary.AppendVarint(out, int64(len(field)))
	return append(out, field...)
}

// Marker is what a control batch says about its producer's transaction.
type Marker int16

// The two markers, with the protocol's numbers.
const (
	Abort  Marker = 0
	Commit Marker = 1
)

// BuildMarker encodes the control batch that ends a transaction.
func BuildMarker(spec Spec, marker Marker, coordinatorEpoch int32, ms int64) Batch {
	key := binary.BigEndian.AppendUint16(make([]byte, 2), uint16(marker)) // version 0, type
	value := binary.BigEndian.AppendUint32(make([]byte, 2), uint32(coordinatorEpoch))
	spec.Control, spec.Transactional, spec.Codec, spec.BaseSequence = true, true, CodecNone, -1
	b, err := Build(spec, []Record{{Offset: spec.BaseOffset, Timestamp: ms, Key: key, Value: value}})
	if err != nil {
		panic("BUG: an uncompressed batch cannot fail to build: " + err.Error())
	}
	return b
}

// Marker reads a control batch. ok is false for control records of other kinds
// (Kafka's own leader changes, snapshots), which end no transaction.
func (b Batch) Marker() (marker Marker, coordinatorEpoch int32, ok bool) {
	if !b.IsControl() {
		return 0, 0, false
	}
	for record, err := range b.Records(1 << 10) {
		if err != nil || len(record.Key) < 4 || len(record.Value) < 6 {
			return 0, 0, false
		}
		marker = Marker(binary.BigEndian.Uint16(record.Key[2:]))
		return marker, int32(binary.BigEndian.Uint32(record.Value[2:])), marker == Abort || marker == Commit
	}
	return 0, 0, false
}
