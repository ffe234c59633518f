package partition

import (
	"slices"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

func TestEpochsOfASourceAreRefinedInAHole(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.mustMirror(0, made{base: 0, values: []string{"a", "b"}}.build(t), made{base: 20, epoch: 3}.build(t), made{base: 30, epoch: 3}.build(t))
	p := b.p(0)
	start := func(epoch kafka.LeaderEpoch, at kafka.Offset) kafka.EpochStart {
		return kafka.EpochStart{Epoch: epoch, Start: at}
	}
	for name, bad := range map[string][]kafka.EpochStart{
		"below the hole":      {start(3, 1)},
		"above it":            {start(3, 21)},
		"an unknown epoch":    {start(4, 15)},
		"falling":             {start(2, 15), start(3, 10)},
		"an epoch from below": {start(0, 10), start(3, 15)},
	} {
		if err := p.RefineEpochs(1, bad); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := p.RefineEpochs(7, []kafka.EpochStart{start(3, 15)}); err != ErrStale {
		t.Errorf("another generation: %v", err)
	}
	want := []kafka.EpochStart{start(0, 0), start(1, 2), start(3, 15)}
	b.must(p.RefineEpochs(1, want[1:]))
	check := func() {
		t.Helper()
		if got := b.p(0).Epochs(); !slices.Equal(got, want) {
			t.Fatalf("epochs %v, want %v", got, want)
		}
		await(t, b.p(0), "epoch 3 is published", func() bool { return b.p(0).Offsets().Epoch >= 3 })
		if epoch, end, err := b.p(0).OffsetForLeaderEpoch(kafka.NoEpoch, 0); epoch != 0 || end != 2 || err != nil {
			t.Errorf("epoch 0 ends at (%d, %d), %v", epoch, end, err)
		}
		if epoch, end, err := b.p(0).OffsetForLeaderEpoch(kafka.NoEpoch, 2); epoch != 1 || end != 15 || err != nil {
			t.Errorf("epoch 2 ends at (%d, %d), %v", epoch, end, err)
		}
	}
	check()
	b.reopen()
	check()
	b.mustMirror(0, made{base: 40, epoch: 4}.build(t))
	want = append(want, start(4, 40))
	check()
	b.must(errOf(b.p(0).TruncateMirror(t.Context(), b.p(0).Offsets().Generation, 19, "test")))
	if got := b.p(0).Epochs(); !slices.Equal(got, want[:1]) {
		t.Errorf("after a cut in the hole %v", got)
	}
}
