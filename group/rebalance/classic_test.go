package rebalance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const partitions = 12

// harness is a group with clients that forget nothing: who waits, and what each was told.
type harness struct {
	t       *rapid.T
	g       *Classic
	now     time.Time
	ticket  Ticket
	ids     int
	waiting map[Ticket]string // tickets not yet answered, and what for
	pending []string          // ids handed out with MEMBER_ID_REQUIRED
	known   []string          // ids that have joined once
	// generations: of each generation, which partitions each member was told are its own.
	generations map[int32]map[int]string
	plans       map[Ticket]Sync
	joins       map[Ticket]JoinAnswer
	failStore   bool
}

func newHarness(t *rapid.T, limits Limits) *harness {
	return &harness{t: t, g: NewClassic(limits, start), now: start, waiting: map[Ticket]string{},
		generations: map[int32]map[int]string{}, plans: map[Ticket]Sync{}, joins: map[Ticket]JoinAnswer{}}
}

func (h *harness) take(what string) Ticket {
	h.ticket++
	h.waiting[h.ticket] = what
	return h.ticket
}

// settle does what the shell does with an Out.
func (h *harness) settle(out Out) {
	for {
		for _, a := range out.Answers {
			h.answer(a)
		}
		if !out.Store {
			break
		}
		if h.failStore {
			out = h.g.StoreFailed(kafka.CoordinatorNotAvailable, h.now)
		} else {
			h.checkSnapshot()
			out = h.g.Stored(h.now)
		}
	}
	h.check()
}

func (h *harness) answer(a Answer) {
	if _, ok := h.waiting[a.Ticket]; !ok {
		h.t.Fatalf("ticket %d was answered and nobody waits for it: %+v", a.Ticket, a)
	}
	delete(h.waiting, a.Ticket)
	if a.Join != nil {
		switch a.Join.Code {
		case kafka.MemberIDRequired:
			h.pending = append(h.pending, a.Join.MemberID)
		case kafka.None:
			h.known = append(h.known, a.Join.MemberID)
			h.joins[a.Ticket] = *a.Join
		}
		return
	}
	plan := h.plans[a.Ticket]
	delete(h.plans, a.Ticket)
	if a.Sync.Code != kafka.None {
		return
	}
	owners := h.generations[plan.Generation]
	if owners == nil {
		owners = map[int]string{}
		h.generations[plan.Generation] = owners
	}
	for p := range strings.FieldsSeq(string(a.Sync.Assignment)) {
		var n int
		if _, err := fmt.Sscan(p, &n); err != nil {
			h.t.Fatal(err)
		}
		me := plan.MemberID
		if m := h.g.members[me]; m != nil && m.InstanceID != nil {
			me = *m.InstanceID // it may come back under another id in the same generation
		}
		if owner, ok := owners[n]; ok && owner != me {
			h.t.Fatalf("generation %d: partition %d belongs to %s and to %s", plan.Generation, n, owner, me)
		}
		owners[n] = me
	}
}

// check is what must hold after every event.
func (h *harness) check() {
	g := h.g
	held := map[Ticket]string{}
	supported := map[string]int{}
	for _, m := range g.members {
		for _, t := range []Ticket{m.join, m.sync} {
			if _, ok := held[t]; ok && t != 0 {
				h.t.Fatalf("ticket %d is held twice", t)
			}
			if t != 0 {
				held[t] = m.ID
			}
		}
		if m.join != 0 && !m.joined || m.sync != 0 && !m.syncing {
			h.t.Fatalf("member %s has a caller waiting for nothing", m.ID)
		}
		for name := range names(m.Protocols) {
			supported[name]++
		}
		if m.watched() && m.deadline.IsZero() {
			h.t.Fatalf("member %s has no deadline", m.ID)
		}
	}
	for t, what := range h.waiting {
		if _, ok := held[t]; !ok {
			h.t.Fatalf("ticket %d (%s) is forgotten", t, what)
		}
	}
	if len(held) > len(h.waiting) {
		h.t.Fatalf("held %v, waiting %v", held, h.waiting)
	}
	if !maps.Equal(supported, g.supported) {
		h.t.Fatalf("counts %v, want %v", g.supported, supported)
	}
	if (g.state == Empty) != (len(g.members) == 0) && g.state != PreparingRebalance {
		h.t.Fatalf("%s with %d members", g.state, len(g.members))
	}
	if len(g.members) > 0 && g.members[g.leader] == nil {
		h.t.Fatalf("leader %q is no member", g.leader)
	}
	for instance, id := range g.statics {
		if m := g.members[id]; m == nil || m.InstanceID == nil || *m.InstanceID != instance {
			h.t.Fatalf("instance %s leads to %s", instance, id)
		}
	}
	if g.state == PreparingRebalance && g.joinBy.IsZero() {
		h.t.Fatal("a rebalance without an end")
	}
}

