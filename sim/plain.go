package sim

import (
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// plainKafka is a topic of an unmodified Kafka: what a link's source may do to it that hawser never does: elect a leader that lacks
// acknowledged records, delete the topic and make it again under its name.
type plainKafka struct {
	c       *cluster
	id      kafka.TopicID // zero for a version without
	made    bool
	logs    []*plainLog
	withIDs bool
	commits map[string][]kafka.Offset
}

type plainLog struct {
	root    kafka.TopicID
	batches []batch.Batch
	nodes   []*node
	start   kafka.Offset
	cleaned kafka.Offset // its cleaner has looked at everything below
	epochs  []kafka.EpochStart
	epoch   kafka.LeaderEpoch
	open    map[kafka.ProducerID]kafka.Offset // transactions, where they begin
	next    map[kafka.ProducerID]int32        // sequences
	tip     *node
	below   *node // the last one that retention removed
}

func (k *plainKafka) make(partitions int32) {
	k.logs = nil
	for range partitions {
		k.logs = append(k.logs, k.c.w.newPlainLog())
	}
	k.made = true
	if k.withIDs {
		k.c.w.topicsMade++
		k.id = topicID('k', k.c.w.topicsMade)
	}
}

func (w *world) newPlainLog() *plainLog {
	return &plainLog{root: w.newRoot(), open: map[kafka.ProducerID]kafka.Offset{}, next: map[kafka.ProducerID]int32{}}
}

func (l *plainLog) end() kafka.Offset {
	if n := len(l.batches); n > 0 {
		return max(l.start, l.batches[n-1].NextOffset())
	}
	return l.start
}

func (l *plainLog) stable() kafka.Offset {
	stable := l.end()
	for _, at := range l.open {
		stable = min(stable, at)
	}
	return stable
}

func (k *plainKafka) describe() (kafka.TopicID, int32, error) {
	if !k.made {
		return kafka.TopicID{}, 0, kafka.UnknownTopicError(topicName)
	}
	return k.id, int32(len(k.logs)), nil
}

func (k *plainKafka) log(p int32) (*plainLog, error) {
	if !k.made || int(p) >= len(k.logs) {
		return nil, kafka.UnknownTopicError(topicName)
	}
	return k.logs[p], nil
}

func (k *plainKafka) ends(p int32) (ends, error) {
	l, err := k.log(p)
	if err != nil {
		return ends{}, err
	}
	return ends{l.start, l.end(), l.stable(), l.epoch}, nil
}

func (l *plainLog) checkEpoch(current kafka.LeaderEpoch) error {
	switch {
	case current == kafka.NoEpoch || current == l.epoch:
		return nil
	case current < l.epoch:
		return kafka.FencedLeaderEpoch
	}
	return kafka.UnknownLeaderEpoch
}

func (k *plainKafka) epochEnd(p int32, current, wanted kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error) {
	l, err := k.log(p)
	if err == nil {
		err = l.checkEpoch(current)
	}
	if err != nil {
		return kafka.NoEpoch, kafka.NoOffset, err
	}
	epoch, end := l.epochEnd(wanted)
	return epoch, end, nil
}

// epochEnd answers as Kafka's epoch cache does.
func (l *plainLog) epochEnd(wanted kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	if wanted == l.epoch {
		return wanted, l.end()
	}
	found := kafka.NoEpoch
	for _, one := range l.epochs {
		if one.Epoch > wanted {
			if found == kafka.NoEpoch {
				return wanted, one.Start
			}
			return found, one.Start
		}
		found = one.Epoch
	}
	if found == kafka.NoEpoch || wanted > l.epoch {
		return kafka.NoEpoch, kafka.NoOffset
	}
	return found, l.end()
}

func (k *plainKafka) serve(a ask) fetched {
	l, err := k.log(a.partition)
	if err == nil && !a.id.IsZero() && a.id != k.id {
		err = kafka.UnknownTopicID
	}
	if err == nil {
		err = l.checkEpoch(a.currentEpoch)
	}
	if err != nil {
		return fetched{err: err}
	}
	f := fetched{high: l.end(), start: l.start, stable: l.stable()}
	if a.lastEpoch != kafka.NoEpoch {
		epoch, end := l.epochEnd(a.lastEpoch)
		if end == kafka.NoOffset {
			return fetched{err: kafka.OffsetOutOfRange}
		}
		if epoch < a.lastEpoch || end < a.offset {
			f.diverging = true
			return f
		}
	}
	if a.offset < l.start || a.offset > l.end() {
		return fetched{err: kafka.OffsetOutOfRange}
	}
	for _, b := range l.batches {
		if b.NextOffset() <= a.offset {
			continue
		}
		if len(f.batches) > 0 && len(f.batches)+len(b) > a.maxBytes {
			break
		}
		f.batches = append(f.batches, b...)
	}
	return f
}

// append adds a batch that a producer, or a coordinator, has sent.
func (k *plainKafka) append(p int32, b batch.Batch) {
	l := k.logs[p]
	b = slices.Clone(b)
	b.SetBaseOffset(l.end())
	b.SetLeaderEpoch(l.epoch)
	n := k.c.w.ledger.mint(l.root, b, l.tip, k.c.index)
	l.batches, l.nodes, l.tip = append(l.batches, b), append(l.nodes, n), n
	l.noteTxn(b)
	if len(l.epochs) == 0 || l.epochs[len(l.epochs)-1].Epoch < l.epoch {
		l.epochs = append(l.epochs, kafka.EpochStart{Epoch: l.epoch, Start: b.BaseOffset()})
	}
}

func (l *plainLog) noteTxn(b batch.Batch) {
	switch {
	case b.IsControl():
		delete(l.open, b.ProducerID())
	case b.IsTransactional():
		if _, is := l.open[b.ProducerID()]; !is {
			l.open[b.ProducerID()] = b.BaseOffset()
		}
	}
}

// elect makes a leader that lacks everything from a batch on; with keep the number of all batches it is a clean election.
func (l *plainLog) elect(keep int) {
	l.epoch++
	for keep < len(l.batches) && l.batches[keep].BaseOffset() < l.cleaned {
		keep++ // what was used to remove other records is not lost, or they would be too
	}
	l.batches, l.nodes = l.batches[:keep:keep], l.nodes[:keep:keep]
	l.epochs = slices.DeleteFunc(l.epochs, func(one kafka.EpochStart) bool { return one.Start >= l.end() })
	if len(l.batches) == 0 {
		l.epochs = nil
	}
	clear(l.open) // and anew from what is left: an end that was lost opens a transaction again
	for _, b := range l.batches {
		l.noteTxn(b)
	}
	if keep > 0 {
		l.tip = l.nodes[keep-1]
	} else {
		l.tip = l.below
	}
}

// retain removes the first batches.
func (l *plainLog) retain(drop int) {
	if drop == 0 {
		return
	}
	for _, n := range l.nodes[:drop] {
		n.retired = true
	}
	l.start, l.below = l.batches[drop-1].NextOffset(), l.nodes[drop-1]
	l.batches, l.nodes = l.batches[drop:], l.nodes[drop:]
	for len(l.epochs) > 1 && l.epochs[1].Start <= l.start {
		l.epochs = l.epochs[1:]
	}
	if len(l.batches) == 0 {
		l.epochs = nil
	}
	for id, at := range l.open {
		l.open[id] = max(at, l.start)
	}
}

// end writes the markers of a transaction.
func (k *plainKafka) end(id kafka.ProducerID, epoch int16, commit bool) {
	marker := batch.Abort
	if commit {
		marker = batch.Commit
	}
	if !k.made {
		return
	}
	for p, l := range k.logs {
		if _, is := l.open[id]; is {
			k.append(int32(p), batch.BuildMarker(batch.Spec{ProducerID: id, ProducerEpoch: epoch}, marker, 0, k.c.now().UnixMilli()))
		}
	}
}

// trouble is one of the things that happen to topics of an unmodified Kafka.
func (k *plainKafka) trouble() {
	w := k.c.w
	if !k.made {
		k.make(1 + int32(w.random.IntN(2)))
		w.log("%s: the topic is made again with %d partitions", k.c.name, len(k.logs))
		return
	}
	p := w.random.IntN(len(k.logs))
	l := k.logs[p]
	if k.mirrored(int32(p)) && !w.chance(4) {
		k.loseTail(int32(p))
		return
	}
	switch w.random.IntN(10) {
	case 0, 8:
		l.elect(len(l.batches))
		w.log("%s-%d on %s: a new leader, epoch %d", topicName, p, k.c.name, l.epoch)
	case 1, 2, 3:
		l.elect(max(0, len(l.batches)-1-w.random.IntN(4)))
		w.log("%s-%d on %s: an unclean election, epoch %d, end %d", topicName, p, k.c.name, l.epoch, l.end())
	case 4, 5:
		l.retain(w.random.IntN(len(l.batches) + 1))
		w.log("%s-%d on %s: retention, start %d", topicName, p, k.c.name, l.start)
	case 6:
		if len(k.logs) < partitionsMax {
			k.logs = append(k.logs, k.c.w.newPlainLog())
			w.log("%s: the topic has %d partitions now", k.c.name, len(k.logs))
		}
	default:
		if w.chance(3) {
			k.made, k.logs = false, nil
			k.refusePolls()
			w.log("%s: the topic is deleted", k.c.name)
		}
	}
}

// loseTail elects a leader that lacks the last batches.
func (k *plainKafka) loseTail(p int32) {
	if !k.made || int(p) >= len(k.logs) {
		return
	}
	l := k.logs[p]
	l.elect(max(0, len(l.batches)-1-k.c.w.random.IntN(3)))
	k.c.w.log("%s-%d on %s: an unclean election, epoch %d, end %d", topicName, p, k.c.name, l.epoch, l.end())
}

// mirrored reports whether a mirror has all of the log: then an election that loses some of it hurts.
func (k *plainKafka) mirrored(p int32) bool {
	for _, c := range k.c.w.clusters {
		if c.upstream == k.c && c.topic != nil && p < c.topic.Partitions && k.logs[p].tip != nil && c.topic.seen[p].tip == k.logs[p].tip {
			return true
		}
	}
	return false
}

// refusePolls answers the polls that stand at links' mirrors with UNKNOWN_TOPIC_OR_PARTITION, as a broker does when the topic is deleted.
func (k *plainKafka) refusePolls() {
	for _, c := range k.c.w.clusters {
		if c.topic == nil || c.shell == nil || c.topic.rec == nil || c.topic.rec.upstream != k.c {
			continue
		}
		for _, f := range c.shell.followers {
			f.serial, f.epoch, f.splice, f.aligned = 0, kafka.NoEpoch, true, false
		}
	}
}
