package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeUserScramCredentials, key 50, version 0. Shows which users have SCRAM credentials (KIP-554); no secret is shown.
func describeUserScramCredentials(ctx context.Context, c *call, rq *kmsg.DescribeUserSCRAMCredentialsRequest) (kmsg.Response, error) {
	if c.clusterAllowed(kmsg.ACLOperationDescribe) {
		return c.Security.DescribeUserSCRAMCredentials(ctx, rq), nil
	}
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	resp.ErrorCode, resp.ErrorMessage = code(errClusterDenied), kafka.MessageOf(errClusterDenied)
	for _, in := range rq.Users {
		out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		out.User, out.ErrorCode, out.ErrorMessage = in.Name, resp.ErrorCode, resp.ErrorMessage
		resp.Results = append(resp.Results, out)
	}
	return resp, nil
}
