package commitlog_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store/disk"
)

const (
	benchRun  = 1 << 20
	benchSync = 32 << 20
)

// benchBatches is about benchRun bytes of batches of the size, together and one by one.
func benchBatches(b *testing.B, size int) (batch.Batches, []batch.Batch) {
	b.Helper()
	value := make([]byte, size-batch.HeaderSize-30)
	rng := rand.NewChaCha8([32]byte{})
	_, _ = rng.Read(value)
	one, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID, BaseSequence: -1}, []batch.Record{{Timestamp: now.UnixMilli(), Value: value}})
	if err != nil {
		b.Fatal(err)
	}
	run := make([]byte, 0, benchRun)
	for len(run)+len(one) <= benchRun {
		run = append(run, one...)
	}
	var out []batch.Batch
	for b := range batch.Batches(run).All() {
		out = append(out, b)
	}
	return run, out
}

// number gives a run of batches the next offsets.
func number(batches []batch.Batch, next kafka.Offset) kafka.Offset {
	for _, b := range batches {
		b.SetBaseOffset(next)
		next++
	}
	return next
}

// BenchmarkAppend appends runs of 1 MiB and syncs every 32 MiB beside it, with
// at most one sync's bytes more in flight, as the group commit does.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 1<<20 - 100} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			l := benchLog(b)
			run, batches := benchBatches(b, size)
			b.SetBytes(int64(len(run)))
			b.ReportAllocs()
			next := kafka.Offset(0)
			synced := make(chan error, 1)
			synced <- nil
			for i := 0; b.Loop(); i++ {
				next = number(batches, next)
				if err := l.Append(run, now); err != nil {
					b.Fatal(err)
				}
				if l.UnsyncedBytes() < benchSync {
					continue
				}
				select {
				case err := <-synced:
					if err != nil {
						b.Fatal(err)
					}
				default:
					if l.UnsyncedBytes() < 2*benchSync {
						continue
					}
					if err := <-synced; err != nil {
						b.Fatal(err)
					}
				}
				go func() {
					_, err := l.Sync()
					synced <- err
				}()
			}
			<-synced
			if _, err := l.Sync(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func benchLog(b *testing.B) *commitlog.Log {
	b.Helper()
	root := b.TempDir()
	st, err := disk.Open(root)
	if err != nil {
		b.Fatal(err)
	}
	dir, err := st.Dir(partitionID)
	if err != nil {
		b.Fatal(err)
	}
	l, _, err := commitlog.Open(dir, commitlog.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
		_ = st.Close()
	})
	return l
}

// BenchmarkPlainDisk is what the disk takes from one file with the same syncs: the measure for BenchmarkAppend.
func BenchmarkPlainDisk(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "plain"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	run := make([]byte, benchRun)
	_, _ = rand.NewChaCha8([32]byte{}).Read(run)
	b.SetBytes(benchRun)
	at := int64(0)
	synced := make(chan error, 1)
	synced <- nil
	for b.Loop() {
		if _, err := f.WriteAt(run, at); err != nil {
			b.Fatal(err)
		}
		if at += benchRun; at%benchSync == 0 {
			if err := <-synced; err != nil {
				b.Fatal(err)
			}
			go func() { synced <- unix.Fdatasync(int(f.Fd())) }()
		}
	}
	<-synced
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRead looks up random offsets of a log of small batches.
func BenchmarkRead(b *testing.B) {
	l := benchLog(b)
	run, batches := benchBatches(b, 1<<10)
	next := kafka.Offset(0)
	for range 256 {
		next = number(batches, next)
		if err := l.Append(run, now); err != nil {
			b.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	b.Run("tail", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			benchRead(b, l, next-1, next, 1<<20)
		}
	})
	b.Run("random", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			benchRead(b, l, kafka.Offset(rng.Int64N(int64(next))), next, 64<<10)
		}
	})
}

func benchRead(b *testing.B, l *commitlog.Log, from, upTo kafka.Offset, maxBytes int) {
	s, err := l.Read(from, upTo, maxBytes, true)
	if err != nil || s.Length == 0 {
		b.Fatal(s.Length, err)
	}
	s.Close()
}

// BenchmarkSmallSync appends one small batch and syncs it; BenchmarkPlainSmallSync does so to a plain file.
func BenchmarkSmallSync(b *testing.B) {
	l := benchLog(b)
	one := build(b, 0, 1, 0, now.UnixMilli(), 400)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		one.SetBaseOffset(kafka.Offset(i))
		if err := l.Append([]byte(one), now); err != nil {
			b.Fatal(err)
		}
		if _, err := l.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlainSmallSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "plain"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	one := build(b, 0, 1, 0, now.UnixMilli(), 400)
	at := int64(0)
	for b.Loop() {
		if _, err := f.WriteAt(one, at); err != nil {
			b.Fatal(err)
		}
		at += int64(len(one))
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
}
