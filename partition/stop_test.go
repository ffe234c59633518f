package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store"
)

// mirrorOpenTransactions brings a mirror to offset 20 with two transactions open: from 8 and from 14.
func (b *bed) mirrorOpenTransactions() {
	b.t.Helper()
	t := b.t
	b.must(b.mirror(0,
		made{base: 0, epoch: 5, values: make([]string, 5)}.build(t),
		made{base: 5, epoch: 5, id: foreignID(1), txn: true, values: make([]string, 2)}.build(t),
		markerBatch(7, 5, foreignID(1), 0, batch.Commit, 9),
		made{base: 8, epoch: 5, id: foreignID(1), sequence: 2, txn: true, values: make([]string, 6)}.build(t),
		made{base: 14, epoch: 6, id: foreignID(2), idEpoch: 3, txn: true, values: make([]string, 6)}.build(t),
	))
}

func (b *bed) stop() error {
	return b.StopMirrors(b.t.Context(), []kafka.TopicID{b.topic.ID}, "link-1")
}

// checkStopped is what must be true after mirrorOpenTransactions and a stop, whatever came between.
func checkStopped(b *bed) error {
	p := b.p(0)
	if err := p.Err(); err != nil {
		return err
	}
	o, entry := p.Offsets(), b.stream.get(b.topic.ID).List[0]
	switch {
	case entry.Role != meta.RoleOpen || o.Role != meta.RoleOpen:
		return fmt.Errorf("role %s is stored, %s is in force", entry.Role, o.Role)
	case entry.Stop == nil || entry.Stop.Offset != 20 || entry.Stop.Epoch != 6 || entry.Stop.Link != "link-1":
		return fmt.Errorf("stop point %+v", entry.Stop)
	case entry.Epoch>>12 != 1 || o.Epoch < entry.Epoch:
		return fmt.Errorf("published epoch %d, stored %d", o.Epoch, entry.Epoch)
	case entry.Generation != 2:
		return fmt.Errorf("generation %d", entry.Generation)
	case o.LastStable != o.HighWatermark || o.HighWatermark != o.LogEnd:
		return fmt.Errorf("transactions are open: %+v", o)
	}
	return checkMarkers(b, entry)
}

func checkMarkers(b *bed, entry meta.Partition) error {
	batches, _ := b.readAll(0, 20, kafka.ReadUncommitted)
	want := map[kafka.ProducerID]struct {
		epoch       int16
		coordinator int32
	}{foreignID(1): {0, 9}, foreignID(2): {3, 0}}
	for _, one := range batches {
		w, ok := want[one.ProducerID()]
		m, coordinator, isMarker := one.Marker()
		if !ok || !isMarker || m != batch.Abort || one.ProducerEpoch() != w.epoch || coordinator != w.coordinator || one.LeaderEpoch() != entry.Epoch {
			return fmt.Errorf("batch at %d is no marker that is owed: producer %d, epoch %d, coordinator %d, leader epoch %d",
				one.BaseOffset(), one.ProducerID(), one.ProducerEpoch(), coordinator, one.LeaderEpoch())
		}
		delete(want, one.ProducerID())
	}
	if len(want) > 0 {
		return fmt.Errorf("%d ABORT markers are missing", len(want))
	}
	return nil
}

func TestC06_StopEndsOpenTransactions(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.mirrorOpenTransactions()
	for range 3 { // a repetition changes nothing
		b.must(b.stop())
		b.must(checkStopped(b))
		wantOffsets(t, b.p(0), 0, 22, 22, 22)
	}
	if got := len(b.committed(0, 0)); got != 7 {
		t.Errorf("%d committed records, want 7", got)
	}
	entry := b.p(0).Entry()
	marks := entry.Stop.LastBatches
	if len(marks) != 5 || marks[4].Base != 14 || marks[4].Epoch != 6 || marks[0].Base != 0 {
		t.Errorf("last batches %+v", marks)
	}
	if l := entry.Lineage; len(l) != 1 || l[0] != (meta.Lineage{Start: 20, Epoch: entry.Epoch, Cluster: "cluster-b"}) {
		t.Errorf("lineage %+v", l)
	}
	b.produce(0, made{values: []string{"after"}})
	b.reopen()
	b.must(checkStopped2(b))
	b.must(b.stop())
	if got := b.committed(0, 20); !slices.Equal(got, []string{"after"}) {
		t.Errorf("after the stop: %v", got)
	}
	if err := b.mirror(0, made{base: 23}.build(t)); !errors.Is(err, ErrStale) {
		t.Errorf("a late mirrored append: %v", err)
	}
}

