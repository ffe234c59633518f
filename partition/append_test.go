package partition

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

func TestAppendGivesOffsetsAndEpoch(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	for i, values := range [][]string{{"a"}, {"b", "c"}, {"d"}} {
		a := b.produce(0, made{base: 77, epoch: 9, values: values})
		if want := []kafka.Offset{0, 1, 3}[i]; a.Base != want || a.Next != want+kafka.Offset(len(values)) || a.Duplicate || a.LogAppendTime != -1 {
			t.Fatalf("append %d: %+v", i, a)
		}
	}
	wantOffsets(t, b.p(0), 0, 4, 4, 4)
	got, _ := b.readAll(0, 0, kafka.ReadUncommitted)
	if len(got) != 3 || got[1].BaseOffset() != 1 {
		t.Fatalf("read %d batches", len(got))
	}
	if got := b.committed(0, 2); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("from 2: %v", got)
	}
}

func TestC86_LeaderEpochOfProducersIsOverwritten(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	for _, epoch := range []kafka.LeaderEpoch{-1, 0, 7} {
		b.produce(0, made{epoch: epoch})
	}
	got, _ := b.readAll(0, 0, kafka.ReadUncommitted)
	for _, one := range got {
		if one.LeaderEpoch() != 0 || one.CheckCRC() != nil {
			t.Errorf("batch at %d has epoch %d", one.BaseOffset(), one.LeaderEpoch())
		}
	}
}

// Rule E6: the first append after a start begins an epoch, which is stored before.
func TestStartBeginsAnEpoch(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.produce(0, made{})
	for start := range 3 {
		b.reopen()
		if got := b.p(0).Offsets().Epoch; got != kafka.LeaderEpoch(start) {
			t.Fatalf("start %d: published %d before an append", start, got)
		}
		b.produce(0, made{})
		b.produce(0, made{})
		if got := b.p(0).Offsets().Epoch; got != kafka.LeaderEpoch(start+1) {
			t.Fatalf("start %d: published %d", start, got)
		}
		if stored := b.stream.get(b.topic.ID).List[0].Epoch; stored != kafka.LeaderEpoch(start+1) {
			t.Fatalf("start %d: stored %d", start, stored)
		}
	}
	if got := b.p(0).Epochs(); !slices.Equal(got, []kafka.EpochStart{{Epoch: 0, Start: 0}, {Epoch: 1, Start: 1}, {Epoch: 2, Start: 3}, {Epoch: 3, Start: 5}}) {
		t.Errorf("epochs %v", got)
	}
	b.reopen()
	b.stream.setFail(errDown)
	_, err := b.p(0).Append(t.Context(), batch.Batches(made{}.build(t)), nil)
	wantCode(t, err, kafka.NotLeaderForPartition)
	wantOffsets(t, b.p(0), 0, 7, 7, 7)
}

func TestTopicsPartitionsBeginTheirEpochTogether(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 20)
	for n := range int32(20) {
		b.produce(n, made{})
	}
	b.reopen()
	b.stream.calls = 0
	for n := range int32(20) {
		b.produce(n, made{})
		if o := b.p(n).Offsets(); o.Epoch != 1 || b.p(n).log.LastEpoch() != 1 {
			t.Errorf("partition %d: %+v", n, o)
		}
	}
	if b.stream.calls != 1 {
		t.Errorf("%d writes", b.stream.calls)
	}
}

func TestDuplicateIsAnsweredWithItsOffset(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	first := b.produce(0, made{id: ownID(1), sequence: 0, values: []string{"a", "b"}})
	b.produce(0, made{values: []string{"x"}})
	for range 2 {
		again := b.produce(0, made{id: ownID(1), sequence: 0, values: []string{"a", "b"}})
		if !again.Duplicate || again.Base != first.Base || again.Next != first.Next {
			t.Fatalf("%+v", again)
		}
		b.reopen() // the state is rebuilt
	}
	wantOffsets(t, b.p(0), 0, 3, 3, 3)
}

// Who repeats a batch whose times are the broker's hears the time that it was stored with, not that there is none.
func TestDuplicateIsAnsweredWithItsAppendTime(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.cfg.LogAppendTime = true
	b.Configure(b.topic.ID, b.cfg)
	first := b.produce(0, made{id: ownID(1), sequence: 0, values: []string{"a"}})
	if first.LogAppendTime < 0 {
		t.Fatalf("%+v", first)
	}
	if again := b.produce(0, made{id: ownID(1), sequence: 0, values: []string{"a"}}); !again.Duplicate || again.LogAppendTime != first.LogAppendTime {
		t.Errorf("%+v, then %+v", first, again)
	}
}

