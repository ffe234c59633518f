//go:build bench

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

const (
	bulkTopic      = "bulk"
	bulkPartitions = 4
	recordBytes    = 1024
	copyWithin     = 20 * time.Minute
)

// result is one measurement of one way to copy.
type result struct {
	mbs     float64 // MB of record values a second
	cpu     float64 // CPU seconds per GB; 0 where it is not measured
	peak    float64 // MB resident; 0 where it is not measured
	broker  float64 // MB resident of the destination broker, where that is a process beside the copier
	load    float64 // load average of the machine at the start
	foreign float64 // CPUs' worth of work on the machine by processes that are no part of the measurement
}

// TestThroughput copies the same topic in every way, in turn, and prints the medians.
func TestThroughput(t *testing.T) {
	size, runs := int64(envInt(t, "HAWSER_BENCH_MB", 1024))<<20, envInt(t, "HAWSER_BENCH_RUNS", 3)
	source := startKafka(t, "source")
	records := fill(t, source, size)
	bulk := copied{bulkTopic, bulkPartitions, records}
	if beside := os.Getenv("HAWSER_BENCH_BESIDE"); beside != "" {
		besideRuns(t, source, bulk, runs, beside)
		return
	}
	destination := startKafka(t, "destination")
	ways := []struct {
		name string
		run  func(*testing.T) result
	}{
		{"disk, write and fdatasync", func(t *testing.T) result { return diskRun(t, size) }},
		{"plain consumer (kgo)", func(t *testing.T) result { return consumerRun(t, source, records) }},
		{"hawser", func(t *testing.T) result { return hawserRun(t, source, bulk) }},
		{"hawser without sync", func(t *testing.T) result { return hawserRun(t, source, bulk, unsynced) }},
		{"MirrorMaker 2", func(t *testing.T) result { return mirrorMakerRun(t, source, destination, bulk, nil) }},
		{"MirrorMaker 2, flush.messages=1", func(t *testing.T) result {
			one := "1"
			return mirrorMakerRun(t, source, destination, bulk, map[string]*string{"flush.messages": &one})
		}},
	}
	ways[2].run(t) // the source's pages and the binary's are in memory from here on
	fmt.Printf("%d runs of %.0f MB in %d partitions, records of %d bytes, load average %.1f\n", runs, float64(size)/1e6, bulkPartitions, recordBytes, load())
	results := make([][]result, len(ways))
	for run := range runs {
		for i, way := range ways {
			syncDisk(t)
			r := way.run(t)
			fmt.Printf("run %d  %-32s %s\n", run+1, way.name, r)
			results[i] = append(results[i], r)
		}
	}
	medians := make([]result, len(ways))
	for i, way := range ways {
		medians[i] = medianOf(results[i])
		fmt.Printf("median %-32s %s\n", way.name, medians[i])
	}
	disk, plain, ours := medians[0], medians[1], medians[2]
	fmt.Printf("hawser: %.0f %% of the disk, %.0f %% of the plain consumer, %.0f MB per core-second\n", 100*ours.mbs/disk.mbs, 100*ours.mbs/plain.mbs, 1000/ours.cpu)
	for i := 4; i < len(ways); i++ {
		theirs := medians[i]
		fmt.Printf("hawser beside %s: %.1f times the rate, 1/%.1f of the CPU seconds per GB, 1/%.1f of the memory\n",
			ways[i].name, ours.mbs/theirs.mbs, theirs.cpu/ours.cpu, (theirs.peak+theirs.broker)/ours.peak)
	}
}

// besideRuns copies the topic with two binaries in turn, and prints what the first has of the second's figures: in each
// turn, and in the median. On a machine that others use too only that counts.
func besideRuns(t *testing.T, source *kafkaBroker, bulk copied, runs int, beside string) {
	t.Helper()
	binaries := [2]string{hawserBinary(t), beside}
	hawserRun(t, source, bulk)
	var rates, cpus []float64
	for run := range runs {
		var pair [2]result
		for i := range pair {
			at := (run + i) % 2 // who is first changes from turn to turn
			syncDisk(t)
			pair[at] = binaryRun(t, binaries[at], source, bulk)
		}
		rates, cpus = append(rates, pair[0].mbs/pair[1].mbs), append(cpus, pair[0].cpu/pair[1].cpu)
		fmt.Printf("turn %d  hawser %s\n        beside %s\n        ratio  %.2f of the rate, %.2f of the CPU\n", run+1, pair[0], pair[1], rates[run], cpus[run])
	}
	slices.Sort(rates)
	slices.Sort(cpus)
	fmt.Printf("median of %d turns: %.2f of the rate, %.2f of the CPU seconds per GB\n", runs, rates[runs/2], cpus[runs/2])
}

