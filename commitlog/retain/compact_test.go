package retain_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

func TestDirt(t *testing.T) {
	const now = 1_000_000
	// Four segments of 100 bytes and ten offsets; the last is the active one.
	var log []retain.Segment
	for i := range 4 {
		base := kafka.Offset(10 * i)
		log = append(log, retain.Segment{Base: base, Next: base + 10, Bytes: 100, MaxTimestamp: int64(now - 1000*(4-i)), Created: int64(now - 1000*(4-i))})
	}
	policy := retain.Policy{Compact: true, DirtyRatio: 0.5, MaxLagMs: math.MaxInt64}
	lag := policy
	lag.MinLagMs = 2500
	due := policy
	due.MaxLagMs = 2500
	for _, c := range []struct {
		name    string
		policy  retain.Policy
		log     []retain.Segment
		cleaned kafka.Offset
		stable  kafka.Offset
		want    retain.Dirt
		worth   bool
	}{
		{"all but the active one", policy, log, 0, 40, retain.Dirt{To: 30, DirtyBytes: 300}, true},
		{"half of it is not more than half", policy, log[:3], 10, 40, retain.Dirt{From: 10, To: 20, CleanBytes: 100, DirtyBytes: 100}, false},
		{"nothing left", policy, log, 30, 40, retain.Dirt{From: 30, To: 30, CleanBytes: 300}, false},
		{"not above the last stable offset", policy, log, 0, 19, retain.Dirt{To: 10, DirtyBytes: 100}, true},
		{"not what is too young", lag, log, 0, 40, retain.Dirt{To: 20, DirtyBytes: 200}, true},
		{"old records whatever the ratio", due, log[:3], 10, 40, retain.Dirt{From: 10, To: 20, CleanBytes: 100, DirtyBytes: 100, Due: true}, true},
		{"a delete topic", retain.Policy{Delete: true}, log, 0, 40, retain.Dirt{}, false},
		{"only the active one", policy, log[3:], 0, 40, retain.Dirt{}, false},
		{"an empty log", policy, nil, 0, 0, retain.Dirt{}, false},
	} {
		got := c.policy.Dirt(c.log, c.cleaned, c.stable, now)
		if got != c.want || c.policy.Worth(got) != c.worth {
			t.Errorf("%s: %+v, worth it %v; want %+v, %v", c.name, got, c.policy.Worth(got), c.want, c.worth)
		}
	}
}

func TestGroups(t *testing.T) {
	var log []retain.Segment
	for i, size := range []int64{40, 40, 40, 100, 10, 10} {
		base := kafka.Offset(10 * i)
		log = append(log, retain.Segment{Base: base, Next: base + 10, Bytes: size})
	}
	show := func(groups [][]retain.Segment) string {
		var text string
		for _, g := range groups {
			text += "["
			for _, s := range g {
				text += fmt.Sprint(" ", s.Base)
			}
			text += " ]"
		}
		return text
	}
	for _, c := range []struct {
		most retain.Bounds
		want string
	}{
		{retain.Bounds{Bytes: 100, Offsets: math.MaxInt32}, "[ 0 10 ][ 20 ][ 30 ][ 40 50 ]"},
		{retain.Bounds{Bytes: 1000, Offsets: 30}, "[ 0 10 20 ][ 30 40 50 ]"},
		{retain.Bounds{Bytes: 1, Offsets: 1}, "[ 0 ][ 10 ][ 20 ][ 30 ][ 40 ][ 50 ]"},
	} {
		if got := show(retain.Groups(log, c.most)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.most, got, c.want)
		}
	}
}

func TestKeysKeepTheNewestOffsetInBoundedMemory(t *testing.T) {
	k := retain.NewKeys(24 << 12)
	want := map[string]kafka.Offset{}
	n := 0
	for ; k.Room(1); n++ {
		key := fmt.Sprint(n)
		k.Put([]byte(key), kafka.Offset(n+5))
		k.Put([]byte(key), kafka.Offset(n)) // older: no effect
		want[key] = kafka.Offset(n + 5)
	}
	if n < 2000 || n > 4096 {
		t.Errorf("%d keys fit into %d slots", n, 4096)
	}
	for key, offset := range want {
		if got := k.Newest([]byte(key)); got != offset {
			t.Fatalf("newest of %s is %d, want %d", key, got, offset)
		}
	}
	if got := k.Newest([]byte("no such key")); got != kafka.NoOffset {
		t.Errorf("newest of an unknown key is %d", got)
	}
	k.Put(nil, 0)
	if got := k.Newest([]byte{}); got != 0 {
		t.Errorf("offset 0 is remembered as %d", got)
	}
}

