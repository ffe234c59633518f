package handler

import (
	"context"
	"time"

	"github.com/hawserio/hawser/kafka/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unsentMax is how many produce requests of a connection may wait for the sync
// at once. Clients send five (max.in.flight.requests.per.connection) by default.
const unsentMax = 16

// unsent is an answer that goes out once its records are synced, or, with no
// response, a mark: done is closed when all before it went out.
type unsent struct {
	correlationID int32
	resp          kmsg.Response
	finish        func(context.Context) // nil: nothing to wait for
	begun         time.Time             // when the request came in
	done          chan struct{}
}

// sendLater answers a produce request: at once where nothing waits, else after the ones before it.
func (c *conn) sendLater(ctx context.Context, correlationID int32, resp kmsg.Response) error {
	waiting, ok := resp.(*unsyncedAnswer)
	if !ok && c.later == nil {
		c.server.counters.produce.Observe(time.Since(c.begun))
		return c.send(correlationID, resp)
	}
	u := unsent{correlationID: correlationID, resp: resp, begun: c.begun}
	if ok {
		u.resp, u.finish = waiting.ProduceResponse, waiting.finish
	}
	if c.later == nil {
		c.later = make(chan unsent, unsentMax)
		c.laterDone.Add(1)
		go c.sendInOrder(ctx, c.later)
	}
	c.later <- u
	return nil
}

// sendInOrder sends what is put into later until it is closed. After a failure
// it closes the connection, whose reader then ends, and only empties the queue.
func (c *conn) sendInOrder(ctx context.Context, later <-chan unsent) {
	defer c.laterDone.Done()
	failed := false
	for u := range later {
		switch {
		case u.done != nil:
			close(u.done)
			continue
		case failed:
			continue
		case u.finish != nil:
			u.finish(ctx)
		}
		c.server.counters.produce.Observe(time.Since(u.begun))
		buf := wire.AppendResponse(takeBuffer(), u.correlationID, u.resp)
		if err := c.write(buf); err != nil {
			failed = true
			c.close()
		}
		giveBuffer(buf)
	}
}

// settle waits until every answer before went out: any other request is
// answered, and begun, only then.
func (c *conn) settle() {
	if c.later == nil {
		return
	}
	done := make(chan struct{})
	c.later <- unsent{done: done}
	<-done
}

// endLater sends what waits and ends the sending goroutine.
func (c *conn) endLater() {
	if c.later != nil {
		close(c.later)
		c.laterDone.Wait()
	}
}
