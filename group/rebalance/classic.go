package rebalance

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// Member is one member of a classic group.
type Member struct {
	ID         string
	InstanceID *string // group.instance.id of a static member, nil for a dynamic one
	Client     Client
	Rebalance  time.Duration // rebalance timeout
	Session    time.Duration // session timeout
	Protocols  []Protocol    // in the member's order of preference
	Assignment []byte        // of the current generation

	seq      uint64    // order of arrival
	isNew    bool      // has not had its first JoinGroup answer
	joined   bool      // has asked to join the next generation and is not yet answered
	join     Ticket    // who waits for that answer; 0 if the caller has gone
	syncing  bool      // waits for its assignment
	sync     Ticket    // who waits for it; 0 if the caller has gone
	deadline time.Time // when it is dropped unless heard of
}

// metadata is what the member says about itself under the named protocol.
func (m *Member) metadata(protocol string) []byte {
	for _, p := range m.Protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return []byte{}
}

// watched reports whether the deadline counts: a member whose caller waits for us
// cannot send heartbeats. A new one is given NewMemberTimeout all the same.
func (m *Member) watched() bool { return m.isNew || !m.joined && !m.syncing }

// Classic is a classic group. The zero value is of no use; NewClassic and Restore make one.
type Classic struct {
	limits       Limits
	state        State
	before       State // the state that PreparingRebalance was entered from
	since        time.Time
	protocolType string // empty for a group that only commits offsets
	generation   int32
	protocol     string // empty for none
	leader       string // member id; empty for none

	members   map[string]*Member
	statics   map[string]string    // member id by instance id
	pending   map[string]time.Time // ids handed out (MEMBER_ID_REQUIRED), and when they lapse
	supported map[string]int       // how many members know a protocol
	unsynced  map[string]struct{}  // members of this generation that have not sent SyncGroup
	nextSeq   uint64

	joinBy      time.Time     // when PreparingRebalance ends
	joinMore    time.Duration // how much longer a first rebalance may be stretched
	newcomer    bool          // somebody came during the current stretch
	syncBy      time.Time     // when members that have not synced are dropped
	assignments bool          // the leader's assignments wait to be stored
}

// NewClassic makes an empty group.
func NewClassic(limits Limits, now time.Time) *Classic {
	return &Classic{
		limits: limits, since: now,
		members: map[string]*Member{}, statics: map[string]string{}, pending: map[string]time.Time{},
		supported: map[string]int{}, unsynced: map[string]struct{}{},
	}
}

// Snapshot is what of a group is stored.
type Snapshot struct {
	ProtocolType string
	Generation   int32
	Protocol     string // empty for none
	Leader       string // empty for none
	Since        time.Time
	Members      []*Member // in order of arrival
}

// Snapshot is the group as it must be stored now.
func (g *Classic) Snapshot() Snapshot {
	return Snapshot{ProtocolType: g.protocolType, Generation: g.generation, Protocol: g.protocol,
		Leader: g.leader, Since: g.since, Members: g.Members()}
}

// Restore makes the group that was stored: Stable with its members, whose sessions start anew, or Empty.
func Restore(limits Limits, s Snapshot, now time.Time) *Classic {
	g := NewClassic(limits, s.Since)
	g.protocolType, g.generation, g.protocol = s.ProtocolType, s.Generation, s.Protocol
	for _, m := range s.Members {
		restored := &Member{ID: m.ID, InstanceID: m.InstanceID, Client: m.Client, Rebalance: m.Rebalance,
			Session: m.Session, Protocols: m.Protocols, Assignment: m.Assignment, deadline: now.Add(m.Session)}
		if g.members[m.ID] == nil {
			g.insert(restored)
		}
	}
	g.leader = s.Leader
	if g.members[s.Leader] == nil {
		g.leader = ""
		g.electAny()
	}
	if len(g.members) > 0 {
		g.state = Stable
	}
	return g
}

// State, Generation, ProtocolType, Protocol, Leader and Since describe the group; Since is when it
// came into its state.
func (g *Classic) State() State         { return g.state }
func (g *Classic) Generation() int32    { return g.generation }
func (g *Classic) ProtocolType() string { return g.protocolType }
func (g *Classic) Protocol() string     { return g.protocol }
func (g *Classic) Leader() string       { return g.leader }
func (g *Classic) Since() time.Time     { return g.since }