// TestFilterAgainstTheRules builds random logs and compares what the filter leaves with what the rules say.
func TestFilterAgainstTheRules(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		log := randomLog(t, rng)
		var newest = map[string]kafka.Offset{}
		split := kafka.Offset(rng.IntN(60)) // keys are learned from here on
		f := retain.NewFilter(retain.Facts{NowMs: 10_000, DeleteRetentionMs: 100, KeyBytes: 1 << 20, PlainMax: 1 << 20}, split)
		for _, b := range log {
			if b.NextOffset() <= split {
				continue
			}
			if !f.Learn(b) {
				t.Fatal("the keys do not fit")
			}
			for r := range b.Records(1 << 20) {
				if r.Offset >= split {
					newest[string(r.Key)] = r.Offset
				}
			}
		}
		for i, b := range log {
			place := retain.Inside
			if i == len(log)-1 {
				place = retain.EndsSegment
			}
			out, err := f.Batch(b, place)
			if err != nil {
				t.Fatal(err)
			}
			checkFiltered(t, seed, b, out, newest)
			if out == nil && place == retain.EndsSegment {
				t.Fatalf("seed %d: the segment's end is gone", seed)
			}
		}
	}
}

func randomLog(t *testing.T, rng *rand.Rand) (log []batch.Batch) {
	t.Helper()
	next := kafka.Offset(0)
	for range 20 {
		var records []batch.Record
		for i := range 1 + rng.IntN(5) {
			r := batch.Record{Offset: next + kafka.Offset(i), Timestamp: int64(1000 + rng.IntN(100)), Key: fmt.Appendf(nil, "k%d", rng.IntN(12)), Value: fmt.Appendf(nil, "%d", rng.Uint64())}
			if rng.IntN(5) == 0 {
				r.Value = nil
			}
			records = append(records, r)
		}
		b, err := batch.Build(batch.Spec{BaseOffset: next, LeaderEpoch: 3, Codec: batch.Codec(rng.IntN(5)), ProducerID: -1, BaseSequence: -1, LastDelta: int32(len(records))}, records)
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(4) == 0 { // cleaned before, with a horizon that has passed or has not
			if b, err = b.Rebuild(records, int64(9_990+rng.IntN(20))); err != nil {
				t.Fatal(err)
			}
		}
		log = append(log, b)
		next = b.NextOffset() + kafka.Offset(rng.IntN(3))
	}
	return log
}

func checkFiltered(t *testing.T, seed uint64, b, out batch.Batch, newest map[string]kafka.Offset) {
	t.Helper()
	expired := b.HasDeleteHorizon() && b.DeleteHorizon() <= 10_000
	var want, have []string
	tombstones := false
	for r, err := range b.Records(1 << 20) {
		if err != nil {
			t.Fatal(err)
		}
		if at, known := newest[string(r.Key)]; known && at > r.Offset || r.Value == nil && expired {
			continue
		}
		tombstones = tombstones || r.Value == nil
		want = append(want, fmt.Sprint(r))
	}
	if out == nil {
		if len(want) > 0 {
			t.Fatalf("seed %d: the batch at %d is gone, with %v", seed, b.BaseOffset(), want)
		}
		return
	}
	for r, err := range out.Records(1 << 20) {
		if err != nil {
			t.Fatal(err)
		}
		have = append(have, fmt.Sprint(r))
	}
	if !slices.Equal(want, have) {
		t.Fatalf("seed %d: batch at %d holds %v, want %v", seed, b.BaseOffset(), have, want)
	}
	if err := out.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	if out.BaseOffset() != b.BaseOffset() || out.LastOffset() != b.LastOffset() || out.LeaderEpoch() != b.LeaderEpoch() {
		t.Fatalf("seed %d: batch [%d, %d] became [%d, %d]", seed, b.BaseOffset(), b.LastOffset(), out.BaseOffset(), out.LastOffset())
	}
	switch {
	case len(have) == int(b.Count()) && (b.HasDeleteHorizon() || !tombstones):
		if !bytes.Equal(b, out) {
			t.Fatalf("seed %d: a batch that loses nothing at %d was written anew", seed, b.BaseOffset())
		}
	case len(have) > 0 && out.Codec() != b.Codec():
		t.Fatalf("seed %d: codec %d became %d", seed, b.Codec(), out.Codec())
	}
	if tombstones && !b.HasDeleteHorizon() && out.DeleteHorizon() != 10_100 {
		t.Fatalf("seed %d: tombstones got the horizon %d", seed, out.DeleteHorizon())
	}
}

