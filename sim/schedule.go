package sim

import (
	"math/rand/v2"
	"time"

	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store/storetest"
)

// profile is what a schedule's dice are loaded for.
type profile struct {
	name      string
	layout    layout
	crashes   int // one event in so many, per cluster
	losses    int // one letter in so many
	doubles   int
	slow      bool // few records are produced: mirrors are level most of the time
	segment   int64
	compact   bool
	holes     bool // mirrors keep what their sources remove: a jump leaves a hole
	turns     bool // reversals and restores
	turnsOnly bool // and no order that leaves two sides writable
	orders    int  // weights, beside 100 for work and letters
	troubles  int
}

type layout int

const (
	pair       layout = iota // A and B, two hawsers with a bidirectional link; B mirrors A
	fromKafka                // A is an unmodified Kafka
	chain                    // A > B > C, hawsers
	kafkaChain               // the same, A an unmodified Kafka
	fan                      // B and C mirror A
	kafkaFan                 // the same, A an unmodified Kafka
	layouts
)

// weights of the layouts, in 16.
var weights = [layouts]int{pair: 4, fromKafka: 3, chain: 3, kafkaChain: 3, fan: 2, kafkaFan: 1}

func (l layout) kafka() bool { return l == fromKafka || l == kafkaChain || l == kafkaFan }

func drawLayout(r *rand.Rand) layout {
	n := r.IntN(16)
	for l, weight := range weights {
		if n -= weight; n < 0 {
			return layout(l)
		}
	}
	return pair
}

const (
	cleans      = 8 // weight, beside 100 for work and letters, of cleaners on compacted topics
	longPauses  = 6 // one pause in so many is long enough for tombstones to be removed
	segmentFull = 250
)

func drawProfile(r *rand.Rand) profile {
	often := func(some ...int) int { return some[r.IntN(len(some))] }
	p := profile{
		layout: drawLayout(r), crashes: often(25, 80, 400), losses: often(8, 30, 200), doubles: often(8, 30, 200), segment: 1 << 20,
		orders: often(4, 8, 16), troubles: often(1, 3, 8, 16),
	}
	if r.IntN(4) == 0 {
		p.segment = 400
	}
	p.slow = r.IntN(3) > 0
	if p.compact = r.IntN(4) == 0; p.compact {
		p.segment = segmentFull
	}
	// Whoever mirrors a hole at the end waits there for the next record; and a jump leaves open what became of a transaction.
	p.holes = (p.layout == fromKafka || p.layout == kafkaFan) && r.IntN(3) == 0 && !p.compact
	if !p.layout.kafka() {
		p.turns = r.IntN(5) > 0
		p.turnsOnly = p.layout == pair && r.IntN(2) == 0
	}
	p.name = p.describe()
	return p
}

// build makes the clusters, their links, and the mirrors.
func (w *world) build() {
	n := 2
	if w.profile.layout != pair && w.profile.layout != fromKafka {
		n = 3
	}
	fans := w.profile.layout == fan || w.profile.layout == kafkaFan
	for i := range n {
		c := &cluster{
			w: w, index: i, name: string(rune('A' + i)), prefix: uint32(0x1000 + i), txns: map[kafkaID]*txn{}, linked: true,
			mem: storetest.NewMemory(), random: rand.New(rand.NewPCG(w.opts.Seed, uint64(i))), drawn: map[uint32]bool{},
		}
		if i > 0 {
			c.upstream = w.clusters[i-1]
		}
		if fans && i > 0 {
			c.upstream = w.clusters[0]
		}
		w.clusters = append(w.clusters, c)
		if i == 0 && w.profile.layout.kafka() {
			c.plain = newPlainKafka(c, w.random.IntN(4) > 0 || w.profile.compact)
			c.plain.make(1 + int32(w.random.IntN(2)))
			continue
		}
		c.start()
		if i == 0 {
			c.addTopic(1+int32(w.random.IntN(2)), meta.RoleOpen, nil)
		}
	}
	for _, c := range w.clusters[1:] {
		if !w.chance(8) {
			c.create()
		}
	}
	for range 1 + w.random.IntN(3) {
		w.producers = append(w.producers, w.newProducer(w.clusters[0]))
	}
	for _, c := range w.clusters[1:] {
		w.consumers = append(w.consumers, &consumer{at: c, p: 0}, &consumer{at: c, p: 1})
	}
	if w.profile.layout.kafka() {
		return
	}
	w.consumers = append(w.consumers, &consumer{at: w.clusters[0]})
}

