package broker

import (
	"context"
	"errors"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// How often partitions that could not be opened for want of room are tried again, at first and at last.
const (
	reopenFirst = time.Second
	reopenLast  = 30 * time.Second
)

// openReopener looks after partitions that were left out at the start because the disk was full, or the process out of
// files: they come back by themselves once there is room, and with them the groups and transactional ids that are stored on them.
func (b *Broker) openReopener(context.Context) error {
	stop, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait := reopenFirst
		for {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-stop.Done():
				timer.Stop()
				return
			}
			if lacking := b.owner.Lacking(); len(lacking) > 0 {
				b.topics.reopen(lacking)
				b.retryCoordinators(stop)
				wait = min(2*wait, reopenLast)
			} else {
				wait = reopenFirst
			}
		}
	}()
	b.onClose(func() error {
		cancel()
		<-done
		return nil
	})
	return nil
}

// retryCoordinators has the coordinators read what they could not read at the start.
func (b *Broker) retryCoordinators(ctx context.Context) {
	err := errors.Join(b.groups.Retry(ctx), b.txns.Retry(ctx))
	// As after the first reading: ids that only these logs know must not be handed out again (rule P3).
	err = errors.Join(err, b.raiseProducerIDs(ctx),
		b.meta.RaiseProducerIDs(ctx, b.txns.HighestProducer(b.meta.Image().Cluster.ProducerPrefix)))
	if err != nil && ctx.Err() == nil {
		b.log.Error("coordinators are not read again", "error", err)
	}
}

// reopen tries the partitions of these topics again. Those that cannot be opened say why; they were said to be out of service when they
// first could not.
func (t *topics) reopen(ids []kafka.TopicID) {
	t.opening.Lock()
	defer t.opening.Unlock()
	img := t.b.meta.Image()
	for _, id := range ids {
		topic, states := img.Topics[id], img.Partitions[id]
		if topic == nil || states == nil {
			continue
		}
		if err := t.b.owner.Reopen(topic, states, t.b.topicConfig(topic)); err != nil {
			t.b.log.Warn("partitions are not tried again", "topic", topic.Name, "error", err)
		}
	}
}
