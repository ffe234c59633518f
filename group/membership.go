package group

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// JoinGroup takes a member in and answers when its generation begins.
func (c *Coordinator) JoinGroup(ctx context.Context, from Client, rq *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	resp := rq.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.MemberID, resp.Generation = rq.MemberID, -1
	fail := func(code kafka.ErrorCode) *kmsg.JoinGroupResponse {
		resp.ErrorCode = int16(code)
		return resp
	}
	session := time.Duration(rq.SessionTimeoutMillis) * time.Millisecond
	switch code := c.readyFor(rq.Group); {
	case code != kafka.None:
		return fail(code)
	case rq.Group == "" || len(rq.Group) > nameMax:
		return fail(kafka.InvalidGroupID)
	case !storable(rq):
		return fail(kafka.InvalidRequest)
	case session < c.cfg.SessionMin || session > c.cfg.SessionMax:
		return fail(kafka.InvalidSessionTimeout)
	}
	var g *group
	if rq.MemberID == "" {
		g = c.enter(rq.Group)
	} else {
		g = c.lookup(rq.Group)
	}
	if g == nil {
		if code := c.readyFor(rq.Group); code != kafka.None {
			return fail(code)
		}
		return fail(kafka.UnknownMemberID)
	}
	if g.consumer != nil && !g.empty() {
		return c.joinConsumer(ctx, g, from, rq, resp)
	}
	if g.consumer != nil {
		if code := c.classic(ctx, g); code != kafka.None {
			c.leave(g)
			return fail(code)
		}
	}
	ticket, ch := c.park(g)
	c.settle(g, g.core.Join(joinOf(ticket, from, rq), time.Now()))
	c.leave(g)
	answer, err := c.await(ctx, g, ticket, ch)
	if err != nil {
		return fail(waitCode(err))
	}
	return joined(resp, answer.Join)
}

// nameMax bounds whatever is a string in a stored key or in the metadata of a classic group, in bytes: both have 16 bits for
// the length. Requests in the flexible encoding could carry more.
const nameMax = 1<<15 - 1

// storable reports whether what the member says of itself can be stored. Its id is made of ours and of its
// instance id or client id, with room for a UUID.
func storable(rq *kmsg.JoinGroupRequest) bool {
	const room = 64
	for _, p := range rq.Protocols {
		if len(p.Name) > nameMax {
			return false
		}
	}
	return len(rq.MemberID) <= nameMax && len(rq.ProtocolType) <= nameMax && len(deref(rq.InstanceID)) <= nameMax-room
}

func joinOf(ticket rebalance.Ticket, from Client, rq *kmsg.JoinGroupRequest) rebalance.Join {
	j := rebalance.Join{Ticket: ticket, MemberID: rq.MemberID, InstanceID: rq.InstanceID,
		Client:       rebalance.Client{ID: from.ID, Host: from.Host},
		Session:      time.Duration(rq.SessionTimeoutMillis) * time.Millisecond,
		Rebalance:    time.Duration(rq.RebalanceTimeoutMillis) * time.Millisecond,
		ProtocolType: rq.ProtocolType, RequireID: rq.Version >= 4, CanSkip: rq.Version >= 9}
	if rq.Version == 0 || j.Rebalance < 0 {
		j.Rebalance = j.Session
	}
	for _, p := range rq.Protocols {
		j.Protocols = append(j.Protocols, rebalance.Protocol{Name: p.Name, Metadata: p.Metadata})
	}
	if j.MemberID == "" {
		j.NewID = from.ID[:min(len(from.ID), memberIDMax)] + "-" + uuid()
		if j.InstanceID != nil {
			j.NewID = *j.InstanceID + "-" + uuid()
		}
	}
	return j
}

// memberIDMax bounds how much of the client's id is part of its member id, in bytes.
const memberIDMax = 1024

