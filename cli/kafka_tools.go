package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

// The names of tools that this program also answers to, with their flags and their words.
const (
	mirrorsTool = "kafka-mirrors"
	linksTool   = "kafka-cluster-links"
)

// action is one of a tool's --flags that say what to do.
type action struct {
	name, short string
	do          func(cmd *cobra.Command, c *client.Client) error
}

// tool is a command whose flags say what is done, as Kafka's own scripts have it.
func (a *app) tool(name, short, example string, actions []action) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Example: example, Args: noArgs}
	chosen := make([]bool, len(actions))
	var words []string
	for i, act := range actions {
		cmd.Flags().BoolVar(&chosen[i], act.name, false, act.short)
		words = append(words, "--"+act.name)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var found []int
		for i, is := range chosen {
			if is {
				found = append(found, i)
			}
		}
		switch {
		case len(found) == 0:
			return fmt.Errorf("say what to do with one of %s", strings.Join(words, ", "))
		case len(found) > 1:
			return fmt.Errorf("--%s and --%s are both given. Give one", actions[found[0]].name, actions[found[1]].name)
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		return actions[found[0]].do(cmd, c)
	}
	return cmd
}

// mirrorsFlags is what kafka-mirrors was told beside the action.
type mirrorsFlags struct {
	mirrorTopic, source, link, links string
	topics                           []string
	configs, files                   []string
	replication                      int32
	pendingOnly, partitions          bool
}

func (a *app) kafkaMirrors() *cobra.Command {
	f := &mirrorsFlags{}
	actions := []action{
		{"create", "create a mirror topic", func(cmd *cobra.Command, c *client.Client) error { return a.toolCreate(cmd, c, f) }},
		{"list", "list the mirror topics", func(cmd *cobra.Command, c *client.Client) error { return a.toolList(cmd.Context(), c, f) }},
		{"describe", "describe mirror topics", func(cmd *cobra.Command, c *client.Client) error { return a.toolDescribe(cmd.Context(), c, f) }},
		{"list-state-transition-errors", "list what keeps mirror topics from their next state",
			func(cmd *cobra.Command, c *client.Client) error { return a.toolTransitionErrors(cmd.Context(), c, f) }},
	}
	for _, v := range toolVerbs {
		actions = append(actions,
			action{v.use, v.short, func(cmd *cobra.Command, c *client.Client) error { return a.toolOrder(cmd.Context(), c, v, f) }})
	}
	cmd := a.tool(mirrorsTool, "Mirror topics, with the flags of the tool of that name",
		"  kafka-mirrors --create --mirror-topic orders --link my-link --bootstrap-server localhost:9092\n"+
			"  kafka-mirrors --promote --topics orders,clicks --bootstrap-server localhost:9092 --command-config client.properties", actions)
	flags := cmd.Flags()
	flags.StringVar(&f.mirrorTopic, "mirror-topic", "", "with --create: the mirror topic's `name`")
	flags.StringVar(&f.source, "source-topic", "", "with --create: the source topic's `name`, where it is not the mirror's")
	flags.StringVar(&f.link, "link", "", "the cluster `link`; for an order without --topics: all its mirror topics")
	flags.StringVar(&f.link, "link-name", "", "the same as --link")
	flags.StringVar(&f.links, "links", "", "with --describe: cluster `links`, separated by commas")
	flags.StringSliceVar(&f.topics, "topics", nil, "mirror `topics`, separated by commas")
	flags.StringSliceVar(&f.topics, "topic", nil, "the same as --topics")
	configFlags(cmd, &f.configs, &f.files)
	flags.Int32Var(&f.replication, "replication-factor", 0, "with --create: the replication factor (default: the broker's)")
	flags.BoolVar(&f.pendingOnly, "pending-stopped-only", false, "with --describe: only those that are being stopped")
	flags.BoolVar(&f.partitions, "include-partition-data", false, "with --truncate-and-restore: a line for each partition")
	return cmd
}

func (a *app) toolCreate(cmd *cobra.Command, c *client.Client, f *mirrorsFlags) error {
	if f.mirrorTopic == "" || f.link == "" {
		return errors.New("--create needs --mirror-topic and --link")
	}
	set, err := readConfigs(f.files, f.configs)
	if err != nil {
		return err
	}
	body := api.CreateMirrorRequest{SourceTopicName: orElse(f.source, f.mirrorTopic), Configs: configData(set)}
	if f.source != "" && f.source != f.mirrorTopic {
		body.MirrorTopicName = f.mirrorTopic
	}
	if cmd.Flags().Changed("replication-factor") {
		body.ReplicationFactor = &f.replication
	}
	m, err := c.CreateMirror(cmd.Context(), f.link, body)
	if err != nil {
		return fmt.Errorf("Error while executing mirror command: %w", err)
	}
	return a.say("Created topic %s.", m.MirrorTopicName)
}

