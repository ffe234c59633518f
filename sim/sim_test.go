package sim

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "the schedule that TestReplay runs")

const (
	eventsEach  = 170
	eventsLeast = 150 // on the mean
	// countedFrom is how many schedules must hit every cell of both tables hitsLeast times.
	countedFrom = 20000
	hitsLeast   = 100
	// stuckAfter is how long one schedule may take, of which a thousand take seconds.
	stuckAfter = 5 * time.Minute
	// linesShown is how much is shown of a schedule that failed.
	linesShown = 60
)

const replay = "replay it with: go test ./sim -run Replay -seed %d -v"

// schedules is how many are run: a few seconds' worth, or what HAWSER_SCHEDULES says.
func schedules(t testing.TB) int { return number(t, "HAWSER_SCHEDULES", 400) }

func number(t testing.TB, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, and no number above 0", name, text)
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
	stuck := time.AfterFunc(stuckAfter, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("seed %d does not end; "+replay, opts.Seed, opts.Seed))
	})
	defer stuck.Stop()
	synctest.Test(t, func(*testing.T) { r = Run(opts) })
	return r
}

// fail runs a schedule that failed once more, shows how it ended, and says how to see all of it.
func fail(t *testing.T, failed *Result) {
	again := runOne(t, Options{Seed: failed.Seed, Events: eventsEach, Trace: true})
	lines := again.Trace[max(0, len(again.Trace)-linesShown):]
	t.Fatalf("seed %d: %v\n%s\n"+replay, failed.Seed, failed.Err, strings.Join(lines, "\n"), failed.Seed)
}

// TestSchedules runs HAWSER_SCHEDULES schedules, the first with the seed HAWSER_FIRST.
func TestSchedules(t *testing.T) {
	n, first := schedules(t), number(t, "HAWSER_FIRST", 1)
	cells := NewCells()
	events, failed := runAll(t, uint64(first), n, cells)
	if failed != nil {
		fail(t, failed)
	}
	rarest := cells.Rarest(12)
	t.Logf("%d schedules from seed %d on, %d events, mean %d; the cells hit least: %v", n, first, events, events/int64(n), rarest)
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
