package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/verify"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

const (
	// copiesMax is how many partitions of a link are copied anew at once: each takes disk until it has the mirror's place.
	copiesMax = 4
	// copyPart is the part of the link's memory for answers that copies get while there are any: one in so many.
	copyPart = 8
	// copyAgain is how long a mirror whose copy was given up, or had no room, is left alone.
	copyAgain = time.Minute
	// copyBusy is the pause between looks while something comes about.
	copyBusy = 100 * time.Millisecond
)

// recopying copies mirrors anew that may have missed deletions (rule T3): their copies are fetched beside them by a pool of their
// own, compared with them, and put in their places. It runs in one goroutine.
type recopying struct {
	r        *running
	src      Source // that pool asks
	pool     Fetches
	assigned map[kafka.TopicPartition]assignment
	compared map[kafka.PartitionID]compared // by the copy's id
	resting  map[kafka.TopicID]time.Time    // topics that are left alone, until when
}

// compared is what a comparison of a copy with its mirror has found.
type compared struct{ different string }

// recopyLoop looks after copies until ctx ends.
func (r *running) recopyLoop(ctx context.Context) {
	c := &recopying{r: r, assigned: map[kafka.TopicPartition]assignment{}, compared: map[kafka.PartitionID]compared{},
		resting: map[kafka.TopicID]time.Time{}}
	defer func() { c.close() }()
	t := time.NewTicker(tick)
	defer t.Stop()
	for ctx.Err() == nil {
		var busy <-chan time.Time
		if c.look(ctx) {
			busy = time.After(copyBusy)
		}
		select {
		case <-ctx.Done():
		case <-r.copies:
		case <-busy:
		case <-t.C:
		}
	}
}

func (c *recopying) close() {
	if c.pool != nil {
		c.pool.Close()
	}
	c.pool, c.src = nil, nil
	clear(c.assigned)
	c.share(false)
}

// share says whether copies take their share of the link's rate.
func (c *recopying) share(copying bool) {
	r := c.r
	r.mu.Lock()
	changed, pool := r.copying != copying, r.pool
	r.copying = copying
	r.mu.Unlock()
	if changed && pool != nil {
		pool.Reconfigure(r.fetchConfig())
	}
}

// fetchConfig is how the link's pool fetches now. r.mu is not held.
func (r *running) fetchConfig() fetcher.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shared(r.set.fetch)
}

// shared leaves half of a limited rate, and some memory, to copies while there are any. It needs mu.
func (r *running) shared(cfg fetcher.Config) fetcher.Config {
	if !r.copying {
		return cfg
	}
	if cfg.RateMax > 0 {
		cfg.RateMax = max(cfg.RateMax/2, 1)
	}
	cfg.MemoryMax -= cfg.MemoryMax / copyPart
	return cfg
}

// look does what there is to do now; it reports whether more of it comes soon.
func (c *recopying) look(ctx context.Context) (busy bool) {
	r := c.r
	img := r.ls.env.Metadata.Image()
	r.mu.Lock()
	allowed, paused := r.set.recopy, !r.mayFetch()
	r.mu.Unlock()
	want := map[kafka.TopicPartition]assignment{}
	var going []topicMirror
	for _, m := range mirrorsOf(img, r.id) {
		f := plan.RecopyFacts{State: m.state, Paused: paused || m.rec.Paused, Marked: m.rec.Error == string(mirror.DeletionsMissed),
			Begun: m.rec.Recopy != nil, Allowed: allowed}
		switch plan.Recopy(f) {
		case plan.RecopyBegin:
			c.begin(ctx, m)
			busy = true
		case plan.RecopyGoOn:
			going = append(going, m)
		case plan.RecopyDrop:
			c.drop(ctx, m, "")
			busy = true
		}
		if !f.Begun && !f.Marked {
			r.setUncopied(m.topic.ID, "")
		}
	}
	left := copiesMax
	for _, m := range going {
		left -= c.goOn(ctx, m, want, left)
	}
	c.assign(want)
	r.ls.sweepCopies(ctx, r.id)
	for _, m := range going {
		busy = c.takePlaces(ctx, m) || busy
	}
	return busy
}

// setUncopied notes why a mirror is not copied anew, "" for no reason.
func (r *running) setUncopied(id kafka.TopicID, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if why == "" {
		delete(r.uncopied, id)
		return
	}
	r.uncopied[id] = why
}

