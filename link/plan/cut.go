package plan

import (
	"fmt"
	"slices"

	"github.com/hawserio/hawser/internal/plant"
	"github.com/hawserio/hawser/kafka"
)

// Minted is an epoch of a log: where it begins there, and the cluster that gave the number out; "" where that is
// only known to be what the topic was copied from.
type Minted struct {
	Start   kafka.Offset
	Epoch   kafka.LeaderEpoch
	Cluster string
}

// BatchMark identifies a batch, for the comparison below a cut. Lists of them rise, are without holes up to where they end, and
// hold no batch that a cleaner may have rewritten (rule T5).
type BatchMark struct {
	Base  kafka.Offset
	Next  kafka.Offset // exclusive end; NoOffset where it is not known, as of marks recorded with a stop point
	Epoch kafka.LeaderEpoch
	CRC   uint32
}

// LogFacts is what one side knows of one partition.
type LogFacts struct {
	Start, End kafka.Offset
	CleanedTo  kafka.Offset // what the cleaner has used as newer values lies below it (exclusive end)
	Stop       kafka.Offset // the recorded stop point, NoOffset for none
	Epochs     []Minted     // rising
	Marks      []BatchMark  // the last ones below the cut; read once the lineage has said where it is
}

// Cut is what a restore does to one partition.
type Cut struct {
	To   kafka.Offset // exclusive end of what stays; NoOffset empties the partition, to be copied again from the peer's start
	Tail kafka.Offset // from here on, up to the end, goes to the quarantine
	// Groups is where the histories may part at the earliest: a group that stands above is taken back to it, or it would miss
	// what comes from the peer (rule T8). It is below Tail where this log has lost what lies between.
	Groups kafka.Offset
	Why    string // why it is emptied; "" where it is not
}

// Full reports whether the partition is copied again from the start.
func (c Cut) Full() bool { return c.To == kafka.NoOffset }

// Lineage resolves a log's epochs into who minted them. entries are the stored lineage, rising; an entry with NoEpoch says that what
// follows was copied from its cluster. first is who minted what lies below the first entry. peer is the cluster compared with: what was
// copied from it counts as its own, whoever minted it.
func Lineage(epochs []kafka.EpochStart, entries []Minted, first, peer string) []Minted {
	list := make([]Minted, 0, len(epochs))
	for _, e := range epochs {
		m := Minted{Start: e.Start, Epoch: e.Epoch, Cluster: first}
		for _, entry := range entries {
			if entry.Start > e.Start {
				break
			}
			m.Cluster = entry.Cluster
			if entry.Epoch == kafka.NoEpoch && entry.Cluster == peer {
				m.Cluster = ""
			}
		}
		list = append(list, m)
	}
	return list
}

// Common is the end of the longest common prefix of two logs by their lineages, at most the later of the recorded stop
// points (rule T4): each of those was proven when it was stored. It is NoOffset where the logs have nothing in common
// to look at. A log that begins later has lost what lies below; that is no difference.
func Common(mine, peer LogFacts) kafka.Offset {
	from, to := max(mine.Start, peer.Start), min(mine.End, peer.End)
	if from > to {
		return kafka.NoOffset
	}
	bounds := []kafka.Offset{from}
	for _, list := range [][]Minted{mine.Epochs, peer.Epochs} {
		for _, m := range list {
			if m.Start > from && m.Start < to {
				bounds = append(bounds, m.Start)
			}
		}
	}
	slices.Sort(bounds)
	end := to
	for _, at := range bounds {
		if at < to && !plant.On("lineage-ignored") && !sameMint(mintAt(mine.Epochs, at), mintAt(peer.Epochs, at)) {
			end = at
			break
		}
	}
	if bound := max(mine.Stop, peer.Stop); bound != kafka.NoOffset {
		end = min(end, bound)
	}
	return end
}

// mintAt is the epoch of the batch that holds the offset, or precedes it.
func mintAt(list []Minted, at kafka.Offset) Minted {
	found := Minted{Epoch: kafka.NoEpoch}
	for _, m := range list {
		if m.Start > at {
			break
		}
		found = m
	}
	return found
}

func sameMint(a, b Minted) bool {
	return a.Epoch == b.Epoch && (a.Cluster == b.Cluster || a.Cluster == "" || b.Cluster == "")
}

