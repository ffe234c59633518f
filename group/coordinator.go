package group

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bounds that Kafka has as constants.
const (
	newMemberTimeout = 5 * time.Minute
	maxPending       = 10_000 // member ids of one group handed out and not yet used
)

const (
	phaseLoading int32 = iota
	phaseReady
	phaseClosed
)

type impl struct {
	cfg    Config
	env    Env
	log    *slog.Logger
	shards []*shard

	phase      atomic.Int32
	nextTicket atomic.Uint64
	// life ends with Close; it bounds what timers do.
	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex // guards groups; taken after no other lock
	groups map[string]*group
}

// group is one group. Its lock is held while it decides, appends and replays, never while it waits for the sync.
type group struct {
	id    string
	shard *shard

	mu   sync.Mutex
	gone bool               // no longer in the coordinator's map: look the group up again
	core *rebalance.Classic // nil only while loading; idle for ever while consumer is set
	// consumer is set for a group of the consumer protocol (KIP-848).
	consumer *rebalance.Consumer
	stored   bool // there is metadata in the log
	loaded   *kmsg.GroupMetadataValue
	end      kafka.Offset // exclusive end of what was appended for the group
	parked   map[rebalance.Ticket]chan parkedAnswer

	offsets map[string]map[int32]commit
	// pending is what transactions that are not decided have committed.
	pending map[kafka.ProducerID]map[kafka.TopicPartition]commit
	epochs  map[kafka.ProducerID]int16 // of the producers in pending

	timer *time.Timer
	armed time.Time // when the timer fires; zero if it does not
}

type parkedAnswer struct {
	rebalance.Answer
	end kafka.Offset // what the answer speaks of is durable once this is synced
}

func newCoordinator(cfg Config, env Env, open func(context.Context, int32) (offsetsLog, error)) *Coordinator {
	if cfg.MaxSize <= 0 {
		cfg.MaxSize = math.MaxInt32
	}
	if cfg.ConsumerSession <= 0 {
		cfg.ConsumerSession = 45 * time.Second
	}
	if cfg.ConsumerInterval <= 0 {
		cfg.ConsumerInterval = 5 * time.Second
	}
	if cfg.ConsumerMaxSize <= 0 {
		cfg.ConsumerMaxSize = math.MaxInt32
	}
	if cfg.Migration == "" {
		cfg.Migration = MigrateBoth
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Coordinator{impl{cfg: cfg, env: env, log: cfg.Logger, groups: map[string]*group{}}}
	c.life, c.impl.end = context.WithCancel(context.Background())
	for n := range max(env.OffsetsPartitions, 1) {
		c.shards = append(c.shards, &shard{n: n, open: open, pending: map[kafka.ProducerID]map[string]struct{}{}})
	}
	return c
}

// Close ends timers and waits; members are told NOT_COORDINATOR.
func (c *Coordinator) Close() {
	c.phase.Store(phaseClosed)
	c.impl.end()
	for _, g := range c.all() {
		g.mu.Lock()
		g.gone = true
		g.arm(nil, time.Time{})
		c.give(g, g.core.Kill(kafka.NotCoordinator, time.Now()).Answers)
		g.mu.Unlock()
	}
	c.work.Wait()
}

// ready is why no request can be answered now.
func (c *impl) ready() kafka.ErrorCode {
	switch c.phase.Load() {
	case phaseLoading:
		return kafka.CoordinatorLoadInProgress
	case phaseClosed:
		return kafka.NotCoordinator
	}
	return kafka.None
}

func (c *impl) limits() rebalance.Limits {
	return rebalance.Limits{InitialDelay: c.cfg.InitialDelay, NewMemberTimeout: newMemberTimeout, MaxSize: c.cfg.MaxSize,
		MaxPending: maxPending}
}

// readyFor is why no request about the group can be answered now.
func (c *impl) readyFor(group string) kafka.ErrorCode {
	if code := c.ready(); code != kafka.None {
		return code
	}
	if c.shards[kafka.PartitionFor(group, int32(len(c.shards)))].failed.Load() {
		return kafka.CoordinatorNotAvailable
	}
	return kafka.None
}

// lookup finds a group and locks it; nil if it is not there.
func (c *impl) lookup(id string) *group {
	for {
		c.mu.Lock()
		g := c.groups[id]
		c.mu.Unlock()
		if g == nil {
			return nil
		}
		g.mu.Lock()
		if !g.gone {
			return g
		}
		g.mu.Unlock()
		if c.phase.Load() == phaseClosed {
			return nil
		}
	}
}

// enter finds or makes a group and locks it; nil when the coordinator has closed.
func (c *impl) enter(id string) *group {
	for c.phase.Load() != phaseClosed {
		c.mu.Lock()
		g := c.groups[id]
		if g == nil && c.phase.Load() != phaseClosed { // Close looks at the map after it has said so
			g = c.fresh(id)
			g.core = rebalance.NewClassic(c.limits(), time.Now())
			c.groups[id] = g
		}
		c.mu.Unlock()
		if g == nil {
			return nil
		}
		g.mu.Lock()
		if !g.gone {
			return g
		}
		g.mu.Unlock()
	}
	return nil
}

func (c *impl) fresh(id string) *group {
	return &group{id: id, shard: c.shards[kafka.PartitionFor(id, int32(len(c.shards)))],
		parked:  map[rebalance.Ticket]chan parkedAnswer{},
		offsets: map[string]map[int32]commit{}, pending: map[kafka.ProducerID]map[kafka.TopicPartition]commit{},
		epochs: map[kafka.ProducerID]int16{}}
}

// all lists the groups by name.
func (c *impl) all() []*group {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*group, 0, len(c.groups))
	for _, g := range c.groups {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *group) int { return cmp.Compare(a.id, b.id) })
	return list
}

