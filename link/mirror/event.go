package mirror

import "fmt"

// Event is what happens to a mirror topic: an order, a finding, or a word of the
// other cluster in a reversal or restore.
type Event uint8

// The events. Findings sum up all partitions of the topic.
const (
	// Orders of an operator.
	PauseAsked     Event = iota
	ResumeAsked          // go on
	ResumeProven         // resume of a failed mirror whose source's identity was checked and fits
	PromoteAsked         // stop once level with the source
	FailoverAsked        // stop now
	FailoverForced       // stop now, although the other cluster may be writable
	ReverseAsked         // change places with the source
	RestoreAsked         // become a mirror of what was the mirror

	// Findings.
	SourceFailed // a fault that ends mirroring, past its time
	ChecksPassed // promote: data, configs and group offsets are level
	Fenced       // every partition has its stop point and is open for producers
	Reopened     // every frozen partition is open for producers again

	// Reversal, on the mirror's side.
	PeerRefused   // the other cluster said no; nothing was changed there
	Drained       // every partition reached the frozen end
	HandOverGiven // the source handed over: it will not be written again

	// Reversal, on the source's side.
	FreezeAsked         // the mirror asks for frozen ends
	HandOverAsked       // the mirror is level and asks for the source's role
	PeerCompleted       // the mirror is STOPPED, completed this reversal, ends equal
	PeerCompletedPaused // the same, ordered with pause
	PeerDead            // the mirror says: the reversal is dead and I am still read-only
	PeerUnclear         // STOPPED by failover, unknown, or no answer

	// Restore.
	PledgeAsked // the other cluster wants to follow this topic and have it stay as it is
	CutsStored  // every partition's cut is stored
	Restored    // every partition is cut and follows
	RestoredPaused
	numEvents
)

var eventNames = [numEvents]string{
	PauseAsked:          "PauseAsked",
	ResumeAsked:         "ResumeAsked",
	ResumeProven:        "ResumeProven",
	PromoteAsked:        "PromoteAsked",
	FailoverAsked:       "FailoverAsked",
	FailoverForced:      "FailoverForced",
	ReverseAsked:        "ReverseAsked",
	RestoreAsked:        "RestoreAsked",
	SourceFailed:        "SourceFailed",
	ChecksPassed:        "ChecksPassed",
	Fenced:              "Fenced",
	Reopened:            "Reopened",
	PeerRefused:         "PeerRefused",
	Drained:             "Drained",
	HandOverGiven:       "HandOverGiven",
	FreezeAsked:         "FreezeAsked",
	HandOverAsked:       "HandOverAsked",
	PeerCompleted:       "PeerCompleted",
	PeerCompletedPaused: "PeerCompletedPaused",
	PeerDead:            "PeerDead",
	PeerUnclear:         "PeerUnclear",
	PledgeAsked:         "PledgeAsked",
	CutsStored:          "CutsStored",
	Restored:            "Restored",
	RestoredPaused:      "RestoredPaused",
}

// String is the event's name, for docs and logs.
func (e Event) String() string {
	if e < numEvents {
		return eventNames[e]
	}
	return fmt.Sprintf("EVENT_%d", uint8(e))
}

// verb is the event as a person would ask for it.
func (e Event) verb() string {
	switch e {
	case PauseAsked:
		return "pause"
	case ResumeAsked, ResumeProven:
		return "resume"
	case PromoteAsked:
		return "promote"
	case FailoverAsked, FailoverForced:
		return "fail over"
	case ReverseAsked:
		return "reverse"
	case RestoreAsked:
		return "truncate and restore"
	case FreezeAsked:
		return "freeze"
	case HandOverAsked:
		return "hand over"
	case PledgeAsked:
		return "pledge"
	default:
		return "tell " + e.String() + " to"
	}
}

// Effect is something to do once the new state is stored. Each is idempotent.
type Effect uint8

// The effects.
const (
	StartFetch     Effect = iota // fetch every partition from the end it has
	StopFetch                    // no fetching, and nothing in flight, when it returns
	RunChecks                    // promote: compare data, configs and group offsets until they are level
	ClampGroups                  // lower group offsets that lie above the end (or the cut)
	Fence                        // sync, store stop points with raised epochs, end open transactions, open
	Freeze                       // refuse producers and state the frozen ends (rules R3, R5)
	Reopen                       // open frozen partitions for producers, without a stop point
	AskFreeze                    // ask the source to freeze
	AnswerEnds                   // answer the frozen ends
	SyncMetadata                 // configs and group offsets, once more
	AskHandOver                  // ask the source to hand over
	AnswerHandOver               // answer that it is handed over
	KillReversal                 // store that the reversal is dead
	TurnIntoMirror               // frozen partitions become mirrors at their ends
	AskPledge                    // ask the other cluster to pledge its topic
	StorePledge                  // store the pledge given
	ReleasePledge                // tell the other cluster that the pledge is over
	WithdrawPledge               // take the pledge back that was given: its restore gets no other
	FindCuts                     // find where the histories part and store it, once
	Quarantine                   // copy what will be cut
	Cut                          // truncate to the stored cuts
	numEffects
)

var effectNames = [numEffects]string{
	StartFetch:     "StartFetch",
	StopFetch:      "StopFetch",
	RunChecks:      "RunChecks",
	ClampGroups:    "ClampGroups",
	Fence:          "Fence",
	Freeze:         "Freeze",
	Reopen:         "Reopen",
	AskFreeze:      "AskFreeze",
	AnswerEnds:     "AnswerEnds",
	SyncMetadata:   "SyncMetadata",
	AskHandOver:    "AskHandOver",
	AnswerHandOver: "AnswerHandOver",
	KillReversal:   "KillReversal",
	TurnIntoMirror: "TurnIntoMirror",
	AskPledge:      "AskPledge",
	StorePledge:    "StorePledge",
	ReleasePledge:  "ReleasePledge",
	WithdrawPledge: "WithdrawPledge",
	FindCuts:       "FindCuts",
	Quarantine:     "Quarantine",
	Cut:            "Cut",
}

// String is the effect's name, for docs.
func (e Effect) String() string {
	if e < numEffects {
		return effectNames[e]
	}
	return fmt.Sprintf("EFFECT_%d", uint8(e))
}
