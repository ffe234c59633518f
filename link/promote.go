package link

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/task"
	"github.com/hawserio/hawser/meta"
)

const (
	// promoteEvery is how often promotions look again while one waits.
	promoteEvery = 500 * time.Millisecond
	// promoteMax bounds one look at promotesTogether topics; each such piece ends by itself, so that a
	// thousand promotions come along although one look at all of them would take too long.
	promoteMax       = time.Minute
	promotesTogether = 100
	// promotesAtOnce is how many topics ask the source at once.
	promotesAtOnce = 8
	// checkMax bounds one question to the source.
	checkMax = 15 * time.Second
)

// promoteLoop looks after PENDING_STOPPED mirrors until they are level with their sources.
func (r *running) promoteLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.checks:
		}
		asked, cancel := context.WithTimeout(ctx, promoteMax)
		r.finishSetUps(asked)
		cancel()
		r.checkPromotions(ctx)
		t := time.NewTimer(promoteEvery)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// promotion is one mirror that is being promoted, and what was found of it.
type promotion struct {
	m     topicMirror
	facts plan.PromoteFacts
}

// checkPromotions looks once at all of them.
func (r *running) checkPromotions(ctx context.Context) {
	var list []*promotion
	for _, m := range mirrorsOf(r.ls.env.Metadata.Image(), r.id) {
		if m.state == mirror.PendingStopped {
			list = append(list, &promotion{m: m, facts: plan.PromoteFacts{Topic: m.topic.Name, MirrorPartitions: m.topic.Partitions}})
		}
	}
	for piece := range slices.Chunk(list, promotesTogether) {
		asked, cancel := context.WithTimeout(ctx, promoteMax)
		r.checkTogether(asked, piece)
		cancel()
	}
}

// checkTogether looks once at some, in the order of rule G2: data, then configs and offsets of one moment
// after the data was level, then the data again, because the source may have been written to meanwhile.
func (r *running) checkTogether(ctx context.Context, list []*promotion) {
	if problem, is := r.linkProblem(); is {
		r.noteAll(list, []plan.Problem{problem})
		return
	}
	r.checkData(ctx, list)
	level := slices.DeleteFunc(slices.Clone(list), func(p *promotion) bool { return !p.facts.DataLevel })
	r.checkConfigs(ctx, level)
	r.checkOffsets(ctx, level)
	ready := slices.DeleteFunc(level, func(p *promotion) bool { return len(plan.PromoteObstacles(p.facts)) > 0 })
	r.checkData(ctx, ready)
	var done []kafka.TopicID
	for _, p := range list {
		obstacles := plan.PromoteObstacles(p.facts)
		r.note(p.m.topic.ID, obstacles)
		if len(obstacles) == 0 {
			done = append(done, p.m.topic.ID)
		}
	}
	if len(done) == 0 || ctx.Err() != nil {
		return
	}
	now := r.ls.env.Now().UnixMilli()
	r.storing.Add(1)
	defer func() {
		r.storing.Add(-1)
		r.hurry()
	}()
	err := r.ls.updateMirrors(ctx, done, func(_ *meta.Image, rec *meta.Mirror) bool {
		if rec.State != mirror.PendingStopped.String() {
			return false
		}
		return r.move(rec, mirror.ChecksPassed, now)
	})
	if err != nil {
		r.ls.env.Logger.Warn("store that promotions passed their checks", "link", r.name, "error", err)
	}
}

// linkProblem says why nothing can be asked of the source now.
func (r *running) linkProblem() (plan.Problem, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.set.paused:
		return plan.Problem{Code: string(mirror.InvalidRequest),
			Text: "the link is paused: set cluster.link.paused=false, or fail the topic over"}, true
	case r.contact.Reach == plan.Unreachable || r.contact.Reach == plan.Misconfigured:
		return r.contact.Problem, true
	case r.pool == nil:
		return plan.Problem{Code: string(mirror.Misconfiguration), Text: "the link's configuration cannot be used"}, true
	}
	return plan.Problem{}, false
}

func (r *running) noteAll(list []*promotion, obstacles []plan.Problem) {
	for _, p := range list {
		r.note(p.m.topic.ID, obstacles)
	}
}

func (r *running) note(id kafka.TopicID, obstacles []plan.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(obstacles) == 0 {
		delete(r.obstacle, id)
		return
	}
	r.obstacle[id] = obstacles
}

func (r *running) checkData(ctx context.Context, list []*promotion) {
	r.mu.Lock()
	pool := r.pool
	r.mu.Unlock()
	if pool == nil {
		return
	}
	var g errgroup.Group
	g.SetLimit(promotesAtOnce)
	for _, p := range list {
		g.Go(func() error {
			p.facts.Judged = r.judged(p.m)
			asked, cancel := context.WithTimeout(ctx, checkMax)
			defer cancel()
			level, text, err := pool.CaughtUp(asked, p.m.topic.Name)
			if err != nil {
				level, text = false, err.Error()
			}
			p.facts.DataLevel, p.facts.DataText = level, text
			return nil
		})
	}
	// The functions return no error: each answer stands in its promotion.
	_ = g.Wait()
}

func (r *running) checkConfigs(ctx context.Context, list []*promotion) {
	if len(list) == 0 {
		return
	}
	mirrors := taskMirrors(list)
	asked, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	var found map[string]task.TopicResult
	var err error
	if runErr := r.configsRunner().Exclusive(asked, func(ctx context.Context) { found, err = r.configs.Sync(ctx, mirrors) }); runErr != nil {
		err = runErr
	}
	for _, p := range list {
		if err != nil {
			p.facts.ConfigProblems = []plan.Problem{{Code: codeOf(err), Text: "configs of the source topic cannot be read: " + err.Error()}}
			continue
		}
		got := found[p.m.topic.Name]
		p.facts.ConfigProblems, p.facts.ConfigsChanged, p.facts.SourcePartitions = got.Problems, got.Changed, got.Partitions
	}
}

// checkOffsets forces one sync of group offsets after the data was level. A later commit at the source does not restart it.
func (r *running) checkOffsets(ctx context.Context, list []*promotion) {
	r.mu.Lock()
	wanted := r.set.offsetSync && !r.set.groupFilters.Empty()
	r.mu.Unlock()
	var ready []*promotion
	for _, p := range list {
		p.facts.OffsetsWanted = wanted
		if len(p.facts.ConfigProblems) == 0 {
			ready = append(ready, p)
		}
	}
	if !wanted || len(ready) == 0 {
		return
	}
	asked, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	var found []task.GroupProblem
	var err error
	runErr := r.offsetsRunner().Exclusive(asked, func(ctx context.Context) {
		found, _, err = r.offsets.Sync(ctx, taskMirrors(ready))
	})
	if runErr != nil {
		err = runErr
	}
	for _, p := range ready {
		if err != nil {
			p.facts.OffsetProblems = []plan.Problem{{Code: codeOf(err), Text: "group offsets cannot be synced: " + err.Error()}}
			continue
		}
		p.facts.OffsetsDone = true
		for _, g := range found {
			if g.Topics == nil || slices.Contains(g.Topics, p.m.topic.Name) {
				p.facts.OffsetProblems = append(p.facts.OffsetProblems, g.Problem)
			}
		}
	}
}

func taskMirrors(list []*promotion) []task.Mirror {
	mirrors := make([]task.Mirror, len(list))
	for i, p := range list {
		mirrors[i] = taskMirror(p.m)
	}
	return mirrors
}
