package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ElectLeaders, key 43, versions 0-2. Answers that no election is needed: there is one broker, and it leads.
//
//	Null topics mean all partitions that need an election: none.
//	v1 the kind of election. v2 flexible encoding.
func electLeaders(_ context.Context, c *call, rq *kmsg.ElectLeadersRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrElectLeadersResponse()
	denied := error(nil)
	if !c.clusterAllowed(kmsg.ACLOperationAlter) {
		denied = errClusterDenied
	}
	resp.ErrorCode = code(denied)
	for _, in := range rq.Topics {
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = in.Topic
		t := c.Topics.ByName(in.Topic)
		for _, number := range in.Partitions {
			err := kafka.Errorf(kafka.ElectionNotNeeded, "Leader election not needed for topic partition.")
			switch {
			case denied != nil:
				err = denied
			case !has(t, number):
				err = kafka.Errorf(kafka.UnknownTopicOrPartition, "No such topic or partition: %s-%d", in.Topic, number)
			}
			part := kmsg.NewElectLeadersResponseTopicPartition()
			part.Partition, part.ErrorCode, part.ErrorMessage = number, code(err), kafka.MessageOf(err)
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
