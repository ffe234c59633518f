//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// writer is a transactional producer as a coordinator knows it.
type writer struct {
	id    int64
	epoch int16
}

var nobody = writer{-1, -1}

// init asks, notes the first answer, and waits until there is a good one.
func (c *rawTalk) init(what, id string, as writer, timeoutMs int32, v int16) writer {
	rq := kmsg.NewPtrInitProducerIDRequest()
	rq.TransactionalID, rq.TransactionTimeoutMillis, rq.ProducerID, rq.ProducerEpoch = &id, timeoutMs, as.id, as.epoch
	resp := c.say("init "+what, rq, v).(*kmsg.InitProducerIDResponse)
	if kafka.ErrorCode(resp.ErrorCode) == kafka.ConcurrentTransactions {
		resp = c.until(rq, v).(*kmsg.InitProducerIDResponse)
	}
	c.heard = append(c.heard, fmt.Sprintf("init %s at last: epoch %d", what, resp.ProducerEpoch))
	return writer{resp.ProducerID, resp.ProducerEpoch}
}

func (c *rawTalk) add(what, id string, as writer, v int16, topic string, partitions ...int32) {
	rq := kmsg.NewPtrAddPartitionsToTxnRequest()
	rq.TransactionalID, rq.ProducerID, rq.ProducerEpoch = id, as.id, as.epoch
	rq.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: partitions}}
	c.say("add "+what, rq, v)
}

// end asks until markers of an earlier answer are no longer in the way: Kafka answers before it has written them. Only the
// last answer is noted.
func (c *rawTalk) end(what, id string, as writer, commit bool, v int16) writer {
	rq := kmsg.NewPtrEndTxnRequest()
	rq.TransactionalID, rq.ProducerID, rq.ProducerEpoch, rq.Commit = id, as.id, as.epoch, commit
	resp := c.until(rq, v).(*kmsg.EndTxnResponse)
	c.heard = append(c.heard, fmt.Sprintf("end %s v%d: %s, epoch %d", what, v, kafka.ErrorCode(resp.ErrorCode), resp.ProducerEpoch))
	c.completed(id)
	return writer{resp.ProducerID, resp.ProducerEpoch}
}

// completed waits until no markers are being written.
func (c *rawTalk) completed(id string) {
	rq := kmsg.NewPtrDescribeTransactionsRequest()
	rq.TransactionalIDs = []string{id}
	for range 200 {
		resp, err := c.send(rq, 0)
		if err == nil {
			if state := resp.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].State; state != "PrepareCommit" && state != "PrepareAbort" {
				return
			}
		}
		pause(testContext(c.t), 50*time.Millisecond)
	}
	c.t.Fatalf("the transaction of %q is never completed", id)
}

func initTalk(c *rawTalk) {
	c.init("without a name", "", nobody, 1000, 4)
	c.init("without time", "x", nobody, 0, 4)
	c.init("with too much time", "x", nobody, 100_000_000, 4)
	x := c.init("", "x", nobody, 60_000, 4)
	c.init("of the same", "x", x, 60_000, 4)
	c.init("of the same again", "x", x, 60_000, 4)
	c.init("of another", "x", writer{x.id + 999, 0}, 60_000, 4)
	c.init("of another, old client", "x", writer{x.id + 999, 0}, 60_000, 3)
	c.init("of a new name with an old id", "new", writer{77, 3}, 60_000, 4)
	c.init("of a later life", "x", nobody, 60_000, 4)
	c.init("of the first life", "x", x, 60_000, 4)
}