func TestC17_ProducingToAMirror(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	for _, m := range []made{{}, {id: ownID(1)}, {id: ownID(1), txn: true}} {
		_, err := b.p(0).Append(t.Context(), batch.Batches(m.build(t)), yes)
		wantCode(t, err, kafka.InvalidRequest)
		if !strings.HasPrefix(err.Error(), "Cannot append records to read-only mirror topic 't'") {
			t.Errorf("error %q", err)
		}
	}
	_, err := b.p(0).DeleteRecords(0)
	wantCode(t, err, kafka.InvalidRequest)
	// Rule R5: a marker must not hang a transaction of other topics.
	a, err := b.p(0).AppendMarker(t.Context(), ownID(1), 0, batch.Commit, 0)
	if err != nil || a.Base != 0 {
		t.Fatalf("%+v, %v", a, err)
	}
	wantOffsets(t, b.p(0), 0, 0, 0, 0)
}

func TestTransactions(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	p, id := b.p(0), ownID(1)
	b.produce(0, made{values: []string{"plain"}})
	b.produce(0, made{id: id, txn: true, sequence: 0, values: []string{"a1", "a2"}})
	b.produce(0, made{id: ownID(2), txn: true, sequence: 0, values: []string{"b1"}})
	wantOffsets(t, p, 0, 1, 4, 4)
	end := func(id kafka.ProducerID, m batch.Marker) {
		t.Helper()
		a, err := p.AppendMarker(t.Context(), id, 0, m, 3)
		b.must(err)
		b.must(p.WaitSynced(t.Context(), a.Next))
	}
	end(ownID(2), batch.Commit)
	wantOffsets(t, p, 0, 1, 5, 5)
	end(id, batch.Abort)
	wantOffsets(t, p, 0, 6, 6, 6)
	for range 2 {
		if got := b.committed(0, 0); !slices.Equal(got, []string{"plain", "b1"}) {
			t.Errorf("committed: %v", got)
		}
		if got := b.committed(0, 2); !slices.Equal(got, []string{"b1"}) {
			t.Errorf("a transaction that began before the fetch: %v", got)
		}
		b.reopen()
		p = b.p(0)
	}
	_, err := p.AppendMarker(t.Context(), id, 0, batch.Abort, 2)
	wantCode(t, err, kafka.TransactionCoordinatorFenced)
	a, err := p.AppendMarker(t.Context(), id, 0, batch.Abort, 3)
	if err != nil || a.Next != 6 {
		t.Errorf("a marker without a transaction: %+v, %v", a, err)
	}
}

