package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroups, key 42, versions 0-3. Deletes groups without members.
//
//	v2 flexible encoding. v3 messages beside the codes.
func deleteGroups(ctx context.Context, c *call, rq *kmsg.DeleteGroupsRequest) (kmsg.Response, error) {
	forward := *rq
	forward.Groups = []string{}
	denied := []kmsg.DeleteGroupsResponseGroup{}
	for _, name := range rq.Groups {
		if c.groupAllowed(kmsg.ACLOperationDelete, name) {
			forward.Groups = append(forward.Groups, name)
			continue
		}
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group, out.ErrorCode, out.ErrorMessage = name, code(errGroupDenied), kafka.MessageOf(errGroupDenied)
		denied = append(denied, out)
	}
	resp := c.Groups.DeleteGroups(ctx, &forward)
	resp.Groups = append(resp.Groups, denied...)
	return resp, nil
}
