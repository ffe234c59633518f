package source_test

import (
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/hawserio/hawser/store/disk"
)

// memory is an owner's stream in memory.
type memory struct {
	mu     sync.Mutex
	states map[kafka.TopicID]*meta.Partitions
}

func (m *memory) UpdatePartitions(_ context.Context, topics []kafka.TopicID, decide func(*meta.Partitions) (*meta.Partitions, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range topics {
		next, err := decide(&meta.Partitions{Topic: id, List: slices.Clone(m.states[id].List)})
		if err != nil {
			return err
		}
		if next != nil {
			m.states[id] = next
		}
	}
	return nil
}

// BenchmarkMirrorToDisk mirrors HAWSER_TEST_TOPIC of a real Kafka into partitions on disk, in HAWSER_TEST_DIR,
// and leaves them there with HAWSER_TEST_KEEP.
func BenchmarkMirrorToDisk(b *testing.B) {
	address, name := os.Getenv("HAWSER_TEST_KAFKA"), os.Getenv("HAWSER_TEST_TOPIC")
	if address == "" || name == "" {
		b.Skip("set HAWSER_TEST_KAFKA=host:port and HAWSER_TEST_TOPIC")
	}
	dir := os.Getenv("HAWSER_TEST_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	for range b.N {
		mirrorToDisk(b, address, name, dir)
	}
}

func mirrorToDisk(b *testing.B, address, name, dir string) {
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp(dir, "mirror")
	if err != nil {
		b.Fatal(err)
	}
	if os.Getenv("HAWSER_TEST_KEEP") == "" {
		defer os.RemoveAll(dir)
	}
	c, err := source.Dial(source.Config{Bootstrap: []string{address}, Dial: dialFar})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	topics, err := c.Topics(ctx, []string{name})
	if err != nil || topics[0].Err != nil {
		b.Fatal(topics, err)
	}
	store, err := disk.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	topic := &meta.Topic{ID: kafka.NewTopicID(), Name: name, Partitions: topics[0].Partitions}
	states := &meta.Partitions{Topic: topic.ID}
	for range topic.Partitions {
		states.List = append(states.List, meta.Partition{Role: meta.RoleMirror, Generation: 1})
	}
	stream := &memory{states: map[kafka.TopicID]*meta.Partitions{topic.ID: states}}
	owner := partition.NewOwner(partition.Config{ClusterID: "bench", ProducerPrefix: 7, SyncDelay: 10 * time.Millisecond}, store, stream)
	defer owner.Close()
	if err := owner.Open(topic, states, partition.TopicConfig{MaxMessageBytes: 1 << 20}); err != nil {
		b.Fatal(err)
	}
	var list []fetcher.Assignment
	ends := make([]kafka.Offset, topic.Partitions)
	for i := range ends {
		tp := kafka.TopicPartition{Topic: name, Partition: int32(i)}
		if ends[i], err = c.ListOffset(ctx, tp, -1); err != nil {
			b.Fatal(err)
		}
		target := owner.Get(kafka.PartitionID{Topic: topic.ID, Partition: int32(i)})
		list = append(list, fetcher.Assignment{Source: tp, SourceID: topics[0].ID, Mirror: tp, Target: target})
	}
	pool := fetcher.New(c, fetcher.Config{}, func(e fetcher.Event) { b.Log("event", e) })
	defer pool.Close()
	before := cpu()
	begun := time.Now()
	pool.Assign(list)
	var size int64
	for i, a := range list {
		p := a.Target.(*partition.Partition)
		w := partition.NewWaiter()
		p.Watch(w)
		for p.Offsets().HighWatermark < ends[i] {
			select {
			case <-w.C:
			case <-ctx.Done():
				b.Fatalf("%+v %+v", p.Offsets(), pool.Status(a.Mirror))
			}
		}
		p.Unwatch(w)
		size += p.Offsets().Size
	}
	took, used := time.Since(begun), cpu()-before
	mb := float64(size) / 1e6
	b.ReportMetric(mb/took.Seconds(), "MB/s")
	b.ReportMetric(mb/used.Seconds(), "MB/core-s")
	b.Logf("%.0f MB in %v with %v of CPU, largest RSS %d MB", mb, took, used, rss())
}

// far is a connection over a distance: what is written arrives a round trip later, and a round trip
// carries one window.
type far struct {
	net.Conn
	roundTrip time.Duration
	window    int
	next      time.Time
}

// dialFar dials, with HAWSER_TEST_ROUND_TRIP over a distance with windows of HAWSER_TEST_WINDOW bytes.
func dialFar(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	roundTrip, _ := time.ParseDuration(os.Getenv("HAWSER_TEST_ROUND_TRIP"))
	if err != nil || roundTrip <= 0 {
		return conn, err
	}
	window, _ := strconv.Atoi(os.Getenv("HAWSER_TEST_WINDOW"))
	return &far{Conn: conn, roundTrip: roundTrip, window: max(window, 1<<10)}, nil
}

func (f *far) Write(b []byte) (int, error) {
	time.Sleep(f.roundTrip)
	return f.Conn.Write(b)
}

func (f *far) Read(b []byte) (int, error) {
	time.Sleep(time.Until(f.next))
	n, err := f.Conn.Read(b[:min(len(b), f.window)])
	f.next = time.Now().Add(time.Duration(float64(f.roundTrip) * float64(n) / float64(f.window)))
	return n, err
}

// BenchmarkConsumeFar reads the topic with a stock client over the same distance, to compare.
func BenchmarkConsumeFar(b *testing.B) {
	address, name := os.Getenv("HAWSER_TEST_KAFKA"), os.Getenv("HAWSER_TEST_TOPIC")
	if address == "" || name == "" || os.Getenv("HAWSER_TEST_ROUND_TRIP") == "" {
		b.Skip("set HAWSER_TEST_KAFKA=host:port, HAWSER_TEST_TOPIC, HAWSER_TEST_ROUND_TRIP and HAWSER_TEST_WINDOW")
	}
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(name), kgo.Dialer(dialFar))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	bytes, begun := 0, time.Now()
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { bytes += len(r.Value) })
	}
	b.ReportMetric(float64(bytes)/1e6/time.Since(begun).Seconds(), "MB/s")
}

