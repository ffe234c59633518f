package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Heartbeat, key 12, versions 0-4. A member says that it is there.
//
//	v3 static members. v4 flexible encoding.
func heartbeat(ctx context.Context, c *call, rq *kmsg.HeartbeatRequest) (kmsg.Response, error) {
	if !c.groupAllowed(kmsg.ACLOperationRead, rq.Group) {
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = code(errGroupDenied)
		return resp, nil
	}
	return c.Groups.Heartbeat(ctx, c.from, rq), nil
}
