package partition

import (
	"fmt"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
)

// TestOverRealMetadata runs the orders over the metadata store that a broker has, through a restart of it.
func TestOverRealMetadata(t *testing.T) {
	dir := t.TempDir()
	openMeta := func() *meta.Meta {
		m, err := meta.Open(t.Context(), meta.Config{Dir: dir, NodeID: 1})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := openMeta()
	st := openDisk(t, t.TempDir())
	var topics []*meta.Topic
	var ids []kafka.TopicID
	err := m.Update(t.Context(), func(*meta.Image) (changes []meta.Change, err error) {
		topics, ids = nil, nil
		for n := range 3 {
			topic := &meta.Topic{ID: kafka.NewTopicID(), Name: fmt.Sprintf("t%d", n), Partitions: 2, ReplicationFactor: 1}
			states := &meta.Partitions{Topic: topic.ID, List: []meta.Partition{{Role: meta.RoleMirror}, {Role: meta.RoleMirror}}}
			topics, ids = append(topics, topic), append(ids, topic.ID)
			changes = append(changes, meta.PutTopic(topic), meta.PutPartitions(states))
		}
		return changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	openOwner := func() *Owner {
		o := NewOwner(Config{ClusterID: "b", ProducerPrefix: ownPrefix, SyncDelay: time.Millisecond}, st, m)
		for _, topic := range topics {
			if err := o.Open(topic, m.Image().Partitions[topic.ID], testTopicConfig()); err != nil {
				t.Fatal(err)
			}
		}
		return o
	}
	o := openOwner()
	for _, p := range o.all(nil) {
		data := join(made{base: 0, epoch: 3, id: foreignID(1), txn: true, values: make([]string, 5)}.build(t), made{base: 5, epoch: 4}.build(t))
		if err := p.AppendMirrored(t.Context(), Mirrored{Generation: 0, FetchedAt: 0, Batches: data}); err != nil {
			t.Fatal(err)
		}
		await(t, p, "all is shown", func() bool { return p.Offsets().HighWatermark == 6 })
		if got := m.Image().Partitions[p.id.Topic].List[p.id.Partition].Epoch; got != 4 {
			t.Errorf("stored epoch %d", got)
		}
	}
	first := o.Get(kafka.PartitionID{Topic: ids[0]})
	if _, err := first.TruncateMirror(t.Context(), 0, 5, "test"); err != nil {
		t.Fatal(err)
	}
	// One topic that metadata does not know any more does not keep the others from being stopped.
	if err := m.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) {
		return []meta.Change{meta.DeletePartitions(ids[2]), meta.DeleteTopic(ids[2], "t2")}, nil
	}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, o.StopMirrors(t.Context(), ids, "link"), kafka.UnknownTopicID)
	topics = topics[:2]
	for range 2 {
		for _, topic := range topics {
			for n := range topic.Partitions {
				p := o.Get(kafka.PartitionID{Topic: topic.ID, Partition: n})
				if got := p.Offsets(); got.Role != meta.RoleOpen || got.LastStable != got.LogEnd || p.Entry().Stop == nil || len(p.Entry().Stop.LastBatches) == 0 {
					t.Errorf("%s: %+v, %v", p.Name(), got, p.Err())
				}
				a, err := p.Append(t.Context(), batch.Batches(made{}.build(t)), nil)
				if err == nil {
					err = p.WaitSynced(t.Context(), a.Next)
				}
				if err != nil {
					t.Error(err)
				}
			}
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		m = openMeta()
		o = openOwner()
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
