// Package mirror is the life of a mirror topic and of its partitions: two
// tables, states x events, every cell written. It is pure: package link feeds it
// events, stores the state it answers, then carries out the effects. It refuses
// to know clusters, clocks and storage.
package mirror

import (
	"errors"
	"fmt"
	"strings"
)

// State is the stored state of a mirror topic. It is stored by name; the
// numbers never reach disk or wire.
type State uint8

// The stored states. Four of them are shown under another's name, because REST has one word for several steps of ours:
// Stopping, PendingHandOver and Reopening as PENDING_STOPPED, HandedOver as PENDING_MIRROR.
const (
	Active             State = iota // follows its source
	Paused                          // keeps what it has; does not fetch
	PendingStopped                  // promote: follows its source until it is level with it in everything
	Stopping                        // the stop is decided; every partition is being fenced
	Stopped                         // an ordinary topic, open for producers
	PendingSynchronize              // reverse, mirror side: the source is frozen, the rest is fetched
	PendingHandOver                 // reverse, mirror side: level; the last metadata moves, then the source hands over
	PendingMirror                   // reverse, source side: frozen, still serves fetches
	HandedOver                      // reverse, source side: the peer may become writable
	PendingSetup                    // restore: frozen, finds where the histories part; nothing is removed
	PendingRestore                  // restore: cut, then follows the peer
	Reopening                       // frozen for nothing: becomes an ordinary topic again, without a stop point
	Failed                          // follows nothing until somebody acts
	numStates
)

// stateNames are the stored names, for ever.
var stateNames = [numStates]string{
	Active:             "ACTIVE",
	Paused:             "PAUSED",
	PendingStopped:     "PENDING_STOPPED",
	Stopping:           "STOPPING",
	Stopped:            "STOPPED",
	PendingSynchronize: "PENDING_SYNCHRONIZE",
	PendingHandOver:    "PENDING_HAND_OVER",
	PendingMirror:      "PENDING_MIRROR",
	HandedOver:         "HANDED_OVER",
	PendingSetup:       "PENDING_SETUP_FOR_RESTORE",
	PendingRestore:     "PENDING_RESTORE",
	Reopening:          "REOPENING",
	Failed:             "FAILED",
}

// String is the stored name.
func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return fmt.Sprintf("STATE_%d", uint8(s))
}

// ErrUnknownState says that a record names a state this version does not know:
// a newer one wrote it.
var ErrUnknownState = errors.New("unknown mirror state")

// ParseState reads a stored name.
func ParseState(name string) (State, error) {
	for s, n := range stateNames {
		if n == name {
			return State(s), nil
		}
	}
	return Failed, fmt.Errorf("read mirror state %q: %w: written by a newer version", name, ErrUnknownState)
}

// Live reports whether the topic still belongs to its link: everything but an
// ordinary topic. A link with live mirrors is not deleted.
func (s State) Live() bool { return s != Stopped }

// Writable reports whether producers may append.
func (s State) Writable() bool { return s == Stopped }

// Fetches reports whether the topic's partitions are to be fetched, so long as
// the link may and the pause flag is not set.
func (s State) Fetches() bool {
	switch s {
	case Active, PendingStopped, PendingSynchronize, PendingHandOver, PendingRestore:
		return true
	default:
		return false
	}
}

// Follows reports whether configs, partition count and group offsets follow the
// source: a paused mirror's do, a stopping one's do not (rule G1).
func (s State) Follows() bool { return s.Fetches() || s == Paused }

// verdict says what a cell decides.
type verdict uint8

const (
	unset  verdict = iota // the zero value: a cell that nobody thought about
	refuse                // an order or demand that is not obeyed here
	ignore                // nothing happens: already so, or the answer of an effect that ran twice
	move
)

type cell struct {
	verdict verdict
	next    State
	here    bool // the state stays; next is not read
	effects []Effect
}

func to(s State, effects ...Effect) cell { return cell{verdict: move, next: s, effects: effects} }

// stay runs effects and leaves the state.
func stay(effects ...Effect) cell { return cell{verdict: move, here: true, effects: effects} }

var (
	no   = cell{verdict: refuse}
	same = cell{verdict: ignore}
)

// ErrWrongState says that an order is not obeyed in the topic's state.
var ErrWrongState = errors.New("not possible in this state")

// Refusal is an order, or a peer's demand, that the state does not allow.
type Refusal struct {
	State State
	Event Event
}

// Error says what was asked, in which state, and what may be done instead.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("cannot %s a mirror topic that is %s", r.Event.verb(), shown[r.State])
	if hint := r.hint(); hint != "" {
		return text + ": " + hint
	}
	return text
}

// Unwrap makes errors.Is(err, ErrWrongState) work.
func (r *Refusal) Unwrap() error { return ErrWrongState }

func (r *Refusal) hint() string {
	switch {
	case r.State == HandedOver && r.Event == FailoverAsked:
		return "its source role was handed over, so the other cluster may accept writes already; force it if that cluster is gone"
	case r.State == Failed && r.Event == ResumeAsked:
		return "its source is not proven to be the one it was copied from"
	case r.State == Failed:
		return "failover makes it an ordinary topic; or delete it and create the mirror again"
	case r.State == Stopped && r.Event != RestoreAsked:
		return "it is an ordinary topic"
	case (r.State == Active || r.State == Paused) && r.Event == RestoreAsked:
		return "it follows its source already; a restore is for an ordinary topic whose own mirror was stopped"
	case r.State == Paused && r.Event == ReverseAsked:
		return "resume it first"
	case r.State == Stopping || r.State == Reopening:
		return "it is about to be STOPPED: wait for that, its state-transition errors say what hinders it"
	case r.State == PendingStopped:
		return "it is being stopped; failover ends that at once"
	case r.State == HandedOver:
		return "its reversal is decided: wait until it is a mirror, or force a failover if the other cluster is gone"
	case strings.HasPrefix(r.State.String(), "PENDING_"):
		return "wait until it is done, or fail it over"
	}
	return ""
}

// Step returns the state after e, and the effects to carry out in order once that
// state is stored. An effect may run twice after a crash and is harmless the second
// time. The error is a *Refusal.
func Step(s State, e Event) (State, []Effect, error) {
	if s >= numStates || e >= numEvents {
		return s, nil, fmt.Errorf("step from %v by %v: %w", s, e, ErrUnknownState)
	}
	switch c := faulty(s, e, table[s][e]); {
	case c.verdict == move && c.here:
		return s, c.effects, nil
	case c.verdict == move:
		return c.next, c.effects, nil
	case c.verdict == ignore:
		return s, nil, nil
	case c.verdict == refuse:
		return s, nil, &Refusal{State: s, Event: e}
	}
	panic("BUG: the mirror table has an unset cell: " + s.String() + " x " + e.String())
}
