package fetcher

import (
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/plan"
)

func build(t testing.TB, spec batch.Spec, values ...string) batch.Batch {
	t.Helper()
	records := make([]batch.Record, len(values))
	for i, v := range values {
		records[i] = batch.Record{Offset: spec.BaseOffset + kafka.Offset(i), Value: []byte(v)}
	}
	b, err := batch.Build(spec, records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzCutWhole(f *testing.F) {
	good := build(f, batch.Spec{LastDelta: 1}, "a", "b")
	f.Add([]byte(good), int64(2))
	f.Add([]byte(good[:70]), int64(2))
	f.Fuzz(func(t *testing.T, bs []byte, high int64) {
		c := cutWhole(bs, kafka.Offset(high))
		if len(c.whole) > len(bs) || c.need < 0 {
			t.Fatalf("%d of %d bytes, need %d", len(c.whole), len(bs), c.need)
		}
		for b, err := range c.whole.All() {
			if err != nil || b.NextOffset() > kafka.Offset(high) {
				t.Fatalf("kept %v %v", b, err)
			}
		}
		plan.Compare(good[:batch.HeaderSize], bs)
		goodPrefix(bs)
	})
}

func TestBehindEstimatesTheSourcesBacklog(t *testing.T) {
	first := build(t, batch.Spec{BaseOffset: 100, LastDelta: 1}, "a", "b")
	second := build(t, batch.Spec{BaseOffset: 102, LastDelta: 7}, "c") // six were compacted away
	both := append(batch.Batches(first), second...)
	for _, c := range []struct {
		batches batch.Batches
		high    kafka.Offset
		want    int64
	}{
		{both, 110, 0},
		{both, 120, int64(len(both))},
		{both, 1110, 100 * int64(len(both))},
		{nil, 120, 0},
	} {
		cut := cutWhole(c.batches, c.high)
		if have := cut.behind(c.high); have != c.want {
			t.Errorf("%d bytes up to 110 and a high watermark of %d: %d bytes behind, want %d", len(c.batches), c.high, have, c.want)
		}
	}
}

func TestC98_FrameGrowsWithBandwidthAndDelay(t *testing.T) {
	const mb = 1 << 20
	cfg := Config{ResponseMax: 8 * mb, MemoryMax: 256 * mb}.withDefaults()
	for _, c := range []struct {
		name      string
		roundTrip time.Duration
		rate      int // bytes a second
		least     int
		most      int
	}{
		{"LAN", 200 * time.Microsecond, 1 << 30, 8 * mb, 8 * mb},
		{"100 ms, 50 MB/s", 100 * time.Millisecond, 50 * mb, 24 * mb, 40 * mb},
		{"100 ms, 1 GB/s", 100 * time.Millisecond, 1000 * mb, frameMost, frameMost},
		{"unknown", 0, 1 << 30, 8 * mb, 8 * mb},
		{"slow line", 50 * time.Millisecond, 200 << 10, frameLeast, mb},
	} {
		p := New(nil, cfg, nil)
		l := newLoop(p, slot{})
		p.loops[slot{}] = l
		for range 10 {
			l.size(&cfg)
			elapsed := c.roundTrip + time.Duration(float64(l.frame.size)/float64(c.rate)*float64(time.Second))
			l.frame.note([]Fetched{{Batches: make([]byte, l.frame.size)}}, elapsed, c.roundTrip)
		}
		l.size(&cfg)
		if got := l.frame.size; got < c.least || got > c.most {
			t.Errorf("%s: frame of %d bytes", c.name, got)
		}
		if c.least < 8*mb {
			continue
		}
		for range calm {
			l.frame.note(nil, c.roundTrip, c.roundTrip)
		}
		l.size(&cfg)
		if got := l.frame.size; got != 8*mb {
			t.Errorf("%s: frame of %d bytes when idle", c.name, got)
		}
	}
}

func TestC102_FramesOfAllLoopsStayWithinTheMemory(t *testing.T) {
	const mb = 1 << 20
	cfg := Config{ResponseMax: 10 * mb, MemoryMax: 64 * mb}.withDefaults()
	p := New(nil, cfg, nil)
	var loops []*loop
	for i := range int32(20) {
		l := newLoop(p, slot{broker: i})
		p.loops[l.at] = l
		loops = append(loops, l)
		l.frame.want = frameMost
		sum := 0
		for range 3 {
			sum = 0
			for _, l := range loops {
				l.size(&cfg)
				sum += 2 * l.frame.size
			}
		}
		if sum > 64*mb+2*20*frameLeast {
			t.Fatalf("%d loops hold %d MiB", len(loops), sum/mb)
		}
		if l.frame.size < frameLeast {
			t.Fatalf("loop %d gets %d bytes", i, l.frame.size)
		}
	}
	for _, l := range loops {
		if !l.retire() {
			t.Fatal("a loop without partitions does not retire")
		}
	}
	if p.spare != 64*mb {
		t.Errorf("%d bytes are spare at the end", p.spare)
	}
}

func TestFaultWordsSayWhatToDo(t *testing.T) {
	q := &part{Assignment: Assignment{Source: kafka.TopicPartition{Topic: "t"}, SourceID: kafka.TopicID{1}}}
	_, fault, err := q.choose(Leaders{TopicID: kafka.TopicID{2}, List: make([]Leader, 1)}, nil)
	if fault != TopicIDChanged || !strings.Contains(err.Error(), "fail the mirror over") {
		t.Errorf("%v %v", fault, err)
	}
}
