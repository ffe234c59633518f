package rest

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/hawserio/hawser/rest/api"
)

// EveryBroker stands for the defaults of all brokers in place of one broker's id.
const EveryBroker = int32(-1)

// brokerScope is whose configs the path means: one broker's, or the defaults of all.
func (c *call) brokerScope() (int32, error) {
	if c.r.PathValue("broker_id") == "" {
		return EveryBroker, nil
	}
	id, err := c.pathInt("broker_id", "broker id")
	if err != nil {
		return 0, err
	}
	if !slices.ContainsFunc(c.Cluster.Brokers(), func(b Broker) bool { return b.ID == id }) {
		return 0, noBroker(id)
	}
	return id, nil
}

func (c *call) brokerConfigs() (int32, []TopicConfig, error) {
	broker, err := c.brokerScope()
	if err != nil {
		return 0, nil, err
	}
	configs, err := c.Configs.BrokerConfigs(c.r.Context(), broker)
	slices.SortFunc(configs, func(a, b TopicConfig) int { return cmp.Compare(a.Name, b.Name) })
	return broker, configs, err
}

func listBrokerConfigs(c *call) error {
	broker, configs, err := c.brokerConfigs()
	if err != nil {
		return err
	}
	if broker == EveryBroker {
		var out []api.ClusterConfig
		for _, cfg := range configs {
			out = append(out, c.clusterConfigJSON(cfg))
		}
		return list(c, api.KindClusterConfigList, c.self("broker-configs"), out)
	}
	var out []api.BrokerConfig
	for _, cfg := range configs {
		out = append(out, c.brokerConfigJSON(broker, cfg))
	}
	return list(c, api.KindBrokerConfigList, c.self("brokers", itoa(broker), "configs"), out)
}

func getBrokerConfig(c *call) error {
	broker, configs, err := c.brokerConfigs()
	if err != nil {
		return err
	}
	name := c.r.PathValue("config_name")
	for _, cfg := range configs {
		switch {
		case cfg.Name != name:
		case broker == EveryBroker:
			return c.json(http.StatusOK, c.clusterConfigJSON(cfg))
		default:
			return c.json(http.StatusOK, c.brokerConfigJSON(broker, cfg))
		}
	}
	if broker == EveryBroker {
		return notFound("The config '%s' is not set for all brokers. GET …/broker-configs lists those that are.", name)
	}
	return notFound("Broker %d has no config '%s'. GET …/configs lists those it has.", broker, name)
}

func putBrokerConfig(c *call) error {
	var rq api.UpdateConfigRequest
	if err := c.body(&rq, bodyRequired); err != nil {
		return err
	}
	if rq.Value == nil {
		return badRequest("The field 'value' is missing; to put a config back to its default use DELETE.")
	}
	return c.alterBroker([]ConfigChange{{Name: c.r.PathValue("config_name"), Value: rq.Value}}, false)
}

func deleteBrokerConfig(c *call) error {
	return c.alterBroker([]ConfigChange{{Name: c.r.PathValue("config_name")}}, false)
}

func alterBrokerConfigs(c *call) error {
	changes, validateOnly, err := c.alterRequest()
	if err != nil {
		return err
	}
	return c.alterBroker(changes, validateOnly)
}

func (c *call) alterBroker(changes []ConfigChange, validateOnly bool) error {
	broker, err := c.brokerScope()
	if err != nil {
		return err
	}
	change := BrokerConfigChange{Broker: broker, Changes: changes, ValidateOnly: validateOnly}
	if err := c.Configs.AlterBrokerConfigs(c.r.Context(), change); err != nil {
		return err
	}
	return c.noContent()
}

// shown is the value and the layers of a config that may go out.
func shown(cfg TopicConfig) (*string, []api.ConfigSynonym) {
	synonyms := []api.ConfigSynonym{}
	if cfg.Sensitive {
		return nil, synonyms // whatever came with it does not go out
	}
	for _, s := range cfg.Synonyms {
		synonyms = append(synonyms, api.ConfigSynonym{Name: s.Name, Value: s.Value, Source: s.Source})
	}
	return cfg.Value, synonyms
}

func (c *call) clusterConfigJSON(cfg TopicConfig) api.ClusterConfig {
	value, synonyms := shown(cfg)
	return api.ClusterConfig{
		Kind: api.KindClusterConfig, Metadata: c.metadata(c.self("broker-configs", escape(cfg.Name)), "/broker-config="+cfg.Name),
		ClusterID: c.Cluster.ID(), ConfigType: "BROKER",
		Name: cfg.Name, Value: value, IsDefault: cfg.Default, IsReadOnly: cfg.ReadOnly, IsSensitive: cfg.Sensitive,
		Source: cmp.Or(cfg.Source, api.SourceDefault), Synonyms: synonyms,
	}
}

func (c *call) brokerConfigJSON(broker int32, cfg TopicConfig) api.BrokerConfig {
	value, synonyms := shown(cfg)
	at := c.self("brokers", itoa(broker), "configs", escape(cfg.Name))
	return api.BrokerConfig{
		Kind: api.KindBrokerConfig, Metadata: c.metadata(at, "/broker="+itoa(broker)+"/config="+cfg.Name), ClusterID: c.Cluster.ID(),
		BrokerID: broker, Name: cfg.Name, Value: value,
		IsDefault: cfg.Default, IsReadOnly: cfg.ReadOnly, IsSensitive: cfg.Sensitive, Source: cmp.Or(cfg.Source, api.SourceDefault),
		Synonyms: synonyms,
	}
}
