//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// shape is a topic with a certain kind of data in it.
type shape struct {
	topic      string
	partitions int32
	replicas   int16 // 0 is 3
	configs    map[string]string
	// fill writes a round of data; it is called again after leaders have moved.
	fill func(t *testing.T, k *Kafka, topic string, round int)
	// before runs once before the topic is mirrored, finish after the last round.
	before, finish func(t *testing.T, k *Kafka, topic string)
}

// emptyTopic holds nothing, and begins where it ends.
const emptyTopic = "s-empty-at-n"

// shapes is every kind of data that a mirror must carry unchanged.
func shapes() []shape {
	all := []shape{
		{topic: "s-records", partitions: 2, fill: fillRecords},
		{topic: "s-transactions", partitions: 1, fill: fillTransactions},
		// Replicas clean their logs apart, each its own way: with more than one the source
		// itself would have several truths, and a new leader another than the one that was mirrored.
		{topic: "s-compacted", partitions: 1, replicas: 1, configs: map[string]string{
			"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "500",
		}, fill: fillCompacted, before: compactAndStop},
		{topic: "s-prefix-deleted", partitions: 1, fill: fillPlain, finish: deletePrefix},
		{topic: emptyTopic, partitions: 1, fill: fillPlain, finish: deleteEverything},
		{topic: "s-large", partitions: 1, configs: map[string]string{"max.message.bytes": "12000000"}, fill: fillLarge},
		{topic: "s-append-time", partitions: 1, configs: map[string]string{"message.timestamp.type": "LogAppendTime"}, fill: fillPlain},
		{topic: "s-old-times", partitions: 1, configs: map[string]string{"retention.ms": "-1"}, fill: fillOldTimes},
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		all = append(all, shape{topic: "s-codec-" + codec, partitions: 1, fill: fillCodec(codec)})
	}
	return all
}

