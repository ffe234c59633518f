// Package link is cluster links: config, state and health of each; it starts
// and stops the parts below it and runs mirror's effects. rest and handler (through
// broker) give orders; what is decided is decided in link/mirror and link/plan.
package link

import (
	"time"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/kafka"
)

// Kind is what an order's failure means to a program; rest maps it to a status in one place.
type Kind string

// The kinds.
const (
	BadRequest  Kind = "bad request" // 400
	NotFound    Kind = "not found"   // 404
	Exists      Kind = "exists"      // 409 for links; 400/40002 for topics
	InUse       Kind = "in use"      // 409/40903: a link with live mirrors
	WrongState  Kind = "wrong state" // per-topic 400
	Unreachable Kind = "unreachable" // 400: the source cannot be reached
	Forbidden   Kind = "forbidden"   // 403/40301: the link's principal may not, on the source
	Internal    Kind = "internal"
)

// Error is a failed order: what was asked, why not, what to do.
type Error struct {
	Kind Kind
	Code string // a name of link-semantics' lists where there is one, as AUTHENTICATION_ERROR
	Text string
	Hint string
	Err  error
}

// Error is the sentence with its hint.
func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Text + " " + e.Hint
	}
	return e.Text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// CreateSpec orders a link.
type CreateSpec struct {
	Name            string
	RemoteClusterID string // source_cluster_id or remote_cluster_id; empty: taken from the source
	LinkID          string // cluster_link_id expected, for the second half of a two-sided link
	Configs         map[string]string
	Validate        bool // reach the source first (validate_link)
	ValidateOnly    bool
}

// Info describes a link.
type Info struct {
	Name            string
	ID              string // 22 characters
	RemoteClusterID string
	Mode            string   // DESTINATION, SOURCE, BIDIRECTIONAL
	Connection      string   // OUTBOUND, INBOUND
	Topics          []string // mirror topics, sorted
	State           string   // ACTIVE, FAILED, UNAVAILABLE, PAUSED, UNKNOWN
	Err             string   // link_error
	ErrText         string
	// Of the half on the other cluster, where the link has two: its link_state, or the error code of why it is not known; its
	// connection.mode; and the words of the error.
	RemoteState, RemoteConnection, RemoteText string
	Waiting, Lent                             int // lent connections, at either end: waiting to be needed, and in use
	Tasks                                     []Task
	Categories                                map[string]int32 // mirror partitions by PAUSED, IN_ERROR, PENDING, ACTIVE, NOT_APPLICABLE
	Fetches                                   event.Times      // fetches that brought records, from the request to the whole answer
}

// Task describes a task of a link.
type Task struct {
	Name   string // AclSync, AutoCreateMirror, ConsumerOffsetSync, TopicConfigsSync
	State  string
	Errors []Coded
}

// Coded is an error code of link-semantics' lists with its words.
type Coded struct{ Code, Text string }

// ConfigEntry is one config of a link; Value is nil where unset or sensitive.
type ConfigEntry struct {
	Name      string
	Value     *string
	Default   bool
	ReadOnly  bool
	Sensitive bool
}

// AlterConfig sets a config, or with a nil Value puts it back to its default.
type AlterConfig struct {
	Name  string
	Value *string
}

// MirrorSpec orders a mirror topic.
type MirrorSpec struct {
	SourceTopic       string            // empty: the mirror's name without the link's prefix
	MirrorTopic       string            // empty: the source's name, or with the link's prefix an error that states the expected one
	ReplicationFactor int16             // 0: the default
	Configs           map[string]string // overrides
	Auto              bool              // asked for by the auto-create task
	ValidateOnly      bool              // ask the source and check everything, make nothing
}

// MirrorInfo describes a mirror topic.
type MirrorInfo struct {
	Link, Topic, SourceTopic string
	Partitions               int32
	Lags                     []Lag  // by partition
	Status                   string // the computed mirror_status
	Err                      string // mirror_topic_error
	ErrText                  string
	StateMs                  int64
	TransitionErrors         []Coded
}