// checkStopped2 looks only at what later records do not change.
func checkStopped2(b *bed) error {
	o := b.p(0).Offsets()
	if err := b.p(0).Err(); err != nil || o.Role != meta.RoleOpen || o.LastStable != o.LogEnd {
		return fmt.Errorf("%+v, %v", o, err)
	}
	return nil
}

// Rule P1 through the whole path: a lossy failover must not kill the producer.
func TestForeignProducerGoesOnAfterAStop(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	x := foreignID(3)
	b.mustMirror(0, made{id: x, sequence: 0, values: make([]string, 6)}.build(t))
	b.must(b.stop())
	for range 2 {
		if again := b.produce(0, made{id: x, sequence: 0, values: make([]string, 6)}); !again.Duplicate || again.Base != 0 {
			t.Fatalf("a repetition: %+v", again)
		}
		b.reopen()
	}
	if a := b.produce(0, made{id: x, sequence: 10}); a.Base != 6 {
		t.Fatalf("%+v", a)
	}
	b.reopen()
	_, err := b.p(0).Append(t.Context(), batch.Batches(made{id: x, sequence: 12}.build(t)), nil)
	wantCode(t, err, kafka.OutOfOrderSequenceNumber)
}

// trace notes syncs of files and writes of entries, in order.
type trace struct {
	mu     sync.Mutex
	events []string
}

func (tr *trace) add(event string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.events = append(tr.events, event)
}

// take hands out what was noted, and begins anew.
func (tr *trace) take() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	events := tr.events
	tr.events = nil
	return events
}

type tracedStore struct {
	store.Store
	*trace
}

func (s tracedStore) Dir(id kafka.PartitionID) (store.Dir, error) {
	d, err := s.Store.Dir(id)
	return tracedDir{d, s.trace}, err
}

type tracedDir struct {
	store.Dir
	*trace
}

func (d tracedDir) Create(name string) (store.File, error) {
	f, err := d.Dir.Create(name)
	return tracedFile{f, d.trace}, err
}

func (d tracedDir) Open(name string) (store.File, error) {
	f, err := d.Dir.Open(name)
	return tracedFile{f, d.trace}, err
}

type tracedFile struct {
	store.File
	*trace
}

func (f tracedFile) Sync() error {
	err := f.File.Sync()
	f.add("sync")
	return err
}

func (f tracedFile) Append(p []byte) error {
	if b, _, err := batch.Split(p); err == nil && b.IsControl() {
		f.add("marker")
	}
	return f.File.Append(p)
}

// checkStopOrder is rule D1's order: sync, store, markers, sync, open.
func checkStopOrder(t testing.TB) error {
	tr := &trace{}
	b := newBedOver(t, meta.RoleMirror, 1, tracedStore{openDisk(t, t.TempDir()), tr})
	b.syncsLater(b.p(0))
	b.stream.written = func() { tr.add("store") }
	b.mirrorOpenTransactions()
	tr.take()
	if err := b.stop(); err != nil {
		return err
	}
	if got := strings.Join(tr.take(), " "); got != "sync store marker marker sync" {
		return fmt.Errorf("a stop did: %s", got)
	}
	return nil
}

func TestStopSyncsThenStoresThenWritesMarkers(t *testing.T) {
	if err := checkStopOrder(t); err != nil {
		t.Fatal(err)
	}
}

// While a stop is under way nobody appends, and what was begun is not in doubt.
func TestStopShutsBothWaysIn(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.mirrorOpenTransactions()
	p := b.p(0)
	b.stream.before = func() {
		if err := p.appendMarkerToMirror(b); err != nil {
			t.Error(err)
		}
		m := p.Offsets()
		if m.Role != meta.RoleFrozen {
			t.Errorf("role %s while it is being stopped", m.Role)
		}
		if err := p.AppendMirrored(t.Context(), Mirrored{Generation: 1, FetchedAt: 20, Batches: batch.Batches(made{base: 20, epoch: 6}.build(t))}); !errors.Is(err, ErrStale) {
			t.Errorf("a mirrored append: %v", err)
		}
	}
	b.stream.written = func() {
		_, err := p.Append(t.Context(), batch.Batches(made{}.build(t)), nil)
		if code := kafka.CodeOf(err); code != kafka.NotLeaderForPartition && code != kafka.InvalidRequest {
			t.Errorf("a producer before the markers: %v", err)
		}
	}
	b.must(b.stop())
	b.stream.before, b.stream.written = nil, nil
	b.must(checkStopped(b))
}

