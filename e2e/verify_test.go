//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hawserio/hawser/kafka"
)

// report is a verified topic's report as check-report prints it.
type report struct {
	Verdict    string `json:"verdict"`
	Partitions []struct {
		From, To    int64
		Bytes       int64  `json:"identical_bytes"`
		Records     int64  `json:"records_compared"`
		Explained   int64  `json:"records_explained"`
		Differences int64  `json:"differences"`
		SHA256      string `json:"sha256"`
	} `json:"partitions"`
}

// verified runs the command line's verify and check-report, and wants their exit code.
func verified(t *testing.T, h *Hawser, topic string, wantCode int) (report, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.jws")
	shown, code := h.CLI("mirror", "verify", topic, "--link", "east", "--report", file)
	if code != wantCode {
		t.Fatalf("mirror verify %s: exit %d, want %d\n%s", topic, code, wantCode, shown)
	}
	key := keyOfReports(t, h)
	text, code := h.CLI("mirror", "check-report", file, "--key", key)
	if code != 0 {
		t.Fatalf("check-report: exit %d\n%s", code, text)
	}
	var r report
	if err := json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &r); err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	forged(t, h, file)
	return r, shown
}

func keyOfReports(t *testing.T, h *Hawser) string {
	t.Helper()
	text, _ := h.CLI("cluster", "describe", "-o", "json")
	var cluster struct {
		Key string `json:"report_key"`
	}
	if err := json.Unmarshal([]byte(text), &cluster); err != nil || cluster.Key == "" {
		t.Fatalf("cluster describe has no report key: %v\n%s", err, text)
	}
	return cluster.Key
}

// forged changes what was signed: check-report must see it.
func forged(t *testing.T, h *Hawser, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw[strings.IndexByte(string(raw), '.')+30] ^= 1
	other := file + ".forged"
	if err := os.WriteFile(other, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, code := h.CLI("mirror", "check-report", other); code != 1 {
		t.Errorf("check-report of a changed report: exit %d\n%s", code, text)
	}
}

// TestVerify_MirrorOfAStockKafka compares mirrors with their source while data flows: an ordinary topic, one that
// both sides compact by themselves, and one with a byte changed on the mirror's disk.
func TestVerify_MirrorOfAStockKafka(t *testing.T) {
	w := newPair(t)
	CreateTopic(t, w.source, "v-plain", 3, 3, nil)
	CreateTopic(t, w.source, "v-compact", 1, 1, map[string]string{"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"})
	w.h.CreateMirror("east", "v-plain")
	w.h.CreateMirror("east", "v-compact")
	for i := range 30 {
		produce(t, w.source, keyed("v-plain", fmt.Sprint("value ", i), "a", "b", "c", "d", "e", "f", "g", "h")...)
		produce(t, w.source, keyed("v-compact", fmt.Sprint("value ", i), "a", "b", fmt.Sprint("only ", i))...)
	}
	txn := Client(t, w.k.Bootstrap(), kgo.TransactionalID("verify"))
	for i := range 4 {
		if err := txn.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, txn, keyed("v-compact", fmt.Sprint("in transaction ", i), "a", "t")...)
		if err := txn.EndTransaction(testContext(t), kgo.TransactionEndTry(i%2 == 0)); err != nil {
			t.Fatal(err)
		}
	}
	w.level("v-plain", 3)
	r, shown := verified(t, w.h, "v-plain", 0)
	var bytes int64
	for _, p := range r.Partitions {
		bytes += p.Bytes
	}
	if r.Verdict != "IDENTICAL" || len(r.Partitions) != 3 || bytes == 0 || !strings.Contains(shown, "IDENTICAL: the same bytes") {
		t.Errorf("an ordinary topic: %+v\n%s", r, shown)
	}

	var compacted report
	eventually(t, 60*time.Second, "the source has compacted what the mirror still has", func() (bool, string) {
		produce(t, w.source, keyed("v-compact", time.Now().String(), "filler")...)
		w.level("v-compact", 1)
		compacted, shown = verified(t, w.h, "v-compact", 0)
		return compacted.Verdict == "EQUIVALENT" && compacted.Partitions[0].Explained > 20, fmt.Sprintf("%+v", compacted)
	})
	t.Logf("a compacted topic:\n%s", shown)

	topics, err := kadm.NewClient(w.mirror).ListTopics(testContext(t), "v-plain")
	if err != nil {
		t.Fatal(err)
	}
	spoilLog(t, w.h, kafka.PartitionID{Topic: kafka.TopicID(topics["v-plain"].ID), Partition: 1}.String())
	r, shown = verified(t, w.h, "v-plain", 1)
	if r.Verdict != "DIFFERENT" || r.Partitions[1].Differences == 0 || r.Partitions[0].Differences != 0 || !strings.Contains(shown, "damaged where it is stored") {
		t.Errorf("a flipped byte: %+v\n%s", r, shown)
	}
}

// spoilLog changes a byte in the middle of a partition's first segment.
func spoilLog(t *testing.T, h *Hawser, partition string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, "data", "data", partition+"*", "*.log"))
	if err != nil || len(files) == 0 {
		there, _ := filepath.Glob(filepath.Join(h.dir, "data", "data", "*"))
		t.Fatalf("no log of %s in %v: %v", partition, there, err)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, b := int64(100), []byte{0}
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}
