package group

import (
	"context"
	"time"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
)

// What a group is asked regardless of its protocol. Its lock is held.

func (g *group) kind() string {
	if g.consumer != nil {
		return typeConsumer
	}
	return typeClassic
}

func (g *group) state() string {
	if g.consumer != nil {
		return string(g.consumer.State())
	}
	return g.core.State().String()
}

func (g *group) protocolType() string {
	if g.consumer != nil {
		return consumerProtocol
	}
	return g.core.ProtocolType()
}

// empty reports whether the group has no members.
func (g *group) empty() bool {
	if g.consumer != nil {
		return g.consumer.State() == rebalance.ConsumerEmpty
	}
	return g.core.State() == rebalance.Empty
}

// idle reports whether nobody is in the group or about to be.
func (g *group) idle() bool { return g.empty() && g.core.Idle() }

// membership is who somebody says to be in the group.
type membership struct {
	id       string
	instance *string
	epoch    int32 // or generation; -1 for none
}

// mayCommit says whether offsets may be committed. knows tells that the client knows errors of the consumer protocol.
func (g *group) mayCommit(who membership, knows bool, now time.Time) kafka.ErrorCode {
	if g.consumer == nil {
		return g.core.Commit(who.id, who.instance, who.epoch, false, now)
	}
	if m := g.consumer.Member(who.id); m != nil && m.Classic == nil && !knows {
		return kafka.UnsupportedVersion
	}
	return g.consumer.Commit(who.id, who.instance, who.epoch, false)
}

// mayCommitPending is mayCommit within a transaction.
func (g *group) mayCommitPending(who membership, now time.Time) kafka.ErrorCode {
	if g.consumer == nil {
		return g.core.Commit(who.id, who.instance, who.epoch, true, now)
	}
	code := g.consumer.Commit(who.id, who.instance, who.epoch, true)
	if code == kafka.StaleMemberEpoch {
		return kafka.IllegalGeneration
	}
	return code
}

// epitaph is the tombstones of what is stored about the group beside offsets.
func (g *group) epitaph() []record {
	switch {
	case !g.stored:
		return nil
	case g.consumer == nil:
		return []record{{key: groupKey(g.id)}}
	}
	var records []record
	for _, change := range g.consumer.Everything() {
		records = append(records, changeRecord(g.id, change))
	}
	return append(records, record{key: consumerKey(keyTarget, g.id)}, record{key: consumerKey(keyEpoch, g.id)})
}

// classic makes a group of the consumer protocol that has no members one of the classic protocol.
func (c *impl) classic(ctx context.Context, g *group) kafka.ErrorCode {
	if err := c.write(ctx, g, producer{}, g.epitaph()); err != nil {
		return storeCode(err)
	}
	g.consumer, g.stored = nil, false
	g.core = rebalance.NewClassic(c.limits(), time.Now())
	return kafka.None
}
