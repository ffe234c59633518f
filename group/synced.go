package group

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// CommitSynced writes a source's offsets for a group without members here (with
// members: GROUP_ID conflict as kafka.NonEmptyGroup). Each is written only if live says, under the group's lock, that
// its mirror still belongs to the link at the generation that the task read (rule G1), and clamped to the partition's bounds. Equal values
// are not written again, unless they are on the way to expiring.
// written counts what was. Leader epochs are stored as -1 (rule E4).
func (c *Coordinator) CommitSynced(ctx context.Context, group string, offsets []Synced,
	live func(kafka.TopicPartition) bool) (written int, err error) {
	if code := c.readyFor(group); code != kafka.None {
		return 0, code
	}
	if len(group) > nameMax {
		return 0, kafka.InvalidGroupID
	}
	g := c.enter(group)
	if g == nil {
		return 0, kafka.NotCoordinator
	}
	if !g.idle() {
		c.leave(g)
		return 0, kafka.Errorf(kafka.NonEmptyGroup, "group %q has members on this cluster: its offsets are not taken from the source",
			group)
	}
	var records []record
	for _, want := range offsets {
		if r, ok := c.syncedRecord(g, want, live); ok {
			records = append(records, r)
		}
	}
	err = c.write(ctx, g, producer{}, records)
	end := g.end
	c.leave(g)
	if err != nil {
		return 0, fmt.Errorf("commit synced offsets of group %q: %w", group, err)
	}
	if len(records) == 0 {
		return 0, nil
	}
	if err := c.synced(ctx, g, end); err != nil {
		return 0, fmt.Errorf("commit synced offsets of group %q: %w", group, err)
	}
	return len(records), nil
}

func (c *impl) syncedRecord(g *group, want Synced, live func(kafka.TopicPartition) bool) (record, bool) {
	tp := want.TopicPartition
	if want.Offset < 0 || len(want.Metadata) > 1<<15-1 || !live(tp) {
		return record{}, false
	}
	start, end, ok := c.env.Bounds(tp)
	if !ok || end == kafka.NoOffset {
		return record{}, false
	}
	id, _ := c.env.TopicID(tp.Topic)
	now := time.Now()
	next := commit{offset: min(max(want.Offset, start), end), epoch: kafka.NoEpoch, metadata: want.Metadata,
		at: now.UnixMilli(), expires: -1, topic: id}
	if had, ok := c.committed(g, tp); ok && had.offset == next.offset && had.metadata == next.metadata {
		age := now.Sub(time.UnixMilli(had.at))
		if c.cfg.OffsetsRetention <= 0 || age < c.cfg.OffsetsRetention/2 {
			return record{}, false
		}
	}
	return offsetRecord(g.id, tp, next), true
}

// Clamp lowers every group's offset on the topic's partitions that is above end (by partition; exclusive
// end, the stop point) to it, durably, also those in transactions that are not decided (rule T8). It counts those it lowered.
func (c *Coordinator) Clamp(ctx context.Context, topic string, ends []kafka.Offset) (lowered int, err error) {
	if code := c.ready(); code != kafka.None {
		return 0, code
	}
	var touched []*group
	for _, g := range c.all() {
		n, err := c.clampGroup(ctx, g, topic, ends)
		if err != nil {
			return lowered, fmt.Errorf("clamp the offsets of group %q on topic %q: %w", g.id, topic, err)
		}
		if n > 0 {
			lowered += n
			touched = append(touched, g)
		}
	}
	for _, g := range touched {
		g.mu.Lock()
		end := g.end
		g.mu.Unlock()
		if err := c.synced(ctx, g, end); err != nil {
			return lowered, fmt.Errorf("clamp the offsets of group %q on topic %q: %w", g.id, topic, err)
		}
	}
	return lowered, nil
}

func (c *impl) clampGroup(ctx context.Context, g *group, topic string, ends []kafka.Offset) (lowered int, err error) {
	g.shard.decided.RLock()
	defer g.shard.decided.RUnlock()
	g.mu.Lock()
	defer c.leave(g)
	if g.gone || len(g.offsets[topic]) == 0 && len(g.pending) == 0 {
		return 0, nil
	}
	var plain []record
	for p, end := range ends {
		tp := kafka.TopicPartition{Topic: topic, Partition: int32(p)}
		claims := g.claims(tp)
		first := slices.IndexFunc(claims, func(one claim) bool { return one.offset > end })
		if first < 0 {
			continue
		}
		// What is written again becomes the newest: so must be all that was newer before, in the same order.
		for _, one := range claims[first:] {
			if one.offset > end {
				one.offset, one.epoch = end, kafka.NoEpoch
				lowered++
			}
			if len(claims) == 1 && !one.by.transactional {
				plain = append(plain, offsetRecord(g.id, tp, one.commit))
				continue
			}
			if err := c.write(ctx, g, one.by, []record{offsetRecord(g.id, tp, one.commit)}); err != nil {
				return lowered, err
			}
		}
	}
	return lowered, c.write(ctx, g, producer{}, plain)
}

// claim is an offset committed on a partition: outside of transactions, or in one that is not decided.
type claim struct {
	commit
	by producer
}

// claims lists what is committed on the partition, the oldest first.
func (g *group) claims(tp kafka.TopicPartition) []claim {
	var list []claim
	if found, ok := g.offsets[tp.Topic][tp.Partition]; ok {
		list = append(list, claim{found, producer{}})
	}
	for id, held := range g.pending {
		if found, ok := held[tp]; ok {
			list = append(list, claim{found, producer{transactional: true, id: id, epoch: g.epochs[id]}})
		}
	}
	slices.SortFunc(list, func(a, b claim) int { return cmp.Compare(a.position, b.position) })
	return list
}

// Committed lists the offsets of all groups on one topic, for lag and dry runs.
func (c *Coordinator) Committed(topic string) map[string][]Synced {
	all := map[string][]Synced{}
	for _, g := range c.all() {
		g.mu.Lock()
		for p := range g.offsets[topic] {
			tp := kafka.TopicPartition{Topic: topic, Partition: p}
			if found, ok := c.committed(g, tp); ok && !g.gone {
				all[g.id] = append(all[g.id], Synced{TopicPartition: tp, Offset: found.offset, Metadata: found.metadata})
			}
		}
		g.mu.Unlock()
	}
	return all
}