// checkSnapshot restores what is about to be stored and compares.
func (h *harness) checkSnapshot() {
	s := h.g.Snapshot()
	r := Restore(h.g.limits, s, h.now)
	if r.Generation() != h.g.Generation() || r.Protocol() != h.g.Protocol() || len(r.Members()) != len(s.Members) {
		h.t.Fatalf("restored %+v from %+v", r, s)
	}
}

var protocolSets = [][]Protocol{
	{{Name: "range", Metadata: []byte("r")}},
	{{Name: "range", Metadata: []byte("r")}, {Name: "sticky", Metadata: []byte("s")}},
	{{Name: "sticky", Metadata: []byte("s2")}, {Name: "range", Metadata: []byte("r2")}},
	{{Name: "sticky"}, {Name: "sticky"}},
}

func (h *harness) join(memberID string, instance *string) {
	h.ids++
	j := Join{MemberID: memberID, InstanceID: instance, NewID: fmt.Sprintf("m%d", h.ids),
		Session: time.Duration(rapid.IntRange(6, 30).Draw(h.t, "session")) * time.Second, Rebalance: 20 * time.Second,
		ProtocolType: "consumer", Protocols: rapid.SampledFrom(protocolSets).Draw(h.t, "protocols"),
		RequireID: rapid.Bool().Draw(h.t, "v4"), CanSkip: rapid.Bool().Draw(h.t, "v9")}
	j.Ticket = h.take("join of " + memberID)
	h.settle(h.g.Join(j, h.now))
}

// someID is an id of a member now or once, or one handed out, or nonsense.
func (h *harness) someID() string {
	ids := append(slices.Sorted(maps.Keys(h.g.members)), "nobody")
	if len(h.pending) > 0 {
		ids = append(ids, h.pending[len(h.pending)-1])
	}
	if len(h.known) > 0 {
		ids = append(ids, h.known[0], h.known[len(h.known)-1])
	}
	return rapid.SampledFrom(ids).Draw(h.t, "id")
}

func (h *harness) sync(id string) {
	s := Sync{MemberID: id, Generation: h.g.generation, Assignments: map[string][]byte{}}
	if rapid.IntRange(0, 9).Draw(h.t, "stale") == 0 {
		s.Generation--
	}
	members := h.g.Members()
	for p := range partitions {
		if len(members) > 0 {
			m := members[p%len(members)].ID
			s.Assignments[m] = fmt.Appendf(s.Assignments[m], "%d ", p)
		}
	}
	s.Ticket = h.take("sync of " + id)
	h.plans[s.Ticket] = s
	h.settle(h.g.Sync(s, h.now))
}

func (h *harness) step() {
	switch rapid.IntRange(0, 11).Draw(h.t, "event") {
	case 0, 1:
		h.join("", nil)
	case 2, 3:
		h.join(h.someID(), nil)
	case 4:
		instance := rapid.SampledFrom([]string{"i1", "i2"}).Draw(h.t, "instance")
		id := ""
		if rapid.Bool().Draw(h.t, "with id") {
			id = h.g.statics[instance]
		}
		h.join(id, &instance)
	case 5, 6, 7:
		if rapid.Bool().Draw(h.t, "leader") {
			h.sync(h.g.leader)
		} else {
			h.sync(h.someID())
		}
	case 8:
		h.g.Heartbeat(h.someID(), nil, h.g.generation, h.now)
		h.check()
	case 9:
		leavers := []Leaver{{MemberID: h.someID()}}
		if rapid.Bool().Draw(h.t, "two") {
			leavers = append(leavers, Leaver{MemberID: h.someID()})
		}
		codes, out := h.g.Leave(leavers, h.now)
		if len(codes) != len(leavers) {
			h.t.Fatal("a leaver without an answer")
		}
		h.settle(out)
	case 10:
		for _, t := range slices.Sorted(maps.Keys(h.waiting)) {
			h.g.Abandon(t)
			delete(h.waiting, t)
			delete(h.plans, t)
			break
		}
		h.check()
	case 11:
		h.failStore = rapid.IntRange(0, 4).Draw(h.t, "store fails") == 0
		h.tick()
		h.failStore = false
	}
}

