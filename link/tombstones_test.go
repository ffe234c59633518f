package link

import (
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/plan"
)

// A mirror that is looked at every second, and stored as level once a minute, is not behind for that.
func TestT3_NoRetentionDoesNotMarkAtEveryLook(t *testing.T) {
	now := time.Now()
	stored, seen := plan.Level{}, plan.Level{Ends: []kafka.Offset{1}}
	for _, c := range []struct {
		value string
		last  plan.Level
		want  time.Duration
	}{
		{"0", stored, tombstonesLeast},
		{"500", stored, tombstonesLeast},
		{"0", seen, tombstonesSeen},
		{"60000", seen, time.Minute},
		{"3600000", stored, time.Hour},
		{"9223372036854775807", seen, 1 << 62 / time.Millisecond * time.Millisecond},
	} {
		if got := keptAtLeast(map[string]string{"delete.retention.ms": c.value}, c.last); got != c.want {
			t.Errorf("delete.retention.ms=%s counts as %v, want %v", c.value, got, c.want)
		}
	}
	none := map[string]string{"delete.retention.ms": "0"}
	missed := func(ago time.Duration, last plan.Level) bool {
		last.At = now.Add(-ago)
		_, missed := plan.MissedDeletions(last, now, keptAtLeast(none, last))
		return missed
	}
	if missed(plan.LevelStoredEvery(0)+10*time.Second, stored) || missed(5*time.Second, seen) {
		t.Error("a mirror that was level at the last look is marked")
	}
	if !missed(5*time.Minute, stored) || !missed(11*time.Second, seen) {
		t.Error("a mirror that was away is not marked")
	}
}
