package rebalance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"pgregory.net/rapid"
)

// catalog is topics in memory.
type catalog struct {
	revision int64
	topics   map[string]int32
}

func topicID(name string) kafka.TopicID {
	var id kafka.TopicID
	copy(id[:], name)
	return id
}

func (c *catalog) Revision() int64 { return c.revision }
func (c *catalog) Topic(name string) (kafka.TopicID, int32, bool) {
	n, ok := c.topics[name]
	return topicID(name), n, ok
}
func (c *catalog) set(name string, n int32) { c.topics[name] = n; c.revision++ }

// prefixed is a stand-in for regular expressions: names with the prefix.
func (c *catalog) prefixed(prefix string) ([]string, error) {
	if prefix == "(" {
		return nil, errors.New("missing closing )")
	}
	var names []string
	for name := range c.topics {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

// clients is a consumer group and its clients, which do as they are told.
type clients struct {
	t       failer
	g       *Consumer
	topics  *catalog
	now     time.Time
	epochs  map[string]int32
	owned   map[string]Assignment
	old     map[string]*oldClient // those that speak the classic protocol
	unsure  map[string]bool       // clients that missed an answer: their next heartbeat says everything
	changes []Change              // all that was ever stored
}

// failer is what rapid's T and testing's have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newClients(t failer, topics map[string]int32) *clients {
	return &clients{t: t, g: NewConsumer(ConsumerLimits{Session: 45 * time.Second, MaxSize: 1000}), topics: &catalog{topics: topics, revision: 1}, now: start,
		epochs: map[string]int32{}, owned: map[string]Assignment{}, unsure: map[string]bool{}, old: map[string]*oldClient{}}
}

func (c *clients) store(changes []Change) {
	for _, change := range changes {
		c.g.Apply(change)
	}
	c.changes = append(c.changes, changes...)
}

func (c *clients) send(b Beat) BeatAnswer {
	b.Resolve = c.topics.prefixed
	changes, answer := c.g.Beat(b, c.topics, c.now)
	if answer.Code == kafka.None {
		c.store(changes)
		if b.Epoch >= 0 {
			c.g.Heard(b.MemberID, c.now)
		}
	}
	c.check()
	return answer
}

// join is a client's first heartbeat.
func (c *clients) join(id string, instance *string, topics ...string) BeatAnswer {
	if topics == nil {
		topics = []string{}
	}
	return c.joinWith(Beat{MemberID: id, InstanceID: instance, Topics: topics})
}

func (c *clients) joinWith(b Beat) BeatAnswer {
	b.Rebalance, b.Owned = time.Minute, &Assignment{}
	answer := c.send(b)
	if answer.Code == kafka.None {
		c.epochs[b.MemberID], c.owned[b.MemberID] = answer.Epoch, *answer.Assignment
	}
	return answer
}

// beat sends what the client owns, and takes what it is given; what it loses it has given up by its next heartbeat.
func (c *clients) beat(id string) BeatAnswer {
	if old := c.old[id]; old != nil {
		return BeatAnswer{Code: c.oldBeat(id, old)}
	}
	owned := c.owned[id]
	b := Beat{MemberID: id, Epoch: c.epochs[id], Rebalance: -1, Owned: &owned}
	if m := c.g.members[id]; m != nil && c.unsure[id] {
		b.Rebalance, b.Topics, b.Regex = time.Minute, m.Topics, &m.Regex
		delete(c.unsure, id)
	}
	answer := c.send(b)
	switch m := c.g.members[id]; {
	case answer.Code == kafka.None:
		c.epochs[id] = answer.Epoch
		if answer.Assignment != nil {
			c.owned[id] = *answer.Assignment
		}
	case answer.Code == kafka.FencedMemberEpoch && m != nil: // it abandons everything and begins anew
		c.owned[id] = nil
		return c.joinWith(Beat{MemberID: id, InstanceID: m.InstanceID, Topics: m.Topics, Regex: &m.Regex})
	}
	return answer
}

// check is what must hold at any moment: nobody is told to own what another may still own.
func (c *clients) check() {
	c.t.Helper()
	owner := map[string]string{}
	for _, m := range c.g.Members() {
		for _, a := range []Assignment{m.Assigned, m.Revoking} {
			for topic, list := range a {
				for _, p := range list {
					key := fmt.Sprint(topic, p)
					if other, ok := owner[key]; ok {
						c.t.Fatalf("partition %d of %q is %s's and %s's", p, strings.TrimRight(string(topic[:]), "\x00"), other, m.ID)
					}
					owner[key] = m.ID
				}
			}
		}
		if m.State != MemberUnrevoked && len(m.Revoking) > 0 {
			c.t.Fatalf("member %s has to give up in state %d", m.ID, m.State)
		}
	}
	held := 0
	for _, list := range c.g.owners {
		held += len(list)
	}
	if held != len(owner) {
		c.t.Fatalf("%d partitions have owners, the members have %d", held, len(owner))
	}
	c.noneTwice()
}

// noneTwice looks at what the clients themselves believe.
func (c *clients) noneTwice() {
	c.t.Helper()
	owner := map[string]string{}
	for id, a := range c.owned {
		if c.g.members[id] == nil {
			continue // fenced: it hears so with its next heartbeat
		}
		for topic, list := range a {
			for _, p := range list {
				key := fmt.Sprint(topic, p)
				if other, ok := owner[key]; ok {
					c.t.Fatalf("clients %s and %s both read partition %d", other, id, p)
				}
				owner[key] = id
			}
		}
	}
}

// settle lets all clients send heartbeats until the group is stable.
func (c *clients) settle() {
	c.t.Helper()
	for range 20 {
		for _, id := range slices.Sorted(maps.Keys(c.owned)) {
			if answer := c.beat(id); answer.Code != kafka.None {
				delete(c.owned, id)
			}
		}
		unsynced := false
		for id, old := range c.old {
			_, here := c.owned[id]
			unsynced = unsynced || here && old.unsynced
		}
		if s := c.g.State(); !unsynced && (s == ConsumerStable || s == ConsumerEmpty) {
			return
		}
	}
	text := ""
	for _, m := range c.g.Members() {
		text += fmt.Sprintf("\n%s: %+v, client at %d with %v", m.ID, m.Current, c.epochs[m.ID], c.owned[m.ID])
	}
	c.t.Fatalf("the group is %s after many heartbeats: epoch %d, target %d%s", c.g.State(), c.g.epoch, c.g.target, text)
}

func (c *clients) counts() []int {
	var list []int
	for _, id := range slices.Sorted(maps.Keys(c.owned)) {
		n := 0
		for _, parts := range c.owned[id] {
			n += len(parts)
		}
		list = append(list, n)
	}
	return list
}

func TestKIP848_PartitionsMoveOnlyAfterTheyAreGivenUp(t *testing.T) {
	c := newClients(t, map[string]int32{"t": 6})
	if a := c.join("a", nil, "t"); a.Epoch != 1 || len((*a.Assignment)[topicID("t")]) != 6 {
		t.Fatalf("first member: %+v", a)
	}
	if a := c.join("b", nil, "t"); a.Epoch != 2 || len(*a.Assignment) != 0 {
		t.Fatalf("second member is given what the first still has: %+v", a)
	}
	if s := c.g.State(); s != ConsumerReconciling {
		t.Errorf("state %s", s)
	}
	a := c.beat("a")
	if a.Epoch != 1 || len((*a.Assignment)[topicID("t")]) != 3 {
		t.Fatalf("first member is asked to give up: %+v", a)
	}
	if b := c.beat("b"); b.Assignment != nil {
		t.Errorf("second member gets them before they are given up: %+v", b)
	}
	if a := c.beat("a"); a.Epoch != 2 {
		t.Errorf("first member has given up: %+v", a)
	}
	if b := c.beat("b"); b.Assignment == nil || len((*b.Assignment)[topicID("t")]) != 3 {
		t.Errorf("second member gets them: %+v", b)
	}
	if s := c.g.State(); s != ConsumerStable {
		t.Errorf("state %s", s)
	}
	if b := c.beat("b"); b.Assignment != nil {
		t.Errorf("nothing has changed, and the assignment is sent: %+v", b)
	}
}

func TestKIP848_MemberThatDoesNotGiveUpIsFenced(t *testing.T) {
	c := newClients(t, map[string]int32{"t": 2})
	c.join("a", nil, "t")
	c.join("b", nil, "t")
	c.beat("a")
	for range 12 {
		c.now = c.now.Add(5 * time.Second)
		owned := Assignment{topicID("t"): {0, 1}}
		c.send(Beat{MemberID: "a", Epoch: 1, Rebalance: -1, Owned: &owned})
		c.beat("b")
		c.store(c.g.Tick(c.now))
	}
	if c.g.members["a"] != nil {
		t.Fatal("it is still a member after the rebalance time-out")
	}
	if a := c.beat("a"); a.Code != kafka.UnknownMemberID {
		t.Errorf("its heartbeat: %v", a.Code)
	}
	delete(c.owned, "a")
	c.settle()
	if got := c.counts(); !slices.Equal(got, []int{2}) {
		t.Errorf("partitions %v", got)
	}
}

func TestKIP848_SilentMemberLosesItsPartitions(t *testing.T) {
	c := newClients(t, map[string]int32{"t": 4})
	c.join("a", nil, "t")
	c.join("b", nil, "t")
	c.settle()
	c.now = c.now.Add(30 * time.Second)
	c.beat("a")
	c.now = c.now.Add(15 * time.Second)
	if next := c.g.Next(); next.After(c.now) {
		t.Fatalf("nothing is due before %v", next)
	}
	c.store(c.g.Tick(c.now))
	delete(c.owned, "b")
	c.settle()
	if got := c.counts(); !slices.Equal(got, []int{4}) {
		t.Errorf("partitions %v", got)
	}
}

func TestKIP848_StaticMemberKeepsItsPartitions(t *testing.T) {
	c := newClients(t, map[string]int32{"t": 4})
	one, two := "one", "two"
	c.join("a", &one, "t")
	c.join("b", &two, "t")
	c.settle()
	had, epoch := c.owned["a"], c.g.epoch
	if a := c.join("a2", &one, "t"); a.Code != kafka.UnreleasedInstanceID {
		t.Errorf("join beside the living one: %v", a.Code)
	}
	if a := c.send(Beat{MemberID: "a", InstanceID: &one, Epoch: EpochLeaveStatic}); a.Epoch != EpochLeaveStatic {
		t.Errorf("leave: %+v", a)
	}
	delete(c.owned, "a")
	c.beat("b")
	a := c.join("a2", &one, "t")
	if a.Code != kafka.None || !a.Assignment.Equal(had) || c.g.epoch != epoch {
		t.Errorf("came back to %+v, had %v; epoch %d, was %d", a, had, c.g.epoch, epoch)
	}
	if a := c.send(Beat{MemberID: "a", InstanceID: &one, Epoch: 2, Rebalance: -1}); a.Code != kafka.FencedInstanceID {
		t.Errorf("heartbeat of the old one: %v", a.Code)
	}
	c.send(Beat{MemberID: "a2", InstanceID: &one, Epoch: EpochLeave})
	delete(c.owned, "a2")
	c.settle()
	if got := c.counts(); !slices.Equal(got, []int{4}) {
		t.Errorf("partitions %v", got)
	}
}

func TestKIP848_EpochsFence(t *testing.T) {
	c := newClients(t, map[string]int32{"t": 4})
	c.join("a", nil, "t")
	c.join("b", nil, "t")
	c.settle()
	epoch := c.epochs["a"]
	for _, try := range []struct {
		what string
		b    Beat
		want kafka.ErrorCode
	}{
		{"higher", Beat{MemberID: "a", Epoch: epoch + 1, Rebalance: -1}, kafka.FencedMemberEpoch},
		{"previous without partitions", Beat{MemberID: "a", Epoch: epoch - 1, Rebalance: -1}, kafka.FencedMemberEpoch},
		{"previous with its partitions", Beat{MemberID: "a", Epoch: epoch - 1, Rebalance: -1, Owned: &Assignment{}}, kafka.None},
		{"unknown", Beat{MemberID: "x", Epoch: epoch, Rebalance: -1}, kafka.UnknownMemberID},
		{"bad expression", Beat{MemberID: "a", Epoch: epoch, Rebalance: -1, Regex: new("(")}, kafka.InvalidRegularExpression},
	} {
		if got := c.send(try.b); got.Code != try.want {
			t.Errorf("%s: %v, want %v", try.what, got.Code, try.want)
		}
	}
}

func TestKIP848_TopicsThatComeAndGrowAreTakenUp(t *testing.T) {
	c := newClients(t, map[string]int32{"t-1": 2, "other": 9})
	c.joinWith(Beat{MemberID: "a", Regex: new("t-")})
	c.join("b", nil, "t-1", "t-2")
	c.settle()
	if got := c.counts(); !slices.Equal(got, []int{1, 1}) {
		t.Errorf("partitions %v", got)
	}
	c.topics.set("t-2", 4)
	c.now = c.now.Add(regexEvery)
	c.settle()
	c.settle()
	if got := c.counts(); !slices.Equal(got, []int{3, 3}) {
		t.Errorf("partitions after a topic came: %v", got)
	}
	c.topics.set("t-1", 6)
	c.settle()
	c.settle()
	if got := c.counts(); !slices.Equal(got, []int{5, 5}) {
		t.Errorf("partitions after a topic grew: %v", got)
	}
	if !c.g.Subscribed("t-2") || c.g.Subscribed("other") {
		t.Error("subscribed to the wrong topics")
	}
}

func TestRangeAssignsNeighboursTogether(t *testing.T) {
	c := newClients(t, map[string]int32{"t": 5, "u": 5})
	for _, id := range []string{"a", "b"} {
		c.joinWith(Beat{MemberID: id, Topics: []string{"t", "u"}, Assignor: new(Range)})
	}
	c.settle()
	for id, want := range map[string][]int32{"a": {0, 1, 2}, "b": {3, 4}} {
		for _, topic := range []string{"t", "u"} {
			if got := c.owned[id][topicID(topic)]; !slices.Equal(got, want) {
				t.Errorf("%s has %v of %s, want %v", id, got, topic, want)
			}
		}
	}
}

func TestUniformIsEvenAndSticky(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := map[kafka.TopicID]int32{}
		for i := range rapid.IntRange(1, 5).Draw(t, "topics") {
			counts[topicID(fmt.Sprint("t", i))] = int32(rapid.IntRange(0, 20).Draw(t, "partitions"))
		}
		all := slices.Collect(maps.Keys(counts))
		members := rapid.IntRange(1, 8).Draw(t, "members")
		make := func(n int) (list []wish) {
			for i := range n {
				list = append(list, wish{member: fmt.Sprint("m", i), order: fmt.Sprint("m", i), topics: all})
			}
			return list
		}
		before := assign(Uniform, make(members), counts, nil)
		even(t, before, counts)
		same := assign(Uniform, make(members), counts, before)
		for id := range before {
			if !before[id].Equal(same[id]) {
				t.Fatalf("nothing changed, and %s has %v instead of %v", id, same[id], before[id])
			}
		}
		after := assign(Uniform, make(members+1), counts, before)
		even(t, after, counts)
		newcomer := 0
		for _, list := range after[fmt.Sprint("m", members)] {
			newcomer += len(list)
		}
		if moved := movedFrom(before, after); moved != newcomer {
			t.Fatalf("%d partitions moved for a newcomer with %d", moved, newcomer)
		}
	})
}

func even(t *rapid.T, plan map[string]Assignment, counts map[kafka.TopicID]int32) {
	low, high, total := 1<<30, 0, 0
	seen := map[string]bool{}
	for _, a := range plan {
		n := 0
		for topic, list := range a {
			for _, p := range list {
				key := fmt.Sprint(topic, p)
				if seen[key] {
					t.Fatalf("partition %d is given twice", p)
				}
				seen[key] = true
				n++
			}
		}
		low, high, total = min(low, n), max(high, n), total+n
	}
	want := 0
	for _, n := range counts {
		want += int(n)
	}
	if high-low > 1 || total != want {
		t.Fatalf("from %d to %d partitions, %d of %d", low, high, total, want)
	}
}

func movedFrom(before, after map[string]Assignment) int {
	moved := 0
	for id, a := range before {
		for topic, list := range a {
			for _, p := range list {
				if !after[id].has(topic, p) {
					moved++
				}
			}
		}
	}
	return moved
}
