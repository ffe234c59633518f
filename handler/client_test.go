package handler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaClient is a franz-go client of the door.
func (w *world) kafkaClient(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.Addr(plain)), kgo.MetadataMinAge(10 * time.Millisecond)}, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	return cl
}

func produceN(t *testing.T, cl *kgo.Client, topic string, n, size int) {
	t.Helper()
	value := strings.Repeat("v", size)
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Key: fmt.Append(nil, i), Value: []byte(value)}
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// consumeN polls until n records came.
func consumeN(t *testing.T, cl *kgo.Client, n int) (records []*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for len(records) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(records), n, err)
		}
		fetches.EachError(func(topic string, p int32, err error) { t.Fatalf("fetch %s-%d: %v", topic, p, err) })
		records = append(records, fetches.Records()...)
	}
	return records
}

func TestClientProducesAndConsumes(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 3, nil)
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			topic := "codec-" + name
			w.make(topic, 3, nil)
			cl := w.kafkaClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ProducerBatchCompression(codec))
			produceN(t, cl, topic, 500, 1000)
			got := map[string]bool{}
			for _, r := range consumeN(t, cl, 500) {
				got[string(r.Key)] = true
			}
			if len(got) != 500 {
				t.Fatalf("%d different records of 500", len(got))
			}
		})
	}
}

// Batches above copyMax go by sendfile and must arrive whole.
func TestClientConsumesLargeBatches(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	cl := w.kafkaClient(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	produceN(t, cl, "t", 200, 100_000)
	for i, r := range consumeN(t, cl, 200) {
		if r.Offset != int64(i) || len(r.Value) != 100_000 {
			t.Fatalf("record %d: offset %d, %d bytes", i, r.Offset, len(r.Value))
		}
	}
}

func TestClientGroupConsumesAndCommits(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 2, nil)
	produceN(t, w.kafkaClient(), "t", 100, 10)
	opts := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	cl := w.kafkaClient(opts...)
	consumeN(t, cl, 100)
	if err := cl.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	lags, err := kadm.NewClient(w.kafkaClient()).Lag(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if lag := lags["g"].Lag.Total(); lag != 0 {
		t.Fatalf("lag %d after all was committed", lag)
	}
	produceN(t, w.kafkaClient(), "t", 7, 10)
	consumeN(t, w.kafkaClient(opts...), 7)
}

func TestClientCreatesTopicsByAsking(t *testing.T) {
	w := newFullWorld(t, func(_ *world, d *Deps) { d.Settings.AutoCreateTopics, d.Settings.NumPartitions = true, 4 }).serve()
	cl := w.kafkaClient(kgo.AllowAutoTopicCreation())
	produceN(t, cl, "made-by-asking", 10, 10)
	if made := (worldTopics{w}).ByName("made-by-asking"); made == nil || made.Partitions != 4 {
		t.Fatalf("made %+v", made)
	}
	denied := w.kafkaClient()
	if err := denied.ProduceSync(t.Context(), &kgo.Record{Topic: "not-asked", Value: []byte("v")}).FirstErr(); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("a client that does not ask for creation got %v", err)
	}
}

func TestClientAdministers(t *testing.T) {
	w := newFullWorld(t).serve()
	adm := kadm.NewClient(w.kafkaClient())
	ctx := t.Context()
	created, err := adm.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": text("1000")}, "t")
	if err != nil || created.NumPartitions != 3 {
		t.Fatalf("create: %+v, %v", created, err)
	}
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, "t"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Fatalf("create again: %v", err)
	}
	if resp, err := adm.CreatePartitions(ctx, 2, "t"); err != nil || resp.Error() != nil {
		t.Fatalf("create partitions: %v, %v", err, resp.Error())
	}
	topics, err := adm.ListTopics(ctx)
	if err != nil || len(topics["t"].Partitions) != 5 {
		t.Fatalf("list: %+v, %v", topics, err)
	}
	produceN(t, w.kafkaClient(kgo.RecordPartitioner(kgo.ManualPartitioner())), "t", 10, 10)
	ends, err := adm.ListEndOffsets(ctx, "t")
	if err != nil || ends["t"][0].Offset != 10 {
		t.Fatalf("ends: %+v, %v", ends, err)
	}
	deleted, err := adm.DeleteRecords(ctx, kadm.Offsets{"t": {0: {Topic: "t", Partition: 0, At: 4}}})
	if err != nil || deleted["t"][0].LowWatermark != 4 {
		t.Fatalf("delete records: %+v, %v", deleted, err)
	}
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	if err != nil || dirs[testNode].Size() == 0 {
		t.Fatalf("log dirs: %+v, %v", dirs, err)
	}
	if _, err := adm.DeleteTopics(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if (worldTopics{w}).ByName("t") != nil {
		t.Fatal("the topic is still there")
	}
}

