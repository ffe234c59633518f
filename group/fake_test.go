package group

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var errCut = errors.New("the log was cut")

// fakeLog is a partition in memory. Everything that was appended is synced unless held.
type fakeLog struct {
	mu      sync.Mutex
	changed *sync.Cond
	batches []batch.Batch
	next    kafka.Offset
	synced  kafka.Offset
	hold    bool // appends are not synced until release
	fail    error
	down    error // out of service
}

func newFakeLog() *fakeLog {
	l := &fakeLog{}
	l.changed = sync.NewCond(&l.mu)
	return l
}

func (l *fakeLog) append(_ context.Context, b batch.Batch, confirm func(kafka.ProducerID, int16) error) (kafka.Offset, error) {
	if b.IsTransactional() {
		if confirm == nil {
			return 0, kafka.InvalidTxnState
		}
		if err := confirm(b.ProducerID(), b.ProducerEpoch()); err != nil {
			return 0, err
		}
	}
	return l.add(b)
}

func (l *fakeLog) add(b batch.Batch) (kafka.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return 0, l.fail
	}
	b.SetBaseOffset(l.next)
	l.batches, l.next = append(l.batches, b), b.NextOffset()
	if !l.hold {
		l.synced = l.next
	}
	l.changed.Broadcast()
	return l.next, nil
}

func (l *fakeLog) marker(_ context.Context, id kafka.ProducerID, epoch int16, m batch.Marker, ce int32) (kafka.Offset, error) {
	return l.add(batch.BuildMarker(batch.Spec{ProducerID: id, ProducerEpoch: epoch}, m, ce, time.Now().UnixMilli()))
}

func (l *fakeLog) WaitSynced(ctx context.Context, next kafka.Offset) error {
	stop := context.AfterFunc(ctx, func() { l.mu.Lock(); l.changed.Broadcast(); l.mu.Unlock() })
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.synced < next && ctx.Err() == nil {
		l.changed.Wait()
	}
	return ctx.Err()
}

func (l *fakeLog) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold, l.synced = false, l.next
	l.changed.Broadcast()
}

func (l *fakeLog) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

func (l *fakeLog) Bounds() (start, end kafka.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 0, l.synced
}

func (l *fakeLog) Batches(from kafka.Offset) (batch.Batches, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []byte
	for _, b := range l.batches {
		if b.NextOffset() > from && len(out) < 4096 {
			out = append(out, b...)
		}
	}
	return out, nil
}

// crash drops what was not synced.
func (l *fakeLog) crash() *fakeLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	after := newFakeLog()
	for _, b := range l.batches {
		if b.NextOffset() <= l.synced {
			after.batches = append(after.batches, bytes.Clone(b))
			after.next, after.synced = b.NextOffset(), b.NextOffset()
		}
	}
	return after
}

// broker is the fake world around a coordinator.
type broker struct {
	mu     sync.Mutex
	logs   map[int32]*fakeLog
	topics map[string]kafka.TopicID
	ends   map[kafka.TopicPartition]kafka.Offset
	mirror string // the topic that is one
	cfg    Config

	revision int64
	*Coordinator
}

const fakePartitions = 4

func newBroker(t *testing.T, topics ...string) *broker {
	t.Helper()
	b := &broker{logs: map[int32]*fakeLog{}, topics: map[string]kafka.TopicID{kafka.ConsumerOffsetsTopic: kafka.NewTopicID()},
		ends: map[kafka.TopicPartition]kafka.Offset{},
		cfg: Config{SessionMin: time.Second, SessionMax: 30 * time.Minute, MaxSize: 100, MetadataMaxBytes: 4096,
			OffsetsRetention: 7 * 24 * time.Hour}}
	for _, topic := range topics {
		b.makeTopic(topic)
	}
	b.start(t)
	return b
}

func (b *broker) makeTopic(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.topics[topic] = kafka.NewTopicID()
	for p := range int32(4) {
		b.ends[kafka.TopicPartition{Topic: topic, Partition: p}] = 1000
	}
}

func (b *broker) deleteTopic(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.topics, topic)
	for p := range int32(4) {
		delete(b.ends, kafka.TopicPartition{Topic: topic, Partition: p})
	}
}

