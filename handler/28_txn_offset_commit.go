package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TxnOffsetCommit, key 28, versions 0-5. Commits a group's offsets within a transaction. Offsets of mirror topics may be committed.
//
//	v2 leader epochs. v3 flexible encoding, the member (KIP-447). v4 TRANSACTION_ABORTABLE.
//	v5 adds the offsets to the transaction by itself (KIP-890).
func txnOffsetCommit(ctx context.Context, c *call, rq *kmsg.TxnOffsetCommitRequest) (kmsg.Response, error) {
	var refuse error
	switch {
	case !c.txnAllowed(kmsg.ACLOperationWrite, rq.TransactionalID):
		refuse = errTxnDenied
	case !c.groupAllowed(kmsg.ACLOperationRead, rq.Group):
		refuse = errGroupDenied
	}
	forward := *rq
	forward.Topics = nil
	codes := map[kafka.TopicPartition]int16{}
	for _, in := range rq.Topics {
		_, err := c.groupTopic(in.Topic, kafka.TopicID{}, byName, kmsg.ACLOperationRead)
		topic := in
		topic.Partitions = nil
		for _, p := range in.Partitions {
			perr := err
			switch {
			case refuse != nil:
				perr = refuse
			case perr == nil:
				perr = c.groupPartition(in.Topic, p.Partition)
			}
			if perr != nil {
				codes[kafka.TopicPartition{Topic: in.Topic, Partition: p.Partition}] = code(perr)
				continue
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		if len(topic.Partitions) > 0 {
			forward.Topics = append(forward.Topics, topic)
		}
	}
	if len(forward.Topics) > 0 {
		for _, topic := range c.Transactions.TxnOffsetCommit(ctx, c.from, &forward).Topics {
			for _, p := range topic.Partitions {
				answered := c.abortableFrom(4, kafka.ErrorCode(p.ErrorCode))
				codes[kafka.TopicPartition{Topic: topic.Topic, Partition: p.Partition}] = code(answered)
			}
		}
	}
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	for _, in := range rq.Topics {
		out := kmsg.NewTxnOffsetCommitResponseTopic()
		out.Topic = in.Topic
		for _, p := range in.Partitions {
			part := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, codes[kafka.TopicPartition{Topic: in.Topic, Partition: p.Partition}]
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
