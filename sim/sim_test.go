package sim

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

var seedFlag = flag.Uint64("seed", 0, "the schedule that TestReplay runs")

const (
	eventsEach  = 170
	eventsLeast = 150 // on the mean
	// countedFrom is how many schedules must hit every cell of both tables hitsLeast times.
	countedFrom = 40000
	hitsLeast   = 100
)

// schedules is how many are run: a few seconds' worth, or what HAWSER_SCHEDULES says.
func schedules(t testing.TB) int {
	text := os.Getenv("HAWSER_SCHEDULES")
	if text == "" {
		return 400
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// runAll runs schedules first, first+1, … on all processors, until one fails.
func runAll(t *testing.T, first uint64, n int, cells *Cells) (events int64, failed *Result) {
	var next, sum atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				mu.Lock()
				done := i >= int64(n) || failed != nil
				mu.Unlock()
				if done {
					return
				}
				r := runOne(t, Options{Seed: first + uint64(i), Events: eventsEach, Cells: cells})
				sum.Add(int64(r.Events))
				if r.Err != nil {
					mu.Lock()
					if failed == nil || r.Seed < failed.Seed {
						failed = &r
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return sum.Load(), failed
}

func runOne(t *testing.T, opts Options) (r Result) {
	synctest.Test(t, func(*testing.T) { r = Run(opts) })
	return r
}

func TestSchedules(t *testing.T) {
	n := schedules(t)
	cells := NewCells()
	events, failed := runAll(t, 1, n, cells)
	if failed != nil {
		t.Fatalf("seed %d: %v\n%s\nreplay it with: go test ./sim -run Replay -seed %d -v", failed.Seed, failed.Err, strings.Join(failed.Trace, "\n"), failed.Seed)
	}
	rarest := cells.Rarest(12)
	t.Logf("%d schedules, %d events, mean %d; the cells hit least: %v", n, events, events/int64(n), rarest)
	if n < countedFrom {
		return
	}
	if mean := events / int64(n); mean < eventsLeast {
		t.Errorf("a schedule has %d events on the mean, want %d", mean, eventsLeast)
	}
	if rarest[0].Hits < hitsLeast {
		t.Errorf("cells were hit fewer than %d times: %v", hitsLeast, rarest)
	}
}

// TestReplay runs one schedule and shows all of it.
func TestReplay(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed was given")
	}
	r := runOne(t, Options{Seed: *seedFlag, Events: eventsEach, Trace: true})
	for _, line := range r.Trace {
		t.Log(line)
	}
	if r.Err != nil {
		t.Fatal(r.Err)
	}
}