func (b *broker) setEnd(tp kafka.TopicPartition, end kafka.Offset) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends[tp] = end
}

func (b *broker) logOf(n int32) *fakeLog {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.logs[n] == nil {
		b.logs[n] = newFakeLog()
	}
	return b.logs[n]
}

func (b *broker) groupLog(group string) *fakeLog {
	return b.logOf(kafka.PartitionFor(group, fakePartitions))
}

func (b *broker) env() Env {
	return Env{OffsetsPartitions: fakePartitions,
		Bounds: func(tp kafka.TopicPartition) (start, end kafka.Offset, ok bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			end, ok = b.ends[tp]
			return 0, end, ok
		},
		Mirrored: func(topic string) bool { return topic == b.mirror },
		TopicID: func(name string) (kafka.TopicID, bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			id, ok := b.topics[name]
			return id, ok
		},
		Image: func() *meta.Image {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.revision++
			image := &meta.Image{Revision: b.revision, TopicIDs: maps.Clone(b.topics), Topics: map[kafka.TopicID]*meta.Topic{}}
			for name, id := range b.topics {
				image.Topics[id] = &meta.Topic{ID: id, Name: name, Partitions: 4}
			}
			return image
		},
		ConfirmTxn: func(kafka.ProducerID, int16, kafka.TopicPartition) error { return nil },
	}
}

func (b *broker) start(t *testing.T) {
	t.Helper()
	b.Coordinator = newCoordinator(b.cfg, b.env(), func(_ context.Context, n int32) (offsetsLog, error) { return b.logOf(n), nil })
	if err := b.Load(t.Context()); err != nil {
		t.Fatalf("load: %v", err)
	}
	c := b.Coordinator
	t.Cleanup(c.Close)
}

// restart crashes the broker and starts it again on what was synced.
func (b *broker) restart(t *testing.T) {
	t.Helper()
	b.Close()
	b.mu.Lock()
	for n, l := range b.logs {
		b.logs[n] = l.crash()
	}
	b.mu.Unlock()
	b.start(t)
}

var someone = Client{ID: "client", Host: "/127.0.0.1", Principal: "User:ANONYMOUS"}

func tp(topic string, p int32) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: topic, Partition: p}
}

// commit commits one offset as nobody's member and returns the code.
func (b *broker) commit(t *testing.T, group string, at kafka.TopicPartition, offset int64, metadata *string) kafka.ErrorCode {
	t.Helper()
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Version, rq.Group, rq.Generation = 8, group, -1
	topic, part := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	topic.Topic, part.Partition, part.Offset, part.Metadata, part.LeaderEpoch = at.Topic, at.Partition, offset, metadata, 3
	topic.Partitions = append(topic.Partitions, part)
	rq.Topics = append(rq.Topics, topic)
	return kafka.ErrorCode(b.OffsetCommit(t.Context(), someone, rq).Topics[0].Partitions[0].ErrorCode)
}

func (b *broker) fetch(t *testing.T, group string, at kafka.TopicPartition) kmsg.OffsetFetchResponseGroupTopicPartition {
	t.Helper()
	return b.fetchStable(t, group, at, false)
}

func (b *broker) fetchStable(t *testing.T, group string, at kafka.TopicPartition, stable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	t.Helper()
	rq := kmsg.NewPtrOffsetFetchRequest()
	rq.Version, rq.RequireStable = 8, stable
	g := kmsg.NewOffsetFetchRequestGroup()
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	g.Group, topic.Topic, topic.Partitions = group, at.Topic, []int32{at.Partition}
	g.Topics = append(g.Topics, topic)
	rq.Groups = append(rq.Groups, g)
	resp := b.OffsetFetch(t.Context(), someone, rq)
	if code := resp.Groups[0].ErrorCode; code != 0 {
		t.Fatalf("offset fetch of %q: %v", group, kafka.ErrorCode(code))
	}
	return resp.Groups[0].Topics[0].Partitions[0]
}

func (b *broker) wantOffset(t *testing.T, group string, at kafka.TopicPartition, want int64) {
	t.Helper()
	if got := b.fetch(t, group, at).Offset; got != want {
		t.Errorf("offset of group %q on %s is %d, want %d", group, at, got, want)
	}
}
