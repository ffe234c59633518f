package api

// Kinds of consumer-group answers.
const (
	KindGroup          = "KafkaConsumerGroup"
	KindGroupList      = "KafkaConsumerGroupList"
	KindConsumer       = "KafkaConsumer"
	KindConsumerList   = "KafkaConsumerList"
	KindAssignment     = "KafkaConsumerAssignment"
	KindAssignmentList = "KafkaConsumerAssignmentList"
	KindLag            = "KafkaConsumerLag"
	KindLagList        = "KafkaConsumerLagList"
	KindLagSummary     = "KafkaConsumerGroupLagSummary"
)

// Group is a consumer group. State is written as PREPARING_REBALANCE, STABLE …
type Group struct {
	Kind                 string   `json:"kind"`
	Metadata             Metadata `json:"metadata"`
	ClusterID            string   `json:"cluster_id"`
	ConsumerGroupID      string   `json:"consumer_group_id"`
	IsSimple             bool     `json:"is_simple"`
	PartitionAssignor    string   `json:"partition_assignor"`
	State                string   `json:"state"`
	Type                 string   `json:"type"` // CLASSIC or CONSUMER
	IsMixedConsumerGroup bool     `json:"is_mixed_consumer_group"`
	Coordinator          Related  `json:"coordinator"`
	Consumers            Related  `json:"consumers"`
	LagSummary           Related  `json:"lag_summary"`
}

// Consumer is a member of a group.
type Consumer struct {
	Kind            string   `json:"kind"`
	Metadata        Metadata `json:"metadata"`
	ClusterID       string   `json:"cluster_id"`
	ConsumerGroupID string   `json:"consumer_group_id"`
	ConsumerID      string   `json:"consumer_id"`
	InstanceID      *string  `json:"instance_id"`
	ClientID        string   `json:"client_id"`
	Assignments     Related  `json:"assignments"`
}

// Assignment is a partition that a member of a group owns.
type Assignment struct {
	Kind            string   `json:"kind"`
	Metadata        Metadata `json:"metadata"`
	ClusterID       string   `json:"cluster_id"`
	ConsumerGroupID string   `json:"consumer_group_id"`
	ConsumerID      string   `json:"consumer_id"`
	TopicName       string   `json:"topic_name"`
	PartitionID     int32    `json:"partition_id"`
	Partition       Related  `json:"partition"`
	Lag             Related  `json:"lag"`
}

// Lag is how far a group is behind on one partition. Consumer and client id are
// empty where no member owns the partition.
type Lag struct {
	Kind            string   `json:"kind"`
	Metadata        Metadata `json:"metadata"`
	ClusterID       string   `json:"cluster_id"`
	ConsumerGroupID string   `json:"consumer_group_id"`
	TopicName       string   `json:"topic_name"`
	PartitionID     int32    `json:"partition_id"`
	CurrentOffset   int64    `json:"current_offset"`
	LogEndOffset    int64    `json:"log_end_offset"`
	Lag             int64    `json:"lag"`
	ConsumerID      string   `json:"consumer_id"`
	InstanceID      *string  `json:"instance_id"`
	ClientID        string   `json:"client_id"`
}

// LagSummary sums a group's lags up.
type LagSummary struct {
	Kind              string   `json:"kind"`
	Metadata          Metadata `json:"metadata"`
	ClusterID         string   `json:"cluster_id"`
	ConsumerGroupID   string   `json:"consumer_group_id"`
	MaxLagConsumerID  string   `json:"max_lag_consumer_id"`
	MaxLagInstanceID  *string  `json:"max_lag_instance_id"`
	MaxLagClientID    string   `json:"max_lag_client_id"`
	MaxLagTopicName   string   `json:"max_lag_topic_name"`
	MaxLagPartitionID int32    `json:"max_lag_partition_id"`
	MaxLag            int64    `json:"max_lag"`
	TotalLag          int64    `json:"total_lag"`
	MaxLagConsumer    Related  `json:"max_lag_consumer"`
	MaxLagPartition   Related  `json:"max_lag_partition"`
}
