package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/rest/api"
)

// Every failure becomes a status here and nowhere else. 5xx is kept for our own
// faults: clients try those again, five times and for a quarter of a minute.

// failure is an answer that is not a success.
type failure struct {
	status int
	code   int // error_code
	text   string
	allow  string // of a 405: the Allow header
}

// Error is the message that goes out.
func (f *failure) Error() string { return f.text }

func (f *failure) body() api.Error { return api.Error{Code: f.code, Message: f.text} }

// The error codes with more digits than a status.
const (
	codeInvalid      = 40002 // refused by the domain: wrong value, wrong state, topic exists
	codeUnsupported  = 40035
	codeNoLogin      = 40101
	codeForbidden    = 40301
	codeNoPartition  = 40403
	codeLinkExists   = 40902
	codeLinkInUse    = 40903
	codeThrottled    = 42901
	codeKafkaOther   = 50002
	codeKafkaRetry   = 50003
	codeNotAvailable = 50302
)

func badRequest(format string, args ...any) error {
	return &failure{status: 400, code: 400, text: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &failure{status: 404, code: 404, text: fmt.Sprintf(format, args...)}
}

func forbidden(principal string, op Operation, res Resource) error {
	on := res.Type
	if res.Name != "" {
		on = fmt.Sprintf("%s '%s'", res.Type, res.Name)
	}
	return &failure{status: 403, code: codeForbidden,
		text: fmt.Sprintf("%s is not allowed to %s on %s. Ask for an ALLOW ACL of that operation.", principal, op, on)}
}

// unauthenticated keeps a failure of the login machinery itself apart from wrong credentials.
func unauthenticated(err error) error {
	if !errors.Is(err, kafka.SaslAuthenticationFailed) {
		return err
	}
	return &failure{status: 401, code: codeNoLogin, text: "Authentication failed. Send the user and password of a SASL user of " +
		"this cluster as HTTP Basic."}
}

// subject is what a request is about, where the same fault has two statuses.
type subject int

const (
	aboutLink   subject = iota
	aboutTopic          // or a mirror that is being made: its topic may exist
	aboutMirror         // one mirror, by its name
)

// failureOf finds the answer to an error.
func failureOf(err error, about subject) *failure {
	var own *failure
	if errors.As(err, &own) {
		return own
	}
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return &failure{status: 413, code: 413,
			text: fmt.Sprintf("The request body is longer than %d bytes. Split it into several requests.", tooBig.Limit)}
	}
	switch kafka.CodeOf(err) {
	case kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.TransactionalIDAuthorizationFailed:
		return &failure{status: 403, code: codeForbidden, text: textOf(err)}
	}
	var order *link.Error
	if errors.As(err, &order) {
		if row, ok := linkFailure(order, about); ok {
			return row
		}
	}
	return kafkaFailure(err)
}

// linkFailure is the row of a failed order; none for Internal, which may carry a code of Kafka's.
func linkFailure(order *link.Error, about subject) (*failure, bool) {
	f := &failure{text: order.Error()}
	switch order.Kind {
	case link.BadRequest, link.WrongState, link.Unreachable:
		f.status, f.code = 400, codeInvalid
	case link.NotFound:
		f.status, f.code, f.text = 404, 404, absent(order, about)
	case link.Forbidden:
		f.status, f.code = 403, codeForbidden
	case link.InUse:
		f.status, f.code = 409, codeLinkInUse
	case link.Exists:
		f.status, f.code = 409, codeLinkExists
		if about == aboutTopic {
			f.status, f.code = 400, codeInvalid
		}
	default:
		return nil, false
	}
	return f, true
}

// absent begins as clients know it from the vendor's servers; some match on it.
func absent(order *link.Error, about subject) string {
	switch {
	case order.Code == "LINK_NOT_FOUND_ERROR":
		return "The cluster link doesn't exist: " + order.Error()
	case about == aboutMirror:
		return "The mirror topic doesn't exist: " + order.Error()
	}
	return order.Error()
}

// kafkaFailure is the row of a protocol error, by kafka-rest's table.
func kafkaFailure(err error) *failure {
	code := kafka.CodeOf(err)
	f := &failure{text: remedied(textOf(err), code)}
	switch code {
	case kafka.InvalidRequest, kafka.InvalidConfig, kafka.PolicyViolation, kafka.TopicAlreadyExists, kafka.InvalidReplicationFactor,
		kafka.InvalidPartitions, kafka.InvalidReplicaAssignment, kafka.InvalidTopicException, kafka.SecurityDisabled, kafka.TopicDeletionDisabled,
		kafka.InvalidGroupID, kafka.NonEmptyGroup, kafka.GroupSubscribedToTopic, kafka.ReassignmentInProgress,
		kafka.UnsupportedSaslMechanism, kafka.UnacceptableCredential:
		f.status, f.code = 400, codeInvalid
	case kafka.UnsupportedVersion:
		f.status, f.code = 400, codeUnsupported
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicID:
		f.status, f.code = 404, codeNoPartition
	case kafka.GroupIDNotFound, kafka.ResourceNotFound:
		f.status, f.code = 404, 404
	case kafka.ThrottlingQuotaExceeded:
		f.status, f.code = 429, codeThrottled
	case kafka.RequestTimedOut:
		f.status, f.code = 408, 408
	case kafka.BrokerNotAvailable, kafka.CoordinatorNotAvailable, kafka.CoordinatorLoadInProgress:
		f.status, f.code = 503, codeNotAvailable
	case kafka.UnknownServerError:
		return internalFailure(err)
	default:
		f.status, f.code = 500, codeKafkaOther
		if code.Retriable() {
			f.code = codeKafkaRetry
		}
	}
	return f
}

// remedies is what to do about refusals whose words, Kafka's own, say only what is wrong.
var remedies = map[kafka.ErrorCode]string{
	kafka.TopicAlreadyExists:        "Choose another name, or delete the topic that is there.",
	kafka.UnknownTopicOrPartition:   "GET …/topics and 'hawser topic list' show those there are.",
	kafka.GroupIDNotFound:           "GET …/consumer-groups and 'hawser group list' show those there are.",
	kafka.InvalidTopicException:     "Choose another name.",
	kafka.InvalidReplicationFactor:  "Give at most the number of brokers, or -1 for the default.",
	kafka.InvalidPartitions:         "The number of partitions can be raised, never lowered.",
	kafka.NonEmptyGroup:             "Stop its consumers first.",
	kafka.ThrottlingQuotaExceeded:   "Wait a moment and try again.",
	kafka.RequestTimedOut:           "Try again.",
	kafka.CoordinatorNotAvailable:   "Try again in a moment.",
	kafka.CoordinatorLoadInProgress: "Try again in a moment.",
}

func remedied(text string, code kafka.ErrorCode) string {
	if remedy := remedies[code]; remedy != "" {
		return strings.TrimRight(text, ". ") + ". " + remedy
	}
	return text
}

func internalFailure(err error) *failure {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &failure{status: 408, code: 408, text: "The request was given up before it was done: " + err.Error()}
	}
	return &failure{status: 500, code: 500, text: "Internal Server Error: " + err.Error()}
}

// textOf is the words for a person: without the protocol's code name where there are others.
func textOf(err error) string {
	var order *link.Error
	if errors.As(err, &order) {
		return order.Error()
	}
	return *kafka.MessageOf(err)
}
