package broker

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/partition"
)

// uncleanableFor is how long a log that could not be compacted is left alone.
const uncleanableFor = 10 * time.Minute

// cleaner removes what topics' configs say may go: one goroutine looks after
// retention every log.retention.check.interval.ms, another compacts the dirtiest log there is.
type cleaner struct {
	b       *Broker
	stop    context.Context
	running sync.WaitGroup
	// failed is until when partitions are left alone; compaction's alone.
	failed map[kafka.PartitionID]time.Time

	removedBytes, removedSegments atomic.Int64
	runs, failures                atomic.Int64
	readBytes, writtenBytes       atomic.Int64
	removedRecords                atomic.Int64
	lastDuration                  atomic.Int64 // of the last compaction, ns
	resting                       atomic.Int64
}

func (b *Broker) openCleaner(context.Context) error {
	stop, cancel := context.WithCancel(context.Background())
	c := &cleaner{b: b, stop: stop, failed: map[kafka.PartitionID]time.Time{}}
	b.cleaner = c
	c.running.Go(c.retention)
	if b.values.Bool("log.cleaner.enable") {
		c.running.Go(c.compaction)
	}
	b.onClose(func() error {
		cancel()
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
		case <-c.stop.Done():
			return
		}
		removed := c.b.owner.ApplyRetention(time.Now(), c.stop.Done())
		c.removedBytes.Add(removed.Bytes)
		c.removedSegments.Add(int64(removed.Segments))
	}
}

func (c *cleaner) compaction() {
	for c.stop.Err() == nil {
		// The settings can be changed while it runs.
		node, cluster, static := (&configs{c.b}).Broker()
		v := config.Broker.Values(node, cluster, static)
		if p := c.dirtiest(time.Now()); p != nil && v.Int("log.cleaner.threads") > 0 {
			c.compact(p, v)
			continue
		}
		timer := time.NewTimer(max(v.Millis("log.cleaner.backoff.ms"), 10*time.Millisecond))
		select {
		case <-timer.C:
		case <-c.stop.Done():
			timer.Stop()
		}
	}
}

// dirtiest is the partition that most needs compaction, nil if none does: first those that max.compaction.lag.ms
// makes due, then by the dirty part of the log.
func (c *cleaner) dirtiest(now time.Time) *partition.Partition {
	var best *partition.Partition
	var most retain.Dirt
	for _, topic := range c.b.topics.All() {
		for n := range topic.Partitions {
			id := kafka.PartitionID{Topic: topic.ID, Partition: n}
			if until, ok := c.failed[id]; ok {
				if now.Before(until) {
					continue
				}
				delete(c.failed, id)
			}
			p := c.b.owner.Get(id)
			if p == nil {
				continue
			}
			d, worth := p.Dirt(now)
			if worth && (best == nil || d.Due && !most.Due || d.Due == most.Due && d.Ratio() > most.Ratio()) {
				best, most = p, d
			}
		}
	}
	c.resting.Store(int64(len(c.failed)))
	return best
}

func (c *cleaner) compact(p *partition.Partition, v config.Values) {
	begun := time.Now()
	done, err := p.Compact(c.stop, begun, partition.Compaction{
		KeyBytes: v.Int("log.cleaner.dedupe.buffer.size"),
		Pace:     newPace(c.stop, v.Float("log.cleaner.io.max.bytes.per.second")).spend,
	})
	took := time.Since(begun)
	c.runs.Add(1)
	c.readBytes.Add(done.Read)
	c.writtenBytes.Add(done.Written)
	c.removedRecords.Add(done.Removed)
	c.lastDuration.Store(int64(took))
	log := c.b.log.With("topic", p.Name().Topic, "partition", p.Name().Partition)
	switch {
	case err == nil:
		log.Info("compacted a log", "from", done.From, "to", done.To, "passes", done.Passes, "read_bytes", done.Read,
			"written_bytes", done.Written,
			"removed_records", done.Removed, "duration", took)
		if done.Unreadable > 0 {
			log.Warn("batches were left uncompacted because their records cannot be read", "batches", done.Unreadable)
		}
	case errors.Is(err, partition.ErrCleanAborted) || errors.Is(err, context.Canceled):
		log.Info("a compaction was given up and will begin anew", "reason", err)
		c.failed[p.ID()] = time.Now().Add(time.Second) // what it met with should be over
	default:
		c.failures.Add(1)
		c.failed[p.ID()] = time.Now().Add(uncleanableFor)
		log.Error("a log cannot be compacted; it is left as it is and tried again later", "error", err, "again", uncleanableFor)
	}
}

// pace keeps to a number of bytes per second.
type pace struct {
	stop  context.Context
	rate  float64
	begun time.Time
	spent float64
}

func newPace(stop context.Context, rate float64) *pace {
	return &pace{stop: stop, rate: rate, begun: time.Now()}
}

// spend waits until so many bytes more are within the rate, at most a second at a time, so that whoever stops
// the compaction need not wait long.
func (p *pace) spend(bytes int) {
	p.spent += float64(bytes)
	if p.rate <= 0 || p.rate > math.MaxInt64 {
		return
	}
	ahead := p.spent/p.rate - time.Since(p.begun).Seconds()
	if ahead < 0.01 {
		return
	}
	timer := time.NewTimer(time.Duration(min(ahead, 1) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.stop.Done():
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

// segmentAge is when a segment is rolled: on a compacted topic also in time for max.compaction.lag.ms, as
// the newest segment is not compacted.
func segmentAge(v config.Values) time.Duration {
	age := v.Millis("segment.ms")
	if slices.Contains(v.List("cleanup.policy"), "compact") {
		age = min(age, v.Millis("max.compaction.lag.ms"))
	}
	return age
}
