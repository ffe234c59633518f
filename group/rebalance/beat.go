package rebalance

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// Catalog is the topics there are, at one revision.
type Catalog interface {
	Revision() int64
	// Topic finds a topic by name.
	Topic(name string) (id kafka.TopicID, partitions int32, ok bool)
}

// Beat is a ConsumerGroupHeartbeat. Fields that are nil have not changed since the member's last one.
type Beat struct {
	MemberID   string // never empty
	InstanceID *string
	RackID     *string
	Client     Client
	Epoch      int32
	Rebalance  time.Duration // negative: not said
	Topics     []string      // nil: not said
	Regex      *string       // nil: not said; empty: none
	Assignor   *string
	Owned      *Assignment // what the member has; nil: not said
	// Resolve matches a regular expression against the topics that the member may see. It is asked only when that is needed.
	Resolve func(regex string) ([]string, error)
}

// BeatAnswer answers a heartbeat. Assignment is nil where the member has it already.
type BeatAnswer struct {
	Code       kafka.ErrorCode
	Message    string
	Epoch      int32
	Assignment *Assignment
}

func refuse(code kafka.ErrorCode, format string, args ...any) BeatAnswer {
	return BeatAnswer{Code: code, Message: fmt.Sprintf(format, args...)}
}

// draft is a group on which changes are tried. It is copied before the first one.
type draft struct {
	*Consumer
	copied  bool
	changes []Change
}

func (d *draft) do(list ...Change) {
	if !d.copied {
		d.Consumer, d.copied = d.Consumer.clone(), true
	}
	for _, c := range list {
		d.Apply(c)
	}
	d.changes = append(d.changes, list...)
}

// regexEvery bounds how often expressions are matched again because topics have changed.
const regexEvery = 10 * time.Second

// Beat decides about a heartbeat: which changes to store, and what to answer once they are. When they are, or if
// there are none and the answer is no error, Heard is due.
func (g *Consumer) Beat(b Beat, topics Catalog, now time.Time) ([]Change, BeatAnswer) {
	if b.Epoch < 0 {
		return g.leaveBeat(b)
	}
	d := &draft{Consumer: g}
	before, bad := d.admit(b)
	if bad.Code != kafka.None {
		return nil, bad
	}
	wants := d.subscription(before, b)
	changed := before == nil || !before.sameTopics(wants)
	if before == nil || !before.subscribed || !before.Subscription.equal(wants) {
		d.do(Change{Member: b.MemberID, Put: &wants})
	}
	matched, bad := d.resolve(b, wants.Regex, topics.Revision(), now)
	if bad.Code != kafka.None {
		return nil, bad
	}
	seen := d.catchUp(changed || matched, topics)
	d.reconcile(b.MemberID, b.Owned)
	if !d.copied {
		g.seen = seen // nothing changed: the cache is good for the next heartbeat
	}
	after := d.members[b.MemberID]
	answer := BeatAnswer{Epoch: after.Epoch}
	full := b.Rebalance >= 0 && (b.Topics != nil || b.Regex != nil) && b.Owned != nil
	if b.Epoch == EpochJoin || full || before == nil || !before.Assigned.Equal(after.Assigned) {
		answer.Assignment = &after.Assigned
	}
	return d.changes, answer
}

// admit finds the member, or takes its place in: nil for a new one. A static member that comes back under another id
// takes over what the old one had.
func (d *draft) admit(b Beat) (*ConsumerMember, BeatAnswer) {
	if b.InstanceID != nil {
		if id, ok := d.statics[*b.InstanceID]; ok {
			return d.admitStatic(d.members[id], b)
		}
		if b.Epoch != EpochJoin {
			return nil, refuse(kafka.UnknownMemberID, "Instance id %s is unknown.", *b.InstanceID)
		}
	}
	m := d.members[b.MemberID]
	if m != nil && b.Epoch == EpochJoin {
		return d.again(m), BeatAnswer{}
	}
	if m != nil {
		return m, d.checkEpoch(m, b)
	}
	if b.Epoch != EpochJoin {
		return nil, refuse(kafka.UnknownMemberID, "Member %s is not a member of the group.", b.MemberID)
	}
	if len(d.members) >= d.limits.MaxSize {
		return nil, refuse(kafka.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.",
			d.limits.MaxSize)
	}
	return nil, BeatAnswer{}
}

