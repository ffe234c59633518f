package handler

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// noiseLines is how many lines of one message a noiseTime may write.
	noiseLines = 20
	noiseTime  = 10 * time.Second
)

// noise writes log lines that any stranger can cause, a bounded number of each
// message in a time, and says how many it left out. log must be set.
type noise struct {
	log *slog.Logger

	mu     sync.Mutex
	kinds  map[string]*noiseKind
	closed bool
}

type noiseKind struct {
	level slog.Level
	lines int // written in this time
	left  int // left out in it
	timer *time.Timer
}

// line writes a line, or counts it among those left out. Messages are few and fixed.
func (n *noise) line(level slog.Level, msg string, args ...any) {
	n.mu.Lock()
	if n.kinds == nil {
		n.kinds = map[string]*noiseKind{}
	}
	kind := n.kinds[msg]
	if kind == nil && !n.closed {
		kind = &noiseKind{level: level}
		kind.timer = time.AfterFunc(noiseTime, func() { n.end(msg) })
		n.kinds[msg] = kind
	}
	write := true
	if kind != nil {
		if write = kind.lines < noiseLines; write {
			kind.lines++
		} else {
			kind.left++
		}
	}
	n.mu.Unlock()
	if write {
		n.log.Log(context.Background(), level, msg, args...)
	}
}

// end begins a new time for a message and says what was left out.
func (n *noise) end(msg string) {
	n.mu.Lock()
	kind := n.kinds[msg]
	delete(n.kinds, msg)
	n.mu.Unlock()
	if kind != nil && kind.left > 0 {
		n.log.Log(context.Background(), kind.level, msg+": more of the same were left out", "suppressed", kind.left, "within", noiseTime)
	}
}

// close says what is left to be said.
func (n *noise) close() {
	n.mu.Lock()
	n.closed = true
	var msgs []string
	for msg, kind := range n.kinds {
		kind.timer.Stop()
		msgs = append(msgs, msg)
	}
	n.mu.Unlock()
	for _, msg := range msgs {
		n.end(msg)
	}
}
