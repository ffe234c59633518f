package source

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// ACLs reads all ACLs of the source, in a fixed order, as of no link. It needs DESCRIBE on the
// cluster. Errors are kafka.Error where the source answered: SECURITY_DISABLED from one without an authorizer.
func (c *Cluster) ACLs(ctx context.Context) ([]meta.ACL, error) {
	resp, err := c.askAny(ctx, func() kmsg.Request {
		req := kmsg.NewPtrDescribeACLsRequest()
		req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
		req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		return req
	})
	if err != nil {
		return nil, err
	}
	answer := resp.(*kmsg.DescribeACLsResponse)
	if code := kafka.ErrorCode(answer.ErrorCode); code == kafka.ClusterAuthorizationFailed {
		// Kafka's own text is its request object.
		return nil, kafka.Errorf(code, "the link's principal must be allowed to DESCRIBE the source cluster, so that it may list its ACLs")
	}
	if answer.ErrorCode != 0 {
		text := "no reason given"
		if answer.ErrorMessage != nil {
			text = *answer.ErrorMessage
		}
		return nil, kafka.Errorf(kafka.ErrorCode(answer.ErrorCode), "source answers for its ACLs: %s", text)
	}
	var list []meta.ACL
	for _, r := range answer.Resources {
		for _, a := range r.ACLs {
			list = append(list, meta.ACL{
				ResourceType: r.ResourceType.String(), Resource: r.ResourceName, PatternType: r.ResourcePatternType.String(),
				Principal: a.Principal, Host: a.Host, Operation: kafka.ACLOperation(int8(a.Operation)), Permission: a.PermissionType.String(),
			})
		}
	}
	slices.SortFunc(list, func(a, b meta.ACL) int { return strings.Compare(text(a), text(b)) })
	return list, nil
}

func text(a meta.ACL) string {
	return strings.Join([]string{a.ResourceType, a.Resource, a.PatternType, a.Principal, a.Host, a.Operation, a.Permission}, "\x00")
}
