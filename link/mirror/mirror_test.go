package mirror

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write docs/states.md anew")

const docsPath = "../../docs/states.md"

func TestTopicTableIsTotal(t *testing.T) {
	for s := range numStates {
		for e := range numEvents {
			c := table[s][e]
			if c.verdict == unset {
				t.Errorf("%v x %v: nobody decided", s, e)
			}
			if c.verdict != move && len(c.effects) > 0 {
				t.Errorf("%v x %v: effects on a cell that does not move", s, e)
			}
			if c.verdict == move && !c.here && c.next == s {
				t.Errorf("%v x %v: moves to where it is; say stay", s, e)
			}
			for _, effect := range c.effects {
				if effect >= numEffects {
					t.Errorf("%v x %v: unknown effect %v", s, e, effect)
				}
			}
		}
	}
}

func TestPartitionTableIsTotal(t *testing.T) {
	for p := range numParts {
		for e := range numPartEvents {
			c := partTable[p][e]
			if c.verdict == unset {
				t.Errorf("%v x %v: nobody decided", p, e)
			}
			if c.verdict == move && c.next == p {
				t.Errorf("%v x %v: moves to where it is", p, e)
			}
		}
	}
}

func TestNamesAreCompleteAndReadBack(t *testing.T) {
	for s := range numStates {
		got, err := ParseState(s.String())
		if err != nil || got != s || stateNames[s] == "" || shown[s] == "" {
			t.Errorf("state %d: %q reads back as %v, %v", s, s, got, err)
		}
	}
	for e := range numEvents {
		if eventNames[e] == "" || e.verb() == "" {
			t.Errorf("event %d has no name", e)
		}
	}
	for e := range numEffects {
		if effectNames[e] == "" {
			t.Errorf("effect %d has no name", e)
		}
	}
	for p := range numParts {
		if partNames[p] == "" || p.Category() == "" {
			t.Errorf("partition state %d has no name", p)
		}
	}
	for e := range numPartEvents {
		if partEventNames[e] == "" {
			t.Errorf("partition event %d has no name", e)
		}
	}
	if _, err := ParseState("RETIRED"); !errors.Is(err, ErrUnknownState) {
		t.Errorf("a state of a newer version: %v", err)
	}
}

// An operator can get a topic out of every state, whatever the source or peer does.
func TestStoppedIsReachableFromEverywhereWithoutThePeer(t *testing.T) {
	own := map[Event]bool{
		PauseAsked: true, ResumeAsked: true, PromoteAsked: true, FailoverAsked: true, FailoverForced: true,
		Fenced: true, Reopened: true,
	}
	for s := range numStates {
		if !reaches(s, Stopped, own) {
			t.Errorf("%v: no way to STOPPED by an operator alone", s)
		}
	}
}

func reaches(from, goal State, by map[Event]bool) bool {
	seen := map[State]bool{from: true}
	for queue := []State{from}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == goal {
			return true
		}
		for e := range numEvents {
			c := table[queue[0]][e]
			if c.verdict == move && !c.here && by[e] && !seen[c.next] {
				seen[c.next] = true
				queue = append(queue, c.next)
			}
		}
	}
	return false
}

func TestEveryStateIsReachableFromActive(t *testing.T) {
	all := map[Event]bool{}
	for e := range numEvents {
		all[e] = true
	}
	for s := range numStates {
		if !reaches(Active, s, all) {
			t.Errorf("%v: no way there from ACTIVE", s)
		}
	}
}

func TestNoTwoStatesAreOpenForProducers(t *testing.T) {
	var open []State
	for s := range numStates {
		if s.Writable() {
			open = append(open, s)
		}
		if s.Writable() && (s.Fetches() || s.Live()) {
			t.Errorf("%v: open for producers and still a mirror", s)
		}
	}
	if len(open) != 1 || open[0] != Stopped {
		t.Errorf("open for producers: %v, want STOPPED alone", open)
	}
}

// Rule D1 and G1: whoever enters Stopping has stopped fetching, then clamps, then opens.
func TestEveryStopStopsFetchingThenClampsThenFences(t *testing.T) {
	for s := range numStates {
		for e := range numEvents {
			c := table[s][e]
			if c.verdict != move || c.here || c.next != Stopping {
				continue
			}
			stop, clamp, fence := index(c.effects, StopFetch), index(c.effects, ClampGroups), index(c.effects, Fence)
			if s.Fetches() && stop < 0 {
				t.Errorf("%v x %v: does not stop fetching", s, e)
			}
			if clamp < 0 || fence < clamp || stop > clamp {
				t.Errorf("%v x %v: effects %v, want StopFetch, ClampGroups, Fence in this order", s, e, c.effects)
			}
		}
	}
}

