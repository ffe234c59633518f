//go:build e2e

package e2e

import (
	"fmt"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dataTalk is what is asked of the records of one partition, and of one that has none: what producers hear of their sequences, times,
// epochs, ranges, sessions, and where the log starts.
func dataTalk(c *rawTalk) {
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "d", 2, 1
	create.Topics = []kmsg.CreateTopicsRequestTopic{topic}
	if _, err := c.send(create, 7); err != nil {
		c.t.Fatal(err)
	}
	id := c.idOf("d")
	c.untilProduced(recordsOf(c, id, 3, 10_000, nobodys))
	for _, v := range []int16{3, 5, 8, 13} {
		c.say("produce", recordsOf(c, id, 3, 10_000, nobodys), v)
	}
	c.say("produce later", recordsOf(c, id, 3, 50_000, nobodys), 9)
	c.say("produce earlier", recordsOf(c, id, 3, 20_000, nobodys), 9)
	sequencesTalk(c, id)
	for _, v := range []int16{1, 2, 4, 7, 8, 10} {
		timesTalk(c, v)
	}
	epochsTalk(c)
	for _, v := range []int16{4, 7, 9, 12, 15, 18} {
		rangesTalk(c, id, v)
	}
	for _, v := range []int16{0, 2} {
		for _, to := range []int64{-2, 1000, 4, 2} {
			c.say(fmt.Sprintf("delete to %d", to), trimOf(0, to), v)
		}
		c.say("delete on no partition", trimOf(9, 0), v)
		for _, at := range []int64{3, 4} {
			c.say(fmt.Sprintf("fetch at %d", at), readOf(id, at, nil), 12)
		}
	}
}

// nobodys says that a batch is of no idempotent producer.
var nobodys = batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1}

// recordsOf is a Produce request of n records, the first of a time and each a second later than the one before.
func recordsOf(c *rawTalk, id kafka.TopicID, n int, ms int64, spec batch.Spec) *kmsg.ProduceRequest {
	c.t.Helper()
	var records []batch.Record
	for i := range n {
		records = append(records, batch.Record{Offset: kafka.Offset(i), Timestamp: ms + int64(i)*1000, Key: []byte("k"), Value: []byte("v")})
	}
	b, err := batch.Build(spec, records)
	if err != nil {
		c.t.Fatal(err)
	}
	rq := kmsg.NewPtrProduceRequest()
	rq.Acks, rq.TimeoutMillis = -1, 10_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = b
	rq.Topics = []kmsg.ProduceRequestTopic{{Topic: "d", TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
	return rq
}

// untilProduced sends a request until the new topic's leader takes it.
func (c *rawTalk) untilProduced(rq *kmsg.ProduceRequest) {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); pause(testContext(c.t), 50*time.Millisecond) {
		resp, err := c.send(rq, 9)
		if err == nil && resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode == 0 {
			return
		}
	}
	c.t.Fatal("nobody leads the new topic")
}

func (c *rawTalk) idOf(name string) kafka.TopicID {
	c.t.Helper()
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	resp, err := c.send(metadata, 12)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.(*kmsg.MetadataResponse).Topics[0].TopicID
}

func sequencesTalk(c *rawTalk, id kafka.TopicID) {
	for _, one := range []struct {
		sequence int32
		epoch    int16
		n        int
	}{{5, 0, 2}, {7, 0, 1}, {9, 0, 1}, {5, 0, 1}, {8, 0, 1}, {3, 1, 1}, {0, 1, 1}, {9, 0, 1}, {1, 1, 1}, {0, 1, 2}, {1<<31 - 1, 1, 1}} {
		spec := batch.Spec{ProducerID: 4242, ProducerEpoch: one.epoch, BaseSequence: one.sequence}
		c.say(fmt.Sprintf("sequence %+v", one), recordsOf(c, id, one.n, 60_000, spec), 9)
	}
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "d", Partitions: []int32{0, 1, 7}}, {Topic: "nope", Partitions: []int32{0}}}
	c.say("producers", producers, 0)
}

