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
	if !c.groupAllowed(kmsg.ACLOperationRead, rq.Group) {
		return commitAnswer(rq, func(kafka.TopicPartition, kafka.TopicID) error { return errGroupDenied }), nil
	}
	mode := c.namingFrom(10)
	forward := *rq
	forward.Topics = nil
	refused := map[fetchKey]error{}
	for i := range rq.Topics {
		in := &rq.Topics[i]
		name, err := c.groupTopic(in.Topic, in.TopicID, mode, kmsg.ACLOperationRead)
		topic := *in
		topic.Topic, topic.Partitions = name, nil
		for _, p := range in.Partitions {
			perr := err
			if perr == nil {
				perr = c.groupPartition(name, p.Partition)
			}
			if perr != nil {
				refused[fetchKey{in.Topic, in.TopicID, p.Partition}] = perr
				continue
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		if len(topic.Partitions) > 0 {
			forward.Topics = append(forward.Topics, topic)
		}
	}
	done := map[fetchKey]error{}
	if len(forward.Topics) > 0 || len(rq.Topics) == 0 {
		for _, topic := range c.Groups.OffsetCommit(ctx, c.from, &forward).Topics {
			for _, p := range topic.Partitions {
				done[c.keyOf(mode, topic.Topic, topic.TopicID, p.Partition)] = kafka.ErrorCode(p.ErrorCode)
			}
		}
	}
	return commitAnswer(rq, func(tp kafka.TopicPartition, id kafka.TopicID) error {
		key := fetchKey{tp.Topic, id, tp.Partition}
		if err := refused[key]; err != nil {
			return err
		}
		return done[key]
	}), nil
}

// keyOf names a partition of the coordinator's answer as the request did.
func (c *call) keyOf(mode naming, topic string, id kafka.TopicID, number int32) fetchKey {
	if mode == byName {
		return fetchKey{topic, kafka.TopicID{}, number}
	}
	if id.IsZero() {
		if t := c.Topics.ByName(topic); t != nil {
			id = t.ID
		}
	}
	return fetchKey{"", id, number}
}

// commitAnswer answers every partition of the request in its order.
func commitAnswer(rq *kmsg.OffsetCommitRequest, of func(kafka.TopicPartition, kafka.TopicID) error) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	for _, in := range rq.Topics {
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = in.Topic, in.TopicID
		for _, p := range in.Partitions {
			part := kmsg.NewOffsetCommitResponseTopicPartition()
			part.Partition = p.Partition
			part.ErrorCode = code(of(kafka.TopicPartition{Topic: in.Topic, Partition: p.Partition}, in.TopicID))
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
