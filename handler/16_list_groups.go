package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListGroups, key 16, versions 0-5. Lists the groups that the caller may see.
//
//	v3 flexible encoding. v4 by state. v5 by type.
func listGroups(ctx context.Context, c *call, rq *kmsg.ListGroupsRequest) (kmsg.Response, error) {
	resp := c.Groups.ListGroups(ctx, rq)
	if c.clusterAllowed(kmsg.ACLOperationDescribe) {
		return resp, nil
	}
	kept := resp.Groups[:0]
	for _, group := range resp.Groups {
		if c.groupAllowed(kmsg.ACLOperationDescribe, group.Group) {
			kept = append(kept, group)
		}
	}
	resp.Groups = kept
	return resp, nil
}
