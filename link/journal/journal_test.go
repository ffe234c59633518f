package journal

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hawserio/hawser/kafka"
)

func all(kafka.TopicID) bool { return true }

func open(t *testing.T, path string, live func(kafka.TopicID) bool) (*Journal, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	j := Open(Config{Path: path, Live: live, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j, &log
}

func put(t *testing.T, j *Journal, list ...Entry) {
	t.Helper()
	if err := j.Append(list); err != nil {
		t.Fatal(err)
	}
}

func entry(topic kafka.TopicID, p int32, applied kafka.Offset, at int64) Entry {
	return Entry{Partition: kafka.PartitionID{Topic: topic, Partition: p}, Epoch: 3, SourceEnd: applied + 5, Applied: applied, At: at, CaughtUp: at - 1, Behind: at - 2}
}

func TestX3_TheJournalOutlivesACrash(t *testing.T) {
	path, topic := filepath.Join(t.TempDir(), "j"), kafka.NewTopicID()
	j, _ := open(t, path, all)
	put(t, j, entry(topic, 0, 10, 100), entry(topic, 1, 7, 100))
	put(t, j, entry(topic, 0, 20, 200))
	moved := entry(topic, 0, 20, 300)
	moved.SourceEnd = 99
	put(t, j, moved) // the same log, seen later
	again, log := open(t, path, all)
	got := again.Last(kafka.PartitionID{Topic: topic})
	if len(got) != 2 || got[0] != moved || got[1] != entry(topic, 0, 10, 100) {
		t.Errorf("partition 0 has %+v", got)
	}
	if got := again.Last(kafka.PartitionID{Topic: topic, Partition: 1}); len(got) != 1 || got[0] != entry(topic, 1, 7, 100) {
		t.Errorf("partition 1 has %+v", got)
	}
	if got := again.Last(kafka.PartitionID{Topic: topic, Partition: 2}); len(got) != 0 {
		t.Errorf("a partition that was not noted has %+v", got)
	}
	if log.Len() > 0 {
		t.Errorf("the log says %s", log)
	}
}

// What is damaged takes nothing else with it, and a tail that a crash cut short is written over.
func TestDamagedEntriesArePassedOver(t *testing.T) {
	topic := kafka.NewTopicID()
	for name, damage := range map[string]func([]byte) []byte{
		"a bit":          func(b []byte) []byte { b[2*entrySize+30] ^= 4; return b },
		"a torn tail":    func(b []byte) []byte { return append(b, b[entrySize:entrySize+50]...) },
		"nought":         func(b []byte) []byte { return append(b, make([]byte, 3*entrySize)...) },
		"negative":       func(b []byte) []byte { e := entry(topic, 0, -9, 50); return e.append(b) },
		"no such number": func(b []byte) []byte { e := entry(topic, -1, 9, 50); return e.append(b) },
	} {
		path := filepath.Join(t.TempDir(), "j")
		j, _ := open(t, path, all)
		put(t, j, entry(topic, 0, 10, 100), entry(topic, 1, 10, 100), entry(topic, 2, 10, 100))
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, damage(b), 0o644); err != nil {
			t.Fatal(err)
		}
		again, log := open(t, path, all)
		found := 0
		for p := range int32(3) {
			found += len(again.Last(kafka.PartitionID{Topic: topic, Partition: p}))
		}
		want := 3
		if name == "a bit" {
			want = 2
		}
		if found != want || !strings.Contains(log.String(), "damaged") {
			t.Errorf("%s: %d entries are left, want %d; the log says %s", name, found, want, log)
		}
		put(t, again, entry(topic, 0, 20, 200))
		if info, err := os.Stat(path); err != nil || info.Size()%entrySize != 0 {
			t.Errorf("%s: the file has %d bytes, %v", name, info.Size(), err)
		}
	}
}

func TestWhatIsNoJournalIsSetAside(t *testing.T) {
	newer := head()
	newer[len(magic)+1] = 2
	for name, content := range map[string][]byte{
		"text": []byte(strings.Repeat("not a journal\n", 20)), "short": []byte("HW"), "empty": {}, "a newer version": seal(newer[:sumAt], 0),
	} {
		path, topic := filepath.Join(t.TempDir(), "j"), kafka.NewTopicID()
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		j, log := open(t, path, all)
		put(t, j, entry(topic, 0, 1, 10))
		kept, err := os.ReadFile(path + ".set-aside")
		if err != nil || !bytes.Equal(kept, content) {
			t.Errorf("%s: kept is %q, %v", name, kept, err)
		}
		if !strings.Contains(log.String(), "cannot be used") || name == "a newer version" && !strings.Contains(log.String(), "version 2") {
			t.Errorf("%s: the log says %s", name, log)
		}
	}
}

func TestTheJournalIsBoundedAndForgetsTopics(t *testing.T) {
	path, topic, gone := filepath.Join(t.TempDir(), "j"), kafka.NewTopicID(), kafka.NewTopicID()
	deleted := false
	j, _ := open(t, path, func(id kafka.TopicID) bool { return id != gone || !deleted })
	put(t, j, entry(gone, 0, 1, 10))
	deleted = true
	const rounds, partitions = 320, 100
	for n := range int64(rounds) {
		var list []Entry
		for p := range int32(partitions) {
			list = append(list, entry(topic, p, kafka.Offset(10*n), 1000*n+10))
		}
		put(t, j, list...)
		if info, err := os.Stat(path); err != nil || info.Size() > rotateLeast+partitions*entrySize {
			t.Fatalf("after %d rounds the file has %d bytes, %v", n, info.Size(), err)
		}
	}
	again, _ := open(t, path, all)
	for p := range int32(partitions) {
		got := again.Last(kafka.PartitionID{Topic: topic, Partition: p})
		if len(got) != keptMax || got[0].Applied != 10*(rounds-1) || got[keptMax-1].Applied != 0 {
			t.Fatalf("partition %d has %+v", p, got)
		}
	}
	if got := again.Last(kafka.PartitionID{Topic: gone}); len(got) != 0 {
		t.Errorf("a topic that was deleted has %+v", got)
	}
}

// A disk that does not take the file holds nothing up, and is tried again.
func TestAJournalThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	path, topic := filepath.Join(dir, "j"), kafka.NewTopicID()
	j, log := open(t, path, all)
	if !strings.Contains(log.String(), "not kept for now") {
		t.Errorf("the log says %s", log)
	}
	if err := j.Append([]Entry{entry(topic, 0, 1, 10)}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("appending where there is no directory: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, j, entry(topic, 0, 2, 20))
	again, _ := open(t, path, all)
	if got := again.Last(kafka.PartitionID{Topic: topic}); len(got) == 0 || got[0].Applied != 2 {
		t.Errorf("the journal has %+v", got)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if err := j.Append([]Entry{entry(topic, 0, 3, 30)}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("appending to a closed one: %v", err)
	}
}

// Whatever the file holds, opening it neither fails nor makes entries up.
func FuzzRead(f *testing.F) {
	good := append(head(), entry(kafka.NewTopicID(), 0, 10, 100).append(nil)...)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, content []byte) {
		in := bytes.NewReader(content)
		if checkHead(in) != nil {
			return
		}
		n := 0
		damaged, err := scan(in, func(e Entry) {
			n++
			if e.Applied < 0 || e.SourceEnd < 0 || e.At <= 0 || e.Partition.Partition < 0 {
				t.Errorf("took %+v", e)
			}
		})
		if slots := (len(content) - 1) / entrySize; err != nil || n+damaged != slots {
			t.Errorf("%d entries and %d damaged of %d bytes, %v", n, damaged, len(content), err)
		}
	})
}
