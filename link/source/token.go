package source

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hawserio/hawser/auth/stores"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

// OAuth is how tokens for OAUTHBEARER are come by (KIP-768, KIP-1139).
type OAuth struct {
	Endpoint               string // sasl.oauthbearer.token.endpoint.url: http, https, or file
	ClientID, ClientSecret string // …client.credentials.client.id and .secret, or clientId and clientSecret of the login module
	Scope                  string // sasl.oauthbearer.scope, or scope of the login module
	EscapeHeader           bool   // sasl.oauthbearer.header.urlencode
	// Files is the file URLs that may be an Endpoint: what is in one is sent to the
	// source, which somebody else may run.
	Files []string
}

const (
	tokenAnswerMax = 1 << 20
	tokenTimeout   = 10 * time.Second
	tokenMax       = 64 << 10
	// renewAfter is which part of a token's life passes before it is fetched anew, Kafka's sasl.login.refresh.window.factor.
	renewAfter = 0.8
	// unknownLife is how long a token is used that does not say when it ends.
	unknownLife = 30 * time.Second
)

// tokens gets tokens and keeps the last one. Its lock is a channel, so that who waits for it can give up.
type tokens struct {
	fetch func(context.Context) (string, time.Time, error)
	now   func() time.Time
	lock  chan struct{}

	token string
	renew time.Time // when it is time for another
	until time.Time
}

func newTokens(fetch func(context.Context) (string, time.Time, error), now func() time.Time) *tokens {
	return &tokens{fetch: fetch, now: now, lock: make(chan struct{}, 1)}
}

// get gives a token that is good now. One that is still good serves on when another cannot be had.
func (t *tokens) get(ctx context.Context) (string, error) {
	select {
	case t.lock <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-t.lock }()
	now := t.now()
	if t.token != "" && now.Before(t.renew) {
		return t.token, nil
	}
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	token, until, err := t.fetch(ctx)
	if err != nil {
		if t.token != "" && now.Before(t.until) {
			return t.token, nil
		}
		return "", err
	}
	if until.IsZero() {
		until = now.Add(unknownLife)
	}
	t.token, t.until = token, until
	t.renew = now.Add(time.Duration(float64(until.Sub(now)) * renewAfter))
	return token, nil
}

func tokenError(err error) error {
	return &Error{Class: Auth, Err: fmt.Errorf("get a token for OAUTHBEARER: %w", err),
		Hint: "Check sasl.oauthbearer.token.endpoint.url and the client's id and secret."}
}

// bearerMechanism logs in with tokens. options are those of the login module.
func bearerMechanism(o OAuth, options map[string]string) (sasl.Mechanism, error) {
	fill := func(field *string, option string) {
		if *field == "" {
			*field = options[option]
		}
	}
	fill(&o.ClientID, "clientId")
	fill(&o.ClientSecret, "clientSecret")
	fill(&o.Scope, "scope")
	fetch, err := o.fetcher(options)
	if err != nil {
		return nil, tokenError(err)
	}
	extensions := map[string]string{}
	for name, value := range options {
		if key, is := strings.CutPrefix(name, "extension_"); is {
			if !extension.MatchString(key+"="+value) || key == "auth" {
				return nil, &Error{Class: Auth, Err: fmt.Errorf("sasl.jaas.config: the extension %.50q is malformed", key),
					Hint: "Names are letters, values are printable."}
			}
			extensions[key] = value
		}
	}
	kept := newTokens(fetch, time.Now)
	return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		token, err := kept.get(ctx)
		if err != nil {
			return oauth.Auth{}, tokenError(err)
		}
		return oauth.Auth{Token: token, Extensions: extensions}, nil
	}), nil
}

var (
	extension = regexp.MustCompile(`^[A-Za-z]+=[\x21-\x7E \t\r\n]+$`)
	jwt       = regexp.MustCompile(`^[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]*$`)
)