func TestC82_AbortedListAndIsolation(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	for n := range int64(3) {
		b.produce(0, made{id: ownID(n), txn: true})
	}
	for n := range int64(3) {
		a, err := b.p(0).AppendMarker(t.Context(), ownID(2-n), 0, batch.Abort, 0)
		b.must(err)
		b.must(b.p(0).WaitSynced(t.Context(), a.Next))
	}
	read := func(i kafka.Isolation) []Aborted {
		a, err := b.p(0).Read(Read{MaxBytes: 1 << 20, Isolation: i, CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
		b.must(err)
		a.Slice.Close()
		return a.Aborted
	}
	if got := read(kafka.ReadUncommitted); got != nil {
		t.Errorf("read_uncommitted: %v", got)
	}
	if got := read(kafka.ReadCommitted); !slices.Equal(got, []Aborted{{ownID(0), 0}, {ownID(1), 1}, {ownID(2), 2}}) {
		t.Errorf("read_committed: %v", got)
	}
}

// Rule P2.
func TestTransactionalBatchNeedsItsCoordinator(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	p, id := b.p(0), ownID(1)
	build := func() batch.Batches { return batch.Batches(made{id: id, txn: true}.build(t)) }
	_, err := p.Append(t.Context(), build(), nil)
	wantCode(t, err, kafka.InvalidTxnState)
	_, err = p.Append(t.Context(), build(), func(kafka.ProducerID, int16) error { return kafka.InvalidProducerIDMapping })
	wantCode(t, err, kafka.InvalidProducerIDMapping)
	// The transaction ends between the coordinator's word and the append.
	_, err = p.Append(t.Context(), build(), func(kafka.ProducerID, int16) error {
		_, err := p.AppendMarker(t.Context(), id, 0, batch.Abort, 0)
		return err
	})
	wantCode(t, err, kafka.InvalidTxnState)
	wantOffsets(t, p, 0, 0, 0, 0)
	if len(p.guards) != 0 {
		t.Errorf("%d guards are left", len(p.guards))
	}
	b.produce(0, made{id: id, txn: true})
	if _, err := p.Append(t.Context(), batch.Batches(made{id: id, txn: true, sequence: 1}.build(t)), func(kafka.ProducerID, int16) error {
		return errors.New("asked although the transaction is open here")
	}); err != nil {
		t.Error(err)
	}
}

func TestDeleteRecords(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	for range 10 {
		b.produce(0, made{})
	}
	p := b.p(0)
	if start, err := p.DeleteRecords(4); start != 4 || err != nil {
		t.Fatalf("%d, %v", start, err)
	}
	if start, err := p.DeleteRecords(3); start != 4 || err != nil {
		t.Fatalf("backwards: %d, %v", start, err)
	}
	_, err := p.DeleteRecords(11)
	wantCode(t, err, kafka.OffsetOutOfRange)
	_, err = p.DeleteRecords(-2)
	wantCode(t, err, kafka.OffsetOutOfRange)
	_, err = p.Read(Read{From: 3, MaxBytes: 100, CurrentEpoch: -1, LastEpoch: -1})
	wantCode(t, err, kafka.OffsetOutOfRange)
	if start, err := p.DeleteRecords(kafka.NoOffset); start != 10 || err != nil {
		t.Fatalf("all: %d, %v", start, err)
	}
	wantOffsets(t, p, 10, 10, 10, 10)
	b.reopen()
	wantOffsets(t, b.p(0), 10, 10, 10, 10)
	if a := b.produce(0, made{}); a.Base != 10 {
		t.Errorf("after that: %+v", a)
	}
}

func TestReadersEpochs(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.produce(0, made{})
	b.reopen()
	b.produce(0, made{}) // epoch 1 from offset 1
	p := b.p(0)
	table := []struct {
		from          kafka.Offset
		current, last kafka.LeaderEpoch
		want          kafka.ErrorCode
		diverging     bool
		epoch         kafka.LeaderEpoch
		end           kafka.Offset
	}{
		{from: 0, current: -1, last: -1},
		{from: 0, current: 1, last: -1},
		{from: 0, current: 0, last: -1, want: kafka.FencedLeaderEpoch},
		{from: 0, current: 2, last: -1, want: kafka.UnknownLeaderEpoch},
		{from: 1, current: 1, last: 0},
		{from: 2, current: 1, last: 1},
		{from: 2, current: 1, last: 0, diverging: true, epoch: 0, end: 1},
		{from: 3, current: 1, last: 1, diverging: true, epoch: 1, end: 2},
		{from: 2, current: 1, last: 5, want: kafka.OffsetOutOfRange},
		{from: 3, current: 1, last: -1, want: kafka.OffsetOutOfRange},
		{from: -1, current: 1, last: -1, want: kafka.OffsetOutOfRange},
	}
	for _, row := range table {
		a, err := p.Read(Read{From: row.from, MaxBytes: 1 << 20, CurrentEpoch: row.current, LastEpoch: row.last})
		if kafka.CodeOf(err) != row.want || a.Diverging != row.diverging || row.diverging && (a.DivergingEpoch != row.epoch || a.DivergingEnd != row.end) {
			t.Errorf("%+v: %+v, %v", row, a, err)
		}
		a.Slice.Close()
	}
	_, _, err := p.OffsetForLeaderEpoch(0, 0)
	wantCode(t, err, kafka.FencedLeaderEpoch)
	_, _, err = p.OffsetForLeaderEpoch(2, 0)
	wantCode(t, err, kafka.UnknownLeaderEpoch)
	if epoch, end, err := p.OffsetForLeaderEpoch(-1, 0); epoch != 0 || end != 1 || err != nil {
		t.Errorf("%d, %d, %v", epoch, end, err)
	}
}

func TestC80_ListOffsetsByTime(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.produce(0, made{ts: 100, values: []string{"a", "b", "c"}, codec: batch.CodecGzip}) // 100 101 102
	b.produce(0, made{ts: 300})
	b.produce(0, made{ts: 200, id: ownID(1), txn: true})
	p := b.p(0)
	table := []struct {
		ms        int64
		isolation kafka.Isolation
		offset    kafka.Offset
		ts        int64
	}{
		{0, kafka.ReadUncommitted, 0, 100}, {101, kafka.ReadUncommitted, 1, 101}, {103, kafka.ReadUncommitted, 3, 300},
		{301, kafka.ReadUncommitted, -1, -1}, {150, kafka.ReadCommitted, 3, 300}, {301, kafka.ReadCommitted, -1, -1},
	}
	for _, row := range table {
		if got, err := p.OffsetForTime(row.ms, row.isolation); err != nil || got.Offset != row.offset || got.Timestamp != row.ts {
			t.Errorf("%+v: %+v, %v", row, got, err)
		}
	}
	if got, err := p.MaxTimestamp(kafka.ReadUncommitted); err != nil || got.Offset != 3 || got.Timestamp != 300 {
		t.Errorf("max timestamp: %+v, %v", got, err)
	}
	if _, err := p.DeleteRecords(2); err != nil {
		t.Fatal(err)
	}
	if got, err := p.OffsetForTime(0, kafka.ReadUncommitted); err != nil || got.Offset < 2 {
		t.Errorf("below the log start: %+v, %v", got, err)
	}
}

func TestC93_WaitersWake(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 2)
	w := NewWaiter()
	woken := func(what string, p *Partition, do func()) {
		t.Helper()
		p.Watch(w)
		defer p.Unwatch(w)
		select {
		case <-w.C:
		default:
		}
		do()
		select {
		case <-w.C:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s does not wake", what)
		}
	}
	woken("a record", b.p(0), func() { b.produce(0, made{}) })
	b.produce(0, made{id: ownID(1), txn: true})
	woken("a marker", b.p(0), func() {
		a, err := b.p(0).AppendMarker(t.Context(), ownID(1), 0, batch.Commit, 0)
		b.must(err)
		b.must(b.p(0).WaitSynced(t.Context(), a.Next))
	})
	woken("a fault", b.p(0), func() { b.p(0).fail(errors.New("broken")) })
	woken("a role", b.p(1), func() {
		_, err := b.Freeze(t.Context(), b.topic.ID, "r")
		if err == nil {
			t.Error("a broken partition was frozen")
		}
	})
	woken("deletion", b.p(1), func() { b.must(b.Delete(b.topic.ID, 2)) })
}

func TestWaitSyncedGivesUp(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	wantCode(t, b.p(0).WaitSynced(t.Context(), 5), kafka.NotLeaderForPartition)
	p := b.p(0)
	p.syncing.Lock() // no sync ends
	a, err := p.Append(t.Context(), batch.Batches(made{}.build(t)), nil)
	b.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.WaitSynced(ctx, a.Next); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if o := p.Offsets(); o.HighWatermark != 0 || o.LogEnd != 1 {
		t.Errorf("shown before it was synced: %+v", o)
	}
	p.syncing.Unlock()
	b.must(p.WaitSynced(t.Context(), a.Next))
}

func TestManyProducersShareSyncs(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 4)
	var wg sync.WaitGroup
	const producers, each = 16, 50
	for n := range producers {
		wg.Go(func() {
			for i := range each {
				p := b.p(int32(n % 4))
				a, err := p.Append(t.Context(), batch.Batches(made{id: ownID(int64(n)), sequence: int32(i)}.build(t)), nil)
				if err == nil {
					err = p.WaitSynced(t.Context(), a.Next)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if o := p.Offsets(); o.HighWatermark < a.Next {
					t.Errorf("waited for %d, high watermark is %d", a.Next, o.HighWatermark)
				}
			}
		})
	}
	wg.Wait()
	for n := range int32(4) {
		wantOffsets(t, b.p(n), 0, producers*each/4, producers*each/4, producers*each/4)
	}
	b.syncerIdle()
}

// syncerIdle waits until all bytes that were counted are given back.
func (b *bed) syncerIdle() {
	b.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for b.UnsyncedBytes() != 0 {
		if time.Now().After(deadline) {
			b.t.Fatalf("%d bytes stay unsynced", b.UnsyncedBytes())
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAppendsWaitForRoom(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.Owner.syncer.maxBytes = 100
	p := b.p(0)
	p.syncing.Lock()
	_, err := p.Append(t.Context(), batch.Batches(made{values: []string{strings.Repeat("x", 200)}}.build(t)), nil)
	b.must(err) // more than there may be, but alone
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := p.Append(ctx, batch.Batches(made{}.build(t)), nil)
		done <- err
	}()
	cancel()
	wantCode(t, <-done, kafka.RequestTimedOut)
	go func() {
		_, err := p.Append(t.Context(), batch.Batches(made{}.build(t)), nil)
		done <- err
	}()
	p.syncing.Unlock()
	b.must(<-done)
	b.syncerIdle()
}

func TestUnsafeShowsWhatIsWritten(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.must(b.Owner.Close())
	b.Config.Unsafe = true
	b.open()
	b.p(0).syncing.Lock()
	defer b.p(0).syncing.Unlock()
	_, err := b.p(0).Append(t.Context(), batch.Batches(made{}.build(t)), nil)
	b.must(err)
	wantOffsets(t, b.p(0), 0, 1, 1, 1)
}

// TestUnsafeLeavesSyncingToTime: nobody waits for a sync, so that the first record of a partition is no reason to make one.
func TestUnsafeLeavesSyncingToTime(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 3)
	b.must(b.Owner.Close())
	b.Config.Unsafe = true
	b.open()
	for n := range int32(3) {
		_, err := b.p(n).Append(t.Context(), batch.Batches(made{}.build(t)), nil)
		b.must(err)
	}
	s := b.Owner.syncer
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lazy) != 3 || len(s.urgent)+len(s.rested) > 0 || s.lazyDue {
		t.Errorf("%d wait for their time, %d and %d do not; due: %v", len(s.lazy), len(s.urgent), len(s.rested), s.lazyDue)
	}
	if s.lazyBytes < carelessBytes || s.maxBytes <= s.lazyBytes {
		t.Errorf("a sync comes sooner at %d bytes, appends wait at %d", s.lazyBytes, s.maxBytes)
	}
}

func TestDeleteRemovesDirectories(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 2)
	b.produce(0, made{})
	p := b.p(0)
	for range 2 {
		b.must(b.Delete(b.topic.ID, 2))
	}
	if b.Get(p.ID()) != nil {
		t.Error("it is still there")
	}
	_, err := p.Append(t.Context(), batch.Batches(made{}.build(t)), nil)
	wantCode(t, err, kafka.UnknownTopicOrPartition)
	if left, err := b.store.Partitions(); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestConfigureIsForTheNextAppend(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	cfg := b.cfg
	cfg.MaxMessageBytes = 10
	b.Configure(b.topic.ID, cfg)
	_, err := b.p(0).Append(t.Context(), batch.Batches(made{}.build(t)), nil)
	wantCode(t, err, kafka.MessageTooLarge)
}

func TestFewCompressedBatchesAreLookedIntoAtOnce(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	for range cap(b.Owner.decoding) {
		b.Owner.decoding <- struct{}{}
	}
	b.produce(0, made{}) // a plain one does not wait
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	zipped := batch.Batches(made{codec: batch.CodecZstd}.build(t))
	_, err := b.p(0).Append(ctx, zipped, nil)
	wantCode(t, err, kafka.RequestTimedOut)
	<-b.Owner.decoding
	b.produce(0, made{codec: batch.CodecZstd})
	if got := len(b.Owner.decoding); got != cap(b.Owner.decoding)-1 {
		t.Errorf("%d places are held", got)
	}
}

// TestMarkerOfATransactionWhoseRecordsAreGone: DeleteRecords took them, a restart what was known of them. Mirrors that had
// them wait for the marker all the same.
func TestMarkerOfATransactionWhoseRecordsAreGone(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.produce(0, made{id: ownID(1), txn: true})
	if _, err := b.p(0).DeleteRecords(kafka.NoOffset); err != nil {
		t.Fatal(err)
	}
	b.must(b.Owner.Close())
	b.open()
	a, err := b.p(0).AppendMarker(t.Context(), ownID(1), 0, batch.Abort, 0)
	b.must(err)
	b.must(b.p(0).WaitSynced(t.Context(), a.Next))
	if a.Base != 1 || a.Next != 2 {
		t.Errorf("the marker is at %d, the next offset %d; want 1 and 2", a.Base, a.Next)
	}
	wantOffsets(t, b.p(0), 1, 2, 2, 2)
}
