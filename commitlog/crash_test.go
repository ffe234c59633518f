package commitlog_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store"
	"github.com/hawserio/hawser/store/storetest"
)

var (
	crashSeed = flag.Uint64("crash.seed", 0, "run the crash test with this seed only")
	crashRuns = flag.Int("crash.runs", 60, "how many seeds the crash test runs")
)

var partitionID = kafka.PartitionID{Topic: kafka.TopicID{1}}

// model is what a log should hold.
type model struct {
	start   kafka.Offset
	batches []batch.Batch // all that was appended and not cut; some may lie below the start
	synced  int           // how many of them a crash must not take
	end     kafka.Offset
	epoch   kafka.LeaderEpoch
}

// outcome is a state that is right after a crash: one of several.
type outcome struct {
	start kafka.Offset
	must  []batch.Batch // must be there, from the start on
	may   []batch.Batch // and no more than these
}

func (m *model) outcome() outcome {
	return outcome{m.start, m.batches[:m.synced:m.synced], m.batches[:len(m.batches):len(m.batches)]}
}

// TestCrashAtEveryOperationLosesNothingSynced appends, syncs, rolls, cuts and moves the start at
// random, crashes a copy of the store before every operation on it, and looks at what the next Open finds.
func TestCrashAtEveryOperationLosesNothingSynced(t *testing.T) {
	seeds := make([]uint64, 0, *crashRuns)
	for i := range *crashRuns {
		seeds = append(seeds, uint64(i)+1)
	}
	if *crashSeed != 0 {
		seeds = []uint64{*crashSeed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := &crashRun{T: t, rng: rand.New(rand.NewPCG(seed, 7)), eachOp: storetest.NewMemory()}
			c.store = c.eachOp
			c.cfg = sized(seed)
			c.run(60)
		})
	}
}

// TestLifeAfterCrashes goes on with what each crash left, over and over, on the store that
// forgets and on the one that is shaped like an object store.
func TestLifeAfterCrashes(t *testing.T) {
	for seed := range uint64(*crashRuns) {
		t.Run(fmt.Sprint("memory ", seed), func(t *testing.T) {
			st := storetest.NewMemory()
			live(t, seed, st, func(crash uint64) store.Store { st = st.Crash(crash); return st })
		})
		t.Run(fmt.Sprint("objects ", seed), func(t *testing.T) {
			st := storetest.NewObjects(seed)
			live(t, seed, st, func(crash uint64) store.Store { st = st.Crash(crash); return st })
		})
	}
}

// sized makes every third log's first segment a long one, which has no index files and is in no checkpoint for long.
func sized(seed uint64) commitlog.Config {
	if seed%3 == 0 {
		return commitlog.Config{SegmentBytes: 40_000, IndexInterval: 3000}
	}
	return small
}

func live(t *testing.T, seed uint64, st store.Store, crash func(uint64) store.Store) {
	c := &crashRun{T: t, rng: rand.New(rand.NewPCG(seed, 9)), cfg: sized(seed)}
	c.store = st
	c.model.epoch = 1
	c.open()
	for step := range 150 {
		c.doing = fmt.Sprintf("step %d", step)
		if c.rng.IntN(12) > 0 {
			c.step()
			continue
		}
		c.store = crash(c.rng.Uint64())
		want := c.model.outcome()
		c.open()
		n, err := check(c.log, want)
		if err != nil {
			c.Fatal(c.doing, "crash", err)
		}
		m := &c.model
		m.batches, m.synced, m.end = m.batches[:n:n], n, c.log.EndOffset()
		if m.end == m.start {
			m.batches, m.synced = nil, 0
		}
	}
}

type crashRun struct {
	*testing.T
	rng   *rand.Rand
	store store.Store
	cfg   commitlog.Config
	log   *commitlog.Log
	model model

	eachOp *storetest.Memory // the store, if a copy of it is to be crashed before each operation

	allowed []outcome // right now, should it crash
	doing   string
}

func (c *crashRun) run(steps int) {
	c.model.epoch = 1
	c.open()
	for step := range steps {
		c.doing = fmt.Sprintf("step %d", step)
		c.step()
		c.allowed = []outcome{c.model.outcome()}
	}
}

