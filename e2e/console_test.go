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

// atConsole runs the console's scripts, as the broker serves them, over a page of its own: a person gives an order to a topic there, and
// says yes. It is what the page said before, what it asked, and what it said once it said awaited.
func atConsole(t *testing.T, h *Hawser, order, topic, awaited string) (before, asked, after string) {
	t.Helper()
	var scripts []io.Reader
	for _, name := range []string{"orders", "console"} {
		served, err := http.Get(h.HTTP + "/console/" + name + ".js")
		fatal(t, err)
		defer served.Body.Close()
		scripts = append(scripts, served.Body)
	}
	script, err := io.ReadAll(io.MultiReader(scripts...))
	fatal(t, err)
	cmd := exec.CommandContext(testContext(t), "node", "testdata/console.js", h.HTTP, order, topic, awaited)
	cmd.Stdin, cmd.Env = bytes.NewReader(script), os.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", order, topic, err, out)
	}
	before, rest, _ := strings.Cut(string(out), "\nASKED ")
	asked, after, _ = strings.Cut(rest, "\nAFTER ")
	return before, asked, after
}

// says wants words in what a page said.
func says(t *testing.T, when, said string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(said, word) {
			t.Errorf("%s the console does not say %q: %s", when, word, said)
		}
	}
}

// TestConsole_ShowsMirrorsAndGivesOrders: it shows links and mirrors, and fails a mirror over at a click.
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
	before, asked, after := atConsole(t, h, "failover", "shown", "1 mirror topic ")
	says(t, "before", before, "BEFORE cluster "+h.Cluster, "east", "from "+src.Cluster, "2 mirror topics", "shown", "other", "active", "p0: ", "p1: ", "behind, read up to 6", "TopicConfigsSync")
	if strings.Contains(before, "reverse-and-start") || strings.Contains(before, "restore a topic") {
		t.Errorf("over a link in one direction it offers to turn a mirror: %s", before)
	}
	says(t, "asking", asked, "failover shown?", "Mirroring stops now and for good")
	says(t, "after", after, "1 mirror topic ", "stopped", "active")
	h.WaitStatus("east", "shown", "STOPPED", 10*time.Second)
	if m := h.Mirror("east", "other"); m.Status != "ACTIVE" {
		t.Errorf("the other mirror is %s", m.Status)
	}
}

// TestConsole_ReversesAndRestores: over a link in both directions a mirror is reversed at a click, and a topic that was failed over at the
// other cluster is restored, each after it was said what that does.
func TestConsole_ReversesAndRestores(t *testing.T) {
	t.Parallel()
	a, b := StartHawser(t), StartHawser(t)
	source := byHand(t, a.Kafka)
	a.mustHalf("both", b.Cluster, map[string]string{"link.mode": "BIDIRECTIONAL", "bootstrap.servers": b.Kafka})
	b.mustHalf("both", a.Cluster, map[string]string{"link.mode": "BIDIRECTIONAL", "bootstrap.servers": a.Kafka})
	for _, topic := range []string{"turned", "lost"} {
		CreateTopic(t, source, topic, 1, 1, nil)
		b.CreateMirror("both", topic)
		write(t, source, topic, 0, 5, "v")
		WaitLevel(t, source, Client(t, b.Kafka), topic, 1, 30*time.Second)
	}

	// A person who is told no asks again; the page's is not that patient.
	b.eventuallyOrder("both", "reverse-and-start-mirror?validate_only=true", "turned")
	before, asked, _ := atConsole(t, b, "reverse-and-start", "turned", "stopped")
	says(t, "before", before, "both ways with "+a.Cluster, "reverse-and-pause", "restore a topic")
	says(t, "asking", asked, "reverse-and-start turned?", "Nothing that is known of is left to copy.", "The source refuses producers from now on")
	b.WaitStatus("both", "turned", "STOPPED", 20*time.Second)
	a.WaitStatus("both", "turned", "ACTIVE", 20*time.Second)

	b.Order("both", "failover", "lost")
	b.WaitStatus("both", "lost", "STOPPED", 20*time.Second)
	write(t, source, "lost", 0, 3, "only here")
	a.eventuallyOrder("both", "truncate-and-restore?validate_only=true", "lost")
	_, asked, _ = atConsole(t, a, "restore", "lost", "2 mirror topics")
	says(t, "asking", asked, "Restore which topic over both?", "3 records are cut off", "truncate-and-restore lost?",
		"3 records that only this cluster has are cut off, and kept in the topic hawser.cut.lost.<time>.", "Partition 0: 3, from offset 5 on.", "becomes a read-only mirror")
	a.WaitStatus("both", "lost", "ACTIVE", 20*time.Second)
	if _, end, err := ends(testContext(t), source, "lost", 0); err != nil || end != 5 {
		t.Errorf("after the restore the topic ends at %d, %v", end, err)
	}
}
