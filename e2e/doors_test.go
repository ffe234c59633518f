//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDoors_CommandLinesOfOtherTools runs the command lines that people bring along, word for word.
func TestDoors_CommandLinesOfOtherTools(t *testing.T) {
	t.Parallel()
	source := StartHawser(t)
	admin := Client(t, source.Kafka)
	for _, topic := range []string{"clicks", "orders", "topic-1", "topic-2"} {
		CreateTopic(t, admin, topic, 2, 1, nil)
	}
	h, secured := startLoggingIn(t)
	CreateTopic(t, Client(t, h.Kafka), "plain", 1, 1, nil)

	shell := newShell(t)
	shell.login("command-config.properties", "bob", "bob-secret")
	shell.login("wrong.properties", "bob", "no")
	shell.login("eve.properties", "eve", "eve-secret")
	shell.env = append(shell.env, "KAFKA="+secured, "SOURCE="+source.Kafka, "CONFIG=command-config.properties",
		"AT=--bootstrap-server "+secured+" --command-config command-config.properties")
	script, err := os.ReadFile("testdata/doors/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	steps := readScript(string(script))
	if len(steps) < 40 {
		t.Fatalf("the script has %d steps", len(steps))
	}
	for _, s := range steps {
		shell.run(s)
	}
}

// startLoggingIn starts a hawser whose second listener and REST door know the users bob, who may do everything, and eve.
func startLoggingIn(t *testing.T) (h *Hawser, secured string) {
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
super.users=User:ANONYMOUS;User:bob
`, ports[0], secured)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return StartHawser(t, "--config", file), secured
}

// shell runs command lines in a directory of its own, with hawser under all its names in the path.
type shell struct {
	t   *testing.T
	dir string
	env []string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{t: t, dir: t.TempDir()}
	bin := filepath.Join(s.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hawser", "confluent", "kafka-mirrors", "kafka-mirrors.sh", "kafka-cluster-links"} {
		if err := os.Symlink(binary, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "HAWSER_REST_") && !strings.HasPrefix(pair, "PATH=") {
			s.env = append(s.env, pair)
		}
	}
	s.env = append(s.env, "PATH="+bin+":"+os.Getenv("PATH"))
	return s
}

// login writes a client's properties.
func (s *shell) login(file, user, password string) {
	s.t.Helper()
	text := fmt.Sprintf("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%s\" password=\"%s\";\n", user, password)
	if err := os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// step is one command line of a script, with what it must print.
type step struct {
	line    string
	exit    int
	want    []string
	wantNot []string
}

func readScript(text string) []step {
	var steps []step
	open := false // the command goes on in the next line
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		last := len(steps) - 1
		switch {
		case open:
			steps[last].line += "\n" + line
			open = strings.HasSuffix(line, `\`)
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{line: line[2:]})
			open = strings.HasSuffix(line, `\`)
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "exit "):
			fmt.Sscanf(line, "exit %d", &steps[last].exit)
		case strings.HasPrefix(line, "! "):
			steps[last].wantNot = append(steps[last].wantNot, line[2:])
		default:
			steps[last].want = append(steps[last].want, line)
		}
	}
	return steps
}

func (s *shell) run(want step) {
	s.t.Helper()
	cmd := exec.CommandContext(testContext(s.t), "bash", "-c", want.line)
	cmd.Dir, cmd.Env = s.dir, s.env
	began := time.Now()
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != want.exit {
		s.t.Errorf("$ %s\nexit %d, want %d, after %v:\n%s", want.line, got, want.exit, time.Since(began).Round(time.Millisecond), out)
	}
	for _, expression := range want.want {
		if !regexp.MustCompile(`(?m)` + expression).Match(out) {
			s.t.Errorf("$ %s\nprinted no %q:\n%s", want.line, expression, out)
		}
	}
	for _, expression := range want.wantNot {
		if regexp.MustCompile(`(?m)` + expression).Match(out) {
			s.t.Errorf("$ %s\nprinted %q:\n%s", want.line, expression, out)
		}
	}
}
