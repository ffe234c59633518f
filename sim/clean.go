package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// deleteRetention is how long cleaners keep tombstones: delete.retention.ms of all topics.
const deleteRetention = time.Hour

// clean lets the cluster's cleaner go through a partition. The source's and the mirror's know nothing of each other.
func (c *cluster) clean() {
	if c.plain != nil {
		c.plain.clean()
		return
	}
	if c.topic == nil || c.owner == nil {
		return
	}
	w, p := c.w, int32(c.w.random.IntN(int(c.topic.Partitions)))
	part := c.part(p)
	var stopped any // what a crash in the middle of it unwinds with
	done, err := part.Compact(c.ctx, c.now(), partition.Compaction{KeyBytes: 1 << 14, Pace: func(int) {
		if stopped == nil && !w.calm && w.chance(12) {
			stopped = w.beside(c)
		}
	}})
	c.alive()
	w.log("%s-%d on %s is cleaned from %d to %d, %d records removed: %v", topicName, p, c.name, done.From, done.To, done.Removed, err)
	if c.topic != nil && c.part(p) == part {
		w.cleaned(c, p, part)
	}
	if rec := c.topic.rec; done.Removed > 0 && rec != nil && rec.upstream.plain != nil && !w.calm && w.chance(3) {
		rec.upstream.plain.loseTail(p) // and with it perhaps what the cleaner relied on (rule T2)
	}
	switch {
	case stopped != nil:
		panic(stopped)
	case err != nil && !errors.Is(err, partition.ErrCleanAborted):
		w.violate("NoStuckState", "%s-%d on %s cannot be cleaned: %v", topicName, p, c.name, err)
	}
}

// beside does something else while a cluster's cleaner is at work. It answers the crash that it ended with.
func (w *world) beside(c *cluster) (stop any) {
	defer func() {
		stop = recover()
		if _, is := stop.(crashed); stop != nil && !is {
			panic(stop)
		}
	}()
	w.log("meanwhile:")
	switch {
	case c.copiesAnew() && w.chance(2):
		c.shell.recopyWork()
	case w.chance(2) && len(w.producers) > 0:
		w.producers[w.random.IntN(len(w.producers))].step()
	default:
		w.carry()
	}
	w.settle() // so that whose operation on the store comes first is the seed's to say
	return nil
}

// kept is one record as it was made.
type kept struct {
	offset kafka.Offset
	key    string
	number string
	gone   bool // a tombstone
	txn    bool // of a transaction
}

// keptOf are the records of a batch.
func keptOf(b batch.Batch) []kept {
	if b.IsControl() {
		return nil
	}
	var list []kept
	for r, err := range b.Records(1 << 20) {
		if err != nil {
			return nil
		}
		one := kept{offset: r.Offset, key: string(r.Key), number: string(r.Value), gone: r.Value == nil, txn: b.IsTransactional()}
		if len(r.Headers) > 0 {
			one.number = string(r.Headers[0].Key)
		}
		list = append(list, one)
	}
	return list
}

// leaves reports whether a cleaner may have made b of the node's batch.
func (n *node) leaves(b batch.Batch) bool {
	if n.next != b.NextOffset() || n.producer != b.ProducerID() || n.control != b.IsControl() {
		return false
	}
	for _, r := range keptOf(b) {
		if !slices.Contains(n.records, r) {
			return false
		}
	}
	return true
}

// history is what a log would hold had nobody ever cleaned it, from its start to its last stable offset.
type history struct {
	newest  map[string]kept
	records []kept
	aborted map[string]bool // by number
}

// historyOf follows the log's way through the tree.
func (s *seen) historyOf(stable kafka.Offset) history {
	var way []*node
	for n := s.tip; n != nil; n = n.parent {
		way = append(way, n)
	}
	h := history{newest: map[string]kept{}, aborted: map[string]bool{}}
	open := map[kafka.ProducerID][]kept{}
	for _, n := range slices.Backward(way) {
		switch {
		case n.control && !n.commits:
			for _, r := range open[n.producer] {
				h.aborted[r.number] = true
			}
			fallthrough
		case n.control:
			delete(open, n.producer)
		case n.transactional:
			open[n.producer] = append(open[n.producer], n.records...)
		}
	}
	for _, records := range open {
		for _, r := range records {
			// Below the last stable offset without an end: a jump passed it over (rule D5).
			h.aborted[r.number] = h.aborted[r.number] || r.offset < stable
		}
	}
	for _, n := range slices.Backward(way) {
		for _, r := range n.records {
			if r.offset < s.start || r.offset >= stable || h.aborted[r.number] {
				continue
			}
			h.records = append(h.records, r)
			h.newest[r.key] = r
		}
	}
	return h
}

