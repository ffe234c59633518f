package rebalance

import (
	"cmp"
	"maps"
	"slices"

	"github.com/hawserio/hawser/kafka"
)

// The server-side assignors, by Kafka's names.
const (
	Uniform = "uniform" // even and sticky; the default
	Range   = "range"   // neighbouring partitions of each topic together, the same numbers of equal topics to the same member
)

// KnownAssignor reports whether a member may ask for the assignor.
func KnownAssignor(name string) bool { return name == Uniform || name == Range }

// wish is what a member may get, for assigning.
type wish struct {
	member string
	order  string // instance id or member id: members in this order
	topics []kafka.TopicID
}

// assign shares the topics' partitions out to the members that want them. had is what each was given before.
func assign(assignor string, wishes []wish, counts map[kafka.TopicID]int32, had map[string]Assignment) map[string]Assignment {
	slices.SortFunc(wishes, func(a, b wish) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.member, b.member)) })
	if assignor == Range {
		return assignRange(wishes, counts)
	}
	return assignUniform(wishes, counts, had)
}

// wanted lists who wants each topic, as indexes into wishes, and the topics in an order that stays the same.
func wanted(wishes []wish) ([]kafka.TopicID, map[kafka.TopicID][]int) {
	by := map[kafka.TopicID][]int{}
	for i, w := range wishes {
		for _, topic := range w.topics {
			by[topic] = append(by[topic], i)
		}
	}
	topics := slices.SortedFunc(maps.Keys(by), func(x, y kafka.TopicID) int { return slices.Compare(x[:], y[:]) })
	return topics, by
}

func assignRange(wishes []wish, counts map[kafka.TopicID]int32) map[string]Assignment {
	out := blank(wishes)
	topics, by := wanted(wishes)
	for _, topic := range topics {
		members, n := by[topic], int(counts[topic])
		each, more := n/len(members), n%len(members)
		next := 0
		for i, m := range members {
			take := each
			if i < more {
				take++
			}
			for range take {
				out[wishes[m].member][topic] = append(out[wishes[m].member][topic], int32(next))
				next++
			}
		}
	}
	return out
}

func blank(wishes []wish) map[string]Assignment {
	out := make(map[string]Assignment, len(wishes))
	for _, w := range wishes {
		out[w.member] = Assignment{}
	}
	return out
}

// piece is one partition and who gets it.
type piece struct {
	topic     kafka.TopicID
	partition int32
	owner     int // index into wishes; -1 for nobody yet
}

// balancePasses bounds how often all partitions are looked at for a better owner. With members that
// want the same topics two are enough.
const balancePasses = 8

// assignUniform leaves partitions where they are as far as they are shared evenly, gives those of nobody to
// whoever has least, and then takes from those that have two more than somebody else who wants it.
func assignUniform(wishes []wish, counts map[kafka.TopicID]int32, had map[string]Assignment) map[string]Assignment {
	topics, by := wanted(wishes)
	pieces, load := keep(wishes, topics, by, counts, had)
	for i := range pieces {
		if p := &pieces[i]; p.owner < 0 {
			p.owner = least(by[p.topic], load)
			load[p.owner]++
		}
	}
	for range balancePasses {
		moved := false
		for i := len(pieces) - 1; i >= 0; i-- { // the first ones stay
			p := &pieces[i]
			if to := least(by[p.topic], load); load[p.owner] > load[to]+1 {
				load[p.owner]--
				load[to]++
				p.owner, moved = to, true
			}
		}
		if !moved {
			break
		}
	}
	out := blank(wishes)
	for _, p := range pieces {
		a := out[wishes[p.owner].member]
		a[p.topic] = append(a[p.topic], p.partition)
	}
	return out
}

// keep lists all partitions that somebody wants, with who had them and still wants them.
func keep(wishes []wish, topics []kafka.TopicID, by map[kafka.TopicID][]int, counts map[kafka.TopicID]int32,
	had map[string]Assignment) ([]piece, []int) {
	var pieces []piece
	load := make([]int, len(wishes))
	for _, topic := range topics {
		first := len(pieces)
		for p := range counts[topic] {
			pieces = append(pieces, piece{topic, p, -1})
		}
		for _, m := range by[topic] {
			for _, p := range had[wishes[m].member][topic] {
				if p >= 0 && p < counts[topic] && pieces[first+int(p)].owner < 0 {
					pieces[first+int(p)].owner = m
					load[m]++
				}
			}
		}
	}
	return pieces, load
}

// least is the member with the least load, the first of equals.
func least(members []int, load []int) int {
	best := members[0]
	for _, m := range members[1:] {
		if load[m] < load[best] {
			best = m
		}
	}
	return best
}
