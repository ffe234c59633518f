// Package plan compares a source with its mirror and says what to do next: what
// to create, to widen, to reconfigure, which offsets to copy, which fault ends a
// mirror. Packages link and link/task gather the facts and act on the answers.
// It is pure: it refuses to know clocks, connections and storage.
package plan

// Problem is a code of the link's closed list of reasons, with words for a person.
type Problem struct{ Code, Text string }

// The codes that plans answer; package link/mirror explains them.
const (
	codeMayBeDeleted    = "SOURCE_TOPIC_MAY_BE_DELETED"
	codeIDChanged       = "SOURCE_TOPIC_ID_CHANGED"
	codePartitionsFewer = "SOURCE_PARTITIONS_DECREASED"
	codeEpochBack       = "NON_MONOTONIC_SOURCE_EPOCH"
	codeAppendEpochBack = "NON_MONOTONIC_LOG_APPEND_EPOCH"
	codeTruncated       = "UNEXPECTED_TRUNCATION"
	codeOldFormat       = "UNSUPPORTED_MESSAGE_FORMAT"
	codeIllegal         = "ILLEGAL_STATE"
	codeAuthorization   = "AUTHORIZATION_ERROR"
	codeAuthentication  = "AUTHENTICATION_ERROR"
	codeTLS             = "TLS_ERROR"
	codeMisconfigured   = "MISCONFIGURATION_ERROR"
	codeUnreachable     = "SOURCE_UNREACHABLE"
	codeCorrupt         = "CORRUPT_BATCH"
	codeOverlap         = "OVERLAPPING_BATCH"
	codeInternal        = "INTERNAL_ERROR"
	codeLag             = "MIRROR_LAG_NOT_ZERO"
	codePolicy          = "POLICY_VIOLATION_ERROR"
	codeTopicExists     = "TOPIC_EXISTS_ERROR"
	codeInvalidTopic    = "INVALID_TOPIC"
	codeInvalidRequest  = "INVALID_REQUEST_ERROR"
)
