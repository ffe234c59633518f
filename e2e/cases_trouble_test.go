//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestC68_C109_WhyASourceCannotBeUsed makes links to what is no source, or not the one that was meant: each is refused in time, with a
// code and words of its own. Unchecked, a link is made all the same and heals.
func TestC68_C109_WhyASourceCannotBeUsed(t *testing.T) {
	t.Parallel()
	k := GuardedKafka(t)
	h, other := StartHawser(t), StartHawser(t)
	if h.Cluster == other.Cluster || h.Cluster == "" {
		t.Errorf("two clusters with the settings that come by default have the ids %s and %s", h.Cluster, other.Cluster)
	}
	silent, gone := NewProxy(t, other.Kafka), NewProxy(t, other.Kafka)
	silent.Swallow()
	gone.Refuse()
	ports, err := freePorts(1)
	fatal(t, err)
	wrong := loginConfigs("SCRAM-SHA-256", "nobody", "wrong")
	wrong["bootstrap.servers"] = k.Logins()
	var all sync.WaitGroup
	for name, one := range map[string]struct {
		remote string
		set    map[string]string
		code   string // in the message
	}{
		"dns":     {"", map[string]string{"bootstrap.servers": "no-such-host.invalid:9092"}, "UNRESOLVABLE_BOOTSTRAP_ERROR"},
		"closed":  {"", map[string]string{"bootstrap.servers": fmt.Sprintf("127.0.0.1:%d", ports[0])}, "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR"},
		"silent":  {"", map[string]string{"bootstrap.servers": silent.Addr()}, "TIMEOUT_ERROR"},
		"login":   {"", wrong, "AUTHENTICATION_ERROR"},
		"another": {"AAAAAAAAAAAAAAAAAAAAAA", map[string]string{"bootstrap.servers": other.Kafka}, other.Cluster},
		"self":    {"", map[string]string{"bootstrap.servers": h.Kafka}, "Cannot create cluster link to self"},
	} {
		all.Go(func() {
			begun := time.Now()
			var list []map[string]string
			for key, value := range one.set {
				list = append(list, map[string]string{"name": key, "value": value})
			}
			body := map[string]any{"configs": list}
			if one.remote != "" {
				body["source_cluster_id"] = one.remote
			}
			status, answer := h.Call("POST", h.path("/links?link_name=%s", name), body)
			took := time.Since(begun)
			text := fmt.Sprint(answer["message"])
			t.Logf("%s: %d %v %s, after %v", name, status, answer["error_code"], text, took.Round(time.Millisecond))
			if status/100 == 2 || !strings.Contains(text, one.code) {
				t.Errorf("%s: %d %v", name, status, answer)
			}
			if took > 30*time.Second { // twice the bound
				t.Errorf("%s: it took %v to say so", name, took)
			}
			if status, _ := h.Call("GET", h.path("/links/%s", name), nil); status != 404 {
				t.Errorf("link %s was made all the same: %d", name, status)
			}
		})
	}
	all.Wait()
	var list []map[string]string
	for key, value := range map[string]string{"bootstrap.servers": gone.Addr(), "bootstrap.address.map": other.Kafka + "=" + gone.Addr(), "availability.check.ms": "500"} {
		list = append(list, map[string]string{"name": key, "value": value})
	}
	h.Must("POST", h.path("/links?link_name=later&validate_link=false"), map[string]any{"configs": list})
	h.linkIs("later", map[string]string{"link_state": "FAILED"})
	begun := time.Now()
	CreateTopic(t, Client(t, other.Kafka), "c68", 1, 1, nil)
	if status, body := h.Call("POST", h.path("/links/later/mirrors"), map[string]any{"source_topic_name": "c68"}); status/100 == 2 || time.Since(begun) > 15*time.Second {
		t.Errorf("a mirror of a source that is away: %d %v after %v", status, body, time.Since(begun))
	}
	gone.Allow()
	h.linkIs("later", map[string]string{"link_state": "ACTIVE", "link_error": "NO_ERROR"})
	h.CreateMirror("later", "c68")
}

