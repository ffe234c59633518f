package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestACommitOfManyPartitionsCostsLittleMemory holds what a commit of 100 partitions allocates: consumers of many partitions commit
// all of them every few seconds, and half of the time a commit took was once the making and collecting of garbage.
func TestACommitOfManyPartitionsCostsLittleMemory(t *testing.T) {
	const partitions = 100
	b := newBroker(t, "t")
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Version, rq.Group, rq.Generation = 8, "g", -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "t"
	for n := range int32(partitions) {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = n, 1
		b.setEnd(tp("t", n), 1000)
		topic.Partitions = append(topic.Partitions, p)
	}
	rq.Topics = append(rq.Topics, topic)
	each := testing.AllocsPerRun(50, func() {
		for _, topic := range b.OffsetCommit(t.Context(), Client{}, rq).Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 {
					t.Fatalf("partition %d: error %d", p.Partition, p.ErrorCode)
				}
			}
		}
	})
	t.Logf("%.1f allocations a partition", each/partitions)
	if each > 4*partitions {
		t.Errorf("%.1f allocations a partition, want at most 4", each/partitions)
	}
}
