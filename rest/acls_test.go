package rest_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest"
	"github.com/hawserio/hawser/rest/resttest"
)

// someACLs keeps rules in memory.
type someACLs struct{ list []rest.ACL }

func (s *someACLs) match(f rest.ACL) func(rest.ACL) bool {
	is := func(want, have string) bool { return want == "" || want == "ANY" || want == have }
	return func(a rest.ACL) bool {
		return is(f.ResourceType, a.ResourceType) && is(f.ResourceName, a.ResourceName) && is(f.Principal, a.Principal) && is(f.Operation, a.Operation)
	}
}

func (s *someACLs) ListACLs(_ context.Context, f rest.ACL) ([]rest.ACL, error) {
	if f.ResourceType == "UNKNOWN" {
		return nil, kafka.Errorf(kafka.InvalidRequest, "The filter holds UNKNOWN; ANY stands for everything.")
	}
	return slices.DeleteFunc(slices.Clone(s.list), func(a rest.ACL) bool { return !s.match(f)(a) }), nil
}

func (s *someACLs) CreateACLs(_ context.Context, acls []rest.ACL) error {
	for _, a := range acls {
		if !strings.Contains(a.Principal, ":") {
			return kafka.Errorf(kafka.InvalidRequest, "Principal '%s' is not of the form Type:name, as User:alice.", a.Principal)
		}
	}
	s.list = append(s.list, acls...)
	return nil
}

func (s *someACLs) DeleteACLs(ctx context.Context, f rest.ACL) ([]rest.ACL, error) {
	gone, err := s.ListACLs(ctx, f)
	s.list = slices.DeleteFunc(s.list, s.match(f))
	return gone, err
}

func TestACLsAreMadeShownAndDeleted(t *testing.T) {
	kept := &someACLs{}
	c := resttest.New(t, func(d *rest.Deps) { d.ACLs = kept })
	const alice = `{"resource_type":"TOPIC","resource_name":"orders","pattern_type":"LITERAL","principal":"User:alice","host":"*","operation":"READ","permission":"ALLOW"}`
	mustDo(t, c, 201, "POST", base+"/acls", alice)
	mustDo(t, c, 201, "POST", base+"/acls:batch", `{"data":[`+strings.ReplaceAll(alice, "alice", "bob")+`,`+strings.ReplaceAll(alice, "READ", "write")+`]}`)
	if len(kept.list) != 3 || kept.list[2].Operation != "WRITE" {
		t.Fatalf("kept %+v", kept.list)
	}
	if got := mustDo(t, c, 200, "GET", base+"/acls?principal=User:bob", ""); strings.Count(got, `"kind":"KafkaAcl"`) != 1 {
		t.Errorf("a filter for one answers %s", got)
	}
	mustDo(t, c, 400, "POST", base+"/acls", strings.ReplaceAll(alice, "User:alice", "alice"))
	mustDo(t, c, 400, "GET", base+"/acls?resource_type=unknown", "")
	mustDo(t, c, 400, "POST", base+"/acls:batch", `{"data":[]}`)
	mustDo(t, c, 400, "DELETE", base+"/acls", "")
	if len(kept.list) != 3 {
		t.Fatalf("a DELETE that says nothing left %d of 3", len(kept.list))
	}
	gone := mustDo(t, c, 200, "DELETE", base+"/acls?resource_type=ANY&pattern_type=ANY&operation=ANY&permission=ANY&principal=User:alice", "")
	if strings.Count(gone, "User:alice") < 2 || len(kept.list) != 1 {
		t.Errorf("DELETE answered %s and left %+v", gone, kept.list)
	}
}

func TestACLsWithoutAnAuthorizer(t *testing.T) {
	c := resttest.New(t)
	got := mustDo(t, c, 400, "GET", base+"/acls", "")
	if !strings.Contains(got, "authorizer.class.name") {
		t.Errorf("the answer does not say what to do: %s", got)
	}
}
