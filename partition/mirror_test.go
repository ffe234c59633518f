package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store/storetest"
)

func TestMirrorKeepsBytes(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	log := randomLog(t, rand.New(rand.NewPCG(4, 4)), 300)
	for _, part := range slices.Collect(slices.Chunk(log, 7)) {
		b.must(b.mirror(0, part...))
	}
	b.synced(0)
	got, _ := b.readAll(0, 0, kafka.ReadUncommitted)
	if !slices.Equal(join(got...), join(log...)) {
		t.Fatal("the bytes differ")
	}
	last, err := b.p(0).LastBatch()
	if err != nil || !slices.Equal(last, log[len(log)-1][:batch.HeaderSize]) {
		t.Errorf("last batch %v, %v", last, err)
	}
}

// C01: the position is what the header says, not the last record's.
func TestC01_HoleAtTheEndOfABatch(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	holed, err := batch.Build(batch.Spec{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, LastDelta: 9}, []batch.Record{{Offset: 2}, {Offset: 6}})
	b.must(err)
	b.mustMirror(0, holed)
	wantOffsets(t, b.p(0), 0, 10, 10, 10)
	empty, err := batch.Build(batch.Spec{BaseOffset: 15, ProducerID: 5, LastDelta: 4}, nil)
	b.must(err)
	b.mustMirror(0, empty)
	wantOffsets(t, b.p(0), 0, 20, 20, 20)
	b.reopen()
	wantOffsets(t, b.p(0), 0, 20, 20, 20)
}

func TestC15_OverlapsAndRepetitions(t *testing.T) {
	five := func(base kafka.Offset) batch.Batch {
		return made{base: base, epoch: 3, values: make([]string, 5)}.build(t)
	}
	b := newBed(t, meta.RoleMirror, 1)
	b.mustMirror(0, five(0), five(5))
	for name, row := range map[string]struct {
		batches batch.Batches
		want    error
	}{
		"overlap at the end":    {join(made{base: 5, epoch: 3, values: make([]string, 10)}.build(t)), ErrOverlap},
		"overlap among them":    {join(five(10), five(12)), ErrOverlap},
		"going back among them": {join(five(15), five(10)), ErrOverlap},
		"epoch below the log's": {join(made{base: 10, epoch: 2}.build(t)), ErrEpochBack},
		"epoch falls":           {join(made{base: 10, epoch: 5}.build(t), made{base: 11, epoch: 4}.build(t)), ErrEpochBack},
		"epoch too large":       {join(made{base: 10, epoch: epochMax + 1}.build(t)), kafka.InvalidRecord},
		"largest offset":        {join(five(10), made{base: math.MaxInt64, epoch: 3}.build(t)), kafka.InvalidRecord},
		"cut short":             {join(five(10))[:70], batch.ErrShort},
		"old format":            {func() batch.Batches { c := five(10); c[16] = 1; return batch.Batches(c) }(), batch.ErrMagic(1)},
	} {
		o := b.p(0).Offsets()
		err := b.p(0).AppendMirrored(t.Context(), Mirrored{Generation: o.Generation, FetchedAt: o.LogEnd, Batches: row.batches})
		if !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", name, err, row.want)
		}
		wantOffsets(t, b.p(0), 0, 10, 10, 10)
	}
	// What is there already is dropped; what follows is taken.
	b.mustMirror(0, five(0), five(5))
	wantOffsets(t, b.p(0), 0, 10, 10, 10)
	b.mustMirror(0, five(5), five(10))
	wantOffsets(t, b.p(0), 0, 15, 15, 15)
	b.syncerIdle()
}

func TestC16_CorruptBatch(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	good, bad := made{}.build(t), made{base: 1}.build(t)
	bad[len(bad)-1] ^= 1
	if err := b.mirror(0, good, bad); !errors.Is(err, batch.ErrCRC) {
		t.Fatalf("%v", err)
	}
	wantOffsets(t, b.p(0), 0, 0, 0, 0)
}

