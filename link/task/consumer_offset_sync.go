package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
)

// groupsAtOnce is how many groups are asked of the source in one call.
const groupsAtOnce = 100

// Offsets is the task ConsumerOffsetSync: groups' committed offsets on the source's
// topics come over to their mirrors, clamped to what the mirrors hold.
type Offsets struct {
	Source func() (Source, error)
	Here   Here
	// Matches makes the test of which groups are copied, for a round.
	Matches func() func(group string) bool
	// Crosses makes the test of which are copied the other way as well, by the link's other half: they are not, and reported. nil: none.
	Crosses func() func(group string) bool
	Prefix  func() string // what is put before group names: the link's prefix or nothing
	Count   func(OffsetCounts)
}

// OffsetCounts is what a round did, in offsets.
type OffsetCounts struct{ Written, Lowered, Raised, Equal int }

// Run does one round over all mirrors that follow.
func (o *Offsets) Run(ctx context.Context) Result {
	return o.Over(ctx, o.Here.Mirrors())
}

// Over does one round over some mirrors.
func (o *Offsets) Over(ctx context.Context, mirrors []Mirror) Result {
	problems, counts, err := o.Sync(ctx, mirrors)
	if o.Count != nil {
		o.Count(counts)
	}
	res := Result{Changed: counts.Written, Err: err}
	for _, p := range problems {
		res.Problems = append(res.Problems, p.Problem)
	}
	if err != nil {
		res.Problems = append(res.Problems, plan.Problem{Code: o.Here.Code(err), Text: err.Error()})
	}
	sortProblems(res.Problems)
	return res
}

// GroupProblem is what kept one group's offsets from coming over. Topics are the mirrors it
// concerns; nil means any.
type GroupProblem struct {
	Problem plan.Problem
	Topics  []string
}

// Sync does one round over some mirrors. The error is of the whole round.
func (o *Offsets) Sync(ctx context.Context, mirrors []Mirror) ([]GroupProblem, OffsetCounts, error) {
	var counts OffsetCounts
	if len(mirrors) == 0 {
		return nil, counts, nil
	}
	src, err := o.Source()
	if err != nil {
		return nil, counts, err
	}
	all, err := src.Groups(ctx)
	var problems []GroupProblem
	if err != nil {
		if len(all) == 0 {
			return nil, counts, fmt.Errorf("list groups of the source: %w", err)
		}
		// Some coordinators are out of reach: the others' groups go on (case C26).
		problems = append(problems, GroupProblem{Problem: plan.Problem{Code: o.Here.Code(err),
			Text: fmt.Sprintf("list groups of the source: %v", err)}})
	}
	found, counts, err := o.syncFrom(ctx, src, o.newRound(mirrors), all)
	return append(problems, found...), counts, err
}

// SyncGroups does one round over some mirrors for some groups of the source, those of them that the filters take.
// behind are the groups whose offsets lie above what is mirrored: they are worth another round soon.
func (o *Offsets) SyncGroups(ctx context.Context, mirrors []Mirror, groups []string) (behind []string, counts OffsetCounts, err error) {
	if len(mirrors) == 0 {
		return nil, OffsetCounts{}, nil
	}
	src, err := o.Source()
	if err != nil {
		return groups, OffsetCounts{}, err
	}
	round := o.newRound(mirrors)
	_, counts, err = o.syncFrom(ctx, src, round, groups)
	return round.behind, counts, err
}

func (o *Offsets) syncFrom(ctx context.Context, src Source, round *round, groups []string) (problems []GroupProblem,
	counts OffsetCounts, err error) {
	matches := o.Matches()
	groups = slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return !matches(g) })
	crosses := func(string) bool { return false }
	if o.Crosses != nil {
		crosses = o.Crosses()
	}
	for chunk := range slices.Chunk(groups, groupsAtOnce) {
		answers, err := src.GroupOffsets(ctx, chunk, round.sources)
		if err != nil {
			return problems, counts, fmt.Errorf("read group offsets of the source: %w", err)
		}
		for _, g := range chunk {
			answer, is := answers[g]
			switch {
			case crosses(g):
				problems = append(problems, o.crossing(round, g, answer))
			case is:
				problems = append(problems, o.group(ctx, round, g, answer, &counts)...)
			}
		}
	}
	return problems, counts, nil
}

