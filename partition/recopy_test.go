package partition

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store/storetest"
)

// copyID is the id under which tests copy.
var copyID = kafka.TopicID{15: 1}

// beginCopy makes the copy's entries, as a link does, and opens the one of partition 0.
func (b *bed) beginCopy(id kafka.TopicID) {
	b.t.Helper()
	b.stream.mu.Lock()
	if b.stream.topics[id] == nil {
		b.stream.topics[id] = &meta.Partitions{Topic: id, List: []meta.Partition{{Role: meta.RoleMirror}}}
	}
	entry := b.stream.topics[id].List[0]
	b.stream.mu.Unlock()
	b.must(b.OpenCopy(kafka.PartitionID{Topic: b.topic.ID}, id, entry))
}

func (b *bed) copyOf(id kafka.TopicID) *Partition {
	return b.Get(kafka.PartitionID{Topic: id})
}

// copyTo appends what the source has now.
func (b *bed) copyTo(id kafka.TopicID, batches ...batch.Batch) {
	b.t.Helper()
	c := b.copyOf(id)
	o := c.Offsets()
	b.must(c.AppendMirrored(b.t.Context(), Mirrored{Generation: o.Generation, FetchedAt: o.LogEnd, Batches: join(batches...)}))
	b.must(c.WaitSynced(b.t.Context(), c.Offsets().LogEnd))
}

func (b *bed) swap(id kafka.TopicID) error {
	return b.SwapCopy(b.t.Context(), kafka.PartitionID{Topic: b.topic.ID}, id)
}

// tombstoned is a log as it was mirrored, and as its source has it after a deletion was forgotten.
func tombstoned(t testing.TB) (was, is []batch.Batch) {
	for i := range 10 {
		b := made{base: kafka.Offset(10 * i), epoch: 3, values: []string{fmt.Sprint("value ", i)}}.build(t)
		was = append(was, b)
		if i != 4 {
			is = append(is, b)
		}
	}
	return was, is
}

func valuesOf(t testing.TB, batches []batch.Batch) (values []string) {
	t.Helper()
	for _, b := range batches {
		for r, err := range b.Records(1 << 20) {
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, string(r.Value))
		}
	}
	return values
}

