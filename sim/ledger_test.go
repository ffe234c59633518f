package sim

import (
	"testing"
	"testing/synctest"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// TestT8_CommonEndSpansAJump has a mirror jump, stop and write, and a copy of it from before the jump write too: what they have in common is
// what the copy was taken of, before the first write after the jump and with it.
func TestT8_CommonEndSpansAJump(t *testing.T) {
	first := &node{base: 0, next: 1}
	copied := &seen{tip: &node{base: 1, next: 2, parent: first, depth: 1}}
	jumped := &seen{passed: first}
	w := &world{}
	for _, tip := range []*node{nil, {base: 2, next: 3, over: first}} {
		jumped.tip = tip
		if got := w.commonEnd(jumped, copied); got != 1 {
			t.Errorf("with %v above the jump: %d", tip, got)
		}
	}
	stranger := &seen{tip: &node{base: 2, next: 3}}
	if got := w.commonEnd(stranger, copied); got != kafka.Offset(0) {
		t.Errorf("histories without anything in common: %d", got)
	}
}

// TestE6_LateAnswerOfATopicThatWasMadeAnew brings an answer that nobody waits for any more, of a topic without id: as long as that is there it is what was
// asked for, and once another one has its name it is nothing that a fetcher would still append.
func TestE6_LateAnswerOfATopicThatWasMadeAnew(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(Options{Seed: 1}, func(p *profile) { *p = quietPair(); p.layout = fromKafka })
			defer w.close()
			w.calm = true
			a, b := w.clusters[0], w.clusters[1]
			a.plain.withIDs, a.plain.id = false, kafka.TopicID{}
			if b.topic != nil {
				b.removeTopic()
			}
			w.quiet(b.create)
			w.quiet(b.shell.work) // its starts, and followers
			record, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1}, []batch.Record{{Key: []byte("k")}})
			if err != nil {
				t.Fatal(err)
			}
			a.plain.append(0, record)
			late := ask{serial: -1, generation: b.part(0).Offsets().Generation, currentEpoch: kafka.NoEpoch, lastEpoch: kafka.NoEpoch, root: a.rootOf(0)}
			answer := a.serve(late)
			want := kafka.Offset(1)
			if again {
				a.plain.make(1)
				want = 0
			}
			b.shell.answered(late, answer)
			if got := b.part(0).Offsets().LogEnd; got != want {
				t.Errorf("made anew %v: the mirror ends at %d", again, got)
			}
		})
	}
}
