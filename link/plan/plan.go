// Package plan compares a source with its mirror and says what to do next: what
// to create, to widen, to reconfigure, which offsets to copy, which fault ends a
// mirror. Packages link and link/task gather the facts and act on the answers.
// It is pure: it refuses to know clocks, connections and storage.
package plan

import "github.com/hawserio/hawser/link/mirror"

// Problem is a code of the link's closed list of reasons, with words for a person.
type Problem struct{ Code, Text string }

// The codes that plans answer; package link/mirror explains them.
const (
	codeMayBeDeleted    = string(mirror.SourceTopicMayBeDeleted)
	codeIDChanged       = string(mirror.SourceTopicIDChanged)
	codePartitionsFewer = string(mirror.SourcePartitionsDecreased)
	codeEpochBack       = string(mirror.NonMonotonicSourceEpoch)
	codeAppendEpochBack = string(mirror.NonMonotonicLogAppendEpoch)
	codeTruncated       = string(mirror.UnexpectedTruncation)
	codeOldFormat       = string(mirror.UnsupportedMessageFormat)
	codeIllegal         = string(mirror.IllegalState)
	codeAuthorization   = string(mirror.Authorization)
	codeAuthentication  = string(mirror.Authentication)
	codeTLS             = string(mirror.TLSError)
	codeMisconfigured   = string(mirror.Misconfiguration)
	codeUnreachable     = string(mirror.SourceUnreachable)
	codeCorrupt         = string(mirror.CorruptBatch)
	codeOverlap         = string(mirror.OverlappingBatch)
	codeInternal        = string(mirror.InternalError)
	codeStorage         = string(mirror.StorageError)
	codeNoRoom          = string(mirror.NoRoom)
	codeLag             = string(mirror.LagNotZero)
	codePolicy          = string(mirror.PolicyViolation)
	codeTopicExists     = string(mirror.TopicExists)
	codeInvalidTopic    = string(mirror.InvalidTopic)
	codeInvalidRequest  = string(mirror.InvalidRequest)
	codeDeletionsMissed = string(mirror.DeletionsMissed)
)