// checkStale is rule D3: what was fetched for another generation or position is not stored.
func checkStale(b *bed) error {
	if err := b.mirror(0, made{}.build(b.t)); err != nil {
		return err
	}
	p := b.p(0)
	next := batch.Batches(made{base: 1}.build(b.t))
	for name, m := range map[string]Mirrored{
		"generation before":  {Generation: 0, FetchedAt: 1, Batches: next},
		"generation to come": {Generation: 2, FetchedAt: 1, Batches: next},
		"position behind":    {Generation: 1, FetchedAt: 0, Batches: next},
		"position ahead":     {Generation: 1, FetchedAt: 2, Batches: batch.Batches(made{base: 2}.build(b.t))},
		"nothing, behind":    {Generation: 1, FetchedAt: 0, Batches: nil},
	} {
		if err := p.AppendMirrored(b.t.Context(), m); !errors.Is(err, ErrStale) {
			return fmt.Errorf("%s: %v", name, err)
		}
	}
	return p.AppendMirrored(b.t.Context(), Mirrored{Generation: 1, FetchedAt: 1, Batches: nil})
}

func TestStaleAppendsAreRefused(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.must(checkStale(b))
	open := newBed(t, meta.RoleOpen, 1)
	if err := open.mirror(0, made{}.build(t)); !errors.Is(err, ErrStale) {
		t.Errorf("on an open partition: %v", err)
	}
	b.syncerIdle()
}

// checkEpochGate is rule E4's schedule: a batch of a higher epoch arrives while the stream is down.
func checkEpochGate(b *bed) error {
	p := b.p(0)
	b.stream.setFail(errDown)
	if err := b.mirror(0, made{base: 0, epoch: 0}.build(b.t), made{base: 1, epoch: 13}.build(b.t), made{base: 2, epoch: 14}.build(b.t)); err != nil {
		return err
	}
	await(b.t, p, "the first batch is shown", func() bool { return p.Offsets().HighWatermark >= 1 })
	p.syncOnce()
	b.Owner.reconcile([]*Partition{p})
	if o := p.Offsets(); o.HighWatermark != 1 || o.LogEnd != 3 || o.Epoch != 0 {
		return errors.New("a batch was shown before its epoch was stored")
	}
	b.stream.setFail(nil)
	await(b.t, p, "all is shown", func() bool { return p.Offsets().HighWatermark == 3 })
	if o, stored := p.Offsets(), b.stream.get(b.topic.ID).List[0]; o.Epoch != 14 || stored.Epoch != 14 || stored.Generation != 1 {
		return errors.New("the epoch was not stored")
	}
	return nil
}

func TestEpochIsStoredBeforeItIsShown(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.must(checkEpochGate(b))
}

func TestEpochIsRaisedAfterARestart(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.stream.setFail(errDown)
	b.must(b.mirror(0, made{epoch: 7}.build(t)))
	b.p(0).syncOnce()
	b.must(b.Owner.Close())
	b.open()
	wantOffsets(t, b.p(0), 0, 0, 0, 1)
	b.stream.setFail(nil)
	p := b.p(0)
	await(t, p, "the batch is shown", func() bool { return p.Offsets().HighWatermark == 1 })
}

// TestD5_TransactionsOfALostBranchEnd: the source lost the branch with their markers and has removed all that is below the mirror's
// end, so the mirror ends them where it stands; without any open it stands already.
func TestD5_TransactionsOfALostBranchEnd(t *testing.T) {
	for _, keep := range []bool{false, true} {
		b := newBed(t, meta.RoleMirror, 1)
		b.mustMirror(0, made{base: 0, values: make([]string, 3)}.build(t), made{base: 3, id: foreignID(1), txn: true, values: make([]string, 2)}.build(t))
		wantOffsets(t, b.p(0), 0, 3, 5, 5)
		start := kafka.Offset(5)
		if keep {
			start = 0
		}
		for generation := range int64(2) {
			lost, err := b.p(0).JumpTo(t.Context(), 1+generation, 5, keep)
			if lost != 0 || err != nil {
				t.Fatalf("lost %d, %v", lost, err)
			}
			wantOffsets(t, b.p(0), start, 5, 5, 5)
			if o := b.p(0).Offsets(); o.Generation != 2 {
				t.Errorf("generation %d after a jump to where the mirror is, want 2", o.Generation)
			}
			b.reopen()
			wantOffsets(t, b.p(0), start, 5, 5, 5)
		}
		b.mustMirror(0, made{base: 5, values: make([]string, 2)}.build(t))
		want := map[bool]int{false: 2, true: 5}[keep] // the two of the transaction are aborted, or gone
		if got := len(b.committed(0, start)); got != want {
			t.Errorf("keep %v: %d committed records, want %d", keep, got, want)
		}
	}
}

