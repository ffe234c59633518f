package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

// topMost is how many mirrors one screen shows.
const topMost = 40

func (a *app) mirrorTop() *cobra.Command {
	var link string
	var every time.Duration
	var rounds int
	cmd := &cobra.Command{
		Use: "top", Short: "Show the mirror topics live: those furthest behind first", Args: noArgs,
		Long: "Show the mirror topics live, those furthest behind first, with the rate at which they are read from the source\n" +
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
	Topic  string `human:"Mirror Topic"`
	Link   string `human:"Link"`
	Status string `human:"Status"`
	Lag    int64  `human:"Lag"`
	Rate   string `human:"Records/s"`
	Left   string `human:"Time Left"`
	Error  string `human:"Error"`
}

func (t *topView) draw(mirrors []api.Mirror, now time.Time) error {
	rows, counts, total := t.rows(mirrors, now)
	if isTerminal(t.app.out) {
		if _, err := fmt.Fprint(t.app.out, "\x1b[H\x1b[2J"); err != nil {
			return err
		}
	}
	if err := t.app.say("%s  %d mirror topics (%s), %d records behind\n", now.Format(time.TimeOnly), len(mirrors), counts, total); err != nil {
		return err
	}
	more := len(rows) - topMost
	if more > 0 {
		rows = rows[:topMost]
	}
	if err := printRows(t.app, rows); err != nil || more <= 0 {
		return err
	}
	return t.app.say("… and %d more", more)
}

// rows is the mirrors, furthest behind first, with how many are in which status and the sum of their lags.
func (t *topView) rows(mirrors []api.Mirror, now time.Time) (rows []topRow, counts string, total int64) {
	byStatus := map[string]int{}
	for _, m := range mirrors {
		p := progressOf(m)
		key := m.LinkName + "/" + m.MirrorTopicName
		if t.meters[key] == nil {
			t.meters[key] = &bar{}
		}
		row := topRow{Topic: m.MirrorTopicName, Link: m.LinkName, Status: m.MirrorStatus, Lag: p.lag, Error: shownError(m.MirrorTopicError)}
		if rate := t.meters[key].rate(p.fetched, now); rate > 0 {
			row.Rate = fmt.Sprintf("%.0f", rate)
			if p.lag > 0 {
				row.Left = time.Duration(float64(p.lag) / rate * float64(time.Second)).Round(time.Second).String()
			}
		}
		byStatus[m.MirrorStatus]++
		total += p.lag
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(b.Lag, a.Lag), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Link, b.Link))
	})
	var parts []string
	for _, status := range api.MirrorStatuses {
		if n := byStatus[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	return rows, strings.Join(parts, ", "), total
}
