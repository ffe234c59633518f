package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

// verb is one order to mirrors.
type verb struct {
	use, name, short string
}

// verbs are the orders, by their names here and on REST.
var verbs = []verb{
	{"promote", "promote", "Stop mirroring once nothing is left to copy, and open the topics for producers"},
	{"failover", "failover", "Stop mirroring now, and open the topics for producers"},
	{"pause", "pause", "Pause mirroring"},
	{"resume", "resume", "Go on with paused or failed mirroring"},
	{"reverse-and-start", "reverse-and-start-mirror", "Swap source and mirror, and start mirroring the other way"},
	{"reverse-and-pause", "reverse-and-pause-mirror", "Swap source and mirror, and leave the new mirror paused"},
	{"truncate-and-restore", "truncate-and-restore", "Cut off what the other side does not have, and mirror from it"},
}

type orderRow struct {
	Topic     string `human:"Mirror Topic Name" json:"mirror_topic_name"`
	Partition int32  `human:"Partition" json:"partition"`
	Lag       int64  `human:"Partition Mirror Lag" json:"partition_mirror_lag"`
	LastFetch int64  `human:"Last Source Fetch Offset" json:"last_source_fetch_offset"`
	Message   string `human:"Error Message" json:"error_message"`
	Code      string `human:"Error Code" json:"error_code"`
	Already   bool   `json:"already_stopped,omitempty"`
}

// orderTopicRow is what a terminal shows in place of a row for each partition.
type orderTopicRow struct {
	Topic      string `human:"Mirror Topic"`
	Partitions int    `human:"Partitions"`
	Lag        int64  `human:"Records Behind"`
	Message    string `human:"Error"`
}

type restoreRow struct {
	Topic     string `human:"Mirror Topic Name" screen:"Mirror Topic" json:"mirror_topic_name"`
	Message   string `human:"Error Message" json:"error_message"`
	Code      string `human:"Error Code" json:"error_code"`
	Truncated string `human:"Messages Truncated" json:"messages_truncated"`
}

type restorePartitionRow struct {
	Topic     string `human:"Mirror Topic Name" json:"mirror_topic_name"`
	Partition int32  `human:"Partition" json:"partition"`
	Message   string `human:"Error Message" json:"error_message"`
	Code      string `human:"Error Code" json:"error_code"`
	Truncated string `human:"Messages Truncated" json:"messages_truncated"`
	Offset    string `human:"Offset Truncated To" json:"offset_truncated_to"`
}

