package commitlog_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/store"
)

// uncachingDir notes how far each segment was let go of.
type uncachingDir struct {
	store.Dir
	upTo map[string]int64
}

func (d *uncachingDir) Open(name string) (store.File, error) {
	return d.watched(name)(d.Dir.Open(name))
}

func (d *uncachingDir) Create(name string) (store.File, error) {
	return d.watched(name)(d.Dir.Create(name))
}

func (d *uncachingDir) watched(name string) func(store.File, error) (store.File, error) {
	return func(f store.File, err error) (store.File, error) {
		if err != nil {
			return nil, err
		}
		return &uncachingFile{f, name, d}, nil
	}
}

type uncachingFile struct {
	store.File
	name string
	dir  *uncachingDir
}

func (f *uncachingFile) Uncache(from, to int64) {
	f.dir.upTo[f.name] = max(f.dir.upTo[f.name], to)
	f.File.Uncache(from, to)
}

// kept is the bytes at the log's end that were not let go of, all if none was.
func (d *uncachingDir) kept(l *commitlog.Log) (sum int64) {
	for _, g := range slices.Backward(l.Segments()) {
		gone := d.upTo[fmt.Sprintf("%020d.log", g.Base)]
		sum += g.Bytes - gone
		if gone > 0 && gone < g.Bytes {
			break
		}
	}
	return sum
}

func TestKeepCachedLetsGoOfWhatIsSyncedButTheTail(t *testing.T) {
	dir := &uncachingDir{Dir: diskDir(t), upTo: map[string]int64{}}
	f := &fixture{T: t, dir: dir}
	f.open(small)
	f.fill(30, 0)
	f.sync()
	first := len(f.log.Segments())
	const tail = 3000 // more than a segment
	f.log.KeepCached(tail)
	for range 40 {
		f.fill(1, 0)
		if kept := dir.kept(f.log); kept < tail+f.log.UnsyncedBytes() {
			t.Fatalf("let go of bytes before they were synced: %d are kept", kept)
		}
		f.sync()
		if len(f.log.Segments()) > first+3 && dir.kept(f.log) != tail {
			t.Fatalf("%d bytes are kept, not %d: %v", dir.kept(f.log), tail, dir.upTo)
		}
	}
	if len(f.log.Segments()) <= first+3 {
		t.Fatal("the log is too short for this test")
	}
	for _, g := range f.log.Segments()[:first-1] {
		if upTo := dir.upTo[fmt.Sprintf("%020d.log", g.Base)]; upTo > 0 {
			t.Errorf("let go of %d bytes that were there before: %v", upTo, dir.upTo)
		}
	}
	f.log.KeepCached(0)
	before := maps.Clone(dir.upTo)
	f.fill(30, 0)
	f.sync()
	if !maps.Equal(before, dir.upTo) {
		t.Errorf("let go of what is to be kept: %v, before %v", dir.upTo, before)
	}
	f.reopen(small)
	f.log.KeepCached(1)
	f.fill(1, 0)
	f.sync()
	for name, upTo := range dir.upTo {
		if upTo != before[name] && name != lastName(f.log) {
			t.Errorf("let go of %d bytes of %s, which was there when the log was opened", upTo, name)
		}
	}
	f.holds(0, f.held...)
}

func lastName(l *commitlog.Log) string {
	all := l.Segments()
	return fmt.Sprintf("%020d.log", all[len(all)-1].Base)
}

func TestARecoveryReadsWhatWasNotSyncedFromTheDisk(t *testing.T) {
	dir := &uncachingDir{Dir: diskDir(t), upTo: map[string]int64{}}
	f := &fixture{T: t, dir: dir}
	f.open(commitlog.Config{})
	f.fill(20, 0)
	f.sync()
	f.fill(20, 0)
	size := f.log.Size()
	if recovery := f.open(commitlog.Config{}); recovery.Clean { // as after a crash: it was not closed
		t.Fatalf("%+v", recovery)
	}
	if upTo := dir.upTo[lastName(f.log)]; upTo != size {
		t.Errorf("let go of the system's copy up to %d, the file ends at %d", upTo, size)
	}
	f.holds(0, f.held...)
}
