package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/link/task"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

func kindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func TestC64_CreateNamesEveryFaultAtOnce(t *testing.T) {
	r := newRig(t)
	_, err := r.links.Create(t.Context(), CreateSpec{Name: "a/b", Configs: fast(
		keyAutoCreate, "true", keyOffsetSync, "true", keyACLSync, "true", "no.such.key", "1", keyPrefix, "a b"), Validate: true})
	if kindOf(err) != BadRequest {
		t.Fatalf("created: %v", err)
	}
	for _, want := range []string{"a/b", keyTopicFilters, keyGroupFilters, keyACLFilters, "no.such.key", keyPrefix} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	if len(r.links.List()) != 0 {
		t.Error("a link was made all the same")
	}
	// At alter one key may come first: the task says what is missing.
	r.link("l")
	on := "true"
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyAutoCreate, &on}}, false); err != nil {
		t.Fatal(err)
	}
	r.eventually("the task says what it lacks", func() bool {
		info, _ := r.links.Describe("l")
		i := slices.IndexFunc(info.Tasks, func(one Task) bool { return one.Name == task.AutoCreateMirror })
		return info.Tasks[i].State == task.StateNotConfigured && len(info.Tasks[i].Errors) == 1 && strings.Contains(info.Tasks[i].Errors[0].Text, keyTopicFilters)
	})
}

func TestC69_LinkNames(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a.b", "a-b", "_x", "configs"} {
		r.link(name)
	}
	for _, name := range []string{"", ".", "..", "-", "a/b", "ü", strings.Repeat("x", 201)} {
		if _, err := r.links.Create(t.Context(), CreateSpec{Name: name, Configs: fast()}); kindOf(err) != BadRequest {
			t.Errorf("%q: %v", name, err)
		}
	}
	if n := len(r.links.List()); n != 4 {
		t.Errorf("%d links, want 4", n)
	}
}

func TestC68_CreateSaysWhyTheSourceCannotBeUsed(t *testing.T) {
	r := newRig(t)
	cases := []struct {
		err  error
		code string
	}{
		{&source.Error{Class: source.Unresolvable, Address: "x:1", Err: errors.New("no such host")}, "UNRESOLVABLE_BOOTSTRAP_ERROR"},
		{&source.Error{Class: source.Refused, Address: "x:1", Err: errors.New("refused")}, "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR"},
		{&source.Error{Class: source.Timeout, Address: "x:1", Err: errors.New("slow")}, "TIMEOUT_ERROR"},
		{&source.Error{Class: source.Auth, Address: "x:1", Err: errors.New("bad password")}, "AUTHENTICATION_ERROR"},
	}
	for _, c := range cases {
		r.source.change(func(s *fakeSource) { s.err = c.err })
		_, err := r.links.Create(t.Context(), CreateSpec{Name: "l", Configs: fast(), Validate: true})
		var e *Error
		if !errors.As(err, &e) || e.Kind != Unreachable || e.Code != c.code || e.Hint == "" {
			t.Errorf("%s: %#v", c.code, err)
		}
	}
	r.source.change(func(s *fakeSource) { s.err = nil })
	_, err := r.links.Create(t.Context(), CreateSpec{Name: "l", RemoteClusterID: "another", Configs: fast(), Validate: true})
	var e *Error
	if !errors.As(err, &e) || e.Code != "MISCONFIGURATION_ERROR" || !strings.Contains(e.Text, "another") {
		t.Errorf("wrong cluster: %v", err)
	}
	r.source.change(func(s *fakeSource) {
		s.brokers = []source.Broker{{ID: 1, Address: "source:9092"}, {ID: 7, Address: "inside:9092", Err: errors.New("refused")}}
	})
	_, err = r.links.Create(t.Context(), CreateSpec{Name: "l", Configs: fast(), Validate: true})
	if err == nil || !strings.Contains(err.Error(), "broker 7") || !strings.Contains(err.Error(), "inside:9092") || !strings.Contains(err.Error(), keyAddressMap) {
		t.Errorf("a broker that cannot be reached: %v", err)
	}
	if len(r.links.List()) != 0 {
		t.Error("a link was made all the same")
	}
}

