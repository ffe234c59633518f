package fetcher_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
)

// TestRateIsOfTheWholeLinkAndLive: two partitions share link.max.bytes.per.second, and taking it away counts at once.
func TestRateIsOfTheWholeLinkAndLive(t *testing.T) {
	const rate, value = 200_000, 10_000
	b := newBench(t, 2, func(cfg *fetcher.Config) { cfg.RateMax = rate })
	b.stub.Create("t", topicID, 2)
	for _, tp := range []kafka.TopicPartition{zero, one} {
		for range 25 { // a quarter of a megabyte each
			b.stub.Partition(tp).Produce(1, strings.Repeat("v", value))
		}
	}
	begun := time.Now()
	targets := b.mirror(topicID, zero, one)
	b.reach(targets[0], 25)
	b.reach(targets[1], 25)
	// A second's worth comes at once; the last answer is paid after it came.
	if took := time.Since(begun); took < 700*time.Millisecond {
		t.Errorf("500 kB came in %v at 200 kB/s", took)
	}
	for range 300 {
		b.stub.Partition(zero).Produce(1, strings.Repeat("v", value))
	}
	b.pool.Reconfigure(fetcher.Config{Backoff: 10 * time.Millisecond})
	begun = time.Now()
	b.reach(targets[0], 325)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("3 MB took %v without a limit", took)
	}
	b.same(targets[0], zero)
}
