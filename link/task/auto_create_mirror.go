package task

import (
	"context"
	"fmt"

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
	res := Result{Problems: problems}
	for _, name := range create {
		err := a.Here.CreateMirror(ctx, name)
		switch {
		case ctx.Err() != nil:
			return a.failed(ctx.Err())
		case err == nil:
			res.Changed++
		case kafka.CodeOf(err) == kafka.TopicAuthorizationFailed:
			// The link may not read it, so it is not to be mirrored.
		default:
			res.Problems = append(res.Problems, plan.Problem{Code: a.Here.Code(err), Text: fmt.Sprintf("source topic %s: %v", name, err)})
		}
	}
	sortProblems(res.Problems)
	return res
}

func (a *AutoCreate) failed(err error) Result {
	return Result{Problems: []plan.Problem{{Code: a.Here.Code(err), Text: err.Error()}}, Err: err}
}
