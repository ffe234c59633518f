//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestSource_SpeaksWithKafka runs the tests of package link/source that want a Kafka.
func TestSource_SpeaksWithKafka(t *testing.T) {
	t.Parallel()
	source := GuardedKafka(t) // with an authorizer, so that it has ACLs to list
	cmd := exec.CommandContext(testContext(t), "go", "test", "-count=1", "-v", "-run=^TestRealKafka", "github.com/hawserio/hawser/link/source")
	cmd.Env = append(os.Environ(), "HAWSER_TEST_KAFKA="+source.Bootstrap())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"IsMirrored", "TrimsRecreatesAndIsCaughtUp", "OpenTransactionIsNotCaughtUp", "GroupsAndConfigs", "ACLs"} {
		if !strings.Contains(string(out), "--- PASS: TestRealKafka"+name+" ") {
			t.Errorf("TestRealKafka%s did not pass:\n%s", name, out)
		}
	}
}
