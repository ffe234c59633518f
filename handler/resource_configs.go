package handler

import (
	"context"
	"maps"
	"strconv"
	"strings"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tableOf is the keys that resources of a kind have.
func tableOf(kind kmsg.ConfigResourceType) *config.Table {
	switch kind {
	case kmsg.ConfigResourceTypeBroker:
		return config.Broker
	case kmsg.ConfigResourceTypeGroupConfig:
		return config.Group
	case kmsg.ConfigResourceTypeClientMetrics:
		return config.ClientMetrics
	}
	return config.Topic
}

// namedEntries are all configs of a group or a client-metrics subscription. It need not exist:
// its configs may be set before its first member comes.
func (s *Server) namedEntries(kind kmsg.ConfigResourceType, name string) []entry {
	source := kmsg.ConfigSourceGroupConfig
	if kind == kmsg.ConfigResourceTypeClientMetrics {
		source = kmsg.ConfigSourceClientMetricsConfig
	}
	set := s.Configs.Resource(kind, name)
	var list []entry
	for _, key := range tableOf(kind).Keys() {
		key.Default, key.BrokerKey = s.brokerDefault(key), "" // as Kafka, which shows the broker's value as the default
		var found []synonym
		if value, ok := set[key.Name]; ok {
			found = append(found, synonym{key.Name, &value, source})
		}
		e := entryOf(key, found)
		if len(found) > 0 && kind == kmsg.ConfigResourceTypeClientMetrics {
			e.synonyms = e.synonyms[:len(found)] // as Kafka, which knows no default beside what is set
		}
		list = append(list, e)
	}
	return list
}

// brokerDefault is the default of a key as the broker's configs have it.
func (s *Server) brokerDefault(key config.Key) string {
	if key.BrokerKey != "" {
		if found := lookUp(s.brokerLayers(), key.BrokerKey); len(found) > 0 {
			return *found[0].value
		}
	}
	return key.Default
}

// mayNamed says whether the caller may do op on such a resource.
func (c *call) mayNamed(op kmsg.ACLOperation, kind kmsg.ConfigResourceType, name string) error {
	switch {
	case kind == kmsg.ConfigResourceTypeGroupConfig && !c.groupAllowed(op, name):
		return errGroupDenied
	case kind == kmsg.ConfigResourceTypeClientMetrics && !c.clusterAllowed(op):
		return errClusterDenied
	}
	return nil
}

func (c *call) describeNamed(kind kmsg.ConfigResourceType, name string) ([]entry, error) {
	if err := c.mayNamed(kmsg.ACLOperationDescribeConfigs, kind, name); err != nil {
		return nil, err
	}
	switch {
	case name == "" && kind == kmsg.ConfigResourceTypeGroupConfig:
		return nil, kafka.Errorf(kafka.InvalidRequest, "Group name must not be empty")
	case name == "":
		return nil, kafka.Errorf(kafka.InvalidRequest, "Client metrics subscription name must not be empty")
	}
	return c.namedEntries(kind, name), nil
}

func (c *call) alterNamed(ctx context.Context, r resource, validateOnly bool, change ConfigChange) error {
	if err := c.mayNamed(kmsg.ACLOperationAlterConfigs, r.kind, r.name); err != nil {
		return err
	}
	switch {
	case r.name == "" && r.kind == kmsg.ConfigResourceTypeGroupConfig:
		return kafka.Errorf(kafka.InvalidRequest, "Default group resources are not allowed.")
	case r.name == "":
		return kafka.Errorf(kafka.InvalidRequest, "Subscription name can't be empty")
	}
	return c.Configs.UpdateResource(ctx, r.kind, r.name, func(old map[string]string) (map[string]string, error) {
		wanted, err := change(maps.Clone(old))
		if err != nil {
			return nil, err
		}
		if err := c.checkNamed(r.kind, wanted); err != nil {
			return nil, err
		}
		if validateOnly {
			return nil, errValidated
		}
		return wanted, nil
	})
}

func (c *call) checkNamed(kind kmsg.ConfigResourceType, wanted map[string]string) error {
	err := invalidConfigs(tableOf(kind).Check(wanted))
	if err != nil && kind == kmsg.ConfigResourceTypeClientMetrics && !strings.Contains(err.Error(), "matching pattern") {
		return kafka.Errorf(kafka.InvalidRequest, "%s", *kafka.MessageOf(err))
	}
	if err != nil || kind != kmsg.ConfigResourceTypeGroupConfig {
		return err
	}
	for _, what := range []string{"session.timeout.ms", "heartbeat.interval.ms"} {
		value, set := wanted["consumer."+what]
		if !set {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
		least, most := c.brokerNumber("group.consumer.min."+what), c.brokerNumber("group.consumer.max."+what)
		switch {
		case err != nil || n < least:
			return kafka.Errorf(kafka.InvalidConfig, "consumer.%s must be greater than or equal to group.consumer.min.%s", what, what)
		case n > most:
			return kafka.Errorf(kafka.InvalidConfig, "consumer.%s must be less than or equal to group.consumer.max.%s", what, what)
		}
	}
	return nil
}

// brokerNumber is a broker config in effect.
func (s *Server) brokerNumber(name string) int64 {
	key, _ := config.Broker.Key(name)
	key.BrokerKey = name
	n, _ := strconv.ParseInt(s.brokerDefault(key), 10, 64) // it was checked when it was set
	return n
}
