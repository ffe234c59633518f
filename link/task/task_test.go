package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/plan"
)

// fakeHere is this cluster in memory; fakeSource the source. A test drives both from one goroutine.
type fakeHere struct {
	mu       sync.Mutex // guards created: mirrors are made side by side
	mirrors  []Mirror
	end      kafka.Offset
	commits  map[string]map[kafka.TopicPartition]plan.Commit
	members  map[string]bool
	broken   map[string]bool // topics whose creation or widening fails
	taken    map[string]plan.Taken
	created  []string
	sets     []ConfigChange
	widened  map[string]int32
	setFails error
	copied   []plan.ACL
	others   []plan.ACL
	acls     []plan.ACLChange
}

func (h *fakeHere) Mirrors() []Mirror { return h.mirrors }
func (h *fakeHere) CheckConfig(_, value string) error {
	if value == "bad" {
		return errors.New("not taken")
	}
	return nil
}
func (h *fakeHere) SetConfigs(_ context.Context, changes []ConfigChange) error {
	h.sets = append(h.sets, changes...)
	return h.setFails
}
func (h *fakeHere) Widen(_ context.Context, m Mirror, n int32) error {
	if h.broken[m.Topic] {
		return errors.New("no space")
	}
	if h.widened == nil {
		h.widened = map[string]int32{}
	}
	h.widened[m.Topic] = n
	return nil
}
func (h *fakeHere) Bound(tp kafka.TopicPartition) (plan.Bound, bool) {
	return plan.Bound{Mirror: tp, End: h.end, Generation: 7}, true
}
func (h *fakeHere) Committed(topic string) map[string][]plan.Commit {
	out := map[string][]plan.Commit{}
	for g, list := range h.commits {
		for tp, c := range list {
			if tp.Topic == topic {
				out[g] = append(out[g], c)
			}
		}
	}
	return out
}
func (h *fakeHere) Commit(_ context.Context, group string, copies []plan.Commit, bounds map[kafka.TopicPartition]plan.Bound) (int, error) {
	if h.members[group] {
		return 0, kafka.NonEmptyGroup
	}
	if h.commits == nil {
		h.commits = map[string]map[kafka.TopicPartition]plan.Commit{}
	}
	if h.commits[group] == nil {
		h.commits[group] = map[kafka.TopicPartition]plan.Commit{}
	}
	for _, c := range copies {
		if bounds[c.TopicPartition].Generation != 7 {
			return 0, fmt.Errorf("no bound for %s", c.TopicPartition)
		}
		h.commits[group][c.TopicPartition] = c
	}
	return len(copies), nil
}
func (h *fakeHere) CreateMirror(_ context.Context, source string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken[source] {
		return kafka.Errorf(kafka.TopicAuthorizationFailed, "no")
	}
	h.created = append(h.created, source)
	return nil
}
func (h *fakeHere) ACLs() (copied, others []plan.ACL) { return h.copied, h.others }
func (h *fakeHere) ChangeACLs(_ context.Context, changes []plan.ACLChange) error {
	h.acls = append(h.acls, changes...)
	removed := map[plan.ACL]bool{}
	for _, c := range changes {
		if removed[c.ACL] = c.Remove; !c.Remove {
			h.copied = append(h.copied, c.ACL)
		}
	}
	h.copied = slices.DeleteFunc(h.copied, func(a plan.ACL) bool { return removed[a] })
	return nil
}
func (h *fakeHere) Names() Names                           { return h }
func (h *fakeHere) Taken(mirror, source string) plan.Taken { return h.taken[mirror] }
func (h *fakeHere) Collides(string) string                 { return "" }
func (h *fakeHere) Code(err error) string                  { return kafka.CodeOf(err).String() }