// rawBatch is one batch of n small records.
func rawBatch(t testing.TB, n int, spec batch.Spec) batch.Batch {
	t.Helper()
	var records []batch.Record
	for i := range n {
		records = append(records, batch.Record{Offset: kafka.Offset(i), Timestamp: 1000 + int64(i), Value: fmt.Append(nil, i)})
	}
	b, err := batch.Build(spec, records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// noProducer is the header of a producer that is not idempotent.
func noProducer() batch.Spec {
	return batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1}
}

func produceRequest(t testing.TB, topic string, acks int16, b []byte) *kmsg.ProduceRequest {
	t.Helper()
	rq := kmsg.NewPtrProduceRequest()
	rq.Acks, rq.TimeoutMillis = acks, 10_000
	rqt := kmsg.NewProduceRequestTopic()
	rqt.Topic = topic
	rqp := kmsg.NewProduceRequestTopicPartition()
	rqp.Records = b
	rqt.Partitions = append(rqt.Partitions, rqp)
	rq.Topics = append(rq.Topics, rqt)
	return rq
}

func produced(t testing.TB, c *client, version int16, rq *kmsg.ProduceRequest) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	return ask[*kmsg.ProduceResponse](c, version, rq).Topics[0].Partitions[0]
}

func TestProduceAnswers(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	w.make(kafka.ConsumerOffsetsTopic, 1, nil)
	c := w.dial()
	b := rawBatch(t, 3, noProducer())
	two := append(append([]byte{}, b...), b...)
	corrupt := append([]byte{}, b...)
	corrupt[len(corrupt)-1] ^= 1
	old := append([]byte{}, b...)
	old[16] = 1
	zstd := noProducer()
	zstd.Codec = batch.CodecZstd
	for _, tc := range []struct {
		name    string
		version int16
		topic   string
		acks    int16
		records []byte
		want    kafka.ErrorCode
	}{
		{"good", 9, "t", -1, b, kafka.None},
		{"good, leader only", 3, "t", 1, b, kafka.None},
		{"unknown topic", 9, "nope", 1, b, kafka.UnknownTopicOrPartition},
		{"acks", 9, "t", 2, b, kafka.InvalidRequiredAcks},
		{"no records", 9, "t", 1, nil, kafka.InvalidRecord},
		{"two batches", 9, "t", 1, two, kafka.InvalidRecord},
		{"old format", 9, "t", 1, old, kafka.InvalidRecord},
		{"CRC", 9, "t", 1, corrupt, kafka.CorruptMessage},
		{"cut short", 9, "t", 1, b[:len(b)-1], kafka.InvalidRecord},
		{"noise", 9, "t", 1, []byte("noise that is no batch at all"), kafka.InvalidRecord},
		{"zstd too early", 6, "t", 1, rawBatch(t, 3, zstd), kafka.UnsupportedCompressionType},
		{"zstd", 7, "t", 1, rawBatch(t, 3, zstd), kafka.None},
		{"too old", 2, "t", 1, b, kafka.UnsupportedVersion},
		{"internal", 9, kafka.ConsumerOffsetsTopic, 1, b, kafka.InvalidTopicException},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := produced(t, &client{t: t, nc: c.nc}, tc.version, produceRequest(t, tc.topic, tc.acks, append([]byte{}, tc.records...)))
			if got.ErrorCode != int16(tc.want) {
				t.Fatalf("error %v (%v), want %v", kafka.ErrorCode(got.ErrorCode), got.ErrorMessage, tc.want)
			}
			if tc.want != kafka.None && (got.BaseOffset != -1 || tc.version >= 8 && got.ErrorMessage == nil) {
				t.Fatalf("base offset %d, message %v", got.BaseOffset, got.ErrorMessage)
			}
		})
	}
	if end := w.partition("t", 0).Offsets().LogEnd; end != 9 {
		t.Fatalf("log end %d after three good batches of 3", end)
	}
}

func TestProduceNamesTheRecordsThatAreWrong(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, map[string]string{"cleanup.policy": "compact"})
	b, err := batch.Build(noProducer(), []batch.Record{{Key: []byte("k")}, {Offset: 1}, {Offset: 2, Key: []byte("k")}})
	if err != nil {
		t.Fatal(err)
	}
	got := produced(t, w.dial(), 9, produceRequest(t, "t", -1, b))
	if kafka.ErrorCode(got.ErrorCode) != kafka.InvalidRecord || len(got.ErrorRecords) != 1 || got.ErrorRecords[0].RelativeOffset != 1 || got.ErrorRecords[0].ErrorMessage == nil {
		t.Errorf("%v %+v", kafka.ErrorCode(got.ErrorCode), got.ErrorRecords)
	}
}

