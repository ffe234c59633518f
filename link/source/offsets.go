package source

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
)

// askLeader sends a request that names one partition to its leader, and once more to the new one
// if it has moved. build is given the leader epoch known; check finds the answer's error.
func (c *Cluster) askLeader(ctx context.Context, tp kafka.TopicPartition, build func(kafka.LeaderEpoch) kmsg.Request,
	check func(kmsg.Response) error) error {
	var failure error
	for try := range 2 {
		leaders, err := c.Leaders(ctx, tp.Topic, try > 0)
		if err != nil {
			return err
		}
		if int(tp.Partition) >= len(leaders.List) || tp.Partition < 0 {
			return kafka.Errorf(kafka.UnknownTopicOrPartition, "the source's topic '%s' has %d partitions, no partition %d", tp.Topic,
				len(leaders.List), tp.Partition)
		}
		leader := leaders.List[tp.Partition]
		if leader.Broker < 0 {
			failure = kafka.Errorf(kafka.LeaderNotAvailable, "the source's partition %s has no leader now", tp)
			continue
		}
		resp, err := c.askBroker(ctx, leader.Broker, build(leader.Epoch))
		if err == nil {
			err = check(resp)
		}
		if err == nil {
			return nil
		}
		failure = err
		if ctx.Err() != nil || !movedOrGone(err) {
			return err
		}
	}
	return failure
}

func movedOrGone(err error) bool {
	var known *Error
	if errors.As(err, &known) {
		return known.Class != Auth && known.Class != TLS
	}
	return kafka.CodeOf(err).Retriable()
}

// EpochEnd is OffsetForLeaderEpoch at the partition's leader: the largest epoch not above wanted and its exclusive
// end; NoEpoch and NoOffset where the source knows none. current is the leader epoch believed in, NoEpoch for no belief.
func (c *Cluster) EpochEnd(ctx context.Context, tp kafka.TopicPartition,
	current, wanted kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error) {
	epoch, end := kafka.NoEpoch, kafka.NoOffset
	build := func(kafka.LeaderEpoch) kmsg.Request {
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = tp.Partition, int32(current), int32(wanted)
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic, t.Partitions = tp.Topic, append(t.Partitions, p)
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		req.Topics = append(req.Topics, t)
		return req
	}
	check := func(resp kmsg.Response) error {
		for _, t := range resp.(*kmsg.OffsetForLeaderEpochResponse).Topics {
			for _, p := range t.Partitions {
				if t.Topic == tp.Topic && p.Partition == tp.Partition {
					epoch, end = kafka.LeaderEpoch(p.LeaderEpoch), kafka.Offset(p.EndOffset)
					return answered(p.ErrorCode, "partition %s", tp)
				}
			}
		}
		return kafka.Errorf(kafka.UnknownServerError, "the source's answer about epochs leaves partition %s out", tp)
	}
	err := c.askLeader(ctx, tp, build, check)
	return epoch, end, err
}

// ListOffset is ListOffsets at the leader: -2 earliest, -1 latest (the high watermark), else the first
// offset at or after that Unix time in ms.
func (c *Cluster) ListOffset(ctx context.Context, tp kafka.TopicPartition, spec int64) (kafka.Offset, error) {
	return c.listOffset(ctx, tp, spec, kafka.ReadUncommitted)
}

// LastStable is the exclusive end for read_committed readers of the source.
func (c *Cluster) LastStable(ctx context.Context, tp kafka.TopicPartition) (kafka.Offset, error) {
	return c.listOffset(ctx, tp, -1, kafka.ReadCommitted)
}

func (c *Cluster) listOffset(ctx context.Context, tp kafka.TopicPartition, spec int64, isolation kafka.Isolation) (kafka.Offset, error) {
	offset := kafka.NoOffset
	build := func(current kafka.LeaderEpoch) kmsg.Request {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = tp.Partition, int32(current), spec
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic, t.Partitions = tp.Topic, append(t.Partitions, p)
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.IsolationLevel = -1, int8(isolation)
		req.Topics = append(req.Topics, t)
		return req
	}
	check := func(resp kmsg.Response) error {
		for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if t.Topic == tp.Topic && p.Partition == tp.Partition {
					offset = kafka.Offset(p.Offset)
					return answered(p.ErrorCode, "partition %s", tp)
				}
			}
		}
		return kafka.Errorf(kafka.UnknownServerError, "the source's answer about offsets leaves partition %s out", tp)
	}
	err := c.askLeader(ctx, tp, build, check)
	return offset, err
}
