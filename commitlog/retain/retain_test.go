package retain_test

import (
	"testing"
	"time"

	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/kafka"
)

func TestNewStart(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	// Five segments of 100 bytes and ten offsets, the latest record of each 100 s after the one before.
	var log []retain.Segment
	for i := range 5 {
		log = append(log, retain.Segment{Base: kafka.Offset(10 * i), Next: kafka.Offset(10*i + 10), Bytes: 100, MaxTimestamp: int64(500_000 + 100_000*i)})
	}
	forever := retain.Policy{Time: -1, Bytes: -1}
	bySize := func(n int64) retain.Policy { return retain.Policy{Time: -1, Bytes: n} }
	byTime := func(d time.Duration) retain.Policy { return retain.Policy{Time: d, Bytes: -1} }
	undated := append([]retain.Segment(nil), log...)
	undated[1].MaxTimestamp = -1
	for _, c := range []struct {
		name   string
		log    []retain.Segment
		policy retain.Policy
		start  kafka.Offset
		limit  kafka.Offset
		want   kafka.Offset
	}{
		{"an empty log", nil, byTime(0), 7, 7, 7},
		{"for ever", log, forever, 3, 50, 3},
		{"size below what is there", log, bySize(250), 0, 50, 20},
		{"size exactly a sum of segments", log, bySize(300), 0, 50, 20},
		{"size above what is there", log, bySize(501), 0, 50, 0},
		{"size zero takes all", log, bySize(0), 0, 50, 50},
		{"one byte keeps the last", log, bySize(1), 0, 50, 40},
		{"age", log, byTime(250 * time.Second), 0, 50, 30},
		{"age exactly is kept", log, byTime(300 * time.Second), 0, 50, 20},
		{"age of all takes the last as well", log, byTime(0), 0, 50, 50},
		{"both, age takes more", log, retain.Policy{Time: 250 * time.Second, Bytes: 400}, 0, 50, 30},
		{"both, size takes more", log, retain.Policy{Time: 450 * time.Second, Bytes: 200}, 0, 50, 30},
		{"the limit holds back", log, byTime(0), 0, 29, 20},
		{"the limit inside the first", log, byTime(0), 0, 5, 0},
		{"never below the start", log, bySize(450), 13, 50, 13},
		{"a segment without a time holds back age", undated, byTime(0), 0, 50, 10},
		{"but not size", undated, bySize(100), 0, 50, 40},
	} {
		if got := retain.NewStart(c.log, c.policy, c.start, c.limit, now); got != c.want {
			t.Errorf("%s: start moves to %d, want %d", c.name, got, c.want)
		}
	}
}

func TestARecordFromTheFutureKeepsItsSegment(t *testing.T) {
	log := []retain.Segment{{Next: 10, Bytes: 1, MaxTimestamp: 1 << 50}, {Base: 10, Next: 20, Bytes: 1, MaxTimestamp: 5}}
	if got := retain.NewStart(log, retain.Policy{Time: time.Hour, Bytes: -1}, 0, 20, time.UnixMilli(1<<40)); got != 0 {
		t.Fatalf("start moves to %d", got)
	}
}
