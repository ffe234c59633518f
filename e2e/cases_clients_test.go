//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestC63_ConsumersGoOnOverPromote lets readers of a mirror (franz-go, kcat, Java, Sarama) read on into what is produced here.
func TestC63_ConsumersGoOnOverPromote(t *testing.T) {
	w := newPair(t)
	topic := "c63"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	w.h.CreateMirror("east", topic)
	produce(t, w.source, texts(topic, "r", 0, 500)...)
	w.level(topic, 1)
	reader := Client(t, w.h.Kafka, kgo.ConsumerGroup("local"), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	have := pollOffsets(t, reader, 500)
	kcatOut := filepath.Join(t.TempDir(), "kcat")
	kc, err := startProcess(exec.Command("kcat", "-b", w.h.Kafka, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-q", "-u", "-c", "1500", "-f", "%o\\n"), kcatOut)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kc.end(syscall.SIGKILL, 10*time.Second) }()
	lines := func() int { text, _ := os.ReadFile(kcatOut); return strings.Count(string(text), "\n") }
	javaOut := filepath.Join(t.TempDir(), "java")
	java, err := startProcess(exec.Command("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", filepath.Join(w.k.libs, "*"), "org.apache.kafka.tools.consumer.ConsoleConsumer",
		"--bootstrap-server", w.h.Kafka, "--topic", topic, "--group", "java", "--from-beginning", "--max-messages", "1500", "--property", "print.offset=true", "--property", "print.value=false"), javaOut)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = java.end(syscall.SIGKILL, 10*time.Second) }()
	javaOffsets := regexp.MustCompile(`(?m)^Offset:(\d+)`)
	javaLines := func() int { text, _ := os.ReadFile(javaOut); return len(javaOffsets.FindAll(text, -1)) }
	sr := saramaReader(t, w.h.Kafka, topic, 0, sarama.OffsetOldest)
	saramaHas := nextOffsets(t, sr, 500)
	_, id, _, err := leader(testContext(t), w.mirror, topic, 0)
	fatal(t, err)
	eventually(t, 30*time.Second, "kcat has read the mirror", func() (bool, string) { n := lines(); return n >= 500, fmt.Sprint(n) })
	eventually(t, 60*time.Second, "the Java consumer has read the mirror", func() (bool, string) { n := javaLines(); return n >= 500, fmt.Sprint(n) })
	w.h.Order("east", "promote", topic)
	w.h.WaitStatus("east", topic, "STOPPED", 60*time.Second)
	produce(t, w.mirror, texts(topic, "here", 0, 1000)...)
	have = append(have, pollOffsets(t, reader, 1000)...)
	for i, at := range have {
		if at != int64(i) {
			t.Fatalf("franz-go reads offset %d as record %d", at, i)
		}
	}
	eventually(t, 30*time.Second, "kcat has read on", func() (bool, string) { n := lines(); return n >= 1500, fmt.Sprint(n) })
	text, err := os.ReadFile(kcatOut)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Fields(string(text)) {
		if line != fmt.Sprint(i) {
			t.Fatalf("kcat reads %q as record %d", line, i)
		}
	}
	saramaHas = append(saramaHas, nextOffsets(t, sr, 1000)...)
	eventually(t, 60*time.Second, "the Java consumer has read on", func() (bool, string) { n := javaLines(); return n >= 1500, fmt.Sprint(n) })
	if text, err = os.ReadFile(javaOut); err != nil {
		t.Fatal(err)
	}
	found := javaOffsets.FindAllSubmatch(text, -1)
	for i := range 1500 {
		if string(found[i][1]) != fmt.Sprint(i) || saramaHas[i] != fmt.Sprint(i) {
			t.Fatalf("as record %d Java reads %s, Sarama %s", i, found[i][1], saramaHas[i])
		}
	}
	// The topic is the same one for clients that go by its id, also after a restart (case C96).
	w.restart()
	if _, now, _, err := leader(testContext(t), w.mirror, topic, 0); err != nil || now != id || id.IsZero() {
		t.Errorf("the topic's id was %s, and is %s after promote and a restart: %v", id, now, err)
	}
}

// saramaReader gives a partition's records, as Sarama reads what is committed.
func saramaReader(t *testing.T, bootstrap, topic string, partition int32, from int64) <-chan *sarama.ConsumerMessage {
	t.Helper()
	config := saramaConfig(sarama.V4_1_0_0)
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer(splitComma(bootstrap), config)
	fatal(t, err)
	t.Cleanup(func() { consumer.Close() })
	reader, err := consumer.ConsumePartition(topic, partition, from)
	fatal(t, err)
	t.Cleanup(reader.AsyncClose)
	records := make(chan *sarama.ConsumerMessage)
	ctx := testContext(t)
	go func() {
		defer close(records)
		for m := range reader.Messages() {
			select {
			case records <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return records
}

// saramaReads reads n records from an offset on with read_committed, a line each: keys and values that are null are told from empty ones.
func saramaReads(t *testing.T, bootstrap, topic string, partition int32, from int64, n int) string {
	t.Helper()
	records := saramaReader(t, bootstrap, topic, partition, from)
	var text strings.Builder
	patience := time.After(60 * time.Second)
	for i := range n {
		select {
		case m := <-records:
			if m == nil {
				t.Fatalf("Sarama ends after %d of %d records", i, n)
			}
			fmt.Fprintf(&text, "%d %#v %#v", m.Offset, m.Key, m.Value)
			for _, h := range m.Headers {
				fmt.Fprintf(&text, " %#v=%#v", h.Key, h.Value)
			}
			text.WriteString("\n")
		case <-patience:
			t.Fatalf("Sarama reads %d of %d records of %s-%d from %d", i, n, topic, partition, from)
		}
	}
	return text.String()
}

// nextOffsets are the offsets of the next n records.
func nextOffsets(t *testing.T, records <-chan *sarama.ConsumerMessage, n int) []string {
	t.Helper()
	var list []string
	patience := time.After(60 * time.Second)
	for len(list) < n {
		select {
		case m := <-records:
			if m == nil {
				t.Fatalf("Sarama ends after %d of %d records", len(list), n)
			}
			list = append(list, fmt.Sprint(m.Offset))
		case <-patience:
			t.Fatalf("Sarama reads %d of %d records", len(list), n)
		}
	}
	return list
}

// TestC79_LibrdkafkaWithoutApiVersions has librdkafka speak as to a broker from before brokers told their versions: it works, or says why
// not, and never waits for ever.
func TestC79_LibrdkafkaWithoutApiVersions(t *testing.T) {
	t.Parallel()
	h := StartHawser(t)
	CreateTopic(t, Client(t, h.Kafka), "c79", 1, 1, nil)
	for _, fallback := range []string{"0.10.0", "0.9.0"} {
		old := []string{"-b", h.Kafka, "-X", "api.version.request=false", "-X", "broker.version.fallback=" + fallback, "-X", "message.timeout.ms=8000"}
		write := exec.CommandContext(testContext(t), "kcat", append(old, "-P", "-t", "c79", "-p", "0")...)
		write.Stdin = strings.NewReader("v\n")
		wrote, writeErr := bounded(t, write)
		read, readErr := bounded(t, exec.CommandContext(testContext(t), "kcat", append(old, "-C", "-t", "c79", "-p", "0", "-o", "beginning", "-e", "-q")...))
		t.Logf("as to %s: write %v %q, read %v %q", fallback, writeErr, wrote, readErr, read)
		for what, out := range map[string]string{"write": wrote, "read": read} {
			err := map[string]error{"write": writeErr, "read": readErr}[what]
			if err != nil && (strings.Contains(err.Error(), "killed") || strings.TrimSpace(out) == "") {
				t.Errorf("as to %s, it cannot %s and gives no reason: %v %q", fallback, what, err, out)
			}
		}
	}
}