// tick lets time pass to the next deadline.
func (h *harness) tick() bool {
	next := h.g.Next()
	if next.IsZero() {
		return false
	}
	if next.After(h.now) {
		h.now = next
	}
	generation := h.g.generation
	h.settle(h.g.Tick(h.now))
	if h.g.generation < generation {
		h.t.Fatal("the generation went back")
	}
	return true
}

// Random joins, leaves, syncs, lost connections and time-outs: each partition has one owner in a
// generation, no caller is forgotten, and without further requests the group comes to rest with everybody answered.
func TestC84_RandomGroupsKeepEveryCallerAndOneOwnerPerPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHarness(t, Limits{InitialDelay: time.Duration(rapid.IntRange(0, 3).Draw(t, "delay")) * time.Second,
			NewMemberTimeout: time.Minute, MaxSize: rapid.IntRange(1, 6).Draw(t, "max"), MaxPending: 3})
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			h.step()
			if n := len(h.g.members); n > h.g.limits.MaxSize+2 && h.g.state != PreparingRebalance {
				t.Fatalf("%d members, allowed are %d", n, h.g.limits.MaxSize)
			}
		}
		for n := 0; h.tick(); n++ {
			if n > 1000 {
				t.Fatalf("the group does not come to rest: %s, next %v", h.g.state, h.g.Next())
			}
		}
		if len(h.waiting) > 0 {
			t.Fatalf("never answered: %v", h.waiting)
		}
		if h.g.state != Empty || len(h.g.members) > 0 {
			t.Fatalf("silent members are kept: %s, %d", h.g.state, len(h.g.members))
		}
	})
}

// table drives a group by hand.
type table struct {
	t      *testing.T
	g      *Classic
	now    time.Time
	ticket Ticket
	joins  map[Ticket]*JoinAnswer
	syncs  map[Ticket]*SyncAnswer
}

func newTable(t *testing.T, limits Limits) *table {
	if limits.MaxSize == 0 {
		limits.MaxSize = 100
	}
	limits.NewMemberTimeout, limits.MaxPending = 5*time.Minute, 100
	return &table{t: t, g: NewClassic(limits, start), now: start, joins: map[Ticket]*JoinAnswer{}, syncs: map[Ticket]*SyncAnswer{}}
}

func (b *table) settle(out Out) {
	for {
		for _, a := range out.Answers {
			b.joins[a.Ticket], b.syncs[a.Ticket] = a.Join, a.Sync
		}
		if !out.Store {
			return
		}
		out = b.g.Stored(b.now)
	}
}

func (b *table) join(id, newID string, instance *string) Ticket {
	b.ticket++
	b.settle(b.g.Join(Join{Ticket: b.ticket, MemberID: id, NewID: newID, InstanceID: instance, Session: 10 * time.Second, Rebalance: time.Minute,
		ProtocolType: "consumer", Protocols: protocolSets[0], CanSkip: true}, b.now))
	return b.ticket
}

func (b *table) sync(id string, assignments map[string][]byte) Ticket {
	b.ticket++
	b.settle(b.g.Sync(Sync{Ticket: b.ticket, MemberID: id, Generation: b.g.generation, Assignments: assignments}, b.now))
	return b.ticket
}

func (b *table) after(d time.Duration) {
	b.now = b.now.Add(d)
	b.settle(b.g.Tick(b.now))
}

func (b *table) wantState(want State) {
	b.t.Helper()
	if b.g.state != want {
		b.t.Fatalf("state %s, want %s", b.g.state, want)
	}
}

func TestFirstRebalanceWaitsForMoreMembers(t *testing.T) {
	b := newTable(t, Limits{InitialDelay: 3 * time.Second})
	first := b.join("", "a", nil)
	b.after(2 * time.Second)
	second := b.join("", "b", nil)
	b.after(time.Second)
	if b.joins[first] != nil {
		t.Fatal("the delay was not stretched for a newcomer")
	}
	b.after(3 * time.Second)
	b.wantState(CompletingRebalance)
	if a := b.joins[first]; a == nil || a.Leader != "a" || len(a.Members) != 2 || a.Generation != 1 {
		t.Errorf("the leader hears %+v", a)
	}
	if a := b.joins[second]; a == nil || a.Leader != "a" || len(a.Members) != 0 {
		t.Errorf("the other hears %+v", a)
	}
}