// pick draws the next event.
func (w *world) pick() func() {
	if do := w.recover(); do != nil {
		return do
	}
	c := w.clusters[w.random.IntN(len(w.clusters))]
	if w.chance(2) {
		c = w.inTheMiddle(c)
	}
	p := &w.profile
	dirt := 0
	if p.compact {
		dirt = cleans
	}
	for {
		switch n := w.random.IntN(120 + p.orders + p.troubles + dirt); {
		case n < 2:
			return w.resend
		case n < 42:
			return w.carry
		case n < 82:
			if c.owner != nil {
				return c.shell.work
			}
		case n < 94:
			if len(w.producers) > 0 && (!p.slow || w.chance(3)) {
				return w.producers[w.random.IntN(len(w.producers))].step
			}
		case n < 102:
			if len(w.consumers) > 0 {
				return w.consumers[w.random.IntN(len(w.consumers))].step
			}
		case n < 108:
			return w.groups(c)
		case n < 114:
			d := time.Duration(1+w.random.IntN(30)) * time.Millisecond
			if w.chance(4) {
				d *= 50
			}
			if p.compact && w.chance(longPauses) {
				d = deleteRetention * time.Duration(1+w.random.IntN(12)) / 8
			}
			return func() { w.pass(d) }
		case n < 120:
			if c.owner != nil {
				return c.shell.work
			}
		case n < 120+p.orders:
			if do := w.order(c); do != nil {
				return do
			}
		case n < 120+p.orders+p.troubles:
			return w.trouble(c)
		default:
			return c.clean
		}
	}
}

// recover ends a fault, if there is one and it has lasted long enough: nothing is to be learned from clusters that only stand still.
func (w *world) recover() func() {
	for i, c := range w.clusters {
		switch {
		case !c.up() && w.chance(6):
			return c.start
		case c.denies && w.chance(15), c.corrupts && w.chance(15):
			return func() {
				c.denies, c.corrupts = false, false
				w.log("%s serves well again", c.name)
			}
		case c.plain != nil && !c.plain.made && w.chance(20):
			return c.plain.trouble
		case c.handingOver() && w.chance(2) && w.underWay(howIs) >= 0:
			return func() { w.deliver(w.underWay(howIs)) }
		case c.handedOverUnheard() && w.chance(2):
			return func() { c.orderVerb(mirror.FailoverAsked) }
		case i == 0 && w.profile.layout == chain && c.isIn(mirror.HandedOver) && w.clusters[1].isIn(mirror.Stopped) && w.chance(2):
			return w.detour
		case c.isIn(mirror.HandedOver) && w.chance(6):
			return func() { c.orderVerb(mirror.FailoverForced) }
		case (c.isIn(mirror.PendingSynchronize) || c.isIn(mirror.PendingHandOver)) && !c.topic.rec.Paused && w.chance(2):
			return w.further(c)
		case c.handingOver() && (!w.profile.turnsOnly && w.chance(6) || c.state() == mirror.HandedOver && w.chance(8)),
			c.isIn(mirror.PendingRestore) && !w.profile.turnsOnly && w.chance(24):
			e := []mirror.Event{mirror.FailoverAsked, mirror.FailoverForced}[w.random.IntN(2)]
			return func() { c.orderVerb(e) }
		case c.linkStops && w.chance(12) && c.owner != nil:
			return func() {
				c.put(func() { c.linkStops = false })
				w.log("%s: link goes on", c.name)
			}
		}
		for j := range i {
			if pair := pairOf(i, j); w.parted[pair] && w.chance(10) {
				return func() {
					w.parted[pair] = false
					w.log("%s and %s: together again", w.clusters[j].name, c.name)
				}
			}
		}
	}
	return nil
}

// further takes a reversal a step on, on either side or between them: it has many, and its last ones are to be met while there are faults.
func (w *world) further(c *cluster) func() {
	source := c.topic.rec.upstream
	switch at := w.talk(-1); w.random.IntN(4) {
	case 0:
		if at >= 0 {
			return func() { w.deliver(at) }
		}
		return w.carry
	case 1:
		if source.owner != nil {
			return source.shell.work
		}
	}
	return c.shell.work
}

// detour keeps the end of a reversal from the source's side, and lets the side that completed it be restored from a third one meanwhile.
func (w *world) detour() {
	w.parted[pairOf(0, 1)] = true
	b, c := w.clusters[1], w.clusters[2]
	switch {
	case c.owner == nil || c.topic == nil:
	case c.state() != mirror.Stopped:
		c.orderVerb(mirror.FailoverAsked)
	default:
		b.orderRestore(c, false)
	}
}

// isIn reports whether the cluster is up and its topic in a state.
func (c *cluster) isIn(state mirror.State) bool {
	return c.owner != nil && c.topic != nil && c.state() == state
}

