package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ConsumerGroupHeartbeat, key 68, versions 0-1. A member of a group in which the broker assigns (KIP-848).
//
//	v1 subscription by a regular expression; the member draws its own id (KIP-1082).
func consumerGroupHeartbeat(ctx context.Context, c *call, rq *kmsg.ConsumerGroupHeartbeatRequest) (kmsg.Response, error) {
	var refuse error
	if !c.groupAllowed(kmsg.ACLOperationRead, rq.Group) {
		refuse = errGroupDenied
	}
	for _, topic := range rq.SubscribedTopicNames {
		if refuse == nil && !c.topicAllowed(kmsg.ACLOperationDescribe, topic) {
			refuse = topicDenied(topic)
		}
	}
	if refuse != nil {
		resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		resp.ErrorCode, resp.ErrorMessage = code(refuse), kafka.MessageOf(refuse)
		return resp, nil
	}
	return c.Groups.ConsumerGroupHeartbeat(ctx, c.from, rq), nil
}
