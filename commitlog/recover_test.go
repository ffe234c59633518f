package commitlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store/disk"
	"github.com/hawserio/hawser/store/storetest"
)

// crashed is a log of 30 batches [0,2] [3,5] … of which the first 20 were synced, in
// one segment, after a crash that everything survived; size is a batch's bytes.
func crashed(t *testing.T) (f *fixture, st *storetest.Memory, size int) {
	f, st = inMemory(t)
	f.open(commitlog.Config{SegmentBytes: 1 << 20, IndexInterval: 300})
	f.fill(20, 1)
	f.sync()
	f.fill(10, 1)
	st = crash(st, true)
	f.dir = dirOf(t, st)
	return f, st, len(f.held[0])
}

// crash finds a crash after which all is there, or nothing that was not synced.
func crash(st *storetest.Memory, lucky bool) *storetest.Memory {
	var best *storetest.Memory
	var bestSize int64
	for seed := range uint64(64) {
		after := st.Crash(seed)
		dir, _ := after.Dir(partitionID)
		infos, _ := dir.List()
		size := int64(0)
		for _, i := range infos {
			size += i.Size
		}
		if best == nil || lucky && size > bestSize || !lucky && size < bestSize {
			best, bestSize = after, size
		}
	}
	return best
}

const firstLog = "00000000000000000000.log"

// spoil changes a file's bytes.
func (f *fixture) spoil(st *storetest.Memory, name string, change func([]byte) []byte) {
	f.Helper()
	content, err := f.dir.ReadFile(name)
	f.ok(err)
	st.Plant(partitionID, name, change(content))
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 0x10; return b }
}

func TestD6_DecayOfSyncedBytesIsNotATornTail(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(size int) func([]byte) []byte
		says   string // "" for a torn tail
		keeps  int    // batches
	}{
		{"a bit below the mark", func(size int) func([]byte) []byte { return flip(10*size + 80) }, "00000000000000000000.log at %d*10", 0},
		{"the last synced batch's header", func(size int) func([]byte) []byte { return flip(19*size + 10) }, "synced up to", 0},
		{"a bit above the mark, a batch follows", func(size int) func([]byte) []byte { return flip(25*size + 80) }, "and a whole batch follows at %d*26", 0},
		{"a length above the mark, a batch follows", func(size int) func([]byte) []byte { return flip(25*size + 9) }, "and a whole batch follows at %d*26", 0},
		{"the last batch, above the mark", func(size int) func([]byte) []byte { return flip(29*size + 80) }, "", 29},
		{"file ends in a batch above the mark", func(size int) func([]byte) []byte {
			return func(b []byte) []byte { return b[:25*size+7] }
		}, "", 25},
		{"file ends below the mark", func(size int) func([]byte) []byte {
			return func(b []byte) []byte { return b[:19*size] }
		}, "the file ends here", 0},
		{"a sector above the mark was never written", func(size int) func([]byte) []byte {
			return func(b []byte) []byte { at := (22*size/512 + 1) * 512; clear(b[at : at+512]); return b }
		}, "", -1},
		{"a sector below the mark reads as zeros", func(size int) func([]byte) []byte {
			return func(b []byte) []byte { at := (12*size/512 + 1) * 512; clear(b[at : at+512]); return b }
		}, "synced up to", 0},
		{"garbage after the last batch", func(size int) func([]byte) []byte {
			return func(b []byte) []byte { return append(b, bytes.Repeat([]byte{2, 7}, 900)...) }
		}, "", 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, st, size := crashed(t)
			f.spoil(st, firstLog, c.change(size))
			l, recovery, err := commitlog.Open(f.dir, small)
			if c.says == "" {
				f.ok(err)
				f.log = l
				n := int(l.EndOffset()) / 3
				if c.keeps >= 0 && n != c.keeps || n < 20 || recovery.TornBytes == 0 && c.keeps < 30 {
					t.Fatalf("%d batches are left, %+v", n, recovery)
				}
				f.holds(0, f.held[:n]...)
				f.held = f.held[:n]
				f.fill(3, 1)
				f.reopen(small)
				f.holds(0, f.held...)
				return
			}
			f.wantErr(err, commitlog.ErrCorrupt)
			says := c.says
			if name, times, ok := strings.Cut(says, "%d*"); ok {
				var n int
				_, _ = fmt.Sscan(times, &n)
				says = fmt.Sprintf("%s%d", name, n*size)
			}
			if !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), firstLog) {
				t.Fatalf("error %q does not say %q", err, says)
			}
		})
	}
}

