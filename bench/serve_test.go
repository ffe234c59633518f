//go:build bench

package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// broker is one that is produced to and consumed from.
type broker struct {
	name    string
	client  *kgo.Client
	address string
	pid     int
	configs map[string]*string // of its topics
}

// shape is what is written: records of a size over a number of partitions.
type shape struct {
	size       int
	partitions int32
}

func (s shape) String() string {
	size := fmt.Sprintf("%d B", s.size)
	if s.size >= 1024 {
		size = fmt.Sprintf("%d KiB", s.size>>10)
	}
	return fmt.Sprintf("%s x %d", size, s.partitions)
}

// records is how many of them are written, by bytes and by number bounded, and at least so many for each partition that it is
// not the making of files that is measured: hawser makes a partition's with its first record, Kafka with the topic.
func (s shape) records(mb int) int {
	return max(min(mb<<20/s.size, mb*2500), 50*int(s.partitions))
}

// turn is one measurement.
type turn struct {
	produce, consume float64 // MB/s
	cpu              float64 // CPU seconds of the broker for a million records, both ways
}

// TestServe measures producing with acks=all and consuming beside Apache Kafka. The first pair is of equal durability:
// hawser's default, which syncs before it answers, and Kafka with flush.messages=1. The second is Kafka's default and
// hawser without sync.
func TestServe(t *testing.T) {
	runs, mb := envInt(t, "HAWSER_BENCH_RUNS", 3), envInt(t, "HAWSER_BENCH_SERVE_MB", 64)
	shapes := []shape{{100, 1}, {100, 100}, {1 << 10, 1}, {1 << 10, 100}, {100 << 10, 1}, {100 << 10, 100}}
	if os.Getenv("HAWSER_BENCH_SHORT") != "" {
		shapes = []shape{{1 << 10, 1}, {1 << 10, 100}}
	}
	one := "1"
	k := startKafka(t, "kafka")
	synced, careless := startHawser(t, ""), startHawser(t, "", unsynced)
	pairs := [][2]broker{
		{{"hawser", synced.client, synced.kafka, synced.pid(), nil}, {"Apache Kafka, flush.messages=1", k.client, k.bootstrap, k.pid(), map[string]*string{"flush.messages": &one}}},
		{{"hawser without sync", careless.client, careless.kafka, careless.pid(), nil}, {"Apache Kafka", k.client, k.bootstrap, k.pid(), nil}},
	}
	bounds := []float64{1.0, 0.8}
	t.Logf("| %-13s | %-55s | %-9s | %-9s | %s |", "records", "brokers", "produce", "consume", "CPU s per million records")
	for _, s := range shapes {
		for i, pair := range pairs {
			var turns [2][]turn
			for run := range runs + 1 {
				for j := range pair {
					at := (run + j) % 2 // who is first changes from run to run
					measured := serve(t, pair[at], s, s.records(mb), fmt.Sprintf("serve-%d-%d-%d-%d-%d", s.size, s.partitions, i, run, at))
					if run > 0 { // the first is for the JVM's compiler and everybody's caches
						turns[at] = append(turns[at], measured)
					}
				}
			}
			report(t, s, pair, turns, bounds[i])
		}
	}
}

func report(t *testing.T, s shape, pair [2]broker, turns [2][]turn, bound float64) {
	t.Helper()
	mid := func(at int, of func(turn) float64) float64 {
		var all []float64
		for _, one := range turns[at] {
			all = append(all, of(one))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	produce := func(m turn) float64 { return m.produce }
	consume := func(m turn) float64 { return m.consume }
	cpu := func(m turn) float64 { return m.cpu }
	for at, b := range pair {
		t.Logf("| %-13s | %-55s | %9.1f | %9.1f | %.2f |", s, b.name, mid(at, produce), mid(at, consume), mid(at, cpu))
	}
	ratios := [2]float64{mid(0, produce) / mid(1, produce), mid(0, consume) / mid(1, consume)}
	verdict := "holds"
	if ratios[0] < bound || ratios[1] < bound {
		verdict = "MISSED"
	}
	t.Logf("| %-13s | %-55s | %9.2f | %9.2f | %.2f | bound %.1f %s, load %.1f |", s, "ratio", ratios[0], ratios[1], mid(0, cpu)/mid(1, cpu), bound, verdict, load())
}

// serve writes a number of records to a new topic and reads them back.
func serve(t *testing.T, b broker, s shape, n int, topic string) turn {
	t.Helper()
	createTopic(t, b.client, topic, s.partitions, b.configs)
	defer deleteTopic(t, b.client, topic)
	before := cpuSeconds(t, b.pid)
	wrote := writeAll(t, b, s, n, topic)
	read := readAll(t, b, n, topic)
	mb := float64(n) * float64(s.size) / 1e6
	return turn{produce: mb / wrote.Seconds(), consume: mb / read.Seconds(), cpu: (cpuSeconds(t, b.pid) - before) / float64(n) * 1e6}
}

// writeAll is how long it takes until all records are acknowledged by acks=all.
func writeAll(t *testing.T, b broker, s shape, n int, topic string) time.Duration {
	t.Helper()
	c := client(t, b.address, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerBatchMaxBytes(1<<20-1024),
		kgo.ProducerLinger(2*time.Millisecond), kgo.MaxBufferedRecords(50_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer c.Close()
	value := make([]byte, s.size)
	_, _ = rand.Read(value)
	var failed atomic.Pointer[error]
	begun := time.Now()
	for range n {
		c.Produce(t.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := failed.Load(); err != nil {
		t.Fatalf("produce to %s: %v", b.name, *err)
	}
	return time.Since(begun)
}

// readAll is how long it takes to read that many records from the start.
func readAll(t *testing.T, b broker, n int, topic string) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	begun := time.Now()
	c := client(t, b.address, kgo.ConsumeTopics(topic), kgo.FetchMaxBytes(50<<20), kgo.FetchMaxPartitionBytes(1<<20))
	defer c.Close()
	for got := 0; got < n; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("consume from %s: %d of %d records: %v", b.name, got, n, err)
		}
		got += fetches.NumRecords()
	}
	return time.Since(begun)
}
