package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

const (
	retryMin = 50 * time.Millisecond
	retryMax = 5 * time.Second
	// markersAtOnce is how many partitions' syncs one transaction waits for side by side.
	markersAtOnce = 64
	// finishPatience is how long an EndTxn waits for the markers. The decision stands whether they are
	// written by then or not, so that the answer is the same.
	finishPatience = 10 * time.Second
)

// finish writes the markers of the decided transaction, and then that they are written, for as long as it takes.
// The entry's lock is held; nothing else happens to the id until then.
func (c *impl) finish(e *entry) {
	e.disarm()
	done, t, end := make(chan struct{}), e.t, e.end
	e.done = done
	c.work.Go(func() {
		defer close(done)
		c.untilDone("write the markers of a transaction", e, func() error { return c.writeMarkers(c.life, e, t, end) })
		c.untilDone("complete a transaction", e, func() error { return c.complete(e) })
	})
}

// untilDone repeats do, with growing waits, until it succeeds or the coordinator closes.
func (c *impl) untilDone(what string, e *entry, do func() error) {
	for wait := retryMin; c.life.Err() == nil; wait = min(2*wait, retryMax) {
		err := do()
		if err == nil || c.life.Err() != nil {
			return
		}
		c.log.Error(what, "transactional_id", e.id, "error", err, "again_in", wait)
		select {
		case <-time.After(wait):
		case <-c.life.Done():
		}
	}
}

// writeMarkers returns once a marker is durable in every partition of the transaction that still exists.
func (c *impl) writeMarkers(ctx context.Context, e *entry, t transaction, end kafka.Offset) error {
	log, err := e.shard.get(ctx)
	if err != nil {
		return err
	}
	if err := log.WaitSynced(ctx, end); err != nil {
		return fmt.Errorf("wait for the decision to be synced: %w", err)
	}
	m := marking{id: t.producer, epoch: t.epoch, marker: batch.Abort, coordinator: int32(log.epoch())}
	if t.state == PrepareCommit {
		m.marker = batch.Commit
	}
	syncs, ctx := errgroup.WithContext(ctx)
	syncs.SetLimit(markersAtOnce)
	for _, tp := range t.sorted() {
		wait, err := c.mark(ctx, tp, m)
		if err == nil {
			syncs.Go(func() error { return c.unlessOver(tp, wait(ctx)) })
		} else if err := c.unlessOver(tp, err); err != nil {
			return errors.Join(fmt.Errorf("append a marker to %s: %w", tp, err), syncs.Wait())
		}
	}
	return syncs.Wait()
}

// unlessOver drops errors that say that nothing of the transaction is left open in the partition: its topic
// was deleted, or a newer epoch of the producer has been there.
func (c *impl) unlessOver(tp kafka.TopicPartition, err error) error {
	if errors.Is(err, kafka.UnknownTopicOrPartition) {
		return nil
	}
	if errors.Is(err, kafka.InvalidProducerEpoch) {
		c.log.Warn("a partition takes no marker: it has seen a newer epoch of the producer",
			"topic", tp.Topic, "partition", tp.Partition, "error", err)
		return nil
	}
	return err
}

// mark appends one marker: through the group coordinator where it decides offsets.
func (c *impl) mark(ctx context.Context, tp kafka.TopicPartition, m marking) (func(context.Context) error, error) {
	if tp.Topic == kafka.ConsumerOffsetsTopic {
		return func(ctx context.Context) error {
			return c.env.Offsets.WriteMarker(ctx, tp.Partition, m.id, m.epoch, m.marker, m.coordinator)
		}, nil
	}
	return c.doors.mark(ctx, tp, m)
}

func (c *impl) complete(e *entry) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.t.state.preparing() {
		return nil
	}
	next := e.t.complete(time.Now().UnixMilli())
	if err := c.write(c.life, e, &next); err != nil {
		return err
	}
	e.done = nil
	return nil
}

// finished waits until the markers are written, or the client's patience or ours ends.
func (c *impl) finished(ctx context.Context, done <-chan struct{}) {
	if done == nil {
		return
	}
	patience := time.NewTimer(finishPatience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	case <-ctx.Done():
	}
}
