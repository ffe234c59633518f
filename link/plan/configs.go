package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Topic configs that plans name.
const (
	timestampDifference = "message.timestamp.difference.max.ms" // before Kafka 3.6 (KIP-937)
	timestampBefore     = "message.timestamp.before.max.ms"
	timestampAfter      = "message.timestamp.after.max.ms"
	retentionMs         = "retention.ms"
	retentionBytes      = "retention.bytes"
)

// alwaysSynced are a mirror's whatever topic.config.sync.include says: without them
// it could not take the source's bytes, or would keep others of them.
var alwaysSynced = []string{"cleanup.policy", "max.message.bytes", timestampAfter, timestampBefore, "message.timestamp.type"}

// defaultSynced are a mirror's too unless topic.config.sync.include leaves them out.
var defaultSynced = []string{"delete.retention.ms", "max.compaction.lag.ms", "min.compaction.lag.ms", retentionBytes, retentionMs}

// neverSynced speak of one cluster's machines; named, they are skipped silently.
var neverSynced = []string{
	"min.insync.replicas", "replication.factor", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas",
	"remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable", "local.retention.ms", "local.retention.bytes",
	"unclean.leader.election.enable",
}

// AlwaysSynced lists the configs that no mirror may set, besides its partition count.
func AlwaysSynced() []string { return slices.Clone(alwaysSynced) }

// DefaultSynced lists the configs that follow the source unless left out.
func DefaultSynced() []string { return slices.Clone(defaultSynced) }

func never(name string) bool {
	return slices.Contains(neverSynced, name) || strings.HasPrefix(name, "confluent.") || strings.HasPrefix(name, "hawser.")
}

// Synced lists, by name, the topic configs that follow the source under an include
// list (topic.config.sync.include); empty means the default.
func Synced(include []string) []string {
	set := map[string]bool{}
	for _, name := range alwaysSynced {
		set[name] = true
	}
	if len(include) == 0 {
		include = defaultSynced
	}
	for _, name := range include {
		name = strings.TrimSpace(name)
		if name != "" && name != timestampDifference && !never(name) {
			set[name] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// FollowsLogStart reports whether a mirror's log start follows the source's. With
// retention of its own, by time or size, a mirror keeps what the source removes.
func FollowsLogStart(include []string) bool {
	synced := Synced(include)
	return slices.Contains(synced, retentionMs) && slices.Contains(synced, retentionBytes)
}

// Skip is a value of the source that this cluster does not take.
type Skip struct {
	Name, Value string
	Err         error
	Vital       bool // an always-synced one: the mirror may not be able to take the source's data
}

// ConfigFacts is a source topic beside its mirror.
type ConfigFacts struct {
	Source  map[string]string              // effective values
	Mirror  map[string]string              // what is set on the mirror
	Include []string                       // topic.config.sync.include
	Check   func(name, value string) error // whether this cluster takes a value; also for unknown names
}

// Reconfigure says which configs to set on the mirror: the source's effective values, because its
// defaults need not be ours. Values that cannot be taken are skipped one by one (case C35). Nothing
// to do is an empty map (case C34).
func Reconfigure(f ConfigFacts) (set map[string]string, skipped []Skip) {
	set = map[string]string{}
	for _, name := range Synced(f.Include) {
		value, there := sourceValue(f.Source, name)
		if !there {
			continue
		}
		if have, is := f.Mirror[name]; is && have == value {
			continue
		}
		if err := f.Check(name, value); err != nil {
			skipped = append(skipped, Skip{name, value, err, slices.Contains(alwaysSynced, name)})
			continue
		}
		set[name] = value
	}
	return set, skipped
}

// sourceValue reads the two newer timestamp limits from the one that older sources have.
func sourceValue(source map[string]string, name string) (string, bool) {
	if value, is := source[name]; is {
		return value, true
	}
	if name == timestampBefore || name == timestampAfter {
		value, is := source[timestampDifference]
		return value, is
	}
	return "", false
}

// CheckOverrides says which overrides of a mirror cannot be: those that follow the source.
func CheckOverrides(overrides map[string]string, include []string) error {
	if names := SyncedAmong(slices.Collect(maps.Keys(overrides)), include); len(names) > 0 {
		return fmt.Errorf("cannot override %s on a mirror topic: they follow the source topic%s", strings.Join(names, ", "), leaveOutHint(names))
	}
	return nil
}

// SyncedAmong lists which of the names follow the source, sorted.
func SyncedAmong(names, include []string) []string {
	synced := Synced(include)
	var hit []string
	for _, name := range names {
		if slices.Contains(synced, name) || name == timestampDifference {
			hit = append(hit, name)
		}
	}
	slices.Sort(hit)
	return slices.Compact(hit)
}

func leaveOutHint(names []string) string {
	for _, name := range names {
		if !slices.Contains(alwaysSynced, name) && name != timestampDifference {
			return "; to set it here, leave it out of topic.config.sync.include on the link"
		}
	}
	return ""
}

// Widen says how many partitions the mirror is to have, or that the source has fewer.
func Widen(source, mirror int32) (to int32, problem Problem) {
	if source < mirror {
		return mirror, Problem{codePartitionsFewer, fmt.Sprintf("the source topic has %d partitions, the mirror %d", source, mirror)}
	}
	return source, Problem{}
}

// SkipProblems words what was skipped of a topic, for a task's errors.
func SkipProblems(topic string, skipped []Skip) []Problem {
	var list []Problem
	for _, s := range skipped {
		list = append(list, Problem{codePolicy, fmt.Sprintf("topic %s: %s=%s is not taken here: %v", topic, s.Name, s.Value, s.Err)})
	}
	return list
}