// A sync of bytes leaves the mark for later: until then decay of the last batch looks like a write that a crash tore.
func TestD6_AMarkThatIsWrittenLaterVouchesFromThenOn(t *testing.T) {
	for _, marked := range []bool{false, true} {
		f, st := inMemory(t)
		f.open(commitlog.Config{SegmentBytes: 1 << 20, IndexInterval: 300})
		f.fill(20, 1)
		end, owed, err := f.log.SyncBytes()
		f.ok(err)
		if end != 60 || f.log.SyncedEnd() != 60 || !owed {
			t.Fatalf("synced to %d, owed %t", end, owed)
		}
		if marked {
			f.ok(f.log.Mark())
		}
		st = crash(st, true)
		f.dir = dirOf(t, st)
		f.spoil(st, firstLog, flip(19*len(f.held[0])+80))
		l, _, err := commitlog.Open(f.dir, small)
		if marked {
			f.wantErr(err, commitlog.ErrCorrupt)
			continue
		}
		f.ok(err)
		if l.EndOffset() != 57 {
			t.Errorf("the log ends at %d", l.EndOffset())
		}
		f.log = l
	}
}

// What moves megabytes is marked as it is synced: a recovery would have to take them for torn.
func TestManyBytesAreMarkedAtOnce(t *testing.T) {
	f, _ := inMemory(t)
	f.open(commitlog.Config{})
	for i, want := range []bool{true, true, true, false, true, true, true, false} {
		f.append(build(t, kafka.Offset(i), 1, 1, now.UnixMilli(), 1<<20))
		if _, owed, err := f.log.SyncBytes(); err != nil || owed != want {
			t.Errorf("after %d MiB the mark is owed: %t, %v", i+1, owed, err)
		}
	}
}

// A checkpoint that is lost is missed by the mark alone, so the first mark after one was made is not left for later.
func TestTheFirstMarkThatVouchesForACheckpointIsWrittenAtOnce(t *testing.T) {
	f, _ := inMemory(t)
	f.open(commitlog.Config{})
	at := kafka.Offset(0)
	for _, want := range []bool{true, true, false, true} {
		if at == 2 {
			f.ok(f.log.Reset(at))
		}
		f.append(build(t, at, 1, 1, now.UnixMilli(), 100))
		if _, owed, err := f.log.SyncBytes(); err != nil || owed != want {
			t.Errorf("with the batch at %d the mark is owed: %t, %v", at, owed, err)
		}
		at++
	}
}

func TestABatchInsideATornBatchIsNotTakenForOneThatFollows(t *testing.T) {
	f, st := inMemory(t)
	f.open(commitlog.Config{})
	f.fill(2, 1)
	f.sync()
	inner := build(f, 1<<40, 3, 1, now.UnixMilli(), 50) // as a topic's values may be
	value := bytes.Repeat(inner, 30)
	f.append(of(f, batch.Spec{BaseOffset: 6, LeaderEpoch: 1, ProducerID: -1, BaseSequence: -1}, batch.Record{Offset: 6, Value: value}))
	f.dir = dirOf(t, crash(st, true))
	st = crash(st, true)
	f.dir = dirOf(t, st)
	f.spoil(st, firstLog, func(b []byte) []byte { return b[:len(b)-10] })
	if recovery := f.open(small); f.log.EndOffset() != 6 || recovery.FormerEnd != 7 {
		t.Fatalf("log ends at %d, %+v", f.log.EndOffset(), recovery)
	}
}

