package txn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var errCut = errors.New("the power went")

// world is what is around a coordinator: logs in memory, all of which can be cut after a number of writes.
type world struct {
	mu      sync.Mutex
	states  map[int32]*stateFake
	markers map[kafka.TopicPartition][]marking // durable markers by partition
	topics  map[string]bool
	nextID  kafka.ProducerID
	writes  int // so far
	budget  int // writes that still succeed; negative: all
	refuse  error
	cfg     Config
	*Coordinator
}

// stateFake is a partition of the state topic.
type stateFake struct {
	w       *world
	batches []batch.Batch
	next    kafka.Offset
	synced  kafka.Offset
	down    error // out of service
}

// spend counts a write; the caller holds w.mu.
func (w *world) spend() error {
	if w.budget == 0 {
		return errCut
	}
	if w.budget > 0 {
		w.budget--
	}
	w.writes++
	return nil
}

func (l *stateFake) append(_ context.Context, b batch.Batch) (kafka.Offset, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if err := l.w.spend(); err != nil {
		return 0, err
	}
	b.SetBaseOffset(l.next)
	l.batches, l.next = append(l.batches, b), b.NextOffset()
	return l.next, nil
}

// WaitSynced is itself a write that may fail: what was appended is lost then.
func (l *stateFake) WaitSynced(ctx context.Context, next kafka.Offset) error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.synced >= next {
		return nil
	}
	if err := l.w.spend(); err != nil {
		return err
	}
	l.synced = l.next
	return ctx.Err()
}

func (l *stateFake) epoch() kafka.LeaderEpoch { return 4 }

func (l *stateFake) Err() error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.down
}

func (l *stateFake) Bounds() (start, end kafka.Offset) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return 0, l.synced
}

func (l *stateFake) Batches(from kafka.Offset) (batch.Batches, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	var out []byte
	for _, b := range l.batches {
		if b.NextOffset() > from && len(out) < 2048 {
			out = append(out, b...)
		}
	}
	return out, nil
}

const statePartitions = 3

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{states: map[int32]*stateFake{}, markers: map[kafka.TopicPartition][]marking{}, budget: -1, nextID: 1 << 40,
		topics: map[string]bool{"a": true, "b": true, kafka.TransactionStateTopic: true, kafka.ConsumerOffsetsTopic: true}}
	w.start(t)
	return w
}

func (w *world) start(t *testing.T) {
	t.Helper()
	env := Env{StatePartitions: statePartitions, OffsetsPartitions: 5, Offsets: w, IDs: NewIDs(func(_ context.Context, n int64) (kafka.ProducerID, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		first := w.nextID
		w.nextID += kafka.ProducerID(n)
		return first, nil
	}), TopicID: func(name string) (kafka.TopicID, bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return kafka.TopicID{1}, w.topics[name]
	}, Refuse: func(kafka.TopicPartition) error { return w.refuse }}
	d := doors{open: func(_ context.Context, n int32) (stateLog, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.states[n] == nil {
			w.states[n] = &stateFake{w: w}
		}
		return w.states[n], nil
	}, admit: func(tp kafka.TopicPartition) error {
		if !w.exists(tp) {
			return kafka.UnknownTopicOrPartition
		}
		return nil
	}, mark: w.mark}
	w.Coordinator = newCoordinator(w.cfg, env, d)
	if err := w.Load(t.Context()); err != nil {
		t.Fatalf("load: %v", err)
	}
	t.Cleanup(w.Coordinator.Close)
}

func (w *world) exists(tp kafka.TopicPartition) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.topics[tp.Topic] && tp.Partition < 5
}

