package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store/storetest"
)

// compacting sets a topic's configs so that segments are small and everything dirty is worth a cleaning.
func (b *bed) compacting(segment int64) {
	b.cfg.Log.SegmentBytes = segment
	b.cfg.Compacted = true
	b.cfg.Retain = retain.Policy{Compact: true, RetentionMs: -1, RetentionBytes: -1, MaxLagMs: math.MaxInt64}
	b.Configure(b.topic.ID, b.cfg)
}

func (b *bed) compact() Compacted {
	b.t.Helper()
	done, err := b.p(0).Compact(b.t.Context(), time.UnixMilli(b.nowMs), Compaction{KeyBytes: 1 << 20})
	b.must(err)
	return done
}

// kv is a record to be written; no value is a tombstone.
type kv struct{ key, value string }

// record is one that is in the log.
type record struct {
	offset kafka.Offset
	kv
}

func (b *bed) keyed(base kafka.Offset, spec batch.Spec, list ...kv) batch.Batch {
	b.t.Helper()
	spec.BaseOffset = base
	if spec.ProducerID == 0 {
		spec.ProducerID, spec.BaseSequence = kafka.NoProducerID, -1
	}
	records := make([]batch.Record, len(list))
	for i, e := range list {
		records[i] = batch.Record{Offset: base + kafka.Offset(i), Timestamp: b.nowMs + int64(i), Key: []byte(e.key), Value: []byte(e.value)}
		if e.value == "" {
			records[i].Value = nil
		}
	}
	out, err := batch.Build(spec, records)
	b.must(err)
	return out
}

// put appends a batch here, or to the mirror.
func (b *bed) put(spec batch.Spec, list ...kv) {
	b.t.Helper()
	p := b.p(0)
	one := b.keyed(p.Offsets().LogEnd, spec, list...)
	if p.Entry().Role == meta.RoleMirror {
		b.must(b.mirror(0, one))
		b.synced(0)
		return
	}
	a, err := p.Append(b.t.Context(), batch.Batches(one), yes)
	b.must(err)
	b.must(p.WaitSynced(b.t.Context(), a.Next))
}

func (b *bed) records() (list []record) {
	b.t.Helper()
	batches, _ := b.readAll(0, b.p(0).Offsets().LogStart, kafka.ReadUncommitted)
	for _, one := range batches {
		b.must(one.CheckCRC())
		if one.IsControl() {
			continue
		}
		for r, err := range one.Records(1 << 20) {
			b.must(err)
			list = append(list, record{r.Offset, kv{string(r.Key), string(r.Value)}})
		}
	}
	return list
}

