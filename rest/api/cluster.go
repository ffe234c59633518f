package api

// Kinds of cluster and broker answers.
const (
	KindCluster     = "KafkaCluster"
	KindClusterList = "KafkaClusterList"
	KindBroker      = "KafkaBroker"
	KindBrokerList  = "KafkaBrokerList"
)

// Cluster is this cluster.
type Cluster struct {
	Kind                   string   `json:"kind"`
	Metadata               Metadata `json:"metadata"`
	ClusterID              string   `json:"cluster_id"`
	Controller             *Related `json:"controller"`
	ACLs                   Related  `json:"acls"`
	Brokers                Related  `json:"brokers"`
	BrokerConfigs          Related  `json:"broker_configs"`
	ConsumerGroups         Related  `json:"consumer_groups"`
	Topics                 Related  `json:"topics"`
	PartitionReassignments Related  `json:"partition_reassignments"`
}

// Broker is a broker, at the address it advertises.
type Broker struct {
	Kind              string   `json:"kind"`
	Metadata          Metadata `json:"metadata"`
	ClusterID         string   `json:"cluster_id"`
	BrokerID          int32    `json:"broker_id"`
	Host              *string  `json:"host"`
	Port              *int32   `json:"port"`
	Rack              *string  `json:"rack"`
	Configs           Related  `json:"configs"`
	PartitionReplicas Related  `json:"partition_replicas"`
}

// Health is the answer of /health/live and /health/ready.
type Health struct {
	Status  string `json:"status"`            // "ok" or "not ready"
	Message string `json:"message,omitempty"` // what is being waited for
}
