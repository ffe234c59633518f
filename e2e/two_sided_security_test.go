//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// selfSigned is a certificate for this machine: a PEM file with its key, and the certificate alone.
func selfSigned(t *testing.T) (file, certificate string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	text := certificate + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	file = filepath.Join(t.TempDir(), "broker.pem")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, certificate
}

// startTwoDoors starts a hawser with an open listener, whose users may do everything, and one with TLS and logins.
func startTwoDoors(t *testing.T) (h *Hawser, secured, certificate string) {
	t.Helper()
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	keys, certificate := selfSigned(t)
	secured = fmt.Sprintf("127.0.0.1:%d", ports[1])
	file := filepath.Join(t.TempDir(), "server.properties")
	text := fmt.Sprintf(`listeners=PLAINTEXT://127.0.0.1:%d,SECURED://%s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-256
ssl.keystore.type=PEM
ssl.keystore.location=%s
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
`, ports[0], secured, keys)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return StartHawser(t, "--config", file), secured, certificate
}

// loginAt is a user's configs for a SASL_SSL listener, each name with a prefix.
func loginAt(prefix, user, password, certificate string) map[string]string {
	set := map[string]string{}
	for name, value := range loginConfigs("SCRAM-SHA-256", user, password) {
		set[prefix+name] = value
	}
	set[prefix+"security.protocol"] = "SASL_SSL"
	set[prefix+"ssl.truststore.type"] = "PEM"
	set[prefix+"ssl.truststore.certificates"] = certificate
	return set
}

// mayCluster is ACLs for a user on the cluster.
func mayCluster(user string, operations ...kadm.ACLOperation) *kadm.ACLBuilder {
	return kadm.NewACLs().Clusters().Operations(operations...).Allow("User:" + user).AllowHosts("*")
}

// TestTwoSided_SourceInitiatedOverTLSWithLogins gives each side the least rights: the link's user may ALTER the destination's cluster,
// the local one may read one topic of the source.
func TestTwoSided_SourceInitiatedOverTLSWithLogins(t *testing.T) {
	t.Parallel()
	a, _, certA := startTwoDoors(t)
	b, doorB, certB := startTwoDoors(t)
	ca, cb := byHand(t, a.Kafka), byHand(t, b.Kafka)
	adminA, adminB := kadm.NewClient(ca), kadm.NewClient(cb)
	for _, one := range []*kadm.Client{adminA, adminB} {
		scramUser(t, one, "link", "link-secret")
		scramUser(t, one, "local", "local-secret")
	}
	CreateTopic(t, ca, "orders", 2, 1, nil)
	CreateTopic(t, ca, "secret", 1, 1, nil)
	write(t, ca, "orders", 0, 100, "x")
	acl(t, adminA, "add", may("local", "orders", kadm.OpRead, kadm.OpDescribeConfigs))
	out := map[string]string{"link.mode": "SOURCE", "bootstrap.servers": doorB, "local.listener.name": "SECURED"}
	maps.Copy(out, loginAt("", "link", "link-secret", certB))
	maps.Copy(out, loginAt("local.", "local", "local-secret", certA))
	with := func(name, value string) map[string]string {
		set := maps.Clone(out)
		set[name] = value
		return set
	}
	wrong := strings.Replace(out["local.sasl.jaas.config"], "local-secret", "wrong", 1)
	id := b.mustHalf("l", a.Cluster, map[string]string{"connection.mode": "INBOUND"})
	// Each thing that is missing is named when the source's half is made.
	a.noHalf("l", "", out, 403, "DESCRIBE", "User:link")
	acl(t, adminB, "add", mayCluster("link", kadm.OpDescribe))
	a.noHalf("l", "", with("local.sasl.jaas.config", wrong), 400, "local.", "its own cluster")
	a.noHalf("l", "", with("local.security.protocol", "SSL"), 400, "no listener with local.listener.name=SECURED", "SASL_SSL")
	a.noHalf("l", "", out, 403, "ALTER", "User:link")
	acl(t, adminB, "add", mayCluster("link", kadm.OpAlter))
	if got := a.mustHalf("l", "", out); got != id {
		t.Errorf("the halves have the ids %s and %s", id, got)
	}
	b.linkIs("l", map[string]string{"link_state": "ACTIVE"})
	a.linkIs("l", map[string]string{"link_state": "ACTIVE", "remote_link_state": "ACTIVE"})
	b.CreateMirror("l", "orders")
	WaitLevel(t, ca, cb, "orders", 2, 60*time.Second)
	if status, body := b.Call("POST", b.path("/links/l/mirrors"), map[string]any{"source_topic_name": "secret"}); status == 201 {
		t.Errorf("a topic that the local user may not read is mirrored: %v", body)
	}

	// A local password that is no longer right, and then is: told on both sides, and healed.
	a.alter("l", map[string]string{"local.sasl.jaas.config": wrong})
	a.linkIs("l", map[string]string{"link_state": "FAILED", "link_error": "BROKER_AUTHENTICATION_ERROR"})
	b.linkIs("l", map[string]string{"link_state": "FAILED", "link_error_message": "~the other cluster cannot connect the link to itself"})
	write(t, ca, "orders", 1, 100, "x")
	a.alter("l", map[string]string{"local.sasl.jaas.config": out["local.sasl.jaas.config"]})
	WaitLevel(t, ca, cb, "orders", 2, 60*time.Second)
	a.linkIs("l", map[string]string{"link_state": "ACTIVE"})
	// The link's user loses ALTER at the destination: no connection is taken any more, and it is said which right is missing.
	acl(t, adminB, "remove", mayCluster("link", kadm.OpAlter))
	b.Kill()
	b.Start()
	a.linkIs("l", map[string]string{"link_error": "AUTHORIZATION_ERROR", "link_error_message": "~ALTER"})
	acl(t, kadm.NewClient(byHand(t, b.Kafka)), "add", mayCluster("link", kadm.OpAlter))
	write(t, ca, "orders", 0, 50, "x")
	WaitLevel(t, ca, cb, "orders", 2, 60*time.Second)
	SameAll(t, ca, cb, "orders", 2)
}

