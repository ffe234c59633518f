package partition

import (
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

func TestProducerSequences(t *testing.T) {
	one := ownID(1)
	type step struct {
		epoch     int16
		sequence  int32
		records   int
		want      kafka.ErrorCode
		duplicate bool
	}
	table := []struct {
		name  string
		steps []step
	}{
		{"in order", []step{{0, 0, 2, 0, false}, {0, 2, 1, 0, false}, {0, 3, 5, 0, false}}},
		{"unknown producer may begin anywhere", []step{{3, 17, 1, 0, false}, {3, 18, 1, 0, false}}},
		{"gap", []step{{0, 0, 1, 0, false}, {0, 2, 1, kafka.OutOfOrderSequenceNumber, false}, {0, 1, 1, 0, false}}},
		{"repeated", []step{{0, 0, 2, 0, false}, {0, 2, 2, 0, false}, {0, 0, 2, 0, true}, {0, 2, 2, 0, true}}},
		{"sixth from the end is no repetition any more", []step{
			{0, 0, 1, 0, false}, {0, 1, 1, 0, false}, {0, 2, 1, 0, false}, {0, 3, 1, 0, false}, {0, 4, 1, 0, false}, {0, 5, 1, 0, false},
			{0, 0, 1, kafka.OutOfOrderSequenceNumber, false}, {0, 1, 1, 0, true}}},
		{"same start, other length", []step{{0, 0, 2, 0, false}, {0, 0, 1, kafka.OutOfOrderSequenceNumber, false}}},
		{"old epoch", []step{{4, 0, 1, 0, false}, {3, 1, 1, kafka.InvalidProducerEpoch, false}}},
		{"new epoch begins at 0", []step{{4, 0, 1, 0, false}, {5, 1, 1, kafka.OutOfOrderSequenceNumber, false}, {5, 0, 1, 0, false}, {5, 1, 1, 0, false}}},
		{"wrap between batches", []step{{0, math.MaxInt32, 1, 0, false}, {0, 0, 1, 0, false}, {0, math.MaxInt32, 1, 0, true}}},
		{"wrap inside a batch", []step{{0, math.MaxInt32 - 1, 4, 0, false}, {0, 2, 1, 0, false}, {0, math.MaxInt32 - 1, 4, 0, true}}},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			state, offset := newProducers(), kafka.Offset(100)
			for i, s := range row.steps {
				b := made{base: offset, id: one, idEpoch: s.epoch, sequence: s.sequence, values: make([]string, s.records)}.build(t)
				repeated, err := state.check(b)
				if kafka.CodeOf(err) != s.want {
					t.Fatalf("step %d: %v, want %v", i, err, s.want)
				}
				if (repeated != nil) != s.duplicate {
					t.Fatalf("step %d: repeated is %v", i, repeated)
				}
				if err == nil && repeated == nil {
					state.apply(b, 0)
					offset = b.NextOffset()
				}
			}
		})
	}
}

// Rule P1: kept state of another cluster's producers recognises repetitions, and does not refuse.
func TestForeignSequencesAfterAStop(t *testing.T) {
	foreign := foreignID(7)
	state := newProducers()
	state.apply(made{id: foreign, sequence: 0, values: make([]string, 6)}.build(t), 0)
	state.apply(made{id: ownID(8), base: 6, sequence: 0, values: make([]string, 6)}.build(t), 0)
	ten := made{base: 12, id: foreign, sequence: 10}.build(t)
	if _, err := state.check(ten); kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
		t.Fatalf("before the stop: %v", err)
	}
	state.stopMirroring(12, ownPrefix)
	if repeated, err := state.check(made{base: 12, id: foreign, sequence: 0, values: make([]string, 6)}.build(t)); repeated == nil || err != nil {
		t.Fatalf("a repetition is %v, %v", repeated, err)
	}
	if _, err := state.check(ten); err != nil {
		t.Fatalf("after the stop: %v", err)
	}
	state.apply(ten, 0)
	if _, err := state.check(made{base: 13, id: foreign, sequence: 12}.build(t)); kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
		t.Fatalf("once it has sent a batch here it is checked: %v", err)
	}
	if _, err := state.check(made{base: 13, id: ownID(8), sequence: 10}.build(t)); kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
		t.Fatalf("an own producer id stays checked: %v", err)
	}
}

func TestPlainBatchInsideATransaction(t *testing.T) {
	state := newProducers()
	state.apply(made{id: ownID(1), sequence: 0, txn: true}.build(t), 0)
	_, err := state.check(made{base: 1, id: ownID(1), sequence: 1}.build(t))
	wantCode(t, err, kafka.InvalidTxnState)
}

