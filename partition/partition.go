// Package partition is one partition on this broker: its role, epochs, high
// watermark, last stable offset, producers' sequences, waiting fetches. The
// handlers append and read here, the link's fetchers append mirrored bytes
// here. It refuses to know links, requests and connections.
//
// Invariant, asserted after every change:
// LogStartOffset <= LastStableOffset <= HighWatermark <= LogEndOffset.
// The high watermark is the synced end; nothing above it is shown.
//
// Everything that changes what a partition is open for, or cuts it, is an order:
// shut both ways in, sync, store the entry, carry it out, open again. What an
// entry says and the log does not show yet is carried out by the next Open.
//
// Locks, each taken only while holding those before it: Partition.cleaning, Partition.order,
// Partition.syncing, Partition.mu, marks.mu; syncer.mu, marker.mu and storer.mu are innermost.
package partition

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

// Partition is one open partition. All methods may be called at once by many.
type Partition struct {
	id    kafka.PartitionID
	name  kafka.TopicPartition
	owner *Owner
	log   *commitlog.Log // nil if it could not be opened: then marks.err says why
	cfg   atomic.Pointer[TopicConfig]
	marks marks
	dirty dirtiness // guarded by syncer.mu
	owing bool      // a mark; guarded by marker.mu

	lacked bool // it could not be opened for want of room, and may be tried again; set before others know it
	again  bool // it is tried again; as lacked

	// cleaning is held while the log is compacted.
	cleaning sync.Mutex
	// order is held, by having put a value in, while an order is carried out: from
	// before the ways in are shut until they are open again.
	order chan struct{}
	// syncing keeps the log from being synced while it is cut.
	syncing sync.Mutex
	// unsettled is set while it is not known whether an order was stored, or it could not be carried out
	// yet; reconcile finds out. Set by who holds order.
	unsettled atomic.Bool

	// mu guards the log's writers and what follows.
	mu      sync.Mutex
	shut    bool // an order is under way: both ways in are closed
	derived *derived
	// virtualEnd is above the log's end while a jump's hole is the last thing in it, else 0.
	virtualEnd kafka.Offset
	// newEpoch says that the next local append begins a leader epoch (rule E6).
	newEpoch bool
	// guards are producers whose transaction is being confirmed; a marker breaks theirs.
	guards map[kafka.ProducerID]*guard
	// unsaved is bytes appended since the last snapshot.
	unsaved int64
	// at is under which id the store keeps log; taking, set while it may be about to take log's place, is a copy's. Guarded by order.
	at     kafka.PartitionID
	taking *newLog
}

// Offsets is a partition's marks at one moment.
type Offsets struct {
	LogStart      kafka.Offset      // first offset that may be read
	LastStable    kafka.Offset      // exclusive end for read_committed
	HighWatermark kafka.Offset      // exclusive end for everyone: the synced end
	LogEnd        kafka.Offset      // offset of the next record
	Epoch         kafka.LeaderEpoch // published leader epoch
	Role          meta.Role         // RoleFrozen also while an order is carried out
	Generation    int64
	Size          int64 // bytes
}

// ID names the partition.
func (p *Partition) ID() kafka.PartitionID { return p.id }

// Name is the topic's name when it was opened.
func (p *Partition) Name() kafka.TopicPartition { return p.name }

// Offsets reads the marks.
func (p *Partition) Offsets() Offsets {
	p.marks.mu.RLock()
	defer p.marks.mu.RUnlock()
	o := p.offsets()
	if p.log != nil {
		o.Size = p.log.Size()
	}
	return o
}

// Shown is Offsets without the size, and why the partition is out of service: it is asked often, of many.
func (p *Partition) Shown() (Offsets, error) {
	p.marks.mu.RLock()
	defer p.marks.mu.RUnlock()
	return p.offsets(), p.marks.err
}

// offsets is all but the size, which takes a look at every segment. It needs marks.mu.
func (p *Partition) offsets() Offsets {
	m := &p.marks
	o := Offsets{
		LogStart:      m.logStart,
		LastStable:    m.stable,
		HighWatermark: m.highWatermark,
		LogEnd:        m.logEnd,
		Epoch:         m.entry.Epoch,
		Role:          m.entry.Role,
		Generation:    m.entry.Generation,
	}
	if m.frozen {
		o.Role = meta.RoleFrozen
	}
	return o
}

