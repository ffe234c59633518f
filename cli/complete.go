package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/client"
)

// completeTime bounds the question for names after a Tab: a shell must not hang on a broker that is gone.
const completeTime = 2 * time.Second

// names asks the cluster for the names that may stand in a place.
type names func(ctx context.Context, c *client.Client) ([]string, error)

func linkNames(ctx context.Context, c *client.Client) ([]string, error) {
	links, err := c.Links(ctx)
	var list []string
	for _, l := range links {
		list = append(list, l.LinkName)
	}
	return list, err
}

func mirrorNames(ctx context.Context, c *client.Client) ([]string, error) {
	mirrors, err := c.Mirrors(ctx, client.AnyLink, "")
	var list []string
	for _, m := range mirrors {
		list = append(list, m.MirrorTopicName)
	}
	return list, err
}

func topicNames(ctx context.Context, c *client.Client) ([]string, error) {
	topics, err := c.Topics(ctx)
	var list []string
	for _, t := range topics {
		list = append(list, t.TopicName)
	}
	return list, err
}

func groupNames(ctx context.Context, c *client.Client) ([]string, error) {
	groups, err := c.Groups(ctx)
	var list []string
	for _, g := range groups {
		list = append(list, g.ConsumerGroupID)
	}
	return list, err
}

// places are the arguments that name something there is, as commands write them in their usage.
var places = []struct {
	argument string
	names    names
}{{"<link", linkNames}, {"<mirror-topic", mirrorNames}, {"<topic", topicNames}, {"<group", groupNames}}

// complete gives every command below its shell completion. What a create names does not exist yet.
func (a *app) complete(cmd *cobra.Command) {
	for _, place := range places {
		if strings.Contains(cmd.Use, place.argument) && cmd.Name() != "create" {
			cmd.ValidArgsFunction = a.completing(place.names, strings.Contains(cmd.Use, "…"))
			break
		}
	}
	if cmd.Flags().Lookup("link") != nil && cmd.Name() != "import" {
		_ = cmd.RegisterFlagCompletionFunc("link", a.completing(linkNames, true)) // fails only where there is one already
	}
	for _, below := range cmd.Commands() {
		a.complete(below)
	}
}

// completing is a completion of names; of one argument, or of several without those given already.
func (a *app) completing(ask names, several bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		parent := cmd.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, cancel := context.WithTimeout(parent, completeTime)
		defer cancel()
		c, err := a.client(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, err := ask(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list = slices.DeleteFunc(list, func(name string) bool { return slices.Contains(args, name) || clean(name) != name })
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}