// chosen is the mirrors that the flags mean, by name.
func (f *mirrorsFlags) chosen(ctx context.Context, c *client.Client) ([]api.Mirror, error) {
	link := f.link
	if link == "" {
		link = client.AnyLink
	}
	mirrors, err := c.Mirrors(ctx, link, "")
	if err != nil {
		return nil, err
	}
	var found []api.Mirror
	for _, m := range mirrors {
		switch {
		case len(f.topics) > 0 && !slices.Contains(f.topics, m.MirrorTopicName):
		case f.links != "" && !slices.Contains(strings.Split(f.links, ","), m.LinkName):
		default:
			found = append(found, m)
		}
	}
	for _, topic := range f.topics {
		if !slices.ContainsFunc(found, func(m api.Mirror) bool { return m.MirrorTopicName == topic }) {
			return nil, fmt.Errorf("Topic '%s' is no mirror topic. --list shows those there are", topic)
		}
	}
	return found, nil
}

func (a *app) toolList(ctx context.Context, c *client.Client, f *mirrorsFlags) error {
	found, err := f.chosen(ctx, c)
	if err != nil {
		return err
	}
	for _, m := range found {
		if err := a.say("%s", m.MirrorTopicName); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) toolDescribe(ctx context.Context, c *client.Client, f *mirrorsFlags) error {
	found, err := f.chosen(ctx, c)
	if err != nil {
		return err
	}
	links, err := c.Links(ctx)
	if err != nil {
		return err
	}
	ids := map[string]string{}
	for _, l := range links {
		ids[l.LinkName] = l.ClusterLinkID
	}
	shown := 0
	for _, m := range found {
		if f.pendingOnly && m.MirrorStatus != "PENDING_STOPPED" {
			continue
		}
		shown++
		err := a.sayTabbed("", "Topic: %s\tLinkName: %s\tLinkId: %s\tSourceTopic: %s\tState: %s\tStateTime: %s", m.MirrorTopicName,
			m.LinkName, orElse(ids[m.LinkName], "-1"), m.SourceTopicName,
			m.MirrorStatus, time.UnixMilli(m.StateTimeMs).Format(time.DateTime))
		if err != nil {
			return err
		}
		for _, lag := range m.MirrorLags {
			line := fmt.Sprintf("Partition: %d\tState: %s\tLastSourceFetchOffset: %d\tLag: %d", lag.Partition,
				orElse(lag.PartitionState, m.MirrorStatus), lag.LastSourceFetchOffset, lag.Lag)
			if lag.ErrorMessage != "" {
				line += "\tError: " + lag.ErrorMessage
			}
			if err := a.sayTabbed("\t", "%s", line); err != nil {
				return err
			}
		}
	}
	if shown == 0 {
		return a.say("No mirror topics found.")
	}
	return nil
}

// sayTabbed prints fields that tabs set apart.
func (a *app) sayTabbed(indent, format string, args ...any) error {
	fields := strings.Split(fmt.Sprintf(format, args...), "\t")
	for i := range fields {
		fields[i] = clean(fields[i])
	}
	_, err := fmt.Fprintln(a.out, indent+strings.Join(fields, "\t"))
	return err
}

func (a *app) toolTransitionErrors(ctx context.Context, c *client.Client, f *mirrorsFlags) error {
	if len(f.topics) == 0 {
		return errors.New("--list-state-transition-errors needs --topics")
	}
	found, err := f.chosen(ctx, c)
	if err != nil {
		return err
	}
	for _, m := range found {
		m, err := c.Mirror(ctx, m.LinkName, m.MirrorTopicName)
		if err != nil {
			return err
		}
		if err := a.say("Topic: %s State: %s", m.MirrorTopicName, m.MirrorStatus); err != nil {
			return err
		}
		if m.MirrorStateTransitionErrors == nil {
			continue
		}
		for _, e := range *m.MirrorStateTransitionErrors {
			if err := a.say("Error Code: %s Error Message: %q", e.ErrorCode, clean(e.ErrorMessage)); err != nil {
				return err
			}
		}
	}
	return nil
}

// toolVerbs are the orders under the names that kafka-mirrors has for them.
var toolVerbs = []verb{
	verbs[0], verbs[1], verbs[2],
	{"unpause", "resume", "go on with paused or failed mirroring"},
	{"resume", "resume", "the same as --unpause"},
	verbs[4], verbs[5], verbs[6],
}

func (a *app) toolOrder(ctx context.Context, c *client.Client, v verb, f *mirrorsFlags) error {
	reverse := strings.HasPrefix(v.name, "reverse-")
	switch {
	case reverse && len(f.topics) > 0 && f.link != "":
		return errors.New("Cannot specify both --topics and --link")
	case len(f.topics) == 0 && f.link == "":
		return fmt.Errorf("--%s needs --topics, or --link for all mirror topics of a link", v.use)
	}
	if v.name == "truncate-and-restore" && f.link != "" {
		return a.toolRestore(ctx, c, v, f)
	}
	found, err := f.chosen(ctx, c)
	if err != nil {
		return err
	}
	byLink := map[string][]string{}
	for _, m := range found {
		if len(f.topics) > 0 || m.MirrorStatus != "STOPPED" || v.name == "truncate-and-restore" {
			byLink[m.LinkName] = append(byLink[m.LinkName], m.MirrorTopicName)
		}
	}
	if len(byLink) == 0 {
		return a.say("No mirror topics found.")
	}
	bad := false
	for link, topics := range byLink {
		if v.name == "promote" {
			if err := a.say("Calculating max offset and ms lag for mirror topics: [%s]", strings.Join(topics, ", ")); err != nil {
				return err
			}
		}
		done, err := c.Order(ctx, link, v.name, api.AlterMirrorsRequest{MirrorTopicNames: topics}, client.Do)
		if err != nil {
			return err
		}
		if v.name == "promote" {
			if err := a.say("Finished calculating max offset lag and max lag ms for mirror topics: [%s]", strings.Join(topics, ", ")); err != nil {
				return err
			}
		}
		some, err := a.toolOutcomes(v, done, f.partitions)
		if bad = bad || some; err != nil {
			return err
		}
	}
	if bad {
		return errReported
	}
	return nil
}

// toolRestore restores topics over a link: what the other side mirrored may have no record as a mirror here.
func (a *app) toolRestore(ctx context.Context, c *client.Client, v verb, f *mirrorsFlags) error {
	topics := api.AlterMirrorsRequest{MirrorTopicNames: f.topics}
	if len(f.topics) == 0 {
		topics.MirrorTopicNamePattern = ".*"
	}
	done, err := c.Order(ctx, f.link, v.name, topics, client.Do)
	if err != nil {
		return err
	}
	if len(done) == 0 {
		return a.say("No mirror topics found.")
	}
	bad, err := a.toolOutcomes(v, done, f.partitions)
	if err == nil && bad {
		err = errReported
	}
	return err
}

// toolOutcomes says what an order did to each topic; bad is set if one refused.
func (a *app) toolOutcomes(v verb, done []api.AlteredMirror, withPartitions bool) (bad bool, err error) {
	for _, topic := range done {
		bad = bad || refused(topic)
		if err := a.toolOutcome(v, topic, withPartitions); err != nil {
			return bad, err
		}
	}
	return bad, nil
}

// orderWords is what kafka-mirrors calls each order.
var orderWords = map[string]string{
	"promote": "stopping topic %s's mirror", "failover": "stopping topic %s's mirror",
	"pause": "pausing topic %s's mirror", "resume": "resuming topic %s's mirror",
	"reverse-and-start-mirror": "reversing local mirror and starting remote mirror for topic %s",
	"reverse-and-pause-mirror": "reversing local mirror and pausing remote mirror for topic %s",
	"truncate-and-restore":     "truncate and restore for topic %s",
}

func (a *app) toolOutcome(v verb, topic api.AlteredMirror, partitions bool) error {
	what := fmt.Sprintf(orderWords[v.name], topic.MirrorTopicName)
	if refused(topic) {
		return a.say("Error encountered while %s: %s", what, clean(text(topic.ErrorMessage)))
	}
	line := "Request for " + what + " was successfully scheduled."
	switch v.name {
	case "promote":
		line += " Please use the describe command with the --pending-stopped-only option to monitor progress."
	case "truncate-and-restore":
		if topic.MessagesTruncated != nil {
			line += fmt.Sprintf(" %d messages will be truncated.", *topic.MessagesTruncated)
		}
	}
	if err := a.say("%s", line); err != nil || !partitions {
		return err
	}
	for _, part := range topic.PartitionLevelTruncationData {
		if err := a.sayTabbed("\t", "Partition: %d\tOffsetTruncatedTo: %d\tMessagesTruncated: %d", part.PartitionID,
			part.OffsetTruncatedTo, part.MessagesTruncated); err != nil {
			return err
		}
	}
	return nil
}
