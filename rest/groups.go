package rest

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/hawserio/hawser/rest/api"
)

// listGroups shows the groups that the caller may DESCRIBE.
func listGroups(c *call) error {
	groups, err := c.Groups.Groups(c.r.Context())
	if err != nil {
		return err
	}
	groups = slices.SortedFunc(slices.Values(groups), func(a, b Group) int { return cmp.Compare(a.ID, b.ID) })
	var out []api.Group
	for _, g := range groups {
		if c.allowed(Describe, groupResource(g.ID)) {
			out = append(out, c.groupJSON(g))
		}
	}
	return list(c, api.KindGroupList, c.self("consumer-groups"), out)
}

func getGroup(c *call) error {
	g, err := c.Groups.Group(c.r.Context(), c.groupID())
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, c.groupJSON(g))
}

func (c *call) groupID() string { return c.r.PathValue("consumer_group_id") }

func (c *call) groupSelf(id string, rest ...string) string {
	return c.self(append([]string{"consumer-groups", escape(id)}, rest...)...)
}

func (c *call) groupJSON(g Group) api.Group {
	return api.Group{
		Kind:              api.KindGroup,
		Metadata:          c.metadata(c.groupSelf(g.ID), "/consumer-group="+g.ID),
		ClusterID:         c.Cluster.ID(),
		ConsumerGroupID:   g.ID,
		IsSimple:          g.Simple,
		PartitionAssignor: g.Assignor,
		State:             shout(cmp.Or(g.State, "Unknown")),
		Type:              shout(cmp.Or(g.Type, "classic")),
		Coordinator:       api.Related{Related: c.self("brokers", itoa(g.Coordinator))},
		Consumers:         api.Related{Related: c.groupSelf(g.ID, "consumers")},
		LagSummary:        api.Related{Related: c.groupSelf(g.ID, "lag-summary")},
	}
}

// shout writes the protocol's PreparingRebalance as REST's PREPARING_REBALANCE.
func shout(word string) string {
	var b strings.Builder
	for i, c := range word {
		if i > 0 && c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(c)
	}
	return strings.ToUpper(b.String())
}

func listConsumers(c *call) error {
	g, err := c.Groups.Group(c.r.Context(), c.groupID())
	if err != nil {
		return err
	}
	members := slices.SortedFunc(slices.Values(g.Members), func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	var out []api.Consumer
	for _, m := range members {
		out = append(out, c.consumerJSON(m))
	}
	return list(c, api.KindConsumerList, c.groupSelf(g.ID, "consumers"), out)
}

func (c *call) consumerJSON(m Member) api.Consumer {
	group := c.groupID()
	at := c.groupSelf(group, "consumers", escape(m.ID))
	return api.Consumer{
		Kind:            api.KindConsumer,
		Metadata:        c.metadata(at, "/consumer-group="+group+"/consumer="+m.ID),
		ClusterID:       c.Cluster.ID(),
		ConsumerGroupID: group,
		ConsumerID:      m.ID,
		InstanceID:      orNull(m.InstanceID),
		ClientID:        m.ClientID,
		Assignments:     api.Related{Related: at + "/assignments"},
	}
}

// lags is the group's lags by topic and partition, those on topics the caller may DESCRIBE.
func (c *call) lags() ([]GroupLag, error) {
	lags, err := c.Groups.Lags(c.r.Context(), c.groupID())
	if err != nil {
		return nil, err
	}
	var visible []GroupLag
	for _, lag := range lags {
		if c.allowed(Describe, topicResource(lag.Topic)) {
			visible = append(visible, lag)
		}
	}
	slices.SortFunc(visible, func(a, b GroupLag) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return visible, nil
}

func listLags(c *call) error {
	lags, err := c.lags()
	if err != nil {
		return err
	}
	var out []api.Lag
	for _, lag := range lags {
		out = append(out, c.lagJSON(lag))
	}
	return list(c, api.KindLagList, c.groupSelf(c.groupID(), "lags"), out)
}

func getLag(c *call) error {
	partition, err := c.pathInt("partition_id", "partition id")
	if err != nil {
		return err
	}
	lags, err := c.lags()
	if err != nil {
		return err
	}
	topic := c.r.PathValue("topic_name")
	for _, lag := range lags {
		if lag.Topic == topic && lag.Partition == partition {
			return c.json(http.StatusOK, c.lagJSON(lag))
		}
	}
	return notFound("Consumer group '%s' has committed no offset on partition %d of topic '%s'. GET …/lags lists where it has.",
		c.groupID(), partition, topic)
}

func (c *call) lagJSON(lag GroupLag) api.Lag {
	group := c.groupID()
	return api.Lag{
		Kind: api.KindLag,
		Metadata: c.metadata(c.groupSelf(group, "lags", escape(lag.Topic), "partitions", itoa(lag.Partition)),
			"/consumer-group="+group+"/lag="+lag.Topic+"/partition="+itoa(lag.Partition)),
		ClusterID:       c.Cluster.ID(),
		ConsumerGroupID: group,
		TopicName:       lag.Topic,
		PartitionID:     lag.Partition,
		CurrentOffset:   lag.Committed,
		LogEndOffset:    lag.End,
		Lag:             max(lag.End-lag.Committed, 0),
		ConsumerID:      lag.Member.ID,
		InstanceID:      orNull(lag.Member.InstanceID),
		ClientID:        lag.Member.ClientID,
	}
}

func getLagSummary(c *call) error {
	lags, err := c.lags()
	if err != nil {
		return err
	}
	group := c.groupID()
	out := api.LagSummary{
		Kind:            api.KindLagSummary,
		Metadata:        c.metadata(c.groupSelf(group, "lag-summary"), "/consumer-group="+group+"/lag-summary"),
		ClusterID:       c.Cluster.ID(),
		ConsumerGroupID: group,
	}
	var worst GroupLag
	if len(lags) > 0 {
		worst = lags[0]
	}
	for _, lag := range lags {
		out.TotalLag += max(lag.End-lag.Committed, 0)
		if lag.End-lag.Committed > worst.End-worst.Committed {
			worst = lag
		}
	}
	out.MaxLag = max(worst.End-worst.Committed, 0)
	out.MaxLagTopicName, out.MaxLagPartitionID = worst.Topic, worst.Partition
	out.MaxLagConsumerID, out.MaxLagClientID, out.MaxLagInstanceID = worst.Member.ID, worst.Member.ClientID, orNull(worst.Member.InstanceID)
	out.MaxLagConsumer = api.Related{Related: c.groupSelf(group, "consumers", escape(worst.Member.ID))}
	out.MaxLagPartition = api.Related{Related: c.self("topics", escape(worst.Topic), "partitions", itoa(worst.Partition))}
	return c.json(http.StatusOK, out)
}
