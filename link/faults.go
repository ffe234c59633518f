package link

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/hawserio/hawser/event"
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
	topic, p, sink := e.Mirror.Topic, e.Mirror.Partition, r.ls.env.Events
	switch e.Kind {
	case eventFault:
		text := ""
		if e.Err != nil {
			text = e.Err.Error()
		}
		sink.Emit(event.MirrorFault{Link: r.name, Topic: topic, Partition: p, Code: plan.CodeOf(plan.Fault(e.Fault)), Text: text})
		r.mu.Lock()
		r.faulty[e.Mirror] = true
		r.mu.Unlock()
		if e.Fault == fetcher.SourceAuth || e.Fault == fetcher.SourceUnreachable {
			poke(r.probes)
		}
	case eventHealed:
		sink.Emit(event.MirrorHealed{Link: r.name, Topic: topic, Partition: p})
		r.mu.Lock()
		delete(r.faulty, e.Mirror)
		r.mu.Unlock()
	case eventLost:
		sink.Emit(event.RecordsLost{Link: r.name, Topic: topic, Partition: p, Offset: e.From, Records: int64(e.To - e.From)})
		r.mu.Lock()
		r.lost[e.Mirror] += int64(e.To - e.From)
		r.mu.Unlock()
	case eventTruncated:
		sink.Emit(event.MirrorTruncated{Link: r.name, Topic: topic, Partition: p, Offset: e.To, Epoch: e.Epoch, Records: int64(e.From - e.To)})
		r.noteCut(e.Mirror, e.To)
	}
	r.wake()
}

// noteCut remembers that group offsets above the cut are void: they name records of a history that is gone, and would
// skip others once the mirror has grown past them again (case C05).
func (r *running) noteCut(tp kafka.TopicPartition, to kafka.Offset) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, is := r.cuts[tp]; !is || to < known {
		r.cuts[tp] = to
	}
}

// cutsRemembered is how long after a truncation a start still clamps for it, as it may have been cut short. A
// clamp too many makes consumers read again, never skip.
const cutsRemembered = 10 * time.Minute

// recallCuts notes the truncations that a crash may have kept from being followed by a clamp.
func (r *running) recallCuts() {
	img, now := r.ls.env.Metadata.Image(), r.ls.env.Now().UnixMilli()
	for _, m := range mirrorsOf(img, r.id) {
		states := img.Partitions[m.topic.ID]
		if !m.state.Live() || states == nil {
			continue
		}
		for p, state := range states.List {
			for _, cut := range state.Cuts {
				if now-cut.AtMs < cutsRemembered.Milliseconds() {
					r.noteCut(kafka.TopicPartition{Topic: m.topic.Name, Partition: int32(p)}, cut.Offset)
				}
			}
		}
	}
}

// clampCuts lowers group offsets that lie above truncations. What fails is tried with the next look.
func (r *running) clampCuts(ctx context.Context) {
	r.mu.Lock()
	cuts := maps.Clone(r.cuts)
	clear(r.cuts)
	r.mu.Unlock()
	if len(cuts) == 0 {
		return
	}
	img := r.ls.env.Metadata.Image()
	byTopic := map[string][]kafka.Offset{}
	for tp, to := range cuts {
		topic := img.Topics[img.TopicIDs[tp.Topic]]
		if topic == nil || tp.Partition >= topic.Partitions {
			continue
		}
		if byTopic[tp.Topic] == nil {
			byTopic[tp.Topic] = slices.Repeat([]kafka.Offset{math.MaxInt64}, int(topic.Partitions))
		}
		byTopic[tp.Topic][tp.Partition] = to
	}
	for topic, ends := range byTopic {
		lowered, err := r.ls.env.Commits.Clamp(ctx, topic, ends)
		if err != nil {
			r.ls.env.Logger.Warn("group offsets above a truncation stay for now", "link", r.name, "topic", topic, "error", err)
			for p, to := range ends {
				if to != math.MaxInt64 {
					r.noteCut(kafka.TopicPartition{Topic: topic, Partition: int32(p)}, to)
				}
			}
			continue
		}
		if lowered > 0 {
			r.ls.env.Logger.Warn("group offsets lowered to a truncation", "link", r.name, "topic", topic, "offsets", lowered)
		}
	}
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
