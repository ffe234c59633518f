//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binary is the hawser under test, built once by TestMain.
var binary string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hawser-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = os.Getenv("HAWSER_BIN")
	if binary == "" {
		binary = filepath.Join(dir, "hawser")
		build := exec.Command("go", "build", "-trimpath", "-o", binary, "../cmd/hawser")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build hawser: %v\n%s", err, out)
			return 1
		}
	}
	go watchHeap()
	code := m.Run()
	for _, k := range []*Kafka{shared.kafka, guarded.kafka} {
		if k != nil {
			k.Close()
			os.RemoveAll(k.dir)
		}
	}
	return code
}

// Hawser is one broker process.
type Hawser struct {
	t       *testing.T
	dir     string
	args    []string
	env     []string // beside the test's own
	process *process
	Kafka   string // host:port
	HTTP    string // base URL
	Cluster string
	Pid     int
}

// readyLine is what serve prints on stderr once it serves.
var readyLine = regexp.MustCompile(`hawser ready kafka=(\S+) http=(\S+) cluster=(\S+)`)

// StartHawser starts a broker on an empty directory and ports of its own.
func StartHawser(t *testing.T, args ...string) *Hawser {
	t.Helper()
	return startHawserIn(t, nil, args...)
}

// startHawserIn is StartHawser with more in its environment.
func startHawserIn(t *testing.T, env []string, args ...string) *Hawser {
	t.Helper()
	h := newHawser(t, env, args...)
	h.Start()
	return h
}

// newHawser is a broker that has not been started.
func newHawser(t *testing.T, env []string, args ...string) *Hawser {
	t.Helper()
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	h := &Hawser{t: t, dir: t.TempDir(), env: env}
	h.args = append([]string{"serve", "--data", h.data(),
		"--kafka", fmt.Sprintf("127.0.0.1:%d", ports[0]), "--http", fmt.Sprintf("127.0.0.1:%d", ports[1]),
		"--set", "group.initial.rebalance.delay.ms=0"}, args...)
	t.Cleanup(func() {
		if h.process != nil {
			_ = h.process.end(syscall.SIGTERM, 20*time.Second)
		}
		if t.Failed() {
			h.printLog()
		}
	})
	return h
}

// data is its data directory.
func (h *Hawser) data() string { return filepath.Join(h.dir, "data") }

func (h *Hawser) logPath() string { return filepath.Join(h.dir, "log") }

func (h *Hawser) printLog() {
	text, _ := os.ReadFile(h.logPath())
	if len(text) > 20000 {
		text = text[len(text)-20000:]
	}
	h.t.Logf("log of hawser in %s:\n%s", h.dir, text)
}

// Start starts the process again on the same directory and ports, and waits until it is ready.
func (h *Hawser) Start() {
	h.t.Helper()
	before, _ := os.ReadFile(h.logPath())
	cmd := exec.Command(binary, h.args...)
	cmd.Env = append(os.Environ(), h.env...)
	p, err := startProcess(cmd, h.logPath())
	if err != nil {
		h.t.Fatal(err)
	}
	h.process, h.Pid = p, p.cmd.Process.Pid
	eventually(h.t, 60*time.Second, "hawser is ready", func() (bool, string) {
		text, _ := os.ReadFile(h.logPath())
		if found := readyLine.FindSubmatch(text[len(before):]); found != nil {
			h.Kafka, h.HTTP, h.Cluster = string(found[1]), "http://"+string(found[2]), string(found[3])
			return true, ""
		}
		if p.ended() {
			h.t.Fatalf("hawser ended: %v\n%s", p.err, text[len(before):])
		}
		return false, string(text[len(before):])
	})
}

// Kill ends it with SIGKILL; Stop asks it to end and wants exit code 0.
func (h *Hawser) Kill() {
	h.t.Helper()
	if err := h.process.end(syscall.SIGKILL, 20*time.Second); err != nil {
		h.t.Fatal(err)
	}
}

func (h *Hawser) Stop() {
	h.t.Helper()
	if err := h.process.end(syscall.SIGTERM, 20*time.Second); err != nil {
		h.t.Fatal(err)
	}
	if h.process.err != nil {
		h.t.Fatalf("hawser ended with %v after SIGTERM", h.process.err)
	}
}

