package api

// Kinds of topic, partition and replica answers.
const (
	KindTopic           = "KafkaTopic"
	KindTopicList       = "KafkaTopicList"
	KindTopicConfig     = "KafkaTopicConfig"
	KindTopicConfigList = "KafkaTopicConfigList"
	KindPartition       = "KafkaPartition"
	KindPartitionList   = "KafkaPartitionList"
	KindReplica         = "KafkaReplica"
	KindReplicaList     = "KafkaReplicaList"
)

// CreateTopicRequest is the body of POST …/topics. A missing count or factor means the broker's default.
type CreateTopicRequest struct {
	TopicName         string       `json:"topic_name"`
	PartitionsCount   *int32       `json:"partitions_count,omitempty"`
	ReplicationFactor *int32       `json:"replication_factor,omitempty"`
	Configs           []ConfigData `json:"configs,omitempty"`
	ValidateOnly      bool         `json:"validate_only,omitempty"`
}

// UpdatePartitionsRequest is the body of PATCH …/topics/{name}: the new total.
type UpdatePartitionsRequest struct {
	PartitionsCount *int32 `json:"partitions_count"`
}

// Topic is a topic.
type Topic struct {
	Kind                   string   `json:"kind"`
	Metadata               Metadata `json:"metadata"`
	ClusterID              string   `json:"cluster_id"`
	TopicName              string   `json:"topic_name"`
	IsInternal             bool     `json:"is_internal"`
	ReplicationFactor      int32    `json:"replication_factor"`
	PartitionsCount        int32    `json:"partitions_count"`
	Partitions             Related  `json:"partitions"`
	Configs                Related  `json:"configs"`
	PartitionReassignments Related  `json:"partition_reassignments"`
	AuthorizedOperations   []string `json:"authorized_operations"`
}

// TopicConfig is one config of a topic, or of a broker's defaults.
type TopicConfig struct {
	Kind        string          `json:"kind"`
	Metadata    Metadata        `json:"metadata"`
	ClusterID   string          `json:"cluster_id"`
	TopicName   string          `json:"topic_name"`
	Name        string          `json:"name"`
	Value       *string         `json:"value"`
	IsDefault   bool            `json:"is_default"`
	IsReadOnly  bool            `json:"is_read_only"`
	IsSensitive bool            `json:"is_sensitive"`
	Source      string          `json:"source"`
	Synonyms    []ConfigSynonym `json:"synonyms"`
}

// ConfigSynonym is one layer that a config's value may come from, nearest first.
type ConfigSynonym struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

// Partition is a partition. Leader is null while there is none.
type Partition struct {
	Kind         string   `json:"kind"`
	Metadata     Metadata `json:"metadata"`
	ClusterID    string   `json:"cluster_id"`
	TopicName    string   `json:"topic_name"`
	PartitionID  int32    `json:"partition_id"`
	Leader       *Related `json:"leader"`
	Replicas     Related  `json:"replicas"`
	Reassignment Related  `json:"reassignment"`
}

// Replica is a partition's copy on a broker.
type Replica struct {
	Kind        string   `json:"kind"`
	Metadata    Metadata `json:"metadata"`
	ClusterID   string   `json:"cluster_id"`
	TopicName   string   `json:"topic_name"`
	PartitionID int32    `json:"partition_id"`
	BrokerID    int32    `json:"broker_id"`
	IsLeader    bool     `json:"is_leader"`
	IsInSync    bool     `json:"is_in_sync"`
	Broker      Related  `json:"broker"`
}
