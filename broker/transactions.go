package broker

import (
	"context"
	"fmt"

	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/handler"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/partition"
	"github.com/hawserio/hawser/txn"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (b *Broker) openTransactions(ctx context.Context) error {
	b.txns = txn.New(txn.Config{
		MaxTimeout:   b.values.Millis("transaction.max.timeout.ms"),
		IDExpiration: b.values.Millis("transactional.id.expiration.ms"),
		Logger:       b.log,
	}, txn.Env{
		StatePartition:    b.topics.statePartition,
		StatePartitions:   b.topics.statePartitions(),
		TopicID:           b.topics.idOf,
		Partition:         b.topics.partition,
		Offsets:           b.groups,
		OffsetsPartitions: b.topics.offsetsPartitions(),
		IDs:               b.ids,
		Refuse:            b.topics.refuseTransaction,
	})
	b.onClose(func() error { b.txns.Close(); return nil })
	if err := b.txns.Load(ctx); err != nil {
		return fmt.Errorf("load transactions: %w", err)
	}
	// An id may be with a producer that has written nothing yet (rule P3).
	return b.meta.RaiseProducerIDs(ctx, b.txns.HighestProducer(b.meta.Image().Cluster.ProducerPrefix))
}

// confirmTxn is asked by the group coordinator, which is there before the
// transactions are loaded.
func (b *Broker) confirmTxn(id kafka.ProducerID, epoch int16, tp kafka.TopicPartition) error {
	if b.txns == nil {
		return kafka.CoordinatorLoadInProgress
	}
	return b.txns.ConfirmOffsets(id, epoch, tp)
}

// partition finds a partition by its topic's name, nil if there is none.
func (t *topics) partition(tp kafka.TopicPartition) *partition.Partition {
	id, ok := t.idOf(tp.Topic)
	if !ok {
		return nil
	}
	return t.b.owner.Get(kafka.PartitionID{Topic: id, Partition: tp.Partition})
}

// statePartitions is how many partitions the transaction state topic has, or will have.
func (t *topics) statePartitions() int32 {
	if topic := t.ByName(kafka.TransactionStateTopic); topic != nil {
		return topic.Partitions
	}
	return int32(t.b.values.Int("transaction.state.log.num.partitions"))
}

// statePartition is one partition of the transaction state topic, which is made on first need.
func (t *topics) statePartition(ctx context.Context, n int32) (*partition.Partition, error) {
	return t.internal(ctx, kafka.TransactionStateTopic, t.statePartitions(), n)
}

// transactions lets the Kafka door reach the coordinator; it implements
// handler.Transactions. The coordinator asks nothing of who sent a request.
type transactions struct{ txns *txn.Coordinator }

func (t transactions) InitProducerID(ctx context.Context, _ group.Client, rq *kmsg.InitProducerIDRequest) *kmsg.InitProducerIDResponse {
	return t.txns.InitProducerID(ctx, rq)
}

func (t transactions) AddPartitionsToTxn(ctx context.Context, _ group.Client,
	rq *kmsg.AddPartitionsToTxnRequest) *kmsg.AddPartitionsToTxnResponse {
	return t.txns.AddPartitionsToTxn(ctx, rq)
}

func (t transactions) AddOffsetsToTxn(ctx context.Context, _ group.Client, rq *kmsg.AddOffsetsToTxnRequest) *kmsg.AddOffsetsToTxnResponse {
	return t.txns.AddOffsetsToTxn(ctx, rq)
}

func (t transactions) EndTxn(ctx context.Context, _ group.Client, rq *kmsg.EndTxnRequest) *kmsg.EndTxnResponse {
	return t.txns.EndTxn(ctx, rq)
}

func (t transactions) TxnOffsetCommit(ctx context.Context, _ group.Client, rq *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse {
	return t.txns.TxnOffsetCommit(ctx, rq)
}

func (t transactions) WriteTxnMarkers(ctx context.Context, rq *kmsg.WriteTxnMarkersRequest) *kmsg.WriteTxnMarkersResponse {
	return t.txns.WriteTxnMarkers(ctx, rq)
}

func (t transactions) DescribeTransactions(ctx context.Context, rq *kmsg.DescribeTransactionsRequest) *kmsg.DescribeTransactionsResponse {
	return t.txns.DescribeTransactions(ctx, rq)
}

func (t transactions) ListTransactions(ctx context.Context, rq *kmsg.ListTransactionsRequest) *kmsg.ListTransactionsResponse {
	return t.txns.ListTransactions(ctx, rq)
}

func (t transactions) Enlist(ctx context.Context, transactionalID string, partitions []kafka.TopicPartition, id kafka.ProducerID,
	epoch int16) error {
	return t.txns.Enlist(ctx, transactionalID, partitions, id, epoch)
}

func (t transactions) Confirm(ctx context.Context, transactionalID string, tp kafka.TopicPartition, id kafka.ProducerID,
	epoch int16, mode handler.Enlist) error {
	how := txn.EnlistBefore
	if mode == handler.EnlistImplicit {
		how = txn.EnlistImplicit
	}
	return t.txns.Confirm(ctx, transactionalID, tp, id, epoch, how)
}
