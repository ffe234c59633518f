package rest

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest/api"
)

// listTopics shows the topics that the caller may DESCRIBE.
func listTopics(c *call) error {
	topics, err := c.Topics.Topics(c.r.Context())
	if err != nil {
		return err
	}
	topics = slices.SortedFunc(slices.Values(topics), func(a, b Topic) int { return cmp.Compare(a.Name, b.Name) })
	var out []api.Topic
	for _, topic := range topics {
		if c.allowed(Describe, topicResource(topic.Name)) {
			out = append(out, c.topicJSON(topic))
		}
	}
	return list(c, api.KindTopicList, c.self("topics"), out)
}

func createTopic(c *call) error {
	queryOnly, err := c.queryBool("validate_only", false)
	if err != nil {
		return err
	}
	var rq api.CreateTopicRequest
	if err := c.body(&rq, bodyRequired); err != nil {
		return err
	}
	spec, err := topicSpec(rq)
	if err != nil {
		return err
	}
	spec.ValidateOnly = queryOnly || rq.ValidateOnly
	if err := c.mayCreate(spec.Name); err != nil {
		return err
	}
	topic, err := c.Topics.CreateTopic(c.r.Context(), spec)
	if err != nil {
		return err
	}
	if brokers := len(c.Cluster.Brokers()); int(spec.ReplicationFactor) > brokers {
		// A client written for a cluster asks for three. The number is kept and shown; what it is worth here must be said.
		c.w.Header().Set("Warning",
			fmt.Sprintf(`299 hawser "replication_factor is %d, and there are %d brokers: each partition has one copy on disk"`,
				spec.ReplicationFactor, brokers))
	}
	if spec.ValidateOnly {
		return c.json(http.StatusOK, c.topicJSON(topic))
	}
	return c.created(c.self("topics", escape(topic.Name)), c.topicJSON(topic))
}

// mayCreate is Kafka's rule: CREATE on the cluster or on the topic.
func (c *call) mayCreate(topic string) error {
	if c.allowed(Create, Resource{Type: "CLUSTER"}) {
		return nil
	}
	return c.allow(Create, topicResource(topic))
}

// partitionsMax bounds what a request may ask for before the domain's own limits are looked at.
const partitionsMax = 100_000

func topicSpec(rq api.CreateTopicRequest) (TopicSpec, error) {
	spec := TopicSpec{Name: rq.TopicName}
	if rq.TopicName == "" {
		return spec, badRequest("The field 'topic_name' is missing; it is the new topic's name.")
	}
	if err := kafka.CheckTopicName(rq.TopicName); err != nil {
		return spec, err
	}
	var err error
	if spec.Partitions, err = count("partitions_count", rq.PartitionsCount, partitionsMax); err != nil {
		return spec, err
	}
	if spec.ReplicationFactor, err = count("replication_factor", rq.ReplicationFactor, math.MaxInt16); err != nil {
		return spec, err
	}
	spec.Configs, err = settings(rq.Configs)
	return spec, err
}

// count reads a number of something; absent and -1 mean the default and become 0.
func count(field string, n *int32, limit int32) (int32, error) {
	switch {
	case n == nil || *n == -1:
		return 0, nil
	case *n < 1 || *n > limit:
		return 0, badRequest("The field '%s' is %d; it must be 1 to %d, or -1 for the default.", field, *n, limit)
	}
	return *n, nil
}

func getTopic(c *call) error {
	topic, err := c.Topics.Topic(c.r.Context(), c.r.PathValue("topic_name"))
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, c.topicJSON(topic))
}

func patchTopic(c *call) error {
	var rq api.UpdatePartitionsRequest
	if err := c.body(&rq, bodyRequired); err != nil {
		return err
	}
	if rq.PartitionsCount == nil || *rq.PartitionsCount < 1 || *rq.PartitionsCount > partitionsMax {
		return badRequest("The field 'partitions_count' must be the new number of partitions, 1 to %d.", partitionsMax)
	}
	name := c.r.PathValue("topic_name")
	if err := c.Topics.AddPartitions(c.r.Context(), name, *rq.PartitionsCount); err != nil {
		return err
	}
	return getTopic(c)
}

func deleteTopic(c *call) error {
	if err := c.Topics.DeleteTopic(c.r.Context(), c.r.PathValue("topic_name")); err != nil {
		return err
	}
	return c.noContent()
}

func (c *call) topicJSON(topic Topic) api.Topic {
	at := func(rest ...string) string { return c.self(append([]string{"topics", escape(topic.Name)}, rest...)...) }
	return api.Topic{
		Kind:                   api.KindTopic,
		Metadata:               c.metadata(at(), "/topic="+topic.Name),
		ClusterID:              c.Cluster.ID(),
		TopicName:              topic.Name,
		IsInternal:             topic.Internal,
		ReplicationFactor:      topic.ReplicationFactor,
		PartitionsCount:        int32(len(topic.Partitions)),
		Partitions:             api.Related{Related: at("partitions")},
		Configs:                api.Related{Related: at("configs")},
		PartitionReassignments: api.Related{Related: at("partitions", "-", "reassignment")},
		AuthorizedOperations:   []string{},
	}
}
