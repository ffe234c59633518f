package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ConsumerGroupDescribe, key 69, versions 0-1. Shows groups in which the broker assigns (KIP-848).
//
//	A group that has topics which the caller may not describe is not shown. v1 says which protocol a member speaks.
func consumerGroupDescribe(ctx context.Context, c *call, rq *kmsg.ConsumerGroupDescribeRequest) (kmsg.Response, error) {
	forward := *rq
	forward.Groups = []string{}
	denied := []kmsg.ConsumerGroupDescribeResponseGroup{}
	for _, name := range rq.Groups {
		if c.groupAllowed(kmsg.ACLOperationDescribe, name) {
			forward.Groups = append(forward.Groups, name)
			continue
		}
		denied = append(denied, hiddenGroup(name, errGroupDenied))
	}
	resp := c.Groups.ConsumerGroupDescribe(ctx, &forward)
	for i := range resp.Groups {
		out := &resp.Groups[i]
		if !c.mayDescribeMembers(out.Members) {
			*out = hiddenGroup(out.Group, kafka.Errorf(kafka.TopicAuthorizationFailed,
				"The group has described topic(s) that the client is not authorized to describe."))
		}
		out.AuthorizedOperations = noAuthorizedOps
		if rq.IncludeAuthorizedOperations && out.ErrorCode == 0 {
			out.AuthorizedOperations = c.authorizedOps(groupOps, kmsg.ACLResourceTypeGroup, out.Group)
		}
	}
	resp.Groups = append(resp.Groups, denied...)
	return resp, nil
}

func hiddenGroup(name string, why error) kmsg.ConsumerGroupDescribeResponseGroup {
	out := kmsg.NewConsumerGroupDescribeResponseGroup()
	out.Group, out.ErrorCode, out.ErrorMessage = name, code(why), kafka.MessageOf(why)
	return out
}

func (c *call) mayDescribeMembers(members []kmsg.ConsumerGroupDescribeResponseGroupMember) bool {
	for _, m := range members {
		for _, topic := range m.SubscribedTopics {
			if !c.topicAllowed(kmsg.ACLOperationDescribe, topic) {
				return false
			}
		}
		for _, a := range []kmsg.Assignment{m.Assignment, m.TargetAssignment} {
			for _, tp := range a.TopicPartitions {
				if !c.topicAllowed(kmsg.ACLOperationDescribe, tp.Topic) {
					return false
				}
			}
		}
	}
	return true
}
