package link

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/task"
	"github.com/hawserio/hawser/meta"
)

// tick is how often a link looks after what no event tells: faults that grow old.
const tick = time.Second

// running is one link at work: its connection, its fetching, its tasks. One
// goroutine (loop) brings what runs to what is stored and never asks the
// source anything, so that a dead source cannot hold a failover up; others probe,
// promote and sync.
type running struct {
	ls   *Links
	id   kafka.TopicID
	name string

	arrivals *arrivals // connections that the other half opens for this one

	wakes   chan struct{}                // room for one
	level   map[kafka.TopicID]plan.Level // when mirrors of compacted topics were level; the loop's own
	firsts  firstSyncs
	urgent  chan struct{} // room for one: an order was stored
	probes  chan struct{} // room for one: probe now
	checks  chan struct{} // room for one: look at promotions now
	turns   chan struct{} // room for one: look at reversals and restores now
	copies  chan struct{} // room for one: look at mirrors that may have missed deletions now
	cancel  context.CancelFunc
	wait    sync.WaitGroup
	tasks   []*task.Runner
	configs *task.Configs
	offsets *task.Offsets
	// backOffsets copies the other way: commits on the other side's mirrors of our topics (REMOTE_MIRROR).
	backOffsets *task.Offsets

	// storing counts the orders that are being stored, in several transactions: no stop begins
	// meanwhile, so that one order stops fetching on all its topics before it decides about any (rule P5).
	storing atomic.Int32
	// roles is held for reading while a turn changes the roles of one topic's partitions, for writing while mirrors are stopped: what
	// is done to a partition is what its record says at that moment.
	roles sync.RWMutex
	// lastConfigs and lastCommits ask about topics whose turn is about to be decided.
	lastConfigs, lastCommits *gathering

	mu       sync.Mutex // guards the fields below
	rec      *meta.Link // what set was read from
	set      settings
	setErr   error  // why the configs cannot be used
	src      Source // nil while setErr is set
	pool     Fetches
	contact  plan.Contact
	there    []task.Mirror // the other side's mirrors of our topics, as of the last round of offsets
	lender   *lender       // nil unless this half opens connections for the other one
	lendErr  error         // why it should, but cannot
	other    otherHalf     // what the other cluster last said of its half
	greeted  Source        // the connection over which it did
	foreign  Source        // the connection over which the other cluster showed that it is no hawser
	assigned map[kafka.TopicPartition]assignment
	faulty   map[kafka.TopicPartition]bool // partitions whose fetcher told of a fault
	obstacle map[kafka.TopicID][]plan.Problem
	lost     map[kafka.TopicPartition]int64        // records lost and not stored yet
	ends     map[kafka.TopicPartition]kafka.Offset // the source's ends of partitions that are not fetched now, when last seen
	copying  bool                                  // a pool of copies takes its share of the link's rate
	uncopied map[kafka.TopicID]string              // why mirrors that may have missed deletions are not copied anew, in words
	dated    map[kafka.TopicPartition]dated        // how old partitions were when that was last known to somebody who forgets it
	cuts     map[kafka.TopicPartition]kafka.Offset // truncations that group offsets are still to be clamped to
	creating map[kafka.TopicID]bool                // mirrors that CreateMirror or Widen is setting up
	counts   task.OffsetCounts
	asking   chan struct{}                   // holds a value for each question to the other cluster about a turn
	freezing chan struct{}                   // holds a value for each of them that asks to freeze
	turning  map[kafka.TopicID]chan struct{} // topics that a goroutine of turnLoop is at; each wakes its own
}

// assignment is what makes an Assign necessary when it changes.
type assignment struct {
	source kafka.TopicPartition
	id     kafka.TopicID
	target fetcher.Target
}

