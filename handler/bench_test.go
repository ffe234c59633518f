package handler

import (
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// BenchmarkProduce appends 16 KiB batches, acks=1, one connection, one request at a time.
func BenchmarkProduce(b *testing.B) {
	w := newFullWorld(b).serve()
	w.make("t", 1, nil)
	c := w.dial()
	_ = c.nc.SetDeadline(time.Time{})
	records := []batch.Record{{Value: make([]byte, 16<<10)}}
	one, err := batch.Build(noProducer(), records)
	if err != nil {
		b.Fatal(err)
	}
	rq := produceRequest(b, "t", 1, one)
	b.SetBytes(int64(len(one)))
	b.ReportAllocs()
	for range b.N {
		ask[*kmsg.ProduceResponse](c, 9, rq)
	}
}

// BenchmarkFetchAtTheEnd asks 1,000 idle partitions in a session, as a consumer that is up to date.
func BenchmarkFetchAtTheEnd(b *testing.B) {
	w := newFullWorld(b).serve()
	w.make("t", 1000, nil)
	c := w.dial()
	_ = c.nc.SetDeadline(time.Time{})
	rq := kmsg.NewPtrFetchRequest()
	rq.SessionEpoch = 0
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "t"
	for i := range int32(1000) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = i, 1<<20
		topic.Partitions = append(topic.Partitions, p)
	}
	rq.Topics = append(rq.Topics, topic)
	first := ask[*kmsg.FetchResponse](c, 12, rq)
	next := kmsg.NewPtrFetchRequest()
	next.SessionID, next.SessionEpoch, next.MaxWaitMillis, next.MinBytes = first.SessionID, 1, 1, 1
	b.ReportAllocs()
	for range b.N {
		if got := ask[*kmsg.FetchResponse](c, 12, next); got.ErrorCode != 0 {
			b.Fatal(got.ErrorCode)
		}
		next.SessionEpoch++
	}
}
