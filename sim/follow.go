package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// follower fetches one partition.
type follower struct {
	p        int32
	serial   int // of the question under way, 0 for none
	splice   bool
	aligned  bool
	noEpoch  bool
	reread   bool
	cutUnder kafka.LeaderEpoch
	cutTo    kafka.Offset
	short    int
	epoch    kafka.LeaderEpoch // the source's, as last heard
	mend     bool              // histories must be compared
	doubt    plan.Doubt
	cut      *plan.Aligned // decided, not carried out yet
	cutGen   int64
	cutEpoch kafka.LeaderEpoch // the source's, when that was decided
	fault    plan.Fault
	since    time.Time
	start    kafka.Offset // the source's log start as last heard
	contact  time.Time    // when the question was asked that was answered last
	level    bool         // the source had nothing more when last asked
	heard    bool         // the source has answered since fetching began
}

// assign fetches exactly what is to be fetched: link/running.go's assign and wanted.
func (s *shell) assign() {
	c := s.c
	rec := c.topic.rec
	may := rec != nil && rec.State.Fetches() && !rec.Paused && !c.linkStops && c.linked
	for p := range c.topic.Partitions {
		want := may && c.topic.parts.List[p].Role == meta.RoleMirror
		switch f := s.followers[p]; {
		case want && f == nil:
			s.followers[p] = &follower{p: p, splice: true, epoch: kafka.NoEpoch, start: kafka.NoOffset}
			s.part(p, mirror.FetchOrdered)
		case !want && f != nil:
			delete(s.followers, p)
			if rec != nil && (rec.State == mirror.Stopping || rec.State == mirror.Stopped) {
				s.part(p, mirror.StopOrdered)
			} else if rec != nil && rec.State != mirror.Failed {
				s.part(p, mirror.HoldOrdered)
			}
		}
	}
}

// advance does the next thing for a partition.
func (s *shell) advance(f *follower) {
	part, rec := s.c.part(f.p), s.c.topic.rec
	source := rec.upstream
	switch {
	case part == nil:
	case !s.c.w.calm && s.c.w.chance(120):
		s.find(mirror.SourceFailed) // what ends the mirror is found in another partition
	case f.cut != nil:
		s.carryOutCut(f, part)
	case f.mend:
		if s.c.w.reaches(s.c, source) && (s.c.w.calm || !s.c.w.chance(4)) {
			s.align(f, part, source)
		} else {
			s.fault(f, plan.SourceUnreachable)
		}
	case f.serial == 0 || s.c.w.chance(8):
		s.ask(f, part, source)
	}
}

// ask sends a fetch.
func (s *shell) ask(f *follower, part *partition.Partition, source *cluster) {
	c := s.c
	if f.epoch == kafka.NoEpoch {
		if !c.w.reaches(c, source) {
			s.fault(f, plan.SourceUnreachable)
			return
		}
		if !s.steer(f, source) {
			return
		}
	}
	o := part.Offsets()
	if !c.w.profile.holes && f.start > o.LogStart && !f.splice && o.HighWatermark > o.LogStart {
		err := part.FollowLogStart(s.c.ctx, o.Generation, f.start)
		c.alive()
		if err != nil && !errors.Is(err, partition.ErrStale) {
			c.w.violate("D4", "%s-%d on %s does not follow the log start %d: %v", topicName, f.p, c.name, f.start, err)
		}
	}
	s.serial++
	f.serial = s.serial
	a := ask{
		serial: s.serial, partition: f.p, id: c.topic.rec.sourceID, generation: o.Generation, offset: o.LogEnd,
		lastEpoch: kafka.NoEpoch, currentEpoch: f.epoch, maxBytes: 1 + c.w.random.IntN(400),
	}
	if f.splice {
		last, err := part.LastBatch()
		if err != nil {
			c.alive()
			return
		}
		if f.splice = last != nil; f.splice {
			a.offset, a.splice, a.maxBytes = last.BaseOffset(), true, 1
		}
	}
	if !f.splice && !f.noEpoch && o.LogEnd > o.LogStart {
		if epochs := part.Epochs(); len(epochs) > 0 {
			a.lastEpoch = epochs[len(epochs)-1].Epoch
		}
	}
	id := c.topic.ID
	a.at, a.root = c.now(), source.rootOf(f.p)
	c.w.send(c, source, "fetch", func() {
		answer := source.serve(a)
		source.alive()
		back := func() {
			if c.topic != nil && c.topic.ID == id {
				c.shell.answered(a, answer)
			}
		}
		c.w.keep(func() {
			if c.owner != nil {
				back()
			}
		})
		if c.w.chance(3) || !c.w.reaches(c, source) {
			c.w.send(source, c, "fetched", back)
			return
		}
		back()
	})
}

