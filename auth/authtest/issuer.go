// Package authtest is an issuer of tokens for tests: its keys, its token endpoint,
// and every token that a test wants, good or bad.
package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer signs tokens, serves its public keys at /jwks, and gives tokens for client credentials at /token.
type Issuer struct {
	t       testing.TB
	server  *httptest.Server
	Fetched atomic.Int32 // answers of /jwks
	Given   atomic.Int32 // tokens of /token
	Down    atomic.Bool  // answers 503

	mu     sync.Mutex
	keys   map[string]crypto.Signer
	at     time.Time // zero: the real clock
	life   time.Duration
	client map[string]string // secrets by client id
}

var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// NewIssuer has an RSA key named rsa and an EC key named ec. at is its time; zero is the real one.
func NewIssuer(t testing.TB, at time.Time) *Issuer {
	i := &Issuer{t: t, keys: map[string]crypto.Signer{}, at: at, life: 5 * time.Minute, client: map[string]string{}}
	key, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	i.keys["rsa"] = key
	i.AddEC("ec", elliptic.P256())
	mux := http.NewServeMux()
	mux.HandleFunc("/jwks", func(w http.ResponseWriter, _ *http.Request) {
		i.Fetched.Add(1)
		if i.Down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(i.Keys())
	})
	mux.HandleFunc("/token", i.give)
	i.server = httptest.NewServer(mux)
	t.Cleanup(i.server.Close)
	return i
}

// give answers a client credentials grant (RFC 6749, section 4.4). The token's subject is the client's id.
func (i *Issuer) give(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	i.mu.Lock()
	want, known := i.client[id]
	life := i.life
	i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case i.Down.Load():
		http.Error(w, `{"error":"temporarily_unavailable"}`, http.StatusServiceUnavailable)
		return
	case !known || want != secret || r.PostFormValue("grant_type") != "client_credentials":
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"invalid_client","error_description":"unknown client or wrong secret"}`))
		return
	}
	i.Given.Add(1)
	now := i.Now()
	scope := r.PostFormValue("scope")
	if scope == "" {
		scope = "all" // Java's client takes no token without a scope
	}
	token := i.Sign(jose.RS256, "rsa", i.Claims("sub", id, "scope", scope, "exp", now.Add(life).Unix()))
	raw, err := json.Marshal(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": int(life.Seconds())})
	if err != nil {
		i.t.Error(err)
	}
	_, _ = w.Write(raw)
}

// JWKS is where the public keys are.
func (i *Issuer) JWKS() string { return i.server.URL + "/jwks" }

// Endpoint is where clients get tokens.
func (i *Issuer) Endpoint() string { return i.server.URL + "/token" }

// Client lets a client get tokens that last for life.
func (i *Issuer) Client(id, secret string, life time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.client[id], i.life = secret, life
}

// Now is the issuer's time.
func (i *Issuer) Now() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.at.IsZero() {
		return time.Now()
	}
	return i.at
}

// Pass lets time pass, where it is not the real one.
func (i *Issuer) Pass(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.at = i.at.Add(d)
}

// AddEC adds a key.
func (i *Issuer) AddEC(id string, curve elliptic.Curve) {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[id] = key
}

// Key is a private key of the issuer's.
func (i *Issuer) Key(id string) crypto.Signer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[id]
}

// Remove takes a key away.
func (i *Issuer) Remove(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.keys, id)
}

// SharedKey is a symmetric key that stands among the public ones, as it never should.
var SharedKey = []byte(strings.Repeat("k", 32))

// Keys is the key set as it is served.
func (i *Issuer) Keys() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	var set jose.JSONWebKeySet
	for id, key := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"})
	}
	set.Keys = append(set.Keys, jose.JSONWebKey{Key: SharedKey, KeyID: "shared"})
	raw, err := json.Marshal(set)
	if err != nil {
		i.t.Fatal(err)
	}
	return raw
}

// Sign makes a token with a key of the issuer's.
func (i *Issuer) Sign(algorithm jose.SignatureAlgorithm, key string, claims map[string]any) string {
	return i.SignWith(algorithm, i.Key(key), key, claims)
}

// SignWith makes a token with any key, under any key id; "" is none.
func (i *Issuer) SignWith(algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	i.t.Helper()
	options := &jose.SignerOptions{}
	if id != "" {
		options = options.WithHeader("kid", id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		i.t.Fatal(err)
	}
	raw, err := json.Marshal(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := signer.Sign(raw)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// Claims is those of a good token for alice, with changes: a name and a value each; nil takes the claim away.
func (i *Issuer) Claims(changes ...any) map[string]any {
	now := i.Now().Unix()
	c := map[string]any{"sub": "alice", "iss": "https://issuer", "aud": []string{"other", "hawser"}, "iat": now - 10, "exp": now + 300,
		"scope": "read write"}
	for n := 0; n < len(changes); n += 2 {
		if name := changes[n].(string); changes[n+1] == nil {
			delete(c, name)
		} else {
			c[name] = changes[n+1]
		}
	}
	return c
}

// None makes a token without a signature.
func None(claims map[string]any) string {
	raw, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"alg":"none"}`)) + "." + enc(raw) + "."
}
