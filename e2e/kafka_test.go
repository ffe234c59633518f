//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clusterStart bounds the start of a stock Kafka, five times what it takes on a quiet machine.
const clusterStart = 120 * time.Second

// Kafka is a running stock Apache Kafka: node 1 is controller and broker, the
// others are brokers only, so that they can be killed without losing the cluster.
type Kafka struct {
	ID    string // cluster id
	libs  string
	dir   string
	nodes []*kafkaNode
}

// plainUser is known to the brokers of a guarded cluster for mechanism PLAIN; SCRAM's are made like ACLs.
type plainUser struct{ name, password string }

type kafkaNode struct {
	id         int
	port       int
	guarded    int // port of the listener for logins, 0 for none
	properties string
	process    *process
}

// KafkaOptions says what kind of cluster to start.
type KafkaOptions struct {
	Brokers    int
	Libs       string   // folder of jars; "" for the newest version's
	Properties []string // lines added to each broker's server.properties
	// Guarded adds a listener for logins (PLAIN and SCRAM) to each broker, an authorizer to all of them, and lets who does
	// not log in do everything.
	Guarded []plainUser
}

var shared struct {
	once  sync.Once
	kafka *Kafka
	err   error
}

// SharedKafka is the one three-broker cluster that all tests of a run share.
func SharedKafka(t *testing.T) *Kafka {
	t.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "hawser-kafka-")
		if err != nil {
			shared.err = err
			return
		}
		shared.kafka, shared.err = startKafka(dir, KafkaOptions{Brokers: 3})
	})
	if shared.err != nil {
		t.Fatalf("start the shared Kafka: %v", shared.err)
	}
	return shared.kafka
}

// NewKafka starts a cluster for one test, which ends it.
func NewKafka(t *testing.T, options KafkaOptions) *Kafka {
	t.Helper()
	k, err := startKafka(t.TempDir(), options)
	if err != nil {
		t.Fatalf("start Kafka: %v", err)
	}
	t.Cleanup(k.Close)
	return k
}

func startKafka(dir string, options KafkaOptions) (*Kafka, error) {
	if options.Libs == "" {
		options.Libs = os.Getenv("HAWSER_KAFKA_LIBS")
	}
	if options.Libs == "" {
		return nil, fmt.Errorf("HAWSER_KAFKA_LIBS is not set: run these tests with make test, or eval scripts/tools first")
	}
	k := &Kafka{ID: randomClusterID(), libs: options.Libs, dir: dir}
	ports, err := freePorts(2*options.Brokers + 1)
	if err != nil {
		return nil, err
	}
	for i := range options.Brokers {
		node := &kafkaNode{id: i + 1, port: ports[i+1]}
		if options.Guarded != nil {
			node.guarded = ports[options.Brokers+1+i]
		}
		node.properties = filepath.Join(dir, fmt.Sprintf("server-%d.properties", node.id))
		if err := os.WriteFile(node.properties, []byte(k.properties(node, ports[0], options)), 0o644); err != nil {
			return nil, err
		}
		k.nodes = append(k.nodes, node)
	}
	var formats sync.WaitGroup
	errs := make([]error, len(k.nodes))
	for i, node := range k.nodes {
		formats.Go(func() {
			_, errs[i] = k.Run(context.Background(), "kafka.tools.StorageTool", "format", "-t", k.ID, "-c", node.properties, "--ignore-formatted")
		})
	}
	formats.Wait()
	for i, node := range k.nodes {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if err := k.start(node); err != nil {
			return nil, err
		}
	}
	return k, k.waitForBrokers(len(k.nodes))
}