func (c *crashRun) open() {
	dir, err := c.store.Dir(partitionID)
	if err != nil {
		c.Fatal(err)
	}
	c.allowed = []outcome{c.model.outcome()}
	if c.eachOp != nil {
		c.eachOp.Hook(func(op storetest.Op) error {
			c.crash(op)
			return nil
		})
	}
	if c.log, _, err = commitlog.Open(dir, c.cfg); err != nil {
		c.Fatal(err)
	}
}

func (c *crashRun) step() {
	m := &c.model
	switch pick := c.rng.IntN(22); {
	case pick >= 20:
		c.rewrite()
	case pick < 9:
		c.append()
	case pick < 14:
		c.sync()
	case pick < 16:
		c.truncate()
	case pick < 18:
		c.setStart()
	case pick < 19:
		c.doing += " reset"
		to := kafka.Offset(c.rng.IntN(int(m.end) + 100))
		c.allowed = append(c.allowed, outcome{start: to})
		c.must(0, c.log.Reset(to))
		*m = model{start: to, end: to, epoch: m.epoch}
	default:
		c.doing += " close and open"
		c.must(0, c.log.Close())
		m.synced = len(m.batches)
		c.open()
		c.same(c.log, c.model.outcome())
	}
}

// sync syncs, with the mark, without, or writes a mark that was left.
func (c *crashRun) sync() {
	switch c.rng.IntN(4) {
	case 0:
		c.doing += " mark"
		c.must(0, c.log.Mark())
		return
	case 1:
		c.doing += " sync without mark"
		end, _, err := c.log.SyncBytes()
		c.must(end, err)
	default:
		c.doing += " sync"
		c.must(c.log.Sync())
	}
	c.model.synced = len(c.model.batches)
}

func (c *crashRun) must(_ kafka.Offset, err error) {
	c.Helper()
	if err != nil {
		c.Fatal(c.doing, err)
	}
}

func (c *crashRun) append() {
	m := &c.model
	var run []byte
	all := m.batches[:len(m.batches):len(m.batches)]
	end := m.end
	for range 1 + c.rng.IntN(6) {
		base := end
		switch c.rng.IntN(10) {
		case 0:
			base += kafka.Offset(c.rng.IntN(50)) // a hole
		case 1:
			if c.rng.IntN(10) == 0 {
				base += 1 << 33 // one that no segment spans
			}
		case 2:
			if len(all) == 0 && base > 3 {
				base -= 3 // begins below the start
			}
		}
		if c.rng.IntN(12) == 0 {
			m.epoch++
		}
		count := max(c.rng.IntN(6), int(end-base)+1)
		b := c.build(base, count)
		run = append(run, b...)
		all = append(all, b)
		end = b.NextOffset()
	}
	c.doing += fmt.Sprintf(" append %d batches", len(all)-len(m.batches))
	c.allowed = []outcome{{m.start, m.batches[:m.synced], all}}
	c.must(0, c.log.Append(run, now))
	m.batches, m.end = all, end
}

// build is a batch of count records, or of none, with random times and sizes.
func (c *crashRun) build(base kafka.Offset, count int) batch.Batch {
	records := make([]batch.Record, count)
	for i := range records {
		value := make([]byte, c.rng.IntN(120))
		for j := range value {
			value[j] = byte(c.rng.Uint32()) | 1
		}
		records[i] = batch.Record{Offset: base + kafka.Offset(i), Timestamp: now.UnixMilli() + int64(c.rng.IntN(1000)), Value: value}
	}
	spec := batch.Spec{BaseOffset: base, LeaderEpoch: c.model.epoch, ProducerID: kafka.NoProducerID, BaseSequence: -1, LastDelta: int32(c.rng.IntN(4))}
	b, err := batch.Build(spec, records)
	if err != nil {
		c.Fatal(err)
	}
	return b
}

