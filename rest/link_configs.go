package rest

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest/api"
)

func listLinkConfigs(c *call) error {
	entries, err := c.Links.Configs(c.linkName())
	if err != nil {
		return err
	}
	entries = slices.SortedFunc(slices.Values(entries), func(a, b link.ConfigEntry) int { return cmp.Compare(a.Name, b.Name) })
	var out []api.LinkConfig
	for _, entry := range entries {
		out = append(out, c.linkConfigJSON(entry))
	}
	return list(c, api.KindLinkConfigList, c.self("links", escape(c.linkName()), "configs"), out)
}

func getLinkConfig(c *call) error {
	entries, err := c.Links.Configs(c.linkName())
	if err != nil {
		return err
	}
	name := c.r.PathValue("config_name")
	for _, entry := range entries {
		if entry.Name == name {
			return c.json(http.StatusOK, c.linkConfigJSON(entry))
		}
	}
	return notFound("Cluster link '%s' has no config '%s'. GET …/configs lists those it has.", c.linkName(), name)
}

func putLinkConfig(c *call) error {
	var rq api.UpdateConfigRequest
	if err := c.body(&rq, bodyRequired); err != nil {
		return err
	}
	if rq.Value == nil {
		return badRequest("The field 'value' is missing; to put a config back to its default use DELETE.")
	}
	return c.alterLink([]ConfigChange{{Name: c.r.PathValue("config_name"), Value: rq.Value}}, false)
}

func deleteLinkConfig(c *call) error {
	return c.alterLink([]ConfigChange{{Name: c.r.PathValue("config_name")}}, false)
}

func alterLinkConfigs(c *call) error {
	// Clients that exist change configs of links whose other cluster is away; so unlike for a new link this is for who asks for it.
	validate, err := c.queryBool("validate_link", false)
	if err != nil {
		return err
	}
	changes, validateOnly, err := c.alterRequest()
	if err != nil {
		return err
	}
	if validate {
		if err := c.Links.TryConfigs(c.r.Context(), c.linkName(), linkChanges(changes)); err != nil {
			return err
		}
	}
	return c.alterLink(changes, validateOnly)
}

func linkChanges(changes []ConfigChange) []link.AlterConfig {
	orders := make([]link.AlterConfig, 0, len(changes))
	for _, change := range changes {
		orders = append(orders, link.AlterConfig{Name: change.Name, Value: change.Value})
	}
	return orders
}

func (c *call) alterLink(changes []ConfigChange, validateOnly bool) error {
	orders := linkChanges(changes)
	if err := c.Links.AlterConfigs(c.r.Context(), c.linkName(), orders, validateOnly); err != nil {
		return err
	}
	return c.noContent()
}

func (c *call) linkConfigJSON(entry link.ConfigEntry) api.LinkConfig {
	out := api.LinkConfig{
		Kind:        api.KindLinkConfig,
		Metadata:    api.Metadata{Self: c.self("links", escape(c.linkName()), "configs", escape(entry.Name))},
		ClusterID:   c.Cluster.ID(),
		LinkName:    c.linkName(),
		Name:        entry.Name,
		Value:       entry.Value,
		IsDefault:   entry.Default,
		IsReadOnly:  entry.ReadOnly,
		IsSensitive: entry.Sensitive,
		Default:     entry.Default,
		ReadOnly:    entry.ReadOnly,
		Sensitive:   entry.Sensitive,
		Source:      api.SourceDynamicLink,
		Synonyms:    []string{},
	}
	if entry.Default {
		out.Source = api.SourceDefault
	}
	if entry.Sensitive {
		out.Value = nil // whatever came with it does not go out
	}
	return out
}
