package rebalance

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// ConsumerState is where a group of the consumer protocol stands. It is computed, never stored.
type ConsumerState string

// The states, by Kafka's names.
const (
	ConsumerEmpty       ConsumerState = "Empty"
	ConsumerAssigning   ConsumerState = "Assigning"   // a new target is to be computed
	ConsumerReconciling ConsumerState = "Reconciling" // members are on the way to the target
	ConsumerStable      ConsumerState = "Stable"
)

// MemberState is where a member stands between its assignment and the target, with Kafka's numbers.
type MemberState int8

// The member's states.
const (
	MemberStable     MemberState = 0 // it has what the target gives it, as of its epoch
	MemberUnrevoked  MemberState = 1 // it must give partitions up before it goes on
	MemberUnreleased MemberState = 2 // it waits for partitions that others have not given up
)

// Epochs that mean something else than an epoch.
const (
	EpochJoin        = 0  // the member (re)joins
	EpochLeave       = -1 // it leaves for good
	EpochLeaveStatic = -2 // a static member leaves for a while and keeps its partitions
)

// Assignment is partitions by topic, each list rising. It is never changed in place.
type Assignment map[kafka.TopicID][]int32

// Equal reports whether two assignments hold the same partitions.
func (a Assignment) Equal(b Assignment) bool { return maps.EqualFunc(a, b, slices.Equal[[]int32]) }

// Topics lists the topics in an order that stays the same.
func (a Assignment) Topics() []kafka.TopicID {
	return slices.SortedFunc(maps.Keys(a), func(x, y kafka.TopicID) int { return slices.Compare(x[:], y[:]) })
}

func (a Assignment) has(topic kafka.TopicID, p int32) bool {
	_, ok := slices.BinarySearch(a[topic], p)
	return ok
}

// within reports whether all of a is in b.
func (a Assignment) within(b Assignment) bool {
	for topic, list := range a {
		for _, p := range list {
			if !b.has(topic, p) {
				return false
			}
		}
	}
	return true
}

// Subscription is what is stored about a member.
type Subscription struct {
	InstanceID *string // nil for a dynamic member
	RackID     *string
	Client     Client
	Topics     []string
	Regex      string // of topic names; empty for none
	Rebalance  time.Duration
	Assignor   string         // wanted server-side assignor; empty for the default
	Classic    *ClassicMember // of a member of the classic protocol, else nil
}

func (s Subscription) sameTopics(o Subscription) bool {
	return slices.Equal(s.Topics, o.Topics) && s.Regex == o.Regex
}

func (s Subscription) equal(o Subscription) bool {
	same := func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
	return s.sameTopics(o) && same(s.InstanceID, o.InstanceID) && same(s.RackID, o.RackID) && s.Client == o.Client &&
		s.Rebalance == o.Rebalance && s.Assignor == o.Assignor && s.Classic.equal(o.Classic)
}

// Current is what a member has.
type Current struct {
	Epoch, Previous int32
	State           MemberState
	Assigned        Assignment
	Revoking        Assignment // what it must give up
}

func (c Current) equal(o Current) bool {
	return c.Epoch == o.Epoch && c.Previous == o.Previous && c.State == o.State && c.Assigned.Equal(o.Assigned) &&
		c.Revoking.Equal(o.Revoking)
}

// ConsumerMember is one member.
type ConsumerMember struct {
	ID string
	Subscription
	Current
	subscribed bool // its subscription is stored; false while only its assignment was read
}

// Resolved is the topics that a regular expression stood for.
type Resolved struct {
	Topics   []string // rising
	Revision int64    // of the catalog it was matched against
	At       time.Time
}

// Change is one stored record of a group; exactly one of the pointers, or one of the
// flags, says which. Apply is what it does.
type Change struct {
	Member string // whose record it is, where it is a member's

	Epoch  *EpochChange  // the group's epoch
	Target *int32        // the epoch of the target
	Put    *Subscription // member
	Gone   bool          // member removed
	Assign *Assignment   // member's target
	Unplan bool          // member's target removed
	Now    *Current      // member's assignment
	Drop   bool          // member's assignment removed
	Regex  string        // a regular expression
	Topics *Resolved     // what it stands for; nil with Regex: forgotten
}

// EpochChange raises the group's epoch; Hash is of the subscribed topics' metadata it was raised with.
type EpochChange struct {
	Epoch int32
	Hash  int64
}

// ConsumerLimits are what bounds a group of the consumer protocol.
type ConsumerLimits struct {
	Session time.Duration // group.consumer.session.timeout.ms
	MaxSize int           // group.consumer.max.size
}

