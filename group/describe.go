package group

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hawserio/hawser/group/rebalance"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The types of groups, by Kafka's names.
const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
)

// ListGroups lists the groups, filtered by state and type.
func (c *Coordinator) ListGroups(ctx context.Context, rq *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	resp := rq.ResponseKind().(*kmsg.ListGroupsResponse)
	if code := c.ready(); code != kafka.None {
		resp.ErrorCode = int16(code)
		return resp
	}
	for _, g := range c.all() {
		g.mu.Lock()
		if !g.gone {
			listed := kmsg.NewListGroupsResponseGroup()
			listed.Group, listed.ProtocolType = g.id, g.protocolType()
			listed.GroupState, listed.GroupType = g.state(), g.kind()
			if passes(rq.StatesFilter, listed.GroupState) && passes(rq.TypesFilter, listed.GroupType) {
				resp.Groups = append(resp.Groups, listed)
			}
		}
		c.leave(g)
	}
	return resp
}

func passes(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}

// DescribeGroups shows groups and their members.
func (c *Coordinator) DescribeGroups(ctx context.Context, rq *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	resp := rq.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, id := range rq.Groups {
		resp.Groups = append(resp.Groups, c.describe(id, rq.Version))
	}
	return resp
}

func (c *impl) describe(id string, version int16) kmsg.DescribeGroupsResponseGroup {
	d := kmsg.NewDescribeGroupsResponseGroup()
	d.Group = id
	if code := c.readyFor(id); code != kafka.None {
		d.ErrorCode = int16(code)
		return d
	}
	g := c.lookup(id)
	if g == nil {
		d.State = rebalance.Dead.String()
		if version >= 6 {
			text := fmt.Sprintf("Group %s not found.", id)
			d.ErrorCode, d.ErrorMessage = int16(kafka.GroupIDNotFound), &text
		}
		return d
	}
	defer c.leave(g)
	if g.consumer != nil {
		d.State = rebalance.Dead.String()
		if version >= 6 {
			text := fmt.Sprintf("Group %s is not a classic group.", id)
			d.ErrorCode, d.ErrorMessage = int16(kafka.GroupIDNotFound), &text
		}
		return d
	}
	d.State, d.ProtocolType = g.core.State().String(), g.core.ProtocolType()
	stable := g.core.State() == rebalance.Stable
	if stable {
		d.Protocol = g.core.Protocol()
	}
	for _, m := range g.core.Members() {
		member := kmsg.NewDescribeGroupsResponseGroupMember()
		member.MemberID, member.InstanceID, member.ClientID, member.ClientHost = m.ID, m.InstanceID, m.Client.ID, m.Client.Host
		member.ProtocolMetadata, member.MemberAssignment = []byte{}, []byte{}
		if stable {
			member.ProtocolMetadata = g.core.Metadata(m)
			member.MemberAssignment = append(member.MemberAssignment, m.Assignment...)
		}
		d.Members = append(d.Members, member)
	}
	return d
}
