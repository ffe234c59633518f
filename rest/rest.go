// Package rest is the HTTP door: Kafka REST v3 with cluster linking, health, metrics
// and the console, on one port. broker mounts it; clients, the CLI and the console
// come in here. It decides nothing about links, topics or groups: it reads a request,
// checks who asks, calls the domain and writes its answer.
package rest

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/link"
)

// Deps is what the door opens on.
type Deps struct {
	Cluster Cluster
	Links   Links
	Topics  Topics
	Groups  Groups
	Configs Configs
	Users   Users
	ACLs    ACLs         // nil: this broker has no authorizer
	Access  Access       // nil lets everyone do everything
	Metrics http.Handler // serves /metrics; nil answers 404
	Console http.Handler // serves / and /console/; nil answers 404
	// Profiles opens /debug/pprof/ to who may alter the cluster.
	Profiles bool
	// Audit is told of every order, after it was carried out or refused; nil for nobody to tell.
	Audit    func(event.Order)
	Timeline Timeline // nil: no events are shown
	// Ready says what is still being waited for; nil, or a nil error, is ready.
	Ready  func() error
	Logger *slog.Logger // nil is slog.Default
}

// Timeline is what happened lately; *event.Ring is one.
type Timeline interface {
	// After lists the newest events with a number above after, oldest first, limit at most.
	After(after int64, limit int) []event.Entry
}

// Links is the orders and questions of package link, as *link.Links answers them.
type Links interface {
	Create(ctx context.Context, spec link.CreateSpec) (link.Info, error)
	Delete(ctx context.Context, name string, force, validateOnly bool) error
	List() []link.Info
	Describe(name string) (link.Info, error)
	Configs(name string) ([]link.ConfigEntry, error)
	AlterConfigs(ctx context.Context, name string, changes []link.AlterConfig, validateOnly bool) error
	// TryConfigs reaches the other cluster as the link would with the changes, and changes nothing.
	TryConfigs(ctx context.Context, name string, changes []link.AlterConfig) error
	CreateMirror(ctx context.Context, name string, spec link.MirrorSpec) (link.MirrorInfo, error)
	Mirrors(name, status string) ([]link.MirrorInfo, error)
	Mirror(name, topic string) (link.MirrorInfo, error)
	Verify(name, topic string) (link.Verification, error)
	Verification(name, topic string) (link.Verification, error)
	Order(ctx context.Context, name string, verb link.Verb, topics []string, pattern string, validateOnly bool) ([]link.Outcome, error)
	Matching(name string, verb link.Verb, pattern string) ([]string, error)
}

var _ Links = (*link.Links)(nil)

// Cluster says who this cluster is.
type Cluster interface {
	ID() string
	// Controller is the id of the broker that takes cluster-wide orders, or -1.
	Controller() int32
	Brokers() []Broker
	// ReportKey is the public key that checks the signatures of this cluster's reports.
	ReportKey() ed25519.PublicKey
}

// Broker is a broker at the address it advertises.
type Broker struct {
	ID   int32
	Host string
	Port int32
	Rack string // empty for none
}

// Topics is the topics of this cluster. An unknown topic is a kafka error with the
// code UnknownTopicOrPartition.
type Topics interface {
	Topics(ctx context.Context) ([]Topic, error)
	Topic(ctx context.Context, name string) (Topic, error)
	// CreateTopic answers the topic as it is, or with ValidateOnly as it would be.
	CreateTopic(ctx context.Context, spec TopicSpec) (Topic, error)
	DeleteTopic(ctx context.Context, name string) error
	// AddPartitions raises the number of partitions to total.
	AddPartitions(ctx context.Context, name string, total int32) error
	TopicConfigs(ctx context.Context, name string) ([]TopicConfig, error)
	// DefaultTopicConfigs is what a new topic of that name would have; the name may not exist.
	DefaultTopicConfigs(ctx context.Context, name string) ([]TopicConfig, error)
	AlterTopicConfigs(ctx context.Context, change TopicConfigChange) error
}

// Topic describes a topic.
type Topic struct {
	Name              string
	Internal          bool
	ReplicationFactor int32
	Partitions        []Partition
}

// Partition describes a partition. Leader is -1 while there is none.
type Partition struct {
	ID       int32
	Leader   int32
	Replicas []int32
	InSync   []int32
}

