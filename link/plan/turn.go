package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hawserio/hawser/internal/plant"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
)

// TurnID names a reversal or a restore: the id of the topic on the side that ordered it, and the how manieth of that
// topic it is (rule R1). Every record and message of the turn carries it.
func TurnID(topic kafka.TopicID, n int64) string {
	return topic.String() + "/" + strconv.FormatInt(n, 10)
}

// ParseTurnID reads what TurnID wrote.
func ParseTurnID(id string) (kafka.TopicID, int64, error) {
	text, number, is := strings.Cut(id, "/")
	if !is {
		return kafka.TopicID{}, 0, fmt.Errorf("%q names no reversal or restore", id)
	}
	topic, err := kafka.ParseTopicID(text)
	if err != nil {
		return kafka.TopicID{}, 0, fmt.Errorf("%q names no reversal or restore: %w", id, err)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return kafka.TopicID{}, 0, fmt.Errorf("%q names no reversal or restore: bad number", id)
	}
	return topic, n, nil
}

// Word is what the mirror's side of a reversal says of it when the source's side asks.
type Word uint8

// The words. The zero value is no answer at all.
const (
	Silent          Word = iota // no answer: out of reach, or it refused to speak
	Live                        // under way
	Dead                        // over without a turn, and the topic is still read-only there
	Completed                   // STOPPED there, by this reversal, and handed over before
	CompletedPaused             // the same, ordered with pause
	Aborted                     // STOPPED there, or about to be, by something else than this reversal
	Unheard                     // not known there: the topic or its record is gone
)

var wordNames = [...]string{
	Silent: "SILENT", Live: "LIVE", Dead: "DEAD", Completed: "COMPLETED", CompletedPaused: "COMPLETED_PAUSED", Aborted: "ABORTED",
	Unheard: "UNKNOWN",
}

// String is the word on the wire.
func (w Word) String() string {
	if int(w) < len(wordNames) {
		return wordNames[w]
	}
	return fmt.Sprintf("WORD_%d", uint8(w))
}

// ParseWord reads a word of the wire; one that this version does not know says nothing.
func ParseWord(text string) Word {
	for w, name := range wordNames {
		if name == text {
			return Word(w)
		}
	}
	return Silent
}

// Final reports whether a code of the other side's own answer, not of its log or its network, settles a question. What it does not
// know is gone there, although clients of Kafka try such an answer again; what is in its way now may be gone later.
func Final(code kafka.ErrorCode) bool {
	switch code {
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicID:
		return true
	case kafka.UnknownServerError, kafka.ReassignmentInProgress, kafka.FencedStateEpoch:
		return false
	}
	return !code.Retriable()
}

// TurnFacts is what one side's record says of its last turn.
type TurnFacts struct {
	State    mirror.State
	Topic    kafka.TopicID
	Turns    int64  // how many turns the topic has ordered
	ID       string // the last turn it was in
	Over     bool   // that turn ended without a turn (KillReversal)
	Handed   bool   // the source handed over: STOPPING and STOPPED complete it
	Paused   bool   // ordered with pause
	Recorded bool   // there is a mirror record at all
	// Stopped is how many turns the topic had ordered when it last became an ordinary topic: since those it may have been written to.
	Stopped int64
}

// Speak is what the mirror's side says of the reversal id (rules R1, R4). It never says Dead before its own record does.
func Speak(f TurnFacts, id string) Word {
	topic, n, err := ParseTurnID(id)
	if err != nil || !f.Recorded || topic != f.Topic || n > f.Turns {
		return Unheard
	}
	current := f.ID == id && !f.Over
	dead := Dead
	if n <= f.Stopped && !plant.On("stopped-turn-called-dead") {
		// It has been an ordinary topic since, perhaps by completing this very reversal, and is a mirror of another one by now.
		dead = Aborted
	}
	switch f.State {
	case mirror.PendingSynchronize, mirror.PendingHandOver:
		if current {
			return Live
		}
		return dead // an earlier one; another is under way
	case mirror.Stopping:
		if current && f.Handed {
			return Live
		}
		return Aborted
	case mirror.Stopped:
		switch {
		case current && f.Handed && f.Paused:
			return CompletedPaused
		case current && f.Handed:
			return Completed
		}
		return Aborted
	case mirror.Active, mirror.Paused, mirror.PendingStopped, mirror.Failed:
		return dead
	}
	// Its side of the topic is in another turn by now, and may have been written to before.
	return Aborted
}

// SpeakOfCompleted is what the mirror's side says of a reversal that it completed, whatever it has got into since: its old source follows
// it there. Where what both had was cut off since, nothing can be said to it but that an operator is wanted: a source never truncates
// in a reversal (rule R1).
func SpeakOfCompleted(paused, kept bool) Word {
	switch {
	case !kept && !plant.On("cut-completion-told"):
		return Aborted
	case paused:
		return CompletedPaused
	}
	return Completed
}

// SpeakOfRestore is what the restoring side says of its last restore, to one that pledged its topic to it.
func SpeakOfRestore(state mirror.State) Word {
	if state == mirror.PendingSetup || state == mirror.PendingRestore {
		return Live
	}
	return Dead
}

