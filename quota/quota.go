// Package quota decides how long a client must rest: which limit is its own, how
// fast it was, and what that costs. It has Kafka's arithmetic (KIP-13, KIP-124,
// KIP-546, KIP-599, KIP-612) and neither clock nor lock: time comes in as an
// argument, and the caller keeps meters from being used twice at once.
package quota

import (
	"math"
	"time"
)

// The limits, by Kafka's names, with their units.
const (
	ProducerByteRate       = "producer_byte_rate"       // bytes of Produce requests a second
	ConsumerByteRate       = "consumer_byte_rate"       // bytes of Fetch answers a second
	RequestPercentage      = "request_percentage"       // hundredths of one thread's time
	ControllerMutationRate = "controller_mutation_rate" // partitions created and deleted a second
	ConnectionCreationRate = "connection_creation_rate" // new connections of an address a second
)

// Default is Kafka's name of everybody who has no limit of their own.
const Default = "<default>"

// Windows is what a rate is measured over: Count windows of Size each. Both are above zero.
type Windows struct {
	Count int           // quota.window.num
	Size  time.Duration // quota.window.size.seconds
}

// Span is how long what was recorded is remembered.
func (w Windows) Span() time.Duration { return time.Duration(w.Count) * w.Size }

// Throttle is how long who was as fast as rate must rest to come down to limit over a time.
// Zero where rate is within limit; whole milliseconds, as Kafka tells them to clients.
func Throttle(rate, limit float64, over time.Duration) time.Duration {
	if rate <= limit || limit <= 0 {
		return 0
	}
	millis := math.Round((rate - limit) / limit * float64(over.Milliseconds()))
	return time.Duration(min(millis, math.MaxInt32)) * time.Millisecond
}

// Rate is what went by in a sliding number of windows. The zero value is ready.
type Rate struct {
	samples []sample
	current int
}

// sample is one window. It begins when something is recorded, not at a full second.
type sample struct {
	begun, last time.Time
	total       float64
}

// Record adds to what went by; a negative amount takes back what was recorded.
func (r *Rate) Record(w Windows, amount float64, now time.Time) {
	if len(r.samples) == 0 {
		r.samples = append(r.samples, sample{begun: now, last: now})
	}
	if now.Sub(r.samples[r.current].begun) >= w.Size {
		r.advance(w, now)
	}
	s := &r.samples[r.current]
	s.total += amount
	s.last = now
}

// advance begins the next window. One more than Count is kept: the oldest may still reach into the span.
func (r *Rate) advance(w Windows, now time.Time) {
	r.current = (r.current + 1) % (w.Count + 1)
	fresh := sample{begun: now, last: now}
	if r.current >= len(r.samples) {
		r.current = len(r.samples)
		r.samples = append(r.samples, fresh)
		return
	}
	r.samples[r.current] = fresh
}

// Measure is the amount a second, and over which time it was measured. That time
// is never less than all windows but one: a client that has only just begun is
// not taken for a fast one.
func (r *Rate) Measure(w Windows, now time.Time) (perSecond float64, over time.Duration) {
	total, oldest := 0.0, now
	for i := range r.samples {
		s := &r.samples[i]
		if now.Sub(s.last) >= w.Span() {
			*s = sample{begun: now, last: now}
		}
		total += s.total
		if s.begun.Before(oldest) {
			oldest = s.begun
		}
	}
	over = now.Sub(oldest)
	if full := int(over / w.Size); full < w.Count-1 {
		over += time.Duration(w.Count-1-full) * w.Size
	}
	over = max(over, w.Size)
	return total / over.Seconds(), over
}

// Bucket holds tokens that come in at a rate, at most as many as come in over all
// windows. It may be overdrawn; then the client waits until it is not. The zero value is full.
type Bucket struct {
	tokens float64
	filled time.Time // zero: never used
}

// Take takes tokens, whether they are there or not. A limit that has grown shorter takes effect at once.
func (b *Bucket) Take(w Windows, limit, amount float64, now time.Time) {
	b.tokens = b.Tokens(w, limit, now) - amount
	b.filled = now
}

// Tokens is what is there: below zero if it is overdrawn.
func (b *Bucket) Tokens(w Windows, limit float64, now time.Time) float64 {
	most := limit * w.Span().Seconds()
	if b.filled.IsZero() {
		return most
	}
	return min(most, b.tokens+limit*max(now.Sub(b.filled), 0).Seconds())
}

// Wait is how long until the bucket is no longer overdrawn.
func (b *Bucket) Wait(w Windows, limit float64, now time.Time) time.Duration {
	tokens := b.Tokens(w, limit, now)
	if tokens >= 0 || limit <= 0 {
		return 0
	}
	return time.Duration(min(math.Round(-tokens/limit*1000), math.MaxInt32)) * time.Millisecond
}

// Mode is what becomes of a request that would overdraw a bucket further.
type Mode int8

// The two modes (KIP-599).
const (
	Permissive Mode = iota // it is served and the client rests afterwards: old versions know no other way
	Strict                 // it is refused
)

// Owner is who shares a meter: all connections of a user, of a client id, or of a
// user's client id, the other part being empty.
type Owner struct{ User, Client string }

// Resolve finds the limit of a user's client. Of the eight levels of KIP-55 the
// first that is set counts. set says what is configured for a pair; Default in
// place of a name means everybody, an empty name that the pair has no such part.
func Resolve(user, client string, set func(user, client string) (limit float64, ok bool)) (limit float64, owner Owner, ok bool) {
	both, users, clients := Owner{user, client}, Owner{User: user}, Owner{Client: client}
	levels := [...]struct {
		user, client string
		owner        Owner
	}{
		{user, client, both},
		{user, Default, both},
		{user, "", users},
		{Default, client, both},
		{Default, Default, both},
		{Default, "", users},
		{"", client, clients},
		{"", Default, clients},
	}
	for _, level := range levels {
		if level.user == "" && level.client == "" {
			continue // a client without an id has no limit of its own
		}
		if limit, ok := set(level.user, level.client); ok {
			return limit, level.owner, true
		}
	}
	return 0, Owner{}, false
}
