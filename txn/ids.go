package txn

import (
	"context"
	"sync"

	"github.com/hawserio/hawser/kafka"
)

// idBlock is how many producer ids are drawn from the metadata at once; those left of a block are lost with the process.
const idBlock = 1000

// IDs hands out producer ids, each once. It takes them in blocks from the cluster's
// metadata (meta.ProducerIDs), so that most cost nothing. It may be used by many at once.
type IDs struct {
	draw func(ctx context.Context, n int64) (kafka.ProducerID, error)

	mu   sync.Mutex
	next kafka.ProducerID
	left int64
}

// NewIDs makes a source of ids; draw returns the first of a block of n.
func NewIDs(draw func(ctx context.Context, n int64) (kafka.ProducerID, error)) *IDs {
	return &IDs{draw: draw}
}

// Next is an id that was never handed out.
func (d *IDs) Next(ctx context.Context) (kafka.ProducerID, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		first, err := d.draw(ctx, idBlock)
		if err != nil {
			return kafka.NoProducerID, err
		}
		d.next, d.left = first, idBlock
	}
	id := d.next
	d.next++
	d.left--
	return id, nil
}