// cleaned looks what cleaners have left of a log, and whether they were allowed to take the rest (rules T2, T3, X4).
func (w *world) cleaned(c *cluster, p int32, part *partition.Partition) {
	w.settle()
	for _, other := range w.clusters {
		if other == c || other.owner == nil || other.topic == nil || p >= other.topic.Partitions || other.state() != mirror.Stopped {
			continue
		}
		if written := other.part(p); written != nil && written.Err() == nil {
			w.look(other, p, written) // what was produced there beside the cleaning, this one may have copied
		}
	}
	w.look(c, p, part)
	s, o := c.topic.seen[p], part.Offsets()
	left := map[*node]bool{}
	for _, b := range readFrom(part, o.LogStart, o.HighWatermark) {
		n := w.ledger.find(s.root, b)
		if n == nil {
			if b.BaseOffset() >= s.rootFrom {
				w.violate("X4", "%s-%d on %s holds [%d..%d] of epoch %d with records that were never there", topicName, p, c.name,
					b.BaseOffset(), b.LastOffset(), b.LeaderEpoch())
			}
			return
		}
		left[n] = true
	}
	s.nodes = slices.DeleteFunc(s.nodes, func(n *node) bool {
		n.retired = n.retired || !left[n]
		return !left[n]
	})
	w.checkKeys(c, p, part)
}

// checkKeys wants the newest value of each key that was ever here to be here, unless it was deleted, and nothing older where a
// tombstone was, once that has gone.
func (w *world) checkKeys(c *cluster, p int32, part *partition.Partition) {
	s, o := c.topic.seen[p], part.Offsets()
	h := s.historyOf(o.LastStable)
	here := numbersOf(readFrom(part, o.LogStart, o.HighWatermark))
	for key, last := range h.newest {
		switch {
		case here[last.number]:
		case !last.gone:
			// What a mirror missed may have been the marker that committed it, or one that aborted what it holds for later records of the key:
			// that was told, or will be once it is level.
			if s.had[last.number] && !(last.txn && (w.mayLack(s) || c.awayTooLong())) {
				w.violate("T2", "%s-%d on %s: record %s, the newest of key %s, at %d, is gone", topicName, p, c.name, last.number, key, last.offset)
			}
		case s.had[last.number]:
			w.expired[last.number] = true
			if old := h.older(last, here); old != "" {
				w.violate("T3", "%s-%d on %s: the tombstone %s of key %s at %d is gone, record %s of the key is not", topicName, p, c.name,
					last.number, key, last.offset, old)
			}
		}
	}
}

func numbersOf(batches []batch.Batch) map[string]bool {
	here := map[string]bool{}
	for _, b := range batches {
		for _, r := range keptOf(b) {
			here[r.number] = true
		}
	}
	return here
}

// older is a record that is here though a later one, last, deleted its key; "" for none.
func (h history) older(last kept, here map[string]bool) string {
	for _, r := range h.records {
		if r.key == last.key && !r.gone && r.offset < last.offset && here[r.number] {
			return r.number
		}
	}
	return ""
}

// checkDeletions: a mirror, or what was one, that has missed a deletion says that it may have (rule T3).
func (w *world) checkDeletions(c *cluster, p int32) {
	part := c.part(p)
	s, o := c.topic.seen[p], part.Offsets()
	h := s.historyOf(o.LastStable)
	here := numbersOf(readFrom(part, o.LogStart, o.HighWatermark))
	for key, last := range h.newest {
		// One that was superseded at the source is not missed: the copy only ends before what superseded it.
		if here[last.number] || !w.expired[last.number] || w.mayLack(s) {
			continue
		}
		if old := h.older(last, here); old != "" {
			w.violate("T3", "%s-%d on %s never saw the tombstone %s of key %s at %d, holds record %s, and nobody was told", topicName, p,
				c.name, last.number, key, last.offset, old)
		}
	}
}