type fakeSource struct {
	topics    []Topic
	configs   map[string]TopicConfigs
	groups    []string
	groupsErr error
	offsets   map[string]GroupOffsets
	err       error
	calls     int
	acls      []plan.ACL
	next      [][]plan.ACL // what the next questions for ACLs are answered, before acls
	// the same for topics and their configs
	nextTopics  [][]Topic
	nextConfigs []map[string]TopicConfigs
}

func (s *fakeSource) Topics(_ context.Context, names []string) ([]Topic, error) {
	topics := s.topics
	if len(s.nextTopics) > 0 {
		topics, s.nextTopics = s.nextTopics[0], s.nextTopics[1:]
	}
	var list []Topic
	for _, t := range topics {
		if names == nil || slices.Contains(names, t.Name) {
			list = append(list, t)
		}
	}
	return list, s.err
}
func (s *fakeSource) TopicConfigs(context.Context, []string) (map[string]TopicConfigs, error) {
	if len(s.nextConfigs) > 0 {
		configs := s.nextConfigs[0]
		s.nextConfigs = s.nextConfigs[1:]
		return configs, s.err
	}
	return s.configs, s.err
}
func (s *fakeSource) Groups(context.Context) ([]string, error) { return s.groups, s.groupsErr }
func (s *fakeSource) GroupOffsets(_ context.Context, groups, _ []string) (map[string]GroupOffsets, error) {
	s.calls++
	out := map[string]GroupOffsets{}
	for _, g := range groups {
		if o, is := s.offsets[g]; is {
			out[g] = o
		}
	}
	return out, s.err
}

func (s *fakeSource) ACLs(context.Context) ([]plan.ACL, error) {
	if len(s.next) > 0 {
		answer := s.next[0]
		s.next = s.next[1:]
		return answer, s.err
	}
	return s.acls, s.err
}

func of(s *fakeSource) func() (Source, error) { return func() (Source, error) { return s, nil } }

func everyGroup() func(string) bool {
	f, err := plan.ParseGroupFilters(`{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"},{"name":"tmp","patternType":"PREFIXED","filterType":"EXCLUDE"}]}`)
	if err != nil {
		panic(err)
	}
	return f.MatchLocal
}

func commitAt(topic string, offset kafka.Offset) GroupOffsets {
	return GroupOffsets{List: []plan.Commit{{TopicPartition: kafka.TopicPartition{Topic: topic}, Offset: offset}}}
}

func TestOffsetsAreCopiedUnderTheMirrorsName(t *testing.T) {
	h := &fakeHere{mirrors: []Mirror{{Topic: "w_s", Source: "s", Partitions: 1}}, end: 90, members: map[string]bool{"w_busy": true}}
	s := &fakeSource{groups: []string{"a", "tmp1", "busy", "gone", "denied"}, offsets: map[string]GroupOffsets{
		"a": commitAt("s", 95), "tmp1": commitAt("s", 1), "busy": commitAt("s", 1),
		"gone": {Err: kafka.GroupIDNotFound}, "denied": {Err: kafka.GroupAuthorizationFailed},
	}}
	o := &Offsets{Source: of(s), Here: h, Matches: everyGroup, Prefix: func() string { return "w_" }}
	res := o.Run(t.Context())
	at := kafka.TopicPartition{Topic: "w_s"}
	if h.commits["w_a"][at].Offset != 90 || len(h.commits) != 1 {
		t.Errorf("C31, C32: commits %v", h.commits)
	}
	if res.Err != nil || len(res.Problems) != 2 || res.Problems[0].Code != "CONSUMER_GROUP_IN_USE_ERROR" || res.Problems[1].Code != "GROUP_AUTHORIZATION_FAILED" {
		t.Errorf("C23, C27: %+v", res)
	}
	if again := o.Run(t.Context()); again.Changed != 0 {
		t.Errorf("C34: a second round writes %d", again.Changed)
	}
}

