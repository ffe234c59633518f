package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/cli"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest/resttest"
)

// watcher is stderr that calls back for each thing written.
type watcher struct {
	bytes.Buffer
	on func(text string)
}

func (w *watcher) Write(p []byte) (int, error) {
	w.on(string(p))
	return w.Buffer.Write(p)
}

// waits runs `mirror create orders --wait`, and calls on for each line of progress.
func waits(t *testing.T, ctx context.Context, c *resttest.Cluster, on func(string)) run {
	t.Helper()
	url := c.Serve(t)
	ok(t, url, "link", "create", "l", "--source-bootstrap-server", "a:1")
	var out bytes.Buffer
	err := &watcher{on: on}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	code := cli.Main(ctx, []string{"mirror", "create", "orders", "--link", "l", "--wait", "--url", url}, &out, err, cli.Hooks{})
	return run{code, out.String(), err.String()}
}

func lagging(records, fetched int64) link.MirrorInfo {
	return link.MirrorInfo{Link: "l", Topic: "orders", SourceTopic: "orders", Partitions: 1, Status: "ACTIVE", Lags: []link.Lag{{Records: records, LastSourceFetch: kafka.Offset(fetched)}}}
}

func TestWaitShowsProgressUntilCaughtUp(t *testing.T) {
	c := resttest.New(t)
	c.Links.Made = func(m *link.MirrorInfo) { *m = lagging(300, 100) }
	r := waits(t, t.Context(), c, func(text string) {
		if strings.Contains(text, "25 %") {
			c.Links.PutMirror(lagging(0, 400))
		}
	})
	want := "orders: ACTIVE, 300 behind (25 %)\norders: ACTIVE, 0 behind (100 %)\n"
	if r.code != 0 || r.err != want || r.out != "Created mirror topic \"orders\".\nMirror topic \"orders\" has caught up.\n" {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// TestWaitEndsOnABusyTopic has a source that is written to all the time.
func TestWaitEndsOnABusyTopic(t *testing.T) {
	c := resttest.New(t)
	c.Links.Made = func(m *link.MirrorInfo) { *m = lagging(300, 99) }
	fetched := int64(99)
	r := waits(t, t.Context(), c, func(text string) {
		if fetched += 150; strings.Contains(text, "behind") {
			c.Links.PutMirror(lagging(7, fetched))
		}
	})
	if r.code != 0 || strings.Count(r.err, "\n") != 3 || !strings.Contains(r.out, "has caught up") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}

func TestWaitGivesUpWhereWaitingDoesNotHelp(t *testing.T) {
	for status, words := range map[string]string{"FAILED": "SOURCE_TOPIC_ID_CHANGED. Fail over.", "LINK_FAILED": "LINK_FAILED", "PAUSED": "hawser mirror resume", "STOPPED": "was stopped"} {
		c := resttest.New(t)
		c.Links.Made = func(m *link.MirrorInfo) {
			m.Status, m.Err, m.ErrText = status, "SOURCE_TOPIC_ID_CHANGED", "Fail over."
		}
		if r := waits(t, t.Context(), c, func(string) {}); r.code != 1 || !strings.Contains(r.err, words) {
			t.Errorf("%s: exit %d, %s", status, r.code, r.err)
		}
	}
}

func TestWaitCanBeInterrupted(t *testing.T) {
	c := resttest.New(t)
	c.Links.Made = func(m *link.MirrorInfo) { *m = lagging(300, 100) }
	ctx, stop := context.WithCancel(t.Context())
	r := waits(t, ctx, c, func(string) { stop() })
	if r.code != 1 || !strings.Contains(r.err, "goes on mirroring") && !strings.Contains(r.err, "interrupted") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
}

func TestWaitUntilStopped(t *testing.T) {
	c, url := aCluster(t)
	stopping := func(status string, held ...link.Coded) {
		c.Links.PutMirror(link.MirrorInfo{Link: "my-link", Topic: "orders", SourceTopic: "orders", Partitions: 1, Status: status, TransitionErrors: held})
	}
	c.Links.After = func() {
		stopping("PENDING_STOPPED", link.Coded{Code: "MIRROR_LAG_NOT_ZERO", Text: "7 records are left."})
	}
	stderr := &watcher{on: func(text string) {
		if strings.Contains(text, "7 records") {
			stopping("STOPPED")
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	code := cli.Main(ctx, []string{"mirror", "promote", "orders", "nope", "old", "--link", "my-link", "--wait", "--url", url}, &bytes.Buffer{}, stderr, cli.Hooks{})
	want := "orders: PENDING_STOPPED; MIRROR_LAG_NOT_ZERO: 7 records are left.\norders: STOPPED\nError: 1 of 3 topics failed: nope; see the rows above.\n"
	if code != 1 || stderr.String() != want {
		t.Errorf("exit %d\n%swant\n%s", code, stderr.String(), want)
	}
}

// TestWaitUntilManyAreStopped: of many mirrors the states are counted.
func TestWaitUntilManyAreStopped(t *testing.T) {
	c, url := aCluster(t)
	const many = 30
	all := func(status, ofTheFirst string) {
		for i := range many {
			m := link.MirrorInfo{Link: "my-link", Topic: fmt.Sprintf("t-%02d", i), SourceTopic: "t", Partitions: 1, Status: status}
			if i == 0 {
				m.Status = ofTheFirst
			}
			c.Links.PutMirror(m)
		}
	}
	all("ACTIVE", "ACTIVE")
	c.Links.After = func() { all("STOPPED", "PENDING_STOPPED") }
	stderr := &watcher{on: func(text string) {
		if strings.Contains(text, "1 PENDING_STOPPED, 29 STOPPED") {
			all("STOPPED", "STOPPED")
		}
	}}
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	code := cli.Main(ctx, []string{"mirror", "promote", "--pattern", "t-.*", "--link", "my-link", "--wait", "--url", url}, &out, stderr, cli.Hooks{})
	want := "30 mirror topics: 1 PENDING_STOPPED, 29 STOPPED\n30 mirror topics: 30 STOPPED\n"
	if code != 0 || stderr.String() != want || !strings.HasSuffix(out.String(), "\n30 mirror topics: 30 STOPPED.\n") {
		t.Errorf("exit %d\n%swant\n%s%s", code, stderr.String(), want, out.String())
	}
}
