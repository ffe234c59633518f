package link

import (
	"context"
	"maps"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/journal"
	"github.com/hawserio/hawser/meta"
)

// How old a mirror is, kept over what makes its fetcher forget: a pause, another connection, and by the journal a restart.

const (
	// journalEvery is how often it is looked for what to note in the journal: a restart makes a mirror look older by that much at most.
	journalEvery = 5 * time.Second
	// journalIdle is how often a mirror is noted that stays level with its source.
	journalIdle = 10 * time.Second
)

// dated is how old a mirror's partition was, as fetcher.Status says it, when that was last known. It stays true while nothing is
// fetched, and until the source is heard again: a mirror whose source is dead must not look fresh for having been paused (rule X3).
type dated struct {
	topic            kafka.TopicID
	caughtUp, behind time.Time
	end              kafka.Offset // the source's then
}

// refine fills in a status from what was known before: times only get older by it, never younger.
func (d dated) refine(s *fetcher.Status, synced kafka.Offset) {
	if d.caughtUp.After(s.CaughtUp) {
		s.CaughtUp = d.caughtUp
	}
	if d.behind.IsZero() || synced >= d.end {
		return
	}
	if s.LastContact.IsZero() || !s.Behind.IsZero() && d.behind.Before(s.Behind) {
		s.Behind = d.behind
	}
}

// journalLoop notes how old the link's mirrors are, now and then and when the link ends.
func (r *running) journalLoop(ctx context.Context) {
	if r.ls.env.Journal == nil {
		return
	}
	noted := map[kafka.PartitionID]journal.Entry{}
	t := time.NewTicker(journalEvery)
	defer t.Stop()
	failed := false
	for ctx.Err() == nil {
		idle := journalIdle
		select {
		case <-ctx.Done():
			idle = 0
		case <-t.C:
		}
		list := r.toNote(noted, idle)
		if err := r.ls.env.Journal.Append(list); err != nil {
			if !failed {
				r.ls.env.Logger.Warn("how old mirrors are is not noted: after a restart they look older than they are", "link", r.name, "error", err)
			}
			failed = true
			continue
		}
		failed = false
		for _, e := range list {
			noted[e.Partition] = e
		}
	}
}

// toNote lists what has changed since it was noted, and what stayed level for longer than idle. What is not fetched any more is
// forgotten in noted.
func (r *running) toNote(noted map[kafka.PartitionID]journal.Entry, idle time.Duration) []journal.Entry {
	r.mu.Lock()
	pool, fetched := r.pool, maps.Clone(r.assigned)
	r.mu.Unlock()
	if pool == nil {
		return nil
	}
	img := r.ls.env.Metadata.Image()
	now := r.ls.env.Now()
	var list []journal.Entry
	seen := make(map[kafka.PartitionID]bool, len(fetched))
	for tp, a := range fetched {
		id := kafka.PartitionID{Topic: img.TopicIDs[tp.Topic], Partition: tp.Partition}
		seen[id] = true
		s := pool.Status(tp)
		if s.SourceEnd < 0 || id.Topic.IsZero() {
			continue // not heard in this life: what is noted is all that is known
		}
		synced := a.target.Offsets().HighWatermark
		r.mu.Lock()
		if d := r.dated[tp]; d.topic == id.Topic {
			d.refine(&s, synced)
		}
		r.mu.Unlock()
		e := journal.Entry{
			Partition: id, Epoch: epochBelow(a.target.Epochs(), synced), SourceEnd: s.SourceEnd, Applied: synced,
			At: now.UnixMilli(), CaughtUp: millis(s.CaughtUp), Behind: millis(s.Behind),
		}
		old, is := noted[id]
		same := is && old.Applied == e.Applied && old.Epoch == e.Epoch && old.SourceEnd == e.SourceEnd && old.Behind == e.Behind
		if same && (old.CaughtUp == e.CaughtUp || e.CaughtUp-old.CaughtUp < idle.Milliseconds()) {
			continue
		}
		list = append(list, e)
	}
	maps.DeleteFunc(noted, func(id kafka.PartitionID, _ journal.Entry) bool { return !seen[id] })
	return list
}

// recallJournal takes over what was noted before a restart, as far as it is of the logs that are here now: one that was truncated since
// has an older entry, or none (rule X3).
func (r *running) recallJournal() {
	if r.ls.env.Journal == nil {
		return
	}
	img := r.ls.env.Metadata.Image()
	now := r.ls.env.Now()
	for _, m := range mirrorsOf(img, r.id) {
		if !m.state.Live() {
			continue
		}
		for p := range m.topic.Partitions {
			id := kafka.PartitionID{Topic: m.topic.ID, Partition: p}
			part := r.ls.env.Partitions.Mirror(id)
			if part == nil {
				continue
			}
			if d, is := recall(r.ls.env.Journal.Last(id), part.Offsets().HighWatermark, part.Epochs(), now); is {
				d.topic = id.Topic
				r.mu.Lock()
				r.dated[kafka.TopicPartition{Topic: m.topic.Name, Partition: p}] = d
				r.mu.Unlock()
			}
		}
	}
}

// recall finds the newest entry that is of a log that ends at synced with these epochs. Entries come newest first.
func recall(entries []journal.Entry, synced kafka.Offset, epochs []kafka.EpochStart, now time.Time) (dated, bool) {
	for _, e := range entries {
		if e.Applied > synced || e.Epoch != epochBelow(epochs, e.Applied) {
			continue
		}
		// A clock that was set back must not make the mirror look fresh for ever.
		d := dated{caughtUp: moment(e.CaughtUp, now), end: e.SourceEnd}
		if e.SourceEnd > e.Applied {
			d.behind = moment(e.Behind, now)
		}
		return d, true
	}
	return dated{}, false
}

// epochBelow is the epoch of the last batch that begins below an offset.
func epochBelow(epochs []kafka.EpochStart, end kafka.Offset) kafka.LeaderEpoch {
	last := kafka.NoEpoch
	for _, e := range epochs {
		if e.Start < end {
			last = e.Epoch
		}
	}
	return last
}

// millis is a time in Unix ms, 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// moment is the time of Unix ms, at most now; 0 is none.
func moment(ms int64, now time.Time) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	if t := time.UnixMilli(ms); t.Before(now) {
		return t
	}
	return now
}

// datedIn is what was known of a topic's partitions. It needs r.mu.
func (r *running) datedIn(topic *meta.Topic) map[int32]dated {
	list := make(map[int32]dated)
	for p := range topic.Partitions {
		if d, is := r.dated[kafka.TopicPartition{Topic: topic.Name, Partition: p}]; is && d.topic == topic.ID {
			list[p] = d
		}
	}
	return list
}
