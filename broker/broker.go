// Package broker puts a hawser together: metadata, store, partitions, groups,
// links and the doors; start order and stop order. It is the only package that
// knows all the others, and decides nothing that one of them could.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/handler"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/link/journal"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/store"
	"github.com/hawserio/hawser/store/disk"
	"github.com/hawserio/hawser/txn"
)

// Config is how a broker is started. Settings are Kafka-style broker configs
// from file and flags; they must have passed config.Broker.Check.
type Config struct {
	Dir       string // the data directory; made if it is not there
	Kafka     string // host:port to listen on; port 0 draws one
	Advertise string // host:port that clients are told; empty: what is listened on
	HTTP      string // host:port of REST, console, metrics; empty: none
	ClusterID string // wanted for a new directory; for an old one it must be empty or equal
	NodeID    int32
	// NewIdentity draws a new incarnation and producer prefix, for a directory that was copied.
	NewIdentity bool
	// ForgetSecrets opens a directory whose key file is lost: links lose their credentials.
	ForgetSecrets bool
	Settings      map[string]string
	Logger        *slog.Logger
	Version       string
}

// Broker is a running broker.
type Broker struct {
	cfg       Config
	values    config.Values
	log       *slog.Logger
	lock      *os.File // holds the data directory
	meta      *meta.Meta
	store     store.Store
	owner     *partition.Owner
	topics    *topics
	cleaner   *cleaner
	groups    *group.Coordinator
	links     *link.Links
	txns      *txn.Coordinator
	acls      *auth.Authorizer // nil: everyone may do everything
	keeper    *auth.Keeper
	guards    []*guard // of the HTTP port and of each listener
	httpGuard *guard
	obeying   sync.Mutex
	listening []handler.Listener
	first     string // name of the first listener
	ids       *txn.IDs
	kafka     *handler.Server
	doors     atomic.Pointer[handler.Server] // kafka, once its listeners are bound: links start before
	http      *httpDoor
	ready     atomic.Bool
	started   time.Time
	timeline  *event.Ring // what happened lately, for console and metrics
	events    event.Sink  // the log and the timeline
	auditLog  *event.Audit
	failed    chan error     // a door that stopped by itself says why
	closers   []func() error // run last to first
}

const (
	listenerName = "PLAINTEXT"
	// timelineLength is how many events the timeline keeps.
	timelineLength = 1000
	// drainTime is how long requests that have come in may take once the broker is asked to stop.
	drainTime = 5 * time.Second
)

// Failed hands out why a door stopped by itself; the broker should then be closed.
func (b *Broker) Failed() <-chan error { return b.failed }

// Start opens the data directory, recovers what a crash left and opens the doors.
// When it returns without error the broker serves.
func Start(ctx context.Context, cfg Config) (_ *Broker, err error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Broker{cfg: cfg, values: config.Broker.Values(cfg.Settings), log: cfg.Logger, started: time.Now(),
		failed: make(chan error, 2), timeline: event.NewRing(timelineLength, nil)}
	b.events = event.All(event.Log(b.log), b.timeline)
	b.showFlags()
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close(context.WithoutCancel(ctx)))
		}
	}()
	// The HTTP port is bound, and so put into the settings, before anything runs that reads them.
	steps := []func(context.Context) error{b.openDir, b.openStore, b.openMeta, b.openPartitions, b.openGroups, b.openTransactions,
		b.bindHTTP, b.openLinks, b.openCleaner, b.openReopener, b.openSecurity, b.openAudit, b.openKafka, b.openHTTP}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	b.ready.Store(true)
	b.events.Emit(event.BrokerReady{NodeID: cfg.NodeID, ClusterID: b.ClusterID(), Listeners: b.boundListeners(), HTTP: b.HTTPAddress(),
		Took: time.Since(b.started)})
	return b, nil
}

