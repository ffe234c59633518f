// Package sim runs two and three clusters in one thread under one seed: the real
// tables and plans of link/mirror and link/plan, the real partitions and logs over a store that can be crashed at
// any operation, and around them a thin shell of its own in place of package link's goroutines, of the network and of
// the clients. After each event every invariant is checked. Tests call it; it refuses to know real time and real disks.
//
// What the shell models anew, and where the real thing is:
//   - effects.go is link/stop.go, link/promote.go, and the loop of link/running.go that finds out from the stored
//     record what is left to do; orders.go is link/orders.go; turn.go and restore.go are the reversals' and restores' shells;
//   - follow.go is link/fetcher's loop and repairs, one question at a time, deciding by plan.Align, plan.FindShared and plan.Compare;
//   - groups.go is link/task's copy of group offsets and the group coordinator's clamp, deciding by plan.CopyOffsets;
//   - clean.go runs the real cleaners, and is link/tombstones.go; recopy.go is link/recopy.go, whose copies are fetched without letters;
//   - plain.go is an unmodified Kafka with unclean elections; txn.go is package txn's coordinator.
package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing/synctest"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// Options choose a schedule.
type Options struct {
	Seed   uint64
	Events int    // events before the faults end; the healing comes on top
	Cells  *Cells // counts the tables' cells, nil for nobody who counts
	Trace  bool   // tell what happens, line by line; a schedule that has failed is run once more to be seen
}

// Result is what a schedule came to.
type Result struct {
	Seed   uint64
	Events int
	Err    error // the first invariant that broke
	Trace  []string
}

// world is the clusters of one schedule, and what is between them.
type world struct {
	opts       Options
	counts     counts
	random     *rand.Rand
	profile    profile
	clusters   []*cluster
	letters    []*letter
	old        [8]func()       // answers that come again
	parted     map[[2]int]bool // pairs that do not reach each other
	ledger     *ledger
	events     int
	began      time.Time
	did        bool // something has happened in the present event; only then it counts
	records    int  // made so far: each record's value is its number
	topicsMade uint16
	trace      []string
	err        error
	// calm is set while the faults have ended and everything must settle.
	calm bool
	// twoWritable is set by orders after which two sides may be writable: a failover or promotion of a mirror, a forced
	// failover of a source. NoTwoWritable holds in schedules without (rule R2).
	twoWritable bool
	consumers   []*consumer
	producers   []*producer
	completed   map[string]bool // the reversals after which a mirror took records
	// missed are the histories of which some mirror has said that deletions may be missing.
	missed map[kafka.TopicID]bool
	// expired are the tombstones, by number, that a cleaner has removed because of their age.
	expired map[string]bool
}

// Run runs one schedule. It must be called in a bubble of testing/synctest.
func Run(opts Options) Result {
	w := newWorld(opts)
	defer w.close()
	for tries := 0; w.events < opts.Events && tries < 4*opts.Events && w.err == nil; tries++ {
		w.event()
	}
	if w.err == nil {
		w.heal()
	}
	opts.Cells.add(&w.counts)
	return Result{opts.Seed, w.events, w.err, w.trace}
}

func newWorld(opts Options) *world { return newWorldOf(opts, func(*profile) {}) }

// newWorldOf is newWorld with a profile that was not left to the seed alone.
func newWorldOf(opts Options, change func(*profile)) *world {
	w := &world{opts: opts, random: rand.New(rand.NewPCG(opts.Seed, 0x73696d)), parted: map[[2]int]bool{}, ledger: newLedger(),
		missed: map[kafka.TopicID]bool{}, expired: map[string]bool{}, completed: map[string]bool{}}
	w.began = time.Now()
	w.profile = drawProfile(w.random)
	change(&w.profile)
	w.ledger.compacted = w.profile.compact
	w.log("profile %s", w.profile.name)
	w.build()
	return w
}

func (w *world) close() {
	for _, c := range w.clusters {
		if c.owner != nil {
			c.die()
			// What a closing owner cannot write any more, nobody misses.
			_ = c.owner.Close()
		}
	}
}

// log adds a line to the trace, if somebody wants to see it.
func (w *world) log(format string, args ...any) {
	w.did = true
	if !w.opts.Trace {
		return
	}
	w.trace = append(w.trace, fmt.Sprintf("%4d %8v ", w.events, time.Since(w.began).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// violate notes a broken invariant; the first one counts.
func (w *world) violate(invariant, format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%s: %s", invariant, fmt.Sprintf(format, args...))
		w.log("BROKEN %v", w.err)
	}
}

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.random.IntN(n) == 0 }

// event does one thing, then checks everything.
func (w *world) event() {
	w.did = false
	w.lateNews()
	w.try(w.pick())
	w.settle()
	w.check()
	if w.did {
		w.events++
	}
}

// try runs an event up to its end, or to the crash of a cluster in the middle of it.
func (w *world) try(do func()) {
	if !w.calm {
		for _, c := range w.clusters {
			c.planCrash()
		}
	}
	defer func() {
		stop := recover()
		if _, crashed := stop.(crashed); stop != nil && !crashed {
			panic(fmt.Sprintf("seed %d: %v\n%s\nreplay it with: go test ./sim -run Replay -seed %d -v", w.opts.Seed, stop,
				strings.Join(w.trace, "\n"), w.opts.Seed))
		}
		for _, c := range w.clusters {
			if c.isDead() {
				c.fall()
			}
			c.forgetPlan()
		}
	}()
	do()
}

// settle lets everything that runs beside come to rest: syncs that somebody waits for, epochs to be published.
func (w *world) settle() { synctest.Wait() }

// pass lets time pass, so that what only waits for time happens.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	w.settle()
}

// value is the next record's value, and its number.
func (w *world) value() (int, []byte) {
	w.records++
	return w.records, fmt.Appendf(nil, "%d", w.records)
}

func topicID(kind byte, n uint16) kafka.TopicID {
	return kafka.TopicID{0: kind, 14: byte(n >> 8), 15: byte(n)}
}

// newRoot names a new history.
func (w *world) newRoot() kafka.TopicID {
	w.topicsMade++
	return topicID('r', w.topicsMade)
}