// Consumer is a group of the consumer protocol (KIP-848), in which the broker assigns: members say in
// heartbeats what they want and have, and hear what to give up and take. Beat, Tick and Leave
// only decide and return changes; once these are stored, Apply makes them. What is not stored are timers.
type Consumer struct {
	limits  ConsumerLimits
	epoch   int32
	hash    int64
	target  int32 // epoch of the target
	members map[string]*ConsumerMember
	statics map[string]string     // member id by instance id
	targets map[string]Assignment // by member id
	regexes map[string]Resolved
	owners  map[kafka.TopicID]map[int32]string // who has a partition, or has still to give it up

	sessions map[string]time.Time // when a member is dropped unless heard of
	revokes  map[string]revoke    // when a member must have given up what it was asked to
	matched  map[string]match     // when expressions were last matched; a clone shares it
	seen     *view                // cache: the subscribed topics at one revision of the catalog
}

type match struct {
	revision int64
	at       time.Time
}

type revoke struct {
	epoch int32
	by    time.Time
}

// NewConsumer makes an empty group.
func NewConsumer(limits ConsumerLimits) *Consumer {
	return &Consumer{limits: limits, members: map[string]*ConsumerMember{}, statics: map[string]string{}, targets: map[string]Assignment{},
		regexes: map[string]Resolved{}, owners: map[kafka.TopicID]map[int32]string{}, sessions: map[string]time.Time{},
		revokes: map[string]revoke{},
		matched: map[string]match{}}
}

// Limit changes what bounds the group. A session under way keeps its end until the member is heard again.
func (g *Consumer) Limit(limits ConsumerLimits) { g.limits = limits }

// clone is a copy to try changes on. Timers are left out.
func (g *Consumer) clone() *Consumer {
	c := *g
	c.members, c.statics, c.targets = maps.Clone(g.members), maps.Clone(g.statics), maps.Clone(g.targets)
	c.regexes = maps.Clone(g.regexes)
	c.owners = make(map[kafka.TopicID]map[int32]string, len(g.owners))
	for topic, list := range g.owners {
		c.owners[topic] = maps.Clone(list)
	}
	c.sessions, c.revokes = map[string]time.Time{}, map[string]revoke{}
	return &c
}

// Apply makes a stored change. It is the one place where stored state changes.
func (g *Consumer) Apply(c Change) {
	switch {
	case c.Epoch != nil:
		g.epoch, g.hash = c.Epoch.Epoch, c.Epoch.Hash
	case c.Target != nil:
		g.target = *c.Target
	case c.Put != nil:
		g.put(c.Member, *c.Put)
	case c.Gone:
		g.gone(c.Member)
	case c.Assign != nil:
		g.targets[c.Member] = *c.Assign
	case c.Unplan:
		delete(g.targets, c.Member)
	case c.Now != nil:
		g.move(c.Member, *c.Now)
	case c.Drop:
		if g.members[c.Member] != nil {
			g.move(c.Member, Current{})
		}
	case c.Topics != nil:
		g.regexes[c.Regex], g.seen = *c.Topics, nil
	default:
		delete(g.regexes, c.Regex)
		g.seen = nil
	}
}

// member is the member to change: a copy, so that a clone of the group is not touched.
func (g *Consumer) member(id string) *ConsumerMember {
	m := ConsumerMember{ID: id}
	if old := g.members[id]; old != nil {
		m = *old
	}
	g.members[id] = &m
	return &m
}

func (g *Consumer) put(id string, s Subscription) {
	m := g.member(id)
	if old := m.InstanceID; old != nil && g.statics[*old] == id {
		delete(g.statics, *old)
	}
	m.Subscription, m.subscribed = s, true
	if s.InstanceID != nil {
		g.statics[*s.InstanceID] = id
	}
	g.seen = nil
}

func (g *Consumer) gone(id string) {
	m := g.members[id]
	if m == nil {
		return
	}
	g.move(id, Current{})
	if m.InstanceID != nil && g.statics[*m.InstanceID] == id {
		delete(g.statics, *m.InstanceID)
	}
	delete(g.members, id)
	delete(g.sessions, id)
	delete(g.revokes, id)
	g.seen = nil
}

func (g *Consumer) move(id string, to Current) {
	m := g.member(id)
	for _, held := range []Assignment{m.Assigned, m.Revoking} {
		for topic, list := range held {
			for _, p := range list {
				if g.owners[topic][p] == id {
					delete(g.owners[topic], p)
				}
			}
			if len(g.owners[topic]) == 0 {
				delete(g.owners, topic)
			}
		}
	}
	m.Current = to
	for _, held := range []Assignment{to.Assigned, to.Revoking} {
		for topic, list := range held {
			if g.owners[topic] == nil {
				g.owners[topic] = map[int32]string{}
			}
			for _, p := range list {
				g.owners[topic][p] = id
			}
		}
	}
}