func timesTalk(c *rawTalk, version int16) {
	for _, isolation := range []int8{0, 1} {
		for _, ms := range []int64{-1, -2, -3, -4, -5, -7, 0, 10_000, 10_001, 12_000, 12_001, 45_000, 52_001, 61_000, 70_000} {
			c.say(fmt.Sprintf("offset of time %d, isolation %d", ms, isolation), timeOf(0, ms, isolation, -1), version)
		}
	}
	for _, ms := range []int64{-1, -3, -7, 0} {
		c.say(fmt.Sprintf("offset of time %d without records", ms), timeOf(1, ms, 0, -1), version)
		c.say(fmt.Sprintf("offset of time %d on no partition", ms), timeOf(9, ms, 0, -1), version)
	}
}

func timeOf(partition int32, ms int64, isolation int8, epoch int32) *kmsg.ListOffsetsRequest {
	rq := kmsg.NewPtrListOffsetsRequest()
	rq.ReplicaID, rq.IsolationLevel = -1, isolation
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, ms, epoch
	rq.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "d", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return rq
}

func epochsTalk(c *rawTalk) {
	for _, current := range []int32{-1, 0, 1, 5} {
		c.say(fmt.Sprintf("end in epoch %d", current), timeOf(0, -1, 0, current), 7)
		for _, wanted := range []int32{-1, 0, 1, 5} {
			for _, partition := range []int32{0, 9} {
				rq := kmsg.NewPtrOffsetForLeaderEpochRequest()
				p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
				p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = partition, current, wanted
				rq.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "d", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
				c.say(fmt.Sprintf("end of epoch %d of %d in epoch %d", wanted, partition, current), rq, 4)
			}
		}
	}
}

// rangesTalk asks for ranges, epochs and sessions. Records that are cut short, and which list an answer without records has, are
// told differently on purpose.
func rangesTalk(c *rawTalk, id kafka.TopicID, version int16) {
	for _, at := range []int64{-1, 0, 1, 20, 32, 33, 34, 100} {
		c.say(fmt.Sprintf("fetch at %d", at), readOf(id, at, nil), version)
		committed := readOf(id, at, nil)
		committed.IsolationLevel = 1
		c.say(fmt.Sprintf("fetch what is committed at %d", at), committed, version)
	}
	type part = *kmsg.FetchRequestTopicPartition
	for _, epoch := range []int32{0, 1, 5} {
		c.say(fmt.Sprintf("fetch in epoch %d", epoch), readOf(id, 5, func(p part) { p.CurrentLeaderEpoch = epoch }), version)
		c.say(fmt.Sprintf("fetch after epoch %d", epoch), readOf(id, 5, func(p part) { p.LastFetchedEpoch = epoch }), version)
		c.say(fmt.Sprintf("fetch at the wrong place after epoch %d", epoch), readOf(id, 500, func(p part) { p.LastFetchedEpoch = epoch }), version)
	}
	for _, epoch := range []int32{-1, 3} {
		rq := readOf(id, 0, nil)
		rq.SessionID, rq.SessionEpoch = 77, epoch
		c.say(fmt.Sprintf("fetch in a session of nobody's, epoch %d", epoch), rq, version)
	}
	nothing := readOf(id, 0, nil)
	nothing.Topics = nil
	c.say("fetch nothing", nothing, version)
}

func readOf(id kafka.TopicID, at int64, change func(*kmsg.FetchRequestTopicPartition)) *kmsg.FetchRequest {
	rq := kmsg.NewPtrFetchRequest()
	rq.ReplicaID, rq.MinBytes, rq.MaxBytes, rq.SessionEpoch = -1, 1, 1<<20, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = at, 1<<20
	if change != nil {
		change(&p)
	}
	rq.Topics = []kmsg.FetchRequestTopic{{Topic: "d", TopicID: id, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return rq
}

func trimOf(partition int32, to int64) *kmsg.DeleteRecordsRequest {
	rq := kmsg.NewPtrDeleteRecordsRequest()
	rq.TimeoutMillis = 5000
	p := []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: to}}
	rq.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "d", Partitions: p}}
	return rq
}
