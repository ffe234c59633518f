package group

import (
	"context"
	"time"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerProtocol is the protocol type of consumers; other users of groups (Connect) have their own.
const consumerProtocol = "consumer"

// DeleteGroups deletes groups without members, with their offsets.
func (c *Coordinator) DeleteGroups(ctx context.Context, rq *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	resp := rq.ResponseKind().(*kmsg.DeleteGroupsResponse)
	for _, id := range rq.Groups {
		deleted := kmsg.NewDeleteGroupsResponseGroup()
		deleted.Group, deleted.ErrorCode = id, int16(c.deleteGroup(ctx, id))
		resp.Groups = append(resp.Groups, deleted)
	}
	return resp
}

func (c *impl) deleteGroup(ctx context.Context, id string) kafka.ErrorCode {
	if code := c.readyFor(id); code != kafka.None {
		return code
	}
	g := c.lookup(id)
	if g == nil {
		return kafka.GroupIDNotFound
	}
	if !g.empty() {
		c.leave(g)
		return kafka.NonEmptyGroup
	}
	err := c.write(ctx, g, producer{}, g.tombstones())
	if err == nil {
		c.settle(g, g.core.Kill(kafka.GroupIDNotFound, time.Now()))
		c.forget(g)
	}
	end := g.end
	c.leave(g)
	if err == nil {
		err = c.synced(ctx, g, end)
	}
	if err != nil {
		return waitCode(err)
	}
	return kafka.None
}

// tombstones are the records that undo everything stored about the group.
func (g *group) tombstones() []record {
	var records []record
	for topic, partitions := range g.offsets {
		for p := range partitions {
			records = append(records, offsetTombstone(g.id, kafka.TopicPartition{Topic: topic, Partition: p}))
		}
	}
	for _, held := range g.pending {
		for tp := range held {
			records = append(records, offsetTombstone(g.id, tp))
		}
	}
	return append(records, g.epitaph()...)
}

// OffsetDelete deletes committed offsets on topics that nobody in the group subscribes to.
func (c *Coordinator) OffsetDelete(ctx context.Context, rq *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	resp := rq.ResponseKind().(*kmsg.OffsetDeleteResponse)
	if rq.Group == "" {
		resp.ErrorCode = int16(kafka.InvalidGroupID)
		return resp
	}
	if code := c.readyFor(rq.Group); code != kafka.None {
		resp.ErrorCode = int16(code)
		return resp
	}
	g := c.lookup(rq.Group)
	if g == nil {
		resp.ErrorCode = int16(kafka.GroupIDNotFound)
		return resp
	}
	if !g.empty() && g.protocolType() != consumerProtocol {
		resp.ErrorCode = int16(kafka.NonEmptyGroup)
		c.leave(g)
		return resp
	}
	subscribed := g.subscription()
	var records []record
	for _, t := range rq.Topics {
		topic := kmsg.NewOffsetDeleteResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			deleted := kmsg.NewOffsetDeleteResponseTopicPartition()
			deleted.Partition = p.Partition
			if _, _, ok := c.env.Bounds(tp); !ok {
				deleted.ErrorCode = int16(kafka.UnknownTopicOrPartition)
			} else if subscribed.has(t.Topic) {
				deleted.ErrorCode = int16(kafka.GroupSubscribedToTopic)
			} else if _, ok := g.offsets[tp.Topic][tp.Partition]; ok || g.undecided(tp) {
				records = append(records, offsetTombstone(g.id, tp))
			}
			topic.Partitions = append(topic.Partitions, deleted)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	err := c.write(ctx, g, producer{}, records)
	end := g.end
	c.leave(g)
	if err == nil {
		err = c.synced(ctx, g, end)
	}
	if err != nil {
		resp.Topics, resp.ErrorCode = nil, int16(waitCode(err))
	}
	return resp
}

// subscription is the topics that the members want.
type subscription struct {
	consumer *rebalance.Consumer // asked instead, if set
	topics   map[string]struct{}
	unknown  bool // a member's metadata cannot be read: it may want any
}

func (s subscription) has(topic string) bool {
	if s.consumer != nil {
		return s.consumer.Subscribed(topic)
	}
	_, ok := s.topics[topic]
	return ok || s.unknown
}

func (g *group) subscription() subscription {
	s := subscription{consumer: g.consumer, topics: map[string]struct{}{}}
	if g.consumer != nil || g.core.ProtocolType() != consumerProtocol {
		return s
	}
	for _, m := range g.core.Members() {
		if len(m.Protocols) == 0 {
			continue
		}
		metadata := g.core.Metadata(m)
		if g.core.Protocol() == "" {
			metadata = m.Protocols[0].Metadata
		}
		var wants kmsg.ConsumerMemberMetadata
		if err := wants.ReadFrom(metadata); err != nil {
			s.unknown = true
			continue
		}
		for _, topic := range wants.Topics {
			s.topics[topic] = struct{}{}
		}
	}
	return s
}

// TopicDeleted drops all groups' commits on the topic, durably where the log still works. A commit that is
// missed is not found all the same, because its topic's id is not current.
func (c *Coordinator) TopicDeleted(ctx context.Context, name string) {
	for _, g := range c.all() {
		g.mu.Lock()
		var records []record
		for p, found := range g.offsets[name] {
			if !c.current(name, found) {
				records = append(records, offsetTombstone(g.id, kafka.TopicPartition{Topic: name, Partition: p}))
			}
		}
		for _, held := range g.pending {
			for tp, found := range held {
				if tp.Topic == name && !c.current(name, found) {
					records = append(records, offsetTombstone(g.id, tp))
				}
			}
		}
		if err := c.write(ctx, g, producer{}, records); err != nil {
			c.log.Error("delete the offsets on a deleted topic", "group", g.id, "topic", name, "error", err)
		}
		c.leave(g)
	}
}
