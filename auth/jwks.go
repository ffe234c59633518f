package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	jwksBytesMax = 1 << 20
	jwksKeysMax  = 256
	// jwksTimeout bounds one fetch of the keys, and so how long a login waits for it.
	jwksTimeout = 10 * time.Second
	// unknownKeyPause is how soon after a fetch a token with an unknown key id may
	// cause the next: strangers may send as many such tokens as they like.
	unknownKeyPause = 5 * time.Second
	// rsaBitsMin is what RFC 7518 asks of RSA signatures.
	rsaBitsMin = 2048
)

// JWKSConfig is where the public keys of tokens come from (KIP-768).
type JWKSConfig struct {
	URL        string        // sasl.oauthbearer.jwks.endpoint.url: http, https, or file
	Refresh    time.Duration // …refresh.ms: how old the keys may grow
	Backoff    time.Duration // …retry.backoff.ms: first wait after a failed fetch; it doubles
	BackoffMax time.Duration // …retry.backoff.max.ms
	TLS        *tls.Config   // of https; nil for the system's authorities
	Logger     *slog.Logger
	Now        func() time.Time
}

// keySet is the public keys of the tokens' issuer. They are fetched when first
// needed, when they are old (the old ones serve meanwhile), and when a token
// names a key that is not among them: that is how a rotation shows.
type keySet struct {
	config JWKSConfig
	fetch  func(context.Context) ([]byte, error)

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time     // of keys
	tried   time.Time     // the last fetch, well or not
	failed  int           // fetches in a row
	err     error         // of the last one
	flight  chan struct{} // closed when the fetch under way is over; nil without one
}

func newKeySet(c JWKSConfig) (*keySet, error) {
	address, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("sasl.oauthbearer.jwks.endpoint.url: %w", err)
	}
	k := &keySet{config: c}
	switch {
	case address.Scheme == "file" && address.Path != "":
		k.fetch = func(context.Context) ([]byte, error) { return readBounded(address.Path) }
	case (address.Scheme == "http" || address.Scheme == "https") && address.Host != "":
		client := &http.Client{Timeout: jwksTimeout, Transport: &http.Transport{TLSClientConfig: c.TLS, Proxy: http.ProxyFromEnvironment,
			DisableKeepAlives: true}}
		k.fetch = func(ctx context.Context) ([]byte, error) { return download(ctx, client, c.URL) }
	default:
		return nil, fmt.Errorf("sasl.oauthbearer.jwks.endpoint.url is %q; it must be https://host/path, http://host/path or file:///path", c.URL)
	}
	return k, nil
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return boundedBody(file)
}

func download(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", address, answer.Status)
	}
	return boundedBody(answer.Body)
}

func boundedBody(from io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(from, jwksBytesMax+1))
	if err == nil && len(raw) > jwksBytesMax {
		err = fmt.Errorf("it has more than %d bytes", jwksBytesMax)
	}
	return raw, err
}

// candidates gives the keys that a token with this key id and algorithm may have been
// signed with; without an id those that fit the algorithm.
func (k *keySet) candidates(ctx context.Context, id, algorithm string) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.config.Now()
	if k.keys == nil || now.Sub(k.fetched) >= k.config.Refresh {
		k.begin(now)
	}
	if k.keys == nil {
		k.wait(ctx)
	}
	if found := fitting(k.keys, id, algorithm); len(found) > 0 {
		return found, nil
	}
	if k.keys != nil && now.Sub(k.tried) >= unknownKeyPause {
		k.begin(now)
		k.wait(ctx)
		if found := fitting(k.keys, id, algorithm); len(found) > 0 {
			return found, nil
		}
	}
	if k.keys == nil {
		return nil, fmt.Errorf("no keys from %s: %w", k.config.URL, errors.Join(k.err, ctx.Err()))
	}
	return nil, fmt.Errorf("none of the %d keys of %s has the id %.100q and fits %s", len(k.keys), k.config.URL, id, algorithm)
}

// begin starts a fetch unless one is under way or has just failed.
func (k *keySet) begin(now time.Time) {
	if k.flight != nil || k.failed > 0 && now.Sub(k.tried) < k.pause() {
		return
	}
	k.tried, k.flight = now, make(chan struct{})
	go k.load(k.flight)
}

// pause is how long nobody tries again after failures.
func (k *keySet) pause() time.Duration {
	pause := k.config.Backoff
	for n := 1; n < k.failed && pause < k.config.BackoffMax; n++ {
		pause *= 2
	}
	return min(pause, k.config.BackoffMax)
}

// wait lets go of the lock until the fetch under way is over.
func (k *keySet) wait(ctx context.Context) {
	flight := k.flight
	if flight == nil {
		return
	}
	k.mu.Unlock()
	defer k.mu.Lock()
	select {
	case <-flight:
	case <-ctx.Done():
	}
}

func (k *keySet) load(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), jwksTimeout)
	defer cancel()
	raw, err := k.fetch(ctx)
	var keys []jose.JSONWebKey
	if err == nil {
		keys, err = parseKeys(raw)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flight, k.err = nil, err
	close(done)
	if err != nil {
		k.failed++
		k.config.Logger.Warn("cannot fetch the keys of tokens", "url", k.config.URL, "err", err, "kept", len(k.keys))
		return
	}
	k.failed, k.keys, k.fetched = 0, keys, k.config.Now()
}

// parseKeys reads a JWKS and keeps what can check signatures. Keys of kinds that are not understood are left out, as RFC 7517 asks.
func parseKeys(raw []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("read the JWKS: %w", err)
	}
	if len(set.Keys) > jwksKeysMax {
		return nil, fmt.Errorf("the JWKS has %d keys, more than %d", len(set.Keys), jwksKeysMax)
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) != nil || !key.Valid() {
			continue
		}
		if key = key.Public(); key.Key == nil || key.Use != "" && key.Use != "sig" {
			continue // a symmetric key would let everybody who checks tokens make them too
		}
		if public, ok := key.Key.(*rsa.PublicKey); ok && public.N.BitLen() < rsaBitsMin {
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("none of the %d keys of the JWKS is an RSA key of %d bits or more, or an EC key, for signatures",
			len(set.Keys), rsaBitsMin)
	}
	return keys, nil
}

func fitting(keys []jose.JSONWebKey, id, algorithm string) []jose.JSONWebKey {
	var found []jose.JSONWebKey
	for _, key := range keys {
		if id != "" && key.KeyID != id || key.Algorithm != "" && key.Algorithm != algorithm {
			continue
		}
		_, isEC := key.Key.(*ecdsa.PublicKey)
		_, isRSA := key.Key.(*rsa.PublicKey)
		if forEC := algorithm[0] == 'E'; forEC && isEC || !forEC && isRSA {
			found = append(found, key)
		}
	}
	return found
}