// appendMarkerToMirror writes a marker where none may be written.
func (p *Partition) appendMarkerToMirror(b *bed) error {
	a, err := p.AppendMarker(b.t.Context(), foreignID(1), 0, batch.Commit, 0)
	if err == nil && a.Next != 20 {
		return fmt.Errorf("a marker was written to a mirror: %+v", a)
	}
	return err
}

// A log that ends below its stop point lost records that were promised (rule D1).
func TestLogBelowItsStopPointDoesNotOpen(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 2)
	b.mirrorOpenTransactions()
	b.must(b.stop())
	b.must(b.Owner.Close())
	b.stream.topics[b.topic.ID].List[0].Stop.Offset = 1000
	b.open()
	p := b.p(0)
	wantCode(t, p.Err(), kafka.KafkaStorageError)
	if !strings.Contains(p.Err().Error(), "below the offset 1000") {
		t.Errorf("error %q", p.Err())
	}
	_, err := p.Append(t.Context(), batch.Batches(made{}.build(t)), nil)
	wantCode(t, err, kafka.KafkaStorageError)
	b.produce(1, made{}) // the other one works
}

func TestStopGoesOnWhenOnePartitionIsBroken(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 3)
	for n := range int32(3) {
		b.mustMirror(n, made{}.build(t))
	}
	b.p(1).fail(kafka.Errorf(kafka.KafkaStorageError, "the disk is gone"))
	err := b.stop()
	if err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Fatalf("%v", err)
	}
	for _, n := range []int32{0, 2} {
		if o := b.p(n).Offsets(); o.Role != meta.RoleOpen {
			t.Errorf("partition %d: %+v", n, o)
		}
	}
	if stored := b.stream.get(b.topic.ID).List[1].Role; stored != meta.RoleMirror {
		t.Errorf("the broken one is stored as %s", stored)
	}
}

func TestStopOfManyNeedsOneWrite(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 40)
	for n := range int32(40) {
		b.must(b.mirror(n, made{}.build(t)))
	}
	b.stream.calls = 0
	b.must(b.stop())
	if b.stream.calls != 1 {
		t.Errorf("%d writes", b.stream.calls)
	}
}

func TestStopPointNamesTheLastBatches(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	for base := range kafka.Offset(200) {
		b.must(b.mirror(0, made{base: base * 3, values: make([]string, 3)}.build(t)))
	}
	b.reopen()
	b.must(b.stop())
	marks := b.p(0).Entry().Stop.LastBatches
	if len(marks) != recentMax || marks[0].Base != 136*3 || marks[recentMax-1].Base != 199*3 {
		t.Fatalf("%d marks: %+v", len(marks), marks)
	}
	// Read back from the log, they are the same.
	p := b.p(0)
	read, err := p.lastBatches(recentMax)
	if err != nil || !slices.Equal(read, marks) {
		t.Errorf("read from the log: %v, %v", read, err)
	}
}

// Rule R3.
func TestFreezeStatesEndsOnce(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 2)
	b.produce(0, made{values: make([]string, 3)})
	want := []kafka.Offset{3, 0}
	for range 2 {
		ends, err := b.Freeze(t.Context(), b.topic.ID, "R1")
		if err != nil || !slices.Equal(ends, want) {
			t.Fatalf("%v, %v", ends, err)
		}
		_, err = b.p(0).Append(t.Context(), batch.Batches(made{}.build(t)), nil)
		wantCode(t, err, kafka.InvalidRequest)
		b.reopen()
	}
	_, err := b.Freeze(t.Context(), b.topic.ID, "R2")
	wantCode(t, err, kafka.InvalidRequest)
	wantCode(t, b.Unfreeze(t.Context(), b.topic.ID, "R2"), kafka.InvalidRequest)
	for range 2 {
		b.must(b.Unfreeze(t.Context(), b.topic.ID, "R1"))
	}
	b.produce(0, made{})
	mirror := newBed(t, meta.RoleMirror, 1)
	_, err = mirror.Freeze(t.Context(), mirror.topic.ID, "R1")
	wantCode(t, err, kafka.InvalidRequest)
}

