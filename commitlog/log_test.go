package commitlog_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store"
	"github.com/hawserio/hawser/store/storetest"
)

func TestAppendedBatchesAreReadBack(t *testing.T) {
	onEveryStore(t, func(f *fixture) {
		f.open(small)
		f.fill(20, 1)
		f.append(build(f, f.log.EndOffset(), 2, 2, 0, 500), build(f, f.log.EndOffset()+2, 1, 3, 0, 3000)) // the last is larger than a segment
		f.fill(10, 3)
		f.holds(0, f.held...)
		f.sync()
		f.holds(0, f.held...)
		if n := len(f.log.Segments()); n < 5 {
			f.Fatalf("%d segments", n)
		}
		f.reopen(small)
		f.holds(0, f.held...)
		f.fill(5, 3)
		f.reopen(small)
		f.reopen(small)
		f.holds(0, f.held...)
	})
}

// TestDiscardedLogIsWhatACrashLeaves: nothing is written, and if it is not removed after all, what was synced is there.
func TestDiscardedLogIsWhatACrashLeaves(t *testing.T) {
	onEveryStore(t, func(f *fixture) {
		f.open(small)
		f.fill(20, 1)
		f.sync()
		f.log.Discard()
		f.log.Discard()
		f.open(small)
		f.holds(0, f.held...)
	})
}

func TestReadBounds(t *testing.T) {
	onEveryStore(t, func(f *fixture) {
		f.open(commitlog.Config{SegmentBytes: 1 << 20, IndexInterval: 200})
		var all []byte
		for i := range 30 { // batches [0,2] [10,12] … [290,292], with holes between
			b := build(f, kafka.Offset(10*i), 3, 0, now.UnixMilli(), 50)
			f.append(b)
			all = append(all, b...)
		}
		size := len(f.held[0])
		from := func(i, j int) []byte { return all[i*size : j*size] }
		for _, c := range []struct {
			name       string
			from, upTo kafka.Offset
			maxBytes   int
			one        bool
			want       []byte
		}{
			{"whole log", 0, 293, 1 << 20, false, all},
			{"from inside a batch", 11, 293, 1 << 20, false, from(1, 30)},
			{"from a hole", 5, 293, 1 << 20, false, from(1, 30)},
			{"up to a batch's begin leaves it out", 20, 40, 1 << 20, false, from(2, 4)},
			{"up to inside a batch takes it along", 20, 41, 1 << 20, false, from(2, 5)},
			{"up to a hole", 20, 47, 1 << 20, false, from(2, 5)},
			{"up to below the first batch found", 5, 10, 1 << 20, true, nil},
			{"bytes for exactly three", 0, 293, 3 * size, false, from(0, 3)},
			{"bytes for a bit less", 0, 293, 3*size - 1, false, from(0, 2)},
			{"bytes for none", 20, 293, size - 1, false, nil},
			{"bytes for none, but one is wanted", 20, 293, size - 1, true, from(2, 3)},
			{"no bytes, but one is wanted", 292, 293, 0, true, from(29, 30)},
			{"end", 293, 293, 100, true, nil},
			{"far", 150, 293, 8 * size, false, from(15, 23)},
		} {
			if got := f.read(c.from, c.upTo, c.maxBytes, c.one); !bytes.Equal(got, c.want) {
				f.Errorf("%s: %d bytes, want %d", c.name, len(got), len(c.want))
			}
		}
		for upTo, next := range map[kafka.Offset]kafka.Offset{7: 10, 10: 10, 11: 0} {
			if s, err := f.log.Read(5, upTo, 1, false); err != nil || s.Length != 0 || s.Next != next {
				f.Errorf("from a hole up to %d: %d bytes, next batch at %d, %v; want none and %d", upTo, s.Length, s.Next, err, next)
			}
		}
		_, err := f.log.Read(294, 300, 100, true)
		f.wantErr(err, commitlog.ErrOutOfRange)
		f.ok(f.log.SetStart(15))
		_, err = f.log.Read(14, 293, 100, true)
		f.wantErr(err, commitlog.ErrOutOfRange)
		if got := f.read(15, 293, size, false); !bytes.Equal(got, from(2, 3)) {
			f.Errorf("from a start in a hole: %d bytes", len(got))
		}
	})
}

