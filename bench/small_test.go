//go:build bench

package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pair is hawser and Apache Kafka at equal durability.
type pair struct {
	name    string
	brokers []broker
}

// pairs starts the brokers that are measured beside each other: as they are safe, and as Kafka is by default. With
// HAWSER_BENCH_BESIDE, another hawser binary, that one runs in the first pair as well: what a change has brought.
func pairs(t *testing.T) []pair {
	t.Helper()
	one := map[string]*string{"flush.messages": new(string)}
	*one["flush.messages"] = "1"
	k := startKafka(t, "kafka")
	synced, careless := startHawser(t, ""), startHawser(t, "", unsynced)
	list := []pair{
		{"synced", []broker{{"hawser", synced.client, synced.kafka, synced.pid(), nil}, {"Kafka, flush.messages=1", k.client, k.bootstrap, k.pid(), one}}},
		{"default", []broker{{"hawser without sync", careless.client, careless.kafka, careless.pid(), nil}, {"Kafka", k.client, k.bootstrap, k.pid(), nil}}},
	}
	if beside := os.Getenv("HAWSER_BENCH_BESIDE"); beside != "" {
		other := startBinary(t, beside, "")
		list[0].brokers = append(list[0].brokers, broker{"hawser beside", other.client, other.kafka, other.pid(), nil})
	}
	return list
}

// figures are named numbers of one turn, in the order in which they are printed.
type figures struct {
	names  []string
	values []float64
}

func (f *figures) add(name string, value float64) {
	f.names, f.values = append(f.names, name), append(f.values, value)
}

// inTurn measures each broker of a pair in turn, once uncounted, and prints the medians and what hawser's are of the others'.
func inTurn(t *testing.T, p pair, what string, measure func(b broker, topic string) figures) {
	t.Helper()
	runs := envInt(t, "HAWSER_BENCH_RUNS", 3)
	turns := make([][]figures, len(p.brokers))
	for run := range runs + 1 {
		for j := range p.brokers {
			at := (run + j) % len(p.brokers)
			f := measure(p.brokers[at], fmt.Sprintf("%s-%s-%d-%d", strings.NewReplacer(" ", "-", ",", "").Replace(what), p.name, run, at))
			if run > 0 {
				turns[at] = append(turns[at], f)
			}
		}
	}
	var first []float64
	for at, b := range p.brokers {
		var words []string
		for i, name := range turns[at][0].names {
			m := middle(turns[at], i)
			if at == 0 {
				first = append(first, m)
			}
			words = append(words, fmt.Sprintf("%s %.4g (ratio %.2f)", name, m, first[i]/m))
		}
		fmt.Printf("%s | %s | %s | load %.1f\n", what, b.name, strings.Join(words, ", "), load())
	}
}