func TestC26_OneCoordinatorOutOfReachHoldsNoOtherGroupUp(t *testing.T) {
	h := &fakeHere{mirrors: []Mirror{{Topic: "s", Source: "s", Partitions: 1}}, end: 90}
	s := &fakeSource{groups: []string{"a"}, groupsErr: errors.New("broker 2 is away"), offsets: map[string]GroupOffsets{"a": commitAt("s", 5)}}
	o := &Offsets{Source: of(s), Here: h, Matches: everyGroup, Prefix: func() string { return "" }}
	res := o.Run(t.Context())
	if res.Err != nil || len(res.Problems) != 1 || h.commits["a"][kafka.TopicPartition{Topic: "s"}].Offset != 5 {
		t.Errorf("%+v, commits %v", res, h.commits)
	}
	s.groups = nil
	if res := o.Run(t.Context()); res.Err == nil {
		t.Error("a source that lists nothing is no error")
	}
}

// A group that is matched in both directions is refused by name, and concerns only the mirrors that it has something to copy for: the others
// are promoted without it.
func TestACrossingGroupConcernsTheTopicsItHasOffsetsOn(t *testing.T) {
	h := &fakeHere{end: 90, mirrors: []Mirror{{Topic: "s", Source: "s", Partitions: 1}, {Topic: "u", Source: "u", Partitions: 1}}}
	s := &fakeSource{groups: []string{"a", "both", "idle"}, offsets: map[string]GroupOffsets{"a": commitAt("u", 5), "both": commitAt("s", 5)}}
	crosses := func(g string) bool { return g != "a" }
	o := &Offsets{Source: of(s), Here: h, Matches: everyGroup, Crosses: func() func(string) bool { return crosses }, Prefix: func() string { return "" }}
	problems, counts, err := o.Sync(t.Context(), h.mirrors)
	if err != nil || counts.Written != 1 || len(h.commits) != 1 {
		t.Errorf("%+v, %v, commits %v", counts, err, h.commits)
	}
	if len(problems) != 2 {
		t.Fatalf("problems %+v", problems)
	}
	for i, want := range []struct {
		group  string
		topics []string
	}{{"both", []string{"s"}}, {"idle", []string{}}} {
		p := problems[i]
		if !strings.Contains(p.Problem.Text, "group "+want.group+" is matched in both directions") || p.Topics == nil || !slices.Equal(p.Topics, want.topics) {
			t.Errorf("%s: %+v", want.group, p)
		}
	}
	h.commits["both"] = map[kafka.TopicPartition]plan.Commit{{Topic: "s"}: {TopicPartition: kafka.TopicPartition{Topic: "s"}, Offset: 5}}
	if problems, _, _ := o.Sync(t.Context(), h.mirrors); len(problems) != 2 || len(problems[0].Topics) != 0 {
		t.Errorf("a group that stands where it should has problems %+v", problems)
	}
}

func TestGroupsAreAskedInBoundedPieces(t *testing.T) {
	h := &fakeHere{mirrors: []Mirror{{Topic: "s", Source: "s", Partitions: 1}}, end: 90}
	s := &fakeSource{offsets: map[string]GroupOffsets{}}
	for i := range 250 {
		g := fmt.Sprintf("g%d", i)
		s.groups = append(s.groups, g)
		s.offsets[g] = commitAt("s", 5)
	}
	o := &Offsets{Source: of(s), Here: h, Matches: everyGroup, Prefix: func() string { return "" }}
	if res := o.Run(t.Context()); res.Changed != 250 || s.calls != 3 {
		t.Errorf("%d written in %d calls", res.Changed, s.calls)
	}
}

