package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

func (a *app) link() *cobra.Command {
	return a.group("link", "Cluster links: to the clusters that topics are mirrored from",
		a.linkCreate(), a.linkList(), a.linkDescribe(), a.linkDelete(), a.linkImport(), a.linkUpdate("update", "Change configs of a link"),
		a.group("configuration", "Configs of a link", a.linkConfigList(), a.linkUpdate("update", "Change configs of a link")),
		a.group("task", "Periodic jobs of a link", a.linkTaskList()))
}

type linkRow struct {
	Name         string `human:"Name" json:"link_name"`
	ID           string `human:"ID" json:"link_id"`
	Source       string `human:"Source Cluster" json:"source_cluster,omitempty"`
	Destination  string `human:"Destination Cluster" json:"destination_cluster,omitempty"`
	Remote       string `human:"Remote Cluster" json:"remote_cluster,omitempty"`
	State        string `human:"State" json:"state"`
	Error        string `human:"Error" json:"error,omitempty"`
	ErrorMessage string `human:"Error Message" json:"error_message,omitempty"`
}

type linkTopicRow struct {
	Name         string `human:"Name" json:"link_name"`
	ID           string `human:"ID" json:"link_id"`
	Topic        string `human:"Topic Name" json:"topic_name"`
	Source       string `human:"Source Cluster" json:"source_cluster,omitempty"`
	Destination  string `human:"Destination Cluster" json:"destination_cluster,omitempty"`
	Remote       string `human:"Remote Cluster" json:"remote_cluster,omitempty"`
	State        string `human:"State" json:"state"`
	Error        string `human:"Error" json:"error,omitempty"`
	ErrorMessage string `human:"Error Message" json:"error_message,omitempty"`
}

type linkDetail struct {
	Name         string `human:"Name" json:"link_name"`
	ID           string `human:"ID" json:"link_id"`
	Source       string `human:"Source Cluster" json:"source_cluster,omitempty"`
	Destination  string `human:"Destination Cluster" json:"destination_cluster,omitempty"`
	Remote       string `human:"Remote Cluster" json:"remote_cluster,omitempty"`
	State        string `human:"State" json:"state"`
	Error        string `human:"Error" json:"error,omitempty"`
	ErrorMessage string `human:"Error Message" json:"error_message,omitempty"`
	Counts       string `human:"Mirror Partition States Count" json:"mirror_partition_states_count,omitempty"`
	RemoteState  string `human:"Remote Link State" json:"remote_link_state,omitempty"`
	RemoteError  string `human:"Remote Link Error Message" json:"remote_link_error_message,omitempty"`
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// shownError hides the name that means "no error".
func shownError(name string) string {
	if name == "NO_ERROR" {
		return ""
	}
	return name
}

func linkRowOf(l api.Link) linkRow {
	return linkRow{
		Name: l.LinkName, ID: l.ClusterLinkID, Source: text(l.SourceClusterID), Destination: text(l.DestinationClusterID),
		Remote: text(l.RemoteClusterID), State: l.LinkState, Error: shownError(l.LinkError), ErrorMessage: text(l.LinkErrorMessage),
	}
}

func (a *app) linkList() *cobra.Command {
	var withTopics bool
	cmd := &cobra.Command{Use: "list", Short: "List the links", Args: noArgs}
	cmd.Flags().BoolVar(&withTopics, "include-topics", false, "a row for each mirror topic")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		links, err := c.Links(cmd.Context())
		if err != nil {
			return err
		}
		if withTopics {
			return printRows(a, linkTopicRows(links))
		}
		var rows []linkRow
		for _, l := range links {
			rows = append(rows, linkRowOf(l))
		}
		return printRows(a, rows)
	}
	return cmd
}

// linkTopicRows is a row for each topic; a link without topics has one with none.
func linkTopicRows(links []api.Link) []linkTopicRow {
	var rows []linkTopicRow
	for _, l := range links {
		r := linkRowOf(l)
		topics := l.TopicNames
		if len(topics) == 0 {
			topics = []string{""}
		}
		for _, topic := range topics {
			rows = append(rows, linkTopicRow{r.Name, r.ID, topic, r.Source, r.Destination, r.Remote, r.State, r.Error, r.ErrorMessage})
		}
	}
	return rows
}