// uuid draws a random version 4 UUID in its usual text form.
func uuid() string {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("BUG: the system's randomness failed: " + err.Error())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func joined(resp *kmsg.JoinGroupResponse, a *rebalance.JoinAnswer) *kmsg.JoinGroupResponse {
	resp.ErrorCode, resp.MemberID, resp.Generation = int16(a.Code), a.MemberID, a.Generation
	if a.Code != kafka.None {
		return resp
	}
	resp.ProtocolType, resp.Protocol, resp.LeaderID, resp.SkipAssignment = &a.ProtocolType, &a.Protocol, a.Leader, a.SkipAssignment
	for _, m := range a.Members {
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID, member.InstanceID, member.ProtocolMetadata = m.ID, m.InstanceID, m.Metadata
		resp.Members = append(resp.Members, member)
	}
	return resp
}

// waitCode is what a caller hears whose wait ended without an answer.
func waitCode(err error) kafka.ErrorCode {
	if code := kafka.CodeOf(err); code != kafka.UnknownServerError {
		return storeCode(err)
	}
	return kafka.CoordinatorNotAvailable
}

// SyncGroup takes the leader's assignments and answers a member's own.
func (c *Coordinator) SyncGroup(ctx context.Context, from Client, rq *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	resp := rq.ResponseKind().(*kmsg.SyncGroupResponse)
	resp.MemberAssignment = []byte{}
	if rq.Version >= 5 && (rq.ProtocolType == nil || rq.Protocol == nil) {
		resp.ErrorCode = int16(kafka.InconsistentGroupProtocol) // the version is there for these two
		return resp
	}
	g, code := c.member(rq.Group)
	if code != kafka.None {
		resp.ErrorCode = int16(code)
		return resp
	}
	sync := rebalance.Sync{MemberID: rq.MemberID, InstanceID: rq.InstanceID, Generation: rq.Generation,
		ProtocolType: rq.ProtocolType, Protocol: rq.Protocol, Assignments: make(map[string][]byte, len(rq.GroupAssignment))}
	for _, a := range rq.GroupAssignment {
		sync.Assignments[a.MemberID] = a.MemberAssignment
	}
	if g.consumer != nil {
		return c.syncConsumer(ctx, g, sync, resp)
	}
	ticket, ch := c.park(g)
	sync.Ticket = ticket
	c.settle(g, g.core.Sync(sync, time.Now()))
	c.leave(g)
	answer, err := c.await(ctx, g, ticket, ch)
	if err != nil {
		resp.ErrorCode = int16(waitCode(err))
		return resp
	}
	resp.ErrorCode = int16(answer.Sync.Code)
	if answer.Sync.Code == kafka.None {
		resp.ProtocolType, resp.Protocol = &answer.Sync.ProtocolType, &answer.Sync.Protocol
	}
	if answer.Sync.Assignment != nil {
		resp.MemberAssignment = answer.Sync.Assignment
	}
	return resp
}

// member finds the group of one who says to be in it, and locks it.
func (c *impl) member(id string) (*group, kafka.ErrorCode) {
	if code := c.readyFor(id); code != kafka.None {
		return nil, code
	}
	if id == "" {
		return nil, kafka.InvalidGroupID
	}
	g := c.lookup(id)
	if g == nil {
		if code := c.readyFor(id); code != kafka.None {
			return nil, code
		}
		return nil, kafka.UnknownMemberID
	}
	return g, kafka.None
}

// Heartbeat says that a member is alive.
func (c *Coordinator) Heartbeat(ctx context.Context, from Client, rq *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	resp := rq.ResponseKind().(*kmsg.HeartbeatResponse)
	g, code := c.member(rq.Group)
	if code == kafka.None {
		if now := time.Now(); g.consumer == nil {
			code = g.core.Heartbeat(rq.MemberID, rq.InstanceID, rq.Generation, now)
		} else {
			code = g.consumer.HeartbeatClassic(rq.MemberID, rq.InstanceID, rq.Generation, now)
			g.arm(&c.impl, g.consumer.Next())
		}
		c.leave(g)
	}
	resp.ErrorCode = int16(code)
	return resp
}

// LeaveGroup takes members out of their group.
func (c *Coordinator) LeaveGroup(ctx context.Context, from Client, rq *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	resp := rq.ResponseKind().(*kmsg.LeaveGroupResponse)
	var leavers []rebalance.Leaver
	if rq.Version < 3 {
		leavers = []rebalance.Leaver{{MemberID: rq.MemberID}}
	}
	for _, m := range rq.Members {
		leavers = append(leavers, rebalance.Leaver{MemberID: m.MemberID, InstanceID: m.InstanceID})
	}
	g, code := c.member(rq.Group)
	var codes []kafka.ErrorCode
	switch {
	case code == kafka.UnknownMemberID:
		for range leavers {
			codes = append(codes, code)
		}
	case code != kafka.None:
		resp.ErrorCode = int16(code)
		return resp
	default:
		var err error
		codes, err = c.takeOut(ctx, g, leavers)
		end := g.end
		c.leave(g)
		if err == nil {
			err = c.synced(ctx, g, end)
		}
		if err != nil {
			resp.ErrorCode = int16(waitCode(err))
			return resp
		}
	}
	if rq.Version < 3 {
		resp.ErrorCode = int16(codes[0])
		return resp
	}
	for i, l := range leavers {
		m := kmsg.NewLeaveGroupResponseMember()
		m.MemberID, m.InstanceID, m.ErrorCode = l.MemberID, l.InstanceID, int16(codes[i])
		resp.Members = append(resp.Members, m)
	}
	return resp
}

// takeOut takes members out of a group of either protocol. The group's lock is held.
func (c *impl) takeOut(ctx context.Context, g *group, leavers []rebalance.Leaver) ([]kafka.ErrorCode, error) {
	if g.consumer != nil {
		return c.leaveConsumer(ctx, g, leavers)
	}
	codes, out := g.core.Leave(leavers, time.Now())
	c.settle(g, out)
	return codes, nil
}