// Idle reports whether nobody is in the group or about to be.
func (g *Classic) Idle() bool { return len(g.members) == 0 && len(g.pending) == 0 }

// Members lists the members in order of arrival. They are the group's own: read only.
func (g *Classic) Members() []*Member {
	return slices.SortedFunc(maps.Values(g.members), func(a, b *Member) int { return cmp.Compare(a.seq, b.seq) })
}

// Metadata is what a member says about itself under the group's protocol.
func (g *Classic) Metadata(m *Member) []byte { return m.metadata(g.protocol) }

func (g *Classic) to(s State, now time.Time) {
	if s == PreparingRebalance {
		g.before = g.state
	}
	g.state, g.since = s, now
}

// insert adds a member to all indexes. The first one sets the protocol type and leads.
func (g *Classic) insert(m *Member) {
	g.nextSeq++
	m.seq = g.nextSeq
	g.members[m.ID] = m
	if m.InstanceID != nil {
		g.statics[*m.InstanceID] = m.ID
	}
	g.count(m.Protocols, 1)
	delete(g.pending, m.ID)
	if g.leader == "" {
		g.leader = m.ID
	}
}

// count adds n to the numbers of members that know the protocols, each name once.
func (g *Classic) count(protocols []Protocol, n int) {
	for name := range names(protocols) {
		g.supported[name] += n
		if g.supported[name] <= 0 {
			delete(g.supported, name)
		}
	}
}

func names(protocols []Protocol) map[string]struct{} {
	set := make(map[string]struct{}, len(protocols))
	for _, p := range protocols {
		set[p.Name] = struct{}{}
	}
	return set
}

// remove takes a member out and answers its waiting callers with code.
func (g *Classic) remove(m *Member, code kafka.ErrorCode, out *Out) {
	delete(g.members, m.ID)
	delete(g.unsynced, m.ID)
	if m.InstanceID != nil && g.statics[*m.InstanceID] == m.ID {
		delete(g.statics, *m.InstanceID)
	}
	g.count(m.Protocols, -1)
	g.dismiss(m, code, out)
	if g.leader == m.ID {
		g.leader = ""
		g.electAny()
	}
}

// dismiss answers whoever waits for the member.
func (g *Classic) dismiss(m *Member, code kafka.ErrorCode, out *Out) {
	out.join(m.join, JoinAnswer{Code: code, MemberID: m.ID, Generation: -1})
	out.sync(m.sync, SyncAnswer{Code: code})
	m.join, m.sync, m.joined, m.syncing = 0, 0, false, false
}

func (g *Classic) electAny() {
	var first *Member
	for _, m := range g.members {
		if first == nil || m.seq < first.seq {
			first = m
		}
	}
	if first != nil {
		g.leader = first.ID
	}
}

// electJoined makes sure that the leader is among those that have joined; false if nobody has.
func (g *Classic) electJoined() bool {
	if leader := g.members[g.leader]; leader != nil && leader.joined {
		return true
	}
	for _, m := range g.Members() {
		if m.joined {
			g.leader = m.ID
			return true
		}
	}
	return false
}

// accepts reports whether a member with these protocols fits the group (INCONSISTENT_GROUP_PROTOCOL if not).
func (g *Classic) accepts(protocolType string, protocols []Protocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	if protocolType != g.protocolType {
		return false
	}
	for _, p := range protocols {
		if g.supported[p.Name] == len(g.members) {
			return true
		}
	}
	return false
}

