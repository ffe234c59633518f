package fetcher

import (
	"context"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/kafka"
)

const (
	// eventsHeld is how many events wait for a slow listener before loops wait too.
	eventsHeld = 1024
	// repairsAtOnce bounds the partitions that ask the source questions beside the loops.
	repairsAtOnce = 8
	// leadersAtOnce bounds the topics whose leaders are asked for at the same time; the source gathers them.
	leadersAtOnce = 256
)

// Pool fetches for one link. One loop runs per source broker and slot; one goroutine, steer, gives
// partitions to the loop of their leader. A partition belongs to one of them, or to a repair, at a time.
type Pool struct {
	src    Source
	events func(Event)
	cfg    atomic.Pointer[Config]

	ctx    context.Context // done when closed
	cancel context.CancelFunc
	wg     sync.WaitGroup
	queue  chan Event
	repair chan struct{} // a slot per running repair
	wake   chan struct{} // steer has work; room for one
	checks checks        // CaughtUp's connections
	pace   pace
	once   sync.Once // starts steer and deliver with the first Assign
	times  event.Histogram

	refining atomic.Int64 // appends whose epochs are asked for beside the loops

	mu      sync.Mutex // guards what follows; nothing is waited for under it
	parts   map[kafka.TopicPartition]*part
	loops   map[slot]*loop
	lost    []*part // without a loop, for steer
	spare   int64   // bytes of MemoryMax that no loop has; below zero after a Reconfigure until loops shrink
	striped int     // connections of stripes
	closed  bool
}

// slot is one connection to one source broker.
type slot struct {
	broker int32
	n      int
}

// New makes a pool without partitions and starts nothing. events is called from one goroutine, in order.
func New(src Source, cfg Config, events func(Event)) *Pool {
	p := &Pool{
		src:    src,
		events: events,
		queue:  make(chan Event, eventsHeld),
		repair: make(chan struct{}, repairsAtOnce),
		wake:   make(chan struct{}, 1),
		parts:  make(map[kafka.TopicPartition]*part),
		loops:  make(map[slot]*loop),
	}
	cfg = cfg.withDefaults()
	p.cfg.Store(&cfg)
	p.spare = cfg.MemoryMax
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

func (cfg Config) withDefaults() Config {
	cfg.Fetchers = max(cfg.Fetchers, 1)
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = 500 * time.Millisecond
	}
	cfg.MinBytes = max(cfg.MinBytes, 1)
	if cfg.PartitionMax <= 0 {
		cfg.PartitionMax = 5 << 20
	}
	if cfg.ResponseMax <= 0 {
		cfg.ResponseMax = 10 << 20
	}
	if cfg.MemoryMax <= 0 {
		cfg.MemoryMax = 256 << 20
	}
	if cfg.Backoff <= 0 {
		cfg.Backoff = time.Second
	}
	if cfg.MetadataAge <= 0 {
		cfg.MetadataAge = 10 * time.Second
	}
	return cfg
}

// Assign makes the list the whole set of partitions to fetch; those dropped are
// fetched no more when it returns, and nothing of theirs is in flight to their Target.
func (p *Pool) Assign(list []Assignment) {
	wanted := make(map[kafka.TopicPartition]Assignment, len(list))
	for _, a := range list {
		wanted[a.Mirror] = a
	}
	p.mu.Lock()
	var dropped []*part
	for mirror, old := range p.parts {
		if a, ok := wanted[mirror]; !ok || a != old.Assignment {
			dropped = append(dropped, old)
			delete(p.parts, mirror)
		}
	}
	if !p.closed {
		p.once.Do(func() {
			p.wg.Go(p.steer)
			p.wg.Go(p.deliver)
		})
		for mirror, a := range wanted {
			if p.parts[mirror] == nil {
				p.parts[mirror] = p.newPart(a)
				p.lost = append(p.lost, p.parts[mirror])
			}
		}
	}
	p.mu.Unlock()
	drop(dropped)
	p.nudge()
}

// Drop takes partitions of one mirror topic out, with Assign's promise.
func (p *Pool) Drop(mirrorTopic string) {
	p.mu.Lock()
	var dropped []*part
	for mirror, old := range p.parts {
		if mirror.Topic == mirrorTopic {
			dropped = append(dropped, old)
			delete(p.parts, mirror)
		}
	}
	p.mu.Unlock()
	drop(dropped)
}

// drop first calls all of them off, so that their appends end together, and then waits for each.
func drop(parts []*part) {
	for _, q := range parts {
		q.off.Store(true)
		q.cancel()
	}
	for _, q := range parts {
		q.work.Lock()
		q.gone.Store(true)
		q.work.Unlock()
	}
}

// Reconfigure changes bounds on a live pool. Loops take them up with their next fetch, steer at once.
func (p *Pool) Reconfigure(cfg Config) {
	cfg = cfg.withDefaults()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare += cfg.MemoryMax - p.cfg.Load().MemoryMax
	p.cfg.Store(&cfg)
	p.nudge() // steer may have to look sooner
}

// Status reads one partition's state; for one that is not assigned nothing is known.
func (p *Pool) Status(mirror kafka.TopicPartition) Status {
	p.mu.Lock()
	q := p.parts[mirror]
	p.mu.Unlock()
	if q == nil {
		return Status{SourceEnd: -1, SourceStart: -1, LastFetched: -1, LagRecords: -1}
	}
	return q.statusNow()
}

// Times is how long the fetches that brought records took, from the request to the whole answer.
func (p *Pool) Times() event.Times { return p.times.Read() }

// Close ends all fetching and waits for it.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	all := make([]*part, 0, len(p.parts))
	for _, q := range p.parts {
		all = append(all, q)
	}
	clear(p.parts)
	p.mu.Unlock()
	p.cancel()
	drop(all)
	p.checks.close()
	p.wg.Wait()
}

// nudge wakes steer.
func (p *Pool) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// lose gives a partition to steer, which finds its leader once q.notBefore has come.
func (p *Pool) lose(q *part) {
	p.mu.Lock()
	p.lost = append(p.lost, q)
	p.mu.Unlock()
	p.nudge()
}

// place gives a partition to the loop of its leader.
func (p *Pool) place(q *part) {
	leader := q.leader.Load()
	at := slot{broker: leader.Broker, n: slotOf(q.Source, p.cfg.Load().Fetchers)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	l := p.loops[at]
	if l == nil {
		l = newLoop(p, at)
		p.loops[at] = l
		p.wg.Go(l.run)
	}
	l.inbox = append(l.inbox, q)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func slotOf(tp kafka.TopicPartition, slots int) int {
	h := fnv.New32a()
	h.Write([]byte(tp.Topic))
	// Partitions of one topic go round the slots, so that a few heavy ones do not meet in one by chance.
	return int((h.Sum32() + uint32(tp.Partition)) % uint32(slots))
}

// tell queues an event.
func (p *Pool) tell(e Event) {
	select {
	case p.queue <- e:
	case <-p.ctx.Done():
	}
}

func (p *Pool) deliver() {
	for {
		select {
		case e := <-p.queue:
			if p.events != nil {
				p.events(e)
			}
		case <-p.ctx.Done():
			return
		}
	}
}
