package partition

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/internal/invariant"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// marks is what readers see of a partition, apart from Partition.mu, which is
// held across writes to disk.
type marks struct {
	mu sync.RWMutex // guards all below

	entry  meta.Partition // as last stored; its lists are never changed in place
	frozen bool           // an order is under way
	err    error          // why the partition is out of service

	logStart, stable, highWatermark, logEnd kafka.Offset
	// synced is what a crash cannot take; the high watermark is below it only at gates.
	synced kafka.Offset
	// gates are epochs in the log above the published one, where they begin: the high
	// watermark does not pass them until they are published (rule E4). Rising.
	gates []kafka.EpochStart
	// firstOpen is where the oldest open transaction begins, NoOffset for none; ended are transactions
	// whose marker is not below the high watermark yet, and which therefore count as open.
	firstOpen kafka.Offset
	ended     []decided
	aborted   abortedIndex // shares derived's memory, which only grows behind its end

	watchers map[*Waiter]struct{}
	waits    []*syncWait // in WaitSynced
}

// syncWait is a caller of WaitSynced.
type syncWait struct {
	next kafka.Offset
	done chan error // has room for one
}

// Waiter is woken by partitions it was given to; one may watch many. C has room for one.
type Waiter struct{ C chan struct{} }

// NewWaiter makes a waiter.
func NewWaiter() *Waiter { return &Waiter{C: make(chan struct{}, 1)} }

// Watch wakes w when more may be readable, or when the partition's role, epoch or health changes, until Unwatch.
func (p *Partition) Watch(w *Waiter) {
	p.marks.mu.Lock()
	defer p.marks.mu.Unlock()
	if p.marks.watchers == nil {
		p.marks.watchers = map[*Waiter]struct{}{}
	}
	p.marks.watchers[w] = struct{}{}
}

// Unwatch ends what Watch began.
func (p *Partition) Unwatch(w *Waiter) {
	p.marks.mu.Lock()
	defer p.marks.mu.Unlock()
	delete(p.marks.watchers, w)
}

// wake tells the watchers. The methods below need mu held for writing.
func (m *marks) wake() {
	for w := range m.watchers {
		select {
		case w.C <- struct{}{}:
		default: // it has been told already
		}
	}
}

// move recomputes high watermark and last stable offset after something they
// depend on has changed, answers who waited for that, and says what is wrong if the order of the marks is.
func (m *marks) move() error {
	before := [2]kafka.Offset{m.highWatermark, m.stable}
	m.highWatermark = min(m.synced, m.logEnd)
	if len(m.gates) > 0 {
		m.highWatermark = min(m.highWatermark, m.gates[0].Start)
	}
	// With every record behind the start gone, there is nothing that a gate could hide.
	m.highWatermark = max(m.highWatermark, m.logStart)
	if len(m.ended) > 0 {
		m.ended = slices.DeleteFunc(m.ended, func(d decided) bool { return d.marker < m.highWatermark })
	}
	m.stable = m.highWatermark
	if m.firstOpen != kafka.NoOffset {
		m.stable = min(m.stable, m.firstOpen)
	}
	for _, d := range m.ended {
		m.stable = min(m.stable, d.start)
	}
	m.stable = max(m.stable, m.logStart)
	if before != [2]kafka.Offset{m.highWatermark, m.stable} {
		m.wake()
	}
	m.answerWaits()
	if m.logStart > m.stable || m.stable > m.highWatermark || m.highWatermark > m.logEnd {
		return fmt.Errorf("marks out of order: log start %d, last stable %d, high watermark %d, log end %d",
			m.logStart, m.stable, m.highWatermark, m.logEnd)
	}
	return nil
}

func (m *marks) answerWaits() {
	if len(m.waits) == 0 {
		return
	}
	m.waits = slices.DeleteFunc(m.waits, func(w *syncWait) bool {
		if w.next > m.highWatermark {
			return false
		}
		w.done <- nil
		return true
	})
}

// failWaits answers those who wait for what is not there any more: above end (exclusive).
func (m *marks) failWaits(end kafka.Offset, err error) {
	m.waits = slices.DeleteFunc(m.waits, func(w *syncWait) bool {
		if w.next <= end {
			return false
		}
		w.done <- err
		return true
	})
}

// addGates notes the epochs above the published one among those of batches appended. epoch rises.
func (m *marks) addGate(epoch kafka.LeaderEpoch, start kafka.Offset) {
	if epoch <= m.entry.Epoch {
		return
	}
	if n := len(m.gates); n > 0 && m.gates[n-1].Epoch >= epoch {
		return
	}
	m.gates = append(m.gates, kafka.EpochStart{Epoch: epoch, Start: start})
}

// hideBehind shows nothing behind a cut from the moment at which its epoch is published, though the
// log may not be cut yet: else a reader that has the new epoch could get what is about to go.
func (m *marks) hideBehind(cut kafka.Offset) {
	m.logStart, m.synced, m.logEnd = min(m.logStart, cut), min(m.synced, cut), min(m.logEnd, cut)
}

// install takes in an entry that has been stored.
func (p *Partition) install(entry meta.Partition) {
	m := &p.marks
	m.mu.Lock()
	changed := entry.Epoch != m.entry.Epoch || entry.Role != m.entry.Role || entry.Generation != m.entry.Generation
	m.entry = entry
	m.gates = slices.DeleteFunc(m.gates, func(g kafka.EpochStart) bool { return g.Epoch <= entry.Epoch })
	if entry.Cutting != nil {
		m.hideBehind(*entry.Cutting)
	}
	err := m.move()
	if changed {
		m.wake()
	}
	m.mu.Unlock()
	p.failOn(err)
}

// fail takes the partition out of service: every call answers err from now on.
func (p *Partition) fail(err error) {
	m := &p.marks
	m.mu.Lock()
	first := m.err == nil
	if first {
		m.err = err
		m.failWaits(kafka.NoOffset, err)
		m.wake()
	}
	m.mu.Unlock()
	if first && kafka.CodeOf(err) == kafka.KafkaStorageError && !(p.again && p.lacked) { // that it is still out is no news
		p.owner.cfg.Events.Emit(event.PartitionOutOfService{Topic: p.name.Topic, Partition: p.name.Partition, Err: err})
	}
}

func (p *Partition) failOn(err error) {
	if err != nil {
		p.fail(p.storageError("check the offsets", err))
		invariant.Broken("partition %s: %v", p.name, err)
	}
}

// WaitSynced returns once everything below next (exclusive) is synced and so shown.
func (p *Partition) WaitSynced(ctx context.Context, next kafka.Offset) error {
	m := &p.marks
	m.mu.Lock()
	if m.err != nil || next <= m.highWatermark {
		defer m.mu.Unlock()
		return m.err
	}
	if next > m.logEnd {
		defer m.mu.Unlock()
		return kafka.Errorf(kafka.NotLeaderForPartition, "Offset %d of partition %s is not there any more: the log was cut to %d.",
			next-1, p.name, m.logEnd)
	}
	w := &syncWait{next: next, done: make(chan error, 1)}
	m.waits = append(m.waits, w)
	m.mu.Unlock()
	p.owner.syncer.urge(p)
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		m.mu.Lock()
		m.waits = slices.DeleteFunc(m.waits, func(o *syncWait) bool { return o == w })
		m.mu.Unlock()
		return ctx.Err()
	}
}
