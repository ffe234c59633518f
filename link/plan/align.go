package plan

import (
	"fmt"

	"github.com/hawserio/hawser/internal/plant"
	"github.com/hawserio/hawser/kafka"
)

// Doubt is why a partition's history must be compared with the source's.
type Doubt int

// The doubts.
const (
	// DoubtHistories: the source's end or its epochs do not fit the mirror's.
	DoubtHistories Doubt = iota
	// DoubtRange: the source has not got the offset asked for.
	DoubtRange
	// DoubtRewritten: the source compacted the mirror's last batch or removed it, so that its bytes prove nothing.
	DoubtRewritten
	// DoubtContent: the source has other bytes than the mirror at the same offsets.
	DoubtContent
	// DoubtOpen: a transaction is open in the mirror, which has all that the source has, and the source says that none is.
	DoubtOpen
)

// Histories are both sides' histories at one moment, for Align.
type Histories struct {
	Doubt       Doubt
	Source      kafka.TopicPartition
	Known       bool // the source names topics by id, and the id is the one it was
	Generation  int64
	Empty       bool // the mirror holds no batch
	Open        bool // a transaction may be open in the mirror
	MirrorStart kafka.Offset
	MirrorEnd   kafka.Offset
	MirrorEpoch kafka.LeaderEpoch // of the mirror's last batch
	LastBase    kafka.Offset      // where that batch begins
	SourceStart kafka.Offset
	SourceEnd   kafka.Offset // its high watermark
	// SourceStable is its last stable offset, asked for after SourceEnd and only under DoubtOpen.
	SourceStable kafka.Offset
	SourceEpoch  kafka.LeaderEpoch
	Shared       kafka.Offset // exclusive end of the history both share by epochs, at most MirrorEnd
	Forgotten    bool         // the source knows no epoch as old as the mirror's last
	// CutUnder is the source's leader epoch under which the mirror was last cut, by the one who compares now, and CutTo where.
	CutUnder kafka.LeaderEpoch
	CutTo    kafka.Offset
}

// reread says that what the mirror has above its last cut was read from the source as it is now: a source that loses something
// raises its leader epoch. One that was emptied and copied again calls the epochs it had then dead (rule E1), also those that came again.
func (h Histories) reread() bool {
	return h.Doubt != DoubtContent && h.CutUnder == h.SourceEpoch && max(h.Shared, h.MirrorStart) >= h.CutTo
}

// Ends is one side's view of a partition.
type Ends struct {
	Stable, High, End kafka.Offset // all exclusive: of decided transactions, of what readers may see, of the log
}

// Orphans reports whether a transaction is open in the mirror, which has all that the source has, and none at the
// source, by a fetch that was answered at offset at without records: what DoubtOpen is for.
func Orphans(at kafka.Offset, source, mirror Ends) bool {
	return source.Stable == at && source.High == at && mirror.End == at && mirror.High == at && mirror.Stable < at
}

// orphaned says that no marker will ever come for the transactions that are open in the mirror (rule D5). With a last
// stable offset at the mirror's end, each transaction that the source began below has ended there, below its high
// watermark: had it a marker, the mirror would have it. So the source's cleaner removed an aborted transaction's
// records after they were mirrored, and an unclean election its marker.
func (h Histories) orphaned() bool {
	return h.Doubt == DoubtOpen && h.Open && h.SourceEnd == h.MirrorEnd && h.SourceStable == h.MirrorEnd &&
		!plant.On("orphaned-transaction-open")
}

// Course is how a mirror goes on.
type Course int

// The courses.
const (
	GoOn      Course = iota // the histories agree
	LookAgain               // nothing is wrong yet, the source is only not there again
	Jump                    // to Aligned.To: what lies between was removed at the source, and open transactions end
	Truncate                // to Aligned.To: the source lost what lies above
	Blame                   // Aligned.Fault: the histories do not explain it
)

// Aligned is a course with its reason.
type Aligned struct {
	Course Course
	To     kafka.Offset // Jump, Truncate
	Keep   bool         // Jump: the source still has what the mirror has, which stays however holes are treated
	Fault  Fault        // Blame
	Twice  bool         // Blame only when seen twice in a row
	// Prove says that the next fetch must read the mirror's last batch again (rule E6): epochs and ends that fit again may be those of a topic
	// that was made anew and has grown since. It is not set where nothing is left at the source to be compared.
	Prove bool
	// Unnamed says of GoOn that the next fetch must not name the mirror's last epoch: the source has forgotten it; with Reread not
	// until the next comparison, since the source would contradict it each time.
	Unnamed, Reread bool
	Why             error
}

// Align decides, from both histories, how a mirror goes on. It is all there is of the rules about
// divergence (rules E2, E6, cases C03 to C05), and neither asks nor changes anything.
func Align(h Histories) Aligned {
	a := align(h)
	a.Unnamed = a.Course == GoOn && (h.Forgotten || a.Reread)
	a.Prove = h.Doubt != DoubtRewritten && !h.Empty && h.SourceStart <= h.LastBase && h.LastBase < h.SourceEnd &&
		!plant.On("regrown-source-trusted")
	return a
}