// showFlags puts what the broker was told by flags among its settings, where flags win, so that who asks for its configs sees what is in
// effect. As Kafka does, the broker's number is shown under its older name, too.
func (b *Broker) showFlags() {
	id := strconv.Itoa(int(b.cfg.NodeID))
	b.show("node.id", id)
	b.show("broker.id", id)
	b.show("log.dirs", b.cfg.Dir)
	b.show("hawser.http.listener", b.cfg.HTTP)
	if b.values.IsDefault("listeners") {
		b.show("listeners", listenerName+"://"+b.cfg.Kafka)
		if b.cfg.Advertise != "" {
			b.show("advertised.listeners", listenerName+"://"+b.cfg.Advertise)
		}
	}
}

// show changes a setting as others see it: what the broker starts by was read before.
func (b *Broker) show(name, value string) {
	b.cfg.Settings = maps.Clone(b.cfg.Settings)
	if b.cfg.Settings == nil {
		b.cfg.Settings = map[string]string{}
	}
	b.cfg.Settings[name] = value
}

// boundListeners is the Kafka listeners as NAME://host:port, parted by commas.
func (b *Broker) boundListeners() string {
	var list []string
	for _, l := range b.listening {
		list = append(list, l.Name+"://"+b.kafka.Addr(l.Name))
	}
	return strings.Join(list, ",")
}

// onClose registers what Close undoes, last first.
func (b *Broker) onClose(f func() error) { b.closers = append(b.closers, f) }

// Close stops the doors, then what is behind them, syncs and closes. Repeatable.
func (b *Broker) Close(ctx context.Context) error {
	b.ready.Store(false)
	var errs []error
	for len(b.closers) > 0 {
		last := b.closers[len(b.closers)-1]
		b.closers = b.closers[:len(b.closers)-1]
		errs = append(errs, last())
	}
	return errors.Join(errs...)
}

// KafkaAddress is the bound address of the Kafka listener.
func (b *Broker) KafkaAddress() string { return b.kafka.Addr(b.first) }

// ListenerAddress is the bound address of the Kafka listener of that name, "" if there is none.
func (b *Broker) ListenerAddress(name string) string { return b.kafka.Addr(name) }

// HTTPAddress is the bound HTTP address, "" if there is none.
func (b *Broker) HTTPAddress() string {
	if b.http == nil {
		return ""
	}
	return b.http.listener.Addr().String()
}

// ClusterID is the cluster's id.
func (b *Broker) ClusterID() string { return b.meta.Image().Cluster.ID }

// openDir makes the data directory and takes its lock: two brokers on one
// directory would each believe they own its logs.
func (b *Broker) openDir(context.Context) error {
	if b.cfg.Dir == "" {
		return errors.New("no data directory: say where with --data DIR")
	}
	if err := os.MkdirAll(b.cfg.Dir, 0o755); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	lock, err := lockFile(filepath.Join(b.cfg.Dir, "lock"))
	if err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: is another hawser running on it?", err)
		}
		return fmt.Errorf("lock data directory %s: %w", b.cfg.Dir, err)
	}
	b.lock = lock
	b.onClose(lock.Close)
	return nil
}

func (b *Broker) openStore(context.Context) error {
	st, err := disk.Open(filepath.Join(b.cfg.Dir, "data"))
	if err != nil {
		return fmt.Errorf("open data directory: %w", err)
	}
	b.store = st
	b.onClose(st.Close)
	return nil
}

// mayBegin refuses to begin a cluster over partitions that an older one has left, unless that is asked for: metadata
// that is lost, or on a disk that is not mounted, would be taken for a new start, and all topics would be gone.
func (b *Broker) mayBegin() error {
	found, err := b.store.Partitions()
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	found = slices.DeleteFunc(found, func(id kafka.PartitionID) bool { return isEmpty(b.store, id) })
	if len(found) == 0 || b.cfg.NewIdentity {
		return nil
	}
	return fmt.Errorf("the metadata is empty, but %s holds %d partitions: put the metadata back (%s, or hawser.metadata.endpoints, "+
		"or a disk that is not mounted); to begin anew, with the partitions moved to %s, start once with --new-identity",
		filepath.Join(b.cfg.Dir, "data"), len(found), filepath.Join(b.cfg.Dir, "meta"), filepath.Join(b.cfg.Dir, "data", "set-aside"))
}

