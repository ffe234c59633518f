package demo

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/source"
)

// fingerprint is a partition's bytes over [start, end).
type fingerprint struct {
	start, end kafka.Offset
	bytes      int64
	sum        [sha256.Size]byte
	batches    []mark
}

// mark is one batch: where it begins and what its bytes hash to.
type mark struct {
	base kafka.Offset
	sum  [sha256.Size]byte
}

// marks is the end of each partition.
type marks [partitions]int64

func (m marks) total() int64 {
	var sum int64
	for _, end := range m {
		sum += end
	}
	return sum
}

func (t *tour) ends(ctx context.Context) (east, west marks, err error) {
	if _, east, err = t.endsOf(ctx, t.east); err != nil {
		return east, west, err
	}
	_, west, err = t.endsOf(ctx, t.west)
	return east, west, err
}

func reach(c *cluster) (*source.Cluster, error) {
	return source.Dial(source.Config{
		Bootstrap: []string{c.kafka}, Security: source.Security{Protocol: "PLAINTEXT"}, ClientID: "hawser-demo",
		RequestTimeout: 5 * time.Second, DialTimeout: 2 * time.Second, ReceiveBuffer: -1, MaxReadBytes: 64 << 20, MetadataAge: time.Minute,
	})
}

func (t *tour) endsOf(ctx context.Context, c *cluster) (starts, ends marks, err error) {
	reader, err := reach(c)
	if err != nil {
		return starts, ends, err
	}
	defer reader.Close()
	for p := range int32(partitions) {
		tp := kafka.TopicPartition{Topic: topic, Partition: p}
		for _, ask := range []struct {
			spec int64
			into *int64
		}{{-2, &starts[p]}, {-1, &ends[p]}} {
			offset, err := reader.ListOffset(ctx, tp, ask.spec)
			if err != nil {
				return starts, ends, fmt.Errorf("ask %s for the ends of %s: %w", c.name, tp, err)
			}
			*ask.into = int64(offset)
		}
	}
	return starts, ends, nil
}

// compareBytes reads both sides and finds the first batch that differs.
func (t *tour) compareBytes(ctx context.Context) ([]fingerprint, error) {
	starts, ends, err := t.endsOf(ctx, t.east)
	if err != nil {
		return nil, err
	}
	wanted := make([]fingerprint, partitions)
	for p := range wanted {
		wanted[p] = fingerprint{start: kafka.Offset(starts[p]), end: kafka.Offset(ends[p])}
	}
	east, err := t.fingerprints(ctx, t.east, wanted)
	if err != nil {
		return nil, err
	}
	west, err := t.fingerprints(ctx, t.west, wanted)
	if err != nil {
		return nil, err
	}
	for p := range wanted {
		if east[p].sum == west[p].sum {
			continue
		}
		for i, b := range east[p].batches {
			if i >= len(west[p].batches) || west[p].batches[i] != b {
				return nil, fmt.Errorf("partition %d of %s differs between east and west, first in the batch at offset %d", p, topic, b.base)
			}
		}
		return nil, fmt.Errorf("partition %d of %s differs: west holds more than east", p, topic)
	}
	return east, nil
}

// fingerprints reads the ranges of wanted from a cluster.
func (t *tour) fingerprints(ctx context.Context, c *cluster, wanted []fingerprint) ([]fingerprint, error) {
	reader, err := reach(c)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	prints := make([]fingerprint, len(wanted))
	for p, w := range wanted {
		prints[p] = fingerprint{start: w.start, end: w.end}
		if err := prints[p].read(ctx, reader, int32(p)); err != nil {
			return nil, fmt.Errorf("read partition %d of %s on %s: %w", p, topic, c.name, err)
		}
	}
	return prints, nil
}

// read fetches the range as a mirror would: raw, whole batches.
func (f *fingerprint) read(ctx context.Context, reader *source.Cluster, partition int32) error {
	tp := kafka.TopicPartition{Topic: topic, Partition: partition}
	leaders, err := reader.Leaders(ctx, topic, false)
	if err != nil {
		return err
	}
	session, err := reader.Session(ctx, leaders.List[partition].Broker)
	if err != nil {
		return err
	}
	defer session.Close()
	sum := sha256.New()
	for next, idle := f.start, 0; next < f.end; idle++ {
		if idle > 20 {
			return fmt.Errorf("nothing to read at offset %d, though the end is %d", next, f.end)
		}
		answers, err := session.Fetch(ctx, []fetcher.Want{{
			TopicPartition: tp, TopicID: leaders.TopicID, Offset: next, LastEpoch: kafka.NoEpoch, CurrentEpoch: kafka.NoEpoch, MaxBytes: 8 << 20,
		}}, fetcher.Ask{MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 16 << 20})
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Err != nil {
				return a.Err
			}
			for b, err := range a.Batches.All() {
				if err != nil {
					break // the answer ends inside a batch
				}
				if b.NextOffset() <= next || b.BaseOffset() >= f.end {
					continue
				}
				if err := b.CheckCRC(); err != nil {
					return err
				}
				f.add(b)
				_, _ = sum.Write(b) // a hash does not fail
				next, idle = b.NextOffset(), 0
			}
		}
	}
	f.sum = [sha256.Size]byte(sum.Sum(nil))
	return nil
}

func (f *fingerprint) add(b batch.Batch) {
	f.bytes += int64(len(b))
	f.batches = append(f.batches, mark{b.BaseOffset(), sha256.Sum256(b)})
}
