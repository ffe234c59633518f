package txn

import (
	"maps"
	"math"

	"github.com/hawserio/hawser/kafka"
)

// State is where a transactional id stands.
type State int8

// The states, with the numbers that Kafka stores.
const (
	Empty          State = 0 // no transaction since the id was initialised
	Ongoing        State = 1
	PrepareCommit  State = 2 // decided; markers are being written
	PrepareAbort   State = 3
	CompleteCommit State = 4 // all markers are written
	CompleteAbort  State = 5
	Dead           State = 6 // the id has expired
)

var stateNames = map[State]string{Empty: "Empty", Ongoing: "Ongoing", PrepareCommit: "PrepareCommit", PrepareAbort: "PrepareAbort",
	CompleteCommit: "CompleteCommit", CompleteAbort: "CompleteAbort", Dead: "Dead"}

// String is Kafka's name.
func (s State) String() string { return stateNames[s] }

func (s State) preparing() bool { return s == PrepareCommit || s == PrepareAbort }

const (
	noEpoch = -1
	// lastEpoch is the highest epoch that a client is given; the one after it only fences.
	lastEpoch = math.MaxInt16 - 1
)

// transaction is the state of a transactional id. It is a value: deciding makes a new
// one, and partitions is never changed in place.
type transaction struct {
	id       string // the transactional id
	producer kafka.ProducerID
	epoch    int16 // noEpoch for an id that is not initialised
	// lastEpoch is the epoch before the last bump that the client asked for, so that the client's repeated request is
	// known as one; noEpoch if there is none. It is not stored.
	lastEpoch int16
	previous  kafka.ProducerID // producer id before the last change of it
	next      kafka.ProducerID // producer id after this transaction, when the epochs of this one are used up
	timeoutMs int32
	state     State
	// partitions of the transaction, each with the exclusive end in the state log of the record that added it.
	partitions map[kafka.TopicPartition]kafka.Offset
	startMs    int64 // Unix ms; -1 without a transaction
	updatedMs  int64 // Unix ms
	version    int16 // of the client's transaction protocol: 2 bumps the epoch with each transaction (KIP-890)
}

func newTransaction(id string, producer kafka.ProducerID) transaction {
	return transaction{id: id, producer: producer, epoch: noEpoch, lastEpoch: noEpoch, previous: kafka.NoProducerID,
		next: kafka.NoProducerID, startMs: -1}
}

func (t transaction) exhausted() bool { return t.epoch >= lastEpoch }

// identity is what a client says it is.
type identity struct {
	producer kafka.ProducerID
	epoch    int16
}

// decideInit is InitProducerId: the id gets a new epoch, or a new producer id (fresh) when its epochs are
// used up (fresh may be NoProducerID while they are not). expected is what a client with KIP-360 says it is, nil for one that begins. An
// ongoing transaction is aborted first, under a raised epoch: then fenced is true.
func (t transaction) decideInit(timeoutMs int32, expected *identity, fresh kafka.ProducerID,
	nowMs int64) (next transaction, fenced bool, code kafka.ErrorCode) {
	if expected != nil && t.epoch != noEpoch && expected.producer != t.producer &&
		!(expected.producer == t.previous && expected.epoch >= lastEpoch) {
		return t, false, kafka.ProducerFenced
	}
	switch {
	case t.state.preparing():
		return t, false, kafka.ConcurrentTransactions
	case t.state == Ongoing:
		return t.fence(nowMs), true, kafka.None
	case t.exhausted() && (expected == nil || expected.epoch == t.epoch):
		if fresh == kafka.NoProducerID {
			return t, false, kafka.ConcurrentTransactions // it became exhausted since the caller looked: again
		}
		next = t.empty(timeoutMs, nowMs)
		next.producer, next.previous, next.epoch, next.lastEpoch = fresh, t.producer, 0, noEpoch
		if expected != nil {
			next.lastEpoch = t.epoch
		}
		return next, false, kafka.None
	}
	next, code = t.bump(timeoutMs, expected, nowMs)
	return next, false, code
}

// empty is t without a transaction.
func (t transaction) empty(timeoutMs int32, nowMs int64) transaction {
	t.state, t.partitions, t.startMs, t.updatedMs, t.timeoutMs = Empty, nil, -1, nowMs, timeoutMs
	t.next = kafka.NoProducerID
	return t
}

func (t transaction) bump(timeoutMs int32, expected *identity, nowMs int64) (transaction, kafka.ErrorCode) {
	next := t.empty(timeoutMs, nowMs)
	switch {
	case expected == nil:
		next.epoch, next.lastEpoch = t.epoch+1, noEpoch
	case t.epoch == noEpoch || expected.epoch == t.epoch:
		next.epoch, next.lastEpoch = t.epoch+1, t.epoch
	case t.lastEpoch != noEpoch && expected.epoch == t.lastEpoch:
		// The answer to the same request was lost: it is given again. That is known only as long as nobody else has begun
		// under the id since, and the coordinator was not started again: lastEpoch is all there is to tell it from a zombie.
	default:
		return t, kafka.ProducerFenced
	}
	return next, kafka.None
}

// fence aborts an ongoing transaction under an epoch that no client has. The version goes, so that the raised epoch is
// not taken for one that its client asked for.
func (t transaction) fence(nowMs int64) transaction {
	if t.epoch < math.MaxInt16 {
		t.epoch++
	}
	t.lastEpoch, t.version = noEpoch, 0
	t.state, t.updatedMs, t.next = PrepareAbort, nowMs, kafka.NoProducerID
	return t
}

