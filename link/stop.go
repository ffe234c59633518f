package link

import (
	"context"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// clampsAtOnce is how many topics' group offsets are clamped at once: they share syncs.
const clampsAtOnce = 64

// finishStops carries out the effects of every mirror that is STOPPING, all in
// one go: fetching has ended (assign), group offsets are clamped, partitions are
// fenced and opened, STOPPED is stored. It is how a failover goes on and how a
// restart finishes one; each part may be run twice.
//
// The order is rule G1's. STOPPING is stored before any of it, so a sync of group offsets that
// began earlier finds the mirror gone from its list under the coordinator's lock and writes
// nothing after the clamp. The clamp comes before the partitions open, so no record is written below a
// group's offset that was not there when it was clamped.
func (r *running) finishStops(ctx context.Context, mirrors []topicMirror) {
	var stopping []topicMirror
	for _, m := range mirrors {
		if m.state == mirror.Stopping {
			stopping = append(stopping, m)
		}
	}
	if len(stopping) == 0 || r.storing.Load() > 0 {
		return
	}
	r.roles.Lock()
	defer r.roles.Unlock()
	begun := r.ls.env.Now()
	ready, lasts := r.clamp(ctx, stopping)
	clamped := r.ls.env.Now()
	if err := r.markMissed(ctx, ready); err != nil {
		return // tried again
	}
	done := r.fence(ctx, ready)
	fenced := r.ls.env.Now()
	if len(done) == 0 {
		return
	}
	now := r.ls.env.Now().UnixMilli()
	err := r.ls.updateMirrors(ctx, done, func(_ *meta.Image, rec *meta.Mirror) bool {
		if rec.State != mirror.Stopping.String() {
			return false
		}
		r.move(rec, mirror.Fenced, now)
		rec.TurnsStopped = rec.Turns
		rec.LastSourceFetchOffset = lasts[rec.Topic]
		switch {
		case rec.Recopy != nil: // it is not over, so it may lack them still
			rec.Error, rec.ErrorText, rec.Recopy = string(mirror.DeletionsMissed),
				"the mirror was stopped while it was copied from its source again, as it may have missed deletions", nil
		case rec.Error != string(mirror.DeletionsMissed):
			rec.Error, rec.ErrorText = "", ""
		}
		return true
	})
	if err != nil {
		r.stopFailed(done, "store that the mirrors are stopped", err)
		return
	}
	r.mu.Lock()
	for _, id := range done {
		delete(r.obstacle, id)
	}
	r.mu.Unlock()
	r.ls.env.Logger.Info("mirrors stopped", "link", r.name, "topics", len(done),
		"clamp", clamped.Sub(begun), "fence", fenced.Sub(clamped), "store", r.ls.env.Now().Sub(fenced))
}

// move steps a record that was read in this very transaction; a refusal leaves it.
func (r *running) move(rec *meta.Mirror, e mirror.Event, nowMs int64) bool {
	state, err := mirror.ParseState(rec.State)
	if err != nil {
		return false
	}
	next, _, err := mirror.Step(state, e)
	if err != nil || next == state {
		return false
	}
	rec.State, rec.StateMs = next.String(), nowMs
	return true
}

// clamp lowers group offsets above the ends of mirrors that are not open yet. Nothing is appended any more, so the end is
// what the stop point will be. It answers the mirrors that may be fenced, and the last offset each partition has of its source.
func (r *running) clamp(ctx context.Context, stopping []topicMirror) ([]topicMirror, map[kafka.TopicID][]kafka.Offset) {
	lasts := make(map[kafka.TopicID][]kafka.Offset, len(stopping))
	ok := make([]bool, len(stopping))
	img := r.ls.env.Metadata.Image()
	var g errgroup.Group
	g.SetLimit(clampsAtOnce)
	for i, m := range stopping {
		ends, last := r.stopEnds(img, m)
		lasts[m.topic.ID] = last
		if ends == nil || planted(plantSkipClamp) {
			ok[i] = true
			continue
		}
		g.Go(func() error {
			lowered, err := r.ls.env.Commits.Clamp(ctx, m.topic.Name, ends)
			if err != nil {
				r.stopFailed([]kafka.TopicID{m.topic.ID}, "clamp group offsets of topic "+m.topic.Name, err)
				return nil
			}
			if lowered > 0 {
				r.ls.env.Logger.Info("group offsets clamped to the end of a stopped mirror", "link", r.name, "topic", m.topic.Name, "offsets", lowered)
			}
			ok[i] = true
			return nil
		})
	}
	// The functions return no error: each failure concerns its own topic.
	_ = g.Wait()
	var ready []topicMirror
	for i, m := range stopping {
		if ok[i] {
			ready = append(ready, m)
		}
	}
	return ready, lasts
}

// stopEnds is where each partition's group offsets are to be clamped: nil if all partitions are open already,
// because then it was done before a crash, and producers and consumers may have moved on.
func (r *running) stopEnds(img *meta.Image, m topicMirror) (ends, lasts []kafka.Offset) {
	open := 0
	ends = make([]kafka.Offset, m.topic.Partitions)
	lasts = make([]kafka.Offset, m.topic.Partitions)
	states := img.Partitions[m.topic.ID]
	for p := range m.topic.Partitions {
		ends[p], lasts[p] = math.MaxInt64, kafka.NoOffset
		if states != nil && int(p) < len(states.List) && states.List[p].Role == meta.RoleOpen {
			if stop := states.List[p].Stop; stop != nil && stop.Offset > 0 {
				lasts[p] = stop.Offset - 1
			}
			open++
			continue
		}
		part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: m.topic.ID, Partition: p})
		if part == nil || part.Err() != nil { // one that could not be opened says that it is empty; the order goes on once it is there
			continue
		}
		at := part.Offsets()
		ends[p] = at.LogEnd
		if at.LogEnd > at.LogStart {
			lasts[p] = at.LogEnd - 1
		}
	}
	if open == int(m.topic.Partitions) {
		return nil, lasts
	}
	return ends, lasts
}

// fence stops the partitions, all topics in one go; if that fails, one by one, so that a
// broken partition holds up its own topic alone. It answers the topics that are fenced.
func (r *running) fence(ctx context.Context, ready []topicMirror) []kafka.TopicID {
	ids := make([]kafka.TopicID, len(ready))
	for i, m := range ready {
		ids[i] = m.topic.ID
	}
	if len(ids) == 0 {
		return nil
	}
	err := r.ls.env.Partitions.StopMirrors(ctx, ids, r.id.String())
	if err == nil {
		return ids
	}
	if len(ids) == 1 {
		r.stopFailed(ids, "fence the partitions", err)
		return nil
	}
	return slices.DeleteFunc(ids, func(id kafka.TopicID) bool {
		err := r.ls.env.Partitions.StopMirrors(ctx, []kafka.TopicID{id}, r.id.String())
		if err != nil {
			r.stopFailed([]kafka.TopicID{id}, "fence the partitions", err)
		}
		return err != nil
	})
}

// stopFailed notes why a stop is not done yet; the loop tries again.
func (r *running) stopFailed(ids []kafka.TopicID, what string, err error) {
	r.mu.Lock()
	for _, id := range ids {
		r.obstacle[id] = []plan.Problem{{Code: string(mirror.InternalError), Text: what + ": " + err.Error()}}
	}
	r.mu.Unlock()
	r.ls.env.Logger.Error("mirror is not stopped yet", "link", r.name, "topics", len(ids), "step", what, "error", err)
}