// FindCut decides what a restore does to a partition: mine is cut so that it is a prefix of peer. common is Common's
// answer, and the marks of both sides are of batches below it. The cut is never above a batch boundary that both have
// (rule T4); a history that cannot be proven, or that a cleaner has looked past, is copied again (rules T2, T5). unseen
// says that the peer's cleaner may have dropped tombstones that this log never saw (rule T3).
func FindCut(mine, peer LogFacts, common kafka.Offset, unseen bool) Cut {
	full := func(tail, groups kafka.Offset, why string) Cut {
		return Cut{kafka.NoOffset, max(tail, mine.Start), groups, why}
	}
	switch {
	case mine.Start == mine.End && mine.End <= peer.Start:
		return full(mine.End, min(mine.End, partedBy(mine, peer)), "nothing is here")
	case common == kafka.NoOffset:
		return full(mine.Start, min(mine.Start, partedBy(mine, peer)),
			fmt.Sprintf("it holds [%d, %d) and the other side [%d, %d): nothing can be compared", mine.Start, mine.End, peer.Start, peer.End))
	case common < peer.Start:
		return full(common, common, fmt.Sprintf("the other side begins at offset %d, above what both sides are known to have", peer.Start))
	case mine.Start > common || mine.Start == common && mine.Start > peer.Start:
		return full(common, min(common, partedBy(mine, peer)), fmt.Sprintf("it begins at offset %d, above what both sides have", mine.Start))
	case plant.On("cleaner-trusted"): // rule T2
	case mine.CleanedTo > common && mine.End > common:
		return full(common, common, fmt.Sprintf("its cleaner has used records up to offset %d, which go, to remove others", mine.CleanedTo))
	case unseen:
		return full(common, common, "the other side may have removed deletions that were never seen here")
	}
	to, compared, same := agree(mine, peer, common)
	switch {
	case !same:
		return full(mine.Start, 0, fmt.Sprintf("batches below offset %d differ though their epochs are the same", common))
	case compared == 0 && common > max(mine.Start, peer.Start):
		return full(common, common, fmt.Sprintf("no batch below offset %d can be compared", common))
	case compared == 0 && common == peer.Start && peer.Start > mine.Start:
		return full(common, common, fmt.Sprintf("the other side begins at offset %d, so that nothing below can be compared", peer.Start))
	case mine.CleanedTo > to && mine.End > to && !plant.On("cleaner-trusted"):
		return full(to, to, fmt.Sprintf("its cleaner has used records up to offset %d, which go, to remove others", mine.CleanedTo))
	}
	if plant.On("groups-at-the-end") { // rule T8
		return Cut{To: to, Tail: to, Groups: mine.End}
	}
	return Cut{To: to, Tail: to, Groups: to}
}

// partedBy is an offset below which two histories that nothing is left to compare of have certainly not parted: what the mirror among them
// had when it stopped, and no more than the shorter one. Of two recorded stops the later may be of one that stopped after it had parted.
func partedBy(mine, peer LogFacts) kafka.Offset {
	if plant.On("groups-at-the-tail") { // rule T8
		return mine.Start
	}
	if mine.Stop == kafka.NoOffset && peer.Stop == kafka.NoOffset {
		return 0 // neither side ever copied the other: the partition was added on both
	}
	end := min(mine.End, peer.End)
	for _, stop := range []kafka.Offset{mine.Stop, peer.Stop} {
		if stop != kafka.NoOffset {
			end = min(end, stop)
		}
	}
	return end
}

// agree compares the batches below the cut that both sides have marks of. to is the highest end of a batch that both have, at most common.
func agree(mine, peer LogFacts, common kafka.Offset) (to kafka.Offset, compared int, same bool) {
	floor := max(mine.Start, peer.Start, lowest(mine.Marks), lowest(peer.Marks))
	below := common
	var ours []BatchMark
	for _, m := range mine.Marks {
		switch {
		case m.Base < floor:
		case m.Next > common:
			below = min(below, m.Base) // it reaches past the cut, so it goes
		default:
			ours = append(ours, m)
		}
	}
	theirs := map[kafka.Offset]BatchMark{}
	for _, m := range peer.Marks {
		if m.Base >= floor && m.Base < below {
			theirs[m.Base] = m
		}
	}
	to = below
	for _, m := range ours {
		other, is := theirs[m.Base]
		if !is || other.Epoch != m.Epoch || other.CRC != m.CRC {
			return 0, compared, false
		}
		compared++
		if to = below; m.Next != kafka.NoOffset {
			to = min(m.Next, below)
		}
	}
	return to, compared, compared == len(theirs)
}

// marksFrom are the marks of batches that begin at or above an offset.
func marksFrom(marks []BatchMark, at kafka.Offset) []BatchMark {
	for i, m := range marks {
		if m.Base >= at {
			return marks[i:]
		}
	}
	return nil
}

func lowest(marks []BatchMark) kafka.Offset {
	if len(marks) == 0 {
		return 0
	}
	return marks[0].Base
}