func TestConfigsOfEachTopicAreItsOwnAffair(t *testing.T) {
	id, other := kafka.NewTopicID(), kafka.NewTopicID()
	h := &fakeHere{broken: map[string]bool{"narrow": true}, mirrors: []Mirror{
		{Topic: "good", Source: "good", Partitions: 1}, {Topic: "gone", Source: "gone", Partitions: 1}, {Topic: "anew", Source: "anew", SourceID: id, Partitions: 1},
		{Topic: "closed", Source: "closed", Partitions: 1}, {Topic: "narrow", Source: "narrow", Partitions: 1}, {Topic: "fewer", Source: "fewer", Partitions: 3},
	}}
	compact := TopicConfigs{Values: map[string]string{"cleanup.policy": "compact"}}
	s := &fakeSource{
		topics: []Topic{{Name: "good", Partitions: 4}, {Name: "anew", ID: other, Partitions: 1}, {Name: "closed", Partitions: 1}, {Name: "narrow", Partitions: 2}, {Name: "fewer", Partitions: 2}},
		configs: map[string]TopicConfigs{
			"good": compact, "anew": compact, "closed": {Err: kafka.TopicAuthorizationFailed}, "narrow": {}, "fewer": {},
		},
	}
	c := &Configs{Source: of(s), Here: h, Include: func() []string { return nil }}
	byTopic, err := c.Sync(t.Context(), h.mirrors)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.sets) != 1 || h.sets[0].Mirror.Topic != "good" || h.widened["good"] != 4 || !byTopic["good"].Changed {
		t.Errorf("set %+v, widened %v", h.sets, h.widened)
	}
	for topic, code := range map[string]string{
		"gone": "UNKNOWN_TOPIC_OR_PARTITION", "anew": "SOURCE_TOPIC_ID_CHANGED", "closed": "TOPIC_AUTHORIZATION_FAILED", "narrow": "UNKNOWN_SERVER_ERROR", "fewer": "SOURCE_PARTITIONS_DECREASED",
	} {
		if p := byTopic[topic].Problems; len(p) != 1 || p[0].Code != code {
			t.Errorf("%s: %+v, want %s", topic, p, code)
		}
	}
	s.err = errors.New("source is away")
	if res := c.Run(t.Context()); res.Err == nil || len(res.Problems) != 1 {
		t.Errorf("a source that is away: %+v", res)
	}
}

// TestOneAnswerChangesNoMirror has a source whose first answer of a round is wrong: nothing protects its bytes on a plaintext line.
func TestOneAnswerChangesNoMirror(t *testing.T) {
	h := &fakeHere{mirrors: []Mirror{{Topic: "t", Source: "t", Partitions: 2, Configs: map[string]string{"cleanup.policy": "delete"}}}}
	right := TopicConfigs{Values: map[string]string{"cleanup.policy": "delete", "max.message.bytes": "5"}}
	wrong := TopicConfigs{Values: map[string]string{"cleanup.policy": "compact", "max.message.bytes": "5"}}
	s := &fakeSource{
		topics: []Topic{{Name: "t", Partitions: 2}}, nextTopics: [][]Topic{{{Name: "t", Partitions: 3}}},
		configs: map[string]TopicConfigs{"t": right}, nextConfigs: []map[string]TopicConfigs{{"t": wrong}},
	}
	c := &Configs{Source: of(s), Here: h, Include: func() []string { return nil }}
	byTopic, err := c.Sync(t.Context(), h.mirrors)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.widened) != 0 || len(h.sets) != 1 || !maps.Equal(h.sets[0].Set, map[string]string{"max.message.bytes": "5"}) {
		t.Errorf("widened to %v, set %+v", h.widened, h.sets)
	}
	if r := byTopic["t"]; !r.Changed || r.Partitions != 0 || len(r.Problems) != 0 {
		t.Errorf("the round found %+v", r)
	}
	if c.Run(t.Context()); len(h.widened) != 0 {
		t.Errorf("the next round widened to %v", h.widened)
	}
}