func TestABatchThatCannotBeReadStays(t *testing.T) {
	b, err := batch.Build(batch.Spec{Codec: batch.CodecNone, ProducerID: -1, BaseSequence: -1}, []batch.Record{{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 100)}})
	if err != nil {
		t.Fatal(err)
	}
	b = slices.Clone(b)
	b[batch.HeaderSize] = 0xff
	b.SetCRC()
	f := retain.NewFilter(retain.Facts{KeyBytes: 1 << 20, PlainMax: 1 << 20}, 0)
	f.Learn(b)
	if out, err := f.Batch(b, retain.Inside); err != nil || !bytes.Equal(out, b) || f.Unreadable != 2 {
		t.Errorf("%v, %v, %d unreadable", out, err, f.Unreadable)
	}
}

func TestCompare(t *testing.T) {
	keep := func(list ...string) retain.Side { // offset key value
		s := retain.Side{End: 100, CleanedTo: 50}
		for _, text := range list {
			var r batch.Record
			var key, value string
			if _, err := fmt.Sscan(text, &r.Offset, &key, &value); err != nil {
				t.Fatal(err)
			}
			r.Key, r.Value = []byte(key), []byte(value)
			if value == "x" {
				r.Value = nil
			}
			if key == "-" {
				r.Key = nil
			}
			s.Records = append(s.Records, retain.NewSurvivor(r, value == "void"))
		}
		return s
	}
	shorter := keep("60 a 1")
	shorter.End = 60
	for _, c := range []struct {
		name           string
		source, mirror retain.Side
		want           int
	}{
		{"the same", keep("1 a 1", "60 b 2"), keep("1 a 1", "60 b 2"), 0},
		{"other content", keep("1 a 1"), keep("1 a 2"), 1},
		{"another key", keep("1 a 1"), keep("1 b 1"), 1},
		{"superseded at the mirror", keep("1 a 1", "60 a 2"), keep("60 a 2"), 0},
		{"superseded at the source", keep("60 a 2"), keep("1 a 1", "60 a 2"), 0},
		{"lost", keep("1 a 1", "60 b 2"), keep("60 b 2"), 1},
		{"resurrected", keep("60 b 2"), keep("1 a 1", "60 b 2"), 1},
		{"above the cleaner nothing may be missing", keep("60 a 1", "61 a 2"), keep("61 a 2"), 1},
		{"an expired tombstone", keep("1 a x", "60 b 2"), keep("60 b 2"), 0},
		{"a value and the tombstone that took it", keep("1 a 1", "2 a x", "60 b 2"), keep("60 b 2"), 0},
		{"a tombstone above the cleaner", keep("60 a x"), keep(), 1},
		{"aborted records and markers", keep("1 a void", "60 b 2"), keep("60 b 2"), 0},
		{"an aborted record supersedes nothing", keep("1 a 1", "60 a void"), keep("60 a void"), 1},
		{"records without keys", keep("1 - 1"), keep(), 0},
		{"what one side has not yet", keep("60 a 1"), shorter, 0},
	} {
		if got := retain.Compare(c.source, c.mirror, 10); len(got) != c.want {
			t.Errorf("%s: %v, want %d differences", c.name, got, c.want)
		}
	}
}

