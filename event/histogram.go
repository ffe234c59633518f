package event

import (
	"sync/atomic"
	"time"
)

// histogramBounds are the upper ends, inclusive, of the buckets: steps of about two, from a quarter
// millisecond, which a sync to a good disk takes, to half a minute, which requests may take at most.
var histogramBounds = []time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// Histogram counts durations by size. Its zero value is empty; any number of goroutines may use it.
type Histogram struct {
	counts [17]atomic.Uint64 // by bucket; the last is for what is longer than every bound
	nanos  atomic.Int64
}

// Observe counts one duration.
func (h *Histogram) Observe(took time.Duration) {
	i := 0
	for i < len(histogramBounds) && took > histogramBounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.nanos.Add(int64(took))
}

// Times is what a histogram has counted.
type Times struct {
	Count   uint64
	Sum     time.Duration
	Buckets map[float64]uint64 // by upper end in seconds: how many took at most so long
}

// Read gives what was counted until now. While others count, Count and Sum may be of slightly different moments.
func (h *Histogram) Read() Times {
	t := Times{Sum: time.Duration(h.nanos.Load()), Buckets: make(map[float64]uint64, len(histogramBounds))}
	for i, bound := range histogramBounds {
		t.Count += h.counts[i].Load()
		t.Buckets[bound.Seconds()] = t.Count
	}
	t.Count += h.counts[len(histogramBounds)].Load()
	return t
}