func (k *Kafka) properties(node *kafkaNode, controllerPort int, options KafkaOptions) string {
	var b strings.Builder
	roles, listeners := "broker", fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", node.port)
	advertised := listeners
	if node.id == 1 {
		roles = "broker,controller"
		listeners += fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", controllerPort)
	}
	if node.guarded > 0 {
		listeners += "," + fmt.Sprintf("SASL_PLAINTEXT://127.0.0.1:%d", node.guarded)
		advertised += "," + fmt.Sprintf("SASL_PLAINTEXT://127.0.0.1:%d", node.guarded)
		b.WriteString(guard(options.Guarded))
	}
	replicas := min(3, options.Brokers)
	fmt.Fprintf(&b, "process.roles=%s\nnode.id=%d\ncontroller.quorum.voters=1@127.0.0.1:%d\n", roles, node.id, controllerPort)
	fmt.Fprintf(&b, "listeners=%s\nadvertised.listeners=%s\n", listeners, advertised)
	fmt.Fprintf(&b, "controller.listener.names=CONTROLLER\nlistener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\n")
	fmt.Fprintf(&b, "log.dirs=%s\n", filepath.Join(k.dir, fmt.Sprintf("data-%d", node.id)))
	fmt.Fprintf(&b, "offsets.topic.replication.factor=%d\noffsets.topic.num.partitions=8\n", replicas)
	fmt.Fprintf(&b, "transaction.state.log.replication.factor=%d\ntransaction.state.log.min.isr=1\ntransaction.state.log.num.partitions=4\n", replicas)
	b.WriteString(`group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=500
log.retention.check.interval.ms=1000
log.cleaner.min.cleanable.ratio=0.01
message.max.bytes=16777216
replica.fetch.max.bytes=16777216
replica.lag.time.max.ms=3000
broker.session.timeout.ms=6000
controlled.shutdown.enable=true
num.recovery.threads.per.data.dir=2
auto.create.topics.enable=false
`)
	for _, line := range options.Properties {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// guard is what a broker with logins and an authorizer is configured by.
func guard(users []plainUser) string {
	var known strings.Builder
	for _, u := range users {
		fmt.Fprintf(&known, " user_%s=\"%s\"", u.name, u.password)
	}
	return `authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required` + known.String() + `;
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
`
}

func (k *Kafka) start(node *kafkaNode) error {
	cmd := exec.Command("java", "-Xmx512m", "-Xms128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.level=WARN",
		"-cp", filepath.Join(k.libs, "*"), "kafka.Kafka", node.properties)
	p, err := startProcess(cmd, filepath.Join(k.dir, fmt.Sprintf("server-%d.log", node.id)))
	node.process = p
	return err
}

func (k *Kafka) waitForBrokers(want int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(splitComma(k.Bootstrap())...))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), clusterStart)
	defer cancel()
	admin := kadm.NewClient(client)
	for {
		brokers, err := admin.ListBrokers(ctx)
		if err == nil && len(brokers) >= want {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d brokers are up after %v: %v; logs are in %s", len(brokers), want, clusterStart, err, k.dir)
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// Bootstrap is the addresses of all brokers, comma-separated.
func (k *Kafka) Bootstrap() string {
	var addresses []string
	for _, node := range k.nodes {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", node.port))
	}
	return strings.Join(addresses, ",")
}

// Logins is the address of the first broker's listener for logins.
func (k *Kafka) Logins() string { return fmt.Sprintf("127.0.0.1:%d", k.nodes[0].guarded) }

// Address is one broker's.
func (k *Kafka) Address(id int) string { return fmt.Sprintf("127.0.0.1:%d", k.nodes[id-1].port) }

// Kill ends a broker with SIGKILL, Stop with SIGTERM; Start starts it again.
func (k *Kafka) Kill(t *testing.T, id int) { k.end(t, id, syscall.SIGKILL) }
func (k *Kafka) Stop(t *testing.T, id int) { k.end(t, id, syscall.SIGTERM) }

func (k *Kafka) end(t *testing.T, id int, signal syscall.Signal) {
	t.Helper()
	if err := k.nodes[id-1].process.end(signal, 60*time.Second); err != nil {
		t.Fatalf("end Kafka node %d: %v", id, err)
	}
}

// Start starts a broker that was ended and waits until the cluster shows it.
func (k *Kafka) Start(t *testing.T, id int) {
	t.Helper()
	if err := k.start(k.nodes[id-1]); err != nil {
		t.Fatal(err)
	}
	if err := k.waitForBrokers(k.running()); err != nil {
		t.Fatal(err)
	}
}

// Move ends a broker and starts it again on another port.
func (k *Kafka) Move(t *testing.T, id int) {
	t.Helper()
	k.Stop(t, id)
	node := k.nodes[id-1]
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(node.properties)
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.ReplaceAll(string(text), fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", node.port), fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", ports[0]))
	if err := os.WriteFile(node.properties, []byte(moved), 0o644); err != nil {
		t.Fatal(err)
	}
	node.port = ports[0]
	k.Start(t, id)
}

func (k *Kafka) running() int {
	n := 0
	for _, node := range k.nodes {
		if node.process != nil && !node.process.ended() {
			n++
		}
	}
	return n
}

// KillAll ends every broker with SIGKILL: the source is gone.
func (k *Kafka) KillAll() {
	for _, node := range k.nodes {
		if node.process != nil {
			_ = node.process.end(syscall.SIGKILL, 30*time.Second)
		}
	}
}

// Close ends the cluster. Nothing of it is kept, so it need not be gentle.
func (k *Kafka) Close() { k.KillAll() }

// Run runs one of Kafka's own tools by its class and returns what it printed.
func (k *Kafka) Run(ctx context.Context, class string, args ...string) (string, error) {
	return runJava(ctx, k.libs, nil, append([]string{class}, args...)...)
}

// Tool runs a tool and fails the test if it fails.
func (k *Kafka) Tool(t *testing.T, class string, args ...string) string {
	t.Helper()
	out, err := k.Run(testContext(t), class, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func runJava(ctx context.Context, libs string, stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "java", append([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", filepath.Join(libs, "*")}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