func (c *crashRun) truncate() {
	m := &c.model
	to := m.start + kafka.Offset(c.rng.Int64N(int64(m.end-m.start)+1))
	if len(m.batches) > 0 && c.rng.IntN(2) == 0 {
		to = m.batches[c.rng.IntN(len(m.batches))].NextOffset()
	}
	kept := len(m.batches)
	for kept > 0 && m.batches[kept-1].NextOffset() > to {
		kept--
	}
	c.doing += fmt.Sprintf(" truncate to %d, %d of %d batches", to, kept, len(m.batches))
	after := *m
	if to < m.end {
		after.batches, after.synced, after.end = m.batches[:kept:kept], kept, min(m.start, to)
		if kept > 0 {
			after.end = max(after.end, m.batches[kept-1].NextOffset())
		}
		if after.end <= m.start {
			after.batches, after.synced = nil, 0
			after.start = after.end
		}
	}
	c.allowed = []outcome{{m.start, m.batches[:min(kept, m.synced)], m.batches}, after.outcome()}
	c.must(0, c.log.Truncate(to))
	*m = after
	if c.log.EndOffset() != m.end || c.log.StartOffset() != m.start {
		c.Fatalf("%s: log is [%d, %d), want [%d, %d)", c.doing, c.log.StartOffset(), c.log.EndOffset(), m.start, m.end)
	}
}

// rewrite drops some batches of sealed segments, as compaction does.
func (c *crashRun) rewrite() {
	m := &c.model
	segments := c.log.Segments()
	if len(segments) < 2 {
		return
	}
	first := c.rng.IntN(len(segments) - 1)
	var bases []kafka.Offset
	for _, s := range segments[first:min(first+1+c.rng.IntN(3), len(segments)-1)] {
		if s.Next-segments[first].Base > 1<<31-1 {
			break // no segment spans so much
		}
		bases = append(bases, s.Base)
	}
	dropped := map[kafka.Offset]bool{}
	r, err := c.log.Rewrite(bases, func(b batch.Batch, last bool) (batch.Batch, error) {
		if !last && c.rng.IntN(3) == 0 {
			dropped[b.BaseOffset()] = true
			return nil, nil
		}
		return b, nil
	})
	if errors.Is(err, commitlog.ErrReplaced) {
		return
	}
	c.must(0, err)
	after := *m
	after.batches, after.synced = nil, 0
	for i, b := range m.batches {
		if dropped[b.BaseOffset()] {
			continue
		}
		after.batches = append(after.batches, b)
		if i < m.synced {
			after.synced = len(after.batches)
		}
	}
	c.doing += fmt.Sprintf(" rewrite %v without %d batches", bases, len(dropped))
	c.allowed = append(c.allowed, after.outcome())
	c.must(0, r.Swap())
	*m = after
	c.same(c.log, m.outcome())
}

func (c *crashRun) setStart() {
	m := &c.model
	to := m.start + kafka.Offset(c.rng.Int64N(int64(m.end-m.start)+1))
	if c.rng.IntN(4) == 0 {
		to = m.end
	}
	c.doing += fmt.Sprintf(" move start to %d", to)
	moved := m.outcome()
	moved.start = to
	c.allowed = append(c.allowed, moved)
	c.must(0, c.log.SetStart(to))
	m.start = to
	// Below the start nothing need be there.
	for m.synced < len(m.batches) && m.batches[m.synced].NextOffset() <= to {
		m.synced++
	}
	for len(m.batches) > 0 && m.end == to {
		m.batches, m.synced = nil, 0
	}
}

// crash looks at what a crash just before the operation leaves.
func (c *crashRun) crash(op storetest.Op) {
	seed := c.rng.Uint64()
	after := c.eachOp.Crash(seed)
	dir, err := after.Dir(partitionID)
	if err != nil {
		c.Fatal(err)
	}
	l, recovery, err := commitlog.Open(dir, c.cfg)
	if err != nil {
		c.Fatalf("%s, crash before %s (seed %d): %v", c.doing, op, seed, err)
	}
	var why []string
	for _, o := range c.allowed {
		n, err := check(l, o)
		if err != nil {
			why = append(why, err.Error())
			continue
		}
		c.goOn(after, dir, l, o.may[:n], fmt.Sprintf("%s, crash before %s (%+v)", c.doing, op, recovery))
		return
	}
	c.Fatalf("%s, crash before %s (seed %d, %+v): %q", c.doing, op, seed, recovery, why)
}

