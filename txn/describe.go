package txn

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeTransactions shows the states of transactional ids.
func (c *Coordinator) DescribeTransactions(ctx context.Context, rq *kmsg.DescribeTransactionsRequest) *kmsg.DescribeTransactionsResponse {
	resp := rq.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	for _, id := range rq.TransactionalIDs {
		d := kmsg.NewDescribeTransactionsResponseTransactionState()
		d.TransactionalID = id
		e, code := c.find(id)
		if code == kafka.InvalidProducerIDMapping {
			code = kafka.TransactionalIDNotFound
		}
		d.ErrorCode = int16(code)
		if code == kafka.None {
			c.describe(&d, e)
			c.leave(e)
		}
		resp.TransactionStates = append(resp.TransactionStates, d)
	}
	return resp
}

func (c *impl) describe(d *kmsg.DescribeTransactionsResponseTransactionState, e *entry) {
	t := e.t
	d.State, d.TimeoutMillis, d.StartTimestamp = t.state.String(), t.timeoutMs, t.startMs
	d.ProducerID, d.ProducerEpoch = int64(t.producer), t.epoch
	for _, tp := range t.sorted() {
		last := len(d.Topics) - 1
		if last < 0 || d.Topics[last].Topic != tp.Topic {
			d.Topics = append(d.Topics, kmsg.DescribeTransactionsResponseTransactionStateTopic{Topic: tp.Topic})
			last++
		}
		d.Topics[last].Partitions = append(d.Topics[last].Partitions, tp.Partition)
	}
}

// patternMax bounds ListTransactions' pattern, in bytes.
const patternMax = 4096

// ListTransactions lists transactional ids, filtered by state, producer id, age of the transaction and name.
func (c *Coordinator) ListTransactions(ctx context.Context, rq *kmsg.ListTransactionsRequest) *kmsg.ListTransactionsResponse {
	resp := rq.ResponseKind().(*kmsg.ListTransactionsResponse)
	if code := c.ready(); code != kafka.None {
		resp.ErrorCode = int16(code)
		return resp
	}
	var known []State
	for _, name := range rq.StateFilters {
		if state, ok := stateNamed(name); ok {
			known = append(known, state)
		} else {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, name)
		}
	}
	var pattern *regexp.Regexp
	if rq.TransactionalIDPattern != nil && *rq.TransactionalIDPattern != "" {
		var err error
		if pattern, err = compile(*rq.TransactionalIDPattern); err != nil {
			resp.ErrorCode = int16(kafka.InvalidRegularExpression)
			return resp
		}
	}
	now := time.Now().UnixMilli()
	for _, e := range c.all() {
		e.mu.Lock()
		t, gone := e.t, e.gone
		e.mu.Unlock()
		switch {
		case gone, t.state == Dead,
			len(rq.StateFilters) > 0 && !slices.Contains(known, t.state),
			len(rq.ProducerIDFilters) > 0 && !slices.Contains(rq.ProducerIDFilters, int64(t.producer)),
			rq.Version >= 1 && rq.DurationFilterMillis >= 0 && (t.startMs < 0 || now-t.startMs <= rq.DurationFilterMillis),
			pattern != nil && !pattern.MatchString(t.id):
			continue
		}
		listed := kmsg.NewListTransactionsResponseTransactionState()
		listed.TransactionalID, listed.ProducerID, listed.TransactionState = t.id, int64(t.producer), t.state.String()
		resp.TransactionStates = append(resp.TransactionStates, listed)
	}
	return resp
}

func stateNamed(name string) (State, bool) {
	for state, known := range stateNames {
		if known == name {
			return state, true
		}
	}
	return 0, false
}

// compile makes a pattern that must match the whole id, as Kafka's does.
func compile(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > patternMax {
		return nil, fmt.Errorf("the pattern is longer than %d bytes", patternMax)
	}
	return regexp.Compile("^(?:" + pattern + ")$")
}

// HighestProducer is the highest producer id with the prefix that any transactional id has or had before its present one, so
// that it is not handed out again (rule P3); NoProducerID if there is none.
func (c *Coordinator) HighestProducer(prefix uint32) kafka.ProducerID {
	highest := kafka.NoProducerID
	for _, e := range c.all() {
		e.mu.Lock()
		for _, id := range []kafka.ProducerID{e.t.producer, e.t.previous, e.t.next} {
			if id >= 0 && uint32(id>>32) == prefix {
				highest = max(highest, id)
			}
		}
		e.mu.Unlock()
	}
	return highest
}

// Open is a transaction that is not over.
type Open struct {
	TransactionalID string
	Producer        kafka.ProducerID
	Epoch           int16
	State           State
	Partitions      []kafka.TopicPartition // of the topic asked for
}

// Holding lists the transactions, ongoing or decided, that hold partitions of the topic, also those without a
// record in them (rule R5). Once nothing is listed and new ones are refused, no marker for the topic can come.
func (c *Coordinator) Holding(topic string) []Open {
	var list []Open
	for _, e := range c.all() {
		e.mu.Lock()
		t, gone := e.t, e.gone
		e.mu.Unlock()
		if gone || t.state != Ongoing && !t.state.preparing() {
			continue
		}
		open := Open{TransactionalID: t.id, Producer: t.producer, Epoch: t.epoch, State: t.state}
		for _, tp := range t.sorted() {
			if tp.Topic == topic {
				open.Partitions = append(open.Partitions, tp)
			}
		}
		if len(open.Partitions) > 0 {
			list = append(list, open)
		}
	}
	return list
}

// AbortOn aborts every ongoing transaction that holds partitions of the topic, fencing its producer (rules R6,
// P6), and waits until its markers, and those of transactions decided before, are written or ctx ends. It
// counts those it aborted.
func (c *Coordinator) AbortOn(ctx context.Context, topic string) (aborted int, err error) {
	if code := c.ready(); code != kafka.None {
		return 0, code
	}
	var waits []<-chan struct{}
	for _, open := range c.Holding(topic) {
		e := c.lookup(open.TransactionalID)
		if e == nil {
			continue
		}
		if e.t.state == Ongoing && holds(e.t, topic) {
			next := e.t.fence(time.Now().UnixMilli())
			if err := c.write(ctx, e, &next); err != nil {
				c.leave(e)
				return aborted, fmt.Errorf("abort the transaction of %q: %w", e.id, err)
			}
			c.finish(e)
			aborted++
		}
		if e.done != nil {
			waits = append(waits, e.done)
		}
		c.leave(e)
	}
	for _, done := range waits {
		select {
		case <-done:
		case <-ctx.Done():
			return aborted, fmt.Errorf("wait for the markers of transactions on topic %q: %w", topic, ctx.Err())
		}
	}
	return aborted, nil
}

func holds(t transaction, topic string) bool {
	for tp := range t.partitions {
		if tp.Topic == topic {
			return true
		}
	}
	return false
}