// check finds out whether the client is the producer of the id.
func (t transaction) check(who identity) kafka.ErrorCode {
	switch {
	case t.producer != who.producer:
		return kafka.InvalidProducerIDMapping
	case t.epoch != who.epoch:
		return kafka.ProducerFenced
	}
	return kafka.None
}

// decideAdd takes partitions into the transaction, beginning one if need be. changed is false if they are in it already.
func (t transaction) decideAdd(who identity, add []kafka.TopicPartition, version int16,
	nowMs int64) (next transaction, changed bool, code kafka.ErrorCode) {
	if code := t.check(who); code != kafka.None {
		return t, false, code
	}
	if t.state.preparing() {
		return t, false, kafka.ConcurrentTransactions
	}
	next = t
	if t.state != Ongoing {
		next.state, next.startMs, next.partitions = Ongoing, nowMs, nil
	}
	next.partitions = maps.Clone(next.partitions)
	if next.partitions == nil {
		next.partitions = map[kafka.TopicPartition]kafka.Offset{}
	}
	for _, tp := range add {
		if _, ok := next.partitions[tp]; !ok {
			next.partitions[tp] = 0 // replay fills in where
		}
	}
	if t.state == Ongoing && len(next.partitions) == len(t.partitions) {
		return t, false, kafka.None
	}
	next.updatedMs, next.version = nowMs, version
	return next, true, kafka.None
}

// decideEnd is EndTxn. changed says that the transaction is decided now and markers must be written;
// else the answer alone counts. With version 2 the epoch is raised with the decision, and the client goes on
// under the raised one; fresh is the producer id for when there is none higher.
func (t transaction) decideEnd(who identity, commit bool, version int16, fresh kafka.ProducerID,
	nowMs int64) (next transaction, changed bool, code kafka.ErrorCode) {
	if version >= 2 {
		return t.decideEndBumping(who, commit, version, fresh, nowMs)
	}
	if code := t.check(who); code != kafka.None {
		return t, false, code
	}
	done, prepared := CompleteAbort, PrepareAbort
	if commit {
		done, prepared = CompleteCommit, PrepareCommit
	}
	switch t.state {
	case Ongoing:
		next = t
		next.state, next.updatedMs, next.version, next.next = prepared, nowMs, version, kafka.NoProducerID
		return next, true, kafka.None
	case done:
		return t, false, kafka.None // asked again
	case prepared:
		return t, false, kafka.ConcurrentTransactions
	}
	return t, false, kafka.InvalidTxnState
}

func (t transaction) decideEndBumping(who identity, commit bool, version int16, fresh kafka.ProducerID,
	nowMs int64) (next transaction, changed bool, code kafka.ErrorCode) {
	bumped := t.version >= 2 && t.producer == who.producer && who.epoch >= 0 && t.epoch == who.epoch+1
	rotated := t.version >= 2 && t.previous == who.producer && who.epoch == lastEpoch && t.epoch == 0
	again := bumped || rotated
	if t.producer != who.producer && !rotated {
		return t, false, kafka.InvalidProducerIDMapping
	}
	valid := t.epoch == who.epoch
	switch {
	case t.state.preparing():
		valid = bumped
	case t.state == CompleteCommit || t.state == CompleteAbort:
		valid = valid || again
	}
	if !valid {
		return t, false, kafka.ProducerFenced
	}
	switch {
	case t.state == Ongoing:
		return t.prepare(commit, version, fresh, nowMs), true, kafka.None
	case t.state == PrepareCommit && commit, t.state == PrepareAbort && !commit:
		return t, false, kafka.ConcurrentTransactions
	case again && (t.state == CompleteCommit && commit || t.state == CompleteAbort && !commit):
		return t, false, kafka.None
	case !commit && !again && !t.state.preparing():
		// An abort without a transaction only raises the epoch.
		next = t.prepare(false, version, fresh, nowMs)
		next.partitions, next.startMs = nil, nowMs
		return next, true, kafka.None
	}
	return t, false, kafka.InvalidTxnState
}

// prepare decides the transaction and raises the epoch.
func (t transaction) prepare(commit bool, version int16, fresh kafka.ProducerID, nowMs int64) transaction {
	next := t
	next.state = PrepareAbort
	if commit {
		next.state = PrepareCommit
	}
	next.next = kafka.NoProducerID
	if t.exhausted() {
		next.next = fresh
	}
	next.epoch, next.lastEpoch, next.updatedMs, next.version = t.epoch+1, t.epoch, nowMs, version
	return next
}

// answer is under which identity the client goes on after an EndTxn.
func (t transaction) answer() identity {
	if t.state.preparing() && t.next != kafka.NoProducerID {
		return identity{t.next, 0}
	}
	return identity{t.producer, t.epoch}
}

// complete is t once all markers are written.
func (t transaction) complete(nowMs int64) transaction {
	next := t
	next.state = CompleteAbort
	if t.state == PrepareCommit {
		next.state = CompleteCommit
	}
	next.partitions, next.updatedMs = nil, nowMs
	if t.next != kafka.NoProducerID {
		next.previous, next.producer, next.epoch, next.next = t.producer, t.next, 0, kafka.NoProducerID
	}
	return next
}

// confirm says whether the producer may append to the partition in its transaction, and from where on in the
// state log that is durable.
func (t transaction) confirm(who identity, tp kafka.TopicPartition) (kafka.Offset, kafka.ErrorCode) {
	if code := t.check(who); code != kafka.None {
		return 0, code
	}
	if t.state.preparing() {
		return 0, kafka.ConcurrentTransactions
	}
	end, ok := t.partitions[tp]
	if !ok || t.state != Ongoing {
		return 0, kafka.InvalidTxnState
	}
	return end, kafka.None
}
