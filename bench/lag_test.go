//go:build bench

package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	lagTopic = "steady"
	lagRate  = 1000 // records a second over all partitions
	lagWarm  = 5 * time.Second
	lagFor   = 20 * time.Second
	lagTotal = int64((lagWarm + lagFor) / time.Second * lagRate)
)

// lagPartitions is over how many partitions the records are spread: with 1,000 each is a quiet one of a record a second.
var lagPartitions int32

// TestLag writes at a fixed rate and measures how old records are when a consumer
// at the destination has them, beside a consumer at the source.
func TestLag(t *testing.T) {
	lagPartitions = int32(envInt(t, "HAWSER_LAG_PARTITIONS", 100))
	source, destination := startKafka(t, "source"), startKafka(t, "destination")
	createTopic(t, source.client, lagTopic, lagPartitions, nil)
	fmt.Printf("lag: %d records of %d bytes a second over %d partitions for %v after %v, load average %.1f\n", lagRate, recordBytes, lagPartitions, lagFor, lagWarm, load())
	ours := func(settings ...string) func(*testing.T, string, int64) {
		return func(t *testing.T, name string, before int64) {
			h := startHawser(t, source.bootstrap, settings...)
			defer h.remove()
			h.mirror(t, lagTopic)
			waitFor(t, h.client, lagTopic, before)
			lagRun(t, name, source, h.kafka, lagTopic, h.pid())
		}
	}
	theirs := func(alias string, configs map[string]*string) func(*testing.T, string, int64) {
		return func(t *testing.T, name string, before int64) {
			topic := alias + "." + lagTopic
			createTopic(t, destination.client, topic, lagPartitions, configs)
			mm := startMirrorMaker(t, alias, source, destination, lagTopic, "0")
			defer mm.kill()
			waitFor(t, destination.client, topic, before)
			lagRun(t, name, source, destination.bootstrap, topic, mm.pid(), destination.pid())
		}
	}
	one := "1"
	for i, way := range []struct {
		name string
		run  func(t *testing.T, name string, before int64)
	}{
		{"hawser", ours()},
		{"hawser without sync", ours(unsynced)},
		{"MirrorMaker 2", theirs("lag1", nil)},
		{"MirrorMaker 2, flush.messages=1", theirs("lag2", map[string]*string{"flush.messages": &one})},
	} {
		prime(t, source)
		before := int64(i+1)*int64(lagPartitions) + int64(i)*lagTotal
		t.Run(way.name, func(t *testing.T) { way.run(t, way.name, before) })
	}
}

// prime writes one record to each partition, by which a copy shows that it is at work.
func prime(t *testing.T, source *kafkaBroker) {
	t.Helper()
	c := client(t, source.bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer c.Close()
	for p := range lagPartitions {
		if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: lagTopic, Partition: p, Value: make([]byte, 8)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func waitFor(t *testing.T, c *kgo.Client, topic string, records int64) {
	t.Helper()
	eventually(t, startWithin, "the copy follows", func(ctx context.Context) (bool, string) {
		n, err := landed(ctx, c, topic, lagPartitions)
		return n >= records, fmt.Sprintf("%d of %d records, %v", n, records, err)
	})
}

// ages collects how old records were when a consumer had them.
type ages struct {
	run  uint64 // whose records count: the topic holds those of earlier runs too
	mu   sync.Mutex
	list []time.Duration // without those of the warm-up
	seen int64           // with those of the warm-up
}

// follow consumes a topic until the context ends. A record's value begins with its
// run and the moment when it was handed to the producer, on our clock.
func (a *ages) follow(ctx context.Context, c *kgo.Client, began time.Time) {
	for ctx.Err() == nil {
		fetches := c.PollFetches(ctx)
		now := time.Since(began)
		a.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			if len(r.Value) != recordBytes || binary.BigEndian.Uint64(r.Value) != a.run {
				return
			}
			a.seen++
			if sent := time.Duration(binary.BigEndian.Uint64(r.Value[8:])); sent >= lagWarm {
				a.list = append(a.list, now-sent)
			}
		})
		a.mu.Unlock()
	}
}

func (a *ages) count() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

// quantile takes q of 0 to 1.
func (a *ages) quantile(q float64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := slices.Sorted(slices.Values(a.list))
	return list[min(len(list)-1, int(q*float64(len(list))))]
}

var lagRuns uint64

// lagRun writes at the rate, at the moments that the rate asks for, whatever the
// answers do, and prints how old records are at both ends.
func lagRun(t *testing.T, name string, source *kafkaBroker, destination, topic string, pids ...int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var consumers sync.WaitGroup
	defer consumers.Wait()
	defer cancel()
	lagRuns++
	here, there := ages{run: lagRuns}, ages{run: lagRuns}
	consume := func(bootstrap, topic string, into *ages, began time.Time) {
		c := client(t, bootstrap, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMinBytes(1))
		consumers.Go(func() { into.follow(ctx, c, began) })
	}
	w := startWatch(t, []int{source.pid(), os.Getpid()}, pids...)
	consume(source.bootstrap, lagTopic, &here, w.began)
	consume(destination, topic, &there, w.began)
	producer := client(t, source.bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	var late time.Duration
	for n := range lagTotal {
		due := time.Duration(n) * time.Second / lagRate
		pause(ctx, due-time.Since(w.began))
		sent := time.Since(w.began)
		late = max(late, sent-due)
		value := make([]byte, recordBytes)
		binary.BigEndian.PutUint64(value, lagRuns)
		binary.BigEndian.PutUint64(value[8:], uint64(sent))
		producer.Produce(ctx, &kgo.Record{Topic: lagTopic, Partition: int32(n % int64(lagPartitions)), Value: value}, nil)
	}
	if err := producer.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the last record is at both ends", func(context.Context) (bool, string) {
		return here.count() == lagTotal && there.count() >= lagTotal, fmt.Sprintf("of %d records, %d at the source, %d at the destination", lagTotal, here.count(), there.count())
	})
	r := w.stop(t, lagTotal)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
	fmt.Printf("lag %-32s p50 %s, p99 %s; at the source p50 %s, p99 %s; beyond it p50 %s, p99 %s; %.2f CPU s for %d records; the producer was up to %s late; load %.1f, others used %.1f CPUs\n",
		name, ms(there.quantile(0.5)), ms(there.quantile(0.99)), ms(here.quantile(0.5)), ms(here.quantile(0.99)),
		ms(there.quantile(0.5)-here.quantile(0.5)), ms(there.quantile(0.99)-here.quantile(0.99)), r.cpu*float64(lagTotal*recordBytes)/1e9, lagTotal, ms(late), r.load, r.foreign)
}
