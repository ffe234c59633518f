package fetcher_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/partition"
)

func TestC14_LeaderMovesUnderLoad(t *testing.T) {
	b := newBench(t, 3, nil)
	b.stub.Create("t", topicID, 2)
	targets := b.mirror(topicID, zero, one)
	for i := range 15 {
		for _, tp := range []kafka.TopicPartition{zero, one} {
			b.stub.Partition(tp).Produce(10, fmt.Sprint("v", i))
			b.stub.Partition(tp).Lead(int32(1+(i+int(tp.Partition))%3), kafka.LeaderEpoch(i+1))
		}
		if i%5 == 0 {
			b.stub.Broker(int32(1 + i%3)).HangUp()
		}
		b.reach(targets[0], kafka.Offset(10*(i+1)))
	}
	b.reach(targets[1], 150)
	b.same(targets[0], zero)
	b.same(targets[1], one)
}

func TestC19_ThrottleIsObeyed(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Broker(1).Throttle(300 * time.Millisecond)
	b.stub.Create("t", topicID, 1)
	target := b.mirror(topicID, zero)[0]
	begun := time.Now()
	for i := range 5 {
		b.stub.Partition(zero).Produce(1, "v")
		b.reach(target, kafka.Offset(i+1))
	}
	if took := time.Since(begun); took < 900*time.Millisecond {
		t.Errorf("five answers in %v", took)
	}
	if s := b.pool.Status(zero); s.Fault != fetcher.NoFault {
		t.Errorf("status is %+v", s)
	}
	if n := b.stub.Broker(1).Accepted(); n > 2 {
		t.Errorf("%d connections", n)
	}
}

func TestD3_AnswerToAnOlderLifeIsNotAppended(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	target := b.mirror(topicID, zero)[0]
	b.stub.Partition(zero).Produce(1, "v")
	b.reach(target, 1)
	// While a long poll is under way the mirror is stopped and resumed.
	target.Restart()
	b.stub.Partition(zero).Produce(1, "v")
	b.reach(target, 2)
	b.same(target, zero)
}

func TestDropLeavesNothingInFlight(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	b.stub.Partition(zero).Produce(1, "v")
	target := stubtest.NewTarget(0)
	target.Hold = make(chan struct{})
	b.pool.Assign([]fetcher.Assignment{{Source: zero, SourceID: topicID, Mirror: zero, Target: target}})
	for target.AppendCount() < 1 {
		timer := time.NewTimer(5 * time.Millisecond)
		<-timer.C
	}
	done := make(chan struct{})
	go func() { b.pool.Drop("t"); close(done) }()
	select {
	case <-done:
	case <-b.ctx.Done():
		t.Fatal("Drop waits for an append that waits")
	}
	close(target.Hold)
	b.stub.Partition(zero).Produce(1, "v")
	timer := time.NewTimer(300 * time.Millisecond)
	<-timer.C
	if o := target.Offsets(); o.LogEnd != 0 {
		t.Errorf("mirror ends at %d after Drop", o.LogEnd)
	}
}

// TestE6_NotCaughtUpBeforeTheLastBatchIsCompared has a mirror end where its source ends that lost what the mirror has, and took other records.
func TestE6_NotCaughtUpBeforeTheLastBatchIsCompared(t *testing.T) {
	b := newBench(t, 1, nil)
	b.stub.Create("t", topicID, 1)
	source := b.stub.Partition(zero)
	source.Produce(10, "v")
	source.Produce(5, "lost")
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 15)
	b.pool.Drop("t")
	source.Cut(10)
	source.Lead(1, 3)
	source.Produce(5, "other")
	target.Restart()
	b.pool.Assign(b.list)
	for done := false; !done; {
		var err error
		if done, _, err = b.pool.CaughtUp(b.ctx, "t"); err != nil {
			t.Fatal(err)
		}
		if done && len(target.Cuts()) == 0 {
			t.Fatal("a mirror of the lost records is caught up")
		}
		if b.pool.Status(zero).Compared && len(target.Cuts()) == 0 {
			t.Fatal("a mirror of the lost records is said to have been compared")
		}
	}
	if s := b.pool.Status(zero); !s.Compared {
		t.Errorf("a mirror that is caught up was not compared: %+v", s)
	}
	b.same(target, zero)
}

