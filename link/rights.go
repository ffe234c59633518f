package link

import (
	"context"
	"fmt"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
)

// MissingACL is a right that an order, or what it leads to, needs, and that the link's principal does not have on the source cluster.
type MissingACL struct {
	Operation string // as Kafka writes it
	Topic     string // of the source cluster
	Need      string // what does not work without it
}

// listMissing lists what a dry run finds missing, by mirror topic: the source is asked once, about all topics.
func (o *ordering) listMissing(ctx context.Context, img *meta.Image, names []string) map[kafka.TopicID][]MissingACL {
	wanted := map[mirror.Event][]source.Right{
		mirror.PromoteAsked: {source.Read, source.DescribeConfigs}, mirror.ResumeAsked: {source.Read, source.DescribeConfigs},
		mirror.ReverseAsked: {source.Read, source.DescribeConfigs, source.Alter},
		mirror.RestoreAsked: {source.Read, source.DescribeConfigs, source.Alter},
	}[o.event]
	r := o.ls.runningOf(o.link.ID)
	if !o.dry || r == nil || wanted == nil {
		return nil
	}
	sources := map[kafka.TopicID]string{}
	topics := []string{kafka.ConsumerOffsetsTopic}
	for _, name := range names {
		m, err := o.find(img, name)
		if err != nil {
			continue
		}
		at := m.rec.SourceTopic
		if found := o.restores[m.topic.ID]; found != nil {
			at = found.source
		}
		if at != "" {
			sources[m.topic.ID], topics = at, append(topics, at)
		}
	}
	src, err := r.source()
	if err != nil {
		return nil // the order's own checks say so
	}
	ctx, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	rights, err := src.Rights(ctx, topics)
	if err != nil {
		return nil
	}
	missing := map[kafka.TopicID][]MissingACL{}
	for id, topic := range sources {
		for _, right := range rights[topic].Missing(wanted...) {
			missing[id] = append(missing[id], MissingACL{string(right), topic, fmt.Sprintf("%s does not end without it", o.verb)})
		}
		if r.offsetsWanted() && len(rights[kafka.ConsumerOffsetsTopic].Missing(source.Read)) > 0 {
			missing[id] = append(missing[id], MissingACL{string(source.Read), kafka.ConsumerOffsetsTopic,
				"group offsets come over with each round of consumer.offset.sync.ms only"})
		}
	}
	return missing
}

// mayMirror refuses a reversal after which this side could not read its new source (the mirror's topic now).
func (r *running) mayMirror(ctx context.Context, topic string) error {
	src, err := r.source()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	rights, err := src.Rights(ctx, []string{topic})
	own := r.ls.env.Metadata.Image().Cluster.ID
	if err != nil {
		return kafka.Errorf(kafka.NotEnoughReplicas, "Cluster %s cannot ask over cluster link '%s' what it may do with topic '%s': %v",
			own, r.name, topic, err)
	}
	missing := rights[topic].Missing(source.Read, source.DescribeConfigs)
	if len(missing) == 0 {
		return nil
	}
	var list []string
	for _, right := range missing {
		list = append(list, string(right))
	}
	return kafka.Errorf(kafka.TopicAuthorizationFailed, "After a reversal cluster %s could not mirror topic '%s': allow %s on it "+
		"to the principal of its half of cluster link '%s'.", own, topic, strings.Join(list, " and "), r.name)
}
