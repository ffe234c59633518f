package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

func (a *app) topic() *cobra.Command {
	return a.group("topic", "Topics of this cluster",
		a.topicList(), a.topicCreate(), a.topicDescribe(), a.topicDelete(), a.topicUpdate("update"), a.produce("produce"), a.consume("consume"),
		a.group("configuration", "Configs of a topic", a.topicConfigList(), a.topicUpdate("update")))
}

type topicRow struct {
	Name        string `human:"Name" json:"name"`
	Internal    bool   `human:"Internal" json:"is_internal"`
	Replication int32  `human:"Replication Factor" json:"replication_factor"`
	Partitions  int32  `human:"Partition Count" json:"partition_count"`
}

func topicRowOf(t api.Topic) topicRow {
	return topicRow{t.TopicName, t.IsInternal, t.ReplicationFactor, t.PartitionsCount}
}

func (a *app) topicList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the topics", Args: noArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		topics, err := c.Topics(cmd.Context())
		if err != nil {
			return err
		}
		var rows []topicRow
		for _, t := range topics {
			rows = append(rows, topicRowOf(t))
		}
		return printRows(a, rows)
	}
	return cmd
}

func (a *app) topicCreate() *cobra.Command {
	var partitions, replication int32
	var files, configs []string
	var dryRun, ifNotExists bool
	cmd := &cobra.Command{Use: "create <topic>", Short: "Create a topic", Args: exactArgs("<topic>"),
		Example: "  hawser topic create orders --partitions 12 --config cleanup.policy=compact"}
	flags := cmd.Flags()
	flags.Int32Var(&partitions, "partitions", 0, "number of partitions (default: the broker's)")
	flags.Int32Var(&replication, "replication-factor", 0, "replication factor (default: the broker's)")
	configFlags(cmd, &configs, &files)
	flags.BoolVar(&dryRun, "dry-run", false, "only say whether it would be done")
	flags.BoolVar(&ifNotExists, "if-not-exists", false, "succeed if the topic exists, whatever it is like")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set, err := readConfigs(files, configs)
		if err != nil {
			return err
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		if ifNotExists {
			if _, err := c.Topic(cmd.Context(), args[0]); err == nil {
				return a.say("Topic \"%s\" exists.", args[0])
			} else if !client.NotFound(err) {
				return err
			}
		}
		body := api.CreateTopicRequest{TopicName: args[0], Configs: configData(set), ValidateOnly: dryRun}
		if cmd.Flags().Changed("partitions") {
			body.PartitionsCount = &partitions
		}
		if cmd.Flags().Changed("replication-factor") {
			body.ReplicationFactor = &replication
		}
		if _, err := c.CreateTopic(cmd.Context(), body); err != nil {
			return err
		}
		if replication > 1 {
			if brokers, err := c.Brokers(cmd.Context()); err == nil && int(replication) > len(brokers) {
				fmt.Fprintf(a.err, "Note: the replication factor %d is kept, but there are %d brokers: each partition has one copy on disk.\n",
					replication, len(brokers))
			}
		}
		return a.say("%sCreated topic \"%s\".", dryRunMark(dryRun), args[0])
	}
	return cmd
}

func (a *app) topicDescribe() *cobra.Command {
	cmd := &cobra.Command{Use: "describe <topic>", Short: "Describe a topic", Args: exactArgs("<topic>")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		t, err := c.Topic(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if err := printOne(a, topicRowOf(t)); err != nil || a.format != "human" {
			return err
		}
		live, err := liveMirrors(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		if m, is := live[args[0]]; is {
			return a.say("\nA mirror topic of \"%s\" over link \"%s\", %s: 'hawser mirror describe %s' says how far it is.", m.SourceTopicName, m.LinkName, m.MirrorStatus, m.MirrorTopicName)
		}
		return nil
	}
	return cmd
}

func (a *app) topicDelete() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{Use: "delete <topic-1> [topic-2 …]", Short: "Delete topics; a mirror goes with its topic",
		Args: atLeastOne("<topic>"),
		Long: "Delete topics. Deleting a mirror topic ends its mirroring for good and takes the copy with it. At a terminal it is " +
			"asked for first."}
	cmd.Flags().BoolVar(&quiet, "force", false, "do not ask before a live mirror topic is deleted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		live, err := liveMirrors(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		if len(live) > 0 && !quiet {
			if err := a.confirmMirrors(live); err != nil {
				return err
			}
		}
		return a.each(args, func(name string) error {
			if err := c.DeleteTopic(cmd.Context(), name); err != nil {
				return err
			}
			if err := a.say("Deleted topic \"%s\".", name); err != nil {
				return err
			}
			if m, is := live[name]; is {
				a.warnMirror(cmd.Context(), c, m)
			}
			return nil
		})
	}
	return cmd
}

