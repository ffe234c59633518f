package meta

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/kafka"
)

const (
	topicsPerWrite   = 60
	concurrentWrites = 8
)

// UpdatePartitions is Update for partition states alone: it may carry any number
// (split over transactions by topic, each atomic), goes on when ordinary writes are refused for lack of
// space, and is what partition calls its stream.
//
// decide is called by one goroutine at a time, with a copy that it may change
// and return; nil leaves the topic as it is. A topic without states, as it was deleted, is
// kafka.UnknownTopicID. After an error some topics may have been written and others not.
func (m *Meta) UpdatePartitions(ctx context.Context, topics []kafka.TopicID, decide func(*Partitions) (*Partitions, error)) error {
	todo := slices.Clone(topics)
	slices.SortFunc(todo, func(a, b kafka.TopicID) int { return slices.Compare(a[:], b[:]) })
	todo = slices.Compact(todo)
	lane := lane{m: m}
	defer lane.leave()
	for attempt := range maxAttempts {
		if err := lane.enter(ctx, attempt); err != nil {
			return err
		}
		img := m.Image()
		writes, err := m.planPartitions(img, todo, decide)
		if err != nil {
			return err
		}
		if todo, err = m.commitAll(ctx, img, writes); err != nil || len(todo) == 0 {
			return err
		}
	}
	return fmt.Errorf("change partition states of %d topics: gave up after %d attempts: %w", len(todo), maxAttempts, ErrConflict)
}

// partitionsWrite is one transaction over the states of some topics.
type partitionsWrite struct {
	write
	topics []kafka.TopicID
}

func (m *Meta) planPartitions(img *Image, topics []kafka.TopicID,
	decide func(*Partitions) (*Partitions, error)) ([]*partitionsWrite, error) {
	var all []*partitionsWrite
	for _, id := range topics {
		now := img.Partitions[id]
		if now == nil {
			return nil, fmt.Errorf("change partition states: topic %s has none: %w",
				id, kafka.Errorf(kafka.UnknownTopicID, "Topic id %s is unknown.", id))
		}
		next, err := decide(now.clone())
		if err != nil {
			return nil, err
		}
		if next == nil {
			continue
		}
		if next.Topic != id {
			return nil, fmt.Errorf("change partition states: BUG: asked for topic %s, got %s", id, next.Topic)
		}
		k := idKey(kindPartitions, id)
		value, err := m.encode(k, next)
		if err != nil {
			return nil, err
		}
		if n := len(all); n == 0 || len(all[n-1].topics) == topicsPerWrite || all[n-1].size+len(value) > txnBytes {
			all = append(all, &partitionsWrite{write: write{ops: map[recordKey]op{}}})
		}
		w := all[len(all)-1]
		w.put(k, op{rev: img.rev(k), value: value})
		w.topics = append(w.topics, id)
	}
	return all, nil
}

// commitAll makes the writes, several at a time, and returns the topics of those that must be decided again.
func (m *Meta) commitAll(ctx context.Context, img *Image, writes []*partitionsWrite) ([]kafka.TopicID, error) {
	var g errgroup.Group
	g.SetLimit(concurrentWrites)
	revs := make([]int64, len(writes))
	failed := make([]error, len(writes))
	for i, w := range writes {
		g.Go(func() error {
			revs[i], failed[i] = m.commit(ctx, &w.write)
			if failed[i] != nil && isUnsure(failed[i]) && ctx.Err() == nil {
				revs[i], failed[i] = m.settle(ctx, &w.write, failed[i])
			}
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	var again []kafka.TopicID
	var errs []error
	for i, err := range failed {
		switch {
		case errors.Is(err, ErrConflict):
			again = append(again, writes[i].topics...)
		case err != nil:
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return again, m.waitRevision(ctx, slices.Max(append(revs, 0)))
}

// settle finds out what became of a write whose answer was lost. If it was not
// made it counts as a conflict, so that it is decided again.
func (m *Meta) settle(ctx context.Context, w *write, cause error) (int64, error) {
	for attempt := range maxAttempts {
		if err := m.pause(ctx, attempt); err != nil {
			return 0, errors.Join(cause, err)
		}
		rev, err := m.landed(ctx, w)
		if err == nil && rev > 0 {
			return rev, nil
		}
		if err == nil {
			return 0, fmt.Errorf("%w: %w", ErrConflict, cause)
		}
	}
	return 0, cause
}

// clone copies all that a decision may change.
func (p *Partitions) clone() *Partitions {
	c := *p
	c.List = slices.Clone(p.List)
	for i := range c.List {
		e := &c.List[i]
		if e.Stop != nil {
			stop := *e.Stop
			stop.LastBatches = slices.Clone(stop.LastBatches)
			e.Stop = &stop
		}
		if e.Frozen != nil {
			frozen := *e.Frozen
			e.Frozen = &frozen
		}
		e.Cuts = slices.Clone(e.Cuts)
		for j := range e.Cuts {
			e.Cuts[j].Dead = slices.Clone(e.Cuts[j].Dead)
		}
		if e.Cutting != nil {
			cutting := *e.Cutting
			e.Cutting = &cutting
		}
		if e.Left != nil {
			left := *e.Left
			e.Left = &left
		}
		e.Jumps = slices.Clone(e.Jumps)
		e.Lineage = slices.Clone(e.Lineage)
	}
	return &c
}
