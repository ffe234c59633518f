package retain_test

import (
	"testing"

	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/kafka"
)

func TestStart(t *testing.T) {
	const now = 1_000_000
	// Three segments of 100 bytes; the last is the active one.
	segments := func(times ...int64) []retain.Segment {
		var list []retain.Segment
		for i, ms := range times {
			base := kafka.Offset(10 * i)
			list = append(list, retain.Segment{Base: base, Next: base + 10, Bytes: 100, MaxTimestamp: ms})
		}
		return list
	}
	written := func(list []retain.Segment, created ...int64) []retain.Segment {
		for i := range list {
			list[i].Created = created[i]
		}
		return list
	}
	for _, c := range []struct {
		name     string
		policy   retain.Policy
		segments []retain.Segment
		marks    retain.Marks
		want     kafka.Offset
	}{
		{"nothing is too old", retain.Policy{Delete: true, RetentionMs: 1000, RetentionBytes: -1}, segments(now-1000, now, now), retain.Marks{HighWatermark: 30}, 0},
		{"one ms too old", retain.Policy{Delete: true, RetentionMs: 999, RetentionBytes: -1}, segments(now-1000, now, now), retain.Marks{HighWatermark: 30}, 10},
		{"without end", retain.Policy{Delete: true, RetentionMs: -1, RetentionBytes: -1}, segments(0, 0, 0), retain.Marks{HighWatermark: 30}, 0},
		{"not with compact alone", retain.Policy{Compact: true, RetentionMs: 1, RetentionBytes: 1}, segments(0, 0, 0), retain.Marks{HighWatermark: 30}, 0},
		{"with both", retain.Policy{Compact: true, Delete: true, RetentionMs: 1, RetentionBytes: -1}, segments(0, 0, now), retain.Marks{HighWatermark: 30}, 20},
		{"the active one too", retain.Policy{Delete: true, RetentionMs: 1, RetentionBytes: -1}, segments(0, 0, 0), retain.Marks{HighWatermark: 30}, 30},
		{"not above the high watermark", retain.Policy{Delete: true, RetentionMs: 1, RetentionBytes: -1}, segments(0, 0, 0), retain.Marks{HighWatermark: 19}, 10},
		{"a younger one shields those behind it", retain.Policy{Delete: true, RetentionMs: 1, RetentionBytes: -1}, segments(0, now, 0), retain.Marks{HighWatermark: 30}, 10},
		{"future timestamps stay", retain.Policy{Delete: true, RetentionMs: 1, RetentionBytes: -1}, segments(now+5000, 0, 0), retain.Marks{HighWatermark: 30}, 0},
		{"no timestamps: by when it was written", retain.Policy{Delete: true, RetentionMs: 1000, RetentionBytes: -1}, written(segments(-1, -1, -1), now-1001, now, now), retain.Marks{HighWatermark: 30}, 10},
		{"nothing known: by the next", retain.Policy{Delete: true, RetentionMs: 1000, RetentionBytes: -1}, segments(-1, now-1001, now), retain.Marks{HighWatermark: 30}, 20},
		{"nothing known at all stays", retain.Policy{Delete: true, RetentionMs: 1000, RetentionBytes: -1}, segments(-1, -1, -1), retain.Marks{HighWatermark: 30}, 0},
		{"bytes: keeps at least so many", retain.Policy{Delete: true, RetentionMs: -1, RetentionBytes: 200}, segments(now, now, now), retain.Marks{HighWatermark: 30}, 10},
		{"bytes: half a segment stays", retain.Policy{Delete: true, RetentionMs: -1, RetentionBytes: 201}, segments(now, now, now), retain.Marks{HighWatermark: 30}, 0},
		{"bytes: none", retain.Policy{Delete: true, RetentionMs: -1, RetentionBytes: 0}, segments(now, now, now), retain.Marks{HighWatermark: 30}, 30},
		{"a start that is ahead stays", retain.Policy{Delete: true, RetentionMs: 1, RetentionBytes: -1}, segments(0, now, now), retain.Marks{LogStart: 12, HighWatermark: 30}, 12},
		{"an empty log", retain.Policy{Delete: true, RetentionMs: 1, RetentionBytes: 0}, nil, retain.Marks{LogStart: 7, HighWatermark: 7}, 7},
	} {
		if got := c.policy.Start(c.segments, c.marks, now); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
