package group

import (
	"time"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
)

// expireEvery is Kafka's offsets.retention.check.interval.ms.
const expireEvery = 10 * time.Minute

func (c *impl) expireForEver() {
	ticker := time.NewTicker(min(expireEvery, max(c.cfg.OffsetsRetention/2, time.Second)))
	defer ticker.Stop()
	for {
		select {
		case <-c.life.Done():
			return
		case <-ticker.C:
			c.expire(time.Now())
		}
	}
}

// expire removes the offsets that have outlived offsets.retention.minutes (KIP-211), and groups that have nothing left.
func (c *impl) expire(now time.Time) {
	for _, g := range c.all() {
		g.mu.Lock()
		if records := c.expired(g, now); !g.gone && len(records) > 0 {
			if err := c.write(c.life, g, producer{}, records); err != nil {
				c.log.Error("expire offsets", "group", g.id, "error", err)
			}
		}
		c.leave(g)
	}
}

// expired are the tombstones of what has expired. A group with members keeps what it subscribes to; while it
// rebalances it keeps everything (case C92); without members its offsets live on from the moment it became empty.
func (c *impl) expired(g *group, now time.Time) []record {
	var since time.Time // offsets count from here if it is later than their commit
	switch state := g.core.State(); {
	case g.protocolType() == "", g.consumer != nil:
	case state == rebalance.Empty:
		since = g.core.Since()
	case state == rebalance.Stable && g.core.ProtocolType() == consumerProtocol:
	default:
		return nil
	}
	subscribed := g.subscription()
	var records []record
	kept := 0
	for topic, partitions := range g.offsets {
		for p, found := range partitions {
			tp := kafka.TopicPartition{Topic: topic, Partition: p}
			if subscribed.has(topic) || g.undecided(tp) || !c.outlived(found, since, now) {
				kept++
				continue
			}
			records = append(records, offsetTombstone(g.id, tp))
		}
	}
	if kept == 0 && g.idle() && len(g.pending) == 0 {
		records = append(records, g.epitaph()...)
	}
	return records
}

func (c *impl) outlived(found commit, since, now time.Time) bool {
	if found.expires >= 0 {
		return now.UnixMilli() >= found.expires
	}
	if at := time.UnixMilli(found.at); since.Before(at) {
		since = at
	}
	return now.Sub(since) >= c.cfg.OffsetsRetention
}
