package sim

import (
	"math"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/meta"
)

// carryOut does one effect, or the next piece of it; it reports whether the effect is done. Each may be done twice.
func (s *shell) carryOut(e mirror.Effect) bool {
	s.c.w.log("%s carries out %v", s.c.name, e)
	switch e {
	case mirror.StartFetch, mirror.StopFetch:
		s.assign()
	case mirror.RunChecks:
		s.promotion.running = true
	case mirror.ClampGroups:
		s.clampGroups()
	case mirror.Fence:
		return s.fence()
	}
	// The effects of reversals and restores are takeTurn's, which reads from the record what is left to do.
	return true
}

// clampGroups lowers group offsets above the ends of partitions that are not open yet (rule G1).
func (s *shell) clampGroups() {
	t := s.c.topic
	ends := make([]kafka.Offset, t.Partitions)
	for p := range t.Partitions {
		ends[p] = math.MaxInt64
		if t.parts.List[p].Role != meta.RoleOpen {
			ends[p] = s.c.part(p).Offsets().LogEnd
		}
	}
	s.c.clamp(ends)
}

// fence stops the partitions (rule D1).
func (s *shell) fence() bool {
	c := s.c
	if c.state() != mirror.Stopping {
		return true
	}
	if s.draining() {
		// Nothing is fetched any more; what was written is synced before the stop points are stored.
		if c.w.chance(3) {
			c.w.pass(20 * time.Millisecond)
			c.alive()
		}
		for p := range c.topic.Partitions {
			s.part(p, mirror.StopOrdered)
			s.part(p, mirror.Synced)
		}
		return false
	}
	var closed []int32
	for p := range c.topic.Partitions {
		s.part(p, mirror.StopOrdered)
		if entry := c.topic.parts.List[p]; entry.Role != meta.RoleOpen && entry.Frozen == nil {
			closed = append(closed, p) // what is frozen was not cut yet, and opens without a stop point (rule T4)
		}
	}
	s.markMissed()
	err := c.owner.StopMirrors(c.ctx, []kafka.TopicID{c.topic.ID}, "link")
	c.alive()
	c.w.settle()
	c.alive()
	if err != nil {
		c.w.log("%s: fence: %v", c.name, err)
		return false
	}
	for p := range c.topic.Partitions {
		s.part(p, mirror.StopStored)
	}
	s.checkStopped(closed)
	s.find(mirror.Fenced)
	return true
}

// draining reports whether a partition is not known to be synced yet.
func (s *shell) draining() bool {
	for p := range s.c.topic.Partitions {
		if part := s.parts[p]; part != mirror.Fencing && part != mirror.Open {
			return true
		}
	}
	return false
}

// setUp gives the partitions of a new or widened mirror their starts: link/mirror_create.go's. It reports whether there
// was something to do.
func (s *shell) setUp() bool {
	c := s.c
	if !c.state().Follows() {
		return false
	}
	for p := range c.topic.Partitions {
		if entry := c.topic.parts.List[p]; entry.Role != meta.RoleFrozen || entry.Frozen != nil {
			continue
		}
		source := c.topic.rec.upstream
		if !c.w.reaches(c, source) {
			return false
		}
		e, err := source.ends(p)
		if err != nil {
			return false
		}
		_ = c.part(p).BecomeMirror(c.ctx, e.start) // tried again
		c.alive()
		return true
	}
	return false
}

// askAgain looks after what a lost letter, or a finding that came late, has left undone. It reports whether there was something.
func (s *shell) askAgain() bool {
	c := s.c
	if !c.w.chance(3) {
		return false
	}
	if c.state() == mirror.Stopping {
		s.todo = leftToDo[mirror.Stopping]
		return true
	}
	return false
}
