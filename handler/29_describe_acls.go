package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeAcls, key 29, versions 1-3. Lists the ACLs that match a filter.
//
//	Without an authorizer: SECURITY_DISABLED.
//	v1 prefixed patterns. v2 flexible encoding. v3 users as resources.
func describeACLs(ctx context.Context, c *call, rq *kmsg.DescribeACLsRequest) (kmsg.Response, error) {
	err := c.mayManage(kmsg.ACLOperationDescribe)
	if err == nil {
		return c.Security.DescribeACLs(ctx, rq), nil
	}
	resp := kmsg.NewPtrDescribeACLsResponse()
	resp.ErrorCode, resp.ErrorMessage = code(err), kafka.MessageOf(err)
	return resp, nil
}

// mayManage says why the caller may not see (DESCRIBE) or change (ALTER) ACLs.
func (c *call) mayManage(op kmsg.ACLOperation) error {
	switch {
	case c.Security == nil:
		return errNoAuthorizer
	case !c.clusterAllowed(op):
		return errClusterDenied
	}
	return nil
}