// Without validation the link is made in error, learns who its source is and heals.
func TestC68_WithoutValidationTheLinkHeals(t *testing.T) {
	r := newRig(t)
	r.source.change(func(s *fakeSource) { s.err = &source.Error{Class: source.Auth, Err: errors.New("bad password")} })
	if _, err := r.links.Create(t.Context(), CreateSpec{Name: "l", Configs: fast()}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the link says why it fails", func() bool {
		info, _ := r.links.Describe("l")
		return info.State == "FAILED" && info.Err == "AUTHENTICATION_ERROR"
	})
	r.source.change(func(s *fakeSource) { s.err = nil })
	r.eventually("the link heals", func() bool {
		info, _ := r.links.Describe("l")
		return info.State == "ACTIVE" && info.Err == "NO_ERROR" && info.RemoteClusterID == r.source.id
	})
}

func TestC109_LinkToSelfIsRefused(t *testing.T) {
	r := newRig(t)
	own := r.meta.Image().Cluster.ID
	r.source.change(func(s *fakeSource) { s.id = own })
	_, err := r.links.Create(t.Context(), CreateSpec{Name: "l", Configs: fast(), Validate: true})
	want := "Source cluster ID matches local cluster ID " + own + ". Cannot create cluster link to self."
	if kindOf(err) != BadRequest || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestC71_SameNameAgain(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	_, err := r.links.Create(t.Context(), CreateSpec{Name: "l", Configs: fast(), Validate: true})
	if kindOf(err) != Exists || err.Error() != "Cluster link 'l' already exists." {
		t.Errorf("link: %v", err)
	}
	r.mirror("l", "t")
	_, err = r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "t"})
	if kindOf(err) != Exists || err.Error() != "Topic 't' already exists." {
		t.Errorf("mirror: %v", err)
	}
	if _, err := r.links.CreateMirror(t.Context(), "nope", MirrorSpec{SourceTopic: "t"}); kindOf(err) != NotFound {
		t.Errorf("unknown link: %v", err)
	}
}

// Metadata shows the leader of a topic that was made a moment ago before that broker knows of it.
func TestMirrorOfATopicWhoseLeadersDoNotKnowItYet(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	r.source.change(func(s *fakeSource) { s.moving = 2 })
	r.mirror("l", "t")
	r.source.topic("u", 1)
	r.source.change(func(s *fakeSource) { s.moving = 1000 })
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	_, err := r.links.CreateMirror(ctx, "l", MirrorSpec{SourceTopic: "u"})
	if err == nil || !strings.Contains(err.Error(), "Cannot read the source topic 'u'") && !strings.Contains(err.Error(), "read the source topic 'u'") {
		t.Errorf("a source whose leader never knows: %v", err)
	}
}

func TestC32_GroupPrefixIsRefusedOnBidirectionalLinks(t *testing.T) {
	r := newRig(t)
	_, err := r.links.Create(t.Context(), CreateSpec{Name: "l", Configs: fast(keyMode, "BIDIRECTIONAL", keyPrefix, "p_", keyGroupPrefix, "true"), Validate: true})
	if kindOf(err) != BadRequest || !strings.Contains(err.Error(), keyGroupPrefix) {
		t.Errorf("create: %v", err)
	}
	r.link("l", keyMode, "BIDIRECTIONAL", keyPrefix, "p_")
	on := "true"
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyGroupPrefix, &on}}, false); kindOf(err) != BadRequest {
		t.Errorf("alter: %v", err)
	}
}

