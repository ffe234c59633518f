package group

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// assignAll makes a classic leader give all partitions of t to itself, in the consumer protocol's own form.
func (m *member) settleFor(t *testing.T, partitions ...int32) {
	t.Helper()
	joined := m.join(t.Context())
	if joined.ErrorCode != 0 {
		t.Fatalf("join: %v", kafka.ErrorCode(joined.ErrorCode))
	}
	rq := kmsg.NewPtrSyncGroupRequest()
	rq.Version, rq.Group, rq.MemberID, rq.InstanceID, rq.Generation = 4, m.group, m.id, m.instance, m.generation
	if m.leads {
		all := kmsg.NewConsumerMemberAssignment()
		all.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: partitions}}
		rq.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: m.id, MemberAssignment: all.AppendTo(nil)}}
	}
	resp := m.b.SyncGroup(t.Context(), someone, rq)
	if resp.ErrorCode != 0 {
		t.Fatalf("sync: %v", kafka.ErrorCode(resp.ErrorCode))
	}
	m.assignment = resp.MemberAssignment
}

// partitionsOf reads an assignment in the consumer protocol's own form.
func (m *member) partitions(t *testing.T) (n int) {
	t.Helper()
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(m.assignment); err != nil {
		t.Fatal(err)
	}
	for _, topic := range a.Topics {
		n += len(topic.Partitions)
	}
	return n
}

// A group whose consumers are moved to the newer protocol one by one, and back, never stops and keeps its offsets.
func TestC30_ConsumersMoveBetweenProtocolsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, "t")
		old := &member{b: b, group: "g", topics: []string{"t"}}
		old.settleFor(t, 0, 1, 2, 3)
		old.commit(t, tp("t", 0), 11)

		fresh := &consumer{b: b, group: "g", id: "m1"}
		need(t, "the first one moves", fresh.join(t, "t"), kafka.None)
		if fresh.partitions() != 0 {
			t.Fatalf("it is given %d partitions that the other has", fresh.partitions())
		}
		b.restart(t)
		need(t, "the other is told to join", old.heartbeat(t), kafka.RebalanceInProgress)
		old.settleFor(t)
		if old.partitions(t) != 2 {
			t.Fatalf("the other has %d partitions", old.partitions(t))
		}
		old.commit(t, tp("t", 0), 12)
		need(t, "heartbeat", fresh.beat(t), kafka.None)
		if fresh.partitions() != 2 {
			t.Fatalf("%d partitions", fresh.partitions())
		}
		need(t, "heartbeat of the other", old.heartbeat(t), kafka.None)
		d := b.describeConsumer(t, "g")
		if d.State != "Stable" || len(d.Members) != 2 || d.Members[0].MemberType+d.Members[1].MemberType != 1 {
			t.Fatalf("described as %+v", d)
		}
		b.restart(t)
		need(t, "heartbeat after a restart", old.heartbeat(t), kafka.None)

		fresh.leave(t) // back again: only classic members are left
		if d := b.state(t, "g"); d.State != "PreparingRebalance" || len(d.Members) != 1 {
			t.Fatalf("described as %+v", d)
		}
		need(t, "heartbeat", old.heartbeat(t), kafka.RebalanceInProgress)
		old.settleFor(t, 0, 1, 2, 3)
		if !old.leads || old.partitions(t) != 4 {
			t.Fatalf("leads %v, %d partitions", old.leads, old.partitions(t))
		}
		b.restart(t)
		need(t, "heartbeat", old.heartbeat(t), kafka.None)
		b.wantOffset(t, "g", tp("t", 0), 12)

		need(t, "moves again", fresh.join(t, "t"), kafka.None)
		time.Sleep(11 * time.Second) // the classic one's session
		synctest.Wait()
		need(t, "heartbeat", fresh.beat(t), kafka.None)
		if fresh.partitions() != 4 {
			t.Errorf("%d partitions after the classic one fell silent", fresh.partitions())
		}
		need(t, "heartbeat of the silent one", old.heartbeat(t), kafka.UnknownMemberID)
		b.Close()
	})
}

// A member id that was handed out and not used yet is no member: a group in which there is no other can change its
// protocol, and who comes back with the id is let in.
func TestAMemberIDThatIsNotUsedYetKeepsNobodyOut(t *testing.T) {
	b := newBroker(t, "t")
	old := &member{b: b, group: "g", topics: []string{"t"}}
	handed := b.JoinGroup(t.Context(), someone, old.joinRequest())
	need(t, "the classic member asks for an id", kafka.ErrorCode(handed.ErrorCode), kafka.MemberIDRequired)
	fresh := &consumer{b: b, group: "g", id: "m1"}
	need(t, "one of the consumer protocol joins", fresh.join(t, "t"), kafka.None)
	old.id = handed.MemberID
	need(t, "the classic member joins", kafka.ErrorCode(old.join(t.Context()).ErrorCode), kafka.None)
	if shown := b.describeConsumer(t, "g"); len(shown.Members) != 2 {
		t.Errorf("the group has %d members, want both: %+v", len(shown.Members), shown.Members)
	}
}

func TestUpgradeWakesClassicMembersThatWait(t *testing.T) {
	b := newBroker(t, "t")
	old := &member{b: b, group: "g", topics: []string{"t"}}
	old.settleFor(t, 0, 1, 2, 3)
	waiting := &member{b: b, group: "g", topics: []string{"t"}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan *kmsg.JoinGroupResponse, 1)
	go func() { answered <- waiting.join(ctx) }()
	for old.heartbeat(t) != kafka.RebalanceInProgress {
	}
	fresh := &consumer{b: b, group: "g", id: "m1"}
	need(t, "join", fresh.join(t, "t"), kafka.None)
	if code := kafka.ErrorCode((<-answered).ErrorCode); code != kafka.RebalanceInProgress {
		t.Errorf("who waited hears %v", code)
	}
	joined := waiting.join(t.Context())
	need(t, "it joins again", kafka.ErrorCode(joined.ErrorCode), kafka.None)
}

