package group

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
// partition that cannot be read are answered COORDINATOR_NOT_AVAILABLE until Retry has read it; only ctx makes Load fail.
func (c *Coordinator) Load(ctx context.Context) error {
	found := make([]reading, len(c.shards))
	if _, ok := c.env.TopicID(kafka.ConsumerOffsetsTopic); ok {
		reads, ctx := errgroup.WithContext(ctx)
		reads.SetLimit(loadAtOnce)
		for i, s := range c.shards {
			reads.Go(func() error {
				var err error
				found[i], err = c.loadShard(ctx, s)
				return c.unlessStopped(ctx, s, err)
			})
		}
		if err := reads.Wait(); err != nil {
			return err
		}
	}
	now := time.Now()
	for _, groups := range found {
		c.wakeAll(groups, now)
	}
	if !c.phase.CompareAndSwap(phaseLoading, phaseReady) {
		return context.Canceled
	}
	if c.cfg.OffsetsRetention > 0 {
		c.work.Go(c.expireForEver)
	}
	return nil
}

// Retry reads the partitions again that could not be read, as far as another log is in service in their place now, and
// takes their groups into service. One call at a time; only ctx makes it fail.
func (c *Coordinator) Retry(ctx context.Context) error {
	for _, s := range c.shards {
		if !s.failed.Load() || c.ready() != kafka.None {
			continue
		}
		if err := c.retryShard(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (c *Coordinator) retryShard(ctx context.Context, s *shard) error {
	// No marker may come between what is read and what is shown.
	s.decided.Lock()
	defer s.decided.Unlock()
	if !s.replaced(ctx) {
		return nil
	}
	groups, err := c.loadShard(ctx, s)
	if err != nil {
		return c.unlessStopped(ctx, s, err)
	}
	c.wakeAll(groups, time.Now())
	s.failed.Store(false)
	c.log.Info("the groups on this partition are in service again", "topic", kafka.ConsumerOffsetsTopic, "partition", s.n,
		"groups", len(groups))
	return nil
}

// unlessStopped takes a partition that could not be read out of service, with its groups; the others go on.
func (c *impl) unlessStopped(ctx context.Context, s *shard, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	c.log.Error("the groups on this partition are out of service until it can be read: see docs/out-of-service.md",
		"topic", kafka.ConsumerOffsetsTopic, "partition", s.n, "error", err)
	s.failed.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.pending)
	return nil
}

// wakeAll shows the groups of a partition that was read.
func (c *impl) wakeAll(groups reading, now time.Time) {
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		c.wake(groups[id], now)
	}
}

// wake makes the group of what was read about it, and shows it.
func (c *impl) wake(g *group, now time.Time) {
	g.mu.Lock()
	defer c.leave(g)
	c.mu.Lock()
	c.groups[g.id] = g
	c.mu.Unlock()
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

// reading is the groups of a partition while it is read: nobody else knows of them yet.
type reading map[string]*group

// loading finds or makes the group that a record is about.
func (c *impl) loading(s *shard, groups reading, id string) *group {
	g := groups[id]
	if g == nil {
		g = c.fresh(id)
		g.shard = s
		groups[id] = g
	}
	return g
}

func (c *impl) loadShard(ctx context.Context, s *shard) (reading, error) {
	log, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	groups := reading{}
	if err := partition.Replay(ctx, log, func(b batch.Batch) error { return c.replayBatch(s, groups, b) }); err != nil {
		return nil, fmt.Errorf("load %s-%d: %w", kafka.ConsumerOffsetsTopic, s.n, err)
	}
	return groups, nil
}

func (c *impl) replayBatch(s *shard, groups reading, b batch.Batch) error {
	if b.IsControl() {
		if marker, _, ok := b.Marker(); ok {
			s.decide(b.ProducerID(), marker, func(name string) *group { return groups[name] })
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
			c.log.Warn("skip a record of a kind that this version does not know",
				"topic", kafka.ConsumerOffsetsTopic, "partition", s.n, "offset", r.Offset)
			continue
		}
		if err := c.replay(c.loading(s, groups, id), record{r.Key, r.Value, r.Offset}, by); err != nil {
			return fmt.Errorf("offset %d: %w", r.Offset, err)
		}
	}
	return nil
}

// decide ends a transaction's pending offsets: they are committed or forgotten.
func (s *shard) decide(id kafka.ProducerID, marker batch.Marker, find func(group string) *group) {
	for _, name := range s.holders(id) {
		if g := find(name); g != nil {
			g.decide(id, marker)
			s.releases(id, name)
		}
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