func TestX2_CaughtUpAsksTheSource(t *testing.T) {
	b := newBench(t, 2, nil)
	b.stub.Create("t", topicID, 2)
	b.stub.Partition(one).Lead(2, 1)
	b.stub.Partition(zero).Produce(10, "v")
	targets := b.mirror(topicID, zero, one)
	b.reach(targets[0], 10)
	ask := func(want bool, words string) {
		t.Helper()
		for {
			ok, text, err := b.pool.CaughtUp(b.ctx, "t")
			switch {
			case err == nil && ok == want && strings.Contains(text, words):
				return
			case err != nil || ok || !strings.Contains(text, "still being compared"):
				t.Fatalf("CaughtUp says %v %q %v; want %v %q", ok, text, err, want, words)
			}
		}
	}
	ask(true, "")
	b.stub.Partition(zero).Undecided(4)
	ask(false, "open transaction from offset 4")
	b.stub.Partition(zero).Undecided(-1)
	b.stub.Partition(zero).Hide(5)
	ask(false, "ends at 5")
	b.stub.Partition(zero).Hide(-1)
	targets[1].Hold = make(chan struct{})
	b.stub.Partition(one).Produce(1, "v")
	ask(false, "t-1 ends at 1, the mirror at 0")
	close(targets[1].Hold)
	b.reach(targets[1], 1)
	ask(true, "")
}

func TestC101_BacklogDoesNotStarveOthers(t *testing.T) {
	b := newBench(t, 1, func(cfg *fetcher.Config) { cfg.ResponseMax, cfg.PartitionMax = 1<<20, 1<<20 })
	const backlog = 300 // records, three seconds' worth
	b.stub.Broker(1).Pace(6 << 20)
	b.stub.Create("t", topicID, 2)
	value := strings.Repeat("x", 60<<10)
	for range backlog {
		b.stub.Partition(zero).Produce(1, value)
	}
	targets := b.mirror(topicID, zero, one)
	for i := range 3 {
		b.stub.Partition(one).Produce(1, "quiet")
		b.reach(targets[1], kafka.Offset(i+1))
	}
	if end := targets[0].Offsets().LogEnd; end == backlog {
		t.Error("a quiet partition waited until the backlog of another was copied")
	}
	b.reach(targets[0], backlog)
}

func TestC98_SlowConnectionsOverADistanceAreUsedSideBySide(t *testing.T) {
	b := newBench(t, 1, func(cfg *fetcher.Config) { cfg.ResponseMax, cfg.PartitionMax = 1<<20, 1<<20 })
	const perConnection = 2 << 20 // bytes a second
	b.stub.Broker(1).Delay(20 * time.Millisecond)
	b.stub.Broker(1).Pace(perConnection)
	b.stub.Create("t", topicID, 2)
	p := b.stub.Partition(zero)
	// Batches of many sizes and offsets, with holes as compaction leaves them, and two epochs.
	size, end := 0, kafka.Offset(0)
	for i := 0; size < 24<<20; i++ {
		set := stubtest.Build(end, kafka.LeaderEpoch(0), 1+i%7, strings.Repeat("x", 1000+i*7919%30000))
		p.Append(set)
		size, end = size+len(set), end+kafka.Offset(1+i%7+i%5)
	}
	p.Produce(1, "last")
	begun := time.Now()
	targets := b.mirror(topicID, zero, one)
	if !targets[0].Await(b.ctx, func(o partition.Offsets) bool { return o.Size > int64(size) }) {
		t.Fatalf("mirror is at %+v, status %+v", targets[0].Offsets(), b.pool.Status(zero))
	}
	took := time.Since(begun)
	b.same(targets[0], zero)
	if alone := time.Duration(float64(size) / perConnection * float64(time.Second)); took > alone*3/4 {
		t.Errorf("%v for what one connection carries in %v", took, alone)
	}
	b.stub.Partition(one).Produce(1, "quiet")
	b.reach(targets[1], 1)
	last := targets[0].Offsets().LogEnd
	b.stub.Partition(zero).Produce(1, "after")
	b.reach(targets[0], last+1)
	b.same(targets[0], zero)
}

func TestC98_StripesThatDoNotFitAreGivenUp(t *testing.T) {
	b := newBench(t, 2, func(cfg *fetcher.Config) { cfg.ResponseMax, cfg.PartitionMax = 1<<20, 1<<20 })
	for id := range int32(2) {
		b.stub.Broker(id + 1).Delay(15 * time.Millisecond)
		b.stub.Broker(id + 1).Pace(4 << 20)
	}
	b.stub.Create("t", topicID, 1)
	p := b.stub.Partition(zero)
	value := strings.Repeat("x", 60<<10)
	for range 300 {
		p.Produce(1, value)
	}
	target := b.mirror(topicID, zero)[0]
	if !target.Await(b.ctx, func(o partition.Offsets) bool { return o.LogEnd > 60 }) {
		t.Fatal("nothing is mirrored")
	}
	p.Cut(200)
	p.Lead(2, 1)
	for range 50 {
		p.Produce(1, "other")
	}
	settled := func(o partition.Offsets) bool { epoch, _ := target.EpochEnd(1); return o.LogEnd == 250 && epoch == 1 }
	if !target.Await(b.ctx, settled) {
		t.Fatalf("mirror ends at %d", target.Offsets().LogEnd)
	}
	b.same(target, zero)
}