// Hear is what the source's side makes of a word about the reversal that it is in. ends says whether the stop points that came with
// it equal its own frozen ends in every partition. is is false where nothing is to be done; problem then says what an
// operator should know, its Code empty where all is well.
func Hear(state mirror.State, w Word, ends bool) (e mirror.Event, is bool, problem Problem) {
	switch w {
	case Live:
		return 0, false, Problem{}
	case Dead:
		return mirror.PeerDead, true, Problem{}
	case Completed, CompletedPaused:
		switch {
		case state != mirror.HandedOver:
			return mirror.PeerUnclear, false,
				Problem{codeIllegal, "the mirror says that it completed a reversal that was not handed over: fail this topic over to write " +
					"here, or restore it"}
		case !ends:
			return mirror.PeerUnclear, false,
				Problem{codeIllegal, "the mirror stopped at other ends than were stated: fail this topic over to write here, or restore it from there"}
		case w == CompletedPaused:
			return mirror.PeerCompletedPaused, true, Problem{}
		}
		return mirror.PeerCompleted, true, Problem{}
	case Aborted:
		return mirror.PeerUnclear, false,
			Problem{codeIllegal, "the mirror was failed over, which ended the reversal: truncate and restore this topic to follow it, or " +
				"fail this topic over to write here as well"}
	case Unheard:
		return mirror.PeerUnclear, false, Problem{"REMOTE_MIRROR_NOT_FOUND_ERROR",
			"the other cluster does not know the reversal: its mirror topic was deleted or made again; fail this topic over to write here"}
	}
	return mirror.PeerUnclear, false, Problem{codeUnreachable,
		"the other cluster does not say how the reversal stands; fail this topic over if it does not come back"}
}

// SideFacts is what is known of a topic that the other side wants frozen, or pledged.
type SideFacts struct {
	Topic   string
	State   mirror.State // Stopped for a topic without a record
	Pledged string       // the restore it is pledged to, "" for none
	To      string       // the cluster of that restore
	Turn    string       // the turn it is in
}

// Bound says that a topic is pledged, to whom, and what to do about it.
func (f SideFacts) Bound() string {
	return fmt.Sprintf("Topic '%s' is pledged to the restore %s of cluster %s, which follows it until that is done. If that "+
		"cluster is gone for good, force a failover of the topic, which takes the pledge back.", f.Topic, f.Pledged, f.To)
}

// MayFreeze says why a topic is not frozen for the other side's reversal (rules R7, T1).
func MayFreeze(f SideFacts, id string) error {
	switch {
	case f.Pledged != "":
		return kafka.Errorf(kafka.InvalidRequest, "%s", f.Bound())
	case f.State == mirror.Stopped:
		return nil
	case (f.State == mirror.PendingMirror || f.State == mirror.HandedOver) && f.Turn == id:
		return nil
	case f.State == mirror.PendingMirror || f.State == mirror.HandedOver || f.State == mirror.Reopening:
		return kafka.Errorf(kafka.ReassignmentInProgress, "Topic '%s' is frozen for an earlier reversal still.", f.Topic)
	case f.State == mirror.PendingSetup || f.State == mirror.PendingRestore:
		return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is being restored.", f.Topic)
	}
	return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is itself a mirror: reverse its own link first, or promote it.", f.Topic)
}

// MayTurn says why a topic is not given a reversal or restore of its own now: the record of the one before would be
// lost with what is left to be done for it. frozen: partitions are frozen for it still; pledged: the other side is
// still pledged to it.
func MayTurn(topic string, e mirror.Event, frozen, pledged bool) error {
	switch {
	case plant.On("turn-forgotten"):
	case frozen:
		return kafka.Errorf(kafka.ReassignmentInProgress, "Topic '%s' is just changing its role for an earlier reversal or restore: "+
			"try again in a moment.", topic)
	case pledged && e == mirror.ReverseAsked:
		return kafka.Errorf(kafka.ReassignmentInProgress, "The other cluster has not been told yet that the restore of topic '%s' is "+
			"done: try again once it can be reached.", topic)
	}
	return nil
}

// MayHandOver says why a reversal is not handed over (rule R2).
func MayHandOver(f SideFacts, id string) error {
	if (f.State == mirror.PendingMirror || f.State == mirror.HandedOver) && f.Turn == id {
		return nil
	}
	return kafka.Errorf(kafka.InvalidRequest, "The reversal %s is over: topic '%s' is not frozen for it.", id, f.Topic)
}

// PledgeFacts is a STOPPED mirror that is asked to stay as it is while the other side is restored from it.
type PledgeFacts struct {
	SideFacts
	Recorded      bool          // it is or was a mirror
	SourceTopicID kafka.TopicID // of what it mirrored
	SourceCluster string
	Of            string // not Recorded: the cluster that it mirrored over another link, "" for none
	Kin           []Kin  // the topics whose history this one's is, over however many clusters and links
	Withdrawn     string // the last restore whose pledge an operator took back, "" for none
}

// Kin names a topic for ever: its id, and the cluster that gave it.
type Kin struct {
	Cluster string
	Topic   kafka.TopicID
}

