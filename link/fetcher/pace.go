package fetcher

import (
	"context"
	"sync"
	"time"

	"github.com/hawserio/hawser/quota"
)

// paceWindow is how much may come at once: what the rate allows in one second.
var paceWindow = quota.Windows{Count: 1, Size: time.Second}

// pace keeps all connections of a pool together below link.max.bytes.per.second. How large an answer
// becomes is known only when it is there, so a connection pays afterwards and the next fetch of any
// of them waits until the debt is paid.
type pace struct {
	mu     sync.Mutex
	bucket quota.Bucket
}

// paid counts the bytes of an answer.
func (p *pace) paid(limit int64, answers []Fetched) {
	if limit <= 0 {
		return
	}
	bytes := 0
	for i := range answers {
		bytes += len(answers[i].Batches)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bucket.Take(paceWindow, float64(limit), float64(bytes), time.Now())
}

// wait waits until there is no debt. limit is read again and again: a change counts at once.
func (p *pace) wait(ctx context.Context, limit func() int64) error {
	for {
		rate := limit()
		if rate <= 0 {
			return nil
		}
		p.mu.Lock()
		debt := p.bucket.Wait(paceWindow, float64(rate), time.Now())
		p.mu.Unlock()
		if debt == 0 {
			return nil
		}
		timer := time.NewTimer(min(debt, paceLook))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// paceLook is how often a wait looks whether the rate was changed.
const paceLook = 250 * time.Millisecond

// rateMax is link.max.bytes.per.second, 0 or less for none.
func (p *Pool) rateMax() int64 { return p.cfg.Load().RateMax }

// paced bounds how many bytes one fetch asks for, so that a debt is a matter of a second.
func (p *Pool) paced(bytes int) int {
	if rate := p.rateMax(); rate > 0 {
		return int(min(int64(bytes), max(rate, paceLeast)))
	}
	return bytes
}

// paceLeast is the least that a fetch asks for, in bytes: below it answers would be mostly heads.
const paceLeast = 16 << 10