func TestCompactionKeepsTheNewestOfEachKeyAtItsOffset(t *testing.T) {
	for _, role := range []meta.Role{meta.RoleOpen, meta.RoleMirror} {
		t.Run(string(role), func(t *testing.T) {
			b := newBed(t, role, 1)
			b.compacting(200)
			for i := range 10 {
				b.put(batch.Spec{Codec: batch.Codec(i % 5)}, kv{"a", fmt.Sprint("a", i)}, kv{fmt.Sprint("k", i%3), fmt.Sprint(i)}, kv{fmt.Sprint("only", i), "x"})
			}
			before := b.p(0).Offsets()
			done := b.compact()
			if done.Removed == 0 || done.Swapped == 0 {
				t.Fatalf("cleaned %+v", done)
			}
			after := b.p(0).Offsets()
			if after.LogEnd != before.LogEnd || after.LogStart != before.LogStart || after.HighWatermark != before.HighWatermark {
				t.Errorf("offsets were %+v and are %+v", before, after)
			}
			newest := map[string]record{}
			for _, r := range b.records() {
				if old, twice := newest[r.key]; twice && r.offset < done.To {
					t.Errorf("%v and %v are both there", old, r)
				}
				newest[r.key] = r
			}
			want := []record{{27, kv{"a", "a9"}}, {28, kv{"k0", "9"}}, {22, kv{"k1", "7"}}, {25, kv{"k2", "8"}}, {2, kv{"only0", "x"}}}
			for _, w := range want {
				if newest[w.key] != w {
					t.Errorf("newest of %s is %v, want %v", w.key, newest[w.key], w)
				}
			}
			// A look-up in a hole finds the next batch.
			for from := range before.LogEnd {
				a, err := b.p(0).Read(Read{From: from, MaxBytes: 1, AtLeastOne: true, CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
				b.must(err)
				bytes, err := a.Slice.Bytes()
				b.must(err)
				a.Slice.Close()
				if one, _, err := batch.Split(bytes); err != nil || one.NextOffset() <= from {
					t.Fatalf("read at %d: %v, %v", from, one, err)
				}
			}
			kept := b.records()
			b.reopen()
			if again := b.records(); !slices.Equal(kept, again) {
				t.Errorf("after a restart %v, before %v", again, kept)
			}
			if b.p(0).CleanedTo() != done.To || done.To == 0 {
				t.Errorf("cleaned to %d, want %d", b.p(0).CleanedTo(), done.To)
			}
			if d, worth := b.p(0).Dirt(time.UnixMilli(b.nowMs)); worth || d.DirtyBytes != 0 {
				t.Errorf("still dirty: %+v", d)
			}
		})
	}
}

func TestTombstonesGoAfterTheirDeleteHorizon(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.compacting(100)
	b.cfg.Retain.DeleteRetentionMs = 1000
	b.Configure(b.topic.ID, b.cfg)
	b.put(batch.Spec{}, kv{"a", "1"})
	b.put(batch.Spec{}, kv{"a", ""})
	b.put(batch.Spec{}, kv{"filler", "1"})
	b.put(batch.Spec{}, kv{"filler", "2"})
	b.compact()
	want := []record{{1, kv{"a", ""}}, {2, kv{"filler", "1"}}, {3, kv{"filler", "2"}}}
	// The newest segment is not looked at: filler's first value is only superseded there.
	if got := b.records(); !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	batches, _ := b.readAll(0, 1, kafka.ReadUncommitted)
	if h := batches[0].DeleteHorizon(); h != b.nowMs+1000 {
		t.Errorf("delete horizon %d, want %d", h, b.nowMs+1000)
	}
	for r, err := range batches[0].Records(1000) {
		if err != nil || r.Timestamp != b.nowMs {
			t.Errorf("the tombstone's time is %d, %v", r.Timestamp, err)
		}
	}
	b.nowMs += 999
	b.put(batch.Spec{}, kv{"filler", "3"})
	b.compact()
	if got := b.records(); !slices.Contains(got, want[0]) {
		t.Fatalf("the tombstone is gone too early: %v", got)
	}
	b.nowMs++
	b.put(batch.Spec{}, kv{"filler", "4"})
	b.compact()
	if got := b.records(); slices.Contains(got, want[0]) || got[0].key != "filler" {
		t.Fatalf("the tombstone is still there: %v", got)
	}
	if o := b.p(0).Offsets(); o.LogStart != 0 || o.LogEnd != 6 {
		t.Errorf("offsets %+v", o)
	}
}

func TestAbortedRecordsGoAndTheirMarkersLater(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.compacting(150)
	b.cfg.Retain.DeleteRetentionMs = 0
	b.Configure(b.topic.ID, b.cfg)
	id := foreignID(1)
	txn := func(sequence int32) batch.Spec {
		return batch.Spec{ProducerID: id, BaseSequence: sequence, Transactional: true}
	}
	mark := func(m batch.Marker) {
		b.mustMirror(0, markerBatch(b.p(0).Offsets().LogEnd, 0, id, 0, m, 1))
	}
	b.put(batch.Spec{}, kv{"a", "good"})
	b.put(txn(0), kv{"a", "bad"}, kv{"b", "bad"})
	mark(batch.Abort)
	b.put(txn(2), kv{"c", "good"})
	mark(batch.Commit)
	b.put(txn(3), kv{"d", "good"})
	mark(batch.Commit)
	for i := range 3 {
		b.put(batch.Spec{}, kv{"filler", fmt.Sprint(i)})
	}
	want := []string{"good", "good", "good"}
	check := func(when string) {
		t.Helper()
		if got := b.committed(0, 0); !slices.Equal(got[:3], want) {
			t.Fatalf("%s: read_committed sees %v", when, got)
		}
	}
	check("before")
	wasProducers := b.p(0).Producers()
	markers := func() (n int) {
		batches, _ := b.readAll(0, 0, kafka.ReadUncommitted)
		for _, one := range batches {
			if one.IsControl() && one.Count() > 0 {
				n++
			}
		}
		return n
	}
	if done := b.compact(); done.AbortedDropped != 1 || markers() != 3 {
		t.Fatalf("%+v, %d markers", done, markers())
	}
	check("after the first cleaning")
	for _, r := range b.records() {
		if r.value == "bad" {
			t.Errorf("an aborted record is left: %v", r)
		}
	}
	_, aborted := b.readAll(0, 0, kafka.ReadCommitted)
	if len(aborted) > 0 {
		t.Errorf("readers are told of %v", aborted)
	}
	for i := range 3 { // stamp the abort marker, then remove it
		b.put(batch.Spec{}, kv{"filler", fmt.Sprint(10 + i)})
		b.compact()
		check("after another cleaning")
	}
	if markers() != 2 {
		t.Errorf("%d markers, want the two of transactions with records", markers())
	}
	if got := b.p(0).Producers(); !slices.Equal(got, wasProducers) {
		t.Errorf("producers are %+v and were %+v", got, wasProducers)
	}
	// All of that comes out of the log alone, too.
	b.must(b.p(0).removeSnapshotsAbove(-1))
	b.reopen()
	check("rebuilt")
	if got := b.p(0).Producers(); len(got) != 1 || got[0].LastSequence != 3 {
		t.Errorf("rebuilt producers are %+v", got)
	}
}

func TestAProducersLastBatchStaysAsAnEmptyOne(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.compacting(120)
	id := ownID(5)
	b.put(batch.Spec{ProducerID: id}, kv{"a", "1"}, kv{"b", "1"})
	for i := range 6 {
		b.put(batch.Spec{}, kv{"a", fmt.Sprint(i)}, kv{"b", fmt.Sprint(i)})
	}
	b.compact()
	b.must(b.p(0).removeSnapshotsAbove(-1))
	b.reopen()
	list := b.p(0).Producers()
	if len(list) != 1 || list[0].LastSequence != 1 {
		t.Fatalf("producers %+v", list)
	}
	a, err := b.p(0).Append(t.Context(), batch.Batches(b.keyed(0, batch.Spec{ProducerID: id, BaseSequence: 2}, kv{"a", "x"})), yes)
	b.must(err)
	if a.Duplicate {
		t.Error("taken for a duplicate")
	}
}

func TestT2_ACutBelowWhatTheCleanerUsedEmptiesTheMirror(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.compacting(100)
	b.put(batch.Spec{}, kv{"k", "v1"})
	for i := range 5 {
		b.put(batch.Spec{}, kv{"k", fmt.Sprint("v", i+2)})
	}
	done := b.compact()
	if got := b.p(0).CleanedTo(); got != done.To || got != 5 {
		t.Fatalf("cleaned to %d", got)
	}
	b.reopen()
	p := b.p(0)
	b.must(errOf(p.TruncateMirror(t.Context(), p.Offsets().Generation, 5, "test")))
	wantOffsets(t, p, 0, 5, 5, 5) // at what was used: nothing of it is lost
	kept, err := p.TruncateMirror(t.Context(), p.Offsets().Generation, 4, "test")
	b.must(err)
	if kept != 4 {
		t.Errorf("%d is said to be kept, which is to come again, want 4", kept)
	}
	wantOffsets(t, p, 0, 0, 0, 0)
	if p.CleanedTo() != 0 {
		t.Errorf("cleaned to %d in an empty log", p.CleanedTo())
	}
	b.mustMirror(0, b.keyed(3, batch.Spec{LeaderEpoch: 1}, kv{"k", "w"}))
	wantOffsets(t, p, 0, 4, 4, 4)
}

// A transaction's record may have removed an older one, thanks to a marker that lies above what was cleaned: without the marker the
// transaction may end otherwise, and both would be gone.
func TestT2_ACutBelowAMarkerThatTheCleanerReliedOnEmptiesTheMirror(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.compacting(100)
	x := foreignID(1)
	b.put(batch.Spec{}, kv{"k", "v1"})
	b.put(batch.Spec{ProducerID: x, Transactional: true}, kv{"k", "v2"})
	b.put(batch.Spec{}, kv{"j", "w1"})
	b.mustMirror(0, markerBatch(3, 0, x, 0, batch.Commit, 1))
	p := b.p(0)
	done := b.compact()
	if done.To != 3 || done.Removed != 1 || p.CleanedTo() != 4 {
		t.Fatalf("cleaned %+v, noted %d", done, p.CleanedTo())
	}
	b.must(errOf(p.TruncateMirror(t.Context(), p.Offsets().Generation, 3, "test")))
	wantOffsets(t, p, 0, 0, 0, 0)
}

// The marker may lie above the last stable offset, if another transaction has begun before it and is open.
func TestT2_AMarkerBehindAnOpenTransactionCountsAsUsed(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.compacting(100)
	x, y := foreignID(1), foreignID(2)
	b.put(batch.Spec{}, kv{"k", "v1"})
	b.put(batch.Spec{ProducerID: x, Transactional: true}, kv{"k", "v2"})
	b.put(batch.Spec{}, kv{"j", "w1"})
	b.put(batch.Spec{ProducerID: y, Transactional: true}, kv{"i", "u1"})
	b.mustMirror(0, markerBatch(4, 0, x, 0, batch.Commit, 1))
	p := b.p(0)
	if at := p.Offsets().LastStable; at != 3 {
		t.Fatalf("the last stable offset is %d, want 3", at)
	}
	done := b.compact()
	if done.To != 3 || done.Removed != 1 || p.CleanedTo() != 5 {
		t.Fatalf("cleaned %+v, noted %d", done, p.CleanedTo())
	}
	b.must(errOf(p.TruncateMirror(t.Context(), p.Offsets().Generation, 4, "test")))
	wantOffsets(t, p, 0, 0, 0, 0)
}

// The end of one that was aborted is known, and not looked for: a jump of the mirror leaves none.
func TestT2_TheEndOfAnAbortedTransactionCountsAsUsed(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.compacting(100)
	x := foreignID(1)
	b.put(batch.Spec{}, kv{"k", "v1"})
	b.put(batch.Spec{ProducerID: x, Transactional: true}, kv{"k", "v2"})
	b.put(batch.Spec{}, kv{"j", "w1"})
	p := b.p(0)
	b.must(errOf(p.JumpTo(t.Context(), p.Offsets().Generation, 9, true)))
	b.mustMirror(0, made{base: 9}.build(t))
	done := b.compact()
	if done.To != 3 || done.Removed != 1 || p.CleanedTo() != 9 {
		t.Fatalf("cleaned %+v, noted %d", done, p.CleanedTo())
	}
}

// An answer ends in front of a hole in which a transaction's end was lost. Once the cleaner has taken all that was there, readers go on behind it.
func TestD5_ReadersPassAHoleThatNothingIsLeftInFrontOf(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.compacting(400)
	x := foreignID(1)
	b.put(batch.Spec{}, kv{"k", "v1"})
	b.put(batch.Spec{ProducerID: x, Transactional: true}, kv{"j", "w1"})
	p := b.p(0)
	b.must(errOf(p.JumpTo(t.Context(), p.Offsets().Generation, 2, true)))
	b.must(errOf(p.JumpTo(t.Context(), p.Offsets().Generation, 9, true)))
	b.put(batch.Spec{ProducerID: x, BaseSequence: 5, Transactional: true}, kv{"j", "w2"})
	b.mustMirror(0, markerBatch(10, 0, x, 0, batch.Commit, 1))
	b.put(batch.Spec{}, kv{"k", "v2"}, kv{"l", strings.Repeat("u", 100)})
	b.put(batch.Spec{}, kv{"m", strings.Repeat("u", 400)})
	if done := b.compact(); done.Removed != 2 {
		t.Fatalf("cleaned %+v", done)
	}
	wantOffsets(t, p, 0, 14, 14, 14)
	for from := range kafka.Offset(10) {
		if got := b.committed(0, from); len(got) != 4 || got[0] != "w2" || got[1] != "v2" {
			t.Errorf("from %d: read %.5q, want w2, v2 and the two that follow", from, got)
		}
		a, err := p.Read(Read{From: from, MaxBytes: 1, Isolation: kafka.ReadCommitted, CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
		if err != nil || a.Slice.Length != 0 || len(a.Aborted) != 0 {
			t.Errorf("from %d, without room for one batch: %d bytes, aborted %v, %v", from, a.Slice.Length, a.Aborted, err)
		}
		a.Slice.Close()
	}
}

func TestC37_AConfigChangeAbortsACleaning(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.compacting(200)
	for i := range 20 {
		b.put(batch.Spec{}, kv{"k", fmt.Sprint(i)}, kv{fmt.Sprint("k", i), "x"})
	}
	before := b.records()
	changed := b.cfg
	changed.Retain = retain.Policy{Delete: true, RetentionMs: -1, RetentionBytes: -1}
	steps := 0
	_, err := b.p(0).Compact(t.Context(), time.UnixMilli(b.nowMs), Compaction{KeyBytes: 1 << 20, Pace: func(int) {
		if steps++; steps == 25 { // learned, and at work on the first segments
			b.Configure(b.topic.ID, changed)
		}
	}})
	if !errors.Is(err, ErrCleanAborted) {
		t.Fatalf("got %v", err)
	}
	b.put(batch.Spec{}, kv{"k", "after"})
	newest := map[string]record{}
	for _, r := range b.records() {
		newest[r.key] = r
	}
	for _, r := range before {
		if r.key != "k" && newest[r.key] != r {
			t.Errorf("%v is gone", r)
		}
	}
	if got, err := b.p(0).Compact(t.Context(), time.UnixMilli(b.nowMs), Compaction{KeyBytes: 1 << 20}); err != nil || got.Passes != 0 {
		t.Errorf("cleaned under delete: %+v, %v", got, err)
	}
	b.Configure(b.topic.ID, b.cfg)
	if got := b.compact(); got.Removed == 0 {
		t.Errorf("not cleaned after switching back: %+v", got)
	}
	for _, r := range b.records() {
		if r.key == "k" && r.offset < 30 {
			t.Errorf("an old value is left: %v", r)
		}
	}
}

func TestACutAbortsACleaning(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.compacting(200)
	for i := range 20 {
		b.put(batch.Spec{}, kv{"k", fmt.Sprint(i)}, kv{fmt.Sprint("k", i), "x"})
	}
	p := b.p(0)
	steps := 0
	_, err := p.Compact(t.Context(), time.UnixMilli(b.nowMs), Compaction{KeyBytes: 1 << 20, Pace: func(int) {
		if steps++; steps == 25 {
			b.must(errOf(p.TruncateMirror(t.Context(), p.Offsets().Generation, 30, "test")))
		}
	}})
	if !errors.Is(err, ErrCleanAborted) {
		t.Fatalf("got %v", err)
	}
	// The cleaning may have used what was cut: all is copied again.
	wantOffsets(t, p, 0, 0, 0, 0)
}

func TestKeysThatDoNotFitTakeSeveralPasses(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.compacting(32 << 10)
	const keys = 6000 // a table of 1<<20 bytes has room for more; this one is smaller
	var list []kv
	for round := range 2 {
		for i := range keys {
			list = append(list, kv{fmt.Sprint("key", i), fmt.Sprint(round)})
		}
	}
	for chunk := range slices.Chunk(list, 200) {
		b.must(b.mirror(0, b.keyed(b.p(0).Offsets().LogEnd, batch.Spec{}, chunk...)))
	}
	b.synced(0)
	done, err := b.p(0).Compact(t.Context(), time.UnixMilli(b.nowMs), Compaction{KeyBytes: 100 << 10})
	b.must(err)
	if done.Passes < 2 {
		t.Errorf("%d passes", done.Passes)
	}
	count := map[string]int{}
	for _, r := range b.records() {
		if r.offset < done.To {
			count[r.key]++
		}
	}
	for key, n := range count {
		if n > 1 {
			t.Fatalf("%s is there %d times", key, n)
		}
	}
}

// TestCompactionUnderCrashes updates keys at random over a store that is crashed at any operation, cleaning all
// the time; after each crash what was shown is right: the newest of each key, at its offset.
func TestCompactionUnderCrashes(t *testing.T) {
	updates, keys := 200_000/slowdown, 2_000/slowdown
	if os.Getenv("HAWSER_COMPACT_FULL") != "" {
		updates, keys = 1_000_000, 10_000
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compactUnderCrashes(t, seed, updates/3, keys) })
	}
}

func compactUnderCrashes(t *testing.T, seed uint64, updates, keys int) {
	rng := rand.New(rand.NewPCG(seed, 99))
	mem := storetest.NewMemory()
	b := newBedOver(t, meta.RoleMirror, 1, mem)
	b.compacting(64 << 10)
	truth := map[string]record{} // what was synced
	crashes := 0
	for written := 0; written < updates; {
		var list []kv
		for range 1 + rng.IntN(100) {
			value := fmt.Sprint(rng.Uint64())
			if rng.IntN(20) == 0 {
				value = ""
			}
			list = append(list, kv{fmt.Sprint("key", rng.IntN(keys)), value})
		}
		base := b.p(0).Offsets().LogEnd
		b.put(batch.Spec{Codec: batch.Codec([]int{0, 0, 0, 2, 3}[rng.IntN(5)])}, list...)
		for i, e := range list {
			truth[e.key] = record{base + kafka.Offset(i), e}
		}
		written += len(list)
		if rng.IntN(20) > 0 {
			continue
		}
		end := b.p(0).Offsets().LogEnd
		// A crash at one of the operations of the cleaning, or none.
		var after *storetest.Memory
		at, n := rng.IntN(60), 0
		mem.Hook(func(storetest.Op) error {
			if n++; n == at {
				after = mem.Crash(rng.Uint64())
			}
			return nil
		})
		_, err := b.p(0).Compact(context.Background(), time.UnixMilli(b.nowMs), Compaction{KeyBytes: 1 << 20})
		mem.Hook(nil)
		b.must(err)
		if after != nil {
			crashes++
			b.must(b.Owner.Close())
			mem, b.store = after, after
			b.open()
			b.must(b.p(0).Err())
		}
		if got := b.p(0).Offsets(); got.LogEnd != end || got.HighWatermark != end {
			t.Fatalf("seed %d: the log ends at %d, high watermark %d, want %d", seed, got.LogEnd, got.HighWatermark, end)
		}
		b.newestAre(seed, truth)
	}
	if crashes < 2 {
		t.Errorf("only %d crashes", crashes)
	}
	b.compact()
	b.newestAre(seed, truth)
	t.Logf("%d updates, %d crashes, %d bytes left", updates, crashes, b.p(0).Offsets().Size)
}

// TestCrashAtEveryOperationOfACleaning crashes a copy of the store before each operation of one cleaning that merges
// segments, several ways each, and looks at what the next start finds.
func TestCrashAtEveryOperationOfACleaning(t *testing.T) {
	mem := storetest.NewMemory()
	b := newBedOver(t, meta.RoleMirror, 1, mem)
	b.compacting(600)
	id := foreignID(1)
	truth := map[string]record{}
	sequence := int32(0)
	for i := range 40 {
		list := []kv{{fmt.Sprint("key", i%7), fmt.Sprint(i)}, {fmt.Sprint("once", i), "x"}}
		base := b.p(0).Offsets().LogEnd
		if i%5 == 4 {
			b.put(batch.Spec{ProducerID: id, BaseSequence: sequence, Transactional: true}, list...)
			sequence += 2
			b.mustMirror(0, markerBatch(base+2, 0, id, 0, batch.Abort, 1))
			continue
		}
		b.put(batch.Spec{}, list...)
		for k, e := range list {
			truth[e.key] = record{base + kafka.Offset(k), e}
		}
	}
	end := b.p(0).Offsets().LogEnd
	var clones []*storetest.Memory
	var at []string
	mem.Hook(func(op storetest.Op) error {
		for seed := range uint64(8) {
			clones = append(clones, mem.Crash(seed))
			at = append(at, op.String())
		}
		return nil
	})
	done := b.compact()
	mem.Hook(nil)
	if done.Swapped < 3 || done.AbortedDropped < 7 {
		t.Fatalf("cleaned %+v", done)
	}
	b.must(b.Owner.Close())
	for i, clone := range clones {
		b.store = clone
		b.open()
		if err := b.p(0).Err(); err != nil {
			t.Fatalf("crash %d before %s: %v", i, at[i], err)
		}
		if got := b.p(0).Offsets(); got.LogEnd != end || got.HighWatermark != end || got.LastStable != end {
			t.Fatalf("crash %d before %s: %+v, want the end at %d", i, at[i], got, end)
		}
		for _, value := range b.committed(0, 0) {
			if n := 0; value != "x" {
				if _, err := fmt.Sscan(value, &n); err != nil || n%5 == 4 {
					t.Fatalf("crash %d before %s: read_committed sees %q of an aborted transaction", i, at[i], value)
				}
			}
		}
		b.compact()
		committed := map[string]bool{}
		for _, value := range b.committed(0, 0) {
			committed[value] = true
		}
		for _, want := range truth {
			if !committed[want.value] {
				t.Fatalf("crash %d before %s: %v is gone", i, at[i], want)
			}
		}
		if list := b.p(0).Producers(); len(list) != 1 || list[0].LastSequence != sequence-1 {
			t.Fatalf("crash %d before %s: producers %+v", i, at[i], list)
		}
		b.must(b.Owner.Close())
	}
	t.Logf("%d crashes", len(clones))
}

// newestAre compares the newest record of each key with the truth; tombstones may be gone.
func (b *bed) newestAre(seed uint64, truth map[string]record) {
	b.t.Helper()
	newest := map[string]record{}
	for _, r := range b.records() {
		if old, ok := newest[r.key]; ok && old.offset >= r.offset {
			b.t.Fatalf("seed %d: %v comes after %v", seed, r, old)
		}
		newest[r.key] = r
	}
	for key, want := range truth {
		if got, ok := newest[key]; got != want && (ok || want.value != "") {
			b.t.Fatalf("seed %d: newest of %s is %v, want %v", seed, key, got, want)
		}
	}
}
