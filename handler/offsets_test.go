package handler

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func commit(c *client, topic string, partition int32, offset int64, metadata *string) kafka.ErrorCode {
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Group, rq.Generation = "g", -1
	in := kmsg.NewOffsetCommitRequestTopic()
	in.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = partition, offset, metadata
	in.Partitions = append(in.Partitions, p)
	rq.Topics = append(rq.Topics, in)
	return kafka.ErrorCode(ask[*kmsg.OffsetCommitResponse](c, 9, rq).Topics[0].Partitions[0].ErrorCode)
}

func TestC85_OffsetCommitRules(t *testing.T) {
	w := newFullWorld(t).serve()
	made := w.make("t", 2, nil)
	c := w.dial()
	for _, tc := range []struct {
		name      string
		topic     string
		partition int32
		metadata  *string
		want      kafka.ErrorCode
	}{
		{"good", "t", 0, text("m"), 0},
		{"unknown topic", "nope", 0, nil, kafka.UnknownTopicOrPartition},
		{"unknown partition", "t", 9, nil, kafka.UnknownTopicOrPartition},
		{"negative partition", "t", -1, nil, kafka.UnknownTopicOrPartition},
		{"metadata too long", "t", 1, text(strings.Repeat("x", 4097)), kafka.OffsetMetadataTooLarge},
		{"metadata just fits", "t", 1, text(strings.Repeat("x", 4096)), 0},
	} {
		if got := commit(c, tc.topic, tc.partition, 0, tc.metadata); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	// Version 10 names topics by id; one that is unknown is answered for itself, in its place.
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Group, rq.Generation = "g", -1
	for _, id := range []kafka.TopicID{kafka.NewTopicID(), made.ID} {
		in := kmsg.NewOffsetCommitRequestTopic()
		in.TopicID = id
		in.Partitions = append(in.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
		rq.Topics = append(rq.Topics, in)
	}
	topics := ask[*kmsg.OffsetCommitResponse](c, 10, rq).Topics
	if topics[0].TopicID != rq.Topics[0].TopicID || topics[0].Partitions[0].ErrorCode != int16(kafka.UnknownTopicID) ||
		topics[1].TopicID != rq.Topics[1].TopicID || topics[1].Partitions[0].ErrorCode != 0 {
		t.Errorf("by id: %+v", topics)
	}
	read := kmsg.NewPtrOffsetFetchRequest()
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = "g"
	for _, id := range []kafka.TopicID{kafka.NewTopicID(), made.ID} {
		in := kmsg.NewOffsetFetchRequestGroupTopic()
		in.TopicID, in.Partitions = id, []int32{1}
		group.Topics = append(group.Topics, in)
	}
	read.Groups = append(read.Groups, group)
	found := map[kafka.TopicID]kmsg.OffsetFetchResponseGroupTopicPartition{}
	for _, topic := range ask[*kmsg.OffsetFetchResponse](c, 10, read).Groups[0].Topics {
		found[topic.TopicID] = topic.Partitions[0]
	}
	if p := found[made.ID]; p.ErrorCode != 0 || p.Offset != 0 || p.Metadata == nil || len(*p.Metadata) != 4096 {
		t.Errorf("fetched by id: %+v", p)
	}
	if p := found[group.Topics[0].TopicID]; p.ErrorCode != int16(kafka.UnknownTopicID) || p.Offset != -1 {
		t.Errorf("an unknown id: %+v", p)
	}
}

func listOffset(c *client, version int16, ms int64, isolation int8) kmsg.ListOffsetsResponseTopicPartition {
	rq := kmsg.NewPtrListOffsetsRequest()
	rq.IsolationLevel = isolation
	in := kmsg.NewListOffsetsRequestTopic()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = ms
	in.Topic, in.Partitions = "t", append(in.Partitions, p)
	rq.Topics = append(rq.Topics, in)
	return ask[*kmsg.ListOffsetsResponse](c, version, rq).Topics[0].Partitions[0]
}

func TestC80_ListOffsetsAnswers(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	for range 3 { // offsets 0-2, 3-5, 6-8, each batch with the times 1000, 1001, 1002
		produced(t, c, 9, produceRequest(t, "t", -1, rawBatch(t, 3, noProducer())))
	}
	for version := int16(1); version <= 10; version++ {
		listOffsetsIn(t, c, version)
	}
	for ms, first := range firstVersion {
		if got := listOffset(c, first-1, ms, 0); got.ErrorCode != int16(kafka.UnsupportedVersion) {
			t.Errorf("time %d in version %d: error %d", ms, first-1, got.ErrorCode)
		}
	}
}

// listOffsetsIn asks a version for all that it knows, in both isolations if it knows them.
func listOffsetsIn(t *testing.T, c *client, version int16) {
	t.Helper()
	for _, isolation := range []int8{0, 1} {
		for _, tc := range []struct {
			ms                int64
			offset, timestamp int64
		}{
			{0, 0, 1000}, {1000, 0, 1000}, {1001, 1, 1001}, {1002, 2, 1002}, {1003, -1, -1},
			{timeLatest, 9, -1}, {timeEarliest, 0, -1}, {timeMaxTimestamp, 2, 1002}, {timeEarliestLocal, 0, -1}, {timeLatestTiered, -1, -1},
		} {
			if tc.ms < 0 && version < firstVersion[tc.ms] || isolation == 1 && version < 2 {
				continue
			}
			got := listOffset(c, version, tc.ms, isolation)
			if got.ErrorCode != 0 || got.Offset != tc.offset || got.Timestamp != tc.timestamp {
				t.Errorf("version %d, time %d, isolation %d: offset %d, time %d, error %d; want %d, %d", version, tc.ms, isolation, got.Offset, got.Timestamp, got.ErrorCode, tc.offset, tc.timestamp)
			}
			if wantEpoch := tc.offset >= 0 && version >= 4; wantEpoch != (got.LeaderEpoch >= 0) {
				t.Errorf("version %d, time %d: epoch %d", version, tc.ms, got.LeaderEpoch)
			}
		}
	}
}

func TestC81_OffsetForLeaderEpoch(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	produced(t, c, 9, produceRequest(t, "t", -1, rawBatch(t, 3, noProducer())))
	now := int32(w.partition("t", 0).Offsets().Epoch)
	for _, tc := range []struct {
		name            string
		current, wanted int32
		code            kafka.ErrorCode
		epoch           int32
		end             int64
	}{
		{"current", -1, now, 0, now, 3},
		{"believed current", now, now, 0, now, 3},
		{"fenced", now - 1, now, kafka.FencedLeaderEpoch, -1, -1},
		{"unknown", now + 1, now, kafka.UnknownLeaderEpoch, -1, -1},
		{"below the first", -1, now - 1, 0, now - 1, 0},
		{"none", -1, -1, 0, -1, -1},
		{"from the future", -1, now + 5, 0, -1, -1},
	} {
		rq := kmsg.NewPtrOffsetForLeaderEpochRequest()
		in := kmsg.NewOffsetForLeaderEpochRequestTopic()
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.CurrentLeaderEpoch, p.LeaderEpoch = tc.current, tc.wanted
		in.Topic, in.Partitions = "t", append(in.Partitions, p)
		rq.Topics = append(rq.Topics, in)
		got := ask[*kmsg.OffsetForLeaderEpochResponse](c, 4, rq).Topics[0].Partitions[0]
		if got.ErrorCode != int16(tc.code) || got.LeaderEpoch != tc.epoch || got.EndOffset != tc.end {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}

func TestDescribeTopicPartitionsByPages(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("a", 3, nil)
	w.make("b", 2, nil)
	c := w.dial()
	rq := kmsg.NewPtrDescribeTopicPartitionsRequest()
	rq.ResponsePartitionLimit = 2
	var pages []string
	for range 10 {
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](c, 0, rq)
		var page []string
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				page = append(page, kafka.TopicPartition{Topic: *topic.Topic, Partition: p.Partition}.String())
			}
		}
		pages = append(pages, strings.Join(page, " "))
		if resp.NextCursor == nil {
			break
		}
		next := kmsg.NewDescribeTopicPartitionsRequestCursor()
		next.Topic, next.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		rq.Cursor = &next
	}
	if got := strings.Join(pages, " | "); got != "a-0 a-1 | a-2 b-0 | b-1" {
		t.Fatalf("pages %s", got)
	}
	rq.Cursor, rq.ResponsePartitionLimit = nil, 0
	if resp := ask[*kmsg.DescribeTopicPartitionsResponse](c, 0, rq); len(resp.Topics) != 1 || resp.NextCursor == nil || resp.NextCursor.Partition != 1 {
		t.Errorf("a page of none at all: %+v", resp)
	}
	rq.Cursor, rq.ResponsePartitionLimit = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "a", Partition: math.MaxInt32}, 2
	if resp := ask[*kmsg.DescribeTopicPartitionsResponse](c, 0, rq); resp.NextCursor != nil || len(resp.Topics) != 2 || len(resp.Topics[1].Partitions) != 2 {
		t.Errorf("behind the last partition of a topic: %+v", resp)
	}
}

