package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
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
		{"never seen level before", Level{}, 100 * day, false},
	} {
		p, got := MissedDeletions(c.last, begun.Add(c.gap), day)
		if got != c.want || got && (p.Code != "DELETIONS_MAY_BE_MISSING" || !strings.Contains(p.Text, "2026-01-02T03:04:05Z")) {
			t.Errorf("%s: %v %v", c.name, got, p)
		}
	}
	for name, c := range map[string]struct {
		stored time.Time
		want   bool
	}{
		"noted before":                       {begun.Add(-day), false},
		"the clock was set back by a moment": {begun.Add(time.Minute), false},
		"the clock was ahead":                {begun.AddDate(10, 0, 0), true},
	} {
		if _, got := MissedDeletions(StoredLevel(c.stored, begun), begun, day); got != c.want {
			t.Errorf("%s: missed %t", name, got)
		}
	}
	taken := Level{At: begun, Ends: []kafka.Offset{5, 7}}
	for _, c := range []struct {
		name string
		last Level
		ends []kafka.Offset
		gap  time.Duration
		want bool
	}{
		{"it took nothing since", taken, []kafka.Offset{5, 7}, 3 * day, false},
		{"it took something, within the retention", taken, []kafka.Offset{5, 8}, day, false},
		{"it took something past it", taken, []kafka.Offset{5, 8}, day + time.Second, true},
		{"nobody knows what it took", Level{At: begun}, []kafka.Offset{5, 7}, day + time.Second, true},
	} {
		if _, got := MissedAtStop(c.last, c.ends, begun.Add(c.gap), day); got != c.want {
			t.Errorf("stopped, %s: %v", c.name, got)
		}
	}
	stopped := begun.Add(-time.Hour)
	for _, c := range []struct {
		name  string
		cut   kafka.Offset
		peer  LogFacts
		since time.Time
	}{
		{"the peer's cleaner was not beyond the cut", 10, LogFacts{CleanedTo: 10}, begun},
		{"it was", 10, LogFacts{CleanedTo: 11}, stopped},
		{"all is copied again", kafka.NoOffset, LogFacts{CleanedTo: 11}, begun},
	} {
		if got := RestoredLevel([]Cut{{To: c.cut}}, []LogFacts{c.peer}, stopped, begun); !got.Equal(c.since) {
			t.Errorf("restored, %s: level since %v", c.name, got)
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