// TestT3_CopyTakesTheMirrorsPlace wants readers to go on at their offsets, what they hold to stay readable, and all that the mirror is to stay as it is.
func TestT3_CopyTakesTheMirrorsPlace(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	was, is := tombstoned(t)
	b.mustMirror(0, was...)
	held, err := b.p(0).Read(Read{From: 40, MaxBytes: 1 << 20, AtLeastOne: true, CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
	b.must(err)
	defer held.Slice.Close()
	before := b.p(0).Offsets()

	b.beginCopy(copyID)
	b.copyTo(copyID, is[:8]...)
	if err := b.swapSoon(); !errors.Is(err, ErrCopyNotReady) {
		t.Fatalf("a copy that is shorter than the mirror: %v", err)
	}
	b.mustMirror(0, made{base: 100, epoch: 4}.build(t)) // it goes on after that
	is = append(is, made{base: 100, epoch: 4}.build(t))
	b.copyTo(copyID, is[8:]...)
	b.must(b.swap(copyID))
	b.must(b.swap(copyID)) // repeatable

	after := b.p(0).Offsets()
	if after.HighWatermark != 101 || after.LogStart != before.LogStart || after.Role != meta.RoleMirror || after.Generation <= before.Generation || after.Epoch != 4 {
		t.Errorf("it was %+v and is %+v", before, after)
	}
	wantValues := valuesOf(t, is)
	got, _ := b.readAll(0, 0, kafka.ReadUncommitted)
	if !slices.Equal(valuesOf(t, got), wantValues) {
		t.Errorf("it holds %q", valuesOf(t, got))
	}
	bytes, err := held.Slice.Bytes()
	b.must(err)
	if first, _, err := batch.Split(bytes); err != nil || first.BaseOffset() != 40 {
		t.Errorf("what a reader held is gone: %v", err)
	}
	b.mustMirror(0, made{base: 101, epoch: 4}.build(t))
	if ids, err := b.store.Partitions(); err != nil || !slices.Equal(ids, []kafka.PartitionID{{Topic: copyID}}) {
		t.Errorf("the store has %v (%v)", ids, err)
	}
	if e := b.p(0).Entry(); e.Home != copyID || e.Left != nil {
		t.Errorf("its entry is %+v", e)
	}
	b.reopen()
	if got := b.p(0).Offsets(); got.HighWatermark != 102 {
		t.Errorf("opened again it is %+v", got)
	}

	// A second copy, and the topic's end.
	second := kafka.TopicID{15: 2}
	b.beginCopy(second)
	b.copyTo(second, append(is[2:], made{base: 101, epoch: 4}.build(t))...)
	b.must(b.swap(second))
	b.must(b.DropCopy(t.Context(), b.topic.ID, second, 1)) // it took the place, so it stays
	if got, _ := b.readAll(0, b.p(0).Offsets().LogStart, kafka.ReadUncommitted); len(got) != len(is)-1 {
		t.Errorf("%d batches are left", len(got))
	}
	third := kafka.TopicID{15: 3}
	b.beginCopy(third)
	b.must(b.DropCopy(t.Context(), b.topic.ID, third, 1))
	b.must(b.Delete(b.topic.ID, 1))
	if ids, err := b.store.Partitions(); err != nil || len(ids) > 0 {
		t.Errorf("after the topic's end the store has %v (%v)", ids, err)
	}
}

// swapSoon is swap for what must not come about.
func (b *bed) swapSoon() error {
	ctx, cancel := context.WithTimeout(b.t.Context(), 50*time.Millisecond)
	defer cancel()
	return b.SwapCopy(ctx, kafka.PartitionID{Topic: b.topic.ID}, copyID)
}

// TestT3_CopyKeepsProducersAndTransactions wants a transaction that is open in the copy to be open in the mirror, and one that the source
// has compacted away to be forgotten.
func TestT3_CopyKeepsProducersAndTransactions(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	one := made{base: 0, id: foreignID(1), txn: true, values: []string{"gone", "gone too"}}.build(t)
	end := markerBatch(2, 0, foreignID(1), 0, batch.Abort, 1)
	open := made{base: 3, id: foreignID(2), txn: true, values: []string{"open"}}.build(t)
	b.mustMirror(0, one, end, open)
	b.beginCopy(copyID)
	b.copyTo(copyID, open)
	b.must(b.swap(copyID))
	check := func() {
		t.Helper()
		o := b.p(0).Offsets()
		if o.LastStable != 3 || o.HighWatermark != 4 {
			t.Errorf("it is %+v", o)
		}
		if list := b.p(0).Producers(); len(list) != 1 || list[0].ID != foreignID(2) || list[0].TxnStart != 3 {
			t.Errorf("producers are %+v", list)
		}
	}
	check()
	b.reopen()
	check()
}

// TestT3_CopyAndStopMeet has a mirror stopped while its copy takes its place: whichever comes first, it has one of the two logs, whole.
func TestT3_CopyAndStopMeet(t *testing.T) {
	for range 20 {
		b := newBed(t, meta.RoleMirror, 1)
		was, is := tombstoned(t)
		b.mustMirror(0, was...)
		b.beginCopy(copyID)
		b.copyTo(copyID, is...)
		var work sync.WaitGroup
		var swapped error
		work.Go(func() { swapped = b.swap(copyID) })
		work.Go(func() { b.must(b.StopMirrors(t.Context(), []kafka.TopicID{b.topic.ID}, "l")) })
		work.Wait()
		want := is
		if swapped != nil {
			want = was
			if !errors.Is(swapped, ErrStale) {
				t.Fatal(swapped)
			}
		}
		got, _ := b.readAll(0, 0, kafka.ReadUncommitted)
		if !slices.Equal(valuesOf(t, got), valuesOf(t, want)) {
			t.Errorf("swapped: %v; it holds %q", swapped, valuesOf(t, got))
		}
		if e := b.p(0).Entry(); e.Role != meta.RoleOpen || e.Stop.Offset != 91 {
			t.Errorf("its entry is %+v", e)
		}
		b.must(b.DropCopy(t.Context(), b.topic.ID, copyID, 1))
		b.must(b.Owner.Close())
	}
}

// TestT3_CrashWhileACopyTakesThePlace crashes before and after every step: what opens is the old log or the new one, never less than was
// shown, and the exchange can be done again.
func TestT3_CrashWhileACopyTakesThePlace(t *testing.T) {
	type moment struct {
		at     string
		mem    *storetest.Memory
		topics map[kafka.TopicID]*meta.Partitions
	}
	mem := storetest.NewMemory()
	b := newBedOver(t, meta.RoleMirror, 1, mem)
	was, is := tombstoned(t)
	b.mustMirror(0, was...)
	b.beginCopy(copyID)
	b.copyTo(copyID, is...)
	var moments []moment
	crash := func(at string) { // stream.mu is held
		topics := map[kafka.TopicID]*meta.Partitions{}
		for id, rec := range b.stream.topics {
			topics[id] = &meta.Partitions{Topic: id, List: slices.Clone(rec.List)}
		}
		for seed := range uint64(8) {
			moments = append(moments, moment{at, mem.Crash(seed), topics})
		}
	}
	mem.Hook(func(op storetest.Op) error {
		b.stream.mu.Lock()
		defer b.stream.mu.Unlock()
		crash(op.String())
		return nil
	})
	b.stream.before = func() { crash("before an entry is stored") }
	b.stream.written = func() { crash("after an entry was stored") }
	b.must(b.swap(copyID))
	mem.Hook(nil)
	b.stream.mu.Lock()
	b.stream.before, b.stream.written = nil, nil
	b.stream.mu.Unlock()
	before, after := 0, 0
	for _, m := range moments {
		again := &bed{t: t, stream: newStream(), store: m.mem, cfg: b.cfg, nowMs: b.nowMs, topic: b.topic, Config: b.Config}
		again.stream.topics = maps.Clone(m.topics)
		again.open()
		if err := again.p(0).Err(); err != nil {
			t.Fatalf("crash at %s: %v", m.at, err)
		}
		check := func(want []batch.Batch) {
			t.Helper()
			if o := again.p(0).Offsets(); o.HighWatermark != 91 || o.LogStart != 0 {
				t.Fatalf("crash at %s: it is %+v", m.at, o)
			}
			if got, _ := again.readAll(0, 0, kafka.ReadUncommitted); !slices.Equal(valuesOf(t, got), valuesOf(t, want)) {
				t.Fatalf("crash at %s: it holds %q", m.at, valuesOf(t, got))
			}
		}
		switch again.p(0).Entry().Home {
		case copyID:
			after++
			check(is)
		default:
			before++
			check(was)
			again.beginCopy(copyID)
			if end := again.copyOf(copyID).Offsets().LogEnd; end != 91 {
				t.Fatalf("crash at %s: the copy ends at %d", m.at, end)
			}
		}
		again.must(again.swap(copyID))
		check(is)
		again.must(again.DropCopy(t.Context(), b.topic.ID, copyID, 1))
		if ids, err := m.mem.Partitions(); err != nil || len(ids) != 1 || ids[0].Topic != copyID {
			t.Fatalf("crash at %s: the store has %v (%v), entry %+v, before %d after %d", m.at, ids, err, again.p(0).Entry(), before, after)
		}
		again.must(again.Owner.Close())
	}
	t.Logf("%d crashes, %d before and %d after the exchange", len(moments), before, after)
	if before == 0 || after == 0 {
		t.Error("the exchange was not crashed on both sides")
	}
}

// TestT3_ExchangeOfUnknownOutcome has the write of the exchange fail: surely, and with nobody knowing whether it was made.
func TestT3_ExchangeOfUnknownOutcome(t *testing.T) {
	for _, made := range []bool{false, true} {
		t.Run(fmt.Sprint("made ", made), func(t *testing.T) {
			b := newBed(t, meta.RoleMirror, 1)
			was, is := tombstoned(t)
			b.mustMirror(0, was...)
			b.beginCopy(copyID)
			b.copyTo(copyID, is...)
			b.stream.failAfter(made, errors.New("no answer"))
			if err := b.swap(copyID); err == nil {
				t.Fatal("it reports no error")
			}
			b.stream.failAfter(false, nil)
			deadline := time.After(10 * time.Second)
			for b.p(0).unsettled.Load() || b.p(0).Offsets().Role != meta.RoleMirror {
				select {
				case <-deadline:
					t.Fatal("the mirror stays shut")
				case <-time.After(time.Millisecond):
				}
			}
			want := was
			if made {
				want = is
			}
			if got, _ := b.readAll(0, 0, kafka.ReadUncommitted); !slices.Equal(valuesOf(t, got), valuesOf(t, want)) {
				t.Errorf("it holds %q", valuesOf(t, got))
			}
			b.mustMirror(0, lateBatch(t))
			if !made {
				b.beginCopy(copyID)
				b.copyTo(copyID, lateBatch(t))
			}
			b.must(b.swap(copyID))
		})
	}
}

func lateBatch(t testing.TB) batch.Batch { return made{base: 91, epoch: 3}.build(t) }

// TestT3_CopyOfAnotherHistoryIsNotExchanged has a source lose records in an unclean election, and its cleaner remove what it wrote in their
// place: the copy holds other records above, nothing at the mirror's offsets, and would take its place without a cut (rule E2).
func TestT3_CopyOfAnotherHistoryIsNotExchanged(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	below := made{base: 0, epoch: 1, values: []string{"both"}}.build(t)
	b.mustMirror(0, below, made{base: 1, epoch: 1, values: []string{"lost"}}.build(t))
	b.beginCopy(copyID)
	b.copyTo(copyID, below, made{base: 5, epoch: 4, values: []string{"another"}}.build(t))
	if err := b.swap(copyID); !errors.Is(err, ErrCopyNotReady) {
		t.Fatalf("the copy took the place: %v", err)
	}
	if got, _ := b.readAll(0, 0, kafka.ReadUncommitted); !slices.Equal(valuesOf(t, got), []string{"both", "lost"}) || b.p(0).Entry().Home == copyID {
		t.Errorf("it holds %q, its entry is %+v", valuesOf(t, got), b.p(0).Entry())
	}
	o := b.p(0).Offsets()
	if _, err := b.p(0).TruncateMirror(t.Context(), o.Generation, 1, "an unclean election"); err != nil {
		t.Fatal(err)
	}
	b.mustMirror(0, made{base: 5, epoch: 4, values: []string{"another"}}.build(t))
	b.must(b.swap(copyID))
	if got, _ := b.readAll(0, b.p(0).Offsets().LogStart, kafka.ReadUncommitted); !slices.Equal(valuesOf(t, got), []string{"both", "another"}) {
		t.Errorf("after the cut it holds %q", valuesOf(t, got))
	}
}
