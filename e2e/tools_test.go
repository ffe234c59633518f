//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Kafka's own tools by class, as its shell scripts call them.
const (
	topicsTool       = "org.apache.kafka.tools.TopicCommand"
	configsTool      = "kafka.admin.ConfigCommand"
	aclsTool         = "org.apache.kafka.tools.AclCommand"
	groupsTool       = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
	transactionsTool = "org.apache.kafka.tools.TransactionsCommand"
	deleteTool       = "org.apache.kafka.tools.DeleteRecordsCommand"
	offsetsTool      = "org.apache.kafka.tools.GetOffsetShell"
	producerTool     = "org.apache.kafka.tools.ConsoleProducer"
	consumerTool     = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	producerPerf     = "org.apache.kafka.tools.ProducerPerformance"
	consumerPerf     = "org.apache.kafka.tools.ConsumerPerformance"
	verifiableIn     = "org.apache.kafka.tools.VerifiableProducer"
	verifiableOut    = "org.apache.kafka.tools.VerifiableConsumer"
)

// Tool runs one of Kafka's tools against this broker and fails the test if it fails.
func (h *Hawser) Tool(class string, args ...string) string {
	h.t.Helper()
	return h.toolIn("", class, args...)
}

func (h *Hawser) toolIn(stdin, class string, args ...string) string {
	h.t.Helper()
	all := append([]string{class, "--bootstrap-server", h.Kafka}, args...)
	out, err := runJava(testContext(h.t), tool(h.t, "HAWSER_KAFKA_LIBS"), []byte(stdin), all...)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// refused runs a tool that must say why it failed; some of them end with 0 all the same.
func (h *Hawser) refused(why, class string, args ...string) {
	h.t.Helper()
	all := append([]string{class, "--bootstrap-server", h.Kafka}, args...)
	out, err := runJava(testContext(h.t), tool(h.t, "HAWSER_KAFKA_LIBS"), nil, all...)
	if err != nil {
		out += err.Error()
	}
	wantText(h.t, out, why)
}

// wantText wants each pattern somewhere in the text.
func wantText(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(text) {
			t.Errorf("no %q in:\n%s", p, text)
		}
	}
}

func wantNoText(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if regexp.MustCompile("(?m)" + p).MatchString(text) {
			t.Errorf("there is %q in:\n%s", p, text)
		}
	}
}

func TestTools_Topics(t *testing.T) {
	t.Parallel()
	h := StartHawser(t)
	wantText(t, h.Tool(topicsTool, "--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=123456"), `Created topic orders\.`)
	h.refused("Topic 'orders' already exists", topicsTool, "--create", "--topic", "orders")
	h.Tool(topicsTool, "--create", "--topic", "orders", "--if-not-exists")
	h.Tool(topicsTool, "--create", "--topic", "invoices", "--partitions", "1")
	wantText(t, h.Tool(topicsTool, "--list"), `^orders$`, `^invoices$`)
	described := h.Tool(topicsTool, "--describe", "--topic", "orders")
	wantText(t, described, `Topic: orders\s+TopicId: [\w-]{22}\s+PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention\.ms=123456`,
		`Partition: 0\s+Leader: 1\s+Replicas: 1\s+Isr: 1`, `Partition: 2\s+Leader: 1`)
	h.Tool(topicsTool, "--alter", "--topic", "orders", "--partitions", "5")
	wantText(t, h.Tool(topicsTool, "--describe", "--topic", "orders"), `PartitionCount: 5`, `Partition: 4\s+Leader: 1`)
	h.refused("would not be an increase|currently has 5 partitions", topicsTool, "--alter", "--topic", "orders", "--partitions", "2")
	wantText(t, h.Tool(topicsTool, "--describe", "--topics-with-overrides"), `Topic: orders`)
	wantNoText(t, h.Tool(topicsTool, "--describe", "--under-replicated-partitions"), `Topic:`)
	wantNoText(t, h.Tool(topicsTool, "--describe", "--unavailable-partitions"), `Topic:`)
	h.Tool(topicsTool, "--delete", "--topic", "orders")
	listed := h.Tool(topicsTool, "--list")
	wantNoText(t, listed, `^orders$`)
	wantText(t, listed, `^invoices$`)
	h.refused("does not exist as expected", topicsTool, "--describe", "--topic", "orders")
}

