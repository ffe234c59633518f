package link

import (
	"context"
	"errors"
	"testing"
)

// Who comes while others are being asked about is asked about afterwards, with all who came meanwhile.
func TestGatheringAsksAfterEachCame(t *testing.T) {
	const n = promotesTogether + 50
	g := newGathering()
	begun, goOn := make(chan struct{}), make(chan struct{})
	var rounds []int
	ask := func(_ context.Context, list []*promotion) {
		rounds = append(rounds, len(list))
		for _, p := range list {
			if p.facts.OffsetsDone {
				t.Error("a topic was asked about twice")
			}
			p.facts.OffsetsDone = true
		}
		if len(rounds) == 1 {
			close(begun)
			<-goOn
		}
	}
	done := make(chan *promotion, n+1)
	one := func() {
		p := &promotion{}
		if err := g.do(t.Context(), p, ask); err != nil {
			t.Error(err)
		}
		done <- p
	}
	go one()
	<-begun
	for range n {
		go one()
	}
	for waiting := 0; waiting < n; {
		g.mu.Lock()
		waiting = len(g.waiting)
		g.mu.Unlock()
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.do(gone, &promotion{}, ask); !errors.Is(err, context.Canceled) {
		t.Errorf("who cannot wait is told %v", err)
	}
	close(goOn)
	for range n + 1 {
		if p := <-done; !p.facts.OffsetsDone {
			t.Error("a topic was not asked about")
		}
	}
	if len(rounds) != 3 || rounds[0] != 1 || rounds[1] != promotesTogether || rounds[2] != 50 {
		t.Errorf("asked in rounds of %v", rounds)
	}
}
