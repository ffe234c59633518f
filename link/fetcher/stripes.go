package fetcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// A connection over a long distance carries one window a round trip, and a stock Kafka's
// send buffer makes that window 100 KiB, whatever the line could do. So a partition that is far behind is
// read over several connections at once, each a stretch of its own. Where a stretch but the first begins
// is a guess; what is appended is not: answers under one leader epoch show one log, each shows consecutive
// batches from the first that ends after the offset asked for, and so the batches of a stretch that begins
// at or below the mirror's end follow it without a gap. Anything that does not fit ends the attempt.
const (
	stripesFirst = 4
	stripesMost  = 16
	stripesAll   = 48 // connections over all partitions of a pool
	// stripesDelay is the shortest round trip for which stripes are tried.
	stripesDelay = 10 * time.Millisecond
	// stripesWindow is how much a connection carries a round trip at most for stripes to be tried, in bytes.
	stripesWindow = 4 << 20
	stretchLeast  = 128 << 10
	stretchMost   = 4 << 20
	// stretchHeld is how many times its size a stretch holds at most: where its offsets are is a guess, and what was compacted away
	// before them may have made that one too large by any factor.
	stretchHeld = 2
	// stripesGain is how much faster twice the connections must be for more to be tried.
	stripesGain  = 1.3
	stripesLearn = 2 * time.Second // how long a number of connections is measured
)

// stripes reads one partition over several connections. run owns the part while it lasts.
type stripes struct {
	pool    *Pool
	q       *part
	ctx     context.Context
	cancel  context.CancelCauseFunc
	work    chan *stretch
	readers int
	wg      sync.WaitGroup

	leader  Leader
	topic   kafka.TopicID
	density float64 // bytes an offset takes
	size    int     // bytes of a stretch
	held    int64   // bytes taken from Pool.spare

	high    kafka.Offset // the source's high watermark as last heard
	planned kafka.Offset // where the next stretch begins
	queue   []*stretch

	rate     float64 // bytes a second before the last change of readers
	since    time.Time
	appended int64
	settled  bool // more connections brought nothing
}

// stretch is one reader's part of the log.
type stretch struct {
	from, until kafka.Offset // asked at from; read until a batch ends at or after until, or it holds enough
	answers     []Fetched    // consecutive, cut to whole batches
	err         error
	done        chan struct{}
}

// worthStripes reports whether a partition had most of an answer and has enough behind it to make up for
// the effort, and how fast, in bytes a second, the answer came.
func (l *loop) worthStripes(q *part, f *Fetched, bytes int, elapsed time.Duration) (rate float64, ok bool) {
	if len(f.Batches) < stretchLeast || len(f.Batches) < bytes/2 || !q.last.known {
		return 0, false
	}
	rate = rateOf(bytes, elapsed, l.session.RoundTrip())
	behind := float64(f.HighWatermark-q.last.end) * density(f)
	return rate, behind > rate*4 && behind > 8*stretchLeast
}

// density is the bytes an offset takes in an answer.
func density(f *Fetched) float64 {
	c := cutWhole(f.Batches, f.HighWatermark)
	if c.last == nil || c.last.NextOffset() <= f.Offset {
		return 0
	}
	return float64(len(c.whole)) / float64(c.last.NextOffset()-f.Offset)
}

// newStripes prepares to read a partition over several connections; nil where there is no room for that.
func (p *Pool) newStripes(q *part, f *Fetched, rate float64) *stripes {
	s := &stripes{
		pool: p, q: q, work: make(chan *stretch, 2*stripesMost+2), leader: *q.leader.Load(), topic: q.topicID,
		density: density(f), size: int(min(max(rate, stretchLeast), stretchMost)),
		high: f.HighWatermark, planned: q.last.end, rate: rate, since: time.Now(),
	}
	if s.density <= 0 || !s.reserve(stripesFirst) {
		return nil
	}
	s.ctx, s.cancel = context.WithCancelCause(q.ctx)
	return s
}

// reserve takes connections and memory for n more readers: each has a stretch under way, and another waits to be appended.
func (s *stripes) reserve(n int) bool {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	need := int64(n) * int64(s.size) * 3
	if p.spare < need || p.striped+n > stripesAll || p.closed {
		return false
	}
	p.spare -= need
	p.striped += n
	s.held += need
	s.readers += n
	return true
}

func (s *stripes) release() {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spare += s.held
	p.striped -= s.readers
}

// run appends stretch after stretch until little is left, then gives the partition back.
func (s *stripes) run() {
	for range s.readers {
		s.wg.Go(s.read)
	}
	err := s.loop()
	s.cancel(err)
	s.wg.Wait()
	s.release()
	q := s.q
	if q.ctx.Err() != nil {
		return
	}
	if err != nil {
		q.noStripes = time.Now().Add(stuckWait)
		q.splice.Store(true)
	}
	s.pool.lose(q)
}

func (s *stripes) loop() error {
	for {
		s.plan()
		if len(s.queue) == 0 {
			return nil
		}
		next := s.queue[0]
		s.queue = s.queue[1:]
		if err := s.await(next); err != nil {
			return err
		}
		if next.err != nil {
			return next.err
		}
		if err := s.append(next); err != nil {
			return err
		}
		s.learn()
	}
}

