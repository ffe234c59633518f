package partition

import (
	"context"
	"errors"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

// marksBytes bounds what the batch marks of one topic's stop points take in its record,
// and markBytes is what one takes: all of a topic's entries are one record of at most 1.5 MiB (rule C10).
const (
	marksBytes = 512 << 10
	markBytes  = 64
)

// StopMirrors stops mirroring on all partitions of the topics and opens them for
// producers (rule D1): refuse appends, sync, store stop point, raised epoch
// (rule E1) and role in as few transactions as may be, abort open transactions after the stop point, sync, open.
// What is frozen, and so no mirror, opens as it is. It is repeatable: what is stored already is kept. link is the id written into the stop
// points. A partition that cannot be stopped, as its disk failed, does not keep the others from it; the
// error names each.
func (o *Owner) StopMirrors(ctx context.Context, topics []kafka.TopicID, link string) error {
	wanted := map[kafka.TopicID]bool{}
	for _, t := range topics {
		wanted[t] = true
	}
	list := o.all(wanted)
	partitions := map[kafka.TopicID]int{}
	for _, p := range list {
		partitions[p.id.Topic]++
	}
	orders := make([]*order, 0, len(list))
	for _, p := range list {
		marks := min(recentMax, max(4, marksBytes/markBytes/partitions[p.id.Topic]))
		orders = append(orders, p.stopOrder(link, marks))
	}
	var missing []error
	for _, t := range topics {
		if partitions[t] == 0 {
			missing = append(missing, kafka.Errorf(kafka.UnknownTopicID, "The topic with id %s has no partitions here to stop.", t))
		}
	}
	return errors.Join(append(missing, o.carryOut(ctx, orders))...)
}

// stopOrder stops one mirror, naming at most so many of its last batches.
func (p *Partition) stopOrder(link string, marks int) *order {
	var stop meta.StopPoint
	random := p.owner.cfg.Random()
	w := &order{p: p, stops: true, prepare: func() (err error) {
		entry := p.Entry()
		if entry.Role == meta.RoleOpen && !plantStopRecomputed {
			return errSettled // what was stored is kept; the markers it owes were written before it opened
		}
		if entry.Frozen == nil {
			stop, err = p.stopPoint(link, marks)
		}
		return err
	}}
	w.mutate = func(now meta.Partition) (meta.Partition, error) {
		if now.Role == meta.RoleOpen && !plantStopRecomputed {
			return now, errSettled
		}
		if now.Frozen != nil {
			// A restore that ends before it has cut: the log is no prefix of the peer's, and gets no stop point (rule T4).
			return thawed(now), nil
		}
		now.Role = meta.RoleOpen
		now.Generation++
		now.Epoch = jumpEpoch(max(now.Epoch, stop.Epoch), random)
		now.Stop = &stop
		now.Lineage = append(slices.Clip(now.Lineage), meta.Lineage{Start: stop.Offset, Epoch: now.Epoch, Cluster: p.owner.cfg.ClusterID})
		return now, nil
	}
	return w
}

// stopPoint is where the mirror stands. Both ways in are shut and everything is synced.
func (p *Partition) stopPoint(link string, marks int) (meta.StopPoint, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stop := meta.StopPoint{Offset: p.end(), Epoch: p.log.LastEpoch(), Link: link}
	var err error
	var known bool
	if stop.LastBatches, known = p.derived.marks(marks, p.log.StartOffset()); !known {
		stop.LastBatches, err = p.lastBatches(marks)
	}
	// What the cleaner may have rewritten proves nothing (rule T5).
	cleaned := p.log.CleanedTo()
	stop.LastBatches = slices.DeleteFunc(stop.LastBatches, func(m meta.BatchMark) bool { return m.Base < cleaned })
	return stop, err
}

// lastBatches reads the last n batches' headers. It goes back further and further, so that a long log is not read whole.
func (p *Partition) lastBatches(n int) ([]meta.BatchMark, error) {
	start, end := p.log.StartOffset(), p.log.EndOffset()
	for back := kafka.Offset(n); ; back *= 16 {
		from := max(start, end-back)
		var found []meta.BatchMark
		if from < end {
			err := p.log.Scan(from, true, func(b batch.Batch) error {
				found = append(found, meta.BatchMark{Base: b.BaseOffset(), Epoch: b.LeaderEpoch(), CRC: b.CRC()})
				return nil
			})
			if err != nil {
				return nil, p.storageError("read the last batches", err)
			}
		}
		if len(found) >= n || from == start || back > 1<<20 {
			return slices.Clone(found[max(0, len(found)-n):]), nil
		}
	}
}
