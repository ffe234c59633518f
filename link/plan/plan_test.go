package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
)

func TestC50_FilterSemantics(t *testing.T) {
	parse := func(filters ...string) Filters {
		t.Helper()
		f, err := ParseTopicFilters(`{"topicFilters":[` + strings.Join(filters, ",") + `]}`)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	one := func(name, pattern, kind string) string {
		return `{"name":"` + name + `","patternType":"` + pattern + `","filterType":"` + kind + `"}`
	}
	all := one("*", "LITERAL", "INCLUDE")
	cases := []struct {
		filters Filters
		name    string
		want    bool
	}{
		{parse(all), "anything", true},
		{parse(one("foo", "LITERAL", "INCLUDE")), "foo", true},
		{parse(one("foo", "LITERAL", "INCLUDE")), "football", false},
		{parse(one("foo", "LITERAL", "INCLUDE")), "Foo", false},
		{parse(one("foo", "PREFIXED", "INCLUDE")), "foo", true},
		{parse(one("foo", "PREFIXED", "INCLUDE")), "foo.fighters", true},
		{parse(one("foo", "PREFIXED", "INCLUDE")), "bar.foo", false},
		{parse(one("foo", "PREFIXED", "INCLUDE"), one("foo.bar", "PREFIXED", "EXCLUDE")), "foo.bar.fighters", false},
		{parse(one("foo.bar", "PREFIXED", "EXCLUDE"), one("foo", "PREFIXED", "INCLUDE")), "foo.bar.fighters", false},
		{parse(one("foo.bar", "PREFIXED", "EXCLUDE"), one("foo", "PREFIXED", "INCLUDE")), "foo.fighters", true},
		{parse(all, one("secret", "PREFIXED", "EXCLUDE")), "secret", false},
		{parse(all, one("secret", "PREFIXED", "EXCLUDE")), "secre", true},
		{parse(all, one("not-there", "LITERAL", "EXCLUDE")), "x", true},
		{parse(one("x", "LITERAL", "EXCLUDE")), "y", false},
		{parse(one("*", "LITERAL", "EXCLUDE"), all), "x", false},
		{parse(one("*", "PREFIXED", "INCLUDE")), "x", false},
		{parse(one("*", "PREFIXED", "INCLUDE")), "*x", true},
		{parse(one("a", "literal", "include")), "a", true},
		{Filters{}, "x", false},
	}
	for i, c := range cases {
		if got := c.filters.Match(c.name); got != c.want {
			t.Errorf("%d: %+v matches %q: %v", i, c.filters, c.name, got)
		}
	}
}

func TestC50_BadFiltersAreRefused(t *testing.T) {
	for _, text := range []string{
		`{`, `[]`, `{"topicFilters":[]}`, `{}`, `{"topicFilters":[{"name":"","patternType":"LITERAL","filterType":"INCLUDE"}]}`,
		`{"topicFilters":[{"name":"x","patternType":"REGEX","filterType":"INCLUDE"}]}`,
		`{"topicFilters":[{"name":"x","patternType":"LITERAL","filterType":"MAYBE"}]}`,
		`{"topicFilters":[{"name":"x","patternType":"LITERAL","filterType":"INCLUDE"}]} more`,
		`{"topicFilters":[{"name":"x","patternType":"LITERAL","filterType":"INCLUDE","more":1}]}`,
		`{"topicFilters":[{"name":"x","patternType":"LITERAL"}]}`,
		`{"topicFilters":[{"name":"x","filterType":"INCLUDE"}]}`,
		`{"topicFilters":[{"patternType":"LITERAL","filterType":"INCLUDE"}]}`,
		`{"topicFilters":[{"name":"x","patternType":"LITERAL","filterType":"INCLUDE"}],"more":[]}`,
		`{"groupFilters":[{"name":"x","patternType":"LITERAL","filterType":"INCLUDE"}]}`,
		`{"topicFilters":[` + strings.TrimSuffix(strings.Repeat(`{"name":"x","patternType":"LITERAL","filterType":"INCLUDE"},`, FiltersMax+1), ",") + `]}`,
	} {
		if _, err := ParseTopicFilters(text); err == nil {
			t.Errorf("%.80q is taken", text)
		}
	}
	if f, err := ParseTopicFilters(""); err != nil || !f.Empty() {
		t.Errorf("no filters: %v, %v", f, err)
	}
}

func TestGroupFiltersByTopicType(t *testing.T) {
	f, err := ParseGroupFilters(`{"groupFilters":[
		{"name":"here","patternType":"LITERAL","filterType":"INCLUDE","topicTypes":["LOCAL_MIRROR"]},
		{"name":"there","patternType":"LITERAL","filterType":"INCLUDE","topicTypes":["REMOTE_MIRROR"]},
		{"name":"both","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"here": true, "there": false, "both": true} {
		if got := f.MatchLocal(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestC38_WhatIsSynced(t *testing.T) {
	byDefault := Synced(nil)
	for _, c := range []struct {
		include []string
		name    string
		want    bool
	}{
		{nil, "cleanup.policy", true},
		{nil, "retention.ms", true},
		{nil, "compression.type", false},
		{nil, "min.insync.replicas", false},
		{[]string{"retention.ms"}, "max.message.bytes", true},
		{[]string{"retention.ms"}, "message.timestamp.before.max.ms", true},
		{[]string{"retention.ms"}, "retention.bytes", false},
		{[]string{"compression.type", " segment.ms "}, "compression.type", true},
		{[]string{"compression.type", " segment.ms "}, "segment.ms", true},
		{[]string{"min.insync.replicas"}, "min.insync.replicas", false},
		{[]string{"confluent.placement.constraints"}, "confluent.placement.constraints", false},
		{[]string{"confluent.value.schema.validation"}, "confluent.value.schema.validation", false},
		{[]string{"confluent.key.schema.validation"}, "confluent.key.schema.validation", false},
		{[]string{"confluent.tier.enable"}, "confluent.tier.enable", false},
		{[]string{"remote.storage.enable"}, "remote.storage.enable", false},
		{[]string{"local.retention.ms"}, "local.retention.ms", false},
		{[]string{"message.timestamp.difference.max.ms"}, "message.timestamp.difference.max.ms", false},
	} {
		if got := slices.Contains(Synced(c.include), c.name); got != c.want {
			t.Errorf("include %v: %s is synced: %v", c.include, c.name, got)
		}
	}
	for _, name := range []string{"retention.ms", "retention.bytes", "delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms"} {
		if !slices.Contains(byDefault, name) || slices.Contains(Synced([]string{"segment.ms"}), name) {
			t.Errorf("%s follows by default: %v; with an include list without it: %v", name, slices.Contains(byDefault, name), slices.Contains(Synced([]string{"segment.ms"}), name))
		}
	}
	if len(byDefault) != len(AlwaysSynced())+len(DefaultSynced()) || !slices.IsSorted(byDefault) {
		t.Errorf("default: %v", byDefault)
	}
	if !FollowsLogStart(nil) || FollowsLogStart([]string{"retention.ms"}) || FollowsLogStart(AlwaysSynced()) {
		t.Error("log start follows the source only with both retentions synced")
	}
}

func TestReconfigure(t *testing.T) {
	taken := func(name, value string) error {
		if value == "bad" {
			return errors.New("not here")
		}
		return nil
	}
	source := map[string]string{"cleanup.policy": "compact", "max.message.bytes": "1", "retention.ms": "bad", "retention.bytes": "5", "message.timestamp.difference.max.ms": "77", "min.insync.replicas": "2"}
	set, skipped := Reconfigure(ConfigFacts{Source: source, Mirror: map[string]string{"max.message.bytes": "1", "retention.bytes": "9", "segment.ms": "3"}, Check: taken})
	want := map[string]string{"cleanup.policy": "compact", "retention.bytes": "5", timestampBefore: "77", timestampAfter: "77"}
	if !maps.Equal(set, want) {
		t.Errorf("set %v, want %v", set, want)
	}
	if len(skipped) != 1 || skipped[0].Name != "retention.ms" || skipped[0].Vital {
		t.Errorf("skipped %+v", skipped)
	}
	mirror := map[string]string{"max.message.bytes": "1"}
	maps.Copy(mirror, set)
	if again, _ := Reconfigure(ConfigFacts{Source: source, Mirror: mirror, Check: taken}); len(again) != 0 {
		t.Errorf("C34: a second round sets %v", again)
	}
	_, skipped = Reconfigure(ConfigFacts{Source: map[string]string{"cleanup.policy": "bad"}, Check: taken})
	if len(skipped) != 1 || !skipped[0].Vital {
		t.Errorf("an always-synced value that is not taken: %+v", skipped)
	}
}

func TestC36_OverridesOfSyncedConfigs(t *testing.T) {
	if err := CheckOverrides(map[string]string{"min.insync.replicas": "1", "segment.ms": "1"}, nil); err != nil {
		t.Error(err)
	}
	err := CheckOverrides(map[string]string{"cleanup.policy": "compact"}, nil)
	if err == nil || strings.Contains(err.Error(), "topic.config.sync.include") {
		t.Errorf("an always-synced one cannot be left out: %v", err)
	}
	if err := CheckOverrides(map[string]string{"retention.ms": "1"}, nil); err == nil || !strings.Contains(err.Error(), "topic.config.sync.include") {
		t.Errorf("%v", err)
	}
	if err := CheckOverrides(map[string]string{"retention.ms": "1"}, AlwaysSynced()); err != nil {
		t.Error(err)
	}
}

func TestWiden(t *testing.T) {
	if to, p := Widen(12, 3); to != 12 || p.Code != "" {
		t.Error(to, p)
	}
	if to, p := Widen(3, 3); to != 3 || p.Code != "" {
		t.Error(to, p)
	}
	if to, p := Widen(2, 3); to != 3 || p.Code != codePartitionsFewer {
		t.Error(to, p)
	}
}

func TestC21_C22_C24_C27_OffsetsAreClampedToTheMirror(t *testing.T) {
	tp := func(p int32) kafka.TopicPartition { return kafka.TopicPartition{Topic: "s", Partition: p} }
	bound := func(at kafka.TopicPartition) (Bound, bool) {
		if at.Topic != "s" || at.Partition > 2 {
			return Bound{}, false
		}
		return Bound{Mirror: kafka.TopicPartition{Topic: "m", Partition: at.Partition}, Start: 10, End: 90}, true
	}
	mirror := kafka.TopicPartition{Topic: "m", Partition: 2}
	p := CopyOffsets([]Commit{{tp(0), 95, "x"}, {tp(1), 0, ""}, {tp(2), 50, "same"}, {tp(3), 50, ""}, {kafka.TopicPartition{Topic: "other"}, 1, ""}, {tp(0), -1, ""}}, bound,
		map[kafka.TopicPartition]Commit{mirror: {mirror, 50, "same"}})
	want := []Commit{{kafka.TopicPartition{Topic: "m"}, 90, "x"}, {kafka.TopicPartition{Topic: "m", Partition: 1}, 10, ""}}
	if !slices.Equal(p.Copies, want) || p.Lowered != 1 || p.Raised != 1 || p.Equal != 1 || p.Absent != 3 {
		t.Errorf("%+v", p)
	}
	p = CopyOffsets([]Commit{{tp(2), 40, "same"}}, bound, map[kafka.TopicPartition]Commit{mirror: {mirror, 80, "same"}})
	if len(p.Copies) != 1 || p.Copies[0].Offset != 40 {
		t.Errorf("an offset that went back: %+v", p)
	}
	p = CopyOffsets([]Commit{{tp(2), 50, "new"}}, bound, map[kafka.TopicPartition]Commit{mirror: {mirror, 50, "same"}})
	if len(p.Copies) != 1 {
		t.Errorf("C25: other metadata at the same offset: %+v", p)
	}
	zero := func(at kafka.TopicPartition) (Bound, bool) { return Bound{Mirror: at, End: 10}, true }
	if p := CopyOffsets([]Commit{{tp(0), 0, ""}}, zero, nil); len(p.Copies) != 1 || p.Copies[0].Offset != 0 {
		t.Errorf("C22: offset 0: %+v", p)
	}
}

func TestFaultsAreBorneAsLongAsTheyMayBe(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	lim := Limits{Retry: 5 * time.Minute, Unreachable: 15 * time.Second}
	for _, c := range []struct {
		fault Fault
		age   time.Duration
		want  Judgement
	}{
		{NoFault, time.Hour, Well},
		{SourceUnreachable, 14 * time.Second, Wait},
		{SourceUnreachable, 15 * time.Second, Unavailable},
		{SourceUnreachable, 100 * time.Hour, Unavailable},
		{SourceAuth, 100 * time.Hour, Wait},
		{SourceDenied, 4 * time.Minute, Wait},
		{SourceDenied, 5 * time.Minute, Fail},
		{TopicMissing, 5*time.Minute - 1, Wait},
		{TopicMissing, 5 * time.Minute, Fail},
		{TopicIDChanged, 0, Fail},
		{OldFormat, 0, Fail},
		{Truncated, 0, Fail},
		{AppendEpochBack, 0, Fail},
		{PartitionsFewer, 29 * time.Second, Wait},
		{PartitionsFewer, 30 * time.Second, Fail},
		{EpochWentBack, time.Minute, Fail},
		{OverlappingBatch, time.Minute, Wait},
		{CorruptBatch, 100 * time.Hour, Wait},
		{TargetFailed, 100 * time.Hour, Wait},
		{"SOMETHING_NEW", 100 * time.Hour, Wait},
	} {
		j := JudgeFault(PartitionFault{Partition: 3, Fault: c.fault, Since: now.Add(-c.age)}, now, lim)
		if j.Judgement != c.want {
			t.Errorf("%s for %v: %v, want %v", c.fault, c.age, j.Judgement, c.want)
		}
		if c.want != Well && (j.Problem.Code == "" || !strings.Contains(j.Problem.Text, "partition 3")) {
			t.Errorf("%s: %+v", c.fault, j.Problem)
		}
	}
	worst := JudgeFaults([]PartitionFault{{0, SourceUnreachable, now, ""}, {1, OldFormat, now, ""}, {2, TopicIDChanged, now, ""}}, now, lim)
	if worst.Judgement != Fail || worst.Partition != 1 {
		t.Errorf("the worst of three: %+v", worst)
	}
	short := Limits{Retry: time.Second}
	if j := JudgeFault(PartitionFault{Fault: PartitionsFewer, Since: now.Add(-time.Second)}, now, short); j.Judgement != Fail {
		t.Errorf("a shorter retry time-out shortens the wait for metadata: %+v", j)
	}
}

func TestMayResumeOnlyWhatFits(t *testing.T) {
	a, b := kafka.NewTopicID(), kafka.NewTopicID()
	if !MayResume(a, a, 3, 3) || !MayResume(a, a, 3, 5) || !MayResume(kafka.TopicID{}, kafka.TopicID{}, 1, 1) {
		t.Error("the same topic is refused")
	}
	if MayResume(a, b, 3, 3) || MayResume(a, a, 3, 2) {
		t.Error("another topic is taken")
	}
}

func TestC61_ContactFollowsProbes(t *testing.T) {
	at := time.Unix(1000, 0)
	ok, refused, auth := Probed{At: at}, Probed{At: at, Class: "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR", Text: "refused"}, Probed{At: at, Class: codeAuthentication, Text: "bad password"}
	steps := []struct {
		probe Probed
		want  Reach
		code  string
	}{
		{refused, Unproven, refused.Class},
		{ok, Reachable, ""},
		{refused, Reachable, refused.Class},
		{refused, Reachable, refused.Class},
		{refused, Unreachable, refused.Class},
		{refused, Unreachable, refused.Class},
		{ok, Reachable, ""},
		{auth, Misconfigured, auth.Class},
		{refused, Misconfigured, auth.Class}, // the network cannot put a password right
		{ok, Reachable, ""},
		{refused, Reachable, refused.Class},
	}
	var c Contact
	for i, s := range steps {
		c = c.After(s.probe, 3)
		if c.Reach != s.want || c.Problem.Code != s.code {
			t.Errorf("step %d: %+v, want reach %d, %s", i, c, s.want, s.code)
		}
	}
	if c.LastOK != at {
		t.Errorf("last success %v", c.LastOK)
	}
	if w := ProbeWait(Contact{Reach: Misconfigured}, 100*time.Millisecond); w < time.Second {
		t.Errorf("C74: refused credentials are tried again after %v", w)
	}
}

func TestPromoteObstacles(t *testing.T) {
	level := PromoteFacts{Topic: "t", DataLevel: true, SourcePartitions: 3, MirrorPartitions: 3}
	if got := PromoteObstacles(level); len(got) != 0 {
		t.Errorf("nothing stands in the way, but %v", got)
	}
	for name, change := range map[string]func(*PromoteFacts){
		"lag":        func(f *PromoteFacts) { f.DataLevel = false },
		"fault":      func(f *PromoteFacts) { f.Judged = Judged{Judgement: Wait, Problem: Problem{codeAuthorization, "x"}} },
		"configs":    func(f *PromoteFacts) { f.ConfigProblems = []Problem{{codeAuthorization, "x"}} },
		"changed":    func(f *PromoteFacts) { f.ConfigsChanged = true },
		"partitions": func(f *PromoteFacts) { f.SourcePartitions = 4 },
		"fewer":      func(f *PromoteFacts) { f.SourcePartitions = 2 },
		"offsets":    func(f *PromoteFacts) { f.OffsetsWanted = true },
		"group":      func(f *PromoteFacts) { f.OffsetProblems = []Problem{{"CONSUMER_GROUP_IN_USE_ERROR", "x"}} },
	} {
		f := level
		change(&f)
		if got := PromoteObstacles(f); len(got) != 1 {
			t.Errorf("%s: %v, want one obstacle", name, got)
		}
	}
	done := level
	done.OffsetsWanted, done.OffsetsDone = true, true
	if got := PromoteObstacles(done); len(got) != 0 {
		t.Errorf("offsets are synced, but %v", got)
	}
}

func TestC46_C48_AutoCreate(t *testing.T) {
	filters, err := ParseTopicFilters(`{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	free := func(string, string) Taken { return Free }
	none := func(string) string { return "" }
	names := []string{
		"x.internal", "heartbeats", "__mine", "__consumer_timestamps", "__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state",
		"_confluent-x", "__confluent.y", "confluent-audit-log-events", "_schemas", "hawser.cut.t.1",
	}
	facts := AutoCreateFacts{Filters: filters, Taken: free, Collides: none}
	for _, n := range names {
		facts.Source = append(facts.Source, SourceTopic{Name: n, Internal: strings.HasPrefix(n, "__consumer_o")})
	}
	got, problems := AutoCreate(facts)
	if want := []string{"__consumer_timestamps", "__mine", "heartbeats", "x.internal"}; !slices.Equal(got, want) || len(problems) != 0 {
		t.Errorf("%v, %v; want %v", got, problems, want)
	}
	but, err := ParseTopicFilters(`{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"},{"name":"__consumer_timestamps","patternType":"LITERAL","filterType":"EXCLUDE"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	facts.Filters = but
	if got, _ := AutoCreate(facts); !slices.Equal(got, []string{"__mine", "heartbeats", "x.internal"}) {
		t.Errorf("without what an EXCLUDE names: %v", got)
	}
	literal, err := ParseTopicFilters(`{"topicFilters":[{"name":"_schemas","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	facts.Filters = literal
	if got, _ := AutoCreate(facts); !slices.Equal(got, []string{"_schemas"}) {
		t.Errorf("by its name: %v", got)
	}
	long := AutoCreateFacts{Filters: filters, Prefix: strings.Repeat("p", 10), Taken: free, Collides: none, Source: []SourceTopic{
		{Name: strings.Repeat("a", 239)}, {Name: strings.Repeat("a", 240)}, {Name: "b"}, {Name: "mirrored", IsMirror: true}, {Name: "closed", Denied: true},
	}}
	got, problems = AutoCreate(long)
	if len(got) != 2 || len(problems) != 1 || problems[0].Code != codeInvalidTopic {
		t.Errorf("C46: %d created, problems %v", len(got), problems)
	}
	alike := AutoCreateFacts{Filters: filters, Taken: free, Collides: func(m string) string {
		if m == "usa_clicks" {
			return "usa.clicks"
		}
		return ""
	}, Source: []SourceTopic{{Name: "usa_clicks"}, {Name: "fine"}}}
	got, problems = AutoCreate(alike)
	if !slices.Equal(got, []string{"fine"}) || len(problems) != 1 || !strings.Contains(problems[0].Text, "usa.clicks") {
		t.Errorf("C47: %v, %v", got, problems)
	}
}

func TestC46_C52_MirrorNames(t *testing.T) {
	for _, c := range []struct {
		prefix, source, given, want string
		ok                          bool
	}{
		{"", "t", "", "t", true},
		{"", "t", "t", "t", true},
		{"", "t", "u", "", false},
		{"w_", "t", "w_t", "w_t", true},
		{"w_", "t", "", "", false},
		{"w_", "t", "t", "", false},
		{"w_", "t", "x_t", "", false},
		{"", "a/b", "", "", false},
		{"", "", "", "", false},
		{"p", strings.Repeat("a", 249), "p" + strings.Repeat("a", 249), "", false},
	} {
		got, err := MirrorName(c.prefix, c.source, c.given)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("MirrorName(%q, %.20q, %.20q) = %.20q, %v", c.prefix, c.source, c.given, got, err)
		}
	}
}

func TestC69_LinkNames(t *testing.T) {
	for _, good := range []string{"a", "a.b", "a-b", "_x", "configs", "mirrors", "...", strings.Repeat("x", 200)} {
		if err := CheckLinkName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "-", "a b", "a/b", "ü", "a\n", strings.Repeat("x", 201)} {
		if err := CheckLinkName(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if CheckPrefix("usa_") != nil || CheckPrefix("") != nil || CheckPrefix("a/b") == nil || CheckPrefix(strings.Repeat("x", 249)) == nil {
		t.Error("prefixes")
	}
}

func FuzzParseFilters(f *testing.F) {
	f.Add(`{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`, "x")
	f.Add(`{"groupFilters":[{"name":"g","patternType":"PREFIXED","filterType":"EXCLUDE","topicTypes":["LOCAL_MIRROR"]}]}`, "g1")
	f.Fuzz(func(t *testing.T, text, name string) {
		for _, parse := range []func(string) (Filters, error){ParseTopicFilters, ParseGroupFilters} {
			filters, err := parse(text)
			if err == nil && filters.MatchLocal(name) && !slices.ContainsFunc(filters.list, func(one Filter) bool { return one.FilterType == filterInclude && one.matches(name) }) {
				t.Errorf("%q matches %q without an INCLUDE that does", text, name)
			}
		}
	})
}

func allow(kind, pattern, name, who string) ACL {
	return ACL{ResourceType: kind, PatternType: pattern, Resource: name, Principal: who, Host: "*", Operation: "READ", Permission: "ALLOW"}
}

func deny(kind, pattern, name, who string) ACL {
	a := allow(kind, pattern, name, who)
	a.Permission = "DENY"
	return a
}

func TestC39_DenyNeverLagsBehindAllow(t *testing.T) {
	oldAllow, oldDeny := allow("TOPIC", "LITERAL", "old", "User:u"), deny("TOPIC", "LITERAL", "old", "User:u")
	newAllow, newDeny := allow("TOPIC", "LITERAL", "t", "User:*"), deny("TOPIC", "LITERAL", "t", "User:u")
	changes, problems := SyncACLs(ACLFacts{Source: []ACL{newAllow, newDeny}, Copied: []ACL{oldDeny, oldAllow}, Match: func(ACL) bool { return true }})
	want := []ACLChange{{oldAllow, true}, {newDeny, false}, {newAllow, false}, {oldDeny, true}}
	if !slices.Equal(changes, want) || len(problems) != 0 {
		t.Errorf("%v, %v", changes, problems)
	}
}

func TestACLsOfOthersAndOutOfTheFiltersStay(t *testing.T) {
	local, copied, both := allow("TOPIC", "LITERAL", "local", "User:a"), allow("GROUP", "LITERAL", "g", "User:a"), allow("TOPIC", "LITERAL", "both", "User:a")
	topics := func(a ACL) bool { return a.ResourceType == "TOPIC" }
	changes, _ := SyncACLs(ACLFacts{Source: []ACL{both, allow("GROUP", "LITERAL", "h", "User:a")}, Copied: []ACL{copied}, Others: []ACL{local, both}, Match: topics})
	if len(changes) != 0 {
		t.Errorf("changes %v: nothing here is this link's and matched", changes)
	}
}

func TestC40_ACLsOfANewerKafkaAreReported(t *testing.T) {
	known, newer := allow("TRANSACTIONAL_ID", "LITERAL", "x", "User:a"), allow("TRANSACTIONAL_ID", "LITERAL", "x", "User:a")
	known.Operation, newer.Operation = "TWO_PHASE_COMMIT", "UNKNOWN(99)"
	odd := allow("UNKNOWN", "LITERAL", "x", "User:a")
	changes, problems := SyncACLs(ACLFacts{Source: []ACL{known, newer, odd}, Match: func(ACL) bool { return true }})
	if !slices.Equal(changes, []ACLChange{{ACL: known}}) || len(problems) != 2 || !strings.Contains(fmt.Sprint(problems), "UNKNOWN(99)") {
		t.Errorf("%v, problems %v", changes, problems)
	}
}

func TestC43_ACLsUnderAPrefix(t *testing.T) {
	f := ACLFacts{TopicPrefix: "usa_", Match: func(ACL) bool { return true }, Source: []ACL{
		allow("TOPIC", "LITERAL", "clicks", "User:a"), allow("TOPIC", "PREFIXED", "cl", "User:a"), allow("TOPIC", "LITERAL", "*", "User:a"),
		allow("GROUP", "LITERAL", "g", "User:a"), allow("CLUSTER", "LITERAL", "kafka-cluster", "User:a"),
	}}
	changes, problems := SyncACLs(f)
	want := map[ACL]bool{
		allow("TOPIC", "LITERAL", "usa_clicks", "User:a"): true, allow("TOPIC", "PREFIXED", "usa_cl", "User:a"): true,
		allow("GROUP", "LITERAL", "g", "User:a"): true, allow("CLUSTER", "LITERAL", "kafka-cluster", "User:a"): true,
	}
	for _, c := range changes {
		if c.Remove || !want[c.ACL] {
			t.Errorf("unexpected %+v", c)
		}
		delete(want, c.ACL)
		f.Copied = append(f.Copied, c.ACL)
	}
	if len(want) != 0 || len(problems) != 1 || !strings.Contains(problems[0].Text, "*") {
		t.Errorf("missing %v, problems %v", want, problems)
	}
	if again, _ := SyncACLs(f); len(again) != 0 {
		t.Errorf("C34: a second round changes %v", again)
	}
	f.GroupPrefix, f.Copied = "usa_", nil
	changes, _ = SyncACLs(f)
	if !slices.Contains(changes, ACLChange{ACL: allow("GROUP", "LITERAL", "usa_g", "User:a")}) {
		t.Errorf("groups with a prefix: %v", changes)
	}
}
