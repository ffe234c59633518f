package rebalance

import (
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// A group can hold members of both protocols, so that its clients can be moved from one to the other one by one
// (KIP-848, group.consumer.migration.policy). The broker assigns for all of them: a classic
// member that joins is answered at once, as a follower, with its member epoch for a generation.

// ClassicMember is what a member of the classic protocol adds to its subscription.
type ClassicMember struct {
	Session   time.Duration
	Protocols []Protocol
}

func (c *ClassicMember) equal(o *ClassicMember) bool {
	if c == nil || o == nil {
		return c == o
	}
	m := Member{Protocols: c.Protocols}
	return c.Session == o.Session && m.sameProtocols(o.Protocols)
}

// ClassicJoin is a JoinGroup request to a group of the consumer protocol.
type ClassicJoin struct {
	Join
	Topics []string   // subscribed, as the embedded consumer protocol says
	Owned  Assignment // what the member has, as it says there
	Rack   *string
}

// NeedsID reports whether the member is only told its id, with which it must join again (KIP-394).
func (j *ClassicJoin) NeedsID() bool { return j.MemberID == "" && j.InstanceID == nil && j.RequireID }

// JoinClassic takes a classic member in, or further towards the target. When the changes are stored Heard is due.
func (g *Consumer) JoinClassic(j ClassicJoin, topics Catalog, now time.Time) ([]Change, JoinAnswer) {
	refuse := func(code kafka.ErrorCode) ([]Change, JoinAnswer) {
		return nil, JoinAnswer{Code: code, Generation: -1}
	}
	d := &draft{Consumer: g}
	switch {
	case !g.supports(j):
		return refuse(kafka.InconsistentGroupProtocol)
	case j.NeedsID():
		return nil, JoinAnswer{Code: kafka.MemberIDRequired, MemberID: j.NewID, Generation: -1}
	}
	id, code := d.admitClassic(j)
	if code != kafka.None {
		return refuse(code)
	}
	wants := Subscription{InstanceID: j.InstanceID, RackID: j.Rack, Client: j.Client, Rebalance: j.Rebalance,
		Topics:  slices.Compact(slices.Sorted(slices.Values(j.Topics))),
		Classic: &ClassicMember{Session: j.Session, Protocols: j.Protocols}}
	before := d.members[id]
	changed := before == nil || !before.sameTopics(wants)
	if before == nil || !before.Subscription.equal(wants) {
		d.do(Change{Member: id, Put: &wants})
	}
	d.catchUp(changed, topics)
	d.reconcile(id, &j.Owned)
	m := d.members[id]
	return d.changes, JoinAnswer{MemberID: id, Generation: m.Epoch, ProtocolType: j.ProtocolType, Protocol: j.Protocols[0].Name}
}

// Joined notes that a classic member has joined: it is alive, and need not join again for now.
func (g *Consumer) Joined(id string, now time.Time) {
	delete(g.revokes, id)
	g.Heard(id, now)
}

// catchUp raises the group's epoch if subscriptions or their topics have changed, and computes the target for it.
func (d *draft) catchUp(changed bool, topics Catalog) *view {
	seen := d.look(topics)
	if changed || seen.hash != d.hash {
		d.do(Change{Epoch: &EpochChange{d.epoch + 1, seen.hash}})
	}
	if d.epoch > d.target {
		d.plan(seen)
	}
	return seen
}

// supports reports whether the classic members would have a protocol in common, if they had to assign for themselves again.
func (g *Consumer) supports(j ClassicJoin) bool {
	if j.ProtocolType != consumerType || len(j.Protocols) == 0 {
		return false
	}
	common := names(j.Protocols)
	for id, m := range g.members {
		if m.Classic == nil || id == j.MemberID {
			continue
		}
		theirs := names(m.Classic.Protocols)
		for name := range common {
			if _, ok := theirs[name]; !ok {
				delete(common, name)
			}
		}
	}
	return len(common) > 0
}

// consumerType is the protocol type of consumers.
const consumerType = "consumer"

// admitClassic finds the member's id, giving it one if it has none. A static member that comes back takes over what it had.
func (d *draft) admitClassic(j ClassicJoin) (string, kafka.ErrorCode) {
	id := j.MemberID
	if j.InstanceID != nil {
		current, ok := d.statics[*j.InstanceID]
		switch {
		case ok && id != "" && id != current:
			return "", kafka.FencedInstanceID
		case ok && id == "":
			d.succeed(d.members[current], j.NewID)
			return j.NewID, kafka.None
		case !ok && id != "":
			return "", kafka.UnknownMemberID
		}
	}
	if id == "" {
		id = j.NewID
	}
	if d.members[id] == nil && len(d.members) >= d.limits.MaxSize {
		return "", kafka.GroupMaxSizeReached
	}
	return id, kafka.None
}

// succeed gives all that a member has to another id.
func (d *draft) succeed(old *ConsumerMember, id string) {
	target := d.targets[old.ID]
	back := Current{Assigned: old.Assigned}
	d.do(d.removal(old.ID)...)
	d.do(Change{Member: id, Put: &old.Subscription}, Change{Member: id, Assign: &target}, Change{Member: id, Now: &back})
}

// checkClassic finds a classic member.
func (g *Consumer) checkClassic(id string, instanceID *string) (*ConsumerMember, kafka.ErrorCode) {
	if instanceID != nil {
		current, ok := g.statics[*instanceID]
		if !ok {
			return nil, kafka.UnknownMemberID
		}
		if current != id {
			return nil, kafka.FencedInstanceID
		}
	}
	m := g.members[id]
	if m == nil || m.Classic == nil {
		return nil, kafka.UnknownMemberID
	}
	return m, kafka.None
}

// HeartbeatClassic notes that a classic member is alive, and says whether it must join again: because the
// group has a new target, or it has to show that it gave up partitions, or those that it waits for are free.
func (g *Consumer) HeartbeatClassic(id string, instanceID *string, generation int32, now time.Time) kafka.ErrorCode {
	m, code := g.checkClassic(id, instanceID)
	if code != kafka.None {
		return code
	}
	if generation != m.Epoch {
		return kafka.IllegalGeneration
	}
	g.Heard(id, now)
	if m.Epoch >= g.epoch && m.State != MemberUnrevoked && (m.State != MemberUnreleased || g.waits(m)) {
		return kafka.None
	}
	if r, ok := g.revokes[id]; !ok || r.epoch != m.Epoch {
		g.revokes[id] = revoke{m.Epoch, now.Add(m.Rebalance)}
	}
	return kafka.RebalanceInProgress
}

// waits reports whether another member still has something of the member's target.
func (g *Consumer) waits(m *ConsumerMember) bool {
	for topic, list := range g.targets[m.ID] {
		for _, p := range list {
			if owner := g.owners[topic][p]; owner != "" && owner != m.ID {
				return true
			}
		}
	}
	return false
}

// SyncClassic is a classic member's assignment.
func (g *Consumer) SyncClassic(s Sync, now time.Time) (Assignment, kafka.ErrorCode) {
	m, code := g.checkClassic(s.MemberID, s.InstanceID)
	switch {
	case code != kafka.None:
		return nil, code
	case s.Generation != m.Epoch:
		return nil, kafka.IllegalGeneration
	case s.ProtocolType != nil && *s.ProtocolType != consumerType, s.Protocol != nil && *s.Protocol != m.Classic.Protocols[0].Name:
		return nil, kafka.InconsistentGroupProtocol
	case m.Epoch < g.epoch && m.State != MemberUnrevoked:
		return nil, kafka.RebalanceInProgress
	}
	g.Heard(m.ID, now)
	return m.Assigned, kafka.None
}

// LeaveClassic takes members out, of either protocol: administrators name them by instance id.
func (g *Consumer) LeaveClassic(leavers []Leaver) (codes []kafka.ErrorCode, changes []Change) {
	var gone []string
	for _, l := range leavers {
		id, code := l.MemberID, kafka.None
		if l.InstanceID != nil {
			current, ok := g.statics[*l.InstanceID]
			switch {
			case !ok:
				code = kafka.UnknownMemberID
			case id != "" && id != current:
				code = kafka.FencedInstanceID
			}
			id = current
		}
		if code == kafka.None && (g.members[id] == nil || slices.Contains(gone, id)) {
			code = kafka.UnknownMemberID
		}
		if code == kafka.None {
			gone = append(gone, id)
		}
		codes = append(codes, code)
	}
	return codes, g.Remove(gone...)
}

// AllClassic reports whether the group has members, and all of the classic protocol: then it can be a classic group again.
func (g *Consumer) AllClassic() bool {
	for _, m := range g.members {
		if m.Classic == nil {
			return false
		}
	}
	return len(g.members) > 0
}

// Downgrade is the classic group with the same members, to be stored in place of this one. assignment says how a member's
// partitions are written in the classic protocol. Its members must rebalance, for nobody has assigned for its generation.
func (g *Consumer) Downgrade(assignment func(*ConsumerMember) []byte, now time.Time) Snapshot {
	// The target's epoch is the one that members who are up to date have, so that they are not fenced.
	s := Snapshot{ProtocolType: consumerType, Generation: g.target, Since: now}
	for _, m := range g.Members() {
		s.Members = append(s.Members, &Member{ID: m.ID, InstanceID: m.InstanceID, Client: m.Client, Rebalance: m.Rebalance,
			Session: m.Classic.Session, Protocols: m.Classic.Protocols, Assignment: assignment(m)})
	}
	if len(s.Members) > 0 {
		s.Leader = s.Members[0].ID
	}
	restored := Restore(Limits{}, s, now)
	s.Protocol = restored.choose()
	return s
}

// Upgraded is a classic member as it is in a group of the consumer protocol.
type Upgraded struct {
	ID           string
	Subscription Subscription
	Assigned     Assignment
}

// Upgrade lists the changes that make a group of the consumer protocol with the members of a classic
// one. Each partition must be with one member only.
func Upgrade(generation int32, members []Upgraded) []Change {
	list := []Change{{Epoch: &EpochChange{Epoch: generation}}, {Target: &generation}}
	for _, m := range members {
		now := Current{Epoch: generation, Previous: generation, Assigned: m.Assigned}
		list = append(list, Change{Member: m.ID, Put: &m.Subscription}, Change{Member: m.ID, Assign: &m.Assigned},
			Change{Member: m.ID, Now: &now})
	}
	return list
}
