//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTerraform_EachCallOfTheProvider makes the calls of the vendor's Terraform provider, in its order and by the client
// library that it pins, against a hawser with logins: apply, plan without a difference, pause, resume, other configs, promote, fail over, destroy.
// As the provider always does, the link logs in to its source by PLAIN over TLS, with a certificate that the machine trusts.
func TestTerraform_EachCallOfTheProvider(t *testing.T) {
	t.Parallel()
	keys, certificate := selfSigned(t)
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(trusted, []byte(certificate), 0o600); err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	jaas := func(options string) string {
		return "org.apache.kafka.common.security.plain.PlainLoginModule required " + options + ";"
	}
	secured := fmt.Sprintf("127.0.0.1:%d", ports[1])
	source := StartHawser(t, "--set", fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,SECURED://%s", ports[0], secured),
		"--set", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL", "--set", "sasl.enabled.mechanisms=PLAIN",
		"--set", "sasl.jaas.config="+jaas(`user_sourcekey="source-secret"`), "--set", "ssl.keystore.type=PEM", "--set", "ssl.keystore.location="+keys)
	c := Client(t, source.Kafka)
	for _, topic := range []string{"orders", "clicks"} {
		CreateTopic(t, c, topic, 2, 1, nil)
		write(t, c, topic, 0, 100, "x")
	}
	h := startHawserIn(t, []string{"SSL_CERT_FILE=" + trusted}, "--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"--set", "super.users=User:apikey", "--set", "sasl.jaas.config="+jaas(`user_apikey="api-secret"`))
	cmd := exec.CommandContext(testContext(t), "go", "run", ".", h.HTTP, h.Cluster, secured, "orders", source.Cluster, "clicks", jaas(`username="sourcekey" password="source-secret"`))
	cmd.Dir = "testdata/kafkarest014"
	cmd.Env = append(os.Environ(), "API_KEY=apikey", "API_SECRET=api-secret")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "every step was understood") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
