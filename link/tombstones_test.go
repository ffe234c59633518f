package link

import (
	"testing"
	"time"

	"github.com/hawserio/hawser/link/plan"
)

// A mirror that is looked at every few seconds, and stored as level once a minute, is not behind for that.
func TestT3_NoRetentionDoesNotMarkAtEveryLook(t *testing.T) {
	now := time.Now()
	for value, want := range map[string]time.Duration{"0": tombstonesLeast, "500": tombstonesLeast, "3600000": time.Hour, "x": 0, "9223372036854775807": 1 << 62 / time.Millisecond * time.Millisecond} {
		retention := deleteRetention(map[string]string{"delete.retention.ms": value})
		if retention != want {
			t.Errorf("delete.retention.ms=%s counts as %v, want %v", value, retention, want)
		}
	}
	none := deleteRetention(map[string]string{"delete.retention.ms": "0"})
	if _, missed := plan.MissedDeletions(plan.Level{At: now.Add(-plan.LevelStoredEvery(none) - 10*time.Second)}, now, none); missed {
		t.Error("a mirror that was level at the last look is marked")
	}
	if _, missed := plan.MissedDeletions(plan.Level{At: now.Add(-5 * time.Minute)}, now, none); !missed {
		t.Error("a mirror that was away for five minutes is not marked")
	}
}
