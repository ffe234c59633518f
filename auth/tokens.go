package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// algorithms is what a token may be signed with: public keys only, and never "none".
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512,
}

// tokenMax bounds a token, in bytes.
const tokenMax = 64 << 10

// TokenConfig is what OAUTHBEARER takes for a good token (KIP-255, KIP-768).
type TokenConfig struct {
	JWKS       JWKSConfig    // without URL, Logger and Now: those of here
	URL        string        // sasl.oauthbearer.jwks.endpoint.url
	Audience   []string      // …expected.audience: a token must be for one of them; empty: it must be for nobody
	Issuer     string        // …expected.issuer; empty: any that signs with the keys
	Skew       time.Duration // …clock.skew.seconds
	SubClaim   string        // …sub.claim.name
	ScopeClaim string        // …scope.claim.name
	// Unsecured takes tokens without a signature, which anybody can write: for trying things out.
	Unsecured bool
	Logger    *slog.Logger
	Now       func() time.Time
}

// Tokens checks bearer tokens.
type Tokens struct {
	config TokenConfig
	keys   *keySet // nil: none is checked by a signature
}

// Token is what a good one says.
type Token struct {
	Subject string
	Scopes  []string
	Until   time.Time // exp
}

// NewTokens makes a checker; without keys and without Unsecured it is an error.
func NewTokens(c TokenConfig) (*Tokens, error) {
	t := &Tokens{config: c}
	if t.config.Now == nil {
		t.config.Now = time.Now
	}
	if t.config.Logger == nil {
		t.config.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.URL != "":
		from := c.JWKS
		from.URL, from.Logger, from.Now = c.URL, t.config.Logger, t.config.Now
		keys, err := newKeySet(from)
		if err != nil {
			return nil, err
		}
		t.keys = keys
	case !c.Unsecured:
		return nil, errors.New("OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url: where the keys are that tokens are signed with")
	}
	if c.Unsecured {
		t.config.Logger.Warn("tokens without a signature are taken: anybody may log in as anybody (hawser.sasl.oauthbearer.unsecured.enable)")
	}
	return t, nil
}

// Check says who a token speaks for. The error's words are for the client; they never hold the token.
func (t *Tokens) Check(ctx context.Context, token string) (Token, error) {
	if len(token) > tokenMax {
		return Token{}, fmt.Errorf("the token has %d bytes, at most %d are read", len(token), tokenMax)
	}
	payload, err := t.payload(ctx, token)
	if err != nil {
		return Token{}, err
	}
	var claims map[string]json.RawMessage
	if err := json.Unmarshal(payload, &claims); err != nil || claims == nil {
		return Token{}, errors.New("the token's claims are not a JSON object")
	}
	return t.judge(claims)
}

// payload is the token's claims, after its signature was checked.
func (t *Tokens) payload(ctx context.Context, token string) ([]byte, error) {
	if t.config.Unsecured {
		if payload, is := unsecured(token); is {
			return payload, nil
		}
	}
	if t.keys == nil {
		return nil, errors.New("the token is signed, but no keys are configured")
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errors.New("the token is not a JWT signed with one of RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512")
	}
	header := signed.Signatures[0].Protected
	keys, err := t.keys.candidates(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		t.config.Logger.Info("token refused", "err", err)
		return nil, errors.New("the key that the token is signed with is not known here")
	}
	for _, key := range keys {
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("the token's signature is wrong")
}

// unsecured reads a token of the form header.claims. with the algorithm none (RFC 7519, section 6).
func unsecured(token string) (payload []byte, is bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[2] != "" {
		return nil, false
	}
	var header struct {
		Algorithm string `json:"alg"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[0], "="))
	if err != nil || json.Unmarshal(raw, &header) != nil || header.Algorithm != "none" {
		return nil, false
	}
	payload, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	return payload, err == nil
}

// judge checks the claims (RFC 7519, section 4.1).
func (t *Tokens) judge(claims map[string]json.RawMessage) (Token, error) {
	now, skew := t.config.Now(), t.config.Skew
	var made Token
	until, hasEnd, err1 := moment(claims, "exp")
	begin, hasBegin, err2 := moment(claims, "nbf")
	issued, hasIssued, err3 := moment(claims, "iat")
	if err := errors.Join(err1, err2, err3); err != nil {
		return made, err
	}
	issuer, _ := words(claims["iss"])
	audience, badAudience := words(claims["aud"])
	subject, badSubject := words(claims[t.config.SubClaim])
	scopes, badScopes := words(claims[t.config.ScopeClaim])
	switch {
	case !hasEnd:
		return made, errors.New("the token has no exp claim: when it ends")
	case !hasIssued:
		return made, errors.New("the token has no iat claim: when it was issued")
	case !now.Add(-skew).Before(until):
		return made, errors.New("the token has expired (exp)")
	case hasBegin && now.Add(skew).Before(begin):
		return made, errors.New("the token is not good yet (nbf)")
	case now.Add(skew).Before(issued):
		return made, errors.New("the token was issued in the future (iat)")
	case issued.After(until):
		return made, errors.New("the token ended before it was issued (exp, iat)")
	case t.config.Issuer != "" && !slices.Equal(issuer, []string{t.config.Issuer}):
		return made, errors.New("the token is of another issuer (iss) than is expected")
	case badAudience != nil || !t.forUs(audience):
		return made, errors.New("the token is for another audience (aud) than is expected")
	case badSubject != nil || len(subject) != 1 || strings.TrimSpace(subject[0]) == "":
		return made, fmt.Errorf("the token has no %s claim that names who logs in", t.config.SubClaim)
	case badScopes != nil:
		return made, fmt.Errorf("the token's %s claim is neither a text nor a list of texts", t.config.ScopeClaim)
	}
	if len(scopes) == 1 {
		scopes = strings.Fields(scopes[0])
	}
	return Token{Subject: strings.TrimSpace(subject[0]), Scopes: scopes, Until: until}, nil
}

// forUs reports whether a token is for one of those expected. One made for somebody
// is not taken where nothing is expected: it was given to another service, which could use it here.
func (t *Tokens) forUs(audience []string) bool {
	if len(t.config.Audience) == 0 {
		return len(audience) == 0
	}
	return slices.ContainsFunc(audience, func(one string) bool { return slices.Contains(t.config.Audience, one) })
}

// words reads a claim that is a text or a list of texts; none for one that is absent.
func words(raw json.RawMessage) ([]string, error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var list []string
	err := json.Unmarshal(raw, &list)
	return list, err
}

// secondsMax keeps times within what time.Time can hold without turning over.
const secondsMax = 1 << 40

// moment reads a claim that is a time in seconds since 1970.
func moment(claims map[string]json.RawMessage, name string) (at time.Time, given bool, err error) {
	raw := claims[name]
	if raw == nil || string(raw) == "null" {
		return time.Time{}, false, nil
	}
	var seconds float64
	if err := json.Unmarshal(raw, &seconds); err != nil || math.IsNaN(seconds) || seconds < 0 || seconds > secondsMax {
		return time.Time{}, false, fmt.Errorf("the token's %s claim is no time in seconds", name)
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true, nil
}
