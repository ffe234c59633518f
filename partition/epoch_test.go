package partition

import (
	"math"
	"slices"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

func TestJumpEpochLeavesRoomForOthers(t *testing.T) {
	for _, last := range []kafka.LeaderEpoch{-1, 0, 1, 12, 4095, 4096, 5000, epochMax} {
		for _, random := range []uint32{0, 1, 4095, math.MaxUint32} {
			next := jumpEpoch(last, random)
			if next <= last {
				t.Errorf("jumpEpoch(%d, %d) = %d does not rise", last, random, next)
			}
			if next>>12 != max(last, 0)>>12+1 {
				t.Errorf("jumpEpoch(%d, %d) = %d is not in the next block of 4096", last, random, next)
			}
		}
	}
	if jumpEpoch(12, 0xabc) != 1<<12|0xabc {
		t.Errorf("jumpEpoch(12, 0xabc) = %d", jumpEpoch(12, 0xabc))
	}
}

func TestC81_OffsetForLeaderEpoch(t *testing.T) {
	v := epochView{published: 9, inLog: []kafka.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 3, Start: 10}, {Epoch: 7, Start: 20}}, logEnd: 30}
	table := []struct {
		wanted, epoch kafka.LeaderEpoch
		end           kafka.Offset
	}{
		{-1, -1, -1}, {0, 0, 10}, {1, 0, 10}, {2, 0, 10}, {3, 3, 20}, {4, 3, 20}, {5, 3, 20}, {6, 3, 20},
		{7, 7, 30}, {8, 7, 30}, {9, 7, 30}, {10, -1, -1},
	}
	for _, row := range table {
		if epoch, end := v.end(row.wanted); epoch != row.epoch || end != row.end {
			t.Errorf("end(%d) = %d, %d; want %d, %d", row.wanted, epoch, end, row.epoch, row.end)
		}
	}
	v.inLog = v.inLog[1:]
	if epoch, end := v.end(2); epoch != 2 || end != 10 {
		t.Errorf("below the first epoch: %d, %d, want it to end where the first begins", epoch, end)
	}
}

// Rule E1's schedule: the dead epoch 20 is asked for after a restore brought epochs that lie on both sides of it.
func TestDeadEpochsAnswerTheCut(t *testing.T) {
	v := epochView{
		published: 1 << 20,
		inLog:     []kafka.EpochStart{{Epoch: 12, Start: 0}, {Epoch: 13, Start: 100}, {Epoch: 4096, Start: 200}},
		cuts: []meta.Cut{
			{Offset: 100, Last: 12, Dead: []kafka.LeaderEpoch{13, 14, 20}},
			{Offset: 150, Last: 13, Dead: []kafka.LeaderEpoch{20, 21}},
		},
		logEnd: 300,
	}
	for _, dead := range []kafka.LeaderEpoch{13, 14, 20} {
		if epoch, end := v.end(dead); epoch != 12 || end != 100 {
			t.Errorf("end(%d) = %d, %d; want the cut 12, 100", dead, epoch, end)
		}
	}
	if epoch, end := v.end(21); epoch != 13 || end != 150 {
		t.Errorf("end(21) = %d, %d; want 13, 150", epoch, end)
	}
	if epoch, end := v.end(12); epoch != 12 || end != 100 {
		t.Errorf("end(12) = %d, %d; want 12, 100", epoch, end)
	}
}

func TestEmptyLogNeverAnswersUndefined(t *testing.T) {
	v := epochView{published: 5, logEnd: 700}
	if epoch, end := v.end(4); epoch != 4 || end != 700 {
		t.Errorf("end(4) = %d, %d", epoch, end)
	}
	if _, end := v.end(6); end != kafka.NoOffset {
		t.Errorf("an epoch that was never published has an end: %d", end)
	}
}

func TestCutsAreBounded(t *testing.T) {
	var cuts []meta.Cut
	for i := range 200 {
		cuts = addCut(cuts, meta.Cut{Offset: kafka.Offset(i), AtMs: int64(i)})
	}
	if len(cuts) != cutsMax || cuts[len(cuts)-1].Offset != 199 {
		t.Fatalf("%d cuts, last %v", len(cuts), cuts[len(cuts)-1])
	}
	if cuts = addCut(cuts, meta.Cut{AtMs: cutAgeMs + 190}); len(cuts) != 11 {
		t.Errorf("%d cuts are left after those older than their time went, want 10 and the new one", len(cuts))
	}
	if dead := deadEpochs([]kafka.EpochStart{{Epoch: 1, Start: 0}, {Epoch: 2, Start: 10}, {Epoch: 5, Start: 20}}, 10); !slices.Equal(dead, []kafka.LeaderEpoch{2, 5}) {
		t.Errorf("dead epochs %v", dead)
	}
}
