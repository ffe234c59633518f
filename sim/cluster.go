package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/hawserio/hawser/store/storetest"
)

// topicName is the one topic of the worlds.
const topicName = "t"

// cluster is one hawser, or an unmodified Kafka.
type cluster struct {
	w                *world
	index            int
	name             string
	plain            *plainKafka // set for an unmodified Kafka, which has none of what follows
	denies, corrupts bool        // faults of the cluster as a source

	// What survives a crash: the metadata, and the store as far as it keeps it.
	topic     *topic // nil for none
	deleted   []kafka.TopicID
	kept      []*quarantine
	copies    []*meta.Partitions // entries of copies of mirrors
	prefix    uint32
	txns      map[kafka.ProducerID]*txn
	nextID    int64
	linked    bool     // the link to upstream exists
	upstream  *cluster // the link's other end; nil for none
	linkStops bool     // cluster.link.paused
	mem       *storetest.Memory

	// What does not.
	owner  *partition.Owner
	ctx    context.Context // ends with a crash: nobody waits for what a dead cluster does
	cancel context.CancelFunc
	shell  *shell
	skew   time.Duration

	drawing sync.Mutex // guards what follows
	random  *rand.Rand
	drawn   map[uint32]bool // of random

	mu       sync.Mutex // guards what follows: the owner's goroutines come here too
	plan     crashPlan
	dead     bool // in the middle of an event
	salvaged *storetest.Memory
}

// topic is a topic's record, its partitions' and its mirror's.
type topic struct {
	meta.Topic
	parts  meta.Partitions
	rec    *record // nil if it never was in the hands of a link
	groups map[string][]commit
	seen   []*seen
	acked  []*ack
}

// crashPlan is when the cluster is to fall during an event; 0 for never.
type crashPlan struct {
	beforeStore, afterStore int // the how manieth write of metadata
	operation               int // the how manieth operation on the store
	seed                    uint64
}

// crashed is what a crash in the middle of the shell's work is unwound with.
type crashed struct{ c *cluster }

var errDead = errors.New("the cluster has crashed")

func (c *cluster) up() bool { return c.owner != nil || c.plain != nil }

// planCrash decides whether the cluster falls during the next event, and where.
func (c *cluster) planCrash() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plan = crashPlan{seed: c.w.random.Uint64()}
	if c.owner == nil || !c.w.chance(c.w.profile.crashes) {
		return
	}
	switch c.w.random.IntN(3) {
	case 0:
		c.plan.beforeStore = 1 + c.w.random.IntN(3)
	case 1:
		c.plan.afterStore = 1 + c.w.random.IntN(3)
	default:
		c.plan.operation = 1 + c.w.random.IntN(6)
	}
}

// forgetPlan keeps the cluster up from here on.
func (c *cluster) forgetPlan() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plan = crashPlan{}
}

// due counts a crash point down, and reports that the cluster is dead by now.
func (c *cluster) due(count *int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead && *count > 0 {
		if *count--; *count == 0 {
			c.dead = true
			c.salvaged = c.mem.Crash(c.plan.seed)
			c.cancel()
		}
	}
	return c.dead
}

// die is a crash at this moment: what the store keeps is drawn now.
func (c *cluster) die() {
	now := 1
	c.due(&now)
}

// isDead reports whether the cluster has crashed in the present event.
func (c *cluster) isDead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// fall ends a crashed cluster, up to its next start.
func (c *cluster) fall() {
	c.w.log("%s crashes", c.name)
	owner := c.owner
	c.owner, c.shell = nil, nil
	if owner != nil {
		// It cannot write any more, and says so.
		_ = owner.Close()
	}
	c.mem, c.salvaged, c.dead = c.salvaged, nil, false
}

// crash is a crash between two events.
func (c *cluster) crash() {
	c.die()
	c.fall()
}

// alive unwinds the event if the cluster has crashed in it.
func (c *cluster) alive() {
	if c.isDead() {
		panic(crashed{c})
	}
}

// put stores a change of metadata, in one transaction.
func (c *cluster) put(change func()) {
	c.due(&c.plan.beforeStore)
	c.alive()
	c.w.did = true
	change()
	c.due(&c.plan.afterStore)
	c.alive()
}

// UpdatePartitions is the owner's stream.
func (c *cluster) UpdatePartitions(_ context.Context, topics []kafka.TopicID,
	decide func(*meta.Partitions) (*meta.Partitions, error)) error {
	if c.due(&c.plan.beforeStore) {
		return errDead
	}
	for _, id := range topics {
		stored := c.partitionsOf(id)
		if stored == nil {
			return kafka.UnknownTopicID
		}
		next, err := decide(&meta.Partitions{Topic: id, CopyOf: stored.CopyOf, List: slices.Clone(stored.List)})
		if err != nil {
			return err
		}
		if next != nil {
			*stored = *next
		}
	}
	if c.due(&c.plan.afterStore) {
		return errDead
	}
	return nil
}

func (c *cluster) partitionsOf(id kafka.TopicID) *meta.Partitions {
	if c.topic != nil && c.topic.ID == id {
		return &c.topic.parts
	}
	for _, q := range c.kept {
		if q.ID == id {
			return &q.parts
		}
	}
	for _, e := range c.copies {
		if e.Topic == id {
			return e
		}
	}
	return nil
}

