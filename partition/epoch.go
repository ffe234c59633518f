package partition

import (
	"math"
	"slices"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

const (
	jumpBits = 12
	// epochMax is the largest epoch a source may send: above it a stop could not jump any more (rule E1).
	epochMax = kafka.LeaderEpoch(math.MaxInt32>>jumpBits-1) << jumpBits
	// cutsMax bounds the cuts that an entry remembers, cutAgeMs how long: twice the time for which
	// a group's offset is kept (offsets.retention.minutes, 7 days) past its last member.
	cutsMax  = 64
	cutAgeMs = 2 * 7 * 24 * 3600 * 1000
)

// jumpEpoch is the epoch with which a stopped mirror begins a history of its own
// (rule E1): far above last, and with a random part, so that two clusters that stop at the
// same epoch do not mint the same numbers. random's low 12 bits count.
func jumpEpoch(last kafka.LeaderEpoch, random uint32) kafka.LeaderEpoch {
	if plantStopWithoutJump {
		return last + 1
	}
	return (max(last, 0)>>jumpBits+1)<<jumpBits | kafka.LeaderEpoch(random&(1<<jumpBits-1))
}

// epochView is what answers questions about epochs.
type epochView struct {
	published kafka.LeaderEpoch
	inLog     []kafka.EpochStart // the epoch cache, rising
	cuts      []meta.Cut
	logEnd    kafka.Offset
}

// end answers OffsetForLeaderEpoch: the largest epoch in the log that is <= wanted,
// and where it ends (exclusive). Dead epochs answer the cut, also where a later history reuses the
// number: read again, never skip (rule E1). Above the log's last and up to the published one
// it is the log's last (rule E3). Of one below the log's first nothing is left: it ended where the first begins, as in Kafka, so that a
// reader who stands there, at the log's start, goes on, where an undefined answer would make it reset, perhaps to the end.
// Else (NoEpoch, NoOffset).
func (v epochView) end(wanted kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	if wanted < 0 || wanted > v.published {
		return kafka.NoEpoch, kafka.NoOffset
	}
	lowest, found := meta.Cut{}, false
	for _, cut := range v.cuts {
		if slices.Contains(cut.Dead, wanted) && (!found || cut.Offset < lowest.Offset) {
			lowest, found = cut, true
		}
	}
	if found {
		return lowest.Last, lowest.Offset
	}
	if len(v.inLog) == 0 {
		// Nothing contradicts the reader. An undefined answer would make it reset, perhaps past records.
		return wanted, v.logEnd
	}
	// next is the first epoch above the wanted one.
	next, _ := slices.BinarySearchFunc(v.inLog, wanted+1, func(e kafka.EpochStart, w kafka.LeaderEpoch) int {
		return int(int64(e.Epoch) - int64(w))
	})
	switch next {
	case 0:
		return wanted, v.inLog[0].Start
	case len(v.inLog):
		return v.inLog[next-1].Epoch, v.logEnd
	}
	return v.inLog[next-1].Epoch, v.inLog[next].Start
}

// deadEpochs are those that a cut at offset removes whole.
func deadEpochs(inLog []kafka.EpochStart, offset kafka.Offset) []kafka.LeaderEpoch {
	var dead []kafka.LeaderEpoch
	for _, e := range inLog {
		if e.Start >= offset {
			dead = append(dead, e.Epoch)
		}
	}
	return dead
}

// addCut appends a cut and forgets old ones.
func addCut(cuts []meta.Cut, cut meta.Cut) []meta.Cut {
	kept := make([]meta.Cut, 0, len(cuts)+1)
	for _, c := range cuts {
		if cut.AtMs-c.AtMs <= cutAgeMs {
			kept = append(kept, c)
		}
	}
	kept = append(kept, cut)
	return kept[max(0, len(kept)-cutsMax):]
}