// TestD5_TransactionsOfRemovedRecordsAreForgotten: a source that read its log again after it removed a transaction's records never
// writes its marker, so the mirror that follows its start must not wait for it.
func TestD5_TransactionsOfRemovedRecordsAreForgotten(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	gone, stays := foreignID(1), foreignID(2)
	b.mustMirror(0, made{base: 0, id: gone, txn: true, values: make([]string, 2)}.build(t), made{base: 2, id: stays, txn: true, values: make([]string, 2)}.build(t),
		made{base: 4, values: make([]string, 4)}.build(t))
	wantOffsets(t, b.p(0), 0, 0, 8, 8)
	b.must(b.p(0).FollowLogStart(t.Context(), 1, 3))
	wantOffsets(t, b.p(0), 3, 3, 8, 8) // the second one still has a record
	b.reopen()
	wantOffsets(t, b.p(0), 3, 3, 8, 8)
	b.must(b.p(0).FollowLogStart(t.Context(), 1, 5))
	wantOffsets(t, b.p(0), 5, 8, 8, 8)
	b.reopen()
	wantOffsets(t, b.p(0), 5, 8, 8, 8)
	b.mustMirror(0, made{base: 8, id: gone, sequence: 2, txn: true, values: make([]string, 1)}.build(t))
	wantOffsets(t, b.p(0), 5, 8, 9, 9) // it went on
	b.mustMirror(0, markerBatch(9, 0, gone, 0, batch.Abort, 1))
	wantOffsets(t, b.p(0), 5, 10, 10, 10)
	if got := len(b.committed(0, 5)); got != 3 {
		t.Errorf("%d committed records, want 3", got)
	}
}

// Rules D4 and D5, case C03.
func TestC03_JumpOverWhatTheSourceRemoved(t *testing.T) {
	for _, keep := range []bool{false, true} {
		b := newBed(t, meta.RoleMirror, 1)
		x := foreignID(1)
		b.mustMirror(0, made{base: 0, values: make([]string, 390)}.build(t), made{base: 390, id: x, txn: true, values: make([]string, 10)}.build(t))
		wantOffsets(t, b.p(0), 0, 390, 400, 400)
		p := b.p(0)
		if _, err := p.JumpTo(t.Context(), 7, 700, keep); !errors.Is(err, ErrStale) {
			t.Fatalf("another generation: %v", err)
		}
		_, err := p.JumpTo(t.Context(), 1, 300, keep)
		wantCode(t, err, kafka.InvalidRequest)
		lost, err := p.JumpTo(t.Context(), 1, 700, keep)
		if lost != 300 || err != nil {
			t.Fatalf("lost %d, %v", lost, err)
		}
		for range 2 {
			p = b.p(0)
			start := kafka.Offset(700)
			if keep {
				start = 0
			}
			wantOffsets(t, p, start, 700, 700, 700)
			if o := p.Offsets(); o.Generation != 2 {
				t.Errorf("generation %d", o.Generation)
			}
			// With the hole as the last thing in the log its last epoch goes on to the hole's end: else the source seems to have lost it.
			if epoch, end := p.EpochEnd(0); keep && (epoch != 0 || end != 700) {
				t.Errorf("epoch 0 is said to end at %d (%d), want 700", end, epoch)
			}
			a, err := p.Read(Read{From: 700, MaxBytes: 100, CurrentEpoch: -1, LastEpoch: -1})
			if err != nil || a.Slice.Length != 0 {
				t.Errorf("at the end: %+v, %v", a, err)
			}
			b.reopen()
		}
		p = b.p(0)
		// The source's first batch begins inside the hole.
		b.mustMirror(0, made{base: 695, id: x, sequence: 310, txn: true, values: make([]string, 10)}.build(t), markerBatch(705, 0, x, 0, batch.Commit, 1))
		wantOffsets(t, p, p.Offsets().LogStart, 706, 706, 706)
		if got := len(b.committed(0, 700)); got != 5 {
			t.Errorf("keep %v: %d committed records from 700, want 5", keep, got)
		}
		if !keep {
			_, err := p.Read(Read{From: 650, MaxBytes: 100, CurrentEpoch: -1, LastEpoch: -1})
			wantCode(t, err, kafka.OffsetOutOfRange)
			continue
		}
		if got := len(b.committed(0, 0)); got != 390+10 {
			t.Errorf("%d committed records, want the 390 plain ones and the 10 behind the hole", got)
		}
		a, err := p.Read(Read{From: 550, MaxBytes: 1000, Isolation: kafka.ReadCommitted, CurrentEpoch: -1, LastEpoch: -1})
		b.must(err)
		bytes, err := a.Slice.Bytes()
		a.Slice.Close()
		if err != nil || len(bytes) == 0 || len(a.Aborted) != 0 {
			t.Errorf("in the hole: %d bytes, aborted %v, %v", len(bytes), a.Aborted, err)
		}
		// The state is the same when it is rebuilt from nothing.
		for _, name := range b.snapshotNames(0) {
			b.must(p.log.Dir().Remove(name))
		}
		b.reopen()
		wantOffsets(t, b.p(0), 0, 706, 706, 706)
		if got := len(b.committed(0, 0)); got != 390+10 {
			t.Errorf("rebuilt: %d committed records", got)
		}
	}
}