// TestTwoSided_NoTopicMirrorsItself closes a circle over three clusters and wants the last link of it refused.
func TestTwoSided_NoTopicMirrorsItself(t *testing.T) {
	t.Parallel()
	a, b, c := StartHawser(t), StartHawser(t), StartHawser(t)
	ca := byHand(t, a.Kafka)
	CreateTopic(t, ca, "ring", 1, 1, nil)
	write(t, ca, "ring", 0, 100, "x")
	b.CreateLink("from-a", a.Kafka, nil)
	c.CreateLink("from-b", b.Kafka, nil)
	a.CreateLink("from-c", c.Kafka, nil)
	b.CreateMirror("from-a", "ring")
	c.CreateMirror("from-b", "ring")
	// The topic is there: its name is taken. Once it is deleted, it would be made of itself.
	if _, err := kadm.NewClient(ca).DeleteTopics(testContext(t), "ring"); err != nil {
		t.Fatal(err)
	}
	status, body := a.Call("POST", a.path("/links/from-c/mirrors"), map[string]any{"source_topic_name": "ring"})
	text := fmt.Sprint(body["message"])
	if status != 400 || !strings.Contains(text, "cannot be a mirror of itself") || !strings.Contains(text, b.Cluster) || !strings.Contains(text, c.Cluster) {
		t.Errorf("a ring of three: %d %s", status, text)
	}
	// Where one of them has stopped, the ring is open.
	b.Order("from-a", "failover", "ring")
	b.WaitStatus("from-a", "ring", "STOPPED", 30*time.Second)
	if status, body := a.Call("POST", a.path("/links/from-c/mirrors"), map[string]any{"source_topic_name": "ring"}); status != 201 {
		t.Errorf("an open chain: %d %v", status, body)
	}
	WaitLevel(t, byHand(t, c.Kafka), ca, "ring", 1, 60*time.Second)
}

// TestC45_TwoLinksWithEverythingMakeNoCircle has auto-create with '*' on both sides of a bidirectional link, with and without a prefix.
func TestC45_TwoLinksWithEverythingMakeNoCircle(t *testing.T) {
	t.Parallel()
	const topics = 10
	everything := `{"topicFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`
	for name, prefixes := range map[string][2]string{"plain": {"", ""}, "prefixed": {"b.", "a."}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sides := [2]*Hawser{StartHawser(t), StartHawser(t)}
			for i, h := range sides {
				client := byHand(t, h.Kafka)
				for n := range topics {
					CreateTopic(t, client, fmt.Sprintf("t%d-%d", i, n), 1, 1, nil)
				}
			}
			for i, h := range sides {
				set := map[string]string{"link.mode": "BIDIRECTIONAL", "bootstrap.servers": sides[1-i].Kafka,
					"auto.create.mirror.topics.enable": "true", "auto.create.mirror.topics.filters": everything, "auto.create.mirror.topics.interval.ms": "200"}
				if prefixes[i] != "" {
					set["cluster.link.prefix"] = prefixes[i]
				}
				h.mustHalf("l", "", set)
			}
			list := func(h *Hawser) []string {
				details, err := kadm.NewClient(byHand(t, h.Kafka)).ListTopics(testContext(t))
				if err != nil {
					t.Fatal(err)
				}
				return details.Names()
			}
			for _, h := range sides {
				eventually(t, 30*time.Second, "all mirrors are there", func() (bool, string) {
					names := list(h)
					return len(names) == 2*topics, fmt.Sprint(names)
				})
			}
			// Ten more rounds change nothing: they are counted by topics that the last of them brings.
			for round := range 10 {
				CreateTopic(t, byHand(t, sides[0].Kafka), fmt.Sprintf("round-%d", round), 1, 1, nil)
				eventually(t, 30*time.Second, "another round has run", func() (bool, string) {
					names := list(sides[1])
					return len(names) == 2*topics+round+1, fmt.Sprint(names)
				})
			}
			for i, h := range sides {
				if names := list(h); len(names) != 2*topics+10 {
					t.Errorf("side %d has %v", i, names)
				}
				body := h.Must("GET", h.path("/links/l?include_tasks=true"), nil)
				if text := fmt.Sprint(body["tasks"]); strings.Contains(text, "TOPIC_EXISTS_ERROR") {
					t.Errorf("side %d reports its own topics: %s", i, text)
				}
			}
		})
	}
}
