package link

import (
	"context"
	"maps"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// Kinds of fetcher events.
const (
	eventFault     = "fault"
	eventHealed    = "healed"
	eventLost      = "lost"
	eventTruncated = "truncated"
)

// onEvent hears of a fetcher's findings. It is called on the fetcher's goroutine and does not wait.
func (r *running) onEvent(e fetcher.Event) {
	log := r.ls.env.Logger.With("link", r.name, "topic", e.Mirror.Topic, "partition", e.Mirror.Partition)
	switch e.Kind {
	case eventFault:
		log.Warn("mirror partition in error", "fault", string(e.Fault), "error", e.Err)
		r.mu.Lock()
		r.faulty[e.Mirror] = true
		r.mu.Unlock()
		if e.Fault == fetcher.SourceAuth || e.Fault == fetcher.SourceUnreachable {
			poke(r.probes)
		}
	case eventHealed:
		log.Info("mirror partition is well again")
		r.mu.Lock()
		delete(r.faulty, e.Mirror)
		r.mu.Unlock()
	case eventLost:
		log.Warn("the source removed records before they were mirrored", "from", int64(e.From), "to", int64(e.To), "lost", int64(e.To-e.From))
		r.mu.Lock()
		r.lost[e.Mirror] += int64(e.To - e.From)
		r.mu.Unlock()
	case eventTruncated:
		log.Warn("mirror truncated: the source's history diverged", "from", int64(e.From), "to", int64(e.To), "error", e.Err)
		return
	}
	r.wake()
}

// faultsNow reads the faults of one mirror's partitions; r.mu is not held.
func (r *running) faultsNow(m topicMirror) []plan.PartitionFault {
	r.mu.Lock()
	pool := r.pool
	var tps []kafka.TopicPartition
	if pool != nil && len(r.faulty) > 0 {
		for p := range m.topic.Partitions {
			if tp := (kafka.TopicPartition{Topic: m.topic.Name, Partition: p}); r.faulty[tp] {
				tps = append(tps, tp)
			}
		}
	}
	r.mu.Unlock()
	var list []plan.PartitionFault
	for _, tp := range tps {
		if s := pool.Status(tp); s.Fault != fetcher.NoFault {
			list = append(list, partitionFault(tp.Partition, s))
		}
	}
	return list
}

func partitionFault(p int32, s fetcher.Status) plan.PartitionFault {
	f := plan.PartitionFault{Partition: p, Fault: plan.Fault(s.Fault), Since: s.Since}
	if s.Err != nil {
		f.Text = s.Err.Error()
	}
	return f
}

// limits are the link's times for faults; r.mu is held.
func (r *running) limits() plan.Limits {
	return plan.Limits{Retry: r.set.retry, Unreachable: r.set.probePeriod * time.Duration(max(r.set.threshold, 1))}
}

func (r *running) judged(m topicMirror) plan.Judged {
	faults := r.faultsNow(m)
	r.mu.Lock()
	lim := r.limits()
	r.mu.Unlock()
	return plan.JudgeFaults(faults, r.ls.env.Now(), lim)
}

// judge sends mirrors to FAILED whose faults have outlasted the link's patience. Stored first; the next look
// takes them from the fetchers.
func (r *running) judge(ctx context.Context, mirrors []topicMirror) {
	r.mu.Lock()
	any := len(r.faulty) > 0
	r.mu.Unlock()
	if !any {
		return
	}
	failed := map[kafka.TopicID]plan.Problem{}
	var ids []kafka.TopicID
	for _, m := range mirrors {
		if !m.state.Fetches() {
			continue
		}
		if j := r.judged(m); j.Judgement == plan.Fail {
			failed[m.topic.ID] = j.Problem
			ids = append(ids, m.topic.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	now := r.ls.env.Now().UnixMilli()
	err := r.ls.updateMirrors(ctx, ids, func(_ *meta.Image, rec *meta.Mirror) bool {
		if !r.move(rec, mirror.SourceFailed, now) {
			return false
		}
		rec.Error, rec.ErrorText = failed[rec.Topic].Code, failed[rec.Topic].Text
		r.ls.env.Logger.Error("mirror failed", "link", r.name, "topic", rec.SourceTopic, "code", rec.Error, "error", rec.ErrorText)
		return true
	})
	if err != nil {
		r.ls.env.Logger.Warn("store failed mirrors", "link", r.name, "error", err)
		return
	}
	r.wake()
}

// storeLost adds what was lost since the last look to the records.
func (r *running) storeLost(ctx context.Context) {
	r.mu.Lock()
	lost := maps.Clone(r.lost)
	clear(r.lost)
	r.mu.Unlock()
	if len(lost) == 0 {
		return
	}
	img := r.ls.env.Metadata.Image()
	byTopic := map[kafka.TopicID]map[int32]int64{}
	for tp, n := range lost {
		id := img.TopicIDs[tp.Topic]
		if byTopic[id] == nil {
			byTopic[id] = map[int32]int64{}
		}
		byTopic[id][tp.Partition] += n
	}
	ids := make([]kafka.TopicID, 0, len(byTopic))
	for id := range byTopic {
		ids = append(ids, id)
	}
	err := r.ls.updateMirrors(ctx, ids, func(img *meta.Image, rec *meta.Mirror) bool {
		topic := img.Topics[rec.Topic]
		if topic == nil {
			return false
		}
		sum := make([]int64, topic.Partitions)
		copy(sum, rec.Lost)
		for p, n := range byTopic[rec.Topic] {
			if int(p) < len(sum) {
				sum[p] += n
			}
		}
		rec.Lost = sum
		return true
	})
	if err == nil {
		return
	}
	r.mu.Lock()
	for tp, n := range lost {
		r.lost[tp] += n
	}
	r.mu.Unlock()
}