// each does something to every name, says of each that failed why, and fails if one did.
func (a *app) each(names []string, do func(name string) error) error {
	bad := 0
	for _, name := range names {
		err := do(name)
		if err == nil {
			continue
		}
		if len(names) == 1 {
			return err
		}
		bad++
		fmt.Fprintf(a.err, "%s: %s\n", clean(name), a.explain(err))
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d failed; see the lines above", bad, len(names))
	}
	return nil
}

// liveMirrors is those of the topics that are mirrors and not stopped.
func liveMirrors(ctx context.Context, c *client.Client, topics []string) (map[string]api.Mirror, error) {
	mirrors, err := c.Mirrors(ctx, client.AnyLink, "")
	if refused := new(client.Error); errors.As(err, &refused) && refused.Status == http.StatusForbidden {
		return nil, nil // who may delete or describe a topic need not see the links
	}
	if err != nil {
		return nil, err
	}
	live := map[string]api.Mirror{}
	for _, m := range mirrors {
		if slices.Contains(topics, m.MirrorTopicName) && m.MirrorStatus != "STOPPED" {
			live[m.MirrorTopicName] = m
		}
	}
	return live, nil
}

// confirmMirrors asks a person; a script, which cannot answer, is warned afterwards.
func (a *app) confirmMirrors(live map[string]api.Mirror) error {
	if !isTerminal(a.in()) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(live)) {
		fmt.Fprintf(a.err, "Topic \"%s\" is a mirror topic of link \"%s\" (%s): this ends its mirroring for good and deletes the "+
			"copy. Type its name to go on: ", clean(name), clean(live[name].LinkName), live[name].MirrorStatus)
		var answer string
		_, _ = fmt.Fscanln(a.in(), &answer)
		if answer != name {
			return errors.New("nothing was deleted. 'hawser mirror promote' or 'failover' keep the topic and stop mirroring; --force " +
				"deletes without asking")
		}
	}
	return nil
}

// warnMirror says what the deletion of a mirror topic meant, and whether it comes back.
func (a *app) warnMirror(ctx context.Context, c *client.Client, m api.Mirror) {
	fmt.Fprintf(a.err, "Warning: \"%s\" was a mirror topic of link \"%s\" (%s); its mirroring has ended for good.\n",
		clean(m.MirrorTopicName), clean(m.LinkName), m.MirrorStatus)
	configs, err := c.LinkConfigs(ctx, m.LinkName)
	if err != nil {
		return
	}
	for _, cfg := range configs {
		if cfg.Name == "auto.create.mirror.topics.enable" && text(cfg.Value) == "true" {
			fmt.Fprintf(a.err, "Link \"%s\" creates mirror topics by itself: if its filters include source topic \"%s\", the mirror "+
				"comes back with its whole history. Exclude it in auto.create.mirror.topics.filters.\n", clean(m.LinkName), clean(m.SourceTopicName))
		}
	}
}

type topicConfigRow struct {
	Name     string `human:"Name" json:"name"`
	Value    string `human:"Value" json:"value"`
	ReadOnly bool   `human:"Read-Only" json:"is_read_only"`
	Source   string `human:"Source" json:"source"`
}

func (a *app) topicConfigList() *cobra.Command {
	cmd := &cobra.Command{Use: "list <topic>", Short: "List all configs of a topic; -o json shows long values whole",
		Args: exactArgs("<topic>")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		configs, err := c.TopicConfigs(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		var rows []topicConfigRow
		for _, cfg := range configs {
			rows = append(rows, topicConfigRow{cfg.Name, a.fitting(text(cfg.Value)), cfg.IsReadOnly, cfg.Source})
		}
		return printRows(a, rows)
	}
	return cmd
}

// topicUpdate is `topic update` and `topic configuration update`.
func (a *app) topicUpdate(use string) *cobra.Command {
	var files, configs, remove []string
	var partitions int32
	var dryRun bool
	cmd := &cobra.Command{Use: use + " <topic>", Short: "Change configs of a topic, or raise its number of partitions",
		Args: exactArgs("<topic>")}
	configFlags(cmd, &configs, &files)
	cmd.Flags().StringSliceVar(&remove, "remove", nil, "configs to put back to their defaults")
	cmd.Flags().Int32Var(&partitions, "partitions", 0, "the new number of partitions; it can only rise")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say whether it would be done")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set, err := readConfigs(files, configs)
		if err != nil {
			return err
		}
		more := cmd.Flags().Changed("partitions")
		switch changes := alterations(set, remove); {
		case len(changes) == 0 && !more:
			return errors.New("nothing to change. Give --config key=value, --remove key or --partitions N")
		case more && dryRun:
			return fmt.Errorf("--dry-run does not go with --partitions")
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		if changes := alterations(set, remove); len(changes) > 0 {
			if err := c.AlterTopicConfigs(cmd.Context(), args[0], changes, mode(dryRun)); err != nil {
				return err
			}
		}
		if more {
			if _, err := c.AddPartitions(cmd.Context(), args[0], partitions); err != nil {
				return err
			}
		}
		return a.say("%sUpdated topic \"%s\".", dryRunMark(dryRun), args[0])
	}
	return cmd
}
