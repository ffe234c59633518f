package sim

import (
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// seen is what was last seen of one partition's log by whoever looks from outside, at or below the high watermark.
type seen struct {
	root        kafka.TopicID // of the history: the topic whose owner made the partition
	rootFrom    kafka.Offset  // where that history began here, for one that nobody could tell from the one before
	known       bool
	nodes       []*node
	tip         *node // of all that was seen, what retention removed too; nil for a log that is empty for ever
	passed      *node // the last one below a jump, after which there was nothing yet
	start, high kafka.Offset
	generation  int64
	truncations int64
	epoch       kafka.LeaderEpoch
	open        bool
	stop        kafka.Offset // the stop point while it is open, NoOffset for none
	// had is the records of a compacted topic, by number, that were ever here since the log was last empty.
	had map[string]bool
	// anew is set once all of the log was copied again from a source that lacks nothing; home is where the log is.
	anew bool
	home kafka.TopicID
}

func (s *seen) end() kafka.Offset {
	if n := len(s.nodes); n > 0 {
		return s.nodes[n-1].next
	}
	return s.start
}

// at is the last node that ends at or below the offset, nil for none.
func (s *seen) at(offset kafka.Offset) *node {
	for i := len(s.nodes) - 1; i >= 0; i-- {
		if s.nodes[i].next <= offset {
			return s.nodes[i]
		}
	}
	return nil
}

// check looks at every partition and checks every invariant on what has changed.
func (w *world) check() {
	for _, c := range w.clusters {
		if c.owner == nil || c.topic == nil {
			continue
		}
		for p := range c.topic.Partitions {
			if part := c.part(p); part != nil && part.Err() == nil {
				w.look(c, p, part)
			} else if part != nil {
				w.violate("NoStuckState", "%s-%d on %s is out of service: %v", topicName, p, c.name, part.Err())
			}
		}
		w.checkRoles(c)
		w.checkPledge(c)
		w.checkGroups(c)
	}
	w.checkWritable()
}

// look takes in what is new in a partition's log.
func (w *world) look(c *cluster, p int32, part *partition.Partition) {
	s := c.topic.seen[p]
	o, entry := part.Offsets(), part.Entry()
	if s.known && s.generation == o.Generation && s.high == o.HighWatermark && s.start == o.LogStart && s.epoch == o.Epoch {
		return
	}
	if s.known && o.Epoch < s.epoch {
		w.violate("EpochNeverFalls", "%s-%d on %s publishes epoch %d after %d", topicName, p, c.name, o.Epoch, s.epoch)
	}
	cut := s.truncations != entry.Truncations
	w.checkHighWatermark(c, p, s, o, entry)
	if cut && s.known && o.Epoch <= s.epoch {
		w.violate("E2", "%s-%d on %s was cut without a higher epoch than %d", topicName, p, c.name, s.epoch)
	}
	w.checkStop(c, p, s, entry)
	if s.home != entry.Home && !cut && o.LogStart <= s.end() {
		w.rehomed(c, p, s, part)
	}
	s.home, s.anew = entry.Home, s.anew && !cut
	before, end := s.tip, s.end()
	jumped := o.LogStart > end
	if cut || jumped {
		switch {
		case cut:
			s.passed = nil
		case before != nil:
			s.passed = before
		}
		s.nodes, s.tip = nil, nil
		s.start = o.LogStart
		if jumped || o.HighWatermark == o.LogStart {
			s.had = nil
		}
	}
	s.known = true
	w.dropBelow(s, o.LogStart)
	for _, b := range readFrom(part, s.end(), o.HighWatermark) {
		w.took(c, p, s, entry, b)
	}
	if jumped && len(s.nodes) > 0 {
		w.checkJump(c, p, s.nodes[0], end)
	}
	if cut {
		w.checkCut(c, p, s, before, entry)
	}
	s.high, s.generation, s.truncations, s.epoch, s.open = o.HighWatermark, o.Generation, entry.Truncations, o.Epoch,
		entry.Role == meta.RoleOpen
}

// dropBelow takes away what the log does not hold any more at its start.
func (w *world) dropBelow(s *seen, start kafka.Offset) {
	s.start = start
	for len(s.nodes) > 0 && s.nodes[0].next <= start {
		s.nodes[0].retired = true
		s.nodes = s.nodes[1:]
	}
}

// took takes in one batch that is shown for the first time.
func (w *world) took(c *cluster, p int32, s *seen, entry meta.Partition, b batch.Batch) {
	if b.NextOffset() <= s.start {
		return
	}
	n := w.ledger.find(s.root, b)
	if n == nil && entry.Role == meta.RoleMirror && c.topic.rec.upstream.indistinct(p, s) {
		s.root, s.rootFrom, s.tip = c.topic.rec.upstream.rootOf(p), b.BaseOffset(), nil
		s.passed = nil
		n = w.ledger.find(s.root, b)
	}
	if n == nil && entry.Role == meta.RoleMirror && s.tip == nil {
		// The topic that this was fetched from may be gone by now, and the log was empty: nothing could be compared.
		if root, is := w.ledger.rootOf(b); is {
			s.root, s.rootFrom, s.passed = root, b.BaseOffset(), nil
			n = w.ledger.find(s.root, b)
		}
	}
	if n == nil {
		if entry.Role == meta.RoleMirror {
			w.violate("MirrorIsPrefixOfSource", "%s-%d on %s holds [%d..%d] of epoch %d, which no source ever had", topicName, p, c.name,
				b.BaseOffset(), b.LastOffset(), b.LeaderEpoch())
		}
		n = w.ledger.mint(s.root, b, s.tip, c.index)
		if s.tip == nil {
			n.over = s.passed
		}
		w.checkMinter(c, p, n)
	} else if err := follows(s.tip, n); err != nil {
		w.violate("MirrorIsPrefixOfSource", "%s-%d on %s: %v", topicName, p, c.name, err)
	}
	if n.epoch > entry.Epoch {
		w.violate("E4", "%s-%d on %s shows %v, and publishes epoch %d", topicName, p, c.name, n, entry.Epoch)
	}
	s.nodes = append(s.nodes, n)
	s.tip = n
	if w.profile.compact {
		s.holds(keptOf(b))
	}
}

func (s *seen) holds(records []kept) {
	if s.had == nil {
		s.had = map[string]bool{}
	}
	for _, r := range records {
		s.had[r.number] = true
	}
}

// readFrom reads the headers of all batches between two offsets.
func readFrom(part *partition.Partition, from, to kafka.Offset) []batch.Batch {
	var list []batch.Batch
	for from < to {
		answer, err := part.Read(partition.Read{From: from, MaxBytes: 1 << 20, AtLeastOne: true, CurrentEpoch: kafka.NoEpoch,
			LastEpoch: kafka.NoEpoch})
		if err != nil {
			return list
		}
		bytes, err := answer.Slice.Bytes()
		answer.Slice.Close()
		if err != nil || len(bytes) == 0 {
			return list
		}
		for b, err := range bytes.All() {
			if err != nil {
				return list
			}
			if b.NextOffset() > from {
				list = append(list, b)
				from = b.NextOffset()
			}
		}
	}
	return list
}

// indistinct reports whether nobody can tell this topic from the one that a mirror has copied so far: a topic was made anew under
// the name on a Kafka that gives topics no ids, and all that could be compared was removed, there or here.
func (c *cluster) indistinct(p int32, mirrored *seen) bool {
	if c.plain == nil {
		if c.topic == nil || int(p) >= len(c.topic.seen) {
			return false
		}
		above := c.topic.seen[p] // it may itself have gone on with another history unawares
		return mirrored.tip == nil || above.root != mirrored.root && above.rootFrom > 0 && mirrored.end() >= above.rootFrom
	}
	if !c.plain.made || int(p) >= len(c.plain.logs) {
		return false
	}
	return mirrored.tip == nil || !c.plain.withIDs && (c.plain.logs[p].start >= mirrored.end() || len(mirrored.nodes) == 0)
}
