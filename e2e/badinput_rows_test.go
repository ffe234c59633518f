//go:build e2e

package e2e

import (
	"bytes"
	"compress/gzip"
	bits "encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// badRows is the table. client reads what the rows must name rightly to be wrong elsewhere.
func badRows(t *testing.T, client *kgo.Client) []bad {
	t.Helper()
	_, id, _, err := leader(testContext(t), client, "bad-input", 0)
	fatal(t, err)
	var all []bad
	for _, part := range [][]bad{badFrames(), badCuts(id), badBatches(t), badProduces(t), badFetches(id), badReads(), badGroups(), badMembers(), badTransactions(), badTopics(), badConfigs(), badAdmin(), badLogins()} {
		all = append(all, part...)
	}
	seen := map[string]bool{}
	for _, row := range all {
		if seen[row.name] {
			t.Errorf("two rows are called %s", row.name)
		}
		seen[row.name] = true
	}
	return all
}

// head is a request's header with the size that follows from rest.
func head(key, version int16, rest ...byte) []byte {
	b := []byte{0, 0, 0, 0}
	b = bits.BigEndian.AppendUint16(b, uint16(key))
	b = bits.BigEndian.AppendUint16(b, uint16(version))
	b = append(b, 0, 0, 0, 42, 0xff, 0xff)
	b = append(b, rest...)
	bits.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// at sets a request's version.
func at[Rq kmsg.Request](version int16, rq Rq, fill func(Rq)) kmsg.Request {
	rq.SetVersion(version)
	fill(rq)
	return rq
}

func ptr(s string) *string { return &s }

// badFrames are no requests at all.
func badFrames() []bad {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	rows := []bad{
		{name: "negative size", bytes: []byte{0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0}, words: "-1 bytes, less than a header"},
		{name: "size zero", bytes: []byte{0, 0, 0, 0, 0, 3, 0, 0}, words: "0 bytes, less than a header"},
		{name: "size below a header", bytes: []byte{0, 0, 0, 4, 0, 3, 0, 0}, words: "4 bytes, less than a header"},
		{name: "size of 2 GiB", bytes: []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 3}, words: "socket.request.max.bytes"},
		{name: "Produce of more than socket.request.max.bytes", bytes: []byte{0x06, 0x40, 0, 1, 0, 0, 0, 9}, words: "104857601 bytes"},
		{name: "17 MiB of Metadata", bytes: []byte{0x01, 0x10, 0, 0, 0, 3, 0, 9}, words: "17825792 bytes for API key 3"},
		{name: "half a frame", bytes: head(3, 1, 0, 0)[:14], words: "EOF"},
		{name: "size longer than what comes", bytes: append([]byte{0, 0, 1, 0}, head(3, 1)[4:]...), words: "unexpected EOF"},
		{name: "unknown key", bytes: head(999, 0), words: "API key 999 version 0 is not served"},
		{name: "negative key", bytes: head(-1, 0), words: "API key -1"},
		{name: "a controller's key", bytes: head(52, 0), words: "API key 52"},
		{name: "a broker's key", bytes: head(4, 0), words: "API key 4 "},
		{name: "negative version", bytes: head(3, -1), words: "version -1"},
		{name: "Fetch version 3, removed", bytes: head(1, 3), words: "API key 1 version 3"},
		{name: "Produce version 99", bytes: head(0, 99), words: "version 99"},
		{name: "Metadata version 99", bytes: head(3, 99), words: "version 99"},
		{name: "client id of length -2", bytes: append(head(3, 0)[:12], 0xff, 0xfe), words: "client id of -2 bytes"},
		{name: "client id longer than the frame", bytes: append(head(3, 0)[:12], 0x7f, 0xff), words: "client id of 32767 bytes"},
		{name: "an HTTP request", bytes: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), words: "request size is out of bounds"},
		{name: "a TLS hello", bytes: []byte{0x16, 3, 1, 0, 0xc0, 1, 0, 0, 0xbc, 3, 3}, words: "request size is out of bounds"},
		{name: "noise", bytes: bytes.Repeat([]byte{0xa5}, 64)},
		{name: "array of 2147483647", bytes: head(3, 1, 0x7f, 0xff, 0xff, 0xff)},
		{name: "string of 32767", bytes: head(3, 1, 0, 0, 0, 1, 0x7f, 0xff)},
		{name: "string of -2", bytes: head(3, 1, 0, 0, 0, 1, 0xff, 0xfe)},
		{name: "null string where none is allowed", bytes: head(3, 1, 0, 0, 0, 1, 0xff, 0xff)},
		{name: "compact array of 4294967294", bytes: head(3, 9, append([]byte{0}, huge...)...)},
		{name: "varint without an end", bytes: head(3, 9, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80)},
		{name: "compact string longer than the frame", bytes: head(3, 9, 0, 2, 0xff, 0x7f)},
		{name: "4294967295 tagged fields in the header", bytes: head(3, 9, huge...)},
		{name: "a tagged field longer than the frame", bytes: head(3, 9, 1, 0, 0xff, 0x7f)},
		{name: "tagged fields of the body cut short", bytes: head(3, 9, 0, 1, 0, 0, 0, 5)},
	}
	for i := range rows {
		rows[i].want = closed
		rows[i].bytes = sized(rows[i])
	}
	return rows
}

