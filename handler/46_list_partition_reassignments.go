package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListPartitionReassignments, key 46, version 0. Lists moves of replicas under way: with one broker there are none.
func listPartitionReassignments(_ context.Context, c *call, rq *kmsg.ListPartitionReassignmentsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	if !c.clusterAllowed(kmsg.ACLOperationDescribe) {
		resp.ErrorCode, resp.ErrorMessage = code(errClusterDenied), kafka.MessageOf(errClusterDenied)
		for _, in := range rq.Topics { // as Apache Kafka
			out := kmsg.NewListPartitionReassignmentsResponseTopic()
			out.Topic = in.Topic
			resp.Topics = append(resp.Topics, out)
		}
	}
	return resp, nil
}
