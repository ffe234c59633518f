package partition

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store"
)

// uncaching notes the most that any file was let go of.
type uncaching struct {
	store.Store
	upTo atomic.Int64
}

func (s *uncaching) Dir(id kafka.PartitionID) (store.Dir, error) {
	d, err := s.Store.Dir(id)
	return uncachingDir{d, s}, err
}

type uncachingDir struct {
	store.Dir
	s *uncaching
}

func (d uncachingDir) Create(name string) (store.File, error) {
	f, err := d.Dir.Create(name)
	return uncachingFile{f, d.s}, err
}

type uncachingFile struct {
	store.File
	s *uncaching
}

func (f uncachingFile) Uncache(from, to int64) {
	f.s.upTo.Store(max(to, f.s.upTo.Load()))
	f.File.Uncache(from, to)
}

func TestABacklogIsCopiedPastTheSystemsMemory(t *testing.T) {
	st := &uncaching{Store: openDisk(t, t.TempDir())}
	b := newBedOver(t, meta.RoleMirror, 1, st)
	cfg := testTopicConfig()
	cfg.Log.SegmentBytes = 1 << 30
	b.Configure(b.topic.ID, cfg)
	value := bytes.Repeat([]byte("hawser"), 4<<20/6)
	mirror := func(behind int64) {
		t.Helper()
		for range 6 {
			o := b.p(0).Offsets()
			made, err := batch.Build(batch.Spec{BaseOffset: o.LogEnd, ProducerID: kafka.NoProducerID, BaseSequence: -1}, []batch.Record{{Offset: o.LogEnd, Value: value}})
			b.must(err)
			b.must(b.p(0).AppendMirrored(t.Context(), Mirrored{Generation: o.Generation, FetchedAt: o.LogEnd, Batches: batch.Batches(made), Behind: behind}))
			b.synced(0)
		}
	}
	mirror(farBehind)
	if upTo := st.upTo.Load(); upTo != 0 {
		t.Fatalf("a mirror that follows closely let go of %d bytes", upTo)
	}
	mirror(farBehind + 1)
	if size, upTo := b.p(0).Offsets().Size, st.upTo.Load(); upTo < size/4 || upTo > size-cachedTail {
		t.Fatalf("let go of %d of %d bytes; all but the last %d are to go", upTo, size, cachedTail)
	}
}
