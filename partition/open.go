package partition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store"
)

// Open opens the topic's partitions, making those that are new, recovers their
// logs and finishes what their entries say was begun (the markers of a stop, rule D1). A
// partition that cannot be opened (corrupt, or its log ends below a stored stop point)
// is there all the same and answers every call with why; the others work.
// Calling it again opens partitions that were added, and tries those again that could not be opened.
func (o *Owner) Open(topic *meta.Topic, states *meta.Partitions, cfg TopicConfig) error {
	return o.open(topic, states, cfg, func(*Partition) bool { return true })
}

// Reopen tries those of the topic's partitions again that could not be opened for want of room: nothing about their disk is in doubt, as
// it is after a write or a sync that failed.
func (o *Owner) Reopen(topic *meta.Topic, states *meta.Partitions, cfg TopicConfig) error {
	return o.open(topic, states, cfg, func(p *Partition) bool { return p.lacked })
}

// Lacking lists the topics of which partitions could not be opened for want of room.
func (o *Owner) Lacking() []kafka.TopicID {
	var list []kafka.TopicID
	for _, p := range o.all(nil) {
		if p.lacked && !slices.Contains(list, p.id.Topic) {
			list = append(list, p.id.Topic)
		}
	}
	return list
}

// open makes partitions that are not there, and those that are out of service and are to be tried again.
func (o *Owner) open(topic *meta.Topic, states *meta.Partitions, cfg TopicConfig, again func(*Partition) bool) error {
	defer o.changing(topic.ID)()
	if states == nil || len(states.List) < int(topic.Partitions) {
		return fmt.Errorf("open topic %s: it has %d partitions but fewer stored states", topic.Name, topic.Partitions)
	}
	var todo []*Partition
	for n := range topic.Partitions {
		id := kafka.PartitionID{Topic: topic.ID, Partition: n}
		if old := o.Get(id); old != nil {
			if old.Err() == nil || !again(old) {
				continue
			}
			_ = old.close(old.Err()) // it failed before, and says so
			again := o.closedPartition(id, topic.Name, &cfg, states.List[n])
			again.again = true
			todo = append(todo, again)
			continue
		}
		todo = append(todo, o.closedPartition(id, topic.Name, &cfg, states.List[n]))
	}
	o.openAll(todo)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errors.New("open partitions: the owner is closed")
	}
	for _, p := range todo {
		o.partitions[p.id] = p
	}
	return nil
}

// openAll opens partitions that nobody can find yet; each has its own error.
func (o *Owner) openAll(list []*Partition) {
	_ = o.inParallel(list, func(p *Partition) error {
		if err := p.open(); err != nil {
			p.fail(err)
		} else if p.again {
			o.cfg.Events.Emit(event.PartitionInService{Topic: p.name.Topic, Partition: p.name.Partition})
		}
		return nil
	})
	st, ok := o.store.(store.DirMaker)
	if !ok {
		return
	}
	if err := st.SyncNames(); err != nil {
		for _, p := range list {
			p.fail(p.storageError("make the directory", err))
		}
	}
}

// closedPartition is a partition that open has still to open.
func (o *Owner) closedPartition(id kafka.PartitionID, topic string, cfg *TopicConfig, entry meta.Partition) *Partition {
	p := &Partition{
		id:     id,
		name:   kafka.TopicPartition{Topic: topic, Partition: id.Partition},
		owner:  o,
		order:  make(chan struct{}, 1),
		shut:   true,
		guards: map[kafka.ProducerID]*guard{},
		at:     entry.LogID(id),
	}
	p.cfg.Store(cfg)
	p.marks.entry = entry
	p.marks.frozen = true
	p.marks.firstOpen = kafka.NoOffset
	return p
}

// dir opens a partition's directory; one that is new is durable after openAll where the store can do that for many at once.
func (o *Owner) dir(id kafka.PartitionID) (store.Dir, error) {
	if st, ok := o.store.(store.DirMaker); ok {
		return st.NewDir(id)
	}
	return o.store.Dir(id)
}

// open recovers the log and carries out what the entry says.
func (p *Partition) open() error {
	if why := p.owner.withholds(p.id); why != nil {
		return p.storageError("open the directory", why)
	}
	dir, err := p.owner.dir(p.at)
	if err != nil {
		p.lacked = store.Lacks(err)
		return p.storageError("open the directory", err)
	}
	log, recovery, err := commitlog.Open(dir, p.cfg.Load().Log)
	if err != nil {
		p.lacked = store.Lacks(err)
		if errors.Is(err, commitlog.ErrCorrupt) {
			err = fmt.Errorf("%w; the directory is data/%s: put a copy of it back and restart the broker, or make it an empty directory "+
				"to go on without its records (a mirror is copied again)", err, p.at)
		}
		return p.storageError("open the log", err)
	}
	p.log = log
	if recovery.TornBytes > 0 || len(recovery.RebuiltFiles) > 0 {
		p.owner.cfg.Events.Emit(event.RecoveryFound{
			Topic: p.name.Topic, Partition: p.name.Partition, Offset: log.EndOffset(),
			TornBytes: recovery.TornBytes, Scanned: recovery.ScannedBytes,
			Rebuilt: len(recovery.RebuiltFiles), StartLost: recovery.StartLost,
		})
	}
	if log.SyncedEnd() < log.EndOffset() {
		if _, err := log.Sync(); err != nil {
			return p.storageError("sync the log", err)
		}
	}
	p.order <- struct{}{}
	defer p.unlockOrder()
	p.newEpoch = p.Entry().Role != meta.RoleMirror && log.EndOffset() > 0
	if err := p.settle(); err != nil {
		// What failed the partition for good is its own; else the reconciler goes on.
		if p.Err() == nil {
			p.leaveUnsettled()
		}
		return p.Err()
	}
	p.reopen()
	p.removeLeft()
	return nil
}