// sized puts the size right of those frames that were put together by hand.
func sized(row bad) []byte {
	if strings.HasPrefix(row.name, "client id") {
		bits.BigEndian.PutUint32(row.bytes, uint32(len(row.bytes)-4))
	}
	return row.bytes
}

// badCuts are good requests that miss their end.
func badCuts(id kafka.TopicID) []bad {
	whole := []kmsg.Request{
		at(11, kmsg.NewPtrProduceRequest(), func(rq *kmsg.ProduceRequest) {
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic, topic.Partitions = "bad-input", []kmsg.ProduceRequestTopicPartition{{Records: []byte("noise")}}
			rq.Topics = append(rq.Topics, topic)
		}),
		at(17, kmsg.NewPtrFetchRequest(), func(rq *kmsg.FetchRequest) {
			topic := kmsg.NewFetchRequestTopic()
			topic.TopicID, topic.Partitions = id, []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}
			rq.Topics = append(rq.Topics, topic)
		}),
		at(8, kmsg.NewPtrListOffsetsRequest(), func(rq *kmsg.ListOffsetsRequest) {
			rq.Topics = append(rq.Topics, kmsg.ListOffsetsRequestTopic{Topic: "bad-input"})
		}),
		at(12, kmsg.NewPtrMetadataRequest(), func(rq *kmsg.MetadataRequest) {
			rq.Topics = append(rq.Topics, kmsg.MetadataRequestTopic{Topic: ptr("bad-input")})
		}),
		at(9, kmsg.NewPtrOffsetCommitRequest(), func(rq *kmsg.OffsetCommitRequest) { rq.Group = "bad-cut" }),
		at(9, kmsg.NewPtrOffsetFetchRequest(), func(rq *kmsg.OffsetFetchRequest) {
			rq.Groups = append(rq.Groups, kmsg.OffsetFetchRequestGroup{Group: "bad-cut"})
		}),
		at(4, kmsg.NewPtrFindCoordinatorRequest(), func(rq *kmsg.FindCoordinatorRequest) { rq.CoordinatorKeys = []string{"bad-cut"} }),
		at(9, kmsg.NewPtrJoinGroupRequest(), func(rq *kmsg.JoinGroupRequest) { rq.Group = "bad-cut" }),
		at(5, kmsg.NewPtrSyncGroupRequest(), func(rq *kmsg.SyncGroupRequest) { rq.Group = "bad-cut" }),
		at(4, kmsg.NewPtrHeartbeatRequest(), func(rq *kmsg.HeartbeatRequest) { rq.Group = "bad-cut" }),
		at(5, kmsg.NewPtrLeaveGroupRequest(), func(rq *kmsg.LeaveGroupRequest) { rq.Group = "bad-cut" }),
		at(7, kmsg.NewPtrCreateTopicsRequest(), func(rq *kmsg.CreateTopicsRequest) {
			rq.Topics = append(rq.Topics, newTopic("bad-cut", 1))
		}),
		at(6, kmsg.NewPtrDeleteTopicsRequest(), func(rq *kmsg.DeleteTopicsRequest) {
			rq.Topics = append(rq.Topics, kmsg.DeleteTopicsRequestTopic{Topic: ptr("bad-input")})
		}),
		at(4, kmsg.NewPtrInitProducerIDRequest(), func(rq *kmsg.InitProducerIDRequest) { rq.TransactionalID = ptr("bad-cut") }),
		at(3, kmsg.NewPtrEndTxnRequest(), func(rq *kmsg.EndTxnRequest) { rq.TransactionalID = "bad-cut" }),
		at(3, kmsg.NewPtrAddOffsetsToTxnRequest(), func(rq *kmsg.AddOffsetsToTxnRequest) { rq.TransactionalID = "bad-cut" }),
		at(3, kmsg.NewPtrTxnOffsetCommitRequest(), func(rq *kmsg.TxnOffsetCommitRequest) { rq.TransactionalID = "bad-cut" }),
		at(4, kmsg.NewPtrDescribeConfigsRequest(), func(rq *kmsg.DescribeConfigsRequest) {
			rq.Resources = append(rq.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "bad-input"})
		}),
		at(1, kmsg.NewPtrIncrementalAlterConfigsRequest(), func(rq *kmsg.IncrementalAlterConfigsRequest) {
			rq.Resources = append(rq.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "bad-input"})
		}),
		at(3, kmsg.NewPtrCreatePartitionsRequest(), func(rq *kmsg.CreatePartitionsRequest) {
			rq.Topics = append(rq.Topics, kmsg.CreatePartitionsRequestTopic{Topic: "bad-input", Count: 9})
		}),
		at(2, kmsg.NewPtrDeleteRecordsRequest(), func(rq *kmsg.DeleteRecordsRequest) {
			rq.Topics = append(rq.Topics, kmsg.DeleteRecordsRequestTopic{Topic: "bad-input"})
		}),
		at(1, kmsg.NewPtrAlterClientQuotasRequest(), func(rq *kmsg.AlterClientQuotasRequest) {}),
		at(0, kmsg.NewPtrAlterUserSCRAMCredentialsRequest(), func(rq *kmsg.AlterUserSCRAMCredentialsRequest) {}),
		at(1, kmsg.NewPtrConsumerGroupHeartbeatRequest(), func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.Group = "bad-cut" }),
	}
	var rows []bad
	for _, rq := range whole {
		cut := request(rq)
		cut = cut[:len(cut)-1]
		bits.BigEndian.PutUint32(cut, uint32(len(cut)-4))
		rows = append(rows, bad{name: kmsg.NameForKey(rq.Key()) + " without its last byte", bytes: cut, want: closed})
	}
	return rows
}

