package handler

import (
	"context"
	"slices"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteRecords, key 21, versions 0-2. Moves the log start offset forward.
//
//	Offset -1 means the high watermark.
//	v2 flexible encoding. Mirror topics: refused, their log start offset follows the source.
func deleteRecords(ctx context.Context, c *call, rq *kmsg.DeleteRecordsRequest) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, acknowledgedMax)
	defer cancel()
	resp := kmsg.NewPtrDeleteRecordsResponse()
	for _, in := range rq.Topics {
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = in.Topic
		t, err := c.readable(in.Topic, kmsg.ACLOperationDelete)
		if err == nil {
			err = c.trimmable(t)
		}
		for _, p := range in.Partitions {
			part := kmsg.NewDeleteRecordsResponseTopicPartition()
			part.Partition = p.Partition
			low, perr := c.trim(ctx, t, p, err)
			part.LowWatermark, part.ErrorCode = int64(low), code(perr)
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// trimmable says why no records of the topic may be deleted.
func (c *call) trimmable(t *meta.Topic) error {
	if err := c.readOnly(t); err != nil {
		return err
	}
	if !slices.Contains(strings.Split(c.topicConfig(t, "cleanup.policy"), ","), "delete") {
		return kafka.Errorf(kafka.PolicyViolation, "Records of a topic without cleanup.policy=delete cannot be deleted.")
	}
	return nil
}

// readOnly asks whether the topic is a live mirror.
func (c *call) readOnly(t *meta.Topic) error {
	if c.Mirrors == nil {
		return nil
	}
	return c.Mirrors.ReadOnly(t.ID)
}

func (c *call) trim(ctx context.Context, t *meta.Topic, in kmsg.DeleteRecordsRequestTopicPartition, err error) (kafka.Offset, error) {
	if err != nil {
		return kafka.NoOffset, err
	}
	p, err := c.open(t, in.Partition)
	if err != nil {
		return kafka.NoOffset, err
	}
	acknowledged(ctx, p)
	low, err := p.DeleteRecords(kafka.Offset(in.Offset))
	if err != nil {
		return kafka.NoOffset, err
	}
	return low, nil
}
