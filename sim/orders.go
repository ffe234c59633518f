package sim

import (
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
)

type (
	kafkaID     = kafka.ProducerID
	kafkaOffset = kafka.Offset
)

func newPlainKafka(c *cluster, withIDs bool) *plainKafka {
	k := &plainKafka{c: c, withIDs: withIDs, commits: map[string][]kafka.Offset{}}
	for _, group := range groupNames {
		k.commits[group] = []kafka.Offset{-1, -1, -1}
	}
	return k
}

// order draws an operator's order to a cluster; nil where there is none to give.
func (w *world) order(c *cluster) func() {
	switch {
	case c.owner == nil:
		return nil
	case c.topic == nil:
		return c.create
	case c.topic.rec != nil && c.topic.rec.pledge != nil && w.chance(3):
		return func() { c.orderVerb(mirror.FailoverForced) }
	case w.profile.turns && w.chance(2):
		if c.state() == mirror.Stopped || c.state() == mirror.PendingSetup || c.state() == mirror.PendingMirror && w.chance(2) {
			peer := w.clusters[w.random.IntN(len(w.clusters))]
			if peer == c {
				return nil
			}
			return func() { c.orderRestore(peer, w.chance(4)) }
		}
		return func() { c.orderReverse(w.chance(4)) }
	case w.profile.turnsOnly:
		return w.orderOfTurns(c)
	}
	if c.inTheMiddle() && w.chance(2) {
		e := []mirror.Event{mirror.FailoverAsked, mirror.FailoverForced, mirror.ResumeAsked}[w.random.IntN(3)]
		return func() { c.orderVerb(e) }
	}
	switch n := w.random.IntN(20); {
	case n < 3:
		return func() { c.orderVerb(mirror.PauseAsked) }
	case n < 7:
		return func() { c.orderVerb(mirror.ResumeAsked) }
	case n < 10:
		return func() { c.orderVerb(mirror.PromoteAsked) }
	case n < 12:
		return func() { c.orderVerb(mirror.FailoverAsked) }
	case n == 12:
		return func() { c.orderVerb(mirror.FailoverForced) }
	case n < 15 && c.index > 0:
		return func() {
			c.put(func() { c.linkStops = !c.linkStops })
			w.log("%s: link paused %v", c.name, c.linkStops)
		}
	case n == 15 && c.index > 0 && w.chance(2):
		return c.delete
	case n == 16 && c.index > 0 && w.chance(3):
		return c.deleteLink
	case n == 17:
		return c.widen
	case n == 18:
		return w.moveProducer
	case n == 19 && c.index == 0 && w.chance(6):
		return c.delete
	}
	return nil
}

// orderVerb gives an order as link/orders.go does: judged by the table, stored, then acted on.
func (c *cluster) orderVerb(e mirror.Event) {
	now := c.state()
	if e == mirror.ResumeAsked && (now == mirror.Failed || now == mirror.Paused && c.w.chance(4)) && c.proven() {
		e = mirror.ResumeProven
	}
	c.w.log("order to %s, %v: %v", c.name, now, e)
	if now == mirror.Stopped && e == mirror.FailoverForced {
		c.withdraw()
		return
	}
	if (now == mirror.HandedOver || now == mirror.PendingMirror && c.w.chance(2)) && e == mirror.FailoverAsked {
		// After the hand-over only what the mirror says counts.
		c.shell.hearMirror(c.topic.rec, true)
	}
	c.shell.promised = nil
	if c.opensBeside(now, e) {
		c.w.twoWritable = true
	}
	err := c.shell.step(e, func(rec *record) {
		if rec.State == now && (e == mirror.PauseAsked || e == mirror.ResumeAsked) {
			rec.Paused = e == mirror.PauseAsked // a flag beside the state
		}
	})
	if err != nil {
		c.w.log("refused: %v", err)
	}
}

// withdraw takes the topic's pledge back: link/withdraw.go's.
func (c *cluster) withdraw() {
	if c.topic.rec == nil || c.topic.rec.pledge == nil {
		return // there is nothing to take back
	}
	_ = c.shell.step(mirror.FailoverForced, func(rec *record) {
		rec.withdrawn, rec.pledge = rec.pledge.id, nil
	})
}

// proven reports whether a FAILED mirror may be resumed: link/orders.go's prove.
func (c *cluster) proven() bool {
	source := c.topic.rec.upstream
	if !c.w.reaches(c, source) {
		return false
	}
	id, partitions, err := source.describe()
	return err == nil && plan.MayResume(c.topic.rec.sourceID, id, c.topic.Partitions, partitions)
}

// create makes the topic: a mirror, or where there is no link a plain one.
func (c *cluster) create() {
	w := c.w
	if c.upstream == nil {
		c.addTopic(1+int32(w.random.IntN(2)), meta.RoleOpen, nil)
		w.log("%s: the topic is made", c.name)
		return
	}
	if !c.linked {
		if w.chance(3) {
			c.addTopic(1, meta.RoleOpen, nil)
			w.log("%s: a plain topic is made", c.name)
			return
		}
		c.put(func() { c.linked = true })
		w.log("%s: the link is made again", c.name)
		return
	}
	if !w.reaches(c, c.upstream) {
		return
	}
	id, partitions, err := c.upstream.describe()
	if err != nil || c.upstream.denies {
		return
	}
	if c.upstream.plain != nil && !c.upstream.plain.withIDs {
		id = kafka.TopicID{}
	}
	w.log("%s: a mirror is made", c.name)
	c.addTopic(partitions, meta.RoleFrozen, &record{State: mirror.Active, upstream: c.upstream, sourceID: id, levelAt: c.now()})
}

