package group

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/partition"
)

// loadAtOnce is how many partitions are read side by side.
const loadAtOnce = 4

// recordsMax bounds the decompressed records of one batch of the offsets topic, in bytes.
const recordsMax = 64 << 20

// Load replays the offsets topic's partitions; until it is done requests are answered COORDINATOR_LOAD_IN_PROGRESS. Groups on a
// partition that cannot be read are answered COORDINATOR_NOT_AVAILABLE from then on; only ctx makes Load fail.
func (c *Coordinator) Load(ctx context.Context) error {
	if _, ok := c.env.TopicID(kafka.ConsumerOffsetsTopic); ok {
		reads, ctx := errgroup.WithContext(ctx)
		reads.SetLimit(loadAtOnce)
		for _, s := range c.shards {
			reads.Go(func() error { return c.unlessStopped(ctx, s, c.loadShard(ctx, s)) })
		}
		if err := reads.Wait(); err != nil {
			return err
		}
	}
	now := time.Now()
	for _, g := range c.all() {
		c.wake(g, now)
	}
	if !c.phase.CompareAndSwap(phaseLoading, phaseReady) {
		return context.Canceled
	}
	if c.cfg.OffsetsRetention > 0 {
		c.work.Go(c.expireForEver)
	}
	return nil
}

// unlessStopped takes a partition that could not be read out of service, with its groups; the others go on.
func (c *impl) unlessStopped(ctx context.Context, s *shard, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	c.log.Error("the groups on this partition are out of service until it is repaired and the broker started again",
		"topic", kafka.ConsumerOffsetsTopic, "partition", s.n, "error", err)
	s.failed.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, g := range c.groups {
		if g.shard == s {
			delete(c.groups, id)
		}
	}
	return nil
}

// wake makes the group of what was read about it.
func (c *impl) wake(g *group, now time.Time) {
	g.mu.Lock()
	defer c.leave(g)
	if g.consumer != nil || g.loaded == nil {
		g.core = rebalance.NewClassic(c.limits(), now)
		if g.consumer != nil {
			g.consumer.Wake(now)
			g.arm(c, g.consumer.Next())
		}
		return
	}
	g.core = rebalance.Restore(c.limits(), snapshotOf(g.loaded), now)
	g.loaded = nil
	g.arm(c, g.core.Next())
}

func (c *impl) loadShard(ctx context.Context, s *shard) error {
	log, err := s.get(ctx)
	if err != nil {
		return err
	}
	if err := partition.Replay(ctx, log, func(b batch.Batch) error { return c.replayBatch(s, b) }); err != nil {
		return fmt.Errorf("load %s-%d: %w", kafka.ConsumerOffsetsTopic, s.n, err)
	}
	return nil
}

func (c *impl) replayBatch(s *shard, b batch.Batch) error {
	if b.IsControl() {
		if marker, _, ok := b.Marker(); ok {
			c.replayMarker(s, b.ProducerID(), marker)
		}
		return nil
	}
	by := producer{transactional: b.IsTransactional(), id: b.ProducerID(), epoch: b.ProducerEpoch()}
	for r, err := range b.Records(recordsMax) {
		if err != nil {
			return err
		}
		id, ok := groupOf(r.Key)
		if !ok {
			c.log.Warn("skip a record of a kind that this version does not know", "topic", kafka.ConsumerOffsetsTopic, "partition", s.n, "offset", r.Offset)
			continue
		}
		if err := c.replay(c.loading(s, id), record{r.Key, r.Value, r.Offset}, by); err != nil {
			return fmt.Errorf("offset %d: %w", r.Offset, err)
		}
	}
	return nil
}

// loading finds or makes the group that a record is about. Nobody else uses it before Load is done.
func (c *impl) loading(s *shard, id string) *group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups[id]
	if g == nil {
		g = c.fresh(id)
		g.shard = s
		c.groups[id] = g
	}
	return g
}

// replayMarker decides a transaction's pending offsets: they are committed or forgotten.
func (c *impl) replayMarker(s *shard, id kafka.ProducerID, marker batch.Marker) {
	for _, name := range s.holders(id) {
		c.mu.Lock()
		g := c.groups[name]
		c.mu.Unlock()
		if g == nil {
			continue
		}
		g.decide(id, marker)
		s.releases(id, name)
	}
}

func (g *group) decide(id kafka.ProducerID, marker batch.Marker) {
	if marker == batch.Commit {
		for tp, c := range g.pending[id] {
			// A commit outside the transaction that came after this one stays.
			if there, ok := g.offsets[tp.Topic][tp.Partition]; !ok || there.position < c.position {
				g.put(tp, c)
			}
		}
	}
	delete(g.pending, id)
	delete(g.epochs, id)
}
