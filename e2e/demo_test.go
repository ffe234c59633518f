//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDemo_OnceChecksWhatItClaims runs the tour as a newcomer does.
func TestDemo_OnceChecksWhatItClaims(t *testing.T) {
	began := time.Now()
	out, err := exec.CommandContext(testContext(t), binary, "demo", "--once").CombinedOutput()
	if err != nil {
		t.Fatalf("demo --once: %v\n%s", err, out)
	}
	if took := time.Since(began); took > 5*30*time.Second {
		t.Errorf("the tour took %v, five times its goal of 30 s", took)
	}
	t.Logf("%s", out)
}

// guided is a tour that waits before each step, so that a test can spoil one.
type guided struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	text strings.Builder
	dir  string
}

func startTour(t *testing.T) *guided {
	t.Helper()
	g := &guided{t: t, dir: t.TempDir()}
	ctx, cancel := context.WithTimeout(testContext(t), 2*time.Minute)
	t.Cleanup(cancel)
	g.cmd = exec.CommandContext(ctx, binary, "demo", "--once", "--step", "--dir", g.dir)
	var err error
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	pipe, err := g.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	g.cmd.Stderr = g.cmd.Stdout
	g.out = bufio.NewReader(pipe)
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return g
}

// steps lets n steps run and returns when the last of them has said its fact.
func (g *guided) steps(n int) {
	g.t.Helper()
	for range n {
		fmt.Fprintln(g.in)
		title, fact := false, false
		for !fact {
			text, err := g.out.ReadString('\n')
			g.text.WriteString(text)
			if err != nil {
				g.t.Fatalf("the tour ended early: %v\n%s", err, g.text.String())
			}
			title = title || regexp.MustCompile(`^\d+\. `).MatchString(text)
			fact = title && strings.HasPrefix(text, "   ")
		}
	}
}

// find reads on until the text has the pattern and returns its group.
func (g *guided) find(pattern string) string {
	g.t.Helper()
	for {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(g.text.String()); found != nil {
			return found[1]
		}
		text, err := g.out.ReadString('\n')
		g.text.WriteString(text)
		if err != nil {
			g.t.Fatalf("the tour ended without %q: %v\n%s", pattern, err, g.text.String())
		}
	}
}

// ends lets the rest run and wants exit code 1 and the words in its last line.
func (g *guided) ends(words string) {
	g.t.Helper()
	fmt.Fprint(g.in, strings.Repeat("\n", 12))
	rest, _ := io.ReadAll(g.out)
	g.text.Write(rest)
	err := g.cmd.Wait()
	if g.cmd.ProcessState.ExitCode() != 1 {
		g.t.Fatalf("the tour ended with %v, want exit code 1\n%s", err, g.text.String())
	}
	lines := strings.Split(strings.TrimSpace(g.text.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, words) {
		g.t.Fatalf("the last line is %q, want %q in it\n%s", last, words, g.text.String())
	}
}

func TestDemo_SaysThatTheSourceEndedTooEarly(t *testing.T) {
	g := startTour(t)
	g.steps(1)
	pid, err := strconv.Atoi(g.find(`east: .*pid (\d+)`))
	if err != nil {
		t.Fatal(err)
	}
	g.steps(1)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	g.ends("east")
}

func TestDemo_FindsAFlippedByteOfTheMirror(t *testing.T) {
	g := startTour(t)
	g.steps(3)
	flip := func() bool {
		files, _ := filepath.Glob(filepath.Join(g.dir, "west", "data", "*", "*.log"))
		for _, path := range files {
			raw, err := os.ReadFile(path)
			if err != nil || len(raw) < 5000 || strings.Contains(string(raw[:1000]), "shipping") {
				continue
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte{raw[4000] ^ 1}, 4000); err != nil {
				t.Fatal(err)
			}
			return true
		}
		return false
	}
	if !flip() {
		t.Fatal("found no segment of the mirror to spoil")
	}
	g.ends("step 4")
}

func TestDemo_SaysThatFailoverWasRefused(t *testing.T) {
	g := startTour(t)
	g.steps(1)
	url := g.find(`west: .*(http://[0-9.:]+)`)
	g.steps(5)
	out, err := exec.CommandContext(testContext(t), binary, "mirror", "failover", "orders", "--link", "from-east", "--wait", "--url", url).CombinedOutput()
	if err != nil {
		t.Fatalf("fail over beforehand: %v\n%s", err, out)
	}
	g.ends("refused")
}
