package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetDelete, key 47, version 0. Deletes a group's offsets of partitions that no member is subscribed to.
func offsetDelete(ctx context.Context, c *call, rq *kmsg.OffsetDeleteRequest) (kmsg.Response, error) {
	if !c.groupAllowed(kmsg.ACLOperationDelete, rq.Group) {
		resp := kmsg.NewPtrOffsetDeleteResponse()
		resp.ErrorCode = code(errGroupDenied)
		return resp, nil
	}
	forward := *rq
	forward.Topics = []kmsg.OffsetDeleteRequestTopic{}
	refused := []kmsg.OffsetDeleteResponseTopic{}
	for _, in := range rq.Topics {
		_, err := c.groupTopic(in.Topic, kafka.TopicID{}, byName, kmsg.ACLOperationRead)
		topic := in
		topic.Partitions = nil
		out := kmsg.NewOffsetDeleteResponseTopic()
		out.Topic = in.Topic
		for _, p := range in.Partitions {
			perr := err
			if perr == nil {
				perr = c.groupPartition(in.Topic, p.Partition)
			}
			if perr == nil {
				topic.Partitions = append(topic.Partitions, p)
				continue
			}
			part := kmsg.NewOffsetDeleteResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, code(perr)
			out.Partitions = append(out.Partitions, part)
		}
		if len(topic.Partitions) > 0 {
			forward.Topics = append(forward.Topics, topic)
		}
		if len(out.Partitions) > 0 {
			refused = append(refused, out)
		}
	}
	resp := c.Groups.OffsetDelete(ctx, &forward)
	if resp.ErrorCode == 0 {
		for _, out := range refused {
			resp.Topics = mergeDeleted(resp.Topics, out)
		}
	}
	return resp, nil
}

// mergeDeleted adds a topic's partitions to those it has already: Java clients look a topic up once.
func mergeDeleted(topics []kmsg.OffsetDeleteResponseTopic, more kmsg.OffsetDeleteResponseTopic) []kmsg.OffsetDeleteResponseTopic {
	for i := range topics {
		if topics[i].Topic == more.Topic {
			topics[i].Partitions = append(topics[i].Partitions, more.Partitions...)
			return topics
		}
	}
	return append(topics, more)
}