// again lets a member begin anew under its id: it has been fenced, or the answer to its first heartbeat was lost. It says
// that it has no partitions, so that those it had are its to take, or free.
func (d *draft) again(m *ConsumerMember) *ConsumerMember {
	if m.Epoch != EpochJoin {
		back := Current{Assigned: m.Assigned}
		d.do(Change{Member: m.ID, Now: &back})
	}
	return d.members[m.ID]
}

func (d *draft) admitStatic(old *ConsumerMember, b Beat) (*ConsumerMember, BeatAnswer) {
	switch {
	case old.ID == b.MemberID && b.Epoch == EpochJoin:
		return d.again(old), BeatAnswer{}
	case (old.Epoch == EpochLeaveStatic || old.Classic != nil) && b.Epoch == EpochJoin:
	case old.ID == b.MemberID:
		return old, d.checkEpoch(old, b)
	case b.Epoch == EpochJoin:
		return nil, refuse(kafka.UnreleasedInstanceID,
			"Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.",
			b.MemberID, *b.InstanceID, old.ID)
	default:
		return nil, refuse(kafka.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.",
			b.MemberID, *b.InstanceID, old.ID)
	}
	d.succeed(old, b.MemberID)
	return d.members[b.MemberID], BeatAnswer{}
}

// checkEpoch accepts the member's epoch, or the one before it if the answer that raised it was lost.
func (d *draft) checkEpoch(m *ConsumerMember, b Beat) BeatAnswer {
	switch {
	case b.Epoch == m.Epoch:
		return BeatAnswer{}
	case b.Epoch > m.Epoch:
		return refuse(kafka.FencedMemberEpoch, "The consumer group member has a greater member epoch (%d) than the one known by "+
			"the group coordinator (%d). The member must abandon all its partitions and rejoin.", b.Epoch, m.Epoch)
	case b.Epoch == m.Previous && b.Owned != nil && b.Owned.within(m.Assigned):
		return BeatAnswer{}
	}
	return refuse(kafka.FencedMemberEpoch, "The consumer group member has a smaller member epoch (%d) than the one known by "+
		"the group coordinator (%d). The member must abandon all its partitions and rejoin.", b.Epoch, m.Epoch)
}

// subscription is the member's with what the heartbeat changes in it.
func (d *draft) subscription(m *ConsumerMember, b Beat) Subscription {
	var s Subscription
	if m != nil {
		s = m.Subscription
	}
	s.Client, s.Classic = b.Client, nil
	if b.InstanceID != nil {
		s.InstanceID = b.InstanceID
	}
	if b.RackID != nil {
		s.RackID = b.RackID
	}
	if b.Rebalance >= 0 {
		s.Rebalance = b.Rebalance
	}
	if b.Topics != nil {
		s.Topics = slices.Compact(slices.Sorted(slices.Values(b.Topics)))
	}
	if b.Regex != nil {
		s.Regex = *b.Regex
	}
	if b.Assignor != nil {
		s.Assignor = *b.Assignor
	}
	return s
}

