package handler

import (
	"context"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeTopicPartitions, key 75, version 0. Metadata by pages (KIP-966): topics in order of name, at most so many partitions an answer,
// and a cursor for the next one.
//
//	An empty list of topics means all.
func describeTopicPartitions(_ context.Context, c *call, rq *kmsg.DescribeTopicPartitionsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	all := len(rq.Topics) == 0
	var names []string
	for _, in := range rq.Topics {
		names = append(names, in.Topic)
	}
	if all {
		for _, t := range c.Topics.All() {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	from := int32(0)
	if rq.Cursor != nil {
		at, found := slices.BinarySearch(names, rq.Cursor.Topic)
		if names = names[at:]; found {
			from = max(0, rq.Cursor.Partition)
		}
	}
	room := max(1, min(rq.ResponsePartitionLimit, c.Settings.MetadataPage)) // with none the cursor would never move
	for _, name := range names {
		if all && !c.topicAllowed(kmsg.ACLOperationDescribe, name) {
			continue
		}
		if room <= 0 {
			resp.NextCursor = cursorAt(name, 0)
			break
		}
		out, next := c.topicPage(name, from, room)
		resp.Topics = append(resp.Topics, out)
		room, from = room-int32(len(out.Partitions)), 0
		if next != nil {
			resp.NextCursor = next
			break
		}
	}
	return resp, nil
}

func cursorAt(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	next := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	next.Topic, next.Partition = topic, partition
	return &next
}

// topicPage describes at most room partitions of a topic; next is where to go on in it, nil if it is done.
func (c *call) topicPage(name string, from, room int32) (out kmsg.DescribeTopicPartitionsResponseTopic,
	next *kmsg.DescribeTopicPartitionsResponseNextCursor) {
	out = kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.AuthorizedOperations = &name, noAuthorizedOps
	var t *meta.Topic
	err := kafka.CheckTopicName(name)
	if err == nil {
		t, err = c.readable(name, kmsg.ACLOperationDescribe)
	}
	if err != nil {
		out.ErrorCode = code(err)
		if c.topicAllowed(kmsg.ACLOperationDescribe, name) {
			out.AuthorizedOperations = c.authorizedOps(topicOps, kmsg.ACLResourceTypeTopic, name)
		}
		return out, nil
	}
	out.TopicID, out.IsInternal = t.ID, kafka.IsInternal(name)
	out.AuthorizedOperations = c.authorizedOps(topicOps, kmsg.ACLResourceTypeTopic, name)
	nodes := []int32{c.NodeID}
	from = min(from, t.Partitions)
	until := from + min(room, t.Partitions-from)
	for number := from; number < until; number++ {
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.Partition, p.LeaderID, p.Replicas, p.ISR = number, c.NodeID, nodes, nodes
		p.EligibleLeaderReplicas, p.LastKnownELR = []int32{}, []int32{}
		if open, err := c.open(t, number); err != nil {
			p.ErrorCode, p.LeaderID, p.ISR, p.OfflineReplicas = int16(kafka.LeaderNotAvailable), -1, nil, nodes
		} else {
			p.LeaderEpoch = int32(open.Offsets().Epoch)
		}
		out.Partitions = append(out.Partitions, p)
	}
	if until < t.Partitions {
		return out, cursorAt(name, until)
	}
	return out, nil
}
