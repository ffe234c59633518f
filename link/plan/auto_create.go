package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hawserio/hawser/kafka"
)

// SourceTopic is a topic of the source as auto-create sees it.
type SourceTopic struct {
	Name     string
	Internal bool
	IsMirror bool // itself a mirror, as far as the source says
	FromHere bool // a mirror of a topic of this very cluster
	Denied   bool // the link may not read it
}

// neverCreated are never taken by a filter; case C48.
var neverCreated = []string{
	kafka.ConsumerOffsetsTopic, kafka.TransactionStateTopic, "__cluster_metadata", "__share_group_state", "confluent-audit-log-events",
}

// schemasTopic is taken only by a literal INCLUDE.
const schemasTopic = "_schemas"

func internalName(name string) bool {
	return slices.Contains(neverCreated, name) || strings.HasPrefix(name, "_confluent") || strings.HasPrefix(name, "__confluent") ||
		strings.HasPrefix(name, "hawser.cut.")
}

// AutoCreateFacts is what auto-create decides by.
type AutoCreateFacts struct {
	Prefix  string
	Filters Filters
	Source  []SourceTopic
	// Taken says what a name is here: free, a mirror that this link made of that very source topic (live or
	// STOPPED), or something else.
	Taken func(mirror, source string) Taken
	// Collides names a topic here whose name differs only in '.' and '_' from mirror, or "".
	Collides func(mirror string) string
}

// Taken is what a name is on this cluster.
type Taken uint8

// The answers.
const (
	Free Taken = iota
	Ours
	Foreign
)

// AutoCreate lists the source topics to make mirrors of, by name, and what hinders others.
func AutoCreate(f AutoCreateFacts) (create []string, problems []Problem) {
	for _, t := range f.Source {
		switch {
		case internalName(t.Name) || t.Denied || t.FromHere || !f.Filters.Match(t.Name):
			continue
		case t.Name == schemasTopic && !f.Filters.NamesLiterally(t.Name):
			continue
		case f.Prefix != "" && t.IsMirror:
			continue
		}
		name := f.Prefix + t.Name
		if err := kafka.CheckTopicName(name); err != nil {
			problems = append(problems, Problem{codeInvalidTopic, fmt.Sprintf("source topic %s: %v", t.Name, err)})
			continue
		}
		switch f.Taken(name, t.Name) {
		case Ours:
		case Foreign:
			problems = append(problems, Problem{codeTopicExists, fmt.Sprintf("Topic '%s' already exists and is no mirror of this link.", name)})
		case Free:
			if other := f.Collides(name); other != "" {
				problems = append(problems, Problem{codeInvalidTopic,
					fmt.Sprintf("Topic '%s' collides with existing topic '%s': they differ only in '.' and '_'.", name, other)})
				continue
			}
			create = append(create, t.Name)
		}
	}
	slices.Sort(create)
	return create, problems
}

// Configs by which a topic of ours shows that it is a mirror; they are read-only.
const (
	ConfigMirrorLink          = "hawser.mirror.link"
	ConfigMirrorSourceTopic   = "hawser.mirror.source.topic"
	ConfigMirrorSourceCluster = "hawser.mirror.source.cluster"
	ConfigMirrorState         = "hawser.mirror.state"
	ConfigMirrorLag           = "hawser.mirror.lag"
	ConfigMirrorError         = "hawser.mirror.error"
)

// IsMirror reports whether a topic's configs show a mirror that is not STOPPED.
func IsMirror(configs map[string]string) bool {
	return configs[ConfigMirrorLink] != "" && configs[ConfigMirrorState] != "STOPPED"
}
