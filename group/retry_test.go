package group

import (
	"errors"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// takeDown starts the broker anew with a group's partition out of service.
func (b *broker) takeDown(t *testing.T, group string) {
	t.Helper()
	l := b.groupLog(group)
	l.mu.Lock()
	l.down = errors.New("no room")
	l.mu.Unlock()
	b.Close()
	b.start(t)
}

// bringBack puts another log with the same records in the place of a group's.
func (b *broker) bringBack(group string) {
	again := b.groupLog(group).crash()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.logs[kafka.PartitionFor(group, fakePartitions)] = again
}

// The groups on a partition that came back were out of service until the next start.
func TestGroupsComeBackWithTheirPartition(t *testing.T) {
	b := newBroker(t, "t")
	b.commit(t, "g", tp("t", 0), 5, nil)
	b.txnCommit(t, "g", 7, tp("t", 1), 40)
	m := b.member(t, "g2")
	for i := 0; kafka.PartitionFor(m.group, fakePartitions) != kafka.PartitionFor("g", fakePartitions); i++ {
		m = b.member(t, "h"+string(rune('a'+i)))
	}
	m.settle(t)
	b.takeDown(t, "g")
	refused := func(when string) {
		t.Helper()
		if code := b.commit(t, "g", tp("t", 0), 6, nil); code != kafka.CoordinatorNotAvailable {
			t.Errorf("commit %s: %v, want COORDINATOR_NOT_AVAILABLE", when, code)
		}
	}
	refused("while the partition is out of service")
	if err := b.Retry(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused("after a retry in vain")
	b.bringBack("g")
	refused("before the retry")
	if err := b.Retry(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantOffset(t, "g", tp("t", 0), 5)
	b.mark(t, "g", 7, batch.Commit)
	b.wantOffset(t, "g", tp("t", 1), 40)
	if code := b.commit(t, "g", tp("t", 0), 6, nil); code != kafka.None {
		t.Errorf("commit: %v", code)
	}
	if state := b.state(t, m.group); len(state.Members) != 1 {
		t.Errorf("group %q is %s with %d members", m.group, state.State, len(state.Members))
	}
	if err := b.Retry(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.restart(t)
	b.wantOffset(t, "g", tp("t", 0), 6)
	b.wantOffset(t, "g", tp("t", 1), 40)
}

// A transaction is not ended on a partition before it was read: the reading would miss that it is over.
func TestMarkersWaitForAPartitionThatWasNeverOpened(t *testing.T) {
	b := newBroker(t, "t")
	b.txnCommit(t, "g", 7, tp("t", 1), 40)
	b.takeDown(t, "g")
	n := kafka.PartitionFor("g", fakePartitions)
	b.shards[n].log = nil // as if it could not even be found
	b.bringBack("g")
	if err := b.WriteMarker(t.Context(), n, 7, 0, batch.Commit, 0); !errors.Is(err, kafka.CoordinatorNotAvailable) {
		t.Errorf("a marker before the partition was read: %v", err)
	}
	if err := b.Retry(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.mark(t, "g", 7, batch.Commit)
	b.wantOffset(t, "g", tp("t", 1), 40)
}

// One bit that a disk changed in a commit made the group one that never committed: it began anew, or skipped what it had not read.
func TestADamagedCommitIsNotTakenForNone(t *testing.T) {
	b := newBroker(t, "t")
	b.commit(t, "g", tp("t", 0), 5, nil)
	last := b.groupLog("g").batches[0]
	last[len(last)-3] ^= 4
	b.restart(t)
	if code := b.commit(t, "g", tp("t", 0), 6, nil); code != kafka.CoordinatorNotAvailable {
		t.Errorf("commit: %v, want COORDINATOR_NOT_AVAILABLE", code)
	}
}