func (b *bed) snapshotNames(n int32) (names []string) {
	ends, err := b.p(n).snapshots()
	b.must(err)
	for _, end := range ends {
		names = append(names, snapshotName(end))
	}
	return names
}

func TestC02_LogStartFollowsTheSource(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	for base := range kafka.Offset(10) {
		b.must(b.mirror(0, made{base: base}.build(t)))
	}
	b.synced(0)
	p := b.p(0)
	b.must(p.FollowLogStart(t.Context(), 1, 4))
	wantOffsets(t, p, 4, 10, 10, 10)
	b.must(p.FollowLogStart(t.Context(), 1, 3))
	wantOffsets(t, p, 4, 10, 10, 10)
	if err := p.FollowLogStart(t.Context(), 2, 5); !errors.Is(err, ErrStale) {
		t.Errorf("%v", err)
	}
	// The source's start lies between what is shown and the end, or beyond (rule D4).
	p.syncing.Lock()
	b.must(b.mirror(0, made{base: 10}.build(t)))
	p.syncing.Unlock()
	b.must(p.FollowLogStart(t.Context(), 1, 4000))
	if o := p.Offsets(); o.LogStart > o.HighWatermark || o.LogStart < 10 {
		t.Errorf("%+v", o)
	}
	b.must(p.Err())
}

// As rule D5: the log start passes a transaction's records, whose end may never come here.
func TestD5_LogStartPassesAnOpenTransaction(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	x, y := foreignID(1), foreignID(2)
	b.mustMirror(0, made{base: 0, id: x, txn: true}.build(t), made{base: 1, id: y, txn: true}.build(t),
		made{base: 2, id: y, txn: true, sequence: 1}.build(t), made{base: 3}.build(t))
	p := b.p(0)
	wantOffsets(t, p, 0, 0, 4, 4)
	b.must(p.FollowLogStart(t.Context(), 1, 1))
	wantOffsets(t, p, 1, 1, 4, 4)
	b.must(p.FollowLogStart(t.Context(), 1, 2))
	wantOffsets(t, p, 2, 2, 4, 4) // y has a record left
	b.reopen()
	p = b.p(0)
	wantOffsets(t, p, 2, 2, 4, 4)
	b.must(p.FollowLogStart(t.Context(), 1, 3))
	for range 2 {
		wantOffsets(t, b.p(0), 3, 4, 4, 4)
		b.reopen()
	}
	b.mustMirror(0, markerBatch(4, 0, y, 0, batch.Commit, 1), made{base: 5, id: x, txn: true, sequence: 1}.build(t))
	wantOffsets(t, b.p(0), 3, 5, 6, 6)
}

