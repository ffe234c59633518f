package rebalance

import (
	"time"

	"github.com/hawserio/hawser/kafka"
)

// Join is a JoinGroup request.
type Join struct {
	Ticket       Ticket // never 0
	MemberID     string // empty for a member that has no id yet
	InstanceID   *string
	NewID        string // the id for a member that needs one
	Client       Client
	Session      time.Duration
	Rebalance    time.Duration
	ProtocolType string
	Protocols    []Protocol
	RequireID    bool // v4 and newer: a dynamic member must come back with its id
	CanSkip      bool // v9 and newer: the client understands SkipAssignment
}

// Join takes a member in, or a member's wish to be in the next generation.
func (g *Classic) Join(j Join, now time.Time) (out Out) {
	refuse := func(code kafka.ErrorCode) {
		out.join(j.Ticket, JoinAnswer{Code: code, MemberID: j.MemberID, Generation: -1})
	}
	switch {
	case g.state == Dead:
		refuse(kafka.CoordinatorNotAvailable)
	case !g.roomFor(j.MemberID):
		if m := g.members[j.MemberID]; m != nil {
			g.remove(m, kafka.GroupMaxSizeReached, &out)
		}
		delete(g.pending, j.MemberID)
		out.join(j.Ticket, JoinAnswer{Code: kafka.GroupMaxSizeReached, Generation: -1})
	case !g.accepts(j.ProtocolType, j.Protocols):
		refuse(kafka.InconsistentGroupProtocol)
	case j.MemberID == "":
		g.joinNew(j, now, &out)
	default:
		if code := g.checkJoiner(j); code != kafka.None {
			refuse(code)
			return out
		}
		if _, ok := g.pending[j.MemberID]; ok {
			g.add(j, j.MemberID, now, &out)
			return out
		}
		g.rejoin(g.members[j.MemberID], j, now, &out)
	}
	return out
}

// roomFor reports whether the group may take the member in, within MaxSize.
func (g *Classic) roomFor(memberID string) bool {
	m := g.members[memberID]
	switch g.state {
	case PreparingRebalance:
		if m != nil && m.joined {
			return true
		}
		joined := 0
		for _, m := range g.members {
			if m.joined {
				joined++
			}
		}
		return joined < g.limits.MaxSize
	case CompletingRebalance, Stable:
		return m != nil || len(g.members) < g.limits.MaxSize
	}
	return true
}

func (g *Classic) joinNew(j Join, now time.Time, out *Out) {
	if j.InstanceID != nil {
		if old := g.members[g.statics[*j.InstanceID]]; old != nil {
			g.replace(old, j, now, out)
			return
		}
		g.add(j, j.NewID, now, out)
		return
	}
	if !j.RequireID {
		g.add(j, j.NewID, now, out)
		return
	}
	if len(g.pending) >= g.limits.MaxPending {
		out.join(j.Ticket, JoinAnswer{Code: kafka.GroupMaxSizeReached, Generation: -1})
		return
	}
	g.pending[j.NewID] = now.Add(j.Session)
	out.join(j.Ticket, JoinAnswer{Code: kafka.MemberIDRequired, MemberID: j.NewID, Generation: -1})
}

func (g *Classic) checkJoiner(j Join) kafka.ErrorCode {
	if _, ok := g.pending[j.MemberID]; ok {
		if j.InstanceID != nil {
			return kafka.UnknownMemberID // a static member is never given an id to come back with
		}
		return kafka.None
	}
	return g.check(j.MemberID, j.InstanceID)
}

// check finds out whether the member is who it says: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
func (g *Classic) check(memberID string, instanceID *string) kafka.ErrorCode {
	if instanceID != nil {
		current, ok := g.statics[*instanceID]
		if !ok {
			return kafka.UnknownMemberID
		}
		if current != memberID {
			return kafka.FencedInstanceID
		}
	}
	if g.members[memberID] == nil {
		return kafka.UnknownMemberID
	}
	return kafka.None
}