func TestC52_MirrorNameWithAndWithoutPrefix(t *testing.T) {
	r := newRig(t)
	r.source.topic("clicks", 1)
	r.link("plain")
	r.link("west", keyPrefix, "w_")
	for _, c := range []struct{ link, name, want string }{
		{"plain", "other", "'clicks'"},
		{"west", "", "'w_clicks'"},
		{"west", "clicks", "'w_clicks'"},
	} {
		_, err := r.links.CreateMirror(t.Context(), c.link, MirrorSpec{SourceTopic: "clicks", MirrorTopic: c.name})
		if kindOf(err) != BadRequest || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %s named", c.link, c.name, err, c.want)
		}
	}
	if info, err := r.links.CreateMirror(t.Context(), "west", MirrorSpec{SourceTopic: "clicks", MirrorTopic: "w_clicks"}); err != nil || info.Topic != "w_clicks" {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestC33_MirrorIsBornWithItsConfigs(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 3, "cleanup.policy", "compact", "retention.ms", "-1")
	r.source.change(func(s *fakeSource) { s.starts[kafka.TopicPartition{Topic: "t", Partition: 1}] = 700 })
	r.link("l")
	first := make(chan map[string]string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wait sync.WaitGroup
	wait.Go(func() {
		r.meta.Watch(ctx, func(_, img *meta.Image) {
			if topic := img.TopicByName("t"); topic != nil {
				select {
				case first <- topic.Configs:
				default:
				}
			}
		})
	})
	_, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "t", Configs: map[string]string{"min.insync.replicas": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	got := <-first
	cancel()
	wait.Wait()
	for name, want := range map[string]string{"cleanup.policy": "compact", "retention.ms": "-1", "min.insync.replicas": "1", "compression.type": ""} {
		if got[name] != want {
			t.Errorf("at first sight %s=%q, want %q", name, got[name], want)
		}
	}
	if at := r.part("t", 1).Offsets(); at.LogStart != 700 || at.Role != meta.RoleMirror {
		t.Errorf("partition 1 begins as %+v, want a mirror from 700", at)
	}
}

func TestC36_SyncedConfigsCannotBeSetOnTheMirror(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	_, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "t", Configs: map[string]string{"retention.ms": "1"}})
	if kindOf(err) != BadRequest || !strings.Contains(err.Error(), "retention.ms") || !strings.Contains(err.Error(), keyConfigInclude) {
		t.Errorf("override at create: %v", err)
	}
	r.mirror("l", "t")
	if err := r.links.CheckConfigChange("t", []string{"retention.ms", "min.insync.replicas"}); kindOf(err) != BadRequest || !strings.Contains(err.Error(), "'retention.ms' are set to always sync") {
		t.Errorf("alter: %v", err)
	}
	if err := r.links.CheckConfigChange("t", []string{"min.insync.replicas"}); err != nil {
		t.Errorf("alter of an unsynced config: %v", err)
	}
	if err := r.links.CheckConfigChange("plain", []string{"retention.ms"}); err != nil {
		t.Errorf("alter of a plain topic: %v", err)
	}
	include := strings.Join(plan.AlwaysSynced(), ",")
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyConfigInclude, &include}}, false); err != nil {
		t.Fatal(err)
	}
	if err := r.links.CheckConfigChange("t", []string{"retention.ms"}); err != nil {
		t.Errorf("alter of a config that was left out: %v", err)
	}
	r.eventually("the pool keeps what the source removes", func() bool {
		p := r.pool()
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.cfg.KeepHoles
	})
}

func TestMirrorCreateSaysWhatTheSourceSays(t *testing.T) {
	r := newRig(t)
	r.link("l")
	if _, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "none"}); kindOf(err) != NotFound {
		t.Errorf("topic that is not there: %v", err)
	}
	r.source.topic("closed", 1)
	r.source.change(func(s *fakeSource) {
		s.configs["closed"] = source.TopicConfigs{Err: kafka.TopicAuthorizationFailed}
	})
	if _, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "closed"}); kindOf(err) != Forbidden {
		t.Errorf("no DESCRIBE_CONFIGS: %v", err)
	}
	r.source.topic("a.b", 1)
	r.source.topic("a_b", 1)
	r.mirror("l", "a.b")
	if _, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "a_b"}); kindOf(err) != BadRequest {
		t.Errorf("a name that collides: %v", err)
	}
	r.source.change(func(s *fakeSource) { s.err = &source.Error{Class: source.Refused, Err: errors.New("refused")} })
	_, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "t"})
	if kindOf(err) != Unreachable {
		t.Errorf("dead source: %v", err)
	}
}

