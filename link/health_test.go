package link

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
)

func TestC61_SourceUnavailableAndBack(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	r.source.change(func(s *fakeSource) { s.err = &source.Error{Class: source.Refused, Err: errors.New("refused")} })
	r.status("t", "SOURCE_UNAVAILABLE")
	info, _ := r.links.Mirror("l", "t")
	if link, _ := r.links.Describe("l"); link.State != "UNAVAILABLE" || link.Err != "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR" || info.Err != link.Err {
		t.Errorf("link %s %s, mirror %s", link.State, link.Err, info.Err)
	}
	if r.pool().fetches("t") != 1 {
		t.Error("fetching ended, though it heals by itself")
	}
	r.source.change(func(s *fakeSource) { s.err = nil })
	r.status("t", "ACTIVE")
}

func TestC74_RefusedCredentialsStopFetchingUntilTheyArePutRight(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	r.source.change(func(s *fakeSource) { s.err = &source.Error{Class: source.Auth, Err: errors.New("bad password")} })
	r.status("t", "LINK_FAILED")
	r.eventually("nobody tries to log in for fetching", func() bool { return r.pool().fetches("t") == 0 })
	if info, _ := r.links.Mirror("l", "t"); info.Err != "AUTHENTICATION_ERROR" {
		t.Errorf("C67: error is %s", info.Err)
	}
	r.source.change(func(s *fakeSource) { s.err = nil })
	r.status("t", "ACTIVE")
	r.eventually("fetched again", func() bool { return r.pool().fetches("t") == 1 })
}

func TestAnotherClusterBehindTheAddressFailsTheLink(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	r.source.change(func(s *fakeSource) { s.id = "another-cluster-id-001" })
	r.status("t", "LINK_FAILED")
	r.eventually("nothing of it is fetched", func() bool { return r.pool().fetches("t") == 0 })
}

func TestC04_RecreatedTopicFailsItsMirrorAlone(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.source.topic("u", 1)
	r.link("l")
	r.mirror("l", "t")
	r.mirror("l", "u")
	r.source.change(func(s *fakeSource) { delete(s.topics, "t") })
	r.source.topic("t", 1)
	r.pool().fault("t", 0, fetcher.TopicIDChanged, time.Now())
	r.state("t", mirror.Failed)
	r.eventually("t is not fetched", func() bool { return r.pool().fetches("t") == 0 })
	info, _ := r.links.Mirror("l", "t")
	if info.Status != "FAILED" || info.Err != "SOURCE_TOPIC_ID_CHANGED" || r.pool().fetches("u") != 1 {
		t.Errorf("%+v; u is fetched %d times", info, r.pool().fetches("u"))
	}
	if out := r.order("l", Resume, "t"); out[0].Code != 400 {
		t.Errorf("resume of a mirror whose source is another topic: %+v", out[0])
	}
	r.obeyed("l", Failover, "t") // case C55
	r.state("t", mirror.Stopped)
}

func TestFaultsPastTheRetryTimeoutFailAndResumeHeals(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l", keyRetryTimeout, "60000")
	r.mirror("l", "t")
	r.pool().fault("t", 0, fetcher.SourceDenied, time.Now())
	r.eventually("the fault is shown while it is borne", func() bool {
		info, _ := r.links.Mirror("l", "t")
		return info.Status == "ACTIVE" && info.Err == "AUTHORIZATION_ERROR" && info.Lags[0].State == "IN_ERROR"
	})
	r.pool().heal("t", 0)
	r.eventually("it is gone", func() bool { info, _ := r.links.Mirror("l", "t"); return info.Err == "NO_ERROR" })
	r.pool().fault("t", 0, fetcher.TopicMissing, time.Now().Add(-2*time.Minute))
	r.state("t", mirror.Failed)
	r.pool().heal("t", 0)
	r.obeyed("l", Resume, "t")
	r.state("t", mirror.Active)
	if info, _ := r.links.Mirror("l", "t"); info.Err != "NO_ERROR" {
		t.Errorf("after resume: %+v", info)
	}
	r.eventually("fetched again", func() bool { return r.pool().fetches("t") == 1 })
}

func TestC03_LostRecordsAreCounted(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 2)
	r.link("l")
	r.mirror("l", "t")
	tp := kafka.TopicPartition{Topic: "t", Partition: 1}
	r.pool().events(fetcher.Event{Mirror: tp, Kind: eventLost, From: 1000, To: 1500})
	r.eventually("the loss is stored", func() bool {
		info, _ := r.links.Mirror("l", "t")
		return len(info.Lags) == 2 && info.Lags[1].Lost == 500
	})
	r.restart()
	if info, _ := r.links.Mirror("l", "t"); info.Lags[1].Lost != 500 || info.Lags[0].Lost != 0 {
		t.Errorf("after a restart: %+v", info.Lags)
	}
}

