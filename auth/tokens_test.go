package auth_test

import (
	"context"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/hawserio/hawser/auth"
	"github.com/hawserio/hawser/auth/authtest"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

func tokenConfig(i *authtest.Issuer) auth.TokenConfig {
	return auth.TokenConfig{
		URL: i.JWKS(), Audience: []string{"hawser"}, Issuer: "https://issuer", Skew: 30 * time.Second, SubClaim: "sub", ScopeClaim: "scope",
		JWKS: auth.JWKSConfig{Refresh: time.Hour, Backoff: time.Second, BackoffMax: 4 * time.Second},
		Now:  i.Now,
	}
}

func makeTokens(t *testing.T, i *authtest.Issuer, change ...func(*auth.TokenConfig)) *auth.Tokens {
	t.Helper()
	c := tokenConfig(i)
	for _, f := range change {
		f(&c)
	}
	tokens, err := auth.NewTokens(c)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func newIssuer(t *testing.T) *authtest.Issuer {
	return authtest.NewIssuer(t, time.Unix(1_800_000_000, 0))
}

func TestTokensAreJudgedByTheirClaims(t *testing.T) {
	i := newIssuer(t)
	tokens := makeTokens(t, i)
	now := i.Now().Unix()
	for name, c := range map[string]struct {
		claims map[string]any
		want   string // part of the error, "" for a good one
	}{
		"good":                         {i.Claims(), ""},
		"one audience":                 {i.Claims("aud", "hawser"), ""},
		"ended within the skew":        {i.Claims("iat", now-60, "exp", now-29), ""},
		"ended":                        {i.Claims("iat", now-60, "exp", now-31), "expired"},
		"end with a fraction":          {i.Claims("exp", float64(now)+0.5), ""},
		"no end":                       {i.Claims("exp", nil), "exp"},
		"end is a text":                {i.Claims("exp", "soon"), "exp"},
		"end beyond all times":         {i.Claims("exp", 1e300), "exp"},
		"end is negative":              {i.Claims("exp", -5), "exp"},
		"not issued":                   {i.Claims("iat", nil), "iat"},
		"issued within the skew":       {i.Claims("iat", now+29), ""},
		"issued later":                 {i.Claims("iat", now+31), "iat"},
		"begins within the skew":       {i.Claims("nbf", now+29), ""},
		"begins later":                 {i.Claims("nbf", now+31), "nbf"},
		"ends before it begins":        {i.Claims("iat", now+20, "exp", now+10), "iat"},
		"other issuer":                 {i.Claims("iss", "https://other"), "iss"},
		"no issuer":                    {i.Claims("iss", nil), "iss"},
		"other audience":               {i.Claims("aud", "other"), "aud"},
		"no audience":                  {i.Claims("aud", nil), "aud"},
		"audience is a number":         {i.Claims("aud", 7), "aud"},
		"no subject":                   {i.Claims("sub", nil), "sub"},
		"subject is blank":             {i.Claims("sub", "  "), "sub"},
		"subject is a list of several": {i.Claims("sub", []string{"a", "b"}), "sub"},
		"subject is a number":          {i.Claims("sub", 7), "sub"},
		"scopes in a list":             {i.Claims("scope", []string{"a", "b"}), ""},
		"scope is a number":            {i.Claims("scope", 7), "scope"},
		"no scope":                     {i.Claims("scope", nil), ""},
	} {
		got, err := tokens.Check(context.Background(), i.Sign(jose.RS256, "rsa", c.claims))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == "" && got.Subject != "alice":
			t.Errorf("%s: %+v", name, got)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want one that speaks of %s", name, err, c.want)
		}
	}
}

func TestTokensAreTakenByAlgorithmAndKey(t *testing.T) {
	i := newIssuer(t)
	i.AddEC("ec384", elliptic.P384())
	i.AddEC("ec521", elliptic.P521())
	tokens := makeTokens(t, i)
	good := i.Claims()
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := json.Marshal(jose.JSONWebKey{Key: i.Key("rsa").Public()})
	if err != nil {
		t.Fatal(err)
	}
	whole := i.Sign(jose.RS256, "rsa", good)
	parts := strings.Split(whole, ".")
	for name, c := range map[string]struct {
		token string
		ok    bool
	}{
		"RS256": {whole, true}, "RS384": {i.Sign(jose.RS384, "rsa", good), true}, "RS512": {i.Sign(jose.RS512, "rsa", good), true},
		"PS256": {i.Sign(jose.PS256, "rsa", good), true}, "PS512": {i.Sign(jose.PS512, "rsa", good), true},
		"ES256": {i.Sign(jose.ES256, "ec", good), true}, "ES384": {i.Sign(jose.ES384, "ec384", good), true}, "ES512": {i.Sign(jose.ES512, "ec521", good), true},
		"without a key id":                {i.SignWith(jose.RS256, i.Key("rsa"), "", good), true},
		"by the shared key":               {i.SignWith(jose.HS256, authtest.SharedKey, "shared", good), false},
		"public key taken for a password": {i.SignWith(jose.HS256, public, "rsa", good), false},
		"stranger's key under our id":     {i.SignWith(jose.RS256, stranger, "rsa", good), false},
		"unknown key id":                  {i.SignWith(jose.RS256, stranger, "new", good), false},
		"algorithm none":                  {authtest.None(good), false},
		"signature cut off":               {parts[0] + "." + parts[1] + ".", false},
		"claims of another":               {parts[0] + "." + strings.Split(authtest.None(i.Claims("sub", "root")), ".")[1] + "." + parts[2], false},
		"claims are a list":               {parts[0] + ".W10." + parts[2], false},
		"nothing":                         {"", false},
		"two parts":                       {parts[0] + "." + parts[1], false},
		"long":                            {strings.Repeat("a", 1<<20), false},
	} {
		if _, err := tokens.Check(context.Background(), c.token); (err == nil) != c.ok {
			t.Errorf("%s: %v, want success %t", name, err, c.ok)
		}
	}
}

func TestTokensWithoutExpectedAudienceAreForNobody(t *testing.T) {
	i := newIssuer(t)
	tokens := makeTokens(t, i, func(c *auth.TokenConfig) { c.Audience = nil })
	if _, err := tokens.Check(context.Background(), i.Sign(jose.ES256, "ec", i.Claims("aud", nil))); err != nil {
		t.Error(err)
	}
	if _, err := tokens.Check(context.Background(), i.Sign(jose.ES256, "ec", i.Claims())); err == nil {
		t.Error("a token for others is taken")
	}
}

func TestUnsecuredTokensNeedTheirSwitch(t *testing.T) {
	i := newIssuer(t)
	open := makeTokens(t, i, func(c *auth.TokenConfig) { c.URL, c.Unsecured, c.Audience, c.Issuer = "", true, nil, "" })
	if got, err := open.Check(context.Background(), authtest.None(i.Claims("aud", nil))); err != nil || got.Subject != "alice" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := open.Check(context.Background(), authtest.None(i.Claims("aud", nil, "exp", 1))); err == nil {
		t.Error("an old one is taken")
	}
	if _, err := auth.NewTokens(auth.TokenConfig{}); err == nil {
		t.Error("neither keys nor the switch, and no error")
	}
}

func TestKeysRotate(t *testing.T) {
	i := newIssuer(t)
	tokens := makeTokens(t, i)
	check := func(key string) error {
		_, err := tokens.Check(context.Background(), i.Sign(jose.ES256, key, i.Claims("exp", i.Now().Unix()+300)))
		return err
	}
	if err := check("ec"); err != nil {
		t.Fatal(err)
	}
	// A key that came since is found at the first token that names it, but not more often than strangers may ask.
	i.AddEC("ec2", elliptic.P256())
	if check("ec2") == nil {
		t.Fatal("the keys were fetched twice within the pause")
	}
	i.Pass(6 * time.Second)
	if err := check("ec2"); err != nil {
		t.Fatal(err)
	}
	if n := i.Fetched.Load(); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
	// The issuer is gone: the keys there are serve on, old as they are.
	i.Down.Store(true)
	i.Pass(2 * time.Hour)
	if err := check("ec"); err != nil {
		t.Error(err)
	}
	// It is back without the older key: once fetched anew, that key's tokens are refused.
	waitFor(t, "the failed fetch", func() bool { return i.Fetched.Load() == 3 })
	i.Down.Store(false)
	old := i.Key("ec")
	i.Remove("ec")
	waitFor(t, "the old key to go", func() bool {
		i.Pass(10 * time.Second)
		_, err := tokens.Check(context.Background(), i.SignWith(jose.ES256, old, "ec", i.Claims("exp", i.Now().Unix()+300)))
		return err != nil
	})
}

func TestUnreachableKeysAreNotAskedForAtEachLogin(t *testing.T) {
	i := newIssuer(t)
	i.Down.Store(true)
	tokens := makeTokens(t, i)
	token := i.Sign(jose.ES256, "ec", i.Claims())
	for range 5 {
		if _, err := tokens.Check(context.Background(), token); err == nil || strings.Contains(err.Error(), i.JWKS()) {
			t.Fatalf("%v: want an error that does not tell strangers where the keys are", err)
		}
	}
	if n := i.Fetched.Load(); n != 1 {
		t.Errorf("%d fetches within the wait after a failure", n)
	}
	i.Down.Store(false)
	i.Pass(time.Second)
	if _, err := tokens.Check(context.Background(), token); err != nil {
		t.Error(err)
	}
}

func TestKeysFromAFile(t *testing.T) {
	i := newIssuer(t)
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, i.Keys(), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens := makeTokens(t, i, func(c *auth.TokenConfig) { c.URL = "file://" + path })
	if _, err := tokens.Check(context.Background(), i.Sign(jose.ES256, "ec", i.Claims())); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"no JSON": "x", "no keys": `{"keys":[]}`, "shared keys only": `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`, "large": strings.Repeat(" ", 1<<20+1),
		"many keys": `{"keys":[` + strings.Repeat(`{},`, 300) + `{}]}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := makeTokens(t, i, func(c *auth.TokenConfig) { c.URL = "file://" + path }).Check(context.Background(), i.Sign(jose.ES256, "ec", i.Claims())); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestBearerLogin(t *testing.T) {
	i := newIssuer(t)
	logins, err := auth.NewSASL(auth.SASLConfig{
		Mechanisms: []string{"OAUTHBEARER"}, Tokens: makeTokens(t, i), Image: func() *meta.Image { return image() }, Now: i.Now,
		Longest: func(string) time.Duration { return time.Minute },
	})
	if err != nil {
		t.Fatal(err)
	}
	token := i.Sign(jose.ES256, "ec", i.Claims())
	short := i.Sign(jose.ES256, "ec", i.Claims("exp", i.Now().Unix()+20))
	for message, want := range map[string]time.Duration{
		"n,,\x01auth=Bearer " + token + "\x01\x01":                        time.Minute,
		"n,a=alice,\x01auth=bearer " + token + "\x01traceId=12 3\x01\x01": time.Minute,
		"n,,\x01auth=Bearer " + short + "\x01\x01":                        20 * time.Second,
		"n,a=root,\x01auth=Bearer " + token + "\x01\x01":                  0,
		"n,,\x01auth=Basic " + token + "\x01\x01":                         0,
		"n,,\x01auth=Bearer " + token:                                     0,
		"n,,\x01auth=Bearer " + token + "\x01auth=Bearer x\x01\x01":       0,
		"n,,\x01auth=Bearer " + token + "\x01b\x01\x01":                   0,
		"p=tls-unique,,\x01auth=Bearer " + token + "\x01\x01":             0,
		"n,,\x01\x01": 0, "": 0, "\x01": 0, "n,b,\x01auth=Bearer x\x01\x01": 0,
		"n,,\x01auth=Bearer " + token + strings.Repeat("\x01a=b", 101) + "\x01\x01": 0,
	} {
		exchange, err := logins.Begin("OAUTHBEARER")
		if err != nil {
			t.Fatal(err)
		}
		_, err = exchange.Step([]byte(message))
		name, until, ok := exchange.Principal()
		switch {
		case want == 0 && (err == nil || ok):
			t.Errorf("%.60q: logged in", message)
		case want > 0 && (err != nil || !ok || name != "User:alice" || until.Sub(i.Now()) != want):
			t.Errorf("%.60q: %v, %s until %s", message, err, name, until)
		}
	}
	// A refused token is answered in the RFC's way, and fails with words after the client's byte 1.
	exchange, err := logins.Begin("OAUTHBEARER")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := exchange.Step(fmt.Appendf(nil, "n,,\x01auth=Bearer %s\x01\x01", authtest.None(i.Claims())))
	if _, _, ok := exchange.Principal(); err != nil || ok || string(answer) != `{"status":"invalid_token"}` {
		t.Fatalf("%q, %v", answer, err)
	}
	if _, err = exchange.Step([]byte{1}); kafka.CodeOf(err) != kafka.SaslAuthenticationFailed {
		t.Error(err)
	}
	if _, err = exchange.Step([]byte("n,,\x01auth=Bearer " + token + "\x01\x01")); err == nil {
		t.Error("a second token is taken after the first was refused")
	}
}

func FuzzTokens(f *testing.F) {
	open, err := auth.NewTokens(auth.TokenConfig{Unsecured: true, SubClaim: "sub", ScopeClaim: "scope", Audience: []string{"x"}, URL: "file:///dev/null", JWKS: auth.JWKSConfig{Refresh: time.Hour, Backoff: time.Hour, BackoffMax: time.Hour}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwiZXhwIjoxfQ.")
	f.Add("eyJhbGciOiJSUzI1NiJ9.e30.AAAA")
	f.Fuzz(func(t *testing.T, token string) {
		if got, err := open.Check(context.Background(), token); err == nil && got.Subject == "" {
			t.Error("a token without subject is taken")
		}
	})
}
