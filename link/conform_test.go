package link

import (
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/task"
	"github.com/hawserio/hawser/meta"
)

func TestReverseAndRestoreNeedABidirectionalLink(t *testing.T) {
	r := newRig(t)
	r.source.topic("t", 1)
	r.link("l")
	r.mirror("l", "t")
	for _, verb := range []Verb{ReverseAndStart, ReverseAndPause, TruncateAndRestore} {
		got := r.order("l", verb, "t")[0]
		if got.Code != 400 || !strings.Contains(got.Text, "BIDIRECTIONAL") {
			t.Errorf("%s on a link in one direction: %d %s", verb, got.Code, got.Text)
		}
	}
	r.state("t", mirror.Active)
}

// TestC47_DotAndUnderscoreLookAlike has a topic here that differs from a mirror-to-be in them alone.
func TestC47_DotAndUnderscoreLookAlike(t *testing.T) {
	r := newRig(t)
	r.source.topic("usa_clicks", 1)
	r.source.topic("usa.clicks", 1)
	r.source.topic("other", 1)
	r.link("l")
	r.mirror("l", "usa.clicks")
	_, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "usa_clicks"})
	if err == nil || !strings.Contains(err.Error(), "usa.clicks") {
		t.Errorf("made by hand: %v", err)
	}
	on, filters := "true", `{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`
	if err := r.links.AlterConfigs(t.Context(), "l", []AlterConfig{{keyAutoCreate, &on}, {keyTopicFilters, &filters}}, false); err != nil {
		t.Fatal(err)
	}
	r.eventually("the other is made and the collision told", func() bool {
		info, _ := r.links.Describe("l")
		for _, one := range info.Tasks {
			if one.Name == task.AutoCreateMirror && len(info.Topics) == 2 && len(one.Errors) == 1 {
				return one.Errors[0].Code == string(mirror.InvalidTopic) && strings.Contains(one.Errors[0].Text, "usa_clicks")
			}
		}
		return false
	})
}