func TestEveryFaultAndReasonHasOneName(t *testing.T) {
	pairs := map[plan.Fault]fetcher.Fault{
		plan.NoFault: fetcher.NoFault, plan.SourceUnreachable: fetcher.SourceUnreachable, plan.SourceAuth: fetcher.SourceAuth, plan.SourceDenied: fetcher.SourceDenied,
		plan.TopicMissing: fetcher.TopicMissing, plan.TopicIDChanged: fetcher.TopicIDChanged, plan.PartitionsFewer: fetcher.PartitionsFewer,
		plan.EpochWentBack: fetcher.EpochWentBack, plan.AppendEpochBack: fetcher.AppendEpochBack, plan.Truncated: fetcher.Truncated,
		plan.OldFormat: fetcher.OldFormat, plan.CorruptBatch: fetcher.CorruptBatch, plan.OverlappingBatch: fetcher.OverlappingBatch, plan.TargetOffline: fetcher.TargetOffline, plan.TargetFull: fetcher.TargetFull, plan.TargetFailed: fetcher.TargetFailed,
	}
	for a, b := range pairs {
		if string(a) != string(b) {
			t.Errorf("%q and %q", a, b)
		}
		j := plan.JudgeFault(plan.PartitionFault{Fault: a}, time.Now(), plan.Limits{})
		if a != plan.NoFault && mirror.Explain(mirror.Reason(j.Problem.Code)).Cause == mirror.Explain(mirror.Unknown).Cause {
			t.Errorf("fault %s has the code %s, which is not in the list of reasons", a, j.Problem.Code)
		}
	}
}

func TestLagIsRememberedWhileNotFetched(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	r.part("t", 0).grow(90)
	p := r.pool()
	p.mu.Lock()
	p.status[kafka.TopicPartition{Topic: "t"}] = fetcher.Status{SourceEnd: 100, LagRecords: 10, LastFetched: 89, LastContact: time.Now()}
	p.mu.Unlock()
	r.obeyed("l", Pause, "t")
	r.eventually("not fetched", func() bool { return r.pool().fetches("t") == 0 })
	p.mu.Lock()
	clear(p.status)
	p.mu.Unlock()
	p.mu.Lock()
	p.status[kafka.TopicPartition{Topic: "t"}] = fetcher.Status{SourceEnd: -1, LagRecords: -1, LastFetched: -1}
	p.mu.Unlock()
	info, _ := r.links.Mirror("l", "t")
	if l := info.Lags[0]; l.Records != 10 || l.LastSourceFetch != 89 || l.State != "PAUSED" {
		t.Errorf("%+v", l)
	}
}

func TestC05_GroupOffsetsAreClampedToATruncation(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 2)
	r.link("l")
	r.mirror("l", "t")
	r.commits.set("g", "t", 0, 150)
	r.commits.set("g", "t", 1, 150)
	r.commits.set("low", "t", 0, 80)
	r.pool().events(fetcher.Event{Mirror: kafka.TopicPartition{Topic: "t"}, Kind: eventTruncated, From: 150, To: 100})
	r.eventually("g is lowered where the log was cut", func() bool { o, _ := r.commits.get("g", "t", 0); return o == 100 })
	if o, _ := r.commits.get("g", "t", 1); o != 150 {
		t.Errorf("on another partition it stands at %d", o)
	}
	if o, _ := r.commits.get("low", "t", 0); o != 80 {
		t.Errorf("an offset below the cut was moved to %d", o)
	}
	// A crash between the cut and the clamp: the cut is stored.
	id := r.meta.Image().TopicIDs["t"]
	err := r.meta.UpdatePartitions(t.Context(), []kafka.TopicID{id}, func(now *meta.Partitions) (*meta.Partitions, error) {
		now.List[1].Cuts = append(now.List[1].Cuts, meta.Cut{Offset: 120, AtMs: time.Now().UnixMilli()})
		return now, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.restart()
	r.eventually("after a restart g is lowered on partition 1, too", func() bool { o, _ := r.commits.get("g", "t", 1); return o == 120 })
}

func TestCategoriesOfALink(t *testing.T) {
	r := newRig(t)
	r.link("l")
	for _, n := range []string{"run", "stay", "promote", "stop"} {
		r.source.topic(n, 2)
		r.mirror("l", n)
	}
	r.pool().script(func(string) (bool, string) { return false, "behind" })
	r.obeyed("l", Pause, "stay")
	r.obeyed("l", Promote, "promote")
	r.obeyed("l", Failover, "stop")
	r.state("stop", mirror.Stopped)
	want := map[string]int32{mirror.CategoryActive: 2, mirror.CategoryPaused: 2, mirror.CategoryPending: 2, mirror.CategoryNotApplicable: 2}
	r.eventually("two partitions in each", func() bool { info, _ := r.links.Describe("l"); return maps.Equal(info.Categories, want) })
}

func TestAMirrorWhoseOwnLogIsOutOfServiceSaysSo(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 2)
	r.link("l")
	r.mirror("l", "t")
	r.status("t", "ACTIVE")
	part := r.part("t", 1)
	part.mu.Lock()
	part.err = kafka.Errorf(kafka.KafkaStorageError, "open the log of partition t-1: it is corrupt")
	part.mu.Unlock()
	shown := func(when string) {
		t.Helper()
		list, err := r.links.Mirrors("l", "")
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if m := list[0]; m.Err != "STORAGE_ERROR" || !strings.Contains(m.ErrText, "partition 1: open the log of partition t-1: it is corrupt") {
			t.Errorf("%s: error %s, %q", when, m.Err, m.ErrText)
		}
		if m := list[0]; m.Lags[0].Err != "" || !strings.Contains(m.Lags[1].Err, "corrupt") {
			t.Errorf("%s: partitions say %q and %q", when, m.Lags[0].Err, m.Lags[1].Err)
		}
	}
	shown("fetched")
	r.obeyed("l", Pause, "t")
	r.eventually("not fetched", func() bool { return r.pool().fetches("t") == 0 })
	shown("paused")
	part.mu.Lock()
	part.err = nil
	part.mu.Unlock()
	if info, _ := r.links.Mirror("l", "t"); info.Err != "NO_ERROR" {
		t.Errorf("in service again: error %s, %q", info.Err, info.ErrText)
	}
}
