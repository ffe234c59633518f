package partition

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store"
)

// Stream is where the owner's entries are stored, in order and guarded: meta.Meta
// is one. Entries are written here first and acted on afterwards. A topic without
// entries is kafka.UnknownTopicID; decide may return nil to leave a topic as it is.
type Stream interface {
	UpdatePartitions(ctx context.Context, topics []kafka.TopicID, decide func(*meta.Partitions) (*meta.Partitions, error)) error
}

// Config is the owner's own settings.
type Config struct {
	ClusterID      string
	ProducerPrefix uint32        // a producer id with another high half is foreign (DESIGN section 6)
	SyncDelay      time.Duration // how long a mirror's bytes may wait for the shared sync: 10 ms
	SyncBytes      int64         // unsynced bytes of all partitions that start one at once: 32 MiB
	UnsyncedMax    int64         // and at which appends wait: 64 MiB
	MarkDelay      time.Duration // how long after a sync of a few bytes it is noted how far the log is synced: with it where it is 0
	Unsafe         bool          // no sync: the high watermark is the written end (comparison runs only)
	Logger         *slog.Logger
	Events         event.Sink       // hears of partitions that go out of service, and of torn logs; the Logger where nil
	Now            func() time.Time // time.Now where nil
	// Refuse says why producers may not append to an open topic just now: it is about to be frozen (rule R5). Transaction
	// markers are not refused. nil for no such rule; asked for each batch, so it must be quick.
	Refuse func(topic kafka.TopicID) error
	// Workers is how many files are synced at once (32 where it is 0), and 1 opens and closes one by one as well: so
	// that a simulation sees one order of events.
	Workers int
	Random  func() uint32 // of the epochs that stopped mirrors begin (rule E1); math/rand's where nil
}

// TopicConfig is what the partition must know of its topic's configs.
type TopicConfig struct {
	Log                  commitlog.Config
	MaxMessageBytes      int  // of one batch, compressed
	LogAppendTime        bool // message.timestamp.type
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64
	Compression          string // compression.type: producer, uncompressed, gzip, snappy, lz4, zstd
	Compacted            bool   // cleanup.policy has compact: records need keys
	Retain               retain.Policy
}

// openAtOnce is how many logs are opened, synced, closed or removed at the same time when there are many.
const openAtOnce = 16

// Owner is all partitions of this broker and the one group commit they share.
type Owner struct {
	cfg        Config
	store      store.Store
	storer     *storer
	syncer     *syncer
	marker     *marker
	syncTimes  event.Histogram
	reconciler *reconciler
	decoding   chan struct{} // holds a value for each compressed batch that is looked into

	mu         sync.RWMutex // guards partitions and closed
	partitions map[kafka.PartitionID]*Partition
	withheld   map[kafka.PartitionID]error // why a partition is not to be opened; guarded by mu
	closed     bool
	// opening is held, by a byte of the topic's id, by Open and Delete: one topic is opened or deleted by
	// one at a time, several topics at once.
	opening [256]sync.Mutex
	busy    sync.RWMutex // held for reading by Open and Delete, for writing by Close
}

