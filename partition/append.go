package partition

import (
	"context"
	"errors"
	"fmt"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store"
)

// Append validates one producer's batch fully, gives it the next offsets and the
// published epoch, and writes it. bs is written into and is the caller's again on return.
// Errors are kafka.Error: on a mirror INVALID_REQUEST "Cannot append records to
// read-only mirror topic '<t>'".
// Transactional batches need confirm (rule P2): the coordinator's word that this partition is in the producer's ongoing
// transaction; a nil confirm refuses them. No lock is held while it runs.
func (p *Partition) Append(ctx context.Context, bs batch.Batches, confirm func(kafka.ProducerID, int16) error) (Appended, error) {
	if err := p.openForProducers(); err != nil {
		return Appended{}, err
	}
	in, err := p.validate(ctx, bs)
	if err != nil {
		return Appended{}, err
	}
	b := in.batch
	if err := p.room(len(b)); err != nil {
		return Appended{}, err
	}
	if err := p.beginEpoch(); err != nil {
		return Appended{}, err
	}
	g, err := p.confirmed(b, confirm)
	if err != nil {
		return Appended{}, err
	}
	defer p.dropGuard(b.ProducerID(), g)
	if err := p.owner.syncer.reserve(ctx, len(b)); err != nil {
		return Appended{}, kafka.Errorf(kafka.RequestTimedOut, "Partition %s: the disk does not keep up: %v.", p.name, err)
	}
	result, err := p.appendOwn(b, g)
	if err != nil || result.Duplicate {
		p.owner.syncer.release(int64(len(b)))
		return result, err
	}
	p.owner.syncer.appended(p, len(b), atOnce)
	result.LogAppendTime = in.logAppendTime
	return result, nil
}

// room refuses records for which the store has none left, before anything is written: so the partition
// stays in service, and markers and what a failover writes still have space.
func (p *Partition) room(n int) error {
	if st, ok := p.owner.store.(store.Filer); ok && !p.log.Writing() {
		if err := st.OneMoreFile(); err != nil {
			return noRoom{p.storageError("append to the log", err)}
		}
	}
	if st, ok := p.owner.store.(store.Roomer); ok {
		if err := st.Room(int64(n)); err != nil {
			return noRoom{p.storageError("append to the log", err)}
		}
	}
	return nil
}

// ErrNoRoom says that the volume is full; matched with errors.Is. Nothing was written and the partition is in service.
var ErrNoRoom = store.ErrNoRoom

// noRoom is a kafka.Error that is told apart as ErrNoRoom.
type noRoom struct{ error }

func (e noRoom) Unwrap() error        { return e.error }
func (e noRoom) Is(target error) bool { return target == ErrNoRoom }

// validate checks a producer's batch, few compressed ones at a time: what one grows to is bounded,
// and so is their sum. It is work for processors, so that more at once would not be faster.
func (p *Partition) validate(ctx context.Context, bs batch.Batches) (incoming, error) {
	if mayBeCompressed(bs, p.cfg.Load()) {
		select {
		case p.owner.decoding <- struct{}{}:
			defer func() { <-p.owner.decoding }()
		case <-ctx.Done():
			return incoming{}, kafka.Errorf(kafka.RequestTimedOut, "Partition %s: %v while others' batches were looked at.",
				p.name, ctx.Err())
		}
	}
	return validate(bs, p.name, p.cfg.Load(), p.now().UnixMilli())
}

// openForAppend says why a producer may not append now.
func (p *Partition) openForAppend() error {
	p.marks.mu.RLock()
	defer p.marks.mu.RUnlock()
	m := &p.marks
	switch {
	case m.err != nil:
		return m.err
	case m.entry.Role == meta.RoleOpen && !m.frozen, plantFreezeKeepsOpen && m.entry.Role == meta.RoleFrozen:
		return nil
	case m.entry.Role == meta.RoleOpen:
		return kafka.Errorf(kafka.NotLeaderForPartition, "Partition %s is being opened.", p.name)
	}
	return kafka.Errorf(kafka.InvalidRequest, "Cannot append records to read-only mirror topic '%s'", p.name.Topic)
}

// openForProducers is openForAppend for records, which end before markers do when a topic is frozen.
func (p *Partition) openForProducers() error {
	if err := p.openForAppend(); err != nil {
		return err
	}
	if refuse := p.owner.cfg.Refuse; refuse != nil {
		return refuse(p.id.Topic)
	}
	return nil
}

