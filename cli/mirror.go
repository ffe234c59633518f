package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

func (a *app) mirror() *cobra.Command {
	cmd := a.group("mirror", "Mirror topics: read-only copies of topics of a linked cluster",
		a.mirrorCreate(), a.mirrorList(), a.mirrorDescribe(), a.mirrorUpdate(), a.mirrorTop(), a.mirrorVerify(), a.checkReport(),
		a.group("state-transition-error", "What keeps a mirror from the state it was ordered into", a.transitionErrors()))
	for _, v := range verbs {
		cmd.AddCommand(a.order(v))
	}
	return cmd
}

// linkFlag is --link of commands on mirrors. It may be left out where the topics tell.
func linkFlag(cmd *cobra.Command, link *string) {
	cmd.Flags().StringVar(link, "link", "", "the `link` of the mirror topics; may be left out where only one link has them")
}

// linkOf finds the one link that has a mirror of each of the topics.
func linkOf(cmd *cobra.Command, c *client.Client, topics []string) (string, error) {
	mirrors, err := c.Mirrors(cmd.Context(), client.AnyLink, "")
	if err != nil {
		return "", err
	}
	found := ""
	for _, topic := range topics {
		var links []string
		for _, m := range mirrors {
			if m.MirrorTopicName == topic {
				links = append(links, m.LinkName)
			}
		}
		switch {
		case len(links) == 0:
			return "", fmt.Errorf("no link has a mirror topic %q. 'hawser mirror list' shows those there are", topic)
		case len(links) > 1 || found != "" && links[0] != found:
			return "", fmt.Errorf("the mirror topics belong to more than one link. Say which with --link")
		}
		found = links[0]
	}
	return found, nil
}

type mirrorRow struct {
	Link       string `human:"Link Name" screen:"Link" json:"link_name"`
	Topic      string `human:"Mirror Topic Name" screen:"Mirror Topic" json:"mirror_topic_name"`
	Source     string `human:"Source Topic Name" screen:"Source Topic" json:"source_topic_name"`
	Status     string `human:"Mirror Status" screen:"Status" json:"mirror_status"`
	StatusTime int64  `human:"Status Time (ms)" screen:"Since" unit:"ms" json:"status_time_ms"`
	Partitions int32  `human:"Num Partition" screen:"Partitions" json:"num_partition"`
	MaxLag     int64  `human:"Max Per Partition Mirror Lag" screen:"Max Lag" unit:"lag" json:"max_per_partition_mirror_lag"`
	RPO        string `human:"RPO" json:"-"`
	CaughtUp   *int64 `json:"caught_up_ms,omitempty"`
	Error      string `json:"mirror_topic_error,omitempty"`
	Message    string `json:"mirror_topic_error_message,omitempty"`
}

func (a *app) mirrorList() *cobra.Command {
	var link, status string
	cmd := &cobra.Command{Use: "list", Short: "List the mirror topics", Args: noArgs}
	cmd.Flags().StringVar(&link, "link", "", "only those of this `link`")
	cmd.Flags().StringVar(&status, "mirror-status", "", "only those of this `status`: "+
		strings.ToLower(strings.Join(api.MirrorStatuses, ", ")))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		if link == "" {
			link = client.AnyLink
		}
		mirrors, err := c.Mirrors(cmd.Context(), link, strings.ToUpper(status))
		if err != nil {
			return err
		}
		var rows []mirrorRow
		for _, m := range mirrors {
			row := mirrorRow{Link: m.LinkName, Topic: m.MirrorTopicName, Source: m.SourceTopicName, Status: m.MirrorStatus,
				StatusTime: m.StateTimeMs, Partitions: m.NumPartitions, MaxLag: maxLag(m.MirrorLags), CaughtUp: caughtUp(m)}
			if row.Source == row.Topic && a.format == "human" && a.width() > 0 {
				row.Source = ""
			}
			row.RPO = rpoText(m.MirrorStatus, row.CaughtUp, time.Now())
			if row.Error = shownError(m.MirrorTopicError); row.Error != "" {
				row.Message = m.MirrorTopicErrorMessage
			}
			rows = append(rows, row)
		}
		if err := printRows(a, rows); err != nil || a.format != "human" {
			return err
		}
		a.listErrors(rows)
		return nil
	}
	return cmd
}