func TestTools_Configs(t *testing.T) {
	t.Parallel()
	h := StartHawser(t)
	CreateTopic(t, Client(t, h.Kafka), "orders", 1, 1, nil)
	topic := []string{"--entity-type", "topics", "--entity-name", "orders"}
	wantText(t, h.Tool(configsTool, append(topic, "--alter", "--add-config", "retention.ms=111000,cleanup.policy=[compact,delete]")...), `Completed updating config for topic orders\.`)
	wantText(t, h.Tool(configsTool, append(topic, "--describe")...), `retention\.ms=111000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention\.ms=111000`, `cleanup\.policy=compact,delete`)
	h.Tool(configsTool, append(topic, "--alter", "--delete-config", "retention.ms")...)
	wantNoText(t, h.Tool(configsTool, append(topic, "--describe")...), `retention\.ms`)
	wantText(t, h.Tool(configsTool, append(topic, "--describe", "--all")...), `retention\.ms=604800000`, `min\.insync\.replicas=1`, `max\.message\.bytes=1048588`)
	h.refused("Unknown topic config name: nonsense", configsTool, append(topic, "--alter", "--add-config", "nonsense=1")...)
	h.refused("Invalid value|must be", configsTool, append(topic, "--alter", "--add-config", "retention.ms=soon")...)

	broker := []string{"--entity-type", "brokers", "--entity-name", "1"}
	wantText(t, h.Tool(configsTool, append(broker, "--describe", "--all")...), `log\.retention\.(ms|hours)=`, `num\.partitions=1 `, `message\.max\.bytes=1048588 `)
	h.Tool(configsTool, append(broker, "--alter", "--add-config", "log.retention.ms=7200000")...)
	wantText(t, h.Tool(configsTool, append(broker, "--describe")...), `log\.retention\.ms=7200000`)
	h.Tool(configsTool, "--entity-type", "brokers", "--entity-default", "--alter", "--add-config", "message.max.bytes=2000000")
	wantText(t, h.Tool(configsTool, "--entity-type", "brokers", "--entity-default", "--describe"), `message\.max\.bytes=2000000`)
	wantText(t, h.Tool(configsTool, append(topic, "--describe", "--all")...), `max\.message\.bytes=2000000`)
}

func TestTools_ConsumerGroups(t *testing.T) {
	t.Parallel()
	h := StartHawser(t)
	cl := byHand(t, h.Kafka)
	for _, topic := range []string{"orders", "invoices"} {
		CreateTopic(t, cl, topic, 2, 1, nil)
		for p := range int32(2) {
			write(t, cl, topic, p, 10, "v")
		}
	}
	admin := kadm.NewClient(cl)
	for _, topic := range []string{"orders", "invoices"} {
		commitText(t, admin, "billing", topic, 0, 4, "")
		commitText(t, admin, "billing", topic, 1, 9, "")
	}
	group := []string{"--group", "billing"}
	wantText(t, h.Tool(groupsTool, "--list"), `^billing\s*$`)
	wantText(t, h.Tool(groupsTool, "--list", "--state"), `billing\s+(Consumer|Classic)?\s*Empty`)
	wantText(t, h.Tool(groupsTool, append(group, "--describe")...), `billing\s+orders\s+0\s+4\s+10\s+6\s+-`, `billing\s+invoices\s+1\s+9\s+10\s+1\s+-`)
	wantText(t, h.Tool(groupsTool, append(group, "--describe", "--state")...), `billing\s+127\.0\.0\.1:\d+\s+\(1\)\s.*Empty\s+0`)
	wantText(t, h.Tool(groupsTool, append(group, "--reset-offsets", "--to-earliest", "--topic", "orders", "--dry-run")...), `billing\s+orders\s+0\s+0`)
	wantText(t, h.Tool(groupsTool, append(group, "--describe")...), `billing\s+orders\s+0\s+4\s`)
	h.Tool(groupsTool, append(group, "--reset-offsets", "--shift-by", "2", "--topic", "orders:0", "--execute")...)
	h.Tool(groupsTool, append(group, "--reset-offsets", "--to-latest", "--topic", "invoices", "--execute")...)
	wantText(t, h.Tool(groupsTool, append(group, "--describe")...), `billing\s+orders\s+0\s+6\s+10\s+4`, `billing\s+invoices\s+0\s+10\s+10\s+0`)
	wantText(t, h.Tool(groupsTool, append(group, "--delete-offsets", "--topic", "invoices")...), `(?i)success`)
	wantNoText(t, h.Tool(groupsTool, append(group, "--describe")...), `invoices`)

	m := franzClient().join(t, h.Kafka, "orders", "live")
	eventually(t, 30*time.Second, "a member reads", func() (bool, string) { return len(m.owns()) == 2, m.String() })
	wantText(t, h.Tool(groupsTool, "--group", "live", "--describe", "--members", "--verbose"), `live\s+\S+\s+/127\.0\.0\.1\s+\S+\s+2\s.*orders`)
	wantText(t, h.Tool(groupsTool, "--group", "live", "--describe", "--state"), `Stable\s+1`)
	h.refused("inactive, but the current state is Stable", groupsTool, "--group", "live", "--reset-offsets", "--to-earliest", "--topic", "orders", "--execute")
	h.refused("The group is not empty", groupsTool, "--group", "live", "--delete")
	m.stop()
	wantText(t, h.Tool(groupsTool, append(group, "--delete")...), `Deletion of requested consumer groups \('billing'\) was successful`)
	wantNoText(t, h.Tool(groupsTool, "--list"), `billing`)
	h.refused("Group billing not found", groupsTool, append(group, "--describe")...)
}

