package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/hawserio/hawser/rest/client"
)

// cluster is one broker process.
type cluster struct {
	name  string
	dir   string
	kafka string // host:port
	http  string // host:port
	rest  *client.Client
	cmd   *exec.Cmd
	done  chan struct{} // closed when the process has ended
	lost  bool          // ended on purpose
	log   *tail
}

var readyLine = regexp.MustCompile(`hawser ready kafka=(\S+) http=(\S+) cluster=(\S+)`)

// startTime bounds one broker's start, five times its goal on a slow machine.
const startTime = 20 * time.Second

func startCluster(ctx context.Context, program, name, dir string) (*cluster, error) {
	c := &cluster{name: name, dir: filepath.Join(dir, name), done: make(chan struct{}), log: &tail{ready: make(chan struct{})}}
	c.cmd = exec.Command(program, "serve", "--data", c.dir, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--set", "group.initial.rebalance.delay.ms=0", "--set", "num.partitions=3")
	c.cmd.Stderr = c.log
	c.cmd.SysProcAttr = childAttributes()
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start cluster %s: %w", name, err)
	}
	go func() {
		_ = c.cmd.Wait() // how it ended is in its log
		close(c.done)
	}()
	wait, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	select {
	case <-c.log.ready:
	case <-c.done:
		return nil, fmt.Errorf("cluster %s ended at once: %s", name, c.log.text())
	case <-wait.Done():
		c.stop()
		return nil, fmt.Errorf("cluster %s was not ready within %v: %s", name, startTime, c.log.text())
	}
	found := readyLine.FindStringSubmatch(c.log.text())
	c.kafka, c.http = found[1], found[2]
	var err error
	c.rest, err = client.New("http://"+c.http, client.Options{ClusterID: found[3]})
	return c, err
}

// alive is nil while the process runs.
func (c *cluster) alive() error {
	select {
	case <-c.done:
		return fmt.Errorf("cluster %s is gone: its process has ended", c.name)
	default:
		return nil
	}
}

// kill ends the process as power loss would: at once.
func (c *cluster) kill() error {
	if err := c.alive(); err != nil {
		return err
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.done
	return nil
}

// stop asks the process to end and kills it if it does not.
func (c *cluster) stop() {
	if c.alive() != nil {
		return
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(10 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

// tail keeps the last of a process's log and tells when the ready line has come.
type tail struct {
	mu    sync.Mutex // guards kept and seen
	kept  []byte
	seen  bool
	ready chan struct{}
}

const tailMax = 64 << 10

var _ io.Writer = (*tail)(nil)

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if !t.seen && readyLine.Match(t.kept) && bytes.HasSuffix(t.kept, []byte("\n")) {
		t.seen = true
		close(t.ready)
	}
	if t.seen && len(t.kept) > tailMax {
		t.kept = bytes.Clone(t.kept[len(t.kept)-tailMax/2:])
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.kept))
}
