package auth

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/hawserio/hawser/kafka"
)

// bearer is the server's side of one OAUTHBEARER login (RFC 7628).
type bearer struct {
	tokens *Tokens
	failed error // told to the client once it has acknowledged that it failed
}

// extension is a pair that may come with a token (KIP-342). They are read and not used.
var extension = regexp.MustCompile(`^[A-Za-z]+=[\x21-\x7E \t\r\n]*$`)

const extensionsMax = 100

// step answers a client's message. A token that is refused is answered with the
// JSON that the RFC wants; the client acknowledges it with one byte 1, and only then fails.
func (b *bearer) step(e *Exchange, message []byte) ([]byte, error) {
	if b.failed != nil {
		return nil, b.failed
	}
	id, text, err := bearerMessage(string(message))
	if err != nil {
		return nil, kafka.Errorf(kafka.SaslAuthenticationFailed, "Authentication failed: %s.", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), jwksTimeout)
	defer cancel()
	token, err := b.tokens.Check(ctx, text)
	if err != nil {
		b.failed = kafka.Errorf(kafka.SaslAuthenticationFailed, "Authentication failed: %s.", err)
		return []byte(`{"status":"invalid_token"}`), nil
	}
	if id != "" && id != token.Subject {
		return nil, kafka.Errorf(kafka.SaslAuthenticationFailed,
			"Authentication failed: Client requested an authorization id that is different from the token's principal name.")
	}
	e.user, e.until, e.done = token.Subject, token.Until, true
	return []byte{}, nil
}

// bearerMessage reads the client's first message: gs2-header, then pairs that end in a byte 1 each.
func bearerMessage(message string) (authorizationID, token string, err error) {
	if len(message) > tokenMax {
		return "", "", errors.New("the message is too long")
	}
	header, rest, ok := strings.Cut(message, "\x01")
	fields := strings.Split(header, ",")
	if !ok || len(fields) != 3 || fields[0] != "n" || fields[2] != "" || !strings.HasSuffix(rest, "\x01\x01") {
		return "", "", errors.New("malformed OAUTHBEARER message")
	}
	if fields[1] != "" {
		id, given := strings.CutPrefix(fields[1], "a=")
		if !given || id == "" {
			return "", "", errors.New("malformed OAUTHBEARER message")
		}
		authorizationID = strings.NewReplacer("=2C", ",", "=3D", "=").Replace(id)
	}
	pairs := strings.Split(strings.TrimSuffix(rest, "\x01\x01"), "\x01")
	if len(pairs) > extensionsMax {
		return "", "", errors.New("too many extensions in the OAUTHBEARER message")
	}
	for _, pair := range pairs {
		value, is := strings.CutPrefix(pair, "auth=")
		switch {
		case is && token != "":
			return "", "", errors.New("malformed OAUTHBEARER message")
		case is:
			scheme, text, _ := strings.Cut(value, " ")
			if !strings.EqualFold(scheme, "bearer") || strings.TrimSpace(text) == "" {
				return "", "", errors.New("the OAUTHBEARER message holds no bearer token")
			}
			token = strings.TrimSpace(text)
		case !extension.MatchString(pair):
			return "", "", errors.New("malformed extension in the OAUTHBEARER message")
		}
	}
	if token == "" {
		return "", "", errors.New("the OAUTHBEARER message holds no bearer token")
	}
	return authorizationID, token, nil
}

// ending is when a login ends: with its credential, or after the longest time that
// connections.max.reauth.ms allows, whichever is first; zero: never (KIP-368).
func ending(credential time.Time, now time.Time, longest time.Duration) time.Time {
	if longest <= 0 {
		return credential
	}
	if end := now.Add(longest); credential.IsZero() || end.Before(credential) {
		return end
	}
	return credential
}