func TestC45_C49_AutoCreateGoesOnPastFailures(t *testing.T) {
	filters, err := plan.ParseTopicFilters(`{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	h := &fakeHere{broken: map[string]bool{"b": true}, taken: map[string]plan.Taken{"w_taken": plan.Foreign, "w_ours": plan.Ours}}
	s := &fakeSource{
		topics:  []Topic{{Name: "a"}, {Name: "b"}, {Name: "taken"}, {Name: "ours"}, {Name: "mirror"}, {Name: "stopped"}},
		configs: map[string]TopicConfigs{"mirror": {Values: map[string]string{plan.ConfigMirrorLink: "back"}}, "stopped": {Values: map[string]string{plan.ConfigMirrorLink: "back", plan.ConfigMirrorState: "STOPPED"}}},
	}
	s.topics = append(s.topics, Topic{Name: "given"})
	h.taken["w_given"] = plan.Foreign
	s.configs["given"] = TopicConfigs{Values: map[string]string{plan.ConfigMirrorLink: "back", plan.ConfigMirrorSourceCluster: "own"}}
	a := &AutoCreate{Source: of(s), Here: h, Prefix: func() string { return "w_" }, Filters: func() plan.Filters { return filters }, Cluster: "own"}
	res := a.Run(t.Context())
	slices.Sort(h.created)
	if !slices.Equal(h.created, []string{"a", "stopped"}) {
		t.Errorf("created %v, want a and stopped: b is denied, mirror is itself one", h.created)
	}
	if res.Err != nil || len(res.Problems) != 1 || res.Problems[0].Code != "TOPIC_EXISTS_ERROR" {
		t.Errorf("%+v", res)
	}
}

func TestRunnerRunsOnceAtATimeAndBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, runs atomic.Int32
		var fail atomic.Bool
		order := Order{Enabled: true, Period: 5 * time.Second}
		var told []string // by the one goroutine that runs, read when it rests
		r := NewRunner("x", func() Order { return order }, func(ctx context.Context) Result {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			runs.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			if fail.Load() {
				return Result{Err: errors.New("away"), Problems: []plan.Problem{{Code: "TIMEOUT_ERROR", Text: "away"}}}
			}
			return Result{}
		}, func(from, to string, first plan.Problem) { told = append(told, from+" "+to+" "+first.Code) })
		if s, _ := r.Status(); s != StateUnknown {
			t.Errorf("before the first run: %s", s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go r.Loop(ctx)
		time.Sleep(50 * time.Second)
		if n := runs.Load(); n != 10 {
			t.Errorf("%d runs in 50 s at a period of 5 s and 0.1 s a run", n)
		}
		if s, _ := r.Status(); s != StateActive {
			t.Errorf("after good runs: %s", s)
		}
		for range 100 {
			r.Poke()
			go func() {
				_ = r.Exclusive(ctx, func(context.Context) { most.Store(max(most.Load(), running.Add(1))); running.Add(-1) })
			}()
		}
		time.Sleep(time.Second)
		if most.Load() != 1 {
			t.Errorf("%d runs at once", most.Load())
		}
		fail.Store(true)
		time.Sleep(time.Minute)
		if s, p := r.Status(); s != StateInError || len(p) != 1 {
			t.Errorf("after bad runs: %s %v", s, p)
		}
		before := runs.Load()
		time.Sleep(150 * time.Second)
		if n := runs.Load() - before; n < 9 || n > 11 {
			t.Errorf("%d runs in 150 s of failures, want one each 15 s", n)
		}
		fail.Store(false)
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		if want := []string{"ACTIVE IN_ERROR TIMEOUT_ERROR", "IN_ERROR ACTIVE "}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestRunnerStatusSaysWhatKeepsItFromRunning(t *testing.T) {
	ran := false
	for _, c := range []struct {
		order Order
		want  string
		texts int
	}{
		{Order{}, StateNotConfigured, 0},
		{Order{Enabled: true, Missing: "set filters"}, StateNotConfigured, 1},
		{Order{Enabled: true, Hold: StateLinkPaused}, StateLinkPaused, 0},
		{Order{Enabled: true, Hold: StateLinkFailed}, StateLinkFailed, 0},
	} {
		r := NewRunner("x", func() Order { return c.order }, func(context.Context) Result { ran = true; return Result{} }, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Loop(ctx); close(done) }()
		r.Poke()
		if s, p := r.Status(); s != c.want || len(p) != c.texts {
			t.Errorf("%+v: %s %v", c.order, s, p)
		}
		cancel()
		<-done
	}
	if ran {
		t.Error("a task ran that must not")
	}
}

func TestProblemsAreBounded(t *testing.T) {
	many := make([]plan.Problem, 500)
	got := bound(many)
	if len(got) != problemsMax+1 || got[problemsMax].Code != "SUPPRESSED_ERRORS" {
		t.Errorf("%d problems kept", len(got))
	}
}

func TestC40_C41_ACLSync(t *testing.T) {
	a := plan.ACL{ResourceType: "TOPIC", PatternType: "LITERAL", Resource: "t", Principal: "User:u", Host: "*", Operation: "READ", Permission: "ALLOW"}
	h, s := &fakeHere{}, &fakeSource{acls: []plan.ACL{a}}
	none := func() string { return "" }
	sync := &ACLs{Source: of(s), Here: h, Match: func() func(plan.ACL) bool { return func(plan.ACL) bool { return true } }, TopicPrefix: none, GroupPrefix: none}
	if res := sync.Run(t.Context()); res.Err != nil || res.Changed != 1 || len(h.copied) != 1 {
		t.Errorf("%+v, here %v", res, h.copied)
	}
	if res := sync.Run(t.Context()); res.Changed != 0 {
		t.Errorf("C34: a second round changes %d", res.Changed)
	}
	s.acls = nil
	if res := sync.Run(t.Context()); res.Changed != 1 || len(h.copied) != 0 {
		t.Errorf("an ACL that went at the source: %+v, here %v", res, h.copied)
	}
	// One answer takes nothing away: a broker that is only catching up shows too little, and without its DENY somebody would be let in.
	deny := a
	deny.Principal, deny.Permission = "User:mallory", "DENY"
	s.acls = []plan.ACL{a, deny}
	if res := sync.Run(t.Context()); res.Changed != 2 {
		t.Errorf("both come over: %+v", res)
	}
	s.next = [][]plan.ACL{nil}
	if res := sync.Run(t.Context()); res.Changed != 0 || len(h.copied) != 2 {
		t.Errorf("one empty answer: %+v, here %v", res, h.copied)
	}
	s.acls = nil
	if res := sync.Run(t.Context()); res.Changed != 2 || len(h.copied) != 0 {
		t.Errorf("two empty answers: %+v, here %v", res, h.copied)
	}
	s.err = kafka.SecurityDisabled
	if res := sync.Run(t.Context()); res.Err == nil || res.Problems[0].Code != "SECURITY_DISABLED" {
		t.Errorf("C41: %+v", res)
	}
	s.err = nil
	for i := range aclsMax + 1 {
		a.Resource = fmt.Sprint(i)
		s.acls = append(s.acls, a)
	}
	if res := sync.Run(t.Context()); res.Changed != 0 || res.Problems[0].Code != "ACL_LIMIT_EXCEEDED" || len(h.copied) != 0 {
		t.Errorf("too many: %d changed, %v", res.Changed, res.Problems)
	}
	// What is taken away makes no more of them: a source with many may have half of them removed.
	s.acls = s.acls[:aclsMax]
	if res := sync.Run(t.Context()); res.Changed != aclsMax || len(res.Problems) != 0 {
		t.Errorf("as many as may be: %d changed, %v", res.Changed, res.Problems)
	}
	s.acls = s.acls[:aclsMax/2]
	if res := sync.Run(t.Context()); res.Changed != aclsMax/2 || len(h.copied) != aclsMax/2 || len(res.Problems) != 0 {
		t.Errorf("half are removed: %d changed, %d here, %v", res.Changed, len(h.copied), res.Problems)
	}
}