// tlsFront is a TLS listener before a plaintext address, whose certificate can be changed.
type tlsFront struct {
	address  string
	cert     atomic.Pointer[tls.Certificate]
	accepted atomic.Int64
}

// newTLSFront listens with a certificate of its own for an address; it returns the certificate as PEM.
func newTLSFront(t *testing.T, to, ip string, until time.Time, auth tls.ClientAuthType) (*tlsFront, string) {
	t.Helper()
	f := &tlsFront{}
	text := f.renew(t, ip, until)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{ClientAuth: auth, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.cert.Load(), nil }})
	fatal(t, err)
	t.Cleanup(func() { listener.Close() })
	f.address = listener.Addr().String()
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			f.accepted.Add(1)
			go func() {
				defer near.Close()
				if near.(*tls.Conn).Handshake() != nil {
					return
				}
				far, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer far.Close()
				go func() { _, _ = io.Copy(far, near); far.Close() }()
				_, _ = io.Copy(near, far)
			}()
		}
	}()
	return f, text
}

// renew makes a new certificate and gives it as PEM.
func (f *tlsFront) renew(t *testing.T, ip string, until time.Time) string {
	t.Helper()
	cert, text, _ := ownCertificate(t, ip, until)
	f.cert.Store(&cert)
	return text
}

