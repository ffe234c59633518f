package link

import (
	"context"
	"strconv"
	"time"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// watchDeletions notes when mirrors of compacted topics stand at their sources' ends, and marks those that come back to it after the
// source may have forgotten deletions (rule T3). Such a mirror goes on: only its operator knows whether copying it anew is worth more than reading it meanwhile.
func (r *running) watchDeletions(ctx context.Context, mirrors []topicMirror) {
	now := r.ls.env.Now()
	store := map[kafka.TopicID]plan.Problem{} // an empty problem for those that are well
	var ids []kafka.TopicID
	for _, m := range mirrors {
		if !m.state.Fetches() || m.rec.Paused || !plan.Compacts(m.topic.Configs["cleanup.policy"]) {
			continue
		}
		retention := deleteRetention(m.topic.Configs)
		last, known := r.level[m.topic.ID]
		if !known {
			last = plan.Level{At: time.UnixMilli(m.rec.LevelMs), Slack: plan.LevelStoredEvery(retention)}
			if m.rec.LevelMs == 0 {
				last = plan.Level{At: now} // made just now, or before this was noted
			}
			r.level[m.topic.ID] = last
		}
		if !r.isLevel(m) {
			if m.rec.LevelMs == 0 {
				store[m.topic.ID] = plan.Problem{}
				ids = append(ids, m.topic.ID)
			}
			continue
		}
		problem, missed := plan.MissedDeletions(last, now, retention)
		r.level[m.topic.ID] = plan.Level{At: now}
		if missed || now.Sub(time.UnixMilli(m.rec.LevelMs)) >= plan.LevelStoredEvery(retention) {
			store[m.topic.ID] = problem
			ids = append(ids, m.topic.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	err := r.ls.updateMirrors(ctx, ids, func(_ *meta.Image, rec *meta.Mirror) bool {
		rec.LevelMs = now.UnixMilli()
		if p := store[rec.Topic]; p.Code != "" {
			rec.Error, rec.ErrorText = p.Code, p.Text
		}
		return true
	})
	if err != nil && ctx.Err() == nil {
		r.ls.env.Logger.Warn("store when mirrors were level", "link", r.name, "error", err)
		return
	}
	for _, m := range mirrors {
		if p := store[m.topic.ID]; p.Code != "" {
			r.ls.env.Logger.Warn("deletions may be missing", "link", r.name, "topic", m.topic.Name, "code", p.Code, "error", p.Text)
		}
	}
}

// isLevel reports whether all partitions have all of the source, as far as it was heard.
func (r *running) isLevel(m topicMirror) bool {
	r.mu.Lock()
	pool, may := r.pool, r.mayFetch()
	r.mu.Unlock()
	if pool == nil || !may {
		return false
	}
	for p := range m.topic.Partitions {
		s := pool.Status(kafka.TopicPartition{Topic: m.topic.Name, Partition: p})
		if s.LagRecords != 0 || s.Fault != fetcher.NoFault || s.LastContact.IsZero() || r.ls.env.Now().Sub(s.LastContact) > r.settingsNow().probePeriod+time.Minute {
			return false
		}
	}
	return true
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
