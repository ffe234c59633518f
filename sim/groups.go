package sim

import (
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// commit is what a group has committed of one partition.
type commit struct {
	offset kafka.Offset
	synced bool // by a link's copy; else by a consumer here
	cut    bool // a truncation went below it, and the clamp is still to come
}

var groupNames = []string{"g1", "g2"}

// offsetsOf is a group's offsets by partition, -1 for none.
func (c *cluster) offsetsOf(group string) []kafka.Offset {
	list := make([]kafka.Offset, partitionsMax)
	for p := range list {
		list[p] = kafka.NoOffset
		if c.plain != nil {
			list[p] = c.plain.commits[group][p]
		} else if c.topic != nil && p < len(c.topic.groups[group]) {
			list[p] = c.topic.groups[group][p].offset
		}
	}
	return list
}

// setCommit stores one.
func (c *cluster) setCommit(group string, p int32, to commit) {
	if role := c.topic.parts.List[p].Role; to.synced && role != meta.RoleMirror {
		c.w.violate("G1", "group %s is set to %d of %s-%d on %s by a copy from the source, and that is %s", group, to.offset, topicName,
			p, c.name, role)
	}
	list := c.topic.groups[group]
	for len(list) < int(c.topic.Partitions) {
		list = append(list, commit{offset: kafka.NoOffset})
	}
	c.put(func() {
		list[p] = to
		c.topic.groups[group] = list
	})
}

// clamp lowers all groups to ends, by partition: the group coordinator's Clamp.
func (c *cluster) clamp(ends []kafka.Offset) {
	for _, group := range groupNames {
		for p, have := range c.topic.groups[group] {
			if p < len(ends) && have.offset > ends[p] {
				// An end that a stop is still to sync is shown before anybody reads up to it.
				have.offset, have.cut, have.synced = ends[p], have.cut && ends[p] > c.part(int32(p)).Offsets().HighWatermark, false
				c.setCommit(group, int32(p), have)
			}
		}
	}
}

// noteCut remembers that group offsets above a truncation are void: link/faults.go's.
func (s *shell) noteCut(p int32, to kafka.Offset) {
	if known, is := s.cuts[p]; !is || to < known {
		s.cuts[p] = to
	}
	end := s.c.part(p).Offsets().HighWatermark // below the cut where all is copied again (rule T2)
	for _, group := range groupNames {
		if list := s.c.topic.groups[group]; int(p) < len(list) && list[p].offset > min(to, end) {
			list[p].cut = true
		}
	}
}

// recallCuts notes the truncations that a crash may have kept from being followed by a clamp.
func (s *shell) recallCuts() {
	if !s.c.state().Live() {
		return
	}
	for p, entry := range s.c.topic.parts.List {
		for _, cut := range entry.Cuts {
			s.noteCut(int32(p), cut.Offset)
		}
	}
}

func (s *shell) clampCuts() {
	for p := range s.c.topic.Partitions {
		to, is := s.cuts[p]
		if !is {
			continue
		}
		ends := make([]kafka.Offset, s.c.topic.Partitions)
		for q := range ends {
			ends[q] = 1 << 60
		}
		ends[p] = to
		s.c.clamp(ends)
		delete(s.cuts, p)
	}
}

// syncGroups copies a group's offsets from the source: asked for by one letter, written when the answer comes.
func (s *shell) syncGroups() {
	c := s.c
	if c.topic == nil || !c.state().Follows() || c.topic.rec.Paused || c.linkStops || !c.linked {
		return
	}
	source, id, bounds := c.topic.rec.upstream, c.topic.ID, s.bounds()
	group := groupNames[c.w.random.IntN(len(groupNames))]
	c.w.send(c, source, "group offsets?", func() {
		there := source.offsetsOf(group)
		back := func() {
			if c.owner != nil && c.topic != nil && c.topic.ID == id {
				c.shell.copyOffsets(group, there, bounds)
			}
		}
		c.w.keep(back)
		c.w.send(source, c, "group offsets", back)
	})
}

// bounds is each mirror partition as it is when a copy begins.
func (s *shell) bounds() []plan.Bound {
	list := make([]plan.Bound, s.c.topic.Partitions)
	for p := range s.c.topic.Partitions {
		o := s.c.part(p).Offsets()
		list[p] = plan.Bound{Mirror: kafka.TopicPartition{Topic: topicName, Partition: p}, Start: o.LogStart, End: o.HighWatermark,
			Generation: o.Generation}
	}
	return list
}

// copyOffsets writes what plan.CopyOffsets says, where the mirror is still the one it was (rule G1): the coordinator's CommitSynced,
// which takes the end of this moment as an upper bound once more.
func (s *shell) copyOffsets(group string, there []kafka.Offset, bounds []plan.Bound) {
	c := s.c
	var source []plan.Commit
	for p, offset := range there {
		source = append(source, plan.Commit{TopicPartition: kafka.TopicPartition{Topic: topicName, Partition: int32(p)}, Offset: offset})
	}
	here := map[kafka.TopicPartition]plan.Commit{}
	for p, have := range c.topic.groups[group] {
		tp := kafka.TopicPartition{Topic: topicName, Partition: int32(p)}
		here[tp] = plan.Commit{TopicPartition: tp, Offset: have.offset}
	}
	copies := plan.CopyOffsets(source, func(tp kafka.TopicPartition) (plan.Bound, bool) {
		if int(tp.Partition) >= len(bounds) {
			return plan.Bound{}, false
		}
		return bounds[tp.Partition], true
	}, here)
	for _, one := range copies.Copies {
		p := one.TopicPartition.Partition
		if now := s.bounds()[p]; !plan.StillCopied(bounds[p], now, c.state().Follows() && c.topic.parts.List[p].Role == meta.RoleMirror) {
			continue
		}
		c.setCommit(group, p, commit{offset: min(one.Offset, c.part(p).Offsets().HighWatermark), synced: true})
	}
}

// syncGroupsNow is the forced copy of a promotion.
func (s *shell) syncGroupsNow(source *cluster) bool {
	for _, group := range groupNames {
		s.copyOffsets(group, source.offsetsOf(group), s.bounds())
	}
	return true
}
