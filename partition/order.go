package partition

import (
	"context"
	"errors"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// order changes what a partition is open for, or cuts it.
type order struct {
	p *Partition
	// prepare looks at the log once both ways in are shut and everything is synced; an error ends
	// the order with nothing changed. nil for nothing to look at.
	prepare func() error
	// mutate is as in change.
	mutate func(now meta.Partition) (meta.Partition, error)
	stops  bool // it stops a mirror: for planted faults
	err    error
}

// errSettled ends an order that finds that there is nothing left to do.
var errSettled = errors.New("nothing to do")

// carryOut carries out orders on different partitions: shut, sync, store once, act, open
// (rule D1). It waits at most until ctx ends for the partitions' earlier orders; what it has begun it
// finishes. An order whose outcome is unknown leaves its partition shut, and
// the reconciler finishes it. The errors are in the orders, and joined.
func (o *Owner) carryOut(ctx context.Context, orders []*order) error {
	// One order of locks, so that two callers with many partitions each cannot wait for each other.
	slices.SortFunc(orders, func(a, b *order) int { return byID(a.p, b.p) })
	for i, w := range orders {
		if err := w.p.lockOrder(ctx); err != nil {
			for _, locked := range orders[:i] {
				locked.p.unlockOrder()
			}
			return err
		}
	}
	defer func() {
		for _, w := range orders {
			w.p.unlockOrder()
		}
	}()
	o.each(orders, (*order).begin)
	if plantActBeforeStore {
		o.each(orders, func(w *order) error { return w.p.actBeforeStore(w.mutate) })
	}
	storeOrders(o.storer, orders)
	o.each(orders, func(w *order) error { return w.p.settle() })
	var errs []error
	for _, w := range orders {
		if errors.Is(w.err, errSettled) {
			w.err = nil
		}
		if w.p.Err() == nil && !w.p.unsettled.Load() {
			w.p.reopen()
		}
		errs = append(errs, w.err)
	}
	return errors.Join(errs...)
}

// each runs a step of every order that has not failed, some at a time.
func (o *Owner) each(orders []*order, step func(*order) error) {
	byPartition := make(map[*Partition]*order, len(orders))
	var todo []*Partition
	for _, w := range orders {
		if w.err == nil {
			byPartition[w.p] = w
			todo = append(todo, w.p)
		}
	}
	_ = o.inParallel(todo, func(p *Partition) error {
		byPartition[p].err = step(byPartition[p]) // each order keeps its own
		return nil
	})
}

func (w *order) begin() error {
	p := w.p
	if err := p.Err(); err != nil {
		return err
	}
	if p.unsettled.Load() {
		if err := p.settleUnsure(); err != nil {
			return err
		}
	}
	p.shutWays()
	if !(plantSyncSkippedAtStop && w.stops) {
		p.syncOnce()
	}
	if err := p.Err(); err != nil {
		return err
	}
	if w.prepare != nil {
		return w.prepare()
	}
	return nil
}

func storeOrders(s *storer, orders []*order) {
	var changes []*change
	var stored []*order
	for _, w := range orders {
		if w.err == nil {
			changes = append(changes, &change{p: w.p, mutate: w.mutate})
			stored = append(stored, w)
		}
	}
	if len(changes) == 0 {
		return
	}
	s.store(changes)
	for i, w := range stored {
		w.err = changes[i].err
		if changes[i].unsure {
			w.p.leaveUnsettled()
		}
	}
}

// shutWays closes both ways in. Appends under way are in the log when it returns.
func (p *Partition) shutWays() {
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	p.marks.mu.Lock()
	p.marks.frozen = true
	p.marks.mu.Unlock()
}

// reopen opens the way in that the entry's role names.
func (p *Partition) reopen() {
	p.mu.Lock()
	p.shut = false
	p.mu.Unlock()
	p.marks.mu.Lock()
	p.marks.frozen = false
	gated := len(p.marks.gates) > 0
	p.marks.wake()
	p.marks.mu.Unlock()
	if gated {
		p.owner.reconciler.add(p)
	}
}

func (p *Partition) leaveUnsettled() {
	p.unsettled.Store(true)
	p.owner.reconciler.add(p)
}

// settleUnsure reads the entry again and carries out what it says. It needs order.
func (p *Partition) settleUnsure() error {
	read := &change{p: p, mutate: func(now meta.Partition) (meta.Partition, error) { return now, errSettled }}
	p.owner.storer.store([]*change{read})
	if !errors.Is(read.err, errSettled) {
		return read.err
	}
	if err := p.settle(); err != nil {
		return err
	}
	p.unsettled.Store(false)
	return nil
}

// finishUnsettled is settleUnsure for the reconciler; it reports whether it need not be tried again.
func (p *Partition) finishUnsettled() bool {
	if !p.unsettled.Load() {
		return true
	}
	select {
	case p.order <- struct{}{}:
	default:
		return false // an order is under way
	}
	defer p.unlockOrder()
	if !p.unsettled.Load() || p.Err() != nil {
		return true
	}
	if err := p.settleUnsure(); err != nil {
		if p.Err() == nil {
			p.owner.cfg.Logger.Warn("an order is not finished yet, the partition takes no records meanwhile",
				"topic", p.name.Topic, "partition", p.name.Partition, "error", err)
		}
		return p.Err() != nil || kafka.CodeOf(err) == kafka.UnknownTopicID
	}
	p.reopen()
	return true
}
