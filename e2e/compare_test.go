//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Client is a franz-go client for a cluster, closed with the test.
func Client(t *testing.T, bootstrap string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append([]kgo.Opt{kgo.SeedBrokers(splitComma(bootstrap)...), kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(2 * time.Second)}, options...)
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func splitComma(text string) []string {
	var parts []string
	for len(text) > 0 {
		i := 0
		for i < len(text) && text[i] != ',' {
			i++
		}
		parts = append(parts, text[:i])
		text = text[min(len(text), i+1):]
	}
	return parts
}

// leader finds the broker that leads a partition, with the topic's id and epoch.
func leader(ctx context.Context, client *kgo.Client, topic string, partition int32) (broker int32, id kafka.TopicID, epoch int32, err error) {
	rq := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	rq.Topics = append(rq.Topics, rt)
	rs, err := rq.RequestWith(ctx, client)
	if err != nil {
		return 0, id, 0, err
	}
	for _, t := range rs.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return 0, id, 0, err
		}
		for _, p := range t.Partitions {
			if p.Partition == partition {
				return p.Leader, kafka.TopicID(t.TopicID), p.LeaderEpoch, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return 0, id, 0, fmt.Errorf("metadata has no partition %s-%d", topic, partition)
}

// Raw reads the bytes of [from, to) as the partition's leader sends them to a
// read_uncommitted consumer; the last batch may end above to.
func Raw(t *testing.T, client *kgo.Client, topic string, partition int32, from, to int64) []byte {
	t.Helper()
	ctx := testContext(t)
	var all []byte
	for tries := 0; from < to; {
		part, err := fetchOnce(ctx, client, topic, partition, from)
		if err != nil {
			if tries++; tries > 50 {
				t.Fatalf("fetch %s-%d at %d: %v", topic, partition, from, err)
			}
			pause(ctx, 200*time.Millisecond)
			continue
		}
		grown := false
		for b, err := range batch.Batches(part).All() {
			if err != nil {
				break // the answer ends inside a batch
			}
			if int64(b.NextOffset()) <= from {
				continue
			}
			if int64(b.BaseOffset()) >= to {
				return all
			}
			all = append(all, b...)
			from = int64(b.NextOffset())
			grown = true
		}
		if !grown {
			if tries++; tries > 50 {
				t.Fatalf("fetch %s-%d at %d: no batch, though the end is %d", topic, partition, from, to)
			}
			pause(ctx, 100*time.Millisecond)
		}
	}
	return all
}

func fetchOnce(ctx context.Context, client *kgo.Client, topic string, partition int32, from int64) ([]byte, error) {
	broker, id, _, err := leader(ctx, client, topic, partition)
	if err != nil {
		return nil, err
	}
	rq := kmsg.NewPtrFetchRequest()
	rq.MaxWaitMillis, rq.MinBytes, rq.MaxBytes, rq.SessionEpoch = 500, 1, 32<<20, -1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = topic, id
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = partition, from, 16<<20
	ft.Partitions = append(ft.Partitions, fp)
	rq.Topics = append(rq.Topics, ft)
	answer, err := client.Broker(int(broker)).RetriableRequest(ctx, rq)
	if err != nil {
		return nil, err
	}
	rs := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(rs.ErrorCode); err != nil {
		return nil, err
	}
	for _, t := range rs.Topics {
		for _, p := range t.Partitions {
			return p.RecordBatches, kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return nil, fmt.Errorf("the answer has no partition")
}

// Ends reads (earliest, latest) of a partition.
func Ends(t *testing.T, client *kgo.Client, topic string, partition int32) (earliest, latest int64) {
	t.Helper()
	earliest, latest, err := ends(testContext(t), client, topic, partition)
	if err != nil {
		t.Fatalf("list offsets of %s-%d: %v", topic, partition, err)
	}
	return earliest, latest
}

func ends(ctx context.Context, client *kgo.Client, topic string, partition int32) (earliest, latest int64, err error) {
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	finals, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	s, ok1 := starts.Lookup(topic, partition)
	e, ok2 := finals.Lookup(topic, partition)
	if !ok1 || !ok2 || s.Err != nil || e.Err != nil {
		return 0, 0, fmt.Errorf("start %v, end %v", s.Err, e.Err)
	}
	return s.Offset, e.Offset, nil
}

// WaitLevel waits until both ends of the mirror's partitions are the source's.
func WaitLevel(t *testing.T, source, mirror *kgo.Client, topic string, partitions int32, within time.Duration) {
	t.Helper()
	for p := range partitions {
		eventually(t, within, fmt.Sprintf("%s-%d is level", topic, p), func() (bool, string) {
			ctx, cancel := context.WithTimeout(testContext(t), 10*time.Second)
			defer cancel()
			s1, e1, err1 := ends(ctx, source, topic, p)
			s2, e2, err2 := ends(ctx, mirror, topic, p)
			words := fmt.Sprintf("source [%d,%d) %v, mirror [%d,%d) %v", s1, e1, err1, s2, e2, err2)
			return err1 == nil && err2 == nil && s1 == s2 && e1 == e2, words
		})
	}
}

// Same compares the bytes of [from, to) on both sides, leader epochs included.
func Same(t *testing.T, source, mirror *kgo.Client, topic string, partition int32, from, to int64) {
	t.Helper()
	want := Raw(t, source, topic, partition, from, to)
	have := Raw(t, mirror, topic, partition, from, to)
	if string(want) == string(have) {
		return
	}
	at := 0
	for at < min(len(want), len(have)) && want[at] == have[at] {
		at++
	}
	t.Fatalf("%s-%d over [%d,%d): source has %d bytes, mirror %d; they differ at byte %d, %s", topic, partition, from, to, len(want), len(have), at, where(want, at))
}

// where says in which batch a byte of a run of batches lies.
func where(raw []byte, at int) string {
	pos := 0
	for b, err := range batch.Batches(raw).All() {
		if err != nil {
			break
		}
		if at < pos+len(b) {
			return fmt.Sprintf("byte %d of the batch at offset %d (epoch %d)", at-pos, b.BaseOffset(), b.LeaderEpoch())
		}
		pos += len(b)
	}
	return "after the last batch"
}

// SameAll compares the ends and all bytes of all partitions.
func SameAll(t *testing.T, source, mirror *kgo.Client, topic string, partitions int32) {
	t.Helper()
	for p := range partitions {
		s1, e1 := Ends(t, source, topic, p)
		s2, e2 := Ends(t, mirror, topic, p)
		if s1 != s2 || e1 != e2 {
			t.Fatalf("%s-%d: source is [%d,%d), mirror [%d,%d)", topic, p, s1, e1, s2, e2)
		}
		Same(t, source, mirror, topic, p, s1, e1)
	}
}

// EpochEnd asks OffsetForLeaderEpoch as a consumer does.
func EpochEnd(t *testing.T, client *kgo.Client, topic string, partition, epoch int32) (int32, int64) {
	t.Helper()
	ctx := testContext(t)
	broker, _, _, err := leader(ctx, client, topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	rq := kmsg.NewPtrOffsetForLeaderEpochRequest()
	rq.ReplicaID = -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = partition, -1, epoch
	rt.Partitions = append(rt.Partitions, rp)
	rq.Topics = append(rq.Topics, rt)
	answer, err := client.Broker(int(broker)).RetriableRequest(ctx, rq)
	if err != nil {
		t.Fatal(err)
	}
	p := answer.(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		t.Fatalf("OffsetForLeaderEpoch %s-%d epoch %d: %v", topic, partition, epoch, err)
	}
	return p.LeaderEpoch, p.EndOffset
}

// epochsOf lists the epochs of a run of batches, rising.
func epochsOf(raw []byte) []int32 {
	var epochs []int32
	for b, err := range batch.Batches(raw).All() {
		if err != nil {
			break
		}
		if e := int32(b.LeaderEpoch()); len(epochs) == 0 || epochs[len(epochs)-1] != e {
			epochs = append(epochs, e)
		}
	}
	return epochs
}

// CreateTopic makes a topic and waits until every partition has a leader.
func CreateTopic(t *testing.T, client *kgo.Client, topic string, partitions int32, replicas int16, configs map[string]string) {
	t.Helper()
	ctx := testContext(t)
	values := map[string]*string{}
	for key, value := range configs {
		values[key] = kmsg.StringPtr(value)
	}
	rs, err := kadm.NewClient(client).CreateTopic(ctx, partitions, replicas, values, topic)
	if err == nil {
		err = rs.Err
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
	for p := range partitions {
		eventually(t, 30*time.Second, "topic has leaders", func() (bool, string) {
			broker, _, _, err := leader(ctx, client, topic, p)
			return err == nil && broker >= 0, fmt.Sprint(broker, err)
		})
	}
	knownToAll(t, client, topic)
}

// knownToAll waits until each broker of a cluster knows a topic: the one that is asked next may be the last to hear of it.
func knownToAll(t *testing.T, client *kgo.Client, topic string) {
	t.Helper()
	ctx := testContext(t)
	rq := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = &topic
	rq.Topics = append(rq.Topics, one)
	eventually(t, 30*time.Second, "all brokers know topic "+topic, func() (bool, string) {
		brokers, err := kadm.NewClient(client).ListBrokers(ctx)
		if err != nil {
			return false, err.Error()
		}
		for _, id := range brokers.NodeIDs() {
			rs, err := rq.RequestWith(ctx, client.Broker(int(id)))
			if err == nil && len(rs.Topics) == 1 {
				err = kerr.ErrorForCode(rs.Topics[0].ErrorCode)
			}
			if err != nil {
				return false, fmt.Sprintf("broker %d: %v", id, err)
			}
		}
		return true, ""
	})
}
