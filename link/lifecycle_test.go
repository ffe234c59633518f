package link

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/link/task"
	"github.com/hawserio/hawser/partition"
)

func TestFailoverIsStoredThenActedOnInOrder(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 2)
	r.source.topic("u", 1)
	r.link("l")
	r.mirror("l", "t")
	r.mirror("l", "u")
	r.part("t", 0).grow(90)
	r.commits.set("b", "t", 0, 95)
	r.traced()
	r.obeyed("l", Failover, "t")
	r.state("t", mirror.Stopped)
	want := []string{"assign 1", "clamp t", "fence 1 topics"}
	if got := r.traced(); !slices.Equal(got, want) {
		t.Errorf("trace %q, want %q", got, want)
	}
	rec := r.meta.Image().Mirrors[r.meta.Image().TopicIDs["t"]]
	if !slices.Equal(rec.LastSourceFetchOffset, []kafka.Offset{89, -1}) {
		t.Errorf("last source fetch offsets %v, want [89 -1]", rec.LastSourceFetchOffset)
	}
	if off, _ := r.commits.get("b", "t", 0); off != 90 {
		t.Errorf("C21: group b stands at %d, want 90", off)
	}
	if r.pool().fetches("u") != 1 {
		t.Error("another mirror of the link is no longer fetched")
	}
	out := r.order("l", Failover, "t")
	if out[0].Code != 400 || !out[0].Already || !strings.HasPrefix(out[0].Text, "Topic 't' has already stopped its mirror from 'l'. ") {
		t.Errorf("again: %+v", out[0])
	}
}

func TestC105_RestartFinishesAStop(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 2)
	r.link("l")
	r.mirror("l", "t")
	r.part("t", 0).grow(40)
	broken := errors.New("scripted crash")
	r.parts.fail = func(kafka.TopicID) error { return broken }
	r.obeyed("l", Failover, "t")
	r.state("t", mirror.Stopping)
	r.eventually("the stop is tried", func() bool {
		info, _ := r.links.Mirror("l", "t")
		return info.Status == "PENDING_STOPPED" && len(info.TransitionErrors) == 1
	})
	r.links.Close()
	r.parts.fail = nil
	r.start()
	r.state("t", mirror.Stopped)
	r.restart()
	info, err := r.links.Mirror("l", "t")
	if err != nil || info.Status != "STOPPED" || info.Lags[0].LastSourceFetch != 39 || info.Lags[1].LastSourceFetch != -1 {
		t.Errorf("C62: after another restart %+v, %v", info, err)
	}
}

func TestC53_PromoteWaitsForItsChecks(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l", keyOffsetSync, "true", keyOffsetSyncMs, "60000", keyGroupFilters, `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	r.mirror("l", "t")
	r.part("t", 0).grow(1000)
	r.eventually("the first sync is over", func() bool {
		s, _ := r.links.runningOf(r.meta.Image().LinkIDs["l"]).offsetsRunner().Status()
		return s == task.StateActive
	})
	r.source.commit("g", "t", 0, 1000)
	r.pool().script(func(string) (bool, string) { return false, "5 records behind" })
	r.obeyed("l", Promote, "t")
	r.state("t", mirror.PendingStopped)
	r.eventually("C54: it says what it waits for", func() bool {
		info, _ := r.links.Mirror("l", "t")
		return slices.ContainsFunc(info.TransitionErrors, func(c Coded) bool { return c.Code == "MIRROR_LAG_NOT_ZERO" && strings.Contains(c.Text, "5 records") })
	})
	if r.pool().fetches("t") != 1 {
		t.Error("C60: a mirror that is being promoted is not fetched")
	}
	r.pool().script(nil)
	r.state("t", mirror.Stopped)
	if o, _ := r.commits.get("g", "t", 0); o != 1000 {
		t.Errorf("C29: group g stands at %d, want 1000", o)
	}
}