// Call sends a REST request and returns status and body.
func (h *Hawser) Call(method, path string, body any) (int, map[string]any) {
	h.t.Helper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			h.t.Fatal(err)
		}
		reader = bytes.NewReader(text)
	}
	rq, err := http.NewRequestWithContext(h.t.Context(), method, h.HTTP+path, reader)
	if err != nil {
		h.t.Fatal(err)
	}
	rq.Header.Set("Content-Type", "application/json")
	rs, err := http.DefaultClient.Do(rq)
	if err != nil {
		h.t.Fatal(err)
	}
	defer rs.Body.Close()
	text, err := io.ReadAll(rs.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	var decoded map[string]any
	if len(bytes.TrimSpace(text)) > 0 {
		if err := json.Unmarshal(text, &decoded); err != nil {
			h.t.Fatalf("%s %s: status %d, not JSON: %s", method, path, rs.StatusCode, text)
		}
	}
	return rs.StatusCode, decoded
}

// Must is Call that fails the test unless the status is a good one.
func (h *Hawser) Must(method, path string, body any) map[string]any {
	h.t.Helper()
	status, decoded := h.Call(method, path, body)
	if status/100 != 2 {
		h.t.Fatalf("%s %s: status %d: %v", method, path, status, decoded)
	}
	return decoded
}

// path is a REST path below the cluster.
func (h *Hawser) path(format string, args ...any) string {
	return "/kafka/v3/clusters/" + h.Cluster + fmt.Sprintf(format, args...)
}

// fastLink is configs that make a link's tasks quick, as the behaviour cases want.
var fastLink = map[string]string{
	"consumer.offset.sync.ms":               "1000",
	"acl.sync.ms":                           "1000",
	"topic.config.sync.ms":                  "1000",
	"metadata.max.age.ms":                   "1000",
	"auto.create.mirror.topics.interval.ms": "1000",
	"availability.check.ms":                 "5000",
}

// CreateLink makes a link to the bootstrap addresses.
func (h *Hawser) CreateLink(name, bootstrap string, configs map[string]string) {
	h.t.Helper()
	var list []map[string]string
	add := func(all map[string]string) {
		for key, value := range all {
			list = append(list, map[string]string{"name": key, "value": value})
		}
	}
	add(map[string]string{"bootstrap.servers": bootstrap})
	for key, value := range fastLink {
		if _, ok := configs[key]; !ok {
			add(map[string]string{key: value})
		}
	}
	add(configs)
	h.Must("POST", h.path("/links?link_name=%s", name), map[string]any{"configs": list})
}

// CreateMirror makes a mirror of a topic of the same name.
func (h *Hawser) CreateMirror(link, topic string) {
	h.t.Helper()
	h.Must("POST", h.path("/links/%s/mirrors", link), map[string]any{"source_topic_name": topic})
}

// Mirror is a mirror as REST shows it.
type Mirror struct {
	Status string
	Error  string
	Lag    int64 // of the partition furthest behind
	Raw    map[string]any
}

// Mirror describes a mirror topic.
func (h *Hawser) Mirror(link, topic string) Mirror {
	h.t.Helper()
	raw := h.Must("GET", h.path("/links/%s/mirrors/%s?include_state_transition_errors=true", link, topic), nil)
	m := Mirror{Raw: raw}
	m.Status, _ = raw["mirror_status"].(string)
	m.Error, _ = raw["mirror_topic_error"].(string)
	lags, _ := raw["mirror_lags"].([]any)
	for _, entry := range lags {
		lag, _ := entry.(map[string]any)["lag"].(float64)
		m.Lag = max(m.Lag, int64(lag))
	}
	return m
}

// Order gives a verb to mirrors and fails the test if one of them refuses.
func (h *Hawser) Order(link, verb string, topics ...string) {
	h.t.Helper()
	answer := h.Must("POST", h.path("/links/%s/mirrors:%s", link, verb), map[string]any{"mirror_topic_names": topics})
	for _, entry := range answer["data"].([]any) {
		if text, _ := entry.(map[string]any)["error_message"].(string); text != "" {
			h.t.Fatalf("%s %v: %s", verb, topics, text)
		}
	}
}

// WaitStatus waits until the mirror shows a status.
func (h *Hawser) WaitStatus(link, topic, status string, within time.Duration) {
	h.t.Helper()
	eventually(h.t, within, topic+" is "+status, func() (bool, string) {
		m := h.Mirror(link, topic)
		return m.Status == status, fmt.Sprintf("%s, error %s, lag %d", m.Status, m.Error, m.Lag)
	})
}

// CLI runs the command line against this broker.
func (h *Hawser) CLI(args ...string) (string, int) {
	h.t.Helper()
	cmd := exec.CommandContext(testContext(h.t), binary, args...)
	cmd.Env = append(os.Environ(), "HAWSER_REST_URL="+h.HTTP)
	out, err := cmd.CombinedOutput()
	code := 0
	if err != nil {
		code = cmd.ProcessState.ExitCode()
	}
	return strings.TrimSpace(string(out)), code
}
