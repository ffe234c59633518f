package txn_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/hawserio/hawser/store"
	"github.com/hawserio/hawser/store/disk"
	"github.com/hawserio/hawser/txn"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stream is partition entries in memory; they survive a restart.
type stream struct {
	mu     sync.Mutex
	topics map[kafka.TopicID]*meta.Partitions
}

func (s *stream) UpdatePartitions(_ context.Context, topics []kafka.TopicID, decide func(*meta.Partitions) (*meta.Partitions, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range topics {
		next, err := decide(s.topics[id])
		if err != nil {
			return err
		}
		if next != nil {
			s.topics[id] = next
		}
	}
	return nil
}

const prefix = 0x1234567

// house is both coordinators over real partitions.
type house struct {
	dir    string
	stream *stream
	topics map[string]*meta.Topic
	next   kafka.ProducerID
	store  store.Store
	owner  *partition.Owner
	groups *group.Coordinator
	txns   *txn.Coordinator
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{dir: t.TempDir(), stream: &stream{topics: map[kafka.TopicID]*meta.Partitions{}}, topics: map[string]*meta.Topic{}, next: prefix << 32}
	for name, n := range map[string]int32{"t": 4, kafka.ConsumerOffsetsTopic: 5, kafka.TransactionStateTopic: 3} {
		topic := &meta.Topic{ID: kafka.NewTopicID(), Name: name, Partitions: n}
		states := &meta.Partitions{Topic: topic.ID}
		for range n {
			states.List = append(states.List, meta.Partition{Role: meta.RoleOpen, Generation: 1})
		}
		h.topics[name], h.stream.topics[topic.ID] = topic, states
	}
	h.start(t)
	t.Cleanup(h.stop)
	return h
}

func (h *house) find(tp kafka.TopicPartition) *partition.Partition {
	topic := h.topics[tp.Topic]
	if topic == nil {
		return nil
	}
	return h.owner.Get(kafka.PartitionID{Topic: topic.ID, Partition: tp.Partition})
}

func (h *house) start(t *testing.T) {
	t.Helper()
	st, err := disk.Open(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	h.store = st
	h.owner = partition.NewOwner(partition.Config{ClusterID: "c", ProducerPrefix: prefix, SyncDelay: time.Millisecond}, st, h.stream)
	for _, topic := range h.topics {
		cfg := partition.TopicConfig{Log: commitlog.Config{SegmentBytes: 1 << 20, IndexInterval: 4096, SegmentAge: time.Hour}, MaxMessageBytes: 1 << 20,
			TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: math.MaxInt64, Compression: "producer", Compacted: topic.Name != "t"}
		if err := h.owner.Open(topic, h.stream.topics[topic.ID], cfg); err != nil {
			t.Fatal(err)
		}
	}
	topicID := func(name string) (kafka.TopicID, bool) {
		topic := h.topics[name]
		if topic == nil {
			return kafka.TopicID{}, false
		}
		return topic.ID, true
	}
	open := func(name string) func(context.Context, int32) (*partition.Partition, error) {
		return func(_ context.Context, n int32) (*partition.Partition, error) {
			return h.find(kafka.TopicPartition{Topic: name, Partition: n}), nil
		}
	}
	h.groups = group.New(group.Config{SessionMin: time.Second, SessionMax: time.Minute, MetadataMaxBytes: 4096}, group.Env{
		OffsetsPartition: open(kafka.ConsumerOffsetsTopic), OffsetsPartitions: 5, TopicID: topicID,
		Bounds: func(tp kafka.TopicPartition) (start, end kafka.Offset, ok bool) {
			if p := h.find(tp); p != nil {
				at := p.Offsets()
				return at.LogStart, at.HighWatermark, true
			}
			return 0, 0, false
		},
		ConfirmTxn: func(id kafka.ProducerID, epoch int16, tp kafka.TopicPartition) error {
			return h.txns.ConfirmOffsets(id, epoch, tp)
		},
	})
	h.txns = txn.New(txn.Config{}, txn.Env{StatePartition: open(kafka.TransactionStateTopic), StatePartitions: 3, TopicID: topicID, Partition: h.find,
		Offsets: h.groups, OffsetsPartitions: 5, IDs: txn.NewIDs(func(_ context.Context, n int64) (kafka.ProducerID, error) {
			h.next += kafka.ProducerID(n)
			return h.next - kafka.ProducerID(n), nil
		})})
	for _, load := range []func(context.Context) error{h.groups.Load, h.txns.Load} {
		if err := load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (h *house) stop() {
	h.txns.Close()
	h.groups.Close()
	_ = h.owner.Close()
	_ = h.store.Close()
}

// producer is a transactional client.
type producer struct {
	h        *house
	id       string
	producer kafka.ProducerID
	epoch    int16
	sequence map[int32]int32
	enlist   txn.Enlist
}

func (h *house) producer(t *testing.T, id string, enlist txn.Enlist) *producer {
	t.Helper()
	for {
		rq := kmsg.NewPtrInitProducerIDRequest()
		rq.Version, rq.TransactionalID, rq.TransactionTimeoutMillis, rq.ProducerID, rq.ProducerEpoch = 5, &id, 60_000, -1, -1
		resp := h.txns.InitProducerID(t.Context(), rq)
		switch code := kafka.ErrorCode(resp.ErrorCode); code {
		case kafka.None:
			return &producer{h, id, kafka.ProducerID(resp.ProducerID), resp.ProducerEpoch, map[int32]int32{}, enlist}
		case kafka.ConcurrentTransactions: // as a client does, until its time is up
			if t.Context().Err() != nil {
				t.Fatal("init never succeeds")
			}
		default:
			t.Fatalf("init: %v", code)
		}
	}
}

func (p *producer) add(t *testing.T, n int32) {
	t.Helper()
	if p.enlist == txn.EnlistImplicit {
		return
	}
	rq := kmsg.NewPtrAddPartitionsToTxnRequest()
	rq.Version, rq.TransactionalID, rq.ProducerID, rq.ProducerEpoch = 3, p.id, int64(p.producer), p.epoch
	rq.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: []int32{n}}}
	if code := p.h.txns.AddPartitionsToTxn(t.Context(), rq).Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("add: %v", kafka.ErrorCode(code))
	}
}

func (p *producer) produce(t *testing.T, n int32) error {
	t.Helper()
	b, err := batch.Build(batch.Spec{ProducerID: p.producer, ProducerEpoch: p.epoch, BaseSequence: p.sequence[n], Transactional: true},
		[]batch.Record{{Timestamp: 1, Key: []byte("k"), Value: []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	at := kafka.TopicPartition{Topic: "t", Partition: n}
	_, err = p.h.find(at).Append(t.Context(), batch.Batches(b), func(id kafka.ProducerID, epoch int16) error {
		return p.h.txns.Confirm(t.Context(), p.id, at, id, epoch, p.enlist)
	})
	if err == nil {
		p.sequence[n]++
	}
	return err
}

func (p *producer) commitOffset(t *testing.T, group string, offset int64) {
	t.Helper()
	rq := kmsg.NewPtrTxnOffsetCommitRequest()
	rq.Version, rq.TransactionalID, rq.Group, rq.ProducerID, rq.ProducerEpoch, rq.Generation = 3, p.id, group, int64(p.producer), p.epoch, -1
	if p.enlist == txn.EnlistImplicit {
		rq.Version = 5
	} else {
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.Version, add.TransactionalID, add.Group, add.ProducerID, add.ProducerEpoch = 3, p.id, group, int64(p.producer), p.epoch
		if code := p.h.txns.AddOffsetsToTxn(t.Context(), add).ErrorCode; code != 0 {
			t.Fatalf("add offsets: %v", kafka.ErrorCode(code))
		}
	}
	rq.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: 0, Offset: offset}}}}
	if code := p.h.txns.TxnOffsetCommit(t.Context(), rq).Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("txn offset commit: %v", kafka.ErrorCode(code))
	}
}

