package partition

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store/storetest"
)

// world runs random operations on one partition over a store that can be crashed,
// and notes at many of its operations what a crash there would leave.
type world struct {
	*bed
	mem *storetest.Memory
	rng *rand.Rand
	ops int

	// What the log holds, and what the operation under way may add or take.
	content []batch.Batch
	pending []batch.Batch
	keep    kafka.Offset // a cut under way leaves what ends at or below it
	emptied bool         // a jump under way may empty the log

	// The source: epoch and producers' sequences.
	epoch     kafka.LeaderEpoch
	sequences [3]int32
	crashes   []crash
	doubtful  int
	survived  int
}

// crash is the world as a crash would leave it.
type crash struct {
	at      string
	mem     *storetest.Memory
	entry   meta.Partition
	shown   Offsets
	content []batch.Batch
	pending []batch.Batch
	keep    kafka.Offset
	emptied bool
}

const noCut = kafka.Offset(1 << 60)

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{mem: storetest.NewMemory(), rng: rand.New(rand.NewPCG(seed, 77)), keep: noCut}
	w.bed = newBedOver(t, meta.RoleMirror, 1, w.mem)
	w.mem.Hook(func(op storetest.Op) error {
		w.stream.mu.Lock() // no entry is stored while the crash is taken
		defer w.stream.mu.Unlock()
		w.crashMaybe(op.String())
		return nil
	})
	w.stream.before = func() { w.crashMaybe("before an entry is stored") }
	w.stream.written = func() { w.crashMaybe("after an entry was stored") }
	return w
}

func (w *world) crashMaybe(at string) {
	w.ops++
	if len(w.crashes) > 400 {
		return
	}
	shown := w.p(0).Offsets() // first: what is shown later need not survive
	w.crashes = append(w.crashes, crash{
		at:      at,
		shown:   shown,
		entry:   w.stream.topics[w.topic.ID].List[0],
		mem:     w.mem.Crash(uint64(w.ops)),
		content: slices.Clone(w.content), pending: slices.Clone(w.pending), keep: w.keep, emptied: w.emptied,
	})
}

// pend sets what the operation to come may do, under the lock that crashes are taken under.
func (w *world) pend(pending []batch.Batch, keep kafka.Offset, emptied bool) {
	w.stream.mu.Lock()
	defer w.stream.mu.Unlock()
	w.pending, w.keep, w.emptied = pending, keep, emptied
}

// settled says what the operation did.
func (w *world) settled(content []batch.Batch) {
	w.stream.mu.Lock()
	defer w.stream.mu.Unlock()
	w.content, w.pending, w.keep, w.emptied = content, nil, noCut, false
}

func (w *world) source(n int) []batch.Batch {
	offset := w.p(0).Offsets().LogEnd
	var list []batch.Batch
	for range n {
		k := w.rng.IntN(len(w.sequences))
		id := foreignID(int64(k))
		var b batch.Batch
		if w.rng.IntN(3) == 0 {
			b = markerBatch(offset, w.epoch, id, 0, batch.Marker(w.rng.IntN(2)), 1)
		} else {
			values := make([]string, 1+w.rng.IntN(3))
			values[0] = fmt.Sprint(w.rng.Uint64())
			b = made{base: offset, epoch: w.epoch, id: id, sequence: w.sequences[k], txn: true, values: values}.build(w.t)
			w.sequences[k] += int32(len(values))
		}
		offset = b.NextOffset() + kafka.Offset(w.rng.IntN(2))
		list = append(list, b)
	}
	return list
}

func (w *world) stepMirror() {
	p := w.p(0)
	o := p.Offsets()
	switch roll := w.rng.IntN(20); {
	case roll < 13:
		list := w.source(1 + w.rng.IntN(4))
		w.pend(list, noCut, false)
		w.must(w.mirror(0, list...))
		w.settled(append(w.content, list...))
	case roll < 15:
		w.synced(0)
	case roll < 16:
		w.must(p.FollowLogStart(w.t.Context(), o.Generation, o.LogStart+kafka.Offset(w.rng.IntN(5))))
	case roll < 18:
		cut := max(o.LogStart, o.LogEnd-kafka.Offset(w.rng.IntN(10)))
		w.pend(nil, w.boundary(cut), false)
		w.must(errOf(p.TruncateMirror(w.t.Context(), o.Generation, cut, "test")))
		end := p.Offsets().LogEnd
		w.settled(slices.DeleteFunc(slices.Clone(w.content), func(b batch.Batch) bool { return b.NextOffset() > end }))
		w.epoch++
	default:
		keep := w.rng.IntN(2) == 0
		w.pend(nil, noCut, !keep)
		_, err := p.JumpTo(w.t.Context(), o.Generation, o.LogEnd+kafka.Offset(w.rng.IntN(20)), keep)
		w.must(err)
		if start := p.Offsets().LogStart; start > o.LogStart && !keep {
			w.settled(nil)
		} else {
			w.settled(w.content)
		}
	}
}

