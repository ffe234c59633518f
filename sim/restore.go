package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// restoreCut is what a restore does to one partition: meta.RestoreCut.
type restoreCut struct {
	to, tail, groups, end kafka.Offset
	kept                  bool
}

// quarantine is the topic that keeps what a restore cuts off.
type quarantine struct {
	meta.Topic
	parts meta.Partitions
	turn  string
}

// orderRestore makes the topic a mirror of what was its mirror: link/restore_orders.go's, after it has asked that side.
func (c *cluster) orderRestore(peer *cluster, paused bool) {
	if peer.plain != nil || peer.topic == nil || !c.w.reaches(c, peer) || !c.linked || !peer.linked {
		return
	}
	if rec := c.topic.rec; rec != nil && rec.pledge != nil {
		return
	}
	if rec := c.topic.rec; rec != nil && rec.turn != nil && rec.State == mirror.Stopped &&
		plan.MayTurn(topicName, mirror.RestoreAsked, c.frozenFor(rec.turn.id), rec.turn.release) != nil {
		return
	}
	id := plan.TurnID(c.topic.ID, c.nextTurn())
	if err := plan.MayPledge(peer.pledgeFacts(), id, c.topic.ID, c.name); err != nil {
		c.w.log("order to %s: restore from %s is refused: %v", c.name, peer.name, err)
		return
	}
	now := c.state()
	plain := c.topic.rec == nil
	err := c.shell.step(mirror.RestoreAsked, func(rec *record) {
		if now != mirror.Stopped && now != mirror.PendingMirror {
			return
		}
		remember(rec, now)
		rec.upstream, rec.sourceID = peer, peer.topic.ID
		rec.turns = c.nextTurn()
		before := rec.turn
		rec.turn = &turn{id: id, restore: true, release: true, paused: paused, plain: plain, since: c.now()}
		if now == mirror.PendingMirror {
			rec.turn.from, rec.turn.plain = before.id, before.plain
		}
	})
	c.w.log("order to %s, %v: restore from %s, paused %v: %v", c.name, now, peer.name, paused, err)
}

func (c *cluster) nextTurn() int64 {
	if c.topic.rec == nil {
		return c.now().UnixMilli() + 1
	}
	return c.topic.rec.turns + 1
}

// pledgeFacts is the topic in link/plan's words.
func (c *cluster) pledgeFacts() plan.PledgeFacts {
	f := plan.PledgeFacts{SideFacts: c.sideFacts()}
	if rec := c.topic.rec; rec != nil {
		f.Recorded, f.SourceTopicID, f.SourceCluster, f.Withdrawn = true, rec.sourceID, rec.upstream.name, rec.withdrawn
	}
	return f
}

// setUpRestore freezes the topic, has the other side pledge, and stores where the histories part: link/restore.go's.
func (s *shell) setUpRestore(m *record) {
	c := s.c
	if c.frozenEnds(m.turn.id) == nil {
		s.freeze(m)
		return
	}
	id, topic := m.turn.id, c.topic.ID
	s.question(m.upstream, "pledge "+id, func(peer *cluster, reply func(func())) {
		partitions, stopped, err := peer.answerPledge(c, id, topic)
		err = m.another(peer, err)
		reply(func() {
			switch {
			case err != nil && plan.Final(kafka.CodeOf(err)) || err == nil && partitions < c.topic.Partitions:
				c.w.log("%s: no pledge to %s: %v", c.name, id, err)
				if m.turn.from == "" { // one that was frozen before stays frozen (rule R1)
					s.stepTurn(m, mirror.PeerRefused, nil)
				}
			case err == nil && s.still(m):
				s.findCuts(m, stopped, nil)
			}
		})
	})
}

// another refuses the pledge of a topic that is not the one the restore was ordered from (rule T10): link/restore.go's askPledge.
func (rec *record) another(peer *cluster, err error) error {
	if err == nil && peer.topic.ID != rec.sourceID {
		return kafka.InvalidRequest
	}
	return err
}

// answerPledge gives a pledge (rule T1): link/pledge.go's.
func (c *cluster) answerPledge(asker *cluster, id string, topic kafka.TopicID) (partitions int32, stopped time.Time, err error) {
	if c.topic == nil || !c.linked {
		return 0, stopped, kafka.UnknownTopicOrPartition
	}
	if err := plan.MayPledge(c.pledgeFacts(), id, topic, asker.name); err != nil {
		c.w.counts.topics[c.state()][mirror.PledgeAsked]++
		return 0, stopped, err
	}
	err = c.shell.step(mirror.PledgeAsked, func(rec *record) {
		if rec.pledge == nil || rec.pledge.id != id {
			rec.pledge = &pledge{id: id, topic: topic, cluster: asker}
		}
	})
	return c.topic.Partitions, c.topic.rec.since, err
}