func (r result) String() string {
	text := fmt.Sprintf("%6.0f MB/s", r.mbs)
	if r.cpu > 0 {
		text += fmt.Sprintf("  %5.2f CPU s/GB", r.cpu)
	}
	if r.peak > 0 {
		text += fmt.Sprintf("  peak %4.0f MB", r.peak)
	}
	if r.broker > 0 {
		text += fmt.Sprintf(" + %4.0f MB of the destination", r.broker)
	}
	return text + fmt.Sprintf("  (load %.1f, others used %.1f CPUs)", r.load, r.foreign)
}

func medianOf(list []result) result {
	pick := func(of func(result) float64) float64 {
		var values []float64
		for _, r := range list {
			values = append(values, of(r))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return result{
		mbs: pick(func(r result) float64 { return r.mbs }), cpu: pick(func(r result) float64 { return r.cpu }),
		peak: pick(func(r result) float64 { return r.peak }), broker: pick(func(r result) float64 { return r.broker }),
		load: pick(func(r result) float64 { return r.load }), foreign: pick(func(r result) float64 { return r.foreign }),
	}
}

// watch is a clock, the CPU seconds of some processes and the machine's, from one moment on.
type watch struct {
	pids      []int // what is counted
	part      []int // what takes part: those, the source and the measuring process
	began     time.Time
	cpu, busy float64
	load      float64
}

// startWatch counts the processes; the others that take part are told from the rest of the machine.
func startWatch(t *testing.T, others []int, pids ...int) watch {
	t.Helper()
	w := watch{pids: pids, part: slices.Concat(pids, others), load: load(), began: time.Now()}
	w.cpu, w.busy = cpuSeconds(t, pids...), busy(t)-cpuSeconds(t, w.part...)
	return w
}

func (w watch) stop(t *testing.T, records int64) result {
	t.Helper()
	took := time.Since(w.began).Seconds()
	used, foreign, size := cpuSeconds(t, w.pids...)-w.cpu, busy(t)-cpuSeconds(t, w.part...)-w.busy, float64(records*recordBytes)
	return result{mbs: size / 1e6 / took, cpu: used / (size / 1e9), load: w.load, foreign: max(0, foreign) / took}
}

// fill writes the bulk topic and returns how many records it holds.
func fill(t *testing.T, source *kafkaBroker, size int64) int64 {
	t.Helper()
	createTopic(t, source.client, bulkTopic, bulkPartitions, nil)
	c := client(t, source.bootstrap, kgo.DefaultProduceTopic(bulkTopic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(1<<20),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(40000), kgo.ProducerLinger(5*time.Millisecond))
	defer c.Close()
	random := rand.New(rand.NewPCG(1, 2))
	values := make([]byte, 1<<20)
	for i := range values {
		values[i] = byte(random.Uint32())
	}
	records := size / recordBytes
	produceAll(t, c, records, func(n int64) *kgo.Record {
		at := int(n) * recordBytes % len(values)
		return &kgo.Record{Partition: int32(n % bulkPartitions), Value: values[at : at+recordBytes]}
	})
	return records
}

// produceAll produces n records, record(0) to record(n-1), and wants each acknowledged.
func produceAll(t *testing.T, c *kgo.Client, n int64, record func(i int64) *kgo.Record) {
	t.Helper()
	failed := make(chan error, 1)
	for i := range n {
		c.Produce(t.Context(), record(i), func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		t.Fatalf("produce %d records: %v", n, err)
	default:
	}
}

// syncDisk lets no way pay for the writes of the one before.
func syncDisk(t *testing.T) {
	t.Helper()
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		t.Fatal(err)
	}
}

// diskRun writes as many bytes one after the other and syncs them once.
func diskRun(t *testing.T, size int64) result {
	t.Helper()
	chunk := make([]byte, 1<<20)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range chunk {
		chunk[i] = byte(random.Uint32())
	}
	path := filepath.Join(t.TempDir(), "disk")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	defer f.Close()
	w := startWatch(t, nil, os.Getpid())
	for n := int64(0); n < size; n += int64(len(chunk)) {
		if _, err := f.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
	return w.stop(t, size/recordBytes)
}

// consumerRun reads the topic to its end and drops what it reads.
func consumerRun(t *testing.T, source *kafkaBroker, records int64) result {
	t.Helper()
	w := startWatch(t, []int{source.pid()}, os.Getpid())
	c := client(t, source.bootstrap, kgo.ConsumeTopics(bulkTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(64<<20), kgo.FetchMaxPartitionBytes(8<<20))
	defer c.Close()
	for n := int64(0); n < records; {
		fetches := c.PollFetches(t.Context())
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		n += int64(fetches.NumRecords())
	}
	return w.stop(t, records)
}

// copied is a topic to copy.
type copied struct {
	topic      string
	partitions int32
	records    int64
}

// hawserRun mirrors the topic into a new hawser. The clock runs from the order
// until all high watermarks, which are ends of what is synced, are the source's ends.
func hawserRun(t *testing.T, source *kafkaBroker, what copied, settings ...string) result {
	t.Helper()
	return binaryRun(t, hawserBinary(t), source, what, settings...)
}

// binaryRun is hawserRun of a binary.
func binaryRun(t *testing.T, binary string, source *kafkaBroker, what copied, settings ...string) result {
	t.Helper()
	h := startBinary(t, binary, source.bootstrap, settings...)
	defer h.remove()
	w := startWatch(t, []int{source.pid(), os.Getpid()}, h.pid())
	h.mirror(t, what.topic)
	eventually(t, copyWithin, "the mirror is level", func(ctx context.Context) (bool, string) {
		if h.ended() {
			t.Fatalf("hawser ended:\n%s", h.tail())
		}
		n, err := landed(ctx, h.client, what.topic, what.partitions)
		return n == what.records, fmt.Sprintf("%d of %d records, %v", n, what.records, err)
	})
	r := w.stop(t, what.records)
	r.peak = peakMB(t, h.pid())
	return r
}

var mirrorMakers int // how many have run; each has an alias of its own

// mirrorMakerRun copies the topic to the destination with a new MirrorMaker 2.
// Clock and CPU seconds run only from when an eighth of the records has landed:
// neither the start of a JVM nor the first compiling of its code count.
func mirrorMakerRun(t *testing.T, source, destination *kafkaBroker, what copied, configs map[string]*string) result {
	t.Helper()
	mirrorMakers++
	alias := fmt.Sprintf("src%d", mirrorMakers)
	topic := alias + "." + what.topic
	createTopic(t, destination.client, topic, what.partitions, configs)
	defer deleteTopic(t, destination.client, topic)
	mm := startMirrorMaker(t, alias, source, destination, what.topic, "5")
	defer mm.kill()
	reach := func(moment string, want int64) int64 {
		var n int64
		eventually(t, copyWithin, moment, func(ctx context.Context) (bool, string) {
			if mm.ended() {
				t.Fatalf("MirrorMaker 2 ended:\n%s", mm.tail())
			}
			var err error
			n, err = landed(ctx, destination.client, topic, what.partitions)
			return n >= want, fmt.Sprintf("%d of %d records, %v", n, want, err)
		})
		return n
	}
	warm := reach("MirrorMaker 2 is warm", what.records/8)
	w := startWatch(t, []int{source.pid(), os.Getpid()}, mm.pid(), destination.pid())
	end := reach("the copy is level", what.records)
	r := w.stop(t, end-warm)
	r.peak, r.broker = peakMB(t, mm.pid()), peakMB(t, destination.pid())
	return r
}

func envInt(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("%s=%s: want a number above 0", name, text)
	}
	return n
}
