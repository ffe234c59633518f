package partition

import (
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

// BenchmarkFirstRecord is 1,000 new partitions that get their first record of 100 bytes, waited for by all at once: what making
// the partitions and what making their files costs; with the mark in each sync, and with marks that are written when nobody waits any more.
func BenchmarkFirstRecord(b *testing.B) {
	b.Run("marked at once", func(b *testing.B) { firstRecords(b, 0) })
	b.Run("marked later", func(b *testing.B) { firstRecords(b, time.Hour) })
}

func firstRecords(b *testing.B, markDelay time.Duration) {
	const partitions = 1000
	var made1, cpuMade, wrote, cpuWrote, cpuMarked time.Duration
	for b.Loop() {
		began, used := time.Now(), processorTime(b)
		bed := newBed(b, meta.RoleOpen, partitions)
		bed.Owner.marker.delay = markDelay
		made1, cpuMade = made1+time.Since(began), cpuMade+processorTime(b)-used
		began, used = time.Now(), processorTime(b)
		var running sync.WaitGroup
		for n := range int32(partitions) {
			p := bed.p(n)
			one := made{values: []string{"0123456789"}, ts: 1}.build(b)
			a, err := p.Append(b.Context(), batch.Batches(one), nil)
			if err != nil {
				b.Fatal(err)
			}
			running.Go(func() { bed.must(p.WaitSynced(b.Context(), a.Next)) })
		}
		running.Wait()
		wrote, cpuWrote = wrote+time.Since(began), cpuWrote+processorTime(b)-used
		used = processorTime(b)
		bed.Owner.marker.pay()
		cpuMarked += processorTime(b) - used
		b.StopTimer()
		bed.must(bed.Owner.Delete(bed.topic.ID, partitions))
		b.StartTimer()
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N*partitions) }
	b.ReportMetric(per(made1), "make-µs/partition")
	b.ReportMetric(per(cpuMade), "make-cpu-µs/partition")
	b.ReportMetric(per(wrote), "first-µs/record")
	b.ReportMetric(per(cpuWrote), "first-cpu-µs/record")
	b.ReportMetric(per(cpuMarked), "mark-cpu-µs/partition")
}
