//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

const (
	// floorMBs is a fifth of the goal, 80 % of the 350 MB/s that slow disks keep up. It is all that a short run judges:
	// what a disk takes of a gigabyte says more about memory than about the disk.
	floorMBs = 56
	// longRun is from how many bytes on the ratio to the disk is judged, leastOfDisk what it must be.
	longRun     = 6 << 30
	leastOfDisk = 0.5
	// diskSegment is how large the disk's files are, and the mirrored segments.
	diskSegment = 256 << 20
)

// TestThroughput_MirrorBesideDiskAndPlainConsumer mirrors a topic of stock Kafka until nothing is unsynced. Beside it,
// turn by turn, stand as many bytes written to the same disk in files of the same shape and synced, once through the
// system's page cache, as any program writes files, and once past it; and a plain consumer of the topic that keeps nothing.
func TestThroughput_MirrorBesideDiskAndPlainConsumer(t *testing.T) {
	const partitions, turns = 4, 3
	k := SharedKafka(t)
	source := Client(t, k.Bootstrap())
	topic := "bulk-throughput"
	CreateTopic(t, source, topic, partitions, 1, map[string]string{"segment.bytes": fmt.Sprint(diskSegment)})
	size := fillBulk(t, k, topic, partitions, int64(envInt("HAWSER_BULK_MB", 1024))<<20)
	defer deleteTopic(t, source, topic)
	var rates, toDisk, toRaw, toConsumer, perGB []float64
	for range turns {
		disk := diskRate(t, size, partitions, 0)
		raw := diskRate(t, size, partitions, unix.O_DIRECT)
		mirror, cpu := mirrorRate(t, k, source, topic, partitions, size)
		consumer := consumerRate(t, k, topic, partitions, size)
		t.Logf("mirror %.0f MB/s at %.2f CPU seconds per GB; disk %.0f MB/s (mirror is %.0f %%), past the page cache %.0f MB/s (%.0f %%), plain consumer %.0f MB/s (%.0f %%)",
			mirror, cpu, disk, 100*mirror/disk, raw, 100*mirror/raw, consumer, 100*mirror/consumer)
		rates, toDisk, toRaw = append(rates, mirror), append(toDisk, mirror/disk), append(toRaw, mirror/raw)
		toConsumer, perGB = append(toConsumer, mirror/consumer), append(perGB, cpu)
	}
	t.Logf("medians of %d turns of %d MB: %.0f MB/s at %.2f CPU seconds per GB, %.0f %% of the disk, %.0f %% of it past the page cache, %.0f %% of a plain consumer",
		turns, size/1e6, median(rates), median(perGB), 100*median(toDisk), 100*median(toRaw), 100*median(toConsumer))
	if got := median(rates); got < floorMBs {
		t.Errorf("mirroring reaches %.0f MB/s, a fifth of its goal is %d", got, floorMBs)
	}
	if got := median(toDisk); size >= longRun && got < leastOfDisk {
		t.Errorf("mirroring reaches %.0f %% of what the disk takes, %.0f %% is the least", 100*got, 100*leastOfDisk)
	}
}

func deleteTopic(t *testing.T, client *kgo.Client, topic string) {
	t.Helper()
	if _, err := kadm.NewClient(client).DeleteTopics(testContext(t), topic); err != nil {
		t.Errorf("delete topic %s: %v", topic, err)
	}
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// rate is in MB/s.
func rate(size int64, took time.Duration) float64 { return float64(size) / 1e6 / took.Seconds() }

// diskRate writes as many bytes as a mirror does in files of the same shape, in turn to each partition's, and syncs them all at the end.
func diskRate(t *testing.T, size int64, partitions int, flags int) float64 {
	t.Helper()
	chunk, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned, as O_DIRECT wants it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(chunk) }()
	random := rand.New(rand.NewPCG(3, 4))
	for i := range chunk {
		chunk[i] = byte(random.Uint32())
	}
	dir := t.TempDir()
	unix.Sync() // or the disk would still be busy with what was before
	began := time.Now()
	var all []*os.File
	for written := int64(0); written < size; written += int64(partitions * len(chunk)) {
		if written%int64(partitions*diskSegment) == 0 {
			for p := range partitions {
				f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%d-%d", p, written)), os.O_CREATE|os.O_WRONLY|flags, 0o644)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = f.Close(); _ = os.Remove(f.Name()) }()
				all = append(all, f)
			}
		}
		for _, f := range all[len(all)-partitions:] {
			if _, err := f.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, f := range all {
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			t.Fatal(err)
		}
	}
	return rate(size, time.Since(began))
}

// mirrorRate mirrors the topic into a new hawser, from the order to lag 0 at the synced end; and the CPU seconds per GB.
func mirrorRate(t *testing.T, k *Kafka, source *kgo.Client, topic string, partitions int32, size int64) (mbs, cpu float64) {
	t.Helper()
	h := StartHawser(t)
	defer func() { h.Stop(); os.RemoveAll(filepath.Join(h.dir, "data")) }()
	h.CreateLink("east", k.Bootstrap(), nil)
	mirror := Client(t, h.Kafka)
	unix.Sync()
	before, began := cpuSeconds(t, h.Pid), time.Now()
	h.CreateMirror("east", topic)
	WaitLevel(t, source, mirror, topic, partitions, 3*time.Minute)
	took := time.Since(began)
	if m := h.Mirror("east", topic); m.Lag != 0 {
		t.Errorf("the mirror is level and shows lag %d", m.Lag)
	}
	return rate(size, took), (cpuSeconds(t, h.Pid) - before) / (float64(size) / 1e9)
}

// consumerRate reads the topic to its end and drops what it reads.
func consumerRate(t *testing.T, k *Kafka, topic string, partitions int32, size int64) float64 {
	t.Helper()
	began := time.Now()
	offsets := map[int32]kgo.Offset{}
	for p := range partitions {
		offsets[p] = kgo.NewOffset().AtStart()
	}
	client := Client(t, k.Bootstrap(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}), kgo.FetchMaxBytes(64<<20), kgo.FetchMaxPartitionBytes(8<<20))
	defer client.Close()
	for n := int64(0); n < size; {
		fetches := client.PollFetches(testContext(t))
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { n += int64(len(r.Value)) })
	}
	return rate(size, time.Since(began))
}

// cpuSeconds is what a process has used, user and system.
func cpuSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime, the 14th and 15th of all
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	const perSecond = 100 // USER_HZ, fixed on every Linux that Go runs on
	return float64(ticks) / perSecond
}
