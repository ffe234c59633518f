//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// process is a child whose output goes to a file and which dies with us.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
	log  string
}

func startProcess(cmd *exec.Cmd, log string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = file
	}
	if cmd.Stderr == nil {
		cmd.Stderr = file
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{}), log: log}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// end sends the signal and waits; what does not end in time is killed and said.
func (p *process) end(signal syscall.Signal, wait time.Duration) error {
	if p.ended() {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil && !p.ended() {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(wait):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("did not end within %v of %v", wait, signal)
	}
}

// pause waits a moment between two looks at something that sends no event.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// testContext ends with the test and leaves it a moment to clean up.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-10*time.Second))
		t.Cleanup(cancel)
	}
	return ctx
}

// eventually polls until ok says true, or fails the test with the last words of ok.
func eventually(t *testing.T, within time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(testContext(t), within)
	defer cancel()
	for {
		done, words := ok()
		if done {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("not within %v: %s: %s", within, what, words)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func randomClusterID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	raw[0] &= 0x3f // a text that begins with '-' would look like a flag to Kafka's tools
	return base64.RawURLEncoding.EncodeToString(raw[:])
}
