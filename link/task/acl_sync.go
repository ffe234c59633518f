package task

import (
	"context"
	"fmt"

	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
)

// aclsMax bounds how many ACLs one link copies.
const aclsMax = 50_000

// ACLs is the task AclSync: ACLs of the source that the filters take are copied, and go again with the source's.
type ACLs struct {
	Source func() (Source, error)
	Here   Here
	Match  func() func(plan.ACL) bool
	// FromHere asks which of its ACLs the source has copied from this cluster; nil for none.
	FromHere    func(ctx context.Context) (func(plan.ACL) bool, error)
	TopicPrefix func() string
	GroupPrefix func() string
}

// Run does one round. A round without differences writes nothing. What is to go is asked about twice: of another broker where
// the source has one.
func (a *ACLs) Run(ctx context.Context) Result {
	src, err := a.Source()
	if err != nil {
		return a.failed(err)
	}
	facts := plan.ACLFacts{Match: a.Match(), TopicPrefix: a.TopicPrefix(), GroupPrefix: a.GroupPrefix()}
	facts.Copied, facts.Others = a.Here.ACLs()
	changes, problems, err := a.compare(ctx, src, facts)
	if err != nil {
		return a.failed(err)
	}
	if plan.Removes(changes) {
		second, _, err := a.compare(ctx, src, facts)
		if err != nil {
			return a.failed(fmt.Errorf("make sure of what is to be removed: %w", err))
		}
		changes = plan.Confirmed(changes, second)
	}
	res := Result{Problems: problems, Changed: len(changes)}
	if held := plan.Held(len(facts.Copied), changes); held > aclsMax && held > len(facts.Copied) {
		res.Problems = append(res.Problems, plan.Problem{Code: string(mirror.ACLLimitExceeded),
			Text: fmt.Sprintf("acl.filters take more than the %d ACLs that a link copies: narrow them", aclsMax)})
		res.Changed = 0
		return res
	}
	if len(changes) == 0 {
		return res
	}
	if err := a.Here.ChangeACLs(ctx, changes); err != nil {
		return a.failed(fmt.Errorf("store ACLs: %w", err))
	}
	return res
}

// compare asks the source for its ACLs, and says what to change. Which of them came from here is asked before and after: the source
// may copy one, or take one away, between the answers, and neither must look like one of its own.
func (a *ACLs) compare(ctx context.Context, src Source, facts plan.ACLFacts) ([]plan.ACLChange, []plan.Problem, error) {
	before, err := a.fromHere(ctx)
	if err != nil {
		return nil, nil, err
	}
	if facts.Source, err = src.ACLs(ctx); err != nil {
		return nil, nil, fmt.Errorf("list ACLs of the source: %w", err)
	}
	after, err := a.fromHere(ctx)
	if err != nil {
		return nil, nil, err
	}
	facts.FromHere = func(one plan.ACL) bool { return before(one) || after(one) }
	changes, problems := plan.SyncACLs(facts)
	return changes, problems, nil
}

func (a *ACLs) fromHere(ctx context.Context) (func(plan.ACL) bool, error) {
	if a.FromHere == nil {
		return func(plan.ACL) bool { return false }, nil
	}
	copied, err := a.FromHere(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask which ACLs the source has copied from this cluster: %w", err)
	}
	return copied, nil
}

func (a *ACLs) failed(err error) Result {
	return Result{Problems: []plan.Problem{{Code: a.Here.Code(err), Text: err.Error()}}, Err: err}
}
