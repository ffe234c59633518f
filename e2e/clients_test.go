//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// reading is what a client read of one topic, and where it stood at the end.
type reading struct {
	records   []string        // a line each
	positions map[int32]int64 // of each partition; nil for a client that does not tell
}

// consoleSilence is after how long without a record the console consumer ends, its start included.
const consoleSilence = 10 * time.Second

// otherClients compares, for every shape, what each client reads from the source and from the mirror. No client may
// leave a record out that franz-go reads, nor stop before the end.
func otherClients(t *testing.T, k *Kafka, h *Hawser, all []shape) {
	readers := []struct {
		name string
		read func(t *testing.T, bootstrap string, all []shape) map[string]reading
	}{
		{"franz-go", franzReads}, {"kcat", kcatReads}, {"console consumer", consoleReads}, {"kafka-python", pythonReads},
	}
	source := Client(t, k.Bootstrap())
	var want map[string]reading // franz-go's, of the source
	for _, r := range readers {
		t.Run(r.name, func(t *testing.T) {
			var original, copied map[string]reading
			t.Run("reads", func(t *testing.T) { // side by side: the console consumer waits for long before it ends
				t.Run("source", func(t *testing.T) { t.Parallel(); original = r.read(t, k.Bootstrap(), all) })
				t.Run("mirror", func(t *testing.T) { t.Parallel(); copied = r.read(t, h.Kafka, all) })
			})
			if want == nil {
				want = original
			}
			for _, s := range all {
				t.Run(s.topic, func(t *testing.T) {
					sameReading(t, original[s.topic], copied[s.topic])
					if have := len(copied[s.topic].records); have != len(want[s.topic].records) {
						t.Errorf("%d records, franz-go reads %d", have, len(want[s.topic].records))
					}
					for p := range s.partitions {
						position, told := copied[s.topic].positions[p]
						if _, end := Ends(t, source, s.topic, p); copied[s.topic].positions != nil && (!told || position != end) {
							t.Errorf("partition %d was read to %d, the source's end is %d", p, position, end)
						}
					}
				})
			}
		})
	}
	for _, s := range all {
		if n := len(want[s.topic].records); (n == 0) != (s.topic == emptyTopic) {
			t.Errorf("franz-go read %d records of %s", n, s.topic)
		}
	}
}

func sameReading(t *testing.T, source, mirror reading) {
	t.Helper()
	if len(source.records)+len(mirror.records) > 0 {
		sameText(t, strings.Join(source.records, "\n"), strings.Join(mirror.records, "\n"))
	}
	for p, position := range source.positions {
		if mirror.positions[p] != position {
			t.Errorf("partition %d of the source was read to %d, of the mirror to %d", p, position, mirror.positions[p])
		}
	}
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
				t.Fatalf("line %d of %d and %d:\nsource %.2000q\nmirror %.2000q", i, len(w), len(m), w[i], m[i])
			}
		}
		t.Fatalf("source gives %d lines, mirror %d", len(w), len(m))
	}
}

// franzReads reads with franz-go. Of an empty partition it must get nothing, and no error, from its earliest offset.
func franzReads(t *testing.T, bootstrap string, all []shape) map[string]reading {
	client := Client(t, bootstrap)
	found := map[string]reading{}
	for _, s := range all {
		var r reading
		for p := range s.partitions {
			start, end := Ends(t, client, s.topic, p)
			if start == end {
				nothing(t, bootstrap, s.topic, p)
			}
			r.records = append(r.records, view(t, bootstrap, s.topic, p, start, end)...)
		}
		found[s.topic] = r
	}
	return found
}

// nothing wants a reader from the start to get no record and no error.
func nothing(t *testing.T, bootstrap, topic string, partition int32) {
	t.Helper()
	client := Client(t, bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(testContext(t), time.Second)
	defer cancel()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if n := fetches.NumRecords(); n > 0 {
			t.Errorf("%s-%d is empty and gave %d records", topic, partition, n)
		}
		if err := fetches.Err(); err != nil && ctx.Err() == nil {
			t.Errorf("read the empty %s-%d: %v", topic, partition, err)
		}
	}
}

// kcatEnd is how kcat says that it has read a partition.
var kcatEnd = regexp.MustCompile(`Reached end of topic \S+ \[(\d+)\] at offset (\d+)`)

func kcatReads(t *testing.T, bootstrap string, all []shape) map[string]reading {
	found := map[string]reading{}
	for _, s := range all {
		text, said := kcatSaying(t, bootstrap, s.topic)
		found[s.topic] = reading{records: byPartition(text), positions: positions(kcatEnd.FindAllStringSubmatch(said, -1))}
	}
	return found
}

// positions makes a map of pairs that an expression found.
func positions(pairs [][]string) map[int32]int64 {
	all := map[int32]int64{}
	for _, pair := range pairs {
		p, _ := strconv.ParseInt(pair[len(pair)-2], 10, 32)
		all[int32(p)], _ = strconv.ParseInt(pair[len(pair)-1], 10, 64)
	}
	return all
}

func kcat(t *testing.T, bootstrap, topic string) string {
	t.Helper()
	records, _ := kcatSaying(t, bootstrap, topic)
	return strings.Join(byPartition(records), "\n")
}