// begin stores that a mirror is copied anew, if the disk has room for that.
func (c *recopying) begin(ctx context.Context, m topicMirror) {
	r := c.r
	now := r.ls.env.Now()
	if now.Before(c.resting[m.topic.ID]) {
		return
	}
	sizes := make([]int64, 0, m.topic.Partitions)
	for p := range m.topic.Partitions {
		if part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: m.topic.ID, Partition: p}); part != nil {
			sizes = append(sizes, part.Offsets().Size)
		}
	}
	if err := r.ls.env.Partitions.Room(plan.RecopyRoom(sizes, copiesMax)); err != nil {
		c.rest(m, "it is not copied again, as there is no room for that: "+words(err))
		return
	}
	id := kafka.NewTopicID()
	err := r.ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		old, states := img.Mirrors[m.topic.ID], img.Partitions[m.topic.ID]
		if old == nil || states == nil || img.Links[r.id] == nil || old.Recopy != nil || old.State != mirror.Active.String() ||
			old.Error != string(mirror.DeletionsMissed) {
			return nil, nil
		}
		rec := *old
		rec.Recopy = &meta.Recopy{ID: id, SinceMs: now.UnixMilli()}
		entries := &meta.Partitions{Topic: id, CopyOf: m.topic.ID, List: make([]meta.Partition, len(states.List))}
		for p := range entries.List {
			entries.List[p] = meta.Partition{Role: meta.RoleMirror}
		}
		return []meta.Change{meta.PutMirror(&rec), meta.PutPartitions(entries), meta.KeepLink(r.id)}, nil
	})
	if err != nil {
		c.failed(ctx, m, "begin to copy a mirror again", err)
		return
	}
	r.setUncopied(m.topic.ID, "")
	r.ls.env.Logger.Warn("a mirror is copied from its source again, as deletions may be missing", "link", r.name,
		"topic", m.topic.Name, "copy", id.String())
}

func (c *recopying) rest(m topicMirror, why string) {
	c.resting[m.topic.ID] = c.r.ls.env.Now().Add(copyAgain)
	c.r.setUncopied(m.topic.ID, why)
	c.r.ls.env.Logger.Warn("a mirror that may have missed deletions is not copied again now", "link", c.r.name, "topic", m.topic.Name,
		"why", why)
}

func (c *recopying) failed(ctx context.Context, m topicMirror, what string, err error) {
	if ctx.Err() == nil {
		c.r.setUncopied(m.topic.ID, what+": "+words(err))
		c.r.ls.env.Logger.Warn("a mirror is not copied again yet", "link", c.r.name, "topic", m.topic.Name, "step", what, "error", err)
	}
}

// pair is a mirror's partition with its copy's.
type pair struct {
	id, copied kafka.PartitionID
	taken      bool // the copy has the mirror's place
	mirror     MirrorPartition
	copy       MirrorPartition // nil while it is not open
}

// pairs lists the partitions that are copied: later ones began after the deletions that may be missing.
func (r *running) pairs(img *meta.Image, m topicMirror) []pair {
	states, entries := img.Partitions[m.topic.ID], img.Partitions[m.rec.Recopy.ID]
	if states == nil || entries == nil {
		return nil
	}
	list := make([]pair, min(len(states.List), len(entries.List)))
	for p := range list {
		one := pair{
			id:     kafka.PartitionID{Topic: m.topic.ID, Partition: int32(p)},
			copied: kafka.PartitionID{Topic: m.rec.Recopy.ID, Partition: int32(p)},
		}
		one.taken = states.List[p].Home == m.rec.Recopy.ID
		one.mirror = r.ls.env.Partitions.Mirror(one.id)
		if one.copy = r.ls.env.Partitions.Mirror(one.copied); one.copy != nil && one.copy.Err() != nil {
			one.copy = nil
		}
		list[p] = one
	}
	return list
}

func copyName(topic string, p int32) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: topic + " (copy)", Partition: p}
}