// listErrors says below the table why mirrors are in error, ACTIVE ones too: it has no column for that. What many of
// one link have in common, as with a source that is away, is said once.
func (a *app) listErrors(rows []mirrorRow) {
	type ill struct{ link, err, message string }
	topics := map[ill][]string{}
	var order []ill
	for _, row := range rows {
		if row.Error == "" {
			continue
		}
		of := ill{row.Link, row.Error, row.Message}
		if topics[of] == nil {
			order = append(order, of)
		}
		topics[of] = append(topics[of], row.Topic)
	}
	for _, of := range order {
		fmt.Fprintf(a.err, "%s: %s: %s\n", clean(someOf(topics[of])), of.err, clean(of.message))
	}
}

// namedMost is how many names stand for many.
const namedMost = 3

// someOf is names in a row: the first ones, and how many more there are.
func someOf(names []string) string {
	if len(names) <= namedMost+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:namedMost], ", "), len(names)-namedMost)
}

// caughtUp is the last moment, in Unix ms, at which all that the source had then was here; nil while that is not known
// of each partition.
func caughtUp(m api.Mirror) *int64 {
	var oldest *int64
	for _, lag := range m.MirrorLags {
		if lag.CaughtUpMs == nil {
			return nil
		}
		if oldest == nil || *lag.CaughtUpMs < *oldest {
			oldest = lag.CaughtUpMs
		}
	}
	return oldest
}

// rpoText is how much a failover now could lose, in time. A mirror that is stopped has none.
func rpoText(status string, caughtUpMs *int64, now time.Time) string {
	switch {
	case status == "STOPPED":
		return ""
	case caughtUpMs == nil:
		return "unknown"
	}
	age := max(now.Sub(time.UnixMilli(*caughtUpMs)), 0)
	switch {
	case age < 10*time.Second:
		return fmt.Sprintf("%.1f s", age.Seconds())
	case age < 2*time.Minute:
		return fmt.Sprintf("%.0f s", age.Seconds())
	case age < 2*time.Hour:
		return fmt.Sprintf("%.0f min", age.Minutes())
	}
	return fmt.Sprintf("%.0f h", age.Hours())
}

// maxLag is the largest, or -1 where that would be 0 and some are unknown.
func maxLag(lags []api.MirrorLag) int64 {
	var most, least int64
	for _, lag := range lags {
		most, least = max(most, lag.Lag), min(least, lag.Lag)
	}
	if most == 0 {
		return least
	}
	return most
}

type mirrorPartitionRow struct {
	Link       string `human:"Link Name" screen:"Link" json:"link_name"`
	Topic      string `human:"Mirror Topic Name" screen:"Mirror Topic" json:"mirror_topic_name"`
	Source     string `human:"Source Topic Name" screen:"Source Topic" json:"source_topic_name"`
	Status     string `human:"Mirror Status" screen:"Status" json:"mirror_status"`
	Error      string `human:"Mirror Topic Error" screen:"Error" json:"mirror_topic_error"`
	StatusTime int64  `human:"Status Time (ms)" screen:"Since" unit:"ms" json:"status_time_ms"`
	Partition  int32  `human:"Partition" json:"partition"`
	Lag        int64  `human:"Partition Mirror Lag" screen:"Lag" unit:"lag" json:"partition_mirror_lag"`
	LastFetch  int64  `human:"Last Source Fetch Offset" json:"last_source_fetch_offset"`
	RPO        string `human:"RPO" json:"-"`
	CaughtUp   *int64 `json:"caught_up_ms,omitempty"`
	Lost       int64  `json:"records_lost,omitempty"`
	Message    string `json:"error_message,omitempty"`
	Recopy     string `json:"recopy_state,omitempty"`
	Recopied   *int64 `json:"recopied_offset,omitempty"`
}

