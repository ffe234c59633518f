package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterPartitionReassignments, key 45, versions 0-1. Moves replicas: there is one broker to have them.
//
//	Where they are already succeeds; another broker is INVALID_REPLICA_ASSIGNMENT;
//	cancelling (null) is NO_REASSIGNMENT_IN_PROGRESS.
//	v1 whether the replication factor may change.
func alterPartitionReassignments(_ context.Context, c *call, rq *kmsg.AlterPartitionAssignmentsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	resp.AllowReplicationFactorChange = rq.AllowReplicationFactorChange
	denied := error(nil)
	if !c.clusterAllowed(kmsg.ACLOperationAlter) {
		denied = errClusterDenied
	}
	resp.ErrorCode, resp.ErrorMessage = code(denied), kafka.MessageOf(denied)
	for _, in := range rq.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = in.Topic
		t := c.Topics.ByName(in.Topic)
		for _, p := range in.Partitions {
			err := denied
			switch {
			case denied != nil:
			case !has(t, p.Partition):
				err = kafka.Errorf(kafka.UnknownTopicOrPartition, "Unable to find a partition %s-%d.", in.Topic, p.Partition)
			case p.Replicas == nil:
				err = kafka.Errorf(kafka.NoReassignmentInProgress, "No partition reassignment is in progress.")
			default:
				err = c.checkReplicas(p.Replicas)
			}
			part := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			part.Partition, part.ErrorCode, part.ErrorMessage = p.Partition, code(err), kafka.MessageOf(err)
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
