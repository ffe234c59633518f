package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

func (a *app) config() *cobra.Command {
	return a.group("config", "Configs of topics and brokers", a.configDescribe(), a.configAlter())
}

// configTarget is whose configs are meant.
type configTarget struct{ topic, broker string }

func (t *configTarget) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.topic, "topic", "", "a topic's")
	cmd.Flags().StringVar(&t.broker, "broker", "", "a broker's, by its `ID`; all is the defaults of all brokers")
	cmd.MarkFlagsMutuallyExclusive("topic", "broker")
	cmd.MarkFlagsOneRequired("topic", "broker")
}

// brokerID reads --broker.
func (t *configTarget) brokerID() (int32, error) {
	if t.broker == "all" {
		return client.EveryBroker, nil
	}
	id, err := strconv.ParseInt(t.broker, 10, 32)
	if err != nil || id < 0 {
		return 0, errors.New("--broker takes a broker's id, or all")
	}
	return int32(id), nil
}

func (a *app) configDescribe() *cobra.Command {
	var t configTarget
	var all bool
	cmd := &cobra.Command{Use: "describe", Short: "Show the configs that were set, with --all those at their default too", Args: noArgs,
		Example: "  hawser config describe --topic orders\n  hawser config describe --broker 1 --all"}
	t.bind(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "also configs at their default")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		var rows []configRow
		add := func(row configRow, isDefault bool) {
			if all || !isDefault {
				rows = append(rows, row)
			}
		}
		if t.topic != "" {
			configs, err := c.TopicConfigs(cmd.Context(), t.topic)
			if err != nil {
				return err
			}
			for _, cfg := range configs {
				add(configRow{cfg.Name, a.fitting(text(cfg.Value)), cfg.IsReadOnly, cfg.IsSensitive, cfg.Source, synonymTexts(cfg.Synonyms)},
					cfg.IsDefault)
			}
			return printRows(a, rows)
		}
		broker, err := t.brokerID()
		if err != nil {
			return err
		}
		configs, err := c.BrokerConfigs(cmd.Context(), broker)
		if err != nil {
			return err
		}
		for _, cfg := range configs {
			add(configRow{cfg.Name, a.fitting(text(cfg.Value)), cfg.IsReadOnly, cfg.IsSensitive, cfg.Source, synonymTexts(cfg.Synonyms)},
				cfg.IsDefault)
		}
		return printRows(a, rows)
	}
	return cmd
}

func (a *app) configAlter() *cobra.Command {
	var t configTarget
	var files, configs, remove []string
	var dryRun bool
	cmd := &cobra.Command{Use: "alter", Short: "Set configs, or put them back to their default", Args: noArgs,
		Example: "  hawser config alter --topic orders --config retention.ms=3600000\n" +
			"  hawser config alter --broker all --delete log.retention.ms"}
	t.bind(cmd)
	configFlags(cmd, &configs, &files)
	cmd.Flags().StringSliceVar(&remove, "delete", nil, "`NAMES` to put back to their default")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say whether it would be done")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		set, err := readConfigs(files, configs)
		if err != nil {
			return err
		}
		changes := alterations(set, remove)
		if len(changes) == 0 {
			return errors.New("nothing to change: say --config key=value or --delete key")
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		if err := t.alter(cmd, c, changes, mode(dryRun)); err != nil {
			return err
		}
		return a.say("%sChanged %d configs.", dryRunMark(dryRun), len(changes))
	}
	return cmd
}

// synonymTexts are the layers that a value may come from, nearest first.
func synonymTexts(synonyms []api.ConfigSynonym) []string {
	texts := []string{}
	for _, one := range synonyms {
		texts = append(texts, one.Name+"="+text(one.Value)+" ("+one.Source+")")
	}
	return texts
}

func (t *configTarget) alter(cmd *cobra.Command, c *client.Client, changes []api.AlterConfig, mode client.Mode) error {
	if t.topic != "" {
		return c.AlterTopicConfigs(cmd.Context(), t.topic, changes, mode)
	}
	broker, err := t.brokerID()
	if err != nil {
		return err
	}
	return c.AlterBrokerConfigs(cmd.Context(), broker, changes, mode)
}
