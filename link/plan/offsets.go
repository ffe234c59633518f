package plan

import (
	"github.com/hawserio/hawser/internal/plant"
	"github.com/hawserio/hawser/kafka"
)

// Commit is a group's committed offset.
type Commit struct {
	TopicPartition kafka.TopicPartition
	Offset         kafka.Offset
	Metadata       string
}

// Bound is a mirror partition as it was when a sync began.
type Bound struct {
	Mirror     kafka.TopicPartition
	Start, End kafka.Offset // End is exclusive: the high watermark
	Generation int64        // the copy is void once it changed (rule G1)
}

// OffsetPlan is what to copy for one group.
type OffsetPlan struct {
	Copies  []Commit // by mirror partition, within its bounds
	Lowered int      // clamped to the end: not mirrored yet
	Raised  int      // clamped to the start: removed here
	Equal   int      // already so
	Absent  int      // no live mirror of this link, or no commit
}

// CopyOffsets says which of a group's commits on the source are written here. Each is clamped to what the
// mirror holds, so that no record written after a failover is skipped; 0 is a real offset, below 0
// is none. here is what the group has on this cluster now; an offset that goes back on the source goes back here.
func CopyOffsets(source []Commit, bound func(kafka.TopicPartition) (Bound, bool), here map[kafka.TopicPartition]Commit) OffsetPlan {
	var p OffsetPlan
	for _, c := range source {
		b, is := bound(c.TopicPartition)
		if !is || c.Offset < 0 {
			p.Absent++
			continue
		}
		offset := c.Offset
		switch {
		case offset > b.End:
			offset = b.End
			p.Lowered++
		case offset < b.Start:
			offset = b.Start
			p.Raised++
		}
		if have, is := here[b.Mirror]; is && have.Offset == offset && have.Metadata == c.Metadata {
			p.Equal++
			continue
		}
		p.Copies = append(p.Copies, Commit{b.Mirror, offset, c.Metadata})
	}
	return p
}

// StillCopied reports whether an offset that was planned for a partition as it was may be written to it as it is (rule
// G1): the mirror follows its source still, and has not been stopped, cut or made anew since.
func StillCopied(planned, now Bound, follows bool) bool {
	return follows && now.Generation == planned.Generation || plant.On("late-offsets-written")
}

// GroupName is the group's name on this cluster.
func GroupName(prefix, group string) string { return prefix + group }
