//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/hawserio/hawser/auth/authtest"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

// javaStores are key and trust stores as Java's own tool makes them.
type javaStores struct {
	key, trust, client string // the broker's JKS, a JKS with both certificates, the client's PKCS12
	pem                string // the broker's certificate
}

const storesPassword = "stores-secret"

func makeStores(t *testing.T) javaStores {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	keytool := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(testContext(t), "keytool", append(args, "-storepass", storesPassword)...).CombinedOutput(); err != nil {
			t.Fatalf("keytool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	for _, one := range [][2]string{{"key.jks", "CN=broker,O=Hawser"}, {"client.p12", "CN=Dora,OU=Readers,O=Hawser"}} {
		kind := "JKS"
		if strings.HasSuffix(one[0], "p12") {
			kind = "PKCS12"
		}
		keytool("-genkeypair", "-alias", "own", "-keyalg", "EC", "-dname", one[1], "-ext", "san=ip:127.0.0.1", "-storetype", kind, "-keypass", storesPassword, "-keystore", in(one[0]))
		keytool("-exportcert", "-rfc", "-alias", "own", "-keystore", in(one[0]), "-file", in(one[0]+".pem"))
		keytool("-importcert", "-noprompt", "-alias", one[0], "-storetype", "JKS", "-keystore", in("trust.jks"), "-file", in(one[0]+".pem"))
	}
	return javaStores{in("key.jks"), in("trust.jks"), in("client.p12"), in("key.jks.pem")}
}

// startBearer starts a hawser with an open listener, whose users may do everything, one for tokens and one for certificates.
func startBearer(t *testing.T, issuer *authtest.Issuer, s javaStores) (h *Hawser, tokens, certificates string) {
	t.Helper()
	ports, err := freePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	tokens, certificates = fmt.Sprintf("127.0.0.1:%d", ports[1]), fmt.Sprintf("127.0.0.1:%d", ports[2])
	file := filepath.Join(t.TempDir(), "server.properties")
	text := fmt.Sprintf(`listeners=PLAINTEXT://127.0.0.1:%d,TOKENS://%s,CERTS://%s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,TOKENS:SASL_SSL,CERTS:SSL
sasl.enabled.mechanisms=OAUTHBEARER
listener.name.tokens.oauthbearer.connections.max.reauth.ms=2000
sasl.oauthbearer.jwks.endpoint.url=%s
sasl.oauthbearer.expected.audience=hawser
sasl.oauthbearer.expected.issuer=https://issuer
ssl.keystore.location=%s
ssl.keystore.password=%s
listener.name.certs.ssl.truststore.location=%s
listener.name.certs.ssl.truststore.password=%s
listener.name.certs.ssl.client.auth=required
listener.name.certs.ssl.principal.mapping.rules=RULE:^CN=(.*?),.*$/$1/L
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:link
`, ports[0], tokens, certificates, issuer.JWKS(), s.key, storesPassword, s.trust, storesPassword)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return StartHawser(t, "--config", file), tokens, certificates
}

// bearerWorld is that hawser with its topics and ACLs.
type bearerWorld struct {
	h                    *Hawser
	issuer               *authtest.Issuer
	stores               javaStores
	tokens, certificates string
}

func newBearerWorld(t *testing.T) *bearerWorld {
	t.Helper()
	w := &bearerWorld{issuer: authtest.NewIssuer(t, time.Time{}), stores: makeStores(t)}
	for _, user := range []string{"alice", "link"} {
		w.issuer.Client(user, user+"-secret", time.Hour)
	}
	w.h, w.tokens, w.certificates = startBearer(t, w.issuer, w.stores)
	admin := Client(t, w.h.Kafka)
	for _, topic := range []string{"orders", "secret"} {
		CreateTopic(t, admin, topic, 1, 1, nil)
	}
	for _, user := range []string{"alice", "dora"} {
		w.allow("User:"+user, "TOPIC", "orders", "READ", "WRITE", "DESCRIBE_CONFIGS")
		w.allow("User:"+user, "GROUP", "readers", "READ")
	}
	return w
}

func (w *bearerWorld) allow(principal, resource, name string, operations ...string) {
	w.h.t.Helper()
	var rules []map[string]string
	for _, op := range operations {
		rules = append(rules, map[string]string{"resource_type": resource, "resource_name": name, "pattern_type": "LITERAL", "principal": principal, "host": "*", "operation": op, "permission": "ALLOW"})
	}
	w.h.Must("POST", w.h.path("/acls:batch"), map[string]any{"data": rules})
}

func (w *bearerWorld) javaTokens(user string) []string {
	return []string{
		"security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER", "ssl.truststore.location=" + w.stores.trust, "ssl.truststore.password=" + storesPassword,
		"sasl.oauthbearer.token.endpoint.url=" + w.issuer.Endpoint(), "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
		`sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="` + user + `" clientSecret="` + user + `-secret";`,
	}
}

func (w *bearerWorld) java(t *testing.T, options []string, args ...string) (string, error) {
	t.Helper()
	cmd := javaProgram(t, "Client", append(args, options...)...)
	cmd.Env = append(os.Environ(), "JDK_JAVA_OPTIONS=-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="+w.issuer.Endpoint())
	return bounded(t, cmd)
}

func TestSecurity_BearerTokens(t *testing.T) {
	t.Parallel()
	w := newBearerWorld(t)
	certificate := []string{
		"security.protocol=SSL", "ssl.truststore.location=" + w.stores.trust, "ssl.truststore.password=" + storesPassword,
		"ssl.keystore.location=" + w.stores.client, "ssl.keystore.type=PKCS12", "ssl.keystore.password=" + storesPassword,
	}
	if out, err := w.java(t, w.javaTokens("alice"), "produce", w.tokens, "orders", "none", "x", "10"); err != nil {
		t.Errorf("Java may not write with a token: %v\n%s", err, out)
	}
	if out, err := w.java(t, certificate, "read", w.certificates, "orders", "readers", "10"); err != nil {
		t.Errorf("Java may not read with a certificate: %v\n%s", err, out)
	}
	out, err := w.java(t, certificate, "produce", w.certificates, "secret", "none", "x", "1")
	if err == nil {
		t.Errorf("Java may write everywhere:\n%s", out)
	}
	wantText(t, out, `(?i)not authorized to access topic`)
	w.librdkafka(t)
	w.refusedTokens(t)
	w.rest(t)
	w.link(t)
}

// librdkafka logs in with OIDC, as it calls the client credentials grant.
func (w *bearerWorld) librdkafka(t *testing.T) {
	t.Helper()
	run := func(topic string) (string, error) {
		return bounded(t, pythonProgram(t, "librdkafka.py", "produce", w.tokens, topic, "none", "x", "10", "security.protocol=SASL_SSL", "ssl.ca.location="+w.stores.pem, "message.timeout.ms=5000",
			"sasl.mechanisms=OAUTHBEARER", "sasl.oauthbearer.method=oidc", "sasl.oauthbearer.token.endpoint.url="+w.issuer.Endpoint(),
			"sasl.oauthbearer.client.id=alice", "sasl.oauthbearer.client.secret=alice-secret", "sasl.oauthbearer.scope=kafka"))
	}
	if out, err := run("orders"); err != nil {
		t.Errorf("librdkafka may not write: %v\n%s", err, out)
	}
	out, err := run("secret")
	if err == nil {
		t.Errorf("librdkafka may write everywhere:\n%s", out)
	}
	wantText(t, out, `(?i)authorization failed`)
}

// refusedTokens wants bad tokens refused, and a good client to renew its login on the connection it has.
func (w *bearerWorld) refusedTokens(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(w.stores.pem)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(raw)
	var logins atomic.Int32
	connect := func(token func() string) *kgo.Client {
		mechanism := oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			logins.Add(1)
			return oauth.Auth{Token: token()}, nil
		})
		return Client(t, w.tokens, kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.SASL(mechanism), kgo.RecordDeliveryTimeout(10*time.Second))
	}
	now := time.Now().Unix()
	for name, token := range map[string]string{
		"ended":            w.issuer.Sign(jose.ES256, "ec", w.issuer.Claims("iat", now-200, "exp", now-100)),
		"other audience":   w.issuer.Sign(jose.ES256, "ec", w.issuer.Claims("aud", "other")),
		"unsigned":         authtest.None(w.issuer.Claims()),
		"by another's key": w.issuer.SignWith(jose.HS256, authtest.SharedKey, "shared", w.issuer.Claims()),
	} {
		cl := connect(func() string { return token })
		if err := cl.ProduceSync(testContext(t), texts("orders", "bad", 0, 1)...).FirstErr(); err == nil || !strings.Contains(strings.ToLower(err.Error()), "authentication") {
			t.Errorf("a token that is %s: %v", name, err)
		}
		cl.Close()
	}
	logins.Store(0)
	cl := connect(func() string { return w.issuer.Sign(jose.ES256, "ec", w.issuer.Claims("exp", time.Now().Unix()+600)) })
	defer cl.Close()
	eventually(t, 20*time.Second, "the login is renewed", func() (bool, string) {
		if err := cl.ProduceSync(testContext(t), texts("orders", "again", 0, 1)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return logins.Load() >= 4, strconv.Itoa(int(logins.Load())) + " logins"
	})
}

