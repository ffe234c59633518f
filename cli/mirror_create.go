package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

func (a *app) mirrorCreate() *cobra.Command {
	var link, source string
	var replication int32
	var files, configs []string
	var wait bool
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
	flags.BoolVar(&wait, "wait", false, "wait until everything the source had is mirrored, and show how far it is")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if link == "" {
			return errors.New("--link is missing: the link to mirror over. 'hawser link list' shows those there are")
		}
		set, err := readConfigs(files, configs)
		if err != nil {
			return err
		}
		c, err := a.client()
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
		m, err := c.CreateMirror(cmd.Context(), link, body)
		if err != nil {
			return err
		}
		if err := a.say("Created mirror topic \"%s\".", m.MirrorTopicName); err != nil || !wait {
			return err
		}
		return a.waitCaughtUp(cmd.Context(), c, link, m.MirrorTopicName)
	}
	return cmd
}

const (
	pollEvery = 500 * time.Millisecond
	// emptyGrace is how long a partition may show neither lag nor fetch before its source is taken
	// to be empty: a mirror just made looks the same until its first fetch.
	emptyGrace = 3 * time.Second
)

// waitCaughtUp follows a mirror until its lag is zero, with a line on stderr for each change.
func (a *app) waitCaughtUp(ctx context.Context, c *client.Client, link, topic string) error {
	start, last := time.Now(), ""
	for {
		m, err := c.Mirror(ctx, link, topic)
		if err != nil {
			return err
		}
		p := progressOf(m)
		if p.failed != "" {
			return errors.New(p.failed)
		}
		if p.line != last {
			fmt.Fprintln(a.err, clean(p.line))
			last = p.line
		}
		if p.lag == 0 && (p.unfetched == 0 || time.Since(start) > emptyGrace) && m.MirrorStatus == "ACTIVE" {
			return a.say("Mirror topic \"%s\" has caught up.", topic)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopped waiting; %q goes on mirroring: %w", topic, context.Cause(ctx))
		case <-time.After(pollEvery):
		}
	}
}

// progress is what one look at a mirror tells.
type progress struct {
	lag       int64
	unfetched int    // partitions that never fetched
	line      string // for a person
	failed    string // why it will not catch up without help
}

func progressOf(m api.Mirror) progress {
	var p progress
	var fetched int64
	for _, lag := range m.MirrorLags {
		p.lag += lag.Lag
		fetched += max(lag.LastSourceFetchOffset, 0)
		if lag.LastSourceFetchOffset < 0 {
			p.unfetched++
		}
	}
	p.line = fmt.Sprintf("%s: %s, %d partitions, %d records behind", m.MirrorTopicName, m.MirrorStatus, m.NumPartitions, p.lag)
	if total := fetched + p.lag; total > 0 {
		p.line += fmt.Sprintf(" (%d %%)", fetched*100/total)
	}
	switch m.MirrorStatus {
	case "FAILED", "LINK_FAILED":
		p.failed = fmt.Sprintf("mirror topic %q is %s: %s. %s", m.MirrorTopicName, m.MirrorStatus, m.MirrorTopicError, m.MirrorTopicErrorMessage)
	case "STOPPED":
		p.failed = fmt.Sprintf("mirror topic %q was stopped", m.MirrorTopicName)
	case "PAUSED", "LINK_PAUSED":
		p.failed = fmt.Sprintf("mirror topic %q is %s. 'hawser mirror resume' or 'hawser link update … --config cluster.link.paused=false' lets it go on", m.MirrorTopicName, m.MirrorStatus)
	}
	return p
}
