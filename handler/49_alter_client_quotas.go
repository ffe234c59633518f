package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterClientQuotas, key 49, versions 0-1. Sets and removes quotas (KIP-546).
//
//	v1 flexible encoding.
func alterClientQuotas(ctx context.Context, c *call, rq *kmsg.AlterClientQuotasRequest) (kmsg.Response, error) {
	if c.clusterAllowed(kmsg.ACLOperationAlterConfigs) {
		return c.Security.AlterClientQuotas(ctx, rq), nil
	}
	resp := kmsg.NewPtrAlterClientQuotasResponse()
	for _, in := range rq.Entries {
		out := kmsg.NewAlterClientQuotasResponseEntry()
		out.ErrorCode, out.ErrorMessage = code(errClusterDenied), kafka.MessageOf(errClusterDenied)
		for _, entity := range in.Entity {
			named := kmsg.NewAlterClientQuotasResponseEntryEntity()
			named.Type, named.Name = entity.Type, entity.Name
			out.Entity = append(out.Entity, named)
		}
		resp.Entries = append(resp.Entries, out)
	}
	return resp, nil
}
