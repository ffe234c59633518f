//go:build e2e

package e2e

import (
	"fmt"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func joinOf(group, member string, instance *string, protocols ...string) *kmsg.JoinGroupRequest {
	rq := kmsg.NewPtrJoinGroupRequest()
	rq.Group, rq.MemberID, rq.InstanceID, rq.SessionTimeoutMillis, rq.RebalanceTimeoutMillis, rq.ProtocolType = group, member, instance, 30_000, 60_000, "consumer"
	wants := kmsg.NewConsumerMemberMetadata()
	wants.Topics = []string{"t"}
	for _, p := range protocols {
		rq.Protocols = append(rq.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: wants.AppendTo(nil)})
	}
	return rq
}

func syncOf(group, member string, generation int32, instance *string) *kmsg.SyncGroupRequest {
	rq := kmsg.NewPtrSyncGroupRequest()
	rq.Group, rq.MemberID, rq.Generation, rq.InstanceID = group, member, generation, instance
	rq.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member, MemberAssignment: []byte("all")}}
	return rq
}

func beatOf(group, member string, generation int32, instance *string) *kmsg.HeartbeatRequest {
	rq := kmsg.NewPtrHeartbeatRequest()
	rq.Group, rq.MemberID, rq.Generation, rq.InstanceID = group, member, generation, instance
	return rq
}

func leaveOf(group string, members ...kmsg.LeaveGroupRequestMember) *kmsg.LeaveGroupRequest {
	rq := kmsg.NewPtrLeaveGroupRequest()
	rq.Group, rq.Members = group, members
	if len(members) > 0 {
		rq.MemberID = members[0].MemberID
	}
	return rq
}

func commitOf(group, member string, generation int32, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Group, rq.MemberID, rq.Generation, rq.RetentionTimeMillis = group, member, generation, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 0, kmsg.StringPtr("m")
	rq.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return rq
}

// fetchOf asks for partitions of t, or for all if there are none.
func fetchOf(group string, partitions ...int32) *kmsg.OffsetFetchRequest {
	rq := kmsg.NewPtrOffsetFetchRequest()
	rq.Group = group
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = group
	if len(partitions) > 0 {
		rq.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: partitions}}
		one.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: partitions}}
	}
	rq.Groups = []kmsg.OffsetFetchRequestGroup{one}
	return rq
}

func describeOf(groups ...string) *kmsg.DescribeGroupsRequest {
	rq := kmsg.NewPtrDescribeGroupsRequest()
	rq.Groups = groups
	return rq
}

func deleteOf(groups ...string) *kmsg.DeleteGroupsRequest {
	rq := kmsg.NewPtrDeleteGroupsRequest()
	rq.Groups = groups
	return rq
}

