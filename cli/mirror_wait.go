package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hawserio/hawser/rest/api"
	"github.com/hawserio/hawser/rest/client"
)

const (
	pollEvery = 500 * time.Millisecond
	// emptyGrace is how long a partition may show neither lag nor fetch before its source is taken
	// to be empty: a mirror just made looks the same until its first fetch.
	emptyGrace = 3 * time.Second
)

// waitCaughtUp follows a mirror until it has what its source had when this was first seen (a busy source is never without lag):
// a bar at a terminal, else a line on stderr for each change.
func (a *app) waitCaughtUp(ctx context.Context, c *client.Client, link, topic string) error {
	start, bar, had := time.Now(), newBar(a.err), ends{}
	defer bar.end()
	for {
		m, err := c.Mirror(ctx, link, topic)
		if err != nil {
			return err
		}
		p := progressOf(m)
		if p.failed != "" {
			return errors.New(p.failed)
		}
		bar.show(p, time.Now())
		if had.reached(m) && (p.unfetched == 0 || time.Since(start) > emptyGrace) && m.MirrorStatus == "ACTIVE" {
			bar.end()
			return a.say("Mirror topic \"%s\" has caught up.", topic)
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("stopped waiting; %q goes on mirroring: %w", topic, err)
		}
	}
}

// ends is where each partition of a source ended when it was first seen.
type ends map[int32]int64

// reached notes ends that it did not know yet, and reports whether a mirror has come up to all of them.
func (e ends) reached(m api.Mirror) bool {
	all := true
	for _, lag := range m.MirrorLags {
		at := lag.LastSourceFetchOffset + 1
		if _, known := e[lag.Partition]; !known && at > 0 && lag.Lag >= 0 {
			e[lag.Partition] = at + lag.Lag
		}
		end, known := e[lag.Partition]
		all = all && (lag.Lag == 0 || known && at >= end)
	}
	return all
}

// progress is what one look at a mirror tells.
type progress struct {
	topic, status string
	lag           int64  // records
	fetched       int64  // offsets up to which the source was read, of all partitions together
	unfetched     int    // partitions that never fetched
	failed        string // why it will not catch up without help
}

func progressOf(m api.Mirror) progress {
	p := progress{topic: m.MirrorTopicName, status: m.MirrorStatus}
	for _, lag := range m.MirrorLags {
		p.lag += max(lag.Lag, 0)
		p.fetched += max(lag.LastSourceFetchOffset+1, 0)
		if lag.LastSourceFetchOffset < 0 {
			p.unfetched++
		}
	}
	switch m.MirrorStatus {
	case "FAILED", "LINK_FAILED":
		p.failed = fmt.Sprintf("mirror topic %q is %s: %s. %s", m.MirrorTopicName, m.MirrorStatus, m.MirrorTopicError, m.MirrorTopicErrorMessage)
	case "STOPPED":
		p.failed = fmt.Sprintf("mirror topic %q was stopped", m.MirrorTopicName)
	case "PAUSED", "LINK_PAUSED":
		p.failed = fmt.Sprintf("mirror topic %q is %s. 'hawser mirror resume' or 'hawser link update … --config "+
			"cluster.link.paused=false' lets it go on", m.MirrorTopicName, m.MirrorStatus)
	}
	return p
}

// pause is the wait between two looks.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pollEvery):
		return nil
	}
}

// waitStopped follows mirrors that were promoted or failed over until all are STOPPED, with
// a line on stderr for each change and for what holds them up.
func (a *app) waitStopped(ctx context.Context, c *client.Client, link string, topics []string) error {
	if len(topics) > statesMost {
		return a.waitManyStopped(ctx, c, link, topics)
	}
	for _, topic := range topics {
		for last := ""; ; {
			m, err := c.Mirror(ctx, link, topic)
			if err != nil {
				return err
			}
			if line := stopLine(m); line != last {
				fmt.Fprintln(a.err, clean(line))
				last = line
			}
			if m.MirrorStatus == "STOPPED" {
				break
			}
			if err := pause(ctx); err != nil {
				return fmt.Errorf("stopped waiting; %q goes on stopping: %w", topic, err)
			}
		}
	}
	return nil
}

// heldUpAfter is how many looks in a row may show the same before it is said whom to ask about.
const heldUpAfter = 10

// waitManyStopped does so with a line for each change of how many are in which state.
func (a *app) waitManyStopped(ctx context.Context, c *client.Client, link string, topics []string) error {
	of := map[string]bool{}
	for _, topic := range topics {
		of[topic] = true
	}
	for last, same := "", 0; ; same++ {
		mirrors, err := c.Mirrors(ctx, link, "")
		if err != nil {
			return err
		}
		mirrors = slices.DeleteFunc(mirrors, func(m api.Mirror) bool { return !of[m.MirrorTopicName] })
		left := slices.IndexFunc(mirrors, func(m api.Mirror) bool { return m.MirrorStatus != "STOPPED" })
		if line := fmt.Sprintf("%d mirror topics: %s", len(mirrors), countStates(mirrors)); line != last {
			fmt.Fprintln(a.err, line)
			last, same = line, 0
		}
		if left < 0 {
			return nil
		}
		if same == heldUpAfter {
			fmt.Fprintf(a.err, "still waiting; 'hawser mirror state-transition-error list %s --link %s' says for what\n",
				clean(mirrors[left].MirrorTopicName), clean(link))
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("stopped waiting; the topics go on stopping: %w", err)
		}
	}
}

func stopLine(m api.Mirror) string {
	line := fmt.Sprintf("%s: %s", m.MirrorTopicName, m.MirrorStatus)
	if m.MirrorStateTransitionErrors == nil || m.MirrorStatus == "STOPPED" {
		return line
	}
	for _, e := range *m.MirrorStateTransitionErrors {
		line += fmt.Sprintf("; %s: %s", e.ErrorCode, e.ErrorMessage)
	}
	return line
}
