package retain

import (
	"math"

	"github.com/hawserio/hawser/kafka"
)

// Dirt is the part of a compacted log that the cleaner may go through now.
type Dirt struct {
	From, To   kafka.Offset // [From, To), the ends of whole segments
	CleanBytes int64        // in the segments below From
	DirtyBytes int64        // in those of [From, To)
	Due        bool         // a record there is older than max.compaction.lag.ms
}

// Ratio is the dirty part of what a cleaning would go through, 0 to 1.
func (d Dirt) Ratio() float64 {
	if d.DirtyBytes == 0 {
		return 0
	}
	return float64(d.DirtyBytes) / float64(d.CleanBytes+d.DirtyBytes)
}

// Worth reports whether the topic's configs ask for a cleaning.
func (p Policy) Worth(d Dirt) bool {
	return p.Compact && d.DirtyBytes > 0 && (d.Due || d.Ratio() > p.DirtyRatio)
}

// Dirt finds what may be cleaned: whole segments below the last stable offset, never the newest one, none
// from the first on that holds a record younger than min.compaction.lag.ms. segments are all of the
// log's, oldest first; cleaned is the offset up to which it was gone through before.
func (p Policy) Dirt(segments []Segment, cleaned, lastStable kafka.Offset, nowMs int64) Dirt {
	var d Dirt
	if !p.Compact || len(segments) == 0 {
		return d
	}
	d.From, d.To = cleaned, cleaned
	for _, s := range segments[:len(segments)-1] {
		if s.Next <= cleaned {
			d.CleanBytes += s.Bytes
			continue
		}
		if s.Next > lastStable || p.MinLagMs > 0 && s.newest() > nowMs-p.MinLagMs {
			break
		}
		d.DirtyBytes += s.Bytes
		d.To = s.Next
		if s.Created > 0 && p.MaxLagMs > 0 && p.MaxLagMs < math.MaxInt64 && nowMs-s.Created > p.MaxLagMs {
			d.Due = true
		}
	}
	return d
}

// newest is the time of the segment's newest record, as far as is known, in Unix ms.
func (s Segment) newest() int64 {
	ms, _ := s.time()
	return ms
}

// Bounds limit what one cleaned segment is made of.
type Bounds struct {
	Bytes   int64 // of the segments before they are cleaned
	Offsets int64 // between the first base and the last end: what an index entry can tell
}

// Groups puts segments that lie next to each other together, so that cleaning leaves no crowd of small ones.
func Groups(segments []Segment, most Bounds) [][]Segment {
	var groups [][]Segment
	var bytes int64
	for _, s := range segments {
		last := len(groups) - 1
		if last >= 0 && bytes+s.Bytes <= most.Bytes && int64(s.Next-groups[last][0].Base) <= most.Offsets {
			groups[last] = append(groups[last], s)
			bytes += s.Bytes
			continue
		}
		groups = append(groups, []Segment{s})
		bytes = s.Bytes
	}
	return groups
}
