package group

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"time"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// catalog is the topics of one image, as the assignors see them.
type catalog struct{ *meta.Image }

func (c catalog) Revision() int64 { return c.Image.Revision }

func (c catalog) Topic(name string) (kafka.TopicID, int32, bool) {
	id, ok := c.TopicIDs[name]
	if !ok || c.Topics[id] == nil {
		return kafka.TopicID{}, 0, false
	}
	return id, c.Topics[id].Partitions, true
}

// ConsumerGroupHeartbeat is a member of a group of the consumer protocol (KIP-848): it joins, says what it wants and
// has, hears what to give up and take, and leaves.
func (c *Coordinator) ConsumerGroupHeartbeat(ctx context.Context, from Client,
	rq *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := rq.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	fail := func(err error) *kmsg.ConsumerGroupHeartbeatResponse {
		resp.ErrorCode, resp.ErrorMessage = int16(kafka.CodeOf(err)), kafka.MessageOf(err)
		return resp
	}
	if code := c.readyFor(rq.Group); code != kafka.None {
		return fail(code)
	}
	if err := c.checkBeat(rq); err != nil {
		return fail(err)
	}
	b := beatOf(from, rq)
	if b.MemberID == "" {
		b.MemberID = kafka.NewTopicID().String() // version 0: the id is ours to draw, a UUID in Kafka's text form
	}
	image := c.env.Image()
	b.Resolve = func(regex string) ([]string, error) { return c.match(from, image, regex) }
	g, err := c.enterConsumer(rq)
	if err != nil {
		return fail(err)
	}
	answer, err := c.beat(ctx, g, b, image)
	end := g.end
	c.leave(g)
	if err == nil {
		if err = c.synced(ctx, g, end); err != nil {
			err = waitCode(err)
		}
	}
	if err != nil {
		return fail(err)
	}
	resp.MemberID, resp.MemberEpoch = &b.MemberID, answer.Epoch
	if answer.Epoch >= 0 {
		_, interval := c.consumerTimes(rq.Group)
		resp.HeartbeatIntervalMillis = int32(interval.Milliseconds())
	}
	if answer.Assignment != nil {
		resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}}
		for _, topic := range answer.Assignment.Topics() {
			resp.Assignment.Topics = append(resp.Assignment.Topics,
				kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: topic, Partitions: (*answer.Assignment)[topic]})
		}
	}
	return resp
}

// checkBeat refuses what makes no sense in any group.
func (c *impl) checkBeat(rq *kmsg.ConsumerGroupHeartbeatRequest) error {
	invalid := func(text string) error { return kafka.Errorf(kafka.InvalidRequest, "%s", text) }
	empty := func(s *string) bool { return s != nil && *s == "" }
	switch {
	case c.env.Image == nil || c.cfg.ClassicOnly:
		return kafka.Errorf(kafka.UnsupportedVersion, "The consumer group protocol is not enabled.")
	case rq.Group == "":
		return invalid("GroupId can't be empty.")
	case len(rq.Group) > nameMax || len(rq.MemberID) > nameMax:
		return invalid("GroupId or MemberId is too long.")
	case rq.MemberID == "" && (rq.Version >= 1 || rq.MemberEpoch != rebalance.EpochJoin):
		return invalid("MemberId can't be empty.")
	case rq.MemberEpoch < rebalance.EpochLeaveStatic:
		return invalid("MemberEpoch is invalid.")
	case empty(rq.InstanceID):
		return invalid("InstanceId can't be empty.")
	case empty(rq.RackID):
		return invalid("RackId can't be empty.")
	case rq.MemberEpoch == rebalance.EpochLeaveStatic && rq.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	case rq.ServerAssignor != nil && !rebalance.KnownAssignor(*rq.ServerAssignor):
		return kafka.Errorf(kafka.UnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: %s, %s.",
			*rq.ServerAssignor, rebalance.Uniform, rebalance.Range)
	}
	if rq.MemberEpoch != rebalance.EpochJoin {
		return nil
	}
	switch {
	case rq.RebalanceTimeoutMillis < 0:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case len(rq.Topics) > 0:
		return invalid("TopicPartitions must be empty when (re-)joining.")
	case rq.SubscribedTopicNames == nil && rq.SubscribedTopicRegex == nil:
		return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	}
	return nil
}

