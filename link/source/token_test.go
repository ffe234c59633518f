package source

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/auth/authtest"
	"github.com/twmb/franz-go/pkg/sasl"
)

// firstMessage is what a mechanism says first.
func firstMessage(m sasl.Mechanism) (string, error) {
	_, message, err := m.Authenticate(context.Background(), "b-1.demo.abcdef.c2.kafka.eu-west-1.amazonaws.com:9098")
	return string(message), err
}

func TestTokensByClientCredentials(t *testing.T) {
	issuer := authtest.NewIssuer(t, time.Time{})
	issuer.Client("link", "s3cret", time.Hour)
	const module = `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required `
	for name, s := range map[string]Security{
		"configs":              {OAuth: OAuth{Endpoint: issuer.Endpoint(), ClientID: "link", ClientSecret: "s3cret", Scope: "kafka"}},
		"configs and a module": {JAAS: module + `;`, OAuth: OAuth{Endpoint: issuer.Endpoint(), ClientID: "link", ClientSecret: "s3cret"}},
		"module":               {JAAS: module + `clientId="link" clientSecret="s3cret" scope="kafka" extension_logicalCluster="lkc-1";`, OAuth: OAuth{Endpoint: issuer.Endpoint()}},
	} {
		s.Protocol, s.Mechanism = "SASL_PLAINTEXT", "OAUTHBEARER"
		m, err := s.mechanism()
		if err != nil {
			t.Fatal(err)
		}
		message, err := firstMessage(m)
		if err != nil || !strings.HasPrefix(message, "n,,\x01auth=Bearer ey") {
			t.Errorf("%s: %q, %v", name, message, err)
		}
		if name == "module" && !strings.HasSuffix(message, "\x01logicalCluster=lkc-1\x01\x01") {
			t.Errorf("%q has no extension", message)
		}
		given := issuer.Given.Load()
		if again, err := firstMessage(m); err != nil || again != message || issuer.Given.Load() != given {
			t.Errorf("%s: the token was not kept: %v", name, err)
		}
	}
	for name, o := range map[string]OAuth{
		"wrong secret": {Endpoint: issuer.Endpoint(), ClientID: "link", ClientSecret: "wrong-one"},
		"no endpoint":  {Endpoint: "http://127.0.0.1:1/token", ClientID: "link", ClientSecret: "wrong-one"},
		"no JSON":      {Endpoint: issuer.JWKS(), ClientID: "link", ClientSecret: "wrong-one"},
	} {
		m, err := Security{Protocol: "SASL_SSL", Mechanism: "OAUTHBEARER", OAuth: o}.mechanism()
		if err != nil {
			t.Fatal(err)
		}
		_, err = firstMessage(m)
		var known *Error
		if !errors.As(err, &known) || known.Class != Auth || strings.Contains(err.Error(), "wrong-one") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokenConfigsAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		jaas string
		o    OAuth
		want string
	}{
		"no endpoint":    {"", OAuth{}, "endpoint.url is not set"},
		"no client":      {"", OAuth{Endpoint: "http://x/token"}, "client id"},
		"other protocol": {"", OAuth{Endpoint: "ftp://x/token"}, "https://"},
		"a file":         {"", OAuth{Endpoint: "file:///etc/passwd"}, "hawser.link.token.files"},
		"another module": {`x.PlainLoginModule required username="a" password="b";`, OAuth{Endpoint: "http://x/token"}, "OAuthBearerLoginModule"},
		"bad extension":  {`x.OAuthBearerLoginModule required extension_auth="b";`, OAuth{Endpoint: "http://x/token", ClientID: "a", ClientSecret: "b"}, "extension"},
	} {
		_, err := Security{Protocol: "SASL_SSL", Mechanism: "OAUTHBEARER", JAAS: c.jaas, OAuth: c.o}.mechanism()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want words of %q", name, err, c.want)
		}
	}
}

func TestTokensFromAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	address := "file://" + path
	m, err := Security{Protocol: "SASL_SSL", Mechanism: "OAUTHBEARER", OAuth: OAuth{Endpoint: address, Files: []string{address}}}.mechanism()
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{
		authtest.None(map[string]any{"sub": "a", "exp": 1}) + "\n": true, "root:x:0:0": false, "": false, strings.Repeat("a.", 40000): false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		message, err := firstMessage(m)
		if good != (err == nil) || strings.Contains(message, "root") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestTokensAreRenewedInTime(t *testing.T) {
	now := time.Unix(1000, 0)
	fetched, fail := 0, false
	kept := newTokens(func(context.Context) (string, time.Time, error) {
		if fail {
			return "", time.Time{}, errors.New("down")
		}
		fetched++
		return strings.Repeat("t", fetched), now.Add(100 * time.Second), nil
	}, func() time.Time { return now })
	for _, step := range []struct {
		pass time.Duration
		fail bool
		want string // "" for an error
	}{
		{0, false, "t"}, {79 * time.Second, false, "t"}, {2 * time.Second, false, "tt"},
		{90 * time.Second, true, "tt"}, // past its window, but good
		{11 * time.Second, true, ""}, {0, false, "ttt"},
	} {
		now, fail = now.Add(step.pass), step.fail
		got, err := kept.get(context.Background())
		if got != step.want || (err == nil) == (step.want == "") {
			t.Errorf("after %v: %q, %v; want %q", step.pass, got, err, step.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	kept.lock <- struct{}{}
	if _, err := kept.get(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestIAMLogin(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
	t.Setenv("AWS_SESSION_TOKEN", "session")
	m, err := Security{Protocol: "SASL_SSL", Mechanism: "AWS_MSK_IAM", JAAS: `software.amazon.msk.auth.iam.IAMLoginModule required;`}.mechanism()
	if err != nil {
		t.Fatal(err)
	}
	message, err := firstMessage(m)
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]string
	if err := json.Unmarshal([]byte(message), &body); err != nil {
		t.Fatal(err)
	}
	if body["action"] != "kafka-cluster:Connect" || !strings.HasPrefix(body["x-amz-credential"], "AKIAEXAMPLE/") || !strings.Contains(body["x-amz-credential"], "/eu-west-1/kafka-cluster/") ||
		body["x-amz-security-token"] != "session" || len(body["x-amz-signature"]) != 64 || strings.Contains(message, "very-secret") {
		t.Errorf("%v", body)
	}
	if _, err := (Security{Protocol: "SASL_SSL", Mechanism: "AWS_MSK_IAM", JAAS: `x.IAMLoginModule required awsRoleArn="arn:aws:iam::1:role/x";`}).mechanism(); err == nil {
		t.Error("a role that would not be taken on is accepted")
	}
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("[other]\naws_access_key_id = AKIAOTHER\naws_secret_access_key = x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	for profile, want := range map[string]string{"other": "AKIAOTHER", "none": ""} {
		m, err := Security{Protocol: "SASL_SSL", Mechanism: "AWS_MSK_IAM", JAAS: `x.IAMLoginModule required awsProfileName="` + profile + `";`}.mechanism()
		if err != nil {
			t.Fatal(err)
		}
		message, err := firstMessage(m)
		if (err == nil) != (want != "") || !strings.Contains(message, want) {
			t.Errorf("profile %s: %v", profile, err)
		}
	}
}