// resolve matches the member's expression if that was never done, or topics have changed since, and
// forgets expressions that nobody has any more. true if topics came or went.
func (d *draft) resolve(b Beat, regex string, revision int64, now time.Time) (bool, BeatAnswer) {
	used := map[string]bool{}
	if len(d.regexes) > 0 {
		for _, m := range d.members {
			used[m.Regex] = true
		}
	}
	for _, known := range slices.Sorted(maps.Keys(d.regexes)) {
		if !used[known] {
			delete(d.matched, known)
			d.do(Change{Regex: known})
		}
	}
	if regex == "" {
		return false, BeatAnswer{}
	}
	had, ok := d.regexes[regex]
	if last := d.matched[regex]; ok && (last.revision == revision || now.Sub(last.at) < regexEvery) {
		return false, BeatAnswer{}
	}
	names, err := b.Resolve(regex)
	if err != nil {
		return false, refuse(kafka.InvalidRegularExpression, "SubscribedTopicRegex `%s` is not a valid regular expression: %v.", regex, err)
	}
	d.matched[regex] = match{revision, now}
	slices.Sort(names)
	if ok && slices.Equal(had.Topics, names) {
		return false, BeatAnswer{}
	}
	d.do(Change{Regex: regex, Topics: &Resolved{names, revision, now}})
	return true, BeatAnswer{}
}

// view is the subscribed topics at one revision of the catalog.
type view struct {
	revision int64
	hash     int64
	counts   map[kafka.TopicID]int32
	ids      map[string]kafka.TopicID
}

// look finds the subscribed topics, or takes what it found before if nothing has changed.
func (d *draft) look(topics Catalog) *view {
	if d.seen != nil && d.seen.revision == topics.Revision() {
		return d.seen
	}
	names := map[string]struct{}{}
	for _, m := range d.members {
		for _, name := range m.Topics {
			names[name] = struct{}{}
		}
		for _, name := range d.regexes[m.Regex].Topics {
			names[name] = struct{}{}
		}
	}
	v := &view{revision: topics.Revision(), counts: map[kafka.TopicID]int32{}, ids: map[string]kafka.TopicID{}}
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		id, n, ok := topics.Topic(name)
		if !ok {
			continue
		}
		v.counts[id], v.ids[name] = n, id
		_, _ = h.Write(binary.BigEndian.AppendUint32(append([]byte(name), id[:]...), uint32(n)))
	}
	if len(v.ids) > 0 {
		v.hash = int64(h.Sum64())
	}
	return v
}

// plan computes the target for the group's epoch.
func (d *draft) plan(seen *view) {
	var wishes []wish
	for _, m := range d.Members() {
		w := wish{member: m.ID, order: m.ID}
		if m.InstanceID != nil {
			w.order = *m.InstanceID
		}
		for _, name := range d.topicsOf(m) {
			if id, ok := seen.ids[name]; ok {
				w.topics = append(w.topics, id)
			}
		}
		wishes = append(wishes, w)
	}
	plan := assign(d.Assignor(), wishes, seen.counts, d.targets)
	for _, m := range d.Members() {
		next := plan[m.ID]
		if had, ok := d.targets[m.ID]; !ok || !had.Equal(next) {
			d.do(Change{Member: m.ID, Assign: &next})
		}
	}
	epoch := d.epoch
	d.do(Change{Target: &epoch})
}

