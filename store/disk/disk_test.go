package disk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
	"github.com/hawserio/hawser/store/disk"
	"github.com/hawserio/hawser/store/storetest"
)

func open(t testing.TB, root string) *disk.Store {
	t.Helper()
	st, err := disk.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func TestDiskKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB) store.Store { return open(t, t.TempDir()) })
}

func TestDirectoriesAreNamedByTopicIDAndPartition(t *testing.T) {
	root := t.TempDir()
	st := open(t, root)
	id := kafka.PartitionID{Topic: kafka.NewTopicID(), Partition: 12}
	if _, err := st.Dir(id); err != nil {
		t.Fatal(err)
	}
	name := id.Topic.String() + "-12"
	if info, err := os.Stat(filepath.Join(root, name)); err != nil || !info.IsDir() || len(name) != 25 {
		t.Fatal(name, err)
	}
	for _, stranger := range []string{"lost+found", "topic-0", name + "x", id.Topic.String() + "--1", id.Topic.String() + "-012"} {
		if err := os.Mkdir(filepath.Join(root, stranger), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ids, err := st.Partitions()
	if err != nil || len(ids) != 1 || ids[0] != id {
		t.Fatal(ids, err)
	}
}

func TestANewerFormatIsRefusedWithWords(t *testing.T) {
	root := t.TempDir()
	open(t, root).Close()
	if err := os.WriteFile(filepath.Join(root, "hawser-format"), []byte("hawser store format 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := disk.Open(root)
	if err == nil || !strings.Contains(err.Error(), "has format 2 and this version of hawser reads up to 1: start the newer version") {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "hawser-format"), []byte("something else"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Open(root); err == nil {
		t.Fatal("opened a directory that is not ours")
	}
}

func TestASecondProcessIsKeptOut(t *testing.T) {
	root := t.TempDir()
	st := open(t, root)
	if _, err := disk.Open(root); err == nil || !strings.Contains(err.Error(), "another hawser") {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, root)
}

func TestABegunRemovalIsFinished(t *testing.T) {
	root := t.TempDir()
	st := open(t, root)
	id := kafka.PartitionID{Topic: kafka.NewTopicID()}
	if _, err := st.Dir(id); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, id.String())
	if err := os.WriteFile(filepath.Join(path, "a.log"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".removed"); err != nil { // as far as a crash let it come
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	ids, err := open(t, root).Partitions()
	if err != nil || len(ids) > 0 {
		t.Fatal(ids, err)
	}
	if _, err := os.Stat(path + ".removed"); !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func TestSetAsideSaysWhere(t *testing.T) {
	st := open(t, t.TempDir())
	id := kafka.PartitionID{Topic: kafka.NewTopicID()}
	dir, err := st.Dir(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.WriteAtomic("c", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	where, err := st.SetAside(id)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(where, "c")); err != nil || string(content) != "kept" {
		t.Fatal(string(content), err)
	}
}

func TestOSFileIsThereForSendfile(t *testing.T) {
	st := open(t, t.TempDir())
	dir, err := st.Dir(kafka.PartitionID{Topic: kafka.NewTopicID()})
	if err != nil {
		t.Fatal(err)
	}
	f, err := dir.Create("a.log")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Append([]byte("bytes")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := f.OSFile().ReadAt(got, 0); err != nil || string(got) != "bytes" {
		t.Fatal(string(got), err)
	}
}
