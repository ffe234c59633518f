package rest

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/hawserio/hawser/rest/api"
)

func listTopicConfigs(c *call) error {
	configs, err := c.Topics.TopicConfigs(c.r.Context(), c.r.PathValue("topic_name"))
	if err != nil {
		return err
	}
	return c.topicConfigList("configs", configs)
}

func listDefaultConfigs(c *call) error {
	configs, err := c.Topics.DefaultTopicConfigs(c.r.Context(), c.r.PathValue("topic_name"))
	if err != nil {
		return err
	}
	return c.topicConfigList("default-configs", configs)
}

func (c *call) topicConfigList(segment string, configs []TopicConfig) error {
	configs = slices.SortedFunc(slices.Values(configs), func(a, b TopicConfig) int { return cmp.Compare(a.Name, b.Name) })
	var out []api.TopicConfig
	for _, cfg := range configs {
		out = append(out, c.topicConfigJSON(segment, cfg))
	}
	return list(c, api.KindTopicConfigList, c.self("topics", escape(c.r.PathValue("topic_name")), segment), out)
}

func getTopicConfig(c *call) error {
	topic, name := c.r.PathValue("topic_name"), c.r.PathValue("config_name")
	configs, err := c.Topics.TopicConfigs(c.r.Context(), topic)
	if err != nil {
		return err
	}
	for _, cfg := range configs {
		if cfg.Name == name {
			return c.json(http.StatusOK, c.topicConfigJSON("configs", cfg))
		}
	}
	return notFound("Topic '%s' has no config '%s'. GET …/configs lists those it has.", topic, name)
}

func putTopicConfig(c *call) error {
	var rq api.UpdateConfigRequest
	if err := c.body(&rq, bodyRequired); err != nil {
		return err
	}
	if rq.Value == nil {
		return badRequest("The field 'value' is missing; to put a config back to its default use DELETE.")
	}
	return c.alterTopic([]ConfigChange{{Name: c.r.PathValue("config_name"), Value: rq.Value}}, false)
}

func deleteTopicConfig(c *call) error {
	return c.alterTopic([]ConfigChange{{Name: c.r.PathValue("config_name")}}, false)
}

func alterTopicConfigs(c *call) error {
	changes, validateOnly, err := c.alterRequest()
	if err != nil {
		return err
	}
	return c.alterTopic(changes, validateOnly)
}

func (c *call) alterTopic(changes []ConfigChange, validateOnly bool) error {
	change := TopicConfigChange{Topic: c.r.PathValue("topic_name"), Changes: changes, ValidateOnly: validateOnly}
	if err := c.Topics.AlterTopicConfigs(c.r.Context(), change); err != nil {
		return err
	}
	return c.noContent()
}

func (c *call) topicConfigJSON(segment string, cfg TopicConfig) api.TopicConfig {
	topic := c.r.PathValue("topic_name")
	value, synonyms := shown(cfg)
	return api.TopicConfig{
		Kind:        api.KindTopicConfig,
		Metadata:    c.metadata(c.self("topics", escape(topic), segment, escape(cfg.Name)), "/topic="+topic+"/config="+cfg.Name),
		ClusterID:   c.Cluster.ID(),
		TopicName:   topic,
		Name:        cfg.Name,
		Value:       value,
		IsDefault:   cfg.Default,
		IsReadOnly:  cfg.ReadOnly,
		IsSensitive: cfg.Sensitive,
		Source:      cmp.Or(cfg.Source, api.SourceDefault),
		Synonyms:    synonyms,
	}
}
