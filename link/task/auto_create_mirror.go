package task

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/plan"
)

// AutoCreate is the task AutoCreateMirror: source topics that the filters take
// become mirrors.
type AutoCreate struct {
	Source  func() (Source, error)
	Here    Here
	Prefix  func() string
	Filters func() plan.Filters
	Cluster string // this cluster's id
}

// Run looks once through all topics of the source. What could not be made is tried again in the
// next round (case C49).
func (a *AutoCreate) Run(ctx context.Context) Result {
	src, err := a.Source()
	if err != nil {
		return a.failed(err)
	}
	topics, err := src.Topics(ctx, nil)
	if err != nil {
		return a.failed(fmt.Errorf("list topics of the source: %w", err))
	}
	names := a.Here.Names()
	facts := plan.AutoCreateFacts{Prefix: a.Prefix(), Filters: a.Filters(), Taken: names.Taken, Collides: names.Collides}
	for _, t := range topics {
		facts.Source = append(facts.Source, plan.SourceTopic{Name: t.Name, Internal: t.Internal, Denied: t.Err != nil})
	}
	create, problems := plan.AutoCreate(facts)
	// What this cluster gave to the source does not come back: its name is taken here. With a prefix each turn of a circle of links
	// would make a longer name: mirrors are not taken at all.
	doubtful := takenNames(facts)
	if facts.Prefix != "" {
		doubtful = append(doubtful, create...)
	}
	if len(doubtful) > 0 {
		if err := a.markMirrors(ctx, src, doubtful, facts.Source); err != nil {
			return a.failed(fmt.Errorf("ask which topics of the source are mirrors: %w", err))
		}
		create, problems = plan.AutoCreate(facts)
	}
	res := Result{Problems: problems}
	for i, err := range a.createAll(ctx, create) {
		switch {
		case ctx.Err() != nil:
			return a.failed(ctx.Err())
		case err == nil:
			res.Changed++
		case kafka.CodeOf(err) == kafka.TopicAuthorizationFailed:
			// The link may not read it, so it is not to be mirrored.
		default:
			res.Problems = append(res.Problems, plan.Problem{Code: a.Here.Code(err), Text: fmt.Sprintf("source topic %s: %v", create[i], err)})
		}
	}
	sortProblems(res.Problems)
	return res
}

// createsAtOnce is how many mirrors are made at the same time.
const createsAtOnce = 8

// createAll makes mirrors of all of them, and answers each one's error.
func (a *AutoCreate) createAll(ctx context.Context, names []string) []error {
	errs := make([]error, len(names))
	var g errgroup.Group
	g.SetLimit(createsAtOnce)
	for i, name := range names {
		g.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
				errs[i] = a.Here.CreateMirror(ctx, name)
			}
			return nil
		})
	}
	// The functions return no error: each stands in its place.
	_ = g.Wait()
	return errs
}

// topicsAtOnce is how many topics' configs are asked for in one call.
const topicsAtOnce = 500

// takenNames are the source topics that the filters take, but whose names are another topic's here.
func takenNames(facts plan.AutoCreateFacts) []string {
	var names []string
	for _, t := range facts.Source {
		if !t.Denied && facts.Filters.Match(t.Name) && facts.Taken(facts.Prefix+t.Name, t.Name) == plan.Foreign {
			names = append(names, t.Name)
		}
	}
	return names
}

// markMirrors marks the topics among names that the source shows as mirrors: a hawser does so by configs.
func (a *AutoCreate) markMirrors(ctx context.Context, src Source, names []string, topics []plan.SourceTopic) error {
	mirrors, fromHere := map[string]bool{}, map[string]bool{}
	for chunk := range slices.Chunk(names, topicsAtOnce) {
		configs, err := src.TopicConfigs(ctx, chunk)
		if err != nil {
			return err
		}
		for name, one := range configs {
			mirrors[name] = plan.IsMirror(one.Values)
			fromHere[name] = mirrors[name] && one.Values[plan.ConfigMirrorSourceCluster] == a.Cluster
		}
	}
	for i := range topics {
		topics[i].IsMirror, topics[i].FromHere = mirrors[topics[i].Name], fromHere[topics[i].Name]
	}
	return nil
}

func (a *AutoCreate) failed(err error) Result {
	return Result{Problems: []plan.Problem{{Code: a.Here.Code(err), Text: err.Error()}}, Err: err}
}