// Rules D1 and G1: stored, then nobody fetches, then clamped, then opened, then stored again.
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
	if out[0].Code != 400 || out[0].Text != "Topic 't' has already stopped its mirror from 'l'" {
		t.Errorf("again: %+v", out[0])
	}
}

func TestC21_GroupOffsetAboveMirrorEndIsClamped(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l", keyOffsetSync, "true", keyGroupFilters, `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	r.mirror("l", "t")
	r.part("t", 0).grow(90)
	r.source.commit("a", "t", 0, 80)
	r.source.commit("b", "t", 0, 95)
	r.source.commit("zero", "t", 0, 0)
	r.source.commit("none", "t", 0, -1)
	r.eventually("offsets are synced", func() bool {
		a, _ := r.commits.get("a", "t", 0)
		b, _ := r.commits.get("b", "t", 0)
		zero, is := r.commits.get("zero", "t", 0)
		return a == 80 && b == 90 && zero == 0 && is
	})
	if _, is := r.commits.get("none", "t", 0); is {
		t.Error("an offset of -1 was copied")
	}
	// C34: nothing changes, nothing is written.
	n := r.commits.written()
	r.eventually("three more rounds", func() bool {
		r.links.runningOf(r.meta.Image().LinkIDs["l"]).offsetsRunner().Poke()
		return r.links.runningOf(r.meta.Image().LinkIDs["l"]).settled() > 3
	})
	if got := r.commits.written(); got != n {
		t.Errorf("%d offsets were written though nothing changed", got-n)
	}
	r.source.commit("a", "t", 0, 10)
	r.eventually("C24: an offset goes back", func() bool { a, _ := r.commits.get("a", "t", 0); return a == 10 })
}

// settled is how many offsets were found equal.
func (r *running) settled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts.Equal / 3
}