// A snapshot of the producers' state may be older than the log start: what lay between has ended its transactions and used up its sequences.
func TestD9_ASnapshotFromBelowTheLogStartIsNotUsed(t *testing.T) {
	mem := storetest.NewMemory()
	b := newBedOver(t, meta.RoleOpen, 1, mem)
	x, y := ownID(1), ownID(2)
	b.produce(0, made{id: x, txn: true})
	b.produce(0, made{id: y})
	p := b.p(0)
	p.mu.Lock()
	end, content := p.derived.end, p.derived.encode()
	p.mu.Unlock()
	b.must(p.saveSnapshot(end, content))
	b.must(errOf(p.AppendMarker(t.Context(), x, 0, batch.Commit, 1)))
	b.produce(0, made{id: y, sequence: 1})
	b.produce(0, made{id: y, sequence: 2})
	b.must(errOf(p.DeleteRecords(5)))
	crashed := mem.Crash(1)
	b.must(b.Owner.Close())
	b.store = crashed
	b.open()
	wantOffsets(t, b.p(0), 5, 5, 5, 5)
	b.produce(0, made{id: y, sequence: 3})
	wantOffsets(t, b.p(0), 5, 6, 6, 6)
}

// The log start may lie in a batch, whose producer and transaction count from there on.
func TestD9_ATransactionThatBeginsBelowTheLogStartIsKnownAfterARestart(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	p := b.p(0)
	_, err := p.JumpTo(t.Context(), p.Offsets().Generation, 3, false)
	b.must(err)
	x := foreignID(1)
	b.mustMirror(0, made{base: 2, id: x, txn: true, values: make([]string, 2)}.build(t))
	for range 2 {
		wantOffsets(t, b.p(0), 3, 3, 4, 4)
		b.reopen()
	}
	b.must(b.StopMirrors(t.Context(), []kafka.TopicID{b.topic.ID}, "test"))
	wantOffsets(t, b.p(0), 3, 5, 5, 5) // with the marker that ends it
}

// mirrorToCut brings a mirror to 150, in epochs 12 and 13, with a transaction open from 125.
func (b *bed) mirrorToCut() {
	b.t.Helper()
	t := b.t
	for base := range kafka.Offset(10) {
		b.must(b.mirror(0, made{base: base * 10, epoch: 12, values: make([]string, 10)}.build(t)))
	}
	b.must(b.mirror(0, made{base: 100, epoch: 12, values: make([]string, 25)}.build(t), made{base: 125, epoch: 13, id: foreignID(1), txn: true, values: make([]string, 25)}.build(t)))
	b.synced(0)
	wantOffsets(t, b.p(0), 0, 125, 150, 150)
}

// checkCut is rule E2: whoever read what was cut off is told so.
func checkCut(b *bed) error {
	b.mirrorToCut()
	published := b.p(0).Offsets().Epoch
	// 107 lies inside a batch: the cut is at its start.
	if _, err := b.p(0).TruncateMirror(b.t.Context(), 1, 107, "the source diverged"); err != nil {
		return err
	}
	return checkWasCut(b, published)
}

func checkWasCut(b *bed, published kafka.LeaderEpoch) error {
	p := b.p(0)
	o, entry := p.Offsets(), p.Entry()
	if o.LastStable != 100 || o.HighWatermark != 100 || o.LogEnd != 100 {
		return fmt.Errorf("offsets %+v", o)
	}
	if o.Epoch != published+1 || o.Generation != 2 || entry.Truncations != 1 || entry.Cutting != nil {
		return fmt.Errorf("offsets %+v, entry %+v; published before was %d", o, entry, published)
	}
	if len(entry.Cuts) != 1 || entry.Cuts[0].Offset != 100 || entry.Cuts[0].Last != 12 || !slices.Equal(entry.Cuts[0].Dead, []kafka.LeaderEpoch{13}) {
		return fmt.Errorf("cuts %+v", entry.Cuts)
	}
	if _, err := p.Read(Read{From: 100, MaxBytes: 100, CurrentEpoch: published, LastEpoch: -1}); kafka.CodeOf(err) != kafka.FencedLeaderEpoch {
		return fmt.Errorf("a reader with the old epoch: %v", err)
	}
	a, err := p.Read(Read{From: 150, MaxBytes: 100, CurrentEpoch: -1, LastEpoch: 13})
	if err != nil || !a.Diverging || a.DivergingEpoch != 12 || a.DivergingEnd != 100 {
		return fmt.Errorf("a reader of the dead history: %+v, %w", a, err)
	}
	if epoch, end, err := p.OffsetForLeaderEpoch(-1, 13); epoch != 12 || end != 100 || err != nil {
		return fmt.Errorf("OffsetForLeaderEpoch of a dead epoch: %d, %d, %w", epoch, end, err)
	}
	return nil
}

