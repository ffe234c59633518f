package api

// Kinds of answers about the configs of brokers.
const (
	KindClusterConfig     = "KafkaClusterConfig"
	KindClusterConfigList = "KafkaClusterConfigList"
	KindBrokerConfig      = "KafkaBrokerConfig"
	KindBrokerConfigList  = "KafkaBrokerConfigList"
)

// ClusterConfig is a config that was set for all brokers. ConfigType is BROKER.
type ClusterConfig struct {
	Kind        string          `json:"kind"`
	Metadata    Metadata        `json:"metadata"`
	ClusterID   string          `json:"cluster_id"`
	ConfigType  string          `json:"config_type"`
	Name        string          `json:"name"`
	Value       *string         `json:"value"`
	IsDefault   bool            `json:"is_default"`
	IsReadOnly  bool            `json:"is_read_only"`
	IsSensitive bool            `json:"is_sensitive"`
	Source      string          `json:"source"`
	Synonyms    []ConfigSynonym `json:"synonyms"`
}

// BrokerConfig is a config of one broker.
type BrokerConfig struct {
	Kind        string          `json:"kind"`
	Metadata    Metadata        `json:"metadata"`
	ClusterID   string          `json:"cluster_id"`
	BrokerID    int32           `json:"broker_id"`
	Name        string          `json:"name"`
	Value       *string         `json:"value"`
	IsDefault   bool            `json:"is_default"`
	IsReadOnly  bool            `json:"is_read_only"`
	IsSensitive bool            `json:"is_sensitive"`
	Source      string          `json:"source"`
	Synonyms    []ConfigSynonym `json:"synonyms"`
}