// steer finds out who leads, and whether the topic is the one it was: link/fetcher's steer and choose.
func (s *shell) steer(f *follower, source *cluster) bool {
	id, partitions, err := source.describe()
	switch {
	case err != nil:
		s.fault(f, plan.TopicMissing)
		return false
	case source.denies:
		s.fault(f, plan.SourceDenied)
		return false
	case !s.c.topic.rec.sourceID.IsZero() && id != s.c.topic.rec.sourceID:
		s.fault(f, plan.TopicIDChanged)
		return false
	case f.p >= partitions:
		s.fault(f, plan.PartitionsFewer)
		return false
	}
	e, err := source.ends(f.p)
	if err != nil {
		return false
	}
	if e.epoch > f.epoch {
		f.splice = f.splice || !f.aligned
		f.epoch = e.epoch
	}
	return true
}

// answered takes what the source said: link/fetcher's answer.
func (s *shell) answered(a ask, answer fetched) {
	f := s.followers[a.partition]
	part := s.c.part(a.partition)
	if f == nil || f.serial != a.serial {
		// It is late, and whoever waited for it is gone. Should it be appended all the same, it must be refused or be what
		// was asked for (rule D3). Not so where the topic was made anew since the question: the fetcher that asked was
		// refused then, and appends nothing after that, for where topics have no ids nobody else can tell (rule E6).
		if part != nil && len(answer.batches) > 0 && !a.splice && answer.err == nil && !s.madeAnew(a) {
			_ = s.append(part, a, answer)
		}
		return
	}
	f.serial, f.heard, f.contact = 0, true, a.at
	switch {
	case answer.err != nil:
		s.refused(f, answer.err)
		return
	case s.c.topic.rec.upstream.corrupts && len(answer.batches) > 0:
		s.fault(f, plan.CorruptBatch)
		return
	}
	f.start = answer.start
	switch {
	case answer.diverging:
		f.mend, f.doubt = true, plan.DoubtHistories
	case a.splice:
		s.spliced(f, part, a, answer)
	case len(answer.batches) == 0:
		f.aligned = false
		if answer.high < a.offset {
			f.mend, f.doubt = true, plan.DoubtHistories
			return
		}
		o := part.Offsets()
		if plan.Orphans(a.offset, plan.Ends{Stable: answer.stable, High: answer.high, End: answer.high},
			plan.Ends{Stable: o.LastStable, High: o.HighWatermark, End: o.LogEnd}) {
			f.mend, f.doubt = true, plan.DoubtOpen
			return
		}
		s.well(f)
		f.level = true
		s.part(f.p, mirror.Level)
	default:
		f.aligned = false
		s.store(f, part, a, answer)
	}
}

// madeAnew reports whether the question went to a Kafka's topic that is another one by now.
func (s *shell) madeAnew(a ask) bool {
	rec := s.c.topic.rec
	return rec != nil && rec.upstream.plain != nil && rec.upstream.rootOf(a.partition) != a.root
}

func (s *shell) refused(f *follower, err error) {
	switch kafka.CodeOf(err) {
	case kafka.OffsetOutOfRange:
		f.mend, f.doubt = true, plan.DoubtRange
	case kafka.TopicAuthorizationFailed:
		s.fault(f, plan.SourceDenied)
	default:
		f.epoch = kafka.NoEpoch // look again who leads
	}
}

