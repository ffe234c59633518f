// Package fetcher is the loop from source to partition: where to resume, how
// much to hold, when to wait. link starts one Pool per link and tells it which
// partitions to mirror. It knows neither states of mirrors nor metadata: what it
// finds, it reports.
package fetcher

import (
	"context"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/partition"
)

// Source is the source cluster as a fetcher needs it; link/source's Cluster is one.
type Source interface {
	// Leaders says which broker leads the topic's partitions now, with the topic's id
	// (zero where the source has none) and each leader epoch; refresh asks the source again.
	Leaders(ctx context.Context, topic string, refresh bool) (Leaders, error)
	// Session opens a fetch session to a broker on a connection of its own.
	Session(ctx context.Context, broker int32) (Session, error)
	// EpochEnd is OffsetForLeaderEpoch at the partition's leader.
	EpochEnd(ctx context.Context, tp kafka.TopicPartition, current, wanted kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error)
	// ListOffset is ListOffsets at the leader: -2 earliest, -1 latest, else Unix ms.
	ListOffset(ctx context.Context, tp kafka.TopicPartition, spec int64) (kafka.Offset, error)
	// LastStable is the leader's last stable offset: ListOffsets latest as a read_committed reader.
	LastStable(ctx context.Context, tp kafka.TopicPartition) (kafka.Offset, error)
}

// Leaders is a topic as the source's metadata shows it.
type Leaders struct {
	TopicID kafka.TopicID
	List    []Leader // by partition
}

// Leader is a partition's leader; Broker is -1 if there is none now.
type Leader struct {
	Broker int32
	Epoch  kafka.LeaderEpoch
}

// Session is one connection's fetches, incremental where the source can (KIP-227): a
// thousand idle partitions cost one small request.
type Session interface {
	// Fetch changes the set of partitions (wanted is the whole set with positions) and asks once. Only partitions with
	// something to say are answered, but all after a Fetch of nothing, which asks nobody and starts anew. Batches
	// in the answer belong to the caller, or to Ask.Memory's owner. After an error the session may be of no use: close it.
	Fetch(ctx context.Context, wanted []Want, ask Ask) ([]Fetched, error)
	// RoundTrip is how long the broker takes to answer what needs no work, 0 while unknown.
	RoundTrip() time.Duration
	// Close ends the connection; a Fetch under way returns.
	Close()
}

// Ask is what one fetch may take.
type Ask struct {
	MaxWait  time.Duration // at the source, for MinBytes to be there
	MinBytes int
	MaxBytes int // of the whole answer; one batch may be larger
	// Memory is where a long answer may be put, nil for none. Batches of the answer then point into it: it is
	// the caller's again, for another Fetch, when those are used no more; after an error, never.
	Memory *Memory
}

// Want is a partition to fetch from.
type Want struct {
	TopicPartition kafka.TopicPartition
	TopicID        kafka.TopicID
	Offset         kafka.Offset
	LastEpoch      kafka.LeaderEpoch // epoch of the last batch held, for KIP-595's divergence answer
	CurrentEpoch   kafka.LeaderEpoch // source's leader epoch as known
	MaxBytes       int
}

// Fetched is one partition's answer.
type Fetched struct {
	TopicPartition kafka.TopicPartition
	Offset         kafka.Offset // the offset that was asked
	Err            error        // kafka.Error
	HighWatermark  kafka.Offset // the source's, -1 if it did not say
	LogStart       kafka.Offset // the source's, -1 if it did not say
	LastStable     kafka.Offset // the source's, -1 if it did not say
	Diverging      bool
	DivergingEpoch kafka.LeaderEpoch
	DivergingEnd   kafka.Offset
	Batches        batch.Batches // may end in a part of a batch

	walked *cut // of Batches, once the loop has looked at it
}

// Target is the mirror partition; *partition.Partition is one.
type Target interface {
	Offsets() partition.Offsets
	AppendMirrored(ctx context.Context, m partition.Mirrored) error
	FollowLogStart(ctx context.Context, generation int64, source kafka.Offset) error
	JumpTo(ctx context.Context, generation int64, offset kafka.Offset, keep bool) (lost int64, err error)
	TruncateMirror(ctx context.Context, generation int64, offset kafka.Offset, reason string) (kept kafka.Offset, err error)
	Epochs() []kafka.EpochStart
	EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset)
	RefineEpochs(generation int64, starts []kafka.EpochStart) error
	LastBatch() (batch.Batch, error)
}

