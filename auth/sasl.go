package auth

import (
	"context"
	"crypto/pbkdf2"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// SASLConfig is what a listener's clients may log in with.
type SASLConfig struct {
	Mechanisms []string
	// JAAS is the users of PLAIN, as options user_NAME="password" of its login module; SCRAM users are in metadata.
	JAAS   string
	Image  func() *meta.Image
	Tokens *Tokens // of OAUTHBEARER
	// Longest is how long a login by a mechanism is good for (connections.max.reauth.ms); nil, and 0: without end.
	Longest func(mechanism string) time.Duration
	Now     func() time.Time // nil: time.Now
}

// SASL is what a listener's clients may log in with. broker turns it into a
// handler.Authenticator.
type SASL struct {
	mechanisms []string
	plain      map[string]string // passwords by user, of PLAIN
	image      func() *meta.Image
	tokens     *Tokens
	longest    func(mechanism string) time.Duration
	now        func() time.Time
}

// NewSASL makes the logins of one listener.
func NewSASL(c SASLConfig) (*SASL, error) {
	s := &SASL{plain: map[string]string{}, image: c.Image, tokens: c.Tokens, longest: c.Longest, now: c.Now}
	if s.longest == nil {
		s.longest = func(string) time.Duration { return 0 }
	}
	if s.now == nil {
		s.now = time.Now
	}
	for _, name := range c.Mechanisms {
		name = strings.ToUpper(strings.TrimSpace(name))
		switch name {
		case Plain, ScramSHA256, ScramSHA512:
		case OAuthBearer:
			if c.Tokens == nil {
				return nil, errors.New("OAUTHBEARER is enabled without a way to check tokens")
			}
		default:
			return nil, fmt.Errorf("sasl.enabled.mechanisms: %s is not supported; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER", name)
		}
		s.mechanisms = append(s.mechanisms, name)
	}
	if c.JAAS == "" {
		return s, nil
	}
	login, err := config.ParseJAAS(c.JAAS)
	if err != nil {
		return nil, fmt.Errorf("read sasl.jaas.config: %w", err)
	}
	for option, password := range login.Options {
		if user, ok := strings.CutPrefix(option, "user_"); ok {
			s.plain[user] = password
		}
	}
	return s, nil
}

// Mechanisms lists what clients may choose from.
func (s *SASL) Mechanisms() []string { return slices.Clone(s.mechanisms) }

// Exchange is one login under way.
type Exchange struct {
	step    func(token []byte) ([]byte, error)
	user    string
	done    bool
	until   time.Time // when the credential ends, zero: never
	longest time.Duration
	now     func() time.Time
}

// Begin starts a login by one of the mechanisms.
func (s *SASL) Begin(mechanism string) (*Exchange, error) {
	if !slices.Contains(s.mechanisms, mechanism) {
		return nil, kafka.Errorf(kafka.UnsupportedSaslMechanism, "Mechanism %s is not enabled here; use one of %s.", mechanism,
			strings.Join(s.mechanisms, ", "))
	}
	e := &Exchange{longest: s.longest(mechanism), now: s.now}
	switch mechanism {
	case Plain:
		e.step = func(token []byte) ([]byte, error) { return nil, s.logInPlain(e, token) }
	case OAuthBearer:
		b := &bearer{tokens: s.tokens}
		e.step = func(message []byte) ([]byte, error) { return b.step(e, message) }
	default:
		e.step = s.scramStep(e, mechanism)
	}
	return e, nil
}

func (s *SASL) scramStep(e *Exchange, mechanism string) func(token []byte) ([]byte, error) {
	c := &conversation{mechanism: mechanism, lookUp: func(user string) *meta.Scram {
		return s.image().Scrams[meta.ScramKey{User: user, Mechanism: mechanism}]
	}}
	return func(token []byte) ([]byte, error) {
		answer, done, err := c.step(token)
		if err != nil {
			return nil, errLogin(mechanism)
		}
		if e.done = done; done {
			e.user = c.user
		}
		return answer, nil
	}
}

// Step takes the client's bytes and returns ours.
func (e *Exchange) Step(token []byte) ([]byte, error) {
	if e.done {
		return nil, kafka.Errorf(kafka.IllegalSaslState, "The login is complete already.")
	}
	return e.step(token)
}

// Principal is who logged in and until when (zero: without end); ok is false until the login is complete.
func (e *Exchange) Principal() (name string, until time.Time, ok bool) {
	return "User:" + e.user, ending(e.until, e.now(), e.longest), e.done
}

// errLogin says nothing of which half was wrong: that would tell a guesser who exists.
func errLogin(mechanism string) error {
	return kafka.Errorf(kafka.SaslAuthenticationFailed, "Authentication failed: Invalid username or password (%s).", mechanism)
}

// logInPlain reads authorization id, user and password, separated by NUL (RFC 4616).
func (s *SASL) logInPlain(e *Exchange, token []byte) error {
	parts := strings.Split(string(token), "\x00")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return kafka.Errorf(kafka.SaslAuthenticationFailed, "Authentication failed: a PLAIN login has an authorization id, a user "+
			"name and a password, separated by NUL bytes.")
	}
	want, known := s.plain[parts[1]]
	same := subtle.ConstantTimeCompare([]byte(want), []byte(parts[2])) == 1
	if !known || !same {
		return errLogin(Plain)
	}
	if parts[0] != "" && parts[0] != parts[1] {
		return kafka.Errorf(kafka.SaslAuthenticationFailed,
			"Authentication failed: Client requested an authorization id that is different from username.")
	}
	e.user, e.done = parts[1], true
	return nil
}

// CheckPassword reports whether a user has that password, by PLAIN or SCRAM
// credentials where those are enabled: the HTTP door's Basic login.
func (s *SASL) CheckPassword(user, password string) bool {
	if want, known := s.plain[user]; known && slices.Contains(s.mechanisms, Plain) &&
		subtle.ConstantTimeCompare([]byte(want), []byte(password)) == 1 {
		return true
	}
	for _, mechanism := range []string{ScramSHA512, ScramSHA256} {
		kept := s.image().Scrams[meta.ScramKey{User: user, Mechanism: mechanism}]
		if kept == nil || !slices.Contains(s.mechanisms, mechanism) {
			continue
		}
		salt := []byte(kept.Salt.Reveal())
		salted, err := pbkdf2.Key(digest(mechanism), password, salt, int(kept.Iterations), digest(mechanism)().Size())
		if err != nil {
			return false
		}
		made := credentials(user, mechanism, salt, salted, kept.Iterations)
		if subtle.ConstantTimeCompare([]byte(made.StoredKey.Reveal()), []byte(kept.StoredKey.Reveal())) == 1 {
			return true
		}
	}
	return false
}

// CheckToken names who a bearer token speaks for: the HTTP door's bearer login.
func (s *SASL) CheckToken(ctx context.Context, token string) (user string, err error) {
	if !slices.Contains(s.mechanisms, OAuthBearer) {
		return "", errors.New("bearer tokens are not enabled here: add OAUTHBEARER to sasl.enabled.mechanisms")
	}
	checked, err := s.tokens.Check(ctx, token)
	return checked.Subject, err
}