func TestTools_Transactions(t *testing.T) {
	t.Parallel()
	h := StartHawser(t)
	cl := Client(t, h.Kafka)
	CreateTopic(t, cl, "ledger", 1, 1, nil)
	writer := Client(t, h.Kafka, kgo.TransactionalID("writer"), kgo.TransactionTimeout(50*time.Second))
	if err := writer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, writer, texts("ledger", "open", 0, 3)...)
	listed := h.Tool(transactionsTool, "list")
	wantText(t, listed, `writer\s+1\s+\d+\s+Ongoing`)
	wantText(t, h.Tool(transactionsTool, "describe", "--transactional-id", "writer"), `1\s+writer\s+\d+\s+0\s+Ongoing\s+50000\s+\d+\s+\d+\s+ledger-0`)
	wantText(t, h.Tool(transactionsTool, "describe-producers", "--topic", "ledger", "--partition", "0"), `^\d+\s+0\s+-?\d+\s+2\s+\d+\s+0\s*$`)
	wantNoText(t, h.Tool(transactionsTool, "find-hanging", "--broker-id", "1"), `ledger`)
	if err := writer.EndTransaction(testContext(t), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	wantText(t, h.Tool(transactionsTool, "list"), `writer\s+1\s+\d+\s+CompleteCommit`)
	wantText(t, h.Tool(transactionsTool, "describe-producers", "--topic", "ledger", "--partition", "0"), `^\d+\s+\d+\s+-?\d+\s+\S+\s+\d+\s+None\s*$`)
	if err := writer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, writer, texts("ledger", "aborted", 0, 2)...)
	out := h.Tool(transactionsTool, "describe-producers", "--topic", "ledger", "--partition", "0")
	wantText(t, out, `^\d+\s+\d+\s+-?\d+\s+\S+\s+\d+\s+4\s*$`)
	h.Tool(transactionsTool, "abort", "--topic", "ledger", "--partition", "0", "--start-offset", "4")
	if s, end := stable(t, cl, "ledger"), endOf(t, cl, "ledger"); s != end {
		t.Errorf("after the abort the last stable offset is %d, the end %d", s, end)
	}
	wantNoText(t, h.toolIn("", consumerTool, "--topic", "ledger", "--from-beginning", "--isolation-level", "read_committed", "--timeout-ms", "4000"), `aborted`)
}

func endOf(t *testing.T, cl *kgo.Client, topic string) int64 {
	t.Helper()
	_, end := Ends(t, cl, topic, 0)
	return end
}

