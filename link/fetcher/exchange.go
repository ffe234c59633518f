package fetcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
)

const (
	// aheadLeast is the smallest answer, in bytes, beside whose append the next fetch is sent.
	aheadLeast = 1 << 20
	// probeSize is how much is asked for at first over a distance, in bytes: a slow connection shows itself soon.
	probeSize = 1 << 20
)

// exchange is one fetch and its answer.
type exchange struct {
	wants []Want
	index map[kafka.TopicPartition]entry
	wait  time.Duration // until a partition that was left out may be asked for; 0 for none
	limit int           // bytes

	session Session       // that it is asked over; the loop may have closed it meanwhile, and forgotten it
	done    chan struct{} // closed when answered, where it was sent ahead
	answers []Fetched
	err     error
	elapsed time.Duration
	memory  *Memory // of answers; another exchange has it once they are handed on
}

// entry is a partition in an exchange, as it was when that was built.
type entry struct {
	q     *part
	asked asked
	turn  int
	at    int // in wants
}

// position is where a partition's next fetch begins if the append under way succeeds.
type position struct {
	offset kafka.Offset
	epoch  kafka.LeaderEpoch
}

// build says what may be fetched now.
func (l *loop) build(now time.Time) *exchange {
	cfg := l.pool.cfg.Load()
	l.size(cfg)
	x := &exchange{
		limit: l.frame.size, session: l.session,
		index: make(map[kafka.TopicPartition]entry, len(l.parts)), wants: make([]Want, 0, len(l.parts)),
	}
	if !l.probed && l.session != nil && l.session.RoundTrip() >= stripesDelay {
		x.limit = min(x.limit, probeSize)
	}
	later := func(wait time.Duration) {
		if x.wait == 0 || wait < x.wait {
			x.wait = wait
		}
	}
	var leaving []*part
	for _, q := range l.parts {
		if q.off.Load() {
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
			later(wait)
			continue
		}
		other, taken := x.index[q.Source]
		if taken {
			later(time.Millisecond) // two mirrors of one source partition take turns: a session holds it once
			if other.q.served <= q.served {
				continue
			}
		}
		want, ok := q.want(l, cfg)
		if !ok {
			continue
		}
		e := entry{q: q, asked: q.asked, turn: q.turn, at: len(x.wants)}
		if taken {
			e.at = other.at
			x.wants[e.at] = want
		} else {
			x.wants = append(x.wants, want)
		}
		x.index[q.Source] = e
	}
	for _, q := range leaving {
		l.remove(q)
		l.pool.place(q)
	}
	return x
}

// ask sends an exchange and waits for its answer.
func (l *loop) ask(x *exchange) {
	if x.err = l.pool.pace.wait(l.pool.ctx, l.pool.rateMax); x.err != nil {
		return
	}
	cfg := l.pool.cfg.Load()
	ask := Ask{MaxWait: cfg.MaxWait, MinBytes: cfg.MinBytes, MaxBytes: l.pool.paced(x.limit), Memory: x.memory}
	if x.wait > 0 {
		ask.MaxWait = min(ask.MaxWait, x.wait)
	}
	if time.Since(l.renewed) > renewAge {
		l.renewed = time.Now()
		_, x.err = x.session.Fetch(l.pool.ctx, nil, ask)
	}
	begun := time.Now()
	if x.err == nil {
		ctx, cancel := context.WithCancel(l.pool.ctx)
		l.waiting.Store(&waiting{since: begun, cancel: cancel})
		x.answers, x.err = x.session.Fetch(ctx, x.wants, ask)
		l.waiting.Store(nil)
		cancel()
		l.pool.pace.paid(cfg.RateMax, x.answers)
	}
	if x.elapsed = time.Since(begun); x.err != nil {
		x.err = fmt.Errorf("fetch from source broker %d: %w", l.at.broker, x.err)
	}
}

// took learns from an answer as a whole.
func (l *loop) took(x *exchange) {
	l.before.Store(l.contact.Swap(time.Now().UnixNano()))
	if l.failures > 0 {
		l.failures = 0
		l.healed()
	}
	bytes := l.frame.note(x.answers, x.elapsed, l.session.RoundTrip())
	if bytes > 0 {
		l.pool.times.Observe(x.elapsed)
	}
	l.probed = l.probed || bytes >= probeSize/2
	slices.SortFunc(x.answers, func(a, b Fetched) int { return cmp.Compare(len(a.Batches), len(b.Batches)) })
}

// launch sends the next fetch before the answer is appended, so that network and disk work at the same
// time. The positions are those the appends lead to; where one does not, what was fetched there is dropped,
// for an append names its position and is refused anywhere else (rule D3). An answer with anything but good
// data in it is dealt with first.
func (l *loop) launch(x *exchange) {
	bytes := 0
	for i := range x.answers {
		bytes += len(x.answers[i].Batches)
	}
	if bytes < aheadLeast || l.slowFor(bytes, x.elapsed) {
		return
	}
	defer func() {
		for _, e := range x.index {
			e.q.ahead = nil
		}
	}()
	for i := range x.answers {
		f := &x.answers[i]
		e := x.index[f.TopicPartition]
		if f.Err != nil || f.Diverging || e.asked.splice || f.HighWatermark < f.Offset {
			return
		}
		if len(f.Batches) == 0 {
			continue
		}
		c := f.cut()
		if c.err != nil || c.last == nil || c.last.NextOffset() <= f.Offset {
			return
		}
		e.q.ahead = &position{offset: c.last.NextOffset(), epoch: c.last.LeaderEpoch()}
	}
	next := l.build(time.Now())
	if len(next.wants) == 0 {
		return
	}
	next.memory, next.done = l.lend(), make(chan struct{})
	l.flying = next
	l.pool.wg.Go(func() {
		defer close(next.done)
		l.ask(next)
	})
}

// slowFor reports whether the connection carries so little for its distance that stripes may be better.
func (l *loop) slowFor(bytes int, elapsed time.Duration) bool {
	roundTrip := l.session.RoundTrip()
	return roundTrip >= stripesDelay && rateOf(bytes, elapsed, roundTrip)*roundTrip.Seconds() <= stripesWindow
}

// rateOf is the bytes a second of an answer.
func rateOf(bytes int, elapsed, roundTrip time.Duration) float64 {
	return float64(bytes) / max(elapsed-roundTrip, time.Millisecond).Seconds()
}

// hand gives the answers to their partitions, the small ones first: they wait for no large one's disk.
func (l *loop) hand(x *exchange) {
	bytes := 0
	for i := range x.answers {
		bytes += len(x.answers[i].Batches)
	}
	for i := range x.answers {
		f := &x.answers[i]
		if e, ok := x.index[f.TopicPartition]; ok && l.current(e) {
			e.q.asked = e.asked
			e.q.served++
			l.give(e.q, f)
			l.widen(e.q, f, bytes, x.elapsed)
		}
		f.Batches, f.walked = nil, nil
	}
	l.regain(x, bytes)
}

// current reports whether an answer is still for the partition as it is: the loop has it, it does not wait, and the
// append that its position counts on has succeeded.
func (l *loop) current(e entry) bool {
	if e.q.line.Load() != l || e.q.turn != e.turn || time.Now().Before(e.q.notBefore) {
		return false
	}
	return e.asked.splice || !e.asked.ahead || e.q.Target.Offsets().LogEnd == e.asked.offset
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
	if q.line.Load() != l || q.splice.Load() || time.Now().Before(q.noStripes) || !l.slowFor(bytes, elapsed) {
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
