package broker

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
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
	err := c.update(ctx, entity, func(old map[string]string) (map[string]string, error) {
		wanted, err := change(maps.Clone(old))
		if err != nil {
			return nil, err
		}
		return c.b.sealConfigs(entity, old, wanted)
	})
	if err != nil {
		return err
	}
	c.b.obey()
	// A broker's value is the default of a topic's key.
	for _, topic := range c.b.topics.All() {
		c.b.owner.Configure(topic.ID, c.b.topicConfig(topic))
	}
	return nil
}

func (c *configs) update(ctx context.Context, entity string, change func(map[string]string) (map[string]string, error)) error {
	return c.b.meta.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		next, err := change(maps.Clone(img.Configs[entity]))
		if err != nil {
			return nil, err
		}
		return []meta.Change{meta.PutConfigs(entity, next)}, nil
	})
}

// entityOf is where the configs of a group, or of a client-metrics subscription, are kept
// among those of brokers, whose entities are numbers.
func entityOf(kind kmsg.ConfigResourceType, name string) string {
	return entityPrefix(kind) + url.PathEscape(name)
}

func entityPrefix(kind kmsg.ConfigResourceType) string {
	if kind == kmsg.ConfigResourceTypeClientMetrics {
		return "client-metrics:"
	}
	return "group:"
}

// Resource implements handler.Configs.
func (c *configs) Resource(kind kmsg.ConfigResourceType, name string) map[string]string {
	return c.b.meta.Image().Configs[entityOf(kind, name)]
}

// Resources implements handler.Configs.
func (c *configs) Resources(kind kmsg.ConfigResourceType) []string {
	var names []string
	for entity := range c.b.meta.Image().Configs {
		if escaped, is := strings.CutPrefix(entity, entityPrefix(kind)); is {
			if name, err := url.PathUnescape(escaped); err == nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// UpdateResource implements handler.Configs.
func (c *configs) UpdateResource(ctx context.Context, kind kmsg.ConfigResourceType, name string,
	change func(map[string]string) (map[string]string, error)) error {
	return c.update(ctx, entityOf(kind, name), change)
}

// consumerTimes are a group's own session time-out and heartbeat interval, else the broker's.
func (b *Broker) consumerTimes(group string) (session, interval time.Duration) {
	node, cluster, static := (&configs{b}).Broker()
	broker := config.Broker.Values(node, cluster, static)
	session, interval = broker.Millis("group.consumer.session.timeout.ms"), broker.Millis("group.consumer.heartbeat.interval.ms")
	own := (&configs{b}).Resource(kmsg.ConfigResourceTypeGroupConfig, group)
	if len(own) == 0 {
		return session, interval
	}
	v := config.Group.Values(own)
	if !v.IsDefault("consumer.session.timeout.ms") {
		session = v.Millis("consumer.session.timeout.ms")
	}
	if !v.IsDefault("consumer.heartbeat.interval.ms") {
		interval = v.Millis("consumer.heartbeat.interval.ms")
	}
	return session, interval
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
