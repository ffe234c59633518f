package partition

import (
	"testing"
	"time"

	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

// smallSegments makes each batch of made a segment of its own, and sets what may go.
func (b *bed) smallSegments(policy retain.Policy) {
	b.cfg.Log.SegmentBytes = 100
	b.cfg.Retain = policy
	b.Configure(b.topic.ID, b.cfg)
}

func TestRetentionRemovesOldSegmentsAndNothingUnsynced(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.smallSegments(retain.Policy{Delete: true, RetentionMs: 1000, RetentionBytes: -1})
	for i := range 5 {
		b.produce(0, made{ts: int64(1000 * (i + 1))})
	}
	p := b.p(0)
	slice, err := p.Read(Read{MaxBytes: 1000, CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
	b.must(err)
	defer slice.Slice.Close()
	removed, err := p.ApplyRetention(time.UnixMilli(4001))
	b.must(err)
	if removed.Segments != 3 || removed.Bytes <= 0 {
		t.Errorf("removed %+v, want 3 segments", removed)
	}
	wantOffsets(t, p, 3, 5, 5, 5)
	if _, err := slice.Slice.Bytes(); err != nil {
		t.Errorf("a reader lost its file: %v", err)
	}
	b.reopen()
	p = b.p(0)
	wantOffsets(t, p, 3, 5, 5, 5)
	if removed, err := p.ApplyRetention(time.UnixMilli(1 << 40)); err != nil || removed.Segments != 2 {
		t.Errorf("removed %+v, %v; want the active segment to go too", removed, err)
	}
	wantOffsets(t, p, 5, 5, 5, 5)
	b.produce(0, made{ts: 9000})
	wantOffsets(t, p, 5, 6, 6, 6)
}

func TestC08_RetentionOfAMirrorIsTheSyncedOne(t *testing.T) {
	b := newBed(t, meta.RoleMirror, 1)
	b.smallSegments(retain.Policy{Delete: true, RetentionMs: -1, RetentionBytes: -1})
	for i, ms := range []int64{86_400_000, 978_307_200_000, -1} { // 1970, 2001, none
		b.mustMirror(0, made{base: kafka.Offset(i), ts: ms}.build(t))
	}
	p := b.p(0)
	far := time.UnixMilli(1 << 44)
	if _, err := p.ApplyRetention(far); err != nil {
		t.Fatal(err)
	}
	wantOffsets(t, p, 0, 3, 3, 3)
	b.smallSegments(retain.Policy{Delete: true, RetentionMs: 1000, RetentionBytes: -1})
	b.must(p.AppendMirrored(t.Context(), Mirrored{Generation: 1, FetchedAt: 3, Batches: batch.Batches(made{base: 3, ts: 1}.build(t))}))
	high := p.Offsets().HighWatermark
	if _, err := p.ApplyRetention(far); err != nil {
		t.Fatal(err)
	}
	if o := p.Offsets(); o.LogStart < high || o.LogStart > o.HighWatermark {
		t.Errorf("log start %d, was synced up to %d", o.LogStart, high)
	}
	b.synced(0)
	wantOffsets(t, p, p.Offsets().LogStart, 4, 4, 4)
}

func TestRetentionLeavesAFrozenPartitionAlone(t *testing.T) {
	b := newBed(t, meta.RoleOpen, 1)
	b.smallSegments(retain.Policy{Delete: true, RetentionMs: 1000, RetentionBytes: -1})
	b.produce(0, made{ts: 1})
	_, err := b.Freeze(t.Context(), b.topic.ID, "R")
	b.must(err)
	if _, err := b.p(0).ApplyRetention(time.UnixMilli(1 << 40)); err != nil {
		t.Fatal(err)
	}
	wantOffsets(t, b.p(0), 0, 1, 1, 1)
}
