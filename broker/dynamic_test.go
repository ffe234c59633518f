package broker_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/broker"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// keyStore is a PEM file with a certificate of that name and its key.
func keyStore(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	file := filepath.Join(t.TempDir(), name+".pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// alterBroker sets configs of a broker, "" for the defaults of all, and is the error of the answer.
func alterBroker(t *testing.T, c *kgo.Client, broker string, validateOnly bool, set ...string) error {
	t.Helper()
	rq := kmsg.NewPtrIncrementalAlterConfigsRequest()
	rq.ValidateOnly = validateOnly
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, broker
	for n := 0; n < len(set); n += 2 {
		row := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		row.Name, row.Value = set[n], &set[n+1]
		r.Configs = append(r.Configs, row)
	}
	rq.Resources = append(rq.Resources, r)
	rs, err := rq.RequestWith(within(t), c)
	if err != nil {
		t.Fatal(err)
	}
	if rs.Resources[0].ErrorCode == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", kerr.ErrorForCode(rs.Resources[0].ErrorCode), *rs.Resources[0].ErrorMessage)
}

func mustAlter(t *testing.T, c *kgo.Client, set ...string) {
	t.Helper()
	if err := alterBroker(t, c, "1", false, set...); err != nil {
		t.Fatal(err)
	}
}

// shownAs is the name in the certificate that a listener shows.
func shownAs(t *testing.T, address string) string {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestListenersFollowTheirConfigs changes the key store and the users of a running broker's listeners.
func TestListenersFollowTheirConfigs(t *testing.T) {
	dir, first, second := t.TempDir(), keyStore(t, "first"), keyStore(t, "second")
	settings := map[string]string{
		"listeners":                               "PLAINTEXT://127.0.0.1:0,TLS://127.0.0.1:0,USERS://127.0.0.1:0",
		"listener.security.protocol.map":          "PLAINTEXT:PLAINTEXT,TLS:SSL,USERS:SASL_PLAINTEXT",
		"listener.name.tls.ssl.keystore.location": first, "sasl.enabled.mechanisms": "PLAIN",
	}
	b := start(t, dir, settings)
	c := client(t, b)
	if got := shownAs(t, b.ListenerAddress("TLS")); got != "first" {
		t.Fatalf("the listener shows %s", got)
	}
	login := func(b *broker.Broker, user, password string) error {
		return client(t, b, kgo.SeedBrokers(b.ListenerAddress("USERS")), kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())).Ping(within(t))
	}
	if err := login(b, "ann", "ann-secret"); err == nil {
		t.Fatal("a user comes in who was not made yet")
	}
	jaas := `org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="ann-secret";`

	for _, c2 := range []struct {
		broker, words string
		set           []string
	}{
		{"1", "listener prefix: ssl.keystore.location", []string{"ssl.keystore.location", second}},
		{"", "at default cluster level", []string{"listener.name.tls.ssl.keystore.location", second}},
		{"1", "listener TLS: read ssl.keystore", []string{"listener.name.tls.ssl.keystore.location", filepath.Join(dir, "none.pem")}},
		{"1", "no listener named other", []string{"listener.name.other.ssl.keystore.location", second}},
		{"1", "Cannot update these configs dynamically: listeners", []string{"listeners", "PLAINTEXT://127.0.0.1:1"}},
		{"1", "of Apache Kafka means nothing here", []string{"ssl.engine.factory.class", "x.Y"}},
		{"1", "sasl.jaas.config", []string{"listener.name.users.plain.sasl.jaas.config", "no login module"}},
	} {
		if err := alterBroker(t, c, c2.broker, true, c2.set...); err == nil || !strings.Contains(err.Error(), c2.words) {
			t.Errorf("%v of broker %q: %v, want %q", c2.set, c2.broker, err, c2.words)
		}
	}

	mustAlter(t, c, "listener.name.tls.ssl.keystore.location", second, "listener.name.users.plain.sasl.jaas.config", jaas)
	if got := shownAs(t, b.ListenerAddress("TLS")); got != "second" {
		t.Errorf("after the change the listener shows %s", got)
	}
	if err := login(b, "ann", "ann-secret"); err != nil {
		t.Errorf("the new user does not come in: %v", err)
	}
	if status, _ := ask(t, b, "/kafka/v3/clusters/"+b.ClusterID()+"/topics", "ann", "ann-secret"); status != 200 {
		t.Errorf("REST answers the new user %d", status)
	}
	wantHidden(t, b, c, dir, "ann-secret")

	stop(t, b)
	b = start(t, dir, settings)
	if got := shownAs(t, b.ListenerAddress("TLS")); got != "second" {
		t.Errorf("after a restart the listener shows %s", got)
	}
	if err := login(b, "ann", "ann-secret"); err != nil {
		t.Errorf("after a restart the user does not come in: %v", err)
	}
}

// wantHidden looks for a secret among what a broker shows of its configs.
func wantHidden(t *testing.T, b *broker.Broker, c *kgo.Client, dir, secret string) {
	t.Helper()
	rq := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
	rq.Resources, rq.IncludeSynonyms = append(rq.Resources, r), true
	rs, err := rq.RequestWith(within(t), c)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, row := range rs.Resources[0].Configs {
		if row.Name == "listener.name.users.plain.sasl.jaas.config" {
			found = row.IsSensitive && row.Value == nil && !row.ReadOnly
		}
	}
	if !found {
		t.Error("the listener's own config is not shown as a secret that can be changed")
	}
	_, body := ask(t, b, "/kafka/v3/clusters/"+b.ClusterID()+"/brokers/1/configs", "ann", secret)
	if strings.Contains(body, secret) || !strings.Contains(body, "listener.name.users.plain.sasl.jaas.config") {
		t.Errorf("REST shows %.2000s", body)
	}
}

// TestConnectionLimitsFollowTheirConfigs refuses connections beyond what is set while the broker runs, of one listener and of all.
func TestConnectionLimitsFollowTheirConfigs(t *testing.T) {
	b := start(t, t.TempDir(), map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"})
	c := client(t, b)
	open := func(listener string) bool { // and stays so until the test ends
		t.Helper()
		nc, err := net.DialTimeout("tcp", b.ListenerAddress(listener), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		if _, err := nc.Write(kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)); err != nil {
			return false
		}
		_ = nc.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, err = nc.Read(make([]byte, 1))
		return err == nil
	}
	mustAlter(t, c, "listener.name.other.max.connections", "1")
	if !open("OTHER") {
		t.Error("the first connection of the listener is refused")
	}
	if open("OTHER") {
		t.Error("a connection beyond the listener's bound is served")
	}
	if !open("PLAINTEXT") {
		t.Error("the other listener has the bound, too")
	}
	mustAlter(t, c, "max.connections.per.ip", "1")
	if open("PLAINTEXT") {
		t.Error("a connection beyond max.connections.per.ip is served")
	}
}

// TestConfigsShowWhatFlagsSaid: a broker's configs are those in effect, and its number stands under both names, as with Kafka.
func TestConfigsShowWhatFlagsSaid(t *testing.T) {
	dir := t.TempDir()
	b, err := broker.Start(t.Context(), broker.Config{
		Dir: dir, Kafka: "127.0.0.1:0", Advertise: "localhost:9", HTTP: "127.0.0.1:0", NodeID: 7,
		Settings: map[string]string{"node.id": "3", "broker.id": "-1", "log.dirs": "/elsewhere", "broker.rack": "r1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, b) })
	// It advertises an address where it is not, so what it is asked must not go by its metadata.
	c := client(t, b, kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, b.KafkaAddress())
	}))
	found, err := kadm.NewClient(c).DescribeBrokerConfigs(within(t), 7)
	if err != nil || len(found) != 1 || found[0].Err != nil {
		t.Fatalf("%+v, %v", found, err)
	}
	got := map[string]string{}
	for _, config := range found[0].Configs {
		got[config.Key] = config.MaybeValue() + " " + config.Source.String()
	}
	for name, want := range map[string]string{
		"broker.id": "7", "node.id": "7", "log.dirs": dir, "listeners": "PLAINTEXT://127.0.0.1:0", "advertised.listeners": "PLAINTEXT://localhost:9",
		"hawser.http.listener": "127.0.0.1:0", "broker.rack": "r1",
	} {
		if got[name] != want+" STATIC_BROKER_CONFIG" {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
}
