package fetcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
)

const (
	checksAtOnce = 16               // questions about last stable offsets at the same time, for one topic
	checkIdle    = 30 * time.Second // how long an unused connection for checks is kept
)

// CaughtUp asks the source at the mirror's end, under its present epoch, and reports
// whether it has nothing more and the mirror's synced end equals its high watermark and last stable offset: promote's
// check (rules X2, P5). The text says what is missing. An error is of asking, not of lagging. What is
// written to the source after the answer is not covered.
func (p *Pool) CaughtUp(ctx context.Context, mirrorTopic string) (bool, string, error) {
	var parts []*part
	p.mu.Lock()
	for mirror, q := range p.parts {
		if mirror.Topic == mirrorTopic {
			parts = append(parts, q)
		}
	}
	p.mu.Unlock()
	if len(parts) == 0 {
		return false, "no partition of " + mirrorTopic + " is being fetched", nil
	}
	slices.SortFunc(parts, func(a, b *part) int { return int(a.Source.Partition - b.Source.Partition) })
	source := parts[0].Source.Topic
	leaders, err := p.src.Leaders(ctx, source, true)
	if err != nil {
		return false, "", fmt.Errorf("find the leaders of source topic '%s': %w", source, err)
	}
	if len(leaders.List) != len(parts) {
		return false, fmt.Sprintf("the source topic has %d partitions, the mirror %d", len(leaders.List), len(parts)), nil
	}
	byBroker := make(map[int32][]*part)
	for _, q := range parts {
		if id := q.SourceID; !id.IsZero() && !leaders.TopicID.IsZero() && id != leaders.TopicID {
			return false, fmt.Sprintf("the source topic was made anew: its id is %s, not %s", leaders.TopicID, id), nil
		}
		leader := leaders.List[q.Source.Partition]
		if leader.Broker < 0 {
			return false, fmt.Sprintf("partition %d has no leader at the source", q.Source.Partition), nil
		}
		byBroker[leader.Broker] = append(byBroker[leader.Broker], q)
	}
	for broker, some := range byBroker {
		if text, err := p.behind(ctx, broker, some, leaders); text != "" || err != nil {
			return false, text, err
		}
	}
	return true, "", nil
}

// behind asks one broker about its partitions, and says which one is behind, if any.
func (p *Pool) behind(ctx context.Context, broker int32, parts []*part, leaders Leaders) (string, error) {
	wants := make([]Want, len(parts))
	waiting := make(map[kafka.TopicPartition]*part, len(parts))
	for i, q := range parts {
		o := q.Target.Offsets()
		if o.HighWatermark != o.LogEnd {
			return fmt.Sprintf("%s is synced up to %d of %d", q.Mirror, o.HighWatermark, o.LogEnd), nil
		}
		wants[i] = Want{
			TopicPartition: q.Source, TopicID: leaders.TopicID, Offset: o.LogEnd,
			LastEpoch: kafka.NoEpoch, CurrentEpoch: leaders.List[q.Source.Partition].Epoch, MaxBytes: 1,
		}
		waiting[q.Source] = q
	}
	answers, err := p.checks.fetch(ctx, p.src, broker, wants)
	if err != nil {
		return "", fmt.Errorf("ask source broker %d for its ends: %w", broker, err)
	}
	for i := range answers {
		f := &answers[i]
		q := waiting[f.TopicPartition]
		if q == nil {
			continue
		}
		delete(waiting, f.TopicPartition)
		switch {
		case f.Err != nil:
			return fmt.Sprintf("%s: %v", q.Source, f.Err), nil //nolint:nilerr // the fault is the answer: why the mirror is not level
		case len(f.Batches) > 0 || f.HighWatermark != f.Offset:
			return fmt.Sprintf("%s ends at %d, the mirror at %d", q.Source, f.HighWatermark, f.Offset), nil
		}
	}
	for tp := range waiting {
		return fmt.Sprintf("source broker %d left %s out of its answer", broker, tp), nil
	}
	for _, q := range parts {
		if text := q.uncompared(); text != "" {
			return text, nil
		}
	}
	return p.undecided(ctx, wants)
}