// findCuts asks for the other side's histories, first the lineages, then with common the batches below where they part.
func (s *shell) findCuts(m *record, stopped time.Time, common []kafka.Offset) {
	c, id := s.c, s.c.topic.ID
	wanted := m.sourceID
	s.question(m.upstream, "lineage", func(peer *cluster, reply func(func())) {
		if peer.topic == nil || peer.topic.ID != wanted {
			return
		}
		theirs := make([]plan.LogFacts, c.topicPartitions(id))
		for p := range theirs {
			if p < int(peer.topic.Partitions) {
				theirs[p] = peer.logFacts(int32(p), at(common, p), c.name)
			}
		}
		reply(func() {
			if s.still(m) && len(theirs) == int(c.topic.Partitions) {
				s.compareHistories(m, stopped, theirs, common)
			}
		})
	})
}

func (c *cluster) topicPartitions(id kafka.TopicID) int32 {
	if c.topic == nil || c.topic.ID != id {
		return 0
	}
	return c.topic.Partitions
}

func at(list []kafka.Offset, p int) kafka.Offset {
	if p < len(list) {
		return list[p]
	}
	return 0
}

func (s *shell) compareHistories(m *record, stopped time.Time, theirs []plan.LogFacts, common []kafka.Offset) {
	c := s.c
	ends := c.frozenEnds(m.turn.id)
	if ends == nil {
		return
	}
	mine := make([]plan.LogFacts, len(theirs))
	for p := range mine {
		mine[p] = c.logFacts(int32(p), at(common, p), m.upstream.name)
		mine[p].End = ends[p]
	}
	if common == nil {
		for p := range mine {
			common = append(common, plan.Common(mine[p], theirs[p]))
		}
		s.findCuts(m, stopped, common)
		return
	}
	cuts, found := make([]restoreCut, len(mine)), make([]plan.Cut, len(mine))
	for p := range cuts {
		unseen := c.w.profile.compact && c.now().Sub(stopped) > deleteRetention && theirs[p].CleanedTo > common[p]
		cut := plan.FindCut(mine[p], theirs[p], common[p], unseen)
		found[p] = cut
		cuts[p] = restoreCut{to: cut.To, tail: cut.Tail, groups: cut.Groups, end: ends[p], kept: cut.Tail >= ends[p]}
		c.w.log("%s-%d on %s: [%d,%d) and [%d,%d) have %d in common: %+v", topicName, p, c.name, mine[p].Start, mine[p].End,
			theirs[p].Start, theirs[p].End, common[p], cut)
		c.w.checkRestoreCut(c, m.upstream, int32(p), cuts[p])
	}
	s.stepTurn(m, mirror.CutsStored, func(rec *record) {
		t := *rec.turn
		t.cuts = cuts
		rec.turn = &t
		rec.levelAt = plan.RestoredLevel(found, theirs, stopped, c.now())
	})
}

// logFacts is the history of a partition as it is told to asker: link/pledge.go's wireLog and link/restore.go's peerFacts.
func (c *cluster) logFacts(p int32, below kafka.Offset, asker string) plan.LogFacts {
	h, err := c.owner.History(kafka.PartitionID{Topic: c.topic.ID, Partition: p}, below)
	c.alive()
	if err != nil {
		c.w.violate("NoStuckState", "%s-%d on %s tells no history: %v", topicName, p, c.name, err)
	}
	f := plan.LogFacts{Start: h.Start, End: h.End, CleanedTo: h.CleanedTo, Stop: kafka.NoOffset}
	if h.Entry.Stop != nil {
		f.Stop = h.Entry.Stop.Offset
	}
	first := c.name
	if len(h.Entry.Lineage) > 0 || h.Entry.Stop != nil || h.Entry.Role == meta.RoleMirror {
		first = ""
	}
	var entries []plan.Minted
	for _, e := range h.Entry.Lineage {
		entries = append(entries, plan.Minted(e))
	}
	f.Epochs = plan.Lineage(h.Epochs, entries, first, asker)
	for _, one := range h.Marks {
		f.Marks = append(f.Marks, plan.BatchMark(one))
	}
	return f
}

