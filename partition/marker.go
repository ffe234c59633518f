package partition

import (
	"fmt"
	"sync"
	"time"
)

// marker writes down how far logs are synced, a while after their syncs: nobody waits for that. What is told by it is whether the last
// bytes before a crash are torn or decayed; the high watermark does not wait for it, as it stands for what is synced, not for what is
// known to be.
type marker struct {
	delay time.Duration // 0: each sync marks as well, and nothing is owed

	mu    sync.Mutex // guards what follows, and each partition's owing
	owing []*Partition
	timer *time.Timer
	ended bool

	paying sync.Mutex // held while marks are written
}

func newMarker(delay time.Duration) *marker {
	m := &marker{delay: delay}
	m.timer = time.AfterFunc(time.Hour, m.pay)
	m.timer.Stop()
	return m
}

// owe has p's mark written within the delay.
func (m *marker) owe(p *Partition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.owing || m.ended {
		return
	}
	p.owing = true
	if m.owing = append(m.owing, p); len(m.owing) == 1 {
		m.timer.Reset(m.delay)
	}
}

// pay writes all that are owed.
func (m *marker) pay() {
	m.paying.Lock()
	defer m.paying.Unlock()
	m.mu.Lock()
	owing := m.owing
	m.owing = nil
	if m.ended {
		owing = nil
	}
	for _, p := range owing {
		p.owing = false
	}
	m.mu.Unlock()
	for _, p := range owing {
		if p.Err() != nil {
			continue
		}
		if err := p.log.Mark(); err != nil {
			p.fail(p.storageError("mark the log", fmt.Errorf("%w; when the disk is well again, restart the broker", err)))
		}
	}
}

// close ends it, once what is under way is written. What else is owed is not: logs that are closed in order need no mark.
func (m *marker) close() {
	m.paying.Lock()
	defer m.paying.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	m.timer.Stop()
}
