// Package demo is the tour: two clusters as processes of their own, a link, live
// traffic, a mirror, the loss of the source, a failover, writes on the other
// side. cmd/hawser calls it. Each thing it says is checked against the two
// clusters first; what does not hold ends it with the line that says so.
package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// Options is how the tour is run.
type Options struct {
	Once    bool      // end after the tour, with an error if a claim did not hold; else stay until ctx ends
	Step    bool      // wait for a line on In before each step
	Dir     string    // where the clusters keep their data; empty: a temporary directory, removed at the end
	Program string    // the hawser binary; empty: this program
	In      io.Reader // for Step
	Out     io.Writer
}

// tourTime bounds a tour that is run once.
const tourTime = 60 * time.Second

// step is one thing that is shown. Its error is a sentence that ends the tour.
type step struct {
	title string
	run   func(context.Context) error
}

// Run gives the tour.
func Run(ctx context.Context, o Options) error {
	t, err := newTour(o)
	if err != nil {
		return err
	}
	defer t.close()
	if o.Once {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, tourTime)
		defer cancel()
	}
	steps := []step{
		{"Start two clusters", t.startClusters},
		{"Produce orders on east", t.produceOrders},
		{"Link west to east, and mirror the topic", t.linkAndMirror},
		{"Compare both sides", t.compare},
		{"Try to write into the mirror", t.writeToMirror},
		{"Carry a consumer group over", t.syncGroup},
		{"Lose east, fail over to west", t.failOver},
		{"Go on on the other side", t.goOn},
	}
	if !o.Once {
		steps = append(steps[:6:6], step{"Keep traffic flowing", t.stay})
	}
	lines := bufio.NewScanner(readerOr(o.In))
	for i, s := range steps {
		if o.Step && !lines.Scan() {
			return fmt.Errorf("the tour ended before step %d", i+1)
		}
		fmt.Fprintf(t.out, "\n%d. %s\n", i+1, s.title)
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, s.title, err)
		}
	}
	if o.Once {
		fmt.Fprintf(t.out, "\nEvery claim above was checked; the tour took %.1f s.\n", time.Since(t.began).Seconds())
	}
	return nil
}

func readerOr(in io.Reader) io.Reader {
	if in == nil {
		return os.Stdin
	}
	return in
}

// say prints a fact that was just checked.
func (t *tour) say(format string, args ...any) { fmt.Fprintf(t.out, "   "+format+"\n", args...) }
