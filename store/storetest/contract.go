package storetest

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
)

// Run is the contract of package store as a test. open makes an empty store.
func Run(t *testing.T, open func(testing.TB) store.Store) {
	for _, c := range []struct {
		name string
		run  func(*harness)
	}{
		{"an absent name is ErrNotExist", absent},
		{"a created file is empty and its name taken", created},
		{"appended bytes are readable at once", appended},
		{"reads run beside an append and a sync", beside},
		{"a file opened again goes on at its end", goesOn},
		{"List is sorted and shows sizes", listed},
		{"WriteAtomic replaces", replaced},
		{"WriteHint replaces", hinted},
		{"an open file survives Remove", removed},
		{"an open file survives being renamed over", renamedOver},
		{"a renamed file keeps its bytes and its writer", renamed},
		{"CopyPrefix copies and refuses a taken name", copied},
		{"Cut shortens and spares who reads", cut},
		{"a file takes more after Cut", appendAfterCut},
		{"partitions are listed, removed and set aside", partitions},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := open(t)
			id := kafka.PartitionID{Topic: kafka.NewTopicID(), Partition: 7}
			dir, err := st.Dir(id)
			h := &harness{T: t, st: st, id: id, dir: dir}
			h.ok(err)
			c.run(h)
		})
	}
}

// harness is a store with one directory, and short words for what tests say often.
type harness struct {
	*testing.T
	st  store.Store
	id  kafka.PartitionID
	dir store.Dir
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *harness) is(err, want error) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Fatalf("got error %v, want %v", err, want)
	}
}

// file makes a synced file.
func (h *harness) file(name, content string) store.File {
	h.Helper()
	f, err := h.dir.Create(name)
	h.ok(err)
	h.ok(f.Append([]byte(content)))
	h.ok(f.Sync())
	h.ok(h.dir.SyncDir())
	return f
}

func (h *harness) open() store.File {
	h.Helper()
	f, err := h.dir.Open("a.log")
	h.ok(err)
	return f
}

// holds checks a file's bytes.
func (h *harness) holds(f store.File, want string) {
	h.Helper()
	if f.Size() != int64(len(want)) {
		h.Fatalf("file has size %d, want %d", f.Size(), len(want))
	}
	got := make([]byte, len(want)+1)
	n, err := f.ReadAt(got, 0)
	if n != len(want) || string(got[:n]) != want || !errors.Is(err, io.EOF) {
		h.Fatalf("file holds %q (%v), want %q", got[:n], err, want)
	}
}

func (h *harness) named(name, want string) {
	h.Helper()
	got, err := h.dir.ReadFile(name)
	h.ok(err)
	if string(got) != want {
		h.Fatalf("%s holds %q, want %q", name, got, want)
	}
}

func absent(h *harness) {
	_, err := h.dir.Open("a.log")
	h.is(err, store.ErrNotExist)
	_, err = h.dir.ReadFile("a.log")
	h.is(err, store.ErrNotExist)
	h.is(h.dir.Rename("a.log", "b.log"), store.ErrNotExist)
	h.is(h.dir.CopyPrefix("a.log", "b.log", 0), store.ErrNotExist)
	h.is(h.dir.Cut("a.log", 0), store.ErrNotExist)
	h.ok(h.dir.Remove("a.log"))
}

func created(h *harness) {
	f, err := h.dir.Create("a.log")
	h.ok(err)
	h.holds(f, "")
	_, err = h.dir.Create("a.log")
	h.is(err, store.ErrExist)
	h.ok(f.Close())
}

func appended(h *harness) {
	f, err := h.dir.Create("a.log")
	h.ok(err)
	buffer := []byte("one")
	h.ok(f.Append(buffer))
	copy(buffer, "xxx") // the buffer is the caller's again
	h.ok(f.Append([]byte("two")))
	h.holds(f, "onetwo")
	h.named("a.log", "onetwo")
	part := make([]byte, 2)
	if n, err := f.ReadAt(part, 2); n != 2 || string(part) != "et" || err != nil && !errors.Is(err, io.EOF) {
		h.Fatalf("read %q, %v", part, err)
	}
	if n, err := f.ReadAt(part, 99); n != 0 || !errors.Is(err, io.EOF) {
		h.Fatalf("read behind the end: %d, %v", n, err)
	}
	f.StartWriteback(0, 6)
	f.Uncache(0, 6) // what is not synced yet must not be lost by it
	h.ok(f.Sync())
	f.Uncache(0, 99)
	h.holds(f, "onetwo")
	h.ok(f.Close())
}

func beside(h *harness) {
	f := h.file("a.log", "")
	var group sync.WaitGroup
	block := bytes.Repeat([]byte("0123456789"), 100)
	const blocks = 50
	for range 3 {
		group.Go(func() {
			got := make([]byte, len(block))
			for done := int64(0); done < blocks; {
				size := f.Size() / int64(len(block))
				for ; done < size; done++ {
					if n, _ := f.ReadAt(got, done*int64(len(block))); n < len(block) || !bytes.Equal(got, block) {
						h.Errorf("block %d is not what was appended", done)
						return
					}
				}
			}
		})
	}
	group.Go(func() {
		for range 10 {
			if err := f.Sync(); err != nil {
				h.Error(err)
			}
		}
	})
	for range blocks {
		h.ok(f.Append(block))
	}
	group.Wait()
	h.ok(f.Close())
}

func goesOn(h *harness) {
	h.ok(h.file("a.log", "one").Close())
	f := h.open()
	h.holds(f, "one")
	h.ok(f.Append([]byte("two")))
	h.ok(f.Sync())
	h.holds(f, "onetwo")
	h.ok(f.Close())
}

