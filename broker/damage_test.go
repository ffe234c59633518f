package broker_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/broker"
	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// harm is what a disk or a hand does to a file.
type harm string

const (
	emptied  harm = "emptied"
	cut      harm = "cut"
	flipped  harm = "flipped"
	removed  harm = "removed"
	replaced harm = "replaced" // by a directory
)

func (h harm) do(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	switch h {
	case emptied:
		return os.WriteFile(path, nil, 0o600)
	case cut:
		return os.WriteFile(path, text[:len(text)/2], 0o600)
	case flipped:
		if len(text) > 0 {
			text[len(text)*3/4] ^= 4
		}
		return os.WriteFile(path, text, 0o600)
	}
	if err := os.Remove(path); err != nil || h == removed {
		return err
	}
	return os.Mkdir(path, 0o755)
}

// What becomes of a partition one file of which is damaged.
const (
	served = "served" // all of it, as it was written
	told   = "told"   // clients find by their CRC that a batch is not what was written; nothing is made up
	out    = "out"    // of service: every call says why
)

// partitionFiles is each kind of file of a partition, by the end of its name, the first or the last of its kind, with what becomes of it.
var partitionFiles = []struct {
	name, ending string
	last         bool
	after        map[harm]string
}{
	{"first-segment", ".log", false, map[harm]string{emptied: out, cut: out, flipped: told, removed: out, replaced: out}},
	{"last-segment", ".log", true, map[harm]string{emptied: out, cut: out, flipped: told, removed: out, replaced: out}},
	{"index", ".index", false, map[harm]string{emptied: served, cut: served, flipped: served, removed: served}},
	{"timeindex", ".timeindex", true, map[harm]string{emptied: served, cut: served, flipped: served, removed: served}},
	{"checkpoint", "log-checkpoint", false, map[harm]string{emptied: served, cut: served, flipped: served, removed: served, replaced: out}},
	{"mark", "log-synced", false, map[harm]string{emptied: served, cut: served, flipped: served, removed: served}},
	{"snapshot", ".snapshot", true, map[harm]string{emptied: served, cut: served, flipped: served, removed: served}},
}

const recordsOfEach = 6

// bigRecord is large enough for a log of them to be given a snapshot when it is closed.
func bigRecord(topic string, i int) []byte {
	return fmt.Appendf(nil, "%s %d %s", topic, i, strings.Repeat("x", 60_000))
}