func TestMembersThatDoNotRejoinAreDropped(t *testing.T) {
	b := newTable(t, Limits{})
	b.join("", "a", nil)
	b.sync("a", map[string][]byte{"a": []byte("all")})
	b.wantState(Stable)
	late := b.join("", "b", nil)
	b.wantState(PreparingRebalance)
	for range 11 {
		if code := b.g.Heartbeat("a", nil, 1, b.now); code != kafka.RebalanceInProgress {
			t.Fatalf("heartbeat: %v", code)
		}
		b.after(5 * time.Second)
	}
	b.after(5 * time.Second)
	b.wantState(CompletingRebalance)
	if a := b.joins[late]; a == nil || a.Leader != "b" || a.Generation != 2 {
		t.Errorf("b hears %+v", a)
	}
	if code := b.g.Heartbeat("a", nil, 1, b.now); code != kafka.UnknownMemberID {
		t.Errorf("heartbeat of a: %v", code)
	}
}

func TestMembersThatDoNotSyncAreDropped(t *testing.T) {
	b := newTable(t, Limits{InitialDelay: time.Second})
	b.join("", "a", nil)
	b.join("", "b", nil)
	b.after(time.Second)
	b.after(time.Second)
	b.wantState(CompletingRebalance)
	b.sync("a", map[string][]byte{"a": []byte("x"), "b": []byte("y")})
	b.wantState(Stable)
	for range 12 {
		b.g.Heartbeat("a", nil, 1, b.now)
		b.g.Heartbeat("b", nil, 1, b.now)
		b.after(5 * time.Second)
	}
	b.wantState(PreparingRebalance)
	if b.g.members["b"] != nil || b.g.members["a"] == nil {
		t.Errorf("members are %v", b.g.Members())
	}
}

func TestC91_StaticMembersOutliveARebalanceTheyMiss(t *testing.T) {
	b := newTable(t, Limits{})
	one, two := "one", "two"
	b.join("", "a", &one)
	b.sync("a", map[string][]byte{"a": []byte("x")})
	joined := b.join("", "b", &two)
	b.wantState(PreparingRebalance)
	again := b.join("", "a2", &one) // restarted under the same instance id
	b.wantState(CompletingRebalance)
	if b.joins[joined] == nil || b.joins[again] == nil || b.joins[again].MemberID != "a2" {
		t.Fatalf("answers %+v, %+v", b.joins[joined], b.joins[again])
	}
	if code := b.g.Heartbeat("a", &one, 2, b.now); code != kafka.FencedInstanceID {
		t.Errorf("heartbeat of the old id: %v", code)
	}
	codes, out := b.g.Leave([]Leaver{{InstanceID: &two}, {InstanceID: &two}, {MemberID: "a", InstanceID: &one}}, b.now)
	b.settle(out)
	if want := []kafka.ErrorCode{kafka.None, kafka.UnknownMemberID, kafka.FencedInstanceID}; !slices.Equal(codes, want) {
		t.Errorf("leave: %v, want %v", codes, want)
	}
}

func TestGroupIsFull(t *testing.T) {
	b := newTable(t, Limits{MaxSize: 1})
	b.join("", "a", nil)
	b.sync("a", nil)
	if a := b.joins[b.join("", "b", nil)]; a == nil || a.Code != kafka.GroupMaxSizeReached {
		t.Errorf("answered %+v", a)
	}
	b.wantState(Stable)
}

func TestCommitRules(t *testing.T) {
	b := newTable(t, Limits{})
	one := "one"
	check := func(what string, got, want kafka.ErrorCode) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("simple consumer, empty group", b.g.Commit("", nil, -1, false, b.now), kafka.None)
	b.join("", "a", nil)
	check("while completing", b.g.Commit("a", nil, 1, false, b.now), kafka.RebalanceInProgress)
	check("in a transaction, while completing", b.g.Commit("a", nil, 1, true, b.now), kafka.None)
	b.sync("a", nil)
	check("member", b.g.Commit("a", nil, 1, false, b.now), kafka.None)
	check("old generation", b.g.Commit("a", nil, 0, false, b.now), kafka.IllegalGeneration)
	check("stranger", b.g.Commit("b", nil, 1, false, b.now), kafka.UnknownMemberID)
	check("unknown instance", b.g.Commit("a", &one, 1, false, b.now), kafka.UnknownMemberID)
	check("simple consumer, group with members", b.g.Commit("", nil, -1, false, b.now), kafka.UnknownMemberID)
	check("transaction without a member", b.g.Commit("", nil, -1, true, b.now), kafka.None)
}
