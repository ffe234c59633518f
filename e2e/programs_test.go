//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programClient is a client that runs as a process of its own.
func programClient(command func(t *testing.T, args ...string) *exec.Cmd, codecs []string, options ...string) client {
	run := func(t *testing.T, args ...string) {
		t.Helper()
		runProgram(t, command(t, append(args, options...)...))
	}
	return client{
		codecs: codecs,
		create: func(t *testing.T, bootstrap, topic string, partitions int) {
			t.Helper()
			run(t, "create", bootstrap, topic, strconv.Itoa(partitions))
		},
		produce: func(t *testing.T, bootstrap, topic, codec, prefix string, n int) {
			t.Helper()
			run(t, "produce", bootstrap, topic, codec, prefix, strconv.Itoa(n))
		},
		join: func(t *testing.T, bootstrap, topic, group string) *groupMember {
			t.Helper()
			cmd := command(t, append([]string{"member", bootstrap, topic, group}, options...)...)
			return joinBy(t, (*groupMember).line, cmd)
		},
	}
}

// runProgram wants a program to end well and returns what it printed.
func runProgram(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

func javaClient(_ *testing.T, options ...string) client {
	return programClient(func(t *testing.T, args ...string) *exec.Cmd { return javaProgram(t, "Client", args...) }, everyCodec, options...)
}

func librdkafkaClient() client {
	return programClient(func(t *testing.T, args ...string) *exec.Cmd { return pythonProgram(t, "librdkafka.py", args...) }, everyCodec)
}

func kafkaPythonClient() client {
	return programClient(func(t *testing.T, args ...string) *exec.Cmd { return pythonProgram(t, "kafka_python.py", args...) }, everyCodec)
}

func kafkaJSClient() client {
	return programClient(nodeProgram("kafkajs.js"), []string{"none", "gzip"})
}

// platformaticClient has zstd only on Node 22 and later.
func platformaticClient() client {
	return programClient(nodeProgram("platformatic.js"), []string{"none", "gzip", "snappy", "lz4"})
}

func pythonProgram(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(testContext(t), tool(t, "HAWSER_PYTHON"), append([]string{"testdata/clients/" + script}, args...)...)
}

func nodeProgram(script string) func(t *testing.T, args ...string) *exec.Cmd {
	return func(t *testing.T, args ...string) *exec.Cmd {
		t.Helper()
		cmd := exec.CommandContext(testContext(t), "node", append([]string{"testdata/clients/" + script}, args...)...)
		cmd.Env = append(os.Environ(), "NODE_PATH="+tool(t, "HAWSER_NODE_MODULES"), "KAFKAJS_NO_PARTITIONER_WARNING=1")
		return cmd
	}
}

// tool is a path that scripts/tools gave.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := os.Getenv(name)
	if path == "" {
		t.Fatalf("%s is not set: run these tests with make test, or eval scripts/tools first", name)
	}
	return path
}

var classes struct {
	once sync.Once
	dir  string
	err  error
}

// javaProgram is a program of testdata/clients, compiled once a run.
func javaProgram(t *testing.T, class string, args ...string) *exec.Cmd {
	t.Helper()
	libs := filepath.Join(tool(t, "HAWSER_KAFKA_LIBS"), "*")
	classes.once.Do(func() { classes.dir, classes.err = compile(libs) })
	if classes.err != nil {
		t.Fatalf("compile testdata/clients: %v", classes.err)
	}
	return exec.CommandContext(testContext(t), "java", append([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-cp", classes.dir + ":" + libs, class}, args...)...)
}

// compile compiles the Java programs into a folder named after what they say, if nobody has yet.
func compile(libs string) (string, error) {
	sources, err := filepath.Glob("testdata/clients/*.java")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "hawser", fmt.Sprintf("classes-%x", sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "classes-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "javac", append([]string{"-nowarn", "-cp", libs, "-d", work}, sources...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	if err := os.Rename(work, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, nil
}

// kcatOwns is how kcat says on stderr what a rebalance gave it.
var kcatOwns = regexp.MustCompile(`^% Group \S+ rebalanced \([^)]*\): (assigned|revoked|partitions lost).*?: ?(.*)$`)

// kcatClient is kcat, which makes no topics and commits on its own when it ends.
func kcatClient() client {
	c := client{codecs: everyCodec, create: franzClient().create}
	c.produce = func(t *testing.T, bootstrap, topic, codec, prefix string, n int) {
		t.Helper()
		var lines strings.Builder
		for i := range n {
			key := fmt.Sprintf("%s-%d", prefix, i)
			fmt.Fprintf(&lines, "%s:%s\n", key, valueOf(key))
		}
		cmd := exec.CommandContext(testContext(t), "kcat", "-b", bootstrap, "-P", "-t", topic, "-K", ":", "-z", codec, "-X", "enable.idempotence=true")
		cmd.Stdin = strings.NewReader(lines.String())
		runProgram(t, cmd)
	}
	c.join = func(t *testing.T, bootstrap, topic, group string) *groupMember {
		t.Helper()
		cmd := exec.CommandContext(testContext(t), "kcat", "-b", bootstrap, "-u", "-E", "-f", "got %p %o %k %s\\n", "-X", "auto.offset.reset=earliest",
			"-X", "auto.commit.interval.ms=200", "-X", "check.crcs=true", "-X", "reconnect.backoff.max.ms=200", "-G", group, topic)
		m := joinBy(t, kcatLine, cmd)
		m.stop = sync.OnceFunc(func() {
			if err := m.process.end(syscall.SIGTERM, 30*time.Second); err != nil {
				t.Errorf("kcat: %v", err)
			}
			m.own(nil)
		})
		return m
	}
	return c
}

func kcatLine(m *groupMember, text string) {
	found := kcatOwns.FindStringSubmatch(text)
	if found == nil {
		m.line(text)
		return
	}
	var owned []int32
	if found[1] == "assigned" {
		for _, p := range regexp.MustCompile(`\[(\d+)\]`).FindAllStringSubmatch(text, -1) {
			n, _ := strconv.ParseInt(p[1], 10, 32)
			owned = append(owned, int32(n))
		}
	}
	m.own(owned)
}