func align(h Histories) Aligned {
	switch {
	case h.SourceStart > h.SourceEnd:
		return Aligned{Course: LookAgain} // two answers of two moments, or nonsense
	case h.SourceStart > h.MirrorEnd && plant.On("jump-unseen"): // case C03
		return Aligned{Course: LookAgain}
	case h.SourceStart > h.MirrorEnd:
		return Aligned{Course: Jump, To: h.SourceStart}
	case h.Empty && h.SourceEnd < h.MirrorEnd:
		return Aligned{Course: Blame, Twice: true, Fault: Truncated,
			Why: fmt.Errorf("source partition %s ends at %d, before the mirror's first offset %d", h.Source, h.SourceEnd, h.MirrorEnd)}
	case h.Empty:
		return Aligned{Course: GoOn}
	case h.SourceEpoch >= 0 && h.SourceEpoch < h.MirrorEpoch:
		return Aligned{Course: Blame, Twice: true, Fault: EpochWentBack,
			Why: fmt.Errorf("source partition %s is in leader epoch %d, but the mirror holds batches of epoch %d: the source was "+
				"restored from an older state or made anew", h.Source, h.SourceEpoch, h.MirrorEpoch)}
	case h.SourceStart == h.MirrorEnd && h.Open:
		// Nothing that the mirror holds is left at the source, so nothing says that the transaction is open there too: after an unclean
		// election it may be of the branch that was lost, and its marker never comes.
		return Aligned{Course: Jump, To: h.MirrorEnd}
	case h.Forgotten && h.SourceStart >= h.MirrorEnd:
		return Aligned{Course: GoOn}
	case h.Shared < h.MirrorEnd && plant.On("divergence-unseen"): // rule E2
		return Aligned{Course: GoOn}
	case h.Shared < h.MirrorEnd && h.SourceEpoch > h.MirrorEpoch && h.reread():
		return Aligned{Course: GoOn, Reread: true}
	case h.Shared < h.MirrorEnd && h.SourceEpoch > h.MirrorEpoch:
		return Aligned{Course: Truncate, To: max(h.Shared, h.MirrorStart),
			Why: fmt.Errorf("source partition %s lost its tail: in leader epoch %d its history leaves the mirror's (epoch %d, end %d) at "+
				"offset %d", h.Source, h.SourceEpoch, h.MirrorEpoch, h.MirrorEnd, h.Shared)}
	case h.Shared < h.MirrorEnd:
		return Aligned{Course: Blame, Twice: true, Fault: Truncated,
			Why: fmt.Errorf("source partition %s ends at %d, before the mirror's end %d, and no later leader epoch than %d explains it: "+
				"the source lost data it had acknowledged, was restored from an older state, or was made anew", h.Source, h.Shared, h.MirrorEnd,
				h.SourceEpoch)}
	case h.Doubt == DoubtContent && !h.Known:
		return Aligned{Course: Blame, Fault: TopicIDChanged,
			Why: fmt.Errorf("source partition %s holds another batch than the mirror just below offset %d, in the same leader epoch: the "+
				"topic seems to have been deleted and made anew", h.Source, h.MirrorEnd)}
	case h.Doubt == DoubtContent:
		return Aligned{Course: Blame, Fault: Truncated,
			Why: fmt.Errorf("source partition %s holds another batch than the mirror just below offset %d, and its leader epochs do not "+
				"explain it", h.Source, h.MirrorEnd)}
	case h.SourceEnd < h.MirrorEnd:
		return Aligned{Course: LookAgain} // a new leader, whose high watermark is not there yet
	case h.orphaned():
		return Aligned{Course: Jump, To: h.MirrorEnd, Keep: true}
	}
	return Aligned{Course: GoOn}
}

// Epochs is what FindShared must know of a mirror's log.
type Epochs interface {
	Epochs() []kafka.EpochStart
	EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset)
}

// FindShared finds h.Shared, the end of the history that both sides share: ask is put one epoch of the mirror's
// after another, from the last down, and answers as OffsetForLeaderEpoch of the source does (KIP-101, KIP-279).
func FindShared(h *Histories, mirror Epochs, ask func(kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error)) error {
	wanted := h.MirrorEpoch
	for range len(mirror.Epochs()) + 2 {
		epoch, end, err := ask(wanted)
		if err != nil {
			return err
		}
		if epoch < 0 || end < 0 {
			h.Forgotten = true
			h.Shared = min(h.SourceStart, h.MirrorEnd)
			return nil
		}
		own, ownEnd := mirror.EpochEnd(epoch)
		switch {
		case own == epoch:
			h.Shared = min(end, ownEnd, h.MirrorEnd)
			return nil
		case own < 0:
			h.Shared = min(h.MirrorStart, end)
			return nil
		}
		wanted = own
	}
	return fmt.Errorf("the source's epochs do not go down from %d", h.MirrorEpoch)
}