func TestC23_GroupInUseIsSkippedAndReported(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.commits.members["busy"] = true
	r.link("l", keyOffsetSync, "true", keyGroupFilters, `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	r.mirror("l", "t")
	r.part("t", 0).grow(100)
	r.source.commit("busy", "t", 0, 60)
	r.source.commit("idle", "t", 0, 60)
	r.eventually("the other group goes on", func() bool { o, _ := r.commits.get("idle", "t", 0); return o == 60 })
	r.eventually("the task tells", func() bool {
		info, _ := r.links.Describe("l")
		i := slices.IndexFunc(info.Tasks, func(one Task) bool { return one.Name == task.ConsumerOffsetSync })
		return info.Tasks[i].State == task.StateInError && info.Tasks[i].Errors[0].Code == "CONSUMER_GROUP_IN_USE_ERROR"
	})
}

// Rule G1: a sync that read its offsets before the failover must not land behind the clamp.
func TestG1_LateSyncDoesNotPassTheClamp(t *testing.T) {
	r := newRig(t)
	if late := lateSync(r); late != "" {
		t.Error(late)
	}
}

// lateSync fails a topic over while a sync hangs in the coordinator, and says what is wrong after it.
func lateSync(r *rig) string {
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	r.part("t", 0).grow(90)
	r.commits.set("late", "t", 0, 95) // as if an older sync had brought it
	h := here{r.links.runningOf(r.meta.Image().LinkIDs["l"])}
	tp := kafka.TopicPartition{Topic: "t"}
	b, _ := h.Bound(tp)
	held, free := make(chan struct{}), make(chan struct{})
	r.commits.before = func() { close(held); <-free }
	done := make(chan int, 1)
	go func() {
		n, _ := h.Commit(r.t.Context(), "g", []plan.Commit{{TopicPartition: tp, Offset: 95}}, map[kafka.TopicPartition]plan.Bound{tp: b})
		done <- n
	}()
	<-held
	r.obeyed("l", Failover, "t")
	r.state("t", mirror.Stopped)
	close(free)
	if n := <-done; n != 0 {
		return fmt.Sprintf("%d offsets of a sync from before the stop were written", n)
	}
	if _, is := r.commits.get("g", "t", 0); is {
		return "the late offset is there"
	}
	if o, _ := r.commits.get("late", "t", 0); o > 90 {
		return fmt.Sprintf("a group stands at %d, the mirror stopped at 90", o)
	}
	return ""
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

// One broken topic does not hold the others up.
func TestFailoverOfManyGoesOnPastABrokenOne(t *testing.T) {
	r := newRig(t)
	r.link("l")
	names := []string{"a", "b", "c"}
	for _, n := range names {
		r.source.topic(n, 1)
		r.mirror("l", n)
	}
	bad := r.meta.Image().TopicIDs["b"]
	r.parts.fail = func(id kafka.TopicID) error {
		if id == bad {
			return errors.New("scripted: disk is gone")
		}
		return nil
	}
	r.obeyed("l", Failover, names...)
	r.state("a", mirror.Stopped)
	r.state("c", mirror.Stopped)
	info, _ := r.links.Mirror("l", "b")
	if info.Status != "PENDING_STOPPED" {
		t.Errorf("b is %s", info.Status)
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
	for _, bad := range [][2]any{{[]string{"ab"}, "x"}, {[]string(nil), ""}, {[]string(nil), "("}} {
		if _, err := r.links.Order(t.Context(), "l", Pause, bad[0].([]string), bad[1].(string), false); kindOf(err) != BadRequest {
			t.Errorf("%v: %v", bad, err)
		}
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

func TestC13_PartitionsAddedOnTheSource(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 3)
	r.link("l", keyStartSpec, "latest")
	r.source.change(func(s *fakeSource) {
		for p := range int32(12) {
			s.ends[kafka.TopicPartition{Topic: "t", Partition: p}] = 50
		}
	})
	r.mirror("l", "t")
	r.source.topic("t", 12, "retention.ms", "1000")
	r.eventually("twelve are fetched", func() bool { return r.pool().fetches("t") == 12 })
	if a, b := r.part("t", 0).Offsets(), r.part("t", 11).Offsets(); a.LogStart != 50 || b.LogStart != 0 {
		t.Errorf("first partition begins at %d, want 50 by the spec; a new one at %d, want the source's start", a.LogStart, b.LogStart)
	}
	r.eventually("configs follow", func() bool { return r.meta.Image().TopicByName("t").Configs["retention.ms"] == "1000" })
}

func TestC34_NoWritesWhenNothingChanged(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 2)
	r.link("l")
	r.mirror("l", "t")
	sync := func() {
		run := r.links.runningOf(r.meta.Image().LinkIDs["l"])
		if res := run.configs.Run(t.Context()); res.Err != nil || res.Changed != 0 || len(res.Problems) != 0 {
			t.Errorf("a round without differences: %+v", res)
		}
	}
	sync()
	rev := r.meta.Image().Revision
	sync()
	if now := r.meta.Image().Revision; now != rev {
		t.Errorf("metadata went from revision %d to %d", rev, now)
	}
}

func TestC35_ValuesThatAreNotTakenAreSkippedOneByOne(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l", keyConfigInclude, strings.Join(append(plan.AlwaysSynced(), "retention.ms", "segment.bytes"), ","))
	r.mirror("l", "t")
	r.source.topic("t", 1, "retention.ms", "abc", "cleanup.policy", "compact", "max.message.bytes", "2000000")
	r.eventually("the good ones are taken", func() bool {
		c := r.meta.Image().TopicByName("t").Configs
		return c["cleanup.policy"] == "compact" && c["max.message.bytes"] == "2000000" && c["retention.ms"] == "604800000"
	})
	r.eventually("the task names the bad one", func() bool {
		info, _ := r.links.Describe("l")
		return info.Tasks[0].State == task.StateInError && strings.Contains(info.Tasks[0].Errors[0].Text, "retention.ms=abc")
	})
	if r.pool().fetches("t") != 1 {
		t.Error("data does not flow")
	}
}

func TestC44_AutoCreate(t *testing.T) {
	r := newRig(t)
	for _, n := range []string{"a", "b", "c", "__consumer_offsets", "_schemas", "_confluent-x", "tmp.x"} {
		r.source.topic(n, 1)
	}
	taken := &meta.Topic{ID: kafka.NewTopicID(), Name: "a", Partitions: 1}
	if err := r.meta.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) { return []meta.Change{meta.PutTopic(taken)}, nil }); err != nil {
		t.Fatal(err)
	}
	r.link("l", keyAutoCreate, "true", keyTopicFilters, `{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"},{"name":"tmp","patternType":"PREFIXED","filterType":"EXCLUDE"}]}`)
	r.eventually("the free ones are mirrored", func() bool { return r.pool().fetches("b") == 1 && r.pool().fetches("c") == 1 })
	r.eventually("the taken one is reported", func() bool {
		info, _ := r.links.Describe("l")
		i := slices.IndexFunc(info.Tasks, func(one Task) bool { return one.Name == task.AutoCreateMirror })
		return len(info.Tasks[i].Errors) == 1 && info.Tasks[i].Errors[0].Code == "TOPIC_EXISTS_ERROR"
	})
	info, _ := r.links.Describe("l")
	if !slices.Equal(info.Topics, []string{"b", "c"}) {
		t.Errorf("mirrors %v, want b and c", info.Topics)
	}
	if err := r.meta.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) {
		return []meta.Change{meta.DeleteTopic(taken.ID, taken.Name)}, nil
	}); err != nil {
		t.Fatal(err)
	}
	r.eventually("and mirrored once it is free", func() bool { return r.pool().fetches("a") == 1 })
	off := "false"
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyAutoCreate, &off}}, false); err != nil {
		t.Fatal(err)
	}
	if set := r.meta.Image().LinkByName("l").Configs; set[keyTopicFilters] != "" {
		t.Error("C50: turning it off does not clear the filters")
	}
}