func TestScanStopsWithTheCallersError(t *testing.T) {
	f, _ := inMemory(t)
	f.open(small)
	f.fill(20, 1)
	stop := errors.New("enough")
	seen := 0
	err := f.log.Scan(4, true, func(b batch.Batch) error {
		if len(b) != batch.HeaderSize || len(b.Payload()) != 0 || !bytes.Equal(b, f.held[seen+1][:batch.HeaderSize]) {
			t.Fatalf("batch %d is not the header of what was appended", seen)
		}
		if seen++; seen == 12 {
			return stop
		}
		return nil
	})
	if err != stop || seen != 12 {
		t.Fatal(err, seen)
	}
	f.wantErr(f.log.Scan(1000, true, nil), commitlog.ErrOutOfRange)
}

func TestAppendRefuses(t *testing.T) {
	f, _ := inMemory(t)
	f.open(small)
	f.append(build(f, 10, 3, 5, 0, 10))
	good := build(f, 13, 3, 5, 0, 10)
	for name, bad := range map[string][]byte{
		"an offset below the end":        build(f, 12, 3, 5, 0, 10),
		"an epoch that falls":            build(f, 13, 3, 4, 0, 10),
		"a second batch below the first": append(slices.Clone(good), build(f, 14, 1, 5, 0, 10)...),
		"a batch cut short":              good[:len(good)-1],
		"something after a batch":        append(slices.Clone(good), 1, 2, 3),
	} {
		if err := f.log.Append(bad, now); err == nil {
			t.Errorf("took %s", name)
		}
		if f.log.EndOffset() != 13 {
			t.Fatalf("%s: log ends at %d", name, f.log.EndOffset())
		}
	}
	f.append(good)
	f.holds(0, f.held...)
}

func TestAFirstBatchMayBeginBelowTheStart(t *testing.T) {
	onEveryStore(t, func(f *fixture) {
		f.open(small)
		f.fill(3, 1)
		f.ok(f.log.Reset(500))
		f.held = nil
		if f.log.StartOffset() != 500 || f.log.EndOffset() != 500 || f.log.LastEpoch() != kafka.NoEpoch || len(f.log.Epochs()) > 0 {
			f.Fatal("log is not empty at 500")
		}
		if err := f.log.Append([]byte(build(f, 480, 10, 7, 0, 5)), now); err == nil {
			f.Fatal("took a batch that lies wholly below the start")
		}
		f.append(build(f, 495, 10, 7, now.UnixMilli(), 5), build(f, 505, 1, 7, now.UnixMilli(), 5))
		if err := f.log.Append([]byte(build(f, 500, 10, 7, 0, 5)), now); err == nil {
			f.Fatal("took a second one below the end")
		}
		f.holds(500, f.held...)
		if got := f.log.Epochs(); !slices.Equal(got, []kafka.EpochStart{{Epoch: 7, Start: 500}}) {
			f.Fatalf("epochs are %v", got)
		}
		if found, err := f.log.OffsetForTime(0, 600); err != nil || found.Offset != 500 {
			f.Fatalf("the first record is at %v, %v; nothing below the start may be found", found, err)
		}
		f.reopen(small)
		f.holds(500, f.held...)
	})
}

