package handler

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/quota"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// createPartitionsMax bounds the partitions that one request may make (Kafka's MAX_PARTITIONS_PER_BATCH).
const createPartitionsMax = 10_000

// clusterMetadataTopic is the name of Apache Kafka's metadata log, kept free as there.
const clusterMetadataTopic = "__cluster_metadata"

// CreateTopics, key 19, versions 2-7. Makes topics; with the config hawser.mirror.link, mirror topics.
//
//	Each topic is made or refused for itself. validate_only makes none.
//	There is one broker: assignments may name no other and the replication factor is 1.
//	v4 -1 means the default. v5 flexible encoding; configs, counts in the answer. v6 refused
//	over the quota of mutations (KIP-599). v7 topic ids.
func createTopics(ctx context.Context, c *call, rq *kmsg.CreateTopicsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrCreateTopicsResponse()
	times, total := map[string]int{}, int64(0)
	for i := range rq.Topics {
		times[rq.Topics[i].Topic]++
		total += int64(max(rq.Topics[i].NumPartitions, 1, int32(len(rq.Topics[i].ReplicaAssignment))))
	}
	answered := map[string]bool{}
	for i := range rq.Topics {
		in := &rq.Topics[i]
		if answered[in.Topic] {
			continue
		}
		answered[in.Topic] = true
		var t *meta.Topic
		var err error
		switch {
		case times[in.Topic] > 1:
			err = kafka.Errorf(kafka.InvalidRequest, "Duplicate topic name.")
		case total > createPartitionsMax:
			err = kafka.Errorf(kafka.PolicyViolation, "Excessively large number of partitions per request: at most %d.",
				createPartitionsMax)
		default:
			t, err = c.createTopic(ctx, in, rq.ValidateOnly)
		}
		resp.Topics = append(resp.Topics, c.createdAnswer(in, t, err))
	}
	return resp, nil
}

func (c *call) createTopic(ctx context.Context, in *kmsg.CreateTopicsRequestTopic, validateOnly bool) (*meta.Topic, error) {
	if !c.clusterAllowed(kmsg.ACLOperationCreate) && !c.topicAllowed(kmsg.ACLOperationCreate, in.Topic) {
		return nil, topicDenied(in.Topic)
	}
	if err := kafka.CheckTopicName(in.Topic); err != nil {
		return nil, err
	}
	if in.Topic == clusterMetadataTopic {
		return nil, kafka.Errorf(kafka.InvalidRequest, "Creation of internal topic %s is prohibited.", in.Topic)
	}
	configs, mirror, err := splitConfigs(in.Configs)
	if err != nil {
		return nil, err
	}
	if err := invalidConfigs(config.Topic.Check(configs)); err != nil {
		return nil, err
	}
	if len(mirror) > 0 {
		return c.createMirror(ctx, in, configs, mirror, validateOnly)
	}
	count, factor, err := c.counts(in)
	if err != nil {
		return nil, err
	}
	if err := c.mutate(int(count), strictFrom(c.version, 6)); err != nil {
		return nil, err
	}
	create := c.Topics.Create
	if validateOnly {
		create = c.Topics.Validate
	}
	return create(ctx, NewTopic{Name: in.Topic, Partitions: count, ReplicationFactor: factor, Configs: configs})
}

// splitConfigs tells the topic's configs from those that make a mirror of it.
func splitConfigs(list []kmsg.CreateTopicsRequestTopicConfig) (configs, mirror map[string]string, err error) {
	configs, mirror = map[string]string{}, map[string]string{}
	for _, in := range list {
		into := configs
		if strings.HasPrefix(in.Name, MirrorConfigPrefix) {
			into = mirror
		}
		_, again := into[in.Name]
		switch {
		case in.Value == nil:
			return nil, nil, kafka.Errorf(kafka.InvalidConfig, "Null value not supported for topic configs: %s", in.Name)
		case again:
			return nil, nil, kafka.Errorf(kafka.InvalidConfig, "Topic config %s is given twice.", in.Name)
		}
		into[in.Name] = *in.Value
	}
	return configs, mirror, nil
}