// Rules E2 and T9.
func TestC05_TruncateToTheSourcesHistory(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.must(checkCut(b))
	published := b.p(0).Offsets().Epoch
	b.reopen()
	b.must(checkWasCut(b, published-1))
	b.mustMirror(0, made{base: 100, epoch: 13, values: make([]string, 80)}.build(t))
	wantOffsets(t, b.p(0), 0, 180, 180, 180)
	if got := b.p(0).Offsets().Epoch; got != published {
		t.Errorf("published %d", got)
	}
}

func TestReadersKeepTheirBytesUnderACut(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.mirrorToCut()
	p := b.p(0)
	held, err := p.Read(Read{From: 100, MaxBytes: 1 << 20, CurrentEpoch: -1, LastEpoch: -1})
	b.must(err)
	defer held.Slice.Close()
	before, err := held.Slice.Bytes()
	b.must(err)
	if _, err := p.TruncateMirror(t.Context(), 9, 100, "test"); !errors.Is(err, ErrStale) {
		t.Fatalf("another generation: %v", err)
	}
	b.must(errOf(p.TruncateMirror(t.Context(), 1, 100, "test")))
	b.mustMirror(0, made{base: 100, epoch: 14, values: make([]string, 50)}.build(t))
	if after, err := held.Slice.Bytes(); err != nil || !slices.Equal(before, after) {
		t.Errorf("a reader's bytes changed under the cut: %v", err)
	}
}

func TestTruncateBelowTheLogStartEmpties(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	for base := range kafka.Offset(10) {
		b.must(b.mirror(0, made{base: base}.build(t)))
	}
	b.synced(0)
	b.must(b.p(0).FollowLogStart(t.Context(), 1, 8))
	b.must(errOf(b.p(0).TruncateMirror(t.Context(), 1, 5, "test")))
	wantOffsets(t, b.p(0), 5, 5, 5, 5)
	b.must(errOf(b.p(0).TruncateMirror(t.Context(), 2, 5, "again")))
	if got := b.p(0).Offsets().Generation; got != 2 {
		t.Errorf("a cut of nothing raised the generation to %d", got)
	}
}

// What group offsets are lowered to is where the cut falls, not where it was asked for.
func TestC05_ACutInABatchSaysWhatIsKept(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.mustMirror(0, made{base: 0}.build(t), made{base: 1, values: make([]string, 3)}.build(t))
	kept, err := b.p(0).TruncateMirror(t.Context(), 1, 3, "test")
	b.must(err)
	if kept != 1 {
		t.Errorf("up to %d is said to be kept, want 1", kept)
	}
	wantOffsets(t, b.p(0), 0, 1, 1, 1)
	if kept, err = b.p(0).TruncateMirror(t.Context(), 2, 3, "again"); kept != 1 || err != nil {
		t.Errorf("the second time %d: %v", kept, err)
	}
}

// An order whose store fails leaves the partition shut until its outcome is known.
func TestOrderWithUnknownOutcomeIsFinished(t *testing.T) {
	for _, stored := range []bool{false, true} {
		b := newBed(t, meta.RoleMirror, 1)
		b.mustMirror(0, made{values: make([]string, 10)}.build(t), made{base: 10, values: make([]string, 10)}.build(t))
		p := b.p(0)
		lose := &losingStream{memStream: b.stream, store: stored}
		b.Owner.storer.stream = lose
		if _, err := p.TruncateMirror(t.Context(), 1, 10, "test"); !errors.Is(err, errDown) {
			t.Fatalf("%v", err)
		}
		await(t, p, "the order is finished", func() bool { return p.Offsets().Role == meta.RoleMirror })
		if stored {
			wantOffsets(t, p, 0, 10, 10, 10)
			if o := p.Offsets(); o.Generation != 2 || p.Entry().Cutting != nil {
				t.Errorf("%+v", o)
			}
		} else {
			wantOffsets(t, p, 0, 20, 20, 20)
		}
		b.must(b.mirror(0, made{base: p.Offsets().LogEnd}.build(t)))
	}
}

