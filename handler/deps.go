package handler

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/hawserio/hawser/quota"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Deps is what the door needs of the broker. Fields without "nil" in their
// comment must be set.
type Deps struct {
	ClusterID string // Kafka's cluster.id
	NodeID    int32
	Rack      string // "" for none
	Settings  Settings
	Topics    Topics
	// Partition finds an open partition, nil if it is not here: partition.Owner.Get.
	Partition func(kafka.PartitionID) *partition.Partition
	Groups    *group.Coordinator
	Configs   Configs
	// ProducerID draws one id that was never given out before.
	ProducerID   func(context.Context) (kafka.ProducerID, error)
	LogDir       LogDir
	Mirrors      Mirrors      // nil: this broker has no links
	Peers        Peers        // nil: the private API keys of links are not offered
	Transactions Transactions // nil: transactions are not offered
	Authorizer   Authorizer   // nil: everyone may do everything
	Security     Security     // nil: there are no ACLs, credentials and quotas to be managed
	Quotas       Quotas       // nil: nobody is throttled
	// Audit is told of every request that changes something, after it was answered; nil for nobody to tell.
	Audit  func(event.Order)
	Logger *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Settings are broker configs of the same names that the door obeys. The zero
// value of a field means Kafka's default, unless said otherwise.
type Settings struct {
	RequestMaxBytes int32          // socket.request.max.bytes
	QueuedMaxBytes  int64          // queued.max.request.bytes: of all large requests together; 512 MiB where zero
	FetchMaxBytes   int32          // fetch.max.bytes: of one answer
	MaxIdle         time.Duration  // connections.max.idle.ms; negative: no limit
	MaxConnections  int            // max.connections
	MaxPerIP        int            // max.connections.per.ip; negative: none
	CreationRate    int            // max.connection.creation.rate, a second; zero: no limit
	PerIP           map[string]int // max.connections.per.ip.overrides, by address
	// Listeners is what listeners have of their own, by their names in lower case: listener.name.NAME.max.connections, ….creation.rate.
	Listeners         map[string]ListenerLimits
	Windows           quota.Windows // quota.window.num, quota.window.size.seconds: of CreationRate
	FetchSessions     int           // max.incremental.fetch.session.cache.slots; negative: none
	MetadataPage      int32         // max.request.partition.size.limit, of DescribeTopicPartitions
	NumPartitions     int32         // num.partitions
	ReplicationFactor int16         // default.replication.factor
	AutoCreateTopics  bool          // auto.create.topics.enable: no default, false is off
	NoDeleteTopics    bool          // delete.topic.enable=false
	LoginMaxBytes     int32         // sasl.server.max.receive.size: of a request before the login is complete
	// FailedLoginDelay is connection.failed.authentication.delay.ms; zero: none.
	FailedLoginDelay time.Duration
}

// ListenerLimits bounds the connections of one listener, beside the broker's own bounds. Zero: no bound.
type ListenerLimits struct {
	MaxConnections int // negative: none at all
	CreationRate   int // a second
}

// Topics is the topics of the cluster. What it returns is a snapshot that nobody changes.
type Topics interface {
	ByName(name string) *meta.Topic                        // nil if there is none
	ByID(id kafka.TopicID) *meta.Topic                     // nil if there is none
	All() []*meta.Topic                                    // sorted by name
	Create(context.Context, NewTopic) (*meta.Topic, error) // returns when the partitions are open for use
	// Validate is Create without the creation: the topic as it would be, with a zero id.
	Validate(context.Context, NewTopic) (*meta.Topic, error)
	// Delete removes the topic, its data and its groups' commits; UNKNOWN_TOPIC_ID if it is not there.
	Delete(ctx context.Context, id kafka.TopicID) error
	// Grow raises the number of partitions to count and returns when they are open.
	// The door has checked that count is higher now; INVALID_PARTITIONS if it is no longer.
	Grow(ctx context.Context, id kafka.TopicID, count int32) error
}

// NewTopic is a topic to be made. The door has checked the name, the counts and,
// by package config's table, the configs. Left to Create: TOPIC_ALREADY_EXISTS, a
// colliding name (kafka.CollisionKey, INVALID_TOPIC_EXCEPTION), limits of the cluster.
type NewTopic struct {
	Name              string
	Partitions        int32             // 1 or more
	ReplicationFactor int16             // 1 or more
	Configs           map[string]string // only what was set
}

// ConfigChange makes what shall be set of what is. An error ends the update, and is what that returns.
type ConfigChange = func(old map[string]string) (map[string]string, error)

// Configs is what was set of broker and topic configs. The door knows tables,
// defaults and sources; here is only where the values are kept.
type Configs interface {
	// Broker returns the layers of this broker's configs, the strongest first:
	// dynamic of this node, dynamic of the whole cluster, configuration file and flags.
	Broker() (node, cluster, static map[string]string)
	// UpdateBroker replaces the dynamic configs of an entity ("" for the whole cluster, else the node id)
	// by what change makes of them. An error of change ends it and is returned.
	UpdateBroker(ctx context.Context, entity string, change ConfigChange) error
	// CheckBroker says what is wrong with dynamic configs of an entity beyond the table: a key store that cannot be read.
	CheckBroker(entity string, wanted map[string]string) error
	// Resource is what was set of the configs of a group or a client-metrics subscription; Resources names those
	// of which something was set, sorted; UpdateResource changes it as UpdateBroker does.
	Resource(kind kmsg.ConfigResourceType, name string) map[string]string
	Resources(kind kmsg.ConfigResourceType) []string
	UpdateResource(ctx context.Context, kind kmsg.ConfigResourceType, name string, change ConfigChange) error
	// UpdateTopic does the same with a topic's configs and puts them into effect.
	UpdateTopic(ctx context.Context, id kafka.TopicID, change ConfigChange) error
}

// LogDir is the directory that DescribeLogDirs shows.
type LogDir struct {
	Path  string
	Space func() (total, usable int64) // bytes of its volume; -1 unknown. nil: unknown
}

// Topic configs by which any AdminClient drives mirrors. They are handled by
// Mirrors and are never stored among the topic's configs.
const (
	MirrorConfigPrefix = "hawser.mirror."
	MirrorLinkConfig   = MirrorConfigPrefix + "link" // CreateTopics: the link's name makes the topic a mirror
	// CreateTopics: the source topic's name, where it is not the prefix and the mirror's.
	MirrorSourceConfig = MirrorConfigPrefix + "source.topic"
	MirrorOrderConfig  = MirrorConfigPrefix + "order" // IncrementalAlterConfigs: promote, failover, pause, resume, …
)

// Mirrors is what the door must know of mirror topics; broker plugs link in.
// Errors are kafka.Error with the code the client shall see.
type Mirrors interface {
	// Create makes a mirror topic and returns when its partitions are there.
	Create(context.Context, NewMirror) (*meta.Topic, error)
	// Validate is Create without the creation.
	Validate(context.Context, NewMirror) (*meta.Topic, error)
	// Order gives one of the orders named at MirrorOrderConfig; ValidateOrder only says what would be wrong with it.
	Order(ctx context.Context, topic kafka.TopicID, order string) error
	ValidateOrder(ctx context.Context, topic kafka.TopicID, order string) error
	// Describe lists the hawser.mirror.* entries of a topic: link, source topic, state, lag, error. nil if it never was a mirror.
	Describe(topic kafka.TopicID) []MirrorEntry
	// ReadOnly says why the topic takes no writes of producers and admins (CreatePartitions, DeleteRecords),
	// as INVALID_REQUEST; nil for a topic that is no live mirror.
	ReadOnly(topic kafka.TopicID) error
	// CheckConfigs refuses, as INVALID_CONFIG or INVALID_REQUEST, to change those of the named configs that follow the source.
	CheckConfigs(topic kafka.TopicID, names []string) error
	// ConfigsChanged tells that the named configs were set by hand on a mirror.
	ConfigsChanged(ctx context.Context, topic kafka.TopicID, names []string)
}

// NewMirror is a mirror topic to be made.
type NewMirror struct {
	Topic             string // its name here
	Link              string
	SourceTopic       string            // "": as the link's prefix and Topic say
	ReplicationFactor int16             // -1 for the default
	Configs           map[string]string // what was set beside hawser.mirror.*
}

// MirrorEntry is a read-only config entry that describes a mirror.
type MirrorEntry struct {
	Name, Value string
	Doc         string
}

// Transactions is the transaction coordinator. Requests and responses are the
// protocol's own; errors are in the responses. While it is nil the APIs are not advertised.
type Transactions interface {
	InitProducerID(context.Context, group.Client, *kmsg.InitProducerIDRequest) *kmsg.InitProducerIDResponse
	AddPartitionsToTxn(context.Context, group.Client, *kmsg.AddPartitionsToTxnRequest) *kmsg.AddPartitionsToTxnResponse
	AddOffsetsToTxn(context.Context, group.Client, *kmsg.AddOffsetsToTxnRequest) *kmsg.AddOffsetsToTxnResponse
	EndTxn(context.Context, group.Client, *kmsg.EndTxnRequest) *kmsg.EndTxnResponse
	TxnOffsetCommit(context.Context, group.Client, *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse
	WriteTxnMarkers(context.Context, *kmsg.WriteTxnMarkersRequest) *kmsg.WriteTxnMarkersResponse
	DescribeTransactions(context.Context, *kmsg.DescribeTransactionsRequest) *kmsg.DescribeTransactionsResponse
	ListTransactions(context.Context, *kmsg.ListTransactionsRequest) *kmsg.ListTransactionsResponse
	// Enlist takes several partitions into the transaction at once, before each is confirmed: one write instead of many.
	Enlist(ctx context.Context, transactionalID string, partitions []kafka.TopicPartition, id kafka.ProducerID, epoch int16) error
	// Confirm says nil if the partition is in the ongoing transaction of (id, epoch): what partition.Append asks (rule P2). With
	// EnlistImplicit it adds the partition first (KIP-890). INVALID_TXN_STATE if it is not in it.
	Confirm(ctx context.Context, transactionalID string, tp kafka.TopicPartition, id kafka.ProducerID, epoch int16, mode Enlist) error
}

// Enlist is whether a Produce request may add its partition to the transaction.
type Enlist int8

// The two modes.
const (
	EnlistBefore   Enlist = iota // by AddPartitionsToTxn, before: Produce up to v11
	EnlistImplicit               // by producing: v12 and later
)

// Authorizer decides who may do what. Operations and resource kinds have Kafka's numbers.
type Authorizer interface {
	Allowed(principal, host string, op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool
	// AllowedSomewhere says whether op is allowed on any resource of the kind.
	AllowedSomewhere(principal, host string, op kmsg.ACLOperation, kind kmsg.ACLResourceType) bool
}

// Security keeps ACLs, SCRAM credentials and quotas. Requests and responses are
// the protocol's own; errors are in the responses. That the caller may ask was checked.
type Security interface {
	DescribeACLs(context.Context, *kmsg.DescribeACLsRequest) *kmsg.DescribeACLsResponse
	CreateACLs(context.Context, *kmsg.CreateACLsRequest) *kmsg.CreateACLsResponse
	DeleteACLs(context.Context, *kmsg.DeleteACLsRequest) *kmsg.DeleteACLsResponse
	DescribeClientQuotas(context.Context, *kmsg.DescribeClientQuotasRequest) *kmsg.DescribeClientQuotasResponse
	AlterClientQuotas(context.Context, *kmsg.AlterClientQuotasRequest) *kmsg.AlterClientQuotasResponse
	DescribeUserSCRAMCredentials(context.Context, *kmsg.DescribeUserSCRAMCredentialsRequest) *kmsg.DescribeUserSCRAMCredentialsResponse
	AlterUserSCRAMCredentials(context.Context, *kmsg.AlterUserSCRAMCredentialsRequest) *kmsg.AlterUserSCRAMCredentialsResponse
}

// Quotas meters what clients do, by principal and client id, and says how long a connection must rest
// after its answer: Kafka's client quotas.
type Quotas interface {
	// Produced counts the bytes of a Produce request.
	Produced(principal, client string, bytes int) time.Duration
	// Fetched counts the bytes of an answer to Fetch; a negative number takes back what was counted for one that is not sent.
	Fetched(principal, client string, bytes int) time.Duration
	// FetchMax is the most bytes that one answer may have; false if there is no limit.
	FetchMax(principal, client string) (int, bool)
	// Worked counts the time that a request took of us.
	Worked(principal, client string, busy time.Duration) time.Duration
	// Mutated counts partitions to be made or deleted, or refuses with THROTTLING_QUOTA_EXCEEDED; the time is set with the error too.
	Mutated(principal, client string, partitions int, mode quota.Mode) (time.Duration, error)
	// Connected counts a new connection of an address; one that must rest is not to be served.
	Connected(ip string) time.Duration
}

// Anonymous is the principal of a connection that did not authenticate.
const Anonymous = "User:ANONYMOUS"

// Authenticator is a listener's SASL.
type Authenticator interface {
	// Mechanisms is what clients may choose from, by name.
	Mechanisms() []string
	// Begin starts an exchange by one of them.
	Begin(mechanism string) (Exchange, error)
}

// Exchange is one SASL exchange. Step takes the client's bytes and returns ours.
// An error of kafka.SaslAuthenticationFailed carries the text the client sees.
type Exchange interface {
	Step(token []byte) (answer []byte, err error)
	// Principal is who logged in and until when (zero: without end); ok is false until the exchange is done.
	Principal() (name string, until time.Time, ok bool)
}

// Listener is an address that the door listens on.
type Listener struct {
	Name    string // as PLAINTEXT, INTERNAL; unique
	Address string // host:port to bind; port 0 draws one
	// Advertised is what clients of this listener are told. Empty host: the bound
	// one; port 0: the bound one.
	AdvertisedHost string
	AdvertisedPort int32
	TLS            *tls.Config   // nil: plaintext
	SASL           Authenticator // nil: no authentication
	// Principal names who showed a client certificate, where there is no SASL; "" is Anonymous. Its
	// error closes the connection. nil: all are Anonymous.
	Principal func(*tls.ConnectionState) (string, error)
}
