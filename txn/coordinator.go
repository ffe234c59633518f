package txn

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/partition"
)

const (
	phaseLoading int32 = iota
	phaseReady
	phaseClosed
)

const (
	defaultMaxTimeout = 15 * time.Minute
	expireEvery       = time.Hour // Kafka's transaction.remove.expired.transaction.cleanup.interval.ms
	loadAtOnce        = 4         // partitions read side by side
	recordsMax        = 64 << 20  // bytes of one batch's decompressed records
)

type impl struct {
	cfg    Config
	env    Env
	doors  doors
	log    *slog.Logger
	shards []*shard

	phase atomic.Int32
	life  context.Context // ends with Close; it bounds what goes on without a request
	end   context.CancelFunc
	work  sync.WaitGroup

	mu        sync.Mutex // guards the maps; taken after an entry's lock
	entries   map[string]*entry
	producers map[kafka.ProducerID]*entry // by the producer id they have now
}

// entry is one transactional id. Its lock is held while it decides, appends and replays, never while it waits for the sync.
type entry struct {
	id    string
	shard *shard

	mu    sync.Mutex
	gone  bool // no longer in the map: look the id up again
	t     transaction
	end   kafka.Offset  // exclusive end of the id's last record in the state log
	done  chan struct{} // closed when the markers of the decided transaction are written; nil if none are to be
	timer *time.Timer   // aborts an ongoing transaction at its time-out
}

func newCoordinator(cfg Config, env Env, d doors) *Coordinator {
	if cfg.MaxTimeout <= 0 {
		cfg.MaxTimeout = defaultMaxTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Coordinator{impl{cfg: cfg, env: env, doors: d, log: cfg.Logger,
		entries: map[string]*entry{}, producers: map[kafka.ProducerID]*entry{}}}
	c.life, c.impl.end = context.WithCancel(context.Background())
	for n := range max(env.StatePartitions, 1) {
		c.shards = append(c.shards, &shard{n: n, open: d.open})
	}
	return c
}

// Close ends timers and the writing of markers, which the next Load takes up again.
func (c *Coordinator) Close() {
	c.phase.Store(phaseClosed)
	c.impl.end()
	for _, e := range c.all() {
		e.mu.Lock()
		e.gone = true
		e.disarm()
		e.mu.Unlock()
	}
	c.work.Wait()
}

func (c *impl) ready() kafka.ErrorCode {
	switch c.phase.Load() {
	case phaseLoading:
		return kafka.CoordinatorLoadInProgress
	case phaseClosed:
		return kafka.NotCoordinator
	}
	return kafka.None
}

// Load replays the state topic and goes on with what was decided; until it is done requests are answered COORDINATOR_LOAD_IN_PROGRESS.
// Ids on a partition that cannot be read are answered COORDINATOR_NOT_AVAILABLE until Retry has read it; only ctx makes Load fail.
func (c *Coordinator) Load(ctx context.Context) error {
	found := make([]reading, len(c.shards))
	if _, ok := c.env.TopicID(kafka.TransactionStateTopic); ok {
		reads, ctx := errgroup.WithContext(ctx)
		reads.SetLimit(loadAtOnce)
		for i, s := range c.shards {
			reads.Go(func() error {
				var err error
				found[i], err = c.loadShard(ctx, s)
				return c.unlessStopped(ctx, s, err)
			})
		}
		if err := reads.Wait(); err != nil {
			return err
		}
	}
	for _, ids := range found {
		c.resume(ids)
	}
	if !c.phase.CompareAndSwap(phaseLoading, phaseReady) {
		return context.Canceled
	}
	if c.cfg.IDExpiration > 0 {
		c.work.Go(c.expireForEver)
	}
	return nil
}

// Retry reads the partitions again that could not be read, as far as another log is in service in their place now, and
// takes their ids into service. One call at a time; only ctx makes it fail.
func (c *Coordinator) Retry(ctx context.Context) error {
	for _, s := range c.shards {
		if !s.failed.Load() || c.ready() != kafka.None || !s.replaced(ctx) {
			continue
		}
		ids, err := c.loadShard(ctx, s)
		if err != nil {
			if err := c.unlessStopped(ctx, s, err); err != nil {
				return err
			}
			continue
		}
		c.resume(ids)
		s.failed.Store(false)
		c.log.Info("the transactional ids on this partition are in service again", "topic", kafka.TransactionStateTopic, "partition", s.n,
			"ids", len(ids))
	}
	return nil
}

// resume shows the ids of a partition that was read, and goes on with what was decided.
func (c *impl) resume(ids reading) {
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		e := ids[id]
		if e.t.state == Dead {
			continue
		}
		e.mu.Lock()
		c.mu.Lock()
		c.entries[id], c.producers[e.t.producer] = e, e
		c.mu.Unlock()
		switch {
		case e.t.state.preparing():
			c.finish(e)
		case e.t.state == Ongoing:
			c.arm(e)
		}
		e.mu.Unlock()
	}
}

