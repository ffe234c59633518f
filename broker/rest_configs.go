package broker

import (
	"context"
	"maps"
	"strconv"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest"
)

// restConfigs lets REST see and change the configs of brokers. It implements rest.Configs.
type restConfigs struct{ b *Broker }

// BrokerConfigs implements rest.Configs.
func (c *restConfigs) BrokerConfigs(_ context.Context, broker int32) ([]rest.TopicConfig, error) {
	node, cluster, static := (&configs{c.b}).Broker()
	var list []rest.TopicConfig
	for _, key := range config.Broker.KeysOf(node, cluster, static) {
		entry := rest.TopicConfig{Name: key.Name, Sensitive: key.Sensitive, ReadOnly: key.Fixed}
		if broker == rest.EveryBroker {
			value, ok := cluster[key.Name]
			if !ok {
				continue // only what was set for all is there to be seen
			}
			addLayer(&entry, key.Name, "DYNAMIC_DEFAULT_BROKER_CONFIG", value, ok)
		} else {
			addBrokerLayers(&entry, key.Name, node, cluster, static)
			addLayer(&entry, key.Name, "DEFAULT_CONFIG", key.Default, !key.Unset)
		}
		list = append(list, settled(entry))
	}
	return list, nil
}

func addBrokerLayers(entry *rest.TopicConfig, name string, node, cluster, static map[string]string) {
	value, ok := node[name]
	addLayer(entry, name, "DYNAMIC_BROKER_CONFIG", value, ok)
	value, ok = cluster[name]
	addLayer(entry, name, "DYNAMIC_DEFAULT_BROKER_CONFIG", value, ok)
	value, ok = static[name]
	addLayer(entry, name, "STATIC_BROKER_CONFIG", value, ok)
}

func addLayer(entry *rest.TopicConfig, name, source, value string, ok bool) {
	if ok {
		entry.Synonyms = append(entry.Synonyms, rest.Synonym{Name: name, Source: source, Value: &value})
	}
}

// settled takes the value of the strongest layer.
func settled(entry rest.TopicConfig) rest.TopicConfig {
	entry.Source = "DEFAULT_CONFIG"
	if len(entry.Synonyms) > 0 {
		entry.Value, entry.Source = entry.Synonyms[0].Value, entry.Synonyms[0].Source
	}
	entry.Default = entry.Source == "DEFAULT_CONFIG"
	return entry
}

// AlterBrokerConfigs implements rest.Configs.
func (c *restConfigs) AlterBrokerConfigs(ctx context.Context, order rest.BrokerConfigChange) error {
	entity := ""
	if order.Broker != rest.EveryBroker {
		entity = strconv.Itoa(int(order.Broker))
	}
	return c.b.kafka.AlterBroker(ctx, entity, order.ValidateOnly, func(set map[string]string) (map[string]string, error) {
		return changed(config.Broker, set, order.Changes)
	})
}

// changed applies changes to what was set.
func changed(table *config.Table, set map[string]string, changes []rest.ConfigChange) (map[string]string, error) {
	next := maps.Clone(set)
	if next == nil {
		next = map[string]string{}
	}
	for _, c := range changes {
		if c.Value != nil {
			next[c.Name] = *c.Value
			continue
		}
		if _, known := table.Key(c.Name); !known {
			return nil, kafka.Errorf(kafka.InvalidConfig, "Unknown %s config name: %s", table.Kind(), c.Name)
		}
		delete(next, c.Name)
	}
	return next, nil
}
