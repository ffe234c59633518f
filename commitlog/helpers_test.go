package commitlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store"
	"github.com/hawserio/hawser/store/disk"
	"github.com/hawserio/hawser/store/storetest"
)

var now = time.UnixMilli(1_700_000_000_000)

// small makes segments and index intervals that tests can fill.
var small = commitlog.Config{SegmentBytes: 2000, IndexInterval: 300}

// onEveryStore runs a test over each store.
func onEveryStore(t *testing.T, run func(*fixture)) {
	t.Run("disk", func(t *testing.T) { run(&fixture{T: t, dir: diskDir(t)}) })
	t.Run("memory", func(t *testing.T) { run(&fixture{T: t, dir: dirOf(t, storetest.NewMemory())}) })
	t.Run("objects", func(t *testing.T) { run(&fixture{T: t, dir: dirOf(t, storetest.NewObjects(3))}) })
}

// inMemory is a log in a store that can be spoilt.
func inMemory(t *testing.T) (*fixture, *storetest.Memory) {
	st := storetest.NewMemory()
	return &fixture{T: t, dir: dirOf(t, st)}, st
}

func dirOf(t testing.TB, st store.Store) store.Dir {
	t.Helper()
	dir, err := st.Dir(partitionID)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func diskDir(t testing.TB) store.Dir {
	t.Helper()
	st, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return dirOf(t, st)
}

// fixture is a log and what was appended to it.
type fixture struct {
	*testing.T
	dir  store.Dir
	log  *commitlog.Log
	held []batch.Batch
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) open(cfg commitlog.Config) commitlog.Recovery {
	f.Helper()
	l, recovery, err := commitlog.Open(f.dir, cfg)
	f.ok(err)
	f.log = l
	return recovery
}

// reopen closes the log in order and opens it again; nothing may be scanned.
func (f *fixture) reopen(cfg commitlog.Config) {
	f.Helper()
	f.ok(f.log.Close())
	if recovery := f.open(cfg); !recovery.Clean || recovery.ScannedBytes > 0 || len(recovery.RebuiltFiles) > 0 {
		f.Fatalf("opening a log that was closed in order: %+v", recovery)
	}
}

func (f *fixture) append(batches ...batch.Batch) {
	f.Helper()
	var run []byte
	for _, b := range batches {
		run = append(run, b...)
	}
	f.ok(f.log.Append(run, now))
	f.held = append(f.held, batches...)
}

// fill appends n batches of three records and returns the end.
func (f *fixture) fill(n int, epoch kafka.LeaderEpoch) kafka.Offset {
	f.Helper()
	for range n {
		end := f.log.EndOffset()
		f.append(build(f, end, 3, epoch, now.UnixMilli()+int64(end), 60))
	}
	return f.log.EndOffset()
}

func (f *fixture) sync() {
	f.Helper()
	end, err := f.log.Sync()
	f.ok(err)
	if end != f.log.EndOffset() || f.log.SyncedEnd() != end || f.log.UnsyncedBytes() != 0 {
		f.Fatalf("synced to %d of %d, %d bytes to go", end, f.log.EndOffset(), f.log.UnsyncedBytes())
	}
}

// holds compares the log with these batches, whole, from start on.
func (f *fixture) holds(start kafka.Offset, batches ...batch.Batch) {
	f.Helper()
	if _, err := check(f.log, outcome{start, batches, batches}); err != nil {
		f.Fatal(err)
	}
}

// read is what Read finds.
func (f *fixture) read(from, upTo kafka.Offset, maxBytes int, atLeastOne bool) []byte {
	f.Helper()
	s, err := f.log.Read(from, upTo, maxBytes, atLeastOne)
	f.ok(err)
	defer s.Close()
	got, err := s.Bytes()
	f.ok(err)
	return got
}

func (f *fixture) wantErr(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("got error %v, want %v", err, want)
	}
}

// build is one batch of count records from base on, size bytes each.
func build(t testing.TB, base kafka.Offset, count int, epoch kafka.LeaderEpoch, ms int64, size int) batch.Batch {
	t.Helper()
	records := make([]batch.Record, count)
	value := bytes.Repeat([]byte{byte(base) | 1}, size)
	for i := range records {
		records[i] = batch.Record{Offset: base + kafka.Offset(i), Timestamp: ms + int64(i), Key: fmt.Appendf(nil, "k%d", i), Value: value}
	}
	return of(t, batch.Spec{BaseOffset: base, LeaderEpoch: epoch, ProducerID: kafka.NoProducerID, BaseSequence: -1}, records...)
}

func of(t testing.TB, spec batch.Spec, records ...batch.Record) batch.Batch {
	t.Helper()
	b, err := batch.Build(spec, records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// countingDir counts the bytes that are read from its files.
type countingDir struct {
	store.Dir
	read atomic.Int64
}

func (d *countingDir) Open(name string) (store.File, error)   { return d.counted(d.Dir.Open(name)) }
func (d *countingDir) Create(name string) (store.File, error) { return d.counted(d.Dir.Create(name)) }

func (d *countingDir) counted(f store.File, err error) (store.File, error) {
	if err != nil {
		return nil, err
	}
	return &countingFile{f, d}, nil
}

type countingFile struct {
	store.File
	dir *countingDir
}

func (f *countingFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	f.dir.read.Add(int64(n))
	return n, err
}
