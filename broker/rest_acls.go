package broker

import (
	"cmp"
	"context"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/rest"
)

// restACLs is nil, and not a nil pointer in an interface, without an authorizer.
func (b *Broker) restACLs() rest.ACLs {
	if b.acls == nil {
		return nil
	}
	return &restACLs{b}
}

// restACLs lets REST see and change ACLs by the rules of the Kafka door.
type restACLs struct{ b *Broker }

func aclFilter(f rest.ACL) auth.Filter {
	or := func(text string) string {
		if text == "" {
			return "ANY"
		}
		return text
	}
	return auth.Filter{
		ResourceType: or(f.ResourceType), Resource: f.ResourceName, PatternType: or(f.PatternType),
		Principal: f.Principal, Host: f.Host, Operation: or(f.Operation), Permission: or(f.Permission),
	}
}

func restACLsOf(acls []*meta.ACL) []rest.ACL {
	var out []rest.ACL
	for _, a := range acls {
		out = append(out, rest.ACL{
			ResourceType: a.ResourceType, ResourceName: a.Resource, PatternType: a.PatternType,
			Principal: a.Principal, Host: a.Host, Operation: a.Operation, Permission: a.Permission,
		})
	}
	return out
}

// ListACLs implements rest.ACLs.
func (r *restACLs) ListACLs(_ context.Context, f rest.ACL) ([]rest.ACL, error) {
	filter := aclFilter(f)
	if err := filter.Check(); err != nil {
		return nil, err
	}
	return restACLsOf(auth.List(r.b.meta.Image(), filter)), nil
}

// CreateACLs implements rest.ACLs.
func (r *restACLs) CreateACLs(ctx context.Context, acls []rest.ACL) error {
	var list []*meta.ACL
	for _, a := range acls {
		made := &meta.ACL{
			ResourceType: a.ResourceType, Resource: a.ResourceName, PatternType: a.PatternType,
			Principal: a.Principal, Host: a.Host, Operation: a.Operation, Permission: a.Permission,
		}
		if err := cmp.Or(auth.CheckACL(*made), auth.CheckOperation(*made)); err != nil {
			return err
		}
		list = append(list, made)
	}
	return r.b.keeper.Add(ctx, list)
}

// DeleteACLs implements rest.ACLs.
func (r *restACLs) DeleteACLs(ctx context.Context, f rest.ACL) ([]rest.ACL, error) {
	filter := aclFilter(f)
	if err := filter.Check(); err != nil {
		return nil, err
	}
	removed, err := r.b.keeper.Remove(ctx, filter)
	return restACLsOf(removed), err
}
