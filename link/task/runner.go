package task

import (
	"context"
	"sync"
	"time"

	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
)

// Order is how a task is to run now, read before each run.
type Order struct {
	Enabled bool          // the feature is on
	Missing string        // what else must be set before it can do anything; "" for nothing
	Hold    string        // a state that keeps it from running: LINK_PAUSED …; "" for none
	Period  time.Duration // between runs
}

// Runner runs one task of one link, one run at a time.
type Runner struct {
	name  string
	order func() Order
	run   func(context.Context) Result
	tell  func(from, to string, first plan.Problem)
	poke  chan struct{} // room for one
	slot  chan struct{} // held by whoever runs

	mu       sync.Mutex // guards the fields below
	ran      bool
	problems []plan.Problem
	failures int
}

// NewRunner makes a runner; Loop starts it. tell hears when a run finds problems after one that found none, with the first of
// them, and the other way round.
func NewRunner(name string, order func() Order, run func(context.Context) Result, tell func(from, to string, first plan.Problem)) *Runner {
	return &Runner{name: name, order: order, run: run, tell: tell, poke: make(chan struct{}, 1), slot: make(chan struct{}, 1)}
}

// Name is the task's.
func (r *Runner) Name() string { return r.name }

// Poke makes the next run begin at once.
func (r *Runner) Poke() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// Exclusive runs fn while no run of the task is under way, and keeps one from
// beginning: for a promotion's forced sync.
func (r *Runner) Exclusive(ctx context.Context, fn func(context.Context)) error {
	select {
	case r.slot <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.slot }()
	fn(ctx)
	return nil
}

// Loop runs the task until ctx ends.
func (r *Runner) Loop(ctx context.Context) {
	for ctx.Err() == nil {
		o := r.order()
		if o.Enabled && o.Missing == "" && o.Hold == "" {
			// An error here is the end of ctx.
			_ = r.Exclusive(ctx, r.once)
		}
		t := time.NewTimer(wait(max(o.Period, 10*time.Millisecond), r.failed()))
		select {
		case <-ctx.Done():
		case <-r.poke:
		case <-t.C:
		}
		t.Stop()
	}
}

func (r *Runner) failed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

func (r *Runner) once(ctx context.Context) {
	res := r.run(ctx)
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	before := r.problems
	r.ran, r.problems = true, bound(res.Problems)
	if res.Err != nil {
		r.failures++
	} else {
		r.failures = 0
	}
	r.mu.Unlock()
	switch {
	case len(before) == 0 && len(res.Problems) > 0:
		r.tell(StateActive, StateInError, res.Problems[0])
	case len(before) > 0 && len(res.Problems) == 0:
		r.tell(StateInError, StateActive, plan.Problem{})
	}
}

// Status is the task's state and its last run's problems.
func (r *Runner) Status() (state string, problems []plan.Problem) {
	o := r.order()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !o.Enabled:
		return StateNotConfigured, nil
	case o.Missing != "":
		return StateNotConfigured, []plan.Problem{{Code: string(mirror.Misconfiguration), Text: o.Missing}}
	case o.Hold != "":
		return o.Hold, r.problems
	case !r.ran:
		return StateUnknown, nil
	case len(r.problems) > 0:
		return StateInError, r.problems
	}
	return StateActive, nil
}
