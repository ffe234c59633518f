package event_test

import (
	"testing"
	"time"

	"github.com/hawserio/hawser/event"
)

func TestHistogramCountsUpToEachBound(t *testing.T) {
	var h event.Histogram
	for _, took := range []time.Duration{0, 250 * time.Microsecond, 251 * time.Microsecond, 3 * time.Second, time.Minute} {
		h.Observe(took)
	}
	got := h.Read()
	if got.Count != 5 || got.Sum != 63*time.Second+501*time.Microsecond {
		t.Errorf("count %d, sum %v", got.Count, got.Sum)
	}
	for bound, want := range map[float64]uint64{0.00025: 2, 0.0005: 3, 2.5: 3, 5: 4, 30: 4} {
		if got.Buckets[bound] != want {
			t.Errorf("at most %g s: %d, want %d", bound, got.Buckets[bound], want)
		}
	}
}