// badBatches are records that cannot be stored.
func badBatches(t *testing.T) []bad {
	plain := batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1}
	now := time.Now().UnixMilli()
	build := func(change func(*batch.Spec, *batch.Record)) batch.Batch {
		spec, record := plain, batch.Record{Timestamp: now, Key: []byte("k"), Value: []byte("v")}
		if change != nil {
			change(&spec, &record)
		}
		b, err := batch.Build(spec, []batch.Record{record})
		fatal(t, err)
		return b
	}
	good := build(nil)
	spoil := func(fix bool, change func(b []byte) []byte) []byte {
		b := change(bytes.Clone(good))
		if fix {
			batch.Batch(b).SetCRC()
		}
		return b
	}
	set := func(at int, values ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at:], values); return b }
	}
	bomb := packed(t, plain, now, make([]byte, 300<<20))
	row := func(name string, records []byte, want, words, kafkas string) bad {
		return bad{name: "batch: " + name, rq: produceTo("bad-input", 0, records), want: want, words: words, kafka: kafkas}
	}
	rows := []bad{
		row("no bytes", []byte{}, "INVALID_RECORD", "exactly one record batch", ""),
		row("null", nil, "INVALID_RECORD", "exactly one record batch", unasked),
		row("noise", []byte("noise that is no batch at all"), "INVALID_RECORD", "", "CORRUPT_MESSAGE"),
		row("two in one", append(bytes.Clone(good), good...), "INVALID_RECORD", "exactly one record batch", ""),
		row("wrong CRC", spoil(false, set(17, 1, 2, 3, 4)), "CORRUPT_MESSAGE", "(?i)crc", ""),
		row("a byte of a record changed", spoil(false, func(b []byte) []byte { b[len(b)-2] ^= 1; return b }), "CORRUPT_MESSAGE", "(?i)crc", ""),
		row("magic 0", spoil(true, set(16, 0)), "INVALID_RECORD", "magic version 2", ""),
		row("magic 1", spoil(true, set(16, 1)), "INVALID_RECORD", "magic version 2", ""),
		row("magic 3", spoil(true, set(16, 3)), "INVALID_RECORD", "magic", "CORRUPT_MESSAGE"),
		row("cut short", good[:len(good)-1], "INVALID_RECORD", "cut short", ""),
		row("length longer than the bytes", spoil(false, set(8, 0, 0, 1, 0)), "INVALID_RECORD", "", ""),
		row("length of -1", spoil(false, set(8, 0xff, 0xff, 0xff, 0xff)), "CORRUPT_MESSAGE", "", ""),
		row("length below a header", spoil(false, set(8, 0, 0, 0, 9)), "CORRUPT_MESSAGE", "", ""),
		row("count 0", spoil(true, set(57, 0, 0, 0, 0)), "INVALID_RECORD", "count 0", ""),
		row("count -1", spoil(true, set(57, 0xff, 0xff, 0xff, 0xff)), "INVALID_RECORD", "-1 records", ""),
		row("count 2147483647", spoil(true, set(57, 0x7f, 0xff, 0xff, 0xff)), "INVALID_RECORD", "2147483647 records in 1 offsets", ""),
		row("count 2 of one record", spoil(true, func(b []byte) []byte { return set(57, 0, 0, 0, 2)(set(23, 0, 0, 0, 1)(b)) }), "INVALID_RECORD", "", ""),
		row("last offset before the first", spoil(true, set(23, 0xff, 0xff, 0xff, 0xff)), "INVALID_RECORD", "", ""),
		row("a control batch", build(func(s *batch.Spec, _ *batch.Record) { s.Control = true }), "INVALID_RECORD", "control", ""),
		row("transactional without a transactional id", build(func(s *batch.Spec, _ *batch.Record) {
			s.Transactional, s.ProducerID, s.ProducerEpoch, s.BaseSequence = true, 77, 0, 0
		}), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "transactional id", ""),
		row("producer id -2", spoil(true, set(43, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe)), "INVALID_RECORD", "", "NONE"),
		row("sequence without a producer", spoil(true, set(43, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0xff, 0xff, 0xff, 0xff)), "INVALID_RECORD", "", ""),
		row("codec 5", spoil(true, set(21, 0, 5)), "UNSUPPORTED_COMPRESSION_TYPE", "codec 5", "UNKNOWN_SERVER_ERROR"),
		row("gzip that is none", spoil(true, set(21, 0, 1)), "INVALID_RECORD", "decompress", "UNKNOWN_SERVER_ERROR"),
		row("a bomb of 300 MiB", bomb, "MESSAGE_TOO_LARGE", "", unasked),
		row("a record of 2 MiB", build(func(_ *batch.Spec, r *batch.Record) { r.Value = make([]byte, 2<<20) }), "MESSAGE_TOO_LARGE", "", ""),
		row("record length longer than the batch", spoil(true, set(61, 0x7e)), "INVALID_RECORD", "", ""),
		row("record length negative", spoil(true, set(61, 0x03)), "INVALID_RECORD", "", ""),
		row("key longer than its record", spoil(true, set(65, 0x7e)), "INVALID_RECORD", "", ""),
		row("bytes after the last record", spoil(true, func(b []byte) []byte {
			b = append(b, 0, 0, 0)
			bits.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
			return b
		}), "INVALID_RECORD", "", ""),
		row("a year ahead of time", build(func(_ *batch.Spec, r *batch.Record) { r.Timestamp = now + 365*24*3600*1000 }), "INVALID_TIMESTAMP", "", ""),
		row("a century behind time", build(func(_ *batch.Spec, r *batch.Record) { r.Timestamp = 1 }), "INVALID_TIMESTAMP", "", ""),
	}
	keyless := build(func(_ *batch.Spec, r *batch.Record) { r.Key = nil })
	return append(rows, bad{name: "batch: no key on a compacted topic", rq: produceTo("bad-compacted", 0, keyless), want: "INVALID_RECORD", words: "key"})
}

