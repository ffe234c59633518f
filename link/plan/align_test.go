package plan

import (
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

func orphaned(f *Histories) {
	f.Doubt, f.Open, f.SourceEnd, f.SourceStable = DoubtOpen, true, f.MirrorEnd, f.MirrorEnd
}

func TestAlign(t *testing.T) {
	// A mirror that ends at 100 in epoch 3, and a source that has the same and more.
	fit := Histories{Known: true, MirrorEnd: 100, MirrorEpoch: 3, SourceEnd: 120, SourceEpoch: 4, Shared: 100}
	for _, c := range []struct {
		name   string
		change func(*Histories)
		course Course
		to     kafka.Offset
		fault  Fault
		twice  bool
	}{
		{"fits", func(*Histories) {}, GoOn, 0, NoFault, false},
		{"C03: source starts after the mirror's end", func(f *Histories) { f.SourceStart = 101 }, Jump, 101, NoFault, false},
		{"source starts after its own end", func(f *Histories) { f.SourceStart = 121 }, LookAgain, 0, NoFault, false},
		{"source starts at the mirror's end", func(f *Histories) { f.SourceStart = 100 }, GoOn, 0, NoFault, false},
		{"D5: source starts at the mirror's end, a transaction is open", func(f *Histories) { f.SourceStart, f.Open = 100, true }, Jump, 100, NoFault, false},
		{"D5: no transaction is open at the source", func(f *Histories) { orphaned(f) }, Jump, 100, NoFault, false},
		{"D5: nor in the mirror", func(f *Histories) { orphaned(f); f.Open = false }, GoOn, 0, NoFault, false},
		{"D5: the source has more, which may end it", func(f *Histories) { orphaned(f); f.SourceEnd = 101 }, GoOn, 0, NoFault, false},
		{"D5: another transaction is open there", func(f *Histories) { orphaned(f); f.SourceStable = 99 }, GoOn, 0, NoFault, false},
		{"D5: the source has another history", func(f *Histories) { orphaned(f); f.Shared = 90 }, Truncate, 90, NoFault, false},
		{"a transaction is open", func(f *Histories) { f.SourceStart, f.Open = 99, true }, GoOn, 0, NoFault, false},
		{"E1: a dead epoch that came again", func(f *Histories) { f.Forgotten, f.Shared, f.CutUnder, f.CutTo = true, 0, 4, 0 }, GoOn, 0, NoFault, false},
		{"cut under an earlier leader", func(f *Histories) { f.Shared, f.CutUnder, f.CutTo = 90, 3, 90 }, Truncate, 90, NoFault, false},
		{"parted below the last cut", func(f *Histories) { f.Shared, f.CutUnder, f.CutTo = 80, 4, 90 }, Truncate, 80, NoFault, false},
		{"other bytes since the last cut", func(f *Histories) { f.Doubt, f.Shared, f.CutUnder, f.CutTo = DoubtContent, 90, 4, 90 }, Truncate, 90, NoFault, false},
		{"C05: lost tail", func(f *Histories) { f.Shared = 90 }, Truncate, 90, NoFault, false},
		{"C05: nothing shared but the start", func(f *Histories) { f.Shared, f.MirrorStart = 10, 40 }, Truncate, 40, NoFault, false},
		{"E6: shorter in the same epoch", func(f *Histories) { f.Shared, f.SourceEpoch = 90, 3 }, Blame, 0, Truncated, true},
		{"epoch went back", func(f *Histories) { f.SourceEpoch = 2 }, Blame, 0, EpochWentBack, true},
		{"source without epochs", func(f *Histories) { f.SourceEpoch = -1 }, GoOn, 0, NoFault, false},
		{"E6: other bytes, same history", func(f *Histories) { f.Doubt = DoubtContent }, Blame, 0, Truncated, false},
		{"E6: other bytes, no ids", func(f *Histories) { f.Doubt, f.Known = DoubtContent, false }, Blame, 0, TopicIDChanged, false},
		{"other bytes, lost tail", func(f *Histories) { f.Doubt, f.Shared = DoubtContent, 90 }, Truncate, 90, NoFault, false},
		{"compacted", func(f *Histories) { f.Doubt = DoubtRewritten }, GoOn, 0, NoFault, false},
		{"new leader's high watermark is behind", func(f *Histories) { f.SourceEnd = 80 }, LookAgain, 0, NoFault, false},
		{"epoch forgotten, nothing behind the end", func(f *Histories) { f.Forgotten, f.SourceStart, f.Shared = true, 100, 100 }, GoOn, 0, NoFault, false},
		{"epoch forgotten, other history", func(f *Histories) { f.Forgotten, f.SourceStart, f.Shared = true, 60, 60 }, Truncate, 60, NoFault, false},
		{"empty mirror", func(f *Histories) { f.Empty = true }, GoOn, 0, NoFault, false},
		{"empty mirror beyond the source", func(f *Histories) { f.Empty, f.SourceEnd = true, 50 }, Blame, 0, Truncated, true},
	} {
		f := fit
		c.change(&f)
		v := Align(f)
		if v.Course != c.course || v.To != c.to || v.Fault != c.fault || v.Twice != c.twice {
			t.Errorf("%s: %+v", c.name, v)
		}
		if v.Keep != (v.Course == Jump && f.Doubt == DoubtOpen) {
			t.Errorf("%s: keeps what it has: %v", c.name, v.Keep)
		}
		if (v.Course == Blame || v.Course == Truncate) && v.Why == nil {
			t.Errorf("%s: no reason", c.name)
		}
	}
}

func build(t testing.TB, spec batch.Spec, values ...string) batch.Batch {
	t.Helper()
	records := make([]batch.Record, len(values))
	for i, v := range values {
		records[i] = batch.Record{Offset: spec.BaseOffset + kafka.Offset(i), Value: []byte(v)}
	}
	b, err := batch.Build(spec, records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestE6_CompareLastBatch(t *testing.T) {
	spec := batch.Spec{BaseOffset: 10, LeaderEpoch: 2, LastDelta: 4, ProducerID: 7}
	own := build(t, spec, "a", "b", "c", "d", "e")
	other := spec
	other.ProducerID = 8
	later, earlier := spec, spec
	later.BaseOffset, earlier.BaseOffset = 15, 9
	for _, c := range []struct {
		name   string
		source batch.Batch
		want   Likeness
	}{
		{"same", own, SameBatch},
		{"fewer records", build(t, spec, "a", "b"), CompactedBatch},
		{"no records", build(t, spec), CompactedBatch},
		{"gone", build(t, later, "x"), CompactedBatch},
		{"other values", build(t, spec, "a", "b", "c", "d", "E"), OtherBatch},
		{"other producer", build(t, other, "a"), OtherBatch},
		{"begins earlier", build(t, earlier, "a", "b", "c", "d", "e", "f"), OtherBatch},
	} {
		if got := Compare(own[:batch.HeaderSize], c.source); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