func (o OAuth) fetcher(options map[string]string) (func(context.Context) (string, time.Time, error), error) {
	address, err := url.Parse(o.Endpoint)
	switch {
	case o.Endpoint == "":
		return nil, errors.New("sasl.oauthbearer.token.endpoint.url is not set")
	case err != nil:
		return nil, errors.New("sasl.oauthbearer.token.endpoint.url is no URL")
	case address.Scheme == "file":
		if !slices.Contains(o.Files, o.Endpoint) {
			return nil, fmt.Errorf("the file %s may not be read: the broker config hawser.link.token.files does not name it", address.Path)
		}
		return func(context.Context) (string, time.Time, error) { return tokenFromFile(address.Path) }, nil
	case address.Host == "" || address.Scheme != "http" && address.Scheme != "https":
		return nil, errors.New("sasl.oauthbearer.token.endpoint.url must be https://host/path, http://host/path or file:///path")
	case o.ClientID == "" || o.ClientSecret == "":
		return nil, errors.New("a client id and secret are needed: sasl.oauthbearer.client.credentials.client.id and .secret, or " +
			"clientId and clientSecret in sasl.jaas.config")
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	trust := stores.Store{Certificates: options["ssl.truststore.certificates"], Location: options["ssl.truststore.location"],
		Password: options["ssl.truststore.password"]}
	if trust.Given() {
		roots, err := trust.Roots()
		if err != nil {
			return nil, fmt.Errorf("read ssl.truststore of sasl.jaas.config: %w", err)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	client := &http.Client{Timeout: tokenTimeout, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the secret is for the address that was configured
	}}
	return func(ctx context.Context) (string, time.Time, error) { return o.grant(ctx, client) }, nil
}

func tokenFromFile(path string) (string, time.Time, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", time.Time{}, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, tokenMax+1))
	if err != nil {
		return "", time.Time{}, err
	}
	token := strings.TrimSpace(string(raw))
	if len(raw) > tokenMax || !jwt.MatchString(token) {
		return "", time.Time{}, fmt.Errorf("%s does not hold a token", path)
	}
	return token, endOf(token), nil
}

// grant asks for a token by client credentials (RFC 6749, section 4.4).
func (o OAuth) grant(ctx context.Context, client *http.Client) (string, time.Time, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if o.Scope != "" {
		form.Set("scope", o.Scope)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", time.Time{}, err
	}
	id, secret := o.ClientID, o.ClientSecret
	if o.EscapeHeader {
		id, secret = url.QueryEscape(id), url.QueryEscape(secret)
	}
	request.SetBasicAuth(id, secret)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return "", time.Time{}, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, tokenAnswerMax))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read the answer of %s: %w", o.Endpoint, err)
	}
	var body struct {
		Token     string  `json:"access_token"`
		ExpiresIn float64 `json:"expires_in"`
		Error     string  `json:"error"`
		Text      string  `json:"error_description"`
	}
	badJSON := json.Unmarshal(raw, &body)
	switch {
	case answer.StatusCode != http.StatusOK:
		return "", time.Time{}, fmt.Errorf("%s answered %s: %.100s %.200s", o.Endpoint, answer.Status, body.Error, body.Text)
	case badJSON != nil || body.Token == "" || len(body.Token) > tokenMax || strings.ContainsAny(body.Token, "\x00\x01\r\n"):
		return "", time.Time{}, fmt.Errorf("%s answered without an access_token", o.Endpoint)
	}
	until := endOf(body.Token)
	if until.IsZero() && body.ExpiresIn > 0 && body.ExpiresIn < 1e9 {
		until = time.Now().Add(time.Duration(body.ExpiresIn * float64(time.Second)))
	}
	return body.Token, until, nil
}

// endOf reads when a JWT ends; zero where it does not say. It is not ours to check its signature.
func endOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	var claims struct {
		End float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.End <= 0 || claims.End > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(claims.End), 0)
}
