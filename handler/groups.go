package handler

import (
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Checks that the group APIs share. What a request means is package group's.

var (
	errGroupDenied  = kafka.Errorf(kafka.GroupAuthorizationFailed, "Group authorization failed.")
	errNoSuchNumber = kafka.Errorf(kafka.UnknownTopicOrPartition, "The topic has no such partition.")
)

// groupTopic finds the name of a topic in a group's request, by name or by id,
// if the caller may do op on it.
func (c *call) groupTopic(name string, id kafka.TopicID, mode naming, op kmsg.ACLOperation) (string, error) {
	t, err := c.topicOf(name, id, mode)
	if t != nil {
		name = t.Name
	}
	if name != "" && !c.topicAllowed(op, name) {
		return name, topicDenied(name)
	}
	return name, err
}

// groupPartition says why a partition cannot be committed to.
func (c *call) groupPartition(topic string, number int32) error {
	if !has(c.Topics.ByName(topic), number) {
		return errNoSuchNumber
	}
	return nil
}
