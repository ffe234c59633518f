package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kinds of coordinators.
const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
	coordinatorShare       = 2
)

// FindCoordinator, key 10, versions 0-6. Says who coordinates a group or a transactional id.
//
//	It is this broker, at the listener that the request came in on.
//	v1 transactional ids. v3 flexible encoding. v4 several keys. v5 TRANSACTION_ABORTABLE (KIP-890).
//	v6 share groups (KIP-932), not offered.
func findCoordinator(_ context.Context, c *call, rq *kmsg.FindCoordinatorRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if c.version >= 4 {
		for _, key := range rq.CoordinatorKeys {
			resp.Coordinators = append(resp.Coordinators, c.coordinator(rq.CoordinatorType, key))
		}
		return resp, nil
	}
	one := c.coordinator(rq.CoordinatorType, rq.CoordinatorKey)
	resp.ErrorCode, resp.ErrorMessage = one.ErrorCode, one.ErrorMessage
	resp.NodeID, resp.Host, resp.Port = one.NodeID, one.Host, one.Port
	return resp, nil
}

func (c *call) coordinator(kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key = key
	if err := c.coordinates(kind, key); err != nil {
		out.NodeID, out.Port = -1, -1
		out.ErrorCode, out.ErrorMessage = code(err), kafka.MessageOf(err)
		return out
	}
	out.NodeID, out.Host, out.Port, _ = c.self(c.listener)
	return out
}

func (c *call) coordinates(kind int8, key string) error {
	switch kind {
	case coordinatorGroup:
		if !c.groupAllowed(kmsg.ACLOperationDescribe, key) {
			return errGroupDenied
		}
	case coordinatorTransaction:
		if !c.allowed(kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeTransactionalId, key) {
			return kafka.Errorf(kafka.TransactionalIDAuthorizationFailed, "Not authorized to use transactional id '%s'.", key)
		}
		if c.Transactions == nil {
			return errNoTransactions
		}
	case coordinatorShare:
		if !c.clusterAllowed(kmsg.ACLOperationClusterAction) {
			return errClusterDenied
		}
		return kafka.Errorf(kafka.InvalidRequest, "Share groups are not offered.")
	default:
		return kafka.Errorf(kafka.InvalidRequest, "There are no coordinators of type %d.", kind)
	}
	return nil
}

var errNoTransactions = kafka.Errorf(kafka.InvalidRequest, "This broker does not offer transactions.")
