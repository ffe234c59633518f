//go:build bench

package bench

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestSmallMirrors copies topics that are no stream of large batches: of a record a batch, of compressed batches, of many small partitions.
func TestSmallMirrors(t *testing.T) {
	runs := envInt(t, "HAWSER_BENCH_RUNS", 3)
	source, destination := startKafka(t, "source"), startKafka(t, "destination")
	random := make([]byte, 300)
	_, _ = rand.Read(random)
	for _, s := range []struct {
		name       string
		partitions int32
		records    int
		value      []byte
		options    []kgo.Opt
	}{
		{"a record a batch", 10, 100_000, random, []kgo.Opt{kgo.ProducerBatchMaxBytes(512), kgo.ProducerBatchCompression(kgo.NoCompression())}},
		{"zstd", 10, 200_000, bytes.Repeat([]byte("the same words "), 64), []kgo.Opt{kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerLinger(20 * time.Millisecond)}},
		{"200 partitions of 512 KiB", 200, 100_000, make([]byte, 1024), []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(20 * time.Millisecond)}},
	} {
		what := copied{fmt.Sprintf("small-%d-%d", s.partitions, s.records), s.partitions, int64(s.records)}
		createTopic(t, source.client, what.topic, what.partitions, nil)
		c := client(t, source.bootstrap, append(s.options, kgo.DefaultProduceTopic(what.topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MaxBufferedRecords(50_000))...)
		for range s.records {
			c.Produce(t.Context(), &kgo.Record{Value: s.value}, nil)
		}
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		ways := []func() result{
			func() result { return hawserRun(t, source, what) },
			func() result { return mirrorMakerRun(t, source, destination, what, nil) },
		}
		turns := make([][]result, len(ways))
		for run := range runs + 1 {
			for i, way := range ways {
				syncDisk(t)
				if r := way(); run > 0 {
					turns[i] = append(turns[i], r)
				}
			}
		}
		ours, theirs := medianOf(turns[0]), medianOf(turns[1])
		rate := func(r result) float64 { return r.mbs * 1e6 / recordBytes }
		used := func(r result) float64 { return r.cpu * recordBytes / 1e3 }
		fmt.Printf("mirror of %s: hawser %.0f records/s, %.2f CPU µs a record, %.0f MB; MirrorMaker 2 %.0f records/s, %.2f CPU µs, %.0f + %.0f MB; %.1f times the rate, 1/%.1f of the CPU; load %.1f\n",
			s.name, rate(ours), used(ours), ours.peak, rate(theirs), used(theirs), theirs.peak, theirs.broker, rate(ours)/rate(theirs), used(theirs)/used(ours), ours.load)
	}
}

// TestFairness mirrors a large topic from its start while records come to 100 quiet partitions: how old these are at the
// destination, beside the same without the large topic.
func TestFairness(t *testing.T) {
	source := startKafka(t, "source")
	lagPartitions = 100
	createTopic(t, source.client, lagTopic, lagPartitions, nil)
	records := fill(t, source, int64(envInt(t, "HAWSER_BENCH_MB", 1024))<<20)
	h := startHawser(t, source.bootstrap)
	prime(t, source)
	h.mirror(t, lagTopic)
	waitFor(t, h.client, lagTopic, int64(lagPartitions))
	lagRun(t, "quiet partitions alone", source, h.kafka, lagTopic, h.pid())
	begun := time.Now()
	h.mirror(t, bulkTopic)
	level := make(chan time.Duration, 1)
	go func() {
		for t.Context().Err() == nil {
			if n, err := landed(t.Context(), h.client, bulkTopic, bulkPartitions); err == nil && n == records {
				level <- time.Since(begun)
				return
			}
			pause(t.Context(), 50*time.Millisecond)
		}
	}()
	lagRun(t, "quiet partitions beside a catch-up", source, h.kafka, lagTopic, h.pid())
	select {
	case took := <-level:
		fmt.Printf("the large topic was level after %.1f s\n", took.Seconds())
	case <-time.After(copyWithin):
		t.Fatal("the large topic is not level")
	}
}
