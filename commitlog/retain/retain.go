// Package retain decides which part of a log goes: by time, by size, up to a
// bound. partition's owner asks it for each log and moves the log's start to
// the answer. It is pure: the clock and the segments come in as arguments.
package retain

import (
	"time"

	"github.com/hawserio/hawser/kafka"
)

// Segment is what retention looks at; segments come oldest first.
type Segment struct {
	Base         kafka.Offset // first offset it may hold
	Next         kafka.Offset // exclusive end
	Bytes        int64
	MaxTimestamp int64 // of its records, Unix ms; -1 if no record has one
}

// Policy is a topic's retention.
type Policy struct {
	Time  time.Duration // retention.ms: a segment goes when its latest record is older; below 0 never
	Bytes int64         // retention.bytes: the oldest segments go while those left hold at least as much; below 0 never
}

// NewStart is the offset that the log's start should move to: the end of the last segment
// that goes, never above limit (a high watermark, or what else must stay) and never
// below start. Only whole segments go, as in Kafka, the last one too. A log of
// which nothing goes answers start.
//
// Segments without a timestamp go by Policy.Bytes alone: there is nothing to tell their age by.
func NewStart(segments []Segment, policy Policy, start, limit kafka.Offset, now time.Time) kafka.Offset {
	var bytes int64
	for _, s := range segments {
		bytes += s.Bytes
	}
	next := start
	for _, s := range segments {
		if s.Next > limit || !policy.tooOld(s, now) && !policy.tooMany(bytes-s.Bytes) {
			break
		}
		bytes -= s.Bytes
		next = max(next, s.Next)
	}
	return next
}

func (p Policy) tooOld(s Segment, now time.Time) bool {
	return p.Time >= 0 && s.MaxTimestamp >= 0 && now.UnixMilli()-s.MaxTimestamp > p.Time.Milliseconds()
}

// tooMany reports whether what would be left is still as much as is wanted.
func (p Policy) tooMany(left int64) bool { return p.Bytes >= 0 && left >= p.Bytes }
