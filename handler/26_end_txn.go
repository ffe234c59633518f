package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// EndTxn, key 26, versions 0-5. Commits or aborts a producer's transaction.
//
//	v3 flexible encoding. v4 TRANSACTION_ABORTABLE. v5 the producer's next epoch in the answer (KIP-890).
func endTxn(ctx context.Context, c *call, rq *kmsg.EndTxnRequest) (kmsg.Response, error) {
	if !c.txnAllowed(kmsg.ACLOperationWrite, rq.TransactionalID) {
		resp := kmsg.NewPtrEndTxnResponse()
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code(errTxnDenied), -1, -1
		return resp, nil
	}
	return c.Transactions.EndTxn(ctx, c.from, rq), nil
}
