package sim

import (
	"testing"
	"testing/synctest"
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
