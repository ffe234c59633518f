package txn

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

// stateLog is what the coordinator needs of one partition of the state topic.
type stateLog interface {
	// append writes a batch and returns the exclusive end of what must be synced.
	append(ctx context.Context, b batch.Batch) (kafka.Offset, error)
	WaitSynced(ctx context.Context, next kafka.Offset) error
	epoch() kafka.LeaderEpoch // the published one
	partition.Replayed
}

// doors are the ways out of the coordinator.
type doors struct {
	open func(ctx context.Context, n int32) (stateLog, error)
	// admit says why no transaction may take the partition in: it is not there, or not open for producers.
	admit func(tp kafka.TopicPartition) error
	// mark appends a marker and returns how to wait for its sync; UNKNOWN_TOPIC_OR_PARTITION if the partition is gone.
	mark func(ctx context.Context, tp kafka.TopicPartition, m marking) (wait func(context.Context) error, err error)
}

// marking is what a marker says.
type marking struct {
	id          kafka.ProducerID
	epoch       int16
	marker      batch.Marker
	coordinator int32 // epoch of this coordinator
}

// partitionLog is a real partition.
type partitionLog struct{ *partition.Partition }

func (l partitionLog) append(ctx context.Context, b batch.Batch) (kafka.Offset, error) {
	appended, err := l.Append(ctx, batch.Batches(b), nil)
	return appended.Next, err
}

func (l partitionLog) epoch() kafka.LeaderEpoch { return l.Offsets().Epoch }

// shard is one partition of the state topic.
type shard struct {
	n    int32
	open func(ctx context.Context, n int32) (stateLog, error)
	// failed says that the partition could not be read: its ids are out of service until Retry has read it.
	failed atomic.Bool

	mu  sync.Mutex
	log stateLog // nil until first needed
}

func (s *shard) get(ctx context.Context) (stateLog, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil {
		return s.log, nil
	}
	log, err := s.open(ctx, s.n)
	if err != nil {
		return nil, fmt.Errorf("open partition %d of %s: %w", s.n, kafka.TransactionStateTopic, err)
	}
	s.log = log
	return log, nil
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

// write appends the id's new state, nil for a tombstone, and replays it. The entry's lock is held. The state may be
// spoken of, and acted on, once entry.synced says so.
func (c *impl) write(ctx context.Context, e *entry, next *transaction) error {
	log, err := e.shard.get(ctx)
	if err != nil {
		return err
	}
	r := batch.Record{Timestamp: time.Now().UnixMilli(), Key: encodeKey(e.id)}
	if next != nil {
		r.Value = encodeValue(*next)
	}
	spec := batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1}
	b, err := batch.Build(spec, []batch.Record{r})
	if err != nil {
		panic("BUG: an uncompressed batch cannot fail to build: " + err.Error())
	}
	end, err := log.append(ctx, b)
	if err != nil {
		return fmt.Errorf("append to %s-%d: %w", kafka.TransactionStateTopic, e.shard.n, err)
	}
	e.end = end
	if err := c.replay(e, r.Value, end); err != nil {
		return err
	}
	if next != nil {
		e.t.lastEpoch = next.lastEpoch
	}
	return nil
}

// after is the id's state after a stored one, nil for a tombstone.
func (e *entry) after(value []byte, end kafka.Offset) (transaction, error) {
	next := transaction{id: e.id, state: Dead}
	if value != nil {
		var err error
		if next, err = decodeValue(e.id, value, end); err != nil {
			return next, err
		}
	}
	for tp := range next.partitions {
		if added, ok := e.t.partitions[tp]; ok && e.t.state == Ongoing {
			next.partitions[tp] = added // an earlier record took it in
		}
	}
	next.lastEpoch = noEpoch
	return next, nil
}

// replay applies a stored state. It is the one place where the state of an id that others know changes.
func (c *impl) replay(e *entry, value []byte, end kafka.Offset) error {
	next, err := e.after(value, end)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.producers[e.t.producer] == e {
		delete(c.producers, e.t.producer)
	}
	if next.state != Dead {
		c.producers[next.producer] = e
	}
	e.t = next
	return nil
}

func (c *impl) synced(ctx context.Context, e *entry, end kafka.Offset) error {
	if end <= 0 {
		return nil
	}
	log, err := e.shard.get(ctx)
	if err != nil {
		return err
	}
	return log.WaitSynced(ctx, end)
}