// checkCopies compares a mirror that is level with its source, as verify does (rule X4).
func (w *world) checkCopies(c *cluster, p int32) {
	s := c.topic.seen[p]
	if w.mayLack(s) {
		return
	}
	source := c.topic.rec.upstream
	h := s.historyOf(c.part(p).Offsets().LastStable)
	there, ok := source.side(p, h.aborted)
	here, _ := c.side(p, h.aborted)
	if !ok {
		return
	}
	for _, d := range retain.Compare(there, here, 1) {
		w.violate("X4", "%s-%d on %s and %s: %v", topicName, p, source.name, c.name, d)
	}
}

// side is a partition as retain.Compare wants it.
func (c *cluster) side(p int32, aborted map[string]bool) (side retain.Side, ok bool) {
	var batches []batch.Batch
	if c.plain != nil {
		l, err := c.plain.log(p)
		if err != nil {
			return side, false
		}
		side = retain.Side{Start: l.start, End: l.end(), CleanedTo: l.cleaned}
		batches = l.batches
	} else {
		part := c.part(p)
		if part == nil {
			return side, false
		}
		o := part.Offsets()
		side = retain.Side{Start: o.LogStart, End: o.HighWatermark, CleanedTo: part.CleanedTo()}
		batches = readFrom(part, o.LogStart, o.HighWatermark)
	}
	for _, b := range batches {
		numbers := keptOf(b)
		i := 0
		for r, err := range b.Records(1 << 20) {
			if err != nil {
				return side, false
			}
			void := b.IsControl() || aborted[numbers[i].number]
			side.Records = append(side.Records, retain.NewSurvivor(r, void))
			i++
		}
	}
	return side, true
}

// clean is an unmodified Kafka's cleaner: hawser's rules are Kafka's, so it is the same filter, over everything but the last segment.
func (k *plainKafka) clean() {
	if !k.made {
		return
	}
	w, p := k.c.w, k.c.w.random.IntN(len(k.logs))
	l := k.logs[p]
	n := len(l.batches) - 2
	for n > 0 && l.batches[n-1].NextOffset() > l.stable() {
		n--
	}
	if n <= 0 {
		return
	}
	f := retain.NewFilter(retain.Facts{
		Aborted: l.aborted(), NowMs: k.c.now().UnixMilli(), DeleteRetentionMs: deleteRetention.Milliseconds(), KeyBytes: 1 << 14,
		PlainMax: 1 << 20,
	}, l.start)
	for _, b := range l.batches[:n] {
		f.Learn(b)
	}
	var batches []batch.Batch
	var nodes []*node
	for i, b := range l.batches {
		if i < n {
			left, err := f.Batch(b, retain.Inside)
			if err != nil {
				w.violate("NoStuckState", "clean %s-%d on %s: %v", topicName, p, k.c.name, err)
				return
			}
			if left == nil {
				l.nodes[i].retired = true
				continue
			}
			b = slices.Clone(left)
		}
		batches, nodes = append(batches, b), append(nodes, l.nodes[i])
	}
	l.cleaned = max(l.cleaned, l.stable())
	w.log("%s-%d on %s is cleaned to %d: %d batches of %d are left", topicName, p, k.c.name, l.cleaned, len(batches), len(l.batches))
	l.batches, l.nodes = batches, nodes
	log := seen{tip: l.tip, start: l.start}
	here := numbersOf(l.batches)
	for _, last := range log.historyOf(l.stable()).newest {
		w.expired[last.number] = w.expired[last.number] || last.gone && !here[last.number]
	}
}

// aborted lists the aborted transactions.
func (l *plainLog) aborted() []retain.Aborted {
	var list []retain.Aborted
	open := map[kafka.ProducerID]kafka.Offset{}
	for _, b := range l.batches {
		marker, _, is := b.Marker()
		first, began := open[b.ProducerID()]
		switch {
		case is && marker == batch.Abort && began:
			list = append(list, retain.Aborted{Producer: b.ProducerID(), First: first, Last: b.BaseOffset()})
			fallthrough
		case is:
			delete(open, b.ProducerID())
		case b.IsTransactional() && !began:
			open[b.ProducerID()] = b.BaseOffset()
		}
	}
	return list
}

