package fetcher

import (
	"fmt"

	"github.com/hawserio/hawser/kafka"
)

// facts are both sides' histories at one moment, for judge.
type facts struct {
	doubt       doubt
	source      kafka.TopicPartition
	known       bool // the source names topics by id, and the id is the one it was
	generation  int64
	empty       bool // the mirror holds no batch
	mirrorStart kafka.Offset
	mirrorEnd   kafka.Offset
	mirrorEpoch kafka.LeaderEpoch // of the mirror's last batch
	sourceStart kafka.Offset
	sourceEnd   kafka.Offset // its high watermark
	sourceEpoch kafka.LeaderEpoch
	shared      kafka.Offset // exclusive end of the history both share by epochs, at most mirrorEnd
	forgotten   bool         // the source knows no epoch as old as the mirror's last
}

// act is what judge decides.
type act int

const (
	goOn      act = iota // the histories agree
	lookAgain            // nothing is wrong yet, the source is only not there again
	jump
	truncate
	blame
)

// verdictOf is an act with its reason.
type verdictOf struct {
	act   act
	to    kafka.Offset // truncate
	fault Fault        // blame
	twice bool         // blame only when seen twice in a row
	why   error
}

// judge decides, from both histories, how a mirror goes on. It is all there is of the rules about
// divergence (rules E2, E6, cases C03 to C05), and neither asks nor changes anything.
func judge(f facts) verdictOf {
	switch {
	case f.sourceStart > f.sourceEnd:
		return verdictOf{act: lookAgain} // two answers of two moments, or nonsense
	case f.sourceStart > f.mirrorEnd:
		return verdictOf{act: jump}
	case f.empty && f.sourceEnd < f.mirrorEnd:
		return verdictOf{act: blame, twice: true, fault: Truncated,
			why: fmt.Errorf("source partition %s ends at %d, before the mirror's first offset %d", f.source, f.sourceEnd, f.mirrorEnd)}
	case f.empty:
		return verdictOf{act: goOn}
	case f.sourceEpoch >= 0 && f.sourceEpoch < f.mirrorEpoch:
		return verdictOf{act: blame, twice: true, fault: EpochWentBack,
			why: fmt.Errorf("source partition %s is in leader epoch %d, but the mirror holds batches of epoch %d: the source was restored from an older state or made anew", f.source, f.sourceEpoch, f.mirrorEpoch)}
	case f.forgotten && f.sourceStart >= f.mirrorEnd:
		return verdictOf{act: goOn}
	case f.shared < f.mirrorEnd && f.sourceEpoch > f.mirrorEpoch:
		return verdictOf{act: truncate, to: max(f.shared, f.mirrorStart),
			why: fmt.Errorf("source partition %s lost its tail: in leader epoch %d its history leaves the mirror's (epoch %d, end %d) at offset %d", f.source, f.sourceEpoch, f.mirrorEpoch, f.mirrorEnd, f.shared)}
	case f.shared < f.mirrorEnd:
		return verdictOf{act: blame, twice: true, fault: Truncated,
			why: fmt.Errorf("source partition %s ends at %d, before the mirror's end %d, and no later leader epoch than %d explains it: the source lost data it had acknowledged, was restored from an older state, or was made anew", f.source, f.shared, f.mirrorEnd, f.sourceEpoch)}
	case f.doubt == content && !f.known:
		return verdictOf{act: blame, fault: TopicIDChanged,
			why: fmt.Errorf("source partition %s holds another batch than the mirror just below offset %d, in the same leader epoch: the topic seems to have been deleted and made anew", f.source, f.mirrorEnd)}
	case f.doubt == content:
		return verdictOf{act: blame, fault: Truncated,
			why: fmt.Errorf("source partition %s holds another batch than the mirror just below offset %d, and its leader epochs do not explain it", f.source, f.mirrorEnd)}
	case f.sourceEnd < f.mirrorEnd:
		return verdictOf{act: lookAgain} // a new leader, whose high watermark is not there yet
	}
	return verdictOf{act: goOn}
}
