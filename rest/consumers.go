package rest

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/hawserio/hawser/rest/api"
)

func getConsumer(c *call) error {
	m, err := c.member()
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, c.consumerJSON(m))
}

// member is the group's member that the path names.
func (c *call) member() (Member, error) {
	g, err := c.Groups.Group(c.r.Context(), c.groupID())
	if err != nil {
		return Member{}, err
	}
	id := c.r.PathValue("consumer_id")
	for _, m := range g.Members {
		if m.ID == id {
			return m, nil
		}
	}
	return Member{}, notFound("Consumer group '%s' has no member '%s'. GET …/consumers lists those it has.", g.ID, id)
}

// assigned is what a member owns by topic and partition, those on topics the caller may DESCRIBE.
func (c *call) assigned(m Member) []Owned {
	visible := slices.DeleteFunc(slices.Clone(m.Owns), func(o Owned) bool { return !c.allowed(Describe, topicResource(o.Topic)) })
	slices.SortFunc(visible, func(a, b Owned) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return visible
}

func listAssignments(c *call) error {
	m, err := c.member()
	if err != nil {
		return err
	}
	var out []api.Assignment
	for _, o := range c.assigned(m) {
		out = append(out, c.assignmentJSON(m, o))
	}
	return list(c, api.KindAssignmentList, c.groupSelf(c.groupID(), "consumers", escape(m.ID), "assignments"), out)
}

func getAssignment(c *call) error {
	partition, err := c.pathInt("partition_id", "partition id")
	if err != nil {
		return err
	}
	m, err := c.member()
	if err != nil {
		return err
	}
	wanted := Owned{Topic: c.r.PathValue("topic_name"), Partition: partition}
	if !slices.Contains(c.assigned(m), wanted) {
		return notFound("Consumer '%s' does not own partition %d of topic '%s'. GET …/assignments lists those it owns.", m.ID, partition,
			wanted.Topic)
	}
	return c.json(http.StatusOK, c.assignmentJSON(m, wanted))
}

func (c *call) assignmentJSON(m Member, o Owned) api.Assignment {
	group := c.groupID()
	at := c.groupSelf(group, "consumers", escape(m.ID), "assignments", escape(o.Topic), "partitions", itoa(o.Partition))
	return api.Assignment{
		Kind:            api.KindAssignment,
		Metadata:        c.metadata(at, "/consumer-group="+group+"/consumer="+m.ID+"/assignment="+o.Topic+"/partition="+itoa(o.Partition)),
		ClusterID:       c.Cluster.ID(),
		ConsumerGroupID: group,
		ConsumerID:      m.ID,
		TopicName:       o.Topic,
		PartitionID:     o.Partition,
		Partition:       api.Related{Related: c.self("topics", escape(o.Topic), "partitions", itoa(o.Partition))},
		Lag:             api.Related{Related: c.groupSelf(group, "lags", escape(o.Topic), "partitions", itoa(o.Partition))},
	}
}
