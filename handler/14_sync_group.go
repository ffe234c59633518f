package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// SyncGroup, key 14, versions 0-5. The leader brings the assignments, every member gets its own.
//
//	v3 static members. v4 flexible encoding. v5 protocol type and name.
func syncGroup(ctx context.Context, c *call, rq *kmsg.SyncGroupRequest) (kmsg.Response, error) {
	if !c.groupAllowed(kmsg.ACLOperationRead, rq.Group) {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode = code(errGroupDenied)
		return resp, nil
	}
	ctx, stop := c.untilGone(ctx)
	defer stop()
	return c.Groups.SyncGroup(ctx, c.from, rq), nil
}
