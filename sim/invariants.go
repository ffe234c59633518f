package sim

import (
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// checkHighWatermark is HighWatermarkNeverFalls, per partition and count of truncations. Crashes do not count: what was
// shown was synced (rule D2).
func (w *world) checkHighWatermark(c *cluster, p int32, s *seen, o partition.Offsets, entry meta.Partition) {
	if s.known && s.truncations == entry.Truncations && o.HighWatermark < s.high {
		w.violate("HighWatermarkNeverFalls", "%s-%d on %s: from %d to %d", topicName, p, c.name, s.high, o.HighWatermark)
	}
}

// checkCut: only a mirror, or what a restore makes one, loses what was shown.
func (w *world) checkCut(c *cluster, p int32, s *seen, before *node, entry meta.Partition) {
	if entry.Role != meta.RoleMirror {
		w.violate("NoAckedRecordLost", "%s-%d on %s was cut from %v to %v as %s", topicName, p, c.name, before, s.tip, entry.Role)
	}
	if entry.Role == meta.RoleMirror {
		// A mirror's records are its source's to keep, also those that were acknowledged here in an earlier life: what a source loses or has
		// cut off by a restore, its mirrors cut too; what it has comes again.
		for _, a := range c.topic.acked {
			a.excused = a.excused || a.partition == p && a.node != nil && !a.node.holds(s.tip)
		}
	}
	w.checkAcked(c, p)
}

// checkJump: what a log passed over from an offset on, before it went on with n, its source had removed.
func (w *world) checkJump(c *cluster, p int32, n *node, from kafka.Offset) {
	for q := n.parent; q != nil && q.base >= from; q = q.parent {
		if !q.retired {
			w.violate("MirrorIsPrefixOfSource", "%s-%d on %s passed over %v, which its source had, to %v", topicName, p, c.name, q, n)
		}
	}
}

// checkMinter is NoTwoLeadersInOneEpoch: an epoch of a history has one cluster that gives out offsets in it.
func (w *world) checkMinter(c *cluster, p int32, n *node) {
	key := epochKey{c.topic.seen[p].root, n.epoch}
	if other, is := w.ledger.epochs[key]; is && other != c.index {
		w.violate("NoTwoLeadersInOneEpoch", "%s-%d: epoch %d of %s was begun by %s too, at %v", topicName, p, n.epoch,
			w.clusters[other].name, c.name, n)
	}
	w.ledger.epochs[key] = c.index
}

// checkRoles is NoProduceWhileMirroring as far as it is stored: a partition is open only if its topic is no mirror, or becomes or was
// one this moment; and a topic that is none has only open partitions.
func (w *world) checkRoles(c *cluster) {
	if c.topic.rec == nil {
		return
	}
	state := c.topic.rec.State
	for p, entry := range c.topic.parts.List {
		open := entry.Role == meta.RoleOpen
		switch state {
		case mirror.Stopped:
			if !open {
				w.violate("NoProduceWhileMirroring", "%s-%d on %s is %s though STOPPED", topicName, p, c.name, entry.Role)
			}
		case mirror.Stopping, mirror.Reopening, mirror.PendingMirror, mirror.PendingSetup:
		default:
			if open {
				w.violate("NoProduceWhileMirroring", "%s-%d on %s is open though %v", topicName, p, c.name, state)
			}
		}
	}
}

// checkCompletion: a mirror says that it completed a reversal only while it has all that its old source has up to the ends, or the old
// source would be cut when it follows (rule R1).
func (w *world) checkCompletion(c, peer *cluster, ends []kafka.Offset) {
	for p, end := range ends {
		if c.topic == nil || p >= len(c.topic.seen) || p >= len(peer.topic.seen) {
			return
		}
		mine, theirs := c.topic.seen[p], peer.topic.seen[p]
		if n := mine.at(end); n != nil && n.base >= theirs.start && theirs.tip != nil && !n.holds(theirs.tip) {
			w.violate("R1", "%s says that it completed a reversal, but %s-%d has not got %v of %s any more", peer.name, topicName, p, n, c.name)
		}
	}
}

// checkPledge: a restore whose pledge was taken back gets none again, however late its messages come (rule T1).
func (w *world) checkPledge(c *cluster) {
	if rec := c.topic.rec; rec != nil && rec.pledge != nil && plan.Withdrawn(rec.withdrawn, rec.pledge.id) {
		w.violate("T1", "%s is pledged again to %s, whose pledge was taken back", c.name, rec.pledge.id)
	}
}

// checkAcked is NoAckedRecordLost on one cluster: what was acknowledged there is there, or in the quarantine of a restore.
func (w *world) checkAcked(c *cluster, p int32) {
	s := c.topic.seen[p]
	for _, a := range c.topic.acked {
		if a.partition != p || a.node == nil || a.node.retired || a.excused {
			continue
		}
		if !a.node.holds(s.tip) {
			w.violate("NoAckedRecordLost", "%s-%d on %s: record %d, acknowledged at %d, is gone: %v is not below %v", topicName, p, c.name,
				a.record, a.offset, a.node, s.tip)
			return
		}
	}
}

// checkGroups is GroupOffsetWithinMirror: no offset of a group lies beyond what its mirror shows, and none is of a history that is gone.
func (w *world) checkGroups(c *cluster) {
	for group, list := range c.topic.groups {
		for p, offset := range list {
			entry := c.topic.parts.List[p]
			if entry.Role == meta.RoleMirror && offset.offset > c.part(int32(p)).Offsets().HighWatermark && !offset.cut {
				w.violate("GroupOffsetWithinMirror", "group %s stands at %d of %s-%d on %s, which ends at %d", group, offset.offset, topicName,
					p, c.name, c.part(int32(p)).Offsets().HighWatermark)
			}
			if stop := entry.Stop; stop != nil && entry.Role == meta.RoleOpen && offset.synced && offset.offset > stop.Offset {
				w.violate("GroupOffsetWithinMirror", "group %s stands at %d of %s-%d on %s, which stopped at %d", group, offset.offset,
					topicName, p, c.name, stop.Offset)
			}
		}
	}
}

// checkWritable is NoTwoWritable.
func (w *world) checkWritable() {
	if w.twoWritable {
		return
	}
	for p := range int32(partitionsMax) {
		var open *cluster
		for _, c := range w.clusters {
			if c.plain != nil || c.topic == nil || int(p) >= len(c.topic.parts.List) || c.topic.parts.List[p].Role != meta.RoleOpen {
				continue
			}
			if open != nil && open.topic.seen[p].root == c.topic.seen[p].root {
				w.violate("NoTwoWritable", "%s-%d is open on %s and on %s", topicName, p, open.name, c.name)
			}
			open = c
		}
	}
}

// ack is a record that a producer was told is stored.
type ack struct {
	record    int
	partition int32
	offset    kafka.Offset
	node      *node
	excused   bool // moved to the quarantine by a restore
}

// checkStop: a stop point is written once, never computed again (rules D1, D9).
func (w *world) checkStop(c *cluster, p int32, s *seen, entry meta.Partition) {
	stop := kafka.NoOffset
	if entry.Role == meta.RoleOpen && entry.Stop != nil {
		stop = entry.Stop.Offset
	}
	if s.open && entry.Role == meta.RoleOpen && stop != s.stop {
		w.violate("D9", "%s-%d on %s stopped at %d and then at %d", topicName, p, c.name, s.stop, stop)
	}
	s.stop = stop
}
