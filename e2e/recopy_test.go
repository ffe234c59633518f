//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hawserio/hawser/kafka/batch"
)

// TestT3_MissedDeletionsGoFromTheMirror keeps a mirror of a compacted topic away from its source until a tombstone is gone there. It is copied again beside
// itself: the deleted key goes, offsets and groups stay, and a consumer that reads meanwhile goes on.
func TestT3_MissedDeletionsGoFromTheMirror(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), fastLink)
	topic := "t3"
	CreateTopic(t, w.source, topic, 1, 1, map[string]string{"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "10000"})
	one := Client(t, w.k.Bootstrap(), kgo.ProducerLinger(0))
	for i := range 10 {
		produce(t, one, keyed(topic, "v", fmt.Sprintf("k%d", i))...)
	}
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	admin := kadm.NewClient(w.mirror)
	commitText(t, admin, "t3-group", topic, 0, 6, "")
	reader := Client(t, w.h.Kafka, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NoResetOffset().AtStart()))
	seen := map[string]int64{}
	read := func(until string) {
		t.Helper()
		eventually(t, 60*time.Second, "the consumer reads "+until, func() (bool, string) {
			fetches := reader.PollFetches(testContext(t))
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if last, is := seen[string(r.Key)]; is && r.Offset <= last {
					t.Errorf("offset %d of key %s comes after %d", r.Offset, r.Key, last)
				}
				seen[string(r.Key)] = r.Offset
			})
			_, is := seen[until]
			return is, fmt.Sprint(len(seen), " keys")
		})
	}
	read("k9")
	first := 0.0
	eventually(t, 60*time.Second, "the mirror was seen to be level", func() (bool, string) {
		now := caughtUp(t, w.h, topic)
		if first == 0 {
			first = now
		}
		return now-first > 3000, fmt.Sprint(now - first)
	})
	w.h.Order("east", "pause", topic)
	w.h.WaitStatus("east", topic, "PAUSED", 30*time.Second)
	away := time.Now()
	produce(t, one, &kgo.Record{Topic: topic, Key: []byte("k3")})
	eventually(t, 90*time.Second, "the source has forgotten the deletion", func() (bool, string) {
		produce(t, one, keyed(topic, time.Now().String(), "filler")...)
		pause(testContext(t), 250*time.Millisecond)
		keys := keysOf(t, w.source, topic)
		return !keys["k3"] && time.Since(away) > 11*time.Second, fmt.Sprint(keys)
	})
	if !keysOf(t, w.mirror, topic)["k3"] {
		t.Fatal("the mirror lost the key by itself")
	}
	t.Logf("the source forgot the deletion after %v", time.Since(away))
	w.h.Order("east", "resume", topic)
	resumed := time.Now()
	eventually(t, 60*time.Second, "the deleted key is gone from the mirror", func() (bool, string) {
		m := w.h.Mirror("east", topic)
		return !keysOf(t, w.mirror, topic)["k3"] && m.Status == "ACTIVE" && m.Error == "NO_ERROR", fmt.Sprintf("%+v", m)
	})
	t.Logf("the deleted key was gone %v after the order to resume", time.Since(resumed))
	produce(t, one, keyed(topic, "v", "last")...)
	w.level(topic, 1)
	read("last")
	check := func() {
		t.Helper()
		sameByTheRule(t, w.source, w.mirror, topic)
		if at := committedAt(t, admin, "t3-group", topic, 0).At; at != 6 {
			t.Errorf("the group stands at %d", at)
		}
		if keys := keysOf(t, w.mirror, topic); keys["k3"] || !keys["k4"] || !keys["last"] {
			t.Errorf("the mirror has %v", keys)
		}
	}
	check()
	if names := strings.Join(topicNames(t, w.mirror), " "); strings.Contains(names, "copy") {
		t.Errorf("the copy is shown: %s", names)
	}
	w.restart()
	w.level(topic, 1)
	check()
	if m := w.h.Mirror("east", topic); m.Error != "NO_ERROR" {
		t.Errorf("after a restart it shows %s", m.Error)
	}
}

func keysOf(t *testing.T, c *kgo.Client, topic string) map[string]bool {
	t.Helper()
	start, end := Ends(t, c, topic, 0)
	keys := map[string]bool{}
	for b, err := range batch.Batches(Raw(t, c, topic, 0, start, end)).All() {
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range b.Records(64 << 20) {
			if err != nil {
				t.Fatal(err)
			}
			keys[string(r.Key)] = true
		}
	}
	return keys
}

// caughtUp is when the first partition of a mirror last had all of its source, in Unix ms.
func caughtUp(t *testing.T, h *Hawser, topic string) float64 {
	t.Helper()
	lags, is := h.Mirror("east", topic).Raw["mirror_lags"].([]any)
	if !is || len(lags) == 0 {
		t.Fatal("no lags")
	}
	first, is := lags[0].(map[string]any)
	if !is {
		t.Fatal("no lag")
	}
	at, _ := first["caught_up_ms"].(float64)
	return at
}