// add takes a member in and begins a rebalance.
func (g *Classic) add(j Join, id string, now time.Time, out *Out) {
	if len(g.members) == 0 {
		g.protocolType = j.ProtocolType
	}
	if g.state == PreparingRebalance && g.before == Empty {
		g.newcomer = true
	}
	g.insert(&Member{ID: id, InstanceID: j.InstanceID, Client: j.Client, Rebalance: j.Rebalance, Session: j.Session,
		Protocols: j.Protocols, isNew: true, joined: true, join: j.Ticket, deadline: now.Add(g.limits.NewMemberTimeout)})
	g.rebalance(now, out)
}

// update notes that the member wants to be in the next generation.
func (g *Classic) update(m *Member, j Join) (superseded Ticket) {
	g.count(m.Protocols, -1)
	g.count(j.Protocols, 1)
	m.Protocols, m.Session, m.Rebalance, m.Client = j.Protocols, j.Session, j.Rebalance, j.Client
	superseded = m.join
	m.join, m.joined = j.Ticket, true
	return superseded
}

func (g *Classic) updateAndRebalance(m *Member, j Join, now time.Time, out *Out) {
	out.join(g.update(m, j), JoinAnswer{Code: kafka.RebalanceInProgress, MemberID: m.ID, Generation: -1})
	g.rebalance(now, out)
}

// rejoin handles a member that is in the group already.
func (g *Classic) rejoin(m *Member, j Join, now time.Time, out *Out) {
	switch g.state {
	case PreparingRebalance:
		g.updateAndRebalance(m, j, now, out)
	case CompletingRebalance:
		if !m.sameProtocols(j.Protocols) {
			g.updateAndRebalance(m, j, now, out)
			return
		}
		// Its answer was lost, or it has not come to sending SyncGroup: it hears the same again.
		m.join = j.Ticket
		g.answerJoin(m, now, out)
	case Stable:
		if g.leader == m.ID || !m.sameProtocols(j.Protocols) {
			// The leader asks for a rebalance in this way when the topics have changed.
			g.updateAndRebalance(m, j, now, out)
			return
		}
		m.join = j.Ticket
		g.answerJoin(m, now, out)
	default:
		out.join(j.Ticket, JoinAnswer{Code: kafka.UnknownMemberID, MemberID: j.MemberID, Generation: -1})
	}
}

// replace lets a static member come back under a new id. The old id is fenced. In a stable group whose
// protocol stays the same that is no reason for a rebalance.
func (g *Classic) replace(old *Member, j Join, now time.Time, out *Out) {
	oldLeader := g.leader
	g.dismiss(old, kafka.FencedInstanceID, out)
	delete(g.members, old.ID)
	if _, ok := g.unsynced[old.ID]; ok {
		delete(g.unsynced, old.ID)
		g.unsynced[j.NewID] = struct{}{}
	}
	m := old
	m.ID = j.NewID
	g.members[m.ID], g.statics[*m.InstanceID] = m, m.ID
	if oldLeader == old.ID || g.members[oldLeader] == nil {
		g.leader = m.ID
	}
	g.update(m, j)
	m.deadline = now.Add(m.Session)
	if g.state != Stable {
		if g.state == CompletingRebalance {
			g.prepare(now, out)
		} else {
			g.advance(now, out)
		}
		return
	}
	if g.choose() != g.protocol {
		g.prepare(now, out)
		return
	}
	m.join, m.joined, m.isNew = 0, false, false
	answer := JoinAnswer{MemberID: m.ID, Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, Leader: g.leader}
	if j.CanSkip {
		if g.leader == m.ID {
			answer.SkipAssignment, answer.Members = true, g.joinMembers()
		}
	} else {
		// An old client would assign anew if it heard that it leads: it is told the id it had.
		answer.Leader = oldLeader
	}
	out.join(j.Ticket, answer)
	out.Store = true
}

