package link

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/journal"
)

// Rule X3: what was noted counts only of the log that it was noted of, and makes nothing younger.
func TestX3_WhatIsRecalledIsOfThisLog(t *testing.T) {
	now := time.UnixMilli(50_000)
	epochs := []kafka.EpochStart{{Start: 0, Epoch: 1}, {Start: 100, Epoch: 4}}
	at := func(applied, end kafka.Offset, epoch kafka.LeaderEpoch, caught, behind int64) journal.Entry {
		return journal.Entry{Applied: applied, SourceEnd: end, Epoch: epoch, At: caught, CaughtUp: caught, Behind: behind}
	}
	for _, row := range []struct {
		name    string
		entries []journal.Entry
		synced  kafka.Offset
		caught  int64 // -1 for nothing
		behind  int64
		end     kafka.Offset
	}{
		{"nothing noted", nil, 10, -1, 0, 0},
		{"level", []journal.Entry{at(120, 120, 4, 40_000, 0)}, 120, 40_000, 0, 120},
		{"more was appended since", []journal.Entry{at(120, 130, 4, 40_000, 41_000)}, 125, 40_000, 41_000, 130},
		{"truncated since", []journal.Entry{at(120, 120, 4, 40_000, 0), at(90, 95, 1, 20_000, 21_000)}, 110, 20_000, 21_000, 95},
		{"another history", []journal.Entry{at(120, 120, 3, 40_000, 0)}, 130, -1, 0, 0},
		{"an empty log", []journal.Entry{at(0, 7, kafka.NoEpoch, 0, 30_000)}, 0, 0, 30_000, 7},
		{"a clock that was set back", []journal.Entry{at(120, 120, 4, 90_000, 0)}, 120, 50_000, 0, 120},
	} {
		d, is := recall(row.entries, row.synced, epochs, now)
		if is != (row.caught >= 0) || is && (millis(d.caughtUp) != row.caught || millis(d.behind) != row.behind || d.end != row.end) {
			t.Errorf("%s: %+v, %t", row.name, d, is)
		}
	}
}

func TestX3_KnowledgeFromBeforeOnlyMakesAMirrorOlder(t *testing.T) {
	sec := func(s int64) time.Time { return time.Unix(s, 0) }
	before := dated{caughtUp: sec(100), behind: sec(110), end: 50}
	for _, row := range []struct {
		name           string
		status         fetcher.Status
		synced         kafka.Offset
		caught, behind time.Time
	}{
		{"not heard yet", fetcher.Status{}, 40, sec(100), sec(110)},
		{"heard, and behind still", fetcher.Status{LastContact: sec(200), Behind: sec(200)}, 40, sec(100), sec(110)},
		{"past what was missing", fetcher.Status{LastContact: sec(200), Behind: sec(200)}, 50, sec(100), sec(200)},
		{"level again", fetcher.Status{LastContact: sec(200), CaughtUp: sec(200)}, 50, sec(200), time.Time{}},
	} {
		before.refine(&row.status, row.synced)
		if !row.status.CaughtUp.Equal(row.caught) || !row.status.Behind.Equal(row.behind) {
			t.Errorf("%s: caught up %v, behind %v", row.name, row.status.CaughtUp, row.status.Behind)
		}
	}
}

// Rule X3: a source that is dead when the broker starts again does not hide how old the mirror is.
func TestX3_HowOldAMirrorIsOutlivesARestart(t *testing.T) {
	r := newRig(t)
	noted := journal.Open(journal.Config{Path: filepath.Join(t.TempDir(), "j"), Live: func(kafka.TopicID) bool { return true }, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = noted.Close() })
	r.journal = noted
	r.restart()
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	r.part("t", 0).grow(90)
	caught, behind := time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli()), time.UnixMilli(time.Now().Add(-time.Minute).UnixMilli())
	pool := r.pool()
	pool.mu.Lock()
	pool.status[kafka.TopicPartition{Topic: "t"}] = fetcher.Status{SourceEnd: 95, LagRecords: 5, LastFetched: 89, LastContact: time.Now(), CaughtUp: caught, Behind: behind}
	pool.mu.Unlock()
	r.links.Close()
	r.gone()
	r.start()
	info, err := r.links.Mirror("l", "t")
	if err != nil {
		t.Fatal(err)
	}
	if l := info.Lags[0]; !l.CaughtUp.Equal(caught) || !l.Behind.Equal(behind) || l.Records != 5 || l.SourceEnd != 95 {
		t.Errorf("after a restart with a dead source the lag is %+v", l)
	}
	// A log that is not what was noted has nothing of it.
	r.part("t", 0).grow(0)
	r.restart()
	if info, _ := r.links.Mirror("l", "t"); !info.Lags[0].CaughtUp.IsZero() {
		t.Errorf("a log that was emptied is as old as before: %+v", info.Lags[0])
	}
}