func (p *producer) end(t *testing.T, commit bool) kafka.ErrorCode {
	t.Helper()
	rq := kmsg.NewPtrEndTxnRequest()
	rq.Version, rq.TransactionalID, rq.ProducerID, rq.ProducerEpoch, rq.Commit = 3, p.id, int64(p.producer), p.epoch, commit
	if p.enlist == txn.EnlistImplicit {
		rq.Version = 5
	}
	resp := p.h.txns.EndTxn(t.Context(), rq)
	if resp.ErrorCode == 0 && rq.Version >= 5 && resp.ProducerEpoch != p.epoch {
		p.producer, p.epoch, p.sequence = kafka.ProducerID(resp.ProducerID), resp.ProducerEpoch, map[int32]int32{}
	}
	return kafka.ErrorCode(resp.ErrorCode)
}

func (h *house) offset(t *testing.T, group string) int64 {
	t.Helper()
	rq := kmsg.NewPtrOffsetFetchRequest()
	rq.Version, rq.Group, rq.RequireStable = 7, group, true
	rq.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	p := h.groups.OffsetFetch(t.Context(), group1, rq).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Fatalf("offset fetch: %v", kafka.ErrorCode(p.ErrorCode))
	}
	return p.Offset
}

var group1 = group.Client{ID: "c", Host: "/127.0.0.1"}

