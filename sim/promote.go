package sim

import (
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// promotion is how far the checks of a promotion have come: link/promote.go's, in the order of rule G2.
type promotion struct {
	running bool
	synced  bool // group offsets, since the data was level
	ends    []kafka.Offset
}

// checkPromotion does the next check.
func (s *shell) checkPromotion() {
	c := s.c
	if c.state() != mirror.PendingStopped || !s.promotion.running {
		return
	}
	source := c.topic.rec.upstream
	facts := plan.PromoteFacts{Topic: topicName, MirrorPartitions: c.topic.Partitions, OffsetsWanted: true, OffsetsDone: s.promotion.synced}
	if c.w.reaches(c, source) && !c.linkStops {
		facts.DataLevel, facts.DataText, s.promotion.ends = s.level(source)
		_, facts.SourcePartitions, _ = source.describe()
	}
	if facts.DataLevel && !s.promotion.synced {
		s.promotion.synced = s.syncGroupsNow(source)
		return
	}
	if !facts.DataLevel {
		s.promotion.synced = false
	}
	if len(plan.PromoteObstacles(facts)) == 0 {
		s.promised = s.promotion.ends
		if s.promised == nil {
			s.promised = c.sourceEnds()
		}
		s.find(mirror.ChecksPassed)
	}
}

// level reports whether the source has nothing more and nothing open (rules X2, P5): link/fetcher's CaughtUp.
func (s *shell) level(source *cluster) (bool, string, []kafka.Offset) {
	id, partitions, err := source.describe()
	switch {
	case err != nil:
		return false, err.Error(), nil
	case !s.c.topic.rec.sourceID.IsZero() && id != s.c.topic.rec.sourceID:
		return false, "the source topic was made anew", nil
	case partitions != s.c.topic.Partitions:
		return false, "another number of partitions", nil
	}
	var list []kafka.Offset
	for p := range partitions {
		f, e := s.followers[p], s.c.part(p).Offsets()
		there, err := source.ends(p)
		if f == nil || f.splice || f.mend || f.cut != nil || f.fault != plan.NoFault || err != nil ||
			e.HighWatermark != e.LogEnd || there.end != e.LogEnd || there.stable != there.end {
			return false, "not level", nil
		}
		list = append(list, there.end)
	}
	return true, "", list
}

// checkStopped is what holds when all partitions of a mirror have their stop points: after a promotion nothing is lost that the
// source had when it was checked, and no transaction was cut through.
func (s *shell) checkStopped(closed []int32) {
	c := s.c
	for _, p := range closed {
		entry, o := c.topic.parts.List[p], c.part(p).Offsets()
		if s.promised != nil && entry.Stop != nil && entry.Stop.Offset < s.promised[p] {
			c.w.violate("X2", "%s-%d on %s was promoted at %d, its source had up to %d when it was checked", topicName, p, c.name,
				entry.Stop.Offset, s.promised[p])
		}
		// A source that was forced out of its hand-over takes records again, and a mirror that has not stopped yet may copy some.
		source := c.topic.rec.upstream
		if t := c.topic.rec.turn; t != nil && t.handed && !t.over && source.plain == nil && source.topic != nil &&
			source.frozenFor(t.id) && entry.Stop != nil && entry.Stop.Offset != t.ends[p] {
			c.w.violate("R1", "%s-%d on %s completes a reversal at %d, the source stated %d", topicName, p, c.name, entry.Stop.Offset, t.ends[p])
		}
		if entry.Role != meta.RoleOpen || entry.Stop == nil {
			c.w.violate("D1", "%s-%d on %s is fenced without a stop point", topicName, p, c.name)
			return
		}
		if o.LastStable != o.HighWatermark {
			c.w.violate("D9", "%s-%d on %s has an open transaction behind its stop: %d of %d", topicName, p, c.name, o.LastStable, o.HighWatermark)
		}
	}
}

// sourceEnds is what the source has now.
func (c *cluster) sourceEnds() []kafka.Offset {
	var list []kafka.Offset
	for p := range c.topic.Partitions {
		e, err := c.topic.rec.upstream.ends(p)
		if err != nil {
			e.end = 0
		}
		list = append(list, e.end)
	}
	return list
}
