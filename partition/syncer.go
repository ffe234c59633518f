package partition

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// syncWorkers is how many files are synced at once; half of them at most for bytes that may wait. The file system joins what waits for its
// journal at the same moment, so that many small syncs side by side cost little more than one: with 100 mirrored partitions of 10 records a
// second each, 4 at a time took 72 ms in the median and 24 took 18 ms.
const syncWorkers = 32

// carelessDelay is how long bytes may wait for a sync that nobody waits for; about as long as the system itself leaves them.
const carelessDelay = 5 * time.Second

// carelessBytes is how many of them may wait before a sync comes sooner. It is for a disk that does not keep up at all: the system
// has a bound of its own.
const carelessBytes = 512 << 20

// syncer is the group commit of all partitions: a partition whose sync runs
// gathers what is appended meanwhile, and is synced again for all of it at once.
type syncer struct {
	many      int  // workers
	careless  bool // nobody waits for a sync, ever: they only keep what a crash can take within bounds
	delay     time.Duration
	lazyBytes int64 // unsynced bytes at which nothing waits any more
	maxBytes  int64 // and at which appends wait

	mu sync.Mutex // guards all below, and each partition's dirty
	// work is signalled when there may be something to do for a worker.
	work *sync.Cond
	// unsynced is bytes appended, or about to be, that no sync has covered.
	unsynced int64
	// room is closed and replaced when unsynced has fallen while somebody waits for that.
	room        chan struct{}
	waiting     int
	urgent      []*Partition
	rested      []*Partition // bytes that may wait, of partitions that were not synced for the delay: waiting would gather nothing
	lazy        []*Partition
	lazyDue     bool // the delay has passed
	timer       *time.Timer
	lazyRunning int
	closed      bool
	workers     sync.WaitGroup
}

// dirtiness is what the syncer knows of a partition.
type dirtiness struct {
	bytes   int64 // appended since its last sync began
	need    need
	running bool      // a worker syncs it; need is what to do afterwards
	ended   time.Time // of its last sync
}

// need is how soon a partition must be synced.
type need int8

const (
	clean need = iota
	soon       // within the delay
	atOnce
)

func newSyncer(cfg Config) *syncer {
	s := &syncer{many: cmp.Or(cfg.Workers, syncWorkers), delay: cfg.SyncDelay,
		lazyBytes: cfg.SyncBytes, maxBytes: cfg.UnsyncedMax, room: make(chan struct{})}
	if cfg.Unsafe {
		s.careless, s.delay = true, max(s.delay, carelessDelay)
		s.lazyBytes, s.maxBytes = max(s.lazyBytes, carelessBytes), max(s.maxBytes, 2*carelessBytes)
	}
	s.work = sync.NewCond(&s.mu)
	s.timer = time.AfterFunc(time.Hour, s.due)
	s.timer.Stop()
	for range s.many {
		s.workers.Go(s.run)
	}
	return s
}

// reserve waits until n more bytes may be unsynced, and counts them. Bytes that are
// then not appended are given back by release.
func (s *syncer) reserve(ctx context.Context, n int) error {
	s.mu.Lock()
	for s.unsynced > 0 && s.unsynced+int64(n) > s.maxBytes && !s.closed {
		room := s.room
		s.waiting++
		s.hurry()
		s.mu.Unlock()
		var err error
		select {
		case <-room:
		case <-ctx.Done():
			err = ctx.Err()
		}
		s.mu.Lock()
		s.waiting--
		if err != nil {
			s.mu.Unlock()
			return err
		}
	}
	s.unsynced += int64(n)
	s.mu.Unlock()
	return nil
}

// release gives back bytes that were reserved, or synced.
func (s *syncer) release(n int64) {
	s.mu.Lock()
	s.free(n)
	s.mu.Unlock()
}

func (s *syncer) free(n int64) {
	s.unsynced -= n
	if s.waiting > 0 && n > 0 {
		close(s.room)
		s.room = make(chan struct{})
	}
}

// appended says that n reserved bytes are in p's log now.
func (s *syncer) appended(p *Partition, n int, how need) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.careless {
		how = soon
	}
	p.dirty.bytes += int64(n)
	s.raise(p, how)
	if s.unsynced >= s.lazyBytes {
		s.hurry()
	}
}

// urge has p synced at once, for somebody waits.
func (s *syncer) urge(p *Partition) {
	s.mu.Lock()
	s.raise(p, atOnce)
	s.mu.Unlock()
}

// raise makes p's need at least that, and queues it. It needs mu.
func (s *syncer) raise(p *Partition, how need) {
	if how <= p.dirty.need {
		return
	}
	p.dirty.need = how
	if !p.dirty.running {
		s.enqueue(p)
	}
}

