package task

import (
	"context"
	"fmt"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
)

// Configs is the task TopicConfigsSync: topic configs and partition counts of the
// source come over to its mirrors. A round without differences writes nothing.
type Configs struct {
	Source  func() (Source, error) // the present one; it changes with the link's credentials
	Here    Here
	Include func() []string // topic.config.sync.include
}

// TopicResult is what a round found of one mirror.
type TopicResult struct {
	Problems   []plan.Problem
	Changed    bool
	Partitions int32 // the source's; 0 if unknown
}

// Run does one round over all mirrors that follow.
func (c *Configs) Run(ctx context.Context) Result {
	byTopic, err := c.Sync(ctx, c.Here.Mirrors())
	if err != nil {
		return Result{Problems: []plan.Problem{{Code: c.Here.Code(err), Text: err.Error()}}, Err: err}
	}
	var res Result
	for _, t := range byTopic {
		res.Problems = append(res.Problems, t.Problems...)
		if t.Changed {
			res.Changed++
		}
	}
	sortProblems(res.Problems)
	return res
}

// Sync does one round over some mirrors, by mirror topic. The error is of the whole
// round: the source could not be asked.
func (c *Configs) Sync(ctx context.Context, mirrors []Mirror) (map[string]TopicResult, error) {
	if len(mirrors) == 0 {
		return nil, nil
	}
	names := make([]string, len(mirrors))
	for i, m := range mirrors {
		names[i] = m.Source
	}
	src, err := c.Source()
	if err != nil {
		return nil, err
	}
	topics, err := src.Topics(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("list topics of the source: %w", err)
	}
	configs, err := src.TopicConfigs(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("read topic configs of the source: %w", err)
	}
	found := make(map[string]Topic, len(topics))
	for _, t := range topics {
		found[t.Name] = t
	}
	results := make(map[string]TopicResult, len(mirrors))
	var changes []ConfigChange
	for _, m := range mirrors {
		r, set := c.compare(m, found[m.Source], configs[m.Source])
		if len(set) > 0 {
			changes = append(changes, ConfigChange{m, set})
			r.Changed = true
		}
		results[m.Topic] = r
	}
	if len(changes) > 0 {
		if err := c.Here.SetConfigs(ctx, changes); err != nil {
			return nil, fmt.Errorf("store topic configs: %w", err)
		}
	}
	c.widen(ctx, mirrors, results)
	return results, nil
}

// compare looks at one mirror and says which configs to set.
func (c *Configs) compare(m Mirror, t Topic, conf TopicConfigs) (r TopicResult, set map[string]string) {
	switch {
	case t.Name == "":
		t.Err = kafka.UnknownTopicError(m.Source)
		fallthrough
	case t.Err != nil:
		return c.problem(m, "the source topic", t.Err), nil
	case !m.SourceID.IsZero() && !t.ID.IsZero() && t.ID != m.SourceID:
		// Another topic under the same name: nothing of it comes over.
		return TopicResult{Problems: []plan.Problem{{Code: string(mirror.SourceTopicIDChanged),
			Text: fmt.Sprintf("topic %s: the source topic %s was deleted and made again", m.Topic, m.Source)}}}, nil
	case conf.Err != nil:
		r = c.problem(m, "configs of the source topic", conf.Err)
		r.Partitions = t.Partitions
		return r, nil
	}
	set, skipped := plan.Reconfigure(plan.ConfigFacts{Source: conf.Values, Mirror: m.Configs, Include: c.Include(), Check: c.Here.CheckConfig})
	r.Partitions = t.Partitions
	r.Problems = plan.SkipProblems(m.Topic, skipped)
	return r, set
}

func (c *Configs) problem(m Mirror, what string, err error) TopicResult {
	return TopicResult{Problems: []plan.Problem{{Code: c.Here.Code(err), Text: fmt.Sprintf("topic %s: %s: %v", m.Topic, what, err)}}}
}

// widen adds partitions that the sources have gained.
func (c *Configs) widen(ctx context.Context, mirrors []Mirror, results map[string]TopicResult) {
	for _, m := range mirrors {
		r := results[m.Topic]
		if r.Partitions == 0 {
			continue
		}
		to, problem := plan.Widen(r.Partitions, m.Partitions)
		if problem.Code != "" {
			problem.Text = "topic " + m.Topic + ": " + problem.Text
			r.Problems = append(r.Problems, problem)
		} else if to > m.Partitions {
			r.Changed = true
			if err := c.Here.Widen(ctx, m, to); err != nil {
				p := c.problem(m, "adding partitions", err)
				r.Problems = append(r.Problems, p.Problems...)
			}
		}
		results[m.Topic] = r
	}
}
