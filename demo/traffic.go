package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// order is one sample record.
func order(n int) *kgo.Record {
	items := []string{"rope", "anchor", "lantern", "sail", "compass"}
	return &kgo.Record{
		Topic: topic,
		Key:   fmt.Appendf(nil, "customer-%d", n%17),
		Value: fmt.Appendf(nil, `{"order":%d,"item":%q,"count":%d}`, n, items[n%len(items)], n%5+1),
	}
}

func dial(c *cluster, more ...kgo.Opt) (*kgo.Client, error) {
	// The tour's clusters come and go within seconds.
	options := []kgo.Opt{kgo.SeedBrokers(c.kafka), kgo.MetadataMinAge(50 * time.Millisecond), kgo.RecordDeliveryTimeout(10 * time.Second)}
	return kgo.NewClient(append(options, more...)...)
}

// produce writes n orders, numbered from first, and waits until all are acknowledged.
func produce(ctx context.Context, client *kgo.Client, first, n int) error {
	var records []*kgo.Record
	for i := range n {
		records = append(records, order(first+i))
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

// trickle produces a few orders a second until ctx ends and counts them.
func trickle(ctx context.Context, client *kgo.Client, first int) (sent int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return sent
		case <-tick.C:
			if produce(ctx, client, first+sent, 1) == nil {
				sent++
			}
		}
	}
}