// Wake starts the sessions of members that were read from the log, and forgets what is left of
// members whose subscription was not read: their records are the rest of a removal.
func (g *Consumer) Wake(now time.Time) {
	for id, m := range g.members {
		if !m.subscribed {
			g.gone(id)
			continue
		}
		g.Heard(id, now)
	}
}

// Heard starts the member's session anew, and watches what it has to give up.
func (g *Consumer) Heard(id string, now time.Time) {
	m := g.members[id]
	if m == nil {
		return
	}
	session := g.limits.Session
	if m.Classic != nil {
		session = m.Classic.Session
	}
	g.sessions[id] = now.Add(session)
	if r, ok := g.revokes[id]; m.Classic != nil && ok && r.epoch == m.Epoch {
		return // it has been told to join again
	}
	if m.State != MemberUnrevoked {
		delete(g.revokes, id)
	} else if r, ok := g.revokes[id]; !ok || r.epoch != m.Epoch {
		g.revokes[id] = revoke{m.Epoch, now.Add(m.Rebalance)}
	}
}

// After is the group as it would be with the changes, without timers.
func (g *Consumer) After(changes []Change) *Consumer {
	if len(changes) == 0 {
		return g
	}
	c := g.clone()
	for _, change := range changes {
		c.Apply(change)
	}
	return c
}

// Epoch and TargetEpoch, State, Assignor, Members and TargetOf describe the group.
func (g *Consumer) Epoch() int32                     { return g.epoch }
func (g *Consumer) TargetEpoch() int32               { return g.target }
func (g *Consumer) TargetOf(id string) Assignment    { return g.targets[id] }
func (g *Consumer) Member(id string) *ConsumerMember { return g.members[id] }

// Members lists the members by id. They are the group's own: read only.
func (g *Consumer) Members() []*ConsumerMember {
	return slices.SortedFunc(maps.Values(g.members), func(a, b *ConsumerMember) int { return cmp.Compare(a.ID, b.ID) })
}

// State is computed from epochs and members.
func (g *Consumer) State() ConsumerState {
	switch {
	case len(g.members) == 0:
		return ConsumerEmpty
	case g.epoch > g.target:
		return ConsumerAssigning
	}
	for _, m := range g.members {
		if m.State != MemberStable || m.Epoch != g.target {
			return ConsumerReconciling
		}
	}
	return ConsumerStable
}

// Subscribed reports whether a member wants the topic.
func (g *Consumer) Subscribed(topic string) bool {
	for _, m := range g.members {
		if slices.Contains(m.Topics, topic) || m.Regex != "" && slices.Contains(g.regexes[m.Regex].Topics, topic) {
			return true
		}
	}
	return false
}

// Everything is the changes that undo all that is stored about the group.
func (g *Consumer) Everything() []Change {
	var list []Change
	for _, m := range g.Members() {
		list = append(list, g.removal(m.ID)...)
	}
	for _, regex := range slices.Sorted(maps.Keys(g.regexes)) {
		list = append(list, Change{Regex: regex})
	}
	return list
}

func (g *Consumer) removal(id string) []Change {
	return []Change{{Member: id, Drop: true}, {Member: id, Unplan: true}, {Member: id, Gone: true}}
}

// Commit says whether an OffsetCommit may be taken. A group without members takes those of anybody that claims no epoch.
func (g *Consumer) Commit(memberID string, instanceID *string, epoch int32, transactional bool) kafka.ErrorCode {
	anonymous := epoch < 0 && memberID == "" && instanceID == nil
	if epoch < 0 && len(g.members) == 0 || transactional && anonymous {
		return kafka.None
	}
	return g.CheckEpoch(memberID, epoch)
}

// CheckEpoch says whether the member is in the group under the epoch.
func (g *Consumer) CheckEpoch(memberID string, epoch int32) kafka.ErrorCode {
	m := g.members[memberID]
	switch {
	case m == nil:
		return kafka.UnknownMemberID
	case m.Epoch != epoch && m.Classic != nil:
		return kafka.IllegalGeneration
	case m.Epoch != epoch:
		return kafka.StaleMemberEpoch
	}
	return kafka.None
}

// Next is the first moment at which Tick has something to do; zero for never.
func (g *Consumer) Next() time.Time {
	var next time.Time
	for _, t := range g.sessions {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, r := range g.revokes {
		if next.IsZero() || r.by.Before(next) {
			next = r.by
		}
	}
	return next
}
