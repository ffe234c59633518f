package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// JoinGroup, key 11, versions 0-9. Enters a group and waits until all members have.
//
//	v1 rebalance time-out. v4 a member id is asked for first (KIP-394). v5 static members. v6 flexible encoding.
//	v7 protocol type in the answer. v8 a reason. v9 a leader may be told to skip the assignment (KIP-814).
func joinGroup(ctx context.Context, c *call, rq *kmsg.JoinGroupRequest) (kmsg.Response, error) {
	if !c.groupAllowed(kmsg.ACLOperationRead, rq.Group) {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.ErrorCode, resp.Generation, resp.MemberID = code(errGroupDenied), -1, rq.MemberID
		if c.version < 7 {
			resp.Protocol = text("") // null is not allowed there yet
		}
		return resp, nil
	}
	ctx, stop := c.untilGone(ctx)
	defer stop()
	return c.Groups.JoinGroup(ctx, c.from, rq), nil
}
