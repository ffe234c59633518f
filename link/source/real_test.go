package source_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/partition"
)

// realKafka is a running Kafka's bootstrap address, for the tests that want one.
func realKafka(t *testing.T) string {
	address := os.Getenv("HAWSER_TEST_KAFKA")
	if address == "" {
		t.Skip("set HAWSER_TEST_KAFKA=host:port to run against a Kafka")
	}
	return address
}

func TestRealKafkaIsMirrored(t *testing.T) {
	address := realKafka(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	topic := "mirrored-" + kafka.NewTopicID().String()
	producer, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic), kgo.UnknownTopicRetries(20))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	const records = 5000
	for i := range records {
		producer.Produce(ctx, &kgo.Record{Value: make([]byte, 100+i%1000)}, nil)
	}
	if err := producer.Flush(ctx); err != nil {
		t.Fatal(err)
	}

	c, err := source.Dial(source.Config{Bootstrap: []string{"PLAINTEXT://" + address}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	probe, err := c.Probe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cluster %s, brokers %v", probe.ClusterID, probe.Brokers)
	topics, err := c.Topics(ctx, []string{topic})
	if err != nil || len(topics) != 1 || topics[0].Err != nil {
		t.Fatal(topics, err)
	}

	pool := fetcher.New(c, fetcher.Config{}, func(e fetcher.Event) { t.Log("event", e) })
	defer pool.Close()
	target := stubtest.NewTarget(0)
	tp := kafka.TopicPartition{Topic: topic}
	pool.Assign([]fetcher.Assignment{{Source: tp, SourceID: topics[0].ID, Mirror: tp, Target: target}})
	if !target.Await(ctx, func(o partition.Offsets) bool { return o.LogEnd >= records }) {
		t.Fatalf("mirror ends at %d: %+v", target.Offsets().LogEnd, pool.Status(tp))
	}
	ok, text, err := pool.CaughtUp(ctx, topic)
	t.Log(ok, text, err, pool.Status(tp))
	if !ok || err != nil {
		t.Fatal(text, err)
	}

	// Quiet topics: the lag is a round trip.
	var worst time.Duration
	for i := range 50 {
		begun := time.Now()
		if err := producer.ProduceSync(ctx, &kgo.Record{Value: []byte("quiet")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		produced := time.Since(begun)
		target.Await(ctx, func(o partition.Offsets) bool { return o.LogEnd >= kafka.Offset(records+i+1) })
		worst = max(worst, time.Since(begun)-produced)
	}
	t.Logf("worst lag of 50 quiet records: %v", worst)
}
