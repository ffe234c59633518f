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
	segment   int64
	compact   bool
	turns     bool // reversals and restores
	turnsOnly bool // and no order that leaves two sides writable
	orders    int  // weights, beside 100 for work and letters
	troubles  int
	news      int
}

type layout int

const (
	pair       layout = iota // A and B, two hawsers with a bidirectional link; B mirrors A
	fromKafka                // A is an unmodified Kafka
	chain                    // A > B > C, hawsers
	kafkaChain               // the same, A an unmodified Kafka
	layouts
)

func drawProfile(r *rand.Rand) profile {
	p := profile{name: "", layout: layout(r.IntN(int(layouts))), crashes: 60, losses: 12, doubles: 12, segment: 1 << 20, orders: 8, troubles: 6, news: 8}
	if r.IntN(3) == 0 {
		p.crashes = 12
	}
	if r.IntN(4) == 0 {
		p.segment = 400
	}
	if r.IntN(4) == 0 {
		p.orders = 25
	}
	if r.IntN(4) == 0 {
		p.troubles = 20
	}
	if p.layout == pair || p.layout == chain {
		p.turns = r.IntN(5) > 0
		p.turnsOnly = p.layout == pair && r.IntN(2) == 0
	}
	p.name = [...]string{"pair", "from Kafka", "chain", "chain from Kafka"}[p.layout]
	return p
}

// build makes the clusters, their links, and the mirrors.
func (w *world) build() {
	n := 2
	if w.profile.layout == chain || w.profile.layout == kafkaChain {
		n = 3
	}
	for i := range n {
		c := &cluster{
			w: w, index: i, name: string(rune('A' + i)), prefix: uint32(0x1000 + i), txns: map[kafkaID]*txn{}, linked: true,
			mem: storetest.NewMemory(), random: rand.New(rand.NewPCG(w.opts.Seed, uint64(i))),
		}
		if i > 0 {
			c.upstream = w.clusters[i-1]
		}
		w.clusters = append(w.clusters, c)
		if i == 0 && (w.profile.layout == fromKafka || w.profile.layout == kafkaChain) {
			c.plain = newPlainKafka(c, w.random.IntN(4) > 0)
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
	if w.profile.layout != pair && w.profile.layout != chain {
		return
	}
	w.consumers = append(w.consumers, &consumer{at: w.clusters[0]})
}

// pick draws the next event.
func (w *world) pick() func() {
	c := w.clusters[w.random.IntN(len(w.clusters))]
	p := &w.profile
	for {
		switch n := w.random.IntN(120 + p.orders + p.troubles + p.news); {
		case n < 40:
			return w.carry
		case n < 75:
			if c.owner != nil {
				return c.shell.work
			}
		case n < 90:
			if len(w.producers) > 0 {
				return w.producers[w.random.IntN(len(w.producers))].step
			}
		case n < 100:
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
			return func() { w.pass(d) }
		case n < 120:
			if !c.up() {
				return c.start
			}
		case n < 120+p.orders:
			if do := w.order(c); do != nil {
				return do
			}
		case n < 120+p.orders+p.troubles:
			return w.trouble(c)
		default:
			return w.news(c)
		}
	}
}

// newsAtOnce is how much comes late together.
const newsAtOnce = 12

// news brings something late.
func (w *world) news(c *cluster) func() {
	return func() {
		for range newsAtOnce {
			w.late(c, mirror.Event(w.random.IntN(int(mirror.RestoredPaused)+1)))
			w.latePart(c, int32(w.random.IntN(2)), mirror.PartEvent(w.random.IntN(int(mirror.StopStored)+1)))
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
				w.parted[pair] = !w.parted[pair]
				w.log("%s and %s: parted %v", c.name, other.name, w.parted[pair])
			}
		case n == 7:
			c.denies = !c.denies
			w.log("%s refuses its links: %v", c.name, c.denies)
		case n == 8:
			c.corrupts = !c.corrupts && w.chance(2)
			w.log("%s serves broken batches: %v", c.name, c.corrupts)
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
