package txn

import (
	"context"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// enlistment is who wants which partitions in a transaction.
type enlistment struct {
	id         string
	who        identity
	partitions []kafka.TopicPartition
	version    int16 // of the client's transaction protocol
}

// AddPartitionsToTxn takes partitions into a transaction before they are written to. From v4 on other brokers
// ask for many at once, or only whether they are in it.
func (c *Coordinator) AddPartitionsToTxn(ctx context.Context, rq *kmsg.AddPartitionsToTxnRequest) *kmsg.AddPartitionsToTxnResponse {
	resp := rq.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	if rq.Version < 4 {
		topics := make([]kmsg.AddPartitionsToTxnRequestTransactionTopic, len(rq.Topics))
		for i, t := range rq.Topics {
			topics[i] = kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: t.Topic, Partitions: t.Partitions}
		}
		en := enlistment{rq.TransactionalID, identity{kafka.ProducerID(rq.ProducerID), rq.ProducerEpoch}, listed(topics), 1}
		codes := c.add(ctx, en)
		for _, t := range answered(topics, codes, func(code kafka.ErrorCode) kafka.ErrorCode {
			if code == kafka.ProducerFenced && rq.Version < 2 {
				return kafka.InvalidProducerEpoch
			}
			return code
		}) {
			topic := kmsg.NewAddPartitionsToTxnResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				one := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				one.Partition, one.ErrorCode = p.Partition, p.ErrorCode
				topic.Partitions = append(topic.Partitions, one)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp
	}
	for _, txn := range rq.Transactions {
		en := enlistment{txn.TransactionalID, identity{kafka.ProducerID(txn.ProducerID), txn.ProducerEpoch}, listed(txn.Topics), 2}
		ask := c.add
		if txn.VerifyOnly {
			ask = c.verify
		}
		answer := kmsg.NewAddPartitionsToTxnResponseTransaction()
		answer.TransactionalID = txn.TransactionalID
		answer.Topics = answered(txn.Topics, ask(ctx, en), func(code kafka.ErrorCode) kafka.ErrorCode {
			if code == kafka.InvalidTxnState && rq.Version >= 5 {
				return kafka.TransactionAbortable
			}
			return code
		})
		resp.Transactions = append(resp.Transactions, answer)
	}
	return resp
}

func listed(topics []kmsg.AddPartitionsToTxnRequestTransactionTopic) []kafka.TopicPartition {
	var list []kafka.TopicPartition
	for _, t := range topics {
		for _, p := range t.Partitions {
			list = append(list, kafka.TopicPartition{Topic: t.Topic, Partition: p})
		}
	}
	return list
}

func answered(topics []kmsg.AddPartitionsToTxnRequestTransactionTopic, codes map[kafka.TopicPartition]kafka.ErrorCode,
	say func(kafka.ErrorCode) kafka.ErrorCode) []kmsg.AddPartitionsToTxnResponseTransactionTopic {
	var list []kmsg.AddPartitionsToTxnResponseTransactionTopic
	for _, t := range topics {
		topic := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			one := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
			one.Partition, one.ErrorCode = p, int16(say(codes[kafka.TopicPartition{Topic: t.Topic, Partition: p}]))
			topic.Partitions = append(topic.Partitions, one)
		}
		list = append(list, topic)
	}
	return list
}

// add takes all partitions in, or none: if one cannot be, the others are OPERATION_NOT_ATTEMPTED.
func (c *impl) add(ctx context.Context, en enlistment) map[kafka.TopicPartition]kafka.ErrorCode {
	codes := map[kafka.TopicPartition]kafka.ErrorCode{}
	bad := false
	for _, tp := range en.partitions {
		codes[tp] = c.mayAdd(tp)
		bad = bad || codes[tp] != kafka.None
	}
	all := kafka.OperationNotAttempted
	if !bad {
		all = c.enlist(ctx, en)
	}
	for tp, code := range codes {
		if code == kafka.None {
			codes[tp] = all
		}
	}
	return codes
}