// kcatRecordEnd ends what kcat prints of a record: header values may hold any single byte.
const kcatRecordEnd = "#end of record#\n"

// kcatSaying is kcat's records, each with the partition first, and what it says about them.
func kcatSaying(t *testing.T, bootstrap, topic string) (records []string, said string) {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), "kcat", "-b", bootstrap, "-C", "-t", topic, "-e", "-o", "beginning",
		"-X", "check.crcs=true", "-X", "fetch.message.max.bytes=16777216", "-f", "%p %o %T %K %k %S %s %h"+kcatRecordEnd)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kcat %s %s: %v\n%s", bootstrap, topic, err, errs.String())
	}
	records = strings.Split(string(out), kcatRecordEnd)
	return records[:len(records)-1], errs.String()
}

// byPartition sorts lines that begin with a partition: clients interleave partitions as they like. Within one the
// order stays.
func byPartition(lines []string) []string {
	partition := func(l string) int {
		text, _, _ := strings.Cut(l, " ")
		n, _ := strconv.Atoi(text)
		return n
	}
	slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(partition(a), partition(b)) })
	return lines
}

// consoleReads runs Kafka's console consumer once over all topics, as a group. Where the group stands
// afterwards is how far it read.
func consoleReads(t *testing.T, bootstrap string, all []shape) map[string]reading {
	var names []string
	for _, s := range all {
		names = append(names, regexp.QuoteMeta(s.topic))
	}
	const group = "spine-console"
	cmd := javaProgram(t, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--include", strings.Join(names, "|"),
		"--group", group, "--from-beginning", "--isolation-level", "read_committed", "--timeout-ms", fmt.Sprint(consoleSilence.Milliseconds()), "--formatter", "LineFormatter")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("console consumer: %v\n%s", err, errs.String())
	}
	byTopic := linesByTopic(string(out))
	admin := kadm.NewClient(Client(t, bootstrap))
	committed, err := admin.FetchOffsets(testContext(t), group)
	if err != nil {
		t.Fatalf("ask where the console consumer stopped: %v\n%s", err, errs.String())
	}
	found := map[string]reading{}
	for _, s := range all {
		r := reading{records: byTopic[s.topic], positions: map[int32]int64{}}
		for p := range s.partitions {
			if o, ok := committed.Lookup(s.topic, p); ok {
				r.positions[p] = o.At
			}
		}
		found[s.topic] = r
	}
	if _, err := admin.DeleteGroup(testContext(t), group); err != nil {
		t.Errorf("delete the console consumer's group: %v", err)
	}
	return found
}

// linesByTopic sorts lines that begin with topic and partition: in the order of partitions, and of reading within one.
func linesByTopic(text string) map[string][]string {
	all := map[string][]string{}
	for l := range strings.Lines(text) {
		topic, rest, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		all[topic] = append(all[topic], rest)
	}
	for topic, lines := range all {
		all[topic] = byPartition(lines)
	}
	return all
}

// console reads n committed records of partition 0 with the console consumer. It is told how many there are: a loaded
// machine may need longer for the first of them than anyone would wait for one that is not there.
func console(t *testing.T, k *Kafka, bootstrap, topic string, n int) string {
	t.Helper()
	config := t.TempDir() + "/consumer.properties"
	if err := os.WriteFile(config, []byte("isolation.level=read_committed\ncheck.crcs=true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := k.Run(testContext(t), "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", topic,
		"--partition", "0", "--offset", "earliest", "--max-messages", strconv.Itoa(n), "--timeout-ms", "60000", "--consumer.config", config,
		"--property", "print.offset=true", "--property", "print.timestamp=true", "--property", "print.key=true", "--property", "print.headers=true")
	if total := fmt.Sprintf("Processed a total of %d messages", n); !strings.Contains(out, total) {
		t.Fatalf("the console consumer of %s did not say %q:\n%s", bootstrap, total, out)
	}
	var kept []string
	for _, l := range strings.Split(out, "\n") {
		if strings.Contains(l, "Offset:") {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "\n")
}

// pythonEnd is how read.py says that it has read a partition.
var pythonEnd = regexp.MustCompile(`(?m)^position (\S+) (\d+) (\d+)$`)

func pythonReads(t *testing.T, bootstrap string, all []shape) map[string]reading {
	var names []string
	for _, s := range all {
		names = append(names, s.topic)
	}
	text, said := pythonSaying(t, "read.py", bootstrap, names...)
	byTopic := linesByTopic(text)
	found := map[string]reading{}
	for _, s := range all {
		var ends [][]string
		for _, end := range pythonEnd.FindAllStringSubmatch(said, -1) {
			if end[1] == s.topic {
				ends = append(ends, end)
			}
		}
		found[s.topic] = reading{records: byTopic[s.topic], positions: positions(ends)}
	}
	return found
}

func python(t *testing.T, script, bootstrap string, args ...string) string {
	t.Helper()
	text, _ := pythonSaying(t, script, bootstrap, args...)
	return text
}

// pythonSaying is what a script prints, and what it says on stderr.
func pythonSaying(t *testing.T, script, bootstrap string, args ...string) (text, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(testContext(t), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool(t, "HAWSER_PYTHON"), append([]string{"testdata/" + script, bootstrap}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", fmt.Sprint(cmd.Args), err, out, errs.String())
	}
	return string(out), errs.String()
}
