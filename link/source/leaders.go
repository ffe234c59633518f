package source

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
)

const (
	// gatherTime is how long a metadata request waits for more topics to ask about: a
	// thousand partitions whose leader moved are one request.
	gatherTime = 3 * time.Millisecond
	// topicsAsked is how many topics one request names at most.
	topicsAsked = 1000
	// partitionsMax is the largest partition count believed.
	partitionsMax = 200_000
)

type cachedTopic struct {
	leaders fetcher.Leaders
	err     error // of the protocol
	at      time.Time
}

// lookup is one metadata request that several callers share.
type lookup struct {
	topics map[string]bool
	done   chan struct{}
	found  map[string]cachedTopic
	err    error
}

// Leaders says who leads the topic's partitions, from memory while that is younger than
// metadata.max.age.ms; refresh asks the source. Errors are kafka.Error where the source answered.
func (c *Cluster) Leaders(ctx context.Context, topic string, refresh bool) (fetcher.Leaders, error) {
	c.mu.Lock()
	if known, ok := c.topics[topic]; ok && !refresh && time.Since(known.at) < c.cfg.MetadataAge {
		c.mu.Unlock()
		return known.leaders, known.err
	}
	if c.closed {
		c.mu.Unlock()
		return fetcher.Leaders{}, errClosed
	}
	l := c.lookup
	if l == nil || len(l.topics) >= topicsAsked {
		l = &lookup{topics: make(map[string]bool), done: make(chan struct{})}
		c.lookup = l
		c.wg.Go(func() { c.resolve(l) })
	}
	l.topics[topic] = true
	c.mu.Unlock()
	select {
	case <-l.done:
	case <-ctx.Done():
		return fetcher.Leaders{}, ctx.Err()
	}
	if l.err != nil {
		return fetcher.Leaders{}, l.err
	}
	found := l.found[topic]
	return found.leaders, found.err
}

// resolve runs one shared lookup.
func (c *Cluster) resolve(l *lookup) {
	defer close(l.done)
	select {
	case <-time.After(gatherTime):
	case <-c.ctx.Done():
	}
	c.mu.Lock()
	if c.lookup == l {
		c.lookup = nil
	}
	names := slices.Sorted(maps.Keys(l.topics))
	c.mu.Unlock()

	answer, err := c.metadata(c.ctx, names)
	if err != nil {
		l.err = err
		return
	}
	l.found = make(map[string]cachedTopic, len(names))
	at := time.Now()
	for i := range answer.Topics {
		if topic := &answer.Topics[i]; topic.Topic != nil {
			l.found[*topic.Topic] = readLeaders(topic, at)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if _, ok := l.found[name]; !ok {
			l.found[name] = cachedTopic{err: kafka.UnknownTopicError(name), at: at}
		}
		if l.found[name].err == nil {
			c.topics[name] = l.found[name]
		} else {
			delete(c.topics, name)
		}
	}
}

func readLeaders(topic *kmsg.MetadataResponseTopic, at time.Time) cachedTopic {
	name := *topic.Topic
	known := cachedTopic{at: at}
	if known.err = answered(topic.ErrorCode, "topic '%s'", name); known.err != nil {
		return known
	}
	known.leaders.TopicID = kafka.TopicID(topic.TopicID)
	if len(topic.Partitions) > partitionsMax {
		known.err = kafka.Errorf(kafka.InvalidPartitions, "the source says topic '%s' has %d partitions", name, len(topic.Partitions))
		return known
	}
	known.leaders.List = make([]fetcher.Leader, len(topic.Partitions))
	for i := range known.leaders.List {
		known.leaders.List[i] = fetcher.Leader{Broker: -1, Epoch: kafka.NoEpoch}
	}
	for _, p := range topic.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(known.leaders.List) {
			known.err = kafka.Errorf(kafka.InvalidPartitions, "the source names partition %d of topic '%s', which has %d", p.Partition, name,
				len(topic.Partitions))
			return known
		}
		leader := fetcher.Leader{Broker: p.Leader, Epoch: kafka.LeaderEpoch(p.LeaderEpoch)}
		if p.ErrorCode == int16(kafka.LeaderNotAvailable) {
			leader.Broker = -1
		}
		known.leaders.List[p.Partition] = leader
	}
	return known
}