// goOn uses a recovered log: it must take more, survive another crash and an orderly close.
func (c *crashRun) goOn(st *storetest.Memory, dir store.Dir, l *commitlog.Log, held []batch.Batch, when string) {
	if c.rng.IntN(4) > 0 {
		return
	}
	start := l.StartOffset()
	b := c.build(l.EndOffset(), 3)
	fail := func(err error) {
		if err != nil {
			c.Fatalf("%s, then: %v", when, err)
		}
	}
	fail(l.Append(batch.Batches(b), now))
	all := append(held[:len(held):len(held)], b)
	again := outcome{start, held, all}
	if c.rng.IntN(2) == 0 {
		_, err := l.Sync()
		fail(err)
		again.must = all
	}
	crashed, err := st.Crash(c.rng.Uint64()).Dir(partitionID)
	fail(err)
	second, _, err := commitlog.Open(crashed, c.cfg)
	fail(err)
	_, err = check(second, again)
	fail(err)
	fail(l.Close())
	l, recovery, err := commitlog.Open(dir, c.cfg)
	fail(err)
	if !recovery.Clean || recovery.ScannedBytes > 0 {
		c.Fatalf("%s, then close and open: %+v", when, recovery)
	}
	_, err = check(l, outcome{start, all, all})
	fail(err)
}

func (c *crashRun) same(l *commitlog.Log, want outcome) {
	c.Helper()
	want.must = want.may
	if _, err := check(l, want); err != nil {
		c.Fatal(c.doing, err)
	}
}

// check compares a log with an outcome, by every way to read it, and is how many of o.may are there.
func check(l *commitlog.Log, o outcome) (int, error) {
	if l.StartOffset() != o.start {
		return 0, fmt.Errorf("log starts at %d, want %d", l.StartOffset(), o.start)
	}
	var got []byte
	end := o.start
	if err := l.Scan(o.start, false, func(b batch.Batch) error { got = append(got, b...); return nil }); err != nil {
		return 0, err
	}
	n, rest := 0, got
	var held []batch.Batch
	for ; n < len(o.may); n++ {
		b := o.may[n]
		if b.NextOffset() <= o.start {
			continue
		}
		if len(rest) == 0 {
			break
		}
		if !bytes.HasPrefix(rest, b) {
			return n, fmt.Errorf("batch %d (offset %d) is not what was appended", n, b.BaseOffset())
		}
		rest = rest[len(b):]
		held = append(held, b)
		end = b.NextOffset()
	}
	if len(rest) > 0 {
		return n, fmt.Errorf("%d bytes more than were ever appended", len(rest))
	}
	if n < len(o.must) {
		return n, fmt.Errorf("%d batches, %d were synced", n, len(o.must))
	}
	if l.EndOffset() != end {
		return n, fmt.Errorf("log ends at %d, want %d", l.EndOffset(), end)
	}
	return n, checkReads(l, o.start, held)
}

// checkReads looks every batch up by offset and time.
func checkReads(l *commitlog.Log, start kafka.Offset, held []batch.Batch) error {
	latest := commitlog.TimedOffset{Offset: kafka.NoOffset, Timestamp: -1, Epoch: kafka.NoEpoch}
	for i, b := range held {
		for _, from := range []kafka.Offset{max(b.BaseOffset(), start), b.LastOffset()} {
			s, err := l.Read(from, l.EndOffset(), len(b), false)
			if err != nil {
				return err
			}
			got, err := s.Bytes()
			s.Close()
			if err != nil || !bytes.Equal(got, b) {
				return fmt.Errorf("read at %d: %d bytes (%v), want batch %d", from, len(got), err, i)
			}
		}
		if at := l.EpochAt(b.LastOffset()); at != b.LeaderEpoch() {
			return fmt.Errorf("epoch at %d is %d, want %d", b.LastOffset(), at, b.LeaderEpoch())
		}
		for r, err := range b.Records(1 << 20) {
			if err != nil {
				return err
			}
			if r.Offset >= start && r.Timestamp > latest.Timestamp {
				latest = commitlog.TimedOffset{Offset: r.Offset, Timestamp: r.Timestamp, Epoch: b.LeaderEpoch()}
			}
		}
	}
	if got, err := l.MaxTimestamp(l.EndOffset()); err != nil || got != latest {
		return fmt.Errorf("max timestamp is %v (%v), want %v", got, err, latest)
	}
	return nil
}
