package link

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// watchDeletions notes when mirrors of compacted topics stand at their sources' ends, and marks those that come back to it after the
// source may have forgotten deletions (rule T3). Such a mirror goes on, and is copied anew beside what it has (recopy.go).
func (r *running) watchDeletions(ctx context.Context, mirrors []topicMirror) {
	now := r.ls.env.Now()
	store := map[kafka.TopicID]levelFound{}
	var ids []kafka.TopicID
	for _, m := range mirrors {
		if !plan.Compacts(m.topic.Configs["cleanup.policy"]) {
			continue
		}
		switch m.state {
		case mirror.Stopped, mirror.PendingMirror, mirror.HandedOver, mirror.Reopening, mirror.PendingSetup:
			delete(r.level, m.topic.ID) // a mirror that it becomes has been level since what is stored then
			continue
		}
		if !m.state.Fetches() || m.rec.Paused {
			continue
		}
		last := r.lastLevel(m, now)
		retention := keptAtLeast(m.topic.Configs, last)
		at, is := r.levelAt(m)
		if !is {
			if m.rec.LevelMs == 0 {
				store[m.topic.ID] = levelFound{at: now}
				ids = append(ids, m.topic.ID)
			}
			continue
		}
		problem, missed := plan.MissedDeletions(last, at, retention)
		r.level[m.topic.ID] = plan.Level{At: at, Ends: r.logEnds(m)}
		// What is stored is ahead of the clock where that was set back since: it must not stay so.
		since := at.Sub(time.UnixMilli(m.rec.LevelMs))
		if every := plan.LevelStoredEvery(retention); missed || since >= every || since <= -every {
			store[m.topic.ID] = levelFound{at, problem}
			ids = append(ids, m.topic.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	err := r.ls.updateMirrors(ctx, ids, func(_ *meta.Image, rec *meta.Mirror) bool {
		found := store[rec.Topic]
		rec.LevelMs = found.at.UnixMilli()
		if p := found.problem; p.Code != "" && rec.Recopy == nil {
			rec.Error, rec.ErrorText = p.Code, p.Text
		}
		return true
	})
	if err != nil && ctx.Err() == nil {
		r.ls.env.Logger.Warn("store when mirrors were level", "link", r.name, "error", err)
		return
	}
	for _, m := range mirrors {
		if p := store[m.topic.ID].problem; p.Code != "" {
			r.ls.env.Logger.Warn("deletions may be missing", "link", r.name, "topic", m.topic.Name, "code", p.Code, "error", p.Text)
		}
	}
	poke(r.copies)
}

// levelFound is what watchDeletions stores of a mirror.
type levelFound struct {
	at      time.Time    // when it was level: not later than its source's answer, for what was deleted since then is not here
	problem plan.Problem // empty for one that is well
}

// lastLevel is when the mirror was level, as far as this process knows, or what is stored of it.
func (r *running) lastLevel(m topicMirror, now time.Time) plan.Level {
	last, known := r.level[m.topic.ID]
	if !known {
		last = plan.StoredLevel(time.UnixMilli(m.rec.LevelMs), now)
		if m.rec.LevelMs == 0 {
			last = plan.Level{At: now} // made just now, or before this was noted
		}
		r.level[m.topic.ID] = last
	}
	return last
}

// markMissed marks the mirrors among those about to be fenced that lack deletions which their sources may have
// forgotten (rule T3). It is stored first: once they are open, nobody could tell.
func (r *running) markMissed(ctx context.Context, stopping []topicMirror) error {
	store := map[kafka.TopicID]plan.Problem{}
	var ids []kafka.TopicID
	for _, m := range stopping {
		if p, is := r.missedAtStop(m); is {
			store[m.topic.ID] = p
			ids = append(ids, m.topic.ID)
			r.ls.env.Logger.Warn("deletions may be missing", "link", r.name, "topic", m.topic.Name, "code", p.Code, "error", p.Text)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	err := r.ls.updateMirrors(ctx, ids, func(_ *meta.Image, rec *meta.Mirror) bool {
		rec.Error, rec.ErrorText = store[rec.Topic].Code, store[rec.Topic].Text
		return true
	})
	if err != nil {
		r.stopFailed(ids, "store that deletions may be missing", err)
	}
	return err
}

// missedAtStop says whether a mirror that is being stopped must be marked so; one that is stays so.
func (r *running) missedAtStop(m topicMirror) (p plan.Problem, missed bool) {
	if m.rec.Error == string(mirror.DeletionsMissed) || !plan.Compacts(m.topic.Configs["cleanup.policy"]) {
		return p, false
	}
	ends := r.logEnds(m)
	if !slices.ContainsFunc(ends, func(end kafka.Offset) bool { return end != kafka.NoOffset }) {
		return p, false // a source that was frozen for a reversal, or a stop that was carried out before
	}
	now := r.ls.env.Now()
	last := r.lastLevel(m, now)
	return plan.MissedAtStop(last, ends, now, keptAtLeast(m.topic.Configs, last))
}

// logEnds are the log ends of a topic's partitions, -1 for one that is no mirror now.
func (r *running) logEnds(m topicMirror) []kafka.Offset {
	ends := make([]kafka.Offset, m.topic.Partitions)
	for p := range m.topic.Partitions {
		ends[p] = kafka.NoOffset
		part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: m.topic.ID, Partition: p})
		if part == nil {
			continue
		}
		if at := part.Offsets(); at.Role == meta.RoleMirror {
			ends[p] = at.LogEnd
		}
	}
	return ends
}

// levelAt reports whether all partitions have all of the source, and when the one that heard of it longest ago did.
func (r *running) levelAt(m topicMirror) (at time.Time, is bool) {
	at = r.ls.env.Now()
	r.mu.Lock()
	pool, may := r.pool, r.mayFetch()
	r.mu.Unlock()
	if pool == nil || !may {
		return at, false
	}
	for p := range m.topic.Partitions {
		s := pool.Status(kafka.TopicPartition{Topic: m.topic.Name, Partition: p})
		if s.LagRecords != 0 || s.Fault != fetcher.NoFault || s.LastContact.IsZero() ||
			r.ls.env.Now().Sub(s.LastContact) > r.settingsNow().probePeriod+time.Minute {
			return at, false
		}
		if s.LastContact.Before(at) {
			at = s.LastContact
		}
	}
	return at, true
}

const (
	// tombstonesLeast is how long a tombstone counts as kept at the least, where only what is stored says when the mirror
	// was level: that is stored once a minute. With delete.retention.ms=0 every start would mark a mirror that never was
	// behind, and the mark would tell nobody anything.
	tombstonesLeast = 90 * time.Second
	// tombstonesSeen is the same where this process has seen the mirror level, which it looks at every second. A cleaner
	// removes a tombstone in its second run over it at the earliest, and each waits 15 s by default.
	tombstonesSeen = 10 * time.Second
)

// keptAtLeast is how long tombstones are kept after a mirror was level, as exactly as that is known.
func keptAtLeast(configs map[string]string, last plan.Level) time.Duration {
	if last.Ends == nil {
		return max(deleteRetention(configs), tombstonesLeast)
	}
	return max(deleteRetention(configs), tombstonesSeen)
}

// deleteRetention is how long tombstones are kept: the source's value, as it is synced, or Kafka's default.
func deleteRetention(configs map[string]string) time.Duration {
	const name = "delete.retention.ms"
	text, set := configs[name]
	if !set {
		key, _ := config.Topic.Key(name)
		text = key.Default
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(min(ms, int64(time.Duration(1<<62)/time.Millisecond))) * time.Millisecond
}