func forgetOf(group string, partitions ...int32) *kmsg.OffsetDeleteRequest {
	rq := kmsg.NewPtrOffsetDeleteRequest()
	rq.Group = group
	topic := kmsg.OffsetDeleteRequestTopic{Topic: "t"}
	for _, p := range partitions {
		topic.Partitions = append(topic.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
	}
	rq.Topics = []kmsg.OffsetDeleteRequestTopic{topic}
	return rq
}

// classicTalk is the life of a classic group of one member whose client speaks JoinGroup v.
func classicTalk(c *rawTalk, v int16) {
	g := fmt.Sprint("classic", v)
	c.say("join without a group", joinOf("", "", nil, "range"), v)
	c.say("join of a stranger", joinOf(g+"none", "nobody", nil, "range"), v)
	c.say("heartbeat, no group", beatOf(g+"none", "m", 1, nil), 4)
	c.say("sync, no group", syncOf(g+"none", "m", 1, nil), 5)
	c.say("leave, no group", leaveOf(g+"none", kmsg.LeaveGroupRequestMember{MemberID: "m"}), v%6)
	joined := c.say("join", joinOf(g, "", nil, "range", "sticky"), v).(*kmsg.JoinGroupResponse)
	if kafka.ErrorCode(joined.ErrorCode) == kafka.MemberIDRequired {
		joined = c.say("join with its id", joinOf(g, joined.MemberID, nil, "range", "sticky"), v).(*kmsg.JoinGroupResponse)
	}
	id := joined.MemberID
	c.say("heartbeat before sync", beatOf(g, id, 1, nil), 4)
	c.say("commit before sync", commitOf(g, id, 1, "t", 0, 5), 8)
	c.say("join again before sync", joinOf(g, id, nil, "range", "sticky"), v)
	c.say("sync of another generation", syncOf(g, id, 3, nil), 3)
	other := syncOf(g, id, 1, nil)
	other.ProtocolType, other.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("other")
	c.say("sync of another protocol", other, 5)
	c.say("sync", syncOf(g, id, 1, nil), min(v, 4))
	c.say("sync again", syncOf(g, id, 1, nil), 4)
	c.say("describe", describeOf(g, g+"none"), 5)
	c.say("describe", describeOf(g, g+"none"), 6)
	for _, who := range []string{id, "stranger"} {
		for generation := range int32(3) {
			c.say("heartbeat", beatOf(g, who, generation, nil), 4)
			c.say("commit", commitOf(g, who, generation, "t", 0, 5), 8)
			c.say("commit", commitOf(g, who, generation, "t", 0, 5), 9)
		}
	}
	c.say("commit of nobody", commitOf(g, "", -1, "t", 0, 5), 8)
	c.say("join with another protocol", joinOf(g, "", nil, "roundrobin"), v)
	c.say("delete with members", deleteOf(g, g+"none"), 2)
	c.say("forget what it is subscribed to", forgetOf(g, 0, 9), 0)
	c.say("the leader joins again", joinOf(g, id, nil, "range", "sticky"), v)
	c.say("heartbeat of the old generation", beatOf(g, id, 1, nil), 4)
	c.say("leave", leaveOf(g, kmsg.LeaveGroupRequestMember{MemberID: id}), min(v, 5))
	c.say("leave again", leaveOf(g, kmsg.LeaveGroupRequestMember{MemberID: id}), min(v, 5))
	c.say("describe empty", describeOf(g), 5)
	c.say("forget", forgetOf(g, 0, 9), 0)
	c.say("delete", deleteOf(g), 2)
	c.say("describe deleted", describeOf(g), 6)
}

// staticTalk is a static member that comes back under another id.
func staticTalk(c *rawTalk, v int16) {
	g, i1, i9 := fmt.Sprint("static", v), kmsg.StringPtr("i1"), kmsg.StringPtr("i9")
	old := c.say("join", joinOf(g, "", i1, "range"), v).(*kmsg.JoinGroupResponse).MemberID
	c.say("sync", syncOf(g, old, 1, i1), 4)
	id := c.say("join again", joinOf(g, "", i1, "range"), v).(*kmsg.JoinGroupResponse).MemberID
	for _, who := range []string{old, id} {
		for _, instance := range []*string{i1, i9, nil} {
			c.say("heartbeat", beatOf(g, who, 1, instance), 4)
			c.say("sync", syncOf(g, who, 1, instance), 4)
			rq := commitOf(g, who, 1, "t", 0, 5)
			rq.InstanceID = instance
			c.say("commit", rq, 8)
		}
	}
	c.say("join of the old id", joinOf(g, old, i1, "range"), v)
	c.say("join of an unknown instance", joinOf(g, "xx", i9, "range"), v)
	c.say("describe", describeOf(g), 5)
	c.say("leave", leaveOf(g, kmsg.LeaveGroupRequestMember{InstanceID: i1}, kmsg.LeaveGroupRequestMember{InstanceID: i9},
		kmsg.LeaveGroupRequestMember{MemberID: old, InstanceID: i1}), 4)
}

// offsetsTalk commits and reads offsets without members.
func offsetsTalk(c *rawTalk) {
	for _, v := range []int16{2, 3, 5, 6, 8, 9} {
		g := fmt.Sprint("offsets", v)
		c.say("commit", commitOf(g, "", -1, "t", 0, 7), v)
		c.say("commit on no partition", commitOf(g, "", -1, "t", 99, 7), v)
		c.say("commit on no topic", commitOf(g, "", -1, "nope", 0, 7), v)
		c.say("commit of a generation", commitOf(g+"none", "m", 4, "t", 0, 7), v)
		c.say("commit of a member that is none", commitOf(g, "m", -1, "t", 0, 8), v)
		c.say("commit without a group", commitOf("", "", -1, "t", 0, 3), v)
		rq := commitOf(g, "", -1, "t", 1, 8)
		rq.Topics[0].Partitions[0].Metadata = nil
		c.say("commit without metadata", rq, v)
		rq = commitOf(g, "", -1, "t", 2, 8)
		rq.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 5000))
		c.say("commit with too much metadata", rq, v)
	}
	for v := int16(1); v <= 9; v++ {
		c.say("fetch", fetchOf("offsets8", 0, 1, 2, 77), v)
		c.say("fetch, no group", fetchOf("nobody", 0), v)
		c.say("fetch without a group", fetchOf("", 0), v)
		if v >= 2 {
			c.say("fetch all", fetchOf("offsets8"), v)
			c.say("fetch all, no group", fetchOf("nobody"), v)
		}
	}
	c.say("forget, no group", forgetOf("nobody", 0), 0)
	c.say("delete", deleteOf("offsets8"), 2)
	c.say("fetch deleted", fetchOf("offsets8", 0), 8)
}

