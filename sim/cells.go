package sim

import (
	"fmt"
	"sync"

	"github.com/hawserio/hawser/link/mirror"
)

// Cells counts how often each cell of the two tables was asked for.
type Cells struct {
	mu     sync.Mutex
	topics map[[2]uint8]int
	parts  map[[2]uint8]int
}

// NewCells counts from nought.
func NewCells() *Cells {
	return &Cells{topics: map[[2]uint8]int{}, parts: map[[2]uint8]int{}}
}

func (c *Cells) topic(s mirror.State, e mirror.Event) {
	if c != nil {
		c.mu.Lock()
		c.topics[[2]uint8{uint8(s), uint8(e)}]++
		c.mu.Unlock()
	}
}

func (c *Cells) part(p mirror.Part, e mirror.PartEvent, _ bool) {
	if c != nil {
		c.mu.Lock()
		c.parts[[2]uint8{uint8(p), uint8(e)}]++
		c.mu.Unlock()
	}
}

// Below lists the cells that were hit fewer than so many times.
func (c *Cells) Below(least int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for s := mirror.State(0); ; s++ {
		if _, err := mirror.ParseState(s.String()); err != nil {
			break
		}
		for e := mirror.Event(0); e <= mirror.RestoredPaused; e++ {
			if n := c.topics[[2]uint8{uint8(s), uint8(e)}]; n < least {
				list = append(list, fmt.Sprintf("topic %v x %v: %d", s, e, n))
			}
		}
	}
	for p := mirror.Part(0); p <= mirror.Broken; p++ {
		for e := mirror.PartEvent(0); e <= mirror.StopStored; e++ {
			if n := c.parts[[2]uint8{uint8(p), uint8(e)}]; n < least {
				list = append(list, fmt.Sprintf("partition %v x %v: %d", p, e, n))
			}
		}
	}
	return list
}
