//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pemFiles is an authority and what it signed, as PEM files below a directory: NAME.pem and NAME.key, together in NAME.both.
type pemFiles struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newPEMFiles(t *testing.T) *pemFiles {
	t.Helper()
	f := &pemFiles{t: t, dir: t.TempDir()}
	f.make("ca", &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return f
}

func (f *pemFiles) path(name string) string { return filepath.Join(f.dir, name) }

// make signs a certificate of that common name; the first signs itself and is the authority from then on.
func (f *pemFiles) make(name string, template *x509.Certificate) {
	f.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if f.cert == nil {
		f.cert, f.key = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, f.cert, key.Public(), f.key)
	if err != nil {
		f.t.Fatal(err)
	}
	if f.cert == template {
		if f.cert, err = x509.ParseCertificate(der); err != nil {
			f.t.Fatal(err)
		}
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		f.t.Fatal(err)
	}
	certText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyText := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	for ending, text := range map[string][]byte{".pem": certText, ".key": keyText, ".both": append(certText, keyText...)} {
		if err := os.WriteFile(f.path(name+ending), text, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *pemFiles) server(name string) {
	f.make(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
}

func (f *pemFiles) client(name string) {
	f.make(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// TestDoors_HTTPSWithCertificates takes curl and the command line through HTTPS: without the authority, without a login, with a
// password, and with certificates of who may and who may not.
func TestDoors_HTTPSWithCertificates(t *testing.T) {
	t.Parallel()
	f := newPEMFiles(t)
	f.server("broker")
	f.client("dora")
	f.client("eve")
	file := filepath.Join(t.TempDir(), "server.properties")
	text := fmt.Sprintf(`hawser.http.security.protocol=SSL
hawser.http.authentication=required
listener.name.http.ssl.keystore.location=%s
listener.name.http.ssl.truststore.location=%s
listener.name.http.ssl.client.auth=requested
ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/
listener.name.http.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="bob-secret";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:dora;User:bob;User:ANONYMOUS
`, f.path("broker.both"), f.path("ca.pem"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h := StartHawser(t, "--config", file)
	address := strings.Replace(h.HTTP, "http://", "https://", 1)
	topics := address + "/kafka/v3/clusters/" + h.Cluster + "/topics"
	certificate := func(name string) []string {
		return []string{"--cacert", f.path("ca.pem"), "--cert", f.path(name + ".pem"), "--key", f.path(name + ".key")}
	}
	create := func(name string) []string {
		return []string{"-H", "Content-Type: application/json", "-d", `{"topic_name":"` + name + `"}`}
	}
	for _, c := range []struct {
		name string
		args []string
		want string // the status, or what curl says
	}{
		{"an unknown authority", nil, "certificate"},
		{"nobody", []string{"--cacert", f.path("ca.pem")}, "401"},
		{"a user", []string{"--cacert", f.path("ca.pem"), "-u", "bob:bob-secret"}, "200"},
		{"a wrong password", []string{"--cacert", f.path("ca.pem"), "-u", "bob:no"}, "401"},
		{"a certificate", certificate("dora"), "200"},
		{"a certificate that may", append(certificate("dora"), create("by-dora")...), "201"},
		{"a certificate that may not", append(certificate("eve"), create("by-eve")...), "403"},
	} {
		args := append([]string{"-sS", "--max-time", "20", "-o", "/dev/null", "-w", "%{http_code}"}, append(c.args, topics)...)
		out, _ := bounded(t, exec.CommandContext(testContext(t), "curl", args...)) // a status of 000 comes with an error
		if !strings.Contains(out, c.want) {
			t.Errorf("curl as %s: %q, want %q", c.name, out, c.want)
		}
	}
	for _, c := range []struct {
		name string
		args []string
		want string
		ok   bool
	}{
		{"an unknown authority", nil, "certificate", false},
		{"nobody", []string{"--certificate-authority-path", f.path("ca.pem")}, "HTTP Basic", false},
		{"a certificate", []string{"--certificate-authority-path", f.path("ca.pem"), "--client-cert-path", f.path("dora.pem"), "--client-key-path", f.path("dora.key")}, "by-dora", true},
	} {
		args := append([]string{"topic", "list", "--url", address}, c.args...)
		out, err := bounded(t, exec.CommandContext(testContext(t), binary, args...))
		if (err == nil) != c.ok || !strings.Contains(out, c.want) {
			t.Errorf("the command line as %s: %v, want %q in\n%s", c.name, err, c.want, out)
		}
	}
}