func TestMigrationPolicy(t *testing.T) {
	b := newBroker(t, "t")
	b.cfg.Migration = MigrateNever
	b.restart(t)
	old := &member{b: b, group: "g", topics: []string{"t"}}
	old.settleFor(t, 0, 1, 2, 3)
	fresh := &consumer{b: b, group: "g", id: "m1"}
	need(t, "join beside classic members", fresh.join(t, "t"), kafka.GroupIDNotFound)
	need(t, "heartbeat", old.heartbeat(t), kafka.None)
}

func TestClassicMembersOfAConsumerGroupAreChecked(t *testing.T) {
	b := newBroker(t, "t")
	fresh := &consumer{b: b, group: "g", id: "m1"}
	need(t, "join", fresh.join(t, "t"), kafka.None)
	rq := (&member{b: b, group: "g"}).joinRequest()
	rq.Protocols[0].Metadata, rq.MemberID = []byte{1}, "m2"
	need(t, "metadata that cannot be read", kafka.ErrorCode(b.JoinGroup(t.Context(), someone, rq).ErrorCode), kafka.InconsistentGroupProtocol)
	rq.ProtocolType = "connect"
	need(t, "no consumer", kafka.ErrorCode(b.JoinGroup(t.Context(), someone, rq).ErrorCode), kafka.InconsistentGroupProtocol)
	old := &member{b: b, group: "g", topics: []string{"t"}}
	joined := old.join(t.Context())
	need(t, "join", kafka.ErrorCode(joined.ErrorCode), kafka.None)
	if joined.LeaderID == old.id || len(joined.Members) > 0 || *joined.Protocol != "range" {
		t.Errorf("joined as %+v", joined)
	}
	stale := *old
	stale.generation++
	need(t, "wrong generation", stale.heartbeat(t), kafka.IllegalGeneration)
	need(t, "consumer's id over the classic protocol", (&member{b: b, group: "g", id: "m1", generation: fresh.epoch}).heartbeat(t), kafka.UnknownMemberID)
	old.leave(t)
	need(t, "after it left", old.heartbeat(t), kafka.UnknownMemberID)
	need(t, "the other stays", fresh.beat(t), kafka.None)
}

// Whoever joins without an id is given one before what it subscribes to is read, and refusals name no member, as in Kafka.
func TestMixedGroupsAnswerClassicMembersAsKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, "t")
		need(t, "the first one", (&consumer{b: b, group: "g", id: "m1"}).join(t, "t"), kafka.None)
		rq := kmsg.NewPtrJoinGroupRequest()
		rq.Version, rq.Group, rq.SessionTimeoutMillis, rq.RebalanceTimeoutMillis, rq.ProtocolType = 9, "g", 10_000, 60_000, consumerProtocol
		rq.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{}}}
		first := b.JoinGroup(t.Context(), someone, rq)
		if kafka.ErrorCode(first.ErrorCode) != kafka.MemberIDRequired || first.MemberID == "" {
			t.Fatalf("without an id: %v and id %q", kafka.ErrorCode(first.ErrorCode), first.MemberID)
		}
		rq.MemberID = first.MemberID
		if again := b.JoinGroup(t.Context(), someone, rq); kafka.ErrorCode(again.ErrorCode) != kafka.InconsistentGroupProtocol || again.MemberID != "" {
			t.Errorf("without a subscription: %v and id %q", kafka.ErrorCode(again.ErrorCode), again.MemberID)
		}
	})
}

func TestGroupsOfCustomAssignorsAreNotMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, "t")
		old := &member{b: b, group: "g", topics: []string{"t"}}
		old.join(t.Context())
		rq := kmsg.NewPtrSyncGroupRequest()
		rq.Version, rq.Group, rq.MemberID, rq.Generation = 4, "g", old.id, old.generation
		all := kmsg.NewConsumerMemberAssignment()
		all.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: []int32{0, 1, 2, 3}}}
		all.UserData = []byte("its own")
		rq.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: old.id, MemberAssignment: all.AppendTo(nil)}}
		need(t, "sync", kafka.ErrorCode(b.SyncGroup(t.Context(), someone, rq).ErrorCode), kafka.None)
		fresh := &consumer{b: b, group: "g", id: "m1"}
		beat := fresh.request()
		beat.SubscribedTopicNames, beat.RebalanceTimeoutMillis = []string{"t"}, 1000
		if resp := b.ConsumerGroupHeartbeat(t.Context(), someone, beat); kafka.ErrorCode(resp.ErrorCode) != kafka.GroupIDNotFound || !strings.Contains(*resp.ErrorMessage, "custom assignor") {
			t.Errorf("%v %v", kafka.ErrorCode(resp.ErrorCode), resp.ErrorMessage)
		}
		need(t, "the other stays", old.heartbeat(t), kafka.None)
	})
}

func TestProtocolThatIsNotOfferedIsRefused(t *testing.T) {
	b := newBroker(t, "t")
	b.cfg.ClassicOnly = true
	b.restart(t)
	m := &consumer{b: b, group: "g", id: "m1"}
	need(t, "join", m.join(t, "t"), kafka.UnsupportedVersion)
	if d := b.describeConsumer(t, "g"); kafka.ErrorCode(d.ErrorCode) != kafka.UnsupportedVersion {
		t.Errorf("described: %v", kafka.ErrorCode(d.ErrorCode))
	}
	if groups := b.all(); len(groups) != 0 {
		t.Errorf("%d groups", len(groups))
	}
}
