package meta_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/meta/metatest"
)

// used is where a file's last written byte is: etcd reserves more.
func used(b []byte) int { return len(bytes.TrimRight(b, "\x00")) }

// damages are what a disk or a hand does to a file.
var damages = map[string]func(b []byte) []byte{
	"deleted":     func([]byte) []byte { return nil },
	"empty":       func([]byte) []byte { return []byte{} },
	"cut":         func(b []byte) []byte { return b[:used(b)*3/4] },
	"zeroed end":  func(b []byte) []byte { clear(b[used(b)*3/4:]); return b },
	"zeroed page": func(b []byte) []byte { clear(b[used(b)/2 : min(used(b)/2+4096, len(b))]); return b },
	"zeroed head": func(b []byte) []byte { clear(b[:min(8192, len(b))]); return b },
	"garbage head": func(b []byte) []byte {
		copy(b, bytes.Repeat([]byte("garbage!"), 100))
		return b
	},
	// A key of etcd's that is out of its order, as where less than a page was lost: its revision, a line, and a number in it.
	"zeroed key": func(b []byte) []byte {
		key := append(append(binary.BigEndian.AppendUint64(nil, 20), '_'), make([]byte, 8)...)
		return bytes.ReplaceAll(b, key, make([]byte, len(key)))
	},
	"flipped mid":  func(b []byte) []byte { b[used(b)/2] ^= 16; return b },
	"flipped late": func(b []byte) []byte { b[used(b)*7/8] ^= 16; return b },
}

// A damaged file of the embedded etcd either does no harm or is named, with what to do; never is there a panic, and never a
// store that opens with less in it than there was.
func TestADamagedStoreIsNamed(t *testing.T) {
	good := t.TempDir()
	m := metatest.Open(t, meta.Config{Dir: good})
	for i := range 40 {
		topic := &meta.Topic{ID: kafka.NewTopicID(), Name: fmt.Sprint("t", i), Partitions: 1}
		if err := m.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) { return []meta.Change{meta.PutTopic(topic)}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	want := maps.Clone(m.Image().TopicIDs)
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, pattern := range []string{"snap/db", "wal/*.wal"} {
		found, err := filepath.Glob(filepath.Join(good, "etcd/member", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		names = append(names, found...)
	}
	for _, name := range names {
		rel, err := filepath.Rel(good, name)
		if err != nil {
			t.Fatal(err)
		}
		for how, damage := range damages {
			t.Run(filepath.Base(rel)+" "+how, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(dir, "secret.key"), 0o600); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, rel)
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if b = damage(b); b == nil {
					err = os.Remove(path)
				} else {
					err = os.WriteFile(path, b, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(how, "flipped") && filepath.Base(rel) == "db" {
					openAnyhow(t, dir)
					return
				}
				checkDamaged(t, dir, want)
			})
		}
	}
}

// openAnyhow opens a store of whose values one has a bit that is wrong. The database has no sums: it may open, or the value may be refused
// for what it says now.
func openAnyhow(t *testing.T, dir string) {
	t.Helper()
	m, err := meta.Open(t.Context(), meta.Config{Dir: dir, UnsafeNoFsync: true})
	if err == nil {
		err = m.Close()
	}
	if err != nil && strings.Contains(err.Error(), "goroutine ") {
		t.Errorf("a trace: %v", err)
	}
}

// checkDamaged opens a store, which must have the topics wanted, or say what is wrong with it.
func checkDamaged(t *testing.T, dir string, want map[string]kafka.TopicID) {
	t.Helper()
	m, err := meta.Open(t.Context(), meta.Config{Dir: dir, UnsafeNoFsync: true})
	if err == nil {
		if got := m.Image().TopicIDs; !maps.Equal(got, want) {
			t.Errorf("it opened with %d topics of %d", len(got), len(want))
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	var damaged *meta.DamagedError
	if !errors.As(err, &damaged) {
		t.Fatalf("error is %v", err)
	}
	for _, word := range []string{dir, "Put a copy", "--new-identity"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q says nothing of %s", err, word)
		}
	}
	if strings.Contains(err.Error(), "goroutine ") {
		t.Errorf("a trace: %v", err)
	}
}
