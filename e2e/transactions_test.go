//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestC95_ExactlyOnceOverKills copies records from one topic to another in transactions that hold the offsets too,
// with two processors in a group, while hawser is killed again and again. Every record arrives once.
func TestC95_ExactlyOnceOverKills(t *testing.T) {
	kills, inputs := envInt("HAWSER_KILLS", 6), 10_000
	h := StartHawser(t)
	client := Client(t, h.Kafka)
	CreateTopic(t, client, "in", 4, 1, nil)
	CreateTopic(t, client, "out", 4, 1, nil)
	records := make([]*kgo.Record, inputs)
	for i := range records {
		records[i] = &kgo.Record{Topic: "in", Value: fmt.Appendf(nil, "%d", i)}
	}
	if err := client.ProduceSync(testContext(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(testContext(t), 4*time.Minute)
	defer cancel()
	var work sync.WaitGroup
	for n := range 2 {
		work.Go(func() { copyForEver(ctx, h.Kafka, fmt.Sprintf("processor-%d", n)) })
	}
	var killing sync.WaitGroup
	killing.Go(func() {
		for range kills {
			pause(ctx, 1500*time.Millisecond)
			h.Kill()
			h.Start()
		}
	})
	counts := map[string]int{}
	reader := Client(t, h.Kafka, kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	for len(counts) < inputs && ctx.Err() == nil {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) { counts[string(r.Value)]++ })
	}
	killing.Wait()
	// What is still open is decided, and would show a second copy.
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		short, done := context.WithDeadline(ctx, end)
		reader.PollFetches(short).EachRecord(func(r *kgo.Record) { counts[string(r.Value)]++ })
		done()
	}
	cancel()
	work.Wait()
	twice := 0
	for value, n := range counts {
		if n != 1 {
			twice++
			t.Errorf("record %s arrived %d times", value, n)
		}
	}
	if len(counts) != inputs {
		t.Errorf("%d of %d records arrived", len(counts), inputs)
	}
	t.Logf("%d records over %d kills, %d more than once", len(counts), kills, twice)
}

// copyForEver copies until ctx ends, with a new client whenever a transaction could not be ended.
func copyForEver(ctx context.Context, bootstrap, id string) {
	for ctx.Err() == nil {
		session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(id), kgo.ConsumerGroup("copiers"), kgo.ConsumeTopics("in"),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.SessionTimeout(8*time.Second), kgo.TransactionTimeout(10*time.Second), kgo.MetadataMinAge(100*time.Millisecond))
		if err != nil {
			return
		}
		for ctx.Err() == nil && copyOnce(ctx, session) == nil {
		}
		session.Close()
	}
}

func copyOnce(ctx context.Context, session *kgo.GroupTransactSession) error {
	fetches := session.PollRecords(ctx, 200)
	if fetches.Empty() {
		return ctx.Err()
	}
	if err := session.Begin(); err != nil {
		return err
	}
	promise := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(r *kgo.Record) {
		session.Produce(ctx, &kgo.Record{Topic: "out", Value: r.Value}, promise.Promise())
	})
	_, err := session.End(ctx, kgo.TransactionEndTry(promise.Err() == nil))
	return err
}
