package handler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// login is a connection's way through SASL. Without an Authenticator every
// connection is Anonymous from the start.
type login struct {
	auth      Authenticator // nil: none
	mechanism string        // chosen by SaslHandshake, "" before
	exchange  Exchange      // under way, nil before and after
	framing   framing
	principal string    // "" until logged in
	until     time.Time // when the login ends; zero: never
	failed    bool
}

// framing is how the client's SASL bytes come.
type framing int8

const (
	inRequests framing = iota // SaslAuthenticate
	rawFrames                 // SaslHandshake v0: bare frames until the exchange is done
)

func newLogin(l *listener) *login {
	if l.SASL == nil {
		return &login{principal: Anonymous}
	}
	return &login{auth: l.SASL}
}

// raw reports whether the next frame is a bare SASL token.
func (l *login) raw() bool { return l.exchange != nil && l.framing == rawFrames }

// check says whether a request of this key may be answered now. Its error closes the connection, as in Kafka.
func (l *login) check(key int16, now time.Time) error {
	if l.auth == nil {
		return nil
	}
	switch key {
	case kmsg.ApiVersions.Int16(), kmsg.SASLHandshake.Int16(), kmsg.SASLAuthenticate.Int16():
		if l.failed {
			return errors.New("authentication failed on this connection")
		}
		return nil
	}
	switch {
	case l.principal == "":
		return fmt.Errorf("API key %d before authentication", key)
	case l.exchange != nil:
		return fmt.Errorf("API key %d while the login is being renewed", key)
	case !l.until.IsZero() && now.After(l.until):
		return errors.New("the login has expired and was not renewed")
	}
	return nil
}

// begin answers SaslHandshake.
func (l *login) begin(mechanism string, version int16) error {
	if l.auth == nil {
		return kafka.Errorf(kafka.IllegalSaslState, "This listener does not authenticate: connect without SASL.")
	}
	if l.exchange != nil {
		l.failed = true
		return kafka.Errorf(kafka.IllegalSaslState, "A SASL exchange is under way already.")
	}
	if !slices.Contains(l.auth.Mechanisms(), mechanism) {
		return kafka.Errorf(kafka.UnsupportedSaslMechanism, "SASL mechanism '%s' is not enabled.", mechanism)
	}
	if l.principal != "" && l.mechanism != mechanism {
		return kafka.Errorf(kafka.IllegalSaslState, "A login may be renewed only with its mechanism.")
	}
	exchange, err := l.auth.Begin(mechanism)
	if err != nil {
		return err
	}
	l.mechanism, l.exchange, l.framing = mechanism, exchange, inRequests
	if version == 0 {
		l.framing = rawFrames
	}
	return nil
}

// step feeds the client's bytes to the exchange. lifetime is for the client: 0 for a login without end.
func (l *login) step(token []byte, now time.Time) (answer []byte, lifetime time.Duration, err error) {
	if l.exchange == nil {
		return nil, 0, kafka.Errorf(kafka.IllegalSaslState, "SaslAuthenticate without a SaslHandshake before it.")
	}
	answer, err = l.exchange.Step(token)
	if err != nil {
		l.failed, l.principal = true, ""
		return nil, 0, err
	}
	name, until, done := l.exchange.Principal()
	if !done {
		return answer, 0, nil
	}
	if l.principal != "" && l.principal != name {
		l.failed, l.principal = true, ""
		return nil, 0, kafka.Errorf(kafka.SaslAuthenticationFailed, "A login cannot be renewed as another user.")
	}
	l.exchange, l.principal, l.until = nil, name, until
	if !until.IsZero() {
		lifetime = max(until.Sub(now), time.Millisecond)
	}
	return answer, lifetime, nil
}
