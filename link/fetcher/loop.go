package fetcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// renewAge is how often a session is asked for everything again, so that a change of log start that
	// never reached us, or that the source does not report, is found (case C02).
	renewAge = time.Minute
	// hangTime is how long beyond its long poll an answer may take when its partitions have another leader.
	hangTime = 2 * time.Second
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
	before  atomic.Int64  // and of the one before it
	waiting atomic.Pointer[waiting]
	frame   frame

	inbox []*part // new partitions; guarded by Pool.mu

	// used by run alone
	parts    []*part // by source topic and partition
	session  Session
	serial   int64
	renewed  time.Time
	probed   bool      // the connection has shown how fast it is
	failures int       // connections in a row that failed
	flying   *exchange // asked already, while the one before is appended
	memory   []*Memory // for answers to come; two at most, as many exchanges as there are at once
}

func newLoop(p *Pool, at slot) *loop {
	return &loop{pool: p, at: at, wake: make(chan struct{}, 1)}
}

func (l *loop) run() {
	defer l.end()
	for l.pool.ctx.Err() == nil {
		l.receive()
		x := l.flying
		l.flying = nil
		if x != nil {
			<-x.done
		} else {
			if len(l.parts) == 0 {
				if l.linger(); l.retire() {
					return
				}
				continue
			}
			if x = l.open(); x == nil {
				continue
			}
			x.memory = l.lend()
			l.ask(x)
		}
		if x.err != nil {
			if x.elapsed > frameTime+l.pool.cfg.Load().MaxWait {
				l.frame.lost()
			}
			l.failed(x.err)
			continue
		}
		l.took(x)
		l.launch(x)
		l.hand(x)
	}
}

// end closes the connection, so that a fetch that is under way returns, and waits for that.
func (l *loop) end() {
	l.hangUp()
	if l.flying != nil {
		<-l.flying.done
	}
}

// open builds the next exchange on an open connection; nil if there is nothing to ask or nobody to ask it.
func (l *loop) open() *exchange {
	x := l.build(time.Now())
	if len(x.wants) == 0 {
		l.sleep(x.wait)
		return nil
	}
	if l.session == nil {
		if err := l.connect(); err != nil {
			l.failed(err)
			return nil
		}
		if x = l.build(time.Now()); len(x.wants) == 0 { // now with the splice checks of a new connection
			return nil
		}
	}
	return x
}

// waiting is a fetch under way.
type waiting struct {
	since  time.Time
	cancel context.CancelFunc
}

// release ends a fetch that its broker has not answered for long. It is called when partitions have another
// leader: a broker that hangs, or that the network has lost, would hold them until the request times out.
func (l *loop) release() {
	if w := l.waiting.Load(); w != nil && time.Since(w.since) > l.pool.cfg.Load().MaxWait+hangTime {
		w.cancel()
	}
}

// receive takes new partitions over.
func (l *loop) receive() {
	l.parts = slices.DeleteFunc(l.parts, func(q *part) bool { return q.off.Load() })
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
			q.turn++
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

// connect opens a session. A new connection means that every splice must be checked.
func (l *loop) connect() error {
	session, err := l.pool.src.Session(l.pool.ctx, l.at.broker)
	if err != nil {
		return fmt.Errorf("connect to source broker %d: %w", l.at.broker, err)
	}
	l.session, l.serial, l.renewed, l.probed = session, serials.Add(1), time.Now(), false
	return nil
}

func (l *loop) hangUp() {
	if l.session != nil {
		l.session.Close()
		l.session = nil
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
