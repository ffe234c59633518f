package plan

import (
	"testing"

	"github.com/hawserio/hawser/kafka"
)

func minted(cluster string, pairs ...int64) []Minted {
	var list []Minted
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, Minted{kafka.Offset(pairs[i]), kafka.LeaderEpoch(pairs[i+1]), cluster})
	}
	return list
}

// batchesTo marks batches of ten records each in [from, to); salt tells histories apart.
func batchesTo(from, to kafka.Offset, epoch kafka.LeaderEpoch, salt uint32) []BatchMark {
	var list []BatchMark
	for base := from; base < to; base += 10 {
		list = append(list, BatchMark{base, base + 10, epoch, uint32(base) + salt})
	}
	return list
}

func TestLineageOfBothSidesEndsWhereTheyPart(t *testing.T) {
	plain := func(start, end kafka.Offset, epochs []Minted) LogFacts {
		return LogFacts{Start: start, End: end, Stop: kafka.NoOffset, Epochs: epochs}
	}
	mirrored := plain(0, 300, append(minted("", 0, 3), minted("B", 100, 8195)...))
	mirrored.Stop = 100
	for _, row := range []struct {
		name       string
		mine, peer LogFacts
		want       kafka.Offset
	}{
		{"the mirror was failed over at 100 and both went on", plain(0, 150, minted("A", 0, 3)), mirrored, 100},
		{"T4: the same number minted by two clusters is not the same", plain(0, 150, minted("A", 0, 3, 60, 4)), plain(0, 200, append(minted("", 0, 3), minted("B", 60, 4)...)), 60},
		{"T4: an unclean election at the first of a chain cuts below the stop point", plain(0, 500, minted("A", 0, 3, 450, 4)), plain(0, 500, minted("", 0, 3)), 450},
		{"nothing was written after the stop", plain(0, 100, minted("A", 0, 3)), mirrored, 100},
		{"both followed each other in turn: an old stop point does not bind", withStop(plain(0, 250, append(minted("A", 0, 3), append(minted("", 100, 8195), minted("A", 200, 20000)...)...)), 200), mirrored, 200},
		{"nothing in common", plain(150, 180, minted("A", 150, 3)), plain(0, 120, minted("B", 0, 3)), kafka.NoOffset},
		{"one is empty", plain(0, 0, nil), mirrored, 0},
	} {
		if got := Common(row.mine, row.peer); got != row.want {
			t.Errorf("%s: common to %d, want %d", row.name, got, row.want)
		}
	}
}

func withStop(f LogFacts, stop kafka.Offset) LogFacts {
	f.Stop = stop
	return f
}

func TestLineageResolvesWhoMinted(t *testing.T) {
	epochs := []kafka.EpochStart{{Epoch: 3, Start: 0}, {Epoch: 8195, Start: 100}, {Epoch: 20000, Start: 200}}
	entries := []Minted{{0, 0, "A"}, {100, kafka.NoEpoch, "B"}, {200, 20000, "A"}}
	got := Lineage(epochs, entries, "", "B")
	for i, want := range []string{"A", "", "A"} {
		if got[i].Cluster != want {
			t.Errorf("epoch %d was minted by %q, want %q", got[i].Epoch, got[i].Cluster, want)
		}
	}
	if got := Lineage(epochs, entries, "", "C")[1].Cluster; got != "B" {
		t.Errorf("beside another peer it was minted by %q, want B", got)
	}
	if got := Lineage(epochs[:1], nil, "Z", "B")[0].Cluster; got != "Z" {
		t.Errorf("without entries it was minted by %q, want the first, Z", got)
	}
}

// Rules T2, T3, T4 and T5 in one table. The mirror stopped at 100 in every row; mine went on to 150.
func TestT2_T3_T4_T5_CutOrFullCopy(t *testing.T) {
	mine := LogFacts{End: 150, Stop: kafka.NoOffset, Epochs: minted("A", 0, 3), Marks: batchesTo(0, 100, 3, 7)}
	peer := LogFacts{End: 300, Stop: 100, Epochs: append(minted("", 0, 3), minted("B", 100, 8195)...), Marks: batchesTo(0, 100, 3, 7)}
	for _, row := range []struct {
		name   string
		change func(mine, peer *LogFacts)
		common kafka.Offset
		unseen bool
		to     kafka.Offset
		tail   kafka.Offset
	}{
		{"histories part at 100", func(*LogFacts, *LogFacts) {}, 100, false, 100, 100},
		{"T4: the cut is rounded down to a boundary", func(*LogFacts, *LogFacts) {}, 97, false, 90, 90},
		{"T2: the cleaner used the tail", func(m, _ *LogFacts) { m.CleanedTo = 121 }, 100, false, kafka.NoOffset, 100},
		{"T2: the cleaner stayed below the cut", func(m, _ *LogFacts) { m.CleanedTo, m.Marks = 90, batchesTo(90, 100, 3, 7) }, 100, false, 100, 100},
		{"T3: deletions may be missing", func(*LogFacts, *LogFacts) {}, 100, true, kafka.NoOffset, 100},
		{"T5: a batch differs", func(_, p *LogFacts) { p.Marks = batchesTo(0, 100, 3, 8) }, 100, false, kafka.NoOffset, 0},
		{"T5: a batch is missing", func(_, p *LogFacts) { p.Marks = append(p.Marks[:5:5], p.Marks[6:]...) }, 100, false, kafka.NoOffset, 0},
		{"T5: nothing left to compare", func(_, p *LogFacts) { p.Marks = nil; p.CleanedTo = 300 }, 100, false, kafka.NoOffset, 0},
		{"T5: mine begins above the cut", func(m, _ *LogFacts) { m.Start, m.Marks = 120, nil }, 100, false, kafka.NoOffset, 120},
		{"T5: the peer begins at the cut", func(_, p *LogFacts) { p.Start, p.Marks = 100, nil }, 100, false, kafka.NoOffset, 100},
		{"T5: the peer begins above the stop point", func(_, p *LogFacts) { p.Start, p.Marks = 120, nil }, 100, false, kafka.NoOffset, 100},
		{"the peer begins below the cut", func(_, p *LogFacts) { p.Start, p.Marks = 50, batchesTo(50, 100, 3, 7) }, 100, false, 100, 100},
		{"nothing to compare, nothing to prove", func(m, p *LogFacts) { m.Marks, p.Marks = nil, nil }, 0, false, 0, 0},
		{"no lineage", func(*LogFacts, *LogFacts) {}, kafka.NoOffset, false, kafka.NoOffset, 0},
	} {
		m, p := mine, peer
		row.change(&m, &p)
		got := FindCut(m, p, row.common, row.unseen)
		if got.To != row.to || got.Tail != row.tail || got.Full() != (got.Why != "") {
			t.Errorf("%s: %+v, want to %d, tail from %d", row.name, got, row.to, row.tail)
		}
	}
}

// TestT8_PartitionAddedOnBothSides has a partition that neither side copied from the other: a group has read nothing of the peer's.
func TestT8_PartitionAddedOnBothSides(t *testing.T) {
	mine := LogFacts{Start: 9, End: 14, Stop: kafka.NoOffset, Epochs: []Minted{{0, 0, "A"}}}
	peer := LogFacts{Start: 0, End: 1, Stop: kafka.NoOffset, Epochs: []Minted{{0, 0, "B"}}}
	if cut := FindCut(mine, peer, Common(mine, peer), false); !cut.Full() || cut.Groups != 0 {
		t.Errorf("%+v", cut)
	}
}