// goOn opens the copies that are to be fetched now, most at most, and says how many there are.
func (c *recopying) goOn(ctx context.Context, m topicMirror, want map[kafka.TopicPartition]assignment, most int) (n int) {
	for _, one := range c.r.pairs(c.r.ls.env.Metadata.Image(), m) {
		if n == most {
			break
		}
		if one.taken || one.mirror == nil || one.mirror.Err() != nil {
			continue
		}
		n++
		if one.copy == nil {
			if err := c.open(ctx, m, &one); err != nil {
				c.failed(ctx, m, fmt.Sprintf("open the copy of partition %d", one.id.Partition), err)
				continue
			}
		}
		want[copyName(m.topic.Name, one.id.Partition)] = assignment{
			source: kafka.TopicPartition{Topic: m.rec.SourceTopic, Partition: one.id.Partition}, id: m.rec.SourceTopicID, target: one.copy,
		}
	}
	return n
}

// open opens a copy, and has a new one begin where source and mirror both begin at the earliest.
func (c *recopying) open(ctx context.Context, m topicMirror, one *pair) error {
	parts := c.r.ls.env.Partitions
	entries := c.r.ls.env.Metadata.Image().Partitions[one.copied.Topic]
	if entries == nil {
		return errors.New("its entries are gone")
	}
	entry := entries.List[one.copied.Partition]
	if err := parts.OpenCopy(one.id, one.copied.Topic, entry); err != nil {
		return err
	}
	made := parts.Mirror(one.copied)
	if made == nil {
		return errors.New("it is not open")
	}
	if at := made.Offsets(); at.Generation == 0 && at.LogEnd == 0 {
		src, err := c.r.source()
		if err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, askMax)
		start, err := src.ListOffset(bounded, kafka.TopicPartition{Topic: m.rec.SourceTopic, Partition: one.id.Partition}, startEarliest)
		cancel()
		if err != nil {
			return fmt.Errorf("ask where the source begins: %w", err)
		}
		if start = max(start, one.mirror.Offsets().LogStart); start > 0 {
			if err := made.BecomeMirror(ctx, start); err != nil {
				return err
			}
		}
	}
	one.copy = made
	return nil
}

// assign has exactly these copies fetched.
func (c *recopying) assign(want map[kafka.TopicPartition]assignment) {
	r := c.r
	r.mu.Lock()
	src, cfg := r.src, r.set.fetch
	r.mu.Unlock()
	if c.pool != nil && (c.src != src || len(want) == 0) {
		c.close() // before there is another one: two must never append to one partition
	}
	if src == nil || len(want) == 0 {
		return
	}
	if c.pool == nil {
		c.share(true)
		c.src, c.pool = src, r.ls.env.NewPool(src, copyConfig(cfg), func(fetcher.Event) {})
	}
	if maps.Equal(want, c.assigned) {
		return
	}
	c.assigned = want
	list := make([]fetcher.Assignment, 0, len(want))
	for tp, a := range want {
		list = append(list, fetcher.Assignment{Source: a.source, SourceID: a.id, Mirror: tp, Target: a.target})
	}
	c.pool.Assign(list)
}

// copyConfig is how copies are fetched: beside mirroring, so with one connection to each broker, little memory, and half of a limited rate.
func copyConfig(cfg fetcher.Config) fetcher.Config {
	if cfg.RateMax > 0 {
		cfg.RateMax = max(cfg.RateMax/2, 1)
	}
	cfg.Fetchers, cfg.MemoryMax, cfg.KeepHoles = 1, max(cfg.MemoryMax/copyPart, 1), false
	return cfg
}

// takePlaces compares copies that are level, and puts them in their mirrors' places; it reports whether any came on.
func (c *recopying) takePlaces(ctx context.Context, m topicMirror) (busy bool) {
	r := c.r
	img := r.ls.env.Metadata.Image()
	if rec := img.Mirrors[m.topic.ID]; rec == nil || rec.Recopy == nil || rec.Recopy.ID != m.rec.Recopy.ID {
		return false
	}
	pairs := r.pairs(img, m)
	left := 0
	for _, one := range pairs {
		if !one.taken {
			left++
		}
		if ctx.Err() != nil {
			return false
		}
		switch plan.CopyNext(c.facts(m, one)) {
		case plan.CopyCompare:
			c.compare(ctx, m, one)
			busy = true
		case plan.CopySwap:
			if err := c.swap(ctx, m, one); err != nil {
				busy = busy || errors.Is(err, partition.ErrCopyNotReady)
				continue
			}
			busy = true
			left--
		case plan.CopyGiveUp:
			why := "the disk is full"
			if found := c.compared[one.copied].different; found != "" {
				why = found
			}
			c.drop(ctx, m, fmt.Sprintf("the copy of partition %d was given up: %s", one.id.Partition, why))
			return true
		}
	}
	if len(pairs) > 0 && left == 0 {
		c.finish(ctx, m)
	}
	return busy
}

