package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/quota"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Metadata, key 3, versions 0-13.
//
//	Brokers have the addresses of the listener that the request came in on.
//	A topic asked for by name that is not there is made, when both the broker
//	(auto.create.topics.enable) and the request (v4 on; always before) allow it.
//	v0 an empty list means all topics. v1 null means all; a controller. v2 cluster id.
//	v7 leader epochs. v8 authorized operations. v9 flexible encoding. v10 topic ids in the answer.
//	v12 topics may be asked for by id. v13 a code for the whole answer (KIP-1102), always 0.
func metadata(ctx context.Context, c *call, rq *kmsg.MetadataRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrMetadataResponse()
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID, broker.Host, broker.Port, broker.Rack = c.self(c.listener)
	resp.Brokers = append(resp.Brokers, broker)
	resp.ClusterID = &c.ClusterID
	resp.ControllerID = c.NodeID
	if rq.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = c.authorizedClusterOps()
	}
	m := &describing{call: c, rq: rq}
	if rq.Topics == nil || c.version == 0 && len(rq.Topics) == 0 {
		for _, t := range c.Topics.All() {
			if c.topicAllowed(kmsg.ACLOperationDescribe, t.Name) {
				resp.Topics = append(resp.Topics, m.describe(t))
			}
		}
		return resp, nil
	}
	seen := map[string]bool{}
	for i := range rq.Topics {
		in := &rq.Topics[i]
		if in.Topic != nil && kafka.TopicID(in.TopicID).IsZero() {
			if seen[*in.Topic] {
				continue
			}
			seen[*in.Topic] = true
		}
		resp.Topics = append(resp.Topics, m.topic(ctx, in))
	}
	return resp, nil
}

// describing is one Metadata request's work.
type describing struct {
	*call
	rq *kmsg.MetadataRequest
}

func (m *describing) topic(ctx context.Context, in *kmsg.MetadataRequestTopic) kmsg.MetadataResponseTopic {
	t, err := m.find(ctx, in)
	if err == nil {
		return m.describe(t)
	}
	out := kmsg.NewMetadataResponseTopic()
	out.ErrorCode, out.Topic, out.TopicID = code(err), in.Topic, in.TopicID
	switch {
	case m.version >= 12 && !kafka.TopicID(in.TopicID).IsZero():
		out.Topic = nil // it was asked for by id, which wins
	case out.Topic == nil:
		out.Topic = text("") // null is not allowed before version 12
	case m.rq.IncludeTopicAuthorizedOperations && m.topicAllowed(kmsg.ACLOperationDescribe, *in.Topic):
		out.AuthorizedOperations = m.authorizedOps(topicOps, kmsg.ACLResourceTypeTopic, *in.Topic)
	}
	return out
}

// find finds the topic if it may be shown, or makes it if it may be made.
func (m *describing) find(ctx context.Context, in *kmsg.MetadataRequestTopic) (*meta.Topic, error) {
	id := kafka.TopicID(in.TopicID)
	switch {
	case m.version < 12 && (in.Topic == nil || !id.IsZero()):
		return nil, kafka.Errorf(kafka.InvalidRequest, "Topics may be asked for by id only from version 12 on.")
	case !id.IsZero():
		t := m.Topics.ByID(id)
		if t == nil {
			return nil, kafka.UnknownTopicID
		}
		if !m.topicAllowed(kmsg.ACLOperationDescribe, t.Name) {
			return nil, topicDenied("")
		}
		return t, nil
	case in.Topic == nil:
		return nil, kafka.Errorf(kafka.InvalidRequest, "A topic needs a name or an id.")
	}
	name := *in.Topic
	if !m.topicAllowed(kmsg.ACLOperationDescribe, name) {
		return nil, topicDenied(name)
	}
	if t := m.Topics.ByName(name); t != nil {
		return t, nil
	}
	if !m.Settings.AutoCreateTopics || m.version >= 4 && !m.rq.AllowAutoTopicCreation || kafka.IsInternal(name) {
		if err := kafka.CheckTopicName(name); err != nil {
			return nil, err
		}
		return nil, kafka.UnknownTopicError(name)
	}
	return m.create(ctx, name)
}

func (m *describing) create(ctx context.Context, name string) (*meta.Topic, error) {
	if err := kafka.CheckTopicName(name); err != nil {
		return nil, err
	}
	if !m.clusterAllowed(kmsg.ACLOperationCreate) && !m.topicAllowed(kmsg.ACLOperationCreate, name) {
		return nil, topicDenied(name)
	}
	m.creating.Lock()
	defer m.creating.Unlock()
	if t := m.Topics.ByName(name); t != nil { // another client's request was first
		return t, nil
	}
	if err := m.mutate(int(m.Settings.NumPartitions), quota.Permissive); err != nil {
		return nil, err
	}
	t, err := m.Topics.Create(ctx, NewTopic{
		Name: name, Partitions: m.Settings.NumPartitions, ReplicationFactor: m.Settings.ReplicationFactor,
	})
	if kafka.CodeOf(err) == kafka.TopicAlreadyExists {
		if t := m.Topics.ByName(name); t != nil {
			return t, nil
		}
	}
	return t, err
}

func (m *describing) describe(t *meta.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &t.Name, t.ID, kafka.IsInternal(t.Name)
	if m.rq.IncludeTopicAuthorizedOperations {
		out.AuthorizedOperations = m.authorizedOps(topicOps, kmsg.ACLResourceTypeTopic, t.Name)
	}
	nodes := []int32{m.NodeID}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, t.Partitions)
	for i := range out.Partitions {
		p := &out.Partitions[i]
		*p = kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.Replicas, p.ISR = int32(i), m.NodeID, nodes, nodes
		open := m.Partition(kafka.PartitionID{Topic: t.ID, Partition: int32(i)})
		if open == nil || open.Err() != nil {
			p.ErrorCode, p.Leader = int16(kafka.LeaderNotAvailable), -1
			p.ISR, p.OfflineReplicas = nil, nodes
			continue
		}
		p.LeaderEpoch = int32(open.Offsets().Epoch)
	}
	return out
}
