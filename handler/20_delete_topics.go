package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteTopics, key 20, versions 1-6. Deletes topics, their data and the groups' commits on them.
//
//	Mirror topics can be deleted as any other.
//	v4 flexible encoding. v5 messages; refused over the quota of mutations (KIP-599). v6 topic ids.
func deleteTopics(ctx context.Context, c *call, rq *kmsg.DeleteTopicsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	ask := rq.Topics
	if c.version < 6 {
		ask = nil
		for _, name := range rq.TopicNames {
			ask = append(ask, kmsg.DeleteTopicsRequestTopic{Topic: &name})
		}
	}
	type key struct {
		name string
		id   kafka.TopicID
	}
	keyOf := func(in *kmsg.DeleteTopicsRequestTopic) (k key) {
		if k.id = in.TopicID; in.Topic != nil {
			k.name = *in.Topic
		}
		return k
	}
	times := map[key]int{}
	for i := range ask {
		times[keyOf(&ask[i])]++
	}
	for i := range ask {
		k := keyOf(&ask[i])
		if times[k] == 0 {
			continue // answered already, as a duplicate
		}
		err := kafka.Errorf(kafka.InvalidRequest, "Duplicate topic name or id.")
		if times[k] == 1 {
			err = c.deleteTopic(ctx, &ask[i])
		}
		times[k] = 0
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID, out.ErrorCode, out.ErrorMessage = ask[i].Topic, ask[i].TopicID, code(err), kafka.MessageOf(err)
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// deleteTopic deletes one topic and fills in the half of its identity that the request left out.
func (c *call) deleteTopic(ctx context.Context, in *kmsg.DeleteTopicsRequestTopic) error {
	mode, name, id := byName, "", kafka.TopicID(in.TopicID)
	switch {
	case c.Settings.NoDeleteTopics && c.version < 3:
		return kafka.Errorf(kafka.InvalidRequest, "Topic deletion is disabled.")
	case c.Settings.NoDeleteTopics:
		return kafka.Errorf(kafka.TopicDeletionDisabled, "Topic deletion is disabled.")
	case in.Topic != nil && !id.IsZero():
		return kafka.Errorf(kafka.InvalidRequest, "You may not specify both topic name and topic id.")
	case in.Topic == nil && id.IsZero():
		return kafka.Errorf(kafka.InvalidRequest, "Neither topic name nor id were specified.")
	case in.Topic == nil:
		mode = byID
	default:
		name = *in.Topic
	}
	t, err := c.topicOf(name, id, mode)
	if t != nil {
		name = t.Name
	}
	switch {
	case mode == byName && !c.topicAllowed(kmsg.ACLOperationDescribe, name):
		return topicDenied(name)
	case err != nil:
		return err
	case !c.topicAllowed(kmsg.ACLOperationDescribe, name):
		return topicDenied("") // its name stays unsaid
	case !c.topicAllowed(kmsg.ACLOperationDelete, name):
		in.Topic = &t.Name
		return topicDenied(name)
	case kafka.IsInternal(name):
		return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is internal and cannot be deleted.", name)
	}
	in.Topic, in.TopicID = &t.Name, t.ID
	if err := c.mutate(int(t.Partitions), strictFrom(c.version, 5)); err != nil {
		return err
	}
	return c.Topics.Delete(ctx, t.ID)
}
