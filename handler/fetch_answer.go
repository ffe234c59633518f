package handler

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// copyMax is up to what size records are copied among the bytes around them;
	// larger runs go by sendfile.
	copyMax = 32 << 10
	// flushAt is how many bytes gather before they are written.
	flushAt = 128 << 10
)

// fetchAnswer is a Fetch answer whose records are still in the log's files. It
// is encoded by hand: the records go from the file to the socket.
type fetchAnswer struct {
	*kmsg.FetchResponse
	slices []commitlog.Slice // by partition in order; RecordBatches of the response stay nil
}

// add appends a partition's answer. The slice is closed after sending.
func (a *fetchAnswer) add(want fetchWant, out kmsg.FetchResponseTopicPartition, slice commitlog.Slice) {
	n := len(a.Topics)
	if n == 0 || a.Topics[n-1].Topic != want.topic || a.Topics[n-1].TopicID != want.id {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = want.topic, want.id
		a.Topics = append(a.Topics, topic)
		n++
	}
	a.Topics[n-1].Partitions = append(a.Topics[n-1].Partitions, out)
	a.slices = append(a.slices, slice)
}

// close lets go of the files.
func (a *fetchAnswer) close() {
	for _, slice := range a.slices {
		slice.Close()
	}
	a.slices = nil
}

// writeTo sends the answer and closes the slices.
func (a *fetchAnswer) writeTo(c *conn, correlationID int32) error {
	defer a.close()
	e := fetchEncoder{
		head:     wire.AppendResponseHeader(nil, correlationID, a.Key(), a.IsFlexible()),
		version:  a.Version,
		flexible: a.IsFlexible(),
	}
	e.response(a.FetchResponse, a.slices)
	var records int64
	for _, slice := range a.slices {
		records += slice.Length
	}
	wire.SetSize(e.head, records)
	from := 0
	c.out = takeBuffer()
	for i, slice := range a.slices {
		c.out = append(c.out, e.head[from:e.cuts[i]]...)
		from = e.cuts[i]
		if err := c.records(slice); err != nil {
			return err
		}
	}
	c.out = append(c.out, e.head[from:]...)
	return c.flush()
}

// records writes a run of batches, after what has gathered in c.out.
func (c *conn) records(slice commitlog.Slice) error {
	if slice.Length > copyMax {
		if err := c.flush(); err != nil {
			return err
		}
		return c.sendFile(slice)
	}
	n := len(c.out)
	c.out = append(c.out, make([]byte, slice.Length)...)
	if err := readSlice(slice, c.out[n:], 0); err != nil {
		return err
	}
	if len(c.out) < flushAt {
		return nil
	}
	return c.flush()
}

func (c *conn) flush() error {
	err := c.write(c.out)
	c.out = c.out[:0]
	return err
}

// sendCopied writes a run of batches through memory.
func (c *conn) sendCopied(slice commitlog.Slice) error {
	buf := make([]byte, min(slice.Length, flushAt))
	for at := int64(0); at < slice.Length; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), slice.Length-at)]
		if err := readSlice(slice, buf, at); err != nil {
			return err
		}
		if err := c.write(buf); err != nil {
			return err
		}
	}
	return nil
}

func readSlice(slice commitlog.Slice, p []byte, at int64) error {
	if len(p) == 0 {
		return nil
	}
	if n, err := slice.File.ReadAt(p, slice.Position+at); n < len(p) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read records at position %d: %w", slice.Position+at, err)
	}
	return nil
}

// fetchEncoder writes all of a Fetch answer but the records.
type fetchEncoder struct {
	head     []byte
	cuts     []int // where in head the records of each partition go
	version  int16
	flexible bool
}

func (e *fetchEncoder) response(resp *kmsg.FetchResponse, slices []commitlog.Slice) {
	e.int32(resp.ThrottleMillis)
	if e.version >= 7 {
		e.int16(resp.ErrorCode)
		e.int32(resp.SessionID)
	}
	e.length(len(resp.Topics))
	next := 0
	for i := range resp.Topics {
		topic := &resp.Topics[i]
		if e.version >= 13 {
			e.head = append(e.head, topic.TopicID[:]...)
		} else {
			e.string(topic.Topic)
		}
		e.length(len(topic.Partitions))
		for j := range topic.Partitions {
			e.partition(&topic.Partitions[j], slices[next].Length)
			next++
		}
		e.noTags()
	}
	e.brokers(resp.Brokers)
}