func (c *recopying) facts(m topicMirror, one pair) plan.CopyFacts {
	f := plan.CopyFacts{Taken: one.taken}
	if one.taken || one.copy == nil || one.mirror == nil || c.pool == nil {
		return f
	}
	s := c.pool.Status(copyName(m.topic.Name, one.id.Partition))
	found, is := c.compared[one.copied]
	f.Copied = s.Fault == fetcher.NoFault && !s.LastContact.IsZero()
	// A copy that goes beyond its source's end has what the source has lost since, and is cut first.
	f.Level = s.Compared && one.copy.Offsets().LogEnd == s.SourceEnd
	f.Full = s.Fault == fetcher.TargetFull
	f.CopyEnd, f.MirrorEnd = one.copy.Offsets().HighWatermark, one.mirror.Offsets().HighWatermark
	f.Compared, f.Different = is, found.different != ""
	return f
}

// compare reads what both hold. Records that only one has are what the copy is for, or what the mirror's own cleaner
// removed; one that both have and that differs says that this is no copy of the same history.
func (c *recopying) compare(ctx context.Context, m topicMirror, one pair) {
	ours, theirs := one.mirror.Offsets(), one.copy.Offsets()
	from, to := max(ours.LogStart, theirs.LogStart), min(ours.HighWatermark, theirs.HighWatermark)
	work := verify.New(verify.Spec{From: from, To: max(from, to), Compacted: true, Alone: verify.Counted})
	for ctx.Err() == nil {
		side, at, done := work.Next()
		if done {
			break
		}
		part := one.copy
		if side == verify.Mirror {
			part = one.mirror
		}
		read, err := part.Batches(at)
		if start := part.Offsets().LogStart; kafka.CodeOf(err) == kafka.OffsetOutOfRange && start > at {
			work.Jump(start)
			continue
		}
		if err == nil {
			err = work.Add(side, read)
		}
		if err != nil {
			c.failed(ctx, m, fmt.Sprintf("compare the copy of partition %d", one.id.Partition), err)
			return // tried again
		}
	}
	if ctx.Err() != nil {
		return
	}
	found := work.Result()
	var out compared
	if found.Differences > 0 {
		out.different = fmt.Sprintf("%d records differ from the mirror's, the first at offset %d: %s", found.Differences,
			found.First[0].Offset, found.First[0].Why)
	}
	c.compared[one.copied] = out
	c.r.ls.env.Logger.Info("a mirror's new copy was compared with it", "link", c.r.name, "topic", m.topic.Name,
		"partition", one.id.Partition, "from", from, "to", to,
		"batches_alike", found.Batches, "records_alike", found.Records, "only_mirror", found.Alone[verify.Mirror],
		"only_copy", found.Alone[verify.Source], "different", found.Differences)
}

func (c *recopying) swap(ctx context.Context, m topicMirror, one pair) error {
	err := c.r.ls.env.Partitions.SwapCopy(ctx, one.id, one.copied.Topic)
	if err != nil && !errors.Is(err, partition.ErrCopyNotReady) && !errors.Is(err, partition.ErrStale) {
		c.failed(ctx, m, fmt.Sprintf("put the copy of partition %d in its place", one.id.Partition), err)
	}
	return err
}

// finish takes the mark away once all partitions are new.
func (c *recopying) finish(ctx context.Context, m topicMirror) {
	r := c.r
	id, begun := m.rec.Recopy.ID, time.UnixMilli(m.rec.Recopy.SinceMs)
	problem, missed := plan.Recopied(begun, r.ls.env.Now(), max(deleteRetention(m.topic.Configs), tombstonesSeen))
	err := r.ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		old := img.Mirrors[m.topic.ID]
		if old == nil || old.Recopy == nil || old.Recopy.ID != id {
			return nil, nil
		}
		rec := *old
		rec.Recopy = nil
		switch {
		case missed:
			rec.Error, rec.ErrorText = problem.Code, problem.Text
		case rec.Error == string(mirror.DeletionsMissed):
			rec.Error, rec.ErrorText = "", ""
		}
		changes := []meta.Change{meta.PutMirror(&rec)}
		if img.Partitions[id] != nil {
			changes = append(changes, meta.DeletePartitions(id))
		}
		return changes, nil
	})
	if err != nil {
		c.failed(ctx, m, "store that the mirror was copied again", err)
		return
	}
	if missed {
		// Once more would take as long.
		c.resting[m.topic.ID] = r.ls.env.Now().Add(recopyRest)
	}
	r.setUncopied(m.topic.ID, "")
	maps.DeleteFunc(c.compared, func(at kafka.PartitionID, _ compared) bool { return at.Topic == id })
	r.ls.env.Logger.Info("a mirror was copied from its source again", "link", r.name, "topic", m.topic.Name,
		"took", r.ls.env.Now().Sub(begun), "deletions_missed", missed)
}

