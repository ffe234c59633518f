package broker

import (
	"context"
	"sync"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// producerBlock is how many ids are taken from metadata at once; ids of a block
// that a crash cuts short are never handed out.
const producerBlock = 1000

// producerIDs hands out producer ids from blocks.
type producerIDs struct {
	meta *meta.Meta
	mu   sync.Mutex // guards what follows; held while a block is fetched, so that one is
	id   kafka.ProducerID
	end  kafka.ProducerID // exclusive
}

func newProducerIDs(m *meta.Meta) *producerIDs { return &producerIDs{meta: m} }

func (p *producerIDs) next(ctx context.Context) (kafka.ProducerID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id == p.end {
		first, err := p.meta.ProducerIDs(ctx, producerBlock)
		if err != nil {
			return kafka.NoProducerID, err
		}
		p.id, p.end = first, first+producerBlock
	}
	p.id++
	return p.id - 1, nil
}
