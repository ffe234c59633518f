//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	segmentio "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// until is a context that ends with done.
func until(t *testing.T, done <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(testContext(t))
	go func() {
		select {
		case <-done:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx
}

func franzClient(options ...kgo.Opt) client {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	return client{
		codecs: everyCodec,
		create: func(t *testing.T, bootstrap, topic string, partitions int) {
			t.Helper()
			if _, err := kadm.NewClient(Client(t, bootstrap)).CreateTopic(testContext(t), int32(partitions), 1, nil, topic); err != nil {
				t.Fatal(err)
			}
		},
		produce: func(t *testing.T, bootstrap, topic, codec, prefix string, n int) {
			t.Helper()
			var records []*kgo.Record
			for i := range n {
				key := fmt.Sprintf("%s-%d", prefix, i)
				records = append(records, &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(valueOf(key))})
			}
			produce(t, Client(t, bootstrap, kgo.ProducerBatchCompression(codecs[codec])), records...)
		},
		join: func(t *testing.T, bootstrap, topic, group string) *groupMember {
			return joinIn(t, func(m *groupMember, done <-chan struct{}) {
				franzMember(t, m, done, bootstrap, topic, group, options...)
			})
		},
	}
}

func franzMember(t *testing.T, m *groupMember, done <-chan struct{}, bootstrap, topic, group string, options ...kgo.Opt) {
	var owned []int32
	gained := func(_ context.Context, _ *kgo.Client, all map[string][]int32) {
		owned = append(owned, all[topic]...)
		m.own(owned)
	}
	lost := func(_ context.Context, _ *kgo.Client, all map[string][]int32) {
		owned = slices.DeleteFunc(owned, func(p int32) bool { return slices.Contains(all[topic], p) })
		m.own(owned)
	}
	options = append(options, kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(gained), kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost), kgo.FetchMaxWait(200*time.Millisecond))
	cl, err := kgo.NewClient(options...)
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	ctx := until(t, done)
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) { m.got(r.Partition, r.Offset, string(r.Key), string(r.Value)) })
		if err := cl.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
			t.Logf("commit: %v", err)
		}
	}
	if err := cl.CommitUncommittedOffsets(testContext(t)); err != nil {
		t.Errorf("last commit: %v", err)
	}
}

func saramaConfig(version sarama.KafkaVersion) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = version
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.MaxWaitTime = 200 * time.Millisecond
	c.Metadata.Retry.Max = 50
	return c
}

func saramaClient() client { return saramaClientOf(sarama.V4_1_0_0) }

func saramaClientOf(version sarama.KafkaVersion) client {
	codecs := map[string]sarama.CompressionCodec{"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD}
	return client{
		codecs: everyCodec,
		create: func(t *testing.T, bootstrap, topic string, partitions int) {
			t.Helper()
			admin, err := sarama.NewClusterAdmin([]string{bootstrap}, saramaConfig(version))
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			if err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1}, false); err != nil {
				t.Fatal(err)
			}
		},
		produce: func(t *testing.T, bootstrap, topic, codec, prefix string, n int) {
			t.Helper()
			config := saramaConfig(version)
			config.Producer.Compression = codecs[codec]
			producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
			if err != nil {
				t.Fatal(err)
			}
			defer producer.Close()
			var all []*sarama.ProducerMessage
			for i := range n {
				key := fmt.Sprintf("%s-%d", prefix, i)
				all = append(all, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(key), Value: sarama.StringEncoder(valueOf(key))})
			}
			if err := producer.SendMessages(all); err != nil {
				t.Fatal(err)
			}
		},
		join: func(t *testing.T, bootstrap, topic, group string) *groupMember {
			return joinIn(t, func(m *groupMember, done <-chan struct{}) {
				g, err := sarama.NewConsumerGroup([]string{bootstrap}, group, saramaConfig(version))
				if err != nil {
					t.Error(err)
					return
				}
				defer g.Close()
				for ctx := until(t, done); ctx.Err() == nil; {
					if err := g.Consume(ctx, []string{topic}, &saramaMember{m: m, topic: topic}); err != nil && ctx.Err() == nil {
						t.Logf("consume: %v", err)
						pause(ctx, 100*time.Millisecond)
					}
				}
			})
		},
	}
}

// saramaMember is one generation of a group.
type saramaMember struct {
	m     *groupMember
	topic string
}

func (s *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	s.m.own(session.Claims()[s.topic])
	return nil
}

func (s *saramaMember) Cleanup(sarama.ConsumerGroupSession) error {
	s.m.own(nil)
	return nil
}

