package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteAcls, key 31, versions 1-3. Deletes the ACLs that match filters, and lists them.
//
//	Without an authorizer: SECURITY_DISABLED.
//	v1 prefixed patterns. v2 flexible encoding. v3 users as resources.
func deleteACLs(ctx context.Context, c *call, rq *kmsg.DeleteACLsRequest) (kmsg.Response, error) {
	err := c.mayManage(kmsg.ACLOperationAlter)
	if err == nil {
		return c.Security.DeleteACLs(ctx, rq), nil
	}
	resp := kmsg.NewPtrDeleteACLsResponse()
	for range rq.Filters {
		out := kmsg.NewDeleteACLsResponseResult()
		out.ErrorCode, out.ErrorMessage = code(err), kafka.MessageOf(err)
		resp.Results = append(resp.Results, out)
	}
	return resp, nil
}
