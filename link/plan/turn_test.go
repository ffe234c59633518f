package plan

import (
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
)

func TestTurnIDRoundTrip(t *testing.T) {
	topic := kafka.NewTopicID()
	got, n, err := ParseTurnID(TurnID(topic, 7))
	if err != nil || got != topic || n != 7 {
		t.Errorf("read %v %d %v", got, n, err)
	}
	for _, bad := range []string{"", "x", "x/1", topic.String(), topic.String() + "/", topic.String() + "/0", topic.String() + "/x"} {
		if _, _, err := ParseTurnID(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// Rules R1, R2 and R4: what the mirror's side says of a reversal in each state, and what the source's side makes of it.
func TestR1_R4_WhatTheMirrorSaysOfAReversal(t *testing.T) {
	topic := kafka.NewTopicID()
	first, second := TurnID(topic, 1), TurnID(topic, 2)
	at := func(s mirror.State, id string, over, handed, paused bool) TurnFacts {
		return TurnFacts{State: s, Topic: topic, Turns: 2, ID: id, Over: over, Handed: handed, Paused: paused, Recorded: true}
	}
	for _, row := range []struct {
		name  string
		facts TurnFacts
		id    string
		want  Word
	}{
		{"under way", at(mirror.PendingSynchronize, second, false, false, false), second, Live},
		{"about to be handed over", at(mirror.PendingHandOver, second, false, false, false), second, Live},
		{"an earlier one, another is under way", at(mirror.PendingSynchronize, second, false, false, false), first, Dead},
		{"refused, mirroring again", at(mirror.Active, second, true, false, false), second, Dead},
		{"completing", at(mirror.Stopping, second, false, true, false), second, Live},
		{"failed over in the middle", at(mirror.Stopping, second, true, false, false), second, Aborted},
		{"failed over", at(mirror.Stopped, second, true, false, false), second, Aborted},
		{"completed", at(mirror.Stopped, second, false, true, false), second, Completed},
		{"completed with pause", at(mirror.Stopped, second, false, true, true), second, CompletedPaused},
		{"an earlier one of a topic that is stopped", at(mirror.Stopped, second, false, true, false), first, Aborted},
		{"completed, and in another turn by now", at(mirror.PendingMirror, "x", false, false, false), second, Aborted},
		{"never ordered", at(mirror.Active, second, true, false, false), TurnID(topic, 3), Unheard},
		{"completed, and a mirror of a third since", TurnFacts{State: mirror.Active, Topic: topic, Turns: 1, Stopped: 1, ID: second, Recorded: true}, first, Aborted},
		{"completed, and in a turn of its own since", TurnFacts{State: mirror.PendingSynchronize, Topic: topic, Turns: 2, Stopped: 1, ID: second, Recorded: true}, first, Aborted},
		{"dead since it last stopped", TurnFacts{State: mirror.Active, Topic: topic, Turns: 2, Stopped: 1, ID: second, Over: true, Recorded: true}, second, Dead},
		{"of another topic", at(mirror.Active, second, true, false, false), TurnID(kafka.NewTopicID(), 1), Unheard},
		{"no record", TurnFacts{Topic: topic, Turns: 2}, second, Unheard},
	} {
		if got := Speak(row.facts, row.id); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
		if ParseWord(row.want.String()) != row.want {
			t.Errorf("%v is not read back", row.want)
		}
	}
}

// Rule R1: a reversal that was completed before another turn began stays completed, unless what both had was cut off since.
func TestR1_ACompletedReversalStaysCompleted(t *testing.T) {
	for _, row := range []struct {
		paused, kept bool
		want         Word
	}{{false, true, Completed}, {true, true, CompletedPaused}, {false, false, Aborted}, {true, false, Aborted}} {
		if got := SpeakOfCompleted(row.paused, row.kept); got != row.want {
			t.Errorf("paused %t, kept %t: %v, want %v", row.paused, row.kept, got, row.want)
		}
	}
}

func TestR1_R2_TheSourceBecomesAMirrorOnlyOnItsOwnEnds(t *testing.T) {
	for _, row := range []struct {
		state   mirror.State
		word    Word
		ends    bool
		want    mirror.Event
		is      bool
		problem bool
	}{
		{mirror.PendingMirror, Live, false, 0, false, false},
		{mirror.PendingMirror, Dead, false, mirror.PeerDead, true, false},
		{mirror.HandedOver, Dead, false, mirror.PeerDead, true, false},
		{mirror.HandedOver, Completed, true, mirror.PeerCompleted, true, false},
		{mirror.HandedOver, CompletedPaused, true, mirror.PeerCompletedPaused, true, false},
		{mirror.HandedOver, Completed, false, mirror.PeerUnclear, false, true},
		{mirror.PendingMirror, Completed, true, mirror.PeerUnclear, false, true},
		{mirror.HandedOver, Aborted, true, mirror.PeerUnclear, false, true},
		{mirror.PendingMirror, Unheard, false, mirror.PeerUnclear, false, true},
		{mirror.PendingMirror, Silent, false, mirror.PeerUnclear, false, true},
	} {
		e, is, problem := Hear(row.state, row.word, row.ends)
		if is != row.is || is && e != row.want || (problem.Code != "") != row.problem {
			t.Errorf("%v hears %v (ends equal: %t): %v %t %v", row.state, row.word, row.ends, e, is, problem)
		}
	}
}

func TestR7_T1_WhoMayBeFrozenPledgedAndHandedOver(t *testing.T) {
	topic := kafka.NewTopicID()
	for state, want := range map[mirror.State]bool{
		mirror.Stopped: true, mirror.PendingMirror: true, mirror.HandedOver: true, mirror.Active: false, mirror.Paused: false,
		mirror.Failed: false, mirror.PendingSetup: false, mirror.PendingRestore: false, mirror.Reopening: false, mirror.Stopping: false,
	} {
		if err := MayFreeze(SideFacts{Topic: "t", State: state, Turn: "R"}, "R"); (err == nil) != want {
			t.Errorf("freeze a topic that is %v: %v", state, err)
		}
		handed := state == mirror.PendingMirror || state == mirror.HandedOver
		if err := MayHandOver(SideFacts{Topic: "t", State: state, Turn: "R"}, "R"); (err == nil) != handed {
			t.Errorf("hand over a topic that is %v: %v", state, err)
		}
		if MayHandOver(SideFacts{Topic: "t", State: state, Turn: "R"}, "R2") == nil {
			t.Errorf("a topic that is %v was handed over to another reversal", state)
		}
		facts := PledgeFacts{SideFacts: SideFacts{Topic: "t", State: state}, Recorded: true, SourceTopicID: topic, SourceCluster: "A"}
		if err := MayPledge(facts, "P", topic, "A"); (err == nil) != (state == mirror.Stopped) {
			t.Errorf("pledge a topic that is %v: %v", state, err)
		}
	}
	stopped := PledgeFacts{SideFacts: SideFacts{Topic: "t", State: mirror.Stopped, Pledged: "P"}, Recorded: true, SourceTopicID: topic, SourceCluster: "A"}
	if MayPledge(stopped, "P", topic, "A") != nil || MayPledge(stopped, "P2", topic, "A") == nil {
		t.Error("a pledge is repeated to its own restore, and to no other")
	}
	if MayFreeze(stopped.SideFacts, "R") == nil {
		t.Error("a pledged topic was frozen")
	}
	if MayPledge(stopped, "P", kafka.NewTopicID(), "A") == nil || MayPledge(stopped, "P", topic, "B") == nil {
		t.Error("T10: a pledge was given to another topic than the one it mirrored")
	}
}

// Rule T1: a question that comes late may leave a pledge to a restore that is over. It stands in the way of other clusters' and other
// topics' restores, but not of the next one of the same topic.
func TestT1_APledgeGivesWayToTheNextRestoreOfItsTopic(t *testing.T) {
	topic := kafka.NewTopicID()
	facts := PledgeFacts{SideFacts: SideFacts{Topic: "t", State: mirror.Stopped, Pledged: TurnID(topic, 2)}, Recorded: true, SourceTopicID: topic, SourceCluster: "A"}
	for n, want := range map[int64]bool{1: false, 2: true, 3: true} {
		if err := MayPledge(facts, TurnID(topic, n), topic, "A"); (err == nil) != want {
			t.Errorf("restore %d beside the pledge to restore 2: %v", n, err)
		}
	}
	if err := MayPledge(facts, TurnID(kafka.NewTopicID(), 3), topic, "A"); err == nil {
		t.Error("another topic's restore took over a pledge")
	}
}

// Rule T1: a restore whose pledge an operator took back gets none again, nor does an earlier one of its topic; a later one may. The refusal
// leaves the restore where it is.
func TestT1_AWithdrawnPledgeIsNotGivenAgain(t *testing.T) {
	topic := kafka.NewTopicID()
	facts := PledgeFacts{SideFacts: SideFacts{Topic: "t", State: mirror.Stopped}, Recorded: true, SourceTopicID: topic, SourceCluster: "A", Withdrawn: TurnID(topic, 2)}
	for n, want := range map[int64]bool{1: false, 2: false, 3: true} {
		err := MayPledge(facts, TurnID(topic, n), topic, "A")
		if (err == nil) != want {
			t.Errorf("restore %d: %v", n, err)
		}
		if err != nil && Final(kafka.CodeOf(err)) {
			t.Errorf("restore %d is ended by %v", n, err)
		}
	}
	other := kafka.NewTopicID()
	facts.SourceTopicID = other
	if err := MayPledge(facts, TurnID(other, 1), other, "A"); err != nil {
		t.Errorf("another topic's restore: %v", err)
	}
	if Withdrawn("", TurnID(topic, 1)) || Withdrawn(TurnID(topic, 1), "nonsense") {
		t.Error("what names no restore was taken back")
	}
}

// Rules T6, T10: a topic is restored from what is known to be a copy of it, over however many clusters; another cluster's says so, and what
// to do instead.
func TestT6_T10_OnlyACopyPledges(t *testing.T) {
	topic, turn := kafka.NewTopicID(), TurnID(kafka.NewTopicID(), 1)
	facts := PledgeFacts{SideFacts: SideFacts{Topic: "t", State: mirror.Stopped}, Of: "B", Kin: []Kin{{"B", kafka.NewTopicID()}, {"A", topic}}}
	if err := MayPledge(facts, turn, topic, "A"); err != nil {
		t.Errorf("a copy over another cluster: %v", err)
	}
	for name, other := range map[string]Kin{"made anew": {"A", kafka.NewTopicID()}, "of another cluster": {"C", topic}} {
		err := MayPledge(facts, turn, other.Topic, other.Cluster)
		if err == nil || !Final(kafka.CodeOf(err)) || !strings.Contains(err.Error(), "of cluster B") || !strings.Contains(err.Error(), "create it as a mirror of this one") {
			t.Errorf("a topic %s: %v", name, err)
		}
	}
	for _, state := range []mirror.State{mirror.Active, mirror.Failed, mirror.PendingSetup, mirror.Stopping} {
		facts.State = state
		if err := MayPledge(facts, turn, topic, "A"); err == nil || !strings.Contains(err.Error(), "not STOPPED") {
			t.Errorf("a copy that is %v: %v", state, err)
		}
	}
	facts.State, facts.Pledged = mirror.Stopped, TurnID(kafka.NewTopicID(), 3)
	if MayPledge(facts, turn, topic, "A") == nil {
		t.Error("a copy that is pledged to somebody pledges again")
	}
	facts.Pledged, facts.Withdrawn = "", turn
	if MayPledge(facts, turn, topic, "A") == nil {
		t.Error("a pledge that was taken back is given again")
	}
}

// TestR1_EqualEndsOverOtherBatchesAreNotDrained has a mirror of an older history end where the source was frozen.
func TestR1_EqualEndsOverOtherBatchesAreNotDrained(t *testing.T) {
	log := func(start kafka.Offset, marks ...BatchMark) LogFacts {
		return LogFacts{Start: start, End: 9, Marks: marks}
	}
	cleaned := func(f LogFacts, to kafka.Offset) LogFacts { f.CleanedTo = to; return f }
	first, last := BatchMark{Base: 0, Next: 5, Epoch: 1, CRC: 1}, BatchMark{Base: 5, Next: 9, Epoch: 2, CRC: 2}
	epoch, bytes, one := last, last, BatchMark{Base: 0, Next: 9, Epoch: 2, CRC: 3}
	epoch.Epoch, bytes.CRC = 3, 3
	stored := last
	stored.Next = kafka.NoOffset
	for name, c := range map[string]struct {
		mirror, source LogFacts
		other          bool
	}{
		"the same":                          {log(0, first, last), log(0, first, last), false},
		"as written down at a stop":         {log(0, first, last), log(0, first, stored), false},
		"another epoch":                     {log(0, first, epoch), log(0, first, last), true},
		"other bytes in the same epoch":     {log(0, first, bytes), log(0, first, last), true},
		"one batch over the same offsets":   {log(0, one), log(0, first, last), true},
		"the source removed the first":      {log(0, first, last), log(5, last), false},
		"the source removed all":            {log(0, first, last), log(9), false},
		"the mirror keeps less":             {log(5, last), log(0, first, last), false},
		"a cleaner may have rewritten all":  {log(0), log(0, first, last), false},
		"other bytes above a cleaned part":  {log(0, bytes), log(0, first, last), true},
		"the source cleaned since its stop": {cleaned(log(0, bytes), 0), cleaned(log(0, first, stored), 9), false},
		"the source cleaned below the last": {log(0, bytes), cleaned(log(0, first, last), 5), true},
	} {
		if got := OtherTail(c.mirror, c.source, 9); got != c.other {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestDrainedWantsEveryPartition(t *testing.T) {
	if done, _, _ := Drained([]kafka.Offset{5, 7}, []kafka.Offset{5, 7}); !done {
		t.Error("equal ends are not drained")
	}
	if done, beyond, text := Drained([]kafka.Offset{5, 7}, []kafka.Offset{5, 4}); done || beyond || text == "" {
		t.Error("a lag of 3 is drained")
	}
	if done, beyond, _ := Drained([]kafka.Offset{5, 7}, []kafka.Offset{5}); done || beyond {
		t.Error("a partition is missing, and may come")
	}
	if done, beyond, _ := Drained([]kafka.Offset{5}, []kafka.Offset{5, 0}); done || !beyond {
		t.Error("a partition too many is beyond")
	}
	if done, beyond, _ := Drained([]kafka.Offset{5, 7}, []kafka.Offset{6, 7}); done || !beyond {
		t.Error("more than was frozen is beyond")
	}
}

// TestR4_T1_ATurnIsNotForgottenForAnother: what is left to be done for a topic's last turn is known from its record alone.
func TestR4_T1_ATurnIsNotForgottenForAnother(t *testing.T) {
	for _, c := range []struct {
		event           mirror.Event
		frozen, pledged bool
		refused         bool
	}{
		{mirror.ReverseAsked, false, false, false},
		{mirror.RestoreAsked, false, false, false},
		{mirror.ReverseAsked, true, false, true},
		{mirror.RestoreAsked, true, false, true},
		{mirror.ReverseAsked, false, true, true},
		{mirror.RestoreAsked, false, true, false}, // the same side is asked for the next pledge
	} {
		err := MayTurn("t", c.event, c.frozen, c.pledged)
		if c.refused != (kafka.CodeOf(err) == kafka.ReassignmentInProgress) || !c.refused && err != nil {
			t.Errorf("%v, frozen %v, pledged %v: %v", c.event, c.frozen, c.pledged, err)
		}
	}
}
