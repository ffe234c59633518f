package partition

import (
	"fmt"
	"math"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

// settle makes the log what the stored entry says it is: cuts it, passes over a jump's hole,
// writes the markers that a stop owes. It may be run again at any time, and is by each Open: so an
// order is finished whatever it was interrupted by. Both ways in are shut; it needs order.
// An error that is no KafkaStorageError may go away when tried again.
func (p *Partition) settle() error {
	entry := p.Entry()
	if err := p.settleLog(entry); err != nil {
		p.fail(err)
		return err
	}
	p.refresh()
	if entry.Cutting != nil {
		done := &change{p: p, mutate: func(now meta.Partition) (meta.Partition, error) {
			now.Cutting = nil
			return now, nil
		}}
		if p.owner.storer.store([]*change{done}); done.err != nil {
			p.leaveUnsettled()
			return done.err
		}
	}
	return p.Err()
}

func (p *Partition) settleLog(entry meta.Partition) error {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.moveHome(entry); err != nil {
		return err
	}
	cut, err := p.cutLog(entry)
	if err != nil {
		return err
	}
	p.virtualEnd = 0
	if n := len(entry.Jumps); n > 0 && entry.Jumps[n-1].To > p.log.EndOffset() {
		p.virtualEnd = entry.Jumps[n-1].To
	}
	if cut || p.derived == nil {
		if err := p.rebuild(entry.Jumps); err != nil {
			return err
		}
	}
	p.derived.replayJumps(entry.Jumps, math.MaxInt64)
	if entry.Role == meta.RoleOpen && entry.Stop != nil {
		return p.finishStop(entry)
	}
	if f := entry.Frozen; entry.Role == meta.RoleFrozen && f != nil && p.end() < f.End {
		return kafka.Errorf(kafka.KafkaStorageError,
			"Partition %s ends at offset %d, below its stated end %d: records were lost. Fail the topic over to go on with what is there.",
			p.name, p.end(), f.End)
	}
	return nil
}

// cutLog does what a truncation, or a jump that removes what lies below it, has left to do.
func (p *Partition) cutLog(entry meta.Partition) (cut bool, err error) {
	if at := entry.Cutting; at != nil && (*at < p.log.EndOffset() || *at < p.virtualEnd) {
		if err := p.removeSnapshotsAbove(*at); err != nil {
			return false, err
		}
		if *at < p.log.StartOffset() {
			err = p.log.Reset(*at)
		} else {
			err = p.log.Truncate(*at)
		}
		if err != nil {
			return false, p.storageError("cut the log", err)
		}
		cut = true
	}
	if n := len(entry.Jumps); n > 0 && entry.Jumps[n-1].Reset && p.log.StartOffset() < entry.Jumps[n-1].To {
		if err := p.removeSnapshotsAbove(kafka.NoOffset); err != nil {
			return cut, err
		}
		if err := p.log.Reset(entry.Jumps[n-1].To); err != nil {
			return cut, p.storageError("empty the log", err)
		}
		if p.derived != nil {
			p.derived.forgetBatches(entry.Jumps[n-1].To)
		}
	}
	return cut, nil
}

// end is the offset that the next batch gets. It needs mu.
func (p *Partition) end() kafka.Offset { return max(p.log.EndOffset(), p.virtualEnd) }

// finishStop ends with ABORT markers the transactions that were open when mirroring
// stopped, behind the stop point, once: those that have a marker are not open any more (rule D9).
func (p *Partition) finishStop(entry meta.Partition) error {
	stop := entry.Stop.Offset
	if p.end() < stop {
		return kafka.Errorf(kafka.KafkaStorageError,
			"Partition %s ends at offset %d, below the offset %d at which its mirror was stopped: records were lost after that. "+
				"It is not opened for producers; restore it from the source, or delete and create the topic.", p.name, p.end(), stop)
	}
	p.derived.stopMirroring(stop, p.owner.cfg.ProducerPrefix)
	if plantMarkerMissing {
		return nil
	}
	now := p.now()
	wrote := false
	for _, o := range slices.Clone(p.derived.open) {
		if o.start >= stop {
			continue
		}
		s := p.derived.byID[o.id]
		// The coordinator epoch is the last one seen for this producer, else 0 (rule P4).
		marker := batch.BuildMarker(batch.Spec{
			BaseOffset:    p.end(),
			LeaderEpoch:   entry.Epoch,
			ProducerID:    o.id,
			ProducerEpoch: s.epoch,
		}, batch.Abort, max(s.coordinatorEpoch, 0), now.UnixMilli())
		if err := p.log.Append(batch.Batches(marker), now); err != nil {
			return p.storageError("write the ABORT markers", err)
		}
		p.virtualEnd = 0
		p.derived.take(marker, now.UnixMilli())
		p.unsaved += int64(len(marker))
		wrote = true
	}
	if !wrote {
		return nil
	}
	if _, err := p.log.Sync(); err != nil {
		return p.storageError("sync the ABORT markers", err)
	}
	return nil
}

// refresh makes the marks anew from the log, after something other than an append. Gates are
// reopen's to look after.
func (p *Partition) refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.marks
	m.mu.Lock()
	truncated := p.end() < m.logEnd
	m.logStart, m.logEnd = p.log.StartOffset(), p.end()
	m.synced = p.log.SyncedEnd()
	if m.synced == p.log.EndOffset() || p.owner.cfg.Unsafe {
		m.synced = m.logEnd
	}
	m.gates = nil
	for _, e := range p.log.Epochs() {
		m.addGate(e.Epoch, e.Start)
	}
	if m.entry.Role == meta.RoleMirror {
		p.derived.forgetGone(m.logStart)
	}
	m.firstOpen, m.aborted, m.ended = p.derived.firstOpen(), p.derived.aborted, nil
	if truncated {
		m.failWaits(m.logEnd, kafka.Errorf(kafka.NotLeaderForPartition, "The log of partition %s was cut to %d.", p.name, m.logEnd))
	}
	err := m.move()
	m.wake()
	m.mu.Unlock()
	p.failOn(err)
}

// actBeforeStore is a planted fault.
func (p *Partition) actBeforeStore(mutate func(meta.Partition) (meta.Partition, error)) error {
	entry, err := mutate(p.Entry())
	if err != nil {
		return fmt.Errorf("plant a fault: %w", err)
	}
	if err := p.settleLog(entry); err != nil {
		return err
	}
	return nil
}
