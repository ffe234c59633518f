package sim

import (
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// heal ends the faults, lets everything settle, gives the orders that an operator has left, and wants an end to it: NoStuckState.
func (w *world) heal() {
	w.calm = true
	w.log("the faults end")
	clear(w.parted)
	for _, c := range w.clusters {
		c.denies, c.corrupts = false, false
		c.forgetPlan()
		if !c.up() {
			w.quiet(c.start)
		}
		if c.plain != nil && !c.plain.made {
			c.plain.make(1)
		}
		c.linkStops = false
	}
	w.quiet(w.endTxns)
	for try := range 3 {
		w.rounds()
		for _, c := range w.clusters {
			w.quiet(func() { c.healingOrder(try) })
		}
	}
	w.rounds()
	for _, c := range w.clusters {
		if w.err == nil && c.plain == nil && c.topic != nil {
			w.quiet(c.mustBeSettled)
			w.quiet(c.mustBeFree)
		}
	}
	for _, c := range w.clusters {
		if w.err == nil && c.plain == nil && c.topic != nil && c.state() == mirror.Stopped {
			w.quiet(c.mustTakeRecords)
		}
	}
}

// quiet does something, then looks at everything.
func (w *world) quiet(do func()) {
	if w.err != nil {
		return
	}
	w.try(do)
	w.settle()
	w.check()
}

// Everything must have settled in roundsMax rounds, and when idleRounds have brought nothing new, nothing will: a turn
// that begins when the faults end comes in small steps, with questions that change nothing between them.
const (
	roundsMax  = 400
	idleRounds = 60
)

// rounds lets clusters and net work until nothing happens any more.
func (w *world) rounds() {
	for _, c := range w.clusters {
		if c.shell != nil {
			for _, f := range c.shell.followers {
				f.level = false // ends may be the same by chance: each mirror asks its source once more
			}
		}
	}
	seen, idle := w.progress(), 0
	for range roundsMax {
		if now := w.progress(); now != seen {
			seen, idle = now, 0
		}
		if w.err != nil {
			return
		}
		if idle++; idle > idleRounds {
			break
		}
		for _, c := range w.clusters {
			if c.shell != nil {
				for range 6 {
					w.quiet(c.shell.work)
				}
			}
		}
		for len(w.letters) > 0 && w.err == nil {
			w.quiet(w.carry)
		}
		w.pass(20 * time.Millisecond)
		if w.settled() {
			break
		}
	}
	w.pass(5 * time.Second)
	for _, c := range w.clusters {
		if c.shell != nil && c.topic != nil && c.topic.rec != nil {
			w.quiet(c.shell.watchDeletions) // which a link does at every turn of its loop, here perhaps not since the mirror got level
		}
	}
}

// progress is a number that is another one after each state that was stored, record that was taken and cluster that started.
func (w *world) progress() int64 {
	var sum int64
	for _, c := range w.clusters {
		if c.plain != nil || c.topic == nil || c.shell == nil {
			continue
		}
		sum += int64(c.shell.round)
		for p := range c.topic.Partitions {
			sum += int64(c.part(p).Offsets().LogEnd)
		}
	}
	return sum
}

func (w *world) settled() bool {
	for _, c := range w.clusters {
		if c.plain == nil && c.topic != nil && !c.atRest() {
			return false
		}
	}
	return true
}

// atRest reports whether a topic is where it can stay: an ordinary topic, or a mirror level with its source.
func (c *cluster) atRest() bool {
	switch c.state() {
	case mirror.Stopped:
		return true
	case mirror.Paused, mirror.Failed:
		return true
	case mirror.Active:
		if c.copiesAnew() {
			return false
		}
		for p := range c.topic.Partitions {
			f, o := c.shell.followers[p], c.part(p).Offsets()
			there, err := c.topic.rec.upstream.ends(p)
			if err != nil || f == nil || !f.level || f.mend || f.cut != nil || o.HighWatermark != o.LogEnd || o.LogEnd != there.end {
				return false
			}
		}
		return true
	}
	return false
}

// endTxns lets every coordinator finish what it has decided and end what nobody will end.
func (w *world) endTxns() {
	for _, c := range w.clusters {
		if c.plain != nil {
			for _, l := range c.plain.logs {
				for id := range l.open {
					c.plain.end(id, 0, false)
				}
			}
			continue
		}
		if !c.abortTxns() {
			w.violate("R5", "%s cannot end its transactions", c.name)
		}
	}
}

// healingOrder is what is left to an operator, try after try.
func (c *cluster) healingOrder(try int) {
	if c.plain != nil || c.topic == nil {
		return
	}
	c.w.log("healing %v", c)
	switch c.state() {
	case mirror.Paused:
		c.orderVerb(mirror.ResumeAsked)
	case mirror.Failed:
		if try == 0 {
			c.orderVerb(mirror.ResumeAsked)
		}
		if c.state() == mirror.Failed {
			c.orderVerb(mirror.FailoverAsked)
		}
	case mirror.Active:
		if !c.atRest() {
			c.mustGetLevel()
			c.orderVerb(mirror.FailoverAsked)
		}
	case mirror.Stopped:
	case mirror.HandedOver:
		if try == 0 {
			c.orderVerb(mirror.FailoverAsked)
		} else {
			c.orderVerb(mirror.FailoverForced)
		}
	default:
		c.mustGoOn()
		if c.topic.rec.Paused && try == 0 {
			c.orderVerb(mirror.ResumeAsked)
			return
		}
		c.orderVerb(mirror.FailoverAsked)
	}
}

// mustGoOn: a reversal that both sides are in, and nobody holds up, ends by itself.
func (c *cluster) mustGoOn() {
	rec := c.topic.rec
	if rec.turn == nil || rec.Paused || !c.linked || rec.State != mirror.PendingSynchronize && rec.State != mirror.PendingHandOver {
		return
	}
	source := rec.upstream
	if source.plain != nil || source.topic == nil || source.topic.ID != rec.sourceID || !source.linked ||
		source.topic.Partitions != c.topic.Partitions {
		return
	}
	if theirs := source.topic.rec; theirs != nil && theirs.turn != nil && theirs.turn.id == rec.turn.id && !theirs.turn.over {
		c.w.violate("NoStuckState", "%s does not go on with %s, for which %s is frozen", c.name, rec.turn.id, source.name)
	}
}

// mustBeFree: no pledge outlives the restore that it was given to (rule T1).
func (c *cluster) mustBeFree() {
	rec := c.topic.rec
	if rec == nil || rec.pledge == nil {
		return
	}
	asker := rec.pledge.cluster
	if asker.topic == nil || asker.topic.ID != rec.pledge.topic || asker.topic.rec == nil || !asker.linked || !c.linked {
		return // nobody is left to give it back; it is asked for with the next order
	}
	if t := asker.topic.rec.turn; t == nil || t.id != rec.pledge.id || !t.release {
		return // it was given by a letter that came too late, and the same holds
	}
	if state := asker.state(); state != mirror.PendingSetup && state != mirror.PendingRestore {
		c.w.violate("T1", "%s is pledged to %s in the end, and %s is %v", c.name, rec.pledge.id, asker.name, state)
	}
}

// mustGetLevel: a mirror whose source is there, the same, and well, gets level by itself.
func (c *cluster) mustGetLevel() {
	source := c.topic.rec.upstream
	id, partitions, err := source.describe()
	if err != nil || partitions != c.topic.Partitions || source.plain == nil && source.state() != mirror.Stopped ||
		id != c.topic.rec.sourceID || !c.linked {
		return
	}
	for p := range c.topic.Partitions {
		there, err := source.ends(p)
		c.w.log("%s-%d on %s: %+v of %+v %v: %+v", topicName, p, c.name, c.part(p).Offsets(), there, err, c.shell.followers[p])
	}
	c.w.violate("NoStuckState", "%s does not get level with %s, which is well", c.name, source.name)
}

// mustBeSettled is what must hold of a topic in the end.
func (c *cluster) mustBeSettled() {
	w := c.w
	for up, n := c, 0; up.plain == nil && up.topic != nil && up.state() != mirror.Stopped; up, n = up.topic.rec.upstream, n+1 {
		if n > len(w.clusters) {
			w.violate("T6", "%s follows itself: nobody takes records", c.name)
			return
		}
	}
	if !c.atRest() || c.state() == mirror.Failed || c.state() == mirror.Paused {
		w.violate("NoStuckState", "%s does not come to rest: %v, effects left %v", c.name, c.state(), c.shell.todo)
		return
	}
	for p := range c.topic.Partitions {
		o := c.part(p).Offsets()
		w.checkAcked(c, p)
		c.mustHoldKeys(p)
		if c.state() == mirror.Active {
			c.mustBeLevel(p)
			continue
		}
		if c.topic.parts.List[p].Role != meta.RoleOpen {
			w.violate("NoStuckState", "%s-%d on %s is %s in the end", topicName, p, c.name, c.topic.parts.List[p].Role)
			return
		}
		if o.LastStable != o.HighWatermark {
			w.violate("NoStuckState", "%s-%d on %s: the last stable offset stays at %d of %d", topicName, p, c.name, o.LastStable, o.HighWatermark)
		}
	}
}

// mustTakeRecords writes a last record to each partition of an ordinary topic.
func (c *cluster) mustTakeRecords() {
	for p := range c.topic.Partitions {
		b, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1},
			[]batch.Record{{Key: []byte("end")}})
		if err == nil {
			var a partition.Appended
			if a, err = c.part(p).Append(c.ctx, batch.Batches(b), nil); err == nil {
				err = c.part(p).WaitSynced(c.ctx, a.Next)
			}
		}
		if err != nil {
			c.w.violate("NoStuckState", "%s-%d on %s takes no records in the end: %v", topicName, p, c.name, err)
		}
	}
}

