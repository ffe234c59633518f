//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// compacting are configs under which the cleaner is at work all the time.
var compacting = map[string]string{
	"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "3600000",
}

// written is where a key's newest record went.
type written struct {
	offset int64
	value  string // "" for a tombstone
}

// TestCompactionWithKills updates keys over and over, in aborted transactions too, kills the broker meanwhile, and
// wants the newest record of each key at its offset, before and after the mirror of it has compacted by itself.
func TestCompactionWithKills(t *testing.T) {
	updates, keys := envInt("HAWSER_COMPACT_UPDATES", 1_000_000), envInt("HAWSER_COMPACT_KEYS", 10_000)
	h := StartHawser(t, "--set", "log.cleaner.backoff.ms=50")
	dst := StartHawser(t, "--set", "log.cleaner.backoff.ms=50")
	client := Client(t, h.Kafka)
	CreateTopic(t, client, "compact", 1, 1, compacting)
	dst.CreateLink("east", h.Kafka, fastLink)
	dst.Must("POST", dst.path("/links/east/mirrors"), map[string]any{
		"source_topic_name": "compact", "configs": []map[string]string{{"name": "segment.bytes", "value": "1048576"}, {"name": "min.cleanable.dirty.ratio", "value": "0.01"}},
	})
	newest := map[string]written{}
	rng := rand.New(rand.NewPCG(1, 1))
	const rounds = 8
	for round := range rounds {
		updateKeys(t, h.Kafka, rng, newest, keys, updates/rounds)
		abortSome(t, h.Kafka, keys)
		if round%2 == 1 {
			h.Kill()
			h.Start()
		}
	}
	for _, x := range []*Hawser{h, dst} {
		c := Client(t, x.Kafka)
		if x == dst {
			WaitLevel(t, client, c, "compact", 1, time.Minute)
		}
		cleanerRests(t, x)
		newestAre(t, c, newest)
	}
	sameByTheRule(t, client, Client(t, dst.Kafka), "compact")
	h.Stop()
	dst.Stop()
	dumpCompacted(t, h)
	dumpCompacted(t, dst)
	h.Start()
	newestAre(t, Client(t, h.Kafka), newest)
}

func updateKeys(t *testing.T, bootstrap string, rng *rand.Rand, newest map[string]written, keys, n int) {
	t.Helper()
	c := Client(t, bootstrap, kgo.DefaultProduceTopic("compact"), kgo.ProducerLinger(2*time.Millisecond),
		kgo.ProducerBatchCompression([]kgo.CompressionCodec{kgo.NoCompression(), kgo.SnappyCompression(), kgo.Lz4Compression()}[rng.IntN(3)]))
	defer c.Close()
	for n > 0 {
		records := make([]*kgo.Record, min(n, 5000))
		for i := range records {
			records[i] = &kgo.Record{Key: fmt.Appendf(nil, "key%d", rng.IntN(keys)), Value: fmt.Appendf(nil, "%032x", rng.Uint64())}
			if rng.IntN(50) == 0 {
				records[i].Value = nil
			}
		}
		if err := c.ProduceSync(testContext(t), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Offset >= newest[string(r.Key)].offset {
				newest[string(r.Key)] = written{r.Offset, string(r.Value)}
			}
		}
		n -= len(records)
	}
}

// abortSome writes records that must never be seen as anybody's newest.
func abortSome(t *testing.T, bootstrap string, keys int) {
	t.Helper()
	ctx := testContext(t)
	c := Client(t, bootstrap, kgo.DefaultProduceTopic("compact"), kgo.TransactionalID("compact-abort"))
	defer c.Close()
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		c.Produce(ctx, &kgo.Record{Key: fmt.Appendf(nil, "key%d", i%keys), Value: []byte("aborted")}, nil)
	}
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
}

var metricRuns = regexp.MustCompile(`(?m)^hawser_cleaner_runs_total (\S+)`)

