//go:build e2e

package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

// Moments at which a kill may strike, spread over what a mirroring broker does.
var moments = []string{"fetch", "append", "roll", "index", "metadata"}

// TestC104_KillWhileMirroring kills hawser with SIGKILL again and again while
// it copies at full speed and takes acks=all records beside, each time at the
// moment of a chosen kind of write, and wants everything to be there at the end.
func TestC104_KillWhileMirroring(t *testing.T) {
	kills := envInt("HAWSER_KILLS", 15)
	k := SharedKafka(t)
	source := Client(t, k.Bootstrap())
	const partitions = 4
	topic := "bulk-kill"
	CreateTopic(t, source, topic, partitions, 1, map[string]string{"segment.bytes": "67108864"})
	perKill := int64(100 << 20)
	total := fillBulk(t, k, topic, partitions, max(600<<20, int64(kills)*perKill/2))

	mapping, bootstrap, proxies := ProxyAll(t, k)
	h := StartHawser(t)
	plain := Client(t, h.Kafka)
	CreateTopic(t, plain, "beside", 1, 1, nil)
	side := startSide(t, h)
	h.CreateLink("east", bootstrap, map[string]string{"bootstrap.address.map": mapping})
	h.Must("POST", h.path("/links/east/mirrors"), map[string]any{
		"source_topic_name": topic, "configs": []map[string]string{{"name": "segment.bytes", "value": "8388608"}},
	})
	began := time.Now()
	counts := map[string]int{}
	for i := range kills {
		moment := moments[i%len(moments)]
		counts[waitForMoment(t, h, moment, proxies)]++
		h.Kill()
		h.Start()
	}
	WaitLevel(t, source, Client(t, h.Kafka), topic, partitions, 4*time.Minute)
	took := time.Since(began)
	sent := side.stop()

	mirror := Client(t, h.Kafka)
	SameAll(t, source, mirror, topic, partitions)
	side.check(t, mirror, sent)
	var fetched int64
	for _, p := range proxies {
		fetched += p.Back.Load()
	}
	again := fetched - total
	bound := int64(kills) * (256 << 20)
	t.Logf("%d kills at %v; %d MB mirrored in %.1f s (%.0f MB/s, restarts included); %d MB fetched again, %.1f MB a kill; %d acks=all records beside, all there",
		kills, counts, total>>20, took.Seconds(), float64(total>>20)/took.Seconds(), again>>20, float64(again>>20)/float64(kills), sent)
	if again > bound {
		t.Errorf("%d MB were fetched again, more than %d MB", again>>20, bound>>20)
	}
}

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// fillBulk writes about size bytes of incompressible records and returns the bytes in the source's log.
func fillBulk(t *testing.T, k *Kafka, topic string, partitions int32, size int64) int64 {
	t.Helper()
	client := Client(t, k.Bootstrap(), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(1<<20),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(4000), kgo.ProducerLinger(5*time.Millisecond))
	value := make([]byte, 16<<10)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	var failed sync.Map
	for n := int64(0); n < size; n += int64(len(value)) {
		client.Produce(testContext(t), &kgo.Record{Partition: int32(n/int64(len(value))) % partitions, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store("err", err)
			}
		})
	}
	if err := client.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err, bad := failed.Load("err"); bad {
		t.Fatalf("fill %s: %v", topic, err)
	}
	return size
}