func (c *impl) mayAdd(tp kafka.TopicPartition) kafka.ErrorCode {
	if err := c.doors.admit(tp); err != nil {
		return kafka.CodeOf(err)
	}
	if c.env.Refuse != nil {
		return kafka.CodeOf(c.env.Refuse(tp))
	}
	return kafka.None
}

// enlist takes partitions in and returns once that is durable.
func (c *impl) enlist(ctx context.Context, en enlistment) kafka.ErrorCode {
	e, bad := c.find(en.id)
	if bad != kafka.None {
		return bad
	}
	began := e.t.state != Ongoing
	next, changed, decided := e.t.decideAdd(en.who, en.partitions, en.version, time.Now().UnixMilli())
	if decided == kafka.None && changed {
		if err := c.write(ctx, e, &next); err != nil {
			decided = code(err)
		} else if began {
			c.arm(e)
		}
	}
	end := e.end
	c.leave(e)
	if decided != kafka.None {
		return decided
	}
	return c.whenSynced(ctx, e, end)
}

func (c *impl) verify(ctx context.Context, en enlistment) map[kafka.TopicPartition]kafka.ErrorCode {
	codes := map[kafka.TopicPartition]kafka.ErrorCode{}
	for _, tp := range en.partitions {
		codes[tp] = c.confirm(ctx, en.id, en.who, tp)
	}
	return codes
}

func (c *impl) confirm(ctx context.Context, id string, who identity, tp kafka.TopicPartition) kafka.ErrorCode {
	e, bad := c.find(id)
	if bad != kafka.None {
		return bad
	}
	end, code := e.t.confirm(who, tp)
	c.leave(e)
	if code != kafka.None {
		return code
	}
	return c.whenSynced(ctx, e, end)
}

// Enlist is whether a request that writes may take its partition into the transaction by itself.
type Enlist int8

// The two modes.
const (
	EnlistBefore   Enlist = iota // AddPartitionsToTxn came before: Produce up to v11
	EnlistImplicit               // writing does it: Produce from v12 on (KIP-890)
)

// Confirm says nil if the partition is, durably, in the ongoing transaction of (id, epoch): what
// partition.Append asks (rule P2).
func (c *Coordinator) Confirm(ctx context.Context, transactionalID string, tp kafka.TopicPartition, id kafka.ProducerID, epoch int16,
	mode Enlist) error {
	who := identity{id, epoch}
	var code kafka.ErrorCode
	if mode == EnlistImplicit {
		code = c.confirm(ctx, transactionalID, who, tp)
		if code == kafka.InvalidTxnState {
			code = c.add(ctx, enlistment{transactionalID, who, []kafka.TopicPartition{tp}, 2})[tp]
		}
	} else {
		code = c.confirm(ctx, transactionalID, who, tp)
	}
	return produceError(code, transactionalID, tp, mode)
}

// Enlist takes several partitions into the transaction at once, as EnlistImplicit does one by one.
func (c *Coordinator) Enlist(ctx context.Context, transactionalID string, partitions []kafka.TopicPartition, id kafka.ProducerID,
	epoch int16) error {
	for _, tp := range partitions {
		if code := c.mayAdd(tp); code != kafka.None {
			return produceError(code, transactionalID, tp, EnlistImplicit)
		}
	}
	code := c.enlist(ctx, enlistment{transactionalID, identity{id, epoch}, partitions, 2})
	return produceError(code, transactionalID, kafka.TopicPartition{}, EnlistImplicit)
}

