package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store"
	"github.com/hawserio/hawser/store/disk"
)

const (
	ownPrefix     = 0x1234567
	foreignPrefix = 0x7654321
)

func ownID(n int64) kafka.ProducerID     { return kafka.ProducerID(ownPrefix<<32 | n) }
func foreignID(n int64) kafka.ProducerID { return kafka.ProducerID(foreignPrefix<<32 | n) }

// memStream is a stream in memory. Its records survive what a test calls a crash.
type memStream struct {
	mu      sync.Mutex
	topics  map[kafka.TopicID]*meta.Partitions
	fail    error // answered instead of writing
	failed  error // answered after writing
	calls   int
	before  func() // called, if set, before each write
	written func() // and after
}

func newStream() *memStream { return &memStream{topics: map[kafka.TopicID]*meta.Partitions{}} }

func (s *memStream) UpdatePartitions(ctx context.Context, topics []kafka.TopicID, decide func(*meta.Partitions) (*meta.Partitions, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.before != nil {
		s.before()
	}
	if s.fail != nil {
		return s.fail
	}
	for _, t := range topics {
		if s.topics[t] == nil {
			return fmt.Errorf("topic %s: %w", t, kafka.UnknownTopicID)
		}
	}
	for _, t := range topics {
		next, err := decide(&meta.Partitions{Topic: t, List: slices.Clone(s.topics[t].List)})
		if err != nil {
			return err
		}
		if next != nil {
			s.topics[t] = next
		}
	}
	if s.written != nil {
		s.written()
	}
	return s.failed
}

// failAfter has writes fail, before they are made or after.
func (s *memStream) failAfter(made bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.failed = err, nil
	if made {
		s.fail, s.failed = nil, err
	}
}

func (s *memStream) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *memStream) get(t kafka.TopicID) *meta.Partitions {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &meta.Partitions{Topic: t, List: slices.Clone(s.topics[t].List)}
}

// bed is an owner with one topic, which can be closed, crashed and opened again.
type bed struct {
	t      testing.TB
	stream *memStream
	store  store.Store
	topic  *meta.Topic
	cfg    TopicConfig
	nowMs  int64
	Config
	*Owner
}

func testTopicConfig() TopicConfig {
	return TopicConfig{
		Log:                  commitlog.Config{SegmentBytes: 1 << 20, IndexInterval: 4096, SegmentAge: time.Hour},
		MaxMessageBytes:      1 << 20,
		TimestampBeforeMaxMs: math.MaxInt64,
		TimestampAfterMaxMs:  math.MaxInt64,
		Compression:          "producer",
	}
}

// newBed opens a topic of n partitions in a role, over a directory.
func newBed(t testing.TB, role meta.Role, n int) *bed {
	t.Helper()
	return newBedOver(t, role, n, openDisk(t, t.TempDir()))
}

func newBedOver(t testing.TB, role meta.Role, n int, st store.Store) *bed {
	t.Helper()
	b := &bed{t: t, stream: newStream(), store: st, cfg: testTopicConfig(), nowMs: 1_700_000_000_000}
	b.topic = &meta.Topic{ID: kafka.NewTopicID(), Name: "t", Partitions: int32(n)}
	states := &meta.Partitions{Topic: b.topic.ID}
	for range n {
		states.List = append(states.List, meta.Partition{Role: role, Generation: 1})
	}
	b.stream.topics[b.topic.ID] = states
	b.Config = Config{
		ClusterID:      "cluster-b",
		ProducerPrefix: ownPrefix,
		SyncDelay:      time.Millisecond,
		Now:            func() time.Time { return time.UnixMilli(b.nowMs) },
	}
	b.open()
	t.Cleanup(func() { _ = b.Owner.Close() })
	return b
}

func openDisk(t testing.TB, dir string) store.Store {
	t.Helper()
	st, err := disk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func (b *bed) open() {
	b.t.Helper()
	b.Owner = NewOwner(b.Config, b.store, b.stream)
	if err := b.Owner.Open(b.topic, b.stream.get(b.topic.ID), b.cfg); err != nil {
		b.t.Fatal(err)
	}
}

// syncsLater has nothing of a partition synced of itself: it looks as if it were appended to all the time, with an hour's delay.
func (b *bed) syncsLater(p *Partition) {
	s := b.Owner.syncer
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay, p.dirty.ended = time.Hour, time.Now()
}

// reopen closes the owner in order and opens it again.
func (b *bed) reopen() {
	b.t.Helper()
	if err := b.Owner.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.open()
}

func (b *bed) p(n int32) *Partition {
	b.t.Helper()
	p := b.Get(kafka.PartitionID{Topic: b.topic.ID, Partition: n})
	if p == nil {
		b.t.Fatalf("partition %d is not open", n)
	}
	return p
}

// errOf is the error of a call that answers something else too.
func errOf[T any](_ T, err error) error { return err }

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, code kafka.ErrorCode) {
	t.Helper()
	if kafka.CodeOf(err) != code {
		t.Fatalf("got %v, want %v", err, code)
	}
}

// made is how a test's batch looks.
type made struct {
	base     kafka.Offset
	epoch    kafka.LeaderEpoch
	id       kafka.ProducerID // 0: none
	idEpoch  int16
	sequence int32
	txn      bool
	values   []string
	ts       int64
	codec    batch.Codec
	noKey    bool
}

