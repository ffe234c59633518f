//go:build bench

package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestTransactions has 8 producers commit transactions of 1 to 100 records over 10 partitions.
func TestTransactions(t *testing.T) {
	const producers, partitions, during = 8, 10, 3 * time.Second
	all := pairs(t)
	for _, records := range []int{1, 10, 100} {
		for _, p := range all {
			inTurn(t, p, fmt.Sprintf("transactions of %d records", records), func(b broker, topic string) figures {
				createTopic(t, b.client, topic, partitions, b.configs)
				defer deleteTopic(t, b.client, topic)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var ended atomic.Int64
				var stop atomic.Bool
				var running sync.WaitGroup
				var before float64
				ready := make(chan struct{})
				for n := range producers {
					c := client(t, b.address, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(0), kgo.TransactionalID(fmt.Sprintf("%s-%d", topic, n)))
					defer c.Close()
					transact(ctx, t, c, records) // the coordinator's topic is made with the first
					running.Go(func() {
						<-ready
						for !stop.Load() && transact(ctx, t, c, records) {
							ended.Add(1)
						}
					})
				}
				before = cpuSeconds(t, b.pid)
				close(ready)
				pause(ctx, during)
				done, used := ended.Load(), cpuSeconds(t, b.pid)-before
				stop.Store(true)
				running.Wait()
				var f figures
				f.add("transactions/s", float64(done)/during.Seconds())
				f.add("cpu µs/transaction", used*1e6/float64(done))
				return f
			})
		}
	}
}

// transact commits a transaction and reports whether that worked.
func transact(ctx context.Context, t *testing.T, c *kgo.Client, records int) bool {
	if err := c.BeginTransaction(); err != nil {
		t.Error(err)
		return false
	}
	value := make([]byte, 100)
	for range records {
		c.Produce(ctx, &kgo.Record{Value: value}, nil)
	}
	err := c.Flush(ctx)
	if err == nil {
		err = c.EndTransaction(ctx, kgo.TryCommit)
	}
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// TestCommits has 8 clients commit offsets, each of a group of its own, of 1 and of 100 partitions at a time.
func TestCommits(t *testing.T) {
	const clients, during = 8, 3 * time.Second
	all := pairs(t)
	for _, partitions := range []int32{1, 100} {
		for _, p := range all {
			inTurn(t, p, fmt.Sprintf("commits of %d partitions", partitions), func(b broker, topic string) figures {
				createTopic(t, b.client, topic, partitions, nil)
				defer deleteTopic(t, b.client, topic)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var committed atomic.Int64
				var stop atomic.Bool
				var running sync.WaitGroup
				offsets := kadm.Offsets{}
				for n := range partitions {
					offsets.AddOffset(topic, n, 0, -1)
				}
				ready := make(chan struct{})
				for n := range clients {
					admin, group := kadm.NewClient(client(t, b.address)), fmt.Sprintf("%s-%d", topic, n)
					defer admin.Close()
					if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
						t.Fatal(err)
					}
					running.Go(func() {
						<-ready
						for !stop.Load() {
							if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
								t.Error(err)
								return
							}
							committed.Add(1)
						}
					})
				}
				before := cpuSeconds(t, b.pid)
				close(ready)
				pause(ctx, during)
				done, used := committed.Load(), cpuSeconds(t, b.pid)-before
				stop.Store(true)
				running.Wait()
				var f figures
				f.add("commits/s", float64(done)/during.Seconds())
				f.add("cpu µs/commit", used*1e6/float64(done))
				return f
			})
		}
	}
}
