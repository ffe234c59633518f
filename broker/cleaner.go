package broker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/config"
)

// cleaner removes what topics' configs say may go: one goroutine looks after
// retention, every log.retention.check.interval.ms.
type cleaner struct {
	b       *Broker
	stop    chan struct{}
	running sync.WaitGroup

	removedBytes    atomic.Int64
	removedSegments atomic.Int64
}

func (b *Broker) openCleaner(context.Context) error {
	c := &cleaner{b: b, stop: make(chan struct{})}
	b.cleaner = c
	c.running.Go(c.retention)
	b.onClose(func() error {
		close(c.stop)
		c.running.Wait()
		return nil
	})
	return nil
}

func (c *cleaner) retention() {
	tick := time.NewTicker(c.b.values.Millis("log.retention.check.interval.ms"))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.stop:
			return
		}
		removed := c.b.owner.ApplyRetention(time.Now(), c.stop)
		c.removedBytes.Add(removed.Bytes)
		c.removedSegments.Add(int64(removed.Segments))
	}
}

// retainPolicy is what a topic's configs say about old records.
func retainPolicy(v config.Values) retain.Policy {
	policies := v.List("cleanup.policy")
	return retain.Policy{
		Delete:            slices.Contains(policies, "delete"),
		Compact:           slices.Contains(policies, "compact"),
		RetentionMs:       v.Int("retention.ms"),
		RetentionBytes:    v.Int("retention.bytes"),
		DeleteRetentionMs: v.Int("delete.retention.ms"),
		MinLagMs:          v.Int("min.compaction.lag.ms"),
		MaxLagMs:          v.Int("max.compaction.lag.ms"),
		DirtyRatio:        v.Float("min.cleanable.dirty.ratio"),
	}
}
