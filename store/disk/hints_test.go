package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
)

func hintStore(t *testing.T, max int) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.hints.max = max
	return s
}

func writeHint(t *testing.T, dir store.Dir, name, content string) {
	t.Helper()
	if err := dir.WriteHint(name, []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func wantHint(t *testing.T, dir store.Dir, name, content string) {
	t.Helper()
	if got, err := dir.ReadFile(name); err != nil || string(got) != content {
		t.Errorf("%s holds %q, %v, want %q", name, got, err, content)
	}
}

func TestHintsStayOpenWithinABound(t *testing.T) {
	s := hintStore(t, 3)
	var running sync.WaitGroup
	dirs := make([]store.Dir, 8)
	for n := range dirs {
		var err error
		if dirs[n], err = s.Dir(kafka.PartitionID{Topic: kafka.NewTopicID(), Partition: int32(n)}); err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			for round := range 50 {
				writeHint(t, dirs[n], "mark", fmt.Sprintf("%d of %d", round, n))
			}
		})
	}
	running.Wait()
	for n, dir := range dirs {
		wantHint(t, dir, "mark", fmt.Sprintf("49 of %d", n))
	}
	if open := s.hints.order.Len(); open != 3 || len(s.hints.files) != 3 {
		t.Errorf("%d hints are open, %d by name, want 3", open, len(s.hints.files))
	}
}

// TestHintFollowsItsName writes to whatever has the name now, not to the file that had it when the hint was opened.
func TestHintFollowsItsName(t *testing.T) {
	for _, c := range []struct {
		name string
		part func(dir *Dir) error
	}{
		{"removed", func(dir *Dir) error { return dir.Remove("mark") }},
		{"replaced", func(dir *Dir) error { return dir.WriteAtomic("mark", []byte("between")) }},
		{"renamed", func(dir *Dir) error { return dir.Rename("mark", "other") }},
		{"renamed over", func(dir *Dir) error { return dir.Rename("other", "mark") }},
		{"directory removed", func(dir *Dir) error {
			id, _ := parseName(filepath.Base(dir.path))
			if err := dir.store.Remove(id); err != nil {
				return err
			}
			return os.Mkdir(dir.path, 0o755)
		}},
		{"directory set aside", func(dir *Dir) error {
			id, _ := parseName(filepath.Base(dir.path))
			if _, err := dir.store.SetAside(id); err != nil {
				return err
			}
			return os.Mkdir(dir.path, 0o755)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := hintStore(t, 3)
			made, err := s.Dir(kafka.PartitionID{Topic: kafka.NewTopicID()})
			if err != nil {
				t.Fatal(err)
			}
			dir := made.(*Dir)
			writeHint(t, dir, "mark", "before")
			writeHint(t, dir, "other", "another")
			if err := c.part(dir); err != nil {
				t.Fatal(err)
			}
			writeHint(t, dir, "mark", "afterwards")
			wantHint(t, dir, "mark", "afterwards")
		})
	}
}

// TestHintTakenWhileItsNameIsParted puts nothing back that is no longer what the name says.
func TestHintTakenWhileItsNameIsParted(t *testing.T) {
	s := hintStore(t, 3)
	dir, err := s.Dir(kafka.PartitionID{Topic: kafka.NewTopicID()})
	if err != nil {
		t.Fatal(err)
	}
	writeHint(t, dir, "mark", "before")
	path := dir.(*Dir).join("mark")
	f, seen := s.hints.take(path)
	if f == nil {
		t.Fatal("the hint is not open")
	}
	if err := dir.Remove("mark"); err != nil {
		t.Fatal(err)
	}
	if err := s.hints.keep(path, f, seen); err != nil {
		t.Fatal(err)
	}
	writeHint(t, dir, "mark", "afterwards")
	wantHint(t, dir, "mark", "afterwards")
}
