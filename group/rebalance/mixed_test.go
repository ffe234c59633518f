package rebalance

import (
	"slices"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// oldClient is a client of the classic protocol: an eager one gives up everything before it joins again, a
// cooperative one keeps what it has and gives up what it is no longer assigned.
type oldClient struct {
	eager      bool
	topics     []string
	instance   *string
	generation int32
	unsynced   bool
}

func (c *clients) oldJoin(id string, old *oldClient) kafka.ErrorCode {
	c.old[id] = old
	j := ClassicJoin{Topics: old.topics, Owned: c.owned[id], Join: Join{MemberID: id, NewID: id, InstanceID: old.instance,
		Session: 30 * time.Second, Rebalance: time.Minute, ProtocolType: "consumer", Protocols: []Protocol{{Name: "range", Metadata: []byte("m")}}}}
	if c.g.members[id] == nil {
		j.Owned = nil
		if old.instance != nil {
			j.MemberID = ""
		}
	}
	if old.eager {
		c.owned[id], j.Owned = nil, nil
	}
	changes, answer := c.g.JoinClassic(j, c.topics, c.now)
	if answer.Code == kafka.None {
		c.store(changes)
		c.g.Joined(answer.MemberID, c.now)
		old.generation, old.unsynced = answer.Generation, true
		if _, ok := c.owned[id]; !ok {
			c.owned[id] = nil
		}
	} else {
		delete(c.owned, id)
	}
	c.check()
	return answer.Code
}

// oldBeat is what a classic client does next: hear its assignment, or send a heartbeat and join again if it is told to.
func (c *clients) oldBeat(id string, old *oldClient) kafka.ErrorCode {
	if old.unsynced {
		assigned, code := c.g.SyncClassic(Sync{MemberID: id, InstanceID: old.instance, Generation: old.generation}, c.now)
		switch code {
		case kafka.None:
			c.owned[id], old.unsynced = assigned, false
			c.check()
			return code
		case kafka.RebalanceInProgress:
			return c.oldJoin(id, old)
		}
		return c.oldLost(id, old, code)
	}
	switch code := c.g.HeartbeatClassic(id, old.instance, old.generation, c.now); code {
	case kafka.RebalanceInProgress:
		return c.oldJoin(id, old)
	case kafka.None:
		return code
	default:
		return c.oldLost(id, old, code)
	}
}

func (c *clients) oldLost(id string, old *oldClient, code kafka.ErrorCode) kafka.ErrorCode {
	c.owned[id] = nil
	if code == kafka.IllegalGeneration {
		return c.oldJoin(id, old)
	}
	return code
}

func TestMixedGroupSharesPartitionsBetweenProtocols(t *testing.T) {
	for _, eager := range []bool{true, false} {
		c := newClients(t, map[string]int32{"t": 6})
		c.join("a", nil, "t")
		if code := c.oldJoin("c", &oldClient{eager: eager, topics: []string{"t"}}); code != kafka.None {
			t.Fatalf("join: %v", code)
		}
		c.settle()
		if got := c.counts(); !slices.Equal(got, []int{3, 3}) {
			t.Errorf("partitions %v", got)
		}
		if c.g.AllClassic() {
			t.Error("one is not classic")
		}
		c.store(c.g.Remove("a"))
		delete(c.owned, "a")
		if !c.g.AllClassic() {
			t.Error("all are classic")
		}
		s := c.g.Downgrade(func(*ConsumerMember) []byte { return []byte("a") }, c.now)
		if s.Generation != c.g.target || s.Protocol != "range" || s.Leader != "c" || len(s.Members) != 1 || s.Members[0].Session != 30*time.Second {
			t.Errorf("downgraded to %+v", s)
		}
	}
}

func TestMixedGroupTimesOutClassicMembers(t *testing.T) {
	c := newClients(t, map[string]int32{"t": 6})
	c.oldJoin("c", &oldClient{topics: []string{"t"}})
	c.settle()
	c.join("a", nil, "t")
	for range 13 { // it sends heartbeats, and does not join as it is told
		if code := c.g.HeartbeatClassic("c", nil, c.old["c"].generation, c.now); code != kafka.RebalanceInProgress {
			t.Fatalf("heartbeat: %v", code)
		}
		c.now = c.now.Add(5 * time.Second)
		c.beat("a")
		c.store(c.g.Tick(c.now))
		if c.g.members["c"] == nil {
			break
		}
	}
	if c.g.members["c"] != nil {
		t.Error("it holds the group up for ever")
	}
	for _, code := range []kafka.ErrorCode{c.g.HeartbeatClassic("c", nil, 1, c.now), c.g.HeartbeatClassic("a", nil, c.epochs["a"], c.now)} {
		if code != kafka.UnknownMemberID {
			t.Errorf("heartbeat: %v", code)
		}
	}
}

func TestUpgradeKeepsMembersAndPartitions(t *testing.T) {
	g := NewConsumer(ConsumerLimits{Session: 45 * time.Second, MaxSize: 10})
	topic := topicID("t")
	for _, change := range Upgrade(7, []Upgraded{
		{ID: "a", Subscription: Subscription{Topics: []string{"t"}, Classic: &ClassicMember{Session: time.Minute, Protocols: protocolSets[0]}}, Assigned: Assignment{topic: {0, 1}}},
		{ID: "b", Subscription: Subscription{Topics: []string{"t"}, Classic: &ClassicMember{Session: time.Minute, Protocols: protocolSets[0]}}, Assigned: Assignment{topic: {2}}},
	}) {
		g.Apply(change)
	}
	g.Wake(start)
	if g.State() != ConsumerStable || g.Epoch() != 7 || !g.AllClassic() {
		t.Errorf("%s at %d", g.State(), g.Epoch())
	}
	if code := g.HeartbeatClassic("a", nil, 7, start); code != kafka.None {
		t.Errorf("heartbeat: %v", code)
	}
}
