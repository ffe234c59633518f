package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListPartitionReassignments, key 46, version 0. Lists moves of replicas under way: with one broker there are none.
func listPartitionReassignments(_ context.Context, c *call, _ *kmsg.ListPartitionReassignmentsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	if !c.clusterAllowed(kmsg.ACLOperationDescribe) {
		resp.ErrorCode, resp.ErrorMessage = code(errClusterDenied), kafka.MessageOf(errClusterDenied)
	}
	return resp, nil
}