func (g *Consumer) topicsOf(m *ConsumerMember) []string {
	names := slices.Concat(m.Topics, g.regexes[m.Regex].Topics)
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// Assignor is the one that most members that care want; the first by name of equals.
func (g *Consumer) Assignor() string {
	votes := map[string]int{}
	for _, m := range g.members {
		if m.Subscription.Assignor != "" {
			votes[m.Subscription.Assignor]++
		}
	}
	best := Uniform
	for _, name := range slices.SortedFunc(maps.Keys(votes), func(a, b string) int { return cmp.Compare(a, b) }) {
		if votes[best] < votes[name] {
			best = name
		}
	}
	return best
}

// reconcile moves a member towards the target: first it gives up, then its epoch rises, then it gets what is free.
func (d *draft) reconcile(id string, owned *Assignment) {
	m := d.members[id]
	epoch := m.Epoch
	switch m.State {
	case MemberStable:
		if m.Epoch == d.target {
			return
		}
	case MemberUnrevoked:
		if owned == nil || owned.meets(m.Revoking) {
			return
		}
		epoch++ // it has given up: the next epoch is its
	}
	next := d.next(m, epoch, owned)
	if !next.equal(m.Current) {
		d.do(Change{Member: id, Now: &next})
	}
}

func (d *draft) next(m *ConsumerMember, epoch int32, owned *Assignment) Current {
	target := d.targets[m.ID]
	kept, revoking, taken := Assignment{}, Assignment{}, Assignment{}
	for topic, list := range m.Assigned {
		for _, p := range list {
			if target.has(topic, p) {
				kept[topic] = append(kept[topic], p)
			} else {
				revoking[topic] = append(revoking[topic], p)
			}
		}
	}
	unreleased := false
	for topic, list := range target {
		for _, p := range list {
			switch owner := d.owners[topic][p]; {
			case m.Assigned.has(topic, p):
			case owner == "" || owner == m.ID:
				taken[topic] = append(taken[topic], p)
			default:
				unreleased = true
			}
		}
	}
	next := Current{Epoch: d.target, Previous: m.Epoch, Assigned: kept}
	if len(revoking) > 0 && (owned == nil || owned.meets(revoking)) {
		next.Epoch, next.State, next.Revoking = epoch, MemberUnrevoked, revoking
		if epoch == m.Epoch {
			next.Previous = m.Previous
		}
		return next
	}
	if next.Epoch == m.Epoch {
		next.Previous = m.Previous
	}
	for topic, list := range taken {
		kept[topic] = slices.Sorted(slices.Values(slices.Concat(kept[topic], list)))
	}
	if unreleased {
		next.State = MemberUnreleased
	}
	return next
}

// meets reports whether two assignments share a partition.
func (a Assignment) meets(b Assignment) bool {
	for topic, list := range b {
		for _, p := range list {
			if a.has(topic, p) {
				return true
			}
		}
	}
	return false
}

// leaveBeat takes a member out for good, or notes that a static one is away.
func (g *Consumer) leaveBeat(b Beat) ([]Change, BeatAnswer) {
	id := b.MemberID
	if b.InstanceID != nil {
		known, ok := g.statics[*b.InstanceID]
		switch {
		case !ok:
			return nil, refuse(kafka.UnknownMemberID, "Instance id %s is unknown.", *b.InstanceID)
		case known != id:
			return nil, refuse(kafka.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.",
				id, *b.InstanceID, known)
		}
	}
	m := g.members[id]
	if m == nil {
		return nil, refuse(kafka.UnknownMemberID, "Member %s is not a member of the group.", id)
	}
	if b.Epoch == EpochLeaveStatic {
		away := Current{Epoch: EpochLeaveStatic, Previous: m.Epoch, Assigned: m.Assigned}
		return []Change{{Member: id, Now: &away}}, BeatAnswer{Epoch: EpochLeaveStatic}
	}
	return g.Remove(id), BeatAnswer{Epoch: EpochLeave}
}

// Remove takes members out and raises the group's epoch, so that the others share what they had.
func (g *Consumer) Remove(ids ...string) []Change {
	var list []Change
	for _, id := range ids {
		if g.members[id] != nil {
			list = append(list, g.removal(id)...)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return append(list, Change{Epoch: &EpochChange{g.epoch + 1, g.hash}})
}

// Tick takes out the members whose session has ended, or that have not given up in time what they were asked to.
func (g *Consumer) Tick(now time.Time) []Change {
	var late []string
	for _, m := range g.Members() {
		session, ok := g.sessions[m.ID]
		r, revoking := g.revokes[m.ID]
		stuck := m.Epoch == r.epoch && (m.State == MemberUnrevoked || m.Classic != nil)
		if ok && !now.Before(session) || revoking && !now.Before(r.by) && stuck {
			late = append(late, m.ID)
		} else if revoking && !now.Before(r.by) {
			delete(g.revokes, m.ID)
		}
	}
	return g.Remove(late...)
}