// boundary is the end of the last batch that ends at or below the offset.
func (w *world) boundary(cut kafka.Offset) kafka.Offset {
	end := w.p(0).Offsets().LogStart
	for _, b := range w.content {
		if b.NextOffset() <= cut {
			end = max(end, b.NextOffset())
		}
	}
	return end
}

// reread takes what the log holds as the content: after operations that write what the test does not know beforehand.
func (w *world) reread() {
	o := w.p(0).Offsets()
	w.must(w.p(0).WaitSynced(w.t.Context(), o.LogEnd))
	got, _ := w.readAll(0, o.LogStart, kafka.ReadUncommitted)
	w.settled(got)
}

func (w *world) stepOpen(n int) {
	p := w.p(0)
	switch w.rng.IntN(4) {
	case 0:
		_, err := p.Append(w.t.Context(), batch.Batches(made{values: []string{fmt.Sprint(n)}}.build(w.t)), nil)
		w.must(err)
	case 1:
		w.produce(0, made{id: ownID(int64(n)), txn: true})
		_, err := p.AppendMarker(w.t.Context(), ownID(int64(n)), 0, batch.Abort, 0)
		w.must(err)
	case 2:
		w.produce(0, made{id: ownID(int64(n)), values: []string{fmt.Sprint(n)}})
	case 3:
		_, err := p.DeleteRecords(min(p.Offsets().HighWatermark, p.Offsets().LogStart+2))
		w.must(err)
	}
}

// run is a partition's life: mirror, stopped, open, frozen, mirror again.
func (w *world) run() {
	for range 25 {
		w.stepMirror()
	}
	w.must(w.stop())
	w.reread()
	for n := range 8 {
		w.stepOpen(n)
		w.reread()
	}
	ends, err := w.Freeze(w.t.Context(), w.topic.ID, "R")
	w.must(err)
	cut := max(w.p(0).Offsets().LogStart, ends[0]-kafka.Offset(w.rng.IntN(6)))
	w.pend(nil, w.boundary(cut), false)
	w.must(w.FrozenBecomeMirror(w.t.Context(), w.topic.ID, "R", "cluster-a", []kafka.Offset{cut}))
	end := w.p(0).Offsets().LogEnd
	w.settled(slices.DeleteFunc(slices.Clone(w.content), func(b batch.Batch) bool { return b.NextOffset() > end }))
	w.epoch = w.p(0).Offsets().Epoch + 1
	for range 6 {
		w.stepMirror()
	}
	w.must(w.p(0).Err())
}

// survive opens the partition after the crash, checks that nothing is lost and nothing wrong is
// there, and goes on with its life. depth is how often it crashes again while it opens.
func (w *world) survive(c crash, depth int) error {
	after := *w.bed
	after.store = c.mem
	after.stream = newStream()
	after.stream.topics[w.topic.ID] = &meta.Partitions{Topic: w.topic.ID, List: []meta.Partition{c.entry}}
	var again []crash
	if depth > 0 {
		c.mem.Hook(func(op storetest.Op) error {
			after.stream.mu.Lock()
			defer after.stream.mu.Unlock()
			if w.rng.IntN(4) == 0 && len(again) < 4 {
				next := c
				next.at = c.at + ", again at " + op.String()
				next.mem, next.entry = c.mem.Crash(w.rng.Uint64()), after.stream.topics[w.topic.ID].List[0]
				again = append(again, next)
			}
			return nil
		})
	}
	after.open()
	defer func() { _ = after.Owner.Close() }()
	p := after.p(0)
	if err := p.Err(); err != nil {
		// A hole in what was not synced, with whole batches behind it, cannot be told from decay (rule D6).
		if strings.Contains(err.Error(), commitlog.ErrCorrupt.Error()) {
			w.doubtful++
			return nil
		}
		return err
	}
	await(w.t, p, "orders are finished", func() bool {
		o := p.Offsets()
		return o.HighWatermark == o.LogEnd && !p.unsettled.Load()
	})
	if err := c.check(&after); err != nil {
		return err
	}
	c.mem.Hook(nil)
	for _, next := range again {
		if err := w.survive(next, depth-1); err != nil {
			return fmt.Errorf("at %q: %w", next.at, err)
		}
	}
	w.survived++
	return goOn(&after)
}

