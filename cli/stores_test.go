package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawserio/hawser/broker"
)

const keyStores = "../auth/stores/testdata/" // Java's keytool made them; their certificate is one for 127.0.0.1

// securedBroker has one Kafka listener, which wants TLS, a certificate and a login, and its HTTP port has TLS too.
func securedBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Config{Dir: t.TempDir(), HTTP: "127.0.0.1:0", NodeID: 1, Settings: map[string]string{
		"listeners": "SASL_SSL://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN",
		"sasl.jaas.config":      `org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";`,
		"ssl.keystore.location": keyStores + "key.p12", "ssl.keystore.password": "store-secret", "ssl.client.auth": "required",
		"ssl.truststore.location": keyStores + "trust.jks", "ssl.truststore.password": "store-secret",
		"hawser.http.security.protocol": "SSL",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestCommandConfigTakesWhatKafkasToolsTake(t *testing.T) {
	b := securedBroker(t)
	file := filepath.Join(t.TempDir(), "client.properties")
	login := "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"alice\" password=\"alice-secret\";\n"
	p12 := fmt.Sprintf("ssl.keystore.type=PKCS12\nssl.keystore.location=%skey.p12\nssl.keystore.password=store-secret\n", keyStores)
	jks := fmt.Sprintf("ssl.keystore.location=%skey.jks\nssl.keystore.password=store-secret\nssl.key.password=key-secret\n", keyStores)
	trustJKS := fmt.Sprintf("ssl.truststore.location=%strust.jks\nssl.truststore.password=store-secret\n", keyStores)
	trustP12 := fmt.Sprintf("ssl.truststore.type=PKCS12\nssl.truststore.location=%strust.p12\nssl.truststore.password=store-secret\n", keyStores)
	pem, err := os.ReadFile(keyStores + "cert.pem")
	if err != nil {
		t.Fatal(err)
	}
	text := "ssl.truststore.type=PEM\nssl.truststore.certificates=" + strings.NewReplacer("\r", "", "\n", `\n`).Replace(strings.TrimSpace(string(pem))) + "\n"
	for _, row := range []struct{ what, config, wrong, do string }{
		{"PKCS12, JKS", login + p12 + trustJKS, "", ""},
		{"JKS with a key password, PKCS12", login + jks + trustP12, "", ""},
		{"PEM text", login + jks + text, "", ""},
		{"a PEM file as librdkafka names it", login + p12 + "ssl.ca.location=" + keyStores + "cert.pem\n", "", ""},
		{"versions and suites", login + p12 + trustP12 + "ssl.enabled.protocols=TLSv1.2\nssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\n", "", ""},
		{"no truststore", login + p12, "certificate", "ssl.truststore"},
		{"a wrong store password", login + p12 + strings.Replace(trustJKS, "store-secret", "guessed", 1), "password is wrong", "JKS or PKCS12 file and its password"},
		{"no such store", login + p12 + "ssl.truststore.location=/no/such.jks\n", "no such file", "JKS or PKCS12 file and its password"},
		{"an old version", login + p12 + trustP12 + "ssl.enabled.protocols=TLSv1\n", `"TLSv1" is not spoken`, "Use TLSv1.2"},
		{"a wrong login", strings.Replace(login, "alice-secret", "guessed", 1) + p12 + trustP12, "uthentication", "Check security.protocol, sasl.mechanism and sasl.jaas.config"},
		{"no JAAS line", strings.Replace(login, "org.apache", "=", 1) + p12 + trustP12, "sasl.jaas.config", "required username="},
	} {
		t.Run(row.what, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(row.config), 0o600); err != nil {
				t.Fatal(err)
			}
			r := hawser(t, "", "mirror", "list", "--bootstrap-server", b.KafkaAddress(), "--command-config", file)
			if row.wrong == "" {
				if r.code != 0 || r.out != "None found.\n" {
					t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
				}
				return
			}
			if r.code != 1 || !strings.Contains(r.err, row.wrong) || !strings.Contains(r.err, row.do) {
				t.Errorf("exit %d, want %q and %q in\n%s", r.code, row.wrong, row.do, r.err)
			}
		})
	}
}