// inTheMiddle is a cluster that is in a state which does not last, or failed, if there is one; else the one given.
func (w *world) inTheMiddle(otherwise *cluster) *cluster {
	from := w.random.IntN(len(w.clusters))
	for i := range w.clusters {
		if c := w.clusters[(from+i)%len(w.clusters)]; c.inTheMiddle() {
			return c
		}
	}
	return otherwise
}

// handingOver reports whether a reversal is at its point of decision here.
func (c *cluster) handingOver() bool {
	return c.owner != nil && c.topic != nil && (c.state() == mirror.PendingHandOver || c.state() == mirror.HandedOver)
}

// handedOverUnheard reports whether the cluster has handed over and its mirror has not heard of it: the moment in which a
// failover can still end the reversal (rule R2).
func (c *cluster) handedOverUnheard() bool {
	if !c.handingOver() || c.state() != mirror.HandedOver {
		return false
	}
	peer := c.topic.rec.upstream
	return peer != nil && peer.handingOver() && peer.state() == mirror.PendingHandOver
}

func (c *cluster) inTheMiddle() bool {
	if c.owner == nil || c.topic == nil {
		return false
	}
	switch c.state() {
	case mirror.Active, mirror.Paused, mirror.Stopped:
		return false
	}
	return true
}

const (
	newsAtOnce = 2  // of all states
	newsOfRare = 24 // of those that do not last
)

// lateNews brings what comes too late to matter: what the other side said in an earlier round, what a fetcher found before it was
// stopped, an order that is refused. It happens between all events, and counts as none.
func (w *world) lateNews() {
	for _, c := range w.clusters {
		if c.topic == nil || c.owner == nil {
			continue
		}
		n := newsAtOnce
		if c.inTheMiddle() {
			n = newsOfRare
		}
		for range n {
			w.late(c, mirror.Event(w.random.IntN(int(topicEvents))))
		}
		for p := range c.topic.Partitions {
			n := newsAtOnce
			switch c.shell.parts[p] {
			case mirror.Cutting, mirror.Fencing, mirror.Draining, mirror.Frozen, mirror.Faulty, mirror.Broken:
				n = newsOfRare
			}
			for range n {
				w.latePart(c, p, mirror.PartEvent(w.random.IntN(int(partEvents))))
			}
		}
	}
}

// groups commits or copies a group's offset.
func (w *world) groups(c *cluster) func() {
	return func() {
		if !c.up() {
			return
		}
		if c.plain != nil || c.topic == nil || w.chance(2) && c.shell != nil {
			if c.shell != nil {
				c.shell.syncGroups()
				return
			}
		}
		_, partitions, err := c.describe()
		if err != nil {
			return
		}
		group, p := groupNames[w.random.IntN(2)], int32(w.random.IntN(int(partitions)))
		e, err := c.ends(p)
		if err != nil {
			return
		}
		to := e.start + kafkaOffset(w.random.Int64N(int64(e.end-e.start)+1))
		if c.plain != nil {
			c.plain.commits[group][p] = to
		} else if c.state().Writable() {
			c.setCommit(group, p, commit{offset: to})
		}
	}
}

// trouble is something that nobody ordered.
func (w *world) trouble(c *cluster) func() {
	return func() {
		if kafka := w.clusters[0].plain; kafka != nil && w.chance(3) {
			kafka.trouble()
			return
		}
		switch n := w.random.IntN(10); {
		case n < 3 && c.plain != nil:
			c.plain.trouble()
		case n < 3 && c.topic != nil && c.owner != nil && c.state().Writable():
			c.deleteRecords()
		case n < 5 && c.owner != nil:
			c.crash()
		case n < 7:
			other := w.clusters[w.random.IntN(len(w.clusters))]
			pair := pairOf(c.index, other.index)
			if c != other {
				w.parted[pair] = true
				w.log("%s and %s: parted", c.name, other.name)
			}
		case n == 7:
			c.denies = true
			w.log("%s refuses its links", c.name)
		case n == 8:
			c.corrupts = true
			w.log("%s serves broken batches", c.name)
		case w.profile.compact: // how long tombstones are kept is measured by two clocks
		default:
			c.skew += time.Duration(w.random.Int64N(int64(4*time.Second))) - 2*time.Second
			w.log("%s: its clock is %v off", c.name, c.skew)
		}
	}
}

// deleteRecords is a client's DeleteRecords.
func (c *cluster) deleteRecords() {
	p := int32(c.w.random.IntN(int(c.topic.Partitions)))
	o := c.part(p).Offsets()
	if o.HighWatermark == o.LogStart {
		return
	}
	to := o.LogStart + kafkaOffset(c.w.random.Int64N(int64(o.HighWatermark-o.LogStart)+1))
	_, err := c.part(p).DeleteRecords(to)
	c.w.log("%s-%d on %s: records below %d are deleted: %v", topicName, p, c.name, to, err)
	c.alive()
}