func (a *app) linkDescribe() *cobra.Command {
	cmd := &cobra.Command{Use: "describe <link>", Short: "Describe a link", Args: exactArgs("<link>")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		l, err := c.Link(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		r := linkRowOf(l)
		var counts []string
		for _, n := range l.CategoryCounts {
			counts = append(counts, fmt.Sprintf("%s: %d", n.StateCategory, n.Count))
		}
		return printOne(a, linkDetail{r.Name, r.ID, r.Source, r.Destination, r.Remote, r.State, r.Error, r.ErrorMessage,
			strings.Join(counts, ", "), l.RemoteLinkState, l.RemoteLinkMessage})
	}
	return cmd
}

func (a *app) linkDelete() *cobra.Command {
	var dryRun, withMirrors, quiet bool
	cmd := &cobra.Command{
		Use: "delete <link-1> [link-2 …]", Short: "Delete links", Args: atLeastOne("<link>"),
		Long: "Delete links. A link with mirror topics that are not stopped is refused, naming them.\n" +
			"The topics stay; what is known of stopped mirrors goes.",
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say whether it would be done")
	cmd.Flags().BoolVar(&withMirrors, "with-live-mirrors", false, "delete the link even if it has live mirrors; they are failed over")
	cmd.Flags().BoolVar(&quiet, "force", false, "taken for the sake of scripts: nothing is ever asked. It does not mean --with-live-mirrors")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		return a.each(args, func(name string) error {
			err := c.DeleteLink(cmd.Context(), name, client.DeleteOptions{Force: withMirrors, ValidateOnly: dryRun})
			var refused *client.Error
			if errors.As(err, &refused) && refused.Status == http.StatusConflict && !withMirrors {
				return fmt.Errorf("%w\nTo force it, give --with-live-mirrors.", err)
			}
			if err != nil {
				return err
			}
			return a.say("%sDeleted cluster link \"%s\".", dryRunMark(dryRun), name)
		})
	}
	return cmd
}

func dryRunMark(dryRun bool) string {
	if dryRun {
		return "[DRY RUN] "
	}
	return ""
}

func mode(dryRun bool) client.Mode {
	if dryRun {
		return client.ValidateOnly
	}
	return client.Do
}

// linkUpdate is `link update` and `link configuration update`: two ways to look for the same thing.
func (a *app) linkUpdate(use, short string) *cobra.Command {
	var files, configs, remove []string
	var names nameFlags
	var dryRun, noValidate bool
	cmd := &cobra.Command{Use: use + " <link>", Short: short, Args: exactArgs("<link>"),
		Example: "  hawser link update my-link --config cluster.link.paused=true\n" +
			"  hawser link update my-link --sync-groups 'billing,fraud-*'\n  hawser link update my-link --remove acl.filters",
		Long: short + ". Where they change how the other cluster is reached, it is tried first, and nothing is changed if it\ndoes not answer."}
	configFlags(cmd, &configs, &files)
	names.bind(cmd)
	cmd.Flags().StringSliceVar(&remove, "remove", nil, "configs to put back to their defaults")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say whether it would be done")
	cmd.Flags().BoolVar(&noValidate, "no-validate", false, "do not reach the other cluster first")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		set, err := readConfigs(files, configs)
		if err != nil {
			return err
		}
		if err := names.into(set); err != nil {
			return err
		}
		if len(set)+len(remove) == 0 {
			return fmt.Errorf("nothing to change. Give --config key=value or --remove key")
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		if err := alterLink(cmd.Context(), c, args[0], alterations(set, remove), mode(dryRun), noValidate); err != nil {
			return err
		}
		return a.say("%sUpdated cluster link \"%s\".", dryRunMark(dryRun), args[0])
	}
	return cmd
}

// alterLink changes a link's configs, unless the other cluster does not answer with them: then it says how to change them all the same.
func alterLink(ctx context.Context, c *client.Client, link string, changes []api.AlterConfig, mode client.Mode, noValidate bool) error {
	if noValidate {
		return c.AlterLinkConfigs(ctx, link, changes, mode)
	}
	err := c.TryLinkConfigs(ctx, link, changes, mode)
	var refused *client.Error
	if errors.As(err, &refused) && c.AlterLinkConfigs(ctx, link, changes, client.ValidateOnly) == nil {
		return fmt.Errorf("%w\nNothing was changed. To change it all the same, give --no-validate.", err)
	}
	return err
}

func configFlags(cmd *cobra.Command, configs, files *[]string) {
	cmd.Flags().StringArrayVar(configs, "config", nil, "configs as `key=value`, parted by commas, or the name of a properties "+
		"file; may be repeated")
	cmd.Flags().StringArrayVar(files, "config-file", nil, "properties `file` with configs")
}

type configRow struct {
	Name      string   `human:"Config Name" json:"config_name"`
	Value     string   `human:"Config Value" json:"config_value"`
	ReadOnly  bool     `human:"Read-Only" json:"read_only"`
	Sensitive bool     `human:"Sensitive" json:"sensitive"`
	Source    string   `human:"Source" json:"source"`
	Synonyms  []string `human:"Synonyms" json:"synonyms"`
}

func (a *app) linkConfigList() *cobra.Command {
	cmd := &cobra.Command{Use: "list <link>", Short: "List all configs of a link; -o json shows long values whole", Args: exactArgs("<link>")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		configs, err := c.LinkConfigs(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		var rows []configRow
		for _, cfg := range configs {
			rows = append(rows, configRow{cfg.Name, a.fitting(text(cfg.Value)), cfg.IsReadOnly, cfg.IsSensitive, cfg.Source, cfg.Synonyms})
		}
		return printRows(a, rows)
	}
	return cmd
}

type taskRow struct {
	Name   string     `human:"Task Name" json:"task_name"`
	State  string     `human:"State" json:"state"`
	Errors []codedRow `human:"Errors" json:"errors"`
}

type codedRow struct {
	Code    string `json:"error_code"`
	Message string `json:"error_message"`
}

func (r codedRow) String() string { return fmt.Sprintf("%s: %q", r.Code, r.Message) }

func (a *app) linkTaskList() *cobra.Command {
	cmd := &cobra.Command{Use: "list <link>", Short: "List the periodic jobs of a link and what ails them", Args: exactArgs("<link>")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		l, err := c.Link(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		var rows []taskRow
		if l.Tasks != nil {
			for _, task := range *l.Tasks {
				row := taskRow{task.TaskName, task.State, []codedRow{}}
				for _, e := range task.Errors {
					row.Errors = append(row.Errors, codedRow{e.ErrorCode, e.ErrorMessage})
				}
				rows = append(rows, row)
			}
		}
		return printRows(a, rows)
	}
	return cmd
}
