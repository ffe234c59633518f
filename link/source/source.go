// Package source is the source cluster as we see it: the only place that uses a
// Kafka client library. link dials one Cluster per link; fetcher and task
// ask it. It refuses to know what the answers are for.
package source

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
	MaxReadBytes   int32 // largest answer taken, in bytes; at least 50 MiB and at most 1 GiB are taken
	MetadataAge    time.Duration
	Logger         *slog.Logger
	Dial           func(ctx context.Context, network, address string) (net.Conn, error) // nil: net.Dialer
}

// Bounds of what is taken from a Config, where it says nothing or too much.
const (
	defaultRequestTimeout = 30 * time.Second
	defaultDialTimeout    = 10 * time.Second
	defaultMaxReadBytes   = 128 << 20
	leastMaxReadBytes     = 50 << 20 // the client library makes no client that takes less than its own consumers ask for
	mostMaxReadBytes      = 1 << 30  // the client library's own
	idleTimeout           = time.Minute
	authPause             = 2 * time.Second // between logins that fail
)

// Cluster is a connected source. It implements fetcher.Source.
//
// Each broker has one connection of its own for questions (a peer), and each Session
// another. Groups are asked through a client of their own, which finds the coordinators.
type Cluster struct {
	cfg    Config
	dialer dialer
	opts   []kgo.Opt // that all clients share

	ctx    context.Context // done when closed
	cancel context.CancelFunc
	wg     sync.WaitGroup

	greeted atomic.Bool // some broker has answered under this Config
	sizes   sizes       // of answers to fetches

	mu      sync.Mutex             // guards what follows
	groups  *kgo.Client            // made when first needed
	peers   map[string]*kgo.Client // by advertised address
	callers map[string]*callers    // by advertised address; for private requests
	last    string                 // the address that answered the last question put to any broker
	brokers map[int32]string       // advertised addresses, from the newest metadata
	topics  map[string]cachedTopic
	lookup  *lookup // metadata request that is being collected
	denied  error   // last failed login, and until when nobody tries again
	until   time.Time
	closed  bool
}

var _ fetcher.Source = (*Cluster)(nil)

// Dial makes a Cluster; it connects when first asked. Errors are of the config only.
func Dial(cfg Config) (*Cluster, error) {
	cfg = cfg.withDefaults()
	if len(cfg.Bootstrap) == 0 {
		return nil, &Error{Class: Other, Err: fmt.Errorf("bootstrap.servers is empty"), Hint: "Name at least one broker as host:port."}
	}
	for i, address := range cfg.Bootstrap {
		host, err := hostPort(address)
		if err != nil {
			return nil, &Error{Class: Unresolvable, Address: address, Err: err, Hint: "Write bootstrap.servers as host:port, separated by commas."}
		}
		cfg.Bootstrap[i] = host
	}
	c := &Cluster{
		cfg:     cfg,
		peers:   make(map[string]*kgo.Client),
		callers: make(map[string]*callers),
		brokers: make(map[int32]string),
		topics:  make(map[string]cachedTopic),
	}
	var err error
	if c.dialer, err = newDialer(cfg); err != nil {
		return nil, err
	}
	if c.opts, err = cfg.options(); err != nil {
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

func (cfg Config) withDefaults() Config {
	cfg.Bootstrap = slices.Clone(cfg.Bootstrap)
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = defaultRequestTimeout
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = defaultDialTimeout
	}
	if cfg.MaxReadBytes <= 0 {
		cfg.MaxReadBytes = defaultMaxReadBytes
	}
	cfg.MaxReadBytes = min(max(cfg.MaxReadBytes, leastMaxReadBytes), mostMaxReadBytes)
	if cfg.MetadataAge <= 0 {
		cfg.MetadataAge = 5 * time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.ClientID == "" {
		cfg.ClientID = "hawser"
	}
	return cfg
}

// hostPort cuts a PROTOCOL:// prefix off and checks the rest.
func hostPort(address string) (string, error) {
	address = strings.TrimSpace(address)
	if _, rest, ok := strings.Cut(address, "://"); ok {
		address = rest
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("read address %q: %w", address, err)
	}
	if host == "" || port == "" {
		return "", fmt.Errorf("address %q needs a host and a port", address)
	}
	return address, nil
}

// options are those every client of the cluster has. What kgo does by itself is kept small:
// it refreshes nothing, retries little and sends no metrics.
func (cfg Config) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.ClientID(cfg.ClientID),
		kgo.RequestTimeoutOverhead(min(max(cfg.RequestTimeout, 100*time.Millisecond), 15*time.Minute)),
		kgo.RetryTimeout(cfg.RequestTimeout),
		kgo.RequestRetries(2),
		kgo.ConnIdleTimeout(idleTimeout),
		kgo.BrokerMaxReadBytes(cfg.MaxReadBytes),
		kgo.MetadataMaxAge(time.Hour),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.DisableClientMetrics(),
		kgo.MaxVersions(offeredVersions()),
	}
	mechanism, err := cfg.Security.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

// newClient makes a client that knows only the addresses given, for questions unless more holds another kgo.Dialer.
func (c *Cluster) newClient(addresses []string, more ...kgo.Opt) (*kgo.Client, error) {
	opts := append(slices.Clone(c.opts), kgo.SeedBrokers(addresses...), kgo.Dialer(c.dialFor(answerMost)))
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, &Error{Class: Other, Err: fmt.Errorf("make a client: %w", err), Hint: "Check the link's configs."}
	}
	return client, nil
}

// Close closes all connections and waits for what is under way. Sessions that are still open are
// the caller's to close.
func (c *Cluster) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	clients := make([]*kgo.Client, 0, len(c.peers)+1)
	for _, peer := range c.peers {
		clients = append(clients, peer)
	}
	for _, own := range c.callers {
		clients = append(clients, own.all...)
	}
	if c.groups != nil {
		clients = append(clients, c.groups)
	}
	c.peers, c.callers, c.groups = nil, nil, nil
	c.mu.Unlock()
	c.cancel()
	for _, client := range clients {
		client.Close()
	}
	c.wg.Wait()
}
