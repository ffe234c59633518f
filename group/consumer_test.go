package group

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumer is a client of the consumer protocol.
type consumer struct {
	b         *broker
	group, id string
	instance  *string
	epoch     int32
	owned     []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic
}

func (m *consumer) request() *kmsg.ConsumerGroupHeartbeatRequest {
	rq := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	rq.Version, rq.Group, rq.MemberID, rq.InstanceID, rq.MemberEpoch, rq.RebalanceTimeoutMillis = 1, m.group, m.id, m.instance, m.epoch, -1
	return rq
}

func (m *consumer) send(t *testing.T, rq *kmsg.ConsumerGroupHeartbeatRequest) kafka.ErrorCode {
	t.Helper()
	resp := m.b.ConsumerGroupHeartbeat(t.Context(), someone, rq)
	if resp.ErrorCode == 0 {
		m.epoch = resp.MemberEpoch
		if resp.Assignment != nil {
			m.owned = resp.Assignment.Topics
		}
	}
	return kafka.ErrorCode(resp.ErrorCode)
}

func (m *consumer) join(t *testing.T, topics ...string) kafka.ErrorCode {
	t.Helper()
	m.epoch, m.owned = 0, nil
	rq := m.request()
	rq.RebalanceTimeoutMillis, rq.SubscribedTopicNames, rq.Topics = 60_000, topics, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return m.send(t, rq)
}

func (m *consumer) beat(t *testing.T) kafka.ErrorCode {
	t.Helper()
	rq := m.request()
	rq.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, owned := range m.owned {
		rq.Topics = append(rq.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: owned.TopicID, Partitions: owned.Partitions})
	}
	return m.send(t, rq)
}

func (m *consumer) leave(t *testing.T) {
	t.Helper()
	rq := m.request()
	rq.MemberEpoch = rebalance.EpochLeave
	if code := m.send(t, rq); code != kafka.None {
		t.Fatalf("leave: %v", code)
	}
}

func (m *consumer) partitions() (n int) {
	for _, t := range m.owned {
		n += len(t.Partitions)
	}
	return n
}

func (m *consumer) commit(t *testing.T, version int16, epoch int32) kafka.ErrorCode {
	t.Helper()
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Version, rq.Group, rq.Generation, rq.MemberID = version, m.group, epoch, m.id
	rq.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 9}}}}
	return kafka.ErrorCode(m.b.OffsetCommit(t.Context(), someone, rq).Topics[0].Partitions[0].ErrorCode)
}

func (b *broker) describeConsumer(t *testing.T, group string) kmsg.ConsumerGroupDescribeResponseGroup {
	t.Helper()
	rq := kmsg.NewPtrConsumerGroupDescribeRequest()
	rq.Groups = []string{group}
	return b.ConsumerGroupDescribe(t.Context(), rq).Groups[0]
}

func need(t *testing.T, what string, got, want kafka.ErrorCode) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func TestKIP848_MembersShareTopicsAndSurviveARestart(t *testing.T) {
	b := newBroker(t, "t", "u")
	one, two := &consumer{b: b, group: "g", id: "m1"}, &consumer{b: b, group: "g", id: "m2"}
	need(t, "join", one.join(t, "t", "u"), kafka.None)
	need(t, "join", two.join(t, "t", "u"), kafka.None)
	for range 3 {
		need(t, "heartbeat", one.beat(t), kafka.None)
		need(t, "heartbeat", two.beat(t), kafka.None)
	}
	if one.partitions() != 4 || two.partitions() != 4 || one.epoch != two.epoch {
		t.Fatalf("%d partitions at epoch %d, %d at %d", one.partitions(), one.epoch, two.partitions(), two.epoch)
	}
	before := b.describeConsumer(t, "g")
	if before.State != "Stable" || before.AssignorName != rebalance.Uniform || len(before.Members) != 2 || before.Members[0].Assignment.TopicPartitions[0].Topic == "" {
		t.Errorf("described as %+v", before)
	}
	b.restart(t)
	after := b.describeConsumer(t, "g")
	if after.State != "Stable" || after.Epoch != before.Epoch || after.AssignmentEpoch != before.AssignmentEpoch || len(after.Members) != 2 {
		t.Errorf("after a restart %+v, before %+v", after, before)
	}
	epoch := one.epoch
	need(t, "heartbeat after a restart", one.beat(t), kafka.None)
	if one.epoch != epoch {
		t.Errorf("a restart moved the member from epoch %d to %d", epoch, one.epoch)
	}
	two.leave(t)
	need(t, "heartbeat", one.beat(t), kafka.None)
	if one.partitions() != 8 {
		t.Errorf("%d partitions after the other left", one.partitions())
	}
}

