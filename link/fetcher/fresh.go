package fetcher

import (
	"time"

	"github.com/hawserio/hawser/kafka"
)

// seenMax bounds how many of the source's ends are remembered for one partition. Dropping some makes
// a mirror look older than it is, never younger.
const seenMax = 64

// seen is an end of the source, exclusive, and between which moments it was known to be that.
type seen struct {
	end         kafka.Offset
	first, last time.Time
}

// freshness remembers when the source had which end, so that what was applied here can be dated (rule X3):
// by when an offset was first seen, never by the time that a record claims.
type freshness struct {
	ends   []seen    // above what was applied at the last look, rising
	caught time.Time // the last moment at which all that the source had then is applied here; zero for unknown
}

// saw notes that the source's end is, or still is, end at now; before is when the source was last heard.
func (f *freshness) saw(end kafka.Offset, before, now time.Time) {
	n := len(f.ends)
	switch {
	case n > 0 && f.ends[n-1].end == end:
		f.ends[n-1].last = now
		return
	case n > 0 && f.ends[n-1].end > end:
		// The end went back: a leader was lost. What was seen of the lost part says nothing now.
		for n > 0 && f.ends[n-1].end > end {
			n--
		}
		f.ends = f.ends[:n]
	case n > 0 && before.After(f.ends[n-1].last):
		f.ends[n-1].last = before // a session leaves out what has not changed
	}
	if len(f.ends) == seenMax {
		f.thin()
	}
	f.ends = append(f.ends, seen{end, now, now})
}

// thin forgets the end that tells least: the one seen soonest after the one before it.
func (f *freshness) thin() {
	least := 1
	for i := 2; i < len(f.ends); i++ {
		if f.ends[i].first.Sub(f.ends[i-1].first) < f.ends[least].first.Sub(f.ends[least-1].first) {
			least = i
		}
	}
	f.ends = append(f.ends[:least], f.ends[least+1:]...)
}

// applied notes that everything below end is synced here; heard is when the source last answered, and had nothing new.
func (f *freshness) applied(end kafka.Offset, heard time.Time) {
	for i, s := range f.ends {
		if s.end > end {
			f.ends = f.ends[i:]
			return
		}
		last := s.last
		if i == len(f.ends)-1 && heard.After(last) {
			last = heard
		}
		if last.After(f.caught) {
			f.caught = last
		}
	}
	if n := len(f.ends); n > 0 {
		f.ends = f.ends[n-1:] // the source's end as it was last seen
	}
}

// behind is when the oldest record that is not applied here was first seen at the source; zero for none.
func (f *freshness) behind(end kafka.Offset) time.Time {
	for _, s := range f.ends {
		if s.end > end {
			return s.first
		}
	}
	return time.Time{}
}
