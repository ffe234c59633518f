// Package task is the slow copies from a source: topic configs and partition
// counts, group offsets, new topics, a file each. Package link runs them, one run at
// a time for each task of a link. It refuses to know how a source is reached
// and where things are stored: both are interfaces.
package task

import (
	"context"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
)

// Names of the tasks, as REST shows them.
const (
	TopicConfigsSync   = "TopicConfigsSync"
	ConsumerOffsetSync = "ConsumerOffsetSync"
	AutoCreateMirror   = "AutoCreateMirror"
	ACLSync            = "AclSync"
)

// States of a task, as REST shows them.
const (
	StateUnknown         = "UNKNOWN"
	StateActive          = "ACTIVE"
	StateInError         = "IN_ERROR"
	StateNotConfigured   = "NOT_CONFIGURED"
	StateLinkFailed      = "LINK_FAILED"
	StateLinkUnavailable = "LINK_UNAVAILABLE"
	StateLinkPaused      = "LINK_PAUSED"
)

// StateExplained is a state of a task, what it means and what to do about it.
type StateExplained struct{ State, Meaning, Remedy string }

// States is the closed list of a task's states.
func States() []StateExplained {
	return []StateExplained{
		{StateActive, "The last round found nothing in its way.", "Nothing to do."},
		{StateInError, "Something kept the last round from doing all of its work; the task's errors say what. The rest was done.",
			"Do as the errors' remedies say; the next round tries again."},
		{StateNotConfigured, "The feature is off, or on without filters that match anything.", "Set its enable key and its filters on the link."},
		{StateLinkPaused, "The link is paused, and the task with it.", "Set cluster.link.paused=false."},
		{StateLinkUnavailable, "The source is out of reach.", "It heals by itself; link_error says what was tried last."},
		{StateLinkFailed, "The link's credentials, TLS or configs do not work.", "Put right what link_error names."},
		{StateUnknown, "It has not run yet.", "Wait for its first round."},
	}
}

// Source is the source cluster as the tasks ask it. Errors of whole calls are the source's
// trouble; errors of one topic or group stand in its answer.
type Source interface {
	Topics(ctx context.Context, names []string) ([]Topic, error)
	TopicConfigs(ctx context.Context, names []string) (map[string]TopicConfigs, error)
	Groups(ctx context.Context) ([]string, error)
	GroupOffsets(ctx context.Context, groups, topics []string) (map[string]GroupOffsets, error)
	ACLs(ctx context.Context) ([]plan.ACL, error)
}

// Topic is a source topic.
type Topic struct {
	Name       string
	ID         kafka.TopicID // zero where the source has none
	Partitions int32
	Internal   bool
	Err        error
}

// TopicConfigs is a source topic's effective configs, or why there are none.
type TopicConfigs struct {
	Values map[string]string
	Err    error
}

// GroupOffsets is one group's commits on the source, or why there are none.
type GroupOffsets struct {
	List []plan.Commit
	Err  error
}

// Mirror is a mirror topic that follows its source.
type Mirror struct {
	ID         kafka.TopicID
	Topic      string
	Source     string
	SourceID   kafka.TopicID
	Partitions int32
	Configs    map[string]string // what is set on it; not to be written to
}

// ConfigChange is configs to set on a mirror.
type ConfigChange struct {
	Mirror Mirror
	Set    map[string]string
}

// Here is this cluster as the tasks change it. Calls for mirrors that have
// stopped following meanwhile change nothing and return nil.
type Here interface {
	// Mirrors lists the link's mirrors that follow their sources.
	Mirrors() []Mirror
	// CheckConfig says why this cluster does not take a value of a topic config.
	CheckConfig(name, value string) error
	SetConfigs(ctx context.Context, changes []ConfigChange) error
	Widen(ctx context.Context, m Mirror, partitions int32) error
	// Bound is what a mirror partition holds now.
	Bound(mirror kafka.TopicPartition) (plan.Bound, bool)
	// Committed lists the offsets that groups have on a topic here.
	Committed(topic string) map[string][]plan.Commit
	// Commit writes offsets of a group, those whose mirror is still live at the generation of its bound. A
	// group with members is kafka.NonEmptyGroup.
	Commit(ctx context.Context, group string, copies []plan.Commit, bounds map[kafka.TopicPartition]plan.Bound) (written int, err error)
	CreateMirror(ctx context.Context, source string) error
	// ACLs lists what this link has copied, and what others have made.
	ACLs() (copied, others []plan.ACL)
	// ChangeACLs makes and removes in this order; what is made is marked as this link's.
	ChangeACLs(ctx context.Context, changes []plan.ACLChange) error
	Names() Names
	// Code is the reason's name for an error of the source or of this cluster.
	Code(err error) string
}

// Names says which topic names are taken here.
type Names interface {
	Taken(mirror, source string) plan.Taken
	Collides(mirror string) string
}

// Result is what one run found.
type Result struct {
	Problems []plan.Problem
	Changed  int // records written, for logs
	Err      error
}

// problemsMax bounds what is kept of a run's problems.
const problemsMax = 50

// bound cuts a list of problems, and says that it was cut.
func bound(list []plan.Problem) []plan.Problem {
	if len(list) <= problemsMax {
		return list
	}
	return append(list[:problemsMax:problemsMax], plan.Problem{Code: string(mirror.Suppressed), Text: "more errors are not listed"})
}

// backoffMax bounds the wait after runs that could not ask the source at all.
const backoffMax = 15 * time.Second

// wait is how long to wait after a run: the period; after failures in a row it doubles from a second on, at least
// the period and at most backoffMax, so that a task with a long period soon finds its source again.
func wait(period time.Duration, failures int) time.Duration {
	if failures == 0 {
		return period
	}
	d := time.Second
	for range min(failures-1, 10) {
		d *= 2
	}
	return min(max(d, min(period, backoffMax)), backoffMax)
}
