//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// rounds of data on each side of the mirrors' creation; leaders move after each.
const rounds = 3

// TestSpine_EveryShapeByteForByte mirrors every kind of data from a stock
// three-broker Kafka whose leaders move and restart before and while it is
// mirrored, and compares bytes, ends, epochs and views.
func TestSpine_EveryShapeByteForByte(t *testing.T) {
	k := SharedKafka(t)
	source := Client(t, k.Bootstrap())
	all := shapes()
	var names []string
	for _, s := range all {
		CreateTopic(t, source, s.topic, s.partitions, cmp.Or(s.replicas, 3), s.configs)
		names = append(names, s.topic)
	}
	fill := func(round int) {
		for _, s := range all {
			s.fill(t, k, s.topic, round)
		}
	}
	for round := range rounds {
		fill(round)
		moveLeaders(t, k, names...)
	}

	for _, s := range all {
		if s.before != nil {
			s.before(t, k, s.topic)
		}
	}
	h := StartHawser(t)
	h.CreateLink("east", k.Bootstrap(), nil)
	for _, s := range all {
		h.CreateMirror("east", s.topic)
	}
	for round := range rounds {
		fill(rounds + round)
		moveLeaders(t, k, names...)
	}
	k.Kill(t, 3)
	k.Start(t, 3)
	fill(2 * rounds)
	for _, s := range all {
		if s.finish != nil {
			s.finish(t, k, s.topic)
		}
	}

	mirror := Client(t, h.Kafka)
	for _, s := range all {
		t.Run(s.topic, func(t *testing.T) {
			WaitLevel(t, source, mirror, s.topic, s.partitions, 60*time.Second)
			SameAll(t, source, mirror, s.topic, s.partitions)
			for p := range s.partitions {
				sameEpochs(t, source, mirror, s.topic, p)
				sameView(t, k, h, s.topic, p)
			}
			if m := h.Mirror("east", s.topic); m.Status != "ACTIVE" || m.Lag != 0 {
				t.Errorf("mirror shows %s with lag %d", m.Status, m.Lag)
			}
		})
	}
	t.Run("other clients read the same", func(t *testing.T) { otherClients(t, k, h, all) })
	_, compacted, _, err := leader(testContext(t), mirror, "s-compacted", 0)
	if err != nil {
		t.Fatal(err)
	}
	h.Stop()
	t.Run("segments pass kafka-dump-log", func(t *testing.T) { dumpSegments(t, k, h, compacted.String()) })
	h.Start()
	t.Run("after a restart", func(t *testing.T) {
		again := Client(t, h.Kafka)
		for _, s := range all {
			SameAll(t, source, again, s.topic, s.partitions)
		}
	})
}

func sameEpochs(t *testing.T, source, mirror *kgo.Client, topic string, partition int32) {
	t.Helper()
	start, end := Ends(t, source, topic, partition)
	if start == end {
		return
	}
	epochs := epochsOf(Raw(t, source, topic, partition, start, end))
	if strings.HasPrefix(topic, "s-codec") && len(epochs) < 5 {
		t.Errorf("the source has %d leader epochs, the test wants 5 or more", len(epochs))
	}
	for _, epoch := range epochs {
		e1, o1 := EpochEnd(t, source, topic, partition, epoch)
		e2, o2 := EpochEnd(t, mirror, topic, partition, epoch)
		if e1 != e2 || o1 != o2 {
			t.Errorf("%s-%d: OffsetForLeaderEpoch(%d) is (%d, %d) at the source, (%d, %d) at the mirror", topic, partition, epoch, e1, o1, e2, o2)
		}
	}
}

// sameView compares what a read_committed consumer gets, from several start offsets (case C07).
func sameView(t *testing.T, k *Kafka, h *Hawser, topic string, partition int32) {
	t.Helper()
	source := Client(t, k.Bootstrap())
	start, end := Ends(t, source, topic, partition)
	step := max(1, (end-start)/4)
	for from := start; from < end; from += step {
		want := view(t, k.Bootstrap(), topic, partition, from, end)
		have := view(t, h.Kafka, topic, partition, from, end)
		if !slices.Equal(want, have) {
			t.Fatalf("%s-%d: a read_committed reader from %d gets %d records from the source and %d from the mirror", topic, partition, from, len(want), len(have))
		}
	}
}

// view reads [from, end) with read_committed: a line a record.
func view(t *testing.T, bootstrap, topic string, partition int32, from, end int64) []string {
	t.Helper()
	client := Client(t, bootstrap,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer client.Close()
	ctx := testContext(t)
	var lines []string
	for next := from; next < end; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read %s-%d from %d: stuck at %d of %d", topic, partition, from, next, end)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				next = r.Offset + 1
				if r.Attrs.IsControl() {
					continue
				}
				lines = append(lines, line(r))
			}
			// Aborted records at the very end are not handed out; the position tells.
			if p.LastStableOffset >= end && len(p.Records) == 0 {
				next = end
			}
		})
		if next < end && fetches.NumRecords() == 0 {
			next = end
		}
	}
	return lines
}

func line(r *kgo.Record) string {
	var headers []string
	for _, h := range r.Headers {
		headers = append(headers, fmt.Sprintf("%q=%q/%t", h.Key, h.Value, h.Value == nil))
	}
	return fmt.Sprintf("%d %d k=%q/%t v=%x/%t h=%s", r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Key == nil, short(r.Value), r.Value == nil, strings.Join(headers, ","))
}

func short(b []byte) []byte {
	if len(b) > 64 {
		return append(slices.Clone(b[:64]), byte(len(b)), byte(len(b)>>8), byte(len(b)>>16))
	}
	return b
}

// dumpSegments runs Kafka's own checker over hawser's segment files.
// compacted is the id of the topic that may have holes.
func dumpSegments(t *testing.T, k *Kafka, h *Hawser, compacted string) {
	files, err := filepath.Glob(filepath.Join(h.dir, "data", "data", "*", "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no segment files found: %v", err)
	}
	sort.Strings(files)
	var full []string
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Size() > 0 {
			full = append(full, f)
		}
	}
	out := k.Tool(t, "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", strings.Join(full, ","))
	for _, bad := range []string{"Found invalid messages", "isvalid: false", "Mismatches in", "not found in"} {
		if strings.Contains(out, bad) {
			t.Errorf("kafka-dump-log says %q", bad)
		}
	}
	for _, file := range regexp.MustCompile(`Non-consecutive offsets in (\S+)`).FindAllStringSubmatch(out, -1) {
		if !strings.Contains(file[1], compacted) { // holes are what compaction is for
			t.Errorf("kafka-dump-log finds holes in %s", file[1])
		}
	}
	t.Logf("kafka-dump-log read %d segments, %d lines", len(full), strings.Count(out, "\n"))
}