func index(list []Effect, want Effect) int {
	for i, e := range list {
		if e == want {
			return i
		}
	}
	return -1
}

// Only the fencing of all partitions, or the reopening of frozen ones, makes a topic writable.
func TestOnlyFencedAndReopenedLeadToStopped(t *testing.T) {
	for s := range numStates {
		for e := range numEvents {
			c := table[s][e]
			if c.verdict == move && !c.here && c.next == Stopped && e != Fenced && e != Reopened {
				t.Errorf("%v x %v leads to STOPPED", s, e)
			}
		}
	}
}

func TestC55_FailoverWorksFromEveryLiveState(t *testing.T) {
	for s := range numStates {
		if s == Stopped {
			continue
		}
		next, _, err := Step(s, FailoverForced)
		if err != nil || next != Stopping && next != Reopening {
			t.Errorf("forced failover of %v: %v, %v", s, next, err)
		}
		if s == HandedOver { // rule R2: needs the peer's word
			if _, _, err := Step(s, FailoverAsked); !errors.Is(err, ErrWrongState) {
				t.Errorf("failover after hand-over: %v", err)
			}
			continue
		}
		if _, _, err := Step(s, FailoverAsked); err != nil {
			t.Errorf("failover of %v: %v", s, err)
		}
	}
}

// Rule T1: a pledge is given by an ordinary topic only.
func TestOnlyStoppedPledgesAndFreezes(t *testing.T) {
	for s := range numStates {
		_, _, err := Step(s, PledgeAsked)
		if (err == nil) != (s == Stopped) {
			t.Errorf("pledge of %v: %v", s, err)
		}
		_, _, err = Step(s, FreezeAsked)
		if (err == nil) != (s == Stopped || s == PendingMirror) {
			t.Errorf("freeze of %v: %v", s, err)
		}
	}
}

func TestRefusalsSayWhatWasAskedAndWhatToDo(t *testing.T) {
	cases := []struct {
		s    State
		e    Event
		want string
	}{
		{Failed, PromoteAsked, "cannot promote a mirror topic that is FAILED: failover makes it an ordinary topic"},
		{Paused, ReverseAsked, "cannot reverse a mirror topic that is PAUSED: resume it first"},
		{Stopping, PauseAsked, "cannot pause a mirror topic that is PENDING_STOPPED"},
		{HandedOver, FailoverAsked, "force it if that cluster is gone"},
		{PendingMirror, PauseAsked, "wait until it is done, or fail it over"},
		{PendingStopped, PauseAsked, "failover ends that at once"},
		// Here it would change nothing, so it is not to be advised.
		{Stopping, ResumeAsked, "wait for that, its state-transition errors say what hinders it"},
		{Reopening, ReverseAsked, "wait for that, its state-transition errors say what hinders it"},
	}
	for _, c := range cases {
		_, _, err := Step(c.s, c.e)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v x %v: %q, want %q in it", c.s, c.e, err, c.want)
		}
	}
	for s := range numStates {
		for e := PauseAsked; e <= RestoreAsked; e++ {
			var refused *Refusal
			if _, _, err := Step(s, e); errors.As(err, &refused) && refused.hint() == "" {
				t.Errorf("%v: it does not say what to do", err)
			}
		}
	}
}

func TestStatusShowsTheLinksTroublesOnlyOnActive(t *testing.T) {
	cases := []struct {
		topic  State
		link   LinkHealth
		source SourceHealth
		want   string
	}{
		{Active, LinkActive, SourceReachable, "ACTIVE"},
		{Active, LinkUnknown, SourceReachable, "ACTIVE"},
		{Active, LinkPaused, SourceUnavailable, "LINK_PAUSED"},
		{Active, LinkFailed, SourceUnavailable, "LINK_FAILED"},
		{Active, LinkUnavailable, SourceReachable, "SOURCE_UNAVAILABLE"},
		{Active, LinkActive, SourceUnavailable, "SOURCE_UNAVAILABLE"},
		{Paused, LinkPaused, SourceReachable, "PAUSED"},
		{Stopping, LinkFailed, SourceUnavailable, "PENDING_STOPPED"},
		{Stopped, LinkFailed, SourceUnavailable, "STOPPED"},
		{HandedOver, LinkActive, SourceReachable, "PENDING_MIRROR"},
	}
	for _, c := range cases {
		if got := Status(c.topic, c.link, c.source); got != c.want {
			t.Errorf("Status(%v, %v, %v) = %s, want %s", c.topic, c.link, c.source, got, c.want)
		}
	}
	if n := len(Statuses()); n != 12 {
		t.Errorf("%d statuses are shown, want the 12 of REST: %v", n, Statuses())
	}
}

