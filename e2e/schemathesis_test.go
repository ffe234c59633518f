//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestREST_Schemathesis has the REST door tried by a tool that makes requests of its OpenAPI document: names that exist
// and names that do not, good bodies and broken ones. No answer may be a 5xx, or one that the document does not know.
func TestREST_Schemathesis(t *testing.T) {
	t.Parallel()
	source := StartHawser(t)
	admin := Client(t, source.Kafka)
	for _, topic := range []string{"orders", "clicks"} {
		CreateTopic(t, admin, topic, 2, 1, nil)
	}
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:ANONYMOUS\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := StartHawser(t, "--config", file)
	h.CreateLink("live", source.Kafka, nil)
	h.CreateMirror("live", "orders")
	client := Client(t, h.Kafka)
	CreateTopic(t, client, "own", 3, 1, nil)
	if err := client.ProduceSync(testContext(t), texts("own", "x", 0, 10)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	commit(t, client, "readers", "own", 5)

	existing := fmt.Sprintf("[parameters]\n\"path.cluster_id\" = %q\n\"path.link_name\" = \"live\"\n\"path.mirror_topic_name\" = \"orders\"\n\"path.topic_name\" = \"own\"\n"+
		"\"path.consumer_group_id\" = \"readers\"\n\"path.partition_id\" = 1\n\"path.broker_id\" = 1\n", h.Cluster)
	made := fmt.Sprintf("[parameters]\n\"path.cluster_id\" = %q\n", h.Cluster)
	// Things that exist first, and what takes them away last.
	schemathesis(t, h, existing, 20, "--exclude-method", "DELETE")
	schemathesis(t, h, made, 20)
}

var testCases = regexp.MustCompile(`(\d+) generated`)

func schemathesis(t *testing.T, h *Hawser, config string, seconds int, more ...string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "schemathesis.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--config-file", file, "run", h.HTTP + "/openapi.yaml", "--url", h.HTTP + "/kafka/v3", "--max-time", fmt.Sprint(seconds), "--no-color", "--continue-on-failure",
		"--phases", "examples,coverage,fuzzing", "--exclude-path-regex", "^/health", "--request-timeout", "40", "--generation-database", "none",
		"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,unsupported_method,allow_header_conformance"}, more...)
	cmd := exec.CommandContext(testContext(t), tool(t, "HAWSER_SCHEMATHESIS"), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil {
		t.Errorf("schemathesis: %v\n%s", err, text[max(0, len(text)-15000):])
		return
	}
	found := testCases.FindStringSubmatch(text)
	if found == nil || len(found[1]) < 3 {
		t.Errorf("schemathesis tried next to nothing:\n%s", text)
		return
	}
	t.Logf("schemathesis: %s requests, %s", found[1], strings.TrimSpace(text[strings.LastIndex(text, "Seed"):]))
}

// TestREST_PinnedOfficialClient runs a link's life with the old release of the vendor's client that Terraform's provider pins.
func TestREST_PinnedOfficialClient(t *testing.T) {
	t.Parallel()
	source := StartHawser(t)
	admin := Client(t, source.Kafka)
	CreateTopic(t, admin, "orders", 2, 1, nil)
	if err := admin.ProduceSync(testContext(t), texts("orders", "x", 0, 10)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	h := StartHawser(t)
	cmd := exec.CommandContext(testContext(t), "go", "run", ".", h.HTTP, h.Cluster, source.Kafka, "orders")
	cmd.Dir = "testdata/kafkarest014"
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "every step was understood") {
		t.Errorf("kafkarest v0.14.0: %v\n%s", err, out)
	}
}
