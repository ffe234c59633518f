package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AddPartitionsToTxn, key 24, versions 0-5. Adds partitions to a producer's transaction.
//
//	All or none: if one partition may not be added, the others are answered OPERATION_NOT_ATTEMPTED.
//	A live mirror takes no transactions: INVALID_REQUEST for its partitions.
//	v3 flexible encoding. v4 several transactions (between brokers). v5 TRANSACTION_ABORTABLE.
func addPartitionsToTxn(ctx context.Context, c *call, rq *kmsg.AddPartitionsToTxnRequest) (kmsg.Response, error) {
	if c.version >= 4 {
		if !c.clusterAllowed(kmsg.ACLOperationClusterAction) {
			resp := kmsg.NewPtrAddPartitionsToTxnResponse()
			resp.ErrorCode = code(errClusterDenied)
			return resp, nil
		}
		return c.Transactions.AddPartitionsToTxn(ctx, c.from, rq), nil
	}
	if !c.txnAllowed(kmsg.ACLOperationWrite, rq.TransactionalID) {
		return addedAnswer(rq, func(string, int32) error { return errTxnDenied }), nil
	}
	refused := map[kafka.TopicPartition]error{}
	for _, topic := range rq.Topics {
		err := c.transactable(topic.Topic)
		for _, number := range topic.Partitions {
			perr := err
			if perr == nil {
				perr = c.groupPartition(topic.Topic, number)
			}
			if perr != nil {
				refused[kafka.TopicPartition{Topic: topic.Topic, Partition: number}] = perr
			}
		}
	}
	if len(refused) > 0 {
		return addedAnswer(rq, func(topic string, number int32) error {
			if err := refused[kafka.TopicPartition{Topic: topic, Partition: number}]; err != nil {
				return err
			}
			return kafka.OperationNotAttempted
		}), nil
	}
	return c.Transactions.AddPartitionsToTxn(ctx, c.from, rq), nil
}

// transactable says why no transaction may write to the topic.
func (c *call) transactable(topic string) error {
	t, err := c.readable(topic, kmsg.ACLOperationWrite)
	if err != nil {
		return err
	}
	return c.readOnly(t)
}

// abortableFrom makes the word that something is not part of the transaction, for clients from version first on, the one on
// which they abort it and begin another (KIP-890). To the other some of them give up for good.
func (c *call) abortableFrom(first int16, err error) error {
	if c.version < first || kafka.CodeOf(err) != kafka.InvalidTxnState {
		return err
	}
	return kafka.Errorf(kafka.TransactionAbortable, "%s", *kafka.MessageOf(err))
}

func (c *call) txnAllowed(op kmsg.ACLOperation, id string) bool {
	return c.allowed(op, kmsg.ACLResourceTypeTransactionalId, id)
}

var errTxnDenied = kafka.Errorf(kafka.TransactionalIDAuthorizationFailed, "Transactional id authorization failed.")

// addedAnswer answers every partition of a request of versions 0-3.
func addedAnswer(rq *kmsg.AddPartitionsToTxnRequest, of func(string, int32) error) *kmsg.AddPartitionsToTxnResponse {
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	for _, in := range rq.Topics {
		out := kmsg.NewAddPartitionsToTxnResponseTopic()
		out.Topic = in.Topic
		for _, number := range in.Partitions {
			p := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			p.Partition, p.ErrorCode = number, code(of(in.Topic, number))
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
