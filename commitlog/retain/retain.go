// Package retain decides which segments, batches and records of a log go:
// retention and compaction, Kafka's rules. commitlog and partition ask it and act. It knows
// no files, no clock and no locks: facts and time come in as arguments.
package retain

import (
	"github.com/hawserio/hawser/kafka"
)

// Policy is what a topic's configs say about old records. Times and sizes are Kafka's: -1 is no limit.
type Policy struct {
	Delete            bool    // cleanup.policy has delete: old segments go
	Compact           bool    // cleanup.policy has compact: the newest record of each key stays
	RetentionMs       int64   // retention.ms
	RetentionBytes    int64   // retention.bytes, of one partition
	DeleteRetentionMs int64   // delete.retention.ms: how long a tombstone stays after it was first cleaned
	MinLagMs          int64   // min.compaction.lag.ms: younger records are left alone
	MaxLagMs          int64   // max.compaction.lag.ms: older ones are compacted whatever the dirty ratio
	DirtyRatio        float64 // min.cleanable.dirty.ratio
}

// Segment is what is decided about: a segment as the log describes it.
type Segment struct {
	Base         kafka.Offset // first offset it may hold
	Next         kafka.Offset // exclusive end
	Bytes        int64
	MaxTimestamp int64 // Unix ms; -1 if no batch says
	Created      int64 // Unix ms of its first append; 0 if that is not known
}

// time is how new the segment is, in Unix ms, and whether that is known: what its batches say,
// else when it was written.
func (s Segment) time() (ms int64, known bool) {
	switch {
	case s.MaxTimestamp >= 0:
		return s.MaxTimestamp, true
	case s.Created > 0:
		return s.Created, true
	}
	return 0, false
}

// Marks bound what may go.
type Marks struct {
	LogStart      kafka.Offset
	HighWatermark kafka.Offset // exclusive end of what is synced and shown: nothing above it goes
}

// Start is where the log should begin, at least its present start: behind the oldest segments that are too old or
// too much (KafkaLog's deleteOldSegments). Only whole segments below the high watermark go, the newest one
// too; one whose age is not known is as old as the one behind it. segments are all of the log's, oldest first.
func (p Policy) Start(segments []Segment, marks Marks, nowMs int64) kafka.Offset {
	start := marks.LogStart
	if !p.Delete {
		return start
	}
	var size int64
	for _, s := range segments {
		size += s.Bytes
	}
	for i, s := range segments {
		if s.Next > marks.HighWatermark {
			break
		}
		tooMuch := p.RetentionBytes >= 0 && size-s.Bytes >= p.RetentionBytes
		if !tooMuch && !p.expired(segments[i:], nowMs) {
			break
		}
		size -= s.Bytes
		start = max(start, s.Next)
	}
	return start
}

// expired reports whether the first of the segments is older than retention.ms.
func (p Policy) expired(segments []Segment, nowMs int64) bool {
	if p.RetentionMs < 0 {
		return false
	}
	for _, s := range segments {
		if ms, known := s.time(); known {
			return nowMs-ms > p.RetentionMs
		}
	}
	return false
}