func TestTools_RecordsAndOffsets(t *testing.T) {
	t.Parallel()
	h := StartHawser(t)
	CreateTopic(t, Client(t, h.Kafka), "orders", 1, 1, nil)
	lines := "k1:one\nk2:two\nk3:three\nk4:four\n"
	h.toolIn(lines, producerTool, "--topic", "orders", "--property", "parse.key=true", "--property", "key.separator=:", "--compression-codec", "zstd")
	read := []string{"--topic", "orders", "--from-beginning", "--timeout-ms", "4000", "--property", "print.key=true", "--property", "print.offset=true", "--property", "print.partition=true"}
	wantText(t, h.Tool(consumerTool, read...), `Partition:0\s+Offset:0\s+k1\s+one$`, `Partition:0\s+Offset:3\s+k4\s+four$`, `Processed a total of 4 messages`)
	wantText(t, h.Tool(offsetsTool, "--topic", "orders"), `^orders:0:4$`)
	wantText(t, h.Tool(offsetsTool, "--topic", "orders", "--time", "earliest"), `^orders:0:0$`)
	wantText(t, h.Tool(offsetsTool, "--topic", "orders", "--time", "max-timestamp"), `^orders:0:[0-3]$`)
	wantText(t, h.Tool(offsetsTool, "--topic", "orders", "--time", "0"), `^orders:0:0$`)

	list := filepath.Join(t.TempDir(), "delete.json")
	if err := os.WriteFile(list, []byte(`{"version":1,"partitions":[{"topic":"orders","partition":0,"offset":3}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	wantText(t, h.Tool(deleteTool, "--offset-json-file", list), `partition: orders-0\s+low_watermark: 3`)
	wantText(t, h.Tool(offsetsTool, "--topic", "orders", "--time", "earliest"), `^orders:0:3$`)
	left := h.Tool(consumerTool, read...)
	wantText(t, left, `Offset:3\s+k4\s+four`, `Processed a total of 1 messages`)
	wantNoText(t, left, `three`)
	wantText(t, h.Tool(consumerTool, "--topic", "orders", "--from-beginning", "--max-messages", "1", "--group", "console"), `^four$`)
	wantText(t, h.Tool("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", "orders"), `"partition":"orders-0","size":[1-9]\d*`)
	wantText(t, h.Tool("org.apache.kafka.tools.BrokerApiVersionsCommand"), `127\.0\.0\.1:\d+ \(id: 1`, `Produce\(0\): `, `Fetch\(1\): `)
	id, err := runJava(testContext(t), tool(t, "HAWSER_KAFKA_LIBS"), nil, "org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", h.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, id, `Cluster ID: `+regexp.QuoteMeta(h.Cluster))
}

func TestTools_VerifiableAndPerformance(t *testing.T) {
	t.Parallel()
	h := StartHawser(t)
	CreateTopic(t, Client(t, h.Kafka), "verify", 2, 1, nil)
	sent := h.Tool(verifiableIn, "--topic", "verify", "--max-messages", "1000", "--acks", "-1")
	if n := strings.Count(sent, `"name":"producer_send_success"`); n != 1000 {
		t.Errorf("the verifiable producer had %d records acknowledged, want 1000:\n%.2000s", n, sent)
	}
	wantText(t, sent, `"name":"tool_data".*"acked":1000`)
	got := h.Tool(verifiableOut, "--topic", "verify", "--group-id", "verifiers", "--max-messages", "1000", "--reset-policy", "earliest")
	if n := consumedBy(t, got); n != 1000 {
		t.Errorf("the verifiable consumer had %d records, want 1000", n)
	}
	wantText(t, got, `"name":"partitions_assigned"`, `"success":true.*"name":"offsets_committed"|"name":"offsets_committed".*"success":true`)

	CreateTopic(t, Client(t, h.Kafka), "fast", 2, 1, nil)
	out, err := runJava(testContext(t), tool(t, "HAWSER_KAFKA_LIBS"), nil, producerPerf, "--topic", "fast", "--num-records", "50000", "--record-size", "200", "--throughput", "-1",
		"--producer-props", "bootstrap.servers="+h.Kafka, "compression.type=lz4")
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, out, `50000 records sent, [\d.]+ records/sec`)
	wantText(t, h.Tool(consumerPerf, "--topic", "fast", "--messages", "50000", "--timeout", "20000"), `, 50000, `)
	end := map[string]bool{}
	for _, l := range regexp.MustCompile(`(?m)^fast:\d:(\d+)$`).FindAllStringSubmatch(h.Tool(offsetsTool, "--topic", "fast"), -1) {
		end[l[1]] = true
	}
	if len(end) == 0 {
		t.Error("no ends of fast")
	}
}

// consumedBy adds up what the verifiable consumer says it has consumed.
func consumedBy(t *testing.T, out string) int {
	t.Helper()
	n := 0
	for line := range strings.Lines(out) {
		var event struct {
			Name  string
			Count int
		}
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &event) == nil && event.Name == "records_consumed" {
			n += event.Count
		}
	}
	return n
}
