package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/verify"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// recopy is a mirror being copied anew: meta.Recopy.
type recopy struct {
	id    kafka.TopicID
	since time.Time
}

// copier fetches the copy of one partition.
type copier struct {
	follower
	compared bool
}

// recopyWork is link/recopy.go's look, a step at a time. It reports whether there was something to do.
func (s *shell) recopyWork() bool {
	c, rec := s.c, s.c.topic.rec
	switch plan.Recopy(plan.RecopyFacts{State: rec.State, Paused: rec.Paused || c.linkStops || !c.linked, Marked: rec.marked,
		Begun: rec.recopy != nil, Allowed: true}) {
	case plan.RecopyBegin:
		s.beginRecopy()
		return true
	case plan.RecopyDrop:
		c.w.log("%s: the copy is dropped", c.name)
		s.changeRecord(func(rec *record) { rec.recopy, rec.marked = nil, true })
		return true
	case plan.RecopyGoOn:
		if c.w.chance(2) && s.copyOn() {
			return true
		}
	}
	return c.sweepCopies()
}

func (s *shell) changeRecord(change func(*record)) {
	next := *s.c.topic.rec
	change(&next)
	s.c.put(func() { s.c.topic.rec = &next })
}

// beginRecopy stores that the mirror is copied anew, with the copy's entries.
func (s *shell) beginRecopy() {
	c := s.c
	c.w.topicsMade++
	id := topicID('c', c.w.topicsMade)
	entries := &meta.Partitions{Topic: id, CopyOf: c.topic.ID}
	for range c.topic.Partitions {
		entries.List = append(entries.List, meta.Partition{Role: meta.RoleMirror})
	}
	next := *c.topic.rec
	next.recopy = &recopy{id: id, since: c.now()}
	c.put(func() {
		c.topic.rec = &next
		c.copies = append(c.copies, entries)
	})
	c.w.log("%s: the mirror is copied anew", c.name)
}

// copyOn goes on with one partition that is copied, or takes the mark away once all are in their places.
func (s *shell) copyOn() bool {
	c := s.c
	id := c.topic.rec.recopy.id
	entries := c.partitionsOf(id)
	var left []int32
	for p := range entries.List {
		if c.topic.parts.List[p].Home != id {
			left = append(left, int32(p))
		}
	}
	if len(left) == 0 {
		s.finishRecopy()
		return true
	}
	p := left[c.w.random.IntN(len(left))]
	at := kafka.PartitionID{Topic: id, Partition: p}
	part := c.owner.Get(at)
	if part == nil || part.Err() != nil {
		return s.openCopy(p, entries)
	}
	f := s.copies[p]
	if f == nil {
		f = &copier{follower: follower{p: p, splice: true, epoch: kafka.NoEpoch, start: kafka.NoOffset}}
		s.copies[p] = f
	}
	mine := c.part(p)
	switch plan.CopyNext(plan.CopyFacts{Copied: f.heard, Level: f.level, CopyEnd: part.Offsets().HighWatermark,
		MirrorEnd: mine.Offsets().HighWatermark, Compared: f.compared}) {
	case plan.CopyFetch:
		return s.fetchCopy(f, part)
	case plan.CopyCompare:
		f.compared = s.compareCopy(p, mine, part)
	case plan.CopySwap:
		delete(s.copies, p)
		err := c.owner.SwapCopy(c.ctx, kafka.PartitionID{Topic: c.topic.ID, Partition: p}, id)
		c.alive()
		c.w.log("%s-%d on %s: the copy takes its place: %v, %+v", topicName, p, c.name, err, c.part(p).Offsets())
		if err != nil && !errors.Is(err, partition.ErrCopyNotReady) && !errors.Is(err, partition.ErrStale) {
			c.w.violate("NoStuckState", "%s-%d on %s: a copy does not take its place: %v", topicName, p, c.name, err)
		}
	}
	return true
}

// openCopy opens a copy; a new one begins where source and mirror both begin at the earliest.
func (s *shell) openCopy(p int32, entries *meta.Partitions) bool {
	c := s.c
	source := c.topic.rec.upstream
	if !c.w.reaches(c, source) {
		return false
	}
	delete(s.copies, p)
	err := c.owner.OpenCopy(kafka.PartitionID{Topic: c.topic.ID, Partition: p}, entries.Topic, entries.List[p])
	c.alive()
	if err != nil {
		c.w.violate("NoStuckState", "%s-%d on %s: a copy does not open: %v", topicName, p, c.name, err)
		return true
	}
	made := c.owner.Get(kafka.PartitionID{Topic: entries.Topic, Partition: p})
	if at := made.Offsets(); at.Generation == 0 && at.LogEnd == 0 {
		e, err := source.ends(p)
		if start := max(e.start, c.part(p).Offsets().LogStart); err == nil && start > 0 {
			_ = made.BecomeMirror(c.ctx, start) // tried again
			c.alive()
		}
	}
	return true
}