func TestProduceWithoutAcks(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	rq := produceRequest(t, "t", 0, rawBatch(t, 3, noProducer()))
	rq.SetVersion(9)
	c.write(rq)
	// The next answer on the connection is the next request's.
	ask[*kmsg.ApiVersionsResponse](c, 3, apiVersionsRequest())
	if end := w.partition("t", 0).Offsets().LogEnd; end != 3 {
		t.Fatalf("log end %d", end)
	}
	bad := produceRequest(t, "nope", 0, rawBatch(t, 3, noProducer()))
	bad.SetVersion(9)
	c.write(bad)
	c.closed("an error with acks=0")
}

func TestC86_LeaderEpochOfAProducerIsOverwritten(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	for i, epoch := range []kafka.LeaderEpoch{-1, 0, 7} {
		b := rawBatch(t, 1, noProducer())
		b.SetLeaderEpoch(epoch)
		if got := produced(t, c, 9, produceRequest(t, "t", -1, b)); got.ErrorCode != 0 {
			t.Fatalf("epoch %d: error %d", epoch, got.ErrorCode)
		}
		stored := batch.Batch(fetched(t, c, 12, fetchRequest("t", int64(i), 0)).RecordBatches)
		if want := w.partition("t", 0).Offsets().Epoch; stored.LeaderEpoch() != want {
			t.Fatalf("epoch %d was stored as %d, want %d", epoch, stored.LeaderEpoch(), want)
		}
	}
}

// Produce requests that come before the last one's answer share its sync; the answers keep their order.
func TestProduceRequestsInFlight(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	const n = 3 * unsentMax
	rqs := make([]*kmsg.ProduceRequest, n)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range rqs {
			topic := "t"
			if i%5 == 4 {
				topic = "nope" // answered at once, but not before those ahead of it
			}
			rqs[i] = produceRequest(t, topic, -1, rawBatch(t, 1, noProducer()))
			rqs[i].SetVersion(9)
			c.write(rqs[i])
		}
		last := apiVersionsRequest()
		last.SetVersion(3)
		c.write(last)
	}()
	<-sent
	next := int64(0)
	for i := range rqs {
		resp, err := c.read(rqs[i])
		if err != nil {
			t.Fatal(err)
		}
		got := resp.(*kmsg.ProduceResponse).Topics[0]
		switch {
		case got.Topic == "nope":
			if got.Partitions[0].ErrorCode != int16(kafka.UnknownTopicOrPartition) || i%5 != 4 {
				t.Fatalf("answer %d: %+v", i, got)
			}
		case got.Partitions[0].ErrorCode != 0 || got.Partitions[0].BaseOffset != next:
			t.Fatalf("answer %d: %+v, want offset %d", i, got, next)
		default:
			next++
		}
	}
	last := apiVersionsRequest()
	last.SetVersion(3)
	if _, err := c.read(last); err != nil {
		t.Fatal(err)
	}
}

func TestShutdownAnswersWhatWasAppended(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	rq := produceRequest(t, "t", -1, rawBatch(t, 1, noProducer()))
	rq.SetVersion(9)
	for range 5 {
		c.write(rq)
	}
	for w.partition("t", 0).Offsets().LogEnd < 5 {
		time.Sleep(time.Millisecond) // an append wakes nobody; only its sync does
	}
	w.Shutdown(t.Context())
	for i := range int64(5) {
		resp, err := c.read(rq)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if got := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.BaseOffset != i {
			t.Fatalf("answer %d: %+v", i, got)
		}
	}
	c.closed("shut down")
}

func TestStatsCountWhatWentThrough(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	b := rawBatch(t, 1, noProducer())
	for range 3 {
		produced(t, c, 9, produceRequest(t, "t", -1, append([]byte{}, b...)))
	}
	fetched(t, c, 12, fetchRequest("t", 0, 0))
	open := w.Connections()
	w.Shutdown(t.Context()) // an answer is counted after it was sent
	stats := w.Stats()
	if open != 1 || stats.APIs[0].Name != "Produce" || stats.APIs[0].Requests != 3 || stats.APIs[1].Requests != 1 || stats.APIs[1].Busy <= 0 {
		t.Fatalf("%+v", stats)
	}
	if stats.BytesIn < int64(3*len(b)) || stats.BytesOut < int64(3*len(b)) {
		t.Fatalf("%d bytes in, %d out", stats.BytesIn, stats.BytesOut)
	}
}
