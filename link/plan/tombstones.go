package plan

import (
	"fmt"
	"strings"
	"time"
)

// Level is when a mirror of a compacted topic last stood at its source's end.
type Level struct {
	At    time.Time
	Slack time.Duration // how much later it may have been: what was stored is older than what was seen
}

// Compacts reports whether a cleanup.policy compacts.
func Compacts(policy string) bool { return strings.Contains(policy, "compact") }

// LevelStoredEvery is how often it is worth storing that a mirror is level, so that it is known after a restart.
func LevelStoredEvery(deleteRetention time.Duration) time.Duration {
	return min(max(deleteRetention/10, time.Minute), 10*time.Minute)
}

// MissedDeletions says whether the source may have removed tombstones that the mirror never saw (rule T3): it is level again at now, and was not
// for longer than the source keeps a tombstone. Keys whose deletion was missed are here for ever, and a failover brings them back.
func MissedDeletions(last Level, now time.Time, deleteRetention time.Duration) (Problem, bool) {
	gap := now.Sub(last.At) - last.Slack
	if last.At.IsZero() || gap <= deleteRetention {
		return Problem{}, false
	}
	return Problem{codeDeletionsMissed, fmt.Sprintf("the mirror did not stand at its source's end for %v, from %s on, which is longer than delete.retention.ms (%v): tombstones may have been removed at the source before they were mirrored",
		gap.Round(time.Second), last.At.UTC().Format(time.RFC3339), deleteRetention)}, true
}
