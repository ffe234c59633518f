package partition

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// storeTimeout bounds one write of entries.
const storeTimeout = 15 * time.Second

// change is one partition's entry to be stored.
type change struct {
	p *Partition
	// mutate makes the new entry from the stored one; it may be called several times, and must not
	// change what the old one points to.
	mutate func(now meta.Partition) (meta.Partition, error)
	err    error // set when store returns
	unsure bool  // with err: the entry may have been stored all the same
}

// storer writes entries to the stream. While one write is under way, all that come gather for
// the next, so that ten thousand partitions need few transactions. Entries are installed in the
// order in which they were stored.
type storer struct {
	stream Stream

	mu    sync.Mutex // guards what follows
	queue []*storeJob
	busy  bool
}

type storeJob struct {
	changes []*change
	done    chan struct{}
}

// store writes all changes and sets their err. It does not give up when the caller does: an
// order whose entry may or may not be stored leaves its partition shut.
func (s *storer) store(changes []*change) {
	job := &storeJob{changes: changes, done: make(chan struct{})}
	s.mu.Lock()
	s.queue = append(s.queue, job)
	if !s.busy {
		s.busy = true
		go s.drain()
	}
	s.mu.Unlock()
	<-job.done
}

func (s *storer) drain() {
	for {
		s.mu.Lock()
		jobs := s.queue
		s.queue = nil
		s.busy = len(jobs) > 0
		s.mu.Unlock()
		if len(jobs) == 0 {
			return
		}
		byTopic := map[kafka.TopicID][]*change{}
		for _, job := range jobs {
			for _, c := range job.changes {
				byTopic[c.p.id.Topic] = append(byTopic[c.p.id.Topic], c)
			}
		}
		topics := make([]kafka.TopicID, 0, len(byTopic))
		for topic := range byTopic {
			topics = append(topics, topic)
		}
		s.write(topics, byTopic)
		for _, job := range jobs {
			close(job.done)
		}
	}
}

// write stores the topics' changes in one call. One topic that is gone must not
// fail the others: then it halves the list.
func (s *storer) write(topics []kafka.TopicID, byTopic map[kafka.TopicID][]*change) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	entries := map[*change]meta.Partition{}
	err := s.stream.UpdatePartitions(ctx, topics, func(now *meta.Partitions) (*meta.Partitions, error) {
		return decide(now, byTopic[now.Topic], entries)
	})
	if err != nil && len(topics) > 1 && kafka.CodeOf(err) == kafka.UnknownTopicID {
		half := len(topics) / 2
		s.write(topics[:half], byTopic)
		s.write(topics[half:], byTopic)
		return
	}
	for _, topic := range topics {
		for _, c := range byTopic[topic] {
			if err != nil {
				c.err = fmt.Errorf("store the state of partition %s: %w", c.p.name, err)
				c.unsure = kafka.CodeOf(err) != kafka.UnknownTopicID
				continue
			}
			if entry, ok := entries[c]; ok {
				c.p.install(entry)
			}
		}
	}
}

// decide applies the changes of one topic, several of one partition in their order.
func decide(now *meta.Partitions, changes []*change, entries map[*change]meta.Partition) (*meta.Partitions, error) {
	next := &meta.Partitions{Topic: now.Topic, List: append([]meta.Partition(nil), now.List...), CopyOf: now.CopyOf}
	changed := false
	for _, c := range changes {
		n := int(c.p.id.Partition)
		if n >= len(next.List) {
			c.err = kafka.Errorf(kafka.UnknownTopicOrPartition, "Partition %s has no stored state.", c.p.name)
			continue
		}
		var entry meta.Partition
		if entry, c.err = c.mutate(next.List[n]); c.err == nil {
			next.List[n] = entry
			changed = true
		}
		// Also where mutate refused: the stored entry is then newer than the one we knew.
		entries[c] = next.List[n]
	}
	if !changed {
		return nil, nil
	}
	return next, nil
}

// reconciler looks after partitions whose entry and log do not fit yet: an epoch in the log is
// above the published one, or a write of an order had an unknown outcome. It tries again until they do.
type reconciler struct {
	owner *Owner

	mu     sync.Mutex // guards what follows
	todo   map[*Partition]struct{}
	wake   chan struct{} // has room for one
	closed chan struct{}
	done   chan struct{}
}

const (
	reconcileBackoff    = 50 * time.Millisecond
	reconcileBackoffMax = 5 * time.Second
)

func newReconciler(o *Owner) *reconciler {
	r := &reconciler{owner: o, todo: map[*Partition]struct{}{},
		wake: make(chan struct{}, 1), closed: make(chan struct{}), done: make(chan struct{})}
	go r.run()
	return r
}

func (r *reconciler) add(p *Partition) {
	r.mu.Lock()
	r.todo[p] = struct{}{}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reconciler) close() {
	close(r.closed)
	<-r.done
}

func (r *reconciler) take() []*Partition {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*Partition, 0, len(r.todo))
	for p := range r.todo {
		list = append(list, p)
	}
	clear(r.todo)
	return list
}

func (r *reconciler) run() {
	defer close(r.done)
	backoff := reconcileBackoff
	for {
		select {
		case <-r.wake:
		case <-r.closed:
			return
		}
		left := r.owner.reconcile(r.take())
		if len(left) == 0 {
			backoff = reconcileBackoff
			continue
		}
		timer := time.NewTimer(backoff)
		select {
		case <-timer.C:
		case <-r.closed:
			timer.Stop()
			return
		}
		backoff = min(2*backoff, reconcileBackoffMax)
		for _, p := range left {
			r.add(p)
		}
	}
}

// reconcile publishes epochs and finishes orders; it returns the partitions that must be tried again.
func (o *Owner) reconcile(list []*Partition) (left []*Partition) {
	var raises []*change
	for _, p := range list {
		if p.Err() != nil {
			continue
		}
		if c := p.raise(); c != nil {
			raises = append(raises, c)
		}
		if !p.finishUnsettled() {
			left = append(left, p)
		}
	}
	if len(raises) == 0 {
		return left
	}
	if plantEpochNotRaised {
		for _, c := range raises {
			entry, _ := c.mutate(c.p.Entry())
			c.p.install(entry)
		}
		return left
	}
	o.storer.store(raises)
	for _, c := range raises {
		switch {
		case c.err == nil || kafka.CodeOf(c.err) == kafka.UnknownTopicID:
		default:
			o.cfg.Logger.Warn("a leader epoch could not be published; records behind it stay hidden until it is",
				"topic", c.p.name.Topic, "partition", c.p.name.Partition, "error", c.err)
			left = append(left, c.p)
		}
	}
	return left
}

// raise is the change that publishes the epochs waiting at gates, nil if none do.
func (p *Partition) raise() *change {
	p.marks.mu.RLock()
	defer p.marks.mu.RUnlock()
	if len(p.marks.gates) == 0 {
		return nil
	}
	epoch := p.marks.gates[len(p.marks.gates)-1].Epoch
	return &change{p: p, mutate: func(now meta.Partition) (meta.Partition, error) {
		now.Epoch = max(now.Epoch, epoch)
		return now, nil
	}}
}
