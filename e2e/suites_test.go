//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSuites_FranzGo runs tests that come with franz-go: chains of groups of every assignor, of both protocols, whose members
// come and go, with and without transactions, and want each record once and in order. scripts/suites runs the rest of them.
func TestSuites_FranzGo(t *testing.T) {
	t.Parallel()
	tests := filepath.Join(t.TempDir(), "kgo.test")
	runProgram(t, exec.CommandContext(testContext(t), "go", "test", "-c", "-o", tests, "github.com/twmb/franz-go/pkg/kgo"))
	h := StartHawser(t)
	wanted := []string{"TestGroupETL", "TestTxnEtl", "Test848RegexBrokerResolves"}
	cmd := exec.CommandContext(testContext(t), tests, "-test.v", "-test.timeout=240s", "-test.run=^("+strings.Join(wanted, "|")+")$")
	cmd.Env = append(os.Environ(), "KGO_SEEDS="+h.Kafka, "KGO_TEST_RF=1", "KGO_TEST_RECORDS=1000", "KGO_TEST_MAX_TOPIC_PARTS=11", "KGO_LOG_LEVEL=none")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range wanted {
		if !strings.Contains(string(out), "\n--- PASS: "+name+" ") {
			t.Errorf("%s did not pass:\n%s", name, out)
		}
	}
}