func (a *app) order(v verb) *cobra.Command {
	var link, pattern string
	var dryRun, withPartitions, wait, force, paused bool
	cmd := &cobra.Command{Use: v.use + " <mirror-topic-1> [mirror-topic-2 …]", Short: v.short,
		Example: fmt.Sprintf("  hawser mirror %s orders --dry-run\n  hawser mirror %s --pattern 'team-a\\..*' --link from-prod", v.use, v.use)}
	linkFlag(cmd, &link)
	cmd.Flags().StringVar(&pattern, "pattern", "", "all mirror topics of the link whose whole name fits the regular `expression`; "+
		"in place of names")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would be done")
	if v.name == "truncate-and-restore" {
		cmd.Flags().BoolVar(&withPartitions, "include-partitions", false, "a row for each partition")
		cmd.Flags().BoolVar(&paused, "paused", false, "leave the restored mirror paused until it is resumed")
	}
	if v.name == "failover" {
		cmd.Flags().BoolVar(&force, "force", false, "also a source that was handed over in a reversal, although the other cluster may "+
			"accept writes; of a topic that is STOPPED, take back its pledge to the restore of a cluster that is gone")
	}
	if v.name == "promote" || v.name == "failover" {
		cmd.Flags().BoolVar(&wait, "wait", false, "wait until the mirror topics are STOPPED, and show what holds them up")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOrder(cmd, args, link, pattern); err != nil {
			return err
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		if link == "" {
			if link, err = linkOf(cmd, c, args); err != nil {
				return err
			}
		}
		topics := api.AlterMirrorsRequest{MirrorTopicNames: args, MirrorTopicNamePattern: pattern}
		done, err := c.Order(cmd.Context(), link, v.name+variant(force, paused), topics, mode(dryRun))
		if err != nil {
			return err
		}
		if len(done) == 0 { // a script must not take that for a failover
			return fmt.Errorf("no mirror topic of link %q has a name that is %q from its beginning to its end: nothing was ordered. "+
				"'hawser mirror list --link %s' shows those there are", link, pattern, link)
		}
		if err := a.printOrder(v, done, withPartitions, dryRun); err != nil {
			return err
		}
		given := topicsThat(done, taken)
		if wait && !dryRun {
			if err := a.waitStopped(cmd.Context(), c, link, given); err != nil {
				return err
			}
		}
		if !dryRun {
			if err := a.printStates(cmd.Context(), c, link, v, given); err != nil {
				return err
			}
		}
		return failedTopics(done)
	}
	return cmd
}

// variant is the query that a verb's own flags stand for; no verb has both.
func variant(force, paused bool) string {
	switch {
	case force:
		return "?force=true"
	case paused:
		return "?paused=true"
	}
	return ""
}

func checkOrder(cmd *cobra.Command, topics []string, link, pattern string) error {
	switch {
	case len(topics) == 0 && pattern == "":
		return fmt.Errorf("<mirror-topic> is missing. Usage: %s", cmd.UseLine())
	case len(topics) > 0 && pattern != "":
		return errors.New("names and --pattern are both given. Give one")
	case pattern != "" && link == "":
		return errors.New("--pattern is for the mirror topics of one link. Say which with --link")
	}
	return nil
}

// refused reports that the server did nothing about a topic.
func refused(topic api.AlteredMirror) bool {
	return topic.ErrorCode != nil && *topic.ErrorCode != 0 || text(topic.ErrorMessage) != ""
}

func taken(topic api.AlteredMirror) bool { return !refused(topic) }

// failed reports that a topic is not what the order makes of it. One that was promoted or failed over before is: a failover that is
// said twice must not look like one that went wrong.
func failed(topic api.AlteredMirror) bool { return refused(topic) && !topic.AlreadyStopped }

func stoppedBefore(topic api.AlteredMirror) bool { return topic.AlreadyStopped }

func topicsThat(done []api.AlteredMirror, which func(api.AlteredMirror) bool) []string {
	var names []string
	for _, topic := range done {
		if which(topic) {
			names = append(names, topic.MirrorTopicName)
		}
	}
	return names
}

// failedTopics ends a command that did not do all of its topics. Their rows may be far up by then.
func failedTopics(done []api.AlteredMirror) error {
	names := topicsThat(done, failed)
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d topics failed: %s; see the rows above", len(names), len(done), someOf(names))
}

func (a *app) printOrder(v verb, done []api.AlteredMirror, withPartitions, dryRun bool) error {
	human := a.format == "human"
	if human && dryRun {
		if err := a.say("%sNothing was changed. This is where %s would begin:", dryRunMark(dryRun), v.use); err != nil {
			return err
		}
	}
	if err := a.printOrderRows(v, done, withPartitions); err != nil || !human {
		return err
	}
	if names := topicsThat(done, stoppedBefore); len(names) > 0 {
		if err := a.say("STOPPED already, nothing to do: %s.", someOf(names)); err != nil {
			return err
		}
	}
	for _, topic := range done {
		if w := topic.PledgeWithdrawn; w != nil {
			if err := a.say("%s: %s", topic.MirrorTopicName, w.Consequence); err != nil {
				return err
			}
		}
		for _, w := range topic.WouldWaitFor {
			if err := a.say("%s: %s would wait: %s.", topic.MirrorTopicName, v.use, strings.TrimSuffix(w.ErrorMessage, ".")); err != nil {
				return err
			}
		}
		for _, m := range topic.MissingACLs {
			if err := a.say("%s: the link's principal has no %s on the source topic %s: %s.", topic.MirrorTopicName, m.Operation,
				m.SourceTopicName, m.Need); err != nil {
				return err
			}
		}
		for _, open := range topic.OpenTransactions {
			if err := a.say("%s", openLine(topic.MirrorTopicName, open, dryRun)); err != nil {
				return err
			}
		}
		for _, g := range topic.GroupOffsets {
			if err := a.say("%s, partition %d: group %s %s from offset %d to %d.", topic.MirrorTopicName, g.PartitionID, g.GroupID,
				would(dryRun, "goes back", "would go back"), g.Offset, g.LoweredTo); err != nil {
				return err
			}
		}
	}
	return nil
}

// would chooses the words for what an order does, or would do.
func would(dryRun bool, does, would string) string {
	if dryRun {
		return would
	}
	return does
}

func (a *app) printOrderRows(v verb, done []api.AlteredMirror, withPartitions bool) error {
	switch {
	case v.name == "truncate-and-restore" && withPartitions:
		return printRows(a, restorePartitionRows(done))
	case v.name == "truncate-and-restore":
		var rows []restoreRow
		for _, topic := range done {
			rows = append(rows, restoreRow{topic.MirrorTopicName, text(topic.ErrorMessage), number(topic.ErrorCode),
				number(topic.MessagesTruncated)})
		}
		return printRows(a, rows)
	}
	if a.width() > 0 && a.format == "human" {
		return printRows(a, orderTopicRows(done))
	}
	return printRows(a, orderRows(done))
}

func orderTopicRows(done []api.AlteredMirror) []orderTopicRow {
	var rows []orderTopicRow
	for _, topic := range done {
		rows = append(rows, orderTopicRow{topic.MirrorTopicName, len(topic.MirrorLags), sumLag(topic.MirrorLags), failure(topic)})
	}
	return rows
}

func sumLag(lags []api.MirrorLag) int64 {
	var sum int64
	for _, lag := range lags {
		sum += max(lag.Lag, 0) // one that is not known is -1
	}
	return sum
}

// openLine says what stopping a mirror does to a transaction that is open in it.
func openLine(topic string, open api.OpenTransaction, dryRun bool) string {
	line := fmt.Sprintf("%s, partition %d: the transaction of producer %d that is open since offset %d %s.", topic, open.PartitionID,
		open.ProducerID, open.FirstOffset, would(dryRun, "is aborted", "would be aborted"))
	if open.OpenElsewhere {
		line += " It is open, too, in a mirror that this order does not stop, and may still be committed there."
	}
	return line
}

// printStates says which state the order has brought the mirrors into, for people.
func (a *app) printStates(ctx context.Context, c *client.Client, link string, v verb, topics []string) error {
	if a.format != "human" || len(topics) == 0 {
		return nil
	}
	mirrors, err := c.Mirrors(ctx, link, "")
	if err != nil {
		return fmt.Errorf("the order was taken, but its outcome could not be read: %w", err)
	}
	mirrors = slices.DeleteFunc(mirrors, func(m api.Mirror) bool { return !slices.Contains(topics, m.MirrorTopicName) })
	if len(mirrors) > statesMost {
		return a.say("%d mirror topics: %s.", len(mirrors), countStates(mirrors))
	}
	for _, m := range mirrors {
		line := fmt.Sprintf("Mirror topic \"%s\" is %s now.", m.MirrorTopicName, m.MirrorStatus)
		if v.name == "resume" && strings.HasPrefix(m.MirrorStatus, "LINK_") || v.name == "resume" && m.MirrorStatus == "SOURCE_UNAVAILABLE" {
			line += fmt.Sprintf(" 'hawser link describe %s' says what the link lacks.", link)
		}
		if err := a.say("%s", line); err != nil {
			return err
		}
	}
	return nil
}

// statesMost is how many mirrors are named with the state that they are in; of more the states are counted.
const statesMost = 20

// countStates is how many mirrors are in which state.
func countStates(mirrors []api.Mirror) string {
	by := map[string]int{}
	for _, m := range mirrors {
		by[m.MirrorStatus]++
	}
	var parts []string
	for _, status := range api.MirrorStatuses {
		if n := by[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	return strings.Join(parts, ", ")
}

// orderRows is a row for each partition; one row with -1 for a topic that failed, or that has no lags to show.
func orderRows(done []api.AlteredMirror) []orderRow {
	var rows []orderRow
	for _, topic := range done {
		if failed(topic) || len(topic.MirrorLags) == 0 {
			rows = append(rows, orderRow{topic.MirrorTopicName, -1, -1, -1, failure(topic), failureCode(topic), topic.AlreadyStopped})
			continue
		}
		for _, lag := range topic.MirrorLags {
			rows = append(rows, orderRow{topic.MirrorTopicName, lag.Partition, lag.Lag, lag.LastSourceFetchOffset, "", "", topic.AlreadyStopped})
		}
	}
	return rows
}

// failure is a topic's error; that it is STOPPED already is none.
func failure(topic api.AlteredMirror) string {
	if !failed(topic) {
		return ""
	}
	return text(topic.ErrorMessage)
}

func failureCode(topic api.AlteredMirror) string {
	if !failed(topic) {
		return ""
	}
	return number(topic.ErrorCode)
}

func restorePartitionRows(done []api.AlteredMirror) []restorePartitionRow {
	var rows []restorePartitionRow
	for _, topic := range done {
		if failed(topic) || len(topic.PartitionLevelTruncationData) == 0 {
			rows = append(rows, restorePartitionRow{topic.MirrorTopicName, -1, text(topic.ErrorMessage), number(topic.ErrorCode),
				number(topic.MessagesTruncated), ""})
			continue
		}
		for _, part := range topic.PartitionLevelTruncationData {
			rows = append(rows, restorePartitionRow{topic.MirrorTopicName, part.PartitionID, "", "", fmt.Sprint(part.MessagesTruncated),
				fmt.Sprint(part.OffsetTruncatedTo)})
		}
	}
	return rows
}

// number writes one that may be absent.
func number[T int32 | int64](n *T) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}