// otherTail reports whether a partition's last batches are not those that the source froze, or cannot be compared now.
func (s *shell) otherTail(m *record) bool {
	source := m.upstream
	if !s.c.w.reaches(s.c, source) || source.topic == nil || source.topic.ID != m.sourceID {
		return true
	}
	for p, end := range m.turn.ends {
		if plan.OtherTail(s.c.logFacts(int32(p), end, source.name), source.logFacts(int32(p), end, s.c.name), end) {
			return true
		}
	}
	return false
}

// restore carries the cuts out and lets the topic follow its peer: link/restore.go's.
func (s *shell) restore(m *record) {
	c := s.c
	switch {
	case c.frozenFor(m.turn.id):
		s.makeSure(m)
	case s.following():
		e := mirror.Restored
		if m.turn.paused {
			e = mirror.RestoredPaused
		}
		s.stepTurn(m, e, nil)
	}
}

// makeSure asks whether the pledge stands, then copies or cuts.
func (s *shell) makeSure(m *record) {
	id, topic := m.turn.id, s.c.topic.ID
	s.question(m.upstream, "pledge "+id+" once more", func(peer *cluster, reply func(func())) {
		_, _, err := peer.answerPledge(s.c, id, topic)
		err = m.another(peer, err)
		reply(func() {
			switch {
			case err != nil || !s.still(m) || !s.c.frozenFor(id):
			case slices.ContainsFunc(s.c.topic.rec.turn.cuts, func(one restoreCut) bool { return !one.kept }):
				s.quarantine(s.c.topic.rec)
			default:
				s.cut(s.c.topic.rec)
			}
		})
	})
}

// following reports whether every partition has heard of the peer.
func (s *shell) following() bool {
	for p := range s.c.topic.Partitions {
		if f := s.followers[p]; f == nil || !f.heard {
			return false
		}
	}
	return true
}

// cut clamps group offsets to the cuts, before anything has come from the peer (rule T8), then truncates and follows.
func (s *shell) cut(m *record) {
	c := s.c
	groups, tos := make([]kafka.Offset, len(m.turn.cuts)), make([]kafka.Offset, len(m.turn.cuts))
	for p, one := range m.turn.cuts {
		groups[p], tos[p] = one.groups, one.to
	}
	c.clamp(groups)
	c.w.excuse(c, m.turn)
	c.w.checkCutGroups(c, m.upstream, tos)
	s.becomeMirror(m, tos)
}

// quarantine copies what will be cut off into a topic of its own (rule T7).
func (s *shell) quarantine(m *record) {
	c := s.c
	q := c.quarantineOf(m.turn.id)
	if q == nil {
		c.w.topicsMade++
		id := topicID('q', c.w.topicsMade)
		q = &quarantine{Topic: meta.Topic{ID: id, Name: "hawser.cut.t", Partitions: c.topic.Partitions},
			parts: meta.Partitions{Topic: id}, turn: m.turn.id}
		for range c.topic.Partitions {
			q.parts.List = append(q.parts.List, meta.Partition{Role: meta.RoleFrozen})
		}
		c.put(func() { c.kept = append(c.kept, q) })
	}
	c.openQuarantine(q)
	for p, one := range m.turn.cuts {
		part := c.owner.Get(kafka.PartitionID{Topic: q.ID, Partition: int32(p)})
		if part.Offsets().Role != meta.RoleMirror {
			err := part.BecomeMirror(c.ctx, one.tail)
			c.alive()
			if err != nil {
				c.w.log("%s: begin a quarantine: %v", c.name, err)
				return
			}
		}
		if one.kept {
			continue
		}
		err := c.owner.CopyTail(c.ctx, kafka.PartitionID{Topic: c.topic.ID, Partition: int32(p)}, part.ID(), one.tail, one.end)
		c.alive()
		if err != nil {
			c.w.log("%s: copy a tail: %v", c.name, err)
			return
		}
	}
	s.changeTurn(m, func(t *turn) {
		t.cuts = slices.Clone(t.cuts)
		for p := range t.cuts {
			t.cuts[p].kept = true
		}
	})
}

func (c *cluster) quarantineOf(turn string) *quarantine {
	for _, q := range c.kept {
		if q.turn == turn {
			return q
		}
	}
	return nil
}

func (c *cluster) openQuarantine(q *quarantine) {
	err := c.owner.Open(&q.Topic, &meta.Partitions{Topic: q.ID, List: slices.Clone(q.parts.List)}, c.topicConfig(false))
	c.alive()
	if err != nil {
		c.w.violate("NoStuckState", "%s does not open a quarantine: %v", c.name, err)
	}
}

