package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetForLeaderEpoch, key 23, versions 2-4. Says where the largest epoch that is not above the one asked for ends.
//
//	Epoch and offset -1 for an epoch above the current one. The log's own epochs answer, and after a cut the cut; one that is older
//	than all of them ended where the first begins.
//	v2 the epoch that the client believes current. v3 replica id. v4 flexible encoding.
func offsetForLeaderEpoch(_ context.Context, c *call, rq *kmsg.OffsetForLeaderEpochRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	broker := c.clusterAllowed(kmsg.ACLOperationClusterAction) // may ask about every topic
	for i := range rq.Topics {
		in := &rq.Topics[i]
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = in.Topic
		t, err := c.Topics.ByName(in.Topic), error(nil)
		if !broker {
			t, err = c.readable(in.Topic, kmsg.ACLOperationDescribe)
		} else if t == nil {
			err = kafka.UnknownTopicError(in.Topic)
		}
		for j := range in.Partitions {
			out.Partitions = append(out.Partitions, c.epochEnd(t, &in.Partitions[j], err))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func (c *call) epochEnd(t *meta.Topic, in *kmsg.OffsetForLeaderEpochRequestTopicPartition,
	err error) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	out := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	out.Partition, out.LeaderEpoch, out.EndOffset = in.Partition, -1, -1
	if err == nil {
		p, openErr := c.open(t, in.Partition)
		if err = openErr; err == nil {
			var epoch kafka.LeaderEpoch
			var end kafka.Offset
			epoch, end, err = p.OffsetForLeaderEpoch(kafka.LeaderEpoch(in.CurrentLeaderEpoch), kafka.LeaderEpoch(in.LeaderEpoch))
			if err == nil {
				out.LeaderEpoch, out.EndOffset = int32(epoch), int64(end)
			}
		}
	}
	out.ErrorCode = code(err)
	return out
}
