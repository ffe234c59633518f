package handler

import (
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func fetchRequest(topic string, offset int64, maxWait time.Duration) *kmsg.FetchRequest {
	rq := kmsg.NewPtrFetchRequest()
	rq.MaxWaitMillis, rq.MinBytes = int32(maxWait.Milliseconds()), 1
	rqt := kmsg.NewFetchRequestTopic()
	rqt.Topic = topic
	rqp := kmsg.NewFetchRequestTopicPartition()
	rqp.FetchOffset, rqp.PartitionMaxBytes = offset, 1<<20
	rqt.Partitions = append(rqt.Partitions, rqp)
	rq.Topics = append(rq.Topics, rqt)
	return rq
}

func fetched(t testing.TB, c *client, version int16, rq *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	t.Helper()
	resp := ask[*kmsg.FetchResponse](c, version, rq)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 {
		t.Fatalf("fetch: error %d, %d topics", resp.ErrorCode, len(resp.Topics))
	}
	return resp.Topics[0].Partitions[0]
}

func TestC82_AbortedListByIsolation(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	produced(t, c, 9, produceRequest(t, "t", -1, rawBatch(t, 3, noProducer())))
	for _, version := range []int16{4, 11, 12, 18} {
		rq := fetchRequest("t", 0, 0)
		rq.Topics[0].TopicID = worldTopics{w}.ByName("t").ID
		if got := fetched(t, c, version, rq); got.AbortedTransactions != nil {
			t.Errorf("version %d, read uncommitted: %v", version, got.AbortedTransactions)
		}
		rq.IsolationLevel = 1
		got := fetched(t, c, version, rq)
		if got.AbortedTransactions == nil || len(got.AbortedTransactions) != 0 {
			t.Errorf("version %d, read committed: %v", version, got.AbortedTransactions)
		}
		if got.LastStableOffset != 3 || got.HighWatermark != 3 || len(got.RecordBatches) == 0 {
			t.Errorf("version %d: %+v", version, got)
		}
	}
}

func TestC93_LongPollWakesAtOnce(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	reader, writer := w.dial(), w.dial()
	for i := range 20 {
		rq := fetchRequest("t", int64(i), 30*time.Second)
		rq.SetVersion(12)
		reader.write(rq)
		started := time.Now()
		produced(t, writer, 9, produceRequest(t, "t", -1, rawBatch(t, 1, noProducer())))
		resp, err := reader.read(rq)
		if err != nil {
			t.Fatal(err)
		}
		p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
			t.Fatalf("round %d: error %d, %d bytes", i, p.ErrorCode, len(p.RecordBatches))
		}
		if waited := time.Since(started); waited > 5*time.Second {
			t.Fatalf("round %d: the waiting fetch was woken after %v", i, waited)
		}
	}
}

// A client with an old idea of the leader hears who leads now, and where that is, so that it need not ask for metadata first.
func TestKIP951_AFencedFetchNamesTheLeaderAndItsAddress(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	produced(t, c, 9, produceRequest(t, "t", -1, rawBatch(t, 1, noProducer())))
	epoch := int32(w.partition("t", 0).Offsets().Epoch)
	for _, version := range []int16{15, 16} {
		rq := fetchRequest("t", 0, 0)
		rq.Topics[0].TopicID = worldTopics{w}.ByName("t").ID
		rq.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch - 1
		resp := ask[*kmsg.FetchResponse](c, version, rq)
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != int16(kafka.FencedLeaderEpoch) || p.CurrentLeader.LeaderID != testNode || p.CurrentLeader.LeaderEpoch != epoch {
			t.Errorf("version %d: error %d, leader %+v, want epoch %d", version, p.ErrorCode, p.CurrentLeader, epoch)
		}
		if version < 16 {
			continue
		}
		if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != testNode || resp.Brokers[0].Host == "" || resp.Brokers[0].Port == 0 {
			t.Errorf("version %d: the leader's address is %+v", version, resp.Brokers)
		}
	}
}

func TestC93_AnErrorEndsTheWait(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	got := fetched(t, w.dial(), 12, fetchRequest("t", 100, 30*time.Second))
	if got.ErrorCode != int16(kafka.OffsetOutOfRange) || got.HighWatermark != -1 {
		t.Fatalf("error %d, high watermark %d", got.ErrorCode, got.HighWatermark)
	}
}

