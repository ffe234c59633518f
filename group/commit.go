package group

import (
	"context"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// asked is one offset that a client wants to commit, and how that went.
type asked struct {
	tp       kafka.TopicPartition
	offset   int64
	epoch    int32
	metadata *string
	code     kafka.ErrorCode
}

// OffsetCommit stores offsets of a group's member, or of anybody for a group without members.
func (c *Coordinator) OffsetCommit(ctx context.Context, from Client, rq *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	n := 0
	for i := range rq.Topics {
		n += len(rq.Topics[i].Partitions)
	}
	list := make([]asked, 0, n)
	for _, t := range rq.Topics {
		for _, p := range t.Partitions {
			list = append(list, asked{tp: kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition},
				offset: p.Offset, epoch: p.LeaderEpoch, metadata: p.Metadata})
		}
	}
	if rq.Version < 6 {
		for i := range list {
			list[i].epoch = int32(kafka.NoEpoch)
		}
	}
	generation, memberID := rq.Generation, rq.MemberID
	if rq.Version < 1 {
		generation, memberID = -1, ""
	}
	if code := c.commitAsked(ctx, rq, memberID, generation, list); code != kafka.None {
		for i := range list {
			list[i].code = code
		}
	}
	resp := rq.ResponseKind().(*kmsg.OffsetCommitResponse)
	next := 0
	for _, t := range rq.Topics {
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		topic.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, 0, len(t.Partitions))
		for _, p := range t.Partitions {
			partition := kmsg.NewOffsetCommitResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, int16(list[next].code)
			topic.Partitions = append(topic.Partitions, partition)
			next++
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// commitAsked writes what may be written and sets each one's code; what it returns is about all of them.
func (c *impl) commitAsked(ctx context.Context, rq *kmsg.OffsetCommitRequest, memberID string, generation int32,
	list []asked) kafka.ErrorCode {
	if code := c.readyFor(rq.Group); code != kafka.None {
		return code
	}
	if len(rq.Group) > nameMax {
		return kafka.InvalidGroupID
	}
	var g *group
	if generation < 0 {
		g = c.enter(rq.Group)
	} else {
		g = c.lookup(rq.Group)
	}
	switch {
	case g == nil && c.readyFor(rq.Group) != kafka.None:
		return c.readyFor(rq.Group)
	case g == nil && rq.Version >= 9:
		return kafka.GroupIDNotFound
	case g == nil:
		return kafka.IllegalGeneration
	}
	expires := int64(-1)
	if rq.Version >= 2 && rq.Version <= 4 && rq.RetentionTimeMillis >= 0 {
		expires = time.Now().UnixMilli() + rq.RetentionTimeMillis
	}
	code := g.mayCommit(membership{memberID, rq.InstanceID, generation}, rq.Version >= 9, time.Now())
	if code == kafka.None {
		if err := c.write(ctx, g, producer{}, c.records(g, list, expires)); err != nil {
			code = storeCode(err)
		}
	}
	end := g.end
	c.leave(g)
	if code != kafka.None {
		return code
	}
	if err := c.synced(ctx, g, end); err != nil {
		return waitCode(err)
	}
	return kafka.None
}

// records makes the records of those that may be committed, and sets the codes of the others.
func (c *impl) records(g *group, list []asked, expires int64) []record {
	now := time.Now().UnixMilli()
	records := make([]record, 0, len(list))
	for i := range list {
		a := &list[i]
		if a.code = c.mayCommit(a); a.code != kafka.None {
			continue
		}
		id, _ := c.env.TopicID(a.tp.Topic)
		records = append(records, offsetRecord(g.id, a.tp, commit{offset: kafka.Offset(a.offset), epoch: kafka.LeaderEpoch(a.epoch),
			metadata: deref(a.metadata), at: now, expires: expires, topic: id}))
	}
	return records
}

func (c *impl) mayCommit(a *asked) kafka.ErrorCode {
	if _, _, ok := c.env.Bounds(a.tp); !ok {
		return kafka.UnknownTopicOrPartition
	}
	if a.metadata != nil && len(*a.metadata) > c.cfg.MetadataMaxBytes {
		return kafka.OffsetMetadataTooLarge
	}
	if c.env.Refuse != nil {
		return kafka.CodeOf(c.env.Refuse(a.tp))
	}
	return kafka.None
}
