//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// mirrorClient is a row of the README's table.
type mirrorClient struct {
	name, language, version string
	client                  client
}

// TestMirrorClients_FailOverAndGoOn takes each client over a disaster: it writes to a stock Kafka, a group of it reads the
// mirror, the mirror is failed over, the client writes to the same topic here and the group goes on where it was.
// The README's table is made of what came out: HAWSER_UPDATE=1 writes it, without that it must be what it is.
func TestMirrorClients_FailOverAndGoOn(t *testing.T) {
	t.Parallel()
	k := SharedKafka(t)
	h := StartHawser(t)
	h.CreateLink("clients", k.Bootstrap(), nil)
	versions := clientVersions(t)
	rows := []mirrorClient{
		{"Apache Kafka's own (kafka-clients)", "Java", versions["kafka-clients"], javaClient(t)},
		{"confluent-kafka-python (librdkafka)", "Python, C", versions["confluent-kafka"], librdkafkaClient()},
		{"kcat (librdkafka)", "C", "of Debian", kcatClient()},
		{"franz-go", "Go", versions["github.com/twmb/franz-go"], franzClient()},
		{"Sarama", "Go", versions["github.com/IBM/sarama"], saramaClient()},
		{"segmentio/kafka-go", "Go", versions["github.com/segmentio/kafka-go"], segmentioClient()},
		{"kafka-python", "Python", versions["kafka-python"], kafkaPythonClient()},
		{"kafkajs", "JavaScript", versions["kafkajs"], kafkaJSClient()},
		{"@platformatic/kafka", "JavaScript", versions["@platformatic/kafka"], platformaticClient()},
	}
	var mu sync.Mutex
	came := map[string]int{} // by client: how many of the columns it got through
	t.Run("each", func(t *testing.T) {
		for i, row := range rows {
			t.Run(strings.NewReplacer("/", "-", " ", "-").Replace(row.name), func(t *testing.T) {
				t.Parallel()
				failOverWith(t, k, h, row.client, fmt.Sprintf("client-%d-%s", i, strings.ToLower(randomClusterID()[:6])), func(step int) {
					mu.Lock()
					defer mu.Unlock()
					came[row.name] = step
				})
			})
		}
	})
	checkReadme(t, rows, came)
}

// failOverWith is one client's disaster. passed is told of each step that it got through, from 1.
func failOverWith(t *testing.T, k *Kafka, h *Hawser, c client, topic string, passed func(step int)) {
	const n = 300
	group := topic + "-readers"
	source := k.Address(1) // one address, as not every client's program takes several
	c.create(t, source, topic, matrixPartitions)
	knownToAll(t, Client(t, k.Bootstrap()), topic)
	want := map[string]bool{}
	send := func(bootstrap, codec, prefix string) {
		t.Helper()
		c.produce(t, bootstrap, topic, codec, prefix, n)
		for i := range n {
			want[fmt.Sprintf("%s-%d", prefix, i)] = true
		}
	}
	send(source, c.codecs[len(c.codecs)-1], "before")
	passed(1)
	h.CreateMirror("clients", topic)
	h.WaitStatus("clients", topic, "ACTIVE", 30*time.Second)
	member := c.join(t, h.Kafka, topic, group)
	sawAll(t, want, member)
	send(source, "none", "while")
	sawAll(t, want, member)
	passed(2)
	member.stop()
	noLag(t, h, group, topic)

	h.Order("clients", "failover", topic)
	h.WaitStatus("clients", topic, "STOPPED", 30*time.Second)
	clear(want)
	send(h.Kafka, c.codecs[len(c.codecs)-1], "after")
	passed(3)
	later := c.join(t, h.Kafka, topic, group)
	sawAll(t, want, later)
	later.stop()
	for key := range later.keys() {
		if !want[key] {
			t.Fatalf("after the failover the group was given %s again", key)
		}
	}
	noLag(t, h, group, topic)
	passed(4)
}

// clientVersions reads which releases the tests run with.
func clientVersions(t *testing.T) map[string]string {
	t.Helper()
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	versions := map[string]string{"kafka-clients": kafkaVersion(t)}
	for _, found := range regexp.MustCompile(`(?m)^\s(\S+) v(\S+)`).FindAllStringSubmatch(read("../go.mod"), -1) {
		versions[found[1]] = found[2]
	}
	for _, found := range regexp.MustCompile(`(?m)^([a-z-]+)(?:\[.*\])?==(\S+)`).FindAllStringSubmatch(read("testdata/requirements.txt"), -1) {
		versions[found[1]] = found[2]
	}
	var node struct{ Dependencies map[string]string }
	if err := json.Unmarshal([]byte(read("testdata/package.json")), &node); err != nil {
		t.Fatal(err)
	}
	for name, version := range node.Dependencies {
		versions[name] = version
	}
	return versions
}

// kafkaVersion is the version of the jars that the Java client comes from.
func kafkaVersion(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`kafka-(\d+\.\d+\.\d+)`).FindStringSubmatch(tool(t, "HAWSER_KAFKA_LIBS"))
	if found == nil {
		return "4.x"
	}
	return found[1]
}

const (
	tableBegins = "<!-- clients: made by TestMirrorClients_FailOverAndGoOn -->\n"
	tableEnds   = "<!-- clients end -->\n"
)

func checkReadme(t *testing.T, rows []mirrorClient, came map[string]int) {
	t.Helper()
	var table strings.Builder
	table.WriteString("| client | language | version | writes to the source | a group reads the mirror | writes after the failover | the group goes on |\n|---|---|---|---|---|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&table, "| %s | %s | %s |", row.name, row.language, row.version)
		for step := 1; step <= 4; step++ {
			mark := "no"
			if came[row.name] >= step {
				mark = "yes"
			}
			fmt.Fprintf(&table, " %s |", mark)
		}
		table.WriteString("\n")
	}
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), tableBegins)
	kept, after, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatal("README.md has no place for the table of clients")
	}
	if os.Getenv("HAWSER_UPDATE") != "" {
		if err := os.WriteFile("../README.md", []byte(before+tableBegins+table.String()+tableEnds+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if kept != table.String() {
		t.Errorf("README.md's table of clients is not what came out; HAWSER_UPDATE=1 writes it:\n%s", table.String())
	}
}