func TestPromoteNeedsASourceThatAnswers(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	r.status("t", "ACTIVE")
	r.source.change(func(s *fakeSource) { s.err = &source.Error{Class: source.Refused, Err: errors.New("refused")} })
	r.status("t", "SOURCE_UNAVAILABLE")
	r.obeyed("l", Promote, "t")
	r.eventually("it says why it does not end", func() bool {
		info, _ := r.links.Mirror("l", "t")
		return len(info.TransitionErrors) > 0 && info.TransitionErrors[0].Code == "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR"
	})
	r.state("t", mirror.PendingStopped)
	r.source.change(func(s *fakeSource) { s.err = nil })
	r.state("t", mirror.Stopped)
}

func TestC54_PromoteStuckByAuthorizationHeals(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.source.topic("u", 1)
	r.link("l")
	r.mirror("l", "t")
	r.mirror("l", "u")
	good := r.source.configs["t"]
	r.source.change(func(s *fakeSource) {
		s.configs["t"] = source.TopicConfigs{Err: kafka.TopicAuthorizationFailed}
		s.configs["u"] = source.TopicConfigs{Err: kafka.TopicAuthorizationFailed}
	})
	r.obeyed("l", Promote, "t", "u")
	r.eventually("it says why", func() bool {
		info, _ := r.links.Mirror("l", "t")
		return info.Status == "PENDING_STOPPED" && len(info.TransitionErrors) > 0 && info.TransitionErrors[0].Code == "AUTHORIZATION_ERROR"
	})
	r.obeyed("l", Failover, "u")
	r.state("u", mirror.Stopped)
	r.source.change(func(s *fakeSource) { s.configs["t"] = good })
	r.state("t", mirror.Stopped)
}

func TestC56_DryRunChangesNothing(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	before, _ := r.links.Mirror("l", "t")
	for _, verb := range []Verb{Promote, Failover, Pause, Resume, ReverseAndStart, TruncateAndRestore} {
		out, err := r.links.Order(t.Context(), "l", verb, []string{"t", "nope"}, "", true)
		if err != nil || len(out) != 2 || out[0].Topic != "nope" || out[0].Code != 404 {
			t.Fatalf("%s: %+v, %v", verb, out, err)
		}
		refused := verb == ReverseAndStart || verb == TruncateAndRestore
		if (out[1].Code == 400) != refused || refused && !strings.Contains(out[1].Text, "BIDIRECTIONAL") {
			t.Errorf("%s: %+v", verb, out[1])
		}
	}
	after, _ := r.links.Mirror("l", "t")
	if after.Status != before.Status || after.StateMs != before.StateMs || r.pool().fetches("t") != 1 {
		t.Errorf("from %+v to %+v", before, after)
	}
}

