package source

import (
	"context"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
)

// Rights is what the link's principal may do with a topic.
type Rights struct {
	operations int32
	known      bool
}

// OnlyRights allows these alone.
func OnlyRights(all ...Right) Rights {
	r := Rights{known: true}
	for _, right := range all {
		r.operations |= 1 << uint(rightBits[right])
	}
	return r
}

// Right is an operation on a topic, as Kafka writes it.
type Right string

// The rights that links need.
const (
	Read            Right = "READ"
	DescribeConfigs Right = "DESCRIBE_CONFIGS"
	Alter           Right = "ALTER"
)

var rightBits = map[Right]kmsg.ACLOperation{Read: kmsg.ACLOperationRead, DescribeConfigs: kmsg.ACLOperationDescribeConfigs,
	Alter: kmsg.ACLOperationAlter}

// Missing lists those of the rights that are not there. A cluster that does not tell (before KIP-430, Kafka 2.3), or has no such
// topic, is taken to allow everything.
func (r Rights) Missing(wanted ...Right) []Right {
	return slices.DeleteFunc(slices.Clone(wanted), func(right Right) bool { return !r.known || r.operations&(1<<uint(rightBits[right])) != 0 })
}

// Rights asks what the link's principal may do with topics, by name.
func (c *Cluster) Rights(ctx context.Context, topics []string) (map[string]Rights, error) {
	all := make(map[string]Rights, len(topics))
	for some := range slices.Chunk(topics, topicsAsked) {
		resp, err := c.askAny(ctx, func() kmsg.Request {
			req := kmsg.NewPtrMetadataRequest()
			req.AllowAutoTopicCreation, req.IncludeTopicAuthorizedOperations = false, true
			for _, name := range some {
				topic := kmsg.NewMetadataRequestTopic()
				topic.Topic = kmsg.StringPtr(name)
				req.Topics = append(req.Topics, topic)
			}
			return req
		})
		if err != nil {
			return nil, err
		}
		for _, t := range resp.(*kmsg.MetadataResponse).Topics {
			switch {
			case t.Topic == nil:
			case t.ErrorCode == int16(kafka.TopicAuthorizationFailed):
				all[*t.Topic] = Rights{known: true}
			case t.ErrorCode == 0 && t.AuthorizedOperations != math.MinInt32:
				all[*t.Topic] = Rights{operations: t.AuthorizedOperations, known: true}
			default:
				all[*t.Topic] = Rights{}
			}
		}
	}
	return all, nil
}
