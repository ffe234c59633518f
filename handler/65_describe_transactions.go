package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeTransactions, key 65, version 0. Shows the state of transactions (KIP-664).
func describeTransactions(ctx context.Context, c *call, rq *kmsg.DescribeTransactionsRequest) (kmsg.Response, error) {
	forward := *rq
	forward.TransactionalIDs = []string{}
	denied := []kmsg.DescribeTransactionsResponseTransactionState{}
	for _, id := range rq.TransactionalIDs {
		if c.txnAllowed(kmsg.ACLOperationDescribe, id) {
			forward.TransactionalIDs = append(forward.TransactionalIDs, id)
			continue
		}
		out := kmsg.NewDescribeTransactionsResponseTransactionState()
		out.TransactionalID, out.ErrorCode = id, code(errTxnDenied)
		denied = append(denied, out)
	}
	resp := c.Transactions.DescribeTransactions(ctx, &forward)
	for i := range resp.TransactionStates {
		state := &resp.TransactionStates[i]
		kept := state.Topics[:0]
		for _, topic := range state.Topics {
			if c.topicAllowed(kmsg.ACLOperationDescribe, topic.Topic) {
				kept = append(kept, topic)
			}
		}
		state.Topics = kept
	}
	resp.TransactionStates = append(resp.TransactionStates, denied...)
	return resp, nil
}