func newRunning(ls *Links, rec *meta.Link) *running {
	r := &running{
		ls: ls, id: rec.ID, name: rec.Name, arrivals: newArrivals(),
		wakes: make(chan struct{}, 1), urgent: make(chan struct{}, 1), probes: make(chan struct{}, 1), checks: make(chan struct{}, 1),
		turns: make(chan struct{}, 1), copies: make(chan struct{}, 1),
		level:       map[kafka.TopicID]plan.Level{},
		firsts:      firstSyncs{level: map[kafka.TopicID]bool{}},
		lastConfigs: newGathering(), lastCommits: newGathering(),
		assigned: map[kafka.TopicPartition]assignment{},
		faulty:   map[kafka.TopicPartition]bool{},
		obstacle: map[kafka.TopicID][]plan.Problem{},
		lost:     map[kafka.TopicPartition]int64{},
		cuts:     map[kafka.TopicPartition]kafka.Offset{},
		creating: map[kafka.TopicID]bool{},
		ends:     map[kafka.TopicPartition]kafka.Offset{},
		turning:  map[kafka.TopicID]chan struct{}{},
		asking:   make(chan struct{}, asksAtOnce),
		freezing: make(chan struct{}, freezesAtOnce),
		dated:    map[kafka.TopicPartition]dated{},
		uncopied: map[kafka.TopicID]string{},
	}
	r.makeTasks()
	return r
}

// start runs the link until ctx ends or close is called.
func (r *running) start(ctx context.Context) {
	ctx, r.cancel = context.WithCancel(ctx)
	r.configure()
	r.recallCuts()
	r.recallJournal()
	r.wait.Go(func() { r.loop(ctx) })
	r.wait.Go(func() { r.probeLoop(ctx) })
	r.wait.Go(func() { r.promoteLoop(ctx) })
	r.wait.Go(func() { r.tailLoop(ctx) })
	r.wait.Go(func() { r.turnLoop(ctx) })
	r.wait.Go(func() { r.journalLoop(ctx) })
	r.wait.Go(func() { r.recopyLoop(ctx) })
	for _, t := range r.tasks {
		r.wait.Go(func() { t.Loop(ctx) })
	}
}

// close ends everything of the link and waits.
func (r *running) close() {
	r.cancel()
	r.wait.Wait()
	r.mu.Lock()
	src, pool, lender := r.src, r.pool, r.lender
	r.src, r.pool, r.lender = nil, nil, nil
	r.mu.Unlock()
	lender.close()
	shut(pool, src)
}

