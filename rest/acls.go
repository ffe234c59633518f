package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest/api"
)

// errNoACLs is the answer where everyone may do everything.
var errNoACLs = kafka.Errorf(kafka.SecurityDisabled,
	"This broker has no authorizer, so it has no ACLs. Start it with authorizer.class.name set.")

// listACLs shows the ACLs that the query means.
func listACLs(c *call) error {
	if c.ACLs == nil {
		return errNoACLs
	}
	found, err := c.ACLs.ListACLs(c.r.Context(), c.aclFilter())
	if err != nil {
		return err
	}
	return list(c, api.KindACLList, c.self("acls"), c.aclsJSON(found))
}

// aclFilter reads the query: an absent parameter matches everything.
func (c *call) aclFilter() ACL {
	q := c.r.URL.Query()
	upper := func(name string) string { return strings.ToUpper(q.Get(name)) }
	return ACL{
		ResourceType: upper("resource_type"), ResourceName: q.Get("resource_name"), PatternType: upper("pattern_type"),
		Principal: q.Get("principal"), Host: q.Get("host"), Operation: upper("operation"), Permission: upper("permission"),
	}
}

func (c *call) aclsJSON(acls []ACL) []api.ACL {
	var out []api.ACL
	for _, a := range acls {
		self := c.self("acls") + fmt.Sprintf("?resource_type=%s&resource_name=%s&pattern_type=%s&principal=%s&host=%s&operation=%s&permission=%s",
			a.ResourceType, url.QueryEscape(a.ResourceName), a.PatternType, url.QueryEscape(a.Principal), url.QueryEscape(a.Host),
			a.Operation, a.Permission)
		out = append(out, api.ACL{
			Kind: api.KindACL, Metadata: c.metadata(self, ""), ClusterID: c.Cluster.ID(),
			ResourceType: a.ResourceType, ResourceName: a.ResourceName, PatternType: a.PatternType,
			Principal: a.Principal, Host: a.Host, Operation: a.Operation, Permission: a.Permission,
		})
	}
	return out
}

// createACL makes one ACL; one that says the same already is no error, as for Kafka.
func createACL(c *call) error {
	var body api.CreateACLRequest
	if err := c.body(&body, bodyRequired); err != nil {
		return err
	}
	return c.makeACLs([]api.CreateACLRequest{body})
}

// createACLs makes several, all or none.
func createACLs(c *call) error {
	var body api.CreateACLsRequest
	if err := c.body(&body, bodyRequired); err != nil {
		return err
	}
	if len(body.Data) == 0 {
		return badRequest("data is empty; give at least one ACL.")
	}
	return c.makeACLs(body.Data)
}

func (c *call) makeACLs(wanted []api.CreateACLRequest) error {
	if c.ACLs == nil {
		return errNoACLs
	}
	var acls []ACL
	for _, w := range wanted {
		acls = append(acls, ACL{
			ResourceType: strings.ToUpper(w.ResourceType), ResourceName: w.ResourceName, PatternType: strings.ToUpper(w.PatternType),
			Principal: w.Principal, Host: w.Host, Operation: strings.ToUpper(w.Operation), Permission: strings.ToUpper(w.Permission),
		})
	}
	if err := c.ACLs.CreateACLs(c.r.Context(), acls); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusCreated)
	return nil
}

// deleteACLs deletes what the query means and shows it. What it means must be
// said: a forgotten parameter shall not take everything away.
func deleteACLs(c *call) error {
	if c.ACLs == nil {
		return errNoACLs
	}
	for _, name := range []string{"resource_type", "pattern_type", "operation", "permission"} {
		if c.r.URL.Query().Get(name) == "" {
			return badRequest("The query parameter %s is missing; %s=ANY means all of them.", name, name)
		}
	}
	removed, err := c.ACLs.DeleteACLs(c.r.Context(), c.aclFilter())
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, api.DeletedACLs{Data: append([]api.ACL{}, c.aclsJSON(removed)...)})
}