// spliced compares the mirror's last batch with what the source has there (rule E6).
func (s *shell) spliced(f *follower, part *partition.Partition, a ask, answer fetched) {
	last, err := part.LastBatch()
	s.c.alive()
	if err != nil || last == nil || last.BaseOffset() != a.offset {
		return
	}
	if len(answer.batches) < batch.HeaderSize {
		if answer.high < last.NextOffset() {
			f.mend, f.doubt = true, plan.DoubtHistories
		}
		return
	}
	switch plan.Compare(last, answer.batches) {
	case plan.SameBatch:
		f.splice, f.aligned = false, false
		s.part(f.p, mirror.Aligned)
		s.well(f)
	case plan.CompactedBatch:
		f.mend, f.doubt = true, plan.DoubtRewritten
	default:
		f.mend, f.doubt = true, plan.DoubtContent
	}
}

// store appends what was fetched.
func (s *shell) store(f *follower, part *partition.Partition, a ask, answer fetched) {
	err := s.append(part, a, answer)
	switch {
	case err == nil:
		f.noEpoch = f.reread
		s.well(f)
		f.level = answer.high <= part.Offsets().LogEnd
		s.part(f.p, mirror.Behind)
	case errors.Is(err, partition.ErrStale):
	case errors.Is(err, partition.ErrEpochBack):
		s.fault(f, plan.AppendEpochBack)
	case errors.Is(err, partition.ErrOverlap):
		s.fault(f, plan.OverlappingBatch)
	default:
		s.fault(f, plan.TargetFailed)
	}
}

func (s *shell) append(part *partition.Partition, a ask, answer fetched) error {
	now := part.Offsets().Generation
	err := part.AppendMirrored(s.c.ctx, partition.Mirrored{Generation: a.generation, FetchedAt: a.offset,
		Batches: slices.Clone(answer.batches)})
	s.c.alive()
	s.c.w.log("%s-%d on %s takes %d bytes at %d: %v", topicName, a.partition, s.c.name, len(answer.batches), a.offset, err)
	if err == nil && a.generation != now {
		s.c.w.violate("D3", "%s-%d on %s, in generation %d, takes what was fetched for generation %d", topicName, a.partition, s.c.name,
			now, a.generation)
	}
	return err
}

// align compares histories and does what plan.Align says: link/fetcher's repair.
func (s *shell) align(f *follower, part *partition.Partition, source *cluster) {
	if !s.steer(f, source) {
		return
	}
	h, err := s.gather(f, part, source)
	if err != nil {
		return // asked again
	}
	v := plan.Align(h)
	s.c.w.log("%s-%d on %s: mirror [%d,%d) epoch %d, source [%d,%d) epoch %d, shared %d, doubt %d: course %d to %d %s", topicName, f.p,
		s.c.name,
		h.MirrorStart, h.MirrorEnd, h.MirrorEpoch, h.SourceStart, h.SourceEnd, h.SourceEpoch, h.Shared, h.Doubt, v.Course, v.To, v.Fault)
	switch v.Course {
	case plan.GoOn:
		f.mend, f.splice, f.aligned, f.short, f.noEpoch = false, v.Prove, !v.Prove, 0, v.Unnamed
		f.reread = v.Reread
		if !v.Prove {
			s.part(f.p, mirror.Aligned)
		}
	case plan.LookAgain:
		f.mend, f.splice = false, f.splice || v.Prove
	case plan.Jump:
		_, err := part.JumpTo(s.c.ctx, h.Generation, v.To, v.Keep || s.c.w.profile.holes)
		s.c.alive()
		if err == nil {
			f.mend, f.splice, f.noEpoch = false, true, true
			s.well(f)
		}
	case plan.Truncate:
		f.cut, f.cutGen, f.cutEpoch = &v, h.Generation, h.SourceEpoch
		s.part(f.p, mirror.Diverged)
	case plan.Blame:
		if v.Twice {
			if f.short++; f.short < 2 {
				return
			}
		}
		f.mend, f.splice = false, true
		s.fault(f, v.Fault)
	}
}

