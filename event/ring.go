package event

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Entry is an event in the timeline.
type Entry struct {
	Seq       int64     `json:"seq"` // from 1, without gaps
	At        time.Time `json:"at"`
	Name      string    `json:"name"`
	Level     string    `json:"level"` // INFO or WARN
	Text      string    `json:"text"`
	Link      string    `json:"link,omitempty"`
	Topic     string    `json:"topic,omitempty"`
	Partition *int32    `json:"partition,omitempty"`
}

// Ring is a sink that keeps the newest events and counts all, for timeline and metrics.
type Ring struct {
	mu     sync.Mutex // guards all below
	kept   []Entry    // Seq s is at (s-1) % cap(kept)
	last   int64
	counts map[string]int64
	more   chan struct{} // closed with the next event
	now    func() time.Time
}

// NewRing makes a ring that keeps n events. now is time.Now where nil.
func NewRing(n int, now func() time.Time) *Ring {
	if now == nil {
		now = time.Now
	}
	return &Ring{kept: make([]Entry, 0, max(n, 1)), counts: map[string]int64{}, more: make(chan struct{}), now: now}
}

// Emit keeps the event, in place of the oldest where the ring is full.
func (r *Ring) Emit(e Event) {
	l := e.Line()
	entry := Entry{At: r.now(), Name: l.Name, Level: l.Level.String(), Text: e.String(), Link: l.Link, Topic: l.Topic}
	if l.Partition >= 0 {
		entry.Partition = &l.Partition
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.counts[l.Name]++
	entry.Seq = r.last
	if len(r.kept) < cap(r.kept) {
		r.kept = append(r.kept, entry)
	} else {
		r.kept[(r.last-1)%int64(cap(r.kept))] = entry
	}
	close(r.more)
	r.more = make(chan struct{})
}

// After lists what is kept with a Seq above after, oldest first, the newest limit of
// them at most.
func (r *Ring) After(after int64, limit int) []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := max(after+1, r.last-int64(len(r.kept))+1, r.last-int64(limit)+1, 1)
	var out []Entry
	for seq := first; seq <= r.last; seq++ {
		out = append(out, r.kept[(seq-1)%int64(cap(r.kept))])
	}
	return out
}

// Wait returns when there is an event with a Seq above after, or ctx ends.
func (r *Ring) Wait(ctx context.Context, after int64) error {
	for {
		r.mu.Lock()
		last, more := r.last, r.more
		r.mu.Unlock()
		if last > after {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Counts is how many events of each name there were since the start.
func (r *Ring) Counts() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

// Names lists the names in Counts, sorted.
func (r *Ring) Names() []string { return slices.Sorted(maps.Keys(r.Counts())) }