// LagUnknown is the lag of a partition whose source was heard once and is silent now, where it was level then.
const LagUnknown int64 = -1

// Lag is one partition's.
type Lag struct {
	Partition       int32
	Records         int64        // at least 0, or LagUnknown
	LastSourceFetch kafka.Offset // -1 for never
	Lost            int64
	State           string // ACTIVE, IN_ERROR, PAUSED …, for people
	Err             string
	SourceEnd       kafka.Offset // the source's high watermark when last heard, exclusive; -1 for never
	FetchedBytes    int64        // since the partition was last begun
	LastContact     time.Time    // last answer of the source without error; zero for never
	// CaughtUp is the last moment at which all that the source had then is synced here, zero for unknown; now minus
	// it is the RPO. Behind is when the oldest record that is not here was first seen at the source, zero for none.
	CaughtUp, Behind time.Time
	// Recopy is how far the partition is copied from its source anew; nil where it is not.
	Recopy *RecopyLag
}

// RecopyLag is how far a partition is copied from its source anew, as deletions may be missing (rule T3).
type RecopyLag struct {
	State RecopyState
	// The copy holds what lies below Offset, and takes the mirror's place once it has all below End. Both are exclusive.
	Offset, End kafka.Offset
}

// RecopyState is a word for how far a partition's copy is.
type RecopyState string

// The states of a partition's copy.
const (
	RecopyWaiting RecopyState = "WAITING" // for others of its link, or its mirror does not fetch now
	RecopyCopying RecopyState = "COPYING"
	RecopyDone    RecopyState = "DONE" // the copy has the mirror's place
)

// Verb is an order to mirrors.
type Verb string

// The verbs, by their names on REST.
const (
	Promote            Verb = "promote"
	Failover           Verb = "failover"
	Pause              Verb = "pause"
	Resume             Verb = "resume"
	ReverseAndStart    Verb = "reverse-and-start-mirror"
	ReverseAndPause    Verb = "reverse-and-pause-mirror"
	TruncateAndRestore Verb = "truncate-and-restore"
)

// Verbs that REST gives by a query beside the verb's name.
const (
	TruncateAndRestorePaused Verb = "truncate-and-restore?paused=true" // the restored mirror begins paused
	ForceFailover            Verb = "failover?force=true"              // although the other cluster may be writable
)

// Outcome is what an order did, or would do, to one topic. Code is 0 for done.
type Outcome struct {
	Topic     string
	Code      int32 // HTTP-like, 400 for a wrong state
	Text      string
	Lags      []Lag
	Truncated *int64
	Parts     []Truncation
	Groups    []GroupCut        // of a truncate-and-restore: by group and partition
	Open      []OpenTransaction // of a failover: what it aborts, at most openShown
	Withdrawn *WithdrawnPledge  // of a forced failover of an ordinary topic
	Missing   []MissingACL      // of a dry run: rights on the source cluster that are needed and not there
	Waits     []Coded           // of a dry run of promote: what it would wait for, beside what there is left to copy
	Already   bool              // refused only because the mirror is STOPPED, which is what the order was to bring about
}

// OpenTransaction is a transaction that is open in a mirror's log, and which a failover ends with an ABORT
// marker whatever its coordinator on the source decided (rule P5).
type OpenTransaction struct {
	Partition int32
	Producer  kafka.ProducerID
	From      kafka.Offset // its first record; NoOffset where it is not known, as on the source
	ID        string       // its transactional id, of a reversal: the source waits for it, then aborts it
	Split     bool         // it is open in a mirror, too, that is not stopped by this order and may still be committed there
}

// Truncation is one partition's part of a truncate-and-restore.
type Truncation struct {
	Partition   int32
	TruncatedTo kafka.Offset // exclusive end of what both sides have
	Records     int64        // offsets above it: they go, and are quarantined
	FullCopy    bool         // what is below is copied again as well
	Why         string       // why it is
}

// GroupCut is a group's offset that a restore lowers: it reads from To again.
type GroupCut struct {
	Group     string
	Partition int32
	From, To  kafka.Offset
}
