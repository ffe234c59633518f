package partition

import (
	"errors"
	"fmt"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// decompressedMax bounds what a producer's batch may grow to when it is looked into, in bytes.
const decompressedMax = 64 << 20

// incoming is a producer's batch as it is to be stored but for offset and epoch.
type incoming struct {
	batch         batch.Batch
	logAppendTime int64 // Unix ms, -1 with create time
}

// validate checks what a producer sent for one partition, as Kafka's LogValidator does, and
// puts right what Kafka puts right: timestamps, and the codec where the topic names one. The bytes
// are changed in place; they are copied only when they must be compressed anew.
func validate(bs batch.Batches, name kafka.TopicPartition, cfg *TopicConfig, nowMs int64) (incoming, error) {
	b, err := single(bs, name, cfg)
	if err != nil {
		return incoming{}, err
	}
	maxTimestamp, records, err := checkRecords(b, name, cfg, nowMs)
	if err != nil {
		return incoming{}, err
	}
	if codec, ok := wantedCodec(cfg.Compression); ok && codec != b.Codec() {
		if b, err = recompress(b, records, codec); err != nil {
			return incoming{}, err
		}
		if err := checkSize(b, name, cfg); err != nil {
			return incoming{}, err
		}
	}
	if cfg.LogAppendTime {
		b.SetLogAppendTime(nowMs)
		return incoming{b, nowMs}, nil
	}
	if b.MaxTimestamp() != maxTimestamp || b.IsLogAppendTime() {
		b.SetCreateTime(maxTimestamp)
	}
	return incoming{b, -1}, nil
}

// mayBeCompressed reports whether looking into the batch takes more memory than it has itself.
func mayBeCompressed(bs batch.Batches, cfg *TopicConfig) bool {
	if _, ok := wantedCodec(cfg.Compression); ok {
		return true
	}
	return len(bs) >= batch.HeaderSize && batch.Batch(bs).Codec() != batch.CodecNone
}

// single takes the one batch out and checks all that its header can show.
func single(bs batch.Batches, name kafka.TopicPartition, cfg *TopicConfig) (batch.Batch, error) {
	if len(bs) == 0 {
		return nil, invalid(name, "the request holds no record batch")
	}
	b, rest, err := batch.Split(bs)
	var magic batch.ErrMagic
	switch {
	case errors.As(err, &magic):
		return nil, kafka.Errorf(kafka.UnsupportedForMessageFormat, "Partition %s: %v; use a client of Kafka 0.11 or newer.", name, magic)
	case err != nil:
		return nil, invalid(name, err.Error())
	case len(rest) > 0:
		return nil, invalid(name, "the request must hold exactly one record batch")
	}
	if err := checkSize(b, name, cfg); err != nil {
		return nil, err
	}
	if err := b.CheckCRC(); err != nil {
		return nil, kafka.Errorf(kafka.CorruptMessage, "Partition %s: %v.", name, err)
	}
	return b, checkHeader(b, name)
}

func checkHeader(b batch.Batch, name kafka.TopicPartition) error {
	switch {
	case b.IsControl():
		return invalid(name, "clients are not allowed to write control records")
	case b.Count() <= 0:
		return invalid(name, fmt.Sprintf("invalid reported count %d for record batch", b.Count()))
	case kafka.Offset(b.Count()) != b.NextOffset()-b.BaseOffset():
		return invalid(name, fmt.Sprintf("inconsistent batch offset range [%d, %d] and count of records %d",
			b.BaseOffset(), b.LastOffset(), b.Count()))
	case b.ProducerID() < kafka.NoProducerID:
		return invalid(name, fmt.Sprintf("invalid producer id %d", b.ProducerID()))
	case b.ProducerID() >= 0 && b.BaseSequence() < 0 && !unnumbered(b, name):
		return invalid(name, fmt.Sprintf("invalid sequence number %d in record batch with producer id %d",
			b.BaseSequence(), b.ProducerID()))
	case b.ProducerID() < 0 && b.IsTransactional():
		return invalid(name, "a transactional record batch names no producer")
	}
	return nil
}

// unnumbered reports whether the batch is the group coordinator's, offsets committed in a transaction: it
// carries the producer's id and, as Kafka's, no sequence. Clients may not write to the topic.
func unnumbered(b batch.Batch, name kafka.TopicPartition) bool {
	return b.BaseSequence() == noSequence && b.IsTransactional() && name.Topic == kafka.ConsumerOffsetsTopic
}

func checkSize(b batch.Batch, name kafka.TopicPartition, cfg *TopicConfig) error {
	if len(b) > cfg.MaxMessageBytes {
		return kafka.Errorf(kafka.MessageTooLarge,
			"The record batch size in the append to %s is %d bytes which exceeds the maximum configured value of %d (max.message.bytes).",
			name, len(b), cfg.MaxMessageBytes)
	}
	if limit := cfg.Log.SegmentBytes; limit > 0 && int64(len(b)) > limit {
		return kafka.Errorf(kafka.RecordListTooLarge,
			"The record batch size in the append to %s is %d bytes which exceeds the segment size of %d (segment.bytes).",
			name, len(b), limit)
	}
	return nil
}

// checkRecords looks at every record, and decodes them for whoever must write them anew.
func checkRecords(b batch.Batch, name kafka.TopicPartition, cfg *TopicConfig,
	nowMs int64) (maxTimestamp int64, records []batch.Record, err error) {
	maxTimestamp = -1
	codec, again := wantedCodec(cfg.Compression)
	again = again && codec != b.Codec()
	expected, count := b.BaseOffset(), int32(0)
	var bad refusedRecords
	for record, err := range b.Records(decompressedMax) {
		if errors.Is(err, batch.ErrTooLarge) {
			return 0, nil, kafka.Errorf(kafka.MessageTooLarge,
				"Partition %s: the records of a batch take more than %d bytes when decompressed.", name, decompressedMax)
		}
		if err != nil { // the CRC is right: sending it again would not help
			return 0, nil, invalid(name, err.Error())
		}
		if record.Offset != expected {
			what := fmt.Sprintf("record %d of the batch does not have incremental offsets: expected offset %d, found %d",
				count, expected, record.Offset)
			return 0, nil, invalid(name, what)
		}
		if bad.add(count, checkRecord(record, name, cfg, nowMs)); len(bad.list) == recordErrorsMax {
			break
		}
		maxTimestamp = max(maxTimestamp, record.Timestamp)
		if again {
			records = append(records, record)
		}
		expected++
		count++
	}
	if bad.list != nil {
		return 0, nil, &InvalidRecords{Err: bad.err, Records: bad.list}
	}
	return maxTimestamp, records, nil
}

// InvalidRecords refuses a batch for some of its records, so that a client can tell them from the others (KIP-467).
type InvalidRecords struct {
	Err     error // what is wrong with one of them; its code is the batch's
	Records []RecordError
}

// RecordError says what is wrong with the record at an index of its batch, from 0.
type RecordError struct {
	Index   int32
	Message string
}

func (e *InvalidRecords) Error() string { return e.Err.Error() }
func (e *InvalidRecords) Unwrap() error { return e.Err }

// recordErrorsMax bounds how many records of a batch are told, and looked at: a few bytes can hold a great many.
const recordErrorsMax = 1000

type refusedRecords struct {
	err  error
	list []RecordError
}

// add notes what is wrong with a record; a wrong timestamp gives the batch its code, as in Kafka.
func (r *refusedRecords) add(index int32, err error) {
	if err == nil {
		return
	}
	if r.err == nil || errors.Is(err, kafka.InvalidTimestamp) && !errors.Is(r.err, kafka.InvalidTimestamp) {
		r.err = err
	}
	r.list = append(r.list, RecordError{index, *kafka.MessageOf(err)})
}

func checkRecord(record batch.Record, name kafka.TopicPartition, cfg *TopicConfig, nowMs int64) error {
	if cfg.Compacted && record.Key == nil {
		return kafka.Errorf(kafka.InvalidRecord, "Compacted topic cannot accept message without key in topic partition %s.", name)
	}
	return checkTimestamp(record, name, cfg, nowMs)
}

// checkTimestamp applies message.timestamp.before.max.ms and after.max.ms (KIP-937), which are for create time only.
func checkTimestamp(record batch.Record, name kafka.TopicPartition, cfg *TopicConfig, nowMs int64) error {
	ts := record.Timestamp
	if cfg.LogAppendTime || ts == -1 {
		return nil
	}
	// The differences may pass what an int64 holds: a negative distance to a time before 1970 says so.
	before, after := nowMs-ts, ts-nowMs
	tooOld := ts < nowMs && (before < 0 || before > cfg.TimestampBeforeMaxMs)
	tooNew := ts > nowMs && (after < 0 || after > cfg.TimestampAfterMaxMs)
	if tooOld || tooNew {
		return kafka.Errorf(kafka.InvalidTimestamp, "Timestamp %d of message with offset %d for partition %s is out of range. "+
			"It may be at most %d ms before and %d ms after the broker's time %d.",
			ts, record.Offset, name, cfg.TimestampBeforeMaxMs, cfg.TimestampAfterMaxMs, nowMs)
	}
	return nil
}

// wantedCodec reads compression.type; ok is false where the producer's codec is kept.
func wantedCodec(name string) (codec batch.Codec, ok bool) {
	switch name {
	case "uncompressed":
		return batch.CodecNone, true
	case "gzip":
		return batch.CodecGzip, true
	case "snappy":
		return batch.CodecSnappy, true
	case "lz4":
		return batch.CodecLZ4, true
	case "zstd":
		return batch.CodecZstd, true
	}
	return 0, false
}

func recompress(b batch.Batch, records []batch.Record, codec batch.Codec) (batch.Batch, error) {
	again, err := batch.Build(batch.Spec{
		BaseOffset:    b.BaseOffset(),
		Codec:         codec,
		ProducerID:    b.ProducerID(),
		ProducerEpoch: b.ProducerEpoch(),
		BaseSequence:  b.BaseSequence(),
		Transactional: b.IsTransactional(),
	}, records)
	if err != nil {
		return nil, fmt.Errorf("compress a batch as compression.type says: %w", err)
	}
	return again, nil
}

func invalid(name kafka.TopicPartition, what string) error {
	return kafka.Errorf(kafka.InvalidRecord, "Partition %s: %s.", name, what)
}