func TestParseStatusTakesEverySpelling(t *testing.T) {
	for in, want := range map[string]string{
		"active": "ACTIVE", "pending-stopped": "PENDING_STOPPED", "PENDING_RESTORE_MIRROR": "PENDING_RESTORE", "link_paused": "LINK_PAUSED",
	} {
		if got, err := ParseStatus(in); err != nil || got != want {
			t.Errorf("ParseStatus(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	if _, err := ParseStatus("STOPPING"); err == nil {
		t.Error("a name that is only stored passes as a status")
	}
}

func TestObserveNeverMeetsARefusingCell(t *testing.T) {
	for s := range numStates {
		for bits := range 32 {
			f := PartFacts{
				Topic: s, Halted: bits&1 != 0, Open: bits&2 != 0, Fault: bits&4 != 0, Final: bits&8 != 0, Contacted: bits&16 != 0,
			}
			var p Part
			for _, e := range f.events() {
				next, err := StepPart(p, e)
				if err != nil {
					t.Fatalf("%+v: %v", f, err)
				}
				p = next
			}
			if (p == Open) != (s == Stopped || s == Stopping && f.Open) {
				t.Errorf("%+v: partition is %v", f, p)
			}
		}
	}
}

func TestEveryReasonHasCauseAndRemedyOnce(t *testing.T) {
	seen := map[Reason]bool{}
	for _, r := range reasons {
		if r.Cause == "" || r.Remedy == "" || seen[r.Reason] {
			t.Errorf("%v: cause %q, remedy %q, twice %v", r.Reason, r.Cause, r.Remedy, seen[r.Reason])
		}
		seen[r.Reason] = true
	}
}

func TestDocsAreFresh(t *testing.T) {
	want := docs()
	if *rewrite {
		if err := os.WriteFile(docsPath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsPath)
	if err != nil || string(got) != want {
		t.Errorf("docs/states.md is not what the tables say (%v); run go test ./link/mirror -run Docs -rewrite", err)
	}
}

func docs() string {
	var b strings.Builder
	b.WriteString("# States of a mirror topic and of its partitions\n\n")
	b.WriteString("Generated from the tables of package link/mirror by `go test ./link/mirror -run Docs -rewrite`. Do not edit.\n\n")
	b.WriteString("A cell says where an event leads and which effects are carried out, in order, once that is stored. ")
	b.WriteString("`refused` answers the order with an error; `-` changes nothing.\n\n## Topic\n\n")
	b.WriteString("| stored | shown as | fetches | writable |\n|---|---|---|---|\n")
	for s := range numStates {
		fmt.Fprintf(&b, "| %v | %s | %v | %v |\n", s, shown[s], s.Fetches(), s.Writable())
	}
	b.WriteString("\nComputed, never stored, on ACTIVE alone: LINK_PAUSED, LINK_FAILED, SOURCE_UNAVAILABLE.\n")
	for s := range numStates {
		fmt.Fprintf(&b, "\n### %v\n\n| event | leads to | effects |\n|---|---|---|\n", s)
		for e := range numEvents {
			fmt.Fprintf(&b, "| %v | %s |\n", e, topicCell(table[s][e]))
		}
	}
	b.WriteString("\n## Partition\n\n| event |")
	for p := range numParts {
		fmt.Fprintf(&b, " %v |", p)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", int(numParts)) + "\n")
	for e := range numPartEvents {
		fmt.Fprintf(&b, "| %v |", e)
		for p := range numParts {
			switch c := partTable[p][e]; c.verdict {
			case move:
				fmt.Fprintf(&b, " %v |", c.next)
			case refuse:
				b.WriteString(" refused |")
			default:
				b.WriteString(" - |")
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## Reasons\n\n| name | cause | what to do |\n|---|---|---|\n")
	for _, r := range reasons {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.Reason, r.Cause, r.Remedy)
	}
	return b.String()
}

func topicCell(c cell) string {
	switch c.verdict {
	case refuse:
		return "refused | "
	case ignore:
		return "- | "
	}
	names := make([]string, len(c.effects))
	for i, e := range c.effects {
		names[i] = e.String()
	}
	where := "stays"
	if !c.here {
		where = c.next.String()
	}
	return where + " | " + strings.Join(names, ", ")
}
