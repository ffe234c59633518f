// Package source is the source cluster as we see it: the only place that uses a
// Kafka client library. link dials one Cluster per link; fetcher and task
// ask it. It refuses to know what the answers are for.
package source

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
)

// Config is how to reach the source. Values come from the link's configs by Kafka's client names.
type Config struct {
	Bootstrap      []string          // host:port; a PROTOCOL:// prefix is cut
	Map            map[string]string // bootstrap.address.map: advertised host:port -> host:port to dial instead
	Security       Security
	ClientID       string
	RequestTimeout time.Duration
	DialTimeout    time.Duration
	ReceiveBuffer  int   // replica.socket.receive.buffer.bytes; -1 is the system's
	MaxReadBytes   int32 // largest answer taken
	MetadataAge    time.Duration
	Logger         *slog.Logger
	Dial           func(ctx context.Context, network, address string) (net.Conn, error) // nil: net.Dialer
}

// Security is security.protocol, sasl.* and ssl.*.
type Security struct {
	Protocol    string // PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
	Mechanism   string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
	JAAS        string // sasl.jaas.config as Java clients take it; parsed here
	CA          string // PEM text or, from ssl.truststore.location, a file's
	Cert, Key   string // PEM
	KeyPassword string
	NoHostCheck bool // ssl.endpoint.identification.algorithm is empty
}

// Failure classes of reaching a source, for link errors (matched with errors.As on *Error).
type Class string

// The classes: link_error's names on REST.
const (
	Unresolvable Class = "UNRESOLVABLE_BOOTSTRAP_ERROR"
	Refused      Class = "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR"
	Timeout      Class = "TIMEOUT_ERROR"
	Auth         Class = "AUTHENTICATION_ERROR"
	TLS          Class = "TLS_ERROR"
	Other        Class = "UNKNOWN"
)

// Error says how and where reaching the source failed, and what to do.
type Error struct {
	Class   Class
	Address string
	Hint    string
	Err     error
}

// Error is the whole sentence.
func (e *Error) Error() string { panic("source: to be built") }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Cluster is a connected source. It implements fetcher.Source.
type Cluster struct{ impl }

var _ fetcher.Source = (*Cluster)(nil)

// Dial makes a Cluster; it connects when first asked. Errors are of the config only.
func Dial(cfg Config) (*Cluster, error) { panic("source: to be built") }

// Probe connects, logs in and asks for metadata: the cluster's id and every advertised broker.
func (c *Cluster) Probe(ctx context.Context) (Probe, error) { panic("source: to be built") }

// Probe is what a source says of itself.
type Probe struct {
	ClusterID string
	Brokers   []Broker
}

// Broker is an advertised address.
type Broker struct {
	ID      int32
	Address string // host:port as advertised
	Err     error  // from ProbeBrokers: why it cannot be reached
}

// ProbeBrokers tries every advertised broker, at most eight at once, and fills in Err.
func (c *Cluster) ProbeBrokers(ctx context.Context, brokers []Broker) []Broker {
	panic("source: to be built")
}

// Topic is a source topic. Configs are effective values by Kafka's names.
type Topic struct {
	Name       string
	ID         kafka.TopicID
	Partitions int32
	Internal   bool
	Err        error // kafka.Error: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED …
}

// Topics lists topics: those named, or all with nil.
func (c *Cluster) Topics(ctx context.Context, names []string) ([]Topic, error) {
	panic("source: to be built")
}

// TopicConfigs reads effective configs of topics; per topic an error may stand instead.
func (c *Cluster) TopicConfigs(ctx context.Context, names []string) (map[string]TopicConfigs, error) {
	panic("source: to be built")
}

// TopicConfigs is a topic's effective configs, or why there are none.
type TopicConfigs struct {
	Values map[string]string
	Err    error
}

// Groups lists the ids of all consumer groups; some coordinators may be out of reach: err then
// tells of them and the list holds the rest.
func (c *Cluster) Groups(ctx context.Context) ([]string, error) { panic("source: to be built") }

// GroupOffsets reads committed offsets of groups, for the topics named. A group may carry an error of its own.
func (c *Cluster) GroupOffsets(ctx context.Context, groups []string, topics []string) (map[string]GroupOffsets, error) {
	panic("source: to be built")
}

// GroupOffsets is one group's commits.
type GroupOffsets struct {
	Err  error
	List []GroupOffset
}

// GroupOffset is one commit.
type GroupOffset struct {
	TopicPartition kafka.TopicPartition
	Offset         kafka.Offset
	Metadata       string
}

// The rest of fetcher.Source.
func (c *Cluster) Leaders(ctx context.Context, topic string, refresh bool) (fetcher.Leaders, error) {
	panic("source: to be built")
}
func (c *Cluster) Session(ctx context.Context, broker int32) (fetcher.Session, error) {
	panic("source: to be built")
}
func (c *Cluster) EpochEnd(ctx context.Context, tp kafka.TopicPartition, current, wanted kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error) {
	panic("source: to be built")
}
func (c *Cluster) ListOffset(ctx context.Context, tp kafka.TopicPartition, spec int64) (kafka.Offset, error) {
	panic("source: to be built")
}

// Close closes all connections.
func (c *Cluster) Close() { panic("source: to be built") }

type impl struct{}