// Sync is a SyncGroup request.
type Sync struct {
	Ticket       Ticket
	MemberID     string
	InstanceID   *string
	Generation   int32
	ProtocolType *string // nil where the client does not say
	Protocol     *string
	Assignments  map[string][]byte // by member id, from the leader
}

// Sync takes the leader's assignments, or a member's wish to hear its own.
func (g *Classic) Sync(s Sync, now time.Time) (out Out) {
	if code := g.checkSync(s); code != kafka.None {
		out.sync(s.Ticket, SyncAnswer{Code: code})
		return out
	}
	m := g.members[s.MemberID]
	switch g.state {
	case CompletingRebalance:
		delete(g.unsynced, m.ID)
		out.sync(m.sync, SyncAnswer{Code: kafka.RebalanceInProgress}) // superseded by this one
		m.sync, m.syncing = s.Ticket, true
		if g.leader == m.ID && !g.assignments {
			for _, other := range g.members {
				other.Assignment = s.Assignments[other.ID]
			}
			g.assignments, out.Store = true, true
		}
	case Stable:
		delete(g.unsynced, m.ID)
		m.deadline = now.Add(m.Session)
		out.sync(s.Ticket, g.syncAnswer(m, kafka.None))
	}
	return out
}

func (g *Classic) checkSync(s Sync) kafka.ErrorCode {
	if g.state == Dead {
		return kafka.CoordinatorNotAvailable
	}
	if code := g.check(s.MemberID, s.InstanceID); code != kafka.None {
		return code
	}
	switch {
	case s.Generation != g.generation:
		return kafka.IllegalGeneration
	case s.ProtocolType != nil && *s.ProtocolType != g.protocolType, s.Protocol != nil && *s.Protocol != g.protocol:
		return kafka.InconsistentGroupProtocol
	case g.state == PreparingRebalance:
		return kafka.RebalanceInProgress
	}
	return kafka.None
}

// Stored says that Snapshot was written: waiting assignments go out and the group is stable.
func (g *Classic) Stored(now time.Time) (out Out) {
	if g.state == CompletingRebalance && g.assignments {
		g.assignments = false
		g.to(Stable, now)
		g.spread(kafka.None, now, &out)
	}
	return out
}

// StoreFailed says that Snapshot could not be written: the assignment is forgotten and the group rebalances.
func (g *Classic) StoreFailed(code kafka.ErrorCode, now time.Time) (out Out) {
	if g.state == CompletingRebalance && g.assignments {
		g.assignments = false
		g.spread(code, now, &out)
		g.prepare(now, &out)
	}
	return out
}

// Heartbeat notes that the member is alive.
func (g *Classic) Heartbeat(memberID string, instanceID *string, generation int32, now time.Time) kafka.ErrorCode {
	if g.state == Dead {
		return kafka.CoordinatorNotAvailable
	}
	if code := g.check(memberID, instanceID); code != kafka.None {
		return code
	}
	if generation != g.generation {
		return kafka.IllegalGeneration
	}
	g.touch(memberID, now)
	if g.state == PreparingRebalance {
		return kafka.RebalanceInProgress
	}
	return kafka.None
}

func (g *Classic) touch(memberID string, now time.Time) {
	if m := g.members[memberID]; m != nil && !m.isNew {
		m.deadline = now.Add(m.Session)
	}
}

// Leaver is a member that leaves or is put out: by its id, by its instance id, or both.
type Leaver struct {
	MemberID   string
	InstanceID *string
}

// Leave takes members out; codes has one for each. Those that stay rebalance.
func (g *Classic) Leave(leavers []Leaver, now time.Time) (codes []kafka.ErrorCode, out Out) {
	changed := false
	for _, l := range leavers {
		before := len(g.members)
		code := g.leave(l, &out)
		changed = changed || len(g.members) < before
		codes = append(codes, code)
	}
	if changed && g.state != Empty {
		g.rebalance(now, &out)
	} else {
		g.advance(now, &out)
	}
	return codes, out
}

