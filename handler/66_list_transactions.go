package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListTransactions, key 66, versions 0-2. Lists the transactions that the caller may see (KIP-664).
//
//	v1 by duration. v2 by a pattern of transactional ids.
func listTransactions(ctx context.Context, c *call, rq *kmsg.ListTransactionsRequest) (kmsg.Response, error) {
	resp := c.Transactions.ListTransactions(ctx, rq)
	kept := resp.TransactionStates[:0]
	for _, state := range resp.TransactionStates {
		if c.txnAllowed(kmsg.ACLOperationDescribe, state.TransactionalID) {
			kept = append(kept, state)
		}
	}
	resp.TransactionStates = kept
	return resp, nil
}