// rebuild derives the producers' state from the newest snapshot that fits and the log
// behind it. It needs mu.
func (p *Partition) rebuild(jumps []meta.Jump) error {
	start, end := p.log.StartOffset(), p.log.EndOffset()
	d, err := p.loadSnapshot(max(end, p.virtualEnd))
	if err != nil {
		return err
	}
	if d == nil || d.end < start {
		// What lay between such a snapshot and the log start is gone, and may have ended its transactions and used up its sequences.
		d = newDerived(start)
		p.unsaved = p.log.Size()
	}
	nowMs := p.now().UnixMilli()
	if from := max(d.end, start); from < end {
		err := p.log.Scan(from, true, func(b batch.Batch) error {
			if b.NextOffset() <= d.end {
				return nil
			}
			// The scan begins with the batch that holds from. A log may start inside it, and what is left of it may be of
			// an open transaction.
			if b.IsControl() {
				whole, err := p.batchAt(b.BaseOffset())
				if err != nil {
					return err
				}
				b = whole
			}
			d.replay(b, jumps, nowMs)
			return nil
		})
		if err != nil {
			return p.storageError("rebuild the producers' state", err)
		}
	}
	d.replayJumps(jumps, max(end, p.virtualEnd))
	d.end = max(end, p.virtualEnd)
	d.dropBelow(start)
	p.derived = d
	return nil
}

// batchAt reads the batch that holds the offset.
func (p *Partition) batchAt(offset kafka.Offset) (batch.Batch, error) {
	slice, err := p.log.Read(offset, offset+1, batch.HeaderSize, true)
	if err != nil {
		return nil, err
	}
	defer slice.Close()
	bytes, err := slice.Bytes()
	if err != nil {
		return nil, err
	}
	b, _, err := batch.Split(bytes)
	return b, err
}

// loadSnapshot reads the newest usable snapshot, nil if there is none. Those that end above end
// are from before a crash or a cut, and go for good.
func (p *Partition) loadSnapshot(end kafka.Offset) (*derived, error) {
	if err := p.removeSnapshotsAbove(end); err != nil {
		return nil, err
	}
	ends, err := p.snapshots()
	if err != nil {
		return nil, err
	}
	for _, at := range slices.Backward(ends) {
		name := snapshotName(at)
		// One that cannot be read is no reason to go out of service: all that is in it follows from the log.
		content, err := p.log.Dir().ReadFile(name)
		if err == nil {
			var d *derived
			if d, err = decodeDerived(content); err == nil && d.end == at {
				return d, nil
			}
		}
		p.owner.cfg.Logger.Warn("a producer snapshot is unusable and is not used",
			"topic", p.name.Topic, "partition", p.name.Partition, "file", name, "error", err)
	}
	return nil, nil
}

// snapshots lists where the stored snapshots end, rising.
func (p *Partition) snapshots() ([]kafka.Offset, error) {
	files, err := p.log.Dir().List()
	if err != nil {
		return nil, p.storageError("list the directory", err)
	}
	var ends []kafka.Offset
	for _, f := range files {
		if end, ok := snapshotEnd(f.Name); ok {
			ends = append(ends, end)
		}
	}
	return ends, nil // names sort as their numbers do
}

// removeSnapshotsAbove removes, durably, those that end above end.
func (p *Partition) removeSnapshotsAbove(end kafka.Offset) error {
	ends, err := p.snapshots()
	if err != nil {
		return err
	}
	removed := false
	for _, at := range ends {
		if at > end {
			if err := p.log.Dir().Remove(snapshotName(at)); err != nil {
				return p.storageError("remove a producer snapshot", err)
			}
			removed = true
		}
	}
	if !removed {
		return nil
	}
	if err := p.log.Dir().SyncDir(); err != nil {
		return p.storageError("remove producer snapshots", err)
	}
	return nil
}

// snapshotEvery is how many bytes of log may be looked through at an open because no snapshot has
// seen them, snapshotAtClose how many when the log was closed in order.
const (
	snapshotEvery   = 64 << 20
	snapshotAtClose = 256 << 10
)

// saveSnapshotIfDue needs syncing held, so that the log is not cut meanwhile.
func (p *Partition) saveSnapshotIfDue() {
	p.mu.Lock()
	if p.unsaved < snapshotEvery || p.shut {
		p.mu.Unlock()
		return
	}
	p.unsaved = 0
	end, content := p.derived.end, p.derived.encode()
	p.mu.Unlock()
	if err := p.saveSnapshot(end, content); err != nil {
		// The log does not need it: opening will take longer.
		p.owner.cfg.Logger.Warn("could not write a producer snapshot", "topic", p.name.Topic, "partition", p.name.Partition, "error", err)
	}
}

func (p *Partition) saveSnapshot(end kafka.Offset, content []byte) error {
	if err := p.log.Dir().WriteAtomic(snapshotName(end), content); err != nil {
		return p.storageError("write a producer snapshot", err)
	}
	ends, err := p.snapshots()
	if err != nil {
		return err
	}
	for _, at := range ends[:max(0, len(ends)-snapshotsKept)] {
		if err := p.log.Dir().Remove(snapshotName(at)); err != nil {
			return p.storageError("remove a producer snapshot", err)
		}
	}
	return nil
}