// rest takes the same tokens.
func (w *bearerWorld) rest(t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		token, path string
		want        int
	}{
		{w.issuer.Sign(jose.RS256, "rsa", w.issuer.Claims()), "/topics/orders", 200}, {w.issuer.Sign(jose.RS256, "rsa", w.issuer.Claims()), "/topics/secret", 403},
		{w.issuer.Sign(jose.RS256, "rsa", w.issuer.Claims("aud", "other")), "/topics/orders", 401},
	} {
		rq, err := http.NewRequestWithContext(testContext(t), http.MethodGet, w.h.HTTP+"/kafka/v3/clusters/"+w.h.Cluster+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		rq.Header.Set("Authorization", "Bearer "+c.token)
		rs, err := http.DefaultClient.Do(rq)
		if err != nil {
			t.Fatal(err)
		}
		rs.Body.Close()
		if rs.StatusCode != c.want {
			t.Errorf("REST %s: %d, want %d", c.path, rs.StatusCode, c.want)
		}
	}
}

// link mirrors over both listeners.
func (w *bearerWorld) link(t *testing.T) {
	t.Helper()
	here := StartHawser(t)
	trust := map[string]string{"ssl.truststore.location": w.stores.trust, "ssl.truststore.password": storesPassword}
	with := func(more map[string]string) map[string]string {
		for name, value := range trust {
			more[name] = value
		}
		return more
	}
	here.CreateLink("tokens", w.tokens, with(map[string]string{
		"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": w.issuer.Endpoint(),
		"sasl.oauthbearer.client.credentials.client.id": "link", "sasl.oauthbearer.client.credentials.client.secret": "link-secret", "cluster.link.prefix": "a.",
	}))
	here.CreateLink("certificates", w.certificates, with(map[string]string{
		"security.protocol": "SSL", "ssl.keystore.location": w.stores.client, "ssl.keystore.password": storesPassword, "cluster.link.prefix": "b.",
	}))
	_, end := Ends(t, Client(t, w.h.Kafka), "orders", 0)
	for link, mirror := range map[string]string{"tokens": "a.orders", "certificates": "b.orders"} {
		here.Must("POST", here.path("/links/%s/mirrors", link), map[string]any{"source_topic_name": "orders", "mirror_topic_name": mirror})
		eventually(t, 20*time.Second, mirror+" is whole", func() (bool, string) {
			_, got := Ends(t, Client(t, here.Kafka), mirror, 0)
			return got == end, fmt.Sprintf("%d of %d", got, end)
		})
	}
}