// produceError turns a coordinator's code into one that producers know what to do with, as Kafka's brokers do.
func produceError(code kafka.ErrorCode, transactionalID string, tp kafka.TopicPartition, mode Enlist) error {
	switch code {
	case kafka.None:
		return nil
	case kafka.ProducerFenced:
		return kafka.Errorf(kafka.InvalidProducerEpoch,
			"Transactional id '%s' has been taken over by a newer producer, or its transaction was ended.", transactionalID)
	case kafka.InvalidTxnState:
		return kafka.Errorf(code, "Partition %s is not part of the ongoing transaction of '%s'.", tp, transactionalID)
	case kafka.InvalidProducerIDMapping:
		return kafka.Errorf(code, "The producer id does not belong to transactional id '%s'.", transactionalID)
	case kafka.ConcurrentTransactions:
		if mode == EnlistImplicit {
			return code
		}
		fallthrough
	case kafka.CoordinatorLoadInProgress, kafka.CoordinatorNotAvailable, kafka.NotCoordinator:
		return kafka.Errorf(kafka.NotEnoughReplicas,
			"Unable to verify the partition has been added to the transaction. Underlying error: %s", code)
	}
	return code
}

// ConfirmOffsets is Confirm for the group coordinator, which does not hear the transactional id: group.Env.ConfirmTxn.
func (c *Coordinator) ConfirmOffsets(id kafka.ProducerID, epoch int16, tp kafka.TopicPartition) error {
	if code := c.ready(); code != kafka.None {
		return code
	}
	c.mu.Lock()
	e := c.producers[id]
	c.mu.Unlock()
	if e == nil || !e.hold() {
		return kafka.InvalidProducerIDMapping
	}
	end, code := e.t.confirm(identity{id, epoch}, tp)
	c.leave(e)
	if code == kafka.None {
		code = c.whenSynced(c.life, e, end)
	}
	if code == kafka.ProducerFenced {
		code = kafka.InvalidProducerEpoch
	}
	if code == kafka.None {
		return nil
	}
	return code
}

func (c *impl) offsetsPartition(group string) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: kafka.ConsumerOffsetsTopic, Partition: kafka.PartitionFor(group, max(c.env.OffsetsPartitions, 1))}
}

// AddOffsetsToTxn takes a group's partition of the offsets topic into the transaction.
func (c *Coordinator) AddOffsetsToTxn(ctx context.Context, rq *kmsg.AddOffsetsToTxnRequest) *kmsg.AddOffsetsToTxnResponse {
	resp := rq.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	code := c.enlist(ctx, enlistment{rq.TransactionalID, identity{kafka.ProducerID(rq.ProducerID), rq.ProducerEpoch},
		[]kafka.TopicPartition{c.offsetsPartition(rq.Group)}, 1})
	if code == kafka.ProducerFenced && rq.Version < 2 {
		code = kafka.InvalidProducerEpoch
	}
	resp.ErrorCode = int16(code)
	return resp
}

// TxnOffsetCommit commits a group's offsets in a transaction. From v5 on it takes the group's partition in by itself (KIP-890).
func (c *Coordinator) TxnOffsetCommit(ctx context.Context, rq *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse {
	if rq.Version >= 5 {
		tp := c.offsetsPartition(rq.Group)
		who := identity{kafka.ProducerID(rq.ProducerID), rq.ProducerEpoch}
		code := c.confirm(ctx, rq.TransactionalID, who, tp)
		if code == kafka.InvalidTxnState {
			code = c.enlist(ctx, enlistment{rq.TransactionalID, who, []kafka.TopicPartition{tp}, 2})
		}
		if code != kafka.None {
			return refuseOffsets(rq, code)
		}
	}
	return c.env.Offsets.TxnOffsetCommit(ctx, rq)
}

func refuseOffsets(rq *kmsg.TxnOffsetCommitRequest, code kafka.ErrorCode) *kmsg.TxnOffsetCommitResponse {
	if code == kafka.ProducerFenced {
		code = kafka.InvalidProducerEpoch
	}
	resp := rq.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	for _, t := range rq.Topics {
		topic := kmsg.NewTxnOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			one := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			one.Partition, one.ErrorCode = p.Partition, int16(code)
			topic.Partitions = append(topic.Partitions, one)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}
