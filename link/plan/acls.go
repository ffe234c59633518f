package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hawserio/hawser/kafka"
)

// ACL is an access control list entry, in Kafka's words (TOPIC, PREFIXED, READ, ALLOW).
type ACL struct {
	ResourceType, Resource, PatternType string
	Principal, Host                     string
	Operation, Permission               string
}

// String is the entry for a person.
func (a ACL) String() string {
	return fmt.Sprintf("%s %s %s on %s %s %s from %s", a.Permission, a.Principal, a.Operation, a.PatternType, a.ResourceType,
		a.Resource, a.Host)
}

// known is false for an entry with a word that a newer Kafka has and this version has not.
func (a ACL) known() bool {
	return !slices.ContainsFunc([]string{a.ResourceType, a.PatternType, a.Operation, a.Permission}, func(word string) bool {
		return strings.HasPrefix(word, kafka.UnknownACLOperation)
	})
}

// Words of ACLs.
const (
	aclTopic    = "TOPIC"
	aclGroup    = "GROUP"
	aclDeny     = "DENY"
	aclEvery    = "*"
	aclLiteral  = "LITERAL"
	aclPrefixed = "PREFIXED"
)

// ACLFacts is a source's ACLs beside this cluster's.
type ACLFacts struct {
	Source      []ACL
	FromHere    func(ACL) bool // whether the source copied one from this very cluster; nil: none
	Match       func(ACL) bool // acl.filters, on the source's names
	Copied      []ACL          // those here that this link copied
	Others      []ACL          // those here that somebody else made
	TopicPrefix string         // the link's prefix
	GroupPrefix string         // the same if groups are prefixed, else ""
}

// ACLChange makes or removes an entry.
type ACLChange struct {
	ACL    ACL
	Remove bool
}

// SyncACLs lists what to change, in an order in which a DENY never lags behind an ALLOW (case C39): first ALLOWs go, then DENYs
// come, then ALLOWs come, and DENYs go last. Only what this link copied is removed, and only while the filters still match
// it; what is here already by another hand stays as it is. What this cluster gave to the source does not come back: two links that
// copy in both directions would keep an entry alive between them that was removed where it was made. With a prefix names are
// rewritten, and entries for every resource (`*`) are not copied but reported: they would speak of this cluster's own topics. So
// are entries with a word that is not known here.
func SyncACLs(f ACLFacts) (changes []ACLChange, problems []Problem) {
	want := map[ACL]bool{}
	for _, a := range f.Source {
		if !f.Match(a) || f.FromHere != nil && f.FromHere(a) {
			continue
		}
		if !a.known() {
			problems = append(problems, Problem{codeInvalidRequest,
				fmt.Sprintf("not copied, as this version does not know what it allows or denies: %s", a)})
			continue
		}
		here, ok := f.rename(a)
		if !ok {
			problems = append(problems, Problem{codeInvalidRequest, fmt.Sprintf("not copied over a link with a prefix: %s", a)})
			continue
		}
		want[here] = true
	}
	have := map[ACL]bool{}
	for _, a := range f.Others {
		have[a] = true
	}
	for _, a := range f.Copied {
		have[a] = true
		if source, ours := f.unname(a); ours && !want[a] && f.Match(source) {
			changes = append(changes, ACLChange{a, true})
		}
	}
	for a := range want {
		if !have[a] {
			changes = append(changes, ACLChange{a, false})
		}
	}
	slices.SortFunc(changes, func(a, b ACLChange) int {
		x, y := a.ACL, b.ACL
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(x.ResourceType, y.ResourceType), cmp.Compare(x.Resource, y.Resource),
			cmp.Compare(x.PatternType, y.PatternType), cmp.Compare(x.Principal, y.Principal), cmp.Compare(x.Host, y.Host),
			cmp.Compare(x.Operation, y.Operation), cmp.Compare(x.Permission, y.Permission))
	})
	return changes, problems
}

// Confirmed drops the removals that a second answer of the source does not bear out: a broker that is only catching up, or has
// lost its metadata, shows too little, and a DENY that went for that would let somebody in. second is what SyncACLs makes of that answer.
func Confirmed(changes, second []ACLChange) []ACLChange {
	again := make(map[ACLChange]bool, len(second))
	for _, c := range second {
		again[c] = true
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c ACLChange) bool { return c.Remove && !again[c] })
}

// Removes reports whether any change takes an entry away.
func Removes(changes []ACLChange) bool {
	return slices.ContainsFunc(changes, func(c ACLChange) bool { return c.Remove })
}

// Held is how many entries a link holds once the changes are made, of those that it holds now.
func Held(now int, changes []ACLChange) int {
	for _, c := range changes {
		if c.Remove {
			now--
		} else {
			now++
		}
	}
	return now
}

func rank(c ACLChange) int {
	switch deny := c.ACL.Permission == aclDeny; {
	case c.Remove && !deny:
		return 0
	case !c.Remove && deny:
		return 1
	case !c.Remove:
		return 2
	default:
		return 3
	}
}

func (f ACLFacts) prefixFor(a ACL) string {
	switch a.ResourceType {
	case aclTopic:
		return f.TopicPrefix
	case aclGroup:
		return f.GroupPrefix
	}
	return ""
}

// rename is the entry with this cluster's names; false for one that cannot be said with a prefix.
func (f ACLFacts) rename(a ACL) (ACL, bool) {
	prefix := f.prefixFor(a)
	if prefix == "" {
		return a, true
	}
	if a.Resource == aclEvery || a.PatternType != aclLiteral && a.PatternType != aclPrefixed {
		return a, false
	}
	a.Resource = prefix + a.Resource
	return a, true
}

// unname is rename backwards.
func (f ACLFacts) unname(a ACL) (ACL, bool) {
	name, is := strings.CutPrefix(a.Resource, f.prefixFor(a))
	a.Resource = name
	return a, is
}
