package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeLogDirs, key 35, versions 1-4. Shows the data directory and how large each partition in it is.
//
//	Null topics mean all.
//	v2 flexible encoding. v3 a code for the whole. v4 the size of the volume.
func describeLogDirs(_ context.Context, c *call, rq *kmsg.DescribeLogDirsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	if !c.clusterAllowed(kmsg.ACLOperationDescribe) {
		if c.version >= 3 {
			resp.ErrorCode = code(errClusterDenied)
		}
		return resp, nil
	}
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = c.LogDir.Path
	if c.LogDir.Space != nil {
		dir.TotalBytes, dir.UsableBytes = c.LogDir.Space()
	}
	if rq.Topics == nil {
		for _, t := range c.Topics.All() {
			dir.Topics = append(dir.Topics, c.logDirTopic(t, nil))
		}
	}
	for _, in := range rq.Topics {
		if t := c.Topics.ByName(in.Topic); t != nil {
			dir.Topics = append(dir.Topics, c.logDirTopic(t, in.Partitions))
		}
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp, nil
}

// logDirTopic describes the partitions named, or all where the list is nil.
func (c *call) logDirTopic(t *meta.Topic, numbers []int32) kmsg.DescribeLogDirsResponseDirTopic {
	out := kmsg.NewDescribeLogDirsResponseDirTopic()
	out.Topic = t.Name
	if numbers == nil {
		for i := range t.Partitions {
			numbers = append(numbers, i)
		}
	}
	for _, number := range numbers {
		p := c.Partition(kafka.PartitionID{Topic: t.ID, Partition: number})
		if p == nil {
			continue
		}
		part := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		part.Partition, part.Size = number, p.Offsets().Size
		out.Partitions = append(out.Partitions, part)
	}
	return out
}