// recopyRest is how long a mirror is left alone whose copying took longer than its source keeps tombstones.
const recopyRest = 24 * time.Hour

// drop gives a copy up; the mark stays. sweepCopies removes what is there of it.
func (c *recopying) drop(ctx context.Context, m topicMirror, why string) {
	err := c.r.ls.updateMirrors(ctx, []kafka.TopicID{m.topic.ID}, func(_ *meta.Image, rec *meta.Mirror) bool {
		if rec.Recopy == nil || rec.Recopy.ID != m.rec.Recopy.ID {
			return false
		}
		rec.Recopy = nil
		if rec.Error == "" {
			rec.Error, rec.ErrorText = string(mirror.DeletionsMissed),
				"the mirror was to be copied from its source again, as it may have missed deletions, and was not"
		}
		return true
	})
	if err != nil {
		c.failed(ctx, m, "store that a copy is dropped", err)
		return
	}
	if why != "" {
		c.rest(m, why)
	}
}

// sweepCopies removes copies that nobody waits for: given up by this link, or of topics that are no mirrors any more. Nothing fetches them.
func (ls *Links) sweepCopies(ctx context.Context, link kafka.TopicID) {
	img := ls.env.Metadata.Image()
	if len(img.Partitions) <= len(img.Topics) {
		return
	}
	for id, entries := range img.Partitions {
		if entries.CopyOf.IsZero() {
			continue
		}
		rec := img.Mirrors[entries.CopyOf]
		if rec != nil && (rec.Link != link || rec.Recopy != nil && rec.Recopy.ID == id) {
			continue
		}
		if err := ls.dropCopy(ctx, id, entries); err != nil && ctx.Err() == nil {
			ls.env.Logger.Warn("a copy that is not needed stays for now", "copy", id.String(), "error", err)
		}
	}
}

// dropCopy removes a copy: its logs first, as its entries say what they are.
func (ls *Links) dropCopy(ctx context.Context, id kafka.TopicID, entries *meta.Partitions) error {
	if err := ls.env.Partitions.DropCopy(ctx, entries.CopyOf, id, int32(len(entries.List))); err != nil {
		return err
	}
	return ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		if img.Partitions[id] == nil {
			return nil, nil
		}
		return []meta.Change{meta.DeletePartitions(id)}, nil
	})
}

// showRecopy says how far the mirror is copied anew, or why it is not.
func (r *running) showRecopy(img *meta.Image, m topicMirror, info *MirrorInfo) {
	r.mu.Lock()
	why := r.uncopied[m.topic.ID]
	r.mu.Unlock()
	if m.rec.Recopy == nil {
		if why != "" && info.Err == string(mirror.DeletionsMissed) {
			info.ErrText += "; " + why
		}
		return
	}
	done := 0
	pairs := r.pairs(img, m)
	for p, one := range pairs {
		if p >= len(info.Lags) || one.mirror == nil {
			continue
		}
		lag := &RecopyLag{State: RecopyWaiting, End: one.mirror.Offsets().HighWatermark}
		switch {
		case one.taken:
			lag.State, lag.Offset = RecopyDone, lag.End
			done++
		case one.copy != nil:
			lag.State, lag.Offset = RecopyCopying, one.copy.Offsets().HighWatermark
		}
		info.Lags[p].Recopy = lag
	}
	if info.Err == string(mirror.DeletionsMissed) {
		info.ErrText += fmt.Sprintf("; it is copied from the source again beside what is here, %d of %d partitions are done", done, len(pairs))
		if why != "" {
			info.ErrText += "; " + why
		}
	}
}
