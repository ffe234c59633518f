package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterUserScramCredentials, key 51, version 0. Sets and deletes users' SCRAM credentials (KIP-554).
func alterUserScramCredentials(ctx context.Context, c *call, rq *kmsg.AlterUserSCRAMCredentialsRequest) (kmsg.Response, error) {
	if c.clusterAllowed(kmsg.ACLOperationAlter) {
		return c.Security.AlterUserSCRAMCredentials(ctx, rq), nil
	}
	resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
	refuse := func(user string) {
		out := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		out.User, out.ErrorCode, out.ErrorMessage = user, code(errClusterDenied), kafka.MessageOf(errClusterDenied)
		resp.Results = append(resp.Results, out)
	}
	for _, in := range rq.Upsertions {
		refuse(in.Name)
	}
	for _, in := range rq.Deletions {
		refuse(in.Name)
	}
	return resp, nil
}
