package group

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Groups that change their protocol while they have members, and members of the classic protocol in groups of the
// consumer protocol (KIP-848, group.consumer.migration.policy).

// Migration is what group.consumer.migration.policy allows.
type Migration string

// The policies, by Kafka's names.
const (
	MigrateBoth      Migration = "bidirectional"
	MigrateUpgrade   Migration = "upgrade"
	MigrateDowngrade Migration = "downgrade"
	MigrateNever     Migration = "disabled"
)

func (m Migration) up() bool   { return m == MigrateBoth || m == MigrateUpgrade }
func (m Migration) down() bool { return m == MigrateBoth || m == MigrateDowngrade }

// embedded is the consumer protocol in a classic member's metadata.
func embedded(metadata []byte) (m kmsg.ConsumerMemberMetadata, err error) {
	err = m.ReadFrom(metadata)
	return m, err
}

// storeConsumer writes the changes of a group of the consumer protocol. When only classic members are left it
// writes the classic group that they are instead; downgraded says so. The group's lock is held.
func (c *impl) storeConsumer(ctx context.Context, g *group, before []record, core *rebalance.Consumer,
	changes []rebalance.Change) (downgraded bool, err error) {
	after := core.After(changes)
	if !c.cfg.Migration.down() || !after.AllClassic() || core.AllClassic() {
		for _, change := range changes {
			before = append(before, changeRecord(g.id, change))
		}
		return false, c.write(ctx, g, producer{}, before)
	}
	now := time.Now()
	image := c.env.Image()
	snapshot := after.Downgrade(func(m *rebalance.ConsumerMember) []byte { return assignmentBytes(m, m.Assigned, image) }, now)
	records := append(g.epitaph(), groupRecord(g.id, snapshot))
	if err := c.write(ctx, g, producer{}, records); err != nil {
		return false, err
	}
	g.consumer, g.stored = nil, true
	g.core = rebalance.Restore(c.limits(), snapshot, now)
	c.log.Info("the group is of the classic protocol again", "group", g.id, "members", len(snapshot.Members))
	c.settle(g, g.core.Rebalance(now))
	return true, nil
}

// assignmentBytes is a member's partitions as the classic protocol writes them, in the version of its metadata.
func assignmentBytes(m *rebalance.ConsumerMember, a rebalance.Assignment, image *meta.Image) []byte {
	out := kmsg.NewConsumerMemberAssignment()
	if first := m.Classic.Protocols[0].Metadata; len(first) >= 2 {
		out.Version = min(max(int16(binary.BigEndian.Uint16(first)), 0), 3)
	}
	for _, id := range a.Topics() {
		if topic := image.Topics[id]; topic != nil {
			t := kmsg.NewConsumerMemberAssignmentTopic()
			t.Topic, t.Partitions = topic.Name, a[id]
			out.Topics = append(out.Topics, t)
		}
	}
	return out.AppendTo(nil)
}

var (
	errNoUpgrade      = errors.New("the group cannot be moved to the consumer protocol")
	errCustomAssignor = errors.New("an assignor of its own writes into the group's assignments")
)

// upgrade lists the members of a classic group as members of the consumer protocol.
func (c *impl) upgrade(g *group, image *meta.Image) ([]rebalance.Upgraded, error) {
	if !c.cfg.Migration.up() || g.core.ProtocolType() != consumerProtocol || len(g.core.Members()) > c.cfg.ConsumerMaxSize {
		return nil, errNoUpgrade
	}
	owned := map[kafka.PartitionID]bool{}
	var list []rebalance.Upgraded
	for _, m := range g.core.Members() {
		up, err := upgraded(g.core, m, image, owned)
		switch {
		case errors.Is(err, errCustomAssignor):
			return nil, err
		case err != nil:
			return nil, errNoUpgrade
		}
		list = append(list, up)
	}
	return list, nil
}