func (h *house) wantAllStable(t *testing.T) {
	t.Helper()
	for n := range int32(4) {
		if at := h.find(kafka.TopicPartition{Topic: "t", Partition: n}).Offsets(); at.LastStable != at.HighWatermark {
			t.Errorf("t-%d: last stable offset %d, high watermark %d", n, at.LastStable, at.HighWatermark)
		}
	}
}

// Reading, writing and committing offsets in transactions over real logs: the offset is there as soon as
// EndTxn has answered, and everything is decided after restarts.
func TestC95_OffsetsAreThereWhenEndTxnAnswers(t *testing.T) {
	for name, enlist := range map[string]txn.Enlist{"classic": txn.EnlistBefore, "KIP-890": txn.EnlistImplicit} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			for n := range int32(4) { // something to read
				seed := h.producer(t, fmt.Sprint("seed", n), txn.EnlistBefore)
				seed.add(t, n)
				for range 60 {
					if err := seed.produce(t, n); err != nil {
						t.Fatal(err)
					}
				}
				if code := seed.end(t, true); code != kafka.None {
					t.Fatal(code)
				}
			}
			p := h.producer(t, "x", enlist)
			last := int64(-1)
			for i := range int64(50) {
				for n := range int32(3) {
					p.add(t, n+1)
					if err := p.produce(t, n+1); err != nil {
						t.Fatalf("round %d: %v", i, err)
					}
				}
				p.commitOffset(t, "g", i)
				commit := i%5 != 3
				if code := p.end(t, commit); code != kafka.None {
					t.Fatalf("round %d: end: %v", i, code)
				}
				if commit {
					last = i
				}
				if got := h.offset(t, "g"); got != last {
					t.Fatalf("round %d: offset %d right after EndTxn, want %d", i, got, last)
				}
				if i == 20 {
					h.stop()
					h.start(t)
				}
			}
			h.wantAllStable(t)
			// Left open: a restart and the next life of the producer end it.
			p.add(t, 1)
			if err := p.produce(t, 1); err != nil {
				t.Fatal(err)
			}
			p.commitOffset(t, "g", 55)
			h.stop()
			h.start(t)
			h.producer(t, "x", enlist)
			if err := p.produce(t, 1); kafka.CodeOf(err) != kafka.InvalidProducerEpoch {
				t.Errorf("the fenced producer writes: %v", err)
			}
			if got := h.offset(t, "g"); got != last {
				t.Errorf("offset %d after the abort, want %d", got, last)
			}
			h.wantAllStable(t)
		})
	}
}

func TestP2_PartitionsRefuseWhatNoTransactionHolds(t *testing.T) {
	h := newHouse(t)
	p := h.producer(t, "x", txn.EnlistBefore)
	if err := p.produce(t, 0); kafka.CodeOf(err) != kafka.InvalidTxnState {
		t.Errorf("not added: %v", err)
	}
	stranger := &producer{h, "x", 0x7654321 << 32, 5, map[int32]int32{}, txn.EnlistImplicit}
	if err := stranger.produce(t, 0); kafka.CodeOf(err) != kafka.InvalidProducerIDMapping {
		t.Errorf("foreign producer: %v", err)
	}
	h.wantAllStable(t)
}