// outsideTxn says of every partition that it is not part of the transaction.
type outsideTxn struct{ Transactions }

func (outsideTxn) Confirm(context.Context, string, kafka.TopicPartition, kafka.ProducerID, int16, Enlist) error {
	return kafka.Errorf(kafka.InvalidTxnState, "It is not part of it.")
}

func (outsideTxn) TxnOffsetCommit(_ context.Context, _ group.Client, rq *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse {
	resp := rq.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	refused := []kmsg.TxnOffsetCommitResponseTopicPartition{{ErrorCode: int16(kafka.InvalidTxnState)}}
	resp.Topics = []kmsg.TxnOffsetCommitResponseTopic{{Topic: rq.Topics[0].Topic, Partitions: refused}}
	return resp
}

// Clients that know TRANSACTION_ABORTABLE begin another transaction on it; to INVALID_TXN_STATE, in a commit of offsets, they give up.
func TestKIP890_WhatIsNotInATransactionAbortsIt(t *testing.T) {
	w := newFullWorld(t, func(_ *world, d *Deps) { d.Transactions = outsideTxn{} }).serve()
	w.make("t", 1, nil)
	c := w.dial()
	records := rawBatch(t, 1, batch.Spec{ProducerID: 9, Transactional: true})
	for version, want := range map[int16]kafka.ErrorCode{10: kafka.InvalidTxnState, 11: kafka.TransactionAbortable} {
		rq := produceRequest(t, "t", -1, slices.Clone(records))
		rq.TransactionID = kmsg.StringPtr("x")
		if got := kafka.ErrorCode(produced(t, c, version, rq).ErrorCode); got != want {
			t.Errorf("Produce version %d: %v, want %v", version, got, want)
		}
	}
	for version, want := range map[int16]kafka.ErrorCode{3: kafka.InvalidTxnState, 4: kafka.TransactionAbortable} {
		rq := kmsg.NewPtrTxnOffsetCommitRequest()
		rq.TransactionalID, rq.Group = "x", "g"
		rq.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{}}}}
		resp := ask[*kmsg.TxnOffsetCommitResponse](c, version, rq)
		if got := kafka.ErrorCode(resp.Topics[0].Partitions[0].ErrorCode); got != want {
			t.Errorf("TxnOffsetCommit version %d: %v, want %v", version, got, want)
		}
	}
}

// acks=1 is answered before the sync; whoever asks next must not be told less than it knows.
func TestEndsHoldWhatWasAcknowledged(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	b := rawBatch(t, 3, noProducer())
	for i := range 20 {
		if got := produced(t, c, 9, produceRequest(t, "t", 1, append([]byte{}, b...))); got.ErrorCode != 0 {
			t.Fatal(kafka.ErrorCode(got.ErrorCode))
		}
		want := int64(3 * (i + 1))
		if i%2 == 0 {
			if got := listOffset(c, 6, timeLatest, 0); got.Offset != want {
				t.Fatalf("the end is %d, want %d", got.Offset, want)
			}
			continue
		}
		rq := kmsg.NewPtrDeleteRecordsRequest()
		rq.TimeoutMillis = 5000
		rq.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: want}}}}
		if got := ask[*kmsg.DeleteRecordsResponse](c, 2, rq).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.LowWatermark != want {
			t.Fatalf("delete up to %d: %v, %d", want, kafka.ErrorCode(got.ErrorCode), got.LowWatermark)
		}
	}
}