func TestEmptyBatchesAndHolesWiderThanASegmentSpans(t *testing.T) {
	onEveryStore(t, func(f *fixture) {
		f.open(commitlog.Config{SegmentBytes: 1 << 20, IndexInterval: 1})
		spec := batch.Spec{BaseOffset: 3, ProducerID: kafka.NoProducerID, BaseSequence: -1, LastDelta: 4}
		f.append(build(f, 0, 3, 0, now.UnixMilli(), 10), of(f, spec)) // 3..7, nothing in it
		far := kafka.Offset(1<<31 + 100)
		f.append(build(f, far, 3, 0, now.UnixMilli(), 10))                  // past 2^31-1 from the segment's base
		f.append(build(f, far+1<<31-1, 1, 0, now.UnixMilli(), 10))          // exactly at it
		f.append(build(f, far+1<<31, 1, 0, now.UnixMilli(), 10))            // and one above
		f.append(build(f, far+1<<33, 3, 0, now.UnixMilli(), 10))            // a hole that no segment spans
		f.append(build(f, far+1<<33+3, 1<<4, 0, now.UnixMilli()+1000, 100)) // and on
		f.holds(0, f.held...)
		var bases []kafka.Offset
		for _, s := range f.log.Segments() {
			if s.Next-1-s.Base > 1<<31-1 {
				f.Errorf("segment %d reaches to %d", s.Base, s.Next)
			}
			bases = append(bases, s.Base)
		}
		if want := []kafka.Offset{0, far, far + 1<<31, far + 1<<33}; !slices.Equal(bases, want) {
			f.Errorf("segments at %v, want %v", bases, want)
		}
		if got := f.read(4, f.log.EndOffset(), 1, true); !bytes.Equal(got, f.held[1]) {
			f.Error("a read in the empty batch does not find it")
		}
		if got := f.read(far+1<<32, f.log.EndOffset(), 1, true); !bytes.Equal(got, f.held[5]) {
			f.Error("a read in the wide hole does not find the batch behind it")
		}
		f.sync()
		f.reopen(small)
		f.holds(0, f.held...)
	})
}

func TestSegmentsRollByAge(t *testing.T) {
	f, _ := inMemory(t)
	f.open(commitlog.Config{SegmentAge: time.Hour})
	at := func(d time.Duration) { f.ok(f.log.Append([]byte(build(f, f.log.EndOffset(), 1, 0, 0, 1)), now.Add(d))) }
	at(0)
	at(time.Hour)
	at(time.Hour + time.Millisecond)
	at(2 * time.Hour)
	if s := f.log.Segments(); len(s) != 2 || s[1].Base != 2 || !s[1].Active || s[0].Active {
		t.Fatalf("segments are %+v", s)
	}
}

func TestSetStartIsKeptAndDeletesWholeSegments(t *testing.T) {
	onEveryStore(t, func(f *fixture) {
		f.open(small)
		f.fill(10, 1)
		f.fill(20, 4)
		end := f.fill(10, 6)
		f.wantErr(f.log.SetStart(end+1), commitlog.ErrOutOfRange)
		segments := f.log.Segments()
		start := segments[2].Base + 4
		f.ok(f.log.SetStart(start))
		f.ok(f.log.SetStart(start - 3)) // changes nothing
		if got := f.log.Segments(); len(got) != len(segments)-2 || got[0].Base != segments[2].Base {
			f.Fatalf("segments are %+v", got)
		}
		if epochs := f.log.Epochs(); epochs[0] != (kafka.EpochStart{Epoch: 4, Start: max(start, 30)}) || len(epochs) != 2 {
			f.Fatalf("epochs are %v", epochs)
		}
		f.holds(start, f.held...)
		f.reopen(small)
		f.holds(start, f.held...)
		f.ok(f.log.SetStart(end))
		if n := len(f.log.Segments()); n > 0 || f.log.StartOffset() != end || f.log.EndOffset() != end || f.log.SyncedEnd() != end {
			f.Fatalf("%d segments, [%d, %d)", n, f.log.StartOffset(), f.log.EndOffset())
		}
		if f.log.LastEpoch() != 6 {
			f.Fatal("the last epoch is forgotten")
		}
		f.reopen(small)
		f.held = nil
		f.fill(2, 6)
		f.holds(end, f.held...)
	})
}