// beginEpoch publishes a new leader epoch before the first local append after a start (rule E6), so that
// a log which comes back shorter than it was is told from the one that was there before. It does so for all
// of the topic's partitions that need it: their entries are one record.
func (p *Partition) beginEpoch() error {
	if !p.needsEpoch() {
		return nil
	}
	var changes []*change
	for _, other := range p.owner.all(map[kafka.TopicID]bool{p.id.Topic: true}) {
		if other == p || other.needsEpoch() && other.openForAppend() == nil {
			changes = append(changes, &change{p: other, mutate: other.nextEpoch})
		}
	}
	p.owner.storer.store(changes)
	var failed error
	for _, c := range changes {
		if c.err == nil {
			c.p.mu.Lock()
			c.p.newEpoch = false
			c.p.mu.Unlock()
		} else if c.p == p {
			failed = kafka.Errorf(kafka.NotLeaderForPartition, "Partition %s could not begin a leader epoch: %v.", p.name, c.err)
		}
	}
	return failed
}

func (p *Partition) needsEpoch() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newEpoch
}

// nextEpoch is beginEpoch's change of an entry.
func (p *Partition) nextEpoch(now meta.Partition) (meta.Partition, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newEpoch { // not done by another append meanwhile
		now.Epoch = max(now.Epoch, p.log.LastEpoch()) + 1
	}
	return now, nil
}

// guard is held by appends whose transaction is being confirmed. A marker that comes
// between the confirmation and the append breaks it: the transaction confirmed is over.
type guard struct {
	holders int
	broken  bool
}

// confirmed asks the coordinator about a transactional batch (rule P2). A transaction that is open
// here already has been confirmed: mirrored ones were ended when mirroring stopped.
func (p *Partition) confirmed(b batch.Batch, confirm func(kafka.ProducerID, int16) error) (*guard, error) {
	if !b.IsTransactional() {
		return nil, nil
	}
	if confirm == nil {
		return nil, kafka.Errorf(kafka.InvalidTxnState, "Partition %s: a transactional batch came without its transaction.", p.name)
	}
	id, epoch := b.ProducerID(), b.ProducerEpoch()
	p.mu.Lock()
	if p.derived.hasOpen(id, epoch) {
		p.mu.Unlock()
		return nil, nil
	}
	g := p.guards[id]
	if g == nil {
		g = &guard{}
		p.guards[id] = g
	}
	g.holders++
	p.mu.Unlock()
	if err := confirm(id, epoch); err != nil && !plantTransactionUnconfirmed {
		p.dropGuard(id, g)
		return nil, err
	}
	return g, nil
}

func (p *Partition) dropGuard(id kafka.ProducerID, g *guard) {
	if g == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if g.holders--; g.holders == 0 && p.guards[id] == g {
		delete(p.guards, id)
	}
}

// appendOwn gives a checked batch its place. g is the guard of a transaction that was confirmed
// just now, nil if it was open or there is none.
func (p *Partition) appendOwn(b batch.Batch, g *guard) (Appended, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.openForProducers(); err != nil {
		return Appended{}, err
	}
	result := Appended{LogAppendTime: -1, LogStart: p.log.StartOffset()}
	repeated, err := p.derived.check(b)
	if err != nil {
		return Appended{}, err
	}
	if repeated != nil {
		result.Base, result.Next, result.Duplicate = repeated.base, repeated.lastOffset+1, true
		if b.IsLogAppendTime() { // as it would be stored now
			result.LogAppendTime = repeated.timestamp
		}
		return result, nil
	}
	if b.IsTransactional() && (g == nil || g.broken) && !p.derived.hasOpen(b.ProducerID(), b.ProducerEpoch()) {
		return Appended{}, kafka.Errorf(kafka.InvalidTxnState, "Partition %s: the transaction of producer %d has ended.",
			p.name, b.ProducerID())
	}
	b.SetBaseOffset(p.end())
	b.SetLeaderEpoch(p.Entry().Epoch)
	if err := p.write(batch.Batches(b)); err != nil {
		return Appended{}, err
	}
	p.took(b, p.now().UnixMilli())
	p.grown()
	result.Base, result.Next = b.BaseOffset(), b.NextOffset()
	return result, nil
}

// write appends to the log. It needs mu. A log that could not be written takes no more until it is
// opened again.
func (p *Partition) write(bs batch.Batches) error {
	err := p.log.Append(bs, p.now())
	switch {
	case err == nil:
		p.virtualEnd = 0
		p.unsaved += int64(len(bs))
		return nil
	case errors.Is(err, store.ErrFailed):
		failed := p.storageError("append to the log", fmt.Errorf("%w; when the disk is well again, restart the broker", err))
		p.fail(failed)
		return failed
	}
	return p.storageError("append to the log", err) // refused, with nothing written
}

// took takes a batch that is in the log now into the producers' state, and a
// transaction that it ended into the marks. It needs mu.
func (p *Partition) took(b batch.Batch, nowMs int64) {
	ended, ok := p.derived.take(b, nowMs)
	if !ok {
		return
	}
	p.marks.mu.Lock()
	p.marks.ended = append(p.marks.ended, ended)
	p.marks.mu.Unlock()
}