// Rule T4: a restore is failed over before it has cut. Its log is not known to be a prefix of the peer's, and opens without a stop point.
func TestT4_WhatIsFrozenStopsWithoutAStopPoint(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.produce(0, made{values: make([]string, 3)})
	before := b.p(0).Entry()
	if _, err := b.Freeze(t.Context(), b.topic.ID, "S1"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b.must(b.stop())
		if e := b.p(0).Entry(); e.Role != meta.RoleOpen || e.Stop != nil || e.Frozen != nil || len(e.Lineage) > 0 || e.Epoch != before.Epoch {
			t.Errorf("the entry is %+v", e)
		}
	}
	b.produce(0, made{})
	wantOffsets(t, b.p(0), 0, 4, 4, 4)
}

// Rules R1 and R3: what is frozen for a reversal is frozen for a restore at the ends that were stated, and takes nothing in between.
func TestRefreezeKeepsTheEnds(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 2)
	b.produce(0, made{values: make([]string, 3)})
	if _, err := b.Freeze(t.Context(), b.topic.ID, "R1"); err != nil {
		t.Fatal(err)
	}
	b.must(b.Refreeze(t.Context(), b.topic.ID, "another", "S1")) // is for none of these
	for range 2 {
		b.must(b.Refreeze(t.Context(), b.topic.ID, "R1", "S1"))
		b.reopen()
		_, err := b.p(0).Append(t.Context(), batch.Batches(made{}.build(t)), nil)
		wantCode(t, err, kafka.InvalidRequest)
	}
	wantCode(t, b.Unfreeze(t.Context(), b.topic.ID, "R1"), kafka.InvalidRequest)
	ends, err := b.Freeze(t.Context(), b.topic.ID, "S1")
	if err != nil || !slices.Equal(ends, []kafka.Offset{3, 0}) {
		t.Fatalf("%v, %v", ends, err)
	}
	b.must(b.Unfreeze(t.Context(), b.topic.ID, "S1"))
	b.must(b.Refreeze(t.Context(), b.topic.ID, "S1", "R2")) // open ones stay open
	b.produce(0, made{})
}

func TestFrozenBecomesMirror(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 3)
	for n := range int32(3) {
		b.produce(n, made{values: make([]string, 5)})
		b.produce(n, made{values: make([]string, 5)})
	}
	_, err := b.Freeze(t.Context(), b.topic.ID, "R1")
	b.must(err)
	cuts := []kafka.Offset{10, 7, kafka.NoOffset}
	wantCode(t, b.FrozenBecomeMirror(t.Context(), b.topic.ID, "R2", "cluster-a", cuts), kafka.InvalidRequest)
	// A frozen partition needs an end; one that was added since, as a mirror, needs none when a crash brings the order again.
	wantCode(t, b.FrozenBecomeMirror(t.Context(), b.topic.ID, "R1", "cluster-a", cuts[:2]), kafka.InvalidRequest)
	for range 2 {
		b.must(b.FrozenBecomeMirror(t.Context(), b.topic.ID, "R1", "cluster-a", cuts))
		wantOffsets(t, b.p(0), 0, 10, 10, 10)
		wantOffsets(t, b.p(1), 0, 5, 5, 5)
		wantOffsets(t, b.p(2), 0, 0, 0, 0)
		b.reopen()
	}
	b.must(b.FrozenBecomeMirror(t.Context(), b.topic.ID, "R1", "cluster-a", cuts[:2]))
	for n, epoch := range []kafka.LeaderEpoch{0, 1, 1} {
		o := b.p(int32(n)).Offsets()
		if o.Role != meta.RoleMirror || o.Epoch != epoch {
			t.Errorf("partition %d: %+v", n, o)
		}
	}
	want := []meta.Lineage{{Cluster: "cluster-b"}, {Start: 10, Epoch: kafka.NoEpoch, Cluster: "cluster-a"}}
	if got := b.p(0).Entry().Lineage; !slices.Equal(got, want) {
		t.Errorf("lineage %+v, want %+v", got, want)
	}
	b.mustMirror(0, made{base: 10}.build(t))
}