func (b *Broker) openMeta(ctx context.Context) error {
	if b.cfg.ClusterID != "" {
		if err := config.Broker.CheckOne("hawser.cluster.id", b.cfg.ClusterID); err != nil {
			return fmt.Errorf("--cluster-id: %w", err)
		}
	}
	secured, err := b.metaTLS()
	if err != nil {
		return fmt.Errorf("open metadata: %w", err)
	}
	m, err := meta.Open(ctx, meta.Config{
		Dir:           filepath.Join(b.cfg.Dir, "meta"),
		NodeID:        b.cfg.NodeID,
		ClusterID:     b.cfg.ClusterID,
		NewIdentity:   b.cfg.NewIdentity,
		MayBegin:      b.mayBegin,
		ForgetSecrets: b.cfg.ForgetSecrets,
		QuotaBytes:    b.values.Int("hawser.metadata.quota.bytes"),
		Endpoints:     b.values.List("hawser.metadata.endpoints"),
		TLS:           secured,
		User:          b.values.Text("hawser.metadata.username"),
		Password:      b.values.Text("hawser.metadata.password"),
		CompactEvery:  b.values.Millis("hawser.metadata.compaction.interval.ms"),
		Logger:        b.log,
		Events:        b.events,
	})
	if err != nil {
		return fmt.Errorf("open metadata: %w", err)
	}
	b.meta = m
	b.onClose(m.Close)
	b.ids = txn.NewIDs(m.ProducerIDs)
	return nil
}

func (b *Broker) openPartitions(ctx context.Context) error {
	cluster := b.meta.Image().Cluster
	b.owner = partition.NewOwner(partition.Config{
		ClusterID:      cluster.ID,
		ProducerPrefix: cluster.ProducerPrefix,
		SyncDelay:      b.values.Millis("hawser.sync.delay.ms"),
		SyncBytes:      b.values.Int("hawser.sync.bytes"),
		UnsyncedMax:    b.values.Int("hawser.unsynced.max.bytes"),
		MarkDelay:      time.Second,
		Unsafe:         !b.values.Bool("hawser.sync.enable"),
		Refuse:         b.refuseAppend,
		Logger:         b.log,
		Events:         b.events,
	}, b.store, b.meta)
	b.onClose(b.owner.Close)
	b.topics = newTopics(b)
	if err := b.topics.openAll(ctx); err != nil {
		return err
	}
	return b.raiseProducerIDs(ctx)
}

// raiseProducerIDs keeps ids from being handed out again that a log already
// holds: metadata may have been restored from an older copy (rule P3).
func (b *Broker) raiseProducerIDs(ctx context.Context) error {
	highest := b.owner.HighestProducerID()
	if highest == kafka.NoProducerID {
		return nil
	}
	return b.meta.RaiseProducerIDs(ctx, highest)
}

func (b *Broker) openGroups(ctx context.Context) error {
	v := b.values
	b.groups = group.New(group.Config{
		SessionMin:       v.Millis("group.min.session.timeout.ms"),
		SessionMax:       v.Millis("group.max.session.timeout.ms"),
		InitialDelay:     v.Millis("group.initial.rebalance.delay.ms"),
		MaxSize:          int(v.Int("group.max.size")),
		OffsetsRetention: time.Duration(v.Int("offsets.retention.minutes")) * time.Minute,
		MetadataMaxBytes: int(v.Int("offset.metadata.max.bytes")),
		ConsumerSession:  v.Millis("group.consumer.session.timeout.ms"),
		ConsumerInterval: v.Millis("group.consumer.heartbeat.interval.ms"),
		ConsumerMaxSize:  int(v.Int("group.consumer.max.size")),
		Migration:        group.Migration(strings.ToLower(v.Text("group.consumer.migration.policy"))),
		ClassicOnly:      !slices.Contains(v.List("group.coordinator.rebalance.protocols"), "consumer"),
		Logger:           b.log,
	}, group.Env{
		OffsetsPartition:  b.topics.offsetsPartition,
		OffsetsPartitions: b.topics.offsetsPartitions(),
		Bounds:            b.topics.bounds,
		Mirrored:          b.topics.mirrored,
		TopicID:           b.topics.idOf,
		ConfirmTxn:        b.confirmTxn,
		Refuse:            b.topics.refuseCommit,
		Image:             b.meta.Image,
		MayDescribe:       b.mayDescribe,
		ConsumerTimes:     b.consumerTimes,
	})
	b.onClose(func() error { b.groups.Close(); return nil })
	if err := b.groups.Load(ctx); err != nil {
		return fmt.Errorf("load consumer groups: %w", err)
	}
	return nil
}