func (w *world) mark(_ context.Context, tp kafka.TopicPartition, m marking) (func(context.Context) error, error) {
	if !w.exists(tp) {
		return nil, kafka.UnknownTopicOrPartition
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.spend(); err != nil {
		return nil, err
	}
	w.markers[tp] = append(w.markers[tp], m)
	return func(context.Context) error { return nil }, nil
}

func (w *world) WriteMarker(ctx context.Context, n int32, id kafka.ProducerID, epoch int16, marker batch.Marker, ce int32) error {
	_, err := w.mark(ctx, tp(kafka.ConsumerOffsetsTopic, n), marking{id, epoch, marker, ce})
	return err
}

func (w *world) TxnOffsetCommit(_ context.Context, rq *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse {
	n := kafka.PartitionFor(rq.Group, 5)
	err := w.ConfirmOffsets(kafka.ProducerID(rq.ProducerID), rq.ProducerEpoch, tp(kafka.ConsumerOffsetsTopic, n))
	return refuseOffsets(rq, kafka.CodeOf(err))
}

// restart crashes: what was not synced is gone. Writes work again.
func (w *world) restart(t *testing.T) {
	t.Helper()
	w.Close()
	w.mu.Lock()
	w.budget = -1
	for _, l := range w.states {
		kept := &stateFake{w: w}
		for _, b := range l.batches {
			if b.NextOffset() <= l.synced {
				kept.batches = append(kept.batches, bytes.Clone(b))
				kept.next, kept.synced = b.NextOffset(), b.NextOffset()
			}
		}
		l.batches, l.next, l.synced = kept.batches, kept.next, kept.synced
	}
	w.mu.Unlock()
	w.start(t)
}

func (w *world) markersOn(at kafka.TopicPartition) []marking {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]marking(nil), w.markers[at]...)
}

func tp(topic string, p int32) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: topic, Partition: p}
}

func (w *world) init(ctx context.Context, id string) (identity, kafka.ErrorCode) {
	return w.initFrom(ctx, id, identity{kafka.NoProducerID, -1})
}

func (w *world) initFrom(ctx context.Context, id string, from identity) (identity, kafka.ErrorCode) {
	rq := kmsg.NewPtrInitProducerIDRequest()
	rq.Version, rq.TransactionalID, rq.TransactionTimeoutMillis = 5, &id, 60_000
	rq.ProducerID, rq.ProducerEpoch = int64(from.producer), from.epoch
	resp := w.InitProducerID(ctx, rq)
	return identity{kafka.ProducerID(resp.ProducerID), resp.ProducerEpoch}, kafka.ErrorCode(resp.ErrorCode)
}

func (w *world) mustInit(t *testing.T, id string) identity {
	t.Helper()
	who, code := w.init(t.Context(), id)
	if code != kafka.None {
		t.Fatalf("init %q: %v", id, code)
	}
	return who
}

// addTo is AddPartitionsToTxn; it returns the first error.
func (w *world) addTo(ctx context.Context, id string, who identity, parts ...kafka.TopicPartition) kafka.ErrorCode {
	rq := kmsg.NewPtrAddPartitionsToTxnRequest()
	rq.Version, rq.TransactionalID, rq.ProducerID, rq.ProducerEpoch = 3, id, int64(who.producer), who.epoch
	for _, at := range parts {
		rq.Topics = append(rq.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: at.Topic, Partitions: []int32{at.Partition}})
	}
	for _, t := range w.AddPartitionsToTxn(ctx, rq).Topics {
		if code := kafka.ErrorCode(t.Partitions[0].ErrorCode); code != kafka.None && code != kafka.OperationNotAttempted {
			return code
		}
	}
	return kafka.None
}

func (w *world) endTo(ctx context.Context, id string, who identity, commit bool, version int16) (identity, kafka.ErrorCode) {
	rq := kmsg.NewPtrEndTxnRequest()
	rq.Version, rq.TransactionalID, rq.ProducerID, rq.ProducerEpoch, rq.Commit = version, id, int64(who.producer), who.epoch, commit
	resp := w.EndTxn(ctx, rq)
	return identity{kafka.ProducerID(resp.ProducerID), resp.ProducerEpoch}, kafka.ErrorCode(resp.ErrorCode)
}

func (w *world) stateOf(t *testing.T, id string) kmsg.DescribeTransactionsResponseTransactionState {
	t.Helper()
	rq := kmsg.NewPtrDescribeTransactionsRequest()
	rq.TransactionalIDs = []string{id}
	return w.DescribeTransactions(t.Context(), rq).TransactionStates[0]
}

// settled waits until no markers of the id are being written.
func (w *world) settled(t *testing.T, id string) {
	t.Helper()
	e := w.lookup(id)
	if e == nil {
		return
	}
	done := e.done
	w.leave(e)
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatalf("the transaction of %q is not completed: %+v", id, w.stateOf(t, id))
	}
}

func want(t *testing.T, what string, got, want kafka.ErrorCode) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func show(m []marking) string { return fmt.Sprintf("%+v", m) }