// Config bounds a pool; values come from the link's configs.
type Config struct {
	Fetchers     int           // num.cluster.link.fetchers: connections per source broker
	MaxWait      time.Duration // replica.fetch.wait.max.ms
	MinBytes     int           // replica.fetch.min.bytes
	PartitionMax int           // replica.fetch.max.bytes
	ResponseMax  int           // replica.fetch.response.max.bytes
	RateMax      int64         // link.max.bytes.per.second: of all connections together; 0 or less: no limit
	MemoryMax    int64         // bytes of answers held at once by all sessions of the pool
	Backoff      time.Duration // replica.fetch.backoff.ms
	MetadataAge  time.Duration // metadata.max.age.ms
	KeepHoles    bool          // retention is not synced: a jump keeps older records (case C03 step 4)
}

// Assignment is a partition to mirror.
type Assignment struct {
	Source   kafka.TopicPartition
	SourceID kafka.TopicID // as remembered by the mirror; zero for none
	Mirror   kafka.TopicPartition
	Target   Target
}

// Status is what is known of one partition's copying.
type Status struct {
	SourceEnd    kafka.Offset // the source's high watermark when last heard, -1 for never
	Compared     bool         // fetching goes on from a last batch that the source was seen to have; false while histories are compared
	SourceStart  kafka.Offset // -1 for never
	LastFetched  kafka.Offset // last offset fetched, -1 for never (REST's last_source_fetch_offset)
	LagRecords   int64        // SourceEnd minus the mirror's synced end, at least 0; -1 for unknown
	LastContact  time.Time    // last answer without error
	Silent       bool         // nothing was heard for longer than an answer may take: what the source has now is not known
	Fault        Fault        // what stands in the way now
	Err          error        // its words
	Since        time.Time    // since when Fault stands
	LostRecords  int64
	FetchedBytes int64
	// CaughtUp is the last moment at which all that the source had then is synced here, zero for unknown (rule X3);
	// Behind is when the oldest record that is not was first seen at the source, zero for none.
	CaughtUp, Behind time.Time
}

// Fault is a closed list of what may stand in a partition's way.
type Fault string

// The faults. Which of them end a mirror, and after how long, is link/mirror's to decide.
const (
	NoFault           Fault = ""
	SourceUnreachable Fault = "SOURCE_UNREACHABLE"
	SourceAuth        Fault = "SOURCE_AUTHENTICATION"
	SourceDenied      Fault = "SOURCE_AUTHORIZATION"
	TopicMissing      Fault = "SOURCE_TOPIC_MAY_BE_DELETED"
	TopicIDChanged    Fault = "SOURCE_TOPIC_ID_CHANGED"
	PartitionsFewer   Fault = "SOURCE_PARTITIONS_DECREASED"
	EpochWentBack     Fault = "NON_MONOTONIC_SOURCE_EPOCH"
	AppendEpochBack   Fault = "NON_MONOTONIC_LOG_APPEND_EPOCH"
	Truncated         Fault = "UNEXPECTED_TRUNCATION"
	OldFormat         Fault = "UNSUPPORTED_MESSAGE_FORMAT"
	CorruptBatch      Fault = "CORRUPT_BATCH"
	OverlappingBatch  Fault = "OVERLAPPING_BATCH"
	TargetOffline     Fault = "TARGET_OUT_OF_SERVICE" // the mirror's own log cannot be read, written or synced
	TargetFull        Fault = "TARGET_FULL"           // the volume has no room for more records
	TargetFailed      Fault = "TARGET_FAILED"         // the mirror refused what was asked of it for any other reason
)

// Event is something a link must hear of at once: a fault that began or went, records lost, a truncation.
type Event struct {
	Mirror kafka.TopicPartition
	Kind   string // "fault", "healed", "lost", "truncated"
	Fault  Fault
	Err    error
	From   kafka.Offset
	To     kafka.Offset
	Epoch  kafka.LeaderEpoch // of a truncation: the source's leader epoch that brought it
}
