package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hawserio/hawser/internal/plant"
	"github.com/hawserio/hawser/kafka"
)

// Level is when a mirror of a compacted topic last stood at its source's end.
type Level struct {
	At   time.Time      // at the latest: what was stored is older than what was seen
	Ends []kafka.Offset // of its partitions then, exclusive; nil where that is not known
	// Doubtful says that At is what a clock said that was wrong: how long ago it was nobody knows.
	Doubtful bool
}

// clockSlack is how far a clock may be set back without that it must have been wrong before.
const clockSlack = time.Minute

// StoredLevel is what was stored of a mirror, as it looks now. A time to come was noted while the clock was ahead;
// taken as it is, nothing would be missed until then.
func StoredLevel(at, now time.Time) Level {
	if !at.After(now) {
		return Level{At: at}
	}
	return Level{At: now, Doubtful: at.Sub(now) > clockSlack}
}

// Compacts reports whether a cleanup.policy compacts.
func Compacts(policy string) bool { return strings.Contains(policy, "compact") }

// LevelStoredEvery is how often it is worth storing that a mirror is level, so that it is known after a restart.
func LevelStoredEvery(deleteRetention time.Duration) time.Duration {
	return min(max(deleteRetention/10, time.Minute), 10*time.Minute)
}

// MissedDeletions says whether the source may have removed tombstones that the mirror never saw (rule T3): it is level
// again at now, and was not for longer than the source keeps a tombstone. Keys whose deletion was missed are here for
// ever, and a failover brings them back.
func MissedDeletions(last Level, now time.Time, deleteRetention time.Duration) (Problem, bool) {
	if last.Doubtful {
		return Problem{codeDeletionsMissed, "when it was last noted that the mirror stood at its source's end, the clock of this " +
			"machine was ahead: " +
			"for how long it has not is unknown, and tombstones may have been removed at the source before they were mirrored"}, true
	}
	gap := now.Sub(last.At)
	if last.At.IsZero() || gap <= deleteRetention || plant.On("deletions-untold") {
		return Problem{}, false
	}
	return Problem{codeDeletionsMissed,
		fmt.Sprintf("the mirror did not stand at its source's end for %v, from %s on, which is longer than delete.retention.ms (%v): "+
			"tombstones may have been removed at the source before they were mirrored",
			gap.Round(time.Second), last.At.UTC().Format(time.RFC3339), deleteRetention)}, true
}

// MissedAtStop says the same of a mirror that stops at ends, level or not: what it has taken since it was level may have come without the
// tombstones between. One that took nothing is what it was.
func MissedAtStop(last Level, ends []kafka.Offset, now time.Time, deleteRetention time.Duration) (Problem, bool) {
	if last.Ends != nil && slices.Equal(last.Ends, ends) {
		return Problem{}, false
	}
	return MissedDeletions(last, now, deleteRetention)
}

// RestoredLevel is since when a topic that is being restored counts as level with its peer, which stopped at stopped: since
// then where the peer's cleaner went beyond what stays here; else the peer has removed nothing yet that is missing here.
func RestoredLevel(cuts []Cut, peer []LogFacts, stopped, now time.Time) time.Time {
	for p, cut := range cuts {
		if cut.To != kafka.NoOffset && p < len(peer) && peer[p].CleanedTo > cut.To && stopped.Before(now) {
			return stopped
		}
	}
	return now
}
