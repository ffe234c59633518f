package plan

import (
	"time"

	"github.com/hawserio/hawser/link/mirror"
)

// Reach is whether the source can be used.
type Reach uint8

// The reaches.
const (
	Unproven      Reach = iota // not probed yet
	Reachable                  // the last probe succeeded, or too few have failed since
	Unreachable                // as many probes in a row failed as the threshold says
	Misconfigured              // credentials, TLS or the wrong cluster: waiting does not help
)

// Probed is what one probe of the source found; the zero value but for At is success.
type Probed struct {
	At    time.Time
	Class string // source.Class by name; "" for success
	Text  string
}

// Contact is what is known of the source from its probes.
type Contact struct {
	Reach    Reach
	Failures int       // in a row
	LastOK   time.Time // zero for never
	Problem  Problem   // of the last failure; empty after a success
}

// classes that waiting does not heal.
var misconfigured = map[string]bool{codeAuthentication: true, codeTLS: true, codeMisconfigured: true,
	string(mirror.BrokerAuthentication): true}

// After is the contact after one more probe. An UNAVAILABLE source or one with
// wrong credentials is back at the first success.
func (c Contact) After(p Probed, threshold int) Contact {
	if p.Class == "" {
		return Contact{Reach: Reachable, LastOK: p.At}
	}
	next := Contact{Reach: c.Reach, Failures: c.Failures + 1, LastOK: c.LastOK, Problem: Problem{p.Class, p.Text}}
	switch {
	case misconfigured[p.Class]:
		next.Reach = Misconfigured
	case next.Failures >= threshold:
		next.Reach = Unreachable
	case c.Reach == Misconfigured:
		// The bad answer is gone but nothing good came instead: it stays until one does.
		next.Problem = c.Problem
	}
	return next
}

// ProbeWait is the wait before the next probe: the period while all is well or
// merely out of reach, so that it heals within one; with credentials that are refused,
// never less than a second, so that an account is not locked by us.
func ProbeWait(c Contact, period time.Duration) time.Duration {
	if c.Reach == Misconfigured {
		return max(period, time.Second)
	}
	if c.Reach == Unproven && c.Failures > 0 {
		return min(period, time.Second)
	}
	return period
}
