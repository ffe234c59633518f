package broker

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// configs is where the values of topic and broker configs are kept. It
// implements handler.Configs.
type configs struct{ b *Broker }

// Broker implements handler.Configs.
func (c *configs) Broker() (node, cluster, static map[string]string) {
	all := c.b.meta.Image().Configs
	return all[strconv.Itoa(int(c.b.cfg.NodeID))], all[""], c.b.cfg.Settings
}

// values is all broker configs with the dynamic ones.
func (c *configs) values() config.Values {
	node, cluster, static := c.Broker()
	return config.Broker.Values(node, cluster, static)
}

// UpdateBroker implements handler.Configs.
func (c *configs) UpdateBroker(ctx context.Context, entity string, change func(map[string]string) (map[string]string, error)) error {
	err := c.b.meta.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		next, err := change(maps.Clone(img.Configs[entity]))
		if err != nil {
			return nil, err
		}
		return []meta.Change{meta.PutConfigs(entity, next)}, nil
	})
	if err != nil {
		return err
	}
	c.b.kafka.SetLimits(kafkaSettings(c.values()))
	// A broker's value is the default of a topic's key.
	for _, topic := range c.b.topics.All() {
		c.b.owner.Configure(topic.ID, c.b.topicConfig(topic))
	}
	return nil
}

// UpdateTopic implements handler.Configs.
func (c *configs) UpdateTopic(ctx context.Context, id kafka.TopicID, change func(map[string]string) (map[string]string, error)) error {
	err := c.b.meta.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		topic := img.Topics[id]
		if topic == nil {
			return nil, errNoTopic
		}
		next, err := change(maps.Clone(topic.Configs))
		if err != nil {
			return nil, err
		}
		changed := *topic
		changed.Configs = next
		return []meta.Change{meta.PutTopic(&changed)}, nil
	})
	if err != nil {
		return err
	}
	topic := c.b.topics.ByID(id)
	if topic == nil {
		return fmt.Errorf("apply configs: %w", errNoTopic)
	}
	c.b.owner.Configure(id, c.b.topicConfig(topic))
	return nil
}
