package sim

import (
	"fmt"
	"sync"

	"github.com/hawserio/hawser/link/mirror"
)

const (
	topicEvents = mirror.RestoredPaused + 1
	partEvents  = mirror.StopStored + 1
	parts       = mirror.Broken + 1
	topicStates = mirror.Failed + 1
)

// counts is how often each cell of the two tables was asked for in one world.
type counts struct {
	topics [topicStates][topicEvents]int
	parts  [parts][partEvents]int
}

// Cells adds up the counts of many schedules.
type Cells struct {
	mu  sync.Mutex // guards sum
	sum counts
}

// NewCells counts from nought.
func NewCells() *Cells { return &Cells{} }

// add takes in one schedule's.
func (c *Cells) add(one *counts) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range one.topics {
		for e, n := range one.topics[s] {
			c.sum.topics[s][e] += n
		}
	}
	for p := range one.parts {
		for e, n := range one.parts[p] {
			c.sum.parts[p][e] += n
		}
	}
}

// Below lists the cells that were hit fewer than so many times.
func (c *Cells) Below(least int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for s := range c.sum.topics {
		for e, n := range c.sum.topics[s] {
			if n < least {
				list = append(list, fmt.Sprintf("topic %v x %v: %d", mirror.State(s), mirror.Event(e), n))
			}
		}
	}
	for p := range c.sum.parts {
		for e, n := range c.sum.parts[p] {
			if n < least {
				list = append(list, fmt.Sprintf("partition %v x %v: %d", mirror.Part(p), mirror.PartEvent(e), n))
			}
		}
	}
	return list
}
