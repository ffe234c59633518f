package group

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// member is a consumer in a group as its client library would be.
type member struct {
	b          *broker
	group, id  string
	instance   *string
	generation int32
	leads      bool
	topics     []string
	assignment []byte
}

func subscribe(topics ...string) []kmsg.JoinGroupRequestProtocol {
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Topics = topics
	return []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: metadata.AppendTo(nil)}}
}

func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	rq := kmsg.NewPtrJoinGroupRequest()
	rq.Version, rq.Group, rq.MemberID, rq.InstanceID = 9, m.group, m.id, m.instance
	rq.SessionTimeoutMillis, rq.RebalanceTimeoutMillis = 10_000, 60_000
	rq.ProtocolType, rq.Protocols = consumerProtocol, subscribe(m.topics...)
	return rq
}

// join joins, with the second request that MEMBER_ID_REQUIRED asks for.
func (m *member) join(ctx context.Context) *kmsg.JoinGroupResponse {
	resp := m.b.JoinGroup(ctx, someone, m.joinRequest())
	if kafka.ErrorCode(resp.ErrorCode) == kafka.MemberIDRequired {
		m.id = resp.MemberID
		resp = m.b.JoinGroup(ctx, someone, m.joinRequest())
	}
	if resp.ErrorCode == 0 {
		m.id, m.generation, m.leads = resp.MemberID, resp.Generation, resp.LeaderID == resp.MemberID
	}
	return resp
}

// sync sends the assignments that it is given, if it leads: each member's id.
func (m *member) sync(ctx context.Context, joined *kmsg.JoinGroupResponse) kafka.ErrorCode {
	rq := kmsg.NewPtrSyncGroupRequest()
	rq.Version, rq.Group, rq.MemberID, rq.InstanceID, rq.Generation = 5, m.group, m.id, m.instance, m.generation
	rq.ProtocolType, rq.Protocol = joined.ProtocolType, joined.Protocol
	for _, other := range joined.Members {
		rq.GroupAssignment = append(rq.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: other.MemberID, MemberAssignment: []byte("to " + other.MemberID)})
	}
	resp := m.b.SyncGroup(ctx, someone, rq)
	m.assignment = resp.MemberAssignment
	return kafka.ErrorCode(resp.ErrorCode)
}

func (m *member) heartbeat(t *testing.T) kafka.ErrorCode {
	t.Helper()
	rq := kmsg.NewPtrHeartbeatRequest()
	rq.Version, rq.Group, rq.MemberID, rq.InstanceID, rq.Generation = 4, m.group, m.id, m.instance, m.generation
	return kafka.ErrorCode(m.b.Heartbeat(t.Context(), someone, rq).ErrorCode)
}

func (m *member) leave(t *testing.T) {
	t.Helper()
	rq := kmsg.NewPtrLeaveGroupRequest()
	rq.Version, rq.Group, rq.Members = 5, m.group, []kmsg.LeaveGroupRequestMember{{MemberID: m.id}}
	resp := m.b.LeaveGroup(t.Context(), someone, rq)
	if resp.ErrorCode != 0 || resp.Members[0].ErrorCode != 0 {
		t.Fatalf("leave: %v, %v", kafka.ErrorCode(resp.ErrorCode), resp.Members)
	}
}

func (m *member) commit(t *testing.T, at kafka.TopicPartition, offset int64) {
	t.Helper()
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Version, rq.Group, rq.Generation, rq.MemberID, rq.InstanceID = 8, m.group, m.generation, m.id, m.instance
	rq.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: at.Topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: at.Partition, Offset: offset}}}}
	if code := kafka.ErrorCode(m.b.OffsetCommit(t.Context(), someone, rq).Topics[0].Partitions[0].ErrorCode); code != kafka.None {
		t.Fatalf("commit of %s: %v", m.id, code)
	}
}

// member is a new member of the group alone, stable.
func (b *broker) member(t *testing.T, group string) *member {
	t.Helper()
	m := &member{b: b, group: group, topics: []string{"t"}}
	m.settle(t)
	return m
}

func (m *member) settle(t *testing.T) {
	t.Helper()
	joined := m.join(t.Context())
	if joined.ErrorCode != 0 {
		t.Fatalf("join: %v", kafka.ErrorCode(joined.ErrorCode))
	}
	if code := m.sync(t.Context(), joined); code != kafka.None {
		t.Fatalf("sync: %v", code)
	}
}

// rejoin brings a second member's wish to join, which puts the group in PreparingRebalance until m comes too.
func (b *broker) rejoin(t *testing.T, m *member) {
	t.Helper()
	other := &member{b: b, group: m.group, topics: m.topics}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go other.join(ctx)
	for m.heartbeat(t) != kafka.RebalanceInProgress {
	}
}

