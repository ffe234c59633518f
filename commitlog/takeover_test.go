package commitlog_test

import (
	"testing"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store"
	"github.com/hawserio/hawser/store/storetest"
)

// TestTakeOver has a log become another one of the same offsets, which lives elsewhere, while it is read.
func TestTakeOver(t *testing.T) {
	st := storetest.NewMemory()
	dir := func(n int32) store.Dir {
		d, err := st.Dir(kafka.PartitionID{Topic: partitionID.Topic, Partition: n})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one, two := &fixture{T: t, dir: dir(1)}, &fixture{T: t, dir: dir(2)}
	one.open(small)
	two.open(small)
	for i := range kafka.Offset(60) {
		b := build(t, 10*i, 1, 1, now.UnixMilli(), 100)
		one.ok(one.log.Append(batch.Batches(b), now))
		if i%3 != 1 {
			two.ok(two.log.Append(batch.Batches(b), now))
		}
	}
	for _, f := range []*fixture{one, two} {
		if _, err := f.log.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	held, err := one.log.Read(10, 20, 1<<20, true)
	one.ok(err)
	defer held.Close()
	var seen []kafka.Offset
	err = one.log.Scan(0, true, func(b batch.Batch) error {
		if seen = append(seen, b.BaseOffset()); len(seen) == 2 {
			return one.log.TakeOver(two.log)
		}
		return nil
	})
	one.ok(err)
	for i, at := range seen[1:] {
		if at <= seen[i] {
			t.Errorf("the scan came to %d after %d", at, seen[i])
		}
	}
	if seen[1] != 10 || seen[len(seen)-1] != 590 || len(seen) >= 60 || len(seen) < 40 {
		t.Errorf("the scan saw %v", seen)
	}
	if bytes, err := held.Bytes(); err != nil || batch.Batch(bytes).BaseOffset() != 10 {
		t.Errorf("what was held is %v, %v", bytes, err)
	}
	// It is written where the other one was.
	one.ok(one.log.Append(batch.Batches(build(t, 600, 1, 2, now.UnixMilli(), 100)), now))
	one.ok(one.log.Close())
	again, recovery, err := commitlog.Open(dir(2), small)
	one.ok(err)
	if !recovery.Clean || again.EndOffset() != 601 || again.LastEpoch() != 2 {
		t.Errorf("opened again it ends at %d in epoch %d, %+v", again.EndOffset(), again.LastEpoch(), recovery)
	}
	if err := again.TakeOver(two.log); err == nil {
		t.Error("a log that was taken over is taken over again")
	}
}