func produce(t *testing.T, client *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(testContext(t), 90*time.Second)
	defer cancel()
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

func fillPlain(t *testing.T, k *Kafka, topic string, round int) {
	client := Client(t, k.Bootstrap(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 10 {
		var records []*kgo.Record
		for j := range 20 {
			records = append(records, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", j), Value: fmt.Appendf(nil, "round %d batch %d record %d", round, i, j)})
		}
		produce(t, client, records...)
	}
}

// fillRecords covers keys, values and headers: null, empty, repeated, binary (case C12).
func fillRecords(t *testing.T, k *Kafka, topic string, round int) {
	client := Client(t, k.Bootstrap(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var many []kgo.RecordHeader
	for i := range 1000 {
		many = append(many, kgo.RecordHeader{Key: fmt.Sprintf("h%d", i), Value: []byte{byte(i)}})
	}
	for p := range int32(2) {
		produce(t, client,
			&kgo.Record{Topic: topic, Partition: p, Value: []byte("null key")},
			&kgo.Record{Topic: topic, Partition: p, Key: []byte("null value")},
			&kgo.Record{Topic: topic, Partition: p, Key: []byte("empty value"), Value: []byte{}},
			&kgo.Record{Topic: topic, Partition: p, Key: []byte{}, Value: []byte("empty key")},
			&kgo.Record{Topic: topic, Partition: p, Key: []byte{0, 0xff}, Value: fmt.Appendf(nil, "binary key, round %d", round)},
			&kgo.Record{Topic: topic, Partition: p, Value: []byte("null header"), Headers: []kgo.RecordHeader{{Key: "h"}}},
			&kgo.Record{Topic: topic, Partition: p, Value: []byte("empty header"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{}}}},
			&kgo.Record{Topic: topic, Partition: p, Value: []byte("twice"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte("2")}}},
			&kgo.Record{Topic: topic, Partition: p, Value: []byte("not UTF-8"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0xc3, 0x28}}}},
			&kgo.Record{Topic: topic, Partition: p, Value: []byte("many"), Headers: many},
		)
	}
}

// fillTransactions interleaves five producers that commit or abort, with plain records between.
func fillTransactions(t *testing.T, k *Kafka, topic string, round int) {
	ctx := testContext(t)
	random := rand.New(rand.NewPCG(7, uint64(round)))
	plain := Client(t, k.Bootstrap(), kgo.DefaultProduceTopic(topic))
	var producers []*kgo.Client
	for i := range 5 {
		producers = append(producers, Client(t, k.Bootstrap(), kgo.DefaultProduceTopic(topic), kgo.TransactionalID(fmt.Sprintf("%s-%d", topic, i))))
	}
	open := map[int]bool{}
	end := func(i int) {
		how := kgo.TryCommit
		if random.IntN(3) == 0 {
			how = kgo.TryAbort
		}
		if err := producers[i].EndTransaction(ctx, how); err != nil {
			t.Fatalf("end transaction: %v", err)
		}
		delete(open, i)
	}
	for step := range 120 {
		i := random.IntN(6)
		if i == 5 {
			produce(t, plain, kgo.StringRecord(fmt.Sprintf("plain %d-%d", round, step)))
			continue
		}
		if !open[i] {
			if err := producers[i].BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			open[i] = true
		}
		produce(t, producers[i], kgo.KeyStringRecord(fmt.Sprintf("p%d", i), fmt.Sprintf("%d-%d", round, step)))
		if random.IntN(4) == 0 {
			end(i)
		}
	}
	for i := range producers {
		if open[i] {
			end(i)
		}
		producers[i].Close()
	}
}

func fillCompacted(t *testing.T, k *Kafka, topic string, round int) {
	client := Client(t, k.Bootstrap(), kgo.DefaultProduceTopic(topic))
	keys := func(from, to int, value string) {
		var records []*kgo.Record
		for i := from; i < to; i++ {
			records = append(records, kgo.KeyStringRecord(fmt.Sprintf("k%d", i), value))
		}
		produce(t, client, records...)
	}
	keys(0, 10, fmt.Sprintf("first %d", round))
	keys(7, 10, fmt.Sprintf("second %d", round)) // leaves a batch whose last records go (case C01)
	produce(t, client, &kgo.Record{Key: []byte("k0")}, kgo.KeyStringRecord("filler", fmt.Sprint(round)))
}

// compactAndStop leaves holes in the source's log and then keeps its cleaner from
// going on: two cleaners would be right and yet not byte for byte the same.
func compactAndStop(t *testing.T, k *Kafka, topic string) {
	waitForHoles(t, k, topic)
	client := Client(t, k.Bootstrap())
	rs, err := kadm.NewClient(client).AlterTopicConfigs(testContext(t), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "min.compaction.lag.ms", Value: kadm.StringPtr("86400000")}}, topic)
	if err == nil && len(rs) > 0 {
		err = rs[0].Err
	}
	if err != nil {
		t.Fatalf("stop the cleaner of %s: %v", topic, err)
	}
	// A clean that was under way ends within its backoff of half a second; two looks
	// a second apart that agree say that none is.
	_, end := Ends(t, client, topic, 0)
	before := Raw(t, client, topic, 0, 0, end)
	eventually(t, 30*time.Second, "the cleaner rests", func() (bool, string) {
		pause(testContext(t), time.Second)
		now := Raw(t, client, topic, 0, 0, end)
		same := bytes.Equal(before, now)
		before = now
		return same, "the log still changes"
	})
}

// waitForHoles waits until the source's cleaner has removed records: a batch then
// holds fewer records than offsets.
func waitForHoles(t *testing.T, k *Kafka, topic string) {
	client := Client(t, k.Bootstrap(), kgo.DefaultProduceTopic(topic))
	eventually(t, 90*time.Second, "the source has compacted", func() (bool, string) {
		// Each produce lets the active segment roll, so that the ones before may be cleaned.
		produce(t, client, kgo.KeyStringRecord("filler", time.Now().String()))
		_, end := Ends(t, client, topic, 0)
		holes := 0
		for b, err := range batch.Batches(Raw(t, client, topic, 0, 0, end)).All() {
			if err != nil {
				return false, err.Error()
			}
			if int64(b.Count()) < int64(b.NextOffset()-b.BaseOffset()) {
				holes++
			}
		}
		return holes >= 2, fmt.Sprintf("%d batches have holes", holes)
	})
}

