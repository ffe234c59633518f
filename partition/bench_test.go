package partition

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

// BenchmarkAppend is one producer's batch of 1 KiB records, validated and written, not waited for.
func BenchmarkAppend(b *testing.B) {
	for _, records := range []int{1, 16} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			bed := newBed(b, meta.RoleOpen, 1)
			values := make([]string, records)
			for i := range values {
				values[i] = strings.Repeat("x", 1024)
			}
			one := made{values: values, ts: 1}.build(b)
			p := bed.p(0)
			b.SetBytes(int64(len(one)))
			b.ReportAllocs()
			for b.Loop() {
				one.SetBaseOffset(0)
				if _, err := p.Append(b.Context(), batch.Batches(one), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkValidate looks into a batch of 16 records of 1 KiB in each codec.
func BenchmarkValidate(b *testing.B) {
	cfg := testTopicConfig()
	for codec, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		b.Run(name, func(b *testing.B) {
			one := made{codec: batch.Codec(codec), values: make1KiB(16), ts: 1}.build(b)
			b.SetBytes(16 << 10)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := validate(batch.Batches(one), kafka.TopicPartition{Topic: "t"}, &cfg, 1000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAppendSynced waits for the sync, with many producers at once.
func BenchmarkAppendSynced(b *testing.B) {
	bed := newBed(b, meta.RoleOpen, 16)
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		one := made{values: []string{strings.Repeat("x", 1024)}, ts: 1}.build(b)
		for n := int32(0); pb.Next(); n++ {
			p := bed.p(n % 16)
			one.SetBaseOffset(0)
			a, err := p.Append(b.Context(), batch.Batches(one), nil)
			if err == nil {
				err = p.WaitSynced(b.Context(), a.Next)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkAppendMirrored is 8 MiB of a source's batches of 16 KiB, idempotent ones.
func BenchmarkAppendMirrored(b *testing.B) {
	bed := newBed(b, meta.RoleMirror, 1)
	bed.cfg.Log.SegmentBytes = 1 << 30
	bed.Configure(bed.topic.ID, bed.cfg)
	var all batch.Batches
	for n := kafka.Offset(0); len(all) < 8<<20; n++ {
		all = append(all, made{base: n * 16, id: foreignID(1), sequence: int32(n * 16), values: make1KiB(16), ts: 1}.build(b)...)
	}
	p := bed.p(0)
	b.SetBytes(int64(len(all)))
	b.ReportAllocs()
	for b.Loop() {
		o := p.Offsets()
		next := o.LogEnd
		for one := range all.All() {
			one.SetBaseOffset(next)
			next = one.NextOffset()
		}
		if err := p.AppendMirrored(b.Context(), Mirrored{Generation: o.Generation, FetchedAt: o.LogEnd, Batches: all}); err != nil {
			b.Fatal(err)
		}
	}
}

func make1KiB(n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = strings.Repeat("x", 1000)
	}
	return values
}

// manyMirrors opens topics of ten partitions each. Every partition holds a synced batch and an unsynced one,
// and one of a topic's partitions an open transaction.
func manyMirrors(t testing.TB, count int) (*bed, []kafka.TopicID) {
	bed := newBed(t, meta.RoleMirror, 10)
	topics := []kafka.TopicID{bed.topic.ID}
	for n := range count - 1 {
		topic := &meta.Topic{ID: kafka.NewTopicID(), Name: fmt.Sprintf("t%d", n), Partitions: 10}
		states := &meta.Partitions{Topic: topic.ID}
		for range 10 {
			states.List = append(states.List, meta.Partition{Role: meta.RoleMirror, Generation: 1})
		}
		bed.stream.mu.Lock()
		bed.stream.topics[topic.ID] = states
		bed.stream.mu.Unlock()
		bed.must(bed.Owner.Open(topic, states, bed.cfg))
		topics = append(topics, topic.ID)
	}
	for round := range kafka.Offset(2) {
		for _, p := range bed.all(nil) {
			data := batch.Batches(made{base: round, id: foreignID(1), sequence: int32(round), txn: p.id.Partition == 0}.build(t))
			bed.must(p.AppendMirrored(t.Context(), Mirrored{Generation: 1, FetchedAt: round, Batches: data}))
		}
		if round == 0 {
			bed.must(bed.inParallel(bed.all(nil), func(p *Partition) error {
				p.syncOnce()
				return p.Err()
			}))
			bed.syncerIdle()
			bed.Owner.syncer.delay = time.Hour
		}
	}
	return bed, topics
}

// BenchmarkStopMirrors is this package's share of the failover budget: 1,000 topics of 10
// partitions, unsynced data, 1,000 open transactions; the bound for all of a failover is 2 s.
func BenchmarkStopMirrors(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		bed, topics := manyMirrors(b, 1000)
		b.StartTimer()
		bed.must(bed.StopMirrors(b.Context(), topics, "link"))
		b.StopTimer()
		bed.must(bed.Owner.Close())
		b.StartTimer()
	}
}

// The same in small: an absolute time is asserted at many times of what it takes.
func TestStopOfManyPartitions(t *testing.T) {
	bed, topics := manyMirrors(t, 50)
	began := time.Now()
	bed.must(bed.StopMirrors(t.Context(), topics, "link"))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("500 partitions took %v", took)
	}
	for _, topic := range topics {
		p := bed.Get(kafka.PartitionID{Topic: topic})
		if o := p.Offsets(); o.Role != meta.RoleOpen || o.LastStable != 3 {
			t.Fatalf("%+v", o)
		}
	}
}