// packed is a gzip batch of one record that is far larger than its bytes.
func packed(t *testing.T, spec batch.Spec, now int64, value []byte) []byte {
	b, err := batch.Build(spec, []batch.Record{{Timestamp: now, Value: value}})
	fatal(t, err)
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(b[batch.HeaderSize:])
	fatal(t, err)
	fatal(t, w.Close())
	small := append(bytes.Clone(b[:batch.HeaderSize]), out.Bytes()...)
	bits.BigEndian.PutUint32(small[8:], uint32(len(small)-12))
	small[22] = 1
	batch.Batch(small).SetCRC()
	return small
}

func produceTo(topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	rq := kmsg.NewPtrProduceRequest()
	rq.SetVersion(11)
	rq.Acks, rq.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, records
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	rq.Topics = append(rq.Topics, rt)
	return rq
}

// badProduces go to where nothing can be produced to.
func badProduces(t *testing.T) []bad {
	b, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1}, []batch.Record{{Timestamp: time.Now().UnixMilli(), Key: []byte("k")}})
	fatal(t, err)
	with := func(topic string, partition int32, change func(*kmsg.ProduceRequest)) kmsg.Request {
		rq := produceTo(topic, partition, b)
		if change != nil {
			change(rq)
		}
		return rq
	}
	return []bad{
		{name: "produce to an unknown topic", rq: with("bad-nowhere", 0, nil), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "produce to a name that cannot be", rq: with("a/b", 0, nil), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "produce to no name", rq: with("", 0, nil), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "produce to partition 99", rq: with("bad-input", 99, nil), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "produce to partition -1", rq: with("bad-input", -1, nil), want: "UNKNOWN_TOPIC_OR_PARTITION"},
		{name: "produce to an unknown id", rq: with("", 0, func(rq *kmsg.ProduceRequest) { rq.SetVersion(13); rq.Topics[0].TopicID = [16]byte{9} }), want: "UNKNOWN_TOPIC_ID"},
		{name: "produce with acks 2", rq: with("bad-input", 0, func(rq *kmsg.ProduceRequest) { rq.Acks = 2 }), want: "INVALID_REQUIRED_ACKS"},
		{name: "produce with acks -2", rq: with("bad-input", 0, func(rq *kmsg.ProduceRequest) { rq.Acks = -2 }), want: "INVALID_REQUIRED_ACKS"},
		{name: "produce to an internal topic", rq: with("__consumer_offsets", 0, nil), want: "INVALID_TOPIC_EXCEPTION", words: "internal topic"},
	}
}

func newTopic(name string, partitions int32) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	return topic
}

// long is a name one letter longer than a topic's may be.
var long = strings.Repeat("x", 250)
