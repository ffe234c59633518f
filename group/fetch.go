package group

import (
	"context"
	"maps"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetFetch reads committed offsets, of several groups from v8 on. What it says is durable.
func (c *Coordinator) OffsetFetch(ctx context.Context, from Client, rq *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	resp := rq.ResponseKind().(*kmsg.OffsetFetchResponse)
	if rq.Version >= 8 {
		for _, want := range rq.Groups {
			resp.Groups = append(resp.Groups, c.fetchGroup(ctx, want, rq.RequireStable))
		}
		return resp
	}
	want := kmsg.OffsetFetchRequestGroup{Group: rq.Group, MemberEpoch: -1}
	if rq.Topics != nil || rq.Version < 2 {
		want.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range rq.Topics {
		want.Topics = append(want.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	got := c.fetchGroup(ctx, want, rq.RequireStable)
	if rq.Version >= 2 {
		resp.ErrorCode = got.ErrorCode
	}
	if got.ErrorCode != 0 && rq.Version < 2 {
		got.Topics = refusedTopics(want.Topics, kafka.ErrorCode(got.ErrorCode))
	}
	for _, t := range got.Topics {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			partition := kmsg.NewOffsetFetchResponseTopicPartition()
			partition.Partition, partition.Offset, partition.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			partition.Metadata, partition.ErrorCode = p.Metadata, p.ErrorCode
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func refusedTopics(topics []kmsg.OffsetFetchRequestGroupTopic, code kafka.ErrorCode) []kmsg.OffsetFetchResponseGroupTopic {
	var list []kmsg.OffsetFetchResponseGroupTopic
	for _, t := range topics {
		topic := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, p := range t.Partitions {
			refused := nothing(p)
			refused.ErrorCode = int16(code)
			topic.Partitions = append(topic.Partitions, refused)
		}
		list = append(list, topic)
	}
	return list
}

// nothing is the answer for a partition on which nothing is committed.
func nothing(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, int64(kafka.NoOffset), int32(kafka.NoEpoch), new(string)
	return p
}

func (c *impl) fetchGroup(ctx context.Context, want kmsg.OffsetFetchRequestGroup, stable bool) kmsg.OffsetFetchResponseGroup {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = want.Group
	if code := c.readyFor(want.Group); code != kafka.None {
		resp.ErrorCode = int16(code)
		return resp
	}
	g := c.lookup(want.Group)
	if g == nil {
		if code := c.readyFor(want.Group); code != kafka.None {
			resp.ErrorCode = int16(code)
			return resp
		}
		resp.Topics = refusedTopics(want.Topics, kafka.None)
		return resp
	}
	if g.consumer != nil && (want.MemberID != nil || want.MemberEpoch >= 0) {
		if code := g.consumer.CheckEpoch(deref(want.MemberID), want.MemberEpoch); code != kafka.None {
			c.leave(g)
			resp.ErrorCode = int16(code)
			return resp
		}
	}
	topics := want.Topics
	if topics == nil {
		topics = g.everything()
	}
	for _, t := range topics {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			got, ok := c.fetchOne(g, kafka.TopicPartition{Topic: t.Topic, Partition: p}, stable)
			if ok || want.Topics != nil {
				topic.Partitions = append(topic.Partitions, got)
			}
		}
		if len(topic.Partitions) > 0 || want.Topics != nil {
			resp.Topics = append(resp.Topics, topic)
		}
	}
	end := g.end
	c.leave(g)
	if err := c.synced(ctx, g, end); err != nil {
		resp.Topics, resp.ErrorCode = nil, int16(waitCode(err))
	}
	return resp
}

// everything lists all partitions on which the group has committed.
func (g *group) everything() []kmsg.OffsetFetchRequestGroupTopic {
	var list []kmsg.OffsetFetchRequestGroupTopic
	for _, topic := range slices.Sorted(maps.Keys(g.offsets)) {
		list = append(list, kmsg.OffsetFetchRequestGroupTopic{Topic: topic, Partitions: slices.Sorted(maps.Keys(g.offsets[topic]))})
	}
	return list
}

// fetchOne answers for one partition, never above the high watermark of a mirror; false if nothing is committed.
func (c *impl) fetchOne(g *group, tp kafka.TopicPartition, stable bool) (kmsg.OffsetFetchResponseGroupTopicPartition, bool) {
	got := nothing(tp.Partition)
	if stable && g.undecided(tp) {
		got.ErrorCode = int16(kafka.UnstableOffsetCommit)
		return got, true
	}
	found, ok := c.committed(g, tp)
	_, end, here := c.env.Bounds(tp)
	if !ok || !here {
		return got, false
	}
	got.Offset, got.LeaderEpoch, got.Metadata = int64(found.offset), int32(found.epoch), &found.metadata
	if end != kafka.NoOffset && found.offset > end && c.env.Mirrored != nil && c.env.Mirrored(tp.Topic) {
		// The epoch belongs to the offset that is not there.
		got.Offset, got.LeaderEpoch = int64(end), int32(kafka.NoEpoch)
	}
	return got, true
}

// undecided reports whether an open transaction has committed on the partition.
func (g *group) undecided(tp kafka.TopicPartition) bool {
	for _, held := range g.pending {
		if _, ok := held[tp]; ok {
			return true
		}
	}
	return false
}