func (m made) build(t testing.TB) batch.Batch {
	t.Helper()
	spec := batch.Spec{BaseOffset: m.base, LeaderEpoch: m.epoch, Codec: m.codec, ProducerID: m.id, ProducerEpoch: m.idEpoch, BaseSequence: m.sequence, Transactional: m.txn}
	if m.id == 0 {
		spec.ProducerID, spec.ProducerEpoch, spec.BaseSequence = kafka.NoProducerID, -1, -1
	}
	values := m.values
	if values == nil {
		values = []string{"v"}
	}
	var records []batch.Record
	for i, v := range values {
		r := batch.Record{Offset: m.base + kafka.Offset(i), Timestamp: m.ts + int64(i), Key: []byte("k"), Value: []byte(v)}
		if m.noKey {
			r.Key = nil
		}
		records = append(records, r)
	}
	b, err := batch.Build(spec, records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func markerBatch(base kafka.Offset, epoch kafka.LeaderEpoch, id kafka.ProducerID, idEpoch int16, m batch.Marker, coordinator int32) batch.Batch {
	return batch.BuildMarker(batch.Spec{BaseOffset: base, LeaderEpoch: epoch, ProducerID: id, ProducerEpoch: idEpoch}, m, coordinator, 1000)
}

func yes(kafka.ProducerID, int16) error { return nil }

// produce appends a batch and waits until it is shown.
func (b *bed) produce(n int32, m made) Appended {
	b.t.Helper()
	a, err := b.p(n).Append(b.t.Context(), batch.Batches(m.build(b.t)), yes)
	b.must(err)
	b.must(b.p(n).WaitSynced(b.t.Context(), a.Next))
	return a
}

// mirror appends batches of a source at the mirror's end.
func (b *bed) mirror(n int32, batches ...batch.Batch) error {
	b.t.Helper()
	o := b.p(n).Offsets()
	return b.p(n).AppendMirrored(b.t.Context(), Mirrored{Generation: o.Generation, FetchedAt: o.LogEnd, Batches: join(batches...)})
}

func (b *bed) mustMirror(n int32, batches ...batch.Batch) {
	b.t.Helper()
	b.must(b.mirror(n, batches...))
	b.synced(n)
}

// synced waits until all that is written is shown.
func (b *bed) synced(n int32) {
	b.t.Helper()
	b.must(b.p(n).WaitSynced(b.t.Context(), b.p(n).Offsets().LogEnd))
}

func join(batches ...batch.Batch) batch.Batches {
	var all batch.Batches
	for _, b := range batches {
		all = append(all, b...)
	}
	return all
}

// readAll is the batches from an offset on, as one reader sees them.
func (b *bed) readAll(n int32, from kafka.Offset, isolation kafka.Isolation) (batches []batch.Batch, aborted []Aborted) {
	b.t.Helper()
	for {
		a, err := b.p(n).Read(Read{From: from, MaxBytes: 1 << 20, AtLeastOne: true, Isolation: isolation, CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
		b.must(err)
		if a.Slice.Length == 0 {
			a.Slice.Close()
			return batches, aborted
		}
		bytes, err := a.Slice.Bytes()
		b.must(err)
		a.Slice.Close()
		for one, err := range bytes.All() {
			b.must(err)
			batches = append(batches, one)
			from = one.NextOffset()
		}
		aborted = append(aborted, a.Aborted...)
	}
}

// committed is the values that a read_committed reader gets, as clients work it out.
func (b *bed) committed(n int32, from kafka.Offset) []string {
	b.t.Helper()
	values := []string{}
	for {
		a, err := b.p(n).Read(Read{From: from, MaxBytes: 1 << 10, AtLeastOne: true, Isolation: kafka.ReadCommitted, CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
		b.must(err)
		if a.Slice.Length == 0 {
			a.Slice.Close()
			return values
		}
		bytes, err := a.Slice.Bytes()
		b.must(err)
		a.Slice.Close()
		if !slices.IsSortedFunc(a.Aborted, func(x, y Aborted) int { return int(x.FirstOffset - y.FirstOffset) }) {
			b.t.Fatalf("aborted transactions are not sorted: %v", a.Aborted)
		}
		void := map[kafka.ProducerID]bool{}
		for one, err := range bytes.All() {
			b.must(err)
			for len(a.Aborted) > 0 && a.Aborted[0].FirstOffset <= one.LastOffset() {
				void[a.Aborted[0].Producer] = true
				a.Aborted = a.Aborted[1:]
			}
			first := from
			from = one.NextOffset()
			if one.IsControl() {
				if m, _, ok := one.Marker(); ok && m == batch.Abort {
					delete(void, one.ProducerID())
				}
				continue
			}
			if one.IsTransactional() && void[one.ProducerID()] {
				continue
			}
			for r, err := range one.Records(1 << 20) {
				b.must(err)
				if r.Offset >= first {
					values = append(values, string(r.Value))
				}
			}
		}
	}
}

func wantOffsets(t testing.TB, p *Partition, start, stable, high, end kafka.Offset) {
	t.Helper()
	o := p.Offsets()
	if got := [4]kafka.Offset{o.LogStart, o.LastStable, o.HighWatermark, o.LogEnd}; got != [4]kafka.Offset{start, stable, high, end} {
		t.Fatalf("start, stable, high watermark, end are %v, want %v; %v", got, [4]kafka.Offset{start, stable, high, end}, p.Err())
	}
}

// await waits until a condition that a watcher is woken for holds.
func await(t testing.TB, p *Partition, what string, holds func() bool) {
	t.Helper()
	w := NewWaiter()
	p.Watch(w)
	defer p.Unwatch(w)
	deadline := time.After(10 * time.Second)
	for !holds() {
		select {
		case <-w.C:
		case <-deadline:
			t.Fatalf("%s: not within 10 s; offsets %+v, error %v", what, p.Offsets(), p.Err())
		}
	}
}

var errDown = errors.New("stream is down")