// leave unlocks the group, and forgets it if there is nothing to remember.
func (c *impl) leave(g *group) {
	if !g.gone && g.idle() && !g.stored && len(g.offsets) == 0 && len(g.pending) == 0 && len(g.parked) == 0 {
		c.forget(g)
	}
	g.mu.Unlock()
}

// forget takes the group, whose lock is held, out of the map.
func (c *impl) forget(g *group) {
	g.gone = true
	g.arm(nil, time.Time{})
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groups, g.id)
}

// settle does what the core asks after an event: store, answer, set the timer. The group's lock is held.
func (c *impl) settle(g *group, out rebalance.Out) {
	for {
		var err error
		if out.Store {
			err = c.write(c.life, g, producer{}, []record{groupRecord(g.id, g.core.Snapshot())})
		}
		if err != nil {
			c.log.Error("store group metadata", "group", g.id, "error", err)
			out.Answers = failed(out.Answers)
		}
		c.give(g, out.Answers)
		if !out.Store {
			break
		}
		if err != nil {
			out = g.core.StoreFailed(storeCode(err), time.Now())
		} else {
			out = g.core.Stored(time.Now())
		}
	}
	g.arm(c, g.core.Next())
}

// failed turns answers that speak of what could not be stored into errors that clients try again after.
func failed(answers []rebalance.Answer) []rebalance.Answer {
	for i, a := range answers {
		if a.Join != nil && a.Join.Code == kafka.None {
			answers[i].Join = &rebalance.JoinAnswer{Code: kafka.CoordinatorNotAvailable, MemberID: a.Join.MemberID, Generation: -1}
		}
	}
	return answers
}

// storeCode is what a client hears when its group's records could not be written.
func storeCode(err error) kafka.ErrorCode {
	switch code := kafka.CodeOf(err); code {
	case kafka.UnknownTopicOrPartition, kafka.NotEnoughReplicas, kafka.RequestTimedOut, kafka.UnknownServerError:
		return kafka.CoordinatorNotAvailable
	case kafka.NotLeaderForPartition, kafka.KafkaStorageError:
		return kafka.NotCoordinator
	case kafka.MessageTooLarge, kafka.RecordListTooLarge, kafka.InvalidFetchSize:
		return kafka.UnknownServerError
	default:
		return code
	}
}