func TestKIP848_CommitsAreCheckedAgainstTheEpoch(t *testing.T) {
	b := newBroker(t, "t")
	m := &consumer{b: b, group: "g", id: "m1"}
	need(t, "join", m.join(t, "t"), kafka.None)
	need(t, "commit", m.commit(t, 9, m.epoch), kafka.None)
	need(t, "old client", m.commit(t, 8, m.epoch), kafka.UnsupportedVersion)
	need(t, "stale", m.commit(t, 9, m.epoch+1), kafka.StaleMemberEpoch)
	need(t, "stale, old client", m.commit(t, 8, m.epoch+1), kafka.UnsupportedVersion)
	need(t, "stranger", (&consumer{b: b, group: "g", id: "x"}).commit(t, 9, 1), kafka.UnknownMemberID)
	fetch := func(epoch int32) kafka.ErrorCode {
		rq := kmsg.NewPtrOffsetFetchRequest()
		rq.Version = 9
		rq.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", MemberID: &m.id, MemberEpoch: epoch, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}}
		return kafka.ErrorCode(b.OffsetFetch(t.Context(), someone, rq).Groups[0].ErrorCode)
	}
	need(t, "fetch", fetch(m.epoch), kafka.None)
	need(t, "fetch, stale", fetch(m.epoch+1), kafka.StaleMemberEpoch)
	if _, err := b.CommitSynced(t.Context(), "g", synced(tp("t", 0), 3), always); kafka.CodeOf(err) != kafka.NonEmptyGroup {
		t.Errorf("synced offsets of a group with members: %v", err)
	}
}

// A group without members is taken over by members of either protocol, one after another, with its offsets.
func TestC30_EitherProtocolTakesAGroupOver(t *testing.T) {
	b := newBroker(t, "t")
	if _, err := b.CommitSynced(t.Context(), "g", synced(tp("t", 0), 42), always); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		classic := b.member(t, "g")
		b.wantOffset(t, "g", tp("t", 0), 42)
		modern := &consumer{b: b, group: "g", id: "m1"}
		need(t, "join beside classic members", modern.join(t, "t"), kafka.GroupIDNotFound)
		classic.leave(t)
		need(t, "join after them", modern.join(t, "t"), kafka.None)
		if modern.partitions() != 4 {
			t.Fatalf("%d partitions", modern.partitions())
		}
		b.restart(t)
		need(t, "heartbeat after a restart", modern.beat(t), kafka.None)
		b.wantOffset(t, "g", tp("t", 0), 42)
		modern.leave(t)
		b.restart(t)
		if d := b.describeConsumer(t, "g"); d.State != "Empty" {
			t.Fatalf("described as %+v", d)
		}
	}
}

func TestKIP848_SilentMembersAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, "t")
		one, two := &consumer{b: b, group: "g", id: "m1"}, &consumer{b: b, group: "g", id: "m2"}
		need(t, "join", one.join(t, "t"), kafka.None)
		need(t, "join", two.join(t, "t"), kafka.None)
		for range 12 {
			time.Sleep(5 * time.Second)
			need(t, "heartbeat", one.beat(t), kafka.None)
		}
		if one.partitions() != 4 {
			t.Errorf("%d partitions", one.partitions())
		}
		need(t, "heartbeat of the silent one", two.beat(t), kafka.UnknownMemberID)
		b.restart(t)
		time.Sleep(46 * time.Second)
		synctest.Wait()
		if d := b.describeConsumer(t, "g"); d.State != "Empty" {
			t.Errorf("described as %+v", d)
		}
		b.Close()
	})
}

func TestKIP848_RequestsThatMakeNoSense(t *testing.T) {
	b := newBroker(t, "t")
	m := &consumer{b: b, group: "g", id: "m1"}
	join := func(change func(*kmsg.ConsumerGroupHeartbeatRequest)) kafka.ErrorCode {
		rq := m.request()
		rq.RebalanceTimeoutMillis, rq.SubscribedTopicNames = 1000, []string{"t"}
		change(rq)
		return kafka.ErrorCode(b.ConsumerGroupHeartbeat(t.Context(), someone, rq).ErrorCode)
	}
	for what, c := range map[string]struct {
		change func(*kmsg.ConsumerGroupHeartbeatRequest)
		want   kafka.ErrorCode
	}{
		"no group":         {func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.Group = "" }, kafka.InvalidRequest},
		"no member":        {func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.MemberID = "" }, kafka.InvalidRequest},
		"no time-out":      {func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.RebalanceTimeoutMillis = -1 }, kafka.InvalidRequest},
		"no topics":        {func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.SubscribedTopicNames = nil }, kafka.InvalidRequest},
		"epoch -3":         {func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.MemberEpoch = -3 }, kafka.InvalidRequest},
		"away, not static": {func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.MemberEpoch = -2 }, kafka.InvalidRequest},
		"odd assignor":     {func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.ServerAssignor = new("odd") }, kafka.UnsupportedAssignor},
		"odd expression":   {func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.SubscribedTopicRegex = new("(") }, kafka.InvalidRegularExpression},
		"no such group":    {func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.MemberEpoch = 1 }, kafka.GroupIDNotFound},
		"owns on joining": {func(rq *kmsg.ConsumerGroupHeartbeatRequest) {
			rq.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{Partitions: []int32{1}}}
		}, kafka.InvalidRequest},
	} {
		need(t, what, join(c.change), c.want)
	}
	if groups := b.all(); len(groups) != 0 {
		t.Errorf("%d groups are left of requests that were refused", len(groups))
	}
}

