package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/hawserio/hawser/rest/api"
)

// NewLink orders a link.
type NewLink struct {
	Name         string
	Body         api.CreateLinkRequest
	SkipValidate bool // do not reach the other cluster first
	ValidateOnly bool
}

// Links lists the links.
func (c *Client) Links(ctx context.Context) ([]api.Link, error) {
	var out api.List[api.Link]
	err := c.do(ctx, request{method: http.MethodGet, path: []string{"links"}}, &out)
	return out.Data, err
}

// CreateLink makes a link. The answer is empty with ValidateOnly.
func (c *Client) CreateLink(ctx context.Context, link NewLink) (api.Link, error) {
	query := url.Values{"link_name": {link.Name}, "validate_link": {strconv.FormatBool(!link.SkipValidate)},
		"validate_only": {strconv.FormatBool(link.ValidateOnly)}}
	if link.Body.Configs == nil {
		link.Body.Configs = []api.ConfigData{}
	}
	var out api.Link
	err := c.do(ctx, request{method: http.MethodPost, path: []string{"links"}, query: query, body: link.Body}, &out)
	return out, err
}

// Link describes a link with its tasks.
func (c *Client) Link(ctx context.Context, name string) (api.Link, error) {
	var out api.Link
	err := c.do(ctx, request{method: http.MethodGet, path: linkPath(name), query: flags(map[string]bool{"include_tasks": true})}, &out)
	return out, err
}

// DeleteOptions say how a link is deleted.
type DeleteOptions struct {
	Force        bool // even with live mirrors
	ValidateOnly bool
}

// DeleteLink deletes a link.
func (c *Client) DeleteLink(ctx context.Context, name string, opts DeleteOptions) error {
	query := flags(map[string]bool{"force": opts.Force, "validate_only": opts.ValidateOnly})
	return c.do(ctx, request{method: http.MethodDelete, path: linkPath(name), query: query}, nil)
}

// LinkConfigs lists all configs of a link.
func (c *Client) LinkConfigs(ctx context.Context, name string) ([]api.LinkConfig, error) {
	var out api.List[api.LinkConfig]
	err := c.do(ctx, request{method: http.MethodGet, path: linkPath(name, "configs")}, &out)
	return out.Data, err
}

// AlterLinkConfigs changes configs of a link, all or none.
func (c *Client) AlterLinkConfigs(ctx context.Context, name string, changes []api.AlterConfig, mode Mode) error {
	return c.alterLink(ctx, name, changes, mode.query())
}

// TryLinkConfigs is AlterLinkConfigs, but changes nothing if the other cluster cannot be reached with what the configs would be.
func (c *Client) TryLinkConfigs(ctx context.Context, name string, changes []api.AlterConfig, mode Mode) error {
	query := mode.query()
	query.Set("validate_link", "true")
	return c.alterLink(ctx, name, changes, query)
}

func (c *Client) alterLink(ctx context.Context, name string, changes []api.AlterConfig, query url.Values) error {
	return c.do(ctx, request{method: http.MethodPut, path: linkPath(name, "configs:alter"), query: query,
		body: api.AlterConfigsRequest{Data: changes}}, nil)
}

// Mode is whether an order is carried out.
type Mode int

// The modes.
const (
	Do           Mode = iota
	ValidateOnly      // answer as if it were done
)

func (m Mode) query() url.Values { return flags(map[string]bool{"validate_only": m == ValidateOnly}) }

func linkPath(name string, rest ...string) []string {
	return append([]string{"links", url.PathEscape(name)}, rest...)
}

// AnyLink stands for all links in Mirrors.
const AnyLink = "-"

// Mirrors lists the mirrors of a link, or of AnyLink; status "" is all of them.
func (c *Client) Mirrors(ctx context.Context, link, status string) ([]api.Mirror, error) {
	query := url.Values{}
	if status != "" {
		query.Set("mirror_status", status)
	}
	var out api.List[api.Mirror]
	err := c.do(ctx, request{method: http.MethodGet, path: linkPath(link, "mirrors"), query: query}, &out)
	return out.Data, err
}

// CreateMirror makes a mirror topic.
func (c *Client) CreateMirror(ctx context.Context, link string, body api.CreateMirrorRequest) (api.Mirror, error) {
	return c.createMirror(ctx, link, body, Do)
}

// ValidateMirror asks the source and checks all that CreateMirror would, and makes nothing.
func (c *Client) ValidateMirror(ctx context.Context, link string, body api.CreateMirrorRequest) error {
	_, err := c.createMirror(ctx, link, body, ValidateOnly)
	return err
}

func (c *Client) createMirror(ctx context.Context, link string, body api.CreateMirrorRequest, mode Mode) (api.Mirror, error) {
	if body.Configs == nil {
		body.Configs = []api.ConfigData{}
	}
	var out api.Mirror
	err := c.do(ctx, request{method: http.MethodPost, path: linkPath(link, "mirrors"), query: mode.query(), body: body}, &out)
	return out, err
}

// Mirror describes a mirror topic with its state-transition errors.
func (c *Client) Mirror(ctx context.Context, link, topic string) (api.Mirror, error) {
	var out api.Mirror
	query := flags(map[string]bool{"include_state_transition_errors": true})
	err := c.do(ctx, request{method: http.MethodGet, path: linkPath(link, "mirrors", url.PathEscape(topic)), query: query}, &out)
	return out, err
}

// Order gives a verb, as "promote" or "reverse-and-start-mirror", to mirrors of a link; two take a query behind it, as
// "failover?force=true" and "truncate-and-restore?paused=true". A topic that failed has its error in the answer; the
// error of the call is nil then.
func (c *Client) Order(ctx context.Context, link, verb string, topics api.AlterMirrorsRequest, mode Mode) ([]api.AlteredMirror, error) {
	query := mode.query()
	verb, more, _ := strings.Cut(verb, "?")
	if name, value, is := strings.Cut(more, "="); is {
		query.Set(name, value)
	}
	if verb == "truncate-and-restore" {
		query.Set("include_partition_level_truncation_data", "true")
	}
	var out api.List[api.AlteredMirror]
	err := c.do(ctx, request{method: http.MethodPost, path: linkPath(link, "mirrors:"+verb), query: query, body: topics}, &out)
	return out.Data, err
}

// StartVerification begins to compare a mirror with its source.
func (c *Client) StartVerification(ctx context.Context, link, topic string) (api.Verification, error) {
	var out api.Verification
	err := c.do(ctx, request{method: http.MethodPost, path: linkPath(link, "mirrors", url.PathEscape(topic), "verification")}, &out)
	return out, err
}

// Verification is the last one of a mirror; it runs while its Finished is nil.
func (c *Client) Verification(ctx context.Context, link, topic string) (api.Verification, error) {
	var out api.Verification
	err := c.do(ctx, request{method: http.MethodGet, path: linkPath(link, "mirrors", url.PathEscape(topic), "verification")}, &out)
	return out, err
}
