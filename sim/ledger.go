package sim

import (
	"fmt"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// node is a batch that some cluster made: appended for a producer, or as a marker. Its parent is the batch that stood before it there.
// So all logs of one topic, on all clusters, are paths in one tree, and whatever else is true: a log that is
// no such path has lost, doubled or mixed records.
type node struct {
	base, next kafka.Offset
	epoch      kafka.LeaderEpoch
	crc        uint32
	parent     *node
	// for the first one in a log that had jumped, which has no parent: the last that was there before, and that copies may
	// hold
	over     *node
	depth    int
	minter   int  // the cluster
	retired  bool // retention or compaction removed it somewhere, so that a log may do without it
	control  bool
	producer kafka.ProducerID
	// Of compacted topics:
	transactional, commits bool
	records                []kept
}

func (n *node) String() string {
	if n == nil {
		return "nothing"
	}
	return fmt.Sprintf("[%d..%d] epoch %d crc %08x", n.base, n.next-1, n.epoch, n.crc)
}

// before is the node that came before, also where a jump lies between.
func (n *node) before() *node {
	if n.parent == nil {
		return n.over
	}
	return n.parent
}

// holds reports whether n is on the way from the root to tip.
func (n *node) holds(tip *node) bool {
	for q := tip; q != nil && q.depth >= n.depth; q = q.parent {
		if q == n {
			return true
		}
	}
	return false
}

type nodeKey struct {
	root  kafka.TopicID
	base  kafka.Offset
	epoch kafka.LeaderEpoch
	crc   uint32
}

type epochKey struct {
	root  kafka.TopicID // of the history
	epoch kafka.LeaderEpoch
}

// ledger is all nodes of a world.
type ledger struct {
	nodes  map[nodeKey]*node
	epochs map[epochKey]int // who minted in an epoch
	// compacted is set where cleaners rewrite batches; made is by what they leave as it is: everything but the checksum.
	compacted bool
	made      map[nodeKey]*node
}

func newLedger() *ledger {
	return &ledger{nodes: map[nodeKey]*node{}, epochs: map[epochKey]int{}, made: map[nodeKey]*node{}}
}

func keyOf(root kafka.TopicID, b batch.Batch) nodeKey {
	return nodeKey{root, b.BaseOffset(), b.LeaderEpoch(), b.CRC()}
}

// find is the batch, or what a cleaner has left of it; nil if nobody ever made it.
func (l *ledger) find(root kafka.TopicID, b batch.Batch) *node {
	key := keyOf(root, b)
	if n := l.nodes[key]; n != nil || !l.compacted {
		return n
	}
	key.crc = 0
	if n := l.made[key]; n != nil && n.leaves(b) {
		return n
	}
	return nil
}

// isOf reports whether a node is of a history.
func (l *ledger) isOf(root kafka.TopicID, n *node) bool {
	return l.nodes[nodeKey{root, n.base, n.epoch, n.crc}] == n
}

// rootOf is the history that a batch is of; no two have the same one.
func (l *ledger) rootOf(b batch.Batch) (kafka.TopicID, bool) {
	for key := range l.nodes {
		if key == keyOf(key.root, b) {
			return key.root, true
		}
	}
	return kafka.TopicID{}, false
}

// mint adds a batch that a cluster has made.
func (l *ledger) mint(root kafka.TopicID, b batch.Batch, parent *node, minter int) *node {
	n := &node{base: b.BaseOffset(), next: b.NextOffset(), epoch: b.LeaderEpoch(), crc: b.CRC(), parent: parent, minter: minter,
		control: b.IsControl(), producer: b.ProducerID()}
	if parent != nil {
		n.depth = parent.depth + 1
	}
	key := keyOf(root, b)
	l.nodes[key] = n
	if l.compacted {
		marker, _, is := b.Marker()
		n.transactional, n.commits, n.records = b.IsTransactional(), is && marker == batch.Commit, keptOf(b)
		key.crc = 0
		l.made[key] = n
	}
	return n
}

// follows says why a log in which tip was the last batch may not go on with n; nil for a log that held nothing. What was removed
// everywhere may be missing, and where all of another history up to n is gone, nobody can tell that there was one.
func follows(tip, n *node) error {
	if tip == nil {
		return nil
	}
	for q := n.parent; q != tip; q = q.parent {
		switch {
		case q == nil || q.depth <= tip.depth && q.holds(tip):
			return nil
		case !q.retired && q.base < tip.next:
			return fmt.Errorf("%v follows %v: at %v it is of another history", n, tip, q)
		case !q.retired:
			return fmt.Errorf("%v follows %v: %v is missing between them", n, tip, q)
		}
	}
	return nil
}
