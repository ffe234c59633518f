package link

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
)

// kafkaReason is the reason's name for a protocol error.
func kafkaReason(err error) mirror.Reason {
	switch kafka.CodeOf(err) {
	case kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed:
		return mirror.Authorization
	case kafka.SaslAuthenticationFailed, kafka.IllegalSaslState, kafka.UnsupportedSaslMechanism:
		return mirror.Authentication
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicID:
		return mirror.UnknownTopicOrPartition
	case kafka.InvalidTopicException:
		return mirror.InvalidTopic
	case kafka.InvalidRequest, kafka.InvalidConfig, kafka.UnsupportedVersion:
		return mirror.InvalidRequest
	case kafka.TopicAlreadyExists:
		return mirror.TopicExists
	case kafka.PolicyViolation:
		return mirror.PolicyViolation
	case kafka.SecurityDisabled:
		return mirror.SecurityDisabled
	case kafka.RequestTimedOut:
		return mirror.Timeout
	case kafka.NonEmptyGroup:
		return mirror.ConsumerGroupInUse
	case kafka.NetworkException, kafka.CoordinatorNotAvailable, kafka.CoordinatorLoadInProgress, kafka.NotCoordinator,
		kafka.LeaderNotAvailable, kafka.NotLeaderForPartition:
		return mirror.SourceUnreachable
	}
	return mirror.InternalError
}

// badRequest is an order that cannot be.
func badRequest(format string, args ...any) *Error {
	return &Error{Kind: BadRequest, Text: fmt.Sprintf(format, args...)}
}

// noLink is an order to a link that is not there.
func noLink(name string) *Error {
	return &Error{Kind: NotFound, Code: string(mirror.LinkNotFound), Text: "Cluster link '" + name + "' does not exist.",
		Hint: "'hawser link list' and GET …/links show those there are."}
}

// unreachable words a source that could not be asked, with the reason's name: a door may have no field of its own for it (case C68).
func unreachable(what string, err error) *Error {
	out := &Error{Kind: Unreachable, Code: codeOf(err), Err: err}
	out.Text = fmt.Sprintf("Cannot %s: %s: %v.", what, out.Code, err)
	var wrong *errWrongCluster
	var se *source.Error
	switch {
	case errors.As(err, &wrong):
		out.Kind, out.Text = BadRequest, wrong.text
	case errors.As(err, &se):
		// The source's own sentence ends in its hint; it is said once, at the end.
		out.Text = fmt.Sprintf("Cannot %s: %s: %s.", what, out.Code, strings.TrimSuffix(err.Error(), ". "+se.Hint))
		if out.Hint = se.Hint; out.Hint == "" {
			out.Hint = mirror.Explain(mirror.Reason(out.Code)).Remedy
		}
	case errors.Is(err, context.DeadlineExceeded):
		out.Hint = mirror.Explain(mirror.Timeout).Remedy
	}
	return out
}

// internal words an error of this cluster.
func internal(what string, err error) *Error {
	var given *Error
	if errors.As(err, &given) {
		return given
	}
	hint := ""
	switch {
	case errors.Is(err, meta.ErrReadOnly):
		hint = "Free space for the metadata store first."
	case errors.Is(err, meta.ErrConflict):
		hint = "Try again."
	}
	return &Error{Kind: Internal, Code: string(mirror.InternalError), Text: fmt.Sprintf("Cannot %s: %v.", what, err), Hint: hint, Err: err}
}

// refused words an order that kafka's rules or ours do not allow.
func refused(err error) *Error {
	out := &Error{Kind: BadRequest, Code: string(kafkaReason(err)), Text: err.Error(), Err: err}
	if text := kafka.MessageOf(err); text != nil {
		out.Text = *text
	}
	return out
}