func TestC57_DeletingALinkInUse(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.source.topic("u", 1)
	r.link("l")
	r.mirror("l", "t")
	r.mirror("l", "u")
	err := r.links.Delete(t.Context(), "l", false, false)
	if kindOf(err) != InUse || !strings.Contains(err.Error(), "t, u") {
		t.Errorf("live mirrors: %v", err)
	}
	r.obeyed("l", Failover, "t")
	r.state("t", mirror.Stopped)
	if err := r.links.Delete(t.Context(), "l", false, true); kindOf(err) != InUse || strings.Contains(err.Error(), "t, u") {
		t.Errorf("dry run with one live: %v", err)
	}
	if err := r.links.Delete(t.Context(), "l", true, false); err != nil {
		t.Fatal(err)
	}
	img := r.meta.Image()
	if len(img.Links) != 0 || len(img.Mirrors) != 0 || img.TopicByName("t") == nil || img.TopicByName("u") == nil {
		t.Errorf("%d links, %d mirrors are left; topics %v", len(img.Links), len(img.Mirrors), img.TopicIDs)
	}
	if r.part("u", 0).Offsets().Role != meta.RoleOpen {
		t.Error("u is not open after the forced deletion")
	}
	if _, _, is := r.links.MirrorOf("t"); is {
		t.Error("history stays after the link is gone")
	}
}

func TestMirrorGoesWithItsTopic(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	id := r.meta.Image().TopicIDs["t"]
	if err := r.meta.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) {
		return []meta.Change{meta.DeleteTopic(id, "t"), meta.DeletePartitions(id)}, nil
	}); err != nil {
		t.Fatal(err)
	}
	r.links.TopicDeleted(id)
	r.eventually("the record goes and nobody fetches", func() bool {
		return r.meta.Image().Mirrors[id] == nil && r.pool().fetches("t") == 0
	})
}