func TestMarkersWithoutTransactionAndEmptyBatchesAreLegal(t *testing.T) {
	state := newProducers()
	if _, ok := state.apply(markerBatch(5, 0, 9, 0, batch.Commit, 1), 0); ok {
		t.Error("a marker without a transaction ended one")
	}
	empty, err := batch.Build(batch.Spec{BaseOffset: 6, ProducerID: 9, BaseSequence: 3, Transactional: true, LastDelta: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	state.apply(empty, 0)
	if len(state.open) != 0 {
		t.Error("a batch that compaction emptied opened a transaction")
	}
	if got := state.byID[9].lastSequence(); got != 7 {
		t.Errorf("last sequence %d, want 7", got)
	}
}

func TestProducersAreBounded(t *testing.T) {
	state := newProducers()
	open := made{id: 1, txn: true}.build(t)
	state.apply(open, 0)
	b := made{id: 2}.build(t)
	for n := range int64(producersMax + 1000) {
		b[50], b[49], b[48] = byte(n), byte(n>>8), byte(n>>16) // the low bytes of the producer id
		state.apply(b, n)
	}
	if len(state.byID) > producersMax {
		t.Errorf("%d producers are known", len(state.byID))
	}
	if state.byID[1] == nil || state.firstOpen() != 0 {
		t.Error("a producer with an open transaction was forgotten")
	}
}

// randomLog is a log as several transactional producers write it, with holes.
func randomLog(t testing.TB, rng *rand.Rand, batches int) []batch.Batch {
	var list []batch.Batch
	type state struct {
		seq  int32
		open bool
	}
	states := make([]state, 5)
	offset, epoch := kafka.Offset(0), kafka.LeaderEpoch(0)
	for range batches {
		n := rng.IntN(len(states))
		s := &states[n]
		if rng.IntN(20) == 0 {
			epoch += kafka.LeaderEpoch(rng.IntN(3))
		}
		if rng.IntN(10) == 0 {
			offset += kafka.Offset(rng.IntN(5))
		}
		var b batch.Batch
		switch roll := rng.IntN(10); {
		case roll < 2:
			b = made{base: offset, epoch: epoch, values: []string{"plain"}}.build(t)
		case roll < 5 && s.open:
			b = markerBatch(offset, epoch, foreignID(int64(n)), 0, batch.Marker(rng.IntN(2)), int32(rng.IntN(4)))
			s.open = false
		default:
			values := make([]string, 1+rng.IntN(3))
			b = made{base: offset, epoch: epoch, id: foreignID(int64(n)), sequence: s.seq, txn: true, values: values}.build(t)
			s.seq += int32(len(values))
			s.open = true
		}
		offset = b.NextOffset()
		list = append(list, b)
	}
	return list
}

func TestC07_AbortedIndexAgainstAllTransactions(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := newDerived(0)
		type txn struct {
			id          kafka.ProducerID
			first, last kafka.Offset
		}
		var all []txn
		open := map[kafka.ProducerID]kafka.Offset{}
		for _, b := range randomLog(t, rng, 200) {
			d.take(b, 0)
			m, _, ok := b.Marker()
			switch first, isOpen := open[b.ProducerID()]; {
			case ok && isOpen:
				if m == batch.Abort {
					all = append(all, txn{b.ProducerID(), first, b.BaseOffset()})
				}
				delete(open, b.ProducerID())
			case !ok && b.IsTransactional() && !isOpen:
				open[b.ProducerID()] = b.BaseOffset()
			}
		}
		for range 100 {
			from := kafka.Offset(rng.Int64N(int64(d.end) + 1))
			upTo := from + kafka.Offset(rng.Int64N(int64(d.end-from)+1))
			want := []Aborted{}
			for _, x := range all {
				if x.last >= from && x.first < upTo {
					want = append(want, Aborted{x.id, x.first})
				}
			}
			slices.SortFunc(want, func(a, b Aborted) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
			if got := d.aborted.between(from, upTo); !slices.Equal(got, want) {
				t.Fatalf("seed %d: between %d and %d: %v, want %v", seed, from, upTo, got, want)
			}
		}
	}
}

func TestSnapshotIsWhatReplayMakes(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		log := randomLog(t, rng, 300)
		d := newDerived(0)
		cut := rng.IntN(len(log))
		for _, b := range log[:cut] {
			d.take(b, 5)
		}
		again, err := decodeDerived(d.encode())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range log[cut:] {
			d.take(b, 5)
			again.take(b, 5)
		}
		if !reflect.DeepEqual(d.byID, again.byID) || !slices.Equal(d.open, again.open) || !slices.Equal(d.aborted, again.aborted) {
			t.Fatalf("seed %d: the state differs after a snapshot", seed)
		}
		if !slices.Equal(lastMarks(d), lastMarks(again)) || d.end != again.end {
			t.Fatalf("seed %d: the last batches differ after a snapshot", seed)
		}
	}
}

func lastMarks(d *derived) []meta.BatchMark {
	marks, _ := d.marks(recentMax, d.recentFrom)
	return marks
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	d := newDerived(0)
	for _, b := range randomLog(t, rand.New(rand.NewPCG(1, 3)), 50) {
		d.take(b, 0)
	}
	content := d.encode()
	for i := range content {
		bad := slices.Clone(content)
		bad[i] ^= 1
		if _, err := decodeDerived(bad); err == nil {
			t.Fatalf("a flipped bit in byte %d was not seen", i)
		}
		if _, err := decodeDerived(content[:i]); err == nil {
			t.Fatalf("a snapshot of %d bytes was taken", i)
		}
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add(newDerived(0).encode())
	f.Fuzz(func(t *testing.T, content []byte) { _, _ = decodeDerived(content) })
}