func (c crash) check(after *bed) error {
	o, entry := after.p(0).Offsets(), after.stream.get(after.topic.ID).List[0]
	if entry.Cutting != nil {
		return fmt.Errorf("a cut to %d is left undone", *entry.Cutting)
	}
	if o.Epoch < c.shown.Epoch || o.Generation < c.shown.Generation {
		return fmt.Errorf("epoch %d and generation %d, shown before were %d and %d", o.Epoch, o.Generation, c.shown.Epoch, c.shown.Generation)
	}
	floor := min(c.shown.HighWatermark, c.keep)
	if o.LogEnd < floor {
		return fmt.Errorf("log ends at %d, shown was %d", o.LogEnd, floor)
	}
	got, _ := after.readAll(0, o.LogStart, kafka.ReadUncommitted)
	known, knownEnd := map[kafka.Offset][]byte{}, kafka.Offset(0)
	for _, b := range append(slices.Clone(c.content), c.pending...) {
		known[b.BaseOffset()] = b
		knownEnd = b.NextOffset()
	}
	have := map[kafka.Offset]bool{}
	for _, b := range got {
		have[b.BaseOffset()] = true
		if b.LeaderEpoch() > entry.Epoch {
			return fmt.Errorf("batch at %d is shown with epoch %d, stored is %d", b.BaseOffset(), b.LeaderEpoch(), entry.Epoch)
		}
		if want, ok := known[b.BaseOffset()]; ok && slices.Equal(b, want) {
			continue
		}
		// Written by an operation that had begun: our own batches, and only if the role was stored.
		if entry.Role == meta.RoleMirror || b.BaseOffset() < knownEnd {
			return fmt.Errorf("a batch at %d that nobody wrote: producer %d, epoch %d, control %v", b.BaseOffset(), b.ProducerID(), b.LeaderEpoch(), b.IsControl())
		}
	}
	for _, b := range c.content {
		if b.NextOffset() <= floor && b.NextOffset() > o.LogStart && !have[b.BaseOffset()] {
			return fmt.Errorf("the batch at %d is gone; log start %d", b.BaseOffset(), o.LogStart)
		}
	}
	if o.LogStart > c.shown.LogStart && o.LogStart > c.shown.HighWatermark && !c.emptied {
		return fmt.Errorf("log start %d, shown high watermark %d", o.LogStart, c.shown.HighWatermark)
	}
	if entry.Role == meta.RoleOpen && entry.Stop != nil {
		for _, s := range after.p(0).Producers() {
			if s.TxnStart != kafka.NoOffset && s.TxnStart < entry.Stop.Offset {
				return fmt.Errorf("producer %d's transaction from %d is open after the stop at %d", s.ID, s.TxnStart, entry.Stop.Offset)
			}
		}
	}
	return nil
}

// goOn does what the partition is open for, and fails it over if it is a mirror.
func goOn(after *bed) error {
	p := after.p(0)
	if o := p.Offsets(); o.Role == meta.RoleMirror {
		epoch := max(p.log.LastEpoch(), 0)
		if err := after.mirror(0, made{base: o.LogEnd, epoch: epoch, id: foreignID(9), txn: true}.build(after.t)); err != nil {
			return fmt.Errorf("mirror on: %w", err)
		}
		if err := after.stop(); err != nil {
			return fmt.Errorf("fail over: %w", err)
		}
		if o := p.Offsets(); o.LastStable != o.LogEnd {
			return fmt.Errorf("after a failover transactions are open: %+v", o)
		}
	}
	if p.Offsets().Role != meta.RoleOpen {
		return nil
	}
	a, err := p.Append(after.t.Context(), batch.Batches(made{values: []string{"on"}}.build(after.t)), nil)
	if err != nil {
		return fmt.Errorf("append on: %w", err)
	}
	return errors.Join(p.WaitSynced(after.t.Context(), a.Next), p.Err())
}

// crashAll runs a life and crashes it at many moments; the first error says when.
func crashAll(t testing.TB, seed uint64) (crashes, doubtful int, err error) {
	w := newWorld(t, seed)
	w.run()
	w.mem.Hook(nil)
	for _, c := range w.crashes {
		if err := w.survive(c, 1); err != nil {
			return len(w.crashes), w.doubtful, fmt.Errorf("seed %d, crash at %q, entry %+v, shown %+v: %w", seed, c.at, c.entry, c.shown, err)
		}
	}
	return w.survived, w.doubtful, nil
}

func TestCrashAtEveryBoundary(t *testing.T) {
	crashes, doubtful := 0, 0
	for seed := range uint64(40) {
		n, d, err := crashAll(t, seed)
		crashes, doubtful = crashes+n, doubtful+d
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d crashes, %d of them left a log in doubt", crashes, doubtful)
	if doubtful*20 > crashes {
		t.Errorf("%d of %d crashes left a log in doubt", doubtful, crashes)
	}
}
