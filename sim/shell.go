package sim

import (
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

// record is a mirror's record, as meta.Mirror is. It is never changed in place.
type record struct {
	State    mirror.State
	upstream *cluster
	sourceID kafka.TopicID
	Paused   bool
	turn     *turn
	turns    int64 // how many turns the topic has ordered
	pledge   *pledge
	// completed are reversals that this side completed before it got into another turn: meta.Completed.
	completed []completed
	// withdrawn is the last restore whose pledge an operator took back.
	withdrawn string
	// turnsStopped is turns when the topic last became an ordinary one.
	turnsStopped int64
	since        time.Time // when it came into its state
	levelAt      time.Time // when it stood at its source's end, as last stored; of compacted topics
	marked       bool      // deletions may be missing
	recopy       *recopy   // while it is copied anew for that
}

// shell is what runs of a cluster's link, from one start to the next.
type shell struct {
	c         *cluster
	serial    int
	followers map[int32]*follower
	parts     map[int32]mirror.Part
	todo      []mirror.Effect
	round     int // rises with each state stored: news of an earlier one is late
	promotion promotion
	promised  []kafka.Offset         // what the source had when a promotion passed its checks
	cuts      map[int32]kafka.Offset // truncations that group offsets are still to be clamped to
	levelled  *plan.Level            // as link's running.level
	copies    map[int32]*copier
}

func newShell(c *cluster) *shell {
	return &shell{c: c, followers: map[int32]*follower{}, parts: map[int32]mirror.Part{}, cuts: map[int32]kafka.Offset{},
		copies: map[int32]*copier{}}
}

// state is the topic's; a topic that never was a mirror is an ordinary one.
func (c *cluster) state() mirror.State {
	if c.topic.rec == nil {
		return mirror.Stopped
	}
	return c.topic.rec.State
}

// begin finds out from what is stored what is left to do.
func (s *shell) begin() {
	c := s.c
	if c.topic == nil {
		return
	}
	for p := range c.topic.Partitions {
		s.parts[p] = s.partNow(p)
	}
	if c.topic.rec == nil {
		return
	}
	s.recallCuts()
	s.todo = leftToDo[c.state()]
}

// leftToDo is what a start carries out again, by the state stored. What follows from the record alone (assign, takeTurn) is not listed.
var leftToDo = map[mirror.State][]mirror.Effect{
	mirror.PendingStopped: {mirror.RunChecks},
	mirror.Stopping:       {mirror.StopFetch, mirror.ClampGroups, mirror.Fence},
}

// partNow is a partition's state after a start.
func (s *shell) partNow(p int32) mirror.Part {
	switch s.c.topic.parts.List[p].Role {
	case meta.RoleOpen:
		return mirror.Open
	case meta.RoleFrozen:
		if s.c.topic.parts.List[p].Frozen != nil {
			return mirror.Frozen
		}
	}
	switch s.c.state() {
	case mirror.Failed:
		return mirror.Broken
	case mirror.Stopping:
		return mirror.Draining
	}
	return mirror.Idle
}

// part steps a partition by something that happened to it.
func (s *shell) part(p int32, e mirror.PartEvent) {
	now := s.parts[p]
	next, err := mirror.StepPart(now, e)
	s.c.w.counts.parts[now][e]++
	if err != nil {
		s.c.w.violate("PartitionTable", "%s-%d on %s is %v and met %v: %v", topicName, p, s.c.name, now, e, err)
		return
	}
	s.parts[p] = next
}

// step gives the topic an event: the new state is stored, then its effects are to be carried out.
func (s *shell) step(e mirror.Event, more func(*record)) error {
	c := s.c
	now := c.state()
	next, effects, err := mirror.Step(now, e)
	c.w.counts.topics[now][e]++
	if err != nil {
		return err
	}
	if next == now && len(effects) == 0 {
		return nil
	}
	c.w.log("%s: %v by %v to %v, then %v", c.name, now, e, next, effects)
	rec := record{State: mirror.Stopped}
	if c.topic.rec != nil {
		rec = *c.topic.rec
	}
	rec.State = next
	if next != now {
		rec.Paused, rec.since = false, c.now()
	}
	if slices.Contains(effects, mirror.KillReversal) && rec.turn != nil {
		t := *rec.turn
		t.over = true
		rec.turn = &t
	}
	if e == mirror.Fenced {
		if t := rec.turn; t != nil && t.handed && !t.over {
			c.w.completed[t.id] = true
		}
		rec.turnsStopped = rec.turns
	}
	if more != nil {
		more(&rec)
	}
	c.put(func() { c.topic.rec = &rec })
	s.round++
	s.todo = slices.Clone(effects)
	s.entered(now, next)
	return nil
}

// entered is what follows at once from a state that was stored.
func (s *shell) entered(before, now mirror.State) {
	if before == now {
		return
	}
	s.promotion = promotion{}
	if now != mirror.Stopping || before != mirror.PendingStopped {
		s.promised = nil
	}
	if now == mirror.Failed {
		for p := range s.c.topic.Partitions {
			s.part(p, mirror.FaultFinal)
		}
		s.assign()
	}
}

// find brings a finding to the topic's table a moment later: link stores what its goroutines found in a transaction of
// its own, and steps from whatever is stored then.
func (s *shell) find(e mirror.Event) {
	c, id, round := s.c, s.c.topic.ID, s.round
	c.w.send(c, c, "finding "+e.String(), func() {
		if c.topic == nil || c.topic.ID != id || c.shell != s {
			return
		}
		if e != mirror.SourceFailed && round != s.round {
			c.w.late(c, e)
			return
		}
		_ = s.step(e, nil) // a state that does not want it is not moved
	})
}

// late gives the topic news that is of an earlier round, and which nobody would act on: the table must not be in the way, and what it
// would do is not done.
func (w *world) late(c *cluster, e mirror.Event) {
	if c.topic == nil || !c.up() || c.plain != nil {
		return
	}
	if now := c.state(); quiet.topics[now][e] {
		w.counts.topics[now][e]++
	}
}

// latePart is the same for a partition.
func (w *world) latePart(c *cluster, p int32, e mirror.PartEvent) {
	if c.topic == nil || c.owner == nil {
		return
	}
	if now := c.shell.parts[p]; quiet.parts[now][e] {
		w.counts.parts[now][e]++
	}
}

// dropAll forgets the topic.
func (s *shell) dropAll() {
	clear(s.followers)
	clear(s.parts)
	clear(s.cuts)
	clear(s.copies)
	s.todo, s.promotion, s.levelled = nil, promotion{}, nil
	s.round++
}

// work does one thing that is to be done on the cluster.
func (s *shell) work() {
	c := s.c
	if c.topic == nil || c.topic.rec == nil {
		return
	}
	s.assign()
	switch {
	case len(s.todo) > 0:
		e := s.todo[0]
		if s.carryOut(e) {
			if len(s.todo) > 0 && s.todo[0] == e {
				s.todo = s.todo[1:]
			}
		}
		return
	case s.setUp():
		return
	case s.askAgain():
		return
	case s.recopyWork():
		return
	case c.turnWork() && c.w.chance(2):
		s.takeTurn()
		return
	}
	switch c.w.random.IntN(8) {
	case 0:
		s.judge()
		s.watchDeletions()
	case 1:
		s.clampCuts()
	case 2:
		s.checkPromotion()
	default:
		s.advanceAny()
	}
}

// advanceAny goes on with one of the partitions that are fetched.
func (s *shell) advanceAny() {
	var list []*follower
	for p := range s.c.topic.Partitions {
		if f := s.followers[p]; f != nil {
			list = append(list, f)
		}
	}
	if len(list) > 0 {
		s.advance(list[s.c.w.random.IntN(len(list))])
	}
}