// grown shows the new end after an append. It needs mu.
func (p *Partition) grown() {
	m := &p.marks
	m.mu.Lock()
	m.logEnd = p.end()
	m.logStart = p.log.StartOffset()
	m.firstOpen, m.aborted = p.derived.firstOpen(), p.derived.aborted
	var err error
	if p.owner.cfg.Unsafe || plantShownUnsynced {
		m.synced = m.logEnd
		err = m.move()
	}
	m.mu.Unlock()
	p.failOn(err)
}

// AppendMarker ends the producer's transaction here (WriteTxnMarkers, a coordinator's own). On a
// partition that is not open it succeeds without writing, as for a producer that has none open (rule R5).
// Base and Next are then the log's end.
func (p *Partition) AppendMarker(ctx context.Context, id kafka.ProducerID, epoch int16, marker batch.Marker,
	coordinatorEpoch int32) (Appended, error) {
	if err := p.Err(); err != nil {
		return Appended{}, err
	}
	if p.Entry().Role == meta.RoleOpen {
		if err := p.beginEpoch(); err != nil {
			return Appended{}, err
		}
	}
	const size = 128 // at least a marker's
	if err := p.owner.syncer.reserve(ctx, size); err != nil {
		return Appended{}, kafka.Errorf(kafka.RequestTimedOut, "Partition %s: the disk does not keep up: %v.", p.name, err)
	}
	result, wrote, err := p.appendMarker(id, epoch, marker, coordinatorEpoch)
	if !wrote {
		p.owner.syncer.release(size)
		return result, err
	}
	p.owner.syncer.appended(p, size, atOnce)
	return result, nil
}

func (p *Partition) appendMarker(id kafka.ProducerID, epoch int16, marker batch.Marker,
	coordinatorEpoch int32) (result Appended, wrote bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.guards[id]; g != nil {
		g.broken = true
		delete(p.guards, id)
	}
	result = Appended{Base: p.end(), Next: p.end(), LogAppendTime: -1, LogStart: p.log.StartOffset()}
	if err := p.openForAppend(); err != nil {
		switch {
		case p.Err() != nil || p.Entry().Role == meta.RoleOpen:
			return Appended{}, false, err // retriable: it is out of service, or about to open
		}
		p.owner.cfg.Logger.Info("a transaction marker was not written: the partition is not open for producers",
			"topic", p.name.Topic, "partition", p.name.Partition, "producer_id", id, "producer_epoch", epoch)
		return result, false, nil
	}
	s := p.derived.byID[id]
	if s == nil && p.log.StartOffset() == 0 {
		return result, false, nil
	}
	if s == nil {
		// What it wrote may have been removed while its transaction was open, and been forgotten over a restart. A
		// mirror that had it waits for the marker; where it is not needed it does no harm.
		return p.writeMarker(result, id, epoch, marker, coordinatorEpoch)
	}
	if epoch < s.epoch {
		return Appended{}, false, kafka.Errorf(kafka.InvalidProducerEpoch,
			"Epoch of producer %d is %d, which is smaller than the last seen epoch %d.", id, epoch, s.epoch)
	}
	// Coordinator epochs compare only within one cluster (rule P4).
	if coordinatorEpoch < s.coordinatorEpoch && !isForeign(id, p.owner.cfg.ProducerPrefix) && p.Entry().Stop == nil {
		return Appended{}, false, kafka.Errorf(kafka.TransactionCoordinatorFenced,
			"Invalid coordinator epoch %d for producer %d, the last one seen is %d.", coordinatorEpoch, id, s.coordinatorEpoch)
	}
	if s.txnStart == kafka.NoOffset {
		// Nothing to end, but earlier epochs of the producer are fenced from here on.
		p.derived.touch(id, epoch, p.now().UnixMilli())
		return result, false, nil
	}
	return p.writeMarker(result, id, epoch, marker, coordinatorEpoch)
}

// writeMarker appends a marker at the end. It needs mu.
func (p *Partition) writeMarker(result Appended, id kafka.ProducerID, epoch int16, marker batch.Marker,
	coordinatorEpoch int32) (Appended, bool, error) {
	b := batch.BuildMarker(batch.Spec{
		BaseOffset:    p.end(),
		LeaderEpoch:   p.Entry().Epoch,
		ProducerID:    id,
		ProducerEpoch: epoch,
	}, marker, coordinatorEpoch, p.now().UnixMilli())
	if err := p.write(batch.Batches(b)); err != nil {
		return Appended{}, false, err
	}
	p.took(b, p.now().UnixMilli())
	p.grown()
	result.Base, result.Next = b.BaseOffset(), b.NextOffset()
	return result, true, nil
}