func (g *Classic) leave(l Leaver, out *Out) kafka.ErrorCode {
	if g.state == Dead {
		return kafka.CoordinatorNotAvailable
	}
	id := l.MemberID
	if id == "" && l.InstanceID != nil {
		id = g.statics[*l.InstanceID] // an administrator names the instance only
	}
	if _, ok := g.pending[id]; ok && l.InstanceID == nil {
		delete(g.pending, id)
		return kafka.None
	}
	if code := g.check(id, l.InstanceID); code != kafka.None {
		return code
	}
	g.remove(g.members[id], kafka.UnknownMemberID, out)
	return kafka.None
}

// Abandon says that nobody waits under the ticket any more: its connection has gone. The
// member stays until its session ends, for it may come back over another one.
func (g *Classic) Abandon(t Ticket) {
	for _, m := range g.members {
		if m.join == t {
			m.join = 0
		}
		if m.sync == t {
			m.sync = 0
		}
	}
}

// Commit says whether an OffsetCommit may be taken, and counts as a heartbeat. A group without members takes those of
// anybody that claims no generation. transactional is for TxnOffsetCommit.
func (g *Classic) Commit(memberID string, instanceID *string, generation int32, transactional bool, now time.Time) kafka.ErrorCode {
	if g.state == Dead {
		return kafka.CoordinatorNotAvailable
	}
	if generation < 0 && g.state == Empty {
		return kafka.None
	}
	if generation >= 0 || memberID != "" || instanceID != nil {
		if code := g.check(memberID, instanceID); code != kafka.None {
			return code
		}
		if generation != g.generation {
			return kafka.IllegalGeneration
		}
	} else if !transactional {
		return kafka.UnknownMemberID
	}
	if !transactional && g.state == CompletingRebalance {
		return kafka.RebalanceInProgress
	}
	if g.state == Stable || g.state == PreparingRebalance {
		g.touch(memberID, now)
	}
	return kafka.None
}

// Rebalance makes all members join again.
func (g *Classic) Rebalance(now time.Time) (out Out) {
	if g.state != Dead && g.state != Empty {
		g.rebalance(now, &out)
	}
	return out
}

// Kill makes the group Dead and answers everybody.
func (g *Classic) Kill(code kafka.ErrorCode, now time.Time) (out Out) {
	for _, m := range g.Members() {
		g.dismiss(m, code, &out)
	}
	g.to(Dead, now)
	return out
}

// Next is the first moment at which Tick has something to do; zero for never.
func (g *Classic) Next() time.Time {
	var next time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if g.state == Dead {
		return next
	}
	sooner(g.joinBy)
	sooner(g.syncBy)
	for _, t := range g.pending {
		sooner(t)
	}
	for _, m := range g.members {
		if m.watched() {
			sooner(m.deadline)
		}
	}
	return next
}

// Tick does what is due: members that were not heard of go, phases that have lasted long enough end.
func (g *Classic) Tick(now time.Time) (out Out) {
	due := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	if g.state == Dead {
		return out
	}
	for id, t := range g.pending {
		if due(t) {
			delete(g.pending, id)
			g.advance(now, &out)
		}
	}
	lost := false
	for _, m := range g.Members() {
		if m.watched() && due(m.deadline) {
			g.remove(m, kafka.UnknownMemberID, &out)
			lost = true
		}
	}
	if lost && g.state != Empty {
		g.rebalance(now, &out)
	}
	if g.state == PreparingRebalance && due(g.joinBy) {
		g.joinTime(now, &out)
	}
	if due(g.syncBy) {
		g.syncTime(now, &out)
	}
	return out
}

// syncTime drops the members that have joined and then never asked for their assignment.
func (g *Classic) syncTime(now time.Time, out *Out) {
	g.syncBy = time.Time{}
	if len(g.unsynced) == 0 || g.state != CompletingRebalance && g.state != Stable {
		return
	}
	for _, m := range g.Members() {
		if _, ok := g.unsynced[m.ID]; ok {
			g.remove(m, kafka.UnknownMemberID, out)
		}
	}
	g.prepare(now, out)
}
