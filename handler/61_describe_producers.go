package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeProducers, key 61, version 0. Shows the producers that partitions know, and their open transactions (KIP-664).
func describeProducers(_ context.Context, c *call, rq *kmsg.DescribeProducersRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDescribeProducersResponse()
	for _, in := range rq.Topics {
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = in.Topic
		t, err := c.readable(in.Topic, kmsg.ACLOperationRead)
		for _, number := range in.Partitions {
			out.Partitions = append(out.Partitions, c.producersOf(t, number, err))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func (c *call) producersOf(t *meta.Topic, number int32, err error) kmsg.DescribeProducersResponseTopicPartition {
	out := kmsg.NewDescribeProducersResponseTopicPartition()
	out.Partition = number
	if err == nil {
		p, openErr := c.open(t, number)
		if err = openErr; err == nil {
			for _, producer := range p.Producers() {
				row := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				row.ProducerID, row.ProducerEpoch = int64(producer.ID), int32(producer.Epoch)
				row.LastSequence, row.LastTimestamp = producer.LastSequence, producer.LastTimestamp
				row.CoordinatorEpoch, row.CurrentTxnStartOffset = producer.CoordinatorEpoch, int64(producer.TxnStart)
				out.ActiveProducers = append(out.ActiveProducers, row)
			}
		}
	}
	out.ErrorCode, out.ErrorMessage = code(err), kafka.MessageOf(err)
	return out
}
