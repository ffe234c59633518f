//go:build e2e

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAlertRules_EachFiresAndIsSilent has the alert rules read by Prometheus' own parser, and each evaluated by its engine
// over series that must make it fire and over some that must not. The program is a module of its own: the engine needs
// more modules than all of hawser.
func TestAlertRules_EachFiresAndIsSilent(t *testing.T) {
	t.Parallel()
	rules, err := filepath.Abs("../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(testContext(t), "go", "run", ".", rules)
	cmd.Dir = "testdata/alerts"
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "10 alerts hold") {
		t.Errorf("%v\n%s", err, out)
	}
}
