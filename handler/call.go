package handler

import (
	"time"

	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// call is one request on its way: the server, who asks, over which listener.
type call struct {
	*Server
	listener *listener
	conn     *conn
	version  int16
	from     group.Client
	clientID *string
	size     int           // bytes of the request
	begun    time.Time     // when it began to be handled
	waited   time.Duration // of that time, what it only waited
	resting  time.Duration // for how long its client shall rest, as found by the handler
}

// allowed asks the authorizer.
func (c *call) allowed(op kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) bool {
	return c.Authorizer == nil || c.Authorizer.Allowed(c.from.Principal, c.from.Host, op, kind, name)
}

// allowedSomewhere asks whether op is allowed on any resource of the kind (KIP-679).
func (c *call) allowedSomewhere(op kmsg.ACLOperation, kind kmsg.ACLResourceType) bool {
	return c.Authorizer == nil || c.Authorizer.AllowedSomewhere(c.from.Principal, c.from.Host, op, kind)
}

// clusterResource names the one resource of its kind (Kafka's Resource.CLUSTER_NAME).
const clusterResource = "kafka-cluster"

func (c *call) topicAllowed(op kmsg.ACLOperation, topic string) bool {
	return c.allowed(op, kmsg.ACLResourceTypeTopic, topic)
}

func (c *call) groupAllowed(op kmsg.ACLOperation, group string) bool {
	return c.allowed(op, kmsg.ACLResourceTypeGroup, group)
}

func (c *call) clusterAllowed(op kmsg.ACLOperation) bool {
	return c.allowed(op, kmsg.ACLResourceTypeCluster, clusterResource)
}

// Operations in the authorized-operations bit fields, by resource (Kafka's AclEntry.supportedOperations).
var (
	topicOps = []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDelete,
		kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs}
	groupOps = []kmsg.ACLOperation{kmsg.ACLOperationRead, kmsg.ACLOperationDelete, kmsg.ACLOperationDescribe,
		kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs}
	clusterOps = []kmsg.ACLOperation{kmsg.ACLOperationCreate, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe,
		kmsg.ACLOperationClusterAction, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs, kmsg.ACLOperationIdempotentWrite}
)

// noAuthorizedOps says that the bit field was not asked for.
const noAuthorizedOps = -2147483648

// authorizedOps is the bit field of what the caller may do (KIP-430).
func (c *call) authorizedOps(ops []kmsg.ACLOperation, kind kmsg.ACLResourceType, name string) int32 {
	var bits int32
	for _, op := range ops {
		if c.allowed(op, kind, name) {
			bits |= 1 << uint(op)
		}
	}
	return bits
}

// authorizedClusterOps is those on the cluster: none for who may not DESCRIBE it.
func (c *call) authorizedClusterOps() int32 {
	if !c.clusterAllowed(kmsg.ACLOperationDescribe) {
		return 0
	}
	return c.authorizedOps(clusterOps, kmsg.ACLResourceTypeCluster, clusterResource)
}

// topicOf finds a topic by name, or by id when byID; which of them a request
// carries depends on its version. On an error the name is known if the caller gave it.
func (c *call) topicOf(name string, id kafka.TopicID, mode naming) (*meta.Topic, error) {
	if mode == byID {
		if t := c.Topics.ByID(id); t != nil {
			return t, nil
		}
		return nil, kafka.Errorf(kafka.UnknownTopicID, "There is no topic with id %s.", id)
	}
	if t := c.Topics.ByName(name); t != nil {
		return t, nil
	}
	return nil, kafka.UnknownTopicError(name)
}

// naming is how a request names its topics.
type naming int8

const (
	byName naming = iota
	byID
)

// namingFrom is byID from version first on.
func (c *call) namingFrom(first int16) naming {
	if c.version >= first {
		return byID
	}
	return byName
}

// open finds the topic's partition, or says why a client cannot use it.
func (c *call) open(t *meta.Topic, number int32) (*partition.Partition, error) {
	if !has(t, number) {
		return nil, kafka.Errorf(kafka.UnknownTopicOrPartition, "Topic '%s' has no partition %d.", t.Name, number)
	}
	p := c.Partition(kafka.PartitionID{Topic: t.ID, Partition: number})
	if p == nil {
		return nil, kafka.Errorf(kafka.NotLeaderForPartition, "Partition %s-%d is not open on this broker.", t.Name, number)
	}
	return p, p.Err()
}

// topicDenied is the answer about a topic that the caller may not use, whether it is there or not.
func topicDenied(topic string) error {
	return kafka.Errorf(kafka.TopicAuthorizationFailed, "Not authorized to access topics: [%s]", topic)
}

// errNoAuthorizer answers who would manage ACLs where none are kept, in Kafka's words.
var errNoAuthorizer = kafka.Errorf(kafka.SecurityDisabled, "No Authorizer is configured on the broker")

var errClusterDenied = kafka.Errorf(kafka.ClusterAuthorizationFailed, "Cluster authorization failed.")

func code(err error) int16 { return int16(kafka.CodeOf(err)) }

func text(s string) *string { return &s }
