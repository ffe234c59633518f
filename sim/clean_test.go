package sim

import (
	"testing"
	"testing/synctest"

	"github.com/hawserio/hawser/kafka"
)

// TestT3_EndWaitsForWhatIsToldOfDeletions has a mirror of a compacted topic come back after two hours and take what it lacks in few steps: before
// a schedule's end is looked at, the link's loop has come to mark it.
func TestT3_EndWaitsForWhatIsToldOfDeletions(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(Options{Seed: seed}, func(p *profile) { *p = quietPair(); p.compact = true })
			defer w.close()
			w.calm = true
			a, b := w.clusters[0], w.clusters[1]
			if b.topic == nil {
				w.quiet(b.create)
			}
			w.rounds()
			w.pass(2 * deleteRetention)
			pr := w.newProducer(a)
			pr.kind = plainProducer
			pr.init()
			w.quiet(pr.step)
			w.rounds()
			if !b.atRest() || w.err != nil {
				t.Fatalf("seed %d: %v, %v", seed, b, w.err)
			}
			if root := b.topic.seen[0].root; !w.missed[root] {
				t.Errorf("seed %d: %v came back after two hours and says nothing", seed, b)
			}
		})
	}
}

// quietPair is two clusters to which nothing happens by itself.
func quietPair() profile {
	return profile{layout: pair, crashes: 1 << 30, losses: 1 << 30, doubles: 1 << 30, segment: segmentFull, turns: true}
}

// TestT8_ClampToAnEndThatIsNotSyncedYet stops a mirror that is copied again, whose groups stand where the copy has not come to: what they are
// lowered to is shown when the stop has synced it.
func TestT8_ClampToAnEndThatIsNotSyncedYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(Options{Seed: 1}, func(p *profile) { *p = quietPair() })
		defer w.close()
		w.calm = true
		a := w.clusters[0]
		a.setCommit("g1", 0, commit{offset: 3, cut: true})
		a.clamp([]kafka.Offset{a.part(0).Offsets().HighWatermark + 1, 0, 0})
		if got := a.topic.groups["g1"][0]; got.offset != 1 || !got.cut {
			t.Errorf("above what is shown: %+v", got)
		}
		a.clamp([]kafka.Offset{a.part(0).Offsets().HighWatermark, 0, 0})
		if got := a.topic.groups["g1"][0]; got.offset != 0 || got.cut {
			t.Errorf("at what is shown: %+v", got)
		}
	})
}

// TestT10_AnAnswerOfATopicThatIsGone brings the histories that a topic told before it was deleted: what stands there now is not what a cut
// is measured by, nor confirms the pledge.
func TestT10_AnAnswerOfATopicThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(Options{Seed: 1}, func(p *profile) { *p = quietPair() })
		defer w.close()
		w.calm = true
		a, b := w.clusters[0], w.clusters[1]
		if b.topic == nil {
			w.quiet(b.create)
		}
		b.topic.rec.sourceID = a.topic.ID
		w.quiet(a.removeTopic)
		w.quiet(a.create)
		w.checkRestoreCut(b, a, 0, restoreCut{to: 0})
		if w.err != nil {
			t.Errorf("of a topic that is gone: %v", w.err)
		}
		b.topic.rec.sourceID = a.topic.ID
		w.checkRestoreCut(b, a, 0, restoreCut{to: 0})
		if w.err == nil {
			t.Error("another topic's history is taken for its own")
		}
	})
}
