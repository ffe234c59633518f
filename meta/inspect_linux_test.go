package meta

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// asNobody runs f by a thread whose accesses to files are those of a user without rights; root has all.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		if os.Geteuid() == 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0) // says nothing of whether it did
		}
		f()
	}()
	<-done
}

// A broker that ran once as root leaves files that its own user may not write: etcd panicked over the database, and one that could
// not be read was called damaged, with the advice to begin anew.
func TestFilesOfAnotherUserAreNotDamaged(t *testing.T) {
	dir := t.TempDir()
	f := filesIn(dir)
	for _, at := range []string{f.wal, f.snap} {
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for at := f.wal; at != filepath.Dir(filepath.Dir(dir)); at = filepath.Dir(at) { // the test's own directories, too
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(f.wal, "0000000000000000-0000000000000000.wal")
	for _, c := range []struct {
		file string
		mode fs.FileMode
	}{{f.db, 0o444}, {f.db, 0o000}, {log, 0o444}, {log, 0o000}} {
		for _, path := range []string{f.db, log} {
			if err := os.WriteFile(path, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(c.file, c.mode); err != nil {
			t.Fatal(err)
		}
		asNobody(t, func() {
			if _, err := os.Stat(f.wal); err != nil {
				return // the directory for temporary files is private
			}
			err := inspect(dir)
			var damaged *DamagedError
			if errors.As(err, &damaged) || !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s with mode %v: %v", c.file, c.mode, err)
			} else if !strings.Contains(err.Error(), c.file) || !strings.Contains(err.Error(), "chown -R") {
				t.Errorf("%v says not which file, or what to do", err)
			}
		})
		if err := os.Chmod(c.file, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
