package source_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/youmark/pkcs8"

	"github.com/hawserio/hawser/auth/stores"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/hawserio/hawser/link/source"
)

func dial(t *testing.T, cfg source.Config) *source.Cluster {
	t.Helper()
	c, err := source.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func classOf(t *testing.T, err error) source.Class {
	t.Helper()
	var e *source.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *source.Error", err)
	}
	if e.Hint == "" {
		t.Errorf("%q gives no hint", err)
	}
	return e.Class
}

// accepting is the address of a listener that hands its connections to take, one after another.
func accepting(t *testing.T, take func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			take(conn)
		}
	}()
	return listener.Addr().String()
}

// silent is a listener that takes connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	return accepting(t, func(conn net.Conn) { t.Cleanup(func() { conn.Close() }) })
}

// closed is an address nobody listens on.
func closed(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestC68_EachWayToFailHasItsClass(t *testing.T) {
	stub := stubtest.NewCluster(t, 1)
	stub.Password("right")
	plain := func(password string) source.Security {
		return source.Security{Protocol: "SASL_PLAINTEXT", Mechanism: "PLAIN",
			JAAS: `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="` + password + `";`}
	}
	for _, c := range []struct {
		name    string
		address []string
		with    source.Security
		want    source.Class
	}{
		{"name", []string{"no-such-host.invalid:9092"}, source.Security{}, source.Unresolvable},
		{"port", []string{closed(t)}, source.Security{}, source.Refused},
		{"silence", []string{silent(t)}, source.Security{}, source.Timeout},
		{"password", stub.Bootstrap(), plain("wrong"), source.Auth},
		{"TLS to plaintext", stub.Bootstrap(), source.Security{Protocol: "SSL"}, source.TLS},
		{"TLS to silence", []string{silent(t)}, source.Security{Protocol: "SSL"}, source.Timeout},
		{"no login", stub.Bootstrap(), source.Security{}, source.Auth},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := dial(t, source.Config{Bootstrap: c.address, Security: c.with, RequestTimeout: time.Second, DialTimeout: time.Second})
			begun := time.Now()
			_, err := cluster.Probe(t.Context())
			if got := classOf(t, err); got != c.want {
				t.Errorf("class %s, want %s: %v", got, c.want, err)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if c.name != "silence" && !strings.Contains(err.Error(), c.address[0]) {
				t.Errorf("%q does not name %s", err, c.address[0])
			}
		})
	}
	cluster := dial(t, source.Config{Bootstrap: stub.Bootstrap(), Security: plain("right")})
	if p, err := cluster.Probe(t.Context()); err != nil || p.ClusterID != "stub" || len(p.Brokers) != 1 {
		t.Errorf("probe says %+v %v", p, err)
	}
}

// TestPlaintextToTLS: what a listener with TLS says to who speaks without it is no length of an answer.
func TestPlaintextToTLS(t *testing.T) {
	address := accepting(t, func(conn net.Conn) {
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 1<<10))
		_, _ = conn.Write([]byte{21, 3, 3, 0, 2, 2, 80}) // Java's alert: fatal, internal_error
	})
	cluster := dial(t, source.Config{Bootstrap: []string{address}, RequestTimeout: 5 * time.Second, DialTimeout: time.Second})
	_, err := cluster.Probe(t.Context())
	if classOf(t, err) != source.TLS || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "speaks TLS") || !strings.Contains(err.Error(), "Set security.protocol") {
		t.Errorf("it says %v", err)
	}
}

func pemStore(text string) stores.Store { return stores.Store{Certificates: text} }

