package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetFetch, key 9, versions 1-10. Reads groups' committed offsets.
//
//	Null topics mean all that the group committed and the caller may see. A partition
//	without a commit is answered with offset -1 and no error.
//	v2 all topics, a code for the group. v5 leader epochs. v6 flexible encoding. v7 stable offsets only (KIP-447).
//	v8 several groups. v9 the new group protocol. v10 topic ids, which Apache Kafka 4.1
//	holds back as unstable; offered here because Produce and Fetch name topics by id, too.
func offsetFetch(ctx context.Context, c *call, rq *kmsg.OffsetFetchRequest) (kmsg.Response, error) {
	if c.version < 8 {
		return c.offsetFetchOne(ctx, rq), nil
	}
	resp := kmsg.NewPtrOffsetFetchResponse()
	for i := range rq.Groups {
		resp.Groups = append(resp.Groups, c.offsetFetchGroup(ctx, rq, &rq.Groups[i]))
	}
	return resp, nil
}

// offsetFetchOne answers the form of versions 1-7: one group, topics by name.
func (c *call) offsetFetchOne(ctx context.Context, rq *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	if !c.groupAllowed(kmsg.ACLOperationDescribe, rq.Group) {
		return c.refuseOffsetFetch(rq, errGroupDenied)
	}
	forward := *rq
	denied := []kmsg.OffsetFetchResponseTopic{}
	if rq.Topics != nil {
		forward.Topics = []kmsg.OffsetFetchRequestTopic{}
		for _, in := range rq.Topics {
			if c.topicAllowed(kmsg.ACLOperationDescribe, in.Topic) {
				forward.Topics = append(forward.Topics, in)
			} else {
				denied = append(denied, offsetFetchDenied(in, topicDenied(in.Topic)))
			}
		}
	}
	resp := c.Groups.OffsetFetch(ctx, c.from, &forward)
	kept := resp.Topics[:0]
	for _, topic := range resp.Topics {
		if rq.Topics != nil || c.topicAllowed(kmsg.ACLOperationDescribe, topic.Topic) {
			kept = append(kept, topic)
		}
	}
	resp.Topics = append(kept, denied...)
	return resp
}

// refuseOffsetFetch refuses a whole group. Version 1 has no code but the partitions'.
func (c *call) refuseOffsetFetch(rq *kmsg.OffsetFetchRequest, err error) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.ErrorCode = code(err)
	if c.version >= 2 {
		return resp
	}
	for _, in := range rq.Topics {
		resp.Topics = append(resp.Topics, offsetFetchDenied(in, err))
	}
	return resp
}

func offsetFetchDenied(in kmsg.OffsetFetchRequestTopic, err error) kmsg.OffsetFetchResponseTopic {
	out := kmsg.NewOffsetFetchResponseTopic()
	out.Topic = in.Topic
	for _, number := range in.Partitions {
		p := kmsg.NewOffsetFetchResponseTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = number, -1, -1, text(""), code(err)
		out.Partitions = append(out.Partitions, p)
	}
	return out
}

func (c *call) offsetFetchGroup(ctx context.Context, rq *kmsg.OffsetFetchRequest,
	group *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	if !c.groupAllowed(kmsg.ACLOperationDescribe, group.Group) {
		out := kmsg.NewOffsetFetchResponseGroup()
		out.Group, out.ErrorCode = group.Group, code(errGroupDenied)
		return out
	}
	mode := c.namingFrom(10)
	ask := *group
	refused := []kmsg.OffsetFetchResponseGroupTopic{}
	if group.Topics != nil {
		ask.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
		for _, in := range group.Topics {
			name, err := in.Topic, error(nil)
			if mode == byID { // an unknown name has no commits; an unknown id is an error
				name, err = c.groupTopic("", in.TopicID, byID, kmsg.ACLOperationDescribe)
			} else if !c.topicAllowed(kmsg.ACLOperationDescribe, name) {
				err = topicDenied(name)
			}
			if err != nil {
				refused = append(refused, groupTopicRefused(in, err))
				continue
			}
			in.Topic = name
			ask.Topics = append(ask.Topics, in)
		}
	}
	forward := *rq
	forward.Groups = []kmsg.OffsetFetchRequestGroup{ask}
	resp := c.Groups.OffsetFetch(ctx, c.from, &forward)
	if len(resp.Groups) != 1 {
		out := kmsg.NewOffsetFetchResponseGroup()
		out.Group, out.ErrorCode = group.Group, int16(kafka.UnknownServerError)
		return out
	}
	out := resp.Groups[0]
	out.Topics = c.visible(out.Topics, group.Topics == nil, mode)
	out.Topics = append(out.Topics, refused...)
	return out
}

// visible keeps the topics that the caller may see, and with byID gives them their ids.
func (c *call) visible(topics []kmsg.OffsetFetchResponseGroupTopic, all bool, mode naming) []kmsg.OffsetFetchResponseGroupTopic {
	kept := topics[:0]
	for _, topic := range topics {
		if all && !c.topicAllowed(kmsg.ACLOperationDescribe, topic.Topic) {
			continue
		}
		if mode == byID {
			t := c.Topics.ByName(topic.Topic)
			if t == nil {
				continue // deleted: it has no id that could be named
			}
			topic.TopicID = t.ID
		}
		kept = append(kept, topic)
	}
	return kept
}

func groupTopicRefused(in kmsg.OffsetFetchRequestGroupTopic, err error) kmsg.OffsetFetchResponseGroupTopic {
	out := kmsg.NewOffsetFetchResponseGroupTopic()
	out.Topic, out.TopicID = in.Topic, in.TopicID
	for _, number := range in.Partitions {
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = number, -1, -1, text(""), code(err)
		out.Partitions = append(out.Partitions, p)
	}
	return out
}
