package handler

import (
	"context"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreatePartitions, key 37, versions 0-3. Raises the number of a topic's partitions.
//
//	validate_only makes none. Mirror topics: refused, their partitions follow the source.
//	v2 flexible encoding. v3 refused over the quota of mutations (KIP-599).
func createPartitions(ctx context.Context, c *call, rq *kmsg.CreatePartitionsRequest) (kmsg.Response, error) {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	times := map[string]int{}
	for _, in := range rq.Topics {
		times[in.Topic]++
	}
	for i := range rq.Topics {
		in := &rq.Topics[i]
		if times[in.Topic] == 0 {
			continue
		}
		err := kafka.Errorf(kafka.InvalidRequest, "Duplicate topic in request.")
		if times[in.Topic] == 1 {
			err = c.growTopic(ctx, in, rq.ValidateOnly)
		}
		times[in.Topic] = 0
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic, out.ErrorCode, out.ErrorMessage = in.Topic, code(err), kafka.MessageOf(err)
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func (c *call) growTopic(ctx context.Context, in *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	t, err := c.readable(in.Topic, kmsg.ACLOperationAlter)
	if err != nil {
		return err
	}
	if err := c.readOnly(t); err != nil {
		return err
	}
	more := int64(in.Count) - int64(t.Partitions)
	switch {
	case kafka.IsInternal(t.Name):
		return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is internal: its number of partitions is fixed.", t.Name)
	case more == 0:
		return kafka.Errorf(kafka.InvalidPartitions, "Topic already has %d partition(s).", t.Partitions)
	case more < 0:
		return kafka.Errorf(kafka.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.",
			t.Name, t.Partitions, in.Count)
	case more > createPartitionsMax:
		return kafka.Errorf(kafka.InvalidPartitions, "At most %d partitions can be added at once.", createPartitionsMax)
	case in.Assignment != nil && int64(len(in.Assignment)) != more:
		return kafka.Errorf(kafka.InvalidReplicaAssignment,
			"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", more, len(in.Assignment))
	}
	for _, a := range in.Assignment {
		if err := c.checkReplicas(a.Replicas); err != nil {
			return err
		}
	}
	if err := c.mutate(int(more), strictFrom(c.version, 3)); err != nil {
		return err
	}
	if validateOnly {
		return nil
	}
	return c.Topics.Grow(ctx, t.ID, in.Count)
}
