package fetcher

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/kafka"
)

const (
	// renewAge is how often a session is asked for everything again, so that a change of log start that
	// never reached us, or that the source does not report, is found (case C02).
	renewAge = time.Minute
	// lingerTime is how long a loop without partitions keeps its connection.
	lingerTime = 10 * time.Second
	// authWait is the longest wait between connections that fail to log in.
	authWait = 5 * time.Second
)

var serials atomic.Int64 // numbers connections over all pools

// loop fetches the partitions that one broker leads and one slot has, over one connection.
type loop struct {
	pool    *Pool
	at      slot
	wake    chan struct{} // room for one
	contact atomic.Int64  // Unix ns of the last answer
	frame   frame

	inbox []*part // new partitions; guarded by Pool.mu

	// used by run alone
	parts    []*part // by source topic and partition
	session  Session
	serial   int64
	renewed  time.Time
	failures int // connections in a row that failed
	wants    []Want
	index    map[kafka.TopicPartition][]*part
}

func newLoop(p *Pool, at slot) *loop {
	return &loop{pool: p, at: at, wake: make(chan struct{}, 1)}
}

func (l *loop) run() {
	defer l.hangUp()
	for l.pool.ctx.Err() == nil {
		if l.receive(); len(l.parts) == 0 {
			if l.linger(); l.retire() {
				return
			}
			continue
		}
		wait := l.build(time.Now())
		if len(l.wants) == 0 {
			l.sleep(wait)
			continue
		}
		if err := l.connect(); err != nil {
			l.failed(err)
			continue
		}
		l.fetch(wait)
	}
}

// receive takes new partitions over.
func (l *loop) receive() {
	l.parts = slices.DeleteFunc(l.parts, func(q *part) bool { return q.gone.Load() || q.ctx.Err() != nil })
	l.pool.mu.Lock()
	fresh := l.inbox
	l.inbox = nil
	l.pool.mu.Unlock()
	if len(fresh) > 0 {
		l.parts = append(l.parts, fresh...)
		slices.SortFunc(l.parts, func(a, b *part) int {
			return cmp.Or(strings.Compare(a.Source.Topic, b.Source.Topic), cmp.Compare(a.Source.Partition, b.Source.Partition))
		})
		for _, q := range fresh {
			q.line.Store(l)
		}
	}
}

// linger keeps a loop without partitions alive for a while: they may only be at a repair or with steer,
// and the connection, or the memory of how often it failed, is worth keeping for them.
func (l *loop) linger() {
	timer := time.NewTimer(lingerTime)
	defer timer.Stop()
	for {
		l.pool.mu.Lock()
		more := len(l.inbox) > 0
		l.pool.mu.Unlock()
		if more {
			return
		}
		select {
		case <-l.wake:
		case <-timer.C:
			return
		case <-l.pool.ctx.Done():
			return
		}
	}
}

// retire takes a loop that has nothing off the pool's list, and gives its memory back.
func (l *loop) retire() bool {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if len(l.inbox) > 0 {
		return false
	}
	delete(l.pool.loops, l.at)
	l.pool.spare += l.frame.held
	l.frame.held = 0
	return true
}

// build fills l.wants with what may be fetched now, and says when the first of the rest may be (0 for none waits).
func (l *loop) build(now time.Time) (next time.Duration) {
	cfg := l.pool.cfg.Load()
	l.size(cfg)
	l.wants = l.wants[:0]
	if l.index == nil {
		l.index = make(map[kafka.TopicPartition][]*part)
	}
	clear(l.index)
	var leaving []*part
	for _, q := range l.parts {
		if q.ctx.Err() != nil {
			continue
		}
		if hint := q.hint.Swap(nil); hint != nil {
			q.take(*hint, q.topicID)
		}
		if at := (slot{broker: q.leader.Load().Broker, n: slotOf(q.Source, cfg.Fetchers)}); at != l.at {
			leaving = append(leaving, q)
			continue
		}
		if wait := q.notBefore.Sub(now); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		// Two mirrors of one source partition take turns: a session holds a partition once.
		if len(l.index[q.Source]) > 0 {
			next = time.Millisecond
			continue
		}
		if want, ok := q.want(l, cfg); ok {
			l.wants = append(l.wants, want)
			l.index[q.Source] = append(l.index[q.Source], q)
		}
	}
	for _, q := range leaving {
		l.remove(q)
		l.pool.place(q)
	}
	return next
}

