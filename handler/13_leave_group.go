package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// LeaveGroup, key 13, versions 0-5. Members leave.
//
//	v3 several members, static ones too. v4 flexible encoding. v5 a reason.
func leaveGroup(ctx context.Context, c *call, rq *kmsg.LeaveGroupRequest) (kmsg.Response, error) {
	if !c.groupAllowed(kmsg.ACLOperationRead, rq.Group) {
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = code(errGroupDenied)
		return resp, nil
	}
	return c.Groups.LeaveGroup(ctx, c.from, rq), nil
}
