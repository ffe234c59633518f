package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

func (a *app) mirrorCreate() *cobra.Command {
	var link, source string
	var replication int32
	var files, configs []string
	var wait, dryRun bool
	cmd := &cobra.Command{
		Use: "create <topic>", Short: "Create a mirror topic", Args: exactArgs("<topic>"),
		Long: "Create a mirror topic of the source topic of that name. On a link with a prefix the mirror's name differs:\n" +
			"then --source-topic is the source's name and <topic> the mirror's.",
		Example: "  hawser mirror create orders --link my-link --wait\n  hawser mirror create eu.orders --source-topic orders --link eu",
	}
	flags := cmd.Flags()
	flags.StringVar(&link, "link", "", "the `link` to mirror over (required)")
	flags.StringVar(&source, "source-topic", "", "the source topic's `name`, where it is not the mirror's")
	flags.Int32Var(&replication, "replication-factor", 0, "replication factor (default: the broker's)")
	configFlags(cmd, &configs, &files)
	flags.BoolVar(&dryRun, "dry-run", false, "ask the source, check everything and create nothing")
	flags.BoolVar(&wait, "wait", false, "wait until everything the source had is mirrored, and show how far it is")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if link == "" {
			return errors.New("--link is missing: the link to mirror over. 'hawser link list' shows those there are")
		}
		set, err := readConfigs(files, configs)
		if err != nil {
			return err
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		body := api.CreateMirrorRequest{SourceTopicName: args[0], Configs: configData(set)}
		if source != "" && source != args[0] {
			body.SourceTopicName, body.MirrorTopicName = source, args[0]
		}
		if cmd.Flags().Changed("replication-factor") {
			body.ReplicationFactor = &replication
		}
		if dryRun {
			if err := c.ValidateMirror(cmd.Context(), link, body); err != nil {
				return prefixed(cmd.Context(), c, link, body, err)
			}
			return a.say("%sCreated mirror topic \"%s\".", dryRunMark(dryRun), args[0])
		}
		m, err := c.CreateMirror(cmd.Context(), link, body)
		if err != nil {
			return prefixed(cmd.Context(), c, link, body, err)
		}
		if err := a.say("Created mirror topic \"%s\".", m.MirrorTopicName); err != nil || !wait {
			return err
		}
		return a.waitCaughtUp(cmd.Context(), c, link, m.MirrorTopicName)
	}
	return cmd
}

// prefixed adds to a refusal what to type on a link whose mirrors have a prefix.
func prefixed(ctx context.Context, c *client.Client, link string, body api.CreateMirrorRequest, refused error) error {
	var answer *client.Error
	if body.MirrorTopicName != "" || !errors.As(refused, &answer) || answer.Status != http.StatusBadRequest {
		return refused
	}
	configs, err := c.LinkConfigs(ctx, link)
	if err != nil {
		return refused
	}
	for _, cfg := range configs {
		if prefix := text(cfg.Value); cfg.Name == "cluster.link.prefix" && prefix != "" {
			topic := body.SourceTopicName
			return fmt.Errorf("%w\nSay: hawser mirror create %s%s --source-topic %s --link %s", refused, prefix, topic, topic, link)
		}
	}
	return refused
}
