package commitlog_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store"
	"github.com/hawserio/hawser/store/disk"
)

var now = time.UnixMilli(1_700_000_000_000)

// build is one batch of count records from base on.
func build(t testing.TB, base kafka.Offset, count int, epoch kafka.LeaderEpoch, ms int64, size int) batch.Batch {
	t.Helper()
	records := make([]batch.Record, count)
	value := bytes.Repeat([]byte{byte(base)}, size)
	for i := range records {
		records[i] = batch.Record{Offset: base + kafka.Offset(i), Timestamp: ms + int64(i), Key: fmt.Appendf(nil, "k%d", i), Value: value}
	}
	b, err := batch.Build(batch.Spec{BaseOffset: base, LeaderEpoch: epoch, ProducerID: kafka.NoProducerID, BaseSequence: -1}, records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func diskDir(t testing.TB) store.Dir {
	t.Helper()
	st, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	dir, err := st.Dir(kafka.PartitionID{Topic: kafka.NewTopicID()})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAppendedBatchesAreReadBackAfterReopen(t *testing.T) {
	dir := diskDir(t)
	cfg := commitlog.Config{SegmentBytes: 4 << 10, IndexInterval: 256}
	l, _, err := commitlog.Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var all []byte
	next := kafka.Offset(0)
	for i := range 200 {
		var run []byte
		for range 1 + rng.IntN(4) {
			b := build(t, next, 1+rng.IntN(5), kafka.LeaderEpoch(i/50), now.UnixMilli()+int64(i), rng.IntN(200))
			next = b.NextOffset()
			run = append(run, b...)
		}
		all = append(all, run...)
		if err := l.Append(run, now); err != nil {
			t.Fatal(err)
		}
		if i%20 == 0 {
			if end, err := l.Sync(); err != nil || end != next {
				t.Fatal(end, err)
			}
		}
	}
	for _, how := range []string{"open", "closed", "crashed"} {
		switch how {
		case "closed":
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			fallthrough
		case "crashed":
			var rec commitlog.Recovery
			if l, rec, err = commitlog.Open(dir, cfg); err != nil {
				t.Fatal(how, err)
			}
			if rec.Clean != (how == "closed") && how == "closed" || rec.TornBytes != 0 {
				t.Fatalf("%s: %+v", how, rec)
			}
		}
		if l.EndOffset() != next || l.StartOffset() != 0 {
			t.Fatal(how, l.StartOffset(), l.EndOffset(), next)
		}
		var got []byte
		if err := l.Scan(0, false, func(b batch.Batch) error { got = append(got, b...); return nil }); err != nil {
			t.Fatal(how, err)
		}
		if !bytes.Equal(got, all) {
			t.Fatal(how, "scan differs")
		}
		got = nil
		for from := kafka.Offset(0); from < next; {
			s, err := l.Read(from, next, 1000, true)
			if err != nil {
				t.Fatal(how, err)
			}
			bs, err := s.Bytes()
			if err != nil {
				t.Fatal(how, err)
			}
			s.Close()
			for b, err := range bs.All() {
				if err != nil {
					t.Fatal(err)
				}
				from = b.NextOffset()
			}
			got = append(got, bs...)
		}
		if !bytes.Equal(got, all) {
			t.Fatal(how, "reads differ")
		}
	}
}