func TestMissingOrShortSegmentsAreCorruption(t *testing.T) {
	f, st := inMemory(t)
	f.open(small)
	f.fill(40, 1)
	f.ok(f.log.Close())
	segments := f.log.Segments()
	sealed, active := fmt.Sprintf("%020d.log", segments[1].Base), fmt.Sprintf("%020d.log", segments[len(segments)-1].Base)
	for _, name := range []string{sealed, active} {
		copied := crash(st, true)
		dir := dirOf(t, copied)
		f.ok(dir.Remove(name))
		if _, _, err := commitlog.Open(dir, small); !errors.Is(err, commitlog.ErrCorrupt) || !strings.Contains(err.Error(), name+" is missing") {
			t.Errorf("without %s: %v", name, err)
		}
		copied = crash(st, true)
		f.dir = dirOf(t, copied)
		f.spoil(copied, name, func(b []byte) []byte { return b[:len(b)-300] })
		if _, _, err := commitlog.Open(f.dir, small); !errors.Is(err, commitlog.ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("with a short %s: %v", name, err)
		}
	}
}

func TestIndexesAreRebuilt(t *testing.T) {
	for _, how := range []string{"closed", "crashed"} {
		for _, spoil := range []string{"removed", "cut", "garbled"} {
			t.Run(how+" and "+spoil, func(t *testing.T) {
				f, st := inMemory(t)
				f.open(small)
				f.fill(60, 1)
				f.sync()
				if how == "closed" {
					f.ok(f.log.Close())
				}
				st = crash(st, true)
				f.dir = dirOf(t, st)
				infos, err := f.dir.List()
				f.ok(err)
				spoilt := 0
				for _, i := range infos {
					if !strings.HasSuffix(i.Name, "index") || i.Size == 0 {
						continue
					}
					spoilt++
					switch spoil {
					case "removed":
						f.ok(f.dir.Remove(i.Name))
					case "cut":
						f.spoil(st, i.Name, func(b []byte) []byte { return b[:len(b)/2+1] })
					case "garbled":
						f.spoil(st, i.Name, flip(int(i.Size)-3))
					}
				}
				if spoilt < 6 {
					t.Fatalf("only %d index files", spoilt)
				}
				recovery := f.open(small)
				if spoil != "garbled" && len(recovery.RebuiltFiles) < 6 {
					t.Errorf("rebuilt %v", recovery.RebuiltFiles)
				}
				f.holds(0, f.held...)
				f.fill(10, 1)
				f.ok(f.log.Close())
				f.open(small)
				f.holds(0, f.held...)
			})
		}
	}
}

