// Package txn is producer ids and transactions: who may write in which transaction, and the markers that
// end it. The handlers pass requests through, partitions ask it to confirm transactional appends. It
// knows no connections, and of consumer groups only what it needs to end their part of a transaction.
//
// A transactional id's state is a record on the transaction state topic, in Kafka's format. A
// request is decided on what is in memory, the record is appended, and only the appended record
// changes memory, by the same code that reads the topic at start. Markers are written only after the
// decision that they carry is synced.
package txn

import (
	"context"
	"log/slog"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Config is the coordinator's settings, from broker configs of the same names.
type Config struct {
	MaxTimeout   time.Duration // transaction.max.timeout.ms; 15 minutes where zero
	IDExpiration time.Duration // transactional.id.expiration.ms; 0 keeps ids for ever
	Logger       *slog.Logger
}

// Offsets is the group coordinator's part of transactions; *group.Coordinator is one.
type Offsets interface {
	// TxnOffsetCommit stores offsets that wait for the marker.
	TxnOffsetCommit(ctx context.Context, rq *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse
	// WriteMarker ends the producer's transaction in partition n of the offsets topic; it returns once that is durable.
	WriteMarker(ctx context.Context, n int32, id kafka.ProducerID, epoch int16, marker batch.Marker, coordinatorEpoch int32) error
}

// Env is what the coordinator needs of the broker.
type Env struct {
	// StatePartition is partition n of the transaction state topic, made on first need.
	StatePartition  func(ctx context.Context, n int32) (*partition.Partition, error)
	StatePartitions int32
	// TopicID says whether a topic exists, the state topic among them.
	TopicID func(name string) (kafka.TopicID, bool)
	// Partition finds a partition by its topic's name; nil if there is no such partition in the cluster. It must
	// be able to find all of them before Load is called.
	Partition func(tp kafka.TopicPartition) *partition.Partition
	Offsets   Offsets
	// OffsetsPartitions is how many partitions the offsets topic has.
	OffsetsPartitions int32
	IDs               *IDs
	// Refuse says why no transaction may take the partition in just now (rule R5: it is being frozen); nil for no such rule.
	Refuse func(tp kafka.TopicPartition) error
}

// Coordinator is all transactional ids of this broker.
type Coordinator struct{ impl }

// New makes a coordinator; Load reads the state topic.
func New(cfg Config, env Env) *Coordinator {
	return newCoordinator(cfg, env, doors{
		open: func(ctx context.Context, n int32) (stateLog, error) {
			p, err := env.StatePartition(ctx, n)
			if err != nil {
				return nil, err
			}
			return partitionLog{p}, nil
		},
		admit: func(tp kafka.TopicPartition) error {
			p := env.Partition(tp)
			if p == nil {
				return kafka.UnknownTopicOrPartition
			}
			if p.Offsets().Role != meta.RoleOpen {
				return kafka.Errorf(kafka.InvalidRequest, "Cannot append records to read-only mirror topic '%s'", tp.Topic)
			}
			return nil
		},
		mark: func(ctx context.Context, tp kafka.TopicPartition, m marking) (func(context.Context) error, error) {
			p := env.Partition(tp)
			if p == nil {
				return nil, kafka.UnknownTopicOrPartition
			}
			appended, err := p.AppendMarker(ctx, m.id, m.epoch, m.marker, m.coordinator)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error { return p.WaitSynced(ctx, appended.Next) }, nil
		},
	})
}
