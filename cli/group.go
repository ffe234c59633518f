package cli

import (
	"path"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

func (a *app) consumerGroup() *cobra.Command {
	return a.group("group", "Consumer groups of this cluster", a.groupList(), a.groupDescribe(), a.groupMembers())
}

type groupRow struct {
	ID       string `human:"Consumer Group" json:"consumer_group_id"`
	State    string `human:"State" json:"state"`
	Type     string `human:"Type" json:"type"`
	Assignor string `human:"Partition Assignor" json:"partition_assignor"`
	Simple   bool   `human:"Simple" json:"is_simple"`
	Broker   string `human:"Coordinator" json:"coordinator"`
}

func groupRowOf(g api.Group) groupRow {
	return groupRow{g.ConsumerGroupID, g.State, g.Type, g.PartitionAssignor, g.IsSimple, path.Base(g.Coordinator.Related)}
}

func (a *app) groupList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the consumer groups", Args: noArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		groups, err := c.Groups(cmd.Context())
		if err != nil {
			return err
		}
		var rows []groupRow
		for _, g := range groups {
			rows = append(rows, groupRowOf(g))
		}
		return printRows(a, rows)
	}
	return cmd
}

type groupLagRow struct {
	Topic     string `human:"Topic" json:"topic_name"`
	Partition int32  `human:"Partition" json:"partition_id"`
	Current   int64  `human:"Current Offset" json:"current_offset"`
	End       int64  `human:"Log End Offset" json:"log_end_offset"`
	Lag       int64  `human:"Lag" json:"lag"`
	Consumer  string `human:"Consumer" json:"consumer_id"`
	Instance  string `human:"Instance" json:"instance_id"`
	Client    string `human:"Client" json:"client_id"`
}

// groupDetail is what programs get in one piece.
type groupDetail struct {
	groupRow
	Lags []groupLagRow `json:"lags"`
}

func (a *app) groupDescribe() *cobra.Command {
	cmd := &cobra.Command{Use: "describe <group>", Short: "Describe a consumer group and how far it is behind", Args: exactArgs("<group>")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		g, err := c.Group(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		lags, err := c.Lags(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		detail := groupDetail{groupRowOf(g), []groupLagRow{}}
		for _, lag := range lags {
			detail.Lags = append(detail.Lags, groupLagRow{lag.TopicName, lag.PartitionID, lag.CurrentOffset, lag.LogEndOffset, lag.Lag,
				lag.ConsumerID, text(lag.InstanceID), lag.ClientID})
		}
		if a.format != "human" {
			return a.printData(detail)
		}
		if err := printOne(a, detail.groupRow); err != nil {
			return err
		}
		if err := a.say(""); err != nil {
			return err
		}
		return printRows(a, detail.Lags)
	}
	return cmd
}

type groupMemberRow struct {
	ID       string `human:"Consumer" json:"consumer_id"`
	Client   string `human:"Client" json:"client_id"`
	Instance string `human:"Instance" json:"instance_id"`
	Owns     string `human:"Assignment" json:"assignment"`
}

// groupMembers lists who is in a group and what each owns, as topic:0,1 and so on.
func (a *app) groupMembers() *cobra.Command {
	cmd := &cobra.Command{Use: "members <group>", Short: "List the members of a consumer group and the partitions that each owns",
		Args: exactArgs("<group>")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		members, err := c.Consumers(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		var rows []groupMemberRow
		for _, m := range members {
			owned, err := c.Assignments(cmd.Context(), args[0], m.ConsumerID)
			if err != nil && !client.NotFound(err) { // it may have left since
				return err
			}
			rows = append(rows, groupMemberRow{m.ConsumerID, m.ClientID, text(m.InstanceID), ownedText(owned)})
		}
		return printRows(a, rows)
	}
	return cmd
}

func ownedText(owned []api.Assignment) string {
	var b strings.Builder
	for i, o := range owned {
		switch {
		case i > 0 && owned[i-1].TopicName == o.TopicName:
			b.WriteString(",")
		case i > 0:
			b.WriteString(" " + o.TopicName + ":")
		default:
			b.WriteString(o.TopicName + ":")
		}
		b.WriteString(strconv.Itoa(int(o.PartitionID)))
	}
	return b.String()
}

func (a *app) cluster() *cobra.Command {
	return a.group("cluster", "This cluster", a.clusterDescribe())
}

type brokerRow struct {
	ID      int32  `human:"Broker" json:"broker_id"`
	Address string `human:"Address" json:"address"`
	Rack    string `human:"Rack" json:"rack,omitempty"`
}

// clusterDetail is what programs get in one piece.
type clusterDetail struct {
	ID         string      `json:"cluster_id"`
	Controller string      `json:"controller,omitempty"`
	URL        string      `json:"rest_url"`
	ReportKey  string      `json:"report_key"`
	Brokers    []brokerRow `json:"brokers"`
}

func (a *app) clusterDescribe() *cobra.Command {
	cmd := &cobra.Command{Use: "describe", Short: "Describe the cluster and its brokers", Args: noArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		cluster, err := c.Cluster(cmd.Context())
		if err != nil {
			return err
		}
		brokers, err := c.Brokers(cmd.Context())
		if err != nil {
			return err
		}
		key, err := c.ReportKey(cmd.Context())
		if err != nil {
			return err
		}
		detail := clusterDetail{ID: cluster.ClusterID, URL: c.URL(), ReportKey: key.KeyID, Brokers: []brokerRow{}}
		if cluster.Controller != nil {
			detail.Controller = path.Base(cluster.Controller.Related)
		}
		for _, b := range brokers {
			detail.Brokers = append(detail.Brokers, brokerRow{b.BrokerID, addressOf(b), text(b.Rack)})
		}
		if a.format != "human" {
			return a.printData(detail)
		}
		if err := a.say("Cluster:     %s\nREST URL:    %s\nController:  %s\nReport key:  %s\n", detail.ID, detail.URL, detail.Controller,
			detail.ReportKey); err != nil {
			return err
		}
		return printRows(a, detail.Brokers)
	}
	return cmd
}

func addressOf(b api.Broker) string {
	if b.Host == nil || b.Port == nil {
		return ""
	}
	return *b.Host + ":" + strconv.Itoa(int(*b.Port))
}
