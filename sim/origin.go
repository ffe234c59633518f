package sim

import (
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/partition"
)

// ask is a fetch as it goes to the source.
type ask struct {
	serial       int
	partition    int32
	id           kafka.TopicID // of the source topic; zero asks by name
	generation   int64         // of the mirror
	offset       kafka.Offset
	lastEpoch    kafka.LeaderEpoch
	currentEpoch kafka.LeaderEpoch
	maxBytes     int
	splice       bool
	at           time.Time
	root         kafka.TopicID // of the history that is there; no protocol says that
}

// fetched is the source's answer.
type fetched struct {
	err       error
	batches   batch.Batches
	high      kafka.Offset
	start     kafka.Offset
	stable    kafka.Offset
	diverging bool
}

// ends is what a source partition says of itself.
type ends struct {
	start, end, stable kafka.Offset
	epoch              kafka.LeaderEpoch
}

// upstream is the cluster's topic as a link sees it. Errors are kafka.Error.
func (c *cluster) describe() (id kafka.TopicID, partitions int32, err error) {
	switch {
	case c.plain != nil:
		return c.plain.describe()
	case c.topic == nil:
		return id, 0, kafka.UnknownTopicError(topicName)
	}
	return c.topic.ID, c.topic.Partitions, nil
}

func (c *cluster) ends(p int32) (ends, error) {
	if c.plain != nil {
		return c.plain.ends(p)
	}
	part := c.part(p)
	if part == nil {
		return ends{}, kafka.UnknownTopicError(topicName)
	}
	o := part.Offsets()
	return ends{o.LogStart, o.HighWatermark, o.LastStable, o.Epoch}, part.Err()
}

func (c *cluster) epochEnd(p int32, current, wanted kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error) {
	if c.plain != nil {
		return c.plain.epochEnd(p, current, wanted)
	}
	part := c.part(p)
	if part == nil {
		return kafka.NoEpoch, kafka.NoOffset, kafka.UnknownTopicError(topicName)
	}
	return part.OffsetForLeaderEpoch(current, wanted)
}

// serve answers a fetch.
func (c *cluster) serve(a ask) fetched {
	if c.denies {
		return fetched{err: kafka.TopicAuthorizationFailed}
	}
	if c.plain != nil {
		return c.plain.serve(a)
	}
	part := c.part(a.partition)
	switch {
	case part == nil:
		return fetched{err: kafka.UnknownTopicError(topicName)}
	case !a.id.IsZero() && a.id != c.topic.ID:
		return fetched{err: kafka.UnknownTopicID}
	}
	answer, err := part.Read(partition.Read{From: a.offset, MaxBytes: a.maxBytes, AtLeastOne: true, CurrentEpoch: a.currentEpoch,
		LastEpoch: a.lastEpoch})
	if err != nil {
		return fetched{err: err}
	}
	defer answer.Slice.Close()
	f := fetched{high: answer.Offsets.HighWatermark, start: answer.Offsets.LogStart, stable: answer.Offsets.LastStable,
		diverging: answer.Diverging}
	if answer.Slice.Length > 0 {
		f.batches, f.err = answer.Slice.Bytes()
	}
	return f
}
