package fetcher_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/partition"
)

// bench is a stub cluster with a pool that mirrors from it.
type bench struct {
	*testing.T
	ctx     context.Context
	stub    *stubtest.Cluster
	cluster *source.Cluster
	pool    *fetcher.Pool
	list    []fetcher.Assignment

	mu      sync.Mutex
	events  []fetcher.Event
	changed chan struct{}
}

// newBench makes one for a test that runs beside others.
func newBench(t *testing.T, brokers int, change func(*fetcher.Config)) *bench {
	t.Helper()
	t.Parallel()
	return newLoneBench(t, brokers, change)
}

func newLoneBench(t *testing.T, brokers int, change func(*fetcher.Config)) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	b := &bench{T: t, ctx: ctx, stub: stubtest.NewCluster(t, brokers), changed: make(chan struct{})}
	b.cluster = dial(t, b.stub)
	cfg := fetcher.Config{MaxWait: 200 * time.Millisecond, Backoff: 100 * time.Millisecond, MetadataAge: time.Second}
	if change != nil {
		change(&cfg)
	}
	b.pool = fetcher.New(b.cluster, cfg, b.note)
	t.Cleanup(b.pool.Close)
	return b
}

func dial(t *testing.T, stub *stubtest.Cluster) *source.Cluster {
	t.Helper()
	c, err := source.Dial(source.Config{Bootstrap: stub.Bootstrap(), RequestTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (b *bench) note(e fetcher.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
	close(b.changed)
	b.changed = make(chan struct{})
}

// await returns the first event of a kind from index on, and its index.
func (b *bench) await(kind string, from int) (fetcher.Event, int) {
	b.Helper()
	for {
		b.mu.Lock()
		events, changed := b.events, b.changed
		b.mu.Unlock()
		for i := from; i < len(events); i++ {
			if events[i].Kind == kind {
				return events[i], i
			}
		}
		select {
		case <-changed:
		case <-b.ctx.Done():
			b.Fatalf("no event %q; there were %v", kind, events)
		}
	}
}

var (
	topicID = kafka.TopicID{1}
	zero    = kafka.TopicPartition{Topic: "t"}
	one     = kafka.TopicPartition{Topic: "t", Partition: 1}
)

// mirror assigns partitions, each with a target of its own that starts at 0.
func (b *bench) mirror(id kafka.TopicID, parts ...kafka.TopicPartition) []*stubtest.Target {
	var targets []*stubtest.Target
	for _, tp := range parts {
		target := stubtest.NewTarget(0)
		targets = append(targets, target)
		b.list = append(b.list, fetcher.Assignment{Source: tp, SourceID: id, Mirror: tp, Target: target})
	}
	b.pool.Assign(b.list)
	return targets
}

func (b *bench) reach(target *stubtest.Target, end kafka.Offset) {
	b.Helper()
	if !target.Await(b.ctx, func(o partition.Offsets) bool { return o.LogEnd >= end }) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.Fatalf("mirror ends at %d, not %d; status %+v, events %v", target.Offsets().LogEnd, end, b.pool.Status(zero), b.events)
	}
	if got := target.Offsets().LogEnd; got != end {
		b.Fatalf("mirror ends at %d, not %d", got, end)
	}
}

func (b *bench) startsAt(target *stubtest.Target, start kafka.Offset) {
	b.Helper()
	if !target.Await(b.ctx, func(o partition.Offsets) bool { return o.LogStart == start }) {
		b.Fatalf("mirror starts at %d, not %d", target.Offsets().LogStart, start)
	}
}

func (b *bench) same(target *stubtest.Target, tp kafka.TopicPartition) {
	b.Helper()
	if !bytes.Equal(target.Batches(), b.stub.Partition(tp).Bytes()) {
		b.Fatalf("mirror of %s differs from the source", tp)
	}
}
