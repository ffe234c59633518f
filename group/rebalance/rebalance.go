// Package rebalance is a consumer group's states and assignments, as decisions:
// what happened and when goes in, the new state and the answers come out. The
// coordinator in package group holds the locks, the timers and the waiting
// callers. It knows no clock, no log and no connection.
//
// Classic is the protocol in which a member of the group assigns (JoinGroup,
// SyncGroup), with the behaviour of Apache Kafka 4.1's ClassicGroup.
package rebalance

import (
	"time"

	"github.com/hawserio/hawser/kafka"
)

// State is where a classic group stands between two rebalances.
type State uint8

// The states, by Kafka's names.
const (
	Empty               State = iota // no members; offsets may be kept
	PreparingRebalance               // members are asked to join
	CompletingRebalance              // members have joined, the leader has not assigned yet
	Stable                           // the assignment is known
	Dead                             // deleted; nothing comes after
)

// String is Kafka's name.
func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// Ticket names a caller that waits for an answer; 0 is nobody.
type Ticket uint64

// Limits are what bounds a group.
type Limits struct {
	InitialDelay     time.Duration // how long a group's first rebalance waits for more members
	NewMemberTimeout time.Duration // how long a new member may wait for its first JoinGroup answer
	MaxSize          int           // members; at least 1
	MaxPending       int           // member ids handed out and not yet used
}

// Client is who sent a request.
type Client struct{ ID, Host string }

// Protocol is one way to assign, with what the member says about itself.
type Protocol struct {
	Name     string
	Metadata []byte
}

// Answer is what a waiting caller is told; one of Join and Sync is set.
type Answer struct {
	Ticket Ticket
	Join   *JoinAnswer
	Sync   *SyncAnswer
}

// JoinAnswer ends a JoinGroup.
type JoinAnswer struct {
	Code           kafka.ErrorCode
	MemberID       string
	Generation     int32
	ProtocolType   string
	Protocol       string // empty for none
	Leader         string
	SkipAssignment bool
	Members        []JoinMember // for the leader only
}

// JoinMember is a member as the leader sees it.
type JoinMember struct {
	ID         string
	InstanceID *string
	Metadata   []byte
}

// SyncAnswer ends a SyncGroup.
type SyncAnswer struct {
	Code                   kafka.ErrorCode
	ProtocolType, Protocol string
	Assignment             []byte
}

// Out is what the caller must do after an event: give the answers, and if Store is set
// write Snapshot first and then call Stored or StoreFailed.
type Out struct {
	Answers []Answer
	Store   bool
}

func (o *Out) join(t Ticket, a JoinAnswer) {
	if t != 0 {
		o.Answers = append(o.Answers, Answer{Ticket: t, Join: &a})
	}
}

func (o *Out) sync(t Ticket, a SyncAnswer) {
	if t != 0 {
		o.Answers = append(o.Answers, Answer{Ticket: t, Sync: &a})
	}
}
