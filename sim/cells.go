package sim

import (
	"cmp"
	"fmt"
	"slices"
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

// quietCells are the cells in which nothing happens: the event is refused, or changes nothing.
type quietCells struct {
	topics [topicStates][topicEvents]bool
	parts  [parts][partEvents]bool
}

var quiet = findQuiet()

func findQuiet() (q quietCells) {
	for s := range topicStates {
		for e := range topicEvents {
			next, effects, err := mirror.Step(s, e)
			q.topics[s][e] = err != nil || next == s && len(effects) == 0
		}
	}
	for p := range parts {
		for e := range partEvents {
			next, err := mirror.StepPart(p, e)
			q.parts[p][e] = err != nil || next == p
		}
	}
	return q
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

// Cell is one cell of a table, and how often it was hit.
type Cell struct {
	Name string
	Hits int
}

// Rarest lists the n cells that were hit least, rarest first.
func (c *Cells) Rarest(n int) []Cell {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Cell
	for s := range c.sum.topics {
		for e, hits := range c.sum.topics[s] {
			list = append(list, Cell{fmt.Sprintf("topic %v x %v", mirror.State(s), mirror.Event(e)), hits})
		}
	}
	for p := range c.sum.parts {
		for e, hits := range c.sum.parts[p] {
			list = append(list, Cell{fmt.Sprintf("partition %v x %v", mirror.Part(p), mirror.PartEvent(e)), hits})
		}
	}
	slices.SortStableFunc(list, func(a, b Cell) int { return cmp.Compare(a.Hits, b.Hits) })
	return list[:min(n, len(list))]
}