func usage() (u syscall.Rusage) {
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u
}

func cpu() time.Duration {
	u := usage()
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func rss() int64 { return usage().Maxrss >> 10 }

// BenchmarkQuietPartitions mirrors 1,000 partitions of a real Kafka that get a record a second each, and
// measures how long after the producer's acknowledgement a record is in the mirror.
func BenchmarkQuietPartitions(b *testing.B) {
	address := os.Getenv("HAWSER_TEST_KAFKA")
	if address == "" {
		b.Skip("set HAWSER_TEST_KAFKA=host:port")
	}
	const partitions, seconds = 1000, 10
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	topic := "quiet-" + kafka.NewTopicID().String()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if resp, err := admin.CreateTopic(ctx, partitions, 1, nil, topic); err != nil || resp.Err != nil {
		b.Fatal(resp, err)
	}
	defer admin.DeleteTopic(context.Background(), topic)
	c, err := source.Dial(source.Config{Bootstrap: []string{address}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	topics, err := c.Topics(ctx, []string{topic})
	if err != nil {
		b.Fatal(err)
	}
	pool := fetcher.New(c, fetcher.Config{}, nil)
	defer pool.Close()
	var list []fetcher.Assignment
	targets := make([]*stubtest.Target, partitions)
	for i := range targets {
		tp := kafka.TopicPartition{Topic: topic, Partition: int32(i)}
		targets[i] = stubtest.NewTarget(0).CountOnly()
		list = append(list, fetcher.Assignment{Source: tp, SourceID: topics[0].ID, Mirror: tp, Target: targets[i]})
	}
	pool.Assign(list)
	var mu sync.Mutex
	var lags []time.Duration
	var wg sync.WaitGroup
	record := func(i int) {
		if err := client.ProduceSync(ctx, &kgo.Record{Partition: int32(i), Value: []byte("quiet")}).FirstErr(); err != nil {
			b.Error(err)
			return
		}
		acked := time.Now()
		targets[i].Await(ctx, func(o partition.Offsets) bool { return o.LogEnd > 0 })
		mu.Lock()
		lags = append(lags, time.Since(acked))
		mu.Unlock()
	}
	for i := range partitions {
		record(i)
	}
	lags = nil
	before, tick := cpu(), time.NewTicker(time.Second/partitions)
	defer tick.Stop()
	for n := range partitions * seconds {
		<-tick.C
		i := n % partitions
		round := kafka.Offset(n/partitions + 2)
		wg.Go(func() {
			if err := client.ProduceSync(ctx, &kgo.Record{Partition: int32(i), Value: []byte("quiet")}).FirstErr(); err != nil {
				b.Error(err)
				return
			}
			acked := time.Now()
			targets[i].Await(ctx, func(o partition.Offsets) bool { return o.LogEnd >= round })
			mu.Lock()
			defer mu.Unlock()
			lags = append(lags, time.Since(acked))
		})
	}
	wg.Wait()
	slices.Sort(lags)
	b.Logf("%d records, lag p50 %v p99 %v max %v, CPU with the producer %v", len(lags), lags[len(lags)/2], lags[len(lags)*99/100], lags[len(lags)-1], cpu()-before)
	b.ReportMetric(float64(lags[len(lags)*99/100].Microseconds())/1000, "p99-ms")
}
