package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hawserio/hawser/rest/api"
)

func topicPath(name string, rest ...string) []string {
	return append([]string{"topics", url.PathEscape(name)}, rest...)
}

// Topics lists the topics.
func (c *Client) Topics(ctx context.Context) ([]api.Topic, error) {
	var out api.List[api.Topic]
	err := c.do(ctx, request{method: http.MethodGet, path: []string{"topics"}}, &out)
	return out.Data, err
}

// Topic describes a topic.
func (c *Client) Topic(ctx context.Context, name string) (api.Topic, error) {
	var out api.Topic
	err := c.do(ctx, request{method: http.MethodGet, path: topicPath(name)}, &out)
	return out, err
}

// CreateTopic makes a topic, or with ValidateOnly in the body says what it would be.
func (c *Client) CreateTopic(ctx context.Context, body api.CreateTopicRequest) (api.Topic, error) {
	var out api.Topic
	err := c.do(ctx, request{method: http.MethodPost, path: []string{"topics"}, body: body}, &out)
	return out, err
}

// DeleteTopic deletes a topic. A mirror goes with its topic.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	return c.do(ctx, request{method: http.MethodDelete, path: topicPath(name)}, nil)
}

// AddPartitions raises a topic's number of partitions to total.
func (c *Client) AddPartitions(ctx context.Context, name string, total int32) (api.Topic, error) {
	var out api.Topic
	err := c.do(ctx, request{method: http.MethodPatch, path: topicPath(name),
		body: api.UpdatePartitionsRequest{PartitionsCount: &total}}, &out)
	return out, err
}

// TopicConfigs lists all configs of a topic.
func (c *Client) TopicConfigs(ctx context.Context, name string) ([]api.TopicConfig, error) {
	var out api.List[api.TopicConfig]
	err := c.do(ctx, request{method: http.MethodGet, path: topicPath(name, "configs")}, &out)
	return out.Data, err
}

// AlterTopicConfigs changes configs of a topic, all or none.
func (c *Client) AlterTopicConfigs(ctx context.Context, name string, changes []api.AlterConfig, mode Mode) error {
	return c.do(ctx, request{method: http.MethodPost, path: topicPath(name, "configs:alter"), query: mode.query(),
		body: api.AlterConfigsRequest{Data: changes}}, nil)
}

// Partitions lists the partitions of a topic.
func (c *Client) Partitions(ctx context.Context, topic string) ([]api.Partition, error) {
	var out api.List[api.Partition]
	err := c.do(ctx, request{method: http.MethodGet, path: topicPath(topic, "partitions")}, &out)
	return out.Data, err
}

// Cluster describes the cluster.
func (c *Client) Cluster(ctx context.Context) (api.Cluster, error) {
	var out api.Cluster
	err := c.do(ctx, request{method: http.MethodGet}, &out)
	return out, err
}

// ReportKey is the public key that checks the cluster's reports.
func (c *Client) ReportKey(ctx context.Context) (api.ReportKey, error) {
	var out api.ReportKey
	err := c.do(ctx, request{method: http.MethodGet, path: []string{"report-key"}}, &out)
	return out, err
}

// Brokers lists the brokers.
func (c *Client) Brokers(ctx context.Context) ([]api.Broker, error) {
	var out api.List[api.Broker]
	err := c.do(ctx, request{method: http.MethodGet, path: []string{"brokers"}}, &out)
	return out.Data, err
}

// Events lists what happened lately: events with a number above after, oldest first.
func (c *Client) Events(ctx context.Context, after int64) ([]api.Event, error) {
	var out api.List[api.Event]
	query := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {"1000"}}
	err := c.do(ctx, request{method: http.MethodGet, path: []string{"events"}, query: query}, &out)
	return out.Data, err
}

// Groups lists the consumer groups.
func (c *Client) Groups(ctx context.Context) ([]api.Group, error) {
	var out api.List[api.Group]
	err := c.do(ctx, request{method: http.MethodGet, path: []string{"consumer-groups"}}, &out)
	return out.Data, err
}

// Group describes a consumer group.
func (c *Client) Group(ctx context.Context, id string) (api.Group, error) {
	var out api.Group
	err := c.do(ctx, request{method: http.MethodGet, path: groupPath(id)}, &out)
	return out, err
}

// Consumers lists the members of a group.
func (c *Client) Consumers(ctx context.Context, id string) ([]api.Consumer, error) {
	var out api.List[api.Consumer]
	err := c.do(ctx, request{method: http.MethodGet, path: groupPath(id, "consumers")}, &out)
	return out.Data, err
}

// Lags lists how far a group is behind, by topic and partition.
func (c *Client) Lags(ctx context.Context, id string) ([]api.Lag, error) {
	var out api.List[api.Lag]
	err := c.do(ctx, request{method: http.MethodGet, path: groupPath(id, "lags")}, &out)
	return out.Data, err
}

func groupPath(id string, rest ...string) []string {
	return append([]string{"consumer-groups", url.PathEscape(id)}, rest...)
}
