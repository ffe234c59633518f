package partition

import (
	"math"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

const (
	// rangesKept is how many batches of a producer are remembered to recognise a
	// repetition; producers have at most five requests under way (KIP-98).
	rangesKept = 5
	// producersMax bounds the producers known to one partition, producerAgeMs how long an idle
	// one is known (producer.id.expiration.ms). Those with an open transaction stay.
	producersMax  = 1 << 16
	producerAgeMs = 24 * 3600 * 1000
	noSequence    = int32(-1)
)

// sequences is one batch of a producer, remembered.
type sequences struct {
	first, last int32
	base        kafka.Offset
	lastOffset  kafka.Offset // inclusive
	timestamp   int64        // Unix ms
}

// producer is what a partition knows of one producer.
type producer struct {
	epoch            int16
	coordinatorEpoch int32 // of its last marker, -1 for none
	lastTimestamp    int64 // Unix ms, as its batches say; -1 for none
	seenMs           int64 // Unix ms here, for expiry
	txnStart         kafka.Offset
	// anew says that its sequences came with a mirror: they only show repetitions, and the
	// next batch that is none sets them (rule P1).
	anew bool
	n    int8
	kept [rangesKept]sequences // oldest first
}

func (p *producer) lastSequence() int32 {
	if p.n == 0 {
		return noSequence
	}
	return p.kept[p.n-1].last
}

func (p *producer) remember(s sequences) {
	if p.n == rangesKept {
		copy(p.kept[:], p.kept[1:])
		p.n--
	}
	p.kept[p.n] = s
	p.n++
}

// openTxn is a transaction without an end yet.
type openTxn struct {
	id    kafka.ProducerID
	start kafka.Offset
}

// decided is a transaction that has ended.
type decided struct {
	id            kafka.ProducerID
	start, marker kafka.Offset // first record's and marker's offset, both inclusive
	aborted       bool
}

// producers is the producers' state at the end of one log. It is derived from
// the log's batches alone and knows no clock.
type producers struct {
	byID map[kafka.ProducerID]*producer
	open []openTxn // by start, rising
}

func newProducers() producers { return producers{byID: map[kafka.ProducerID]*producer{}} }

// check decides about a local producer's batch before it is appended. When the
// batch is a repetition of one that was stored, it says where.
func (t *producers) check(b batch.Batch) (repeated *sequences, err error) {
	id := b.ProducerID()
	if id == kafka.NoProducerID {
		return nil, nil
	}
	p := t.byID[id]
	if p == nil {
		return nil, nil // unknown, or forgotten: any sequence may be the next
	}
	if b.BaseSequence() == noSequence {
		return nil, p.checkEpoch(id, b)
	}
	if b.ProducerEpoch() == p.epoch {
		for i := range p.n {
			if s := &p.kept[i]; s.first == b.BaseSequence() && s.last == b.LastSequence() {
				return s, nil
			}
		}
	}
	if !p.anew {
		if err := p.checkOrder(id, b); err != nil {
			return nil, err
		}
	}
	if p.txnStart != kafka.NoOffset && !b.IsTransactional() {
		return nil, kafka.Errorf(kafka.InvalidTxnState,
			"Expected transactional write from producer %d: it has a transaction open since offset %d.", id, p.txnStart)
	}
	return nil, nil
}

func (p *producer) checkOrder(id kafka.ProducerID, b batch.Batch) error {
	if err := p.checkEpoch(id, b); err != nil {
		return err
	}
	epoch, first := b.ProducerEpoch(), b.BaseSequence()
	switch {
	case epoch > p.epoch && first != 0:
		return kafka.Errorf(kafka.OutOfOrderSequenceNumber,
			"Invalid sequence number for new epoch of producer %d: %d (request epoch), %d (seq. number), %d (current producer epoch).",
			id, epoch, first, p.epoch)
	case epoch == p.epoch && first != nextSequence(p.lastSequence()):
		return kafka.Errorf(kafka.OutOfOrderSequenceNumber,
			"Out of order sequence number for producer %d: %d (incoming seq. number), %d (current end sequence number).",
			id, first, p.lastSequence())
	}
	return nil
}

func (p *producer) checkEpoch(id kafka.ProducerID, b batch.Batch) error {
	if epoch := b.ProducerEpoch(); epoch < p.epoch {
		return kafka.Errorf(kafka.InvalidProducerEpoch, "Epoch of producer %d is %d, which is smaller than the last seen epoch %d.",
			id, epoch, p.epoch)
	}
	return nil
}

func nextSequence(last int32) int32 {
	if last == math.MaxInt32 {
		return 0
	}
	return last + 1
}

// hasOpen reports whether the producer has a transaction open under this epoch.
func (t *producers) hasOpen(id kafka.ProducerID, epoch int16) bool {
	p := t.byID[id]
	return p != nil && p.txnStart != kafka.NoOffset && p.epoch == epoch
}

// apply takes in a batch that is in the log now. ended is the transaction that a
// marker ended, if it ended one. A marker without a transaction and sequences out of order are legal:
// mirrored logs begin anywhere, and compacted ones have holes.
func (t *producers) apply(b batch.Batch, nowMs int64) (ended decided, ok bool) {
	id := b.ProducerID()
	if id < 0 {
		return decided{}, false
	}
	if b.IsControl() {
		marker, coordinatorEpoch, valid := b.Marker()
		if !valid {
			return decided{}, false // the whole transaction was compacted away, or no marker of ours
		}
		p := t.touch(id, b.ProducerEpoch(), nowMs)
		p.coordinatorEpoch = coordinatorEpoch
		p.lastTimestamp = max(p.lastTimestamp, b.MaxTimestamp())
		return t.end(id, p, b.BaseOffset(), marker == batch.Abort)
	}
	p := t.touch(id, b.ProducerEpoch(), nowMs)
	p.anew = false
	p.lastTimestamp = b.MaxTimestamp()
	if b.BaseSequence() != noSequence {
		p.remember(sequences{b.BaseSequence(), b.LastSequence(), b.BaseOffset(), b.LastOffset(), b.MaxTimestamp()})
	}
	// An empty batch is a leftover of compaction, which touches decided transactions only.
	if b.IsTransactional() && b.Count() > 0 && p.txnStart == kafka.NoOffset {
		p.txnStart = b.BaseOffset()
		t.open = append(t.open, openTxn{id, p.txnStart})
	}
	return decided{}, false
}

func (t *producers) touch(id kafka.ProducerID, epoch int16, nowMs int64) *producer {
	p := t.byID[id]
	if p == nil {
		if len(t.byID) >= producersMax {
			t.expire(nowMs)
		}
		p = &producer{epoch: epoch, coordinatorEpoch: -1, lastTimestamp: -1, txnStart: kafka.NoOffset}
		t.byID[id] = p
	}
	if p.epoch != epoch {
		p.epoch, p.n, p.anew = epoch, 0, false
	}
	p.seenMs = nowMs
	return p
}

// end closes the producer's transaction, if it has one.
func (t *producers) end(id kafka.ProducerID, p *producer, at kafka.Offset, aborted bool) (decided, bool) {
	if p.txnStart == kafka.NoOffset {
		return decided{}, false
	}
	d := decided{id, p.txnStart, at, aborted}
	p.txnStart = kafka.NoOffset
	t.open = slices.DeleteFunc(t.open, func(o openTxn) bool { return o.id == id })
	return d, true
}

// stopMirroring makes sequences that came with the mirror, below stop (exclusive), good only for
// recognising repetitions, where the producer id was handed out by another cluster (rule P1).
func (t *producers) stopMirroring(stop kafka.Offset, ownPrefix uint32) {
	for id, p := range t.byID {
		if !plantForeignSequencesChecked && isForeign(id, ownPrefix) && (p.n == 0 || p.kept[p.n-1].lastOffset < stop) {
			p.anew = true
		}
	}
}

// isForeign reports whether another cluster handed out the id.
func isForeign(id kafka.ProducerID, ownPrefix uint32) bool { return uint32(id>>32) != ownPrefix }

// firstOpen is where the oldest open transaction begins, NoOffset if none is open.
func (t *producers) firstOpen() kafka.Offset {
	if len(t.open) == 0 {
		return kafka.NoOffset
	}
	return t.open[0].start
}

// expire forgets producers that were idle too long, and if that frees too little, the idlest.
func (t *producers) expire(nowMs int64) {
	var ages []int64
	for id, p := range t.byID {
		switch {
		case p.txnStart != kafka.NoOffset:
		case nowMs-p.seenMs > producerAgeMs:
			delete(t.byID, id)
		default:
			ages = append(ages, p.seenMs)
		}
	}
	if len(t.byID) < producersMax*7/8 || len(ages) == 0 {
		return
	}
	slices.Sort(ages)
	limit := ages[len(ages)/8]
	for id, p := range t.byID {
		if p.txnStart == kafka.NoOffset && p.seenMs <= limit {
			delete(t.byID, id)
		}
	}
}
