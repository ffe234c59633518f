package auth

import (
	"strings"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/quota"
)

const (
	// metersSwept is at how many meters those at rest are first looked for.
	metersSwept = 1024
	// metersMax bounds meters: client ids are any text. Beyond it clients share one.
	metersMax = 100_000
	// sweepTime is the shortest time between two looks at all of them.
	sweepTime = time.Second
	// restMax is the longest that a client rests for its requests' time or its new connections
	// (quota.window.size.seconds in Kafka).
	restMax = time.Second
)

// LimiterConfig is over which times a limiter measures.
type LimiterConfig struct {
	Windows   quota.Windows    // quota.window.num, quota.window.size.seconds
	Mutations quota.Windows    // controller.quota.window.num, controller.quota.window.size.seconds
	Now       func() time.Time // nil: time.Now
}

// Limiter meters what clients do and says how long they must rest under the quotas
// in the metadata; a change of these counts from the next request on. It implements handler.Quotas.
type Limiter struct {
	cfg   LimiterConfig
	image func() *meta.Image

	mu     sync.Mutex
	meters map[meterKey]*meter
	sweep  int // at how many meters to look for those at rest
	swept  time.Time
}

type meterKey struct {
	quota string
	owner quota.Owner // of an address: its text in User
}

// meter is a rate, or a bucket for controller mutations.
type meter struct {
	rate   quota.Rate
	bucket quota.Bucket
	used   time.Time
}

// NewLimiter makes a limiter that reads the quotas of image's newest.
func NewLimiter(image func() *meta.Image, cfg LimiterConfig) *Limiter {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Limiter{cfg: cfg, image: image, meters: map[meterKey]*meter{}, sweep: metersSwept}
}

// find is the limit of a client and whose meter counts.
func (l *Limiter) find(name, principal, client string) (limit float64, owner quota.Owner, ok bool) {
	quotas := l.image().Quotas
	if len(quotas) == 0 {
		return 0, owner, false
	}
	_, user, _ := strings.Cut(principal, ":")
	return quota.Resolve(user, client, func(user, client string) (float64, bool) {
		return valueOf(quotas[meta.QuotaEntity{User: user, ClientID: client}], name)
	})
}

func valueOf(q *meta.Quota, name string) (float64, bool) {
	if q == nil {
		return 0, false
	}
	v, ok := q.Values[name]
	return v, ok
}

// of finds a meter, or makes it. The caller holds mu.
func (l *Limiter) of(name string, owner quota.Owner, now time.Time) *meter {
	key := meterKey{name, owner}
	m := l.meters[key]
	if m == nil {
		if len(l.meters) >= l.sweep && now.Sub(l.swept) >= sweepTime {
			l.forget(now)
		}
		if len(l.meters) >= metersMax {
			key.owner = quota.Owner{}
			m = l.meters[key]
		}
		if m == nil {
			m = &meter{}
			l.meters[key] = m
		}
	}
	m.used = now
	return m
}

// forget drops meters that hold nothing any more: nothing was recorded for as long as they remember.
func (l *Limiter) forget(now time.Time) {
	span := max(l.cfg.Windows.Span(), l.cfg.Mutations.Span())
	for key, m := range l.meters {
		if now.Sub(m.used) >= span {
			delete(l.meters, key)
		}
	}
	l.swept = now
	l.sweep = min(max(metersSwept, 2*len(l.meters)), metersMax)
}

// spend records an amount and says for how long to rest.
func (l *Limiter) spend(name string, limit, amount float64, owner quota.Owner) time.Duration {
	now := l.cfg.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.of(name, owner, now)
	m.rate.Record(l.cfg.Windows, amount, now)
	rate, over := m.rate.Measure(l.cfg.Windows, now)
	return quota.Throttle(rate, limit, over)
}

func (l *Limiter) client(name, principal, client string, amount float64) time.Duration {
	limit, owner, ok := l.find(name, principal, client)
	if !ok {
		return 0
	}
	return l.spend(name, limit, amount, owner)
}

// Produced implements handler.Quotas.
func (l *Limiter) Produced(principal, client string, bytes int) time.Duration {
	return l.client(quota.ProducerByteRate, principal, client, float64(bytes))
}

// Fetched implements handler.Quotas.
func (l *Limiter) Fetched(principal, client string, bytes int) time.Duration {
	return l.client(quota.ConsumerByteRate, principal, client, float64(bytes))
}

// FetchMax implements handler.Quotas: what all windows but one allow.
func (l *Limiter) FetchMax(principal, client string) (int, bool) {
	limit, _, ok := l.find(quota.ConsumerByteRate, principal, client)
	if !ok {
		return 0, false
	}
	most := limit * float64(l.cfg.Windows.Count-1) * l.cfg.Windows.Size.Seconds()
	return int(min(most, 1<<31-1)), true
}

// Worked implements handler.Quotas.
func (l *Limiter) Worked(principal, client string, busy time.Duration) time.Duration {
	return min(l.client(quota.RequestPercentage, principal, client, busy.Seconds()*100), max(restMax, l.cfg.Windows.Size))
}

// Mutated implements handler.Quotas (KIP-599).
func (l *Limiter) Mutated(principal, client string, partitions int, mode quota.Mode) (time.Duration, error) {
	limit, owner, ok := l.find(quota.ControllerMutationRate, principal, client)
	if !ok {
		return 0, nil
	}
	now, w := l.cfg.Now(), l.cfg.Mutations
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.of(quota.ControllerMutationRate, owner, now)
	if wait := m.bucket.Wait(w, limit, now); wait > 0 && mode == quota.Strict {
		return wait, kafka.Errorf(kafka.ThrottlingQuotaExceeded, "The throttling quota has been exceeded.")
	}
	m.bucket.Take(w, limit, float64(partitions), now)
	if mode == quota.Strict {
		return 0, nil
	}
	return m.bucket.Wait(w, limit, now), nil
}

// Connected implements handler.Quotas (KIP-612). A connection that must rest is not counted: it is not taken.
func (l *Limiter) Connected(ip string) time.Duration {
	quotas := l.image().Quotas
	if len(quotas) == 0 {
		return 0
	}
	limit, ok := valueOf(quotas[meta.QuotaEntity{IP: ip}], quota.ConnectionCreationRate)
	if !ok {
		limit, ok = valueOf(quotas[meta.QuotaEntity{IP: meta.DefaultEntity}], quota.ConnectionCreationRate)
	}
	if !ok {
		return 0
	}
	owner := quota.Owner{User: ip}
	rest := min(l.spend(quota.ConnectionCreationRate, limit, 1, owner), max(restMax, l.cfg.Windows.Size))
	if rest > 0 {
		l.spend(quota.ConnectionCreationRate, limit, -1, owner)
	}
	return rest
}

// Meters is how many meters are kept.
func (l *Limiter) Meters() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.meters)
}
