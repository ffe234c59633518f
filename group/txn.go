package group

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TxnOffsetCommit stores offsets that count once their producer's transaction is committed. The transaction
// coordinator has added the group's partition to the transaction before.
func (c *Coordinator) TxnOffsetCommit(ctx context.Context, rq *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse {
	var list []asked
	for _, t := range rq.Topics {
		for _, p := range t.Partitions {
			list = append(list, asked{tp: kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition},
				offset: p.Offset, epoch: p.LeaderEpoch, metadata: p.Metadata})
		}
	}
	if rq.Version < 2 {
		for i := range list {
			list[i].epoch = int32(kafka.NoEpoch)
		}
	}
	if code := c.commitPending(ctx, rq, list); code != kafka.None {
		for i := range list {
			list[i].code = code
		}
	}
	resp := rq.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	next := 0
	for _, t := range rq.Topics {
		topic := kmsg.NewTxnOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, int16(list[next].code)
			topic.Partitions = append(topic.Partitions, partition)
			next++
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func (c *impl) commitPending(ctx context.Context, rq *kmsg.TxnOffsetCommitRequest, list []asked) kafka.ErrorCode {
	if code := c.readyFor(rq.Group); code != kafka.None {
		return code
	}
	if len(rq.Group) > nameMax {
		return kafka.InvalidGroupID
	}
	memberID, generation := rq.MemberID, rq.Generation
	if rq.Version < 3 {
		memberID, generation = "", -1
	}
	shard := c.shards[kafka.PartitionFor(rq.Group, int32(len(c.shards)))]
	write := func() (*group, kafka.Offset, kafka.ErrorCode) {
		shard.decided.RLock()
		defer shard.decided.RUnlock()
		g, code := c.lockForTxn(rq.Group, generation)
		if code != kafka.None {
			return nil, 0, code
		}
		defer c.leave(g)
		if code := g.mayCommitPending(membership{memberID, rq.InstanceID, generation}, time.Now()); code != kafka.None {
			return nil, 0, code
		}
		by := producer{transactional: true, id: kafka.ProducerID(rq.ProducerID), epoch: rq.ProducerEpoch}
		if err := c.write(ctx, g, by, c.records(g, list, -1)); err != nil {
			return nil, 0, storeCode(err)
		}
		return g, g.end, kafka.None
	}
	g, end, code := write()
	if code != kafka.None {
		return code
	}
	if err := c.synced(ctx, g, end); err != nil {
		return waitCode(err)
	}
	return kafka.None
}

func (c *impl) lockForTxn(id string, generation int32) (*group, kafka.ErrorCode) {
	var g *group
	if generation < 0 {
		g = c.enter(id)
	} else {
		g = c.lookup(id)
	}
	if g != nil {
		return g, kafka.None
	}
	if code := c.readyFor(id); code != kafka.None {
		return nil, code
	}
	return nil, kafka.IllegalGeneration
}

// WriteMarker ends the producer's transaction in partition n of the offsets topic: what it has committed there counts
// from now on, or is forgotten. It returns once that is durable.
func (c *Coordinator) WriteMarker(ctx context.Context, n int32, id kafka.ProducerID, epoch int16, marker batch.Marker,
	coordinatorEpoch int32) error {
	if code := c.ready(); code != kafka.None {
		return code
	}
	if n < 0 || int(n) >= len(c.shards) {
		return kafka.UnknownTopicOrPartition
	}
	s := c.shards[n]
	if s.failed.Load() && s.unopened() {
		return kafka.CoordinatorNotAvailable // Retry must be the first to read it
	}
	log, err := s.get(ctx)
	if err != nil {
		return err
	}
	end, err := c.mark(s, func() (kafka.Offset, error) { return log.marker(ctx, id, epoch, marker, coordinatorEpoch) }, id, marker)
	if err != nil {
		return fmt.Errorf("append a marker to %s-%d: %w", kafka.ConsumerOffsetsTopic, n, err)
	}
	return log.WaitSynced(ctx, end)
}

// mark appends a marker and decides the pending offsets, with all groups that hold some locked, in order of their names.
func (c *impl) mark(s *shard, write func() (kafka.Offset, error), id kafka.ProducerID, marker batch.Marker) (kafka.Offset, error) {
	s.decided.Lock()
	defer s.decided.Unlock()
	names := s.holders(id)
	slices.Sort(names)
	for _, name := range names {
		if g := c.lookup(name); g != nil {
			defer c.leave(g)
		}
	}
	end, err := write()
	if err != nil {
		return 0, err
	}
	find := func(name string) *group {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.groups[name]
	}
	s.decide(id, marker, find)
	for _, name := range names {
		if g := find(name); g != nil {
			g.end = max(g.end, end)
		}
	}
	return end, nil
}
