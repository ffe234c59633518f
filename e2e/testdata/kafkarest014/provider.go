package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	rest "github.com/confluentinc/ccloud-sdk-go-v2/kafkarest/v3"
)

// provider makes the calls of the Terraform provider's confluent_cluster_link and confluent_kafka_mirror_topic, in its
// order and with its rules: what it reads back must be what it was told, or the next plan would show a difference.
type provider struct {
	*run
	login map[string]string // what it always sends of an outbound link to a source with an API key
}

// editable are the link configs that the provider keeps in its state.
var editable = []string{"acl.filters", "acl.sync.enable", "acl.sync.ms", "auto.create.mirror.topics.enable", "auto.create.mirror.topics.filters", "cluster.link.prefix",
	"consumer.group.prefix.enable", "consumer.offset.group.filters", "consumer.offset.sync.enable", "consumer.offset.sync.ms", "mirror.start.offset.spec",
	"topic.config.sync.ms", "topic.config.sync.include"}

const allGroups = `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`

// life is a run of applies, plans and the destroy.
func (p *provider) life(source, sourceID string, topics [2]string) error {
	config := map[string]string{"consumer.offset.sync.ms": "5000", "acl.sync.enable": "false"}
	more := map[string]string{"consumer.offset.sync.ms": "1000", "acl.sync.enable": "false", "consumer.offset.sync.enable": "true", "consumer.offset.group.filters": allGroups}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"apply: the link", func() error { return p.createLink(source, sourceID, config) }},
		{"plan: the link", func() error { return p.sameLink(sourceID, config) }},
		{"apply: a mirror topic", func() error { return p.createMirror(topics[0]) }},
		{"apply: another mirror topic", func() error { return p.createMirror(topics[1]) }},
		{"apply: status PAUSED", func() error { return p.status("pause", topics[0], "ACTIVE", "PAUSED") }},
		{"plan: the paused mirror topic", func() error { return p.sameMirror(topics[0], "PAUSED") }},
		{"apply: status ACTIVE", func() error { return p.status("resume", topics[0], "PAUSED", "ACTIVE") }},
		{"apply: other configs", func() error { return p.alterLink(more) }},
		{"plan: the link with other configs", func() error { return p.sameLink(sourceID, more) }},
		{"apply: status PROMOTED", func() error { return p.status("promote", topics[0], "ACTIVE", "STOPPED") }},
		{"apply: status FAILED_OVER", func() error { return p.status("failover", topics[1], "ACTIVE", "STOPPED") }},
		{"plan: the promoted mirror topic", func() error { return p.sameMirror(topics[0], "STOPPED") }},
		{"destroy: the mirror topics", func() error { return errors.Join(p.destroyMirror(topics[0]), p.destroyMirror(topics[1])) }},
		{"destroy: the link", p.destroyLink},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println(step.name)
	}
	return nil
}

func (p *provider) createLink(source, sourceID string, config map[string]string) error {
	var all []rest.ConfigData
	add := func(name, value string) {
		all = append(all, rest.ConfigData{Name: name, Value: *rest.NewNullableString(&value)})
	}
	add("connection.mode", "OUTBOUND")
	add("link.mode", "DESTINATION")
	add("bootstrap.servers", "SASL_SSL://"+source)
	for name, value := range p.login {
		add(name, value)
	}
	for name, value := range config {
		add(name, value)
	}
	response, err := p.api.ClusterLinkingV3Api.CreateKafkaLink(p.ctx, p.cluster).LinkName(link).CreateLinkRequestData(rest.CreateLinkRequestData{SourceClusterId: &sourceID, Configs: &all}).Execute()
	return done("create", response, err)
}

