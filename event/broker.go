package event

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// BrokerReady says that all doors are open.
type BrokerReady struct {
	NodeID    int32
	ClusterID string
	Listeners string
	HTTP      string
	Took      time.Duration
}

func (e BrokerReady) String() string {
	return fmt.Sprintf("Broker %d of cluster %s is ready at %s after %v.", e.NodeID, e.ClusterID, e.Listeners, e.Took.Round(time.Millisecond))
}

func (e BrokerReady) Line() Line {
	return line("broker_ready", slog.LevelInfo).with(slog.Int64("node_id", int64(e.NodeID)), slog.String("cluster_id", e.ClusterID),
		slog.String("listeners", e.Listeners), slog.String("http", e.HTTP), slog.Duration("took", e.Took))
}

// BrokerStopping says that the broker was told to stop.
type BrokerStopping struct{ Reason string }

func (e BrokerStopping) String() string { return "Broker is stopping" + because(e.Reason) + "." }

func (e BrokerStopping) Line() Line {
	return line("broker_stopping", slog.LevelInfo).with(slog.String("reason", e.Reason))
}

// TopicCreated says that a topic was made.
type TopicCreated struct {
	Topic, ID  string
	Partitions int32
}

func (e TopicCreated) String() string {
	if e.Partitions == 1 {
		return fmt.Sprintf("Topic %s was created with one partition.", e.Topic)
	}
	return fmt.Sprintf("Topic %s was created with %d partitions.", e.Topic, e.Partitions)
}

func (e TopicCreated) Line() Line {
	return line("topic_created", slog.LevelInfo).of("", e.Topic).with(slog.String("topic_id", e.ID),
		slog.Int64("partitions", int64(e.Partitions)))
}

// TopicDeleted says that a topic was deleted.
type TopicDeleted struct{ Topic, ID string }

func (e TopicDeleted) String() string { return fmt.Sprintf("Topic %s was deleted.", e.Topic) }

func (e TopicDeleted) Line() Line {
	return line("topic_deleted", slog.LevelInfo).of("", e.Topic).with(slog.String("topic_id", e.ID))
}

// PartitionOutOfService says that a partition cannot be read or written here.
type PartitionOutOfService struct {
	Topic     string
	Partition int32
	Err       error
}

func (e PartitionOutOfService) String() string {
	return fmt.Sprintf("Partition %s-%d is out of service: %v", e.Topic, e.Partition, e.Err)
}

func (e PartitionOutOfService) Line() Line {
	return line("partition_out_of_service", slog.LevelWarn).of("", e.Topic).in(e.Partition).with(slog.Any("err", e.Err))
}

// PartitionInService says that a partition that was out of service has been opened.
type PartitionInService struct {
	Topic     string
	Partition int32
}

func (e PartitionInService) String() string {
	return fmt.Sprintf("Partition %s-%d is in service again.", e.Topic, e.Partition)
}

func (e PartitionInService) Line() Line {
	return line("partition_in_service", slog.LevelInfo).of("", e.Topic).in(e.Partition)
}

// RecoveryFound says what a log needed after the broker was not stopped in order.
type RecoveryFound struct {
	Topic     string
	Partition int32
	Offset    kafka.Offset // the log's end after it
	TornBytes int64        // cut off: a write that was not synced
	Scanned   int64        // bytes checked
	Rebuilt   int          // indexes that were made anew
	// StartLost says that what knew the log start is gone: it fell back to where the oldest segment begins.
	StartLost bool
}

func (e RecoveryFound) String() string {
	if e.StartLost {
		return fmt.Sprintf("The checkpoint of log %s-%d was lost or damaged and is made anew up to offset %d: records of its oldest "+
			"segment that had been deleted can be read again, and %d bytes that were not synced were cut off.", e.Topic, e.Partition,
			e.Offset, e.TornBytes)
	}
	if e.TornBytes == 0 {
		return fmt.Sprintf("Log %s-%d was not closed in order and was recovered up to offset %d: nothing was lost.", e.Topic, e.Partition,
			e.Offset)
	}
	return fmt.Sprintf("Log %s-%d was recovered up to offset %d: %d bytes that were not synced were cut off.", e.Topic, e.Partition,
		e.Offset, e.TornBytes)
}

func (e RecoveryFound) Line() Line {
	level := slog.LevelInfo
	if e.TornBytes > 0 || e.StartLost {
		level = slog.LevelWarn
	}
	return line("recovery_found", level).of("", e.Topic).in(e.Partition).at(e.Offset, kafka.NoEpoch).
		with(slog.Int64("torn_bytes", e.TornBytes), slog.Int64("scanned_bytes", e.Scanned), slog.Int("rebuilt", e.Rebuilt))
}

// DirectorySetAside says that a log directory was found whose topic is not known
// and was not deleted either (protocol rule D7).
type DirectorySetAside struct{ From, To string }

func (e DirectorySetAside) String() string {
	return fmt.Sprintf("Log directory %s belongs to no known topic and was set aside as %s.", e.From, e.To)
}

func (e DirectorySetAside) Line() Line {
	return line("directory_set_aside", slog.LevelWarn).with(slog.String("from", e.From), slog.String("to", e.To))
}

// MetadataReadOnly says that ordinary metadata writes begin or cease to be refused.
type MetadataReadOnly struct {
	ReadOnly              bool
	UsedBytes, QuotaBytes int64
}

func (e MetadataReadOnly) String() string {
	if !e.ReadOnly {
		return "Metadata can be changed again: there is space enough."
	}
	return fmt.Sprintf("Metadata cannot be changed: %d of %d bytes are used.", e.UsedBytes, e.QuotaBytes)
}

func (e MetadataReadOnly) Line() Line {
	level := slog.LevelInfo
	if e.ReadOnly {
		level = slog.LevelWarn
	}
	return line("metadata_read_only", level).
		with(slog.Bool("read_only", e.ReadOnly), slog.Int64("used_bytes", e.UsedBytes), slog.Int64("quota_bytes", e.QuotaBytes))
}
