package mirror

import "fmt"

// Part is the state of one partition of a mirror topic.
type Part uint8

// The states of a partition.
const (
	Idle     Part = iota // not fetched: paused, or its link is
	Aligning             // finds where to go on: the splice check and the epochs' lineage
	Fetching             // behind its source
	Waiting              // level with its source; a long poll stands
	Faulty               // something stands in the way; tried again
	Cutting              // its source diverged: the log is cut to what is common
	Draining             // no more fetches; what is written is being synced
	Fencing              // stop point being stored, open transactions being ended
	Open                 // an ordinary partition
	Frozen               // nobody appends: a reversal or restore is under way
	Broken               // its log cannot be used, or its source is not what it was
	numParts
)

var partNames = [numParts]string{
	Idle:     "PAUSED",
	Aligning: "ALIGNING",
	Fetching: "FETCHING",
	Waiting:  "WAITING",
	Faulty:   "IN_ERROR",
	Cutting:  "CUTTING",
	Draining: "DRAINING",
	Fencing:  "FENCING",
	Open:     "STOPPED",
	Frozen:   "FROZEN",
	Broken:   "FAILED",
}

// String is the name people see beside a partition's lag.
func (p Part) String() string {
	if p < numParts {
		return partNames[p]
	}
	return fmt.Sprintf("PART_%d", uint8(p))
}

// The categories that a link counts its mirror partitions in.
const (
	CategoryPaused        = "PAUSED"
	CategoryInError       = "IN_ERROR"
	CategoryPending       = "PENDING"
	CategoryActive        = "ACTIVE"
	CategoryNotApplicable = "NOT_APPLICABLE"
)

// Category is the one that the partition is counted in.
func (p Part) Category() string {
	switch p {
	case Idle:
		return CategoryPaused
	case Faulty, Broken:
		return CategoryInError
	case Draining, Fencing, Frozen, Cutting:
		return CategoryPending
	case Open:
		return CategoryNotApplicable
	default:
		return CategoryActive
	}
}

// CategoryOf is the category of a partition of a topic in this state: one whose topic is on its way to another state is
// pending, though it is fetched as ever.
func CategoryOf(topic State, p Part) string {
	c := p.Category()
	if c == CategoryActive && topic != Active {
		return CategoryPending
	}
	return c
}

// PartEvent is what happens to a partition.
type PartEvent uint8

// The events of a partition.
const (
	FetchOrdered  PartEvent = iota // the topic fetches
	HoldOrdered                    // the topic is paused, or its link is
	StopOrdered                    // the topic is stopping
	FreezeOrdered                  // the topic is frozen
	ThawOrdered                    // the frozen topic is an ordinary one again
	MirrorOrdered                  // the frozen partition becomes a mirror
	Aligned                        // the last batch is the source's too
	Diverged                       // it is not; epochs say where to cut
	CutDone                        // cut, with a raised epoch
	Behind                         // the source has more
	Level                          // the source has nothing more
	FaultSeen                      // an error of source, network or log
	FaultGone                      // answered again
	FaultFinal                     // the fault ends the mirror
	Synced                         // all that was written is synced
	StopStored                     // stop point, epoch and role are stored, transactions ended
	numPartEvents
)

var partEventNames = [numPartEvents]string{
	FetchOrdered:  "FetchOrdered",
	HoldOrdered:   "HoldOrdered",
	StopOrdered:   "StopOrdered",
	FreezeOrdered: "FreezeOrdered",
	ThawOrdered:   "ThawOrdered",
	MirrorOrdered: "MirrorOrdered",
	Aligned:       "Aligned",
	Diverged:      "Diverged",
	CutDone:       "CutDone",
	Behind:        "Behind",
	Level:         "Level",
	FaultSeen:     "FaultSeen",
	FaultGone:     "FaultGone",
	FaultFinal:    "FaultFinal",
	Synced:        "Synced",
	StopStored:    "StopStored",
}

// String is the event's name, for docs.
func (e PartEvent) String() string {
	if e < numPartEvents {
		return partEventNames[e]
	}
	return fmt.Sprintf("PART_EVENT_%d", uint8(e))
}

// partCell is a cell of the partition's table: where it goes, or that it stays.
type partCell struct {
	verdict verdict
	next    Part
}

func goes(p Part) partCell { return partCell{verdict: move, next: p} }

var (
	stays   = partCell{verdict: ignore}
	refuses = partCell{verdict: refuse}
)

// StepPart returns the partition's state after e. The error says that e cannot be: an
// order that the topic's state does not give to a partition in this state.
func StepPart(p Part, e PartEvent) (Part, error) {
	if p >= numParts || e >= numPartEvents {
		return p, fmt.Errorf("step partition from %v by %v: %w", p, e, ErrUnknownState)
	}
	switch c := partTable[p][e]; c.verdict {
	case move:
		return c.next, nil
	case ignore:
		return p, nil
	case refuse:
		return p, fmt.Errorf("partition is %v: %v: %w", p, e, ErrWrongState)
	}
	panic("BUG: the partition table has an unset cell: " + p.String() + " x " + e.String())
}

// PartFacts is what is known of a partition when somebody asks how it is.
type PartFacts struct {
	Topic     State
	Halted    bool // the link may not fetch, or the pause flag is set
	Open      bool // its role is open: fenced
	Fault     bool // something stands in the way
	Final     bool // and ends the mirror
	Contacted bool // the source has answered since fetching began
	Lag       int64
}

// Observe derives a partition's state from facts, by the events that they amount to.
func Observe(f PartFacts) Part {
	var p Part
	for _, e := range f.events() {
		next, err := StepPart(p, e)
		if err != nil {
			return Broken
		}
		p = next
	}
	return p
}

func (f PartFacts) events() []PartEvent {
	switch f.Topic {
	case Stopped:
		return []PartEvent{StopOrdered, Synced, StopStored}
	case Stopping:
		if f.Open {
			return []PartEvent{StopOrdered, Synced, StopStored}
		}
		return []PartEvent{StopOrdered}
	case PendingMirror, HandedOver, PendingSetup, Reopening:
		return []PartEvent{StopOrdered, Synced, StopStored, FreezeOrdered}
	case Failed:
		return []PartEvent{FetchOrdered, FaultSeen, FaultFinal}
	case Paused:
		return []PartEvent{HoldOrdered}
	}
	switch {
	case f.Halted:
		return []PartEvent{HoldOrdered}
	case f.Fault && f.Final:
		return []PartEvent{FetchOrdered, FaultSeen, FaultFinal}
	case f.Fault:
		return []PartEvent{FetchOrdered, FaultSeen}
	case !f.Contacted:
		return []PartEvent{FetchOrdered}
	case f.Lag > 0:
		return []PartEvent{FetchOrdered, Aligned, Behind}
	}
	return []PartEvent{FetchOrdered, Aligned, Level}
}
