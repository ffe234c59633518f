package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/link/task"
	"github.com/hawserio/hawser/meta"
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

// A boolean may be written in any case, as Kafka takes it: what passes the check must take effect.
func TestBooleansInAnyCaseTakeEffect(t *testing.T) {
	r := newRig(t)
	_, err := r.links.Create(t.Context(), CreateSpec{Name: "l", Configs: fast(keyAutoCreate, "True")})
	if kindOf(err) != BadRequest || !strings.Contains(err.Error(), keyTopicFilters) {
		t.Errorf("switched on without filters: %v", err)
	}
	r.source.topic("orders", 1)
	r.link("l", keyAutoCreate, " TRUE ", keyTopicFilters, `{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	r.eventually("the mirror is made", func() bool { return r.meta.Image().TopicByName("orders") != nil })
	paused, off := "True", "FALSE"
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyPaused, &paused}, {keyAutoCreate, &off}}, false); err != nil {
		t.Fatal(err)
	}
	r.eventually("the link is paused", func() bool { info, _ := r.links.Describe("l"); return info.State == "PAUSED" })
	if filters, is := r.meta.Image().Links[r.meta.Image().LinkIDs["l"]].Configs[keyTopicFilters]; is {
		t.Errorf("the feature was switched off, and its filters stay: %s", filters)
	}
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
	if kindOf(err) != Exists || !strings.HasPrefix(err.Error(), "Cluster link 'l' already exists. ") {
		t.Errorf("link: %v", err)
	}
	r.mirror("l", "t")
	_, err = r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "t"})
	if kindOf(err) != Exists || !strings.HasPrefix(err.Error(), "Topic 't' already exists. ") {
		t.Errorf("mirror: %v", err)
	}
	// An ordinary topic stays one, whatever the source has under its name.
	plain := &meta.Topic{ID: kafka.NewTopicID(), Name: "plain", Partitions: 1}
	if err := r.meta.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) { return []meta.Change{meta.PutTopic(plain)}, nil }); err != nil {
		t.Fatal(err)
	}
	r.source.topic("plain", 1)
	_, err = r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "plain"})
	if kindOf(err) != Exists || !strings.HasPrefix(err.Error(), "Topic 'plain' already exists. ") {
		t.Errorf("ordinary topic: %v", err)
	}
	if _, _, is := r.links.MirrorOf("plain"); is || r.meta.Image().TopicByName("plain").ID != plain.ID {
		t.Error("an ordinary topic was made a mirror")
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
	r, _ := newPair(t)
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
	r.source.topic("u", 1)
	r.mirror("l", "u")
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
	for _, topic := range []string{"t", "u"} { // the list is the link's
		if err := r.links.CheckConfigChange(topic, []string{"retention.ms"}); err != nil {
			t.Errorf("alter of a config that was left out, of %s: %v", topic, err)
		}
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
	r.source.topic("new", 1)
	r.source.change(func(s *fakeSource) { s.unknown["new"] = 2 })
	if _, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "new"}); err != nil {
		t.Errorf("topic that its broker comes to know of: %v", err)
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

// TestDeletingALinkWithManyStoppedMirrors: their records go in more than one update, and each topic keeps what it mirrored.
func TestDeletingALinkWithManyStoppedMirrors(t *testing.T) {
	r := newRig(t)
	r.link("l")
	const many = 2*mirrorsAtOnce + 3
	var names []string
	for i := range many {
		name := fmt.Sprintf("t-%02d", i)
		r.source.topic(name, 1)
		r.mirror("l", name)
		names = append(names, name)
	}
	r.obeyed("l", Failover, names...)
	for _, name := range names {
		r.state(name, mirror.Stopped)
	}
	if err := r.links.Delete(t.Context(), "l", false, false); err != nil {
		t.Fatal(err)
	}
	img := r.meta.Image()
	if len(img.Links) != 0 || len(img.Mirrors) != 0 || len(img.Topics) < many {
		t.Errorf("%d links and %d mirrors are left, %d topics", len(img.Links), len(img.Mirrors), len(img.Topics))
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
	r.links.TopicDeleted()
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

// All links together hold hawser.link.memory.bytes: each has an equal part, also of links that come and go.
func TestLinksShareTheMemory(t *testing.T) {
	r := newRig(t)
	r.link("a")
	poolOf := func(name string) *fakePool {
		run := r.links.runningOf(r.meta.Image().LinkIDs[name])
		run.mu.Lock()
		defer run.mu.Unlock()
		return run.pool.(*fakePool)
	}
	part := func(name string) int64 {
		pool := poolOf(name)
		pool.mu.Lock()
		defer pool.mu.Unlock()
		return pool.cfg.MemoryMax
	}
	first := poolOf("a")
	if got := part("a"); got != 256<<20 {
		t.Errorf("a link alone has %d bytes", got)
	}
	r.link("b")
	r.eventually("each has a half", func() bool { return part("a") == 128<<20 && part("b") == 128<<20 })
	if err := r.links.Delete(t.Context(), "b", false, false); err != nil {
		t.Fatal(err)
	}
	r.eventually("the one that is left has all", func() bool { return part("a") == 256<<20 })
	if poolOf("a") != first {
		t.Error("the link was dialed anew for it")
	}
}

// TestTryConfigsReachesTheOtherClusterFirst: only changes of the way to it are tried, and nothing is changed by it.
func TestTryConfigsReachesTheOtherClusterFirst(t *testing.T) {
	r := newRig(t)
	r.link("l")
	before := maps.Clone(r.meta.Image().Links[r.meta.Image().LinkIDs["l"]].Configs)
	change := func(name, value string) error {
		return r.links.TryConfigs(t.Context(), "l", []AlterConfig{{name, &value}})
	}
	gone := &source.Error{Class: source.Refused, Address: "x:1", Err: errors.New("refused")}
	r.source.change(func(s *fakeSource) { s.err = gone })
	for _, same := range [][2]string{{keyPaused, "true"}, {keyOffsetSyncMs, "1000"}, {keyBootstrap, before[keyBootstrap]}} {
		if err := change(same[0], same[1]); err != nil {
			t.Errorf("%s leads nowhere else, but: %v", same[0], err)
		}
	}
	var e *Error
	for _, other := range [][2]string{{keyBootstrap, "elsewhere:9092"}, {keyAddressMap, "a:1=b:2"}, {"ssl.endpoint.identification.algorithm", ""}} {
		if err := change(other[0], other[1]); !errors.As(err, &e) || e.Kind != Unreachable || e.Code != "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR" {
			t.Errorf("%s: %v", other[0], err)
		}
	}
	r.source.change(func(s *fakeSource) { s.err, s.id = nil, "another" })
	if err := change(keyBootstrap, "elsewhere:9092"); !errors.As(err, &e) || e.Kind != BadRequest || !strings.Contains(e.Text, "another") {
		t.Errorf("another cluster: %v", err)
	}
	r.source.change(func(s *fakeSource) {
		s.id = r.meta.Image().Links[r.meta.Image().LinkIDs["l"]].RemoteClusterID
		s.brokers = []source.Broker{{ID: 7, Address: "inside:9092", Err: errors.New("refused")}}
	})
	if err := change(keyBootstrap, "elsewhere:9092"); err == nil || !strings.Contains(err.Error(), "broker 7") {
		t.Errorf("a broker that cannot be reached: %v", err)
	}
	r.source.change(func(s *fakeSource) { s.brokers = nil })
	if err := change(keyBootstrap, "elsewhere:9092"); err != nil {
		t.Errorf("it is there: %v", err)
	}
	if err := change("no.such.key", "1"); kindOf(err) != BadRequest {
		t.Errorf("an unknown config: %v", err)
	}
	if err := r.links.TryConfigs(t.Context(), "nope", nil); kindOf(err) != NotFound {
		t.Errorf("an unknown link: %v", err)
	}
	if after := r.meta.Image().Links[r.meta.Image().LinkIDs["l"]].Configs; !maps.Equal(before, after) {
		t.Errorf("the configs are %v, they were %v", after, before)
	}
}