// hook is called before each operation on the store.
func (c *cluster) hook(storetest.Op) error {
	if c.due(&c.plan.operation) {
		return errDead
	}
	return nil
}

// draw is a number that no other cluster draws, nor this one again: the ledger knows a batch that was cleaned by its offset and epoch, and took
// the marker of one life of a topic for that of another under the same number (seed 428984).
func (c *cluster) draw() uint32 {
	c.drawing.Lock()
	defer c.drawing.Unlock()
	for {
		if n := c.random.Uint32()&0x1ff | uint32(c.index)<<10; !c.drawn[n] {
			c.drawn[n] = true
			return n
		}
	}
}

// start starts the cluster, from what a crash has left.
func (c *cluster) start() {
	c.w.log("%s starts", c.name)
	c.dead = false
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.mem.Hook(c.hook)
	c.owner = partition.NewOwner(partition.Config{
		ClusterID: c.name, ProducerPrefix: c.prefix, Workers: 1,
		Now:    func() time.Time { return time.Now().Add(c.skew) },
		Random: c.draw,
	}, c.mem, c)
	c.shell = newShell(c)
	for _, id := range c.deleted {
		_ = c.owner.Delete(id, partitionsMax) // what is left is removed with the next start
	}
	for _, q := range c.kept {
		c.openQuarantine(q)
	}
	if c.topic != nil {
		c.open()
	}
	c.alive()
	c.recoverTxns()
	c.shell.begin()
}

func (c *cluster) open() {
	err := c.owner.Open(&c.topic.Topic, &meta.Partitions{Topic: c.topic.ID, List: slices.Clone(c.topic.parts.List)},
		c.topicConfig(c.w.profile.compact))
	c.alive()
	if err != nil {
		c.w.violate("NoStuckState", "%s does not open its topic: %v", c.name, err)
	}
	c.w.settle()
	c.alive()
	for p := range c.topic.Partitions {
		if err := c.part(p).Err(); err != nil {
			c.w.violate("NoStuckState", "%s-%d on %s is out of service: %v", topicName, p, c.name, err)
		}
		if c.w.profile.compact {
			c.w.cleaned(c, p, c.part(p)) // a crash may have come in the middle of a cleaning
		}
	}
}

func (c *cluster) topicConfig(compact bool) partition.TopicConfig {
	return partition.TopicConfig{
		Log:                  commitlog.Config{SegmentBytes: c.w.profile.segment, IndexInterval: 4096, SegmentAge: time.Hour},
		MaxMessageBytes:      1 << 20,
		TimestampBeforeMaxMs: math.MaxInt64,
		TimestampAfterMaxMs:  math.MaxInt64,
		Compression:          "producer",
		Compacted:            compact,
		Retain:               retain.Policy{Compact: compact, DeleteRetentionMs: deleteRetention.Milliseconds()},
	}
}

// part is an open partition; nil where there is none.
func (c *cluster) part(p int32) *partition.Partition {
	if c.owner == nil || c.topic == nil {
		return nil
	}
	return c.owner.Get(kafka.PartitionID{Topic: c.topic.ID, Partition: p})
}

// partitionsMax is how many partitions a topic may get.
const partitionsMax = 3

// addTopic makes the topic, with all its partitions in a role.
func (c *cluster) addTopic(partitions int32, role meta.Role, rec *record) {
	c.w.topicsMade++
	id := topicID('t', c.w.topicsMade)
	t := &topic{
		Topic: meta.Topic{ID: id, Name: topicName, Partitions: partitions}, parts: meta.Partitions{Topic: id}, rec: rec,
		groups: map[string][]commit{},
	}
	for p := range partitions {
		root := c.w.newRoot()
		if rec != nil {
			root = rec.upstream.rootOf(p)
		}
		t.parts.List = append(t.parts.List, meta.Partition{Role: role, Generation: 1})
		t.seen = append(t.seen, &seen{root: root})
	}
	c.put(func() { c.topic = t })
	c.open()
	for p := range partitions {
		c.shell.parts[p] = c.shell.partNow(p)
	}
}

// removeTopic deletes the topic, its mirror with it.
func (c *cluster) removeTopic() {
	id := c.topic.ID
	c.put(func() {
		c.deleted = append(c.deleted, id)
		c.topic = nil
		for _, t := range c.txns {
			t.dropAll()
		}
	})
	c.shell.dropAll()
	err := c.owner.Delete(id, partitionsMax)
	c.alive()
	if err != nil {
		c.w.violate("NoStuckState", "%s does not delete its topic: %v", c.name, err)
	}
}

func (c *cluster) String() string {
	switch {
	case c.plain != nil:
		return c.name + " (Kafka)"
	case c.topic == nil:
		return c.name + " (no topic)"
	case c.topic.rec == nil:
		return c.name + " (plain)"
	}
	return fmt.Sprintf("%s (%v)", c.name, c.topic.rec.State)
}

func (c *cluster) now() time.Time { return time.Now().Add(c.skew) }
