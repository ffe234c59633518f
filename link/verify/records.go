package verify

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/hawserio/hawser/commitlog/retain"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

type keyHash [16]byte

// record is what is kept of one: enough to compare it and to find it again.
type record struct {
	offset    kafka.Offset
	key, sum  keyHash
	keyless   bool
	tombstone bool
	marker    batch.Marker // of a control record
	control   bool
	producer  kafka.ProducerID // of a transactional one, else NoProducerID
}

// question is a record that one side lacks.
type question struct {
	offset kafka.Offset
	key    keyHash
	lacks  Side
}

// transaction is what hangs on the end of one.
type transaction struct {
	lacking []question // its records that one side lacks
	later   []answer   // its records that would supersede others
}

type answer struct {
	side   Side
	record record
}

// each gives the batch's records. A record of a transaction is told with its producer.
func each(b batch.Batch, do func(record) error) error {
	producer := kafka.NoProducerID
	if b.IsTransactional() {
		producer = b.ProducerID()
	}
	marker, _, _ := b.Marker()
	for r, err := range b.Records(recordsMax) {
		if err != nil {
			return fmt.Errorf("read the records of the batch at offset %d: %w", b.BaseOffset(), err)
		}
		short := record{offset: r.Offset, keyless: r.Key == nil, tombstone: r.Value == nil, producer: producer, control: b.IsControl(),
			marker: marker}
		key := sha256.Sum256(r.Key)
		short.key, short.sum = keyHash(key[:16]), retain.Sum(r)
		if err := do(short); err != nil {
			return err
		}
	}
	return nil
}

// takeApart turns the batch that begins lower, or both if they begin alike, into records.
func (c *Comparison) takeApart() error {
	lowest := kafka.Offset(-1)
	for s := range c.sides {
		if list := c.sides[s].batches; len(list) > 0 && (lowest < 0 || list[0].BaseOffset() < lowest) {
			lowest = list[0].BaseOffset()
		}
	}
	for s := range c.sides {
		if list := c.sides[s].batches; len(list) > 0 && list[0].BaseOffset() == lowest {
			if err := c.open(Side(s)); err != nil {
				return err
			}
		}
	}
	return nil
}

// open turns the side's next batch into records.
func (c *Comparison) open(s Side) error {
	at := &c.sides[s]
	b := at.batches[0]
	at.batches = at.batches[1:]
	if err := b.CheckCRC(); err != nil {
		c.differ(b.BaseOffset(), "the %s's batch is damaged: %v", s, err)
		return nil
	}
	return each(b, func(r record) error {
		at.records = append(at.records, r)
		return nil
	})
}

// records compares taken apart records; more is false if a side has to be read first.
func (c *Comparison) records() (more bool, err error) {
	for s := range c.sides {
		at := &c.sides[s]
		for len(at.records) == 0 && len(at.batches) > 0 {
			if err := c.open(Side(s)); err != nil {
				return false, err
			}
		}
		if at.wanting() {
			return false, nil
		}
	}
	a, b := &c.sides[Source], &c.sides[Mirror]
	for len(a.records) > 0 && len(b.records) > 0 {
		x, y := a.records[0], b.records[0]
		switch {
		case x.offset == y.offset:
			c.result.Records++
			if x.sum != y.sum {
				c.differ(x.offset, "source and mirror hold different records")
			}
			a.records, b.records = a.records[1:], b.records[1:]
			c.seen(Source, x)
			c.seen(Mirror, y)
		case x.offset < y.offset:
			a.records = a.records[1:]
			err = c.alone(Source, x)
		default:
			b.records = b.records[1:]
			err = c.alone(Mirror, y)
		}
		if err != nil {
			return false, err
		}
	}
	for s := range c.sides { // what one side has left, where the other has ended
		at, other := &c.sides[s], &c.sides[1-s]
		for len(at.records) > 0 && other.ended && len(other.batches) == 0 && len(other.records) == 0 {
			r := at.records[0]
			at.records = at.records[1:]
			if err := c.alone(Side(s), r); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// seen notes that a side has the record: it supersedes earlier ones of its key, once its transaction is committed.
func (c *Comparison) seen(s Side, r record) {
	switch {
	case r.control:
		c.decided(r)
	case r.keyless:
	case r.producer == kafka.NoProducerID:
		c.superseded(s, r)
	default:
		if _, is := c.sides[s].open[r.key]; is {
			t := c.transactions[r.producer]
			t.later = append(t.later, answer{s, r})
			c.transactions[r.producer] = t
		}
	}
}

func (c *Comparison) superseded(s Side, r record) {
	c.settle(s, r.key, func(q question) bool { return q.offset < r.offset })
}

// settle takes questions of a key off the list.
func (c *Comparison) settle(s Side, key keyHash, is func(question) bool) {
	open := c.sides[s].open
	left := slices.DeleteFunc(open[key], is)
	gone := len(open[key]) - len(left)
	c.waiting -= gone
	c.result.Explained += int64(gone)
	if open[key] = left; len(left) == 0 {
		delete(open, key)
	}
}

// decided ends a transaction. What an aborted one wrote need not be there and supersedes nothing.
func (c *Comparison) decided(marker record) {
	t := c.transactions[marker.producer]
	delete(c.transactions, marker.producer)
	if marker.marker != batch.Abort {
		for _, a := range t.later {
			c.superseded(a.side, a.record)
		}
		return
	}
	for _, lacked := range t.lacking {
		c.settle(lacked.lacks, lacked.key, func(q question) bool { return q.offset == lacked.offset })
	}
}

// alone judges a record that a single side has.
func (c *Comparison) alone(has Side, r record) error {
	if c.spec.Alone == Counted {
		c.result.Alone[has]++
		return nil
	}
	lacks := has.other()
	c.seen(has, r)
	switch {
	case lacks == Mirror && r.offset >= c.spec.MirrorCleaned:
		c.differ(r.offset, "the mirror lacks a record, and its cleaner has not been there")
		return nil
	case r.control, r.keyless:
		c.result.Explained++
		return nil
	case r.tombstone:
		// It expired at the other side; what it superseded there went with it.
		c.result.Explained++
		c.seen(lacks, r)
		return nil
	case c.waiting >= questionsMax:
		return fmt.Errorf("more than %d records of one side wait for a later one of their key", questionsMax)
	}
	q := question{offset: r.offset, key: r.key, lacks: lacks}
	if r.producer == kafka.NoProducerID {
		c.superseded(lacks, r) // what supersedes this one supersedes those before it
	} else {
		t := c.transactions[r.producer]
		t.lacking = append(t.lacking, q)
		c.transactions[r.producer] = t
	}
	open := c.sides[lacks].open
	open[r.key] = append(open[r.key], q)
	c.waiting++
	return nil
}
