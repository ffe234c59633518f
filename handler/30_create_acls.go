package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateAcls, key 30, versions 1-3. Makes ACLs, each for itself.
//
//	Without an authorizer: SECURITY_DISABLED.
//	v1 prefixed patterns. v2 flexible encoding. v3 users as resources.
func createACLs(ctx context.Context, c *call, rq *kmsg.CreateACLsRequest) (kmsg.Response, error) {
	err := c.mayManage(kmsg.ACLOperationAlter)
	if err == nil {
		return c.Security.CreateACLs(ctx, rq), nil
	}
	resp := kmsg.NewPtrCreateACLsResponse()
	for range rq.Creations {
		out := kmsg.NewCreateACLsResponseResult()
		out.ErrorCode, out.ErrorMessage = code(err), kafka.MessageOf(err)
		resp.Results = append(resp.Results, out)
	}
	return resp, nil
}
