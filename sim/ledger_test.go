package sim

import (
	"testing"

	"github.com/hawserio/hawser/kafka"
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
