package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) mirrorUpdate() *cobra.Command {
	var link string
	var files, configs, remove []string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "update <mirror-topic>", Short: "Override configs of a mirror topic", Args: exactArgs("<mirror-topic>"),
		Long: "Override configs of a mirror topic. Those that are synced from the source refuse; what is synced says the\n" +
			"link's topic.config.sync.include.",
		Example: "  hawser mirror update orders --config retention.ms=604800000\n  hawser mirror update orders --remove retention.ms",
	}
	linkFlag(cmd, &link)
	configFlags(cmd, &configs, &files)
	cmd.Flags().StringSliceVar(&remove, "remove", nil, "configs to put back to their defaults")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say whether it would be done")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set, err := readConfigs(files, configs)
		if err != nil {
			return err
		}
		if len(set)+len(remove) == 0 {
			return fmt.Errorf("nothing to change. Give --config key=value or --remove key")
		}
		m, err := a.findMirror(cmd, link, args[0])
		if err != nil {
			return err
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		if err := c.AlterTopicConfigs(cmd.Context(), m.MirrorTopicName, alterations(set, remove), mode(dryRun)); err != nil {
			return err
		}
		return a.say("%sUpdated mirror topic \"%s\".", dryRunMark(dryRun), m.MirrorTopicName)
	}
	return cmd
}
