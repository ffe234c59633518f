package wire_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka/wire"
)

// produceBody is a Produce request's body of topics with so many partitions each.
func produceBody(version int16, topics, partitions int) []byte {
	rq := kmsg.NewPtrProduceRequest()
	rq.SetVersion(version)
	rq.TransactionID = kmsg.StringPtr("tx")
	rq.Acks, rq.TimeoutMillis = -1, 1000
	for range topics {
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.TopicID = "orders", [16]byte{1}
		for p := range partitions {
			one := kmsg.NewProduceRequestTopicPartition()
			one.Partition = int32(p)
			if one.Records = make([]byte, 300); p%3 == 0 {
				one.Records = nil
			}
			t.Partitions = append(t.Partitions, one)
		}
		rq.Topics = append(rq.Topics, t)
	}
	var body []byte
	if rq.IsFlexible() {
		body = append(body, 1, 7, 2, 'a', 'b') // the header's tagged fields: one
	}
	return rq.AppendTo(body)
}

func TestProduceIsWalkedBeforeItIsLaidOut(t *testing.T) {
	for version := range kmsg.NewPtrProduceRequest().MaxVersion() + 1 {
		body := produceBody(version, 3, 5)
		if err := wire.CheckProduce(body, version, 18); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
		if err := wire.CheckProduce(body, version, 17); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("version %d, 18 topics and partitions where 17 are taken: %v", version, err)
		}
		for cut := range len(body) - 1 {
			err := wire.CheckProduce(body[:cut], version, 18)
			if err == nil {
				t.Errorf("version %d cut to %d bytes of %d passes", version, cut, len(body))
				break
			}
		}
	}
}

// FuzzCheckProduce looks for bytes that decode and do not pass, or that take long.
func FuzzCheckProduce(f *testing.F) {
	for _, version := range []int16{0, 3, 9, 12, 13} {
		f.Add(produceBody(version, 2, 2), version)
	}
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		rq := kmsg.NewPtrProduceRequest()
		if version < 0 || version > rq.MaxVersion() {
			return
		}
		rq.SetVersion(version)
		walked := wire.CheckProduce(body, version, 1000)
		if decoded := wire.Decode(rq, body); decoded == nil && walked != nil {
			named := 0
			for _, topic := range rq.Topics {
				named += 1 + len(topic.Partitions)
			}
			if named <= 1000 {
				t.Fatalf("version %d decodes and does not pass: %v", version, walked)
			}
		}
	})
}