func TestKIP848_ListDescribeDelete(t *testing.T) {
	b := newBroker(t, "t", "topic-a")
	m := &consumer{b: b, group: "g", id: "m1"}
	rq := m.request()
	rq.RebalanceTimeoutMillis, rq.SubscribedTopicRegex = 1000, new("t.*")
	need(t, "join", m.send(t, rq), kafka.None)
	if m.partitions() != 8 {
		t.Errorf("%d partitions", m.partitions())
	}
	list := kmsg.NewPtrListGroupsRequest()
	list.Version, list.TypesFilter, list.StatesFilter = 5, []string{"Consumer"}, []string{"stable"}
	if got := b.ListGroups(t.Context(), list).Groups; len(got) != 1 || got[0].GroupType != typeConsumer || got[0].ProtocolType != consumerProtocol {
		t.Errorf("listed %+v", got)
	}
	if d := b.state(t, "g"); kafka.ErrorCode(d.ErrorCode) != kafka.GroupIDNotFound {
		t.Errorf("described as classic: %+v", d)
	}
	m.commit(t, 9, m.epoch)
	b.expire(time.Now().Add(b.cfg.OffsetsRetention + time.Hour))
	b.wantOffset(t, "g", tp("t", 0), 9) // subscribed
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{"g"}
	need(t, "delete with members", kafka.ErrorCode(b.DeleteGroups(t.Context(), del).Groups[0].ErrorCode), kafka.NonEmptyGroup)
	m.leave(t)
	need(t, "delete", kafka.ErrorCode(b.DeleteGroups(t.Context(), del).Groups[0].ErrorCode), kafka.None)
	b.restart(t)
	if groups := b.all(); len(groups) != 0 {
		t.Errorf("%d groups after the deletion", len(groups))
	}
}

func TestKIP848_ExpressionsMatchInternalTopicsToo(t *testing.T) {
	b := newBroker(t, "t")
	m := &consumer{b: b, group: "g", id: "m1"}
	rq := m.request()
	rq.RebalanceTimeoutMillis, rq.SubscribedTopicRegex = 1000, new("__consumer_.*")
	need(t, "join", m.send(t, rq), kafka.None)
	if m.partitions() != 4 {
		t.Errorf("%d partitions", m.partitions())
	}
}

func TestChangesSurviveTheirRecords(t *testing.T) {
	topic := kafka.NewTopicID()
	a := rebalance.Assignment{topic: {0, 2}, kafka.NewTopicID(): {1}}
	epoch := int32(5)
	for _, c := range []rebalance.Change{
		{Epoch: &rebalance.EpochChange{Epoch: 3, Hash: -7}}, {Target: &epoch},
		{Member: "m", Put: &rebalance.Subscription{InstanceID: new("i"), RackID: new("r"), Client: rebalance.Client{ID: "c", Host: "/h"},
			Topics: []string{"a", "b"}, Regex: "x.*", Rebalance: time.Minute, Assignor: "range"}},
		{Member: "m", Put: &rebalance.Subscription{Topics: []string{}}},
		{Member: "m", Put: &rebalance.Subscription{Topics: []string{}, Classic: &rebalance.ClassicMember{Session: time.Second,
			Protocols: []rebalance.Protocol{{Name: "range", Metadata: []byte{1, 2}}, {Name: "sticky", Metadata: []byte{}}}}}},
		{Member: "m", Gone: true}, {Member: "m", Assign: &a}, {Member: "m", Unplan: true},
		{Member: "m", Now: &rebalance.Current{Epoch: 4, Previous: 3, State: rebalance.MemberUnrevoked, Assigned: a, Revoking: rebalance.Assignment{}}},
		{Member: "m", Drop: true}, {Regex: "x.*", Topics: &rebalance.Resolved{Topics: []string{"xa"}, Revision: 9, At: time.UnixMilli(5)}}, {Regex: "x.*"},
	} {
		r := changeRecord("g", c)
		if id, ok := groupOf(r.key); !ok || id != "g" {
			t.Errorf("%+v: group %q", c, id)
		}
		back, err := decodeChange(r)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		again := changeRecord("g", back)
		if !slices.Equal(r.key, again.key) || !slices.Equal(r.value, again.value) {
			t.Errorf("%+v came back as %+v", c, back)
		}
		for n := range r.value { // cut short
			if _, err := decodeChange(record{key: r.key, value: r.value[:n]}); err == nil {
				t.Errorf("%+v: %d of %d bytes were accepted", c, n, len(r.value))
			}
		}
	}
}
