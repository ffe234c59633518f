package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetCommit, key 8, versions 2-10. Commits a group's offsets.
//
//	Partitions that are not there or not allowed are answered for themselves; the others are committed.
//	v5 no retention time. v6 leader epochs. v7 static members. v8 flexible encoding.
//	v9 errors of the new group protocol. v10 topic ids, which Apache Kafka 4.1
//	holds back as unstable; offered here because Produce and Fetch name topics by id, too.
func offsetCommit(ctx context.Context, c *call, rq *kmsg.OffsetCommitRequest) (kmsg.Response, error) {
	n := 0
	for i := range rq.Topics {
		n += len(rq.Topics[i].Partitions)
	}
	codes := make([]int16, n) // of the request's partitions, in its order
	if !c.groupAllowed(kmsg.ACLOperationRead, rq.Group) {
		for i := range codes {
			codes[i] = code(errGroupDenied)
		}
		return commitAnswer(rq, codes), nil
	}
	mode := c.namingFrom(10)
	forward := *rq
	forward.Topics = nil
	asked := make([]int, 0, n) // which of them are forwarded
	at := 0
	for i := range rq.Topics {
		in := &rq.Topics[i]
		name, err := c.groupTopic(in.Topic, in.TopicID, mode, kmsg.ACLOperationRead)
		topic := *in
		topic.Topic, topic.Partitions = name, make([]kmsg.OffsetCommitRequestTopicPartition, 0, len(in.Partitions))
		for _, p := range in.Partitions {
			perr := err
			if perr == nil {
				perr = c.groupPartition(name, p.Partition)
			}
			if perr != nil {
				codes[at] = code(perr)
			} else {
				codes[at] = int16(kafka.UnknownServerError) // until the coordinator has answered
				topic.Partitions, asked = append(topic.Partitions, p), append(asked, at)
			}
			at++
		}
		if len(topic.Partitions) > 0 {
			forward.Topics = append(forward.Topics, topic)
		}
	}
	if len(asked) > 0 || len(rq.Topics) == 0 {
		for _, topic := range c.Groups.OffsetCommit(ctx, c.from, &forward).Topics { // in the order in which it was asked
			for _, p := range topic.Partitions[:min(len(topic.Partitions), len(asked))] {
				codes[asked[0]] = p.ErrorCode
				asked = asked[1:]
			}
		}
	}
	return commitAnswer(rq, codes), nil
}

// commitAnswer answers every partition of the request in its order.
func commitAnswer(rq *kmsg.OffsetCommitRequest, codes []int16) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	for _, in := range rq.Topics {
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = in.Topic, in.TopicID
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, 0, len(in.Partitions))
		for _, p := range in.Partitions {
			part := kmsg.NewOffsetCommitResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, codes[0]
			codes = codes[1:]
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
