//go:build bench

package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const startWithin = 3 * time.Minute

// kafkaBroker is a stock Apache Kafka of one node.
type kafkaBroker struct {
	*process
	bootstrap string
	client    *kgo.Client
}

func startKafka(t *testing.T, name string) *kafkaBroker {
	t.Helper()
	dir, ports := filepath.Join(t.TempDir(), name), freePorts(t, 2)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
message.max.bytes=16777216
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.segment.delete.delay.ms=1000
socket.send.buffer.bytes=4194304
socket.receive.buffer.bytes=4194304
`, ports[0], ports[1], filepath.Join(dir, "data"))
	properties := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(properties, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	id[0] &= 0x3f // a text that begins with '-' would look like a flag to Kafka's tools
	format := exec.CommandContext(t.Context(), "java", "-cp", libs(t), "kafka.tools.StorageTool", "format", "-t", base64.RawURLEncoding.EncodeToString(id[:]), "-c", properties)
	if out, err := format.CombinedOutput(); err != nil {
		t.Fatalf("format %s: %v\n%s", name, err, out)
	}
	k := &kafkaBroker{bootstrap: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	k.process = startJava(t, filepath.Join(dir, "log"), []string{"-Xms1G", "-Xmx1G"}, "kafka.Kafka", properties)
	k.client = client(t, k.bootstrap)
	eventually(t, startWithin, name+" serves", func(ctx context.Context) (bool, string) {
		if k.ended() {
			t.Fatalf("%s ended:\n%s", name, k.tail())
		}
		brokers, err := kadm.NewClient(k.client).ListBrokers(ctx)
		return err == nil && len(brokers) == 1, fmt.Sprint(err)
	})
	return k
}

func client(t *testing.T, bootstrap string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.MetadataMinAge(50 * time.Millisecond)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func createTopic(t *testing.T, c *kgo.Client, topic string, partitions int32, configs map[string]*string) {
	t.Helper()
	rs, err := kadm.NewClient(c).CreateTopic(t.Context(), partitions, 1, configs, topic)
	if err == nil {
		err = rs.Err
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
	eventually(t, time.Minute, topic+" has leaders", func(ctx context.Context) (bool, string) {
		n, err := landed(ctx, c, topic, partitions)
		return err == nil && n == 0, fmt.Sprint(err)
	})
}

func deleteTopic(t *testing.T, c *kgo.Client, topic string) {
	t.Helper()
	if _, err := kadm.NewClient(c).DeleteTopics(t.Context(), topic); err != nil {
		t.Fatalf("delete topic %s: %v", topic, err)
	}
}

// landed is how many records a topic holds below the high watermarks of all its partitions.
func landed(ctx context.Context, c *kgo.Client, topic string, partitions int32) (int64, error) {
	list, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err == nil {
		err = list.Error()
	}
	if err != nil {
		return 0, err
	}
	if n := len(list[topic]); n != int(partitions) {
		return 0, fmt.Errorf("%d of %d partitions answer", n, partitions)
	}
	var n int64
	for _, o := range list[topic] {
		n += o.Offset
	}
	return n, nil
}

// hawser is one broker process of ours on an empty directory.
type hawser struct {
	*process
	dir     string
	cluster string // base URL of the cluster's REST paths
	client  *kgo.Client
	kafka   string
}

var readyLine = regexp.MustCompile(`hawser ready kafka=(\S+) http=(\S+) cluster=(\S+)`)

// unsynced is the argument that makes hawser as careless as Kafka is by default.
const unsynced = "hawser.sync.enable=false"

// startHawser starts one with a link, named east, to the bootstrap address, or without a link where that is empty.
func startHawser(t *testing.T, bootstrap string, settings ...string) *hawser {
	t.Helper()
	return startBinary(t, hawserBinary(t), bootstrap, settings...)
}

func hawserBinary(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("HAWSER_BIN")
	if binary == "" {
		t.Fatal("HAWSER_BIN is not set: run this with make bench")
	}
	return binary
}

// startBinary is startHawser of another binary.
func startBinary(t *testing.T, binary, bootstrap string, settings ...string) *hawser {
	t.Helper()
	h := &hawser{dir: t.TempDir()}
	args := []string{"serve", "--data", filepath.Join(h.dir, "data"), "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"}
	for _, setting := range settings {
		args = append(args, "--set", setting)
	}
	h.process = startProcess(t, filepath.Join(h.dir, "log"), binary, args...)
	h.ready(t)
	h.client = client(t, h.kafka)
	if bootstrap == "" {
		return h
	}
	h.post(t, "/links?link_name=east", map[string]any{"configs": []map[string]string{{"name": "bootstrap.servers", "value": bootstrap}}})
	return h
}

// ready waits until it serves and is where its Kafka door is.
func (h *hawser) ready(t *testing.T) string {
	t.Helper()
	eventually(t, startWithin, "hawser is ready", func(context.Context) (bool, string) {
		if h.ended() {
			t.Fatalf("hawser ended:\n%s", h.tail())
		}
		text, _ := os.ReadFile(h.log)
		found := readyLine.FindSubmatch(text)
		if found == nil {
			return false, string(text)
		}
		h.kafka, h.cluster = string(found[1]), fmt.Sprintf("http://%s/kafka/v3/clusters/%s", found[2], found[3])
		return true, ""
	})
	return h.kafka
}

const mirrorsPath = "/links/east/mirrors"

func mirrorOf(topic string) any { return map[string]any{"source_topic_name": topic} }

// mirror orders a mirror of a topic.
func (h *hawser) mirror(t *testing.T, topic string) {
	t.Helper()
	h.post(t, mirrorsPath, mirrorOf(topic))
}

func (h *hawser) post(t *testing.T, path string, body any) {
	t.Helper()
	if err := h.order(path, body); err != nil {
		t.Fatal(err)
	}
}

// order is post for goroutines.
func (h *hawser) order(path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	rs, err := http.Post(h.cluster+path, "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer rs.Body.Close()
	answer, err := io.ReadAll(rs.Body)
	if err != nil || rs.StatusCode/100 != 2 {
		return fmt.Errorf("POST %s: status %d, %v: %s", path, rs.StatusCode, err, answer)
	}
	return nil
}

// remove ends it and takes its data off the disk.
func (h *hawser) remove() {
	h.kill()
	os.RemoveAll(filepath.Join(h.dir, "data"))
}

// startMirrorMaker starts MirrorMaker 2 with the source named by the alias; the
// topic is then alias.topic at the destination.
func startMirrorMaker(t *testing.T, alias string, source, destination *kafkaBroker, topic, lingerMs string) *process {
	t.Helper()
	text, err := os.ReadFile("mm2.properties")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	properties := filepath.Join(dir, "mm2.properties")
	filled := strings.NewReplacer("@SOURCE@", alias, "@TOPIC@", topic, "@SOURCE_BOOTSTRAP@", source.bootstrap,
		"@DESTINATION_BOOTSTRAP@", destination.bootstrap, "@LINGER_MS@", lingerMs).Replace(string(text))
	if err := os.WriteFile(properties, []byte(filled), 0o644); err != nil {
		t.Fatal(err)
	}
	return startJava(t, filepath.Join(dir, "log"), []string{"-Xms256M", "-Xmx2G"}, "org.apache.kafka.connect.mirror.MirrorMaker", properties)
}
