package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId, key 22, versions 0-5. Gives a producer its id.
//
//	Without a transactional id it is a fresh one, with epoch 0. With one, the
//	transaction coordinator answers; where there is none, UNSUPPORTED_VERSION.
//	v2 flexible encoding. v3 an id to go on with (KIP-360), for transactions. v4 PRODUCER_FENCED. v5 TRANSACTION_ABORTABLE.
func initProducerID(ctx context.Context, c *call, rq *kmsg.InitProducerIDRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case rq.TransactionalID == nil && !c.clusterAllowed(kmsg.ACLOperationIdempotentWrite) &&
		!c.allowedSomewhere(kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTopic):
		resp.ErrorCode = code(errClusterDenied)
	case rq.TransactionalID != nil && c.version >= 3 && (rq.ProducerID == -1) != (rq.ProducerEpoch == -1):
		resp.ErrorCode = int16(kafka.InvalidRequest) // both or neither
	case rq.TransactionalID == nil:
		id, err := c.ProducerID(ctx)
		if err != nil {
			c.Logger.Error("no producer id", "err", err)
			resp.ErrorCode = int16(kafka.CoordinatorNotAvailable) // clients try again
			return resp, nil
		}
		resp.ProducerID, resp.ProducerEpoch = int64(id), 0
	case *rq.TransactionalID == "":
		resp.ErrorCode = int16(kafka.InvalidRequest)
	case !c.allowed(kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTransactionalId, *rq.TransactionalID):
		resp.ErrorCode = int16(kafka.TransactionalIDAuthorizationFailed)
	case c.Transactions == nil:
		resp.ErrorCode = int16(kafka.UnsupportedVersion)
	default:
		return c.Transactions.InitProducerID(ctx, c.from, rq), nil
	}
	return resp, nil
}
