package plan

import (
	"testing"
	"time"

	"github.com/hawserio/hawser/link/mirror"
)

// TestT3_WhetherAMirrorIsCopiedAgain is the decision about mirrors that may have missed deletions.
func TestT3_WhetherAMirrorIsCopiedAgain(t *testing.T) {
	well := RecopyFacts{State: mirror.Active, Marked: true, Allowed: true}
	for _, c := range []struct {
		name   string
		change func(*RecopyFacts)
		want   RecopyStep
	}{
		{"marked", func(*RecopyFacts) {}, RecopyBegin},
		{"not marked", func(f *RecopyFacts) { f.Marked = false }, RecopyNothing},
		{"forbidden", func(f *RecopyFacts) { f.Allowed = false }, RecopyNothing},
		{"halted", func(f *RecopyFacts) { f.Paused = true }, RecopyNothing},
		{"paused", func(f *RecopyFacts) { f.State = mirror.Paused }, RecopyNothing},
		{"stopped", func(f *RecopyFacts) { f.State = mirror.Stopped }, RecopyNothing},
		{"begun", func(f *RecopyFacts) { f.Begun = true }, RecopyGoOn},
		{"begun, mark overwritten", func(f *RecopyFacts) { f.Begun, f.Marked = true, false }, RecopyGoOn},
		{"begun, paused", func(f *RecopyFacts) { f.Begun, f.State = true, mirror.Paused }, RecopyHold},
		{"begun, halted", func(f *RecopyFacts) { f.Begun, f.Paused = true, true }, RecopyHold},
		{"begun, failed", func(f *RecopyFacts) { f.Begun, f.State = true, mirror.Failed }, RecopyHold},
		{"begun, promoting", func(f *RecopyFacts) { f.Begun, f.State = true, mirror.PendingStopped }, RecopyHold},
		{"begun, reversing", func(f *RecopyFacts) { f.Begun, f.State = true, mirror.PendingSynchronize }, RecopyHold},
		{"begun, stopping", func(f *RecopyFacts) { f.Begun, f.State = true, mirror.Stopping }, RecopyDrop},
		{"begun, stopped", func(f *RecopyFacts) { f.Begun, f.State = true, mirror.Stopped }, RecopyDrop},
		{"begun, being restored", func(f *RecopyFacts) { f.Begun, f.State = true, mirror.PendingRestore }, RecopyDrop},
		{"begun, then forbidden", func(f *RecopyFacts) { f.Begun, f.Allowed = true, false }, RecopyDrop},
	} {
		f := well
		c.change(&f)
		if got := Recopy(f); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestT3_WhenACopyTakesThePlace is the decision about one partition.
func TestT3_WhenACopyTakesThePlace(t *testing.T) {
	for _, c := range []struct {
		name string
		f    CopyFacts
		want CopyStep
	}{
		{"not fetched yet", CopyFacts{}, CopyFetch},
		{"behind", CopyFacts{Copied: true, CopyEnd: 9, MirrorEnd: 10}, CopyFetch},
		{"level", CopyFacts{Copied: true, Level: true, CopyEnd: 10, MirrorEnd: 10}, CopyCompare},
		// What superseded records that the source's cleaner removed before they were copied may be above the copy's end.
		{"behind the source", CopyFacts{Copied: true, CopyEnd: 10, MirrorEnd: 10, Compared: true}, CopyFetch},
		{"compared", CopyFacts{Copied: true, Level: true, CopyEnd: 11, MirrorEnd: 10, Compared: true}, CopySwap},
		{"compared, behind again", CopyFacts{Level: true, Copied: true, CopyEnd: 9, MirrorEnd: 10, Compared: true}, CopyFetch},
		{"compared, in error", CopyFacts{Level: true, CopyEnd: 11, MirrorEnd: 10, Compared: true}, CopyFetch},
		{"different", CopyFacts{Level: true, Copied: true, CopyEnd: 11, MirrorEnd: 10, Compared: true, Different: true}, CopyGiveUp},
		{"full", CopyFacts{Full: true}, CopyGiveUp},
		{"in its place", CopyFacts{Taken: true, Full: true}, CopyNothing},
	} {
		if got := CopyNext(c.f); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestT3_RoomAndTimeOfACopy(t *testing.T) {
	const mb = 1 << 20
	if got := RecopyRoom([]int64{8 * mb, 80 * mb, 0, 16 * mb}, 2); got != 90*mb+18*mb+2*mb {
		t.Errorf("two at once take %d", got)
	}
	if got := RecopyRoom(nil, 2); got != 0 {
		t.Errorf("nothing takes %d", got)
	}
	now := time.Unix(1_700_000_000, 0)
	if _, missed := Recopied(now.Add(-time.Hour), now, time.Hour); missed {
		t.Error("it was in time")
	}
	if p, missed := Recopied(now.Add(-time.Hour-1), now, time.Hour); !missed || p.Code != string(mirror.DeletionsMissed) {
		t.Errorf("it took too long: %+v", p)
	}
}
