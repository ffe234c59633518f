package rebalance

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"pgregory.net/rapid"
)

// life is clients of a group to which things happen at random.
type life struct {
	*clients
	r   *rapid.T
	ids int
}

func (l *life) topicsWanted() []string {
	return rapid.SampledFrom([][]string{{"t0"}, {"t0", "t1"}, {"t1", "t2"}, {}}).Draw(l.r, "subscribed")
}

// instanceID is one for every fourth member.
func (l *life) instanceID() *string {
	if rapid.IntRange(0, 3).Draw(l.r, "static") > 0 {
		return nil
	}
	return new(rapid.SampledFrom([]string{"i1", "i2"}).Draw(l.r, "instance"))
}

func (l *life) someone() string {
	list := slices.Sorted(maps.Keys(l.owned))
	if len(list) == 0 {
		return "nobody"
	}
	return rapid.SampledFrom(list).Draw(l.r, "who")
}

func (l *life) step() {
	switch rapid.IntRange(0, 11).Draw(l.r, "event") {
	case 0, 1:
		l.comes()
	case 2, 3, 4, 5:
		l.beat(l.someone())
	case 6: // a lost answer: the client stays where it was
		if id := l.someone(); l.old[id] == nil {
			owned := l.owned[id]
			l.unsure[id] = true
			l.send(Beat{MemberID: id, Epoch: l.epochs[id], Rebalance: -1, Owned: &owned})
		}
	case 7:
		l.goes(l.someone())
	case 8:
		name := rapid.SampledFrom([]string{"t0", "t1", "t2"}).Draw(l.r, "topic")
		if n := int32(rapid.IntRange(0, 8).Draw(l.r, "to")); n == 0 {
			delete(l.topics.topics, name)
			l.topics.revision++
		} else {
			l.topics.set(name, max(n, l.topics.topics[name]))
		}
	case 9:
		l.now = l.now.Add(time.Duration(rapid.IntRange(1, 50).Draw(l.r, "seconds")) * time.Second)
		l.store(l.g.Tick(l.now))
		l.check()
	case 10: // a restart: only what was stored is there
		again := NewConsumer(l.g.limits)
		for _, change := range l.changes {
			again.Apply(change)
		}
		again.Wake(l.now)
		l.g = again
		l.check()
	case 11:
		l.ids++
		l.oldJoin(fmt.Sprint("c", l.ids), &oldClient{eager: rapid.Bool().Draw(l.r, "eager"), topics: l.topicsWanted(), instance: l.instanceID()})
	}
}

func (l *life) comes() {
	l.ids++
	b := Beat{MemberID: fmt.Sprint("m", l.ids), Topics: l.topicsWanted()}
	if rapid.Bool().Draw(l.r, "regex") {
		b.Topics, b.Regex = nil, new("t")
	}
	b.InstanceID = l.instanceID()
	l.joinWith(b)
}

func (l *life) goes(id string) {
	m := l.g.members[id]
	if m == nil {
		return
	}
	if l.old[id] != nil {
		_, changes := l.g.LeaveClassic([]Leaver{{MemberID: id}})
		l.store(changes)
		l.check()
	} else {
		b := Beat{MemberID: id, InstanceID: m.InstanceID, Epoch: EpochLeave}
		if m.InstanceID != nil && rapid.Bool().Draw(l.r, "for a while") {
			b.Epoch = EpochLeaveStatic
		}
		l.send(b)
	}
	delete(l.owned, id)
}

// rest lets time pass until those that are away for ever are out, and the others have settled.
func (l *life) rest() {
	for id := range l.owned {
		if l.g.members[id] == nil {
			delete(l.owned, id)
		}
	}
	for next := l.g.Next(); !next.IsZero() && len(l.owned) < len(l.g.members); next = l.g.Next() {
		l.now = next
		l.settleLoose()
		l.store(l.g.Tick(l.now))
	}
	l.now = l.now.Add(regexEvery)
	l.settle()
	l.settle()
}

// Random members of both protocols that come, go, fall silent, forget to give up, change their minds; topics that come, grow
// and go; restarts. No partition is ever with two, and the group comes to rest with all partitions shared out.
func TestKIP848_RandomGroupsNeverShareAPartition(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := &life{clients: newClients(r, map[string]int32{"t0": 5, "t1": 1}), r: r}
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			l.step()
		}
		l.rest()
	})
}

// settleLoose lets the clients that are there send one heartbeat each.
func (c *clients) settleLoose() {
	for _, id := range slices.Sorted(maps.Keys(c.owned)) {
		if c.beat(id).Code != kafka.None {
			delete(c.owned, id)
		}
	}
}
