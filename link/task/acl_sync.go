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
	Source      func() (Source, error)
	Here        Here
	Match       func() func(plan.ACL) bool
	TopicPrefix func() string
	GroupPrefix func() string
}

// Run does one round. A round without differences writes nothing.
func (a *ACLs) Run(ctx context.Context) Result {
	src, err := a.Source()
	if err != nil {
		return a.failed(err)
	}
	all, err := src.ACLs(ctx)
	if err != nil {
		return a.failed(fmt.Errorf("list ACLs of the source: %w", err))
	}
	copied, others := a.Here.ACLs()
	changes, problems := plan.SyncACLs(plan.ACLFacts{
		Source: all, Match: a.Match(), Copied: copied, Others: others, TopicPrefix: a.TopicPrefix(), GroupPrefix: a.GroupPrefix(),
	})
	res := Result{Problems: problems, Changed: len(changes)}
	if len(copied)+len(changes) > aclsMax {
		res.Problems = append(res.Problems, plan.Problem{Code: string(mirror.ACLLimitExceeded), Text: fmt.Sprintf("acl.filters take more than the %d ACLs that a link copies: narrow them", aclsMax)})
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

func (a *ACLs) failed(err error) Result {
	return Result{Problems: []plan.Problem{{Code: a.Here.Code(err), Text: err.Error()}}, Err: err}
}
