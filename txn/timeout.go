package txn

import (
	"context"
	"errors"
	"time"
)

// arm sets the timer that aborts the ongoing transaction. The entry's lock is held.
func (c *impl) arm(e *entry) {
	at := time.UnixMilli(e.t.startMs).Add(time.Duration(e.t.timeoutMs) * time.Millisecond)
	wait := max(time.Until(at), 0)
	if e.timer != nil {
		e.timer.Reset(wait)
		return
	}
	e.timer = time.AfterFunc(wait, func() { c.timedOut(e) })
}

func (e *entry) disarm() {
	if e.timer != nil {
		e.timer.Stop()
	}
}

// timedOut aborts a transaction that has lasted longer than its producer allowed, and fences the producer.
func (c *impl) timedOut(e *entry) {
	if !e.hold() {
		return
	}
	defer e.mu.Unlock()
	now := time.Now().UnixMilli()
	if c.life.Err() != nil || e.t.state != Ongoing {
		return
	}
	if now < e.t.startMs+int64(e.t.timeoutMs) {
		c.arm(e)
		return
	}
	c.log.Info("abort a transaction at its time-out", "transactional_id", e.id, "producer", e.t.producer, "epoch", e.t.epoch)
	next := e.t.fence(now)
	if err := c.write(c.life, e, &next); err != nil {
		c.log.Error("abort a transaction at its time-out", "transactional_id", e.id, "error", err)
		e.timer.Reset(retryMax)
		return
	}
	c.finish(e)
}

func (c *impl) expireForEver() {
	ticker := time.NewTicker(min(expireEvery, max(c.cfg.IDExpiration/2, time.Second)))
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

// expire forgets ids that have had no transaction for transactional.id.expiration.ms.
func (c *impl) expire(now time.Time) {
	for _, e := range c.all() {
		if !e.hold() {
			continue
		}
		idle := now.Sub(time.UnixMilli(e.t.updatedMs))
		if e.t.state != Ongoing && !e.t.state.preparing() && e.t.state != Dead && idle >= c.cfg.IDExpiration {
			if err := c.write(c.life, e, nil); err != nil && !errors.Is(err, context.Canceled) {
				c.log.Error("expire a transactional id", "transactional_id", e.id, "error", err)
			}
		}
		c.leave(e)
	}
}