// wants is a member's first heartbeat of the consumer protocol.
func wants(group, member string, change func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatRequest {
	rq := has(group, member, 0)
	rq.RebalanceTimeoutMillis, rq.SubscribedTopicNames, rq.Topics = 60_000, []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if change != nil {
		change(rq)
	}
	return rq
}

func has(group, member string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	rq := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	rq.Group, rq.MemberID, rq.MemberEpoch, rq.RebalanceTimeoutMillis = group, member, epoch, -1
	return rq
}

func oddBeatsTalk(c *rawTalk) {
	type beat = *kmsg.ConsumerGroupHeartbeatRequest
	for _, odd := range []struct {
		what   string
		change func(beat)
	}{
		{"no group", func(rq beat) { rq.Group = "" }},
		{"no member", func(rq beat) { rq.MemberID = "" }},
		{"no topics", func(rq beat) { rq.SubscribedTopicNames = nil }},
		{"no time-out", func(rq beat) { rq.RebalanceTimeoutMillis = -1 }},
		{"no such assignor", func(rq beat) { rq.ServerAssignor = kmsg.StringPtr("odd") }},
		{"bad expression", func(rq beat) { rq.SubscribedTopicNames, rq.SubscribedTopicRegex = nil, kmsg.StringPtr("(") }},
		{"epoch -3", func(rq beat) { rq.MemberEpoch = -3 }},
		{"away and not static", func(rq beat) { rq.MemberEpoch = -2 }},
		{"empty instance", func(rq beat) { rq.InstanceID = kmsg.StringPtr("") }},
		{"empty rack", func(rq beat) { rq.RackID = kmsg.StringPtr("") }},
		{"owns on joining", func(rq beat) {
			rq.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: c.topic, Partitions: []int32{1}}}
		}},
	} {
		c.say("heartbeat with "+odd.what, wants("odd", "m", odd.change), 1)
	}
	c.say("heartbeat, no group", has("odd", "m", 1), 1)
	c.say("leave, no group", has("odd", "m", -1), 1)
}

