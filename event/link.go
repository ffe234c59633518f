package event

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/hawserio/hawser/kafka"
)

// LinkCreated says that a link was stored.
type LinkCreated struct{ Link, ID, Mode, RemoteClusterID string }

func (e LinkCreated) String() string {
	if e.RemoteClusterID == "" {
		return fmt.Sprintf("Link %s was created; the other cluster has not been reached yet.", e.Link)
	}
	return fmt.Sprintf("Link %s was created to cluster %s.", e.Link, e.RemoteClusterID)
}

func (e LinkCreated) Line() Line {
	return line("link_created", slog.LevelInfo).of(e.Link, "").
		with(slog.String("link_id", e.ID), slog.String("mode", e.Mode), slog.String("remote_cluster_id", e.RemoteClusterID))
}

// LinkDeleted says that a link was deleted.
type LinkDeleted struct {
	Link   string
	Forced bool // although it had live mirrors
}

func (e LinkDeleted) String() string {
	if e.Forced {
		return fmt.Sprintf("Link %s was deleted by force; its mirrors are topics of their own now.", e.Link)
	}
	return fmt.Sprintf("Link %s was deleted.", e.Link)
}

func (e LinkDeleted) Line() Line {
	return line("link_deleted", slog.LevelInfo).of(e.Link, "").with(slog.Bool("forced", e.Forced))
}

// LinkConfigsChanged says which configs of a link were changed; never their values.
type LinkConfigsChanged struct {
	Link  string
	Names []string
}

func (e LinkConfigsChanged) String() string {
	return fmt.Sprintf("Link %s: %s changed.", e.Link, strings.Join(e.Names, ", "))
}

func (e LinkConfigsChanged) Line() Line {
	return line("link_configs_changed", slog.LevelInfo).of(e.Link, "").with(slog.String("configs", strings.Join(e.Names, ",")))
}

// LinkStateChanged says that a link is seen in another state. Code is a link_error, "" or NO_ERROR for none.
type LinkStateChanged struct{ Link, From, To, Code, Text string }

func (e LinkStateChanged) String() string {
	return fmt.Sprintf("Link %s went from %s to %s%s.", e.Link, e.From, e.To, because(e.Text))
}

func (e LinkStateChanged) Line() Line {
	level := slog.LevelInfo
	if e.Code != "" && e.Code != "NO_ERROR" {
		level = slog.LevelWarn
	}
	return line("link_state_changed", level).of(e.Link, "").with(slog.String("from", e.From), slog.String("to", e.To),
		slog.String("code", e.Code))
}

// TaskStateChanged says that a task of a link is seen in another state.
type TaskStateChanged struct{ Link, Task, From, To, Code, Text string }

func (e TaskStateChanged) String() string {
	return fmt.Sprintf("Task %s of link %s went from %s to %s%s.", e.Task, e.Link, e.From, e.To, because(e.Text))
}

func (e TaskStateChanged) Line() Line {
	level := slog.LevelInfo
	if e.Code != "" {
		level = slog.LevelWarn
	}
	return line("task_state_changed", level).of(e.Link, "").
		with(slog.String("task", e.Task), slog.String("from", e.From), slog.String("to", e.To), slog.String("code", e.Code))
}

// MirrorCreated says that a mirror topic was made.
type MirrorCreated struct {
	Link, Topic, SourceTopic string
	Partitions               int32
	Auto                     bool // by the auto-create task
}

func (e MirrorCreated) String() string {
	return fmt.Sprintf("Topic %s mirrors %s over link %s.", e.Topic, e.SourceTopic, e.Link)
}

func (e MirrorCreated) Line() Line {
	return line("mirror_created", slog.LevelInfo).of(e.Link, e.Topic).
		with(slog.String("source_topic", e.SourceTopic), slog.Int64("partitions", int64(e.Partitions)), slog.Bool("auto", e.Auto))
}

// MirrorStateChanged says that another state of a mirror was stored.
type MirrorStateChanged struct{ Link, Topic, From, To, Code, Text string }

func (e MirrorStateChanged) String() string {
	return fmt.Sprintf("Mirror %s of link %s went from %s to %s%s.", e.Topic, e.Link, e.From, e.To, because(e.Text))
}

func (e MirrorStateChanged) Line() Line {
	level := slog.LevelInfo
	if e.Code != "" {
		level = slog.LevelWarn
	}
	return line("mirror_state_changed", level).of(e.Link, e.Topic).with(slog.String("from", e.From), slog.String("to", e.To),
		slog.String("code", e.Code))
}

// MirrorFault says that a partition of a mirror cannot go on for now.
type MirrorFault struct {
	Link, Topic string
	Partition   int32
	Code, Text  string
}

func (e MirrorFault) String() string {
	return fmt.Sprintf("Mirror %s-%d of link %s is held up%s.", e.Topic, e.Partition, e.Link, because(e.Text))
}

func (e MirrorFault) Line() Line {
	return line("mirror_fault", slog.LevelWarn).of(e.Link, e.Topic).in(e.Partition).with(slog.String("code", e.Code))
}

// MirrorHealed says that a fault is over.
type MirrorHealed struct {
	Link, Topic string
	Partition   int32
}

func (e MirrorHealed) String() string {
	return fmt.Sprintf("Mirror %s-%d of link %s goes on.", e.Topic, e.Partition, e.Link)
}

func (e MirrorHealed) Line() Line {
	return line("mirror_healed", slog.LevelInfo).of(e.Link, e.Topic).in(e.Partition)
}

// MirrorTruncated says that records were cut off a mirror, as the source has no longer got them.
type MirrorTruncated struct {
	Link, Topic string
	Partition   int32
	Offset      kafka.Offset // the new end, exclusive
	Epoch       kafka.LeaderEpoch
	Records     int64 // offsets cut off
	Quarantine  string
}

func (e MirrorTruncated) String() string {
	kept := ""
	if e.Quarantine != "" {
		kept = " and kept in topic " + e.Quarantine
	}
	return fmt.Sprintf("Mirror %s-%d was truncated to offset %d: %d records were cut off%s.", e.Topic, e.Partition, e.Offset, e.Records, kept)
}

func (e MirrorTruncated) Line() Line {
	return line("mirror_truncated", slog.LevelWarn).of(e.Link, e.Topic).in(e.Partition).at(e.Offset, e.Epoch).
		with(slog.Int64("records", e.Records), slog.String("quarantine", e.Quarantine))
}

// RecordsLost says that the source removed records before they were mirrored.
type RecordsLost struct {
	Link, Topic string
	Partition   int32
	Offset      kafka.Offset // the first of them
	Records     int64        // offsets passed over
}

func (e RecordsLost) String() string {
	return fmt.Sprintf("Mirror %s-%d misses %d records: it was to go on at offset %d, and the source's log starts at %d. The "+
		"source removed them before they were mirrored.",
		e.Topic, e.Partition, e.Records, e.Offset, e.Offset+kafka.Offset(e.Records))
}

func (e RecordsLost) Line() Line {
	return line("records_lost", slog.LevelWarn).of(e.Link, e.Topic).in(e.Partition).at(e.Offset,
		kafka.NoEpoch).with(slog.Int64("records", e.Records), slog.Int64("new_start", int64(e.Offset)+e.Records))
}

func because(text string) string {
	if text == "" {
		return ""
	}
	return ": " + strings.TrimSuffix(text, ".")
}