func TestT9_TruncationLeavesReadersTheirBytes(t *testing.T) {
	onEveryStore(t, func(f *fixture) {
		f.open(small)
		f.fill(30, 1)
		f.sync()
		type reader struct {
			slice commitlog.Slice
			want  []byte
		}
		var readers []reader
		for _, from := range []kafka.Offset{0, 30, 60, 87} {
			s, err := f.log.Read(from, 90, 1<<20, true)
			f.ok(err)
			want, err := s.Bytes()
			f.ok(err)
			readers = append(readers, reader{s, want})
		}
		f.ok(f.log.Truncate(46)) // in the middle of batch [45,47]
		if f.log.EndOffset() != 45 || f.log.SyncedEnd() != 45 {
			f.Fatalf("log ends at %d, synced to %d", f.log.EndOffset(), f.log.SyncedEnd())
		}
		f.held = f.held[:15]
		for i := range 20 { // other bytes at the same offsets
			f.append(build(f, kafka.Offset(45+3*i), 3, 2, now.UnixMilli(), 61))
		}
		f.sync()
		f.ok(f.log.SetStart(30))
		f.ok(f.log.Truncate(60))
		f.held = f.held[:20]
		f.holds(30, f.held...)
		f.ok(f.log.Reset(7))
		for i, r := range readers {
			if got, err := r.slice.Bytes(); err != nil || !bytes.Equal(got, r.want) {
				f.Errorf("reader %d sees other bytes after the truncation (%v)", i, err)
			}
			r.slice.Close()
		}
		f.reopen(small)
		f.holds(7)
	})
}

func TestTruncate(t *testing.T) {
	onEveryStore(t, func(f *fixture) {
		f.open(small)
		f.fill(10, 1)
		f.fill(10, 3)
		f.ok(f.log.Truncate(60))
		f.ok(f.log.Truncate(1000))
		f.holds(0, f.held...)
		f.ok(f.log.SetStart(7))
		f.ok(f.log.Truncate(31))
		f.holds(7, f.held[:10]...)
		if f.log.LastEpoch() != 1 || f.log.EndOffset() != 30 {
			f.Fatalf("last epoch %d, end %d", f.log.LastEpoch(), f.log.EndOffset())
		}
		f.reopen(small)
		f.holds(7, f.held[:10]...)
		f.held = f.held[:10]
		f.append(build(f, 31, 2, 2, now.UnixMilli(), 9)) // an epoch the cut had removed the successor of
		f.holds(7, f.held...)
		f.ok(f.log.Truncate(8)) // the batch that holds 7 ends above
		if f.log.StartOffset() != 7 || f.log.EndOffset() != 7 || f.log.LastEpoch() != kafka.NoEpoch {
			f.Fatalf("[%d, %d), epoch %d", f.log.StartOffset(), f.log.EndOffset(), f.log.LastEpoch())
		}
		f.ok(f.log.Truncate(3)) // below the start
		f.holds(3)
		f.reopen(small)
		f.holds(3)
	})
}

func TestE3_EpochEndKnowsOnlyEpochsOfBatches(t *testing.T) {
	f, _ := inMemory(t)
	f.open(small)
	if e, o := f.log.EpochEnd(5); e != kafka.NoEpoch || o != kafka.NoOffset {
		t.Fatalf("an empty log says epoch %d ends at %d", e, o)
	}
	f.append(build(f, 10, 5, 2, 0, 1), build(f, 15, 5, 4, 0, 1), build(f, 40, 5, 9, 0, 1))
	for _, c := range []struct{ ask, epoch, end int64 }{{1, -1, -1}, {2, 2, 15}, {3, 2, 15}, {4, 4, 40}, {8, 4, 40}, {9, 9, 45}, {100, 9, 45}} {
		e, o := f.log.EpochEnd(kafka.LeaderEpoch(c.ask))
		if int64(e) != c.epoch || int64(o) != c.end {
			t.Errorf("epoch %d: (%d, %d), want (%d, %d)", c.ask, e, o, c.epoch, c.end)
		}
	}
	for offset, want := range map[kafka.Offset]kafka.LeaderEpoch{9: -1, 10: 2, 14: 2, 15: 4, 39: 4, 40: 9, 99: 9} {
		if got := f.log.EpochAt(offset); got != want {
			t.Errorf("epoch at %d is %d, want %d", offset, got, want)
		}
	}
}

