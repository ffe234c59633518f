package handler

import (
	"context"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Times with a meaning of their own.
const (
	timeLatest        = -1
	timeEarliest      = -2
	timeMaxTimestamp  = -3 // v7, KIP-734
	timeEarliestLocal = -4 // v8, KIP-405: the log is all local
	timeLatestTiered  = -5 // v9, KIP-1005: nothing is tiered
	timeEarliestPend  = -6 // v11: the first that waits to be tiered: none does
)

// ListOffsets, key 2, versions 1-11. Finds offsets by time.
//
//	-1 is the end (the last stable offset for read_committed), with all that was acknowledged before; -2 the start, -3 the
//	record with the largest timestamp. A time that nothing is at or after: -1/-1, no error.
//	The epoch in the answer is that of the record found, not the leader's.
//	v2 isolation level. v4 leader epochs. v6 flexible encoding. v7 -3. v8 -4. v9 -5. v10 a time-out, not needed here.
func listOffsets(ctx context.Context, c *call, rq *kmsg.ListOffsetsRequest) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, acknowledgedMax)
	defer cancel()
	resp := kmsg.NewPtrListOffsetsResponse()
	seen := map[kafka.TopicPartition]int{}
	for _, topic := range rq.Topics {
		for _, p := range topic.Partitions {
			seen[kafka.TopicPartition{Topic: topic.Topic, Partition: p.Partition}]++
		}
	}
	for i := range rq.Topics {
		in := &rq.Topics[i]
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = in.Topic
		t, err := c.readable(in.Topic, kmsg.ACLOperationDescribe)
		for j := range in.Partitions {
			p := &in.Partitions[j]
			again := seen[kafka.TopicPartition{Topic: in.Topic, Partition: p.Partition}] > 1
			out.Partitions = append(out.Partitions, c.listOffset(ctx, rq, t, p, err, again))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// acknowledgedMax bounds how long a request waits for a sync before it says what there is.
const acknowledgedMax = time.Second

// acknowledged waits until what was appended to an open partition by now is synced, and so shown. With acks=1 its producer
// has been answered already, and would be told of an end, or of a range, that is less than it knows. Where the sync fails
// or takes too long, what is shown counts.
func acknowledged(ctx context.Context, p *partition.Partition) {
	if o := p.Offsets(); o.Role == meta.RoleOpen && o.HighWatermark < o.LogEnd {
		_ = p.WaitSynced(ctx, o.LogEnd)
	}
}

// readable finds a topic by name if the caller may do op on it.
func (c *call) readable(name string, op kmsg.ACLOperation) (*meta.Topic, error) {
	if !c.topicAllowed(op, name) {
		return nil, topicDenied(name)
	}
	return c.topicOf(name, kafka.TopicID{}, byName)
}

func (c *call) listOffset(ctx context.Context, rq *kmsg.ListOffsetsRequest, t *meta.Topic, in *kmsg.ListOffsetsRequestTopicPartition,
	err error, again bool) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition = in.Partition
	var found commitlog.TimedOffset
	var p *partition.Partition
	switch {
	case err != nil:
	case again:
		err = kafka.Errorf(kafka.InvalidRequest, "Partition %d is asked for more than once.", in.Partition)
	case !c.knowsTime(in.Timestamp):
		err = kafka.Errorf(kafka.UnsupportedVersion, "ListOffsets version %d knows no time %d.", c.version, in.Timestamp)
	default:
		p, err = c.open(t, in.Partition)
	}
	if err == nil {
		err = checkEpoch(p, kafka.LeaderEpoch(in.CurrentLeaderEpoch))
	}
	if err == nil && in.Timestamp == timeLatest {
		acknowledged(ctx, p)
	}
	if err == nil {
		found, err = c.offsetAt(p, in.Timestamp, isolationOf(rq.IsolationLevel))
	}
	if found.Offset == kafka.NoOffset {
		found.Timestamp, found.Epoch = -1, kafka.NoEpoch
	}
	if err != nil {
		out.ErrorCode = code(err)
		return out
	}
	out.Offset, out.Timestamp, out.LeaderEpoch = int64(found.Offset), found.Timestamp, int32(found.Epoch)
	return out
}

// isolationOf reads a request's level; what is no level reads as the weaker one.
func isolationOf(level int8) kafka.Isolation {
	if kafka.Isolation(level) == kafka.ReadCommitted {
		return kafka.ReadCommitted
	}
	return kafka.ReadUncommitted
}

// checkEpoch compares what the client believes with what is (KIP-320); NoEpoch is no belief.
func checkEpoch(p *partition.Partition, current kafka.LeaderEpoch) error {
	published := p.Offsets().Epoch
	switch {
	case current == kafka.NoEpoch:
		return nil
	case current < published:
		return kafka.Errorf(kafka.FencedLeaderEpoch, "Leader epoch %d is older than the current one, %d.", current, published)
	case current > published:
		return kafka.Errorf(kafka.UnknownLeaderEpoch, "Leader epoch %d is newer than the current one, %d.", current, published)
	}
	return nil
}

// firstVersion is the first version that knows a special time.
var firstVersion = map[int64]int16{timeMaxTimestamp: 7, timeEarliestLocal: 8, timeLatestTiered: 9, timeEarliestPend: 11}

// knowsTime reports whether the request's version knows the time, where that has a meaning of its own.
func (c *call) knowsTime(ms int64) bool {
	return ms >= timeEarliestPend && c.version >= firstVersion[ms]
}

func (c *call) offsetAt(p *partition.Partition, ms int64, isolation kafka.Isolation) (commitlog.TimedOffset, error) {
	o := p.Offsets()
	switch ms {
	case timeLatest:
		end := o.HighWatermark
		if isolation == kafka.ReadCommitted {
			end = o.LastStable
		}
		// Kafka answers with the leader's epoch here: whoever starts at the end has read nothing older.
		return commitlog.TimedOffset{Offset: end, Timestamp: -1, Epoch: o.Epoch}, nil
	case timeEarliest, timeEarliestLocal:
		return commitlog.TimedOffset{Offset: o.LogStart, Timestamp: -1, Epoch: p.EpochAt(o.LogStart)}, nil
	case timeLatestTiered, timeEarliestPend:
		return commitlog.TimedOffset{Offset: kafka.NoOffset, Timestamp: -1, Epoch: kafka.NoEpoch}, nil
	case timeMaxTimestamp:
		return p.MaxTimestamp(isolation)
	}
	return p.OffsetForTime(ms, isolation)
}