// crossing refuses a group that the other half copies the other way: each side would overwrite the other's offsets. It concerns the topics
// whose offsets would be copied otherwise, and no others: these need not wait for it when they are promoted.
func (o *Offsets) crossing(r *round, group string, answer GroupOffsets) GroupProblem {
	return GroupProblem{
		Problem: plan.Problem{Code: string(mirror.Misconfiguration), Text: fmt.Sprintf(
			"group %s is matched in both directions, by the filters of this half of the link and by those of the other one, so neither "+
				"copies it: exclude it on one side, or give LOCAL_MIRROR and REMOTE_MIRROR to different groups", group)},
		Topics: append([]string{}, topicsOf(o.copies(r, group, answer).Copies)...),
	}
}

// round is what one round reads once: names, bounds and what is committed here.
type round struct {
	sources []string
	mirror  map[string]string // by source topic
	bounds  map[kafka.TopicPartition]plan.Bound
	here    map[string]map[kafka.TopicPartition]plan.Commit // by group on this cluster, of the topics in read
	read    map[string]bool                                 // mirrors whose commits here were read
	behind  []string                                        // groups of the source that are ahead of a mirror
}

func (o *Offsets) newRound(mirrors []Mirror) *round {
	r := &round{
		mirror: make(map[string]string, len(mirrors)),
		bounds: map[kafka.TopicPartition]plan.Bound{},
		here:   map[string]map[kafka.TopicPartition]plan.Commit{},
		read:   map[string]bool{},
	}
	for _, m := range mirrors {
		r.sources = append(r.sources, m.Source)
		r.mirror[m.Source] = m.Topic
		for p := range m.Partitions {
			tp := kafka.TopicPartition{Topic: m.Topic, Partition: p}
			if b, is := o.Here.Bound(tp); is {
				r.bounds[tp] = b
			}
		}
	}
	return r
}

// readHere reads what is committed on the mirrors of these commits, each once in a round: most topics
// have no group, and each reading looks through all groups.
func (r *round) readHere(h Here, commits []plan.Commit) {
	for _, c := range commits {
		topic, is := r.mirror[c.TopicPartition.Topic]
		if !is || r.read[topic] {
			continue
		}
		r.read[topic] = true
		for group, list := range h.Committed(topic) {
			if r.here[group] == nil {
				r.here[group] = map[kafka.TopicPartition]plan.Commit{}
			}
			for _, c := range list {
				r.here[group][c.TopicPartition] = c
			}
		}
	}
}

// group copies one group's offsets. A group with members here is left alone and reported (case C23).
func (o *Offsets) group(ctx context.Context, r *round, group string, answer GroupOffsets, counts *OffsetCounts) []GroupProblem {
	if answer.Err != nil {
		if errors.Is(answer.Err, kafka.GroupIDNotFound) {
			return nil // deleted between listing and asking (case C27)
		}
		return []GroupProblem{{Problem: plan.Problem{Code: o.Here.Code(answer.Err), Text: fmt.Sprintf("group %s: %v", group, answer.Err)}}}
	}
	name := plan.GroupName(o.Prefix(), group)
	p := o.copies(r, group, answer)
	counts.Lowered += p.Lowered
	counts.Raised += p.Raised
	counts.Equal += p.Equal
	if p.Lowered > 0 {
		r.behind = append(r.behind, group)
	}
	if len(p.Copies) == 0 {
		return nil
	}
	written, err := o.Here.Commit(ctx, name, p.Copies, r.bounds)
	counts.Written += written
	if err == nil {
		return nil
	}
	problem := plan.Problem{Code: o.Here.Code(err), Text: fmt.Sprintf("group %s: %v", name, err)}
	if errors.Is(err, kafka.NonEmptyGroup) {
		problem = plan.Problem{Code: string(mirror.ConsumerGroupInUse),
			Text: fmt.Sprintf("group %s has members on this cluster; its offsets are left as they are", name)}
	}
	return []GroupProblem{{Problem: problem, Topics: topicsOf(p.Copies)}}
}

// copies is what of a group's offsets would have to be copied.
func (o *Offsets) copies(r *round, group string, answer GroupOffsets) plan.OffsetPlan {
	r.readHere(o.Here, answer.List)
	return plan.CopyOffsets(answer.List, func(tp kafka.TopicPartition) (plan.Bound, bool) {
		mirror, is := r.mirror[tp.Topic]
		if !is {
			return plan.Bound{}, false
		}
		b, is := r.bounds[kafka.TopicPartition{Topic: mirror, Partition: tp.Partition}]
		return b, is
	}, r.here[plan.GroupName(o.Prefix(), group)])
}

func topicsOf(copies []plan.Commit) []string {
	var topics []string
	for _, c := range copies {
		if !slices.Contains(topics, c.TopicPartition.Topic) {
			topics = append(topics, c.TopicPartition.Topic)
		}
	}
	return topics
}

func sortProblems(list []plan.Problem) {
	slices.SortFunc(list, func(a, b plan.Problem) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text))
	})
}