// cleanerRests waits until the cleaner finds no more to do.
func cleanerRests(t *testing.T, h *Hawser) {
	t.Helper()
	last, same := -1.0, 0
	eventually(t, time.Minute, "the cleaner has no more to do", func() (bool, string) {
		rs, err := http.Get(h.HTTP + "/metrics")
		if err != nil {
			return false, err.Error()
		}
		defer rs.Body.Close()
		text, err := io.ReadAll(rs.Body)
		if err != nil {
			return false, err.Error()
		}
		found := metricRuns.FindSubmatch(text)
		if found == nil {
			return false, "no hawser_cleaner_runs_total"
		}
		runs, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return false, err.Error()
		}
		if runs == last {
			same++
		} else {
			last, same = runs, 0
		}
		return same >= 10, fmt.Sprintf("%v runs", runs)
	})
}

func newestAre(t *testing.T, c *kgo.Client, want map[string]written) {
	t.Helper()
	start, end := Ends(t, c, "compact", 0)
	have, last, records := map[string]written{}, int64(-1), 0
	for b, err := range batch.Batches(Raw(t, c, "compact", 0, start, end)).All() {
		if err == nil {
			err = b.CheckCRC()
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.IsControl() {
			continue
		}
		for r, err := range b.Records(64 << 20) {
			if err != nil {
				t.Fatal(err)
			}
			if int64(r.Offset) <= last {
				t.Fatalf("offset %d comes after %d", r.Offset, last)
			}
			last = int64(r.Offset)
			records++
			if string(r.Value) != "aborted" {
				have[string(r.Key)] = written{last, string(r.Value)}
			}
		}
	}
	for key, w := range want {
		if have[key] != w {
			t.Fatalf("newest of %s is %+v, want %+v", key, have[key], w)
		}
	}
	t.Logf("%d records are left for %d keys, the log ends at %d", records, len(want), end)
	if records > len(want)*3+40_000 {
		t.Errorf("%d records are left: it was not compacted", records)
	}
}

// sameByTheRule compares two compacted partitions (DESIGN section 6).
func sameByTheRule(t *testing.T, source, mirror *kgo.Client, topic string) {
	t.Helper()
	sides := [2]retain.Side{}
	for i, c := range []*kgo.Client{source, mirror} {
		start, end := Ends(t, c, topic, 0)
		sides[i] = retain.Side{Start: kafka.Offset(start), End: kafka.Offset(end), CleanedTo: kafka.Offset(end)}
		for b, err := range batch.Batches(Raw(t, c, topic, 0, start, end)).All() {
			if err != nil {
				t.Fatal(err)
			}
			// Records of aborted transactions are found by their value here.
			for r, err := range b.Records(64 << 20) {
				if err != nil {
					t.Fatal(err)
				}
				sides[i].Records = append(sides[i].Records, retain.NewSurvivor(r, b.IsControl() || string(r.Value) == "aborted"))
			}
		}
	}
	for _, d := range retain.Compare(sides[0], sides[1], 10) {
		t.Errorf("%s: %v", topic, d)
	}
	t.Logf("source keeps %d records, mirror %d", len(sides[0].Records), len(sides[1].Records))
}

// dumpCompacted has Kafka's own tool read every segment of a broker that is stopped.
func dumpCompacted(t *testing.T, h *Hawser) {
	t.Helper()
	libs := os.Getenv("HAWSER_KAFKA_LIBS")
	if libs == "" {
		t.Fatal("HAWSER_KAFKA_LIBS must name the directory of Kafka's jars")
	}
	files, err := filepath.Glob(filepath.Join(h.dir, "data", "data", "*", "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	sort.Strings(files)
	out, err := runJava(testContext(t), libs, nil, "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", strings.Join(files, ","))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"Found invalid messages", "isvalid: false", "Mismatches in", "not found in", "Could not read"} {
		if i := strings.Index(out, bad); i >= 0 {
			t.Errorf("kafka-dump-log says %s", out[i:min(len(out), i+300)])
		}
	}
	t.Logf("kafka-dump-log read %d segments, %d lines", len(files), strings.Count(out, "\n"))
}