func TestASpoiltCheckpointIsMadeAnew(t *testing.T) {
	f, st := inMemory(t)
	f.open(small)
	f.fill(30, 1)
	f.fill(30, 4)
	f.ok(f.log.Truncate(120)) // so that marks have a generation
	f.held = f.held[:40]
	f.ok(f.log.Close())
	f.spoil(st, "log-checkpoint", flip(40))
	recovery := f.open(small)
	if !slices.Contains(recovery.RebuiltFiles, "log-checkpoint") || recovery.Clean {
		t.Fatalf("%+v", recovery)
	}
	f.holds(0, f.held...)
	f.fill(10, 5)
	f.reopen(small)
	f.holds(0, f.held...)
	// Without a checkpoint nothing says which segments were synced: a bad one in the middle cannot be a tail.
	f.ok(f.log.Close())
	f.spoil(st, "log-checkpoint", flip(40))
	f.spoil(st, firstLog, flip(300))
	if _, _, err := commitlog.Open(f.dir, small); !errors.Is(err, commitlog.ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestANewerFormatIsRefusedWithWords(t *testing.T) {
	f, st := inMemory(t)
	f.open(small)
	f.fill(3, 1)
	f.ok(f.log.Close())
	f.spoil(st, "log-checkpoint", func(b []byte) []byte { binary.BigEndian.PutUint32(b[4:], 2); return b })
	_, _, err := commitlog.Open(f.dir, small)
	if err == nil || errors.Is(err, commitlog.ErrCorrupt) || !strings.Contains(err.Error(), "log-checkpoint has format 2 and this version of hawser reads up to 1: start the newer version that wrote it") {
		t.Fatal(err)
	}
}

func TestRecoveryReadsOnlyWhatTheMarkDoesNotVouchFor(t *testing.T) {
	dir := diskDir(t)
	f := &fixture{T: t, dir: dir}
	f.open(commitlog.Config{})
	big := build(t, 0, 1, 1, now.UnixMilli(), 1<<20)
	for i := range 40 {
		b := slices.Clone(big)
		b.SetBaseOffset(kafka.Offset(i))
		f.append(b)
		if i%8 == 7 {
			f.sync()
		}
	}
	// The process dies here: nothing is closed, everything the system had is there.
	recovery := f.open(commitlog.Config{})
	if recovery.Clean || recovery.TornBytes > 0 || recovery.ScannedBytes > 17<<20 {
		t.Fatalf("%+v of %d bytes", recovery, f.log.Size())
	}
	f.holds(0, f.held...)
}

func TestAThousandPartitionsOpenWithoutScansAndFiles(t *testing.T) {
	root := t.TempDir()
	st, err := disk.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	topic := kafka.NewTopicID()
	const partitions = 1000
	open := func(i int) (*commitlog.Log, commitlog.Recovery) {
		dir, err := st.Dir(kafka.PartitionID{Topic: topic, Partition: int32(i)})
		if err != nil {
			t.Fatal(err)
		}
		l, recovery, err := commitlog.Open(dir, commitlog.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return l, recovery
	}
	l, _ := open(0)
	if err := l.Append([]byte(build(t, 0, 3, 1, now.UnixMilli(), 100)), now); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(root, kafka.PartitionID{Topic: topic}.String())
	for i := range partitions - 1 {
		if err := os.CopyFS(filepath.Join(root, fmt.Sprintf("%s-%d", topic, i+1)), os.DirFS(first)); err != nil {
			t.Fatal(err)
		}
	}
	before := openFiles(t)
	began := time.Now()
	logs := make([]*commitlog.Log, partitions)
	for i := range logs {
		var recovery commitlog.Recovery
		if logs[i], recovery = open(i); !recovery.Clean || recovery.ScannedBytes > 0 {
			t.Fatalf("partition %d: %+v", i, recovery)
		}
	}
	took := time.Since(began)
	t.Logf("%d partitions opened in %v", partitions, took)
	if more := openFiles(t) - before; more > 10 {
		t.Errorf("%d files are open", more)
	}
	if took > 5*time.Second {
		t.Errorf("opening took %v", took)
	}
	for i, l := range logs {
		if l.EndOffset() != 3 {
			t.Fatalf("partition %d ends at %d", i, l.EndOffset())
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("this system does not say which files are open")
	}
	return len(entries)
}

// FuzzOpen puts any bytes where a segment was: Open must cut them or refuse them, and never show what is no batch.
func FuzzOpen(f *testing.F) {
	good := build(f, 0, 3, 1, now.UnixMilli(), 40)
	second := build(f, 3, 1, 1, now.UnixMilli(), 40)
	both := append(slices.Clone([]byte(good)), second...)
	f.Add([]byte{}, uint8(0))
	f.Add(both, uint8(0))
	f.Add(both, uint8(200))
	f.Add(both[:len(both)-5], uint8(0))
	f.Add(append(slices.Clone(both[:30]), both...), uint8(0))
	f.Add(append(make([]byte, 600), both...), uint8(0))
	f.Fuzz(func(t *testing.T, content []byte, keep uint8) {
		fix, st := inMemory(t)
		fix.open(small)
		fix.append(good)
		fix.sync() // the checkpoint and the mark vouch for it
		fix.append(second)
		st = crash(st, true)
		// The segment keeps some of its bytes and then holds the stranger's.
		kept := min(int(keep), len(good))
		st.Plant(partitionID, firstLog, append(slices.Clone([]byte(good[:kept])), content...))
		dir := dirOf(t, st)
		l, _, err := commitlog.Open(dir, small)
		if err != nil {
			if !errors.Is(err, commitlog.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		next, size := kafka.Offset(0), 0
		err = l.Scan(0, false, func(b batch.Batch) error {
			if b.BaseOffset() < next {
				return fmt.Errorf("batch at %d below %d", b.BaseOffset(), next)
			}
			next = b.NextOffset()
			size += len(b)
			return b.CheckCRC()
		})
		if err != nil || next != l.EndOffset() || int64(size) != l.Size() {
			t.Fatalf("log of %d bytes to %d shows %d to %d: %v", l.Size(), l.EndOffset(), size, next, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if again, recovery, err := commitlog.Open(dir, small); err != nil || !recovery.Clean || again.EndOffset() != next {
			t.Fatal(recovery, err)
		}
	})
}

// FuzzSmallFiles puts any bytes, with a CRC that fits, where checkpoint and mark were.
func FuzzSmallFiles(f *testing.F) {
	fix, st := inMemory(&testing.T{})
	_ = st
	l, _, err := commitlog.Open(fix.dir, small)
	if err != nil {
		f.Fatal(err)
	}
	for i := range 30 {
		if err := l.Append([]byte(build(f, kafka.Offset(3*i), 3, 1, now.UnixMilli(), 60)), now); err != nil {
			f.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"log-checkpoint", "log-synced"} {
		content, err := fix.dir.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(name == "log-synced", content[12:])
	}
	f.Fuzz(func(t *testing.T, second bool, body []byte) {
		fix, st := inMemory(t)
		fix.open(small)
		fix.fill(30, 1)
		fix.sync()
		st = crash(st, true)
		name := "log-checkpoint"
		if second {
			name = "log-synced"
		}
		head, err := dirOf(t, st).ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		content := append(head[:8:8], 0, 0, 0, 0)
		binary.BigEndian.PutUint32(content[8:], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		st.Plant(partitionID, name, append(content, body...))
		l, _, err := commitlog.Open(dirOf(t, st), small)
		if err != nil {
			return
		}
		_ = l.Scan(l.StartOffset(), false, func(batch.Batch) error { return nil })
		_, _ = l.MaxTimestamp(l.EndOffset())
	})
}

// A log whose checkpoint is gone, not spoilt, was taken for one that never had one, so that a first segment above offset 0 counted as never synced: it was
// removed, and all others with it. What was cut, or emptied, once had no mark that counted against that.
func TestALostCheckpointTakesNothing(t *testing.T) {
	for _, end := range []string{"closed", "crashed"} {
		t.Run(end, func(t *testing.T) {
			f, _ := inMemory(t)
			f.open(small)
			f.fill(10, 1)
			f.sync()
			f.ok(f.log.SetStart(f.log.EndOffset())) // raises the generation
			f.held = nil
			start := f.log.StartOffset()
			f.fill(60, 1)
			f.sync()
			if end == "closed" {
				f.ok(f.log.Close())
			}
			f.ok(f.dir.Remove("log-checkpoint"))
			if recovery := f.open(small); !slices.Contains(recovery.RebuiltFiles, "log-checkpoint") {
				t.Errorf("%+v", recovery)
			}
			f.holds(start, f.held...)
			f.reopen(small)
			f.holds(start, f.held...)
		})
	}
}
