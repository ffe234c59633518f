package commitlog_test

import (
	"math/rand/v2"
	"testing"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// TestC80_TimesAreFoundByRecord compares the answers with a walk over all records, in every codec, with
// times in any order, under every bound.
func TestC80_TimesAreFoundByRecord(t *testing.T) {
	onEveryStore(t, func(f *fixture) {
		f.open(commitlog.Config{SegmentBytes: 3000, IndexInterval: 200})
		rng := rand.New(rand.NewPCG(8, 0))
		type stamped struct {
			commitlog.TimedOffset
		}
		var all []stamped
		end := kafka.Offset(0)
		for i := range 60 {
			spec := batch.Spec{
				BaseOffset: end + kafka.Offset(rng.IntN(3)), LeaderEpoch: kafka.LeaderEpoch(i / 9), Codec: batch.Codec(rng.IntN(5)),
				ProducerID: kafka.NoProducerID, BaseSequence: -1, LogAppendTime: rng.IntN(5) == 0,
			}
			var records []batch.Record
			latest := int64(-1)
			for j := range 1 + rng.IntN(5) {
				ms := int64(1000 + 3*i + rng.IntN(100) - 50)
				if rng.IntN(25) == 0 {
					ms = -1 // the producer did not say
				}
				latest = max(latest, ms)
				records = append(records, batch.Record{Offset: spec.BaseOffset + kafka.Offset(2*j), Timestamp: ms, Value: make([]byte, rng.IntN(60))})
			}
			b := of(f, spec, records...)
			for _, r := range records {
				if spec.LogAppendTime {
					r.Timestamp = latest
				}
				all = append(all, stamped{commitlog.TimedOffset{Offset: r.Offset, Timestamp: r.Timestamp, Epoch: spec.LeaderEpoch}})
			}
			f.append(b)
			end = b.NextOffset()
		}
		none := commitlog.TimedOffset{Offset: kafka.NoOffset, Timestamp: -1, Epoch: kafka.NoEpoch}
		look := func(start kafka.Offset) {
			for upTo := start; upTo <= end+1; upTo += 3 {
				latest := none
				for _, r := range all {
					if r.Offset >= start && r.Offset < upTo && r.Timestamp > latest.Timestamp {
						latest = r.TimedOffset
					}
				}
				if got, err := f.log.MaxTimestamp(upTo); err != nil || got != latest {
					f.Fatalf("largest time in [%d, %d) is %+v (%v), want %+v", start, upTo, got, err, latest)
				}
				for _, ms := range []int64{0, 960, 1000, 1010, 1050, 1100, 1137, 1180, 1226, 1300} {
					want := none
					for _, r := range all {
						if r.Offset >= start && r.Offset < upTo && r.Timestamp >= ms {
							want = r.TimedOffset
							break
						}
					}
					if got, err := f.log.OffsetForTime(ms, upTo); err != nil || got != want {
						f.Fatalf("time %d in [%d, %d) is %+v (%v), want %+v", ms, start, upTo, got, err, want)
					}
				}
			}
		}
		look(0)
		f.reopen(small)
		f.ok(f.log.SetStart(all[len(all)/3].Offset + 1))
		look(f.log.StartOffset())
	})
}

func TestAnEmptyLogHasNoTimes(t *testing.T) {
	f, _ := inMemory(t)
	f.open(small)
	if got, err := f.log.MaxTimestamp(10); err != nil || got.Offset != kafka.NoOffset {
		t.Fatal(got, err)
	}
	if got, err := f.log.OffsetForTime(0, 10); err != nil || got.Offset != kafka.NoOffset || got.Epoch != kafka.NoEpoch {
		t.Fatal(got, err)
	}
}

// TestATimeLookupReadsLittle: a record with a time far ahead must not make every later look-up walk the segment.
func TestATimeLookupReadsLittle(t *testing.T) {
	st := &countingDir{Dir: diskDir(t)}
	f := &fixture{T: t, dir: st}
	f.open(commitlog.Config{})
	ahead := int64(1) << 50
	f.append(build(f, 0, 1, 0, ahead, 100))
	for i := range 4000 {
		f.ok(f.log.Append([]byte(build(f, kafka.Offset(i+1), 1, 0, now.UnixMilli()+int64(i), 500)), now))
	}
	f.sync()
	st.read.Store(0)
	got, err := f.log.MaxTimestamp(f.log.EndOffset())
	f.ok(err)
	if got.Offset != 0 || got.Timestamp != ahead {
		t.Fatalf("largest time is %+v", got)
	}
	if n := st.read.Load(); n > 1<<20 {
		t.Fatalf("%d bytes were read of %d", n, f.log.Size())
	}
	// A read at any offset looks at a few KiB.
	for _, from := range []kafka.Offset{1, 777, 2500, 3999} {
		st.read.Store(0)
		s, err := f.log.Read(from, f.log.EndOffset(), 100_000, true)
		f.ok(err)
		s.Close()
		if n := st.read.Load(); n > 24<<10 {
			t.Errorf("to find offset %d, %d bytes were read", from, n)
		}
	}
}