// waitForMoment returns at once when a write of the kind is seen, or after a while with what it saw instead.
func waitForMoment(t *testing.T, h *Hawser, moment string, proxies []*Proxy) string {
	t.Helper()
	if moment == "fetch" {
		target := proxies[0].Back.Load() + proxies[1].Back.Load() + proxies[2].Back.Load() + int64(rand.IntN(32<<20))
		for range 2000 {
			if proxies[0].Back.Load()+proxies[1].Back.Load()+proxies[2].Back.Load() > target {
				return moment
			}
			pause(testContext(t), time.Millisecond)
		}
		return "idle"
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	data := filepath.Join(h.dir, "data")
	dirs, _ := filepath.Glob(filepath.Join(data, "data", "*"))
	if moment == "metadata" {
		dirs = nil
		_ = filepath.WalkDir(filepath.Join(data, "meta"), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	for _, dir := range dirs {
		if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
			t.Fatal(err)
		}
	}
	buffer := make([]byte, 64<<10)
	skip := rand.IntN(20)
	if moment == "roll" || moment == "index" || moment == "metadata" {
		skip = rand.IntN(2)
	}
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, _ := unix.Poll(poll, 200); n == 0 {
			continue
		}
		n, err := unix.Read(fd, buffer)
		if err != nil {
			continue
		}
		if eventIs(moment, buffer[:n]) {
			if skip == 0 {
				return moment
			}
			skip--
		}
	}
	return "idle"
}

// eventIs looks for a file of the moment's kind among inotify events.
func eventIs(moment string, events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := uint32(events[4]) | uint32(events[5])<<8 | uint32(events[6])<<16 | uint32(events[7])<<24
		size := int(uint32(events[12]) | uint32(events[13])<<8)
		end := unix.SizeofInotifyEvent + size
		if end > len(events) {
			return false
		}
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00")
		events = events[end:]
		isLog := strings.HasSuffix(name, ".log")
		isIndex := strings.HasSuffix(name, "index") || strings.Contains(name, "index")
		switch moment {
		case "append":
			if isLog && mask&unix.IN_MODIFY != 0 {
				return true
			}
		case "roll":
			if isLog && mask&unix.IN_CREATE != 0 {
				return true
			}
		case "index":
			if isIndex {
				return true
			}
		case "metadata":
			return true
		}
	}
	return false
}

// side produces acks=all records to a plain topic of hawser and remembers what was acknowledged.
type side struct {
	cancel context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex // guards acked
	acked  []int
}

func startSide(t *testing.T, h *Hawser) *side {
	ctx, cancel := context.WithCancel(testContext(t))
	s := &side{cancel: cancel, done: make(chan struct{})}
	client := Client(t, h.Kafka, kgo.DefaultProduceTopic("beside"), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.MaxBufferedRecords(200),
		kgo.RetryTimeout(time.Minute), kgo.RequestRetries(1000), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	go func() {
		defer close(s.done)
		for n := 0; ctx.Err() == nil; n++ {
			client.Produce(testContext(t), kgo.StringRecord(strconv.Itoa(n)), func(_ *kgo.Record, err error) {
				if err == nil {
					s.mu.Lock()
					s.acked = append(s.acked, n)
					s.mu.Unlock()
				}
			})
			pause(ctx, 2*time.Millisecond)
		}
		_ = client.Flush(testContext(t))
	}()
	return s
}

func (s *side) stop() int {
	s.cancel()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked)
}

// check reads the topic and wants each acknowledged record exactly once: the producer is idempotent.
func (s *side) check(t *testing.T, client *kgo.Client, sent int) {
	t.Helper()
	if sent == 0 {
		t.Fatal("no record was acknowledged beside the mirror")
	}
	_, end := Ends(t, client, "beside", 0)
	found := map[int]int{}
	reader := Client(t, strings.Join(client.OptValue(kgo.SeedBrokers).([]string), ","), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"beside": {0: kgo.NewOffset().AtStart()}}))
	for next := int64(0); next < end; {
		fetches := reader.PollFetches(testContext(t))
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n, err := strconv.Atoi(string(r.Value))
			if err != nil {
				t.Errorf("record at %d is %q", r.Offset, r.Value)
			}
			found[n]++
			next = r.Offset + 1
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lost, doubled := 0, 0
	for _, n := range s.acked {
		switch c := found[n]; {
		case c == 0:
			lost++
		case c > 1:
			doubled++
		}
	}
	if lost > 0 || doubled > 0 {
		t.Errorf("of %d acknowledged records %d are lost and %d doubled", len(s.acked), lost, doubled)
	}
}