func beatOf(from Client, rq *kmsg.ConsumerGroupHeartbeatRequest) rebalance.Beat {
	b := rebalance.Beat{MemberID: rq.MemberID, InstanceID: rq.InstanceID, RackID: rq.RackID,
		Client: rebalance.Client{ID: from.ID, Host: from.Host}, Epoch: rq.MemberEpoch, Rebalance: -1,
		Topics: rq.SubscribedTopicNames, Regex: rq.SubscribedTopicRegex, Assignor: rq.ServerAssignor}
	if rq.RebalanceTimeoutMillis >= 0 {
		b.Rebalance = time.Duration(rq.RebalanceTimeoutMillis) * time.Millisecond
	}
	if rq.Topics != nil || rq.MemberEpoch == rebalance.EpochJoin {
		owned := rebalance.Assignment{}
		for _, t := range rq.Topics {
			owned[t.TopicID] = sorted(t.Partitions)
		}
		b.Owned = &owned
	}
	return b
}

// regexMax bounds an expression that a member subscribes to, in bytes.
const regexMax = 4096

// match lists the topics that the expression stands for, among those the client may see, internal ones too as in Kafka. It must
// match whole names.
func (c *impl) match(from Client, image *meta.Image, regex string) ([]string, error) {
	if len(regex) > regexMax {
		return nil, fmt.Errorf("it is longer than %d bytes", regexMax)
	}
	var bad *syntax.Error
	if _, err := syntax.Parse(regex, syntax.Perl); errors.As(err, &bad) {
		return nil, errors.New(bad.Code.String())
	}
	compiled, err := regexp.Compile("^(?:" + regex + ")$")
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range image.TopicIDs {
		if compiled.MatchString(name) && (c.env.MayDescribe == nil || c.env.MayDescribe(from, name)) {
			names = append(names, name)
		}
	}
	return names, nil
}

// enterConsumer finds the group, or makes it for a member that joins, and locks it.
func (c *impl) enterConsumer(rq *kmsg.ConsumerGroupHeartbeatRequest) (*group, error) {
	var g *group
	if rq.MemberEpoch == rebalance.EpochJoin {
		g = c.enter(rq.Group)
	} else {
		g = c.lookup(rq.Group)
	}
	switch {
	case g == nil && c.readyFor(rq.Group) != kafka.None:
		return nil, c.readyFor(rq.Group)
	case g == nil:
		return nil, kafka.Errorf(kafka.GroupIDNotFound, "Consumer group %s not found.", rq.Group)
	case g.consumer == nil && rq.MemberEpoch != rebalance.EpochJoin:
		c.leave(g)
		return nil, kafka.Errorf(kafka.GroupIDNotFound, "Group %s is not a consumer group.", rq.Group)
	}
	return g, nil
}

// beat decides, stores and answers, with the lock held. A classic group without members becomes one of the consumer protocol.
func (c *impl) beat(ctx context.Context, g *group, b rebalance.Beat, image *meta.Image) (rebalance.BeatAnswer, error) {
	now := time.Now()
	core, before, err := c.consumerOf(g, image)
	if err != nil {
		return rebalance.BeatAnswer{}, err
	}
	core.Limit(c.consumerLimits(g.id))
	changes, answer := core.Beat(b, catalog{image}, now)
	if answer.Code == kafka.UnknownMemberID && b.InstanceID == nil {
		answer.Message = fmt.Sprintf("Member %s is not a member of group %s.", b.MemberID, g.id)
	}
	if answer.Code != kafka.None {
		return answer, kafka.Errorf(answer.Code, "%s", answer.Message)
	}
	was := g.consumer
	downgraded, err := c.storeConsumer(ctx, g, before, core, changes)
	if err != nil {
		return answer, storeCode(err)
	}
	if downgraded {
		return answer, nil
	}
	if was == nil {
		// Classic members that wait hear that they must join again; they find the other protocol.
		c.give(g, g.core.Kill(kafka.RebalanceInProgress, now).Answers)
		g.core = rebalance.NewClassic(c.limits(), now)
		g.consumer.Wake(now)
	}
	if b.Epoch >= 0 {
		g.consumer.Heard(b.MemberID, now)
	}
	g.arm(c, g.consumer.Next())
	return answer, nil
}

