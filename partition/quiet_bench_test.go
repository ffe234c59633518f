package partition

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

// BenchmarkQuietMirrors is 1,000 mirrored partitions that get a record of 1 KiB a second each, one after the other. What counts
// are the processor's time that a record takes until it is shown, and how late it is.
func BenchmarkQuietMirrors(b *testing.B) {
	const partitions, rate = 1000, 1000
	bed := newBed(b, meta.RoleMirror, partitions)
	data := batch.Batches(made{id: foreignID(1), values: []string{strings.Repeat("x", 1024)}, ts: 1}.build(b))
	var mu sync.Mutex
	var late time.Duration
	put := func(n int) {
		p, at := bed.p(int32(n%partitions)), kafka.Offset(n/partitions)
		one := batch.Batches(append([]byte(nil), data...))
		for each := range one.All() {
			each.SetBaseOffset(at)
		}
		began := time.Now()
		bed.must(p.AppendMirrored(b.Context(), Mirrored{Generation: 1, FetchedAt: at, Batches: one}))
		bed.must(p.WaitSynced(b.Context(), at+1))
		mu.Lock()
		late += time.Since(began)
		mu.Unlock()
	}
	var running sync.WaitGroup
	for n := range partitions {
		running.Go(func() { put(n) })
	}
	running.Wait()
	late = 0
	used := processorTime(b)
	b.ResetTimer()
	began := time.Now()
	n := 0
	for b.Loop() {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / rate)))
		at := partitions + n
		running.Go(func() { put(at) })
		n++
	}
	running.Wait()
	b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(n), "cpu-µs/record")
	b.ReportMetric(float64(late.Microseconds())/float64(n), "late-µs/record")
}

func processorTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