// consumerTalk is two members of the consumer protocol that share t, and requests of the classic one to their group.
func consumerTalk(c *rawTalk) {
	c.say("join", wants("c", "m1", nil), 1)
	c.say("heartbeat", has("c", "m1", 1), 1)
	c.say("heartbeat of a higher epoch", has("c", "m1", 9), 1)
	c.say("heartbeat of a stranger", has("c", "m9", 1), 1)
	c.say("leave of a stranger", has("c", "m9", -1), 1)
	c.say("join of a second", wants("c", "m2", nil), 1)
	for range 3 {
		c.say("heartbeat", has("c", "m2", 2), 1)
		c.say("heartbeat", has("c", "m1", 1), 1)
		given := has("c", "m1", 1)
		given.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: c.topic, Partitions: []int32{0, 1}}}
		c.say("heartbeat with what is left", given, 1)
	}
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{"c", "none", "offsets9"}
	c.say("describe", describe, 0)
	c.say("describe", describe, 1)
	for _, epoch := range []int32{2, 7, -1} {
		for _, v := range []int16{8, 9} {
			c.say("commit", commitOf("c", "m1", epoch, "t", 0, 1), v)
			c.say("commit of a stranger", commitOf("c", "m9", epoch, "t", 0, 1), v)
			c.say("commit of nobody", commitOf("c", "", epoch, "t", 0, 1), v)
		}
		for _, member := range []string{"m1", "m9"} {
			rq := fetchOf("c", 0)
			rq.Groups[0].MemberID, rq.Groups[0].MemberEpoch = &member, epoch
			c.say("fetch", rq, 9)
		}
	}
	c.say("describe as classic", describeOf("c"), 5)
	c.say("describe as classic", describeOf("c"), 6)
	c.say("classic heartbeat", beatOf("c", "m1", 2, nil), 4)
	c.say("classic sync", syncOf("c", "m1", 2, nil), 4)
	odd := joinOf("c", "", nil, "range")
	odd.ProtocolType = "connect"
	c.say("join of no consumer", odd, 9)
	c.say("forget what it is subscribed to", forgetOf("c", 0), 0)
	c.say("delete with members", deleteOf("c"), 2)
	c.say("leave", has("c", "m1", -1), 1)
	c.say("leave", has("c", "m2", -1), 1)
	// A classic member has been given its id and not come back with it: the group has no member yet.
	handed := c.say("join without an id", joinOf("half", "", nil, "range"), 9).(*kmsg.JoinGroupResponse)
	c.say("join beside an id that was handed out", wants("half", "m1", nil), 1)
	c.say("join with that id", joinOf("half", handed.MemberID, nil, "range"), 9)
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pages.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}
	for _, limit := range []int32{2000, 2, 0, -1} {
		for _, from := range []int32{0, 2, 3} {
			pages.ResponsePartitionLimit, pages.Cursor = limit, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "t", Partition: from}
			c.say(fmt.Sprintf("at most %d partitions from %d on", limit, from), pages, 0)
		}
	}
	c.say("describe", describe, 1)
	list := kmsg.NewPtrListGroupsRequest()
	list.TypesFilter = []string{"consumer"}
	c.say("list", list, 5)
	c.say("delete", deleteOf("c"), 2)
}

func staticConsumerTalk(c *rawTalk) {
	instance := func(rq *kmsg.ConsumerGroupHeartbeatRequest) { rq.InstanceID = kmsg.StringPtr("i") }
	as := func(member string, epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
		rq := has("cs", member, epoch)
		instance(rq)
		return rq
	}
	c.say("join", wants("cs", "s1", instance), 1)
	c.say("join beside it", wants("cs", "s2", instance), 1)
	c.say("heartbeat of the other", as("s2", 1), 1)
	c.say("away", as("s1", -2), 1)
	c.say("back under another id", wants("cs", "s2", instance), 1)
	c.say("heartbeat of the old id", as("s1", 1), 1)
	c.say("leave of the old id", as("s1", -1), 1)
	c.say("leave", as("s2", -1), 1)
}
