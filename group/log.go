package group

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/partition"
)

// offsetsLog is what the coordinator needs of one partition of the offsets topic.
type offsetsLog interface {
	// append writes a batch and returns the exclusive end of what must be synced.
	append(ctx context.Context, b batch.Batch, confirm func(kafka.ProducerID, int16) error) (kafka.Offset, error)
	marker(ctx context.Context, id kafka.ProducerID, epoch int16, m batch.Marker, coordinatorEpoch int32) (kafka.Offset, error)
	WaitSynced(ctx context.Context, next kafka.Offset) error
	partition.Replayed
}

// partitionLog is a real partition.
type partitionLog struct{ *partition.Partition }

func (l partitionLog) append(ctx context.Context, b batch.Batch, confirm func(kafka.ProducerID, int16) error) (kafka.Offset, error) {
	appended, err := l.Append(ctx, batch.Batches(b), confirm)
	return appended.Next, err
}

func (l partitionLog) marker(ctx context.Context, id kafka.ProducerID, epoch int16, m batch.Marker,
	coordinatorEpoch int32) (kafka.Offset, error) {
	appended, err := l.AppendMarker(ctx, id, epoch, m, coordinatorEpoch)
	return appended.Next, err
}

// shard is one partition of the offsets topic: the groups whose name falls on it.
type shard struct {
	n    int32
	open func(ctx context.Context, n int32) (offsetsLog, error)
	// failed says that the partition could not be read: its groups are out of service until Retry has read it.
	failed atomic.Bool

	// decided orders a transaction's pending offsets against its marker: shared while they are
	// written, exclusive while the marker is. Taken before a group's lock.
	decided sync.RWMutex

	mu  sync.Mutex
	log offsetsLog // nil until first needed
	// pending names the groups that hold offsets of an open transaction, by producer.
	pending map[kafka.ProducerID]map[string]struct{}
}

func (s *shard) get(ctx context.Context) (offsetsLog, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil {
		return s.log, nil
	}
	log, err := s.open(ctx, s.n)
	if err != nil {
		return nil, fmt.Errorf("open partition %d of %s: %w", s.n, kafka.ConsumerOffsetsTopic, err)
	}
	s.log = log
	return log, nil
}

// unopened reports whether there never was a log.
func (s *shard) unopened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log == nil
}

// replaced takes the log that is in service now, if it is another than the one that could not be read.
func (s *shard) replaced(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := s.open(ctx, s.n)
	if err != nil || log == s.log || log.Err() != nil {
		return false
	}
	s.log = log
	return true
}

func (s *shard) holds(id kafka.ProducerID, group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[id] == nil {
		s.pending[id] = map[string]struct{}{}
	}
	s.pending[id][group] = struct{}{}
}

func (s *shard) releases(id kafka.ProducerID, group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending[id], group)
	if len(s.pending[id]) == 0 {
		delete(s.pending, id)
	}
}

func (s *shard) holders(id kafka.ProducerID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups := make([]string, 0, len(s.pending[id]))
	for group := range s.pending[id] {
		groups = append(groups, group)
	}
	return groups
}

// producer is whose transaction records belong to; the zero value is nobody's.
type producer struct {
	transactional bool
	id            kafka.ProducerID
	epoch         int16
}

// batchBytes bounds the keys and values of one batch that we write.
const batchBytes = 256 << 10

// write appends the records, in batches, and replays each batch into the group once it is
// appended: what is in memory is what replaying the log would give. The group's lock is held. The records are
// shown, and an answer may speak of them, once synced says so.
func (c *impl) write(ctx context.Context, g *group, by producer, records []record) error {
	log, err := g.shard.get(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	for len(records) > 0 {
		n, size := 0, 0
		for n < len(records) && (n == 0 || size+len(records[n].key)+len(records[n].value) <= batchBytes) {
			size += len(records[n].key) + len(records[n].value)
			n++
		}
		next, err := log.append(ctx, encodeBatch(records[:n], by, now), c.confirm(g.shard.n))
		if err != nil {
			return fmt.Errorf("append to %s-%d: %w", kafka.ConsumerOffsetsTopic, g.shard.n, err)
		}
		g.end = next
		for i, r := range records[:n] {
			r.position = next - kafka.Offset(n-i)
			if err := c.replay(g, r, by); err != nil {
				return err
			}
		}
		records = records[n:]
	}
	return nil
}

func (c *impl) confirm(n int32) func(kafka.ProducerID, int16) error {
	if c.env.ConfirmTxn == nil {
		return nil
	}
	tp := kafka.TopicPartition{Topic: kafka.ConsumerOffsetsTopic, Partition: n}
	return func(id kafka.ProducerID, epoch int16) error { return c.env.ConfirmTxn(id, epoch, tp) }
}

// synced waits until everything below end is durable.
func (c *impl) synced(ctx context.Context, g *group, end kafka.Offset) error {
	if end <= 0 {
		return nil
	}
	log, err := g.shard.get(ctx)
	if err != nil {
		return err
	}
	return log.WaitSynced(ctx, end)
}

func encodeBatch(records []record, by producer, now time.Time) batch.Batch {
	list := make([]batch.Record, len(records))
	for i, r := range records {
		list[i] = batch.Record{Offset: kafka.Offset(i), Timestamp: now.UnixMilli(), Key: r.key, Value: r.value}
	}
	spec := batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1}
	if by.transactional {
		spec.ProducerID, spec.ProducerEpoch, spec.Transactional = by.id, by.epoch, true
	}
	b, err := batch.Build(spec, list)
	if err != nil {
		panic("BUG: an uncompressed batch cannot fail to build: " + err.Error())
	}
	return b
}