// losingStream loses the answer of the first write, which it makes or not.
type losingStream struct {
	*memStream
	store bool
	lost  bool
}

func (s *losingStream) UpdatePartitions(ctx context.Context, topics []kafka.TopicID, decide func(*meta.Partitions) (*meta.Partitions, error)) error {
	if s.lost {
		return s.memStream.UpdatePartitions(ctx, topics, decide)
	}
	s.lost = true
	if s.store {
		if err := s.memStream.UpdatePartitions(ctx, topics, decide); err != nil {
			return err
		}
	}
	return errDown
}

func TestBecomeMirrorStartsWhereItIsTold(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	for range 2 {
		b.must(b.p(0).BecomeMirror(t.Context(), 500))
		wantOffsets(t, b.p(0), 500, 500, 500, 500)
	}
	if o := b.p(0).Offsets(); o.Role != meta.RoleMirror || o.Generation != 2 {
		t.Errorf("%+v", o)
	}
	b.reopen()
	wantOffsets(t, b.p(0), 500, 500, 500, 500)
	b.mustMirror(0, made{base: 495, values: make([]string, 10)}.build(t))
	wantOffsets(t, b.p(0), 500, 505, 505, 505)
	wantCode(t, b.p(0).BecomeMirror(t.Context(), 600), kafka.InvalidRequest)
}

func TestC07_ReadCommittedAsAtTheSource(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	log := randomLog(t, rng, 400)
	// Values that tell records apart.
	b := newBed(t, meta.RoleMirror, 1)
	for _, part := range slices.Collect(slices.Chunk(log, 13)) {
		b.must(b.mirror(0, part...))
	}
	b.synced(0)
	want := func(from kafka.Offset) int {
		stable := b.p(0).Offsets().LastStable
		aborted := map[kafka.Offset]bool{} // by base offset
		pending := map[kafka.ProducerID][]batch.Batch{}
		n := 0
		for _, one := range log {
			if m, _, ok := one.Marker(); ok {
				for _, x := range pending[one.ProducerID()] {
					aborted[x.BaseOffset()] = m == batch.Abort
				}
				delete(pending, one.ProducerID())
			} else if one.IsTransactional() {
				pending[one.ProducerID()] = append(pending[one.ProducerID()], one)
			}
		}
		for _, one := range log {
			if one.IsControl() || aborted[one.BaseOffset()] || one.BaseOffset() >= stable {
				continue
			}
			n += int(max(0, one.NextOffset()-max(one.BaseOffset(), from)))
		}
		return n
	}
	for range 2 {
		for from := kafka.Offset(0); from < b.p(0).Offsets().LastStable; from += 7 {
			if got := len(b.committed(0, from)); got != want(from) {
				t.Fatalf("from %d: %d records, want %d", from, got, want(from))
			}
		}
		b.reopen()
	}
}

func FuzzCheckMirrored(f *testing.F) {
	f.Add([]byte(join(made{}.build(f), made{base: 1, id: 7, txn: true}.build(f), markerBatch(2, 0, 7, 0, batch.Abort, 1))), int64(1))
	f.Add([]byte(made{codec: batch.CodecLZ4}.build(f)), int64(0))
	f.Fuzz(func(t *testing.T, content []byte, end int64) {
		for b, err := range batch.Batches(content).All() {
			if err == nil {
				b.SetCRC() // so that what lies behind the CRC is reached
			}
		}
		r, err := checkMirrored(content, kafka.Offset(end))
		if err != nil {
			return
		}
		d, next := newDerived(0), kafka.Offset(0)
		for b, err := range r.bytes.All() {
			if err != nil || b.BaseOffset() < next || b.NextOffset() <= kafka.Offset(end) {
				t.Fatalf("accepted batch [%d..%d] after %d, end %d: %v", b.BaseOffset(), b.LastOffset(), next, end, err)
			}
			next = b.NextOffset()
			d.take(b, 0)
		}
		if again, err := decodeDerived(d.encode()); err != nil || again.end != d.end {
			t.Fatalf("its state does not survive a snapshot: %v", err)
		}
	})
}
