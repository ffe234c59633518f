package storetest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
	"github.com/hawserio/hawser/store/storetest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(testing.TB) store.Store { return storetest.NewMemory() })
}

func TestObjectsKeepTheContract(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			storetest.Run(t, func(testing.TB) store.Store { return storetest.NewObjects(seed) })
		})
	}
}

var id = kafka.PartitionID{Topic: kafka.TopicID{1}, Partition: 1}

// crashable makes the same changes to any store that can crash.
func crashable(t *testing.T, st store.Store, crash func(seed uint64) store.Store) {
	t.Helper()
	dir, err := st.Dir(id)
	check(t, err)
	f, err := dir.Create("a.log")
	check(t, err)
	check(t, f.Append([]byte("synced.")))
	check(t, f.Sync())
	check(t, dir.SyncDir())
	check(t, f.Append([]byte("not synced")))
	check(t, dir.WriteAtomic("atomic", []byte("old")))
	check(t, dir.WriteAtomic("atomic", []byte("new")))
	_, err = dir.Create("b.log")
	check(t, err)
	st = crash(1)
	dir, err = st.Dir(id)
	check(t, err)
	got, err := dir.ReadFile("a.log")
	check(t, err)
	if !strings.HasPrefix(string(got), "synced.") || len(got) > len("synced.not synced") {
		t.Fatalf("a.log holds %q", got)
	}
	if got, err := dir.ReadFile("atomic"); err != nil || string(got) != "new" {
		t.Fatalf("atomic holds %q, %v", got, err)
	}
}

func TestSyncedBytesAndNamesSurviveACrash(t *testing.T) {
	for seed := range uint64(30) {
		m := storetest.NewMemory()
		crashable(t, m, func(uint64) store.Store { return m.Crash(seed) })
		o := storetest.NewObjects(seed)
		crashable(t, o, func(uint64) store.Store { return o.Crash(seed) })
	}
}

// TestCrashForgets: a test that relies on something unsynced must be able to fail.
func TestCrashForgets(t *testing.T) {
	m := storetest.NewMemory()
	dir, err := m.Dir(id)
	check(t, err)
	f, err := dir.Create("kept.log")
	check(t, err)
	_, err = dir.Create("gone.log")
	check(t, err)
	check(t, dir.SyncDir())
	check(t, f.Append([]byte(strings.Repeat("x", 3000))))
	_, err = dir.Create("new.log")
	check(t, err)
	check(t, dir.Remove("gone.log"))
	seen := map[string]bool{}
	for seed := range uint64(200) {
		dir, err := m.Crash(seed).Dir(id)
		check(t, err)
		infos, err := dir.List()
		check(t, err)
		has := func(name string) bool {
			return slices.ContainsFunc(infos, func(i store.Info) bool { return i.Name == name })
		}
		seen[fmt.Sprintf("new %t", has("new.log"))] = true
		seen[fmt.Sprintf("removed %t", !has("gone.log"))] = true
		content, err := dir.ReadFile("kept.log")
		check(t, err)
		switch {
		case len(content) == 0:
			seen["nothing of it"] = true
		case strings.Contains(string(content), "\x00"):
			seen["holes in it"] = true
		case len(content) == 3000:
			seen["all of it"] = true
		default:
			seen["a part of it"] = true
		}
	}
	for _, want := range []string{"new true", "new false", "removed true", "removed false", "nothing of it", "all of it", "holes in it", "a part of it"} {
		if !seen[want] {
			t.Errorf("in 200 crashes never: %s", want)
		}
	}
	if st, err := m.Dir(id); err != nil || st == nil {
		t.Fatal("a crash clone changed its original", err)
	}
}

func TestInjectedErrorsStick(t *testing.T) {
	boom := errors.New("boom")
	for _, kind := range []string{"append", "sync"} {
		m := storetest.NewMemory()
		dir, err := m.Dir(id)
		check(t, err)
		f, err := dir.Create("a.log")
		check(t, err)
		m.Hook(func(op storetest.Op) error {
			if op.Kind == kind {
				return boom
			}
			return nil
		})
		if kind == "append" {
			err = f.Append([]byte("1234"))
		} else {
			check(t, f.Append([]byte("1234")))
			err = f.Sync()
		}
		if !errors.Is(err, boom) || !errors.Is(err, store.ErrFailed) {
			t.Fatal(kind, err)
		}
		m.Hook(nil)
		if err := f.Append([]byte("5")); !errors.Is(err, store.ErrFailed) {
			t.Fatal(kind, err)
		}
		if err := f.Sync(); !errors.Is(err, store.ErrFailed) {
			t.Fatal(kind, err)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
