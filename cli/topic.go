package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

func (a *app) topic() *cobra.Command {
	return a.group("topic", "Topics of this cluster",
		a.topicList(), a.topicCreate(), a.topicDescribe(), a.topicDelete(), a.topicUpdate("update"),
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
		c, err := a.client()
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
		c, err := a.client()
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
		return a.say("%sCreated topic \"%s\".", dryRunMark(dryRun), args[0])
	}
	return cmd
}

func (a *app) topicDescribe() *cobra.Command {
	cmd := &cobra.Command{Use: "describe <topic>", Short: "Describe a topic", Args: exactArgs("<topic>")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		t, err := c.Topic(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printOne(a, topicRowOf(t))
	}
	return cmd
}

func (a *app) topicDelete() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{Use: "delete <topic-1> [topic-2 …]", Short: "Delete topics; a mirror goes with its topic", Args: atLeastOne("<topic>")}
	cmd.Flags().BoolVar(&quiet, "force", false, "taken for the sake of scripts: nothing is ever asked")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		for _, name := range args {
			if err := c.DeleteTopic(cmd.Context(), name); err != nil {
				return err
			}
			if err := a.say("Deleted topic \"%s\".", name); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

type topicConfigRow struct {
	Name     string `human:"Name" json:"name"`
	Value    string `human:"Value" json:"value"`
	ReadOnly bool   `human:"Read-Only" json:"is_read_only"`
	Source   string `human:"Source" json:"source"`
}

func (a *app) topicConfigList() *cobra.Command {
	cmd := &cobra.Command{Use: "list <topic>", Short: "List all configs of a topic; -o json shows long values whole", Args: exactArgs("<topic>")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
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
	cmd := &cobra.Command{Use: use + " <topic>", Short: "Change configs of a topic, or raise its number of partitions", Args: exactArgs("<topic>")}
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
		c, err := a.client()
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