func middle(turns []figures, i int) float64 {
	var all []float64
	for _, f := range turns {
		all = append(all, f.values[i])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// TestBurst creates a topic of many partitions and writes a few records to each: what a partition's first record costs.
func TestBurst(t *testing.T) {
	all := pairs(t)
	for _, s := range []struct {
		partitions int32
		size, each int
	}{{100, 100 << 10, 1}, {100, 100 << 10, 6}, {1000, 100, 1}, {1000, 100, 10}} {
		for _, p := range all {
			inTurn(t, p, fmt.Sprintf("burst %d x %d B to %d partitions", s.each, s.size, s.partitions), func(b broker, topic string) figures {
				var f figures
				begun := time.Now()
				createTopic(t, b.client, topic, s.partitions, b.configs)
				defer deleteTopic(t, b.client, topic)
				f.add("create ms", ms(time.Since(begun)))
				before := cpuSeconds(t, b.pid)
				f.add("write ms", ms(writeAll(t, b, shape{s.size, s.partitions}, s.each*int(s.partitions), topic)))
				f.add("cpu ms", (cpuSeconds(t, b.pid)-before)*1000)
				return f
			})
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// TestCreate creates topics of many partitions.
func TestCreate(t *testing.T) {
	for _, p := range pairs(t) {
		for _, n := range []int32{1000, 3000} { // Kafka takes half a minute for each thousand, and refuses 10,000 in one request
			if n > 1000 && p.name == "synced" {
				continue // flush.messages is no matter here
			}
			inTurn(t, p, fmt.Sprintf("create %d partitions", n), func(b broker, topic string) figures {
				var f figures
				before, begun := cpuSeconds(t, b.pid), time.Now()
				createTopic(t, b.client, topic, n, b.configs)
				f.add("ms", ms(time.Since(begun)))
				f.add("cpu ms", (cpuSeconds(t, b.pid)-before)*1000)
				begun = time.Now()
				deleteTopic(t, b.client, topic)
				f.add("delete ms", ms(time.Since(begun)))
				return f
			})
		}
	}
}

// TestLatency writes at a rate, at the moments that the rate asks for, and measures how old records are when they are
// acknowledged by acks=all and when a consumer has them.
func TestLatency(t *testing.T) {
	all := pairs(t)
	for _, partitions := range []int32{1, 50} {
		for _, rate := range []int{100, 1000, 10000} {
			for _, p := range all {
				inTurn(t, p, fmt.Sprintf("latency %d records a second over %d partitions", rate, partitions), func(b broker, topic string) figures {
					return latency(t, b, topic, rate, partitions)
				})
			}
		}
	}
}

func latency(t *testing.T, b broker, topic string, rate int, partitions int32) figures {
	t.Helper()
	createTopic(t, b.client, topic, partitions, b.configs)
	defer deleteTopic(t, b.client, topic)
	const warm, during = time.Second, 3 * time.Second
	total := int(warm+during) / int(time.Second) * rate
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	consumer := client(t, b.address, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMinBytes(1))
	defer consumer.Close()
	producer := client(t, b.address, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(0))
	defer producer.Close()
	began, before := time.Now(), cpuSeconds(t, b.pid)
	var mu sync.Mutex
	var acked, seen []time.Duration
	var reading sync.WaitGroup
	reading.Go(func() {
		for n := 0; n < total && ctx.Err() == nil; {
			fetches := consumer.PollFetches(ctx)
			now := time.Since(began)
			fetches.EachRecord(func(r *kgo.Record) {
				n++
				if sent := time.Duration(binary.BigEndian.Uint64(r.Value)); sent >= warm {
					seen = append(seen, now-sent)
				}
			})
		}
	})
	for n := range total {
		pause(ctx, time.Duration(n)*time.Second/time.Duration(rate)-time.Since(began))
		sent := time.Since(began)
		value := make([]byte, 100)
		binary.BigEndian.PutUint64(value, uint64(sent))
		producer.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			took := time.Since(began) - sent
			mu.Lock()
			defer mu.Unlock()
			if err == nil && sent >= warm {
				acked = append(acked, took)
			}
		})
	}
	if err := producer.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	reading.Wait()
	if len(acked) != len(seen) || len(seen) == 0 {
		t.Fatalf("%s: %d records acknowledged, %d consumed", b.name, len(acked), len(seen))
	}
	var f figures
	f.add("ack p50", ms(quantile(acked, 0.5)))
	f.add("ack p99", ms(quantile(acked, 0.99)))
	f.add("seen p50", ms(quantile(seen, 0.5)))
	f.add("seen p99", ms(quantile(seen, 0.99)))
	f.add("cpu µs/record", (cpuSeconds(t, b.pid)-before)*1e6/float64(total))
	return f
}

func quantile(list []time.Duration, q float64) time.Duration {
	slices.Sort(list)
	return list[min(len(list)-1, int(q*float64(len(list))))]
}

// TestClients has 100 clients write one record at a time, each to its own partition or all to one.
func TestClients(t *testing.T) {
	const clients, during = 100, 3 * time.Second
	all := pairs(t)
	for _, partitions := range []int32{1, 100} {
		for _, p := range all {
			inTurn(t, p, fmt.Sprintf("%d clients, %d partitions", clients, partitions), func(b broker, topic string) figures {
				createTopic(t, b.client, topic, partitions, b.configs)
				defer deleteTopic(t, b.client, topic)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var requests atomic.Int64
				var running sync.WaitGroup
				ready := make(chan struct{})
				for n := range clients {
					c := client(t, b.address, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.DisableIdempotentWrite())
					defer c.Close()
					record := kgo.Record{Partition: int32(n) % partitions, Value: make([]byte, 100)}
					first := record
					if err := c.ProduceSync(ctx, &first).FirstErr(); err != nil {
						t.Fatal(err)
					}
					running.Go(func() {
						<-ready
						for ctx.Err() == nil {
							next := record
							if c.ProduceSync(ctx, &next).FirstErr() == nil {
								requests.Add(1)
							}
						}
					})
				}
				before := cpuSeconds(t, b.pid)
				close(ready)
				pause(ctx, during)
				done, used := requests.Load(), cpuSeconds(t, b.pid)-before
				cancel()
				running.Wait()
				var f figures
				f.add("requests/s", float64(done)/during.Seconds())
				f.add("cpu µs/request", used*1e6/float64(done))
				return f
			})
		}
	}
}