func listed(h *harness) {
	h.ok(h.file("b.log", "12").Close())
	h.ok(h.file("a.log", "1").Close())
	h.ok(h.dir.WriteAtomic("c", []byte("123")))
	got, err := h.dir.List()
	h.ok(err)
	if want := []store.Info{{Name: "a.log", Size: 1}, {Name: "b.log", Size: 2}, {Name: "c", Size: 3}}; !slices.Equal(got, want) {
		h.Fatalf("List is %v, want %v", got, want)
	}
}

func replaced(h *harness) {
	h.ok(h.dir.WriteAtomic("c", []byte("a longer one")))
	h.ok(h.dir.WriteAtomic("c", []byte("short")))
	h.named("c", "short")
	h.ok(h.dir.WriteAtomic("c", nil))
	h.named("c", "")
}

func hinted(h *harness) {
	h.ok(h.dir.WriteHint("m", []byte("mark 1")))
	h.ok(h.dir.WriteHint("m", []byte("mark 2")))
	h.named("m", "mark 2")
	h.ok(h.dir.SyncDir())
	h.named("m", "mark 2")
}

func removed(h *harness) {
	f := h.file("a.log", "bytes")
	reader := h.open()
	h.ok(h.dir.Remove("a.log"))
	h.ok(h.dir.SyncDir())
	h.holds(reader, "bytes")
	_, err := h.dir.Open("a.log")
	h.is(err, store.ErrNotExist)
	again := h.file("a.log", "other")
	h.holds(again, "other")
	h.holds(reader, "bytes")
	h.ok(errors.Join(f.Close(), reader.Close(), again.Close()))
}

func renamedOver(h *harness) {
	h.ok(h.file("a.log", "old").Close())
	h.ok(h.file("b.log", "new!").Close())
	reader := h.open()
	h.ok(h.dir.Rename("b.log", "a.log"))
	h.ok(h.dir.SyncDir())
	h.holds(reader, "old")
	h.named("a.log", "new!")
	_, err := h.dir.Open("b.log")
	h.is(err, store.ErrNotExist)
	h.ok(reader.Close())
}

func renamed(h *harness) {
	f := h.file("a.log", "one")
	h.ok(h.dir.Rename("a.log", "b.log"))
	h.ok(f.Append([]byte("two")))
	h.ok(f.Sync())
	h.ok(h.dir.SyncDir())
	h.named("b.log", "onetwo")
	h.ok(h.dir.Cut("b.log", 3)) // it is open under a name it was not opened by
	h.holds(f, "onetwo")
	h.named("b.log", "one")
	h.ok(f.Close())
}

func copied(h *harness) {
	h.ok(h.file("a.log", "onetwo").Close())
	h.ok(h.dir.CopyPrefix("a.log", "b.log", 3))
	h.named("b.log", "one")
	h.named("a.log", "onetwo")
	h.is(h.dir.CopyPrefix("a.log", "b.log", 3), store.ErrExist)
	if err := h.dir.CopyPrefix("a.log", "c.log", 7); err == nil {
		h.Fatal("copied more than there is")
	}
	_, err := h.dir.Open("c.log")
	h.is(err, store.ErrNotExist)
}

func cut(h *harness) {
	h.ok(h.file("a.log", "onetwo").Close())
	h.ok(h.dir.Cut("a.log", 5)) // nobody reads
	h.named("a.log", "onetw")
	reader := h.open()
	h.ok(h.dir.Cut("a.log", 3))
	h.holds(reader, "onetw")
	h.named("a.log", "one")
	f := h.open()
	h.ok(f.Append([]byte("TWO")))
	h.holds(reader, "onetw")
	h.holds(f, "oneTWO")
	if err := h.dir.Cut("a.log", 7); err == nil {
		h.Fatal("cut to more than there is")
	}
	h.ok(errors.Join(reader.Close(), f.Close()))
}

func appendAfterCut(h *harness) {
	h.ok(h.file("a.log", "onetwo").Close())
	h.ok(h.dir.Cut("a.log", 0))
	f := h.open()
	h.ok(f.Append([]byte("x")))
	h.ok(f.Sync())
	h.holds(f, "x")
	h.ok(f.Close())
}

func partitions(h *harness) {
	other := kafka.PartitionID{Topic: h.id.Topic, Partition: 8}
	_, err := h.st.Dir(other)
	h.ok(err)
	h.wantPartitions(h.id, other)
	h.ok(h.file("a.log", "bytes").Close())
	reader := h.open()
	h.ok(h.st.Remove(h.id))
	h.ok(h.st.Remove(h.id))
	h.holds(reader, "bytes")
	h.ok(reader.Close())
	h.wantPartitions(other)
	dir, err := h.st.Dir(h.id)
	h.ok(err)
	if infos, err := dir.List(); err != nil || len(infos) > 0 {
		h.Fatalf("a directory made again holds %v, %v", infos, err)
	}
	where, err := h.st.SetAside(other)
	h.ok(err)
	if where == "" {
		h.Fatal("SetAside does not say where")
	}
	h.wantPartitions(h.id)
	_, err = h.st.SetAside(other)
	h.is(err, store.ErrNotExist)
	_, err = h.st.Dir(other)
	h.ok(err)
	again, err := h.st.SetAside(other)
	h.ok(err)
	if again == where {
		h.Fatalf("set aside twice in one place: %s", where)
	}
}

func (h *harness) wantPartitions(want ...kafka.PartitionID) {
	h.Helper()
	got, err := h.st.Partitions()
	h.ok(err)
	text := func(ids []kafka.PartitionID) []string {
		var out []string
		for _, id := range ids {
			out = append(out, id.String())
		}
		slices.Sort(out)
		return out
	}
	if !slices.Equal(text(got), text(want)) {
		h.Fatalf("partitions are %v, want %v", got, want)
	}
}