func TestFetchWaitsForMinBytesAndNoLongerThanMaxWait(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	produced(t, c, 9, produceRequest(t, "t", -1, rawBatch(t, 1, noProducer())))
	rq := fetchRequest("t", 0, 200*time.Millisecond)
	rq.MinBytes = 1 << 20
	started := time.Now()
	got := fetched(t, c, 12, rq)
	if waited := time.Since(started); waited < 150*time.Millisecond {
		t.Fatalf("answered after %v with less than min bytes", waited)
	}
	if len(got.RecordBatches) == 0 {
		t.Fatal("what there was did not come at max wait")
	}
}

// The first batch comes whole whatever the limits; the others fit.
func TestFetchMaxBytes(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 2, nil)
	c := w.dial()
	b := rawBatch(t, 100, noProducer())
	for range 3 {
		produced(t, c, 9, produceRequest(t, "t", -1, append(batch.Batch{}, b...)))
	}
	for _, tc := range []struct {
		name                string
		partition, response int32
		batches             int
	}{
		{"room for all", 1 << 20, 1 << 20, 3},
		{"partition limit of one byte", 1, 1 << 20, 1},
		{"answer limit of one byte", 1 << 20, 1, 1},
		{"room for two", int32(2 * len(b)), 1 << 20, 2},
		{"room for two and a half", 1 << 20, int32(5 * len(b) / 2), 2},
	} {
		rq := fetchRequest("t", 0, 0)
		rq.MaxBytes, rq.Topics[0].Partitions[0].PartitionMaxBytes = tc.response, tc.partition
		if got := len(fetched(t, c, 12, rq).RecordBatches); got != tc.batches*len(b) {
			t.Errorf("%s: %d bytes, want %d batches of %d", tc.name, got, tc.batches, len(b))
		}
	}
}

func TestFetchSessionOverTheWire(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	rq := fetchRequest("t", 0, 0)
	rq.SessionEpoch = 0
	first := ask[*kmsg.FetchResponse](c, 12, rq)
	if first.SessionID == 0 || len(first.Topics) != 1 {
		t.Fatalf("%+v", first)
	}
	next := kmsg.NewPtrFetchRequest()
	next.SessionID, next.SessionEpoch = first.SessionID, 1
	if got := ask[*kmsg.FetchResponse](c, 12, next); got.ErrorCode != 0 || got.SessionID != first.SessionID || len(got.Topics) != 0 {
		t.Fatalf("nothing changed, but: %+v", got)
	}
	produced(t, c, 9, produceRequest(t, "t", -1, rawBatch(t, 1, noProducer())))
	next.SessionEpoch = 2
	if got := ask[*kmsg.FetchResponse](c, 12, next); len(got.Topics) != 1 || len(got.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Fatalf("the new record did not come: %+v", got)
	}
	if got := ask[*kmsg.FetchResponse](c, 12, next); got.ErrorCode != int16(kafka.InvalidFetchSessionEpoch) || got.SessionID != 0 {
		t.Fatalf("a repeated epoch: %+v", got)
	}
}

func TestFetchEndsWhenTheClientHangsUp(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	rq := fetchRequest("t", 0, time.Hour)
	rq.SetVersion(12)
	c.write(rq)
	_ = c.nc.Close()
	deadline := time.Now().Add(10 * time.Second)
	for w.Connections() > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the connection of a client that is gone waits on")
		}
		time.Sleep(time.Millisecond) // the server tells nobody that a connection ended
	}
}

// A reader that takes nothing loses its connection; the log's files are let go.
func TestSlowReaderIsCutOff(t *testing.T) {
	w := newFullWorld(t)
	w.writeTimeout = 50 * time.Millisecond
	w.serve()
	w.make("t", 1, nil)
	produceN(t, w.kafkaClient(kgo.ProducerBatchCompression(kgo.NoCompression())), "t", 200, 100_000)
	c := w.dial()
	rq := fetchRequest("t", 0, 0)
	rq.MaxBytes, rq.Topics[0].Partitions[0].PartitionMaxBytes = 50<<20, 50<<20
	rq.SetVersion(12)
	ask[*kmsg.ApiVersionsResponse](c, 0, apiVersionsRequest())
	before := w.Connections()
	c.write(rq)
	for w.Connections() >= before {
		time.Sleep(time.Millisecond) // the server tells nobody that a connection ended
	}
}

func TestShutdownEndsTheWaitOfFetches(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	rq := fetchRequest("t", 0, time.Hour)
	rq.SetVersion(12)
	w.rest()
	c.write(rq)
	for !w.midRequest() {
		time.Sleep(time.Millisecond) // nothing tells from outside that the bytes were read
	}
	w.Shutdown(t.Context())
	if _, err := c.read(rq); err != nil {
		t.Fatalf("the waiting fetch got no answer: %v", err)
	}
	c.closed("shut down")
}
