package auth_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/quota"
)

// quotas is a limiter at a clock that only the test moves.
type quotas struct {
	*auth.Limiter
	now time.Time
	img *meta.Image
}

func newQuotas() *quotas {
	q := &quotas{now: time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC), img: &meta.Image{}}
	windows := quota.Windows{Count: 11, Size: time.Second}
	q.Limiter = auth.NewLimiter(func() *meta.Image { return q.img }, auth.LimiterConfig{Windows: windows, Mutations: windows, Now: func() time.Time { return q.now }})
	return q
}

// set makes a new image with one quota more.
func (q *quotas) set(entity meta.QuotaEntity, name string, value float64) {
	next := &meta.Image{Quotas: map[meta.QuotaEntity]*meta.Quota{}}
	for e, old := range q.img.Quotas {
		next.Quotas[e] = old
	}
	next.Quotas[entity] = &meta.Quota{Entity: entity, Values: map[string]float64{name: value}}
	q.img = next
}

func TestLimiterFollowsTheMetadata(t *testing.T) {
	q := newQuotas()
	if got := q.Produced("User:ann", "app", 1e9); got != 0 {
		t.Fatalf("without a quota: %v", got)
	}
	q.set(meta.QuotaEntity{User: "ann"}, quota.ProducerByteRate, 1000)
	if got := q.Produced("User:ann", "app", 20_000); got != 10*time.Second {
		t.Errorf("20000 bytes at 1000 a second: rest %v, want 10s", got)
	}
	if got := q.Produced("User:ann", "other", 0); got != 10*time.Second {
		t.Errorf("the quota is the user's, yet another client of theirs rests %v", got)
	}
	if got := q.Produced("User:bob", "app", 20_000); got != 0 {
		t.Errorf("another user rests %v", got)
	}
	if got := q.Fetched("User:ann", "app", 20_000); got != 0 {
		t.Errorf("another quota: rests %v", got)
	}
	q.set(meta.QuotaEntity{User: "ann"}, quota.ProducerByteRate, 2000)
	if got := q.Produced("User:ann", "app", 0); got != 0 {
		t.Errorf("twice the quota, at once: rests %v", got)
	}
	q.set(meta.QuotaEntity{User: "ann", ClientID: "app"}, quota.ProducerByteRate, 10)
	if got := q.Produced("User:ann", "app", 200); got != 10*time.Second {
		t.Errorf("a closer quota has a meter of its own, yet rests %v", got)
	}
}

func TestLimiterOfFetches(t *testing.T) {
	q := newQuotas()
	q.set(meta.QuotaEntity{ClientID: meta.DefaultEntity}, quota.ConsumerByteRate, 500)
	if most, ok := q.FetchMax("User:ann", "app"); !ok || most != 5000 {
		t.Errorf("an answer may have %d bytes, %v; want ten windows' worth", most, ok)
	}
	if got := q.Fetched("User:ann", "app", 10_000); got != 10*time.Second {
		t.Errorf("rests %v", got)
	}
	q.Fetched("User:ann", "app", -10_000)
	if got := q.Fetched("User:ann", "app", 5000); got != 0 {
		t.Errorf("what was not sent counts: rests %v", got)
	}
}

func TestLimiterOfTimeIsBounded(t *testing.T) {
	q := newQuotas()
	q.set(meta.QuotaEntity{User: meta.DefaultEntity}, quota.RequestPercentage, 1)
	if got := q.Worked("User:ann", "app", 100*time.Millisecond); got != 0 {
		t.Errorf("a hundredth of ten seconds: rests %v", got)
	}
	if got := q.Worked("User:ann", "app", 10*time.Second); got != time.Second {
		t.Errorf("rests %v, want a window's time at most", got)
	}
}

func TestLimiterOfMutations(t *testing.T) {
	q := newQuotas()
	q.set(meta.QuotaEntity{User: "ann"}, quota.ControllerMutationRate, 1)
	for range 3 { // the third overdraws: eleven are there at first
		if rest, err := q.Mutated("User:ann", "app", 5, quota.Strict); err != nil || rest != 0 {
			t.Fatalf("rests %v, %v", rest, err)
		}
	}
	rest, err := q.Mutated("User:ann", "app", 1, quota.Strict)
	if !errors.Is(err, kafka.ThrottlingQuotaExceeded) || rest != 4*time.Second {
		t.Errorf("four too many: rests %v, %v", rest, err)
	}
	if rest, err := q.Mutated("User:ann", "app", 1, quota.Permissive); err != nil || rest != 5*time.Second {
		t.Errorf("an old version is served and rests: %v, %v", rest, err)
	}
	q.now = q.now.Add(5 * time.Second)
	if rest, err := q.Mutated("User:ann", "app", 1, quota.Strict); err != nil || rest != 0 {
		t.Errorf("after the rest: %v, %v", rest, err)
	}
}

func TestLimiterOfConnections(t *testing.T) {
	q := newQuotas()
	q.set(meta.QuotaEntity{IP: meta.DefaultEntity}, quota.ConnectionCreationRate, 1)
	q.set(meta.QuotaEntity{IP: "10.0.0.2"}, quota.ConnectionCreationRate, 100)
	taken := 0
	for range 30 {
		if q.Connected("10.0.0.1") == 0 {
			taken++
		}
	}
	if taken != 10 {
		t.Errorf("%d connections were taken at once, want ten windows' worth: refused ones do not count", taken)
	}
	for range 30 {
		if rest := q.Connected("10.0.0.2"); rest != 0 {
			t.Fatalf("an address with a quota of its own rests %v", rest)
		}
	}
	if rest := q.Connected("10.0.0.1"); rest <= 0 || rest > time.Second {
		t.Errorf("rests %v, want a window's time at most", rest)
	}
}

// TestLimiterForgetsIdleClients: client ids are whatever strangers write.
func TestLimiterForgetsIdleClients(t *testing.T) {
	q := newQuotas()
	q.set(meta.QuotaEntity{User: meta.DefaultEntity, ClientID: meta.DefaultEntity}, quota.ProducerByteRate, 1)
	for i := range 50_000 {
		q.Produced("User:ann", fmt.Sprint("app-", i), 1)
		q.now = q.now.Add(time.Second)
	}
	if n := q.Meters(); n > 2*1024 {
		t.Errorf("%d meters are kept", n)
	}
	for i := range 150_000 {
		q.Produced("User:ann", fmt.Sprint("flood-", i), 100)
	}
	if n := q.Meters(); n > 100_001 {
		t.Errorf("%d meters are kept", n)
	}
	if rest := q.Produced("User:ann", "one more", 100); rest == 0 {
		t.Error("who hides behind ever new client ids is not throttled")
	}
}