// TestT3_MirrorAwayForLongerThanTombstonesAreKept has a mirror come back to its source's end two days later.
func TestT3_MirrorAwayForLongerThanTombstonesAreKept(t *testing.T) {
	r := newRig(t)
	r.source.topic("keys", 1, "cleanup.policy", "compact")
	r.source.topic("plain", 1)
	r.link("l", keyRecopy, "false")
	r.mirror("l", "keys")
	r.mirror("l", "plain")
	level := func() {
		pool := r.pool()
		pool.mu.Lock()
		defer pool.mu.Unlock()
		for _, topic := range []string{"keys", "plain"} {
			pool.status[kafka.TopicPartition{Topic: topic}] = fetcher.Status{SourceEnd: 10, LastFetched: 9, LastContact: time.Now()}
		}
	}
	levelMs := func(topic string) int64 {
		img := r.meta.Image()
		return img.Mirrors[img.TopicIDs[topic]].LevelMs
	}
	level()
	r.eventually("it is noted when the mirror was made", func() bool { return levelMs("keys") > 0 })
	if levelMs("plain") != 0 {
		t.Error("a topic without compaction is watched")
	}
	if m, _ := r.links.Mirror("l", "keys"); m.Err != "NO_ERROR" {
		t.Errorf("at first it shows %s", m.Err)
	}
	r.links.Close() // running, it would note at once that the mirror is level
	long := time.Now().Add(-48 * time.Hour).UnixMilli()
	err := r.meta.Update(t.Context(), func(img *meta.Image) ([]meta.Change, error) {
		rec := *img.Mirrors[img.TopicIDs["keys"]]
		rec.LevelMs = long
		return []meta.Change{meta.PutMirror(&rec)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.start()
	r.eventually("it is fetched again", func() bool { return r.pool().fetches("keys") == 1 })
	level()
	r.eventually("it says so", func() bool {
		m, _ := r.links.Mirror("l", "keys")
		return m.Err == string(mirror.DeletionsMissed) && m.Status == "ACTIVE" && levelMs("keys") > long
	})
	r.obeyed("l", Pause, "keys")
	r.obeyed("l", Resume, "keys")
	if m, _ := r.links.Mirror("l", "keys"); m.Err != "NO_ERROR" {
		t.Errorf("after pause and resume it shows %s", m.Err)
	}
}

// A mirror whose level was noted while the clock was ten years ahead: taken as it is, nothing would count as missed for ten years, and nothing be noted.
func TestT3_LevelNotedByAClockThatWasAhead(t *testing.T) {
	r := newRig(t)
	r.source.topic("keys", 1, "cleanup.policy", "compact")
	r.link("l", keyRecopy, "false")
	r.mirror("l", "keys")
	levelMs := func() int64 {
		img := r.meta.Image()
		return img.Mirrors[img.TopicIDs["keys"]].LevelMs
	}
	level := func() {
		pool := r.pool()
		pool.mu.Lock()
		defer pool.mu.Unlock()
		pool.status[kafka.TopicPartition{Topic: "keys"}] = fetcher.Status{SourceEnd: 10, LastFetched: 9, LastContact: time.Now()}
	}
	note := func(at time.Time) {
		err := r.meta.Update(t.Context(), func(img *meta.Image) ([]meta.Change, error) {
			rec := *img.Mirrors[img.TopicIDs["keys"]]
			rec.LevelMs = at.UnixMilli()
			return []meta.Change{meta.PutMirror(&rec)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	level()
	r.eventually("it is noted when the mirror was made", func() bool { return levelMs() > 0 })
	ahead := time.Now().AddDate(10, 0, 0)
	note(ahead) // while it runs, it knows better
	r.eventually("it is noted anew", func() bool { return levelMs() < ahead.UnixMilli() })
	if m, _ := r.links.Mirror("l", "keys"); m.Err != "NO_ERROR" {
		t.Errorf("a process that has seen the mirror level shows %s", m.Err)
	}
	r.links.Close()
	note(ahead)
	r.start()
	r.eventually("it is fetched again", func() bool { return r.pool().fetches("keys") == 1 })
	level()
	r.eventually("it says so", func() bool {
		m, _ := r.links.Mirror("l", "keys")
		return m.Err == string(mirror.DeletionsMissed) && levelMs() < ahead.UnixMilli()
	})
}

// TestT3_LevelAsOfTheLastAnswer has a mirror whose source answered last half a minute ago: what was deleted since then may be missing from then on, and not
// from when it is written down.
func TestT3_LevelAsOfTheLastAnswer(t *testing.T) {
	r := newRig(t)
	r.source.topic("keys", 1, "cleanup.policy", "compact")
	r.link("l")
	r.mirror("l", "keys")
	levelMs := func() int64 {
		img := r.meta.Image()
		return img.Mirrors[img.TopicIDs["keys"]].LevelMs
	}
	r.eventually("it is noted when the mirror was made", func() bool { return levelMs() > 0 })
	r.links.Close()
	before := time.Now().Add(-time.Hour)
	err := r.meta.Update(t.Context(), func(img *meta.Image) ([]meta.Change, error) {
		rec := *img.Mirrors[img.TopicIDs["keys"]]
		rec.LevelMs = before.UnixMilli()
		return []meta.Change{meta.PutMirror(&rec)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.start()
	r.eventually("it is fetched again", func() bool { return r.pool().fetches("keys") == 1 })
	answered := time.Now().Add(-30 * time.Second)
	pool := r.pool()
	pool.mu.Lock()
	pool.status[kafka.TopicPartition{Topic: "keys"}] = fetcher.Status{SourceEnd: 10, LastFetched: 9, LastContact: answered}
	pool.mu.Unlock()
	r.eventually("it is noted that the mirror is level", func() bool { return levelMs() != before.UnixMilli() })
	if got := time.UnixMilli(levelMs()); !got.Equal(answered.Truncate(time.Millisecond)) {
		t.Errorf("it was level at %v, the source answered at %v", got, answered)
	}
}

// TestT3_MirrorStoppedBeforeItIsLevelAgain is failed over on its way back to its source's end after two days: what it has taken may have come without
// tombstones, and it says so as an ordinary topic too.
func TestT3_MirrorStoppedBeforeItIsLevelAgain(t *testing.T) {
	r := newRig(t)
	r.source.topic("keys", 1, "cleanup.policy", "compact")
	r.link("l")
	r.mirror("l", "keys")
	r.eventually("it is noted when the mirror was made", func() bool {
		img := r.meta.Image()
		return img.Mirrors[img.TopicIDs["keys"]].LevelMs > 0
	})
	r.links.Close()
	err := r.meta.Update(t.Context(), func(img *meta.Image) ([]meta.Change, error) {
		rec := *img.Mirrors[img.TopicIDs["keys"]]
		rec.LevelMs = time.Now().Add(-48 * time.Hour).UnixMilli()
		return []meta.Change{meta.PutMirror(&rec)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.start()
	r.eventually("it is fetched again", func() bool { return r.pool().fetches("keys") == 1 })
	r.part("keys", 0).grow(20)
	r.obeyed("l", Failover, "keys")
	r.eventually("it is stopped", func() bool { m, _ := r.links.Mirror("l", "keys"); return m.Status == "STOPPED" })
	if m, _ := r.links.Mirror("l", "keys"); m.Err != string(mirror.DeletionsMissed) {
		t.Errorf("it shows %s", m.Err)
	}
}
