package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AddOffsetsToTxn, key 25, versions 0-4. Adds a group's offsets to a producer's transaction.
//
//	v3 flexible encoding. v4 TRANSACTION_ABORTABLE.
func addOffsetsToTxn(ctx context.Context, c *call, rq *kmsg.AddOffsetsToTxnRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrAddOffsetsToTxnResponse()
	switch {
	case !c.txnAllowed(kmsg.ACLOperationWrite, rq.TransactionalID):
		resp.ErrorCode = code(errTxnDenied)
	case !c.groupAllowed(kmsg.ACLOperationRead, rq.Group):
		resp.ErrorCode = code(errGroupDenied)
	default:
		return c.Transactions.AddOffsetsToTxn(ctx, c.from, rq), nil
	}
	return resp, nil
}
