// Package group is consumer groups: membership, offsets, on an internal
// compacted topic in our own log. The handlers pass requests through; link's
// offset sync writes offsets of a source's groups. It knows no connections.
package group

import (
	"context"
	"log/slog"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/partition"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Config is the coordinator's settings, from broker configs of the same names.
type Config struct {
	SessionMin, SessionMax time.Duration // group.min/max.session.timeout.ms
	InitialDelay           time.Duration // group.initial.rebalance.delay.ms
	MaxSize                int           // group.max.size
	OffsetsRetention       time.Duration // offsets.retention.minutes
	MetadataMaxBytes       int           // offset.metadata.max.bytes
	Logger                 *slog.Logger
}

// Env is what the coordinator needs of the broker.
type Env struct {
	// OffsetsPartition is partition n of the offsets topic, made on first need.
	OffsetsPartition  func(ctx context.Context, n int32) (*partition.Partition, error)
	OffsetsPartitions int32
	// Bounds are a partition's log start and high watermark; false if there is no such partition here. An
	// OffsetFetch never answers above the high watermark.
	Bounds func(tp kafka.TopicPartition) (start, end kafka.Offset, ok bool)
	// TopicID names the topic's present id, so that a deleted topic's commits vanish (case C90).
	TopicID func(name string) (kafka.TopicID, bool)
}

// Client is who sent a request.
type Client struct {
	ID, Host  string
	Principal string
}

// Coordinator is all groups of this broker.
type Coordinator struct{ impl }

// New makes a coordinator; Load reads the offsets topic.
func New(cfg Config, env Env) *Coordinator { panic("group: to be built") }

// Load replays the offsets topic's partitions; until it is done requests are answered COORDINATOR_LOAD_IN_PROGRESS.
func (c *Coordinator) Load(ctx context.Context) error { panic("group: to be built") }

// The APIs. Requests and responses are the protocol's own; errors are in the responses.
func (c *Coordinator) JoinGroup(ctx context.Context, from Client, rq *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	panic("group: to be built")
}
func (c *Coordinator) SyncGroup(ctx context.Context, from Client, rq *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	panic("group: to be built")
}
func (c *Coordinator) Heartbeat(ctx context.Context, from Client, rq *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	panic("group: to be built")
}
func (c *Coordinator) LeaveGroup(ctx context.Context, from Client, rq *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	panic("group: to be built")
}
func (c *Coordinator) OffsetCommit(ctx context.Context, from Client, rq *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	panic("group: to be built")
}
func (c *Coordinator) OffsetFetch(ctx context.Context, from Client, rq *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	panic("group: to be built")
}
func (c *Coordinator) OffsetDelete(ctx context.Context, rq *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	panic("group: to be built")
}
func (c *Coordinator) ListGroups(ctx context.Context, rq *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	panic("group: to be built")
}
func (c *Coordinator) DescribeGroups(ctx context.Context, rq *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	panic("group: to be built")
}
func (c *Coordinator) DeleteGroups(ctx context.Context, rq *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse {
	panic("group: to be built")
}

// Synced is an offset that the link's sync task brings from a source.
type Synced struct {
	TopicPartition kafka.TopicPartition
	Offset         kafka.Offset
	Metadata       string
}

// CommitSynced writes a source's offsets for a group without members here (with
// members: GROUP_ID conflict as kafka.NonEmptyGroup). Each is written only if live says, under the coordinator's lock, that
// its mirror still belongs to the link at the generation that the task read (rule G1), and clamped to the partition's bounds. Equal values are not written again.
// written counts what was. Leader epochs are stored as -1 (rule E4).
func (c *Coordinator) CommitSynced(ctx context.Context, group string, offsets []Synced, live func(kafka.TopicPartition) bool) (written int, err error) {
	panic("group: to be built")
}

// Clamp lowers every group's offset on the topic's partitions that is above end (by partition; exclusive
// end, the stop point) to it, durably. It counts those it lowered.
func (c *Coordinator) Clamp(ctx context.Context, topic string, ends []kafka.Offset) (lowered int, err error) {
	panic("group: to be built")
}

// Committed lists the offsets of all groups on one topic, for lag and dry runs.
func (c *Coordinator) Committed(topic string) map[string][]Synced { panic("group: to be built") }

// TopicDeleted drops all groups' commits on the topic.
func (c *Coordinator) TopicDeleted(ctx context.Context, name string) { panic("group: to be built") }

// Close ends timers and waits; members are told NOT_COORDINATOR.
func (c *Coordinator) Close() { panic("group: to be built") }

type impl struct{}