func (e *fetchEncoder) partition(p *kmsg.FetchResponseTopicPartition, records int64) {
	e.int32(p.Partition)
	e.int16(p.ErrorCode)
	e.int64(p.HighWatermark)
	e.int64(p.LastStableOffset)
	if e.version >= 5 {
		e.int64(p.LogStartOffset)
	}
	if p.AbortedTransactions == nil {
		e.null()
	} else {
		e.length(len(p.AbortedTransactions))
	}
	for i := range p.AbortedTransactions {
		e.int64(p.AbortedTransactions[i].ProducerID)
		e.int64(p.AbortedTransactions[i].FirstOffset)
		e.noTags()
	}
	if e.version >= 11 {
		e.int32(p.PreferredReadReplica)
	}
	e.length(int(records)) // no records are an empty run, as Kafka sends it, not a null
	e.cuts = append(e.cuts, len(e.head))
	if !e.flexible {
		return
	}
	diverging := p.DivergingEpoch.Epoch != -1 || p.DivergingEpoch.EndOffset != -1
	leader := p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1
	e.uvarint(count(diverging) + count(leader))
	if diverging {
		e.head = append(e.head, 0, 4+8+1)
		e.int32(p.DivergingEpoch.Epoch)
		e.int64(p.DivergingEpoch.EndOffset)
		e.noTags()
	}
	if leader {
		e.head = append(e.head, 1, 4+4+1)
		e.int32(p.CurrentLeader.LeaderID)
		e.int32(p.CurrentLeader.LeaderEpoch)
		e.noTags()
	}
}

// brokers is the answer's own tag 0: where the leaders named in it are (v16, KIP-951).
func (e *fetchEncoder) brokers(brokers []kmsg.FetchResponseBroker) {
	if !e.flexible {
		return
	}
	if len(brokers) == 0 {
		e.noTags()
		return
	}
	inner := fetchEncoder{version: e.version, flexible: true}
	inner.length(len(brokers))
	for i := range brokers {
		b := &brokers[i]
		inner.int32(b.NodeID)
		inner.string(b.Host)
		inner.int32(b.Port)
		if b.Rack == nil {
			inner.null()
		} else {
			inner.string(*b.Rack)
		}
		inner.noTags()
	}
	e.head = append(e.head, 1, 0)
	e.uvarint(len(inner.head))
	e.head = append(e.head, inner.head...)
}

func count(present bool) int {
	if present {
		return 1
	}
	return 0
}

func (e *fetchEncoder) int16(v int16) { e.head = binary.BigEndian.AppendUint16(e.head, uint16(v)) }
func (e *fetchEncoder) int32(v int32) { e.head = binary.BigEndian.AppendUint32(e.head, uint32(v)) }
func (e *fetchEncoder) int64(v int64) { e.head = binary.BigEndian.AppendUint64(e.head, uint64(v)) }
func (e *fetchEncoder) uvarint(v int) { e.head = binary.AppendUvarint(e.head, uint64(v)) }

// length begins an array or a run of bytes.
func (e *fetchEncoder) length(n int) {
	if e.flexible {
		e.uvarint(n + 1)
	} else {
		e.int32(int32(n))
	}
}

// null is an array, a string in a flexible version, or bytes that are not there.
func (e *fetchEncoder) null() {
	if e.flexible {
		e.uvarint(0)
	} else {
		e.int32(-1)
	}
}

func (e *fetchEncoder) string(s string) {
	if e.flexible {
		e.uvarint(len(s) + 1)
	} else {
		e.int16(int16(len(s)))
	}
	e.head = append(e.head, s...)
}

func (e *fetchEncoder) noTags() {
	if e.flexible {
		e.head = append(e.head, 0)
	}
}