// ownCertificate is a certificate that signs itself, also as PEM with its key.
func ownCertificate(t *testing.T, ip string, until time.Time) (cert tls.Certificate, chain, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	fatal(t, err)
	template := &x509.Certificate{SerialNumber: serial, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, IPAddresses: []net.IP{net.ParseIP(ip)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	fatal(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(secret)
	fatal(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: secret},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// overTLS is configs of a link that goes to a front in place of a broker.
func overTLS(front, broker, trusted string) map[string]string {
	return map[string]string{"bootstrap.servers": front, "bootstrap.address.map": broker + "=" + front, "security.protocol": "SSL",
		"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}
}

// TestC75_TLSFaultsOfALiveLink has links that cannot speak TLS with their sources, each for another reason: the link's state tells which,
// nothing runs hot, and each heals when its configs are put right.
func TestC75_TLSFaultsOfALiveLink(t *testing.T) {
	t.Parallel()
	src, h := StartHawser(t), StartHawser(t)
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	unknown, right := newTLSFront(t, src.Kafka, "127.0.0.1", soon, tls.NoClientCert)
	misnamed, namedTrust := newTLSFront(t, src.Kafka, "127.0.0.9", soon, tls.NoClientCert)
	expired, expiredTrust := newTLSFront(t, src.Kafka, "127.0.0.1", past, tls.NoClientCert)
	mutual, mutualTrust := newTLSFront(t, src.Kafka, "127.0.0.1", soon, tls.RequireAnyClientCert)
	_, chain, key := ownCertificate(t, "127.0.0.1", soon)
	links := map[string]struct {
		set   map[string]string
		words string
		front *tlsFront
		cure  func() map[string]string
	}{
		"unknown-ca": {overTLS(unknown.address, src.Kafka, namedTrust), "unknown authority", unknown, func() map[string]string { return map[string]string{"ssl.truststore.certificates": right} }},
		"wrong-host": {overTLS(misnamed.address, src.Kafka, namedTrust), "127.0.0.9", misnamed, func() map[string]string { return map[string]string{"ssl.endpoint.identification.algorithm": ""} }},
		"expired": {overTLS(expired.address, src.Kafka, expiredTrust), "expired", expired, func() map[string]string {
			return map[string]string{"ssl.truststore.certificates": expired.renew(t, "127.0.0.1", soon)}
		}},
		"no-client-certificate": {overTLS(mutual.address, src.Kafka, mutualTrust), "certificate required", mutual, func() map[string]string {
			return map[string]string{"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
		}},
		"plaintext-port": {overTLS(src.Kafka, src.Kafka, right), "TLS", nil, func() map[string]string { return map[string]string{"security.protocol": "PLAINTEXT"} }},
	}
	texts := map[string]bool{}
	for name, one := range links {
		configs := maps.Clone(one.set)
		configs["availability.check.ms"] = "500"
		var list []map[string]string
		for key, value := range configs {
			list = append(list, map[string]string{"name": key, "value": value})
		}
		if status, body := h.Call("POST", h.path("/links?link_name=%s", name), map[string]any{"configs": list}); status/100 == 2 || !strings.Contains(fmt.Sprint(body), one.words) {
			t.Errorf("%s: checked when it is made: %d %v", name, status, body)
		}
		h.Must("POST", h.path("/links?link_name=%s&validate_link=false", name), map[string]any{"configs": list})
	}
	for name, one := range links {
		h.linkIs(name, map[string]string{"link_state": "FAILED", "link_error_message": "~" + one.words})
		texts[fmt.Sprint(h.Must("GET", h.path("/links/%s", name), nil)["link_error_message"])] = true
	}
	if len(texts) != len(links) {
		t.Errorf("the states do not tell %d faults apart: %v", len(links), texts)
	}
	const window = 2 * time.Second
	cpu, dialled := cpuSeconds(t, h.Pid), map[string]int64{}
	for name, one := range links {
		if one.front != nil {
			dialled[name] = one.front.accepted.Load()
		}
	}
	pause(testContext(t), window)
	if share := (cpuSeconds(t, h.Pid) - cpu) / window.Seconds(); share > 0.25 {
		t.Errorf("five links that cannot connect take %.0f %% of a core, five times the bound of 5 %%", 100*share)
	}
	for name, one := range links {
		if one.front != nil {
			if n := one.front.accepted.Load() - dialled[name]; n > 8 {
				t.Errorf("%s: dialled %d times in %v", name, n, window)
			}
		}
	}
	for name, one := range links {
		h.alter(name, one.cure())
	}
	for name := range links {
		h.linkIs(name, map[string]string{"link_state": "ACTIVE", "link_error": "NO_ERROR"})
	}
}

// TestC73_PlaintextToTLSUnderLoad moves a live link from a plaintext address to one with TLS.
func TestC73_PlaintextToTLSUnderLoad(t *testing.T) {
	t.Parallel()
	src, h := StartHawser(t), StartHawser(t)
	front, trusted := newTLSFront(t, src.Kafka, "127.0.0.1", time.Now().Add(time.Hour), tls.NoClientCert)
	source, mirror := Client(t, src.Kafka), Client(t, h.Kafka)
	CreateTopic(t, source, "c73-tls", 1, 1, nil)
	h.CreateLink("east", src.Kafka, nil)
	h.CreateMirror("east", "c73-tls")
	load, stop := context.WithCancel(testContext(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for load.Err() == nil {
			source.Produce(testContext(t), &kgo.Record{Topic: "c73-tls", Value: []byte("v")}, nil)
			pause(load, time.Millisecond)
		}
		_ = source.Flush(testContext(t))
	}()
	defer stop()
	follows := func(what string) {
		t.Helper()
		_, before := Ends(t, source, "c73-tls", 0)
		eventually(t, 10*time.Second, what, func() (bool, string) {
			_, at := Ends(t, mirror, "c73-tls", 0)
			return at > before, fmt.Sprint(at, " of more than ", before)
		})
	}
	follows("it is mirrored over plaintext")
	h.alter("east", overTLS(front.address, src.Kafka, trusted))
	follows("it is mirrored over TLS")
	follows("it goes on")
	stop()
	<-done
	WaitLevel(t, source, mirror, "c73-tls", 1, 30*time.Second)
	SameAll(t, source, mirror, "c73-tls", 1)
	if front.accepted.Load() == 0 {
		t.Error("nothing went over TLS")
	}
	if m := h.Mirror("east", "c73-tls"); m.Status != "ACTIVE" {
		t.Errorf("it is %v", m.Raw)
	}
}

// TestC19_ThrottledLinkPrincipal gives the link's user a quota at the source: the link keeps to it and to its connections.
func TestC19_ThrottledLinkPrincipal(t *testing.T) {
	k := GuardedKafka(t)
	topic := again("c19")
	proxy := NewProxy(t, k.Logins())
	h, source, admin := guardedPairAt(t, proxy.Addr(), topic, topic, map[string]string{"bootstrap.address.map": k.Logins() + "=" + proxy.Addr()})
	mirror := Client(t, h.Kafka)
	const rate, size = 1 << 20, 4 << 20
	user := topic
	rs, err := admin.AlterClientQuotas(testContext(t), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: "consumer_byte_rate", Value: rate}},
	}})
	if err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
	here, err := kadm.NewClient(mirror).AlterClientQuotas(testContext(t), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user"}}, Ops: []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1000}},
	}})
	if err != nil || here[0].Err != nil {
		t.Fatal(err, here)
	}
	// Whatever the link connects to, it has connected to by the time that a first record is there and all tasks have run.
	produce(t, source, texts(topic, "first", 0, 1)...)
	WaitLevel(t, source, mirror, topic, 1, 30*time.Second)
	h.alter("east", map[string]string{"topic.config.sync.ms": "500"})
	alterTopic(t, source, topic, "retention.ms", "123456789")
	eventually(t, 30*time.Second, "the task of configs has run", func() (bool, string) {
		now := describedConfig(t, mirror, topic, "retention.ms")
		return now == "123456789", now
	})
	dials := proxy.Dials.Load()
	value := make([]byte, 64<<10)
	mrand.NewChaCha8([32]byte{19}).Read(value)
	begun := time.Now()
	for range size / len(value) {
		produce(t, source, &kgo.Record{Topic: topic, Value: value})
	}
	_, end := Ends(t, source, topic, 0)
	eventually(t, 60*time.Second, "the mirror is level", func() (bool, string) {
		m := h.Mirror("east", topic)
		if m.Status != "ACTIVE" {
			t.Errorf("a throttled mirror is %s: %v", m.Status, m.Raw)
		}
		_, at := Ends(t, mirror, topic, 0)
		return at == end, fmt.Sprintf("%d of %d", at, end)
	})
	took := time.Since(begun)
	t.Logf("%d MiB at a quota of %d KiB/s took %v", size>>20, rate>>10, took)
	if took < 2*time.Second {
		t.Error("the quota had no effect: this shows nothing")
	}
	if n := proxy.Dials.Load() - dials; n != 0 {
		t.Errorf("a throttled link connected %d times again", n)
	}
	link := h.Must("GET", h.path("/links/east"), nil)
	if link["link_state"] != "ACTIVE" {
		t.Errorf("the link is %v", link)
	}
}

// standstills watches a mirror until the function it returns is called, which gives the longest time that a partition did not move while it
// was behind and its source's leader could be asked.
func standstills(t *testing.T, source, mirror *kgo.Client, topic string, partitions int32) func() time.Duration {
	t.Helper()
	ctx, stop := context.WithCancel(testContext(t))
	longest := make(chan time.Duration, 1)
	go func() {
		most, moved, at := time.Duration(0), make([]time.Time, partitions), make([]int64, partitions)
		from, here := kadm.NewClient(source), kadm.NewClient(mirror)
		for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			theirs, _ := from.ListEndOffsets(short, topic) // without an answer for a partition, its time does not run
			ours, _ := here.ListEndOffsets(short, topic)
			cancel()
			for p := range partitions {
				end, asked := theirs.Lookup(topic, p)
				now, told := ours.Lookup(topic, p)
				if !asked || !told || end.Err != nil || now.Err != nil || now.Offset >= end.Offset || now.Offset > at[p] || moved[p].IsZero() {
					moved[p], at[p] = time.Now(), now.Offset
				}
				most = max(most, time.Since(moved[p]))
			}
		}
		longest <- most
	}()
	return func() time.Duration { stop(); return <-longest }
}
