package txn

import (
	"context"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerID gives a producer its id and epoch. For a transactional id it fences whoever had it before and ends what it left open.
func (c *Coordinator) InitProducerID(ctx context.Context, rq *kmsg.InitProducerIDRequest) *kmsg.InitProducerIDResponse {
	resp := rq.ResponseKind().(*kmsg.InitProducerIDResponse)
	who, code := c.initProducer(ctx, rq)
	if code == kafka.ProducerFenced && rq.Version < 4 {
		code = kafka.InvalidProducerEpoch // older clients do not know the other
	}
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = int16(code), int64(kafka.NoProducerID), noEpoch
	if code == kafka.None {
		resp.ProducerID, resp.ProducerEpoch = int64(who.producer), who.epoch
	}
	return resp
}

func (c *impl) initProducer(ctx context.Context, rq *kmsg.InitProducerIDRequest) (identity, kafka.ErrorCode) {
	if rq.TransactionalID == nil {
		id, err := c.env.IDs.Next(ctx)
		if err != nil {
			return identity{}, kafka.CoordinatorNotAvailable
		}
		return identity{id, 0}, kafka.None
	}
	timeout := time.Duration(rq.TransactionTimeoutMillis) * time.Millisecond
	switch code := c.readyFor(*rq.TransactionalID); {
	case code != kafka.None:
		return identity{}, code
	case *rq.TransactionalID == "" || len(*rq.TransactionalID) > idMax:
		return identity{}, kafka.InvalidRequest
	case timeout <= 0 || timeout > c.cfg.MaxTimeout:
		return identity{}, kafka.InvalidTransactionTimeout
	}
	var expected *identity
	if rq.Version >= 3 && rq.ProducerID != int64(kafka.NoProducerID) {
		expected = &identity{kafka.ProducerID(rq.ProducerID), rq.ProducerEpoch}
	}
	fresh, err := c.freshFor(ctx, *rq.TransactionalID)
	if err != nil {
		return identity{}, kafka.CoordinatorNotAvailable
	}
	e := c.enter(*rq.TransactionalID)
	if e == nil {
		return identity{}, kafka.NotCoordinator
	}
	who, end, code := c.initEntry(ctx, e, rq.TransactionTimeoutMillis, expected, fresh)
	c.leave(e)
	if code != kafka.None {
		return identity{}, code
	}
	return who, c.whenSynced(ctx, e, end)
}

// freshFor draws a producer id if the transactional id needs one; no lock is held meanwhile.
func (c *impl) freshFor(ctx context.Context, id string) (kafka.ProducerID, error) {
	if e := c.lookup(id); e != nil {
		needed := e.t.exhausted()
		c.leave(e)
		if !needed {
			return kafka.NoProducerID, nil
		}
	}
	return c.env.IDs.Next(ctx)
}

// initEntry decides and writes, with the lock held.
func (c *impl) initEntry(ctx context.Context, e *entry, timeoutMs int32, expected *identity,
	fresh kafka.ProducerID) (identity, kafka.Offset, kafka.ErrorCode) {
	t := e.t
	if t.state == Dead {
		if fresh == kafka.NoProducerID {
			return identity{}, 0, kafka.ConcurrentTransactions // it expired since we looked: again
		}
		t = newTransaction(e.id, fresh)
	}
	next, fenced, decided := t.decideInit(timeoutMs, expected, fresh, time.Now().UnixMilli())
	if decided != kafka.None {
		return identity{}, 0, decided
	}
	if err := c.write(ctx, e, &next); err != nil {
		return identity{}, 0, code(err)
	}
	if fenced {
		c.finish(e)
		return identity{}, 0, kafka.ConcurrentTransactions // the client asks again, after the abort
	}
	return identity{e.t.producer, e.t.epoch}, e.end, kafka.None
}

func (c *impl) whenSynced(ctx context.Context, e *entry, end kafka.Offset) kafka.ErrorCode {
	if err := c.synced(ctx, e, end); err != nil {
		return code(err)
	}
	return kafka.None
}

// EndTxn commits or aborts. The decision is durable, and the markers are written, offsets included, when it answers.
func (c *Coordinator) EndTxn(ctx context.Context, rq *kmsg.EndTxnRequest) *kmsg.EndTxnResponse {
	resp := rq.ResponseKind().(*kmsg.EndTxnResponse)
	version := int16(1)
	if rq.Version >= 5 {
		version = 2
	}
	who, code := c.endTxn(ctx, rq.TransactionalID, identity{kafka.ProducerID(rq.ProducerID), rq.ProducerEpoch}, rq.Commit, version)
	if code == kafka.ProducerFenced && rq.Version < 2 {
		code = kafka.InvalidProducerEpoch
	}
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = int16(code), int64(kafka.NoProducerID), noEpoch
	if code == kafka.None {
		resp.ProducerID, resp.ProducerEpoch = int64(who.producer), who.epoch
	}
	return resp
}

func (c *impl) endTxn(ctx context.Context, id string, who identity, commit bool, version int16) (identity, kafka.ErrorCode) {
	e, bad := c.find(id)
	if bad != kafka.None {
		return identity{}, bad
	}
	fresh := kafka.NoProducerID
	if version >= 2 && e.t.exhausted() {
		c.leave(e) // no lock is held while an id is drawn
		var err error
		if fresh, err = c.env.IDs.Next(ctx); err != nil {
			return identity{}, kafka.CoordinatorNotAvailable
		}
		if e, bad = c.find(id); bad != kafka.None {
			return identity{}, bad
		}
	}
	next, changed, decided := e.t.decideEnd(who, commit, version, fresh, time.Now().UnixMilli())
	if decided == kafka.None && changed {
		if err := c.write(ctx, e, &next); err != nil {
			decided = code(err)
		} else {
			c.finish(e)
		}
	}
	answer, end, done := e.t.answer(), e.end, e.done
	c.leave(e)
	if decided != kafka.None {
		return identity{}, decided
	}
	if code := c.whenSynced(ctx, e, end); code != kafka.None {
		return identity{}, code
	}
	c.finished(ctx, done)
	return answer, kafka.None
}

// find finds a client's transactional id and locks it.
func (c *impl) find(id string) (*entry, kafka.ErrorCode) {
	if code := c.readyFor(id); code != kafka.None {
		return nil, code
	}
	if id == "" {
		return nil, kafka.InvalidRequest
	}
	e := c.lookup(id)
	switch {
	case e != nil && e.t.state != Dead:
		return e, kafka.None
	case e != nil: // somebody is about to initialise it
		c.leave(e)
	}
	if code := c.readyFor(id); code != kafka.None {
		return nil, code
	}
	return nil, kafka.InvalidProducerIDMapping
}

// WriteTxnMarkers appends markers as another coordinator, or an administrator who ends a hanging transaction, asks.
func (c *Coordinator) WriteTxnMarkers(ctx context.Context, rq *kmsg.WriteTxnMarkersRequest) *kmsg.WriteTxnMarkersResponse {
	resp := rq.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	for _, asked := range rq.Markers {
		m := marking{id: kafka.ProducerID(asked.ProducerID), epoch: asked.ProducerEpoch, marker: batch.Abort,
			coordinator: asked.CoordinatorEpoch}
		if asked.Committed {
			m.marker = batch.Commit
		}
		answer := kmsg.NewWriteTxnMarkersResponseMarker()
		answer.ProducerID = asked.ProducerID
		for _, t := range asked.Topics {
			topic := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				one := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				one.Partition, one.ErrorCode = p, int16(c.markNow(ctx, kafka.TopicPartition{Topic: t.Topic, Partition: p}, m))
				topic.Partitions = append(topic.Partitions, one)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		resp.Markers = append(resp.Markers, answer)
	}
	return resp
}

func (c *impl) markNow(ctx context.Context, tp kafka.TopicPartition, m marking) kafka.ErrorCode {
	wait, err := c.mark(ctx, tp, m)
	if err == nil {
		err = wait(ctx)
	}
	return kafka.CodeOf(err)
}
