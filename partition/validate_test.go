package partition

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

func poke32(b batch.Batch, at int, v uint32) batch.Batch {
	c := slices.Clone(b)
	binary.BigEndian.PutUint32(c[at:], v)
	c.SetCRC()
	return c
}

// sent is what a producer may send, and what Kafka answers.
type sent struct {
	name string
	cfg  TopicConfig
	bs   batch.Batches
	want kafka.ErrorCode
}

func sentToValidate(t *testing.T) []sent {
	t.Helper()
	plain := made{values: []string{"a", "b"}}.build(t)
	old := slices.Clone(plain)
	old[16] = 1
	badCRC := slices.Clone(plain)
	badCRC[len(badCRC)-1] ^= 1
	control := markerBatch(0, 0, 1, 0, batch.Commit, 0)
	appendTime := slices.Clone(plain)
	appendTime.SetLogAppendTime(1)
	holes, err := batch.Build(batch.Spec{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastDelta: 2}, []batch.Record{{Offset: 0}, {Offset: 2}})
	if err != nil {
		t.Fatal(err)
	}
	// A zip bomb: the records of two megabytes of zeros, many times over.
	bomb := make([]batch.Record, 80)
	for i := range bomb {
		bomb[i] = batch.Record{Offset: kafka.Offset(i), Value: make([]byte, 1<<20)}
	}
	zipped, err := batch.Build(batch.Spec{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Codec: batch.CodecZstd}, bomb)
	if err != nil {
		t.Fatal(err)
	}
	garbage := slices.Clone(made{codec: batch.CodecGzip}.build(t))
	garbage[batch.HeaderSize] ^= 0xff
	garbage.SetCRC()

	cfg := testTopicConfig()
	compacted := cfg
	compacted.Compacted = true
	small := cfg
	small.MaxMessageBytes = len(plain) - 1
	segment := cfg
	segment.Log.SegmentBytes = int64(len(plain) - 1)
	timed := cfg
	timed.TimestampBeforeMaxMs, timed.TimestampAfterMaxMs = 1000, 1000

	return []sent{
		{"good", cfg, batch.Batches(plain), kafka.None},
		{"nothing", cfg, nil, kafka.InvalidRecord},
		{"cut short", cfg, batch.Batches(plain[:len(plain)-1]), kafka.InvalidRecord},
		{"a few bytes", cfg, batch.Batches(plain[:10]), kafka.InvalidRecord},
		{"two batches", cfg, join(plain, plain), kafka.InvalidRecord},
		{"magic 1", cfg, batch.Batches(old), kafka.UnsupportedForMessageFormat},
		{"CRC", cfg, batch.Batches(badCRC), kafka.CorruptMessage},
		{"control batch", cfg, batch.Batches(control), kafka.InvalidRecord},
		{"count too small", cfg, batch.Batches(poke32(plain, 57, 1)), kafka.InvalidRecord},
		{"count zero", cfg, batch.Batches(poke32(plain, 57, 0)), kafka.InvalidRecord},
		{"last delta too large", cfg, batch.Batches(poke32(plain, 23, 2)), kafka.InvalidRecord},
		{"offsets with holes", cfg, batch.Batches(poke32(holes, 57, 3)), kafka.InvalidRecord},
		{"negative sequence", cfg, batch.Batches(made{id: 7, sequence: -1}.build(t)), kafka.InvalidRecord},
		{"negative producer epoch", cfg, batch.Batches(made{id: 7, idEpoch: -1}.build(t)), kafka.None},
		{"transaction of nobody", cfg, batch.Batches(made{txn: true}.build(t)), kafka.InvalidRecord},
		{"append time from a client", cfg, batch.Batches(appendTime), kafka.None},
		{"no key on a compacted topic", compacted, batch.Batches(made{noKey: true}.build(t)), kafka.InvalidRecord},
		{"key on a compacted topic", compacted, batch.Batches(plain), kafka.None},
		{"too large", small, batch.Batches(plain), kafka.MessageTooLarge},
		{"larger than a segment", segment, batch.Batches(plain), kafka.RecordListTooLarge},
		{"decompresses to too much", cfg, batch.Batches(zipped), kafka.MessageTooLarge},
		{"not what the codec says", cfg, batch.Batches(garbage), kafka.InvalidRecord},
		{"just old enough", timed, batch.Batches(made{ts: 9000}.build(t)), kafka.None},
		{"too old", timed, batch.Batches(made{ts: 8999}.build(t)), kafka.InvalidTimestamp},
		{"just new enough", timed, batch.Batches(made{ts: 11000}.build(t)), kafka.None},
		{"too new", timed, batch.Batches(made{ts: 11001}.build(t)), kafka.InvalidTimestamp},
		{"far future", timed, batch.Batches(made{ts: math.MaxInt64}.build(t)), kafka.InvalidTimestamp},
		{"far past", timed, batch.Batches(made{ts: math.MinInt64}.build(t)), kafka.InvalidTimestamp},
		{"no timestamp", timed, batch.Batches(made{ts: -1}.build(t)), kafka.None},
	}
}

