package broker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hawserio/hawser/broker"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// everything is what was written to it; brokers log from many goroutines.
type everything struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (e *everything) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(b)
}

func (e *everything) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.String()
}

// planted are secrets that come in by every way there is; each has the word planted in it.
var planted = map[string]string{
	"server.properties": "planted-plain-user", "REST": "planted-scram-user", "a link": "planted-link-jaas", "a link's token": "planted-client-secret",
	"a link's key": "planted-key-password", "a wrong login": "planted-wrong-plain", "a wrong SCRAM login": "planted-wrong-scram", "a wrong Basic login": "planted-wrong-basic",
	"a wrong bearer": "planted.wrong.bearer", "a wrong request": "planted-in-bad-json", "etcd": "planted-etcd", "a store": "planted-store-password",
}

// secretWorld is a broker into which all secrets were planted, and all that it said.
type secretWorld struct {
	t    *testing.T
	b    *broker.Broker
	dir  string
	said *everything
}

func newSecretWorld(t *testing.T) *secretWorld {
	t.Helper()
	w := &secretWorld{t: t, dir: t.TempDir(), said: &everything{}}
	settings := map[string]string{
		"listeners":                             "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
		"authorizer.class.name":                 "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                           "User:ANONYMOUS;User:bob",
		"sasl.jaas.config":                      `x.PlainLoginModule required user_bob="` + planted["server.properties"] + `";`,
		"hawser.metadata.password":              planted["etcd"],
		"ssl.keystore.password":                 planted["a store"],
		"hawser.metadata.ssl.keystore.password": planted["a store"],
	}
	b, err := broker.Start(t.Context(), broker.Config{Dir: w.dir, HTTP: "127.0.0.1:0", NodeID: 1, Settings: settings,
		Logger: slog.New(slog.NewTextHandler(w.said, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	w.b = b
	t.Cleanup(func() { stop(t, b) })
	return w
}

// call sends a REST request, remembers what was answered, and returns the status.
func (w *secretWorld) call(method, path, body string, change ...func(*http.Request)) int {
	w.t.Helper()
	path = strings.ReplaceAll(path, "{c}", "/kafka/v3/clusters/"+w.b.ClusterID())
	rq, err := http.NewRequestWithContext(within(w.t), method, "http://"+w.b.HTTPAddress()+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range change {
		f(rq)
	}
	rs, err := http.DefaultClient.Do(rq)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rs.Body.Close()
	fmt.Fprintf(w.said, "\n%s %s: %d %v ", method, path, rs.StatusCode, rs.Header)
	if _, err := io.Copy(w.said, rs.Body); err != nil {
		w.t.Fatal(err)
	}
	return rs.StatusCode
}

func (w *secretWorld) plant() {
	w.t.Helper()
	want := func(status, got int) {
		w.t.Helper()
		if got != status {
			w.t.Fatalf("status %d, want %d\n%s", got, status, w.said)
		}
	}
	want(201, w.call("POST", "{c}/users", `{"user_name":"alice","password":"`+planted["REST"]+`"}`))
	config := func(name, value string) string { return fmt.Sprintf(`{"name":%q,"value":%q}`, name, value) }
	link := func(more ...string) string {
		return `{"configs":[` + strings.Join(append(more, config("bootstrap.servers", "127.0.0.1:1"), config("security.protocol", "SASL_SSL")), ",") + `]}`
	}
	jaas := config("sasl.jaas.config", `x.ScramLoginModule required username="u" password="`+planted["a link"]+`";`)
	scramSHA := config("sasl.mechanism", "SCRAM-SHA-256")
	want(201, w.call("POST", "{c}/links?link_name=one&validate_link=false", link(jaas, scramSHA)))
	want(201, w.call("POST", "{c}/links?link_name=two&validate_link=false", link(config("sasl.mechanism", "OAUTHBEARER"), config("sasl.oauthbearer.token.endpoint.url", "http://127.0.0.1:1/token"),
		config("sasl.oauthbearer.client.credentials.client.id", "id"), config("sasl.oauthbearer.client.credentials.client.secret", planted["a link's token"]))))
	// These are refused: the words must not hold what was refused.
	want(400, w.call("POST", "{c}/links?link_name=three&validate_link=false", link(jaas, scramSHA, config("ssl.keystore.location", "/no/such/file"), config("ssl.key.password", planted["a link's key"]))))
	want(400, w.call("POST", "{c}/links?link_name=four&validate_link=false", link(config("sasl.jaas.config", planted["a link"]), scramSHA)))
	want(400, w.call("POST", "{c}/links?link_name=five", link(jaas, scramSHA)))
	want(400, w.call("POST", "{c}/users", `{"user_name":"x","password":"`+planted["REST"]+`","iterations":1}`))
	want(400, w.call("POST", "{c}/users", `{"user_name":"x","password":"`+planted["a wrong request"]))
	want(204, w.call("PUT", "{c}/links/one/configs/ssl.key.password", `{"value":"`+planted["a link's key"]+`"}`))
	want(401, w.call("GET", "{c}/topics", "", func(r *http.Request) { r.SetBasicAuth("alice", planted["a wrong Basic login"]) }))
	want(401, w.call("GET", "{c}/topics", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+planted["a wrong bearer"]) }))
	for name, mechanism := range map[string]kgo.Opt{
		"a wrong login":       kgo.SASL(plain.Auth{User: "bob", Pass: planted["a wrong login"]}.AsMechanism()),
		"a wrong SCRAM login": kgo.SASL(scram.Auth{User: "alice", Pass: planted["a wrong SCRAM login"]}.AsSha256Mechanism()),
	} {
		if err := client(w.t, w.b, kgo.SeedBrokers(w.b.ListenerAddress("SASL_PLAINTEXT")), mechanism).Ping(within(w.t)); err == nil {
			w.t.Errorf("%s is good", name)
		}
	}
	for name, mechanism := range map[string]kgo.Opt{
		"PLAIN": kgo.SASL(plain.Auth{User: "bob", Pass: planted["server.properties"]}.AsMechanism()),
		"SCRAM": kgo.SASL(scram.Auth{User: "alice", Pass: planted["REST"]}.AsSha512Mechanism()),
	} {
		if err := client(w.t, w.b, kgo.SeedBrokers(w.b.ListenerAddress("SASL_PLAINTEXT")), mechanism).Ping(within(w.t)); err != nil {
			w.t.Errorf("%s: %v", name, err)
		}
	}
}

// ask asks every door for all that it may tell.
func (w *secretWorld) ask() {
	w.t.Helper()
	for _, path := range []string{
		"{c}", "{c}/brokers", "{c}/brokers/1/configs", "{c}/broker-configs", "{c}/brokers/1/configs/sasl.jaas.config", "{c}/links", "{c}/links/one", "{c}/links/two", "{c}/links/one/configs",
		"{c}/links/two/configs", "{c}/links/one/configs/sasl.jaas.config", "{c}/links/one/configs/ssl.key.password", "{c}/users", "{c}/users/alice", "{c}/acls", "{c}/topics", "{c}/consumer-groups",
		"{c}/links/-/mirrors", "{c}/events", "/metrics", "/health/ready", "/",
	} {
		if status := w.call("GET", path, ""); status >= 500 {
			w.t.Errorf("GET %s: %d", path, status)
		}
	}
	c := client(w.t, w.b)
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.IncludeSynonyms = true
	configs.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"}}
	for _, rq := range []kmsg.Request{configs, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), kmsg.NewPtrMetadataRequest()} {
		rs, err := c.Request(within(w.t), rq)
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(w.said, "\n%s: %q", kmsg.NameForKey(rq.Key()), rs.AppendTo(nil))
	}
}

func TestSecretsAreShownByNoDoorAndNoLog(t *testing.T) {
	w := newSecretWorld(t)
	w.plant()
	w.ask()
	if err := w.b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	said := w.said.String()
	for way, secret := range planted {
		if at := strings.Index(said, secret); at >= 0 {
			t.Errorf("%s: the secret is shown: …%s…", way, said[max(0, at-200):min(len(said), at+60)])
		}
	}
	if strings.Contains(said, "planted-") {
		t.Error("a part of a secret is shown")
	}
	// On disk they are sealed.
	err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte("planted")) {
			t.Errorf("%s holds a secret in clear", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