// Entry is the partition's entry as last stored. It must not be changed.
func (p *Partition) Entry() meta.Partition {
	p.marks.mu.RLock()
	defer p.marks.mu.RUnlock()
	return p.marks.entry
}

// Err says why the partition is out of service, nil if it works.
func (p *Partition) Err() error {
	p.marks.mu.RLock()
	defer p.marks.mu.RUnlock()
	return p.marks.err
}

// Appended says where batches went.
type Appended struct {
	Base          kafka.Offset // offset of the first record; for a duplicate, where it was stored before
	Next          kafka.Offset // exclusive end: wait for it with WaitSynced
	LogAppendTime int64        // Unix ms, -1 with create time
	LogStart      kafka.Offset
	Duplicate     bool
}

// Epochs is the epoch cache, rising: epochs of batches in the log.
func (p *Partition) Epochs() []kafka.EpochStart {
	if p.Err() != nil {
		return nil
	}
	return p.log.Epochs()
}

// EpochEnd answers as commitlog.EpochEnd, for the fetcher's search for divergence.
func (p *Partition) EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	if p.Err() != nil {
		return kafka.NoEpoch, kafka.NoOffset
	}
	found, end := p.log.EpochEnd(epoch)
	if end == p.log.EndOffset() {
		end = max(end, p.Offsets().LogEnd) // the hole of a jump is the last thing in the log
	}
	return found, end
}

// EpochAt is the epoch of the batch that holds offset or precedes it, for ListOffsets' answer.
func (p *Partition) EpochAt(offset kafka.Offset) kafka.LeaderEpoch {
	if p.Err() != nil {
		return kafka.NoEpoch
	}
	return p.log.EpochAt(offset)
}

// LastBatch is the header (batch.HeaderSize bytes) of the last batch in the log, nil for an empty log: the splice check (rule E6).
func (p *Partition) LastBatch() (batch.Batch, error) {
	if err := p.Err(); err != nil {
		return nil, err
	}
	end := p.log.EndOffset()
	if end == p.log.StartOffset() {
		return nil, nil
	}
	return p.headerAt(end - 1)
}

// headerAt is the header of the batch that holds an offset, or else of the next one; nil for none.
func (p *Partition) headerAt(at kafka.Offset) (batch.Batch, error) {
	if at = max(at, p.log.StartOffset()); at >= p.log.EndOffset() {
		return nil, nil
	}
	slice, err := p.log.Read(at, p.log.EndOffset(), batch.HeaderSize, true)
	if err != nil {
		return nil, p.storageError("read a batch's header", err)
	}
	defer slice.Close()
	if slice.Length == 0 {
		return nil, nil
	}
	header := make(batch.Batch, batch.HeaderSize)
	if _, err := slice.File.ReadAt(header, slice.Position); err != nil {
		return nil, p.storageError("read a batch's header", err)
	}
	return header, nil
}

// Producer describes a producer's state for DescribeProducers.
type Producer struct {
	ID               kafka.ProducerID
	Epoch            int16
	LastSequence     int32
	LastTimestamp    int64 // Unix ms
	CoordinatorEpoch int32
	TxnStart         kafka.Offset // NoOffset if none is open
}

// Producers lists the producers known here, in no order.
func (p *Partition) Producers() []Producer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.derived == nil {
		return nil
	}
	list := make([]Producer, 0, len(p.derived.byID))
	for id, s := range p.derived.byID {
		list = append(list, Producer{id, s.epoch, s.lastSequence(), s.lastTimestamp, s.coordinatorEpoch, s.txnStart})
	}
	return list
}

// storageError names partition and deed for an error of the log.
func (p *Partition) storageError(deed string, err error) error {
	return kafka.Errorf(kafka.KafkaStorageError, "%s of partition %s: %v", deed, p.name, err)
}

// lockOrder begins an order, or gives up when ctx ends.
func (p *Partition) lockOrder(ctx context.Context) error {
	select {
	case p.order <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.order <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Partition) unlockOrder() { <-p.order }

func (p *Partition) now() time.Time { return p.owner.cfg.Now() }
