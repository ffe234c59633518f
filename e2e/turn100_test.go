//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// restless is a rider whose client is made anew every few records, and which writes down how long a refusal took.
func (r *rider) restless(ctx context.Context, t *testing.T, slowest *atomic.Int64) {
	defer func() {
		if r.client != nil {
			r.client.Close()
		}
	}()
	for ctx.Err() == nil {
		if r.n%5 == 4 && r.client != nil {
			r.client.Close()
			r.client = nil
		}
		client := r.open(t)
		if client == nil {
			return
		}
		record, kills, asked := r.next(), r.kills.Load(), time.Now()
		err := client.ProduceSync(context.WithoutCancel(ctx), record).FirstErr()
		if took := int64(time.Since(asked)); err != nil && took > slowest.Load() {
			slowest.Store(took)
		}
		r.settle(err, kills, asked, string(record.Value))
		pause(ctx, 50*time.Millisecond)
	}
}

// TestReverse100TopicsAtOnce turns a hundred topics by one order, under producers that restart all the time. Each is refused at
// once where it may not write, and what was accepted is there.
func TestReverse100TopicsAtOnce(t *testing.T) {
	t.Parallel()
	const n = 100
	w := startTwins(t)
	var topics []string
	cl := Client(t, w[0].Kafka)
	for i := range n {
		topics = append(topics, fmt.Sprintf("all%03d", i))
		CreateTopic(t, cl, topics[i], 1, 1, nil)
		w[1].CreateMirror("ab", topics[i])
	}
	sums := make([]*tally, n)
	var kills, slowest atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var riders sync.WaitGroup
	for i, topic := range topics {
		sums[i] = &tally{}
		r := &rider{tally: sums[i], sites: w, topic: topic, partitions: 1, name: topic, kills: &kills}
		riders.Go(func() { r.restless(ctx, t, &slowest) })
	}
	pause(ctx, time.Second)
	begun := time.Now()
	w[1].Order("ab", "reverse-and-start-mirror", topics...)
	for _, topic := range topics {
		w[1].WaitStatus("ab", topic, "STOPPED", 60*time.Second)
	}
	took := time.Since(begun)
	for _, topic := range topics {
		w[0].WaitStatus("ab", topic, "ACTIVE", 60*time.Second)
	}
	pause(ctx, time.Second)
	stop()
	riders.Wait()
	var acked, unknown, failed, moved int
	from, to := Client(t, w[1].Kafka), Client(t, w[0].Kafka)
	for i, topic := range topics {
		WaitLevel(t, from, to, topic, 1, 30*time.Second)
		checkTally(t, w, topic, 1, sums[i])
		acked, unknown, failed = acked+len(sums[i].acked), unknown+len(sums[i].unknown), failed+len(sums[i].failed)
		for _, a := range sums[i].acks {
			if a.site == 1 {
				moved++
				break
			}
		}
	}
	t.Logf("%d topics turned in %v; acknowledged %d, unknown %d, failed %d, the slowest refusal took %v; %d topics were written on the other side", n, took, acked, unknown, failed, time.Duration(slowest.Load()), moved)
	if moved < n/2 {
		t.Errorf("only %d topics were written to after the turn", moved)
	}
	if slow := time.Duration(slowest.Load()); slow > 10*time.Second {
		t.Errorf("a refusal took %v", slow)
	}
	if took > 30*time.Second {
		t.Errorf("%d topics took %v to turn", n, took)
	}
}
