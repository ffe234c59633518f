package link

import (
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
)

// firstSyncs is which mirrors have caught up with their source since the link runs. It is the loop's own.
type firstSyncs struct {
	level map[kafka.TopicID]bool
	due   bool // some have, and no round of offsets has been asked for yet
	asked time.Time
}

// firstSyncEvery is how often, at most, mirrors that catch up bring a round of offsets forward: a thousand of them do so one by one.
const firstSyncEvery = time.Second

// syncFirst brings the next round of group offsets forward when a mirror has caught up for the first time. Before that its groups' offsets
// are clamped to what it holds, if there was a round at all; whoever fails over soon after it was made should not find it without them.
func (r *running) syncFirst(mirrors []topicMirror) {
	first := &r.firsts
	r.mu.Lock()
	pool, wanted := r.pool, r.set.offsetSync && !r.set.groupFilters.Empty()
	r.mu.Unlock()
	if pool == nil || !wanted {
		return // when it is turned on, a round begins at once
	}
	if len(first.level) > 2*len(mirrors)+100 {
		clear(first.level) // of topics that were deleted, mostly
	}
	for _, m := range mirrors {
		if m.state == mirror.Active && !first.level[m.topic.ID] && caughtUp(pool, m) {
			first.level[m.topic.ID], first.due = true, true
		}
	}
	if now := r.ls.env.Now(); first.due && now.Sub(first.asked) >= firstSyncEvery {
		first.due, first.asked = false, now
		r.offsetsRunner().Poke()
	}
}

// caughtUp reports whether each partition of a mirror has had all of its source at some moment.
func caughtUp(pool Fetches, m topicMirror) bool {
	for p := range m.topic.Partitions {
		if pool.Status(kafka.TopicPartition{Topic: m.topic.Name, Partition: p}).CaughtUp.IsZero() {
			return false
		}
	}
	return m.topic.Partitions > 0
}