// consumerOf is the group as one of the consumer protocol, and what must be written to make it one.
func (c *impl) consumerOf(g *group, image *meta.Image) (*rebalance.Consumer, []record, error) {
	if g.consumer != nil {
		return g.consumer, nil, nil
	}
	core := rebalance.NewConsumer(c.consumerLimits(g.id))
	records := g.epitaph()
	if g.empty() { // ids that were handed out do not count: who comes back with one is taken in as a classic member
		return core, records, nil
	}
	members, err := c.upgrade(g, image)
	switch {
	case errors.Is(err, errCustomAssignor):
		return nil, nil, kafka.Errorf(kafka.GroupIDNotFound,
			"Cannot upgrade classic group %s to consumer group because an unsupported custom assignor is in use. "+
				"Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.", g.id)
	case err != nil:
		return nil, nil, kafka.Errorf(kafka.GroupIDNotFound, "Group %s is not a consumer group.", g.id)
	}
	for _, change := range rebalance.Upgrade(g.core.Generation(), members) {
		core.Apply(change)
		records = append(records, changeRecord(g.id, change))
	}
	return core, records, nil
}

func (c *impl) consumerLimits(group string) rebalance.ConsumerLimits {
	session, _ := c.consumerTimes(group)
	return rebalance.ConsumerLimits{Session: session, MaxSize: c.cfg.ConsumerMaxSize}
}

func (c *impl) consumerTimes(group string) (session, interval time.Duration) {
	if c.env.ConsumerTimes == nil {
		return c.cfg.ConsumerSession, c.cfg.ConsumerInterval
	}
	return c.env.ConsumerTimes(group)
}

// storeAgain is when a timer's changes that could not be stored are tried again.
const storeAgain = 5 * time.Second

func (c *impl) tickConsumer(g *group) {
	now := time.Now()
	if _, err := c.storeConsumer(c.life, g, nil, g.consumer, g.consumer.Tick(now)); err != nil {
		c.log.Error("remove silent members", "group", g.id, "error", err)
		g.arm(c, now.Add(storeAgain))
		return
	}
	if g.consumer != nil {
		g.arm(c, g.consumer.Next())
	}
}

// ConsumerGroupDescribe shows groups of the consumer protocol.
func (c *Coordinator) ConsumerGroupDescribe(ctx context.Context,
	rq *kmsg.ConsumerGroupDescribeRequest) *kmsg.ConsumerGroupDescribeResponse {
	resp := rq.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	for _, id := range rq.Groups {
		resp.Groups = append(resp.Groups, c.describeConsumer(id))
	}
	return resp
}

func (c *impl) describeConsumer(id string) kmsg.ConsumerGroupDescribeResponseGroup {
	d := kmsg.NewConsumerGroupDescribeResponseGroup()
	d.Group = id
	fail := func(code kafka.ErrorCode, format string) kmsg.ConsumerGroupDescribeResponseGroup {
		text := fmt.Sprintf(format, id)
		d.ErrorCode, d.ErrorMessage = int16(code), &text
		return d
	}
	if c.cfg.ClassicOnly {
		return fail(kafka.UnsupportedVersion, "The consumer group protocol is not enabled: group %s is not shown.")
	}
	if code := c.readyFor(id); code != kafka.None {
		return fail(code, "Group %s is not ready.")
	}
	g := c.lookup(id)
	if g == nil {
		return fail(kafka.GroupIDNotFound, "Group %s not found.")
	}
	defer c.leave(g)
	if g.consumer == nil {
		return fail(kafka.GroupIDNotFound, "Group %s is not a consumer group.")
	}
	d.State, d.Epoch, d.AssignmentEpoch = g.state(), g.consumer.Epoch(), g.consumer.TargetEpoch()
	d.AssignorName = g.consumer.Assignor()
	var image *meta.Image
	if c.env.Image != nil {
		image = c.env.Image()
	}
	for _, m := range g.consumer.Members() {
		member := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		member.MemberID, member.InstanceID, member.RackID, member.MemberEpoch = m.ID, m.InstanceID, m.RackID, m.Epoch
		member.ClientID, member.ClientHost, member.SubscribedTopics = m.Client.ID, m.Client.Host, m.Topics
		member.SubscribedTopicRegex = &m.Regex
		member.Assignment, member.TargetAssignment = shown(m.Assigned, image), shown(g.consumer.TargetOf(m.ID), image)
		if member.MemberType = 1; m.Classic != nil {
			member.MemberType = 0
		}
		d.Members = append(d.Members, member)
	}
	return d
}

func shown(a rebalance.Assignment, image *meta.Image) kmsg.Assignment {
	out := kmsg.NewAssignment()
	for _, topic := range a.Topics() {
		t := kmsg.NewAssignmentTopicPartition()
		t.TopicID, t.Partitions = topic, a[topic]
		if image != nil && image.Topics[topic] != nil {
			t.Topic = image.Topics[topic].Name
		}
		out.TopicPartitions = append(out.TopicPartitions, t)
	}
	return out
}