// give hands answers to the callers that wait for them.
func (c *impl) give(g *group, answers []rebalance.Answer) {
	for _, a := range answers {
		if ch, ok := g.parked[a.Ticket]; ok {
			delete(g.parked, a.Ticket)
			ch <- parkedAnswer{a, g.end} // has room for its one answer
		}
	}
}

// park makes a ticket and the channel that its answer comes on.
func (c *impl) park(g *group) (rebalance.Ticket, chan parkedAnswer) {
	ticket := rebalance.Ticket(c.nextTicket.Add(1))
	ch := make(chan parkedAnswer, 1)
	g.parked[ticket] = ch
	return ticket, ch
}

// await waits for the ticket's answer and until what it speaks of is durable. It returns an error when the caller has
// gone, whose ticket is then forgotten, or when the disk failed.
func (c *impl) await(ctx context.Context, g *group, ticket rebalance.Ticket, ch chan parkedAnswer) (rebalance.Answer, error) {
	select {
	case a := <-ch:
		return a.Answer, c.synced(ctx, g, a.end)
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.parked, ticket)
		g.core.Abandon(ticket)
		return rebalance.Answer{}, ctx.Err()
	}
}

// arm sets the group's timer to fire at the given time, or stops it with zero.
func (g *group) arm(c *impl, at time.Time) {
	if at.IsZero() {
		if g.timer != nil {
			g.timer.Stop()
		}
		g.armed = time.Time{}
		return
	}
	if !g.armed.IsZero() && !at.Before(g.armed) {
		return // it fires earlier and looks again
	}
	g.armed = at
	wait := max(time.Until(at), 0)
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, func() { c.tick(g) })
		return
	}
	g.timer.Reset(wait)
}

func (c *impl) tick(g *group) {
	g.mu.Lock()
	defer c.leave(g)
	if g.gone || c.life.Err() != nil {
		return
	}
	g.armed = time.Time{}
	if g.consumer != nil {
		c.tickConsumer(g)
		return
	}
	c.settle(g, g.core.Tick(time.Now()))
}

// put, drop and hold change the offsets in memory; only replay calls them.
func (g *group) put(tp kafka.TopicPartition, to commit) {
	if g.offsets[tp.Topic] == nil {
		g.offsets[tp.Topic] = map[int32]commit{}
	}
	g.offsets[tp.Topic][tp.Partition] = to
}

func (g *group) drop(tp kafka.TopicPartition) {
	delete(g.offsets[tp.Topic], tp.Partition)
	if len(g.offsets[tp.Topic]) == 0 {
		delete(g.offsets, tp.Topic)
	}
	for id, held := range g.pending {
		delete(held, tp)
		if len(held) == 0 {
			delete(g.pending, id)
			delete(g.epochs, id)
			g.shard.releases(id, g.id)
		}
	}
}

func (g *group) hold(by producer, tp kafka.TopicPartition, to commit) {
	if g.pending[by.id] == nil {
		g.pending[by.id] = map[kafka.TopicPartition]commit{}
	}
	g.pending[by.id][tp], g.epochs[by.id] = to, by.epoch
}

// committed is the offset committed on a partition of the topic that has the name now: what was committed on a
// deleted one of that name is not found (case C90).
func (c *impl) committed(g *group, tp kafka.TopicPartition) (commit, bool) {
	found, ok := g.offsets[tp.Topic][tp.Partition]
	if !ok {
		return commit{}, false
	}
	return found, c.current(tp.Topic, found)
}

func (c *impl) current(topic string, found commit) bool {
	id, ok := c.env.TopicID(topic)
	return ok && (found.topic.IsZero() || found.topic == id)
}