// sameLink reads the link as a refresh does and compares it with what is wanted.
func (p *provider) sameLink(sourceID string, want map[string]string) error {
	l, response, err := p.api.ClusterLinkingV3Api.GetKafkaLink(p.ctx, p.cluster, link).Execute()
	if err := done("read", response, err); err != nil {
		return err
	}
	if l.GetLinkName() != link || l.GetSourceClusterId() != sourceID || l.GetClusterLinkId() == "" {
		return fmt.Errorf("read: got %+v", l)
	}
	configs, response, err := p.api.ClusterLinkingV3Api.ListKafkaLinkConfigs(p.ctx, p.cluster, link).Execute()
	if err := done("read configs", response, err); err != nil {
		return err
	}
	got := map[string]string{}
	for _, c := range configs.Data {
		if c.GetSource() == "DYNAMIC_CLUSTER_LINK_CONFIG" && slices.Contains(editable, c.GetName()) {
			got[c.GetName()] = c.GetValue()
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("the plan has a difference: the configs are %v, wanted are %v", got, want)
	}
	return nil
}

func (p *provider) alterLink(config map[string]string) error {
	var all []rest.AlterConfigBatchRequestDataData
	for name, value := range config {
		all = append(all, rest.AlterConfigBatchRequestDataData{Name: name, Value: *rest.NewNullableString(&value)})
	}
	response, err := p.api.ClusterLinkingV3Api.UpdateKafkaLinkConfigBatch(p.ctx, p.cluster, link).AlterConfigBatchRequestData(rest.AlterConfigBatchRequestData{Data: all}).Execute()
	return done("alter", response, err)
}

func (p *provider) createMirror(topic string) error {
	response, err := p.api.ClusterLinkingV3Api.CreateKafkaMirrorTopic(p.ctx, p.cluster, link).CreateMirrorTopicRequestData(rest.CreateMirrorTopicRequestData{SourceTopicName: topic}).Execute()
	if err := done("create", response, err); err != nil {
		return err
	}
	return p.sameMirror(topic, "ACTIVE")
}

// sameMirror reads the mirror once: the provider does not wait after a create.
func (p *provider) sameMirror(topic, status string) error {
	m, response, err := p.api.ClusterLinkingV3Api.ReadKafkaMirrorTopic(p.ctx, p.cluster, link, topic).Execute()
	if err := done("read", response, err); err != nil {
		return err
	}
	if string(m.MirrorStatus) != status || m.SourceTopicName != topic || m.MirrorTopicName != topic || m.LinkName != link {
		return fmt.Errorf("the plan has a difference: wanted is status %s, got %+v", status, m)
	}
	return nil
}

// status orders and polls: only the old status and PENDING_STOPPED may be seen on the way.
func (p *provider) status(verb, topic, from, to string) error {
	l, body := p.api.ClusterLinkingV3Api, rest.AlterMirrorsRequestData{MirrorTopicNames: &[]string{topic}}
	var response *http.Response
	var err error
	switch verb {
	case "pause":
		_, response, err = l.UpdateKafkaMirrorTopicsPause(p.ctx, p.cluster, link).AlterMirrorsRequestData(body).Execute()
	case "resume":
		_, response, err = l.UpdateKafkaMirrorTopicsResume(p.ctx, p.cluster, link).AlterMirrorsRequestData(body).Execute()
	case "promote":
		_, response, err = l.UpdateKafkaMirrorTopicsPromote(p.ctx, p.cluster, link).AlterMirrorsRequestData(body).Execute()
	case "failover":
		_, response, err = l.UpdateKafkaMirrorTopicsFailover(p.ctx, p.cluster, link).AlterMirrorsRequestData(body).Execute()
	}
	for err := done(verb, response, err); ; time.Sleep(100 * time.Millisecond) {
		if err != nil {
			return err
		}
		m, response, readErr := l.ReadKafkaMirrorTopic(p.ctx, p.cluster, link, topic).Execute()
		if err = done("read", response, readErr); err != nil {
			return err
		}
		switch string(m.MirrorStatus) {
		case to:
			return nil
		case from, "PENDING_STOPPED":
		default:
			return fmt.Errorf("%s: unexpected state %s", verb, m.MirrorStatus)
		}
	}
}

func (p *provider) destroyMirror(topic string) error {
	response, err := p.api.TopicV3Api.DeleteKafkaTopic(p.ctx, p.cluster, topic).Execute()
	if err := done("delete the topic", response, err); err != nil {
		return err
	}
	return p.gone(func() (*http.Response, error) {
		_, response, err := p.api.ClusterLinkingV3Api.ReadKafkaMirrorTopic(p.ctx, p.cluster, link, topic).Execute()
		return response, err
	})
}

func (p *provider) destroyLink() error {
	response, err := p.api.ClusterLinkingV3Api.DeleteKafkaLink(p.ctx, p.cluster, link).Execute()
	if err := done("delete the link", response, err); err != nil {
		return err
	}
	return p.gone(func() (*http.Response, error) {
		_, response, err := p.api.ClusterLinkingV3Api.GetKafkaLink(p.ctx, p.cluster, link).Execute()
		return response, err
	})
}

// gone polls until the answer is 404, by which alone the provider knows it.
func (p *provider) gone(read func() (*http.Response, error)) error {
	for {
		response, err := read()
		if response == nil {
			return err
		}
		response.Body.Close()
		switch {
		case response.StatusCode == http.StatusNotFound:
			return nil
		case err != nil:
			return err
		case p.ctx.Err() != nil:
			return p.ctx.Err()
		}
		time.Sleep(100 * time.Millisecond)
	}
}