// fetchCopy asks the source once and takes what it says: a fetcher of its own, with the rules of the mirror's.
func (s *shell) fetchCopy(f *copier, part *partition.Partition) bool {
	c, source := s.c, s.c.topic.rec.upstream
	id, partitions, err := source.describe()
	if !c.w.reaches(c, source) || source.denies || source.corrupts || err != nil || f.p >= partitions ||
		!c.topic.rec.sourceID.IsZero() && id != c.topic.rec.sourceID {
		return false
	}
	e, err := source.ends(f.p)
	if err != nil {
		return false
	}
	if e.epoch != f.epoch {
		f.epoch, f.splice = e.epoch, true
	}
	if f.mend {
		s.alignCopy(f, part, source)
		return true
	}
	o := part.Offsets()
	if e.start > o.LogStart && !f.splice && o.HighWatermark > o.LogStart {
		_ = part.FollowLogStart(c.ctx, o.Generation, e.start)
		c.alive()
		o = part.Offsets()
	}
	a := ask{partition: f.p, id: c.topic.rec.sourceID, generation: o.Generation, offset: o.LogEnd, lastEpoch: kafka.NoEpoch,
		currentEpoch: f.epoch, maxBytes: 1 + c.w.random.IntN(400)}
	if f.splice {
		last, err := part.LastBatch()
		if err != nil {
			c.alive()
			return true
		}
		if f.splice = last != nil; f.splice {
			a.offset, a.splice, a.maxBytes = last.BaseOffset(), true, 1
		}
	}
	if epochs := part.Epochs(); !f.splice && !f.noEpoch && o.LogEnd > o.LogStart && len(epochs) > 0 {
		a.lastEpoch = epochs[len(epochs)-1].Epoch
	}
	answer := source.serve(a)
	source.alive()
	s.copyAnswered(f, part, a, answer)
	return true
}

func (s *shell) copyAnswered(f *copier, part *partition.Partition, a ask, answer fetched) {
	c := s.c
	switch {
	case kafka.CodeOf(answer.err) == kafka.OffsetOutOfRange:
		f.mend, f.doubt = true, plan.DoubtRange
		return
	case answer.err != nil:
		f.splice = true
		return
	}
	f.heard, f.level = true, !a.splice && !answer.diverging && len(answer.batches) == 0 && answer.high == a.offset
	switch {
	case answer.diverging, len(answer.batches) == 0 && answer.high < a.offset:
		f.mend, f.doubt = true, plan.DoubtHistories
	case a.splice:
		last, err := part.LastBatch()
		c.alive()
		switch {
		case err != nil || last == nil:
		case len(answer.batches) == 0:
			if answer.high < last.NextOffset() {
				f.mend, f.doubt = true, plan.DoubtHistories
			}
		case plan.Compare(last, answer.batches) == plan.SameBatch:
			f.splice = false
		case plan.Compare(last, answer.batches) == plan.CompactedBatch:
			f.mend, f.doubt = true, plan.DoubtRewritten
		default:
			f.mend, f.doubt = true, plan.DoubtContent
		}
	case len(answer.batches) > 0:
		err := part.AppendMirrored(c.ctx, partition.Mirrored{Generation: a.generation, FetchedAt: a.offset,
			Batches: slices.Clone(answer.batches)})
		c.alive()
		c.w.log("the copy of %s-%d on %s takes %d bytes at %d: %v", topicName, f.p, c.name, len(answer.batches), a.offset, err)
		if f.splice = err != nil; err == nil {
			f.noEpoch, f.level = f.reread, answer.high <= part.Offsets().LogEnd
		}
	}
}

// alignCopy compares the copy's history with the source's, and does what plan.Align says.
func (s *shell) alignCopy(f *copier, part *partition.Partition, source *cluster) {
	c := s.c
	h, err := s.gather(&f.follower, part, source)
	if err != nil {
		return // asked again
	}
	v := plan.Align(h)
	c.w.log("the copy of %s-%d on %s: [%d,%d) epoch %d, source [%d,%d) epoch %d, shared %d, doubt %d: course %d to %d %s", topicName,
		f.p, c.name,
		h.MirrorStart, h.MirrorEnd, h.MirrorEpoch, h.SourceStart, h.SourceEnd, h.SourceEpoch, h.Shared, h.Doubt, v.Course, v.To, v.Fault)
	f.mend = false
	switch v.Course {
	case plan.GoOn:
		f.splice, f.noEpoch, f.reread = v.Prove, v.Unnamed, v.Reread
	case plan.LookAgain:
		f.splice = f.splice || v.Prove
	case plan.Jump:
		_, err = part.JumpTo(c.ctx, h.Generation, h.SourceStart, false)
		f.splice, f.noEpoch = true, true
	case plan.Truncate:
		_, err = part.TruncateMirror(c.ctx, h.Generation, v.To, v.Why.Error())
		f.splice, f.cutUnder, f.cutTo = true, h.SourceEpoch, v.To
	case plan.Blame:
		f.splice = true
	}
	c.alive()
	if err != nil {
		f.mend = true
	}
}

