package handler

import "sync"

// scratchMax is how many partitions' memory is kept for the next fetch.
const scratchMax = 1 << 14

// fetchScratch is memory that a fetch needs from its begin to its answer: a reader that is up to date on many quiet
// partitions asks for all of them again with each record.
type fetchScratch struct {
	wants        []fetchWant
	before, sent []fetchSent
	asked        []*sessionPart
	parts        []fetchPart
}

var scratches = sync.Pool{New: func() any { return new(fetchScratch) }}

func takeScratch() *fetchScratch { return scratches.Get().(*fetchScratch) }

// partsOf makes the parts of a plan.
func (s *fetchScratch) partsOf(wants []fetchWant) []fetchPart {
	s.parts = s.parts[:0]
	for _, want := range wants {
		s.parts = append(s.parts, fetchPart{want: want})
	}
	return s.parts
}

// give keeps the memory, but nothing that it leads to. The fetch must be over.
func (s *fetchScratch) give() {
	if cap(s.parts) > scratchMax || cap(s.asked) > scratchMax {
		return
	}
	clear(s.parts)
	clear(s.asked)
	clear(s.wants)
	s.wants, s.before, s.sent, s.asked, s.parts = s.wants[:0], s.before[:0], s.sent[:0], s.asked[:0], s.parts[:0]
	scratches.Put(s)
}