func (a *app) mirrorDescribe() *cobra.Command {
	var link string
	cmd := &cobra.Command{Use: "describe <mirror-topic>", Short: "Describe a mirror topic, a row for each partition",
		Args: exactArgs("<mirror-topic>")}
	linkFlag(cmd, &link)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := a.findMirror(cmd, link, args[0])
		if err != nil {
			return err
		}
		var rows []mirrorPartitionRow
		for _, lag := range m.MirrorLags {
			row := mirrorPartitionRow{
				Link: m.LinkName, Topic: m.MirrorTopicName, Source: m.SourceTopicName, Status: m.MirrorStatus, Error: m.MirrorTopicError,
				StatusTime: m.StateTimeMs, Partition: lag.Partition, Lag: lag.Lag, LastFetch: lag.LastSourceFetchOffset,
				Lost: lag.RecordsLost, Message: lag.ErrorMessage,
				RPO: rpoText(m.MirrorStatus, lag.CaughtUpMs, time.Now()), CaughtUp: lag.CaughtUpMs,
			}
			if again := lag.Recopy; again != nil {
				row.Recopy, row.Recopied = again.State, &again.CopiedOffset
			}
			rows = append(rows, row)
		}
		if err := printRows(a, rows); err != nil || a.format != "human" {
			return err
		}
		return a.remarks(m)
	}
	return cmd
}

// remarks says below the table what has no column: why the mirror is in error, and what was lost.
func (a *app) remarks(m api.Mirror) error {
	var lines []string
	if m.MirrorTopicErrorMessage != "" {
		lines = append(lines, clean(m.MirrorTopicErrorMessage))
	}
	for _, lag := range m.MirrorLags {
		// One partition's fault is often the topic's too; it is said once.
		if lag.ErrorMessage != "" && !strings.Contains(m.MirrorTopicErrorMessage, strings.TrimRight(lag.ErrorMessage, ".")) {
			why := strings.TrimPrefix(lag.ErrorMessage, fmt.Sprintf("partition %d: ", lag.Partition))
			lines = append(lines, fmt.Sprintf("Partition %d: %s", lag.Partition, clean(why)))
		}
		if again := lag.Recopy; again != nil && again.State == "COPYING" {
			lines = append(lines, fmt.Sprintf("Partition %d: copied again up to offset %d of %d.", lag.Partition, again.CopiedOffset,
				again.EndOffset))
		}
		if lag.RecordsLost > 0 {
			lines = append(lines, fmt.Sprintf("Partition %d: the source removed %d records before they were mirrored.", lag.Partition,
				lag.RecordsLost))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return a.say("\n%s", strings.Join(lines, "\n"))
}

func (a *app) findMirror(cmd *cobra.Command, link, topic string) (api.Mirror, error) {
	c, err := a.client(cmd.Context())
	if err != nil {
		return api.Mirror{}, err
	}
	if link == "" {
		if link, err = linkOf(cmd, c, []string{topic}); err != nil {
			return api.Mirror{}, err
		}
	}
	return c.Mirror(cmd.Context(), link, topic)
}

type transitionErrorRow struct {
	Code    string `human:"Mirror State Transition Error Code" json:"error_code"`
	Message string `human:"Mirror State Transition Error Message" json:"error_message"`
}

func (a *app) transitionErrors() *cobra.Command {
	var link string
	cmd := &cobra.Command{Use: "list <mirror-topic>", Short: "List what keeps a mirror topic from its next state",
		Args: exactArgs("<mirror-topic>")}
	linkFlag(cmd, &link)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := a.findMirror(cmd, link, args[0])
		if err != nil {
			return err
		}
		var rows []transitionErrorRow
		if m.MirrorStateTransitionErrors != nil {
			for _, e := range *m.MirrorStateTransitionErrors {
				rows = append(rows, transitionErrorRow{e.ErrorCode, e.ErrorMessage})
			}
		}
		slices.SortStableFunc(rows, func(x, y transitionErrorRow) int { return strings.Compare(x.Code, y.Code) })
		return printRows(a, rows)
	}
	return cmd
}
