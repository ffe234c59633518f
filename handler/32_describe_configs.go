package handler

import (
	"context"
	"slices"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeConfigs, key 32, versions 1-4. Shows configs of topics, brokers, groups and client-metrics subscriptions, and where
// each value comes from.
//
//	A null or empty list of names means all. Sensitive values are null. Mirror topics have read-only entries
//	hawser.mirror.*: link, source topic, state, lag, error.
//	v1 sources and synonyms. v3 types and documentation. v4 flexible encoding.
func describeConfigs(_ context.Context, c *call, rq *kmsg.DescribeConfigsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	for i := range rq.Resources {
		in := &rq.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		entries, err := c.entriesOf(in.ResourceType, in.ResourceName)
		out.ErrorCode, out.ErrorMessage = code(err), kafka.MessageOf(err)
		for _, e := range entries {
			if len(in.ConfigNames) == 0 || slices.Contains(in.ConfigNames, e.key.Name) {
				out.Configs = append(out.Configs, c.configAnswer(rq, e))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// entriesOf lists a resource's configs if the caller may see them.
func (c *call) entriesOf(kind kmsg.ConfigResourceType, name string) ([]entry, error) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		if !c.topicAllowed(kmsg.ACLOperationDescribeConfigs, name) {
			return nil, topicDenied(name)
		}
		if err := kafka.CheckTopicName(name); err != nil {
			return nil, err
		}
		t := c.Topics.ByName(name)
		if t == nil {
			return nil, kafka.UnknownTopicError(name)
		}
		return append(c.topicEntries(t.Configs), c.mirrorEntries(t.ID)...), nil
	case kmsg.ConfigResourceTypeBroker:
		if !c.clusterAllowed(kmsg.ACLOperationDescribeConfigs) {
			return nil, errClusterDenied
		}
		if err := c.brokerResource(name); err != nil {
			return nil, err
		}
		if name == "" {
			return c.clusterEntries(), nil
		}
		return c.brokerEntries(), nil
	case kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		return c.describeNamed(kind, name)
	case kmsg.ConfigResourceTypeBrokerLogger:
		if !c.clusterAllowed(kmsg.ACLOperationDescribeConfigs) {
			return nil, errClusterDenied
		}
		return nil, nil // tools ask for them beside the others; there are none
	}
	return nil, errResourceType(kind)
}

// mirrorEntries are the entries that only mirrors have.
func (c *call) mirrorEntries(topic kafka.TopicID) (list []entry) {
	if c.Mirrors == nil {
		return nil
	}
	for _, m := range c.Mirrors.Describe(topic) {
		value := m.Value
		list = append(list, entry{
			key:   config.Key{Name: m.Name, Type: config.String, Fixed: true, Doc: m.Doc},
			value: &value, source: kmsg.ConfigSourceDynamicTopicConfig,
		})
	}
	return list
}

func (c *call) configAnswer(rq *kmsg.DescribeConfigsRequest, e entry) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ReadOnly = e.key.Name, e.value, e.key.Fixed
	out.Source, out.IsDefault, out.IsSensitive = e.source, e.source == kmsg.ConfigSourceDefaultConfig, e.key.Sensitive
	out.ConfigType = kmsg.ConfigType(e.key.Type)
	if rq.IncludeSynonyms {
		for _, s := range e.synonyms {
			row := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			row.Name, row.Value, row.Source = s.name, s.value, s.source
			out.ConfigSynonyms = append(out.ConfigSynonyms, row)
		}
	}
	if rq.IncludeDocumentation {
		out.Documentation = &e.key.Doc
	}
	return out
}