func (l *loop) remove(q *part) {
	l.parts = slices.DeleteFunc(l.parts, func(other *part) bool { return other == q })
	q.line.Store(nil)
}

func (l *loop) sleep(wait time.Duration) {
	if wait <= 0 {
		wait = l.pool.cfg.Load().MaxWait
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.wake:
	case <-l.pool.ctx.Done():
	}
}

// connect opens the session where there is none. A new connection means that every splice must be checked.
func (l *loop) connect() error {
	if l.session != nil {
		return nil
	}
	session, err := l.pool.src.Session(l.pool.ctx, l.at.broker)
	if err != nil {
		return fmt.Errorf("connect to source broker %d: %w", l.at.broker, err)
	}
	l.session, l.serial, l.renewed = session, serials.Add(1), time.Now()
	l.build(time.Now()) // the wants of a new connection are those of the splice check
	return nil
}

func (l *loop) hangUp() {
	if l.session != nil {
		l.session.Close()
		l.session = nil
	}
}

// fetch asks once and hands the answers to their partitions, the small ones first: they wait for no large one's disk.
func (l *loop) fetch(wait time.Duration) {
	cfg := l.pool.cfg.Load()
	ask := Ask{MaxWait: cfg.MaxWait, MinBytes: cfg.MinBytes, MaxBytes: l.frame.size}
	if wait > 0 {
		ask.MaxWait = min(ask.MaxWait, wait)
	}
	if len(l.wants) == 0 {
		return
	}
	if time.Since(l.renewed) > renewAge {
		l.renewed = time.Now()
		if _, err := l.session.Fetch(l.pool.ctx, nil, ask); err != nil {
			l.failed(err)
			return
		}
	}
	begun := time.Now()
	answers, err := l.session.Fetch(l.pool.ctx, l.wants, ask)
	if err != nil {
		l.failed(fmt.Errorf("fetch from source broker %d: %w", l.at.broker, err))
		return
	}
	now := time.Now()
	l.contact.Store(now.UnixNano())
	if l.failures > 0 {
		l.failures = 0
		l.healed()
	}
	bytes := l.frame.note(answers, now.Sub(begun), l.session.RoundTrip())
	slices.SortFunc(answers, func(a, b Fetched) int { return cmp.Compare(len(a.Batches), len(b.Batches)) })
	for i := range answers {
		for _, q := range l.index[answers[i].TopicPartition] {
			l.give(q, &answers[i])
			l.widen(q, &answers[i], bytes, now.Sub(begun))
		}
		answers[i].Batches = nil
	}
}

// give lets a partition take its answer and does what it asks for.
func (l *loop) give(q *part, f *Fetched) {
	switch q.answer(f) {
	case stay:
	case leave:
		l.remove(q)
		l.pool.lose(q)
	case mend:
		l.remove(q)
		l.pool.startRepair(q)
	}
}

// widen hands a partition that is far behind on a slow long line to stripes.
func (l *loop) widen(q *part, f *Fetched, bytes int, elapsed time.Duration) {
	if q.line.Load() != l || q.splice || time.Now().Before(q.noStripes) {
		return
	}
	rate, ok := l.worthStripes(q, f, bytes, elapsed)
	if !ok {
		return
	}
	if s := l.pool.newStripes(q, f, rate); s != nil {
		l.remove(q)
		l.pool.wg.Go(s.run)
	}
}

// failed closes the connection and waits; the partitions go back to steer, whose metadata may name other leaders.
func (l *loop) failed(err error) {
	l.hangUp()
	if l.pool.ctx.Err() != nil {
		return
	}
	l.failures++
	fault := faultOf(err)
	most := l.pool.cfg.Load().Backoff
	if fault == SourceAuth {
		most = max(most, authWait)
	}
	wait := min(50*time.Millisecond<<min(l.failures, 12), most)
	for _, q := range l.parts {
		if l.failures > 1 || fault == SourceAuth {
			q.show(fault, err)
		}
	}
	l.sleepFull(wait)
	for _, q := range slices.Clone(l.parts) {
		l.remove(q)
		l.pool.lose(q)
	}
}

// sleepFull is sleep that new partitions do not cut short.
func (l *loop) sleepFull(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.pool.ctx.Done():
	}
}

// healed takes the connection's fault off the partitions.
func (l *loop) healed() {
	for _, q := range l.parts {
		q.mu.Lock()
		fault := q.status.Fault
		q.mu.Unlock()
		if fault == SourceUnreachable || fault == SourceAuth {
			q.well()
		}
	}
}