func (b *broker) state(t *testing.T, group string) kmsg.DescribeGroupsResponseGroup {
	t.Helper()
	rq := kmsg.NewPtrDescribeGroupsRequest()
	rq.Version, rq.Groups = 6, []string{group}
	return b.DescribeGroups(t.Context(), rq).Groups[0]
}

func TestC84_MembersShareAGroupAndEachHearsItsAssignment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, "t")
		b.cfg.InitialDelay = 3 * time.Second
		b.restart(t)
		members := make([]*member, 3)
		done := make(chan error, len(members))
		for i := range members {
			members[i] = &member{b: b, group: "g", topics: []string{"t"}}
			go func() { members[i].settle(t); done <- nil }()
		}
		for range members {
			<-done
		}
		leaders := 0
		for _, m := range members {
			if m.generation != 1 || string(m.assignment) != "to "+m.id {
				t.Errorf("member %s: generation %d, assignment %q", m.id, m.generation, m.assignment)
			}
			if m.leads {
				leaders++
			}
		}
		if leaders != 1 {
			t.Errorf("%d leaders", leaders)
		}
		if d := b.state(t, "g"); d.State != "Stable" || len(d.Members) != 3 || d.Protocol != "range" {
			t.Errorf("described as %+v", d)
		}
		b.restart(t)
		for _, m := range members {
			if code := m.heartbeat(t); code != kafka.None {
				t.Errorf("heartbeat after a restart: %v", code)
			}
		}
		b.Close()
	})
}

func TestC84_InconsistentProtocolIsRefused(t *testing.T) {
	b := newBroker(t, "t")
	b.member(t, "g")
	rq := (&member{b: b, group: "g"}).joinRequest()
	rq.Protocols[0].Name = "other"
	if code := kafka.ErrorCode(b.JoinGroup(t.Context(), someone, rq).ErrorCode); code != kafka.InconsistentGroupProtocol {
		t.Errorf("join: %v, want INCONSISTENT_GROUP_PROTOCOL", code)
	}
	rq = (&member{b: b, group: "new"}).joinRequest()
	rq.Protocols = nil
	if code := kafka.ErrorCode(b.JoinGroup(t.Context(), someone, rq).ErrorCode); code != kafka.InconsistentGroupProtocol {
		t.Errorf("join without protocols: %v, want INCONSISTENT_GROUP_PROTOCOL", code)
	}
}

func TestC91_StaticMemberRestartsWithoutARebalance(t *testing.T) {
	b := newBroker(t, "t")
	one := "one"
	m := &member{b: b, group: "g", topics: []string{"t"}, instance: &one}
	m.settle(t)
	for range 10 {
		old := *m
		m.id = ""
		joined := m.join(t.Context())
		if joined.ErrorCode != 0 || joined.Generation != 1 || !joined.SkipAssignment {
			t.Fatalf("rejoin: %+v", joined)
		}
		if code := m.sync(t.Context(), joined); code != kafka.None {
			t.Fatalf("sync: %v", code)
		}
		if old.heartbeat(t) != kafka.FencedInstanceID {
			t.Errorf("the old id is not fenced")
		}
	}
	b.restart(t)
	if code := m.heartbeat(t); code != kafka.None {
		t.Errorf("heartbeat after a restart: %v", code)
	}
	if string(m.assignment) == "" {
		t.Error("the assignment was lost")
	}
}

func TestParkedJoinOfAClosedConnectionIsForgotten(t *testing.T) {
	b := newBroker(t, "t")
	m := b.member(t, "g")
	ctx, cancel := context.WithCancel(t.Context())
	other := &member{b: b, group: "g", topics: []string{"t"}}
	gone := make(chan *kmsg.JoinGroupResponse, 1)
	go func() { gone <- other.join(ctx) }()
	for m.heartbeat(t) != kafka.RebalanceInProgress {
	}
	cancel()
	if resp := <-gone; resp.ErrorCode == 0 {
		t.Error("a join whose caller went away was answered without an error")
	}
	g := b.lookup("g")
	defer b.leave(g)
	if len(g.parked) != 0 {
		t.Errorf("%d callers are still parked", len(g.parked))
	}
}

func TestSessionEndsAndTheOthersRebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, "t")
		m := b.member(t, "g")
		if code := m.heartbeat(t); code != kafka.None {
			t.Fatalf("heartbeat: %v", code)
		}
		time.Sleep(9 * time.Second)
		if code := m.heartbeat(t); code != kafka.None {
			t.Fatalf("heartbeat in time: %v", code)
		}
		time.Sleep(11 * time.Second)
		if code := m.heartbeat(t); code != kafka.UnknownMemberID {
			t.Errorf("heartbeat too late: %v, want UNKNOWN_MEMBER_ID", code)
		}
		if d := b.state(t, "g"); d.State != "Empty" {
			t.Errorf("the group is %s, want Empty", d.State)
		}
		b.restart(t)
		if d := b.state(t, "g"); d.State != "Empty" {
			t.Errorf("after a restart the group is %s, want Empty", d.State)
		}
		b.Close()
	})
}

func TestListDescribeAndDeleteGroups(t *testing.T) {
	b := newBroker(t, "t")
	b.commit(t, "simple", tp("t", 0), 1, nil)
	m := b.member(t, "g")
	list := func(states ...string) []string {
		rq := kmsg.NewPtrListGroupsRequest()
		rq.Version, rq.StatesFilter = 5, states
		var names []string
		for _, g := range b.ListGroups(t.Context(), rq).Groups {
			names = append(names, g.Group)
		}
		return names
	}
	if got := list(); !slices.Equal(got, []string{"g", "simple"}) {
		t.Errorf("listed %v", got)
	}
	if got := list("stable"); !slices.Equal(got, []string{"g"}) {
		t.Errorf("listed %v as stable", got)
	}
	if got := list("Empty"); !slices.Equal(got, []string{"simple"}) {
		t.Errorf("listed %v as empty", got)
	}
	rq := kmsg.NewPtrDeleteGroupsRequest()
	rq.Groups = []string{"g", "simple", "nobody"}
	want := []kafka.ErrorCode{kafka.NonEmptyGroup, kafka.None, kafka.GroupIDNotFound}
	for i, g := range b.DeleteGroups(t.Context(), rq).Groups {
		if kafka.ErrorCode(g.ErrorCode) != want[i] {
			t.Errorf("delete %s: %v, want %v", g.Group, kafka.ErrorCode(g.ErrorCode), want[i])
		}
	}
	del := kmsg.NewPtrOffsetDeleteRequest()
	if code := kafka.ErrorCode(b.OffsetDelete(t.Context(), del).ErrorCode); code != kafka.InvalidGroupID {
		t.Errorf("offset delete of a group without a name: %v", code)
	}
	del.Group = "g"
	m.commit(t, tp("t", 1), 4)
	del.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 1}}}}
	if code := kafka.ErrorCode(b.OffsetDelete(t.Context(), del).Topics[0].Partitions[0].ErrorCode); code != kafka.GroupSubscribedToTopic {
		t.Errorf("offset delete: %v, want GROUP_SUBSCRIBED_TO_TOPIC", code)
	}
	m.leave(t)
	if code := kafka.ErrorCode(b.OffsetDelete(t.Context(), del).Topics[0].Partitions[0].ErrorCode); code != kafka.None {
		t.Errorf("offset delete of an empty group: %v", code)
	}
	b.restart(t)
	b.wantOffset(t, "g", tp("t", 1), -1)
	b.wantOffset(t, "simple", tp("t", 0), -1)
	if got := list(); !slices.Equal(got, []string{"g"}) {
		t.Errorf("after deletion and restart listed %v", got)
	}
}

func TestAssignmentThatCannotBeStoredIsForgotten(t *testing.T) {
	b := newBroker(t, "t")
	m := &member{b: b, group: "g", topics: []string{"t"}}
	joined := m.join(t.Context())
	log := b.groupLog("g")
	log.fail = errCut
	if code := m.sync(t.Context(), joined); code != kafka.CoordinatorNotAvailable {
		t.Fatalf("sync: %v, want COORDINATOR_NOT_AVAILABLE", code)
	}
	log.fail = nil
	if code := m.heartbeat(t); code != kafka.RebalanceInProgress {
		t.Fatalf("heartbeat: %v, want REBALANCE_IN_PROGRESS", code)
	}
	m.settle(t)
	if m.generation != 2 || string(m.assignment) != "to "+m.id {
		t.Errorf("generation %d, assignment %q", m.generation, m.assignment)
	}
	// A static member that comes back is not told of a membership that could not be stored.
	one := "one"
	static := &member{b: b, group: "s", topics: []string{"t"}, instance: &one}
	static.settle(t)
	b.groupLog("s").fail = errCut
	static.id = ""
	if code := kafka.ErrorCode(static.join(t.Context()).ErrorCode); code != kafka.CoordinatorNotAvailable {
		t.Errorf("join: %v, want COORDINATOR_NOT_AVAILABLE", code)
	}
}
