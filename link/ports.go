package link

import (
	"context"
	"log/slog"
	"time"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/journal"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/hawserio/hawser/txn"
)

// Env is what links need of the broker. The fields from Partitions on are for
// tests and simulation; left nil they are the real things.
type Env struct {
	Meta   *meta.Meta
	Owner  *partition.Owner
	Groups *group.Coordinator
	// OpenTopic opens the partitions of a topic that was just stored or widened, and returns when they are open.
	OpenTopic func(ctx context.Context, id kafka.TopicID) error
	// ConfigsChanged applies a topic's stored configs to its open partitions; nil for nobody to tell.
	ConfigsChanged func(id kafka.TopicID)
	// ReplicationFactor is a new mirror's where the order names none; 0 is 1.
	ReplicationFactor int16
	// MemoryMax is the bytes of answers of all sources that all links together hold; 0 is 256 MiB.
	MemoryMax int64
	Version   string // hawser's, told to the other cluster of a link
	// Local finds one of this cluster's own listeners: of the security protocol, and of the name where it is not empty. nil: links
	// cannot lend connections.
	Local  func(name, protocol string) (Listener, error)
	Events event.Sink // nil: one log line each
	Logger *slog.Logger
	Now    func() time.Time
	// Transactions is this cluster's own coordinator; nil for none, as where nothing is reversed or restored.
	Transactions Transactions
	// Sign makes a signed report of a verification: a JWS in compact form over the text. nil: reports are not signed.
	Sign func(text []byte) (string, error)

	// Journal keeps over restarts how old mirrors are; nil for nobody.
	Journal Journal

	Metadata   Metadata                                                          // nil: Meta
	Partitions Partitions                                                        // nil: Owner
	Commits    Commits                                                           // nil: Groups
	Dial       func(source.Config) (Source, error)                               // nil: source.Dial
	NewPool    func(fetcher.Source, fetcher.Config, func(fetcher.Event)) Fetches // nil: fetcher.New
}

// Journal is what links use of journal.Journal.
type Journal interface {
	Append(list []journal.Entry) error
	Last(id kafka.PartitionID) []journal.Entry
}

// Metadata is what links use of meta.Meta.
type Metadata interface {
	Image() *meta.Image
	Update(ctx context.Context, decide func(*meta.Image) ([]meta.Change, error)) error
	Watch(ctx context.Context, fn func(old, new *meta.Image))
}

// Partitions is what links use of partition.Owner.
type Partitions interface {
	// Mirror finds an open partition; nil if it is not here.
	Mirror(id kafka.PartitionID) MirrorPartition
	StopMirrors(ctx context.Context, topics []kafka.TopicID, link string) error
	Freeze(ctx context.Context, topic kafka.TopicID, turn string) ([]kafka.Offset, error)
	Refreeze(ctx context.Context, topic kafka.TopicID, from, to string) error
	Unfreeze(ctx context.Context, topic kafka.TopicID, turn string) error
	FrozenBecomeMirror(ctx context.Context, topic kafka.TopicID, turn, source string, cuts []kafka.Offset) error
	History(id kafka.PartitionID, below kafka.Offset) (partition.History, error)
	CopyTail(ctx context.Context, from, to kafka.PartitionID, first, end kafka.Offset) error
	Tail(id kafka.PartitionID, from kafka.Offset) int64
	Room(bytes int64) error
	OpenCopy(id kafka.PartitionID, copied kafka.TopicID, entry meta.Partition) error
	SwapCopy(ctx context.Context, id kafka.PartitionID, copied kafka.TopicID) error
	DropCopy(ctx context.Context, topic, copied kafka.TopicID, partitions int32) error
}

// Transactions is what links use of txn.Coordinator.
type Transactions interface {
	Holding(topic string) []txn.Open
	AbortOn(ctx context.Context, topic string) (aborted int, err error)
}

// MirrorPartition is what links use of partition.Partition.
type MirrorPartition interface {
	fetcher.Target
	Err() error // why it is out of service, nil if it works
	BecomeMirror(ctx context.Context, start kafka.Offset) error
	Producers() []partition.Producer
	Verifiable
}

// Verifiable is what a verification reads of a mirror.
type Verifiable interface {
	Batches(from kafka.Offset) (batch.Batches, error)
	CleanedTo() kafka.Offset
}

// Commits is what links use of group.Coordinator.
type Commits interface {
	CommitSynced(ctx context.Context, group string, offsets []group.Synced, live func(kafka.TopicPartition) bool) (written int, err error)
	Clamp(ctx context.Context, topic string, ends []kafka.Offset) (lowered int, err error)
	Committed(topic string) map[string][]group.Synced
}

// Source is what links use of source.Cluster.
type Source interface {
	fetcher.Source
	Probe(ctx context.Context) (source.Probe, error)
	ProbeBrokers(ctx context.Context, brokers []source.Broker) []source.Broker
	Topics(ctx context.Context, names []string) ([]source.Topic, error)
	TopicConfigs(ctx context.Context, names []string) (map[string]source.TopicConfigs, error)
	Rights(ctx context.Context, topics []string) (map[string]source.Rights, error)
	Groups(ctx context.Context) ([]string, error)
	GroupOffsets(ctx context.Context, groups []string, topics []string) (map[string]source.GroupOffsets, error)
	WatchCommits(ctx context.Context, changed func(groups []string)) error
	ACLs(ctx context.Context) ([]meta.ACL, error)
	Call(ctx context.Context, rq *peer.Request) ([]byte, error)
	Hold(ctx context.Context, address string) (*source.Held, error)
	Close()
}

// Fetches is what links use of fetcher.Pool.
type Fetches interface {
	Assign(list []fetcher.Assignment)
	Reconfigure(cfg fetcher.Config)
	Status(mirror kafka.TopicPartition) fetcher.Status
	CaughtUp(ctx context.Context, mirrorTopic string) (bool, string, error)
	Close()
}

var (
	_ Metadata        = (*meta.Meta)(nil)
	_ MirrorPartition = (*partition.Partition)(nil)
	_ Commits         = (*group.Coordinator)(nil)
	_ Source          = (*source.Cluster)(nil)
	_ Fetches         = (*fetcher.Pool)(nil)
	_ Transactions    = (*txn.Coordinator)(nil)
	_ Journal         = (*journal.Journal)(nil)
)

// owned is an Owner as links use it: without the trap of a nil in an interface.
type owned struct{ *partition.Owner }

func (o owned) Mirror(id kafka.PartitionID) MirrorPartition {
	if p := o.Get(id); p != nil {
		return p
	}
	return nil
}

// filled gives the fields that were left nil their real things.
func (env Env) filled() Env {
	if env.Metadata == nil {
		env.Metadata = env.Meta
	}
	if env.Partitions == nil {
		env.Partitions = owned{env.Owner}
	}
	if env.Commits == nil {
		env.Commits = env.Groups
	}
	if env.Dial == nil {
		env.Dial = func(cfg source.Config) (Source, error) { return source.Dial(cfg) }
	}
	if env.NewPool == nil {
		env.NewPool = func(src fetcher.Source, cfg fetcher.Config, events func(fetcher.Event)) Fetches {
			return fetcher.New(src, cfg, events)
		}
	}
	if env.Logger == nil {
		env.Logger = slog.New(slog.DiscardHandler)
	}
	if env.Events == nil {
		env.Events = event.Log(env.Logger)
	}
	if env.Now == nil {
		env.Now = time.Now
	}
	if env.MemoryMax == 0 {
		env.MemoryMax = 256 << 20
	}
	if env.ReplicationFactor == 0 {
		env.ReplicationFactor = 1
	}
	return env
}