// NewOwner makes an owner without partitions. Zero sizes and delays take the values that Config names.
func NewOwner(cfg Config, st store.Store, stream Stream) *Owner {
	if cfg.SyncDelay <= 0 {
		cfg.SyncDelay = 10 * time.Millisecond
	}
	if cfg.SyncBytes <= 0 {
		cfg.SyncBytes = 32 << 20
	}
	if cfg.UnsyncedMax <= 0 {
		cfg.UnsyncedMax = 64 << 20
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Events == nil {
		cfg.Events = event.Log(cfg.Logger)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Random == nil {
		cfg.Random = rand.Uint32
	}
	o := &Owner{cfg: cfg, store: st, storer: &storer{stream: stream}, syncer: newSyncer(cfg), marker: newMarker(cfg.MarkDelay),
		partitions: map[kafka.PartitionID]*Partition{}, withheld: map[kafka.PartitionID]error{}}
	o.decoding = make(chan struct{}, max(4, 2*runtime.GOMAXPROCS(0)))
	o.reconciler = newReconciler(o)
	return o
}

// Get finds an open partition, nil if it is not here.
func (o *Owner) Get(id kafka.PartitionID) *Partition {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.partitions[id]
}

// Withhold has Open leave a partition out of service, neither opened nor made: every call answers why. It is for one that is not
// what it was and, opened, would look well. It holds until the topic is deleted or the process ends.
func (o *Owner) Withhold(id kafka.PartitionID, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.withheld[id] = why
}

func (o *Owner) withholds(id kafka.PartitionID) error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.withheld[id]
}

// all lists the partitions of these topics, or of every topic for nil, in no order.
func (o *Owner) all(topics map[kafka.TopicID]bool) []*Partition {
	o.mu.RLock()
	defer o.mu.RUnlock()
	var list []*Partition
	for id, p := range o.partitions {
		if topics == nil || topics[id.Topic] {
			list = append(list, p)
		}
	}
	return list
}

// Configure replaces the topic's configs on its open partitions.
func (o *Owner) Configure(topic kafka.TopicID, cfg TopicConfig) {
	for _, p := range o.all(map[kafka.TopicID]bool{topic: true}) {
		p.cfg.Store(&cfg)
		if p.log != nil {
			p.log.Configure(cfg.Log)
		}
	}
}

// UnsyncedBytes is what a crash would take now, in bytes, over all partitions.
func (o *Owner) UnsyncedBytes() int64 { return o.syncer.total() }

// SyncTimes is how long syncs of logs to the disk took.
func (o *Owner) SyncTimes() event.Times { return o.syncTimes.Read() }

// changing holds the topic for whoever opens or deletes its partitions, until the function it returns is called.
func (o *Owner) changing(topic kafka.TopicID) (done func()) {
	o.busy.RLock()
	lock := &o.opening[topic[15]]
	lock.Lock()
	return func() {
		lock.Unlock()
		o.busy.RUnlock()
	}
}

// HighestProducerID is the highest producer id of this cluster's own prefix that any log knows, NoProducerID
// for none: ids handed out must be above it (protocol rule P3).
func (o *Owner) HighestProducerID() kafka.ProducerID {
	highest := kafka.NoProducerID
	for _, p := range o.all(nil) {
		p.mu.Lock()
		if p.derived != nil {
			for id := range p.derived.byID {
				if id > highest && !isForeign(id, o.cfg.ProducerPrefix) {
					highest = id
				}
			}
		}
		p.mu.Unlock()
	}
	return highest
}

// Delete closes the topic's partitions, wakes who waits on them and removes their directories. Repeatable.
func (o *Owner) Delete(topic kafka.TopicID, partitions int32) error {
	defer o.changing(topic)()
	gone := kafka.Errorf(kafka.UnknownTopicOrPartition, "The topic with id %s was deleted.", topic)
	errs := make([]error, partitions)
	// Side by side, for each waits for the disk several times: of thousands one after the other a client does not see the end.
	var g errgroup.Group
	g.SetLimit(o.atOnce())
	for n := range partitions {
		id := kafka.PartitionID{Topic: topic, Partition: n}
		o.mu.Lock()
		p := o.partitions[id]
		delete(o.partitions, id)
		delete(o.withheld, id)
		o.mu.Unlock()
		g.Go(func() error {
			homes := []kafka.PartitionID{id}
			if p != nil {
				p.discard(gone)
				homes = p.homes()
			}
			errs[n] = o.removeDirs(homes)
			return nil
		})
	}
	_ = g.Wait() // each keeps its own error
	return errors.Join(errs...)
}

func (o *Owner) removeDirs(ids []kafka.PartitionID) error {
	for _, id := range ids {
		if err := o.store.Remove(id); err != nil {
			return fmt.Errorf("remove partition %s: %w", id, err)
		}
	}
	return nil
}

// Close syncs and closes everything.
func (o *Owner) Close() error {
	o.busy.Lock()
	defer o.busy.Unlock()
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil
	}
	o.closed = true
	o.mu.Unlock()
	o.reconciler.close()
	o.syncer.close()
	o.marker.close()
	leaving := kafka.Errorf(kafka.NotLeaderForPartition, "The broker is shutting down.")
	return o.inParallel(o.all(nil), func(p *Partition) error { return p.close(leaving) })
}

// close takes the partition out of service for good, then syncs and closes its log.
func (p *Partition) close(why error) (err error) {
	healthy := p.Err() == nil
	p.retire(why, func() {
		var errs []error
		if healthy && p.unsaved > snapshotAtClose {
			errs = append(errs, p.saveSnapshot(p.derived.end, p.derived.encode()))
		}
		err = errors.Join(append(errs, p.log.Close())...)
	})
	if err != nil {
		return fmt.Errorf("close partition %s: %w", p.name, err)
	}
	return nil
}

// discard takes the partition out of service for good; its log is about to be removed, so nothing is made durable.
func (p *Partition) discard(why error) { p.retire(why, func() { p.log.Discard() }) }

// retire ends all that goes on in the partition and lets end close its log, if it has one.
func (p *Partition) retire(why error, end func()) {
	p.fail(why)
	p.cleaning.Lock() // a cleaning under way sees that and gives up
	defer p.cleaning.Unlock()
	p.order <- struct{}{}
	defer p.unlockOrder()
	p.syncing.Lock()
	defer p.syncing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = true
	if p.log != nil {
		end()
	}
}

// atOnce is how many partitions are opened, closed or removed side by side.
func (o *Owner) atOnce() int {
	if o.cfg.Workers == 1 {
		return 1
	}
	return openAtOnce
}

// inParallel runs do for each, some at a time, and joins the errors.
func (o *Owner) inParallel(list []*Partition, do func(*Partition) error) error {
	var g errgroup.Group
	g.SetLimit(o.atOnce())
	if o.cfg.Workers == 1 {
		slices.SortFunc(list, byID)
	}
	errs := make([]error, len(list))
	for i, p := range list {
		g.Go(func() error {
			errs[i] = do(p)
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	return errors.Join(errs...)
}

func byID(a, b *Partition) int {
	return cmp.Or(bytes.Compare(a.id.Topic[:], b.id.Topic[:]), cmp.Compare(a.id.Partition, b.id.Partition))
}