func TestSyncRunsBesideAppendAndReads(t *testing.T) {
	onEveryStore(t, func(f *fixture) {
		f.open(small)
		const batches = 200
		done := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			last := kafka.Offset(0)
			for {
				end, err := f.log.Sync()
				if err != nil || end < last {
					f.Errorf("synced to %d after %d: %v", end, last, err)
					return
				}
				last = end
				select {
				case <-done:
					return
				default:
				}
			}
		})
		group.Go(func() {
			for from := kafka.Offset(0); from < 3*batches; {
				s, err := f.log.Read(from, f.log.EndOffset(), 700, true)
				if err != nil {
					f.Error(err)
					return
				}
				got, err := s.Bytes()
				s.Close()
				if err != nil {
					f.Error(err)
					return
				}
				for b, err := range got.All() {
					if err != nil || b.BaseOffset() != from || b.CheckCRC() != nil {
						f.Errorf("read %d at %d: %v", b.BaseOffset(), from, err)
						return
					}
					from = b.NextOffset()
				}
			}
		})
		f.fill(batches, 1)
		close(done)
		group.Wait()
		f.sync()
		f.holds(0, f.held...)
	})
}

func TestAfterAFailedSyncTheLogIsForReadingOnly(t *testing.T) {
	for _, kind := range []string{"sync", "append", "create", "atomic", "syncdir", "hint"} {
		t.Run(kind, func(t *testing.T) {
			f, st := inMemory(t)
			f.open(small)
			f.fill(3, 1)
			f.sync()
			boom := errors.New("boom")
			st.Hook(func(op storetest.Op) error {
				if op.Kind == kind {
					return boom
				}
				return nil
			})
			var err error
			for range 40 {
				if err = f.log.Append([]byte(build(f, f.log.EndOffset(), 3, 1, 0, 60)), now); err != nil {
					break
				}
				if _, err = f.log.Sync(); err != nil {
					break
				}
			}
			st.Hook(nil)
			if !errors.Is(err, boom) || !errors.Is(err, store.ErrFailed) {
				t.Fatal(err)
			}
			f.wantErr(f.log.Append([]byte(build(f, f.log.EndOffset(), 1, 1, 0, 1)), now), store.ErrFailed)
			_, err = f.log.Sync()
			f.wantErr(err, store.ErrFailed)
			f.wantErr(f.log.Truncate(3), store.ErrFailed)
			f.wantErr(f.log.SetStart(3), store.ErrFailed)
			if got := f.read(3, 6, 1<<20, true); !bytes.Equal(got, f.held[1]) {
				t.Fatal("what was synced cannot be read")
			}
			if err := f.log.Close(); err == nil {
				t.Fatal("Close does not say that the log had failed")
			}
			f.open(small)
			if f.log.EndOffset() < 9 {
				t.Fatalf("log ends at %d, 9 was synced", f.log.EndOffset())
			}
			f.fill(1, 1)
			f.sync()
		})
	}
}

func TestAClosedLogSaysSo(t *testing.T) {
	f, _ := inMemory(t)
	f.open(small)
	f.fill(3, 1)
	s, err := f.log.Read(0, 9, 1<<20, true)
	f.ok(err)
	defer s.Close()
	f.ok(f.log.Close())
	f.ok(f.log.Close())
	if err := f.log.Append([]byte(f.held[0]), now); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Fatal(err)
	}
	if _, err := f.log.Read(0, 9, 100, true); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Fatal(err)
	}
	if got, err := s.Bytes(); err != nil || len(got) == 0 {
		t.Fatal("an open slice ended with the log", err)
	}
}
