package quota_test

import (
	"math"
	"testing"
	"time"

	"github.com/hawserio/hawser/quota"
)

var (
	start    = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	standard = quota.Windows{Count: 11, Size: time.Second}
)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

type event struct{ at, amount float64 }

// TestThrottleIsKafkas has what Apache Kafka's own arithmetic gives: a rate is taken
// over ten full windows and what has passed of the eleventh.
func TestThrottleIsKafkas(t *testing.T) {
	for name, c := range map[string]struct {
		limit  float64
		events []event
		want   time.Duration
	}{
		"at the limit":             {500, []event{{0, 5000}}, 0},
		"a byte over it":           {500, []event{{0, 5001}}, 2 * time.Millisecond},
		"twice what ten s allow":   {500, []event{{0, 10000}}, 10 * time.Second},
		"half a window later":      {500, []event{{0, 4000}, {0.5, 2300}}, 2100 * time.Millisecond},
		"old windows count":        {500, []event{{0, 5000}, {9, 5000}}, 10 * time.Second},
		"after the span they go":   {500, []event{{0, 50000}, {11, 100}}, 0},
		"just before they do not":  {500, []event{{0, 50000}, {10.999, 0}}, 89001 * time.Millisecond},
		"taken back":               {500, []event{{0, 50000}, {0.1, -50000}}, 0},
		"steady and within":        {10, []event{{0, 10}, {1, 10}, {2, 10}, {3, 10}, {4, 10}, {5, 10}, {6, 10}, {7, 10}, {8, 10}, {9, 10}}, 0},
		"steady and above":         {10, []event{{0, 15}, {1, 15}, {2, 15}, {3, 15}, {4, 15}, {5, 15}, {6, 15}, {7, 15}, {8, 15}, {9, 15}}, 5 * time.Second},
		"a limit of a byte a year": {1e-9, []event{{0, 1e9}}, math.MaxInt32 * time.Millisecond},
	} {
		var r quota.Rate
		var now time.Time
		for _, e := range c.events {
			now = at(e.at)
			r.Record(standard, e.amount, now)
		}
		rate, over := r.Measure(standard, now)
		if got := quota.Throttle(rate, c.limit, over); got != c.want {
			t.Errorf("%s: throttled for %v, want %v (rate %v over %v)", name, got, c.want, rate, over)
		}
	}
}

// TestRestingBringsTheRateDown: who rests as long as it was told is at its limit over the whole time.
func TestRestingBringsTheRateDown(t *testing.T) {
	const limit, piece = 1000.0, 700.0
	var r quota.Rate
	now, sent := start, 0.0
	for now.Before(at(120)) {
		r.Record(standard, piece, now)
		sent += piece
		rate, over := r.Measure(standard, now)
		now = now.Add(quota.Throttle(rate, limit, over) + 10*time.Millisecond)
	}
	if got := sent / now.Sub(start).Seconds(); got < limit*0.9 || got > limit*1.15 {
		t.Errorf("%v a second went by at a limit of %v", got, limit)
	}
}

func TestBucket(t *testing.T) {
	const limit = 2.0
	var b quota.Bucket
	if got := b.Tokens(standard, limit, at(0)); got != 22 {
		t.Errorf("a fresh bucket has %v tokens, want what eleven windows bring", got)
	}
	b.Take(standard, limit, 30, at(0))
	if got := b.Wait(standard, limit, at(0)); got != 4*time.Second {
		t.Errorf("8 tokens too many at 2 a second: wait %v", got)
	}
	if got := b.Wait(standard, limit, at(3)); got != time.Second {
		t.Errorf("three seconds later: wait %v", got)
	}
	if got := b.Wait(standard, limit, at(4)); got != 0 {
		t.Errorf("an empty bucket is not overdrawn, yet wait %v", got)
	}
	if got := b.Tokens(standard, limit, at(1000)); got != 22 {
		t.Errorf("an idle bucket has %v tokens", got)
	}
	if got := b.Tokens(standard, limit, at(-5)); got != -8 {
		t.Errorf("a clock that went back changed the tokens to %v", got)
	}
}

// TestResolveTakesTheFirstOfEightLevels takes away the level found, again and again.
func TestResolveTakesTheFirstOfEightLevels(t *testing.T) {
	type pair = [2]string
	set := map[pair]float64{
		{"ann", "app"}: 1, {"ann", quota.Default}: 2, {"ann", ""}: 3, {quota.Default, "app"}: 4,
		{quota.Default, quota.Default}: 5, {quota.Default, ""}: 6, {"", "app"}: 7, {"", quota.Default}: 8,
		{"bob", "app"}: 9, {"ann", "other"}: 10, {"", "other"}: 11,
	}
	owners := []quota.Owner{{"ann", "app"}, {"ann", "app"}, {User: "ann"}, {"ann", "app"}, {"ann", "app"}, {User: "ann"}, {Client: "app"}, {Client: "app"}}
	for level := 1.0; level <= 8; level++ {
		var found pair
		got, owner, ok := quota.Resolve("ann", "app", func(user, client string) (float64, bool) {
			v, ok := set[pair{user, client}]
			if ok {
				found = pair{user, client}
			}
			return v, ok
		})
		if !ok || got != level || owner != owners[int(level)-1] {
			t.Errorf("level %v: got %v for %v (%v), want the meter of %v", level, got, owner, ok, owners[int(level)-1])
		}
		delete(set, found)
	}
	if _, _, ok := quota.Resolve("ann", "app", func(user, client string) (float64, bool) { v, ok := set[pair{user, client}]; return v, ok }); ok {
		t.Error("a limit of somebody else was taken")
	}
}

func TestResolveWithoutClientID(t *testing.T) {
	limit, owner, ok := quota.Resolve("ann", "", func(user, client string) (float64, bool) { return 5, user == "" && client == quota.Default })
	if !ok || limit != 5 || owner != (quota.Owner{}) {
		t.Errorf("got %v for %+v, %v", limit, owner, ok)
	}
}
