//go:build bench

package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a child whose output goes to a file and which dies with us.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	log  string
}

func startProcess(t *testing.T, log string, name string, args ...string) *process {
	t.Helper()
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, done: make(chan struct{}), log: log}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends it at once: nothing that a measurement leaves is kept.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// tail is the last of what it printed.
func (p *process) tail() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-4000):])
}

// cpuSeconds is what processes have used, user and system.
func cpuSeconds(t *testing.T, pids ...int) float64 {
	t.Helper()
	var ticks int64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, field := range fields[11:13] { // utime and stime, the 14th and 15th of all
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			ticks += n
		}
	}
	const perSecond = 100 // USER_HZ, fixed on every Linux that Go runs on
	return float64(ticks) / perSecond
}

// peakMB is the most memory that a process has had resident, in MB.
func peakMB(t *testing.T, pid int) float64 {
	t.Helper()
	return memoryMB(t, pid, "VmHWM:")
}

// residentMB is what memory a process has resident now, in MB.
func residentMB(t *testing.T, pid int) float64 {
	t.Helper()
	return memoryMB(t, pid, "VmRSS:")
}

func memoryMB(t *testing.T, pid int, which string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), which)
	kb, err := strconv.ParseFloat(strings.Fields(rest + " ?")[0], 64)
	if err != nil {
		t.Fatalf("read %s of %d: %v", which, pid, err)
	}
	return kb * 1024 / 1e6
}

// load is the machine's load average over the last minute.
func load() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(text), " ")
	n, _ := strconv.ParseFloat(one, 64)
	return n
}

// busy is the CPU seconds that the whole machine has used, all processes and the kernel.
func busy(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks int64
	for i, field := range strings.Fields(line)[1:] {
		if i == 3 || i == 4 || i >= 8 { // idle, waiting for the disk, guests that are counted already
			continue
		}
		n, _ := strconv.ParseInt(field, 10, 64)
		ticks += n
	}
	return float64(ticks) / 100
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// pause waits a moment between two looks at something that sends no event.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// eventually polls until ok says true, or fails with the last words of ok.
func eventually(t *testing.T, within time.Duration, what string, ok func(ctx context.Context) (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		done, words := ok(ctx)
		if done {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("not within %v: %s: %s", within, what, words)
		}
		pause(ctx, 10*time.Millisecond)
	}
}

func libs(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HAWSER_KAFKA_LIBS")
	if dir == "" {
		t.Fatal("HAWSER_KAFKA_LIBS is not set: run this with make bench, or eval scripts/tools first")
	}
	return filepath.Join(dir, "*")
}

// jvm is how Kafka's own start scripts tune its processes.
var jvm = []string{"-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"}

// startJava starts one of Kafka's processes with the heap that its own script gives it.
func startJava(t *testing.T, log string, heap []string, class, properties string) *process {
	t.Helper()
	args := append(append([]string{}, jvm...), heap...)
	return startProcess(t, log, "java", append(args, "-cp", libs(t), class, properties)...)
}
