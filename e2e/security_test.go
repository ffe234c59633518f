//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// login is how a client says who it is.
type login struct{ mechanism, user, password string }

// loggingIn is a client that logs in. Both ways give what the client said about an error.
type loggingIn struct {
	produce func(t *testing.T, l login, address, topic string, n int) (string, error)
	read    func(t *testing.T, l login, address, topic, group string, n int) (string, error) // n records as a member of a group
	// silent is a client that tries for ever without a word where others give up, against Apache Kafka 4.1 as well.
	silent bool
}

// startSecured starts a hawser with a listener for logins beside the open one, whose users may do everything.
func startSecured(t *testing.T) (h *Hawser, secured string) {
	t.Helper()
	args, secured := securedArgs(t)
	return StartHawser(t, args...), secured
}

// securedArgs is the arguments for it.
func securedArgs(t *testing.T) (args []string, secured string) {
	t.Helper()
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	secured = fmt.Sprintf("127.0.0.1:%d", ports[1])
	file := filepath.Join(t.TempDir(), "server.properties")
	text := fmt.Sprintf(`listeners=PLAINTEXT://127.0.0.1:%d,SASL_PLAINTEXT://%s
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="bob-secret" user_eve="eve-secret";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
`, ports[0], secured)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--config", file}, secured
}

func TestSecurity_Java(t *testing.T)        { logsIn(t, javaLogin()) }
func TestSecurity_Kcat(t *testing.T)        { logsIn(t, kcatLogin()) }
func TestSecurity_KafkaPython(t *testing.T) { logsIn(t, pythonLogin()) }
func TestSecurity_FranzGo(t *testing.T)     { logsIn(t, franzLogin()) }

// logsIn makes users and ACLs with Kafka's tools and wants a client to be let in, let
// through and refused as they say, before and after a restart.
func logsIn(t *testing.T, c loggingIn) {
	t.Parallel()
	h, secured := startSecured(t)
	admin := Client(t, h.Kafka)
	for _, topic := range []string{"orders", "secret"} {
		CreateTopic(t, admin, topic, 1, 1, nil)
	}
	h.Tool(configsTool, "--entity-type", "users", "--entity-name", "alice", "--alter", "--add-config", "SCRAM-SHA-256=[password=alice-secret],SCRAM-SHA-512=[password=alice-secret]")
	for _, role := range [][]string{{"--producer"}, {"--consumer", "--group", "readers"}} {
		h.Tool(aclsTool, append([]string{"--add", "--allow-principal", "User:alice", "--allow-principal", "User:bob", "--topic", "orders"}, role...)...)
	}
	h.Tool(aclsTool, "--add", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "orders", "--group", "others", "--allow-host", "10.0.0.1")
	good := []login{{"PLAIN", "bob", "bob-secret"}, {"SCRAM-SHA-256", "alice", "alice-secret"}, {"SCRAM-SHA-512", "alice", "alice-secret"}}
	for _, l := range good {
		allowed(t, c, l, secured)
	}
	denied := func(l login, why string, out string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%v was not refused:\n%s", l, out)
			return
		}
		if c.silent && strings.Contains(err.Error(), "killed") {
			return
		}
		wantText(t, out+err.Error(), why)
	}
	// An idempotent producer that may write to no topic at all is refused its id, with the cluster's code, as by Kafka.
	const topicRefused, groupRefused, loginRefused = `(?i)topic.?authorization|not authorized to access topic|cluster.?authorization`, `(?i)group.?authorization|not authorized to access group`, `(?i)authentication|NoBrokersAvailable`
	wrong := []login{{"PLAIN", "bob", "wrong"}, {"SCRAM-SHA-256", "alice", "wrong"}, {"SCRAM-SHA-512", "nobody", "x"}, {"PLAIN", "alice", "alice-secret"}}
	few := good[:2]
	if c.silent { // each refusal costs all patience
		wrong, few = wrong[1:2], good[:1]
	}
	for _, l := range few {
		out, err := c.produce(t, l, secured, "secret", 1)
		denied(l, topicRefused, out, err)
		out, err = c.read(t, l, secured, "secret", "readers", 1)
		denied(l, topicRefused, out, err)
		out, err = c.read(t, l, secured, "orders", "others", 1)
		denied(l, groupRefused, out, err)
	}
	eve := login{"PLAIN", "eve", "eve-secret"}
	out, err := c.produce(t, eve, secured, "orders", 1)
	denied(eve, topicRefused, out, err)
	for _, l := range wrong {
		out, err := c.produce(t, l, secured, "orders", 1)
		denied(l, loginRefused, out, err)
	}
	if _, end := Ends(t, admin, "secret", 0); end != 0 {
		t.Errorf("%d records came into the topic that nobody may write", end)
	}

	h.Kill()
	h.Start()
	allowed(t, c, good[1], secured)
	h.Tool(aclsTool, "--remove", "--force", "--allow-principal", "User:alice", "--operation", "Write", "--topic", "orders")
	h.Tool(aclsTool, "--add", "--deny-principal", "User:bob", "--operation", "Write", "--topic", "ord", "--resource-pattern-type", "prefixed")
	for _, l := range good[:2] {
		out, err := c.produce(t, l, secured, "orders", 1)
		denied(l, topicRefused, out, err)
	}
}