func TestAMarkerStaysWhileReadersAreToldOfItsTransaction(t *testing.T) {
	marker := batch.BuildMarker(batch.Spec{BaseOffset: 7, ProducerID: 5}, batch.Abort, 1, 1000)
	filler, err := batch.Build(batch.Spec{BaseOffset: 8, ProducerID: -1, BaseSequence: -1}, []batch.Record{{Offset: 8, Key: []byte("k"), Value: []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	clean := func(nowMs int64, b batch.Batch, aborted ...retain.Aborted) batch.Batch {
		t.Helper()
		f := retain.NewFilter(retain.Facts{NowMs: nowMs, DeleteRetentionMs: 10, KeyBytes: 1 << 20, PlainMax: 1 << 20, Aborted: aborted}, 0)
		if !f.Learn(b) || !f.Learn(filler) {
			t.Fatal("the keys do not fit")
		}
		out, err := f.Batch(b, retain.Inside)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	told := retain.Aborted{Producer: 5, First: 3, Last: 7}
	if out := clean(100, marker, told); !bytes.Equal(out, marker) {
		t.Fatalf("a marker that is needed became %v", out)
	}
	stamped := clean(100, marker)
	if stamped.DeleteHorizon() != 110 {
		t.Fatalf("horizon %d", stamped.DeleteHorizon())
	}
	if kind, epoch, ok := stamped.Marker(); !ok || kind != batch.Abort || epoch != 1 {
		t.Errorf("the stamped marker reads %v, %d, %v", kind, epoch, ok)
	}
	if out := clean(109, stamped); !bytes.Equal(out, stamped) {
		t.Errorf("before its horizon it became %v", out)
	}
	if out := clean(110, stamped, told); !bytes.Equal(out, stamped) {
		t.Errorf("a stamped marker that is needed became %v", out)
	}
	if out := clean(110, stamped); out != nil {
		t.Errorf("at its horizon it became %v", out)
	}
}

func TestWhatWasNotLearnedIsNotTouched(t *testing.T) {
	build := func(at kafka.Offset, key []byte) batch.Batch {
		b, err := batch.Build(batch.Spec{BaseOffset: at, ProducerID: -1, BaseSequence: -1}, []batch.Record{{Offset: at, Key: key}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	f := retain.NewFilter(retain.Facts{KeyBytes: 1 << 20, PlainMax: 1 << 20}, 0)
	f.Learn(build(0, []byte("k")))
	if f.To() != 1 {
		t.Errorf("learned up to %d", f.To())
	}
	for _, b := range []batch.Batch{build(1, []byte("k")), build(2, nil)} {
		if out, err := f.Batch(b, retain.Inside); err != nil || !bytes.Equal(out, b) {
			t.Errorf("the batch at %d became %v, %v", b.BaseOffset(), out, err)
		}
	}
}

// A mirror that jumped into a transaction ended it below the offset it jumped to; the batch that lies across, and what follows, is decided
// by the marker that the source sends.
func TestABatchAcrossAJumpIsNotOfTheTransactionItEnded(t *testing.T) {
	across, err := batch.Build(batch.Spec{BaseOffset: 9, ProducerID: 5, Transactional: true}, []batch.Record{
		{Offset: 9, Key: []byte("a"), Value: []byte("1")}, {Offset: 10, Key: []byte("b"), Value: []byte("1")}})
	if err != nil {
		t.Fatal(err)
	}
	f := retain.NewFilter(retain.Facts{NowMs: 100, KeyBytes: 1 << 20, PlainMax: 1 << 20, Aborted: []retain.Aborted{{Producer: 5, First: 0, Last: 9}}}, 0)
	if !f.Learn(across) || !f.Learn(batch.BuildMarker(batch.Spec{BaseOffset: 11, ProducerID: 5}, batch.Commit, 1, 100)) {
		t.Fatal("the keys do not fit")
	}
	if out, err := f.Batch(across, retain.Inside); err != nil || !bytes.Equal(out, across) {
		t.Errorf("a batch whose last record was committed became %d bytes, %v", len(out), err)
	}
}
