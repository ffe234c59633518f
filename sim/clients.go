package sim

import (
	"fmt"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// producer is a client that writes to one cluster, and knows it by its bootstrap address alone: it does not notice that a topic was
// made again, restored or turned.
type producer struct {
	kind     producerKind
	at       *cluster
	p        int32
	id       kafka.ProducerID
	epoch    int16
	sequence int32
	inTxn    bool
	retry    batch.Batch // sent, and not answered: to be sent again as it is
	record   int
	count    int32 // records in it
	dead     bool  // a fatal error
	// wrote is the topics on which its sequences were taken here, and not by a mirror.
	wrote map[kafka.TopicID]bool
}

type producerKind int

const (
	plainProducer producerKind = iota
	idempotentProducer
	transactionalProducer
)

func (w *world) newProducer(c *cluster) *producer {
	pr := &producer{kind: producerKind(w.random.IntN(3)), at: c, p: int32(w.random.IntN(2)), id: kafka.NoProducerID, epoch: -1}
	pr.init()
	return pr
}

// init gets a producer id: InitProducerId.
func (pr *producer) init() {
	pr.sequence, pr.inTxn, pr.retry, pr.dead, pr.wrote = 0, false, nil, false, map[kafka.TopicID]bool{}
	if pr.kind == plainProducer {
		pr.sequence = -1
		return
	}
	c := pr.at
	c.nextID++
	pr.id, pr.epoch = kafka.ProducerID(int64(c.prefix)<<32|c.nextID), 0
	if pr.kind == transactionalProducer && c.plain == nil {
		c.txns[pr.id] = &txn{id: pr.id, on: map[int32]bool{}}
	}
}

// step does the next thing that the producer's program does.
func (pr *producer) step() {
	c, w := pr.at, pr.at.w
	switch {
	case !c.up():
		return
	case pr.dead:
		pr.init()
		return
	case pr.inTxn && pr.retry == nil && w.chance(3):
		pr.end(!w.chance(3))
		return
	}
	_, partitions, err := c.describe()
	if err != nil {
		return
	}
	if pr.p >= partitions {
		pr.p = 0
	}
	if pr.retry == nil {
		pr.build()
	}
	if c.plain != nil {
		pr.toKafka()
		return
	}
	pr.send()
}

func (pr *producer) build() {
	w := pr.at.w
	var value []byte
	pr.record, value = w.value()
	record := batch.Record{Key: fmt.Appendf(nil, "k%d", w.random.IntN(4)), Value: value, Timestamp: w.clusters[0].now().UnixMilli()}
	if w.profile.compact && w.chance(5) {
		record.Value = nil
		record.Headers = []batch.Header{{Key: value}}
	}
	records := []batch.Record{record}
	for w.profile.compact && len(records) < 3 && w.chance(2) {
		_, value := w.value()
		records = append(records, batch.Record{Offset: kafka.Offset(len(records)), Key: fmt.Appendf(nil, "k%d", w.random.IntN(4)),
			Value: value, Timestamp: record.Timestamp})
	}
	pr.count = int32(len(records))
	b, err := batch.Build(batch.Spec{
		ProducerID: pr.id, ProducerEpoch: pr.epoch, BaseSequence: pr.sequence, Transactional: pr.kind == transactionalProducer,
	}, records)
	if err != nil {
		panic(err)
	}
	pr.retry = b
}

// send sends what is to be sent to hawser, and notes what was acknowledged.
func (pr *producer) send() {
	c := pr.at
	part := c.part(pr.p)
	if part == nil {
		return
	}
	if pr.kind == transactionalProducer && !pr.inTxn {
		if err := c.addPartition(pr.id, pr.epoch, pr.p); err != nil {
			pr.failed(err)
			return
		}
		pr.inTxn = true
	}
	role := c.topic.parts.List[pr.p].Role
	topic := c.topic
	a, err := part.Append(c.ctx, batch.Batches(slices.Clone(pr.retry)), c.confirm(pr.p))
	if err == nil && role != meta.RoleOpen {
		c.w.violate("NoProduceWhileMirroring", "%s-%d on %s took record %d as %s in %v", topicName, pr.p, c.name, pr.record, role, c.state())
	}
	c.alive()
	if err == nil {
		pr.wrote[topic.ID] = true
		// A producer that gives up waiting sends again.
		if pr.kind != plainProducer && c.w.chance(10) {
			return
		}
		err = part.WaitSynced(c.ctx, a.Next)
	}
	c.w.log("%s-%d on %s: record %d of producer %d/%d sequence %d: %d %v", topicName, pr.p, c.name, pr.record, pr.id, pr.epoch,
		pr.sequence, a.Base, err)
	c.alive()
	if err != nil {
		pr.failed(err)
		return
	}
	c.w.look(c, pr.p, part)
	topic.acked = append(topic.acked, &ack{record: pr.record, partition: pr.p, offset: a.Base, node: topic.seen[pr.p].containing(a.Base)})
	if n := topic.acked[len(topic.acked)-1].node; n == nil && a.Base >= part.Offsets().LogStart {
		c.w.violate("NoAckedRecordLost", "%s-%d on %s: record %d was acknowledged at %d and is not there", topicName, pr.p, c.name,
			pr.record, a.Base)
	}
	pr.stored()
}

// containing is the node that holds the offset.
func (s *seen) containing(offset kafka.Offset) *node {
	for i := len(s.nodes) - 1; i >= 0; i-- {
		if n := s.nodes[i]; n.base <= offset && offset < n.next {
			return n
		}
	}
	return nil
}

func (pr *producer) stored() {
	pr.retry = nil
	if pr.kind != plainProducer {
		pr.sequence += pr.count
	}
}

// failed is what a client makes of an error.
func (pr *producer) failed(err error) {
	w := pr.at.w
	switch code := kafka.CodeOf(err); {
	case code.Retriable():
		if pr.kind == plainProducer {
			pr.retry = nil
		}
	case code == kafka.InvalidRequest:
		pr.retry = nil // the topic is read-only here
		if pr.kind != plainProducer {
			pr.dead = true
		}
	case code == kafka.OutOfOrderSequenceNumber && pr.kind == idempotentProducer && uint32(pr.id>>32) != pr.at.prefix &&
		!pr.wrote[pr.at.topic.ID]:
		w.violate("P1", "the producer %d of another cluster is refused on %s: %v", pr.id, pr.at.name, err)
	default:
		pr.retry = nil
		pr.dead = pr.kind != plainProducer
	}
}

// end commits or aborts.
func (pr *producer) end(commit bool) {
	c := pr.at
	if c.plain != nil {
		c.plain.end(pr.id, pr.epoch, commit)
		pr.inTxn = false
		return
	}
	err := c.endTxn(pr.id, commit)
	c.w.log("%s: producer %d/%d ends its transaction, commit %v: %v", c.name, pr.id, pr.epoch, commit, err)
	if err == nil || !kafka.CodeOf(err).Retriable() {
		pr.inTxn = false
		if err != nil {
			pr.dead = true
		}
	}
}

// toKafka sends to an unmodified Kafka.
func (pr *producer) toKafka() {
	c := pr.at
	c.plain.append(pr.p, pr.retry)
	pr.inTxn = pr.kind == transactionalProducer
	c.w.log("%s-%d on %s: record %d, end %d", topicName, pr.p, c.name, pr.record, c.plain.logs[pr.p].end())
	pr.stored()
}

// move sends an idempotent producer to another cluster with what it has (a bootstrap address that was moved).
func (pr *producer) move(to *cluster) {
	if pr.kind != plainProducer {
		pr.at = to
	}
}

// consumer reads one partition of one cluster from a position, as a client does that knows KIP-320.
type consumer struct {
	at       *cluster
	topic    kafka.TopicID
	p        int32
	position kafka.Offset
	last     *node             // the last batch read; nil after a reset
	leader   kafka.LeaderEpoch // as last seen in metadata
}

// step reads on. A consumer must never miss a record that is in the log it stands in: after a truncation it must be told.
func (k *consumer) step() {
	c, w := k.at, k.at.w
	if c.owner == nil || c.topic == nil {
		return
	}
	if k.topic != c.topic.ID {
		*k = consumer{at: c, topic: c.topic.ID, p: k.p, leader: kafka.NoEpoch}
	}
	part := c.part(k.p)
	if part == nil {
		return
	}
	o := part.Offsets()
	if o.Epoch > k.leader {
		k.leader = o.Epoch
		k.validate(part)
		return
	}
	answer, err := part.Read(partition.Read{From: k.position, MaxBytes: 1 + w.random.IntN(300), AtLeastOne: true,
		CurrentEpoch: k.leader, LastEpoch: kafka.NoEpoch})
	switch kafka.CodeOf(err) {
	case kafka.None:
	case kafka.OffsetOutOfRange:
		k.position, k.last = o.LogStart, nil // auto.offset.reset=earliest
		return
	default:
		return // metadata is asked again
	}
	bytes, err := answer.Slice.Bytes()
	answer.Slice.Close()
	c.alive()
	if err != nil {
		return
	}
	for b, err := range bytes.All() {
		if err != nil {
			w.violate("T9", "a consumer of %s-%d on %s reads %v", topicName, k.p, c.name, err)
			return
		}
		k.read(b)
	}
}

func (k *consumer) read(b batch.Batch) {
	if b.NextOffset() <= k.position {
		return
	}
	n := k.at.w.ledger.find(k.at.topic.seen[k.p].root, b)
	if n == nil {
		return // not looked at yet
	}
	if s := k.at.topic.seen[k.p]; k.last != nil && k.last.next <= s.rootFrom && !k.at.w.ledger.isOf(s.root, k.last) {
		k.last = nil // of a topic that the log's source was made anew of, unawares (rule E6)
	}
	if err := follows(k.last, n); err != nil {
		k.at.w.violate("ConsumerMissesNothing", "a consumer of %s-%d on %s at %d: %v", topicName, k.p, k.at.name, k.position, err)
	}
	k.at.w.did = true
	k.last, k.position = n, n.next
}

// validate asks whether the position is still of the log's history (KIP-320).
func (k *consumer) validate(part *partition.Partition) {
	if k.last == nil {
		return
	}
	epoch, end, err := part.OffsetForLeaderEpoch(k.leader, k.last.epoch)
	k.at.w.log("consumer of %s-%d on %s at %d epoch %d validates: %d %d %v", topicName, k.p, k.at.name, k.position, k.last.epoch,
		epoch, end, err)
	switch {
	case err != nil:
		k.leader-- // asked again
	case end == kafka.NoOffset:
		if k.last.holds(k.at.topic.seen[k.p].tip) && !k.last.retired {
			k.at.w.violate("E3", "a consumer of %s-%d on %s at %d is told that epoch %d, which the log holds, is unknown", topicName, k.p,
				k.at.name, k.position, k.last.epoch)
		}
		k.position, k.last = part.Offsets().LogStart, nil
	case end < k.position:
		k.position = end
		k.last = k.at.topic.seen[k.p].at(end)
	}
}
