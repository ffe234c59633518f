package batch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

var codecs = []batch.Codec{batch.CodecNone, batch.CodecGzip, batch.CodecSnappy, batch.CodecLZ4, batch.CodecZstd}

// odd is records of every shape that the protocol has.
var odd = []batch.Record{
	{Offset: 100, Timestamp: 1_700_000_000_000, Key: []byte("k"), Value: []byte("v")},
	{Offset: 101, Timestamp: 1_700_000_000_500, Key: nil, Value: []byte("null key")},
	{Offset: 102, Timestamp: 1_600_000_000_000, Key: []byte("null value"), Value: nil},
	{Offset: 104, Timestamp: 1_700_000_000_001, Key: []byte{}, Value: []byte{}},
	{Offset: 107, Timestamp: -1, Key: []byte{0, 255}, Value: bytes.Repeat([]byte("long "), 5000), Headers: []batch.Header{
		{Key: []byte("h"), Value: nil}, {Key: []byte("h"), Value: []byte{}}, {Key: []byte{}, Value: []byte("v")}, {Key: []byte{0xff}, Value: []byte{0}},
	}},
}

func build(t testing.TB, spec batch.Spec, records ...batch.Record) batch.Batch {
	t.Helper()
	b, err := batch.Build(spec, records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func spec(base kafka.Offset, codec batch.Codec) batch.Spec {
	return batch.Spec{BaseOffset: base, LeaderEpoch: 5, Codec: codec, ProducerID: 77, ProducerEpoch: 3, BaseSequence: 9}
}

func records(t testing.TB, b batch.Batch) []batch.Record {
	t.Helper()
	var out []batch.Record
	for r, err := range b.Records(1 << 20) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func TestC12_WhatIsBuiltIsReadBack(t *testing.T) {
	for _, codec := range codecs {
		b := build(t, spec(100, codec), odd...)
		first, rest, err := batch.Split(append(slices.Clone([]byte(b)), "rest"...))
		if err != nil || string(rest) != "rest" || !bytes.Equal(first, b) {
			t.Fatal(codec, err)
		}
		if err := b.CheckCRC(); err != nil {
			t.Fatal(codec, err)
		}
		if got := records(t, b); !reflect.DeepEqual(got, odd) {
			t.Errorf("codec %d: got %v", codec, got)
		}
		if b.BaseOffset() != 100 || b.LastOffset() != 107 || b.NextOffset() != 108 || b.Count() != 5 || b.LeaderEpoch() != 5 || b.Codec() != codec {
			t.Errorf("codec %d: header is not what was asked", codec)
		}
		if b.ProducerID() != 77 || b.ProducerEpoch() != 3 || b.BaseSequence() != 9 || b.LastSequence() != 16 || b.IsTransactional() || b.IsControl() {
			t.Errorf("codec %d: producer is not what was asked", codec)
		}
		if b.BaseTimestamp() != odd[0].Timestamp || b.MaxTimestamp() != odd[1].Timestamp {
			t.Errorf("codec %d: times %d, %d", codec, b.BaseTimestamp(), b.MaxTimestamp())
		}
	}
}

// TestAnotherCodecReadsTheSame compares with the protocol library, which others wrote.
func TestAnotherCodecReadsTheSame(t *testing.T) {
	b := build(t, spec(100, batch.CodecNone), odd...)
	var theirs kmsg.RecordBatch
	if err := theirs.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	if theirs.FirstOffset != 100 || theirs.LastOffsetDelta != 7 || theirs.NumRecords != 5 || theirs.ProducerID != 77 || theirs.ProducerEpoch != 3 ||
		theirs.FirstSequence != 9 || theirs.PartitionLeaderEpoch != 5 || uint32(theirs.CRC) != b.CRC() || theirs.MaxTimestamp != b.MaxTimestamp() {
		t.Fatalf("%+v", theirs)
	}
	rest := theirs.Records
	for i, want := range odd {
		size, n := binary.Varint(rest)
		var r kmsg.Record
		if err := r.ReadFrom(rest[:n+int(size)]); err != nil {
			t.Fatal(i, err)
		}
		rest = rest[n+int(size):]
		if kafka.Offset(r.OffsetDelta)+100 != want.Offset || r.TimestampDelta64+theirs.FirstTimestamp != want.Timestamp ||
			!bytes.Equal(r.Key, want.Key) || (r.Key == nil) != (want.Key == nil) || !bytes.Equal(r.Value, want.Value) || (r.Value == nil) != (want.Value == nil) || len(r.Headers) != len(want.Headers) {
			t.Errorf("record %d is %+v", i, r)
		}
	}
	if len(rest) > 0 {
		t.Errorf("%d bytes are left", len(rest))
	}
	if again := theirs.AppendTo(nil); !bytes.Equal(again, b) {
		t.Error("they encode it otherwise")
	}
}

func TestSplitRefuses(t *testing.T) {
	put := func(at int, v any) func(batch.Batch) []byte {
		return func(b batch.Batch) []byte {
			var out bytes.Buffer
			_ = binary.Write(&out, binary.BigEndian, v)
			copy(b[at:], out.Bytes())
			return b
		}
	}
	for _, c := range []struct {
		name   string
		change func(batch.Batch) []byte
		is     error
		says   string
	}{
		{"nothing", func(batch.Batch) []byte { return nil }, batch.ErrShort, ""},
		{"a part of the prefix", func(b batch.Batch) []byte { return b[:16] }, batch.ErrShort, ""},
		{"a part of the header", func(b batch.Batch) []byte { return b[:60] }, batch.ErrShort, ""},
		{"a part of the records", func(b batch.Batch) []byte { return b[:len(b)-1] }, batch.ErrShort, ""},
		{"magic 1", put(16, int8(1)), batch.ErrMagic(1), "message format 1 is not supported"},
		{"magic 3", put(16, int8(3)), batch.ErrMagic(3), "message format 3"},
		{"a negative length", put(8, int32(-1)), nil, "less than its header"},
		{"a length below the header", put(8, int32(48)), nil, "less than its header"},
		{"the largest length", put(8, int32(math.MaxInt32)), batch.ErrShort, ""},
		{"a negative offset", put(0, int64(-1)), nil, "base offset -1"},
		{"a negative last delta", put(23, int32(-1)), nil, "last offset delta -1"},
		{"offsets that overflow", put(0, int64(math.MaxInt64)), nil, "passes the largest offset"},
		{"a negative count", put(57, int32(-1)), nil, "holds -1 records"},
		{"more records than offsets", put(57, int32(9)), nil, "holds 9 records in 8 offsets"},
		{"an unknown codec", put(21, int16(5)), nil, "unknown codec 5"},
	} {
		b := c.change(build(t, spec(100, batch.CodecNone), odd...))
		_, rest, err := batch.Split(b)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !bytes.Equal(rest, b) {
			t.Errorf("%s: the bytes are gone", c.name)
		}
		if len(b) >= batch.HeaderSize {
			if _, _, headErr := batch.Head(b); (headErr == nil) != errors.Is(err, batch.ErrShort) {
				t.Errorf("%s: Head says %v", c.name, headErr)
			}
		}
	}
}

func TestOffsetsAndEpochsMayChangeUnderTheCRCAndNothingElse(t *testing.T) {
	b := build(t, spec(100, batch.CodecNone), odd...)
	b.SetBaseOffset(1 << 40)
	b.SetLeaderEpoch(1 << 20)
	if err := b.CheckCRC(); err != nil || b.NextOffset() != 1<<40+8 {
		t.Fatal(err, b.NextOffset())
	}
	for at := 21; at < len(b); at += 97 {
		b[at] ^= 1
		if err := b.CheckCRC(); !errors.Is(err, batch.ErrCRC) {
			t.Fatalf("a changed byte at %d goes unnoticed", at)
		}
		b[at] ^= 1
	}
	b.SetLogAppendTime(42)
	if err := b.CheckCRC(); err != nil || !b.IsLogAppendTime() || b.MaxTimestamp() != 42 {
		t.Fatal(err)
	}
	for _, r := range records(t, b) {
		if r.Timestamp != 42 {
			t.Fatalf("record at %d has time %d", r.Offset, r.Timestamp)
		}
	}
}

func TestAllWalksAndStopsAtACutBatch(t *testing.T) {
	var all []byte
	for i := range 4 {
		all = append(all, build(t, spec(kafka.Offset(10*i), batch.CodecNone), batch.Record{Offset: kafka.Offset(10 * i)})...)
	}
	var bases []kafka.Offset
	var last error
	for b, err := range batch.Batches(all[:len(all)-1]).All() {
		if last = err; err == nil {
			bases = append(bases, b.BaseOffset())
		}
	}
	if !slices.Equal(bases, []kafka.Offset{0, 10, 20}) || !errors.Is(last, batch.ErrShort) {
		t.Fatal(bases, last)
	}
}

func TestAnEmptyBatchStandsForItsOffsets(t *testing.T) {
	s := spec(50, batch.CodecNone)
	s.LastDelta = 9
	b := build(t, s)
	if b.NextOffset() != 60 || b.Count() != 0 || len(b) != batch.HeaderSize || b.MaxTimestamp() != -1 || len(records(t, b)) != 0 {
		t.Fatal("not what compaction leaves")
	}
	if _, _, err := batch.Split(b); err != nil {
		t.Fatal(err)
	}
}

func TestSequencesWrap(t *testing.T) {
	for _, c := range [][3]int32{{0, 5, 5}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1}} {
		if got := batch.AddSequence(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

func TestMarkers(t *testing.T) {
	for _, want := range []batch.Marker{batch.Abort, batch.Commit} {
		b := batch.BuildMarker(spec(7, batch.CodecGzip), want, 12, 99)
		got, epoch, ok := b.Marker()
		if !ok || got != want || epoch != 12 || !b.IsControl() || !b.IsTransactional() || b.BaseSequence() != -1 || b.MaxTimestamp() != 99 || b.CheckCRC() != nil {
			t.Fatalf("marker %d reads as %d, epoch %d, %t", want, got, epoch, ok)
		}
	}
	if _, _, ok := build(t, spec(0, batch.CodecNone), odd[0]).Marker(); ok {
		t.Fatal("data is taken for a marker")
	}
	s := spec(0, batch.CodecNone)
	s.Control = true
	for name, r := range map[string]batch.Record{
		"a leader change": {Key: []byte{0, 0, 0, 2}, Value: make([]byte, 20)},
		"a short key":     {Key: []byte{0, 0, 0}, Value: make([]byte, 6)},
		"no value":        {Key: make([]byte, 4)},
	} {
		if _, _, ok := build(t, s, r).Marker(); ok {
			t.Errorf("%s is taken for a marker", name)
		}
	}
	if _, _, ok := build(t, s).Marker(); ok {
		t.Error("an empty control batch is taken for a marker")
	}
}

func TestDecompressionIsBounded(t *testing.T) {
	big := batch.Record{Value: make([]byte, 1<<20)}
	for _, codec := range codecs[1:] {
		b := build(t, spec(0, codec), big)
		if plain, err := b.Decompress(2 << 20); err != nil || len(plain) < 1<<20 {
			t.Errorf("codec %d: %d bytes, %v", codec, len(plain), err)
		}
		if _, err := b.Decompress(1 << 20); !errors.Is(err, batch.ErrTooLarge) {
			t.Errorf("codec %d: a bomb gives %v", codec, err)
		}
		for range b.Records(1 << 10) {
			break
		}
		cut := slices.Clone(b[:len(b)-3])
		binary.BigEndian.PutUint32(cut[8:], uint32(len(cut)-12))
		if _, err := cut.Decompress(2 << 20); err == nil {
			t.Errorf("codec %d: a cut payload is read as if it were whole", codec)
		}
	}
}

// TestASmallSnappyBlockCannotClaimMuch: a block says its size first; nobody allocates what the rest cannot hold.
func TestASmallSnappyBlockCannotClaimMuch(t *testing.T) {
	claim := binary.AppendUvarint(nil, 200<<20)
	b := withPayload(t, batch.CodecSnappy, append(claim, 0, 0))
	before := memory()
	if _, err := b.Decompress(256 << 20); err == nil {
		t.Error("a lie is believed")
	}
	if grew := memory() - before; grew > 10<<20 {
		t.Errorf("a block of %d bytes had %d bytes allocated", len(b), grew)
	}
}

// TestZstdWindowsOfJavaClientsAreRead: they are larger than a small batch's bound.
func TestZstdWindowsOfJavaClientsAreRead(t *testing.T) {
	for _, window := range []int{4 << 20, 128 << 20} {
		b := withPayload(t, batch.CodecZstd, zstdWithWindow(t, window, bytes.Repeat([]byte("abc"), 100)))
		before := memory()
		if plain, err := b.Decompress(1 << 20); err != nil || len(plain) != 300 {
			t.Fatal(len(plain), err)
		}
		if grew := memory() - before; grew > 10<<20 {
			t.Errorf("a window of %d bytes for 300 bytes of records had %d bytes allocated", window, grew)
		}
	}
}

func TestXerialFramingIsRead(t *testing.T) {
	plain := build(t, spec(0, batch.CodecNone), odd[:1]...).Payload()
	first, err := batch.Compress(batch.CodecSnappy, plain[:5])
	if err != nil {
		t.Fatal(err)
	}
	second, err := batch.Compress(batch.CodecSnappy, plain[5:])
	if err != nil {
		t.Fatal(err)
	}
	framed := []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}
	for _, block := range [][]byte{first, second} {
		framed = binary.BigEndian.AppendUint32(framed, uint32(len(block)))
		framed = append(framed, block...)
	}
	b := withPayload(t, batch.CodecSnappy, framed)
	if got, err := b.Decompress(1 << 20); err != nil || !bytes.Equal(got, plain) {
		t.Fatal(err)
	}
	for n := range framed {
		cut := withPayload(t, batch.CodecSnappy, framed[:n])
		if got, err := cut.Decompress(1 << 20); err == nil && n > 16 && bytes.Equal(got, plain) {
			t.Fatalf("%d of %d bytes are read as if they were all", n, len(framed))
		}
	}
}

// TestC10_XerialStreamsMayBeAppended: Java's writers may begin a stream anew in the middle, and its readers refuse version 0.
func TestC10_XerialStreamsMayBeAppended(t *testing.T) {
	plain := build(t, spec(0, batch.CodecNone), odd[:1]...).Payload()
	stream := func(version byte, part []byte) []byte {
		block, err := batch.Compress(batch.CodecSnappy, part)
		if err != nil {
			t.Fatal(err)
		}
		framed := binary.BigEndian.AppendUint32([]byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, version, 0, 0, 0, 1}, uint32(len(block)))
		return append(framed, block...)
	}
	two := append(stream(1, plain[:5]), stream(1, plain[5:])...)
	if got, err := withPayload(t, batch.CodecSnappy, two).Decompress(1 << 20); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("two streams: %d bytes, %v", len(got), err)
	}
	if got, err := withPayload(t, batch.CodecSnappy, two).Decompress(len(plain) - 1); err == nil {
		t.Errorf("two streams of more than is allowed: %d bytes", len(got))
	}
	for name, framed := range map[string][]byte{"of version 0": stream(0, plain), "with half a header": append(stream(1, plain), two[:9]...)} {
		if got, err := withPayload(t, batch.CodecSnappy, framed).Decompress(1 << 20); err == nil {
			t.Errorf("a stream %s is read: %d bytes", name, len(got))
		}
	}
}

func TestRecordsRefuses(t *testing.T) {
	good := build(t, spec(0, batch.CodecNone), batch.Record{Value: []byte("v"), Headers: []batch.Header{{Key: []byte("h")}}}).Payload()
	for name, payload := range map[string][]byte{
		"nothing":                  {},
		"a length that is too big": {0x7e, 0},
		"a negative length":        {1},
		"an endless varint":        bytes.Repeat([]byte{0xff}, 20),
		"a cut record":             good[:len(good)-1],
		"bytes after the last":     append(slices.Clone(good), 0),
		"a header count of many":   {14, 0, 0, 0, 1, 1, 0xfe, 0x7f},
		"a null header key":        {14, 0, 0, 0, 1, 1, 2, 1},
		"an offset past the last":  {12, 0, 0, 2, 1, 1, 0},
		"a negative offset":        {12, 0, 0, 1, 1, 1, 0},
	} {
		b := withPayload(t, batch.CodecNone, payload)
		var last error
		for _, err := range b.Records(1 << 20) {
			last = err
		}
		if last == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// withPayload is a batch of one record's header and any payload.
func withPayload(t testing.TB, codec batch.Codec, payload []byte) batch.Batch {
	t.Helper()
	b := build(t, spec(0, batch.CodecNone), batch.Record{})[:batch.HeaderSize]
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint16(b[21:], uint16(codec))
	b.SetCRC()
	first, _, err := batch.Split(b)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// FuzzBatches walks any bytes: nothing may panic, and what is accepted must stand by its word.
func FuzzBatches(f *testing.F) {
	for _, codec := range codecs {
		f.Add([]byte(build(f, spec(100, codec), odd[:4]...)))
	}
	f.Add([]byte(batch.BuildMarker(spec(1, 0), batch.Commit, 1, 1)))
	f.Add([]byte(withPayload(f, batch.CodecSnappy, []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3, 1, 0, 'x'})))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) >= batch.HeaderSize { // let the mutations reach the records
			if size, err := batch.SizeOf(raw); err == nil && size <= len(raw) {
				batch.Batch(raw[:size]).SetCRC()
			}
		}
		walked := 0
		for b, err := range batch.Batches(raw).All() {
			if err != nil {
				break
			}
			walked += len(b)
			if walked > len(raw) || b.NextOffset() <= b.BaseOffset() || b.Count() < 0 {
				t.Fatalf("batch of %d bytes, offsets %d to %d, %d records", len(b), b.BaseOffset(), b.NextOffset(), b.Count())
			}
			_ = b.CheckCRC()
			_, _, _ = b.Marker()
			var got []batch.Record
			whole := true
			for r, err := range b.Records(1 << 16) {
				if err != nil {
					whole = false
					break
				}
				if r.Offset < b.BaseOffset() || r.Offset > b.LastOffset() {
					t.Fatalf("record at %d in a batch of %d to %d", r.Offset, b.BaseOffset(), b.LastOffset())
				}
				got = append(got, r)
			}
			if whole && len(got) != int(b.Count()) {
				t.Fatalf("%d records, the header says %d", len(got), b.Count())
			}
		}
	})
}

func ExampleBatches_All() {
	b, _ := batch.Build(batch.Spec{BaseOffset: 5, ProducerID: kafka.NoProducerID, BaseSequence: -1}, []batch.Record{{Offset: 5, Value: []byte("hello")}})
	for b, err := range batch.Batches(b).All() {
		if err != nil {
			fmt.Println(err)
			return
		}
		for r, err := range b.Records(1 << 20) {
			fmt.Println(r.Offset, string(r.Value), err)
		}
	}
	// Output: 5 hello <nil>
}
