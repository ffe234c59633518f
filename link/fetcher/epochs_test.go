package fetcher_test

import (
	"slices"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/hawserio/hawser/partition"
)

// TestEpochsThatBeginInAHoleAreTakenOver has a source that compacted the first records of epochs away, and all of some.
func TestEpochsThatBeginInAHoleAreTakenOver(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	source := b.stub.Partition(zero)
	source.Append(stubtest.Build(0, 0, 10, "a"), stubtest.Build(28, 3, 1, "b"), stubtest.Build(29, 5, 1, "c"), stubtest.Build(40, 6, 1, "d"))
	want := []kafka.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 1, Start: 15}, {Epoch: 3, Start: 20}, {Epoch: 5, Start: 29}, {Epoch: 6, Start: 40}}
	source.Began(want...)
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 41)
	b.same(target, zero)
	b.refined(target, want)
}

// TestHistoriesThatDoNotFitAreNotTakenOver has a source whose answers contradict what the mirror holds.
func TestHistoriesThatDoNotFitAreNotTakenOver(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	source := b.stub.Partition(zero)
	source.Append(stubtest.Build(0, 0, 10, "a"), stubtest.Build(28, 3, 1, "b"), stubtest.Build(40, 4, 1, "c"))
	source.Began(kafka.EpochStart{Epoch: 0, Start: 0}, kafka.EpochStart{Epoch: 3, Start: 5}, kafka.EpochStart{Epoch: 4, Start: 30})
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 41)
	b.refined(target, []kafka.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 3, Start: 28}, {Epoch: 4, Start: 30}})
}

// refined waits until the mirror's epochs are these.
func (b *bench) refined(target *stubtest.Target, want []kafka.EpochStart) {
	b.Helper()
	if !target.Await(b.ctx, func(partition.Offsets) bool { return slices.Equal(target.Epochs(), want) }) {
		b.Fatalf("the mirror's epochs are %v, want %v", target.Epochs(), want)
	}
}
