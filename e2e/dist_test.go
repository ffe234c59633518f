//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDist_PackageRuns makes what is released for this machine, unpacks the Debian package into a directory and walks
// a newcomer's path with what is in it: three commands to the first mirrored record of a stock Kafka.
func TestDist_PackageRuns(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("this machine has no dpkg-deb")
	}
	t.Parallel()
	k := SharedKafka(t)
	out := filepath.Join(t.TempDir(), "dist")
	build := exec.CommandContext(testContext(t), "../scripts/dist")
	build.Env = append(os.Environ(), "DIST="+out, "DIST_PLATFORMS=linux/"+runtime.GOARCH, "VERSION=v9.8.7-6-gabcdef0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("scripts/dist: %v\n%s", err, text)
	}
	checkSums(t, out)
	root := t.TempDir()
	deb := filepath.Join(out, "hawser_9.8.7+6.gabcdef0_"+runtime.GOARCH+".deb")
	if text, err := exec.CommandContext(testContext(t), "dpkg-deb", "-x", deb, root).CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb -x: %v\n%s", err, text)
	}
	checkPackage(t, root)
	newcomer(t, k, filepath.Join(root, "usr/bin/hawser"))
}

func checkSums(t *testing.T, out string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if len(lines) != 2 {
		t.Errorf("SHA256SUMS has\n%s", raw)
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		file, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(file)) != sum {
			t.Errorf("%s: %v, or another sum", line, err)
		}
	}
}

func checkPackage(t *testing.T, root string) {
	t.Helper()
	binary := filepath.Join(root, "usr/bin/hawser")
	program, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 || program.Section(".interp") != nil {
		t.Errorf("the binary is not static: %v, %v", libraries, err)
	}
	version, err := exec.CommandContext(testContext(t), binary, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(version), "v9.8.7-6-gabcdef0") {
		t.Errorf("hawser version: %v, %s", err, version)
	}
	for _, name := range []string{"kafka-mirrors", "kafka-cluster-links"} {
		if to, err := os.Readlink(filepath.Join(root, "usr/bin", name)); err != nil || to != "/usr/bin/hawser" {
			t.Errorf("%s leads to %q, %v", name, to, err)
		}
	}
	for _, file := range []string{"etc/hawser/hawser.properties", "etc/default/hawser", "usr/share/bash-completion/completions/hawser",
		"usr/share/man/man1/hawser.1.gz", "usr/share/man/man1/hawser-mirror-failover.1.gz", "usr/share/man/man1/kafka-mirrors.1.gz", "usr/share/doc/hawser/copyright"} {
		if info, err := os.Stat(filepath.Join(root, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/hawser.service"))
	if err != nil {
		t.Fatal(err)
	}
	// The unit's command line is one that the program takes, on the package's own files.
	found := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/hawser (.*) \$HAWSER_OPTS$`).FindSubmatch(unit)
	if found == nil {
		t.Fatalf("the unit starts something else:\n%s", unit)
	}
	args := strings.Fields(strings.NewReplacer("/var/lib/hawser", t.TempDir(), "/etc/hawser", filepath.Join(root, "etc/hawser")).Replace(string(found[1])))
	args = append(args, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0")
	log := filepath.Join(t.TempDir(), "log")
	p, err := startProcess(exec.Command(binary, args...), log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.end(syscall.SIGTERM, 20*time.Second) }()
	eventually(t, 30*time.Second, "the unit's command line serves", func() (bool, string) {
		text, _ := os.ReadFile(log)
		return readyLine.Match(text), string(text)
	})
}

// newcomer runs the README's three commands and reads the first mirrored record.
func newcomer(t *testing.T, k *Kafka, program string) {
	t.Helper()
	source := Client(t, k.Bootstrap())
	topic := "newcomer-" + strings.ToLower(randomClusterID())
	CreateTopic(t, source, topic, 1, 1, nil)
	if err := source.ProduceSync(testContext(t), texts(topic, "hello", 0, 1)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	begun := time.Now()
	serve := exec.Command(program, "serve", "--data", filepath.Join(dir, "data"), "--kafka", fmt.Sprintf("127.0.0.1:%d", ports[0]), "--http", fmt.Sprintf("127.0.0.1:%d", ports[1]))
	log := filepath.Join(dir, "log")
	p, err := startProcess(serve, log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.end(syscall.SIGTERM, 20*time.Second) }()
	eventually(t, 30*time.Second, "the broker serves", func() (bool, string) {
		text, _ := os.ReadFile(log)
		return readyLine.Match(text), string(text)
	})
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(testContext(t), program, append(args, "--url", fmt.Sprintf("http://127.0.0.1:%d", ports[1]))...)
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("hawser %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), stderr.String())
		}
		return out.String()
	}
	run("link", "create", "my-link", "--source-bootstrap-server", k.Bootstrap(), "--sync-groups", "*")
	run("mirror", "create", topic, "--link", "my-link", "--wait")
	took := time.Since(begun)
	if got := run("consume", topic, "--exit-at-end"); got != "hello-0\n" {
		t.Errorf("the mirror has %q", got)
	}
	t.Logf("from the released binary to the first mirrored record: %v, three commands", took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("it took %v, more than 10 s", took)
	}
}
