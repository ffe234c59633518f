//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// groupMember is a member of a consumer group that says in lines what it owns and what it
// reads: "own P,P…" and "got P OFFSET KEY VALUE". testdata/clients/Client.java says more.
type groupMember struct {
	t       *testing.T
	stop    func()   // commits, leaves the group and waits for the end
	process *process // nil if it runs in this one

	mu    sync.Mutex
	owned []int32
	read  map[string]int // times each key was read
	said  string         // the last line that was neither
	wrong string         // the first thing that was not as it must be
}

func newGroupMember(t *testing.T) *groupMember { return &groupMember{t: t, read: map[string]int{}} }

func (m *groupMember) owns() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.owned)
}

func (m *groupMember) keys() map[string]int {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wrong != "" {
		m.t.Fatal(m.wrong)
	}
	return maps.Clone(m.read)
}

func (m *groupMember) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	words := fmt.Sprintf("owns %v and has read %d", m.owned, len(m.read))
	if m.said != "" {
		words += ", said " + m.said
	}
	if m.process != nil && m.process.ended() {
		words += ", and has ended"
	}
	return words
}

// own says what the member owns from now on.
func (m *groupMember) own(partitions []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned = slices.Clone(partitions)
}

// got counts a record.
func (m *groupMember) got(partition int32, offset int64, key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if value != valueOf(key) && m.wrong == "" {
		m.wrong = fmt.Sprintf("the value of %s, partition %d offset %d, is %q", key, partition, offset, value)
	}
	m.read[key]++
}

// valueOf is the value that every client's producer gives a key.
func valueOf(key string) string { return strings.Repeat(key+"/", 8) }

// line takes one line of a program.
func (m *groupMember) line(text string) {
	words := strings.Split(text, " ")
	switch {
	case words[0] == "own":
		var owned []int32
		for _, p := range strings.FieldsFunc(strings.Join(words[1:], " "), func(r rune) bool { return r == ',' || r == ' ' }) {
			n, err := strconv.ParseInt(p, 10, 32)
			if err != nil {
				continue
			}
			owned = append(owned, int32(n))
		}
		m.own(owned)
	case words[0] == "got" && len(words) == 5:
		partition, err1 := strconv.ParseInt(words[1], 10, 32)
		offset, err2 := strconv.ParseInt(words[2], 10, 64)
		if err1 != nil || err2 != nil {
			m.t.Errorf("not a record: %q", text)
		}
		m.got(int32(partition), offset, words[3], words[4])
	default:
		m.mu.Lock()
		defer m.mu.Unlock()
		m.said = text
	}
}

// joinBy runs a program as a member of a group. It stops when its stdin gets a line.
func joinBy(t *testing.T, line func(*groupMember, string), cmd *exec.Cmd) *groupMember {
	t.Helper()
	m := newGroupMember(t)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w := io.Pipe()
	cmd.Stdout = w
	if cmd.Stderr == nil {
		cmd.Stderr = w // kcat says there what it owns
	}
	p, err := startProcess(cmd, os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	m.process = p
	var readers sync.WaitGroup
	readers.Go(func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			line(m, s.Text())
		}
	})
	t.Cleanup(func() {
		_ = p.end(syscall.SIGKILL, 5*time.Second)
		w.Close()
		readers.Wait()
	})
	m.stop = sync.OnceFunc(func() {
		_, _ = io.WriteString(in, "stop\n")
		in.Close()
		select {
		case <-p.done:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s does not stop", cmd.Path)
		}
		if p.err != nil {
			t.Errorf("%s: %v", cmd.Path, p.err)
		}
		w.Close()
		readers.Wait()
		m.own(nil)
	})
	return m
}

// joinIn runs consume as a member until stop; consume must return when done is closed.
func joinIn(t *testing.T, consume func(m *groupMember, done <-chan struct{})) *groupMember {
	m := newGroupMember(t)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		consume(m, done)
	}()
	m.stop = sync.OnceFunc(func() {
		close(done)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Error("the member does not stop")
		}
		m.own(nil)
	})
	t.Cleanup(m.stop)
	return m
}
