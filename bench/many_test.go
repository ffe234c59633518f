//go:build bench

package bench

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

const (
	manyTopics  = 1000
	manyRecords = 1024 // of recordBytes in each topic
	manyPrefix  = "many-"
)

// TestManyMirrors copies 1,000 topics of 1 MiB, which is what a migration of small services looks like: hawser from the first order
// to the last record, MirrorMaker 2, as elsewhere, from when an eighth of the records has landed.
func TestManyMirrors(t *testing.T) {
	topics := int32(envInt(t, "HAWSER_BENCH_TOPICS", manyTopics))
	source := startKafka(t, "source")
	names := fillMany(t, source, topics)
	records := int64(topics) * manyRecords
	syncDisk(t)
	ours := hawserMany(t, source, names, records)
	if os.Getenv("HAWSER_BENCH_ALONE") != "" {
		fmt.Printf("mirror of %d topics: hawser %s\n", topics, ours)
		return
	}
	destination := startKafka(t, "destination")
	syncDisk(t)
	theirs := mirrorMakerMany(t, source, destination, names, records)
	fmt.Printf("mirror of %d topics of %d KiB\n  hawser         %s\n  MirrorMaker 2  %s\n  %.1f times the rate, 1/%.1f of the CPU seconds per GB\n",
		topics, manyRecords*recordBytes>>10, ours, theirs, ours.mbs/theirs.mbs, theirs.cpu/ours.cpu)
}

func fillMany(t *testing.T, source *kafkaBroker, topics int32) (names []string) {
	t.Helper()
	for n := range topics {
		names = append(names, fmt.Sprintf("%s%04d", manyPrefix, n))
	}
	created, err := kadm.NewClient(source.client).CreateTopics(t.Context(), 1, 1, nil, names...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		t.Fatalf("create %d topics: %v", topics, err)
	}
	c := client(t, source.bootstrap, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(20_000))
	defer c.Close()
	value := make([]byte, recordBytes)
	produceAll(t, c, int64(len(names))*manyRecords, func(n int64) *kgo.Record {
		return &kgo.Record{Topic: names[n/manyRecords], Value: value}
	})
	return names
}

// landedMany is landed over many topics; those that are not there yet hold nothing.
func landedMany(ctx context.Context, c *kgo.Client, names []string) (n int64, err error) {
	list, err := kadm.NewClient(c).ListEndOffsets(ctx, names...)
	if err != nil {
		return 0, err
	}
	list.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			n += o.Offset
		}
	})
	return n, nil
}

func hawserMany(t *testing.T, source *kafkaBroker, names []string, records int64) result {
	t.Helper()
	h := startHawser(t, source.bootstrap)
	defer h.remove()
	w := startWatch(t, []int{source.pid()}, h.pid())
	var orders errgroup.Group
	orders.SetLimit(8)
	for _, name := range names {
		orders.Go(func() error { return h.order(mirrorsPath, mirrorOf(name)) })
	}
	if err := orders.Wait(); err != nil {
		t.Fatal(err)
	}
	eventually(t, copyWithin, "the mirrors are level", func(ctx context.Context) (bool, string) {
		if h.ended() {
			t.Fatalf("hawser ended:\n%s", h.tail())
		}
		n, err := landedMany(ctx, h.client, names)
		return n == records, fmt.Sprintf("%d of %d records, %v", n, records, err)
	})
	r := w.stop(t, records)
	r.peak = peakMB(t, h.pid())
	return r
}

func mirrorMakerMany(t *testing.T, source, destination *kafkaBroker, names []string, records int64) result {
	t.Helper()
	mirrorMakers++
	alias := fmt.Sprintf("src%d", mirrorMakers)
	copies := make([]string, len(names))
	for i, name := range names {
		copies[i] = alias + "." + name
	}
	mm := startMirrorMaker(t, alias, source, destination, manyPrefix+".*", "5")
	defer mm.kill()
	reach := func(moment string, want int64) (n int64) {
		eventually(t, copyWithin, moment, func(ctx context.Context) (bool, string) {
			if mm.ended() {
				t.Fatalf("MirrorMaker 2 ended:\n%s", mm.tail())
			}
			var err error
			n, err = landedMany(ctx, destination.client, copies)
			return n >= want, fmt.Sprintf("%d of %d records, %v", n, want, err)
		})
		return n
	}
	warm := reach("MirrorMaker 2 is warm", records/8)
	w := startWatch(t, []int{source.pid()}, mm.pid(), destination.pid())
	end := reach("the copies are level", records)
	r := w.stop(t, end-warm)
	r.peak, r.broker = peakMB(t, mm.pid()), peakMB(t, destination.pid())
	return r
}