// damagedTopics makes a topic for each kind of file and harm, each of several segments, and emptied before by DeleteRecords (so that
// its log has a start and a generation to forget).
func damagedTopics(t *testing.T, b *broker.Broker) map[string]kafka.TopicID {
	t.Helper()
	c := client(t, b, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	defer c.Close()
	var names []string
	admin := kadm.NewClient(c)
	ids := map[string]kafka.TopicID{}
	for _, f := range partitionFiles {
		var those []string
		for h := range f.after {
			those = append(those, f.name+"."+string(h))
		}
		roll, every := "1", "1" // a segment for each record
		if strings.HasSuffix(f.ending, "index") {
			roll = "3600000" // one with entries
		}
		made, err := admin.CreateTopics(within(t), 1, 1, map[string]*string{"segment.ms": &roll, "index.interval.bytes": &every}, those...)
		if err != nil || made.Error() != nil {
			t.Fatal(err, made.Error())
		}
		for name, one := range made {
			ids[name] = kafka.TopicID(one.ID)
		}
		names = append(names, those...)
	}
	write := func(record func(name string) *kgo.Record) {
		var list []*kgo.Record
		for _, name := range names {
			list = append(list, record(name))
		}
		if err := c.ProduceSync(within(t), list...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	write(func(name string) *kgo.Record {
		return &kgo.Record{Topic: name, Value: []byte("deleted")}
	})
	ends, err := admin.ListEndOffsets(within(t), names...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DeleteRecords(within(t), ends.Offsets()); err != nil {
		t.Fatal(err)
	}
	for i := range recordsOfEach {
		write(func(name string) *kgo.Record {
			return &kgo.Record{Topic: name, Value: bigRecord(name, i)}
		})
	}
	return ids
}

// harmAll does to each topic what its name says.
func harmAll(t *testing.T, dir string, closed bool, ids map[string]kafka.TopicID) {
	t.Helper()
	for _, f := range partitionFiles {
		for h := range f.after {
			parent := filepath.Join(dir, "data", ids[f.name+"."+string(h)].String()+"-0")
			files, err := filepath.Glob(filepath.Join(parent, "*"+f.ending))
			if err != nil {
				t.Fatal(err)
			}
			if len(files) == 0 {
				if !closed { // snapshots and indexes come with an orderly end
					continue
				}
				t.Fatalf("%s: no file %s", f.name, f.ending)
			}
			at := files[0]
			if f.last {
				at = files[len(files)-1]
			}
			if f.ending == ".log" && len(files) < 3 {
				t.Fatalf("%s: only %d segments", f.name, len(files))
			}
			if err := h.do(at); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// readable reads each topic to its end and says what became of it.
func readable(t *testing.T, b *broker.Broker, ids map[string]kafka.TopicID) map[string]string {
	t.Helper()
	became := map[string]string{}
	c := client(t, b)
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(within(t)) // names no partition without a leader
	left := map[string]int{}
	from := map[string]map[int32]kgo.Offset{}
	for name := range ids {
		o, is := ends.Lookup(name, 0)
		switch {
		case !is && outOfService(err), outOfService(o.Err):
			became[name] = out
		case o.Err != nil || o.Offset != recordsOfEach+1:
			became[name] = fmt.Sprintf("ends at %d, %v", o.Offset, o.Err)
		default:
			left[name] = 0
			from[name] = map[int32]kgo.Offset{0: kgo.NewOffset().AtStart()}
		}
	}
	r := client(t, b, kgo.ConsumePartitions(from), kgo.FetchMaxWait(100*time.Millisecond))
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(left) > 0 {
		fetches := r.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("still not read: %v", left)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			n, waiting := left[p.Topic]
			if !waiting {
				return
			}
			for _, record := range p.Records {
				if record.Offset != int64(n+1) || !bytes.Equal(record.Value, bigRecord(p.Topic, n)) {
					became[p.Topic] = fmt.Sprintf("at %d it has %.40q", record.Offset, record.Value)
				}
				n++
			}
			left[p.Topic] = n
			switch {
			case became[p.Topic] != "":
			case p.Err != nil && strings.Contains(p.Err.Error(), "crc"):
				became[p.Topic] = told
			case p.Err != nil && !kerr.IsRetriable(p.Err):
				became[p.Topic] = p.Err.Error()
			case n == recordsOfEach:
				became[p.Topic] = served
			}
			if became[p.Topic] != "" {
				delete(left, p.Topic)
			}
		})
	}
	return became
}

// Each kind of file of a partition is emptied, cut, changed by a bit, removed and replaced by a directory, after an orderly stop and after a crash. What
// follows from the log is made anew; a log that is not what was synced is out of service, or found out by its readers. Nothing is
// lost silently, nothing is made up, and the others go on.
func TestDamagedFilesOfPartitions(t *testing.T) {
	dir, crashed := t.TempDir(), t.TempDir()
	b := start(t, dir, nil)
	ids := damagedTopics(t, b)
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil { // while it runs
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(crashed, "meta", "secret.key"), 0o600); err != nil {
		t.Fatal(err)
	}
	stop(t, b)
	for how, at := range map[string]string{"closed": dir, "crashed": crashed} {
		t.Run(how, func(t *testing.T) {
			harmAll(t, at, how == "closed", ids)
			for _, round := range []string{"at the first start", "at the second start"} {
				b := start(t, at, nil)
				became := readable(t, b, ids)
				for _, f := range partitionFiles {
					for h, want := range f.after {
						got := became[f.name+"."+string(h)]
						// After a crash the end of the log is read again, and the change found.
						if got != want && !(want == told && got == out && how == "crashed") {
							t.Errorf("%s %s, %s: %s, want %s", f.name, h, round, got, want)
						}
					}
				}
				stop(t, b)
			}
		})
	}
}

// The files beside the partitions: those that hold nothing are made anew, the others are named with what to do, and nothing is changed.
func TestDamagedFilesOfTheDataDirectory(t *testing.T) {
	good := t.TempDir()
	b := start(t, good, nil)
	c := client(t, b)
	create(t, c, "orders", 1)
	c.Close()
	stop(t, b)
	for name, refused := range map[string]map[harm]string{
		"lock":               {replaced: "is a directory"},
		"data/lock":          {replaced: "is a directory"},
		"data/hawser-format": {emptied: "put a copy of the file back", cut: "put a copy of the file back", flipped: "put a copy of the file back", replaced: "is a directory"},
		"audit.log":          {replaced: "is a directory"},
		"meta/lock":          {replaced: "is a directory"},
		"meta/secret.key":    {emptied: "put back a copy of it", cut: "put back a copy of it", flipped: "back", removed: "from a backup", replaced: "is a directory"},
	} {
		for _, h := range []harm{emptied, cut, flipped, removed, replaced} {
			t.Run(name+" "+string(h), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(dir, "meta", "secret.key"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := h.do(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				b, err := broker.Start(t.Context(), broker.Config{Dir: dir, Kafka: "127.0.0.1:0", NodeID: 1})
				if err == nil {
					defer stop(t, b)
				}
				switch words := refused[h]; {
				case (words != "") != (err != nil):
					t.Errorf("refused: %v", err)
				case err != nil && (!strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), filepath.Base(name))):
					t.Errorf("%v: lacks %q or the file's name", err, words)
				}
			})
		}
	}
}
