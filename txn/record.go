package txn

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// encodeKey is Kafka's TransactionLogKey, version 0.
func encodeKey(id string) []byte {
	key := kmsg.TxnMetadataKey{TransactionalID: id}
	return key.AppendTo(nil)
}

// encodeValue is Kafka's TransactionLogValue, version 1.
func encodeValue(t transaction) []byte {
	value := kmsg.TxnMetadataValue{Version: 1, ProducerID: int64(t.producer), ProducerEpoch: t.epoch, TimeoutMillis: t.timeoutMs,
		State: kmsg.TransactionState(t.state), LastUpdateTimestamp: t.updatedMs, StartTimestamp: t.startMs,
		PreviousProducerID: int64(t.previous), NextProducerID: int64(t.next), ClientTransactionVersion: t.version, NextProducerEpoch: -1}
	if t.state != Empty {
		value.Topics = []kmsg.TxnMetadataValueTopic{} // Kafka reads null only for Empty
	}
	for _, tp := range t.sorted() {
		last := len(value.Topics) - 1
		if last < 0 || value.Topics[last].Topic != tp.Topic {
			value.Topics = append(value.Topics, kmsg.TxnMetadataValueTopic{Topic: tp.Topic})
			last++
		}
		value.Topics[last].Partitions = append(value.Topics[last].Partitions, tp.Partition)
	}
	return value.AppendTo(nil)
}

// sorted is the partitions by topic and number.
func (t transaction) sorted() []kafka.TopicPartition {
	list := make([]kafka.TopicPartition, 0, len(t.partitions))
	for tp := range t.partitions {
		list = append(list, tp)
	}
	slices.SortFunc(list, func(a, b kafka.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return list
}

func decodeKey(key []byte) (string, error) {
	var k kmsg.TxnMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return "", fmt.Errorf("read a transactional id's key: %w", err)
	}
	if k.Version != 0 {
		return "", fmt.Errorf("read a transactional id's key: version %d is not known", k.Version)
	}
	return k.TransactionalID, nil
}

// decodeValue reads what encodeValue or a Kafka broker wrote. end is the exclusive end of its record in the state log.
func decodeValue(id string, raw []byte, end kafka.Offset) (transaction, error) {
	var v kmsg.TxnMetadataValue
	v.Default()
	if err := v.ReadFrom(raw); err != nil {
		return transaction{}, fmt.Errorf("read the state of transactional id %q: %w", id, err)
	}
	state := State(v.State)
	if _, ok := stateNames[state]; !ok || v.Version < 0 || v.Version > 1 {
		return transaction{}, fmt.Errorf("read the state of transactional id %q: version %d or state %d is not known",
			id, v.Version, v.State)
	}
	t := newTransaction(id, kafka.ProducerID(v.ProducerID))
	t.epoch, t.timeoutMs, t.state, t.updatedMs, t.startMs = v.ProducerEpoch, v.TimeoutMillis, state, v.LastUpdateTimestamp, v.StartTimestamp
	if v.Version >= 1 {
		t.previous, t.next, t.version = kafka.ProducerID(v.PreviousProducerID), kafka.ProducerID(v.NextProducerID),
			v.ClientTransactionVersion
	}
	for _, topic := range v.Topics {
		for _, p := range topic.Partitions {
			if t.partitions == nil {
				t.partitions = map[kafka.TopicPartition]kafka.Offset{}
			}
			t.partitions[kafka.TopicPartition{Topic: topic.Topic, Partition: p}] = end
		}
	}
	return t, nil
}
