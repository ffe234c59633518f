package partition

import (
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

// recentMax is how many batches below its end a stop point names (rule T5).
const recentMax = 64

// derived is what follows from a log's batches and from its entry's jumps, and can be rebuilt
// from them at any time. It describes the log up to end.
type derived struct {
	producers
	aborted abortedIndex
	recent  []meta.BatchMark // the last batches, newest last; up to 2*recentMax before it is cut
	// recentFrom is the offset from which recent has every batch.
	recentFrom kafka.Offset
	end        kafka.Offset // exclusive
	jumped     kafka.Offset // To of the last jump taken in, NoOffset for none
}

func newDerived(start kafka.Offset) *derived {
	return &derived{producers: newProducers(), recentFrom: start, end: start, jumped: kafka.NoOffset}
}

// take applies a batch that is in the log now; ok says that it ended a transaction.
func (d *derived) take(b batch.Batch, nowMs int64) (ended decided, ok bool) {
	if len(d.recent) == 2*recentMax {
		d.recent = d.recent[:copy(d.recent, d.recent[recentMax:])]
		d.recentFrom = d.recent[0].Base
	}
	d.recent = append(d.recent, meta.BatchMark{Base: b.BaseOffset(), Epoch: b.LeaderEpoch(), CRC: b.CRC()})
	d.end = b.NextOffset()
	if ended, ok = d.apply(b, nowMs); ok && ended.aborted {
		d.aborted.add(ended, d.firstOpen())
	}
	return ended, ok
}

// jump ends every open transaction as aborted, without a marker (rule D5), and goes on at to.
func (d *derived) jump(to kafka.Offset) (ended int) {
	for _, o := range slices.Clone(d.open) {
		if plantJumpLeavesTransactions {
			break
		}
		if e, ok := d.producers.end(o.id, d.byID[o.id], to-1, true); ok {
			d.aborted.add(e, d.firstOpen())
			ended++
		}
	}
	d.end, d.jumped = max(d.end, to), to
	return ended
}

// replay takes a batch while the log is read again, with the jumps that lie before it.
func (d *derived) replay(b batch.Batch, jumps []meta.Jump, nowMs int64) {
	d.replayJumps(jumps, b.BaseOffset())
	d.take(b, nowMs)
}

// replayJumps takes in the jumps that began at or below upTo (inclusive).
func (d *derived) replayJumps(jumps []meta.Jump, upTo kafka.Offset) {
	for _, j := range jumps {
		if j.To > d.jumped && j.From <= upTo {
			d.jump(j.To)
		}
	}
}

// marks is the n last batches, newest last, in memory of the caller's own, or all of a log that
// starts at start and has fewer. ok is false when that is not known.
func (d *derived) marks(n int, start kafka.Offset) (marks []meta.BatchMark, ok bool) {
	if len(d.recent) < n && d.recentFrom > start {
		return nil, false
	}
	return slices.Clone(d.recent[max(0, len(d.recent)-n):]), true
}

// forgetBatches says that the log was emptied and starts at start.
func (d *derived) forgetBatches(start kafka.Offset) {
	d.recent, d.recentFrom = nil, start
	d.dropBelow(start)
}

// forgetGone forgets the open transactions that have no record left at or above start: nothing readable is theirs. A mirror does so,
// since a source that read its own log again after it removed them knows nothing of them, and never writes their markers.
// One that goes on opens again with its next record.
func (d *derived) forgetGone(start kafka.Offset) {
	d.open = slices.DeleteFunc(d.open, func(o openTxn) bool {
		p := d.byID[o.id]
		gone := p.n > 0 && p.kept[p.n-1].lastOffset < start
		if gone {
			p.txnStart = kafka.NoOffset
		}
		return gone
	})
}

// dropBelow forgets what only readers below the log start could ask for.
func (d *derived) dropBelow(start kafka.Offset) { d.aborted.dropBelow(start) }