// await waits for a stretch, as long as the leader is the one that is asked.
func (s *stripes) await(next *stretch) error {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		if s.q.hint.Load() != nil {
			return fmt.Errorf("the leader of source partition %s moved", s.q.Source)
		}
		select {
		case <-next.done:
			return nil
		case <-look.C:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// plan hands out stretches as far as the source's high watermark, one more than there are readers.
func (s *stripes) plan() {
	offsets := max(1, kafka.Offset(float64(s.size)/s.density))
	for len(s.queue) <= s.readers && s.planned+offsets < s.high {
		next := &stretch{from: s.planned, until: s.planned + offsets, done: make(chan struct{})}
		select {
		case s.work <- next:
		default:
			return
		}
		s.queue = append(s.queue, next)
		s.planned = next.until
	}
}

// append stores a stretch behind the mirror's end.
func (s *stripes) append(next *stretch) error {
	q := s.q
	o := q.Target.Offsets()
	if next.from > o.LogEnd {
		return fmt.Errorf("source partition %s has a hole below offset %d", q.Source, next.from)
	}
	offsets, bytes := kafka.Offset(0), 0
	for i := range next.answers {
		f := &next.answers[i]
		q.heard(f)
		s.high = max(s.high, f.HighWatermark)
		o = q.Target.Offsets()
		q.follow(o, s.pool.cfg.Load())
		fresh := after(f.Batches, o.LogEnd)
		if len(fresh) == 0 {
			continue
		}
		if first := batch.Batch(fresh); first.BaseOffset() < o.LogEnd {
			return fmt.Errorf("source partition %s changed while it was read: a batch begins at %d, the mirror ends at %d", q.Source,
				first.BaseOffset(), o.LogEnd)
		}
		f.Offset, f.Batches = o.LogEnd, fresh
		q.asked = asked{generation: o.Generation, offset: o.LogEnd, epoch: s.leader.Epoch}
		c := cut{whole: fresh, last: lastOf(fresh)}
		if !q.append(f, c) {
			return errors.New("not appended") // the part shows why
		}
		offsets, bytes = offsets+c.last.NextOffset()-o.LogEnd, bytes+len(fresh)
		f.Batches = nil
	}
	if offsets > 0 {
		s.density = s.density*0.7 + float64(bytes)/float64(offsets)*0.3
	}
	s.appended += int64(bytes)
	q.well()
	return nil
}

// after drops the batches that end at or below an offset.
func after(bs batch.Batches, end kafka.Offset) batch.Batches {
	used := 0
	for b, err := range bs.All() {
		if err != nil || b.NextOffset() > end {
			break
		}
		used += len(b)
	}
	return bs[used:]
}

// learn doubles the readers as long as that pays.
func (s *stripes) learn() {
	elapsed := time.Since(s.since)
	if s.settled || elapsed < stripesLearn {
		return
	}
	rate := float64(s.appended) / elapsed.Seconds()
	if rate < s.rate*stripesGain || s.readers*2 > stripesMost || !s.reserve(s.readers) {
		s.settled = true
		return
	}
	for range s.readers / 2 { // reserve has counted them
		s.wg.Go(s.read)
	}
	s.rate, s.appended, s.since = rate, 0, time.Now()
}

// read fills stretches over one connection.
func (s *stripes) read() {
	session, err := s.pool.src.Session(s.ctx, s.leader.Broker)
	if err != nil {
		s.cancel(err)
		return
	}
	defer session.Close()
	for {
		select {
		case next := <-s.work:
			next.err = s.fill(session, next)
			close(next.done)
			if next.err != nil {
				return
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// fill reads a stretch: once, if its bytes were guessed well, and the rest from exactly where that ended. One that
// holds enough is left as it is: the next begins above its end, which ends the attempt.
func (s *stripes) fill(session Session, next *stretch) error {
	at, need, held := next.from, s.size+s.size/16, 0
	for at < next.until && held < stretchHeld*s.size {
		want := Want{TopicPartition: s.q.Source, TopicID: s.topic, Offset: at, LastEpoch: kafka.NoEpoch, CurrentEpoch: s.leader.Epoch,
			MaxBytes: need}
		if err := s.pool.pace.wait(s.ctx, s.pool.rateMax); err != nil {
			return err
		}
		answers, err := session.Fetch(s.ctx, []Want{want}, Ask{MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: need})
		if err != nil {
			return err
		}
		s.pool.pace.paid(s.pool.rateMax(), answers)
		if len(answers) != 1 || answers[0].Err != nil || answers[0].Diverging {
			return fmt.Errorf("source partition %s gives no data at %d", s.q.Source, at)
		}
		f := answers[0]
		c := cutWhole(f.Batches, f.HighWatermark)
		switch {
		case c.err != nil:
			return c.err
		case len(c.whole) > 0:
			f.Batches = c.whole
			next.answers, held = append(next.answers, f), held+len(answers[0].Batches)
			share := float64(next.until-c.last.NextOffset()) / float64(max(1, next.until-next.from))
			at, need = c.last.NextOffset(), max(stretchLeast, int(float64(s.size)*share*1.1))
		case c.need > need && c.need <= stretchMost*4:
			need = c.need
		default:
			return fmt.Errorf("source partition %s has nothing between %d and %d", s.q.Source, at, next.until)
		}
	}
	return nil
}