// gather asks both sides.
func (s *shell) gather(f *follower, part *partition.Partition, source *cluster) (plan.Histories, error) {
	o := part.Offsets()
	h := plan.Histories{
		Doubt: f.doubt, Source: kafka.TopicPartition{Topic: topicName, Partition: f.p}, Known: !s.c.topic.rec.sourceID.IsZero(),
		Generation: o.Generation, MirrorStart: o.LogStart, MirrorEnd: o.LogEnd, Open: o.LastStable < o.LogEnd,
		CutUnder: f.cutUnder, CutTo: f.cutTo,
	}
	e, err := source.ends(f.p)
	if err != nil {
		return h, err
	}
	h.SourceStart, h.SourceEnd, h.SourceStable, h.SourceEpoch = e.start, e.end, e.stable, e.epoch
	epochs := part.Epochs()
	if h.Empty = o.LogStart == o.LogEnd || len(epochs) == 0; h.Empty || h.SourceStart > h.MirrorEnd {
		return h, nil
	}
	h.MirrorEpoch = epochs[len(epochs)-1].Epoch
	last, err := part.LastBatch()
	if err != nil || last == nil {
		return h, partition.ErrStale
	}
	h.LastBase = last.BaseOffset()
	err = plan.FindShared(&h, part, func(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error) {
		return source.epochEnd(f.p, e.epoch, epoch)
	})
	return h, err
}

// carryOutCut truncates the mirror to what is common (rule E2).
func (s *shell) carryOutCut(f *follower, part *partition.Partition) {
	v := f.cut
	if s.unlucky(f) {
		return
	}
	kept, err := part.TruncateMirror(s.c.ctx, f.cutGen, v.To, v.Why.Error())
	s.c.alive()
	s.c.w.log("%s-%d on %s cut to %d: %v", topicName, f.p, s.c.name, v.To, err)
	f.cut, f.mend = nil, err != nil
	if err == nil {
		f.splice, f.short = true, 0
		f.cutUnder, f.cutTo = f.cutEpoch, v.To
		s.noteCut(f.p, kept)
	}
	s.part(f.p, mirror.CutDone)
	s.well(f)
}

// unlucky is what may come between the decision to cut and the cut.
func (s *shell) unlucky(f *follower) bool {
	w := s.c.w
	if w.calm || w.chance(8) {
		return false
	}
	switch n := w.random.IntN(16); {
	case n < 5:
		s.fault(f, plan.TargetFailed)
	case n < 10:
		s.find(mirror.SourceFailed)
	case n < 14:
		s.c.orderVerb(mirror.PauseAsked)
		s.assign()
	default:
		s.c.orderVerb(mirror.FailoverAsked)
		s.assign()
	}
	return true
}

// fault notes what stands in a partition's way.
func (s *shell) fault(f *follower, fault plan.Fault) {
	if f.fault == plan.NoFault {
		s.part(f.p, mirror.FaultSeen)
	}
	if f.fault != fault {
		f.fault, f.since = fault, s.c.now()
	}
	f.level = false
}

// well notes that nothing stands in its way any more.
func (s *shell) well(f *follower) {
	if f.fault != plan.NoFault {
		f.fault = plan.NoFault
		s.part(f.p, mirror.FaultGone)
	}
	if !f.splice && !f.mend {
		s.part(f.p, mirror.Aligned)
	}
}

// judge looks whether faults have outlasted the link's patience: link/faults.go's.
func (s *shell) judge() {
	var list []plan.PartitionFault
	for p := range s.c.topic.Partitions {
		if f := s.followers[p]; f != nil && f.fault != plan.NoFault {
			list = append(list, plan.PartitionFault{Partition: p, Fault: f.fault, Since: f.since})
		}
	}
	if plan.JudgeFaults(list, s.c.now(), limits).Judgement != plan.Fail {
		return
	}
	// The finding is stored a moment later, whatever has been ordered meanwhile.
	s.find(mirror.SourceFailed)
	if s.c.w.chance(4) && !s.c.w.calm {
		s.c.orderVerb(mirror.PauseAsked)
	}
}

// limits are short, so that they pass within a schedule.
var limits = plan.Limits{Retry: 300 * time.Millisecond, Unreachable: 100 * time.Millisecond}
