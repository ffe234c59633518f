package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

// linksFlags is what kafka-cluster-links was told beside the action.
type linksFlags struct {
	link, remote            string
	configs, files          []string
	filters                 map[string]*filterFlags // by the link config that they set
	withTopics, noValidate  bool
	validateOnly, forceFlag bool
}

// filterFlags is one set of filters, as JSON or as a file with it.
type filterFlags struct{ flag, json, file string }

func (a *app) kafkaClusterLinks() *cobra.Command {
	f := &linksFlags{filters: map[string]*filterFlags{
		"acl.filters":                       {flag: "acl-filters-json"},
		"consumer.offset.group.filters":     {flag: "consumer-group-filters-json"},
		"auto.create.mirror.topics.filters": {flag: "topic-filters-json"},
	}}
	cmd := a.tool(linksTool, "Cluster links, with the flags of the tool of that name",
		"  kafka-cluster-links --create --link my-link --config bootstrap.servers=source:9092 --bootstrap-server localhost:9092\n"+
			"  kafka-cluster-links --list --include-topics --bootstrap-server localhost:9092", []action{
			{"create", "create a link", func(cmd *cobra.Command, c *client.Client) error { return a.toolCreateLink(cmd.Context(), c, f) }},
			{"list", "list the links", func(cmd *cobra.Command, c *client.Client) error { return a.toolListLinks(cmd.Context(), c, f) }},
			{"describe", "describe links with their configs",
				func(cmd *cobra.Command, c *client.Client) error { return a.toolDescribeLinks(cmd.Context(), c, f) }},
			{"delete", "delete a link", func(cmd *cobra.Command, c *client.Client) error { return a.toolDeleteLink(cmd.Context(), c, f) }},
		})
	flags := cmd.Flags()
	flags.StringVar(&f.link, "link", "", "the `link`")
	flags.StringVar(&f.link, "link-name", "", "the same as --link")
	flags.StringVar(&f.remote, "cluster-id", "", "with --create: the other cluster's `id`")
	configFlags(cmd, &f.configs, &f.files)
	for _, filter := range f.filters {
		flags.StringVar(&filter.json, filter.flag, "", "with --create: filters as `JSON`")
		flags.StringVar(&filter.file, filter.flag+"-file", "", "with --create: a `file` with them")
	}
	flags.BoolVar(&f.withTopics, "include-topics", false, "name the mirror topics of each link")
	flags.BoolVar(&f.noValidate, "exclude-validate-link", false, "with --create: do not reach the other cluster first")
	flags.BoolVar(&f.validateOnly, "validate-only", false, "with --create and --delete: check everything and change nothing")
	flags.BoolVar(&f.forceFlag, "force", false, "with --delete: also with live mirror topics, which stop where they are")
	return cmd
}

func (a *app) toolCreateLink(ctx context.Context, c *client.Client, f *linksFlags) error {
	if f.link == "" {
		return errors.New("--create needs --link")
	}
	set, err := readConfigs(f.files, f.configs)
	if err != nil {
		return err
	}
	for key, filter := range f.filters {
		if filter.file != "" {
			raw, err := os.ReadFile(filter.file)
			if err != nil {
				return fmt.Errorf("--%s-file: %w", filter.flag, err)
			}
			filter.json = strings.TrimSpace(string(raw))
		}
		if filter.json != "" {
			set[key] = filter.json
		}
	}
	order := client.NewLink{Name: f.link, Body: api.CreateLinkRequest{RemoteClusterID: f.remote, Configs: configData(set)},
		SkipValidate: f.noValidate, ValidateOnly: f.validateOnly}
	if _, err := c.CreateLink(ctx, order); err != nil {
		return err
	}
	if f.validateOnly {
		return a.say("Cluster link '%s' can be created; nothing was changed.", f.link)
	}
	return a.say("Cluster link '%s' creation successfully completed.", f.link)
}

// links is those that --link means, all without it.
func (f *linksFlags) links(ctx context.Context, c *client.Client) ([]api.Link, error) {
	if f.link == "" {
		return c.Links(ctx)
	}
	l, err := c.Link(ctx, f.link)
	if err != nil {
		return nil, err
	}
	return []api.Link{l}, nil
}

func (a *app) toolListLinks(ctx context.Context, c *client.Client, f *linksFlags) error {
	links, err := f.links(ctx, c)
	if err != nil {
		return err
	}
	local, err := c.ClusterID(ctx)
	if err != nil {
		return err
	}
	for _, l := range links {
		line := fmt.Sprintf("Link name: '%s', link ID: '%s', remote cluster ID: '%s', local cluster ID: '%s', remote cluster "+
			"available: '%t', link state: '%s'",
			l.LinkName, l.ClusterLinkID, text(l.RemoteClusterID), local, l.LinkState == "ACTIVE", l.LinkState)
		if f.withTopics {
			line += ", topics: [" + strings.Join(l.TopicNames, ", ") + "]"
		}
		if err := a.say("%s", line); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) toolDescribeLinks(ctx context.Context, c *client.Client, f *linksFlags) error {
	links, err := f.links(ctx, c)
	if err != nil {
		return err
	}
	local, err := c.ClusterID(ctx)
	if err != nil {
		return err
	}
	for _, l := range links {
		configs, err := c.LinkConfigs(ctx, l.LinkName)
		if err != nil {
			return err
		}
		var pairs []string
		values := map[string]string{}
		for _, cfg := range configs {
			values[cfg.Name] = text(cfg.Value)
			if !cfg.IsSensitive {
				pairs = append(pairs, cfg.Name+"="+text(cfg.Value))
			}
		}
		err = a.say("Link name: '%s', link ID: '%s', remote cluster ID: '%s', local cluster ID: '%s', link mode: '%s', connection "+
			"mode: '%s', link state: '%s'%s, topics: [%s]\nConfigs: %s",
			l.LinkName, l.ClusterLinkID, text(l.RemoteClusterID), local, values["link.mode"], values["connection.mode"], l.LinkState,
			remoteState(l), strings.Join(l.TopicNames, ", "), strings.Join(pairs, ","))
		if err != nil {
			return err
		}
	}
	return nil
}

// remoteState is what a link with two halves shows of the other one.
func remoteState(l api.Link) string {
	if l.RemoteLinkState == "" {
		return ""
	}
	return ", remote link state: '" + l.RemoteLinkState + "'"
}

func (a *app) toolDeleteLink(ctx context.Context, c *client.Client, f *linksFlags) error {
	if f.link == "" {
		return errors.New("--delete needs --link")
	}
	if err := c.DeleteLink(ctx, f.link, client.DeleteOptions{Force: f.forceFlag, ValidateOnly: f.validateOnly}); err != nil {
		return err
	}
	if f.validateOnly {
		return a.say("Cluster link '%s' can be deleted; nothing was changed.", f.link)
	}
	return a.say("Cluster link '%s' deletion successfully completed.", f.link)
}