// uncompared says why it is not known that the mirror has the source's own records below its end, if so: a source that lost some and took
// others may end where it ended (rule E6).
func (q *part) uncompared() string {
	q.mu.Lock()
	fault, err := q.status.Fault, q.status.Err
	q.mu.Unlock()
	switch {
	case fault != NoFault:
		return fmt.Sprintf("%s is not mirrored now: %v", q.Mirror, err)
	case q.line.Load() == nil || q.splice.Load():
		return fmt.Sprintf("%s is still being compared with its source", q.Mirror)
	}
	return ""
}

// undecided says which source partition has open transactions below its end, if any (rule P5).
func (p *Pool) undecided(ctx context.Context, wants []Want) (string, error) {
	texts, failures := make([]string, len(wants)), make([]error, len(wants))
	slots := make(chan struct{}, checksAtOnce)
	var wg sync.WaitGroup
	for i, w := range wants {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			stable, err := p.src.LastStable(ctx, w.TopicPartition)
			switch {
			case err != nil:
				failures[i] = fmt.Errorf("ask for the last stable offset of source partition %s: %w", w.TopicPartition, err)
			case stable < w.Offset:
				texts[i] = fmt.Sprintf("%s has an open transaction from offset %d", w.TopicPartition, stable)
			case stable > w.Offset:
				texts[i] = fmt.Sprintf("%s has grown to %d, the mirror ends at %d", w.TopicPartition, stable, w.Offset)
			}
		})
	}
	wg.Wait()
	return cmp.Or(texts...), cmp.Or(failures...)
}

// checks are the sessions that CaughtUp asks over, kept for a while: a thousand topics that are promoted
// together are asked about one after another, again and again.
type checks struct {
	mu   sync.Mutex // guards list and done
	list map[int32]*check
	done bool
}

// check is one broker's.
type check struct {
	mu      sync.Mutex // held while session is used
	session Session
	used    time.Time // guarded by checks.mu
}

// ended reports whether the pool is closed. A check that is locked after that opens nothing.
func (c *checks) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// fetch asks a broker for all of wants at once.
func (c *checks) fetch(ctx context.Context, src Source, broker int32, wants []Want) ([]Fetched, error) {
	c.mu.Lock()
	if c.done {
		c.mu.Unlock()
		return nil, context.Canceled
	}
	if c.list == nil {
		c.list = make(map[int32]*check)
	}
	one := c.list[broker]
	if one == nil {
		one = new(check)
		c.list[broker] = one
	}
	one.used = time.Now() // tidy leaves it alone from here on
	c.mu.Unlock()

	one.mu.Lock()
	defer one.mu.Unlock()
	if c.ended() {
		return nil, context.Canceled
	}
	for kept := one.session != nil; ; kept = false {
		if one.session == nil {
			session, err := src.Session(ctx, broker)
			if err != nil {
				return nil, err
			}
			one.session = session
		}
		_, err := one.session.Fetch(ctx, nil, Ask{MaxBytes: 1})
		var answers []Fetched
		if err == nil {
			answers, err = one.session.Fetch(ctx, wants, Ask{MaxBytes: 1})
		}
		if err == nil {
			return answers, nil
		}
		one.session.Close()
		one.session = nil
		if !kept || ctx.Err() != nil {
			return nil, err
		}
		// The broker may have closed a connection that was idle: once more on a new one.
	}
}

// tidy closes sessions not used since.
func (c *checks) tidy(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for broker, one := range c.list {
		if !one.mu.TryLock() {
			continue
		}
		if one.used.Before(since) {
			if one.session != nil {
				one.session.Close()
			}
			one.session = nil
			delete(c.list, broker)
		}
		one.mu.Unlock()
	}
}

// close closes all, those in use once they are free.
func (c *checks) close() {
	c.mu.Lock()
	c.done = true
	list := c.list
	c.list = nil
	c.mu.Unlock()
	for _, one := range list {
		one.mu.Lock()
		if one.session != nil {
			one.session.Close()
		}
		one.session = nil
		one.mu.Unlock()
	}
}