func shut(pool Fetches, src Source) {
	if pool != nil {
		pool.Close()
	}
	if src != nil {
		src.Close()
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wake makes the loop look again.
func (r *running) wake() { poke(r.wakes) }

// hurry is wake for what somebody waits for.
func (r *running) hurry() { poke(r.urgent) }

// restMax bounds how long news that nobody waits for is left until the next look.
const restMax = 100 * time.Millisecond

func (r *running) loop(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for ctx.Err() == nil {
		begun := time.Now()
		r.reconcile(ctx)
		// A look takes the longer the more mirrors there are, and every new one changes the metadata a few
		// times: at most a fifth of the time is spent on looking.
		select {
		case <-ctx.Done():
		case <-r.urgent:
			continue
		case <-time.After(min(4*time.Since(begun), restMax)):
		}
		select {
		case <-ctx.Done():
		case <-r.urgent:
		case <-r.wakes:
		case <-t.C:
		}
	}
}

// reconcile brings what runs to what is stored, once.
func (r *running) reconcile(ctx context.Context) {
	r.configure()
	r.tendLender(ctx)
	img := r.ls.env.Metadata.Image()
	mirrors := mirrorsOf(img, r.id)
	r.assign(img, mirrors)
	r.finishStops(ctx, mirrors)
	r.storeLost(ctx)
	r.clampCuts(ctx)
	r.judge(ctx, mirrors)
	r.syncFirst(mirrors)
	r.watchDeletions(ctx, mirrors)
	r.removeOrphans(ctx, img)
	if slices.ContainsFunc(mirrors, func(m topicMirror) bool { return m.state == mirror.PendingStopped || r.unfinished(img, m) }) {
		poke(r.checks)
	}
	if slices.ContainsFunc(mirrors, func(m topicMirror) bool { return turnWork(img, m.rec) }) {
		poke(r.turns)
	}
}

// configure takes over the stored configs, and the link's part of the memory: new bounds on the live pool, or a new
// connection where that is what changed (case C73).
func (r *running) configure() {
	rec, memory := r.ls.env.Metadata.Image().Links[r.id], r.ls.memory.Load()
	r.mu.Lock()
	if rec == nil || rec == r.rec && memory == r.set.fetch.MemoryMax {
		r.mu.Unlock()
		return
	}
	set, err := readSettings(rec.Name, all(rec))
	set.source.Logger, set.fetch.MemoryMax = r.ls.env.Logger, memory
	before := r.set
	first := r.rec == nil
	r.rec, r.set, r.setErr = rec, set, err
	redial := first || r.src == nil || err != nil || !reflect.DeepEqual(before.source, set.source) ||
		!reflect.DeepEqual(before.local, set.local) || before.localListener != set.localListener
	pool := r.pool
	r.mu.Unlock()

	if redial {
		r.redial(set, err)
	} else if before.fetch != set.fetch {
		pool.Reconfigure(r.fetchConfig())
	}
	if !first {
		r.pokeTasks(before, set)
		poke(r.probes)
	}
}

// redial replaces connection and pool. The old pool is closed first: two of them must never append to
// one partition.
func (r *running) redial(set settings, err error) {
	r.mu.Lock()
	oldPool, oldSrc, before, lender := r.pool, r.src, r.assigned, r.lender
	r.pool, r.src, r.lender = nil, nil, nil
	r.assigned = map[kafka.TopicPartition]assignment{}
	clear(r.faulty)
	r.mu.Unlock()
	lender.close()
	if oldPool != nil {
		r.rememberEnds(oldPool, before, nil)
	}
	shut(oldPool, oldSrc)

	var src Source
	if err == nil {
		cfg := set.source
		if set.connection == peer.Inbound {
			cfg.Dial = r.arrivals.dial
		}
		src, err = r.ls.env.Dial(cfg)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.setErr = err
		r.contact = plan.Contact{Reach: plan.Misconfigured, Problem: plan.Problem{Code: string(mirror.Misconfiguration), Text: err.Error()}}
		r.ls.env.Logger.Error("link cannot be used", "link", r.name, "error", err)
		return
	}
	r.src = src
	r.pool = r.ls.env.NewPool(src, r.shared(set.fetch), r.onEvent)
	if r.contact.Reach == plan.Misconfigured {
		// Something was put right, perhaps: say unknown until a probe has tried.
		r.contact = plan.Contact{LastOK: r.contact.LastOK}
	}
}

// mayFetch reports whether the link fetches at all. Not before the first probe has shown that it is the right cluster,
// nor while its credentials are refused: fetchers would only try them again.
func (r *running) mayFetch() bool {
	if r.set.paused || r.pool == nil {
		return false
	}
	switch r.contact.Reach {
	case plan.Reachable:
		return true
	case plan.Unreachable:
		return !r.contact.LastOK.IsZero()
	default:
		return false
	}
}

// assign makes the pool fetch exactly what is to be fetched. When it returns, nothing else is in
// flight to any partition.
func (r *running) assign(img *meta.Image, mirrors []topicMirror) {
	r.mu.Lock()
	pool, may := r.pool, r.mayFetch()
	r.mu.Unlock()
	if pool == nil {
		return
	}
	want := map[kafka.TopicPartition]assignment{}
	if may {
		for _, m := range mirrors {
			r.wanted(img, m, want)
		}
	}
	r.mu.Lock()
	same := len(want) == len(r.assigned)
	if same {
		for tp, a := range want {
			if r.assigned[tp] != a {
				same = false
				break
			}
		}
	}
	for tp := range r.faulty {
		if _, is := want[tp]; !is {
			delete(r.faulty, tp)
		}
	}
	before := r.assigned
	r.assigned = want
	r.mu.Unlock()
	if same {
		return
	}
	r.rememberEnds(pool, before, want)
	list := make([]fetcher.Assignment, 0, len(want))
	for tp, a := range want {
		list = append(list, fetcher.Assignment{Source: a.source, SourceID: a.id, Mirror: tp, Target: a.target})
	}
	pool.Assign(list)
}

// rememberEnds keeps the source's ends of partitions that are about to be dropped: the pool forgets them, and somebody
// who fails over wants to know what is missing.
func (r *running) rememberEnds(pool Fetches, before, want map[kafka.TopicPartition]assignment) {
	seen := map[kafka.TopicPartition]kafka.Offset{}
	img := r.ls.env.Metadata.Image()
	ages := map[kafka.TopicPartition]dated{}
	for tp := range before {
		if _, is := want[tp]; is {
			continue
		}
		if s := pool.Status(tp); s.SourceEnd >= 0 {
			seen[tp] = s.SourceEnd
			ages[tp] = dated{topic: img.TopicIDs[tp.Topic], caughtUp: s.CaughtUp, behind: s.Behind, end: s.SourceEnd}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.ends, seen)
	for tp, age := range ages {
		if old := r.dated[tp]; old.topic == age.topic && age.caughtUp.Before(old.caughtUp) {
			age.caughtUp = old.caughtUp // it was not level since
		}
		r.dated[tp] = age
	}
	for tp := range want {
		delete(r.ends, tp)
	}
	if len(r.ends) > endsMax {
		clear(r.ends) // of topics that were deleted, mostly
	}
	if len(r.dated) > endsMax {
		clear(r.dated)
	}
}

// endsMax bounds how many ends are remembered.
const endsMax = 200_000

// wanted adds the partitions of one mirror that are to be fetched: those that are
// open here as mirrors. One that is not yet (being created) comes with a later look.
//
// The stored role counts, not the one that Offsets shows: that one is frozen while the fetcher itself truncates or jumps.
func (r *running) wanted(img *meta.Image, m topicMirror, want map[kafka.TopicPartition]assignment) {
	states := img.Partitions[m.topic.ID]
	if !m.state.Fetches() || m.rec.Paused || states == nil {
		return
	}
	for p := range m.topic.Partitions {
		if int(p) >= len(states.List) || states.List[p].Role != meta.RoleMirror {
			continue
		}
		if m.state == mirror.PendingRestore && states.List[p].Cutting != nil {
			continue // what is about to be cut off is not to be compared with the peer's
		}
		part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: m.topic.ID, Partition: p})
		if part == nil {
			continue
		}
		want[kafka.TopicPartition{Topic: m.topic.Name, Partition: p}] = assignment{
			source: kafka.TopicPartition{Topic: m.rec.SourceTopic, Partition: p},
			id:     m.rec.SourceTopicID,
			target: part,
		}
	}
}

// removeOrphans removes records whose topic is gone: a delete that a crash interrupted, or that nobody told of.
func (r *running) removeOrphans(ctx context.Context, img *meta.Image) {
	orphan := false
	for id, rec := range img.Mirrors {
		if rec.Link == r.id && img.Topics[id] == nil {
			orphan = true
			break
		}
	}
	if !orphan {
		return
	}
	err := r.ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		var changes []meta.Change
		for id, rec := range img.Mirrors {
			if rec.Link == r.id && img.Topics[id] == nil && len(changes) < batchMax {
				changes = append(changes, meta.DeleteMirror(id))
			}
		}
		return changes, nil
	})
	if err != nil && ctx.Err() == nil {
		r.ls.env.Logger.Warn("records of deleted mirrors stay for now", "link", r.name, "error", err)
	}
}
