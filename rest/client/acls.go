package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/hawserio/hawser/rest/api"
)

func aclQuery(f api.CreateACLRequest) url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"resource_type": f.ResourceType, "resource_name": f.ResourceName, "pattern_type": f.PatternType,
		"principal": f.Principal, "host": f.Host, "operation": f.Operation, "permission": f.Permission,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// ACLs lists the ACLs that a filter means; empty fields mean everything.
func (c *Client) ACLs(ctx context.Context, filter api.CreateACLRequest) ([]api.ACL, error) {
	var out api.List[api.ACL]
	err := c.do(ctx, request{method: http.MethodGet, path: []string{"acls"}, query: aclQuery(filter)}, &out)
	return out.Data, err
}

// CreateACLs makes ACLs, all or none.
func (c *Client) CreateACLs(ctx context.Context, acls []api.CreateACLRequest) error {
	return c.do(ctx, request{method: http.MethodPost, path: []string{"acls:batch"}, body: api.CreateACLsRequest{Data: acls}}, nil)
}

// DeleteACLs deletes the ACLs that a filter means and answers them. Types, operation
// and permission must be said; ANY means all.
func (c *Client) DeleteACLs(ctx context.Context, filter api.CreateACLRequest) ([]api.ACL, error) {
	var out api.DeletedACLs
	err := c.do(ctx, request{method: http.MethodDelete, path: []string{"acls"}, query: aclQuery(filter)}, &out)
	return out.Data, err
}
