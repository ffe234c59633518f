package batch

import "encoding/binary"

// NoHorizon says that a batch has no delete horizon.
const NoHorizon int64 = -1

// DeleteHorizon is when, in Unix milliseconds, the batch's tombstones and marker may go
// (KIP-534), NoHorizon if that was not decided yet.
func (b Batch) DeleteHorizon() int64 {
	if !b.HasDeleteHorizon() {
		return NoHorizon
	}
	return b.BaseTimestamp()
}

// Rebuild encodes the batch anew with only these of its records, and with a delete horizon unless that is
// NoHorizon, as Kafka's cleaner does: base offset, last offset, epoch, producer, sequence and codec
// stay. The records' timestamps are counted from the horizon then. No records make the
// empty batch that stands for a producer's last sequence: uncompressed, with the time it had.
func (b Batch) Rebuild(records []Record, horizon int64) (Batch, error) {
	codec, baseTime, maxTime := b.Codec(), int64(-1), b.MaxTimestamp()
	attrs := b.attrs() &^ attrDeleteHorizon
	switch {
	case len(records) == 0:
		codec, horizon = CodecNone, NoHorizon
		attrs &^= 7
	case !b.IsLogAppendTime():
		maxTime = records[0].Timestamp
		for _, record := range records {
			maxTime = max(maxTime, record.Timestamp)
		}
		fallthrough
	default:
		baseTime = records[0].Timestamp
	}
	if horizon != NoHorizon {
		baseTime = horizon
		attrs |= attrDeleteHorizon
	}
	var plain, body []byte
	for _, record := range records {
		plain, body = appendRecord(plain, body, record, baseTime, b.BaseOffset())
	}
	payload, err := Compress(codec, plain)
	if err != nil {
		return nil, err
	}
	out := make(Batch, 0, HeaderSize+len(payload))
	out = append(append(out, b[:HeaderSize]...), payload...)
	be := binary.BigEndian
	be.PutUint32(out[8:], uint32(len(out)-lengthEnd))
	be.PutUint16(out[posAttrs:], uint16(attrs))
	be.PutUint64(out[posBaseTime:], uint64(baseTime))
	be.PutUint64(out[posMaxTime:], uint64(maxTime))
	be.PutUint32(out[posCount:], uint32(len(records)))
	out.SetCRC()
	return out, nil
}
