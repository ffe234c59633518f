package source

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
)

// configsAsked is how many topics one DescribeConfigs names at most.
const configsAsked = 250

// Topic is a source topic.
type Topic struct {
	Name       string
	ID         kafka.TopicID
	Partitions int32
	Internal   bool
	Err        error // kafka.Error: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED …
}

// Topics lists topics, by name: those named, or all with nil.
func (c *Cluster) Topics(ctx context.Context, names []string) ([]Topic, error) {
	if names != nil && len(names) == 0 {
		return nil, nil
	}
	var list []Topic
	if names == nil {
		return c.addTopics(ctx, list, nil)
	}
	for some := range slices.Chunk(names, topicsAsked) {
		var err error
		if list, err = c.addTopics(ctx, list, some); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (c *Cluster) addTopics(ctx context.Context, list []Topic, names []string) ([]Topic, error) {
	answer, err := c.metadata(ctx, names)
	if err != nil {
		return nil, err
	}
	for _, t := range answer.Topics {
		if t.Topic == nil {
			continue
		}
		list = append(list, Topic{
			Name:       *t.Topic,
			ID:         kafka.TopicID(t.TopicID),
			Partitions: int32(len(t.Partitions)),
			Internal:   t.IsInternal,
			Err:        answered(t.ErrorCode, "topic '%s'", *t.Topic),
		})
	}
	slices.SortFunc(list, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// TopicConfigs is a topic's effective configs by Kafka's names, or why there are none.
type TopicConfigs struct {
	Values map[string]string
	Err    error
}

// TopicConfigs reads effective configs of topics; per topic an error may stand instead.
func (c *Cluster) TopicConfigs(ctx context.Context, names []string) (map[string]TopicConfigs, error) {
	all := make(map[string]TopicConfigs, len(names))
	for some := range slices.Chunk(names, configsAsked) {
		resp, err := c.askAny(ctx, func() kmsg.Request {
			req := kmsg.NewPtrDescribeConfigsRequest()
			for _, name := range some {
				resource := kmsg.NewDescribeConfigsRequestResource()
				resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
				req.Resources = append(req.Resources, resource)
			}
			return req
		})
		if err != nil {
			return nil, err
		}
		for _, r := range resp.(*kmsg.DescribeConfigsResponse).Resources {
			all[r.ResourceName] = readConfigs(r)
		}
	}
	for _, name := range names {
		if _, ok := all[name]; !ok {
			all[name] = TopicConfigs{Err: kafka.Errorf(kafka.UnknownServerError, "the source's answer leaves topic '%s' out", name)}
		}
	}
	return all, nil
}

func readConfigs(r kmsg.DescribeConfigsResponseResource) TopicConfigs {
	if r.ErrorCode != 0 {
		text := "no reason given"
		if r.ErrorMessage != nil {
			text = *r.ErrorMessage
		}
		return TopicConfigs{Err: answered(r.ErrorCode, "configs of topic '%s': %s", r.ResourceName, text)}
	}
	values := make(map[string]string, len(r.Configs))
	for _, config := range r.Configs {
		if config.Value != nil {
			values[config.Name] = *config.Value
		}
	}
	return TopicConfigs{Values: values}
}