// delete deletes the topic, whatever it is.
func (c *cluster) delete() {
	if c.topic.rec != nil && c.topic.rec.pledge != nil {
		c.w.log("%s: the topic is pledged and not deleted", c.name)
		return
	}
	c.w.log("%s: the topic is deleted, %v", c.name, c.state())
	c.removeTopic()
}

// deleteLink deletes the link. Live mirrors are failed over first, as with force; one that cannot be keeps the link.
func (c *cluster) deleteLink() {
	if !c.linked {
		return
	}
	if c.topic.rec != nil && c.state().Live() {
		c.orderVerb(mirror.FailoverAsked)
		return
	}
	if c.topic.rec != nil && c.topic.rec.pledge != nil {
		c.withdraw()
		return
	}
	c.put(func() {
		c.linked = false
		c.topic.rec = nil
	})
	c.w.log("%s: the link is deleted", c.name)
}

// widen adds a partition: to a plain topic by an admin, to a mirror because its source has more.
func (c *cluster) widen() {
	if c.topic.Partitions >= partitionsMax {
		return
	}
	role := meta.RoleOpen
	if rec := c.topic.rec; rec != nil && rec.State != mirror.Stopped {
		if !rec.State.Follows() || !c.w.reaches(c, rec.upstream) {
			return
		}
		id, partitions, err := rec.upstream.describe()
		if err != nil || !rec.sourceID.IsZero() && id != rec.sourceID || partitions <= c.topic.Partitions {
			return
		}
		role = meta.RoleFrozen
	}
	next := *c.topic
	next.Partitions++
	next.parts.List = append(next.parts.List[:len(next.parts.List):len(next.parts.List)], meta.Partition{Role: role, Generation: 1})
	root := c.w.newRoot()
	if role == meta.RoleFrozen {
		root = c.topic.rec.upstream.rootOf(c.topic.Partitions)
	}
	next.seen = append(next.seen, &seen{root: root})
	c.put(func() { c.topic = &next })
	c.w.log("%s: the topic has %d partitions now", c.name, next.Partitions)
	c.open()
	c.shell.parts[next.Partitions-1] = c.shell.partNow(next.Partitions - 1)
}

// moveProducer sends a producer to another cluster.
func (w *world) moveProducer() {
	if len(w.producers) == 0 {
		return
	}
	pr, to := w.producers[w.random.IntN(len(w.producers))], w.clusters[w.random.IntN(len(w.clusters))]
	if to.plain == nil {
		pr.move(to)
		w.log("producer %d goes to %s", pr.id, to.name)
	}
}

// rootOf names the history of a partition of an upstream topic; zero where there is none.
func (c *cluster) rootOf(p int32) kafka.TopicID {
	switch {
	case c.plain != nil && int(p) < len(c.plain.logs):
		return c.plain.logs[p].root
	case c.plain == nil && c.topic != nil && int(p) < len(c.topic.seen):
		return c.topic.seen[p].root
	}
	return kafka.TopicID{}
}

// opensBeside reports whether an order may make a topic writable while its other side is.
func (c *cluster) opensBeside(now mirror.State, e mirror.Event) bool {
	switch e {
	case mirror.FailoverAsked, mirror.FailoverForced, mirror.PromoteAsked:
	default:
		return false
	}
	switch now {
	case mirror.Stopped, mirror.Stopping, mirror.PendingMirror, mirror.PendingSetup, mirror.Reopening:
		return false
	}
	return now != mirror.HandedOver || e == mirror.FailoverForced
}

// orderReverse changes places with the source: link/orders.go's, after it has asked the source what it would say.
func (c *cluster) orderReverse(paused bool) {
	now := c.state()
	if now == mirror.Stopped || !c.linked || c.topic.rec.pledge != nil {
		return
	}
	if t := c.topic.rec.turn; t != nil && now == mirror.Active &&
		plan.MayTurn(topicName, mirror.ReverseAsked, c.frozenFor(t.id), t.release) != nil {
		return
	}
	err := c.shell.step(mirror.ReverseAsked, func(rec *record) {
		if rec.State != mirror.PendingSynchronize {
			return
		}
		rec.turns++
		rec.turn = &turn{id: plan.TurnID(c.topic.ID, rec.turns), paused: paused, since: c.now()}
	})
	c.w.log("order to %s, %v: reverse, paused %v: %v", c.name, now, paused, err)
}

// orderOfTurns draws among the orders that leave one side writable.
func (w *world) orderOfTurns(c *cluster) func() {
	switch w.random.IntN(4) {
	case 0:
		return func() { c.orderVerb(mirror.PauseAsked) }
	case 1:
		return func() { c.orderVerb(mirror.ResumeAsked) }
	case 2:
		if !c.opensBeside(c.state(), mirror.FailoverAsked) {
			return func() { c.orderVerb(mirror.FailoverAsked) }
		}
	}
	return nil
}