func TestConfigFaultsAreFoundByDial(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  source.Config
		word string
	}{
		{"none", source.Config{}, "bootstrap.servers"},
		{"port", source.Config{Bootstrap: []string{"host"}}, "host:port"},
		{"protocol", source.Config{Bootstrap: []string{"a:1"}, Security: source.Security{Protocol: "TLS"}}, "SASL_SSL"},
		{"mechanism", source.Config{Bootstrap: []string{"a:1"}, Security: source.Security{Protocol: "SASL_SSL", Mechanism: "GSSAPI", JAAS: `x.ScramLoginModule required username="u";`}}, "SCRAM-SHA-512"},
		{"module", source.Config{Bootstrap: []string{"a:1"}, Security: source.Security{Protocol: "SASL_SSL", Mechanism: "PLAIN", JAAS: `x.ScramLoginModule required username="u";`}}, "PlainLoginModule"},
		{"jaas", source.Config{Bootstrap: []string{"a:1"}, Security: source.Security{Protocol: "SASL_SSL", Mechanism: "PLAIN", JAAS: `secret-password`}}, "sasl.jaas.config"},
		{"ca", source.Config{Bootstrap: []string{"a:1"}, Security: source.Security{Protocol: "SSL", TrustStore: stores.Store{Location: "/no/such/file"}}}, "ssl.truststore"},
	} {
		_, err := source.Dial(c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v, want words about %s", c.name, err, c.word)
		}
	}
}

