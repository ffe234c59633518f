package plan

import (
	"fmt"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// Fault is what stands in a partition's way: link/fetcher's closed list, by name.
type Fault string

// The faults.
const (
	NoFault           Fault = ""
	SourceUnreachable Fault = "SOURCE_UNREACHABLE"
	SourceAuth        Fault = "SOURCE_AUTHENTICATION"
	SourceDenied      Fault = "SOURCE_AUTHORIZATION"
	TopicMissing      Fault = "SOURCE_TOPIC_MAY_BE_DELETED"
	TopicIDChanged    Fault = "SOURCE_TOPIC_ID_CHANGED"
	PartitionsFewer   Fault = "SOURCE_PARTITIONS_DECREASED"
	EpochWentBack     Fault = "NON_MONOTONIC_SOURCE_EPOCH"
	AppendEpochBack   Fault = "NON_MONOTONIC_LOG_APPEND_EPOCH"
	Truncated         Fault = "UNEXPECTED_TRUNCATION"
	OldFormat         Fault = "UNSUPPORTED_MESSAGE_FORMAT"
	CorruptBatch      Fault = "CORRUPT_BATCH"
	OverlappingBatch  Fault = "OVERLAPPING_BATCH"
	TargetOffline     Fault = "TARGET_OUT_OF_SERVICE"
	TargetFull        Fault = "TARGET_FULL"
	TargetFailed      Fault = "TARGET_FAILED"
)

// patience is how long a fault is borne.
type patience uint8

const (
	forEver        patience = iota // heals by itself or by hand; never ends the mirror
	retryTimeout                   // cluster.link.retry.timeout.ms
	metadataSettle                 // until metadata that lags behind on the source must have settled
	notAtAll
)

// metadataSettleMax bounds the wait for a source broker that answers from old
// metadata; a shorter retry time-out shortens it.
const metadataSettleMax = 30 * time.Second

type faultRule struct {
	patience patience
	code     string
}

// faultRules is what each fault means to the mirror.
var faultRules = map[Fault]faultRule{
	SourceUnreachable: {forEver, codeUnreachable},
	SourceAuth:        {forEver, codeAuthentication},
	SourceDenied:      {retryTimeout, codeAuthorization},
	TopicMissing:      {retryTimeout, codeMayBeDeleted},
	TopicIDChanged:    {notAtAll, codeIDChanged},
	PartitionsFewer:   {metadataSettle, codePartitionsFewer},
	EpochWentBack:     {metadataSettle, codeEpochBack},
	AppendEpochBack:   {notAtAll, codeAppendEpochBack},
	Truncated:         {notAtAll, codeTruncated},
	OldFormat:         {notAtAll, codeOldFormat},
	CorruptBatch:      {forEver, codeCorrupt},
	OverlappingBatch:  {retryTimeout, codeOverlap},
	TargetOffline:     {forEver, codeStorage},
	TargetFull:        {forEver, codeNoRoom},
	TargetFailed:      {forEver, codeInternal},
}

// ruleOf is what a fault means; one that is not in the list is borne as an internal error.
func ruleOf(f Fault) faultRule {
	if rule, known := faultRules[f]; known {
		return rule
	}
	return faultRule{forEver, codeInternal}
}

// CodeOf is the reason's name for a fault.
func CodeOf(f Fault) string { return ruleOf(f).code }

// Judgement is what a fault leads to, worst last.
type Judgement uint8

// The judgements.
const (
	Well        Judgement = iota
	Wait                  // shown as an error; tried again
	Unavailable           // out of reach past the availability window
	Fail                  // the mirror is FAILED
)

// PartitionFault is one partition's fault.
type PartitionFault struct {
	Partition int32
	Fault     Fault
	Since     time.Time
	Text      string
}

// Limits are the link's times.
type Limits struct {
	Retry       time.Duration // cluster.link.retry.timeout.ms
	Unreachable time.Duration // availability.check.ms x threshold
}

// Judged is what stands in a topic's way, and since when.
type Judged struct {
	Judgement Judgement
	Problem   Problem
	Partition int32
	Until     time.Time // when waiting ends, zero for never
}

// JudgeFault decides about one partition's fault at now.
func JudgeFault(f PartitionFault, now time.Time, lim Limits) Judged {
	if f.Fault == NoFault {
		return Judged{}
	}
	rule := ruleOf(f.Fault)
	text := f.Text
	if text == "" {
		text = string(f.Fault)
	}
	j := Judged{Judgement: Wait, Partition: f.Partition, Problem: Problem{rule.code, fmt.Sprintf("partition %d: %s", f.Partition, text)}}
	switch rule.patience {
	case forEver:
		if f.Fault == SourceUnreachable && now.Sub(f.Since) >= lim.Unreachable {
			j.Judgement = Unavailable
		}
		return j
	case retryTimeout:
		j.Until = f.Since.Add(lim.Retry)
	case metadataSettle:
		j.Until = f.Since.Add(min(lim.Retry, metadataSettleMax))
	case notAtAll:
		j.Until = f.Since
	}
	if !now.Before(j.Until) {
		j.Judgement = Fail
	}
	return j
}

// JudgeFaults decides about a topic: its worst partition speaks for it, the
// lowest number among equals.
func JudgeFaults(list []PartitionFault, now time.Time, lim Limits) Judged {
	var worst Judged
	for _, f := range list {
		if j := JudgeFault(f, now, lim); j.Judgement > worst.Judgement {
			worst = j
		}
	}
	return worst
}

// MayResume reports whether a FAILED mirror may go on in place: its source topic
// has the id that was copied (or neither has one) and not fewer partitions. The
// fetcher's splice check proves the rest before it appends a byte, and fails the mirror anew where it does not fit.
func MayResume(mirrored, source kafka.TopicID, mirrorPartitions, sourcePartitions int32) bool {
	return mirrored == source && sourcePartitions >= mirrorPartitions
}
