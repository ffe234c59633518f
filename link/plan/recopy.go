package plan

import (
	"fmt"
	"time"

	"github.com/hawserio/hawser/internal/plant"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
)

// RecopyStep is what is done about a mirror that may have missed deletions (rule T3).
type RecopyStep uint8

// The steps.
const (
	RecopyNothing RecopyStep = iota // nothing is to be done, or it may not be
	RecopyBegin                     // a copy is begun, if there is room
	RecopyHold                      // the copy that was begun stays as it is: the mirror is not fetched now
	RecopyGoOn                      // it is fetched, and takes the mirror's place partition by partition
	RecopyDrop                      // it is removed: the topic is no mirror any more, or may not be copied
)

// RecopyFacts is what is known of the mirror.
type RecopyFacts struct {
	State   mirror.State
	Paused  bool // by order, or the link is, or it may not fetch
	Marked  bool // it shows that deletions may be missing
	Begun   bool // a copy is stored
	Allowed bool // by the link's configs
}

// Recopy decides about one mirror. A copy once begun stands for the mark, whatever else the mirror has shown since.
func Recopy(f RecopyFacts) RecopyStep {
	switch {
	case !f.Begun && f.Marked && f.Allowed && f.State == mirror.Active && !f.Paused:
		return RecopyBegin
	case !f.Begun:
		return RecopyNothing
	case !f.Allowed || !f.State.Live() || f.State == mirror.Stopping || f.State == mirror.PendingSetup || f.State == mirror.PendingRestore:
		return RecopyDrop
	case f.State == mirror.Active && !f.Paused:
		return RecopyGoOn
	}
	return RecopyHold
}

// CopyFacts is what is known of one partition and its copy.
type CopyFacts struct {
	Taken  bool // the copy has the mirror's place
	Copied bool // it is fetched, and the source has answered without a fault
	// it has all that the source had when it answered last: what its cleaner took away is superseded below the copy's end
	Level               bool
	Full                bool // the volume takes no more of it
	CopyEnd, MirrorEnd  kafka.Offset
	Compared, Different bool // what both hold
}

// CopyStep is what is done about one partition.
type CopyStep uint8

// The steps.
const (
	CopyNothing CopyStep = iota // it is in its place
	CopyFetch                   // it is fetched on
	CopyCompare                 // what both hold is compared
	CopySwap                    // it takes the mirror's place
	CopyGiveUp                  // it never will
)

// CopyNext decides about one partition that may be worked on.
func CopyNext(f CopyFacts) CopyStep {
	switch {
	case f.Taken:
		return CopyNothing
	case f.Full || f.Different:
		return CopyGiveUp
	case !f.Copied || f.CopyEnd < f.MirrorEnd || !f.Level && !plant.On("copy-not-level"):
		return CopyFetch
	case !f.Compared:
		return CopyCompare
	}
	return CopySwap
}

// RecopyRoom is the most bytes that copies take beside the logs of these sizes, of which most are copied at once. A
// source may hold more than its mirror does, whose own cleaner has been at work: there is an eighth over, and a
// segment's worth for each.
func RecopyRoom(sizes []int64, most int) int64 {
	largest := make([]int64, 0, most+1)
	for _, size := range sizes {
		at := len(largest)
		for at > 0 && largest[at-1] < size {
			at--
		}
		largest = append(largest[:at], append([]int64{size}, largest[at:]...)...)
		largest = largest[:min(len(largest), most)]
	}
	var sum int64
	for _, size := range largest {
		sum += size + size/8 + copySlack
	}
	return sum
}

// copySlack is bytes for a copy of a log of any size.
const copySlack = 1 << 20

// Recopied says what a mirror shows once all its partitions were copied anew, from begun on: nothing, unless it took longer than the
// source keeps a tombstone. Then deletions from the time of the copying may be missing.
func Recopied(begun, now time.Time, deleteRetention time.Duration) (Problem, bool) {
	took := now.Sub(begun)
	if took <= deleteRetention {
		return Problem{}, false
	}
	return Problem{codeDeletionsMissed,
		fmt.Sprintf("the mirror was copied from its source again from %s on, which took %v, longer than delete.retention.ms (%v): "+
			"tombstones that were written meanwhile may have been removed at the source before they were copied. "+
			"Raise delete.retention.ms at the source; the mirror is copied once more a day later, or after a restart",
			begun.UTC().Format(time.RFC3339), took.Round(time.Second), deleteRetention)}, true
}