// Direct reports whether a topic is what this one mirrored over the link that the question came by.
func (f PledgeFacts) Direct(topic kafka.TopicID, cluster string) bool {
	return f.Recorded && f.SourceCluster == cluster && f.SourceTopicID == topic
}

// Related reports whether a topic has the history of this one: directly, or over clusters between them (rules T6, T10). It is told by
// ids, which are never given again; where the two logs part is for their lineages to say, and for the checksums of the last batches.
func (f PledgeFacts) Related(topic kafka.TopicID, cluster string) bool {
	return f.Direct(topic, cluster) || slices.Contains(f.Kin, Kin{cluster, topic})
}

// Withdrawn reports whether the restore id is the one whose pledge an operator took back, or an earlier one of the same topic: a
// message of it that comes late gets no pledge any more.
func Withdrawn(withdrawn, id string) bool { return noLater(id, withdrawn) }

// noLater reports whether two turns are of one topic, and the first is the second or came before it.
func noLater(id, last string) bool {
	of, end, err := ParseTurnID(last)
	if err != nil {
		return false
	}
	topic, n, err := ParseTurnID(id)
	return err == nil && topic == of && n <= end
}

// MayPledge says why no pledge is given to the restore id of topic on cluster (rules T1, T10). One that was taken back is no refusal
// that ends the restore by itself: its topic was writable before, and whether it may be again is for an operator to say. A pledge to an
// earlier restore of the topic stands in nobody's way: a topic is in one turn at a time, so that one is over, and its question came late.
func MayPledge(f PledgeFacts, id string, topic kafka.TopicID, cluster string) error {
	switch {
	case Withdrawn(f.Withdrawn, id) && !plant.On("withdrawn-pledge-given"):
		return kafka.Errorf(kafka.FencedStateEpoch, "An operator took the pledge of topic '%s' to this restore back, so it cannot go "+
			"on. Fail the topic over that is being restored: nothing was removed from it yet, and it may be restored anew.", f.Topic)
	case f.Related(topic, cluster) || f.Recorded && plant.On("pledge-to-anybody"):
		return f.mayPledgeNow(id)
	case !f.Recorded && f.Of != "":
		return kafka.Errorf(kafka.UnknownTopicOrPartition, "Topic '%s' mirrored a topic of cluster %s over another cluster link, "+
			"and that one is not known to be a copy of this topic of cluster %s. %s", f.Topic, f.Of, cluster, instead)
	case !f.Recorded:
		return kafka.Errorf(kafka.UnknownTopicOrPartition, "Topic '%s' never was a mirror, so nothing can be restored from it.", f.Topic)
	}
	return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' was a mirror of another topic: the one of that name was deleted and made "+
		"again. %s", f.Topic, instead)
}

// instead is what to do where nothing can be restored from a topic.
const instead = "To follow this one, keep what only the topic there has, delete that topic, and create it as a mirror of this one."

// mayPledgeNow says why a topic whose history is the asking one's gives it no pledge as things are.
func (f PledgeFacts) mayPledgeNow(id string) error {
	switch {
	case f.State != mirror.Stopped:
		return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is not STOPPED but %s: promote it or fail it over first, then restore.",
			f.Topic, mirror.Status(f.State, mirror.LinkActive, mirror.SourceReachable))
	case f.Pledged != "" && f.Pledged != id && !noLater(f.Pledged, id):
		return kafka.Errorf(kafka.InvalidRequest, "%s", f.Bound())
	}
	return nil
}

// Drained reports whether a mirror has all that was frozen: its synced ends equal the frozen ones in every partition that the source
// has (rule R7). text says what is missing. beyond is set where the mirror has more than the source states, which ends the reversal.
func Drained(ends, synced []kafka.Offset) (done, beyond bool, text string) {
	if len(ends) != len(synced) {
		return false, len(synced) > len(ends), fmt.Sprintf("the source has %d partitions, the mirror %d", len(ends), len(synced))
	}
	var missing int64
	for p, end := range ends {
		if synced[p] > end {
			return false, true, fmt.Sprintf("partition %d ends at offset %d here, but at %d on the source", p, synced[p], end)
		}
		missing += int64(end - synced[p])
	}
	if missing > 0 && !plant.On("drained-early") {
		return false, false, fmt.Sprintf("%d offsets are still to be mirrored", missing)
	}
	return true, false, ""
}

// OtherTail reports whether a mirror that ends where the source was frozen holds other batches below that end: it has not been compared
// with the source since that was restored, say, and is about to be cut. Batches that a cleaner may have rewritten on either side tell nothing,
// also where a stop point has written down what they were, and neither does a log that has none left.
func OtherTail(mirror, source LogFacts, end kafka.Offset) bool {
	clean := max(mirror.CleanedTo, source.CleanedTo)
	mirror.Marks, source.Marks = marksFrom(mirror.Marks, clean), marksFrom(source.Marks, clean)
	if len(mirror.Marks) == 0 || len(source.Marks) == 0 || plant.On("tail-not-compared") || plant.On("drained-early") {
		return false
	}
	_, _, same := agree(mirror, source, end)
	return !same
}