func upgraded(core *rebalance.Classic, m *rebalance.Member, image *meta.Image,
	owned map[kafka.PartitionID]bool) (rebalance.Upgraded, error) {
	if len(m.Protocols) == 0 {
		return rebalance.Upgraded{}, errNoUpgrade
	}
	metadata := core.Metadata(m)
	if core.Protocol() == "" {
		metadata = m.Protocols[0].Metadata
	}
	wants, err := embedded(metadata)
	if err != nil {
		return rebalance.Upgraded{}, err
	}
	up := rebalance.Upgraded{ID: m.ID, Assigned: rebalance.Assignment{},
		Subscription: rebalance.Subscription{InstanceID: m.InstanceID, RackID: wants.Rack,
			Client: m.Client, Topics: sortedNames(wants.Topics), Rebalance: m.Rebalance,
			Classic: &rebalance.ClassicMember{Session: m.Session, Protocols: m.Protocols}}}
	if len(m.Assignment) == 0 {
		return up, nil
	}
	var has kmsg.ConsumerMemberAssignment
	if err := has.ReadFrom(m.Assignment); err != nil {
		return rebalance.Upgraded{}, err
	}
	if len(has.UserData) > 0 {
		return rebalance.Upgraded{}, errCustomAssignor // the broker's assignors would drop it
	}
	for _, t := range has.Topics {
		id, ok := image.TopicIDs[t.Topic]
		for _, p := range sorted(t.Partitions) {
			if at := (kafka.PartitionID{Topic: id, Partition: p}); ok && !owned[at] {
				owned[at] = true
				up.Assigned[id] = append(up.Assigned[id], p)
			}
		}
	}
	return up, nil
}

// joinConsumer lets a classic member into a group of the consumer protocol. The group's lock is held and given up.
func (c *impl) joinConsumer(ctx context.Context, g *group, from Client, rq *kmsg.JoinGroupRequest,
	resp *kmsg.JoinGroupResponse) *kmsg.JoinGroupResponse {
	answer, end := c.joinStored(ctx, g, from, rq)
	c.leave(g)
	if answer.Code == kafka.None {
		if err := c.synced(ctx, g, end); err != nil {
			answer = rebalance.JoinAnswer{Code: waitCode(err), Generation: -1}
		}
	}
	return joined(resp, &answer)
}

func (c *impl) joinStored(ctx context.Context, g *group, from Client, rq *kmsg.JoinGroupRequest) (rebalance.JoinAnswer, kafka.Offset) {
	refuse := func(code kafka.ErrorCode) (rebalance.JoinAnswer, kafka.Offset) {
		return rebalance.JoinAnswer{Code: code, Generation: -1}, 0 // without the member's id, as Kafka in groups of this protocol
	}
	j := rebalance.ClassicJoin{Join: joinOf(0, from, rq), Owned: rebalance.Assignment{}}
	if len(j.Protocols) == 0 {
		return refuse(kafka.InconsistentGroupProtocol)
	}
	wants, err := embedded(j.Protocols[0].Metadata)
	if err != nil && !j.NeedsID() { // a member without an id is given one first
		return refuse(kafka.InconsistentGroupProtocol)
	}
	image := c.env.Image()
	j.Topics, j.Rack = sortedNames(wants.Topics), wants.Rack
	for _, t := range wants.OwnedPartitions {
		if id, ok := image.TopicIDs[t.Topic]; ok {
			j.Owned[id] = sorted(t.Partitions)
		}
	}
	now := time.Now()
	core := g.consumer
	changes, answer := core.JoinClassic(j, catalog{image}, now)
	if answer.Code != kafka.None {
		return answer, 0
	}
	switch downgraded, err := c.storeConsumer(ctx, g, nil, core, changes); {
	case err != nil:
		return refuse(storeCode(err))
	case downgraded:
		return refuse(kafka.RebalanceInProgress) // it joins the classic group with its next request
	}
	g.consumer.Joined(answer.MemberID, now)
	g.arm(c, g.consumer.Next())
	return answer, g.end
}

// syncConsumer answers a classic member of a group of the consumer protocol. The group's lock is held and given up.
func (c *impl) syncConsumer(ctx context.Context, g *group, s rebalance.Sync, resp *kmsg.SyncGroupResponse) *kmsg.SyncGroupResponse {
	assigned, code := g.consumer.SyncClassic(s, time.Now())
	if code == kafka.None {
		m := g.consumer.Member(s.MemberID)
		kind, name := consumerProtocol, m.Classic.Protocols[0].Name
		resp.ProtocolType, resp.Protocol = &kind, &name
		resp.MemberAssignment = assignmentBytes(m, assigned, c.env.Image())
	}
	end := g.end
	c.leave(g)
	if code == kafka.None {
		if err := c.synced(ctx, g, end); err != nil {
			code, resp.MemberAssignment = waitCode(err), []byte{}
		}
	}
	resp.ErrorCode = int16(code)
	return resp
}

// leaveConsumer takes members out of a group of the consumer protocol by a classic request. The group's lock is held.
func (c *impl) leaveConsumer(ctx context.Context, g *group, leavers []rebalance.Leaver) ([]kafka.ErrorCode, error) {
	codes, changes := g.consumer.LeaveClassic(leavers)
	if _, err := c.storeConsumer(ctx, g, nil, g.consumer, changes); err != nil {
		return nil, err
	}
	if g.consumer != nil {
		g.arm(c, g.consumer.Next())
	}
	return codes, nil
}