func TestC99_IdlePartitionsCostLittle(t *testing.T) {
	b := newLoneBench(t, 1, func(cfg *fetcher.Config) { cfg.MaxWait = 500 * time.Millisecond })
	const partitions = 5000
	b.stub.Create("t", topicID, partitions)
	var list []fetcher.Assignment
	targets := make([]*stubtest.Target, partitions)
	for i := range targets {
		targets[i] = stubtest.NewTarget(0)
		tp := kafka.TopicPartition{Topic: "t", Partition: int32(i)}
		list = append(list, fetcher.Assignment{Source: tp, SourceID: topicID, Mirror: tp, Target: targets[i]})
	}
	goroutines := runtime.NumGoroutine()
	b.pool.Assign(list)
	b.stub.Partition(kafka.TopicPartition{Topic: "t", Partition: partitions - 1}).Produce(1, "v")
	b.reach(targets[partitions-1], 1)
	before := b.stub.Requests(1)
	timer := time.NewTimer(time.Second)
	<-timer.C
	if n := b.stub.Requests(1) - before; n > 30 {
		t.Errorf("%d fetches in an idle second", n)
	}
	if n := runtime.NumGoroutine() - goroutines; n > 50 {
		t.Errorf("%d goroutines more", n)
	}
}

func TestCloseLeavesNoGoroutines(t *testing.T) {
	stub := stubtest.NewCluster(t, 2)
	stub.Create("t", topicID, 2)
	stub.Partition(one).Lead(2, 1)
	before := runtime.NumGoroutine()
	c, err := source.Dial(source.Config{Bootstrap: stub.Bootstrap()})
	if err != nil {
		t.Fatal(err)
	}
	pool := fetcher.New(c, fetcher.Config{}, nil)
	targets := []*stubtest.Target{stubtest.NewTarget(0), stubtest.NewTarget(0)}
	pool.Assign([]fetcher.Assignment{
		{Source: zero, SourceID: topicID, Mirror: zero, Target: targets[0]},
		{Source: one, SourceID: topicID, Mirror: one, Target: targets[1]},
	})
	stub.Partition(zero).Produce(1, "v")
	targets[0].Await(t.Context(), func(o partition.Offsets) bool { return o.LogEnd == 1 })
	pool.Close()
	c.Close()
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if after := runtime.NumGoroutine(); after > before {
		buf := make([]byte, 1<<16)
		t.Fatalf("%d goroutines before, %d after:\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
}

func TestC14_BrokerThatHangsHoldsNobodyBack(t *testing.T) {
	b := newBench(t, 2, nil)
	b.stub.Create("t", topicID, 1)
	p := b.stub.Partition(zero)
	p.Produce(1, "v")
	target := b.mirror(topicID, zero)[0]
	b.reach(target, 1)
	b.stub.Broker(1).Delay(time.Hour)
	p.Lead(2, 1)
	p.Produce(1, "v")
	begun := time.Now()
	b.reach(target, 2)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestAShorterMetadataAgeCountsAtOnce has leaders looked up every hour, and then oftener: not only once the hour is over.
func TestAShorterMetadataAgeCountsAtOnce(t *testing.T) {
	const metadata = 3
	b := newBench(t, 1, func(cfg *fetcher.Config) { cfg.MetadataAge = time.Hour })
	b.stub.Create("t", topicID, 1)
	target := b.mirror(topicID, zero)[0]
	b.stub.Partition(zero).Produce(1, "v")
	b.reach(target, 1)
	asked := b.stub.Requests(metadata)
	b.pool.Reconfigure(fetcher.Config{MaxWait: 200 * time.Millisecond, Backoff: 100 * time.Millisecond, MetadataAge: 20 * time.Millisecond})
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for b.stub.Requests(metadata) < asked+3 {
		select {
		case <-look.C:
		case <-b.ctx.Done():
			t.Fatalf("the source was asked %d times before and %d times after", asked, b.stub.Requests(metadata))
		}
	}
}
