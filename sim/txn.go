package sim

import (
	"errors"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// txn is what a cluster's coordinator has stored of a producer's transaction: package txn's state, as far as a partition can tell.
type txn struct {
	id       kafka.ProducerID
	epoch    int16
	ongoing  bool
	prepared bool // decided, markers are being written
	commit   bool
	on       map[int32]bool
}

func (t *txn) dropAll() { clear(t.on) }

var errNoTxn = kafka.Errorf(kafka.InvalidTxnState, "no such transaction")

// confirm is asked by a partition before a transaction's first batch (rule P2).
func (c *cluster) confirm(p int32) func(kafka.ProducerID, int16) error {
	return func(id kafka.ProducerID, epoch int16) error {
		if t := c.txns[id]; t == nil || !t.ongoing || t.prepared || t.epoch != epoch || !t.on[p] {
			return errNoTxn
		}
		return nil
	}
}

// addPartition is AddPartitionsToTxn; refused while the topic is not open (rule R5).
func (c *cluster) addPartition(id kafka.ProducerID, epoch int16, p int32) error {
	t := c.txns[id]
	switch {
	case t == nil || t.epoch != epoch:
		return errNoTxn
	case t.prepared:
		return kafka.ConcurrentTransactions
	case c.topic == nil || !c.state().Writable():
		return errNoTxn
	}
	c.put(func() { t.ongoing, t.on[p] = true, true })
	return nil
}

// end is EndTxn: decided first, then the markers, then done.
func (c *cluster) endTxn(id kafka.ProducerID, commit bool) error {
	t := c.txns[id]
	if t == nil || !t.ongoing || t.prepared && t.commit != commit {
		return errNoTxn
	}
	if !t.prepared {
		c.put(func() { t.prepared, t.commit = true, commit })
	}
	return c.finishTxn(t)
}

func (c *cluster) finishTxn(t *txn) error {
	for p := range int32(partitionsMax) {
		if !t.on[p] {
			continue
		}
		part := c.part(p)
		if part == nil {
			c.put(func() { delete(t.on, p) })
			continue
		}
		marker := batch.Abort
		if t.commit {
			marker = batch.Commit
		}
		a, err := part.AppendMarker(c.ctx, t.id, t.epoch, marker, 0)
		c.alive()
		if err == nil {
			err = part.WaitSynced(c.ctx, a.Next)
			c.alive()
		}
		if err != nil {
			return err
		}
		c.put(func() { delete(t.on, p) })
	}
	c.put(func() { t.ongoing, t.prepared = false, false })
	return nil
}

// recoverTxns goes on with decided transactions after a start.
func (c *cluster) recoverTxns() {
	for _, id := range sortedIDs(c.txns) {
		if t := c.txns[id]; t.prepared {
			if err := c.finishTxn(t); err != nil && !errors.Is(err, errNoTxn) {
				c.w.log("%s: finish the transaction of %d: %v", c.name, id, err)
			}
		}
	}
}

// abortTxns ends every transaction that holds the topic; with its epoch raised, so that its producer hears of it (rule R6).
func (c *cluster) abortTxns() bool {
	for _, id := range sortedIDs(c.txns) {
		t := c.txns[id]
		if !t.ongoing {
			continue
		}
		if !t.prepared {
			c.put(func() { t.prepared, t.commit, t.epoch = true, false, t.epoch+1 })
		}
		if err := c.finishTxn(t); err != nil {
			return false
		}
	}
	return true
}

// holding reports whether a transaction of this cluster holds the topic.
func (c *cluster) holding() bool {
	for _, t := range c.txns {
		if len(t.on) > 0 {
			return true
		}
	}
	return false
}

func sortedIDs(m map[kafka.ProducerID]*txn) []kafka.ProducerID {
	ids := make([]kafka.ProducerID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
