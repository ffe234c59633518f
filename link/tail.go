package link

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/task"
)

const (
	// commitsGather is how long commits are gathered before they are asked for: many groups together cost one question.
	commitsGather = 100 * time.Millisecond
	// behindWait is the wait before groups are looked at again whose offsets lie above what is mirrored.
	behindWait = 300 * time.Millisecond
	// commitsSyncMax bounds one round for the groups that have committed.
	commitsSyncMax = 15 * time.Second
	// tailRetryMax bounds the wait before the source's offsets topic is tried again, and so how long a right to READ it
	// that was just given goes unnoticed. Until then, and where it may not be read at all, consumer.offset.sync.ms is how
	// old an offset gets.
	tailRetryMax = 10 * time.Second
	// tailGroupsMax bounds how many groups wait for a round; the periodic one finds the others.
	tailGroupsMax = 100_000
)

// committedGroups gathers the groups that the source's offsets topic tells of.
type committedGroups struct {
	mu     sync.Mutex // guards groups
	groups map[string]bool
	more   chan struct{} // room for one
}

func (g *committedGroups) add(names []string) {
	g.mu.Lock()
	for _, name := range names {
		if len(g.groups) < tailGroupsMax {
			g.groups[name] = true
		}
	}
	g.mu.Unlock()
	poke(g.more)
}

func (g *committedGroups) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := slices.Sorted(maps.Keys(g.groups))
	clear(g.groups)
	return names
}

// tailLoop makes group offsets come over within a second instead of with the next round: it follows the source's
// offsets topic, where the link's principal may read it, and syncs the groups that it tells of.
func (r *running) tailLoop(ctx context.Context) {
	found := &committedGroups{groups: map[string]bool{}, more: make(chan struct{}, 1)}
	var syncs sync.WaitGroup
	syncs.Go(func() { r.syncCommitted(ctx, found) })
	defer syncs.Wait()
	told := ""
	for wait := tick; ctx.Err() == nil; {
		if !r.offsetsWanted() {
			wait = tick
			rest(ctx, tick)
			continue
		}
		begun := time.Now()
		err := r.tail(ctx, found)
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != told && !errors.Is(err, errTailDropped) {
			told = text
			r.ls.env.Logger.Info("group offsets come over with each round only, as the source's offsets topic cannot be followed",
				"link", r.name, "error", err, "every", r.settingsNow().offsetPeriod, "hint", "grant the link's principal READ and DESCRIBE on "+
					kafka.ConsumerOffsetsTopic)
		}
		if wait = min(2*wait, tailRetryMax); time.Since(begun) > tailRetryMax {
			wait = tick
		}
		rest(ctx, wait)
	}
}

// errTailDropped ends following a connection that the link has replaced or does not want any more.
var errTailDropped = errors.New("the link changed")

// tail follows the present source's offsets topic until it cannot, or the link wants another.
func (r *running) tail(ctx context.Context, found *committedGroups) error {
	src, err := r.source()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for ctx.Err() == nil {
			rest(ctx, tick)
			if now, err := r.source(); err != nil || now != src || !r.offsetsWanted() {
				cancel(errTailDropped)
			}
		}
	}()
	if err := src.WatchCommits(ctx, found.add); ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// offsetsWanted reports whether the task of group offsets runs at all.
func (r *running) offsetsWanted() bool {
	o := r.offsetOrder()
	return o.Enabled && o.Missing == "" && o.Hold == ""
}

// syncCommitted syncs the groups that have committed, a little after the first of them did, and again those whose
// records are still on their way. What goes wrong is left to the periodic round, which tells of it.
func (r *running) syncCommitted(ctx context.Context, found *committedGroups) {
	var behind []string
	for ctx.Err() == nil {
		if len(behind) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-found.more:
			}
		}
		rest(ctx, commitsGather)
		groups := append(found.take(), behind...)
		slices.Sort(groups)
		groups = slices.Compact(groups)
		behind = nil
		if len(groups) == 0 || !r.offsetsWanted() {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, commitsSyncMax)
		// An error is the end of asked, before this round's turn came.
		_ = r.offsetsRunner().Exclusive(asked, func(ctx context.Context) {
			var counts task.OffsetCounts
			var err error
			behind, counts, err = r.offsets.SyncGroups(ctx, here{r}.Mirrors(), groups)
			r.syncBack(ctx, groups)
			r.count(counts)
			r.ls.env.Logger.Debug("groups that have committed are synced", "link", r.name, "groups", len(groups), "written", counts.Written,
				"behind", len(behind), "error", err)
		})
		cancel()
		if len(behind) > 0 {
			rest(ctx, behindWait)
		}
	}
}

// rest waits, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
