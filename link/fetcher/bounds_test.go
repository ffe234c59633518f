package fetcher

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// scripted is a session that answers what a test says.
type scripted struct {
	fetch func(wanted []Want) ([]Fetched, error)
}

func (s *scripted) Fetch(_ context.Context, wanted []Want, _ Ask) ([]Fetched, error) {
	return s.fetch(wanted)
}
func (s *scripted) RoundTrip() time.Duration { return 0 }
func (s *scripted) Close()                   {}

// TestAFetchThatIsSentAsItsLoopEndsAnswersAnError has the loop close the connection before the goroutine of the next fetch has run.
func TestAFetchThatIsSentAsItsLoopEndsAnswersAnError(t *testing.T) {
	p := New(nil, Config{}, nil)
	l := newLoop(p, slot{broker: 1})
	closed := errors.New("closed")
	l.session, l.renewed = &scripted{fetch: func([]Want) ([]Fetched, error) { return nil, closed }}, time.Now()
	x := l.build(time.Now())
	l.hangUp()
	if l.ask(x); !errors.Is(x.err, closed) {
		t.Errorf("the fetch ended with %v", x.err)
	}
}

// TestAStretchHoldsNoMoreThanItMay has offsets that take a thousand times as many bytes as was guessed, as behind a stretch
// of the log that was compacted away.
func TestAStretchHoldsNoMoreThanItMay(t *testing.T) {
	p := New(nil, Config{}, nil)
	tp := kafka.TopicPartition{Topic: "t"}
	s := &stripes{pool: p, q: p.newPart(Assignment{Source: tp}), size: stretchLeast, ctx: t.Context()}
	value := strings.Repeat("x", 64<<10)
	session := &scripted{fetch: func(wanted []Want) ([]Fetched, error) {
		at := wanted[0].Offset
		b := build(t, batch.Spec{BaseOffset: at}, value)
		return []Fetched{{TopicPartition: tp, Offset: at, HighWatermark: 1 << 30, Batches: batch.Batches(b)}}, nil
	}}
	next := &stretch{from: 10, until: 2000}
	if err := s.fill(session, next); err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, f := range next.answers {
		held += len(f.Batches)
	}
	if most := 3 * stretchLeast; held < stretchLeast || held > most {
		t.Errorf("a stretch of %d bytes holds %d, more than %d", stretchLeast, held, most)
	}
}

// TestHolesThatAreAskedAboutAreBounded has a source that sends a new epoch with every batch, and a hole before each.
func TestHolesThatAreAskedAboutAreBounded(t *testing.T) {
	p := New(nil, Config{}, nil)
	q := p.newPart(Assignment{})
	var whole batch.Batches
	for i := range 10 * gapsMost {
		whole = append(whole, build(t, batch.Spec{BaseOffset: kafka.Offset(10 + 2*i), LeaderEpoch: kafka.LeaderEpoch(i)}, "v")...)
	}
	gaps := q.epochGaps(whole, lastOf(whole))
	if len(gaps) != gapsMost {
		t.Fatalf("%d holes are asked about", len(gaps))
	}
	for range repairsAtOnce {
		p.repair <- struct{}{} // no repair comes to its turn
	}
	for range 10 * refinesMost {
		p.refine(q, 1, gaps)
	}
	if n := p.refining.Load(); n != refinesMost {
		t.Errorf("%d appends wait", n)
	}
	q.cancel()
	p.wg.Wait()
	if n := p.refining.Load(); n != 0 {
		t.Errorf("%d appends are counted when all have ended", n)
	}
}
