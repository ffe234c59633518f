package plan

import (
	"strings"
	"testing"
	"time"
)

// TestT3_MissedDeletions is the rule about mirrors of compacted topics that were behind for too long.
func TestT3_MissedDeletions(t *testing.T) {
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const day = 24 * time.Hour
	for _, c := range []struct {
		name string
		last Level
		gap  time.Duration
		want bool
	}{
		{"within the retention", Level{At: begun}, day, false},
		{"past it", Level{At: begun}, day + time.Second, true},
		{"perhaps past it: what was stored may be older than what was seen", Level{At: begun, Slack: time.Minute}, day + time.Minute, false},
		{"past it all the same", Level{At: begun, Slack: time.Minute}, day + 2*time.Minute, true},
		{"never seen level before", Level{}, 100 * day, false},
	} {
		p, got := MissedDeletions(c.last, begun.Add(c.gap), day)
		if got != c.want || got && (p.Code != "DELETIONS_MAY_BE_MISSING" || !strings.Contains(p.Text, "2026-01-02T03:04:05Z")) {
			t.Errorf("%s: %v %v", c.name, got, p)
		}
	}
	for retention, want := range map[time.Duration]time.Duration{0: time.Minute, 30 * time.Minute: 3 * time.Minute, day: 10 * time.Minute} {
		if got := LevelStoredEvery(retention); got != want {
			t.Errorf("with %v it is stored every %v, want %v", retention, got, want)
		}
	}
	if !Compacts("compact,delete") || !Compacts("compact") || Compacts("delete") {
		t.Error("policies")
	}
}
