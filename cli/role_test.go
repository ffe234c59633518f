package cli_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/rest"
	"github.com/hawserio/hawser/rest/resttest"
)

// heldACLs keeps rules in memory and refuses those that the broker would.
type heldACLs struct{ list []rest.ACL }

func (h *heldACLs) CreateACLs(_ context.Context, acls []rest.ACL) error {
	for _, a := range acls {
		made := meta.ACL{ResourceType: a.ResourceType, Resource: a.ResourceName, PatternType: a.PatternType, Principal: a.Principal, Host: a.Host, Operation: a.Operation, Permission: a.Permission}
		if err := cmp.Or(auth.CheckACL(made), auth.CheckOperation(made)); err != nil {
			return err
		}
		if !slices.Contains(h.list, a) {
			h.list = append(h.list, a)
		}
	}
	return nil
}

func (h *heldACLs) ListACLs(context.Context, rest.ACL) ([]rest.ACL, error) { return h.list, nil }

func (h *heldACLs) DeleteACLs(_ context.Context, f rest.ACL) ([]rest.ACL, error) {
	if !slices.Contains(h.list, f) {
		return nil, kafka.Errorf(kafka.InvalidRequest, "no such rule: %+v", f)
	}
	h.list = slices.DeleteFunc(h.list, func(a rest.ACL) bool { return a == f })
	return []rest.ACL{f}, nil
}

func TestRolesAreBundlesOfRules(t *testing.T) {
	held := &heldACLs{}
	url := resttest.New(t, func(d *rest.Deps) { d.ACLs = held }).Serve(t)
	for role, on := range map[string][]string{
		"CloudClusterAdmin": nil, "EnvironmentAdmin": nil, "OrganizationAdmin": nil, "Operator": nil,
		"ResourceOwner": {"--topic", "orders", "--consumer-group", "g"}, "DeveloperRead": {"--topic", "ord", "--prefix", "--consumer-group", "*"},
		"DeveloperWrite": {"--topic", "orders"}, "DeveloperManage": {"--topic", "*"}, "LinkSource": {"--topic", "*", "--consumer-group", "*"},
	} {
		ok(t, url, append([]string{"acl", "grant-role", role, "--principal", "User:x"}, on...)...)
		if len(held.list) == 0 {
			t.Errorf("%s grants nothing", role)
		}
		if got := ok(t, url, "acl", "list-roles"); !strings.Contains(got, role) {
			t.Errorf("%s is not listed:\n%s", role, got)
		}
		ok(t, url, append([]string{"acl", "revoke-role", role, "--principal", "User:x"}, on...)...)
		if len(held.list) != 0 {
			t.Errorf("%s leaves %+v", role, held.list)
		}
	}
	for _, wrong := range [][]string{
		{"Nobody", "--topic", "a"}, {"DeveloperRead"}, {"CloudClusterAdmin", "--topic", "a"}, {"DeveloperWrite", "--topic", "a", "--consumer-group", "g"},
	} {
		if r := hawser(t, url, append([]string{"acl", "grant-role", "--principal", "User:x"}, wrong...)...); r.code == 0 || len(held.list) != 0 {
			t.Errorf("%v: %+v, %+v", wrong, r, held.list)
		}
	}
}

// What link-semantics section 12 asks of who gives orders, and of a link's principal at its source.
func TestC76_RolesSufficeForLinksAndMirrors(t *testing.T) {
	for role, c := range map[string]struct {
		on   []string
		need []string // operation, resource
	}{
		"CloudClusterAdmin": {nil, []string{"ALTER CLUSTER", "DESCRIBE CLUSTER", "ALTER_CONFIGS CLUSTER", "CREATE TOPIC", "DESCRIBE TOPIC", "ALTER TOPIC"}},
		"Operator":          {nil, []string{"ALTER CLUSTER", "DESCRIBE CLUSTER", "DESCRIBE TOPIC"}},
		"LinkSource":        {[]string{"--topic", "orders", "--consumer-group", "g"}, []string{"READ TOPIC", "DESCRIBE_CONFIGS TOPIC", "DESCRIBE TOPIC", "READ GROUP", "DESCRIBE GROUP", "DESCRIBE CLUSTER"}},
	} {
		held := &heldACLs{}
		url := resttest.New(t, func(d *rest.Deps) { d.ACLs = held }).Serve(t)
		ok(t, url, append([]string{"acl", "grant-role", role, "--principal", "User:x"}, c.on...)...)
		for _, need := range c.need {
			op, kind, _ := strings.Cut(need, " ")
			if !slices.ContainsFunc(held.list, func(a rest.ACL) bool { return a.ResourceType == kind && (a.Operation == op || a.Operation == "ALL") }) {
				t.Errorf("%s does not grant %s", role, need)
			}
		}
	}
}