// TopicSpec orders a topic.
type TopicSpec struct {
	Name              string
	Partitions        int32 // 0: the default
	ReplicationFactor int32 // 0: the default
	Configs           map[string]string
	ValidateOnly      bool
}

// TopicConfig is one config of a topic. Value is nil where unset or sensitive.
type TopicConfig struct {
	Name      string
	Value     *string
	Default   bool
	ReadOnly  bool
	Sensitive bool
	Source    string // DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG
	Synonyms  []Synonym
}

// Synonym is one layer that a config's value may come from, nearest first.
type Synonym struct {
	Name, Source string
	Value        *string
}

// TopicConfigChange orders changes of a topic's configs, all or none.
type TopicConfigChange struct {
	Topic        string
	Changes      []ConfigChange
	ValidateOnly bool
}

// ConfigChange sets a config, or with a nil Value puts it back to its default.
type ConfigChange struct {
	Name  string
	Value *string
}

// Configs is the configs of brokers.
type Configs interface {
	// BrokerConfigs lists those of a broker, or what was set for EveryBroker.
	BrokerConfigs(ctx context.Context, broker int32) ([]TopicConfig, error)
	AlterBrokerConfigs(ctx context.Context, change BrokerConfigChange) error
}

// BrokerConfigChange orders changes of a broker's configs, or of EveryBroker's, all or none.
type BrokerConfigChange struct {
	Broker       int32
	Changes      []ConfigChange
	ValidateOnly bool
}

// Users is the users with SCRAM credentials.
type Users interface {
	Users(ctx context.Context) ([]User, error)
	// SetUser makes a user, or gives one another password.
	SetUser(ctx context.Context, change UserChange) error
	// DeleteUser takes credentials away; who has none left is gone.
	DeleteUser(ctx context.Context, name string, mechanisms []string) error
}

// User is who may log in by SCRAM.
type User struct {
	Name        string
	Credentials []Credential
}

// Credential is a mechanism by which a user may log in.
type Credential struct {
	Mechanism  string
	Iterations int32
}

// UserChange orders a user's password.
type UserChange struct {
	Name, Password string
	Mechanisms     []string // none: all that there are
	Iterations     int32
}

// Groups is the consumer groups of this cluster. An unknown group is a kafka error
// with the code GroupIDNotFound.
type Groups interface {
	Groups(ctx context.Context) ([]Group, error)
	Group(ctx context.Context, id string) (Group, error)
	// Lags is one entry for each partition on which the group has committed an offset.
	Lags(ctx context.Context, id string) ([]GroupLag, error)
}

// Group describes a consumer group. State and Type are the protocol's words, as Stable and classic.
type Group struct {
	ID          string
	State       string
	Type        string
	Assignor    string // empty while there is none
	Simple      bool   // offsets only, never had members
	Coordinator int32
	Members     []Member
}

// Member describes a member of a group.
type Member struct {
	ID, ClientID string
	InstanceID   string // empty for a dynamic member
	Owns         []Owned
}

// Owned is a partition that a member was assigned.
type Owned struct {
	Topic     string
	Partition int32
}

// GroupLag is a group's position on one partition.
type GroupLag struct {
	Topic     string
	Partition int32
	Committed int64
	End       int64  // the partition's high watermark, exclusive
	Member    Member // zero where no member owns the partition
}

// ACLs is the access rules of this cluster. An ACL that cannot be, or a filter that
// means nothing, is a kafka error with the code InvalidRequest.
type ACLs interface {
	// ListACLs finds what the filter means: empty fields and ANY mean everything,
	// the pattern type MATCH every pattern that covers the name.
	ListACLs(ctx context.Context, filter ACL) ([]ACL, error)
	// CreateACLs makes them, all or none.
	CreateACLs(ctx context.Context, acls []ACL) error
	// DeleteACLs deletes what the filter means and answers it.
	DeleteACLs(ctx context.Context, filter ACL) ([]ACL, error)
}

// ACL is an access rule, or a filter of them, in Kafka's words.
type ACL struct {
	ResourceType, ResourceName, PatternType string
	Principal, Host                         string
	Operation, Permission                   string
}

// Handler is the door. It serves /kafka/v3 and /v3 alike.
func Handler(deps Deps) http.Handler {
	if deps.Logger == nil {
		deps.Logger = slog.Default()
	}
	s := &server{Deps: deps, mux: http.NewServeMux()}
	s.mount()
	return s.guard()
}
