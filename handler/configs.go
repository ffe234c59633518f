package handler

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// entry is one config of a resource as the protocol describes it.
type entry struct {
	key      config.Key
	value    *string // nil: null, or hidden
	source   kmsg.ConfigSource
	synonyms []synonym // where the value may come from, the strongest first
}

type synonym struct {
	name   string
	value  *string
	source kmsg.ConfigSource
}

// layer is a set of values and what the protocol calls their source.
type layer struct {
	values map[string]string
	source kmsg.ConfigSource
}

// brokerLayers are this broker's configs, the strongest first.
func (s *Server) brokerLayers() []layer {
	node, cluster, static := s.Configs.Broker()
	return []layer{
		{node, kmsg.ConfigSourceDynamicBrokerConfig},
		{cluster, kmsg.ConfigSourceDynamicDefaultBrokerConfig},
		{static, kmsg.ConfigSourceStaticBrokerConfig},
	}
}

// topicEntries are all configs of a topic with these values set.
func (s *Server) topicEntries(set map[string]string) []entry {
	broker := s.brokerLayers()
	var list []entry
	for _, key := range config.Topic.Keys() {
		var found []synonym
		if value, ok := set[key.Name]; ok {
			found = append(found, synonym{key.Name, &value, kmsg.ConfigSourceDynamicTopicConfig})
		}
		if units := config.Synonyms(key.Name); len(units) > 1 {
			list = append(list, ofUnits(key, append(found, fromUnits(broker, units)...), broker))
			continue
		}
		if key.BrokerKey != "" {
			found = append(found, lookUp(broker, key.BrokerKey)...)
		}
		if len(found) == 0 && strings.HasPrefix(key.Name, "internal.") {
			continue // Kafka shows these only where they are set
		}
		list = append(list, entryOf(key, found))
	}
	return list
}

// fromUnits looks up a topic config's default where broker configs of several units give it, as log.retention.ms and
// log.retention.hours. As in Kafka nothing counts as a source that stands before the first value of the same unit.
func fromUnits(broker []layer, units []config.Synonym) (found []synonym) {
	for _, l := range broker {
		for _, unit := range units {
			found = append(found, lookUp([]layer{l}, unit.Name)...)
		}
	}
	for _, unit := range units {
		if key, ok := config.Broker.Key(unit.Name); ok && !key.Unset {
			found = append(found, synonym{unit.Name, &key.Default, kmsg.ConfigSourceDefaultConfig})
		}
	}
	same := func(s synonym) bool { return s.name == units[0].Name }
	if first := slices.IndexFunc(found, same); first >= 0 {
		return found[first:]
	}
	return nil
}

// ofUnits is entryOf for such a config: a value in another unit is a default that has no source.
func ofUnits(key config.Key, found []synonym, broker []layer) entry {
	if len(found) > 0 {
		return entry{key: key, value: found[0].value, source: found[0].source, synonyms: found}
	}
	value := key.Default
	if set, ok := config.TopicDefault(key.Name, broker[0].values, broker[1].values, broker[2].values); ok {
		value = set
	}
	return entry{key: key, value: &value, source: kmsg.ConfigSourceDefaultConfig}
}

// brokerEntries are all configs of this broker.
func (s *Server) brokerEntries() []entry {
	layers := s.brokerLayers()
	keys := config.Broker.KeysOf(layers[0].values, layers[1].values, layers[2].values)
	list := make([]entry, len(keys))
	for i, key := range keys {
		list[i] = entryOf(key, lookUp(layers, key.Name))
	}
	return list
}

// clusterEntries are the dynamic defaults of all brokers: only what was set.
func (s *Server) clusterEntries() []entry {
	_, cluster, _ := s.Configs.Broker()
	var list []entry
	for _, key := range config.Broker.Keys() {
		if value, ok := cluster[key.Name]; ok {
			list = append(list, entryOf(key, []synonym{{key.Name, &value, kmsg.ConfigSourceDynamicDefaultBrokerConfig}}))
		}
	}
	return list
}

func lookUp(layers []layer, name string) (found []synonym) {
	for _, l := range layers {
		if value, ok := l.values[name]; ok {
			found = append(found, synonym{name, &value, l.source})
		}
	}
	return found
}

// entryOf adds the default, picks the strongest value and hides what is sensitive.
func entryOf(key config.Key, found []synonym) entry {
	if !key.Unset {
		name := key.Name
		if key.BrokerKey != "" {
			name = key.BrokerKey
		}
		found = append(found, synonym{name, &key.Default, kmsg.ConfigSourceDefaultConfig})
	}
	if key.Sensitive {
		for i := range found {
			found[i].value = nil
		}
	}
	e := entry{key: key, synonyms: found, source: kmsg.ConfigSourceDefaultConfig}
	if len(found) > 0 {
		e.value, e.source = found[0].value, found[0].source
	}
	return e
}

// topicConfig is one config of a topic in effect, "" where it has no value.
func (s *Server) topicConfig(t *meta.Topic, name string) string {
	if value, ok := t.Configs[name]; ok {
		return value
	}
	key, ok := config.Topic.Key(name)
	if !ok {
		return ""
	}
	if key.BrokerKey != "" {
		if found := lookUp(s.brokerLayers(), key.BrokerKey); len(found) > 0 {
			return *found[0].value
		}
	}
	return key.Default
}

// brokerResource reads the name of a BROKER resource: this node's id, or "" for the defaults of all.
func (s *Server) brokerResource(name string) error {
	if name == "" {
		return nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case err != nil:
		return kafka.Errorf(kafka.InvalidRequest, "Broker id must be an integer, but it is: %s", name)
	case int32(id) != s.NodeID:
		return kafka.Errorf(kafka.InvalidRequest, "Unexpected broker id, expected %d or empty string, but received %s", s.NodeID, name)
	}
	return nil
}

func errResourceType(kind kmsg.ConfigResourceType) error {
	return kafka.Errorf(kafka.InvalidRequest, "Resources of type %s have no configs here: "+
		"only topics, brokers, groups and client-metrics subscriptions have.", kind)
}

// invalidConfigs makes the table's word on values that were set an answer.
func invalidConfigs(err error) error {
	if err == nil {
		return nil
	}
	return kafka.Errorf(kafka.InvalidConfig, "%s", strings.TrimSpace(err.Error()))
}
