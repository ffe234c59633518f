package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

const (
	// topMost is how many mirrors are shown at once where the output is no terminal.
	topMost = 40
	// topAround is the lines of a screen beside the mirrors: two above, two of titles, two below.
	topAround = 6
	// rpoStepMs is the difference in RPO that puts one mirror above another one.
	rpoStepMs = 10_000
)

func (a *app) mirrorTop() *cobra.Command {
	var link string
	var every time.Duration
	var rounds int
	cmd := &cobra.Command{
		Use: "top", Short: "Show the mirror topics live: those furthest behind first", Args: noArgs,
		Long: "Show the mirror topics live, those furthest behind first, with their RPO, the rate at which they are read from the source\n" +
			"and the time until they have caught up. Ctrl-C ends it. Where the output is no terminal, one screen follows the other.",
	}
	cmd.Flags().StringVar(&link, "link", "", "only those of this `link`")
	cmd.Flags().DurationVar(&every, "interval", 2*time.Second, "how often to look")
	cmd.Flags().IntVar(&rounds, "iterations", 0, "end after so many screens (default: never)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if every < 100*time.Millisecond {
			return errors.New("--interval is too short: 100ms at least")
		}
		if a.format != "human" {
			return errors.New("the live view is for people. 'hawser mirror list -o json' is for programs")
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		top := &topView{app: a, client: c, link: orElse(link, client.AnyLink), meters: map[string]*bar{}}
		return top.run(cmd.Context(), every, rounds)
	}
	return cmd
}

// topView is one run of `mirror top`.
type topView struct {
	app    *app
	client *client.Client
	link   string
	meters map[string]*bar // by link and topic: only their rates
}

func (t *topView) run(ctx context.Context, every time.Duration, rounds int) error {
	for n := 1; ; n++ {
		mirrors, err := t.client.Mirrors(ctx, t.link, "")
		if errors.Is(err, context.Canceled) && n > 1 {
			return nil
		}
		if err != nil {
			return err
		}
		if err := t.draw(mirrors, time.Now()); err != nil {
			return err
		}
		if n == rounds {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil // Ctrl-C is how it ends
		case <-time.After(every):
		}
	}
}

type topRow struct {
	// Long names come late, so that a narrow terminal cuts them and not the figures.
	Lag    int64  `human:"Lag"`
	RPO    string `human:"RPO"`
	Rate   string `human:"Records/s"`
	Left   string `human:"Time Left"`
	Status string `human:"Status"`
	Topic  string `human:"Mirror Topic"`
	Link   string `human:"Link"`
	Error  string `human:"Error"`

	caughtUp int64 // Unix ms; 0 for never
}

// secondsUp is when the mirror was level last, in s: those that are level all the time do not change places.
func (r topRow) secondsUp() int64 {
	if r.RPO == "" {
		return math.MaxInt64
	}
	return r.caughtUp / rpoStepMs
}

// draw writes one screen at once: at a terminal over the last one, with lines cut to its width.
func (t *topView) draw(mirrors []api.Mirror, now time.Time) error {
	var screen bytes.Buffer
	onto := *t.app
	onto.out = &screen
	terminal := isTerminal(t.app.out)
	width, height := terminalSize(t.app.out)
	most := topMost
	if terminal {
		most = max(1, height-topAround)
	}
	if err := t.screen(&onto, mirrors, now, most); err != nil {
		return err
	}
	text := screen.String()
	if terminal {
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		for i, line := range lines {
			lines[i] = fit(line, width) + "\x1b[K"
		}
		text = "\x1b[H" + strings.Join(lines, "\n") + "\n\x1b[J"
	}
	_, err := io.WriteString(t.app.out, text)
	return err
}

func (t *topView) screen(onto *app, mirrors []api.Mirror, now time.Time, most int) error {
	rows, counts, total := t.rows(mirrors, now)
	if err := onto.say("%s  %d mirror topics (%s), %d records behind\n", now.Format(time.TimeOnly), len(mirrors), counts, total); err != nil {
		return err
	}
	more := len(rows) - most
	if more > 0 {
		rows = rows[:most]
	}
	if err := printRows(onto, rows); err != nil || more <= 0 {
		return err
	}
	return onto.say("… and %d more", more)
}

// rows is the mirrors, furthest behind first, with how many are in which status and the sum of their lags.
func (t *topView) rows(mirrors []api.Mirror, now time.Time) (rows []topRow, counts string, total int64) {
	for _, m := range mirrors {
		p := progressOf(m)
		key := m.LinkName + "/" + m.MirrorTopicName
		if t.meters[key] == nil {
			t.meters[key] = &bar{}
		}
		row := topRow{Topic: m.MirrorTopicName, Link: m.LinkName, Status: m.MirrorStatus, Lag: p.lag, Error: shownError(m.MirrorTopicError)}
		at := caughtUp(m)
		row.RPO = rpoText(m.MirrorStatus, at, now)
		if at != nil {
			row.caughtUp = *at
		}
		if rate := t.meters[key].rate(p.fetched, now); rate > 0 {
			row.Rate = fmt.Sprintf("%.0f", rate)
			if p.lag > 0 {
				row.Left = time.Duration(float64(p.lag) / rate * float64(time.Second)).Round(time.Second).String()
			}
		}
		total += p.lag
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(b.Lag, a.Lag), cmp.Compare(a.secondsUp(), b.secondsUp()), cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Link, b.Link))
	})
	return rows, countStates(mirrors), total
}