// choose picks the protocol: of those that all members know, the one that most name first.
// Between equals the one that the longest-standing member names first wins.
func (g *Classic) choose() string {
	votes := map[string]int{}
	members := g.Members()
	for _, m := range members {
		for _, p := range m.Protocols {
			if g.supported[p.Name] == len(members) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, m := range members {
		for _, p := range m.Protocols {
			if n := votes[p.Name]; n > 0 && (best == "" || n > votes[best]) {
				best = p.Name
			}
		}
	}
	return best
}

// rebalanceTimeout is the longest of the members'.
func (g *Classic) rebalanceTimeout() time.Duration {
	var longest time.Duration
	for _, m := range g.members {
		longest = max(longest, m.Rebalance)
	}
	return longest
}

// allJoined reports whether nobody is missing from the next generation.
func (g *Classic) allJoined() bool {
	if len(g.pending) > 0 {
		return false
	}
	for _, m := range g.members {
		if !m.joined {
			return false
		}
	}
	return true
}

func (m *Member) sameProtocols(protocols []Protocol) bool {
	return slices.EqualFunc(m.Protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// prepare begins a rebalance.
func (g *Classic) prepare(now time.Time, out *Out) {
	if g.state == CompletingRebalance {
		g.spread(kafka.RebalanceInProgress, now, out)
	}
	g.syncBy, g.assignments = time.Time{}, false
	clear(g.unsynced)
	first := g.state == Empty
	g.to(PreparingRebalance, now)
	if first {
		delay := min(g.limits.InitialDelay, g.rebalanceTimeout())
		g.joinMore, g.newcomer = max(g.rebalanceTimeout()-delay, 0), false
		g.joinBy = now.Add(delay)
		if delay <= 0 {
			g.complete(now, out)
		}
		return
	}
	g.joinMore, g.newcomer = 0, false
	g.joinBy = now.Add(g.rebalanceTimeout())
	g.advance(now, out)
}

// rebalance begins a rebalance, or looks whether the one under way can end.
func (g *Classic) rebalance(now time.Time, out *Out) {
	switch g.state {
	case Stable, CompletingRebalance, Empty:
		g.prepare(now, out)
	default:
		g.advance(now, out)
	}
}

// advance ends the join phase once everybody is there. A group's first one lasts its full delay.
func (g *Classic) advance(now time.Time, out *Out) {
	if g.state == PreparingRebalance && g.before != Empty && g.allJoined() {
		g.complete(now, out)
	}
}

// joinTime is called when joinBy has passed.
func (g *Classic) joinTime(now time.Time, out *Out) {
	if g.before == Empty && g.newcomer && g.joinMore > 0 {
		delay := min(g.limits.InitialDelay, g.joinMore)
		g.joinMore, g.newcomer = g.joinMore-delay, false
		g.joinBy = now.Add(delay)
		return
	}
	g.complete(now, out)
}

// complete ends the join phase: who has not joined is dropped, static members
// excepted, and the others hear of the new generation.
func (g *Classic) complete(now time.Time, out *Out) {
	g.joinBy = time.Time{}
	for _, m := range g.Members() {
		if !m.joined && m.InstanceID == nil {
			g.remove(m, kafka.UnknownMemberID, out)
		}
	}
	if !g.electJoined() && len(g.members) > 0 {
		// Only static members that are away are left: wait until they are back or their sessions end.
		g.before = Stable
		g.joinBy = now.Add(max(g.rebalanceTimeout(), time.Second))
		return
	}
	g.generation++
	clear(g.unsynced)
	if len(g.members) == 0 {
		g.protocol, g.leader = "", ""
		g.to(Empty, now)
		out.Store = true
		return
	}
	g.protocol = g.choose()
	g.to(CompletingRebalance, now)
	g.syncBy = now.Add(g.rebalanceTimeout())
	for _, m := range g.Members() {
		g.unsynced[m.ID] = struct{}{}
		m.Assignment = nil
		g.answerJoin(m, now, out)
	}
}

// answerJoin tells a member the generation it is in.
func (g *Classic) answerJoin(m *Member, now time.Time, out *Out) {
	answer := JoinAnswer{MemberID: m.ID, Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader}
	if g.leader == m.ID {
		answer.Members = g.joinMembers()
	}
	out.join(m.join, answer)
	m.join, m.joined, m.isNew = 0, false, false
	m.deadline = now.Add(m.Session)
}

func (g *Classic) joinMembers() []JoinMember {
	list := make([]JoinMember, 0, len(g.members))
	for _, m := range g.Members() {
		list = append(list, JoinMember{ID: m.ID, InstanceID: m.InstanceID, Metadata: m.metadata(g.protocol)})
	}
	return list
}

// spread answers all that wait for an assignment: with it, or with code.
func (g *Classic) spread(code kafka.ErrorCode, now time.Time, out *Out) {
	for _, m := range g.Members() {
		if code != kafka.None {
			m.Assignment = nil
		}
		if !m.syncing {
			continue
		}
		out.sync(m.sync, g.syncAnswer(m, code))
		m.sync, m.syncing = 0, false
		m.deadline = now.Add(m.Session)
	}
}

func (g *Classic) syncAnswer(m *Member, code kafka.ErrorCode) SyncAnswer {
	if code != kafka.None {
		return SyncAnswer{Code: code}
	}
	return SyncAnswer{ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: m.Assignment}
}