// transactionTalk is one transaction of the older protocol, with offsets, and everything that is not allowed in it.
func transactionTalk(c *rawTalk) {
	x := c.init("", "tx", nobody, 60_000, 4)
	for _, v := range []int16{1, 3} {
		c.end("without a transaction", "tx", x, true, v)
		c.end("without a transaction", "tx", x, false, v)
		c.end("of an unknown name", "ty", x, false, v)
		c.end("without a name", "", x, false, v)
		for delta := int64(-1); delta <= 1; delta++ {
			c.add("under another id", "tx", writer{x.id + delta, x.epoch}, v, "t", 2)
			c.add("under another epoch", "tx", writer{x.id, x.epoch + int16(delta)}, v, "t", 2)
		}
		c.add("to an unknown name", "ty", x, v, "t", 0)
		c.add("on no partition", "tx", x, v, "t", 0, 99)
		c.add("on no topic", "tx", x, v, "nope", 0)
	}
	for _, v := range []int16{10, 11} {
		c.say("records on a partition that was not added", recordsIn(c.t, "tx", x, "t", 0), v)
	}
	c.add("", "tx", x, 3, "t", 0, 1)
	c.add("again", "tx", x, 3, "t", 0)
	commit := func(group string, generation int32, member string, partition int32) *kmsg.TxnOffsetCommitRequest {
		rq := kmsg.NewPtrTxnOffsetCommitRequest()
		rq.TransactionalID, rq.Group, rq.ProducerID, rq.ProducerEpoch, rq.Generation, rq.MemberID = "tx", group, x.id, x.epoch, generation, member
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = partition, 9
		rq.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}
		return rq
	}
	for _, v := range []int16{3, 4} {
		c.say("offsets before they are added", commit("tg", -1, "", 0), v)
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = "tx", x.id, x.epoch, "tg"
	c.say("add offsets", add, 3)
	c.say("offsets", commit("tg", -1, "", 0), 3)
	c.say("offsets on no partition", commit("tg", -1, "", 88), 3)
	c.say("offsets of a generation", commit("tg", 5, "m", 0), 3)
	stable := fetchOf("tg", 0)
	c.say("fetch", stable, 7)
	stable.RequireStable = true
	c.say("fetch what is stable", stable, 7)
	for _, v := range []int16{1, 3} {
		c.end("under an old epoch", "tx", writer{x.id, x.epoch - 1}, true, v)
	}
	c.end("commit", "tx", x, true, 3)
	c.say("fetch what is stable", stable, 7)
	c.end("commit again", "tx", x, true, 3)
	c.end("abort after the commit", "tx", x, false, 3)
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{"tx", "nope"}
	c.say("describe", describe, 0)
}

// recordsIn is a Produce request of one record in a transaction.
func recordsIn(t *testing.T, id string, who writer, topic string, partition int32) *kmsg.ProduceRequest {
	t.Helper()
	spec := batch.Spec{ProducerID: kafka.ProducerID(who.id), ProducerEpoch: who.epoch, Transactional: true}
	b, err := batch.Build(spec, []batch.Record{{Timestamp: time.Now().UnixMilli(), Value: []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	rq := kmsg.NewPtrProduceRequest()
	rq.TransactionID, rq.Acks, rq.TimeoutMillis = &id, -1, 10_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, b
	rq.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
	return rq
}

// bumpingTalk is transactions of the newer protocol, which raise the epoch (KIP-890), and a producer that is fenced.
func bumpingTalk(c *rawTalk) {
	z := c.init("", "z", nobody, 60_000, 5)
	first := c.end("abort of nothing", "z", z, false, 5)
	c.end("abort of nothing again", "z", z, false, 5)
	c.end("commit of nothing", "z", first, true, 5)
	c.add("", "z", first, 3, "t", 2)
	second := c.end("commit", "z", first, true, 5)
	c.end("commit again", "z", first, true, 5)
	c.end("abort after the commit", "z", first, false, 5)
	c.end("commit of nothing", "z", second, true, 5)
	c.end("under a higher epoch", "z", writer{second.id, second.epoch + 5}, true, 5)
	c.end("under another id", "z", writer{second.id + 5, second.epoch}, true, 5)
	c.add("before another life", "z", second, 3, "t", 2)
	c.init("over an open transaction", "z", nobody, 60_000, 5)
	for _, v := range []int16{3, 5} {
		c.end("commit of a fenced one", "z", second, true, v)
		c.end("abort of a fenced one", "z", second, false, v)
	}
	c.add("of a fenced one", "z", second, 3, "t", 2)
	list := kmsg.NewPtrListTransactionsRequest()
	list.DurationFilterMillis = -1
	c.say("list", list, 1)
	list.StateFilters = []string{"Ongoing", "Nonsense"}
	c.say("list some", list, 1)
	markers := kmsg.NewPtrWriteTxnMarkersRequest()
	markers.Markers = []kmsg.WriteTxnMarkersRequestMarker{{ProducerID: second.id, ProducerEpoch: second.epoch + 9,
		Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "t", Partitions: []int32{0, 66}}}}}
	c.say("write markers", markers, 1)
}
