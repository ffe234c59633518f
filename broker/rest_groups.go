package broker

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Groups implements rest.Groups.
func (g *restGroups) Groups(ctx context.Context) ([]rest.Group, error) {
	listed := g.b.groups.ListGroups(ctx, kmsg.NewPtrListGroupsRequest())
	if code := kafka.ErrorCode(listed.ErrorCode); code != kafka.None {
		return nil, code
	}
	list := []rest.Group{}
	for _, entry := range listed.Groups {
		group, err := g.Group(ctx, entry.Group)
		if err != nil {
			continue // it went between the two questions
		}
		group.Type = entry.GroupType
		list = append(list, group)
	}
	return sorted(list, func(g rest.Group) string { return g.ID }), nil
}

// Group implements rest.Groups.
func (g *restGroups) Group(ctx context.Context, id string) (rest.Group, error) {
	rq := kmsg.NewPtrConsumerGroupDescribeRequest()
	rq.Groups = []string{id}
	for _, d := range g.b.groups.ConsumerGroupDescribe(ctx, rq).Groups {
		if kafka.ErrorCode(d.ErrorCode) == kafka.None {
			return g.newer(d), nil
		}
	}
	return g.classic(ctx, id)
}

// newer is a group of the newer protocol (KIP-848).
func (g *restGroups) newer(d kmsg.ConsumerGroupDescribeResponseGroup) rest.Group {
	group := rest.Group{ID: d.Group, State: d.State, Type: "consumer", Assignor: d.AssignorName, Coordinator: g.b.cfg.NodeID}
	for _, m := range d.Members {
		member := rest.Member{ID: m.MemberID, ClientID: m.ClientID}
		if m.InstanceID != nil {
			member.InstanceID = *m.InstanceID
		}
		for _, topic := range m.Assignment.TopicPartitions {
			for _, partition := range topic.Partitions {
				member.Owns = append(member.Owns, rest.Owned{Topic: topic.Topic, Partition: partition})
			}
		}
		group.Members = append(group.Members, member)
	}
	return group
}

func (g *restGroups) classic(ctx context.Context, id string) (rest.Group, error) {
	rq := kmsg.NewPtrDescribeGroupsRequest()
	rq.Version = 6
	rq.Groups = []string{id}
	answer := g.b.groups.DescribeGroups(ctx, rq)
	if len(answer.Groups) != 1 {
		return rest.Group{}, kafka.Errorf(kafka.GroupIDNotFound, "Consumer group '%s' does not exist.", id)
	}
	d := answer.Groups[0]
	if code := kafka.ErrorCode(d.ErrorCode); code != kafka.None {
		return rest.Group{}, kafka.Errorf(code, "Consumer group '%s' cannot be described: %s.", id, code)
	}
	if d.State == "Dead" {
		return rest.Group{}, kafka.Errorf(kafka.GroupIDNotFound, "Consumer group '%s' does not exist.", id)
	}
	group := rest.Group{
		ID: id, State: d.State, Type: "classic", Assignor: d.Protocol,
		Simple: d.ProtocolType == "", Coordinator: g.b.cfg.NodeID,
	}
	for _, m := range d.Members {
		member := rest.Member{ID: m.MemberID, ClientID: m.ClientID, Owns: owned(m.MemberAssignment)}
		if m.InstanceID != nil {
			member.InstanceID = *m.InstanceID
		}
		group.Members = append(group.Members, member)
	}
	return group, nil
}

// owned reads what a leader assigned: bytes that clients agree on among themselves. None that cannot be read.
func owned(assignment []byte) []rest.Owned {
	read := kmsg.NewConsumerMemberAssignment()
	if len(assignment) == 0 || read.ReadFrom(assignment) != nil {
		return nil
	}
	var list []rest.Owned
	for _, topic := range read.Topics {
		for _, partition := range topic.Partitions {
			list = append(list, rest.Owned{Topic: topic.Topic, Partition: partition})
		}
	}
	return list
}

// Lags implements rest.Groups.
func (g *restGroups) Lags(ctx context.Context, id string) ([]rest.GroupLag, error) {
	group, err := g.Group(ctx, id)
	if err != nil {
		return nil, err
	}
	owner := map[rest.Owned]rest.Member{}
	for _, m := range group.Members {
		for _, o := range m.Owns {
			owner[o] = m
		}
	}
	list := []rest.GroupLag{}
	for _, topic := range g.b.topics.All() {
		for _, commit := range g.b.groups.Committed(topic.Name)[id] {
			lag := rest.GroupLag{Topic: topic.Name, Partition: commit.TopicPartition.Partition, Committed: int64(commit.Offset)}
			lag.Member = owner[rest.Owned{Topic: lag.Topic, Partition: lag.Partition}]
			if _, end, ok := g.b.topics.bounds(commit.TopicPartition); ok {
				lag.End = int64(end)
			}
			list = append(list, lag)
		}
	}
	return list, nil
}