func TestOrdersByPattern(t *testing.T) {
	r := newRig(t)
	r.link("l")
	for _, n := range []string{"ab", "abc", "x"} {
		r.source.topic(n, 1)
		r.mirror("l", n)
	}
	out, err := r.links.Order(t.Context(), "l", Pause, nil, "ab.?", false)
	if err != nil || len(out) != 2 || out[0].Topic != "ab" || out[1].Topic != "abc" {
		t.Errorf("%+v, %v", out, err)
	}
	out, err = r.links.Order(t.Context(), "l", Pause, []string{"x", "ab", "none"}, "ab.?|none", true)
	if err != nil || len(out) != 1 || out[0].Topic != "ab" {
		t.Errorf("names and a pattern mean what both do: %+v, %v", out, err)
	}
	if names, err := r.links.Matching("l", Failover, "ab.?"); err != nil || !slices.Equal(names, []string{"ab", "abc"}) {
		t.Errorf("%v, %v", names, err)
	}
	// The last is none by itself; with the brackets put around it it would match all that begins with x.
	for _, bad := range [][2]any{{[]string(nil), ""}, {[]string(nil), "("}, {[]string(nil), "x)|(?:y"}} {
		if _, err := r.links.Order(t.Context(), "l", Pause, bad[0].([]string), bad[1].(string), false); kindOf(err) != BadRequest {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestADryRunOfPromoteSaysWhatItWouldWaitFor: of a link that cannot ask its source nothing ends.
func TestADryRunOfPromoteSaysWhatItWouldWaitFor(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	dry := func(verb Verb) Outcome {
		t.Helper()
		out, err := r.links.Order(t.Context(), "l", verb, []string{"t"}, "", true)
		if err != nil || len(out) != 1 || out[0].Code != 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		return out[0]
	}
	r.eventually("nothing is in the way", func() bool { return dry(Promote).Waits == nil })
	on := "true"
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyPaused, &on}}, false); err != nil {
		t.Fatal(err)
	}
	r.status("t", "LINK_PAUSED")
	r.eventually("the pause is", func() bool {
		waits := dry(Promote).Waits
		return len(waits) == 1 && strings.Contains(waits[0].Text, keyPaused)
	})
	if waits := dry(Failover).Waits; waits != nil {
		t.Errorf("failover would wait for %+v", waits)
	}
}

func TestC59_PauseStaysOverRestart(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.source.topic("u", 1)
	r.link("l")
	r.mirror("l", "t")
	r.mirror("l", "u")
	r.obeyed("l", Pause, "t")
	r.eventually("t is not fetched", func() bool { return r.pool().fetches("t") == 0 && r.pool().fetches("u") == 1 })
	r.restart()
	r.eventually("u is fetched again", func() bool { return r.pool().fetches("u") == 1 })
	if info, _ := r.links.Mirror("l", "t"); info.Status != "PAUSED" || r.pool().fetches("t") != 0 {
		t.Errorf("t is %s after a restart", info.Status)
	}
	on, off := "true", "false"
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyPaused, &on}}, false); err != nil {
		t.Fatal(err)
	}
	r.status("u", "LINK_PAUSED")
	r.eventually("u is not fetched", func() bool { return r.pool().fetches("u") == 0 })
	if info, _ := r.links.Describe("l"); info.State != "PAUSED" || info.Tasks[0].State != task.StateLinkPaused {
		t.Errorf("link is %s, task %s", info.State, info.Tasks[0].State)
	}
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyPaused, &off}}, false); err != nil {
		t.Fatal(err)
	}
	r.status("u", "ACTIVE")
	r.status("t", "PAUSED")
	r.obeyed("l", Resume, "t")
	r.eventually("t is fetched again", func() bool { return r.pool().fetches("t") == 1 })
}

func TestP5_FailoverListsOpenTransactions(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 2)
	r.source.topic("u", 1)
	r.link("l")
	r.mirror("l", "t")
	r.mirror("l", "u")
	hold := func(topic string, n int32, list ...partition.Producer) {
		p := r.part(topic, n)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.producers = list
	}
	hold("t", 1, partition.Producer{ID: 7, TxnStart: 40}, partition.Producer{ID: 8, TxnStart: 50}, partition.Producer{ID: 9, TxnStart: kafka.NoOffset})
	hold("u", 0, partition.Producer{ID: 8, TxnStart: 3})
	out, err := r.links.Order(t.Context(), "l", Failover, []string{"t"}, "", true)
	want := []OpenTransaction{{Partition: 1, Producer: 7, From: 40}, {Partition: 1, Producer: 8, From: 50, Split: true}}
	if err != nil || !slices.Equal(out[0].Open, want) {
		t.Errorf("%+v, %v; want %+v", out, err, want)
	}
	both, err := r.links.Order(t.Context(), "l", Failover, []string{"u", "t"}, "", true)
	if err != nil || both[0].Open[1].Split || both[1].Open[0].Split {
		t.Errorf("stopped together nothing is split: %+v, %v", both, err)
	}
}
