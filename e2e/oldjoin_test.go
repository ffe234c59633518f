//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestC79_JoinGroupOfOldVersions takes two members through a group's life with the first versions of its APIs, here and at a stock
// Kafka: the steps must come out the same.
func TestC79_JoinGroupOfOldVersions(t *testing.T) {
	t.Parallel()
	theirs := oldGroupLife(t, SharedKafka(t).Bootstrap())
	ours := oldGroupLife(t, StartHawser(t, "--set", "group.initial.rebalance.delay.ms=0").Kafka)
	if !slices.Equal(ours, theirs) {
		t.Errorf("here:  %v\nKafka: %v", ours, theirs)
	}
	t.Log(ours)
}

// oldMember speaks the group APIs in their first versions, JoinGroup in the version it is given.
type oldMember struct {
	client *kgo.Client
	group  string
	id     string
	join   *kmsg.JoinGroupResponse
}

func newOldMember(t *testing.T, bootstrap, group string, version int16) *oldMember {
	t.Helper()
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.JoinGroup.Int16(), version)
	for _, key := range []kmsg.Key{kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup} {
		versions.SetMaxKeyVersion(key.Int16(), 0)
	}
	return &oldMember{client: Client(t, bootstrap, kgo.MaxVersions(versions)), group: group}
}

func (m *oldMember) enter(ctx context.Context) error {
	rq := kmsg.NewPtrJoinGroupRequest()
	rq.Group, rq.MemberID, rq.ProtocolType, rq.SessionTimeoutMillis, rq.RebalanceTimeoutMillis = m.group, m.id, "consumer", 30000, 30000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "range", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	rq.Protocols = append(rq.Protocols, protocol)
	rs, err := rq.RequestWith(ctx, m.client)
	if err == nil {
		m.join, m.id = rs, rs.MemberID
		err = kerr.ErrorForCode(rs.ErrorCode)
	}
	return err
}

func (m *oldMember) sync(ctx context.Context, plan ...kmsg.SyncGroupRequestGroupAssignment) (string, error) {
	rq := kmsg.NewPtrSyncGroupRequest()
	rq.Group, rq.MemberID, rq.Generation, rq.GroupAssignment = m.group, m.id, m.join.Generation, plan
	rs, err := rq.RequestWith(ctx, m.client)
	if err != nil {
		return "", err
	}
	return string(rs.MemberAssignment), kerr.ErrorForCode(rs.ErrorCode)
}

func (m *oldMember) beat(ctx context.Context) error {
	rq := kmsg.NewPtrHeartbeatRequest()
	rq.Group, rq.MemberID, rq.Generation = m.group, m.id, m.join.Generation
	rs, err := rq.RequestWith(ctx, m.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(rs.ErrorCode)
}

func (m *oldMember) leave(ctx context.Context) error {
	rq := kmsg.NewPtrLeaveGroupRequest()
	rq.Group, rq.MemberID = m.group, m.id
	rs, err := rq.RequestWith(ctx, m.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(rs.ErrorCode)
}

// oldGroupLife is what came of each step.
func oldGroupLife(t *testing.T, bootstrap string) (steps []string) {
	ctx := testContext(t)
	group := again("c79-old-join")
	first, second := newOldMember(t, bootstrap, group, 0), newOldMember(t, bootstrap, group, 1)
	note := func(step string, err error) { steps = append(steps, fmt.Sprintf("%s: %v", step, err)) }
	assigned := func(m *oldMember, what string) kmsg.SyncGroupRequestGroupAssignment {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = m.id, []byte(what)
		return a
	}
	fatal(t, first.enter(ctx)) // no member id is asked for before version 4
	note(fmt.Sprintf("joins alone, generation %d, leads %v, protocol %s, members %d", first.join.Generation, first.join.LeaderID == first.id, *first.join.Protocol, len(first.join.Members)), nil)
	got, err := first.sync(ctx, assigned(first, "all"))
	note("syncs "+got, err)
	note("beats", first.beat(ctx))

	entered := make(chan error, 1)
	go func() { entered <- second.enter(ctx) }()
	eventually(t, 30*time.Second, "the first member is told of the second", func() (bool, string) {
		err := first.beat(ctx)
		return err == kerr.RebalanceInProgress, fmt.Sprint(err)
	})
	note("joins again", first.enter(ctx))
	note("second joins", <-entered)
	note(fmt.Sprintf("generations %d %d, one leader %v, members %d", first.join.Generation, second.join.Generation, first.join.LeaderID == second.join.LeaderID, len(first.join.Members)+len(second.join.Members)), nil)
	leader, other := first, second
	if second.join.LeaderID == second.id {
		leader, other = second, first
	}
	got, err = leader.sync(ctx, assigned(leader, "half"), assigned(other, "rest"))
	note("leader syncs "+got, err)
	got, err = other.sync(ctx)
	note("other syncs "+got, err)
	note("second leaves", second.leave(ctx))
	note("second beats after it left", second.beat(ctx))
	note("first is told", first.beat(ctx))
	note("first leaves", first.leave(ctx))
	return steps
}