func (c *call) createMirror(ctx context.Context, in *kmsg.CreateTopicsRequestTopic, configs, mirror map[string]string,
	validateOnly bool) (*meta.Topic, error) {
	for name := range mirror {
		if name != MirrorLinkConfig && name != MirrorSourceConfig {
			return nil, kafka.Errorf(kafka.InvalidConfig, "Config %s cannot be set when a topic is created: only %s and %s can.",
				name, MirrorLinkConfig, MirrorSourceConfig)
		}
	}
	switch {
	case kafka.IsInternal(in.Topic):
		return nil, kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is internal and cannot be a mirror.", in.Topic)
	case c.Mirrors == nil:
		return nil, kafka.Errorf(kafka.InvalidConfig, "This broker has no cluster links: leave %s out.", MirrorLinkConfig)
	case mirror[MirrorLinkConfig] == "":
		return nil, kafka.Errorf(kafka.InvalidConfig, "%s needs %s, the name of the cluster link.", MirrorSourceConfig, MirrorLinkConfig)
	case in.NumPartitions > 0 || len(in.ReplicaAssignment) > 0:
		return nil, kafka.Errorf(kafka.InvalidRequest, "A mirror topic has the partitions of its source: leave their number out.")
	case !c.clusterAllowed(kmsg.ACLOperationAlter) || !c.clusterAllowed(kmsg.ACLOperationAlterConfigs):
		return nil, errClusterDenied
	}
	spec := NewMirror{Topic: in.Topic, Link: mirror[MirrorLinkConfig], SourceTopic: mirror[MirrorSourceConfig],
		ReplicationFactor: in.ReplicationFactor, Configs: configs}
	if validateOnly {
		return c.Mirrors.Validate(ctx, spec)
	}
	// How many partitions it takes is known only afterwards.
	if err := c.mutate(0, strictFrom(c.version, 6)); err != nil {
		return nil, err
	}
	t, err := c.Mirrors.Create(ctx, spec)
	if err == nil {
		err = c.mutate(int(t.Partitions), quota.Permissive)
	}
	return t, err
}

// counts is the number of partitions and the replication factor asked for.
func (c *call) counts(in *kmsg.CreateTopicsRequestTopic) (int32, int16, error) {
	if len(in.ReplicaAssignment) > 0 {
		return c.assigned(in)
	}
	count, factor := in.NumPartitions, in.ReplicationFactor
	if count == -1 {
		count = c.Settings.NumPartitions
	}
	if factor == -1 {
		factor = c.Settings.ReplicationFactor
	}
	switch {
	case factor <= 0:
		return 0, 0, kafka.Errorf(kafka.InvalidReplicationFactor,
			"Replication factor must be larger than 0, or -1 to use the default value.")
	case factor > 1:
		return 0, 0, kafka.Errorf(kafka.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): "+
			"The target replication factor of %d cannot be reached because only 1 broker(s) are registered.", factor, factor)
	case count <= 0:
		return 0, 0, kafka.Errorf(kafka.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	return count, factor, nil
}

// assigned checks a manual assignment.
func (c *call) assigned(in *kmsg.CreateTopicsRequestTopic) (int32, int16, error) {
	switch {
	case in.ReplicationFactor != -1:
		return 0, 0, kafka.Errorf(kafka.InvalidRequest,
			"A manual partition assignment was specified, but replication factor was not set to -1.")
	case in.NumPartitions != -1:
		return 0, 0, kafka.Errorf(kafka.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	seen := map[int32]bool{}
	for _, a := range in.ReplicaAssignment {
		if seen[a.Partition] {
			return 0, 0, kafka.Errorf(kafka.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d",
				a.Partition)
		}
		seen[a.Partition] = true
		if err := c.checkReplicas(a.Replicas); err != nil {
			return 0, 0, err
		}
	}
	for i := range len(in.ReplicaAssignment) {
		if !seen[int32(i)] {
			return 0, 0, kafka.Errorf(kafka.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
	}
	return int32(len(in.ReplicaAssignment)), 1, nil
}

// checkReplicas accepts this broker alone.
func (c *call) checkReplicas(nodes []int32) error {
	if len(nodes) == 0 {
		return kafka.Errorf(kafka.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	for _, node := range nodes {
		if node != c.NodeID {
			return kafka.Errorf(kafka.InvalidReplicaAssignment,
				"The manual partition assignment includes broker %d, but no such broker is registered.", node)
		}
	}
	if len(nodes) > 1 {
		return kafka.Errorf(kafka.InvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.",
			c.NodeID)
	}
	return nil
}

// createdAnswer describes what was made. What the caller may not see of it is
// left out, with a code that says so.
func (c *call) createdAnswer(in *kmsg.CreateTopicsRequestTopic, t *meta.Topic, err error) kmsg.CreateTopicsResponseTopic {
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic, out.NumPartitions, out.ReplicationFactor = in.Topic, -1, -1
	if err != nil {
		out.ErrorCode, out.ErrorMessage = code(err), kafka.MessageOf(err)
		out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		return out
	}
	out.TopicID = t.ID
	if !c.topicAllowed(kmsg.ACLOperationDescribeConfigs, in.Topic) {
		out.ConfigErrorCode = int16(kafka.TopicAuthorizationFailed)
		return out
	}
	out.NumPartitions, out.ReplicationFactor = t.Partitions, t.ReplicationFactor
	out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	for _, e := range c.topicEntries(t.Configs) {
		row := kmsg.NewCreateTopicsResponseTopicConfig()
		row.Name, row.Value, row.ReadOnly, row.Source, row.IsSensitive = e.key.Name, e.value, e.key.Fixed, int8(e.source), e.key.Sensitive
		out.Configs = append(out.Configs, row)
	}
	return out
}

// sortedNames is a map's keys in order.
func sortedNames(set map[string]string) []string { return slices.Sorted(maps.Keys(set)) }