// unlessStopped takes a partition that could not be read out of service, with its ids; the others go on.
func (c *impl) unlessStopped(ctx context.Context, s *shard, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	c.log.Error("the transactional ids on this partition are out of service until it can be read: see docs/out-of-service.md",
		"topic", kafka.TransactionStateTopic, "partition", s.n, "error", err)
	s.failed.Store(true)
	return nil
}

// reading is the ids of a partition while it is read: nobody else knows of them yet.
type reading map[string]*entry

func (c *impl) loadShard(ctx context.Context, s *shard) (reading, error) {
	log, err := s.get(ctx)
	if err != nil {
		return nil, err
	}
	ids := reading{}
	err = partition.Replay(ctx, log, func(b batch.Batch) error {
		for r, err := range b.Records(recordsMax) {
			if err != nil {
				return err
			}
			if err := ids.take(s, r.Key, r.Value, r.Offset+1); err != nil {
				return fmt.Errorf("offset %d: %w", r.Offset, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load %s-%d: %w", kafka.TransactionStateTopic, s.n, err)
	}
	return ids, nil
}

func (ids reading) take(s *shard, key, value []byte, end kafka.Offset) error {
	id, err := decodeKey(key)
	if err != nil {
		return err
	}
	e := ids[id]
	if e == nil {
		e = &entry{id: id, shard: s, t: transaction{id: id, producer: kafka.NoProducerID, state: Dead}}
		ids[id] = e
	}
	next, err := e.after(value, end)
	if err != nil {
		return err
	}
	e.t, e.end = next, end
	return nil
}

// readyFor is why no request about the transactional id can be answered now.
func (c *impl) readyFor(id string) kafka.ErrorCode {
	if code := c.ready(); code != kafka.None {
		return code
	}
	if c.shards[kafka.PartitionFor(id, int32(len(c.shards)))].failed.Load() {
		return kafka.CoordinatorNotAvailable
	}
	return kafka.None
}

// idMax bounds a transactional id, in bytes: stored keys have 16 bits for its length.
const idMax = 1<<15 - 1

// lookup finds an id and locks it; nil if it is not known.
func (c *impl) lookup(id string) *entry {
	for {
		c.mu.Lock()
		e := c.entries[id]
		c.mu.Unlock()
		if e == nil || e.hold() {
			return e
		}
		if c.ready() != kafka.None {
			return nil
		}
	}
}

// hold locks the entry; false, and not locked, if it is no longer in the map.
func (e *entry) hold() bool {
	e.mu.Lock()
	if e.gone {
		e.mu.Unlock()
		return false
	}
	return true
}

// enter finds or makes an id and locks it; nil when the coordinator has closed. A new one has state Dead until
// something is written about it, and must be left with leave.
func (c *impl) enter(id string) *entry {
	for c.ready() == kafka.None {
		c.mu.Lock()
		e := c.entries[id]
		if e == nil && c.ready() == kafka.None { // Close looks at the map after it has said so
			e = &entry{id: id, shard: c.shards[kafka.PartitionFor(id, int32(len(c.shards)))],
				t: transaction{id: id, producer: kafka.NoProducerID, state: Dead}}
			c.entries[id] = e
		}
		c.mu.Unlock()
		if e != nil && e.hold() {
			return e
		}
	}
	return nil
}

// leave unlocks the entry, and forgets it if nothing was ever written about it or its id has expired.
func (c *impl) leave(e *entry) {
	if e.t.state == Dead && !e.gone {
		c.forget(e)
	}
	e.mu.Unlock()
}

func (c *impl) forget(e *entry) {
	e.gone = true
	e.disarm()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, e.id)
	if c.producers[e.t.producer] == e {
		delete(c.producers, e.t.producer)
	}
}

// all lists the ids by name.
func (c *impl) all() []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*entry, 0, len(c.entries))
	for _, e := range c.entries {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	return list
}

// code is what a client hears of an error of ours.
func code(err error) kafka.ErrorCode {
	switch code := kafka.CodeOf(err); code {
	case kafka.UnknownServerError, kafka.UnknownTopicOrPartition, kafka.RequestTimedOut, kafka.NotEnoughReplicas:
		return kafka.CoordinatorNotAvailable
	case kafka.NotLeaderForPartition, kafka.KafkaStorageError:
		return kafka.NotCoordinator
	case kafka.MessageTooLarge, kafka.RecordListTooLarge:
		return kafka.UnknownServerError
	default:
		return code
	}
}