func allowed(t *testing.T, c loggingIn, l login, address string) {
	t.Helper()
	if out, err := c.produce(t, l, address, "orders", 10); err != nil {
		t.Errorf("%v may not write: %v\n%s", l, err, out)
	}
	if out, err := c.read(t, l, address, "orders", "readers", 10); err != nil {
		t.Errorf("%v may not read: %v\n%s", l, err, out)
	}
}

// patience is many times what the slowest client takes on a busy machine to log in and to write or read a few records.
const patience = 15 * time.Second

// bounded runs a command with patience: some clients try a wrong password for ever.
func bounded(t *testing.T, cmd *exec.Cmd) (string, error) {
	t.Helper()
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func javaLogin() loggingIn {
	options := func(l login) []string {
		module := "org.apache.kafka.common.security.scram.ScramLoginModule"
		if l.mechanism == "PLAIN" {
			module = "org.apache.kafka.common.security.plain.PlainLoginModule"
		}
		return []string{"security.protocol=SASL_PLAINTEXT", "sasl.mechanism=" + l.mechanism,
			fmt.Sprintf(`sasl.jaas.config=%s required username="%s" password="%s";`, module, l.user, l.password)}
	}
	return programLogin(func(t *testing.T, args ...string) *exec.Cmd { return javaProgram(t, "Client", args...) }, options)
}

func pythonLogin() loggingIn {
	options := func(l login) []string {
		return []string{"security_protocol=SASL_PLAINTEXT", "sasl_mechanism=" + l.mechanism, "sasl_plain_username=" + l.user, "sasl_plain_password=" + l.password}
	}
	c := programLogin(func(t *testing.T, args ...string) *exec.Cmd { return pythonProgram(t, "kafka_python.py", args...) }, options)
	c.silent = true
	return c
}

func programLogin(command func(t *testing.T, args ...string) *exec.Cmd, options func(login) []string) loggingIn {
	return loggingIn{
		produce: func(t *testing.T, l login, address, topic string, n int) (string, error) {
			t.Helper()
			return bounded(t, command(t, append([]string{"produce", address, topic, "none", "x", strconv.Itoa(n)}, options(l)...)...))
		},
		read: func(t *testing.T, l login, address, topic, group string, n int) (string, error) {
			t.Helper()
			return bounded(t, command(t, append([]string{"read", address, topic, group, strconv.Itoa(n)}, options(l)...)...))
		},
	}
}

func kcatLogin() loggingIn {
	command := func(t *testing.T, l login, address string, args ...string) *exec.Cmd {
		t.Helper()
		return exec.CommandContext(testContext(t), "kcat", append([]string{"-b", address, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanisms=" + l.mechanism,
			"-X", "sasl.username=" + l.user, "-X", "sasl.password=" + l.password}, args...)...)
	}
	return loggingIn{
		produce: func(t *testing.T, l login, address, topic string, n int) (string, error) {
			t.Helper()
			cmd := command(t, l, address, "-P", "-t", topic, "-X", "message.timeout.ms=5000")
			cmd.Stdin = strings.NewReader(strings.Repeat("v\n", n))
			return bounded(t, cmd)
		},
		read: func(t *testing.T, l login, address, topic, group string, n int) (string, error) {
			t.Helper()
			return bounded(t, command(t, l, address, "-X", "auto.offset.reset=earliest", "-c", strconv.Itoa(n), "-G", group, topic))
		},
	}
}

func franzLogin() loggingIn {
	connect := func(t *testing.T, l login, address string, options ...kgo.Opt) *kgo.Client {
		t.Helper()
		mechanism := map[string]sasl.Mechanism{
			"PLAIN":         plain.Auth{User: l.user, Pass: l.password}.AsMechanism(),
			"SCRAM-SHA-256": scram.Auth{User: l.user, Pass: l.password}.AsSha256Mechanism(),
			"SCRAM-SHA-512": scram.Auth{User: l.user, Pass: l.password}.AsSha512Mechanism(),
		}[l.mechanism]
		return Client(t, address, append(options, kgo.SASL(mechanism), kgo.RecordDeliveryTimeout(10*time.Second))...)
	}
	return loggingIn{
		produce: func(t *testing.T, l login, address, topic string, n int) (string, error) {
			t.Helper()
			cl := connect(t, l, address)
			defer cl.Close()
			return "", cl.ProduceSync(testContext(t), texts(topic, "v", 0, n)...).FirstErr()
		},
		read: func(t *testing.T, l login, address, topic, group string, n int) (string, error) {
			t.Helper()
			cl := connect(t, l, address, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
			defer cl.Close()
			ctx, cancel := context.WithTimeout(testContext(t), 30*time.Second)
			defer cancel()
			for got := 0; got < n; {
				fetches := cl.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					return "", err
				}
				got += fetches.NumRecords()
			}
			return "", cl.CommitUncommittedOffsets(ctx)
		},
	}
}

func TestTools_UsersAndClients(t *testing.T) {
	t.Parallel()
	h := StartHawser(t)
	user := []string{"--entity-type", "users", "--entity-name", "alice"}
	h.Tool(configsTool, append(user, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")...)
	h.Tool(configsTool, append(user, "--alter", "--add-config", "producer_byte_rate=1048576")...)
	told := h.Tool(configsTool, append(user, "--describe")...)
	wantText(t, told, `SCRAM-SHA-256=iterations=8192`, `producer_byte_rate=1048576`)
	wantNoText(t, told, `secret`)
	h.Tool(configsTool, append(user, "--alter", "--delete-config", "SCRAM-SHA-256")...)
	wantNoText(t, h.Tool(configsTool, append(user, "--describe")...), `SCRAM-SHA-256=`)
	name := []string{"--entity-type", "clients", "--entity-name", "billing"}
	h.Tool(configsTool, append(name, "--alter", "--add-config", "consumer_byte_rate=2048")...)
	wantText(t, h.Tool(configsTool, append(name, "--describe")...), `consumer_byte_rate=2048`)
	h.Stop()
	h.Start()
	wantText(t, h.Tool(configsTool, append(name, "--describe")...), `consumer_byte_rate=2048`)
}

func TestTools_Acls(t *testing.T) {
	t.Parallel()
	h := StartHawser(t, "--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "--set", "super.users=User:ANONYMOUS")
	h.Tool(aclsTool, "--add", "--allow-principal", "User:alice", "--operation", "Read", "--operation", "Describe", "--topic", "orders")
	h.Tool(aclsTool, "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "All", "--topic", "pay", "--resource-pattern-type", "prefixed")
	h.Tool(aclsTool, "--add", "--allow-principal", "User:carol", "--producer", "--topic", "orders")
	h.Tool(aclsTool, "--add", "--allow-principal", "User:carol", "--consumer", "--topic", "orders", "--group", "billing")
	all := h.Tool(aclsTool, "--list")
	wantText(t, all, `resourceType=TOPIC, name=orders, patternType=LITERAL`, `principal=User:alice, host=\*, operation=READ, permissionType=ALLOW`,
		`resourceType=TOPIC, name=pay, patternType=PREFIXED`, `principal=User:bob, host=10\.0\.0\.1, operation=ALL, permissionType=DENY`,
		`resourceType=GROUP, name=billing`, `principal=User:carol, host=\*, operation=WRITE`)
	wantNoText(t, h.Tool(aclsTool, "--list", "--topic", "orders", "--principal", "User:alice"), `bob|carol`)
	h.Tool(aclsTool, "--remove", "--force", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
	after := h.Tool(aclsTool, "--list", "--principal", "User:alice")
	wantText(t, after, `operation=DESCRIBE`)
	wantNoText(t, after, `operation=READ`)
	h.Stop()
	h.Start()
	wantText(t, h.Tool(aclsTool, "--list"), `principal=User:bob, host=10\.0\.0\.1`)
	h.Tool(aclsTool, "--remove", "--force", "--topic", "orders")
	wantNoText(t, h.Tool(aclsTool, "--list"), `name=orders,`)
}
