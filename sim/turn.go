package sim

import (
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// turn is the reversal or restore that a topic is in or was in last: meta.Turn. It is never changed in place.
type turn struct {
	id      string
	restore bool
	paused  bool   // the new mirror begins paused
	over    bool   // ended without a turn
	handed  bool   // the source handed over
	plain   bool   // the topic had no record before
	from    string // restore: the reversal that the topic was frozen for before
	since   time.Time
	ends    []kafka.Offset // the frozen ends that the source stated
	// release is set from the restore's order on, until the pledge is known to be gone.
	release bool
	cuts    []restoreCut
}

// completed is a reversal that was completed on the mirror's side.
type completed struct {
	id     string
	source *cluster // which handed over
	paused bool
	ends   []kafka.Offset
}

// remember keeps a completed reversal in mind when another turn begins: link/reverse.go's.
func remember(rec *record, before mirror.State) {
	t := rec.turn
	if t == nil || before != mirror.Stopped || t.restore || !t.handed || t.over {
		return
	}
	list := slices.DeleteFunc(slices.Clone(rec.completed), func(c completed) bool { return c.source == rec.upstream })
	rec.completed = append(list, completed{id: t.id, source: rec.upstream, paused: t.paused, ends: t.ends})
}

// keepsStops reports whether each log has all that it had when it stopped at the ends: link/reverse.go's.
func (c *cluster) keepsStops(ends []kafka.Offset) bool {
	for p, end := range ends {
		if p >= len(c.topic.parts.List) || !slices.ContainsFunc(c.topic.parts.List[p].Lineage,
			func(l meta.Lineage) bool { return l.Start == end && l.Cluster == c.name }) {
			return false
		}
	}
	return true
}

// pledge says that a topic stays as it is while another is restored from it: meta.Pledge.
type pledge struct {
	id      string
	topic   kafka.TopicID
	cluster *cluster
}

// grace is how long open transactions are waited for (rule R6).
const grace = 2 * time.Second

// turnWork reports whether a record has something to do that is not in todo: link/turn.go's.
func (c *cluster) turnWork() bool {
	rec := c.topic.rec
	if rec == nil || rec.turn == nil {
		return false
	}
	switch rec.State {
	case mirror.PendingSynchronize, mirror.PendingHandOver, mirror.PendingMirror, mirror.HandedOver, mirror.Reopening,
		mirror.PendingSetup, mirror.PendingRestore:
		return true
	case mirror.Stopping:
		return false
	}
	return rec.turn.release || c.frozenFor(rec.turn.id)
}

func (c *cluster) frozenFor(id string) bool {
	return slices.ContainsFunc(c.topic.parts.List, func(p meta.Partition) bool {
		return p.Role == meta.RoleFrozen && p.Frozen != nil && p.Frozen.Reversal == id
	})
}

// takeTurn does the next step of a reversal or restore: link/turn.go's.
func (s *shell) takeTurn() {
	rec := s.c.topic.rec
	switch rec.State {
	case mirror.PendingSynchronize:
		s.synchronize(rec)
	case mirror.PendingHandOver:
		s.askHandOver(rec)
	case mirror.PendingMirror:
		s.beFrozen(rec)
	case mirror.HandedOver:
		s.hearMirror(rec, false)
	case mirror.Reopening:
		s.reopen(rec)
	case mirror.PendingSetup:
		s.setUpRestore(rec)
	case mirror.PendingRestore:
		s.restore(rec)
	default:
		s.finishTurn(rec)
	}
}

// stepTurn is step for a record that is still in the state and the turn that m was read in. What the table refuses changes nothing.
func (s *shell) stepTurn(m *record, e mirror.Event, more func(*record)) {
	if s.still(m) {
		_ = s.step(e, more)
	}
}

func (s *shell) still(m *record) bool {
	if s.c.topic == nil {
		return false
	}
	now := s.c.topic.rec
	return s.c.shell == s && now != nil && now.State == m.State && now.turn != nil && now.turn.id == m.turn.id
}

// changeTurn changes the turn of a record that is still where m was read.
func (s *shell) changeTurn(m *record, change func(*turn)) {
	if !s.still(m) {
		return
	}
	next := *s.c.topic.rec
	t := *next.turn
	change(&t)
	next.turn = &t
	s.c.put(func() { s.c.topic.rec = &next })
}

// question sends a question about a topic to a peer, and what came back to answer, once, if the asker is still up. The
// peer's part runs at the peer, when the letter comes, and answers when it is called back.
func (s *shell) question(peer *cluster, what string, at func(peer *cluster, reply func(answer func()))) {
	c := s.c
	c.w.send(c, peer, what, func() {
		at(peer, func(answer func()) {
			c.w.send(peer, c, what+" answered", func() {
				if c.shell == s && c.topic != nil {
					answer()
				}
			})
		})
	})
}

// sideFacts is a topic in link/plan's words.
func (c *cluster) sideFacts() plan.SideFacts {
	f := plan.SideFacts{Topic: topicName, State: c.state()}
	if rec := c.topic.rec; rec != nil {
		if rec.pledge != nil {
			f.Pledged = rec.pledge.id
		}
		if rec.turn != nil {
			f.Turn = rec.turn.id
		}
	}
	return f
}

func (c *cluster) turnFacts() plan.TurnFacts {
	rec := c.topic.rec
	f := plan.TurnFacts{State: rec.State, Topic: c.topic.ID, Turns: rec.turns, Stopped: rec.turnsStopped, Recorded: true}
	if t := rec.turn; t != nil && !t.restore {
		f.ID, f.Over, f.Handed, f.Paused = t.id, t.over, t.handed, t.paused
	}
	return f
}

// speak is what the cluster says of a reversal of a topic: link/reverse.go's answerReverse, with its ends.
func (c *cluster) speak(topic kafka.TopicID, id string) (plan.Word, []kafka.Offset) {
	if c.topic == nil || c.topic.ID != topic || c.topic.rec == nil || c.plain != nil {
		return plan.Unheard, nil
	}
	for _, one := range c.topic.rec.completed {
		if one.id == id {
			return plan.SpeakOfCompleted(one.paused, c.keepsStops(one.ends)), one.ends
		}
	}
	word := plan.Speak(c.turnFacts(), id)
	if word == plan.Completed || word == plan.CompletedPaused {
		return word, c.stopPoints()
	}
	return word, nil
}

func (c *cluster) stopPoints() []kafka.Offset {
	var list []kafka.Offset
	for _, entry := range c.topic.parts.List {
		if entry.Stop == nil {
			return nil
		}
		list = append(list, entry.Stop.Offset)
	}
	return list
}

// frozenEnds are the ends that the owners stated for the turn, nil until all have.
func (c *cluster) frozenEnds(id string) []kafka.Offset {
	var list []kafka.Offset
	for _, entry := range c.topic.parts.List {
		if entry.Role != meta.RoleFrozen || entry.Frozen == nil || entry.Frozen.Reversal != id {
			return nil
		}
		list = append(list, entry.Frozen.End)
	}
	return list
}

// synchronize asks the source to freeze, then waits until everything is here and synced: link/reverse.go's.
func (s *shell) synchronize(m *record) {
	switch {
	case m.Paused:
	case m.turn.ends == nil:
		s.askFreeze(m)
	default:
		var synced []kafka.Offset
		for p := range s.c.topic.Partitions {
			synced = append(synced, s.c.part(p).Offsets().HighWatermark)
		}
		done, beyond, _ := plan.Drained(m.turn.ends, synced)
		switch {
		case beyond:
			s.stepTurn(m, mirror.PeerRefused, nil)
		case done && !s.otherTail(m):
			s.stepTurn(m, mirror.Drained, nil)
		}
	}
}

func (s *shell) askFreeze(m *record) {
	id, topic := m.turn.id, s.c.topic.ID
	paused, wanted := m.turn.paused, m.sourceID
	s.question(m.upstream, "freeze "+id, func(peer *cluster, reply func(func())) {
		peer.answerFreeze(s.c, id, topic, wanted, paused, func(ends []kafka.Offset, err error) {
			reply(func() {
				switch {
				case err != nil && plan.Final(kafka.CodeOf(err)), s.c.w.forbidden():
					s.c.w.log("%s: %s is refused: %v", s.c.name, id, err)
					s.stepTurn(m, mirror.PeerRefused, nil)
				case err != nil || ends == nil:
				default:
					s.changeTurn(m, func(t *turn) {
						if t.ends == nil {
							t.ends = ends
						}
					})
				}
			})
		})
	})
}

// forbidden is true when the right to ask was taken away just now, so that the asker gives up whatever the other side did.
func (w *world) forbidden() bool { return !w.calm && w.chance(12) }

// answerFreeze begins to freeze the topic, if the mirror confirms that the reversal is alive, and states the ends: link/reversed.go's.
func (c *cluster) answerFreeze(asker *cluster, id string, mirrorID, wanted kafka.TopicID, paused bool, reply func([]kafka.Offset, error)) {
	switch {
	case c.plain != nil || !c.linked:
		reply(nil, kafka.InvalidRequest)
		return
	case c.topic == nil || c.topic.ID != wanted:
		reply(nil, kafka.UnknownTopicOrPartition)
		return
	}
	if err := plan.MayFreeze(c.sideFacts(), id); err != nil {
		c.w.counts.topics[c.state()][mirror.FreezeAsked]++
		reply(nil, err)
		return
	}
	if c.state() != mirror.Stopped {
		_ = c.shell.step(mirror.FreezeAsked, nil)
		reply(c.frozenEnds(id), nil)
		return
	}
	// It calls back: a freeze that comes late, of a reversal that is over, must not take effect (rule R4).
	shell := c.shell
	shell.question(asker, "alive? "+id, func(asker *cluster, back func(func())) {
		word, _ := asker.speak(mirrorID, id)
		back(func() {
			if word != plan.Live || c.topic.ID != wanted || plan.MayFreeze(c.sideFacts(), id) != nil {
				reply(nil, kafka.InvalidRequest)
				return
			}
			if c.state() != mirror.Stopped {
				reply(nil, nil) // it came twice
				return
			}
			plain := c.topic.rec == nil
			_ = shell.step(mirror.FreezeAsked, func(rec *record) {
				remember(rec, mirror.Stopped)
				rec.upstream, rec.sourceID = asker, mirrorID
				rec.turns = c.nextTurn() - 1
				rec.turn = &turn{id: id, paused: paused, plain: plain, since: c.now()}
				rec.levelAt = c.now()
			})
			reply(nil, nil)
		})
	})
}

// askHandOver moves the last metadata, then asks the source to hand over: the point of decision.
func (s *shell) askHandOver(m *record) {
	id, ends := m.turn.id, m.turn.ends
	if s.c.w.reaches(s.c, m.upstream) {
		s.syncGroupsNow(m.upstream)
	}
	wanted := m.sourceID
	s.question(m.upstream, "hand over "+id, func(peer *cluster, reply func(func())) {
		err := peer.answerHandOver(id, wanted, ends)
		hasty := err == nil && !s.c.w.calm && !s.c.w.chance(4)
		if hasty {
			peer.orderVerb(mirror.FailoverAsked) // before the mirror has heard of it
		}
		reply(func() {
			switch {
			case !s.c.w.calm && s.c.w.chance(4): // asked twice, and the second time forbidden to
				s.stepTurn(m, mirror.PeerRefused, nil)
			case hasty: // the answer is lost
			case err == nil:
				s.stepTurn(m, mirror.HandOverGiven, func(rec *record) {
					t := *rec.turn
					t.handed = true
					rec.turn = &t
				})
			case plan.Final(kafka.CodeOf(err)):
				s.c.w.log("%s: %s is not handed over: %v", s.c.name, id, err)
				s.stepTurn(m, mirror.PeerRefused, nil)
			}
		})
	})
}

// answerHandOver gives the source's role away: link/reversed.go's.
func (c *cluster) answerHandOver(id string, wanted kafka.TopicID, reached []kafka.Offset) error {
	if c.topic == nil || c.topic.ID != wanted {
		return kafka.UnknownTopicOrPartition
	}
	if err := plan.MayHandOver(c.sideFacts(), id); err != nil {
		c.w.counts.topics[c.state()][mirror.HandOverAsked]++
		return err
	}
	ends := c.frozenEnds(id)
	switch {
	case c.state() == mirror.HandedOver:
	case ends == nil:
		return kafka.ReassignmentInProgress
	case !slices.Equal(ends, reached):
		return kafka.InvalidRequest
	}
	return c.shell.step(mirror.HandOverAsked, nil)
}

// beFrozen carries a freeze out in the order of rule R5.
func (s *shell) beFrozen(m *record) {
	if s.c.frozenEnds(m.turn.id) != nil {
		s.hearMirror(m, false)
		return
	}
	s.freeze(m)
}

// freeze ends transactions, then has the owners state the ends.
func (s *shell) freeze(m *record) {
	c := s.c
	if c.holding() {
		if age := c.now().Sub(m.turn.since); !m.turn.restore && age >= 0 && age < grace && !c.w.calm {
			return
		}
		if !c.abortTxns() {
			return
		}
	}
	for p := range c.topic.Partitions {
		s.part(p, mirror.FreezeOrdered)
	}
	s.takeOver(m)
	_, err := c.owner.Freeze(c.ctx, c.topic.ID, m.turn.id)
	c.w.log("%s freezes for %s: %v", c.name, m.turn.id, err)
	c.alive()
}

// takeOver freezes for a restore what is frozen for the reversal that it ended: link/restore.go's.
func (s *shell) takeOver(m *record) {
	if m.turn.from == "" {
		return
	}
	err := s.c.owner.Refreeze(s.c.ctx, s.c.topic.ID, m.turn.from, m.turn.id)
	s.c.alive()
	if err != nil {
		s.c.w.log("%s: freeze for the restore: %v", s.c.name, err)
	}
}

// hearMirror asks the mirror how the reversal stands and does what follows (rules R1, R4). With end it asks it to end the
// reversal where it can, as a failover after the hand-over does (rule R2).
func (s *shell) hearMirror(m *record, end bool) {
	id, topic := m.turn.id, m.sourceID
	s.question(m.upstream, howIs+id, func(peer *cluster, reply func(func())) {
		word, ends := peer.speak(topic, id)
		if end && word == plan.Live {
			if peer.shell.step(mirror.PeerDead, nil) != nil {
				return
			}
			word, ends = peer.speak(topic, id)
		}
		if word == plan.Completed || word == plan.CompletedPaused {
			s.c.w.checkCompletion(s.c, peer, ends)
		}
		reply(func() {
			e, is, _ := plan.Hear(m.State, word, slices.Equal(ends, s.c.frozenEnds(id)))
			s.c.w.log("%s hears of %s: %v", s.c.name, id, word)
			switch {
			case is && s.still(m):
				if e == mirror.PeerDead && s.c.w.completed[m.turn.id] {
					s.c.w.violate("R1", "%s opens again after %s, which %s has completed", s.c.name, m.turn.id, m.upstream.name)
				}
				s.stepTurn(m, e, nil)
			case !is && word != plan.Live && s.still(m):
				_ = s.step(mirror.PeerUnclear, nil)
			}
		})
	})
}

// reopen opens a frozen topic for producers again.
func (s *shell) reopen(m *record) {
	c := s.c
	s.takeOver(m)
	err := c.owner.Unfreeze(c.ctx, c.topic.ID, m.turn.id)
	c.w.log("%s opens again after %s: %v", c.name, m.turn.id, err)
	c.alive()
	if err != nil {
		return
	}
	for p := range c.topic.Partitions {
		s.part(p, mirror.ThawOrdered)
	}
	if m.turn.plain && !m.turn.release {
		_ = s.step(mirror.Reopened, nil)
		c.put(func() { c.topic.rec = nil })
		return
	}
	s.stepTurn(m, mirror.Reopened, nil)
}

// finishTurn does what a turn that is over has left to do.
func (s *shell) finishTurn(m *record) {
	c := s.c
	if c.frozenFor(m.turn.id) {
		if m.State == mirror.Stopped {
			err := c.owner.Unfreeze(c.ctx, c.topic.ID, m.turn.id)
			c.alive()
			c.w.log("%s opens what is frozen: %v", c.name, err)
			return
		}
		s.turnIntoMirror(m)
		return
	}
	if m.turn.release {
		s.release(m)
	}
}

// turnIntoMirror makes the frozen partitions mirrors at their ends.
func (s *shell) turnIntoMirror(m *record) {
	c := s.c
	ends := make([]kafka.Offset, c.topic.Partitions)
	for p, entry := range c.topic.parts.List {
		if entry.Frozen != nil {
			ends[p] = entry.Frozen.End
		}
	}
	s.becomeMirror(m, ends)
}

// becomeMirror turns frozen partitions into mirrors that end at ends: what lies above is cut off before anything is fetched.
func (s *shell) becomeMirror(m *record, ends []kafka.Offset) {
	c := s.c
	before := c.topic.parts.List
	err := c.owner.FrozenBecomeMirror(c.ctx, c.topic.ID, m.turn.id, m.upstream.name, ends)
	c.w.log("%s follows %s from %v: %v", c.name, m.upstream.name, ends, err)
	c.alive()
	if err == nil {
		for p := range c.topic.Partitions {
			if s.parts[p] == mirror.Frozen {
				s.part(p, mirror.MirrorOrdered)
			}
			if end := c.part(p).Offsets().LogEnd; before[p].Role == meta.RoleFrozen && int(p) < len(ends) && ends[p] != kafka.NoOffset &&
				end > ends[p] {
				c.w.violate("T4", "%s-%d on %s follows %s from %d, but was to be cut to %d", topicName, p, c.name, m.upstream.name, end, ends[p])
			}
		}
	}
}
