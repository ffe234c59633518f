package broker

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/handler"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/rest"
)

// restTopics lets REST see and change topics by the rules of the Kafka door. It
// implements rest.Topics.
type restTopics struct{ b *Broker }

// Topics implements rest.Topics.
func (t *restTopics) Topics(context.Context) ([]rest.Topic, error) {
	var list []rest.Topic
	for _, topic := range t.b.topics.All() {
		list = append(list, t.describe(topic))
	}
	return list, nil
}

// Topic implements rest.Topics.
func (t *restTopics) Topic(_ context.Context, name string) (rest.Topic, error) {
	topic, err := t.find(name)
	if err != nil {
		return rest.Topic{}, err
	}
	return t.describe(topic), nil
}

func (t *restTopics) find(name string) (*meta.Topic, error) {
	topic := t.b.topics.ByName(name)
	if topic == nil {
		return nil, kafka.UnknownTopicError(name)
	}
	return topic, nil
}

func (t *restTopics) describe(topic *meta.Topic) rest.Topic {
	shown := rest.Topic{Name: topic.Name, Internal: kafka.IsInternal(topic.Name), ReplicationFactor: int32(topic.ReplicationFactor)}
	self := []int32{t.b.cfg.NodeID}
	for n := range topic.Partitions {
		leader := t.b.cfg.NodeID
		if p := t.b.owner.Get(kafka.PartitionID{Topic: topic.ID, Partition: n}); !topic.ID.IsZero() && (p == nil || p.Err() != nil) {
			leader = -1
		}
		shown.Partitions = append(shown.Partitions, rest.Partition{ID: n, Leader: leader, Replicas: self, InSync: self})
	}
	return shown
}

// CreateTopic implements rest.Topics.
func (t *restTopics) CreateTopic(ctx context.Context, spec rest.TopicSpec) (rest.Topic, error) {
	if err := kafka.CheckTopicName(spec.Name); err != nil {
		return rest.Topic{}, err
	}
	if err := config.Topic.Check(spec.Configs); err != nil {
		return rest.Topic{}, kafka.Errorf(kafka.InvalidConfig, "%v", err)
	}
	wanted := handler.NewTopic{
		Name: spec.Name, Configs: spec.Configs,
		Partitions:        cmp.Or(spec.Partitions, int32(t.b.values.Int("num.partitions"))),
		ReplicationFactor: int16(cmp.Or(int64(spec.ReplicationFactor), t.b.values.Int("default.replication.factor"))),
	}
	if wanted.Partitions < 1 {
		return rest.Topic{}, kafka.Errorf(kafka.InvalidPartitions, "Number of partitions must be larger than 0.")
	}
	if wanted.ReplicationFactor < 1 {
		return rest.Topic{}, kafka.Errorf(kafka.InvalidReplicationFactor, "Replication factor must be larger than 0.")
	}
	make := t.b.topics.Create
	if spec.ValidateOnly {
		make = t.b.topics.Validate
	}
	topic, err := make(ctx, wanted)
	if err != nil {
		return rest.Topic{}, err
	}
	return t.describe(topic), nil
}

// DeleteTopic implements rest.Topics.
func (t *restTopics) DeleteTopic(ctx context.Context, name string) error {
	topic, err := t.find(name)
	if err != nil {
		return err
	}
	if !t.b.values.Bool("delete.topic.enable") {
		return kafka.Errorf(kafka.TopicDeletionDisabled, "Topic deletion is disabled; set delete.topic.enable=true to allow it.")
	}
	return t.b.topics.Delete(ctx, topic.ID)
}

// AddPartitions implements rest.Topics.
func (t *restTopics) AddPartitions(ctx context.Context, name string, total int32) error {
	topic, err := t.find(name)
	if err != nil {
		return err
	}
	if err := (&mirrors{t.b}).ReadOnly(topic.ID); err != nil {
		return err
	}
	return t.b.topics.Grow(ctx, topic.ID, total)
}

// TopicConfigs implements rest.Topics.
func (t *restTopics) TopicConfigs(_ context.Context, name string) ([]rest.TopicConfig, error) {
	topic, err := t.find(name)
	if err != nil {
		return nil, err
	}
	return t.entries(topic.Configs), nil
}

// DefaultTopicConfigs implements rest.Topics.
func (t *restTopics) DefaultTopicConfigs(_ context.Context, name string) ([]rest.TopicConfig, error) {
	if err := kafka.CheckTopicName(name); err != nil {
		return nil, err
	}
	return t.entries(nil), nil
}

// entries is all configs of a topic with the layers that each may come from.
func (t *restTopics) entries(set map[string]string) []rest.TopicConfig {
	node, cluster, static := (&configs{t.b}).Broker()
	var list []rest.TopicConfig
	for _, key := range config.Topic.Keys() {
		entry := rest.TopicConfig{Name: key.Name, Sensitive: key.Sensitive, ReadOnly: key.Fixed}
		value, ok := set[key.Name]
		addLayer(&entry, key.Name, "DYNAMIC_TOPIC_CONFIG", value, ok)
		if key.BrokerKey != "" {
			addBrokerLayers(&entry, key.BrokerKey, node, cluster, static)
		}
		addLayer(&entry, cmp.Or(key.BrokerKey, key.Name), "DEFAULT_CONFIG", key.Default, !key.Unset)
		list = append(list, settled(entry))
	}
	return list
}

// AlterTopicConfigs implements rest.Topics.
func (t *restTopics) AlterTopicConfigs(ctx context.Context, order rest.TopicConfigChange) error {
	topic, err := t.find(order.Topic)
	if err != nil {
		return err
	}
	var names []string
	for _, c := range order.Changes {
		names = append(names, c.Name)
	}
	if err := (&mirrors{t.b}).CheckConfigs(topic.ID, names); err != nil {
		return err
	}
	change := func(set map[string]string) (map[string]string, error) {
		next, err := changed(config.Topic, set, order.Changes)
		if err != nil {
			return nil, err
		}
		if err := config.Topic.Check(next); err != nil {
			return nil, kafka.Errorf(kafka.InvalidConfig, "%v", err)
		}
		return next, nil
	}
	if order.ValidateOnly {
		_, err := change(topic.Configs)
		return err
	}
	return (&configs{t.b}).UpdateTopic(ctx, topic.ID, change)
}

// restGroups lets REST see consumer groups. It implements rest.Groups over the
// same answers that the Kafka door gives.
type restGroups struct{ b *Broker }

func sorted[T any](list []T, key func(T) string) []T {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	return list
}