func TestC106_DeadBootstrapEntriesAreSteppedOver(t *testing.T) {
	stub := stubtest.NewCluster(t, 1)
	cluster := dial(t, source.Config{Bootstrap: []string{silent(t), silent(t), closed(t), "SASL_SSL://" + stub.Bootstrap()[0]}})
	begun := time.Now()
	if _, err := cluster.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// balancer stands before a broker; with cut set it takes connections and closes them without a word.
func balancer(t *testing.T, target string, cut *atomic.Bool) string {
	t.Helper()
	return accepting(t, func(near net.Conn) {
		far, err := net.Dial("tcp", target)
		if err != nil || cut.Load() {
			_, _ = near.Read(make([]byte, 4096)) // what is left unread would make the close a reset
			near.Close()
			return
		}
		t.Cleanup(func() { near.Close(); far.Close() })
		go func() { _, _ = io.Copy(far, near); far.Close() }()
		go func() { _, _ = io.Copy(near, far); near.Close() }()
	})
}

// A broker that hangs up at once is asked for another login only while none has worked: later it is one that ends.
func TestHangingUpAfterwardsIsNoFailedLogin(t *testing.T) {
	stub := stubtest.NewCluster(t, 1)
	var cut atomic.Bool
	address := balancer(t, stub.Bootstrap()[0], &cut)
	cfg := source.Config{Bootstrap: []string{address}, Map: map[string]string{stub.Bootstrap()[0]: address}, RequestTimeout: time.Second, DialTimeout: time.Second}
	cluster := dial(t, cfg)
	if _, err := cluster.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	cut.Store(true)
	stub.Broker(1).HangUp()
	if _, err := cluster.Probe(t.Context()); classOf(t, err) != source.Refused {
		t.Errorf("after it has answered: %v", err)
	}
	if _, err := dial(t, cfg).Probe(t.Context()); classOf(t, err) != source.Auth {
		t.Errorf("before it has answered: %v", err)
	}
	cut.Store(false)
	if _, err := cluster.Probe(t.Context()); err != nil {
		t.Errorf("back again: %v", err)
	}
}

func TestC74_WrongPasswordIsNotTriedAllTheTime(t *testing.T) {
	stub := stubtest.NewCluster(t, 1)
	stub.Password("right")
	cluster := dial(t, source.Config{Bootstrap: stub.Bootstrap(), Security: source.Security{Protocol: "SASL_PLAINTEXT", Mechanism: "PLAIN",
		JAAS: `x.PlainLoginModule required username="u" password="wrong";`}})
	for range 50 {
		if _, err := cluster.Probe(t.Context()); err == nil {
			t.Fatal("logged in with a wrong password")
		}
	}
	if n := stub.Requests(36); n > 2 {
		t.Errorf("%d logins", n)
	}
}

func TestProbeBrokersNamesThoseOutOfReach(t *testing.T) {
	stub := stubtest.NewCluster(t, 2)
	dead := closed(t)
	cluster := dial(t, source.Config{Bootstrap: stub.Bootstrap(), Map: map[string]string{stub.Broker(2).Address(): dead}})
	p, err := cluster.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tried := cluster.ProbeBrokers(t.Context(), p.Brokers)
	if len(tried) != 2 || tried[0].Err != nil || classOf(t, tried[1].Err) != source.Refused {
		t.Fatalf("tried %+v", tried)
	}
	for _, address := range []string{stub.Broker(2).Address(), dead} {
		if !strings.Contains(tried[1].Err.Error(), address) {
			t.Errorf("%q does not name %s", tried[1].Err, address)
		}
	}
}

func TestLeadersAreGatheredIntoFewRequests(t *testing.T) {
	stub := stubtest.NewCluster(t, 1)
	const topics = 200
	names := make([]string, topics)
	for i := range names {
		names[i] = "t" + strings.Repeat("x", i)
		stub.Create(names[i], kafka.TopicID{byte(i + 1)}, 1)
	}
	cluster := dial(t, source.Config{Bootstrap: stub.Bootstrap()})
	failures := make(chan error, topics)
	for i, name := range names {
		go func() {
			leaders, err := cluster.Leaders(t.Context(), name, true)
			if err == nil && (leaders.TopicID != kafka.TopicID{byte(i + 1)} || leaders.List[0].Broker != 1) {
				err = errors.New("wrong leaders of " + name)
			}
			failures <- err
		}()
	}
	for range names {
		if err := <-failures; err != nil {
			t.Fatal(err)
		}
	}
	if n := stub.Requests(3); n > 20 {
		t.Errorf("%d metadata requests", n)
	}
	if _, err := cluster.Leaders(t.Context(), "none", true); kafka.CodeOf(err) != kafka.UnknownTopicOrPartition {
		t.Errorf("leaders of no topic: %v", err)
	}
}

func TestSessionLostAtTheBrokerIsOpenedAnew(t *testing.T) {
	stub := stubtest.NewCluster(t, 1)
	stub.Create("t", kafka.TopicID{1}, 1)
	tp := kafka.TopicPartition{Topic: "t"}
	stub.Partition(tp).Produce(1, "v")
	cluster := dial(t, source.Config{Bootstrap: stub.Bootstrap()})
	session, err := cluster.Session(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	want := []fetcher.Want{{TopicPartition: tp, TopicID: kafka.TopicID{1}, LastEpoch: -1, MaxBytes: 1 << 20}}
	ask := fetcher.Ask{MaxWait: 50 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20}
	fetch := func(n int) {
		t.Helper()
		answers, err := session.Fetch(t.Context(), want, ask)
		if err != nil || len(answers) != n {
			t.Fatalf("%d answers, %v; want %d", len(answers), err, n)
		}
	}
	fetch(1)
	want[0].Offset = 1
	fetch(0) // nothing changed: left out
	stub.Broker(1).ForgetSessions()
	fetch(1)
	if session.RoundTrip() <= 0 {
		t.Error("no round trip known")
	}
}

// authority makes certificates for tests.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key, cert}
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

func (a *authority) issue(t *testing.T, address string, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, IPAddresses: []net.IP{net.ParseIP(address)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// front is a TLS listener before a plaintext address.
func front(t *testing.T, to string, cfg *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial("tcp", to)
			if err != nil {
				conn.Close()
				continue
			}
			go func() { io.Copy(behind, conn); behind.Close() }()
			go func() { io.Copy(conn, behind); conn.Close() }()
		}
	}()
	return listener.Addr().String()
}

func TestC75_TLSFaultsAreTold(t *testing.T) {
	stub := stubtest.NewCluster(t, 1)
	ca, other := newAuthority(t), newAuthority(t)
	good := ca.issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	client := ca.issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	encrypted, err := pkcs8.MarshalPrivateKey(client.PrivateKey, []byte("sesame"), nil)
	if err != nil {
		t.Fatal(err)
	}
	chain := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: client.Certificate[0]}))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: encrypted}))
	oneLine := strings.ReplaceAll(ca.pem(), "\n", " ")
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte(ca.pem()), 0o600); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	mutual := &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	serve := func(cert tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{cert}} }
	for _, c := range []struct {
		name   string
		server *tls.Config
		with   source.Security
		fault  string // "" for none
	}{
		{"good", serve(good), source.Security{TrustStore: pemStore(ca.pem())}, ""},
		{"CA on one line", serve(good), source.Security{TrustStore: pemStore(oneLine)}, ""},
		{"CA with escapes", serve(good), source.Security{TrustStore: pemStore(strings.ReplaceAll(ca.pem(), "\n", `\n`))}, ""},
		{"CA in a file", serve(good), source.Security{TrustStore: stores.Store{Location: file}}, ""},
		{"unknown CA", serve(good), source.Security{TrustStore: pemStore(other.pem())}, "unknown authority"},
		{"wrong name", serve(ca.issue(t, "127.0.0.9", time.Now().Add(time.Hour))), source.Security{TrustStore: pemStore(ca.pem())}, "127.0.0.9"},
		{"name not checked", serve(ca.issue(t, "127.0.0.9", time.Now().Add(time.Hour))), source.Security{TrustStore: pemStore(ca.pem()), NoHostCheck: true}, ""},
		{"unknown CA, name not checked", serve(good), source.Security{TrustStore: pemStore(other.pem()), NoHostCheck: true}, "unknown authority"},
		{"expired", serve(ca.issue(t, "127.0.0.1", time.Now().Add(-time.Hour))), source.Security{TrustStore: pemStore(ca.pem())}, "expired"},
		{"client certificate missing", mutual, source.Security{TrustStore: pemStore(ca.pem())}, "certificate required"},
		{"client certificate", mutual, source.Security{TrustStore: pemStore(ca.pem()), KeyStore: stores.Store{Certificates: chain, Key: key, KeyPassword: "sesame"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.with.Protocol = "SSL"
			address := front(t, stub.Broker(1).Address(), c.server)
			cluster := dial(t, source.Config{Bootstrap: []string{"127.0.0.1:1"}, Security: c.with,
				Map: map[string]string{"127.0.0.1:1": address, stub.Broker(1).Address(): address}})
			_, err := cluster.Probe(t.Context())
			switch {
			case c.fault == "" && err != nil:
				t.Error(err)
			case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
				t.Errorf("%v, want words about %q", err, c.fault)
			case c.fault != "" && classOf(t, err) != source.TLS:
				t.Errorf("class %s", classOf(t, err))
			}
		})
	}
	_, err = source.Dial(source.Config{Bootstrap: []string{"a:1"}, Security: source.Security{Protocol: "SSL", KeyStore: stores.Store{Certificates: chain, Key: key, KeyPassword: "wrong"}}})
	if err == nil || !strings.Contains(err.Error(), "decrypt") {
		t.Errorf("wrong key password: %v", err)
	}
}

func TestCloseEndsWhatWaits(t *testing.T) {
	before := runtime.NumGoroutine()
	c, err := source.Dial(source.Config{Bootstrap: []string{silent(t)}})
	if err != nil {
		t.Fatal(err)
	}
	var ended atomic.Int32
	for range 3 {
		go func() {
			defer ended.Add(1)
			_, _ = c.Leaders(context.Background(), "t", true)
		}()
	}
	timer := time.NewTimer(50 * time.Millisecond)
	<-timer.C
	c.Close()
	deadline := time.Now().Add(5 * time.Second)
	for (ended.Load() < 3 || runtime.NumGoroutine() > before+1) && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := ended.Load(); n < 3 {
		t.Errorf("%d of 3 calls ended", n)
	}
	if n := runtime.NumGoroutine(); n > before+1 { // the silent listener's own
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after:\n%s", before, n, buf[:runtime.Stack(buf, true)])
	}
	if _, err := c.Probe(t.Context()); err == nil {
		t.Error("a closed cluster answers")
	}
}
