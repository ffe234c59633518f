// Package group is consumer groups: membership, offsets, on an internal
// compacted topic in our own log. The handlers pass requests through; link's
// offset sync writes offsets of a source's groups. It knows no connections.
package group

import (
	"context"
	"log/slog"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// Config is the coordinator's settings, from broker configs of the same names.
type Config struct {
	SessionMin, SessionMax time.Duration // group.min/max.session.timeout.ms
	InitialDelay           time.Duration // group.initial.rebalance.delay.ms
	MaxSize                int           // group.max.size
	OffsetsRetention       time.Duration // offsets.retention.minutes
	MetadataMaxBytes       int           // offset.metadata.max.bytes
	ConsumerSession        time.Duration // group.consumer.session.timeout.ms; 45 s where zero
	ConsumerInterval       time.Duration // group.consumer.heartbeat.interval.ms; 5 s where zero
	ConsumerMaxSize        int           // group.consumer.max.size; no limit where zero
	Migration              Migration     // group.consumer.migration.policy; bidirectional where empty
	ClassicOnly            bool          // group.coordinator.rebalance.protocols does not list the consumer protocol
	Logger                 *slog.Logger
}

// Env is what the coordinator needs of the broker.
type Env struct {
	// OffsetsPartition is partition n of the offsets topic, made on first need.
	OffsetsPartition  func(ctx context.Context, n int32) (*partition.Partition, error)
	OffsetsPartitions int32
	// Bounds are a partition's log start and high watermark; false if there is no such partition here. The end is NoOffset
	// where the partition is out of service: nothing is known of it, and what is committed on it stays as it is.
	Bounds func(tp kafka.TopicPartition) (start, end kafka.Offset, ok bool)
	// Mirrored says whether the topic is a mirror that follows a source: of such an OffsetFetch never answers above the high
	// watermark (case C21). Of others it says what was committed, as Kafka. With nil no topic is one.
	Mirrored func(topic string) bool
	// TopicID names the topic's present id, so that a deleted topic's commits vanish (case C90).
	TopicID func(name string) (kafka.TopicID, bool)
	// Refuse says why nobody may commit on the partition just now (rules T8, R8); nil for no such rule.
	Refuse func(tp kafka.TopicPartition) error
	// ConfirmTxn is the transaction coordinator's word that the producer's ongoing transaction holds
	// the partition of the offsets topic (rule P2). With nil nobody commits offsets in a transaction.
	ConfirmTxn func(id kafka.ProducerID, epoch int16, tp kafka.TopicPartition) error
	// Image is what topics there are, for groups in which the broker assigns (KIP-848). With nil there are none.
	Image func() *meta.Image
	// MayDescribe says whether the client may see the topic, for expressions that it subscribes to; nil: everyone may.
	MayDescribe func(from Client, topic string) bool
	// ConsumerTimes are a group's session time-out and heartbeat interval in the consumer protocol, asked at each
	// heartbeat; nil: the Config's.
	ConsumerTimes func(group string) (session, interval time.Duration)
}

// Client is who sent a request.
type Client struct {
	ID, Host  string
	Principal string
}

// Coordinator is all groups of this broker.
type Coordinator struct{ impl }

// New makes a coordinator; Load reads the offsets topic.
func New(cfg Config, env Env) *Coordinator {
	return newCoordinator(cfg, env, func(ctx context.Context, n int32) (offsetsLog, error) {
		p, err := env.OffsetsPartition(ctx, n)
		if err != nil {
			return nil, err
		}
		return partitionLog{p}, nil
	})
}

// Synced is an offset that the link's sync task brings from a source.
type Synced struct {
	TopicPartition kafka.TopicPartition
	Offset         kafka.Offset
	Metadata       string
}