// compareCopy wants what both hold to be the same.
func (s *shell) compareCopy(p int32, mine, copied *partition.Partition) bool {
	ours, theirs := mine.Offsets(), copied.Offsets()
	from, to := max(ours.LogStart, theirs.LogStart), min(ours.HighWatermark, theirs.HighWatermark)
	work := verify.New(verify.Spec{From: from, To: max(from, to), Compacted: true, Alone: verify.Counted})
	for {
		side, at, done := work.Next()
		if done {
			break
		}
		part := copied
		if side == verify.Mirror {
			part = mine
		}
		read, err := part.Batches(at)
		if err == nil {
			err = work.Add(side, read)
		}
		s.c.alive()
		if err != nil {
			s.c.w.log("%s-%d on %s: compare it with its copy: %v", topicName, p, s.c.name, err)
			return false
		}
	}
	if found := work.Result(); found.Differences > 0 {
		s.c.w.log("%s-%d on %s: the copy is given up: %s", topicName, p, s.c.name, found.First[0].Why)
		s.changeRecord(func(rec *record) { rec.recopy = nil })
		return false
	}
	return true
}

// finishRecopy takes the mark away, unless it took longer than the source keeps tombstones.
func (s *shell) finishRecopy() {
	c := s.c
	rec := c.topic.rec
	_, missed := plan.Recopied(rec.recopy.since, c.now(), deleteRetention)
	source := rec.upstream
	whole := source.plain != nil || source.topic != nil && source.topic.rec == nil // else it may lack what this one missed
	next := *rec
	next.recopy, next.marked = nil, missed
	c.put(func() {
		c.copies = slices.DeleteFunc(c.copies, func(e *meta.Partitions) bool { return e.Topic == rec.recopy.id })
		c.topic.rec = &next
		for _, seen := range c.topic.seen {
			seen.anew = whole && !missed
		}
	})
	c.w.log("%s: the mirror was copied anew, missed %v", c.name, missed)
}

// sweepCopies removes copies that nobody waits for.
func (c *cluster) sweepCopies() bool {
	for _, e := range c.copies {
		if c.topic != nil && c.topic.ID == e.CopyOf && c.topic.rec != nil && c.topic.rec.recopy != nil && c.topic.rec.recopy.id == e.Topic {
			continue
		}
		err := c.owner.DropCopy(c.ctx, e.CopyOf, e.Topic, int32(len(e.List)))
		c.alive()
		if err != nil {
			c.w.log("%s: a copy stays for now: %v", c.name, err)
			return true
		}
		c.put(func() {
			c.copies = slices.DeleteFunc(slices.Clone(c.copies), func(other *meta.Partitions) bool { return other == e })
		})
		return true
	}
	return false
}

// copiesAnew reports whether a mirror is on the way to having all deletions.
func (c *cluster) copiesAnew() bool {
	rec := c.topic.rec
	return rec != nil && rec.State == mirror.Active && rec.recopy != nil
}

// mayLack reports whether a log may lack deletions, as somebody was told.
func (w *world) mayLack(s *seen) bool { return w.missed[s.root] && !s.anew }

// awayTooLong reports whether the topic is a mirror that will say, when it gets level, that deletions may be missing.
func (c *cluster) awayTooLong() bool {
	if c.shell == nil || c.topic.rec == nil || !c.topic.rec.State.Live() {
		return false
	}
	_, missed := plan.MissedDeletions(c.shell.lastLevel(c.now()), c.now(), deleteRetention)
	return missed
}

// rehomed takes in that a copy has taken the place of a log: what only the old one had, cleaners have removed at the source. A batch
// that is not on the way to the log's own last one was lost by the source in an unclean election; all that followed it there had been
// removed by then, so that the mirror could not tell and went on (see follows). The copy is right not to have it.
func (w *world) rehomed(c *cluster, p int32, s *seen, part *partition.Partition) {
	o := part.Offsets()
	var nodes []*node
	end := s.end()
	for _, b := range readFrom(part, o.LogStart, min(end, o.HighWatermark)) {
		if b.BaseOffset() >= end {
			break // the copy has more: that is looked at as any batch is
		}
		n := w.ledger.find(s.root, b)
		if n == nil || !n.holds(s.tip) {
			if b.BaseOffset() >= s.rootFrom {
				w.violate("MirrorIsPrefixOfSource", "%s-%d on %s: its copy holds [%d..%d] of epoch %d, which it has not got", topicName, p,
					c.name, b.BaseOffset(), b.LastOffset(), b.LeaderEpoch())
			}
			return
		}
		nodes = append(nodes, n)
	}
	for _, n := range s.nodes {
		if !n.retired && n.base >= o.LogStart && n.holds(s.tip) && !slices.Contains(nodes, n) {
			w.violate("T3", "%s-%d on %s: its copy lacks %v, which nobody has removed", topicName, p, c.name, n)
		}
	}
	s.nodes = nodes
}