func TestC73_CredentialsChangeOnALiveLink(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	secret := `org.apache.kafka.common.security.plain.PlainLoginModule required username="u1" password="first-secret";`
	r.link("l", "security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "PLAIN", "sasl.jaas.config", secret)
	r.mirror("l", "t")
	old := r.pool()
	next := strings.Replace(secret, "first-secret", "second-secret", 1)
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{"sasl.jaas.config", &next}}, false); err != nil {
		t.Fatal(err)
	}
	r.eventually("fetching goes on with the new ones", func() bool { return r.pool() != old && r.pool().fetches("t") == 1 })
	old.mu.Lock()
	closed := old.closed
	old.mu.Unlock()
	r.mu.Lock()
	last := r.dialed[len(r.dialed)-1]
	r.mu.Unlock()
	if !closed || !strings.Contains(last.Security.JAAS, "second-secret") {
		t.Errorf("old pool closed: %v; dialed with %q", closed, last.Security.JAAS)
	}
	list, err := r.links.Configs("l")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Value != nil && strings.Contains(*e.Value, "secret") {
			t.Errorf("%s shows a secret", e.Name)
		}
		if e.Name == "sasl.jaas.config" && (!e.Sensitive || e.Value != nil || e.Default) {
			t.Errorf("sasl.jaas.config is shown as %+v", e)
		}
	}
}

func TestFixedConfigsNeverChange(t *testing.T) {
	r := newRig(t)
	r.link("l", keyPrefix, "p_")
	other, same, mode := "q_", "p_", "BIDIRECTIONAL"
	err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyPrefix, &other}, {keyMode, &mode}}, false)
	if kindOf(err) != BadRequest || strings.Count(err.Error(), "create a new link") != 2 {
		t.Errorf("%v", err)
	}
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyPrefix, &same}}, false); err != nil {
		t.Errorf("a whole file sent again: %v", err)
	}
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{"no.such.key", &same}}, false); kindOf(err) != BadRequest {
		t.Errorf("unknown key: %v", err)
	}
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

// A crash between storing a mirror and opening its partitions is made good.
func TestInterruptedCreationIsFinished(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 2)
	r.link("l")
	rec := r.meta.Image().LinkByName("l")
	topic := r.source.topics["t"]
	made := &newMirror{
		topic:  &meta.Topic{ID: kafka.NewTopicID(), Name: "t", Partitions: 2},
		mirror: &meta.Mirror{Link: rec.ID, SourceTopic: "t", SourceTopicID: topic.ID, State: mirror.Active.String(), StartSpec: "earliest"},
	}
	made.mirror.Topic = made.topic.ID
	if err := r.links.storeMirror(t.Context(), rec, made); err != nil {
		t.Fatal(err)
	}
	r.restart()
	r.eventually("both partitions are fetched", func() bool { return r.pool().fetches("t") == 2 })
}

func TestEveryFaultAndReasonHasOneName(t *testing.T) {
	pairs := map[plan.Fault]fetcher.Fault{
		plan.NoFault: fetcher.NoFault, plan.SourceUnreachable: fetcher.SourceUnreachable, plan.SourceAuth: fetcher.SourceAuth, plan.SourceDenied: fetcher.SourceDenied,
		plan.TopicMissing: fetcher.TopicMissing, plan.TopicIDChanged: fetcher.TopicIDChanged, plan.PartitionsFewer: fetcher.PartitionsFewer,
		plan.EpochWentBack: fetcher.EpochWentBack, plan.AppendEpochBack: fetcher.AppendEpochBack, plan.Truncated: fetcher.Truncated,
		plan.OldFormat: fetcher.OldFormat, plan.CorruptBatch: fetcher.CorruptBatch, plan.OverlappingBatch: fetcher.OverlappingBatch, plan.TargetFailed: fetcher.TargetFailed,
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

// What was missing when the source was last seen is still known when it is not fetched any more.
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

func TestMirrorByItsOwnNameAlone(t *testing.T) {
	r := newRig(t)
	r.source.topic("clicks", 1)
	r.link("west", keyPrefix, "w_")
	topic, err := r.links.ValidateMirror(t.Context(), "west", MirrorSpec{MirrorTopic: "w_clicks"})
	if err != nil || topic.Name != "w_clicks" || topic.Configs["cleanup.policy"] != "delete" {
		t.Errorf("%+v, %v", topic, err)
	}
	if r.meta.Image().TopicByName("w_clicks") != nil {
		t.Error("validation made the topic")
	}
}
