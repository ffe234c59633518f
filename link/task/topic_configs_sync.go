package task

import (
	"context"
	"fmt"
	"maps"
	"slices"

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
	Changed    bool  // something was changed, or is once the source says it twice
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
// round: the source could not be asked. What would change a mirror is asked for once more, and only what both answers
// say is done: one that is wrong must not have a mirror compacted, or its records removed by a shorter retention, nor
// give it partitions, which never go again.
func (c *Configs) Sync(ctx context.Context, mirrors []Mirror) (map[string]TopicResult, error) {
	if len(mirrors) == 0 {
		return nil, nil
	}
	src, err := c.Source()
	if err != nil {
		return nil, err
	}
	results, sets, err := c.look(ctx, src, mirrors)
	if err != nil {
		return nil, err
	}
	changing := slices.DeleteFunc(slices.Clone(mirrors), func(m Mirror) bool {
		return len(sets[m.Topic]) == 0 && results[m.Topic].Partitions <= m.Partitions
	})
	again, confirmed, err := c.look(ctx, src, changing)
	if err != nil {
		return nil, err
	}
	var changes []ConfigChange
	for _, m := range changing {
		r, set := again[m.Topic], confirmed[m.Topic]
		r.Changed = len(set) > 0 || len(sets[m.Topic]) > 0
		maps.DeleteFunc(set, func(name, value string) bool {
			before, is := sets[m.Topic][name]
			return !is || before != value
		})
		if r.Partitions != results[m.Topic].Partitions {
			r.Partitions, r.Changed = 0, true
		}
		if len(set) > 0 {
			changes = append(changes, ConfigChange{m, set})
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

// look asks the source once, and says what there is to each mirror and which configs to set on it, by mirror topic.
func (c *Configs) look(ctx context.Context, src Source, mirrors []Mirror) (
	results map[string]TopicResult, sets map[string]map[string]string, err error) {
	results, sets = make(map[string]TopicResult, len(mirrors)), make(map[string]map[string]string)
	if len(mirrors) == 0 {
		return results, sets, nil
	}
	names := make([]string, len(mirrors))
	for i, m := range mirrors {
		names[i] = m.Source
	}
	topics, err := src.Topics(ctx, names)
	if err != nil {
		return nil, nil, fmt.Errorf("list topics of the source: %w", err)
	}
	configs, err := src.TopicConfigs(ctx, names)
	if err != nil {
		return nil, nil, fmt.Errorf("read topic configs of the source: %w", err)
	}
	found := make(map[string]Topic, len(topics))
	for _, t := range topics {
		found[t.Name] = t
	}
	for _, m := range mirrors {
		results[m.Topic], sets[m.Topic] = c.compare(m, found[m.Source], configs[m.Source])
	}
	return results, sets, nil
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