func (s *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for r := range claim.Messages() {
		s.m.got(r.Partition, r.Offset, string(r.Key), string(r.Value))
		session.MarkMessage(r, "")
		if r.Offset+1 == claim.HighWaterMarkOffset() || r.Offset%100 == 0 {
			session.Commit()
		}
	}
	session.Commit()
	return nil
}

func segmentioClient() client {
	codecs := map[string]segmentio.Compression{"none": 0, "gzip": segmentio.Gzip, "snappy": segmentio.Snappy, "lz4": segmentio.Lz4, "zstd": segmentio.Zstd}
	return client{
		codecs: everyCodec,
		create: func(t *testing.T, bootstrap, topic string, partitions int) {
			t.Helper()
			conn, err := segmentio.DialContext(testContext(t), "tcp", bootstrap)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.CreateTopics(segmentio.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}); err != nil {
				t.Fatal(err)
			}
		},
		produce: func(t *testing.T, bootstrap, topic, codec, prefix string, n int) {
			t.Helper()
			// A transport that nobody closes asks its address for metadata for ever; once a later test's HTTP listener
			// had the port, it took "HTTP/1.1 400" for the length of an array and asked for gigabytes.
			transport := &segmentio.Transport{}
			defer transport.CloseIdleConnections()
			w := &segmentio.Writer{Addr: segmentio.TCP(bootstrap), Topic: topic, Balancer: &segmentio.Hash{}, RequiredAcks: segmentio.RequireAll,
				Compression: codecs[codec], BatchTimeout: 5 * time.Millisecond, Transport: transport}
			defer w.Close()
			var all []segmentio.Message
			for i := range n {
				key := fmt.Sprintf("%s-%d", prefix, i)
				all = append(all, segmentio.Message{Key: []byte(key), Value: []byte(valueOf(key))})
			}
			if err := w.WriteMessages(testContext(t), all...); err != nil {
				t.Fatal(err)
			}
		},
		join: func(t *testing.T, bootstrap, topic, group string) *groupMember {
			return joinIn(t, func(m *groupMember, done <-chan struct{}) { segmentioMember(t, m, done, bootstrap, topic, group) })
		},
	}
}

func segmentioMember(t *testing.T, m *groupMember, done <-chan struct{}, bootstrap, topic, group string) {
	g, err := segmentio.NewConsumerGroup(segmentio.ConsumerGroupConfig{ID: group, Brokers: []string{bootstrap}, Topics: []string{topic}, StartOffset: segmentio.FirstOffset,
		HeartbeatInterval: 500 * time.Millisecond, JoinGroupBackoff: 500 * time.Millisecond})
	if err != nil {
		t.Error(err)
		return
	}
	defer g.Close()
	ctx := until(t, done)
	for ctx.Err() == nil {
		generation, err := g.Next(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, segmentio.ErrGroupClosed) {
				t.Logf("next generation: %v", err)
			}
			continue
		}
		var owned []int32
		for _, a := range generation.Assignments[topic] {
			owned = append(owned, int32(a.ID))
			generation.Start(func(ctx context.Context) { segmentioRead(ctx, t, m, generation, bootstrap, topic, a) })
		}
		m.own(owned)
		generation.Start(func(ctx context.Context) {
			<-ctx.Done()
			m.own(nil)
		})
	}
}

// segmentioRead reads a partition while the generation lasts and commits what it read.
func segmentioRead(ctx context.Context, t *testing.T, m *groupMember, g *segmentio.Generation, bootstrap, topic string, a segmentio.PartitionAssignment) {
	r := segmentio.NewReader(segmentio.ReaderConfig{Brokers: []string{bootstrap}, Topic: topic, Partition: a.ID, MaxWait: 200 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20})
	defer r.Close()
	if err := r.SetOffset(a.Offset); err != nil {
		t.Error(err)
		return
	}
	for {
		record, err := r.ReadMessage(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Logf("read partition %d: %v", a.ID, err)
			}
			return
		}
		if record.Offset+1 == record.HighWaterMark || record.Offset%100 == 0 {
			if err := g.CommitOffsets(map[string]map[int]int64{topic: {a.ID: record.Offset + 1}}); err != nil {
				// The connection went with the broker, and the generation is about to end: the next one reads this record again.
				t.Logf("commit partition %d: %v", a.ID, err)
				return
			}
		}
		m.got(int32(record.Partition), record.Offset, string(record.Key), string(record.Value))
	}
}
