package commitlog_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store/disk"
)

var writeGolden = flag.Bool("golden", false, "write testdata/format-1 anew; only for a new format, beside the old ones")

// golden is the log that testdata/format-1 holds.
func golden(t *testing.T) []batch.Batch {
	var all []batch.Batch
	end := kafka.Offset(1000)
	for i := range 40 {
		spec := batch.Spec{BaseOffset: end, LeaderEpoch: kafka.LeaderEpoch(3 + i/15), ProducerID: 7, BaseSequence: int32(3 * i)}
		if i%7 == 6 {
			spec.BaseOffset += 5
		}
		var records []batch.Record
		for j := range 3 {
			records = append(records, batch.Record{Offset: spec.BaseOffset + kafka.Offset(j), Timestamp: now.UnixMilli() + int64(i*100+j), Key: []byte{byte(i)}, Value: make([]byte, 30+i)})
		}
		b := of(t, spec, records...)
		all = append(all, b)
		end = b.NextOffset()
	}
	return all
}

// TestAnOldDirectoryStaysReadable opens directories that earlier versions wrote: one closed in order, one
// after a crash. If it fails, the format has changed: raise the version and keep reading the old one.
func TestAnOldDirectoryStaysReadable(t *testing.T) {
	all := golden(t)
	if *writeGolden {
		root := filepath.Join("testdata", "format-1")
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
		writeGoldenLog(t, filepath.Join(root, "closed"), all, (*commitlog.Log).Close)
		writeGoldenLog(t, filepath.Join(root, "crashed"), all, func(*commitlog.Log) error { return nil })
	}
	for _, how := range []string{"closed", "crashed"} {
		root := t.TempDir()
		if err := os.CopyFS(root, os.DirFS(filepath.Join("testdata", "format-1", how))); err != nil {
			t.Fatal(err)
		}
		st, err := disk.Open(root)
		if err != nil {
			t.Fatal(how, err)
		}
		f := &fixture{T: t, dir: dirOf(t, st)}
		recovery := f.open(small)
		if recovery.Clean != (how == "closed") || recovery.TornBytes > 0 || len(recovery.RebuiltFiles) > 0 || recovery.ScannedBytes > 2000 {
			t.Errorf("%s: %+v", how, recovery)
		}
		f.holds(1010, all...)
		want := []kafka.EpochStart{{Epoch: 3, Start: 1010}, {Epoch: 4, Start: all[15].BaseOffset()}, {Epoch: 5, Start: all[30].BaseOffset()}}
		if got := f.log.Epochs(); !slices.Equal(got, want) {
			t.Errorf("%s: epochs are %v, want %v", how, got, want)
		}
		if err := f.log.Close(); err != nil {
			t.Error(how, err)
		}
		if err := st.Close(); err != nil {
			t.Error(how, err)
		}
	}
}

func writeGoldenLog(t *testing.T, root string, all []batch.Batch, end func(*commitlog.Log) error) {
	st, err := disk.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, dir: dirOf(t, st)}
	f.open(small)
	f.ok(f.log.Reset(1000))
	for i, b := range all {
		f.append(b)
		if i%10 == 9 {
			f.sync()
		}
	}
	f.ok(f.log.SetStart(1010))
	f.ok(end(f.log))
	f.ok(st.Close())
	f.ok(os.Remove(filepath.Join(root, "lock")))
}

// TestKafkaReadsOurFiles runs Kafka's own tool over segments and indexes. HAWSER_KAFKA_LIBS names the
// directory with the jars of a Kafka distribution.
func TestKafkaReadsOurFiles(t *testing.T) {
	libs := os.Getenv("HAWSER_KAFKA_LIBS")
	if libs == "" {
		t.Skip("HAWSER_KAFKA_LIBS is not set: make test sets it")
	}
	root := t.TempDir()
	st, err := disk.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	f := &fixture{T: t, dir: dirOf(t, st)}
	f.open(small)
	for i := range 60 {
		end := f.log.EndOffset()
		spec := batch.Spec{BaseOffset: end, Codec: batch.Codec(i % 5), ProducerID: kafka.NoProducerID, BaseSequence: -1}
		var records []batch.Record
		for j := range 4 {
			records = append(records, batch.Record{Offset: end + kafka.Offset(j), Timestamp: now.UnixMilli() + int64((i*37)%50), Value: []byte(strings.Repeat("value ", 20+j))})
		}
		f.append(of(t, spec, records...))
	}
	f.ok(f.log.Close())
	infos, err := f.dir.List()
	f.ok(err)
	var files []string
	for _, i := range infos {
		if strings.HasPrefix(i.Name, "0") {
			files = append(files, filepath.Join(root, partitionID.String(), i.Name))
		}
	}
	out, err := exec.Command("java", "-cp", libs+"/*", "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", strings.Join(files, ",")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := string(out)
	if got := strings.Count(text, "isvalid: true"); got != 60 {
		t.Errorf("Kafka sees %d valid batches of 60", got)
	}
	if got := strings.Count(text, "| offset: "); got != 240 {
		t.Errorf("Kafka sees %d records of 240", got)
	}
	for _, bad := range []string{"isvalid: false", "Mismatch", "mismatch", "Non-consecutive", "out of order", "Exception", "not correspond"} {
		if strings.Contains(text, bad) {
			t.Errorf("Kafka says %q:\n%s", bad, text)
		}
	}
}
