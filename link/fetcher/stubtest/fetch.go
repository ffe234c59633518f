package stubtest

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
)

// sessionPart is a partition in a fetch session, with what was last said about it.
type sessionPart struct {
	topic string
	id    kafka.TopicID
	want  kmsg.FetchRequestTopicPartition
	said  bool
	high  kafka.Offset
	start kafka.Offset
}

// fetch answers as Kafka does: of a session only partitions with something to say, and at once if there is
// data, an error or a change of marks; else it waits.
func (c *connection) fetch(req *kmsg.FetchRequest) kmsg.Response {
	b := c.broker
	b.mu.Lock()
	noSessions, throttle := b.noSessions, b.throttle
	if c.since != b.forgotten {
		c.since, c.id = b.forgotten, 0
	}
	b.mu.Unlock()
	resp := kmsg.NewPtrFetchResponse()
	resp.ThrottleMillis = int32(throttle.Milliseconds())
	if !c.open(req, noSessions) {
		resp.ErrorCode = int16(kafka.InvalidFetchSessionEpoch)
		if req.SessionID != c.id {
			resp.ErrorCode = int16(kafka.FetchSessionIDNotFound)
		}
		return resp
	}
	resp.SessionID = c.id
	deadline := time.NewTimer(time.Duration(req.MaxWaitMillis) * time.Millisecond)
	defer deadline.Stop()
	for expired := false; ; {
		b.cluster.mu.Lock()
		changed, closed := b.cluster.changed, b.cluster.closed
		answered := c.collect(req, resp, expired)
		b.cluster.mu.Unlock()
		if answered || expired || closed {
			return resp
		}
		select {
		case <-changed:
		case <-deadline.C:
			expired = true
		}
	}
}

// open brings the session up to date with the request.
func (c *connection) open(req *kmsg.FetchRequest, noSessions bool) bool {
	switch {
	case req.SessionEpoch <= 0:
		c.parts, c.id, c.epoch = nil, 0, 0
		if req.SessionEpoch == 0 && !noSessions {
			c.id, c.epoch = 1+int32(time.Now().UnixNano()&0xffffff), 1
		}
	case c.id == 0 || req.SessionID != c.id || req.SessionEpoch != c.epoch:
		return false
	default:
		c.epoch++
	}
	cluster := c.broker.cluster
	cluster.mu.Lock()
	defer cluster.mu.Unlock()
	for _, t := range req.ForgottenTopics {
		for _, p := range t.Partitions {
			c.forget(cluster.nameOf(t.Topic, t.TopicID), p)
		}
	}
	for _, t := range req.Topics {
		name := cluster.nameOf(t.Topic, t.TopicID)
		for _, p := range t.Partitions {
			if req.SessionEpoch > 0 {
				if old := c.find(name, t.TopicID, p.Partition); old != nil {
					old.want = p
					continue
				}
			}
			c.parts = append(c.parts, sessionPart{topic: name, id: t.TopicID, want: p})
		}
	}
	for _, p := range c.parts {
		tp := kafka.TopicPartition{Topic: p.topic, Partition: p.want.Partition}
		cluster.fetches[tp] = append(cluster.fetches[tp], time.Now())
	}
	return true
}

// nameOf is a topic's name by its id, or as it is where the request knows no ids.
func (c *Cluster) nameOf(name string, id kafka.TopicID) string {
	for known, t := range c.topics {
		if name == "" && !id.IsZero() && t.id == id {
			return known
		}
	}
	return name
}

func (c *connection) find(topic string, id kafka.TopicID, partition int32) *sessionPart {
	for i := range c.parts {
		if p := &c.parts[i]; p.topic == topic && p.id == id && p.want.Partition == partition {
			return p
		}
	}
	return nil
}

func (c *connection) forget(topic string, partition int32) {
	for i := range c.parts {
		if c.parts[i].topic == topic && c.parts[i].want.Partition == partition {
			c.parts = append(c.parts[:i], c.parts[i+1:]...)
			return
		}
	}
}