// watchDeletions is link/tombstones.go: it notes when a mirror of a compacted topic stands at its source's end, and
// marks one that comes back to it after the source may have forgotten deletions (rule T3).
func (s *shell) watchDeletions() {
	c := s.c
	rec := c.topic.rec
	if !c.w.profile.compact {
		return
	}
	switch rec.State {
	case mirror.Stopped, mirror.PendingMirror, mirror.HandedOver, mirror.Reopening, mirror.PendingSetup:
		s.levelled = nil
		return
	}
	if !rec.State.Fetches() || rec.Paused {
		return
	}
	now := c.now()
	last := s.lastLevel(now)
	at, is := s.levelAt()
	if !is {
		if rec.levelAt.IsZero() {
			s.noteLevel(now)
		}
		return
	}
	_, missed := plan.MissedDeletions(last, at, deleteRetention)
	s.levelled = &plan.Level{At: at, Ends: s.logEnds()}
	if missed {
		s.missed()
	}
	if missed || at.Sub(rec.levelAt) >= plan.LevelStoredEvery(deleteRetention) {
		s.noteLevel(at)
	}
}

func (s *shell) lastLevel(now time.Time) plan.Level {
	if s.levelled == nil {
		s.levelled = &plan.Level{At: s.c.topic.rec.levelAt}
		if s.levelled.At.IsZero() {
			s.levelled.At = now
		}
	}
	return *s.levelled
}

// missed stores that deletions may be missing. What copies this mirror may lack them too.
func (s *shell) missed() {
	c := s.c
	c.w.log("%s: deletions may be missing", c.name)
	next := *c.topic.rec
	next.marked = true
	c.put(func() {
		c.topic.rec = &next
		for _, seen := range c.topic.seen {
			c.w.missed[seen.root], seen.anew = true, false
		}
	})
}

func (s *shell) noteLevel(at time.Time) {
	next := *s.c.topic.rec
	next.levelAt = at
	s.c.put(func() { s.c.topic.rec = &next })
}

// markMissed marks a mirror that is about to be fenced.
func (s *shell) markMissed() {
	ends := s.logEnds()
	if !s.c.w.profile.compact || !slices.ContainsFunc(ends, func(end kafka.Offset) bool { return end != kafka.NoOffset }) {
		return
	}
	if _, is := plan.MissedAtStop(s.lastLevel(s.c.now()), ends, s.c.now(), deleteRetention); is {
		s.missed()
	}
}

func (s *shell) logEnds() []kafka.Offset {
	ends := make([]kafka.Offset, s.c.topic.Partitions)
	for p := range ends {
		ends[p] = kafka.NoOffset
		if o := s.c.part(int32(p)).Offsets(); o.Role == meta.RoleMirror {
			ends[p] = o.LogEnd
		}
	}
	return ends
}

// levelAt reports whether all partitions have all of the source, and when the one that heard of it longest ago asked.
func (s *shell) levelAt() (at time.Time, is bool) {
	at = s.c.now()
	for p := range s.c.topic.Partitions {
		f := s.followers[p]
		if f == nil || f.fault != plan.NoFault || f.mend || f.splice || !f.level {
			return at, false
		}
		if f.contact.Before(at) {
			at = f.contact
		}
	}
	return at, true
}

// describe is how a schedule's trace begins.
func (p *profile) describe() string {
	name := [...]string{"pair", "from Kafka", "chain", "chain from Kafka", "fan", "fan from Kafka"}[p.layout]
	if p.compact {
		name += ", compacted"
	}
	return fmt.Sprintf("%s, turns %v, turns only %v", name, p.turns, p.turnsOnly)
}

// mustHoldKeys is what must hold of a compacted topic in the end.
func (c *cluster) mustHoldKeys(p int32) {
	w := c.w
	if !w.profile.compact {
		return
	}
	w.cleaned(c, p, c.part(p))
	w.checkDeletions(c, p)
	if c.state() == mirror.Active && c.topic.parts.List[p].Role == meta.RoleMirror {
		w.checkCopies(c, p)
	}
}
