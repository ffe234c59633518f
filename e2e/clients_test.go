//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// otherClients compares what kcat, Kafka's console consumer and kafka-python read
// from the source and from the mirror.
func otherClients(t *testing.T, k *Kafka, h *Hawser, all []shape) {
	for _, s := range all {
		if s.topic == "s-large" || s.topic == "s-empty-at-n" { // too long to print; nothing to print
			continue
		}
		t.Run("kcat/"+s.topic, func(t *testing.T) {
			sameText(t, kcat(t, k.Bootstrap(), s.topic), kcat(t, h.Kafka, s.topic))
		})
	}
	for _, topic := range []string{"s-transactions", "s-compacted"} {
		t.Run("console consumer/"+topic, func(t *testing.T) {
			sameText(t, console(t, k, k.Bootstrap(), topic), console(t, k, h.Kafka, topic))
		})
	}
	t.Run("kafka-python", func(t *testing.T) {
		topics := []string{"s-codec-none", "s-codec-gzip", "s-codec-lz4", "s-append-time", "s-old-times"}
		sameText(t, python(t, "read.py", k.Bootstrap(), topics...), python(t, "read.py", h.Kafka, topics...))
	})
}

func sameText(t *testing.T, want, have string) {
	t.Helper()
	if want == "" {
		t.Fatal("the source gave nothing to read")
	}
	if want != have {
		w, m := strings.Split(want, "\n"), strings.Split(have, "\n")
		for i := range min(len(w), len(m)) {
			if w[i] != m[i] {
				t.Fatalf("line %d of %d and %d:\nsource %q\nmirror %q", i, len(w), len(m), w[i], m[i])
			}
		}
		t.Fatalf("source gives %d lines, mirror %d", len(w), len(m))
	}
}

func kcat(t *testing.T, bootstrap, topic string) string {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), "kcat", "-b", bootstrap, "-C", "-t", topic, "-e", "-q", "-o", "beginning",
		"-X", "check.crcs=true", "-f", "%p %o %T %K %k %S %s %h\\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kcat %s %s: %v", bootstrap, topic, err)
	}
	return sortLines(string(out))
}

func sortLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	// Partitions come interleaved as they like; within one the order must hold, and
	// offsets in the lines keep it visible.
	byPartition := map[string][]string{}
	var order []string
	for _, l := range lines {
		p, _, _ := strings.Cut(l, " ")
		if byPartition[p] == nil {
			order = append(order, p)
		}
		byPartition[p] = append(byPartition[p], l)
	}
	var out []string
	for _, p := range []string{"0", "1", "2", "3"} {
		out = append(out, byPartition[p]...)
		delete(byPartition, p)
	}
	for _, p := range order {
		out = append(out, byPartition[p]...)
	}
	return strings.Join(out, "\n")
}

func console(t *testing.T, k *Kafka, bootstrap, topic string) string {
	t.Helper()
	config := t.TempDir() + "/consumer.properties"
	if err := os.WriteFile(config, []byte("isolation.level=read_committed\ncheck.crcs=true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := k.Run(testContext(t), "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", topic,
		"--partition", "0", "--offset", "earliest", "--timeout-ms", "4000", "--consumer.config", config,
		"--property", "print.offset=true", "--property", "print.timestamp=true", "--property", "print.key=true", "--property", "print.headers=true")
	var kept []string
	for _, l := range strings.Split(out, "\n") {
		if strings.Contains(l, "Offset:") {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "\n")
}

func python(t *testing.T, script, bootstrap string, args ...string) string {
	t.Helper()
	interpreter := os.Getenv("HAWSER_PYTHON")
	if interpreter == "" {
		t.Fatal("HAWSER_PYTHON is not set: run these tests with make test")
	}
	ctx, cancel := context.WithTimeout(testContext(t), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, append([]string{"testdata/" + script, bootstrap}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", fmt.Sprint(cmd.Args), err, out)
	}
	return string(out)
}