// collect fills an answer; it reports whether there is something in it that need not wait. The cluster's lock is held.
func (c *connection) collect(req *kmsg.FetchRequest, resp *kmsg.FetchResponse, final bool) bool {
	resp.Topics = resp.Topics[:0]
	left, urgent := int(req.MaxBytes), false
	var moved, kept []sessionPart
	for _, p := range c.parts {
		out := c.read(req, &p, left, left == int(req.MaxBytes))
		urgent = urgent || len(out.RecordBatches) > 0 || out.ErrorCode != 0 || out.DivergingEpoch.EndOffset >= 0
		left -= len(out.RecordBatches)
		high, start := kafka.Offset(out.HighWatermark), kafka.Offset(out.LogStartOffset)
		news := len(out.RecordBatches) > 0 || out.ErrorCode != 0 || out.DivergingEpoch.EndOffset >= 0 || !p.said || p.high != high ||
			p.start != start
		if news || c.id == 0 {
			t := kmsg.NewFetchResponseTopic()
			t.Topic, t.TopicID = p.topic, p.id
			t.Partitions = append(t.Partitions, out)
			resp.Topics = append(resp.Topics, t)
		}
		if p.said && news {
			urgent = true // Kafka would wait for bytes; a stub that answers at once makes tests quick
		}
		if news { // of the copy: it counts only once the answer is sent
			p.said, p.high, p.start = true, high, start
		}
		if len(out.RecordBatches) > 0 {
			moved = append(moved, p)
		} else {
			kept = append(kept, p)
		}
	}
	if !urgent && !final {
		return false
	}
	c.parts = append(kept, moved...) // partitions with data go to the end, so that each has its turn
	return true
}

// read is one partition's part of an answer. first may exceed the bounds by a batch.
func (c *connection) read(req *kmsg.FetchRequest, p *sessionPart, left int, first bool) kmsg.FetchResponseTopicPartition {
	out := kmsg.NewFetchResponseTopicPartition()
	out.Partition, out.HighWatermark, out.LogStartOffset, out.LastStableOffset = p.want.Partition, -1, -1, -1
	cluster, tp := c.broker.cluster, kafka.TopicPartition{Topic: p.topic, Partition: p.want.Partition}
	q, code := c.broker.find(p.topic, p.want.Partition, p.want.CurrentLeaderEpoch)
	if t := cluster.topics[p.topic]; req.Version >= 13 && (t == nil || t.id != p.id) {
		code = kafka.UnknownTopicID
	}
	if code != kafka.None {
		out.ErrorCode = int16(code)
		return out
	}
	from := kafka.Offset(p.want.FetchOffset)
	if last := kafka.LeaderEpoch(p.want.LastFetchedEpoch); req.Version >= 12 && last >= 0 {
		epoch, end := q.epochEnd(last)
		if end < 0 {
			out.ErrorCode = int16(kafka.OffsetOutOfRange)
			return out
		}
		if epoch < last || end < from {
			out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = int32(epoch), int64(end)
			out.HighWatermark, out.LogStartOffset = int64(q.highWatermark()), int64(q.start)
			return out
		}
	}
	if from < q.start || from > q.end() {
		out.ErrorCode = int16(kafka.OffsetOutOfRange)
		return out
	}
	out.HighWatermark, out.LogStartOffset, out.LastStableOffset = int64(q.highWatermark()), int64(q.start), int64(q.lastStable())
	limit := min(int(p.want.PartitionMaxBytes), left)
	c.broker.mu.Lock()
	hard := c.broker.hardLimits
	c.broker.mu.Unlock()
	data := q.read(from, limit, first || hard)
	if hard {
		data = data[:min(len(data), limit)]
	}
	if cluster.mangle != nil {
		data = cluster.mangle(tp, from, data)
	}
	out.RecordBatches = data
	return out
}

// read copies sets from the one that holds from up to the high watermark. The last may be cut short, as Kafka's
// are; a first one that does not fit is left out, or is whole with first.
func (q *part) read(from kafka.Offset, limit int, first bool) []byte {
	var data []byte
	for _, set := range q.batches {
		if nextOf(set) <= from {
			continue
		}
		if nextOf(set) > q.highWatermark() {
			break
		}
		switch {
		case len(data) == 0 && len(set) > limit && !first:
			return nil
		case len(data) > 0 && len(data)+len(set) > limit:
			return append(data, set[:max(0, limit-len(data))]...)
		}
		data = append(data, set...)
	}
	return data
}
