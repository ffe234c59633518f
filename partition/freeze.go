package partition

import (
	"context"
	"errors"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// Freeze ends local appends on all partitions of a topic and states their ends for a reversal or a
// restore (rule R3): the ends are stored once, after the last append has been synced, and a
// repetition for the same reversal answers what is stored. Ends are by partition number. Transactions that
// are still open are the caller's: it must have ended them before (rule R5).
func (o *Owner) Freeze(ctx context.Context, topic kafka.TopicID, reversal string) ([]kafka.Offset, error) {
	list := o.all(map[kafka.TopicID]bool{topic: true})
	orders := make([]*order, 0, len(list))
	for _, p := range list {
		orders = append(orders, p.freezeOrder(reversal))
	}
	if err := o.carryOut(ctx, orders); err != nil {
		return nil, err
	}
	ends := make([]kafka.Offset, len(list))
	for _, p := range list {
		frozen := p.Entry().Frozen
		if frozen == nil || int(p.id.Partition) >= len(ends) {
			return nil, kafka.Errorf(kafka.NotLeaderForPartition, "Partition %s is not frozen any more.", p.name)
		}
		ends[p.id.Partition] = frozen.End
	}
	return ends, nil
}

func (p *Partition) freezeOrder(reversal string) *order {
	var end kafka.Offset
	w := &order{p: p, prepare: func() error {
		switch entry := p.Entry(); {
		case entry.Role == meta.RoleMirror:
			return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is a mirror and cannot be frozen.", p.name.Topic)
		case entry.Role == meta.RoleFrozen && entry.Frozen != nil && entry.Frozen.Reversal == reversal:
			return errSettled
		case entry.Role == meta.RoleFrozen:
			return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is frozen already, for another order.", p.name.Topic)
		}
		end = p.Offsets().LogEnd
		return nil
	}}
	w.mutate = func(now meta.Partition) (meta.Partition, error) {
		if now.Role != meta.RoleOpen {
			return now, kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is not open for producers.", p.name.Topic)
		}
		now.Role = meta.RoleFrozen
		now.Generation++
		now.Frozen = &meta.Freeze{Reversal: reversal, End: end}
		return now, nil
	}
	return w
}

// Refreeze makes what is frozen for one order frozen for another, at the ends that were stated, without opening anything in between.
// Partitions that are open, or mirrors already, are left as they are.
func (o *Owner) Refreeze(ctx context.Context, topic kafka.TopicID, from, to string) error {
	var orders []*order
	for _, p := range o.all(map[kafka.TopicID]bool{topic: true}) {
		w := &order{p: p, prepare: func() error {
			if entry := p.Entry(); entry.Role != meta.RoleFrozen || entry.Frozen == nil || entry.Frozen.Reversal != from {
				return errSettled
			}
			return nil
		}}
		w.mutate = func(now meta.Partition) (meta.Partition, error) {
			if now.Role != meta.RoleFrozen || now.Frozen == nil || now.Frozen.Reversal != from {
				return now, errSettled
			}
			now.Generation++
			now.Frozen = &meta.Freeze{Reversal: to, End: now.Frozen.End}
			return now, nil
		}
		orders = append(orders, w)
	}
	return o.carryOut(ctx, orders)
}

// Unfreeze opens frozen partitions for producers again, as the reversal has ended without a turn, or a restore before they were cut.
// Partitions that are open, or mirrors already, are left as they are.
func (o *Owner) Unfreeze(ctx context.Context, topic kafka.TopicID, reversal string) error {
	var orders []*order
	for _, p := range o.all(map[kafka.TopicID]bool{topic: true}) {
		w := &order{p: p, prepare: func() error {
			if p.Entry().Role == meta.RoleMirror {
				return errSettled
			}
			return p.checkFrozen(reversal, meta.RoleOpen)
		}}
		w.mutate = func(now meta.Partition) (meta.Partition, error) {
			return thawed(now), nil
		}
		orders = append(orders, w)
	}
	return o.carryOut(ctx, orders)
}

// thawed is the entry of a frozen partition once it is open again, as it was.
func thawed(now meta.Partition) meta.Partition {
	now.Role, now.Frozen = meta.RoleOpen, nil
	now.Generation++
	return now
}

// checkFrozen wants the partition frozen for this reversal, or past it already.
func (p *Partition) checkFrozen(reversal string, past meta.Role) error {
	entry := p.Entry()
	if entry.Role == past {
		return errSettled
	}
	if entry.Role != meta.RoleFrozen || entry.Frozen == nil || entry.Frozen.Reversal != reversal {
		return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is not frozen for this order.", p.name.Topic)
	}
	return nil
}

// FrozenBecomeMirror turns frozen partitions into mirrors. cuts, by partition number, are the exclusive
// ends of what both sides have: what lies above is cut off, with a higher epoch stored first (rule E2); an end equal to the
// frozen one cuts nothing (a reversal, rule R1); NoOffset empties the partition, to be copied again from
// the source's start. source is the cluster id whose records follow, for the lineage (rule T4). It is repeatable with
// the same cuts.
func (o *Owner) FrozenBecomeMirror(ctx context.Context, topic kafka.TopicID, reversal, source string, cuts []kafka.Offset) error {
	var orders []*order
	for _, p := range o.all(map[kafka.TopicID]bool{topic: true}) {
		if int(p.id.Partition) >= len(cuts) {
			if p.Entry().Role == meta.RoleMirror {
				continue // it was added since, as a mirror; a crash brought this order again
			}
			return kafka.Errorf(kafka.InvalidRequest, "No end was given for partition %s.", p.name)
		}
		orders = append(orders, p.frozenMirrorOrder(reversal, source, cuts[p.id.Partition]))
	}
	return o.carryOut(ctx, orders)
}

func (p *Partition) frozenMirrorOrder(reversal, source string, at kafka.Offset) *order {
	var c *cut
	var end kafka.Offset
	w := &order{p: p, prepare: func() error {
		if err := p.checkFrozen(reversal, meta.RoleMirror); err != nil {
			return err
		}
		if at == kafka.NoOffset {
			at = 0
		}
		if plantCutSkipped {
			at = p.Offsets().LogEnd
		}
		planned, err := p.planCut(at)
		switch {
		case errors.Is(err, errSettled): // nothing lies above
			end = p.Offsets().LogEnd
			return nil
		case err != nil:
			return err
		}
		c, end = &planned, planned.at
		return nil
	}}
	w.mutate = func(now meta.Partition) (meta.Partition, error) {
		if now.Role != meta.RoleFrozen {
			return now, errSettled
		}
		if len(now.Lineage) == 0 && now.Stop == nil { // it never was a mirror
			now.Lineage = []meta.Lineage{{Cluster: p.owner.cfg.ClusterID}}
		}
		if c == nil {
			now.Generation++
		} else {
			now = c.apply(now)
		}
		now.Lineage = append(slices.Clip(now.Lineage), meta.Lineage{Start: end, Epoch: kafka.NoEpoch, Cluster: source})
		now.Role = meta.RoleMirror
		now.Stop, now.Frozen = nil, nil
		return now, nil
	}
	return w
}
