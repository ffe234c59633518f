package rest

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest/api"
)

func listPartitions(c *call) error {
	topic, err := c.Topics.Topic(c.r.Context(), c.r.PathValue("topic_name"))
	if err != nil {
		return err
	}
	parts := slices.SortedFunc(slices.Values(topic.Partitions), func(a, b Partition) int { return cmp.Compare(a.ID, b.ID) })
	var out []api.Partition
	for _, p := range parts {
		out = append(out, c.partitionJSON(topic.Name, p))
	}
	return list(c, api.KindPartitionList, c.self("topics", escape(topic.Name), "partitions"), out)
}

func getPartition(c *call) error {
	p, err := c.partition()
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, c.partitionJSON(c.r.PathValue("topic_name"), p))
}

// partition is the one of the path.
func (c *call) partition() (Partition, error) {
	id, err := c.pathInt("partition_id", "partition id")
	if err != nil {
		return Partition{}, err
	}
	topic, err := c.Topics.Topic(c.r.Context(), c.r.PathValue("topic_name"))
	if err != nil {
		return Partition{}, err
	}
	for _, p := range topic.Partitions {
		if p.ID == id {
			return p, nil
		}
	}
	return Partition{}, kafka.Errorf(kafka.UnknownTopicOrPartition, "Topic '%s' has no partition %d; it has %d, counted from 0.",
		topic.Name, id, len(topic.Partitions))
}

func (c *call) partitionJSON(topic string, p Partition) api.Partition {
	at := func(rest ...string) string {
		return c.self(append([]string{"topics", escape(topic), "partitions", itoa(p.ID)}, rest...)...)
	}
	out := api.Partition{
		Kind:         api.KindPartition,
		Metadata:     c.metadata(at(), "/topic="+topic+"/partition="+itoa(p.ID)),
		ClusterID:    c.Cluster.ID(),
		TopicName:    topic,
		PartitionID:  p.ID,
		Replicas:     api.Related{Related: at("replicas")},
		Reassignment: api.Related{Related: at("reassignment")},
	}
	if p.Leader >= 0 {
		out.Leader = &api.Related{Related: at("replicas", itoa(p.Leader))}
	}
	return out
}

func listReplicas(c *call) error {
	p, err := c.partition()
	if err != nil {
		return err
	}
	var out []api.Replica
	for _, broker := range slices.Sorted(slices.Values(p.Replicas)) {
		out = append(out, c.replicaJSON(p, broker))
	}
	return list(c, api.KindReplicaList, c.self("topics", escape(c.r.PathValue("topic_name")), "partitions", itoa(p.ID), "replicas"), out)
}

func getReplica(c *call) error {
	broker, err := c.pathInt("broker_id", "broker id")
	if err != nil {
		return err
	}
	p, err := c.partition()
	if err != nil {
		return err
	}
	if !slices.Contains(p.Replicas, broker) {
		return notFound("Partition %d of topic '%s' has no replica on broker %d. GET …/replicas lists those it has.", p.ID,
			c.r.PathValue("topic_name"), broker)
	}
	return c.json(http.StatusOK, c.replicaJSON(p, broker))
}

func (c *call) replicaJSON(p Partition, broker int32) api.Replica {
	topic := c.r.PathValue("topic_name")
	return api.Replica{
		Kind: api.KindReplica,
		Metadata: c.metadata(c.self("topics", escape(topic), "partitions", itoa(p.ID), "replicas", itoa(broker)),
			"/topic="+topic+"/partition="+itoa(p.ID)+"/replica="+itoa(broker)),
		ClusterID:   c.Cluster.ID(),
		TopicName:   topic,
		PartitionID: p.ID,
		BrokerID:    broker,
		IsLeader:    broker == p.Leader,
		IsInSync:    slices.Contains(p.InSync, broker),
		Broker:      api.Related{Related: c.self("brokers", itoa(broker))},
	}
}