// release gives the pledge back.
func (s *shell) release(m *record) {
	c := s.c
	id := m.turn.id
	s.question(m.upstream, "release "+id, func(peer *cluster, reply func(func())) {
		peer.dropPledge(id)
		reply(func() {
			if m.State == mirror.Stopped && m.turn.plain && m.turn.cuts == nil {
				if s.still(m) {
					c.put(func() { c.topic.rec = nil })
				}
				return
			}
			s.changeTurn(m, func(t *turn) { t.release = false })
		})
	})
}

func (c *cluster) dropPledge(id string) {
	if c.topic == nil || c.topic.rec == nil || c.topic.rec.pledge == nil || c.topic.rec.pledge.id != id {
		return
	}
	next := *c.topic.rec
	next.pledge = nil
	c.put(func() { c.topic.rec = &next })
}

// checkRestoreCut: what stays of a log is a prefix of the other side's, and what is no prefix goes (rules T1 to T5).
func (w *world) checkRestoreCut(c, peer *cluster, p int32, cut restoreCut) {
	if cut.to == kafka.NoOffset || peer.topic == nil || int(p) >= len(peer.topic.seen) {
		return
	}
	if peer.topic.ID != c.topic.rec.sourceID {
		return // that which told its history is gone by now, and nobody confirms the pledge before the cut
	}
	mine, theirs := c.topic.seen[p], peer.topic.seen[p]
	if p == 0 && mine.root != theirs.root { // partitions added on both sides have two roots
		w.violate("T10", "%s on %s is restored from %s, which holds another topic's history", topicName, c.name, peer.name)
	}
	if n := mine.at(cut.to); n != nil && theirs.tip != nil && n.base >= theirs.start && !n.holds(theirs.tip) {
		w.violate("T4", "%s-%d on %s keeps %v, which is not %s's", topicName, p, c.name, n, peer.name)
	}
}

// excuse takes the records that a restore cuts off from those that must be in the log, if they are in the quarantine.
func (w *world) excuse(c *cluster, t *turn) {
	q := c.quarantineOf(t.id)
	for _, a := range c.topic.acked {
		cut := t.cuts[a.partition]
		switch {
		case a.node == nil || a.node.retired || a.excused:
			continue
		case a.offset < cut.tail:
			a.excused = cut.to == kafka.NoOffset // it comes again with the copy
			continue
		case q == nil:
			w.violate("T7", "%s-%d on %s is cut to %d without a quarantine", topicName, a.partition, c.name, cut.to)
			return
		}
		part := c.owner.Get(kafka.PartitionID{Topic: q.ID, Partition: a.partition})
		found := false
		if part != nil {
			for _, b := range readFrom(part, a.node.base, a.node.next) {
				found = found || w.ledger.find(c.topic.seen[a.partition].root, b) == a.node
			}
		}
		if !found {
			w.violate("T7", "%s-%d on %s: record %d, acknowledged at %d, is cut off and not in the quarantine", topicName, a.partition,
				c.name, a.record, a.offset)
			return
		}
		a.excused = true
	}
}

// checkCutGroups: no group stands beyond what both sides have when the cut is made, or it would miss what comes from the peer (rule T8).
func (w *world) checkCutGroups(c, peer *cluster, tos []kafka.Offset) {
	for p := range c.topic.Partitions {
		for _, group := range groupNames {
			list := c.topic.groups[group]
			if int(p) >= len(list) || int(p) >= len(tos) { // added since the cuts were stored
				continue
			}
			list[p].cut = list[p].cut || tos[p] == kafka.NoOffset // it is copied again up to there
			if peer.topic == nil || p >= peer.topic.Partitions {
				continue
			}
			common := w.commonEnd(c.topic.seen[p], peer.topic.seen[p])
			if list[p].offset > common && peer.topic.seen[p].between(common, list[p].offset) {
				w.violate("T8", "group %s stands at %d of %s-%d on %s, which has [..%d) in common with %s", group, list[p].offset, topicName, p,
					c.name, common, peer.name)
			}
		}
	}
}

// commonEnd is where two histories part.
func (w *world) commonEnd(a, b *seen) kafka.Offset {
	if b.tip == nil {
		return b.end()
	}
	mine := map[*node]bool{}
	for q := cmp.Or(a.tip, a.passed); q != nil; q = q.before() {
		mine[q] = true
	}
	for q := b.tip; q != nil; q = q.before() {
		if mine[q] {
			return q.next
		}
	}
	return 0
}

// between reports whether the log holds, or will hold, something that begins in [from, to).
func (s *seen) between(from, to kafka.Offset) bool {
	return s.end() < to ||
		slices.ContainsFunc(s.nodes, func(n *node) bool { return max(n.base, s.start) >= from && max(n.base, s.start) < to })
}
