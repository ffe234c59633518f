//go:build e2e

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestConsole_ShowsMirrorsAndGivesOrders runs the console's script, as the broker serves it, over a page of its own: it shows links and
// mirrors, and fails a mirror over at a click.
func TestConsole_ShowsMirrorsAndGivesOrders(t *testing.T) {
	t.Parallel()
	src, h := StartHawser(t), StartHawser(t)
	source := byHand(t, src.Kafka)
	for _, topic := range []string{"shown", "other"} {
		CreateTopic(t, source, topic, 2, 1, nil)
	}
	h.CreateLink("east", src.Kafka, nil)
	h.CreateMirror("east", "shown")
	h.CreateMirror("east", "other")
	for _, topic := range []string{"shown", "other"} {
		write(t, source, topic, 0, 7, "v")
		WaitLevel(t, source, Client(t, h.Kafka), topic, 2, 30*time.Second)
	}
	served, err := http.Get(h.HTTP + "/console/console.js")
	fatal(t, err)
	defer served.Body.Close()
	script, err := io.ReadAll(served.Body)
	fatal(t, err)
	cmd := exec.CommandContext(testContext(t), "node", "testdata/console.js", h.HTTP, "shown")
	cmd.Stdin, cmd.Env = bytes.NewReader(script), os.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before, rest, _ := strings.Cut(string(out), "\nASKED ")
	asked, after, _ := strings.Cut(rest, "\nAFTER ")
	for _, word := range []string{"BEFORE cluster " + h.Cluster, "east", "from " + src.Cluster, "2 mirror topics", "shown", "other", "active", "p0: ", "p1: ", "behind, read up to 6", "TopicConfigsSync"} {
		if !strings.Contains(before, word) {
			t.Errorf("the console does not say %q: %s", word, before)
		}
	}
	if !strings.Contains(asked, "failover shown?") || !strings.Contains(asked, "Mirroring stops now and for good") {
		t.Errorf("before the order it asks %q", asked)
	}
	if !strings.Contains(after, "1 mirror topic ") || !strings.Contains(after, "stopped") || !strings.Contains(after, "active") {
		t.Errorf("after the order it says %s", after)
	}
	h.WaitStatus("east", "shown", "STOPPED", 10*time.Second)
	if m := h.Mirror("east", "other"); m.Status != "ACTIVE" {
		t.Errorf("the other mirror is %s", m.Status)
	}
}