func deletePrefix(t *testing.T, k *Kafka, topic string) {
	client := Client(t, k.Bootstrap())
	_, end := Ends(t, client, topic, 0)
	deleteTo(t, client, topic, end/2-7)
}

func deleteEverything(t *testing.T, k *Kafka, topic string) {
	client := Client(t, k.Bootstrap())
	_, end := Ends(t, client, topic, 0)
	deleteTo(t, client, topic, end)
}

func deleteTo(t *testing.T, client *kgo.Client, topic string, offset int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: offset})
	eventually(t, 90*time.Second, fmt.Sprintf("records of %s are deleted to %d", topic, offset), func() (bool, string) {
		rs, err := kadm.NewClient(client).DeleteRecords(testContext(t), offsets)
		if err == nil {
			err = rs.Error()
		}
		return err == nil, fmt.Sprint(err) // replicas that still follow a new leader make it time out
	})
}

// fillLarge writes a batch of 10 MB between small ones (case C11).
func fillLarge(t *testing.T, k *Kafka, topic string, round int) {
	client := Client(t, k.Bootstrap(), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(11<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	produce(t, client, kgo.StringRecord("small before"))
	produce(t, client, &kgo.Record{Value: bytes.Repeat([]byte{byte('a' + round)}, 10<<20)})
	produce(t, client, kgo.StringRecord("small after"))
}

func fillOldTimes(t *testing.T, k *Kafka, topic string, round int) {
	client := Client(t, k.Bootstrap(), kgo.DefaultProduceTopic(topic))
	for _, at := range []time.Time{time.UnixMilli(86400_000), time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), time.Now()} {
		produce(t, client, &kgo.Record{Value: fmt.Appendf(nil, "round %d", round), Timestamp: at})
	}
}

func fillCodec(name string) func(*testing.T, *Kafka, string, int) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	return func(t *testing.T, k *Kafka, topic string, round int) {
		client := Client(t, k.Bootstrap(), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codecs[name]))
		for i := range 4 {
			var records []*kgo.Record
			for j := range 50 {
				records = append(records, kgo.KeyStringRecord(fmt.Sprint(j), fmt.Sprintf("%d %d %d %s", round, i, j, bytes.Repeat([]byte("hawser "), 100))))
			}
			produce(t, client, records...)
		}
	}
}

// moveLeaders gives every partition of the topics a new leader, by a preferred
// election after the replica lists were rotated: each move makes an epoch.
func moveLeaders(t *testing.T, k *Kafka, topics ...string) {
	t.Helper()
	ctx := testContext(t)
	client := Client(t, k.Bootstrap())
	admin := kadm.NewClient(client)
	details, err := admin.ListTopics(ctx, topics...)
	if err != nil {
		t.Fatal(err)
	}
	rq := kadm.AlterPartitionAssignmentsReq{}
	elect := kadm.TopicsSet{}
	want := map[string]map[int32]int32{}
	for _, d := range details {
		for _, p := range d.Partitions {
			rotated := append(append([]int32{}, p.Replicas[1:]...), p.Replicas[0])
			rq.Assign(d.Topic, p.Partition, rotated)
			elect.Add(d.Topic, p.Partition)
			if want[d.Topic] == nil {
				want[d.Topic] = map[int32]int32{}
			}
			want[d.Topic][p.Partition] = rotated[0]
		}
	}
	if _, err := admin.AlterPartitionAssignments(ctx, rq); err != nil {
		t.Fatalf("rotate replicas: %v", err)
	}
	eventually(t, 60*time.Second, "leaders have moved", func() (bool, string) {
		_, _ = admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, elect)
		now, err := admin.ListTopics(ctx, topics...)
		if err != nil {
			return false, err.Error()
		}
		for _, d := range now {
			for _, p := range d.Partitions {
				if p.Leader != want[d.Topic][p.Partition] {
					return false, fmt.Sprintf("%s-%d is led by %d, not %d", d.Topic, p.Partition, p.Leader, want[d.Topic][p.Partition])
				}
			}
		}
		return true, ""
	})
}
