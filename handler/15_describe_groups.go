package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeGroups, key 15, versions 0-6.
//
//	v3 authorized operations. v4 static members. v5 flexible encoding. v6 GROUP_ID_NOT_FOUND for a group that is not there (KIP-1043).
func describeGroups(ctx context.Context, c *call, rq *kmsg.DescribeGroupsRequest) (kmsg.Response, error) {
	forward := *rq
	forward.Groups = []string{}
	denied := []kmsg.DescribeGroupsResponseGroup{}
	for _, name := range rq.Groups {
		if c.groupAllowed(kmsg.ACLOperationDescribe, name) {
			forward.Groups = append(forward.Groups, name)
			continue
		}
		out := kmsg.NewDescribeGroupsResponseGroup()
		out.Group, out.ErrorCode, out.ErrorMessage = name, code(errGroupDenied), kafka.MessageOf(errGroupDenied)
		denied = append(denied, out)
	}
	resp := c.Groups.DescribeGroups(ctx, &forward)
	for i := range resp.Groups {
		out := &resp.Groups[i]
		out.AuthorizedOperations = noAuthorizedOps
		if rq.IncludeAuthorizedOperations && out.ErrorCode == 0 {
			out.AuthorizedOperations = c.authorizedOps(groupOps, kmsg.ACLResourceTypeGroup, out.Group)
		}
	}
	resp.Groups = append(resp.Groups, denied...)
	return resp, nil
}