// A client fails the records that are named, and can send the others again.
func TestValidateNamesTheRecordsThatAreWrong(t *testing.T) {
	name := kafka.TopicPartition{Topic: "t"}
	build := func(records []batch.Record) batch.Batches {
		for i := range records {
			records[i].Offset = kafka.Offset(i)
		}
		b, err := batch.Build(batch.Spec{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, records)
		if err != nil {
			t.Fatal(err)
		}
		return batch.Batches(b)
	}
	keyed := func(key string, at int64) batch.Record {
		return batch.Record{Key: []byte(key), Value: []byte("v"), Timestamp: at}
	}
	var many []batch.Record
	for range 2 * recordErrorsMax {
		many = append(many, batch.Record{Value: []byte("v"), Timestamp: 10_000})
	}
	for what, row := range map[string]struct {
		records []batch.Record
		code    kafka.ErrorCode
		wrong   []int32
	}{
		"no key":          {[]batch.Record{keyed("a", 10_000), {Timestamp: 10_000}, keyed("b", 10_000), {Timestamp: 10_000}}, kafka.InvalidRecord, []int32{1, 3}},
		"a time as well":  {[]batch.Record{{Timestamp: 10_000}, keyed("a", 50_000)}, kafka.InvalidTimestamp, []int32{0, 1}},
		"a thousand told": {many, kafka.InvalidRecord, nil},
	} {
		cfg := TopicConfig{Compacted: true, MaxMessageBytes: 1 << 20, TimestampBeforeMaxMs: 10_000, TimestampAfterMaxMs: 10_000}
		_, err := validate(build(row.records), name, &cfg, 10_000)
		var bad *InvalidRecords
		if !errors.As(err, &bad) || kafka.CodeOf(err) != row.code {
			t.Errorf("%s: %v", what, err)
			continue
		}
		var wrong []int32
		for _, r := range bad.Records {
			wrong = append(wrong, r.Index)
		}
		if row.wrong != nil && !slices.Equal(wrong, row.wrong) || len(wrong) > recordErrorsMax {
			t.Errorf("%s: %v of %d records", what, wrong, len(row.records))
		}
	}
}

func TestValidateRefusesWhatKafkaRefuses(t *testing.T) {
	name := kafka.TopicPartition{Topic: "t"}
	for _, row := range sentToValidate(t) {
		t.Run(row.name, func(t *testing.T) {
			_, err := validate(slices.Clone(row.bs), name, &row.cfg, 10_000)
			wantCode(t, err, row.want)
		})
	}
}

func TestValidateChangesNothingThatIsRight(t *testing.T) {
	cfg := testTopicConfig()
	for codec := batch.CodecNone; codec <= batch.CodecZstd; codec++ {
		b := made{codec: codec, values: []string{"a", "b", "c"}, ts: 77}.build(t)
		sent := slices.Clone(b)
		in, err := validate(batch.Batches(sent), kafka.TopicPartition{Topic: "t"}, &cfg, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(in.batch, b) || &in.batch[0] != &sent[0] || in.logAppendTime != -1 {
			t.Errorf("codec %d: the batch was changed or copied", codec)
		}
	}
}

func TestValidateCompressesAsTheTopicSays(t *testing.T) {
	cfg := testTopicConfig()
	for name, codec := range map[string]batch.Codec{"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4} {
		cfg.Compression = name
		for from := batch.CodecNone; from <= batch.CodecZstd; from++ {
			b := made{codec: from, id: 7, sequence: 3, idEpoch: 2, txn: true, values: []string{"a", "b", "c"}, ts: 77}.build(t)
			in, err := validate(batch.Batches(slices.Clone(b)), kafka.TopicPartition{Topic: "t"}, &cfg, 10_000)
			if err != nil {
				t.Fatal(err)
			}
			got := in.batch
			if got.Codec() != codec || got.Count() != 3 || got.BaseSequence() != 3 || got.ProducerEpoch() != 2 || !got.IsTransactional() || got.MaxTimestamp() != 79 {
				t.Errorf("%s from codec %d: header %v", name, from, got[:batch.HeaderSize])
			}
			if err := got.CheckCRC(); err != nil {
				t.Error(err)
			}
			n := 0
			for r, err := range got.Records(1 << 20) {
				if err != nil || r.Timestamp != 77+int64(n) || string(r.Value) != string(rune('a'+n)) {
					t.Errorf("%s: record %d is %v, %v", name, n, r, err)
				}
				n++
			}
		}
	}
}

func TestC87_MaxTimestampIsPutRight(t *testing.T) {
	cfg := testTopicConfig()
	for _, wrong := range []int64{-1, 0, 99999} {
		b := made{ts: 500, values: []string{"a", "b"}}.build(t)
		b.SetMaxTimestamp(wrong)
		in, err := validate(batch.Batches(b), kafka.TopicPartition{Topic: "t"}, &cfg, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		if got := in.batch.MaxTimestamp(); got != 501 || in.batch.CheckCRC() != nil {
			t.Errorf("header said %d, stored as %d, want 501; CRC %v", wrong, got, in.batch.CheckCRC())
		}
	}
	cfg.LogAppendTime = true
	in, err := validate(batch.Batches(made{ts: 500}.build(t)), kafka.TopicPartition{Topic: "t"}, &cfg, 10_000)
	if err != nil || in.logAppendTime != 10_000 || in.batch.MaxTimestamp() != 10_000 || !in.batch.IsLogAppendTime() || in.batch.CheckCRC() != nil {
		t.Errorf("with append time: %+v, %v", in.logAppendTime, err)
	}
}

func TestAppendTimeFromAClientIsTakenOff(t *testing.T) {
	cfg := testTopicConfig()
	b := made{ts: 500, values: []string{"a", "b"}}.build(t)
	b.SetLogAppendTime(9999)
	in, err := validate(batch.Batches(b), kafka.TopicPartition{Topic: "t"}, &cfg, 10_000)
	if err != nil || in.batch.IsLogAppendTime() || in.batch.MaxTimestamp() != 9999 || in.batch.CheckCRC() != nil {
		t.Errorf("%v, append time %v, max timestamp %d", err, in.batch.IsLogAppendTime(), in.batch.MaxTimestamp())
	}
}

func FuzzValidate(f *testing.F) {
	for codec := batch.CodecNone; codec <= batch.CodecZstd; codec++ {
		f.Add([]byte(made{codec: codec, values: []string{"a", "b"}}.build(f)))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if b, _, err := batch.Split(content); err == nil {
			b.SetCRC() // so that what lies behind the CRC is reached
		}
		cfg := testTopicConfig()
		cfg.Compression = "gzip"
		in, err := validate(content, kafka.TopicPartition{Topic: "t"}, &cfg, 10_000)
		if err == nil && in.batch.CheckCRC() != nil {
			t.Error("accepted a batch and broke its CRC")
		}
	})
}