func (s *syncer) enqueue(p *Partition) {
	if p.dirty.need == atOnce {
		// It may be among the lazy ones still; next passes over it there.
		s.urgent = append(s.urgent, p)
		s.work.Signal()
		return
	}
	// A quiet partition's record is shown without delay: the delay is there for those that are appended to all the time. Where
	// nobody waits for a sync there is nothing to be quick for.
	if !s.careless && time.Since(p.dirty.ended) >= s.delay {
		s.rested = append(s.rested, p)
		s.work.Signal()
		return
	}
	s.lazy = append(s.lazy, p)
	switch {
	case s.lazyDue:
		s.work.Signal()
	case len(s.lazy) == 1:
		s.timer.Reset(s.delay)
	}
}

// hurry lets nothing wait any more.
func (s *syncer) hurry() {
	if len(s.lazy) > 0 && !s.lazyDue {
		s.lazyDue = true
		s.work.Broadcast()
	}
}

func (s *syncer) due() {
	s.mu.Lock()
	s.hurry()
	s.mu.Unlock()
}

// next waits for a partition to sync, nil when the syncer is closed. bytes is what the sync will cover.
func (s *syncer) next() (p *Partition, how need, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if p, how = s.pick(); p != nil {
			bytes, p.dirty.bytes = p.dirty.bytes, 0
			p.dirty.need, p.dirty.running = clean, true
			return p, how, bytes
		}
		if s.closed {
			return nil, clean, 0
		}
		s.work.Wait()
	}
}

func (s *syncer) pick() (*Partition, need) {
	for len(s.urgent) > 0 {
		p := s.urgent[0]
		s.urgent = s.urgent[1:]
		if !p.dirty.running && p.dirty.need == atOnce {
			return p, atOnce
		}
	}
	if s.lazyRunning >= max(1, s.many/2) {
		return nil, clean
	}
	if p := s.first(&s.rested); p != nil {
		return p, soon
	}
	if s.lazyDue {
		if p := s.first(&s.lazy); p != nil {
			return p, soon
		}
		s.lazyDue = false
	}
	return nil, clean
}

// first takes the first of a list of partitions whose bytes may wait that is still to be synced.
func (s *syncer) first(list *[]*Partition) *Partition {
	for len(*list) > 0 {
		p := (*list)[0]
		*list = (*list)[1:]
		if !p.dirty.running && p.dirty.need == soon {
			s.lazyRunning++
			return p
		}
	}
	return nil
}

func (s *syncer) done(p *Partition, how need, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.dirty.running, p.dirty.ended = false, time.Now()
	s.free(bytes)
	if p.dirty.need != clean {
		s.enqueue(p)
	}
	if how == soon {
		s.lazyRunning--
		if len(s.lazy)+len(s.rested) > 0 {
			s.work.Signal()
		}
	}
}

func (s *syncer) run() {
	for {
		p, how, bytes := s.next()
		if p == nil {
			return
		}
		p.syncOnce()
		s.done(p, how, bytes)
	}
}

// total is the unsynced bytes of all partitions.
func (s *syncer) total() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsynced
}

// close ends the workers once they have synced what is queued.
func (s *syncer) close() {
	s.mu.Lock()
	s.closed = true
	s.hurry()
	close(s.room)
	s.room = make(chan struct{})
	s.work.Broadcast()
	s.mu.Unlock()
	s.workers.Wait()
	s.timer.Stop()
}

// syncLog makes durable what was appended. How far it is synced is noted now or soon.
func (p *Partition) syncLog() (kafka.Offset, error) {
	if p.owner.marker.delay <= 0 {
		return p.log.Sync()
	}
	synced, owed, err := p.log.SyncBytes()
	if owed {
		p.owner.marker.owe(p)
	}
	return synced, err
}

// syncOnce makes durable what was appended, and shows it.
func (p *Partition) syncOnce() {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	if p.Err() != nil {
		return
	}
	begun := time.Now()
	synced, err := p.log.EndOffset(), error(nil)
	if !plantSyncSkipped {
		synced, err = p.syncLog()
	}
	p.owner.syncTimes.Observe(time.Since(begun))
	if err != nil {
		p.fail(p.storageError("sync the log", fmt.Errorf("%w; when the disk is well again, restart the broker", err)))
		return
	}
	m := &p.marks
	m.mu.Lock()
	m.synced = max(synced, m.synced)
	err = m.move()
	// While an order is under way, its own entry may well publish them.
	gated := len(m.gates) > 0 && !m.frozen
	m.mu.Unlock()
	p.failOn(err)
	if gated {
		p.owner.reconciler.add(p)
	}
	p.saveSnapshotIfDue()
}