func (b *Broker) openLinks(ctx context.Context) error {
	noted := journal.Open(journal.Config{
		Path:   filepath.Join(b.cfg.Dir, "mirrors.journal"),
		Live:   func(topic kafka.TopicID) bool { return b.meta.Image().Mirrors[topic] != nil },
		Logger: b.log,
	})
	b.onClose(noted.Close)
	b.links = link.New(link.Env{
		Meta:      b.meta,
		Owner:     b.owner,
		Groups:    b.groups,
		OpenTopic: b.topics.open,
		ConfigsChanged: func(id kafka.TopicID) {
			if topic := b.topics.ByID(id); topic != nil {
				b.owner.Configure(id, b.topicConfig(topic))
			}
		},
		ReplicationFactor: int16(b.values.Int("default.replication.factor")),
		MemoryMax:         b.values.Int("hawser.link.memory.bytes"),
		Transactions:      b.txns,
		Journal:           noted,
		Sign:              func(text []byte) (string, error) { return api.SignReport(b.meta.SigningKey(), text) },
		Version:           b.cfg.Version,
		Local:             b.localListener,
		Dial:              b.dialSource,
		Events:            b.events,
		Logger:            b.log,
	})
	b.onClose(func() error { b.links.Close(); return nil })
	if err := b.links.Start(ctx); err != nil {
		return fmt.Errorf("start links: %w", err)
	}
	return nil
}

func (b *Broker) openKafka(context.Context) error {
	listeners, err := b.listeners()
	if err != nil {
		return err
	}
	b.kafka = handler.NewServer(handler.Deps{
		ClusterID:    b.ClusterID(),
		NodeID:       b.cfg.NodeID,
		Rack:         b.values.Text("broker.rack"),
		Settings:     kafkaSettings((&configs{b}).values()),
		Topics:       b.topics,
		Partition:    b.owner.Get,
		Groups:       b.groups,
		Configs:      &configs{b},
		ProducerID:   b.ids.Next,
		LogDir:       handler.LogDir{Path: b.cfg.Dir, Space: volumeSpace(b.cfg.Dir)},
		Mirrors:      &mirrors{b},
		Peers:        b.links,
		Transactions: transactions{b.txns},
		Authorizer:   b.authorizer(),
		Security:     b.keeper,
		Quotas:       auth.NewLimiter(b.meta.Image, limiterConfig(b.values)),
		Audit:        b.recordOrder,
		Logger:       b.log,
	})
	b.listening, b.first = listeners, listeners[0].Name
	for _, l := range listeners {
		if err := b.kafka.Listen(l); err != nil {
			return portTaken(err, "--kafka (or listeners)")
		}
	}
	b.doors.Store(b.kafka)
	go func() { b.failed <- b.kafka.Serve() }()
	b.onClose(func() error {
		stop, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		b.kafka.Shutdown(stop)
		return nil
	})
	return nil
}

// advertised splits --advertise; empty parts mean what is bound.
func advertised(address string) (host string, port int32, err error) {
	if address == "" {
		return "", 0, nil
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("--advertise %q: want HOST:PORT as clients shall dial it: %w", address, err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("--advertise %q: the port must be a number up to 65535", address)
	}
	return host, int32(n), nil
}

// Ready reports whether the broker serves.
func (b *Broker) Ready() bool { return b.ready.Load() }

var errNoTopic = kafka.Errorf(kafka.UnknownTopicID, "This server does not host this topic ID.")