// mustBeLevel wants a mirror to have what its source has.
func (c *cluster) mustBeLevel(p int32) {
	source := c.topic.rec.upstream
	there, err := source.ends(p)
	o := c.part(p).Offsets()
	if err != nil || o.HighWatermark != there.end {
		c.w.violate("NoStuckState", "%s-%d on %s ends at %d, its source at %d: %v", topicName, p, c.name, o.HighWatermark, there.end, err)
		return
	}
	var tip *node
	if source.plain != nil {
		tip = source.plain.logs[p].tip
	} else {
		tip = source.topic.seen[p].tip
	}
	if there.stable == there.end && o.LastStable != o.HighWatermark {
		c.w.violate("D5", "%s-%d on %s: the last stable offset is %d, its source's %d", topicName, p, c.name, o.LastStable, there.stable)
	}
	// A source that has removed all that it had is nothing to compare with: a mirror that keeps more ends with a hole, or even with what an
	// election took away.
	gone := c.w.profile.holes && there.start == there.end
	if mine := c.topic.seen[p]; len(mine.nodes) > 0 && mine.tip != tip && !gone {
		c.w.violate("MirrorIsPrefixOfSource", "%s-%d on %s ends with %v, its source with %v", topicName, p, c.name, mine.tip, tip)
	}
}
