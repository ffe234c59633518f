package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeClientQuotas, key 48, versions 0-1. Lists the quotas that match a filter (KIP-546).
//
//	v1 flexible encoding.
func describeClientQuotas(ctx context.Context, c *call, rq *kmsg.DescribeClientQuotasRequest) (kmsg.Response, error) {
	if c.clusterAllowed(kmsg.ACLOperationDescribeConfigs) {
		return c.Security.DescribeClientQuotas(ctx, rq), nil
	}
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	resp.ErrorCode, resp.ErrorMessage = code(errClusterDenied), kafka.MessageOf(errClusterDenied)
	return resp, nil
}
