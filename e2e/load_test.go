//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// usage is what a broker holds at a moment.
type usage struct {
	at                time.Duration
	mb                float64 // resident
	goroutines, files float64
}

func usageOf(t *testing.T, h *Hawser, since time.Time) usage {
	t.Helper()
	read := func(name string) float64 {
		v, ok := h.Metric(name)
		if !ok {
			t.Fatalf("no metric %s", name)
		}
		return v
	}
	return usage{time.Since(since), read("process_resident_memory_bytes") / 1e6, read("go_goroutines"), read("process_open_fds")}
}

// TestLoadLeavesNothingBehind produces, consumes in groups, runs transactions, makes and deletes topics and connections
// for a while. Afterwards there are as many goroutines and files as before, and over a long run (HAWSER_LOAD_SECONDS,
// an hour in the nightly) memory does not grow.
func TestLoadLeavesNothingBehind(t *testing.T) {
	length := time.Duration(envInt("HAWSER_LOAD_SECONDS", 15)) * time.Second
	h := StartHawser(t, "--set", "log.segment.bytes=16777216", "--set", "log.retention.bytes=67108864", "--set", "log.retention.check.interval.ms=5000", "--set", "offsets.topic.num.partitions=5", "--set", "transaction.state.log.num.partitions=5")
	steady := Client(t, h.Kafka)
	CreateTopic(t, steady, "load", 4, 1, nil)
	CreateTopic(t, steady, "load-txn", 2, 1, nil)
	load := func(length time.Duration) {
		ctx, stop := context.WithTimeout(t.Context(), length)
		defer stop()
		var all sync.WaitGroup
		for _, work := range []func(context.Context, string) error{loadProduce, loadConsume, loadTransact, loadTopics, loadConnect} {
			all.Go(func() {
				for ctx.Err() == nil {
					if err := work(ctx, h.Kafka); err != nil && ctx.Err() == nil {
						t.Errorf("under load: %v", err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	load(3 * time.Second) // everything that is made once is made
	// rested removes what was written, since each segment that retention keeps is an open file, and waits until no more than
	// files are open, or gives up.
	rested := func(files float64) usage {
		removeRecords(t, steady, "load", "load-txn")
		var now usage
		eventually(t, 60*time.Second, "the clients' connections are gone", func() (bool, string) {
			conns, _ := h.Metric("hawser_kafka_connections")
			now = usageOf(t, h, time.Now())
			return conns <= 3 && now.files <= files, fmt.Sprintf("%v connections, %+v", conns, now) // steady's own
		})
		return now
	}
	before := rested(math.Inf(1))
	begun := time.Now()
	var seen []usage
	done := make(chan struct{})
	go func() { defer close(done); load(length) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(max(length/120, time.Second)):
			seen = append(seen, usageOf(t, h, begun))
		}
	}
	after := rested(before.files*1.05 + 5)
	t.Logf("before %+v, after %+v", before, after)
	if after.goroutines > before.goroutines*1.05+5 {
		t.Errorf("goroutines went from %v to %v", before.goroutines, after.goroutines)
	}
	slope := slopeOf(seen)
	t.Logf("memory: %.2f MB/min over %v, from %d readings", slope, length, len(seen))
	if length >= 30*time.Minute && slope >= 0.5 {
		t.Errorf("memory grows by %.2f MB/min", slope)
	}
}

// removeRecords removes all records of the topics.
func removeRecords(t *testing.T, client *kgo.Client, topics ...string) {
	t.Helper()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(t.Context(), topics...)
	if err != nil {
		t.Fatal(err)
	}
	removed, err := admin.DeleteRecords(t.Context(), ends.Offsets())
	if err := errors.Join(err, removed.Error()); err != nil {
		t.Fatal(err)
	}
}

// slopeOf is by how many MB a minute the memory grew, by least squares, without the first fifth.
func slopeOf(all []usage) float64 {
	all = all[len(all)/5:]
	var n, sx, sy, sxx, sxy float64
	for _, u := range all {
		x, y := u.at.Minutes(), u.mb
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}

func loadClient(bootstrap string, options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap)}, options...)...)
}

func loadProduce(ctx context.Context, bootstrap string) error {
	c, err := loadClient(bootstrap, kgo.DefaultProduceTopic("load"))
	if err != nil {
		return err
	}
	defer c.Close()
	for range 50 {
		var records []*kgo.Record
		for range 100 {
			records = append(records, &kgo.Record{Value: make([]byte, 1+rand.IntN(2000))})
		}
		if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		pause(ctx, 20*time.Millisecond)
	}
	return nil
}

func loadConsume(ctx context.Context, bootstrap string) error {
	c, err := loadClient(bootstrap, kgo.ConsumeTopics("load"), kgo.ConsumerGroup(fmt.Sprint("load-", rand.IntN(3))))
	if err != nil {
		return err
	}
	defer c.Close()
	for range 20 {
		poll, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		c.PollFetches(poll)
		cancel()
	}
	return nil
}

func loadTransact(ctx context.Context, bootstrap string) error {
	c, err := loadClient(bootstrap, kgo.TransactionalID("load"), kgo.DefaultProduceTopic("load-txn"))
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range 20 {
		if err := c.BeginTransaction(); err != nil {
			return err
		}
		if err := c.ProduceSync(ctx, kgo.StringRecord("in a transaction")).FirstErr(); err != nil {
			return err
		}
		if err := c.EndTransaction(ctx, kgo.TransactionEndTry(i%3 > 0)); err != nil {
			return err
		}
		pause(ctx, 20*time.Millisecond)
	}
	return nil
}

func loadTopics(ctx context.Context, bootstrap string) error {
	c, err := loadClient(bootstrap)
	if err != nil {
		return err
	}
	defer c.Close()
	admin, topic := kadm.NewClient(c), fmt.Sprint("load-made-", rand.Int32())
	if _, err := admin.CreateTopic(ctx, 3, 1, nil, topic); err != nil {
		return err
	}
	if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("short-lived")}).FirstErr(); err != nil {
		return err
	}
	_, err = admin.DeleteTopics(ctx, topic)
	pause(ctx, 100*time.Millisecond)
	return err
}

func loadConnect(ctx context.Context, bootstrap string) error {
	c, err := loadClient(bootstrap)
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.Ping(ctx)
	pause(ctx, 20*time.Millisecond)
	return err
}
