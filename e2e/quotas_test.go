//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// limit sets one quota of an entity, given as pairs of type and name; a negative value removes it.
func limit(t *testing.T, bootstrap, quota string, value float64, entity ...string) {
	t.Helper()
	client := Client(t, bootstrap)
	entry := kadm.AlterClientQuotaEntry{Ops: []kadm.AlterClientQuotaOp{{Key: quota, Value: value, Remove: value < 0}}}
	for i := 0; i < len(entity); i += 2 {
		entry.Entity = append(entry.Entity, kadm.ClientQuotaEntityComponent{Type: entity[i], Name: kmsg.StringPtr(entity[i+1])})
	}
	done, err := kadm.NewClient(client).AlterClientQuotas(testContext(t), []kadm.AlterClientQuotaEntry{entry})
	if err != nil || len(done) != 1 || done[0].Err != nil {
		t.Fatalf("set %s of %v at %s: %v, %+v", quota, entity, bootstrap, err, done)
	}
}

// throttledProduce sends one batch of some bytes and returns how long the answer says to rest.
func throttledProduce(t *testing.T, bootstrap, id, topic string, bytes int) time.Duration {
	t.Helper()
	client := Client(t, bootstrap, kgo.ClientID(id))
	rq := kmsg.NewPtrProduceRequest()
	rq.Acks, rq.TimeoutMillis = -1, 20000
	rt := kmsg.NewProduceRequestTopic()
	broker, topicID, _, err := leader(testContext(t), client, topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	rt.Topic, rt.TopicID = topic, topicID
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = oneBatch(t, bytes)
	rt.Partitions = append(rt.Partitions, rp)
	rq.Topics = append(rq.Topics, rt)
	answer, err := client.Broker(int(broker)).Request(testContext(t), rq)
	if err != nil {
		t.Fatal(err)
	}
	resp := answer.(*kmsg.ProduceResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("produce %d bytes to %s: %v", bytes, bootstrap, kafka.ErrorCode(code))
	}
	return time.Duration(resp.ThrottleMillis) * time.Millisecond
}

// oneBatch is a batch of one record of some bytes.
func oneBatch(t *testing.T, bytes int) batch.Batch {
	t.Helper()
	b, err := batch.Build(batch.Spec{ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1},
		[]batch.Record{{Timestamp: time.Now().UnixMilli(), Value: make([]byte, bytes)}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// throttledFetches fetches some bytes twice, the second time from where the first ended, and returns how long to rest after each.
func throttledFetches(t *testing.T, bootstrap, id, topic string, bytes int32) (rests [2]time.Duration, got [2]int) {
	t.Helper()
	client := Client(t, bootstrap, kgo.ClientID(id))
	broker, topicID, _, err := leader(testContext(t), client, topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := int64(0)
	for i := range rests {
		rq := kmsg.NewPtrFetchRequest()
		rq.MaxWaitMillis, rq.MinBytes, rq.MaxBytes, rq.SessionEpoch = 100, 1, bytes, -1
		ft := kmsg.NewFetchRequestTopic()
		ft.Topic, ft.TopicID = topic, topicID
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.FetchOffset, fp.PartitionMaxBytes = at, bytes
		ft.Partitions = append(ft.Partitions, fp)
		rq.Topics = append(rq.Topics, ft)
		answer, err := client.Broker(int(broker)).Request(testContext(t), rq)
		if err != nil {
			t.Fatal(err)
		}
		resp := answer.(*kmsg.FetchResponse)
		rests[i] = time.Duration(resp.ThrottleMillis) * time.Millisecond
		if len(resp.Topics) > 0 {
			got[i] = len(resp.Topics[0].Partitions[0].RecordBatches)
			at += int64(got[i] / (90 << 10))
		}
	}
	return rests, got
}

// like fails unless hawser's rest is Kafka's within a tenth.
func like(t *testing.T, what string, kafkas, ours time.Duration) {
	t.Helper()
	t.Logf("%s: Kafka says to rest %v, hawser %v", what, kafkas, ours)
	if (kafkas == 0) != (ours == 0) || float64(ours) < float64(kafkas)*0.9 || float64(ours) > float64(kafkas)*1.1 {
		t.Errorf("%s: Kafka says to rest %v, hawser %v", what, kafkas, ours)
	}
}

// TestQuotasThrottleAsKafka sets the same quotas for the same clients of both and compares what they are told.
func TestQuotasThrottleAsKafka(t *testing.T) {
	k, h := SharedKafka(t), StartHawser(t)
	const rate = 50_000
	doors := []string{k.Bootstrap(), h.Kafka}
	var produced, changed [2]time.Duration
	var fetched [2][2]time.Duration
	var got [2][2]int
	for i, door := range doors {
		client := Client(t, door)
		CreateTopic(t, client, "throttled", 1, 1, nil)
		limit(t, door, "producer_byte_rate", rate, "client-id", "heavy")
		limit(t, door, "consumer_byte_rate", rate, "client-id", "reader")
		settled(t, door, "heavy", "reader")
		produced[i] = throttledProduce(t, door, "heavy", "throttled", 600_000)
		if rest := throttledProduce(t, door, "other", "throttled", 600_000); rest != 0 {
			t.Errorf("%s: another client rests %v", door, rest)
		}
		CreateTopic(t, client, "throttled-read", 1, 1, nil)
		for range 8 {
			throttledProduce(t, door, "filler", "throttled-read", 92<<10)
		}
		fetched[i], got[i] = throttledFetches(t, door, "reader", "throttled-read", int32(3*len(oneBatch(t, 92<<10))))
		limit(t, door, "producer_byte_rate", 1e9, "client-id", "heavy")
		settled(t, door, "heavy")
		changed[i] = throttledProduce(t, door, "heavy", "throttled", 100_000)
	}
	like(t, "600 kB at 50 kB/s", produced[0], produced[1])
	like(t, "the first fetch, within ten seconds' worth", fetched[0][0], fetched[1][0])
	like(t, "the second fetch", fetched[0][1], fetched[1][1])
	if got[1][0] == 0 || got[1][1] != 0 || got[0][0] == 0 || got[0][1] != 0 {
		t.Errorf("bytes of the two fetches: Kafka %v, hawser %v; a throttled one is empty", got[0], got[1])
	}
	like(t, "after the quota was raised", changed[0], changed[1])
}

// settled waits until a broker's quotas show: Kafka applies them a moment later.
func settled(t *testing.T, door string, ids ...string) {
	t.Helper()
	admin := kadm.NewClient(Client(t, door))
	for _, id := range ids {
		eventually(t, 20*time.Second, "the quota shows", func() (bool, string) {
			list, err := admin.DescribeClientQuotas(testContext(t), true, []kadm.DescribeClientQuotaComponent{{Type: "client-id", MatchType: kmsg.QuotasMatchTypeExact, MatchName: &id}})
			return err == nil && len(list) == 1, ""
		})
	}
	pause(testContext(t), 300*time.Millisecond)
}

// TestMutationQuotaRefusesAsKafka: what is over controller_mutation_rate is refused with the same code and about the same rest.
func TestMutationQuotaRefusesAsKafka(t *testing.T) {
	k, h := SharedKafka(t), StartHawser(t)
	var rests [2]time.Duration
	for i, door := range []string{k.Bootstrap(), h.Kafka} {
		limit(t, door, "controller_mutation_rate", 1, "client-id", "maker")
		settled(t, door, "maker")
		client := Client(t, door, kgo.ClientID("maker"))
		rq := kmsg.NewPtrCreateTopicsRequest()
		rq.TimeoutMillis = 20000
		for _, name := range []string{"mutated-a", "mutated-b"} {
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 20, 1
			rq.Topics = append(rq.Topics, topic)
		}
		resp, err := rq.RequestWith(testContext(t), client)
		if err != nil {
			t.Fatal(err)
		}
		codes := map[string]int16{}
		for _, topic := range resp.Topics {
			codes[topic.Topic] = topic.ErrorCode
		}
		refused := 0
		for _, code := range codes {
			if kafka.ErrorCode(code) == kafka.ThrottlingQuotaExceeded {
				refused++
			} else if code != 0 {
				t.Errorf("%s: %v", door, kafka.ErrorCode(code))
			}
		}
		if refused != 1 {
			t.Errorf("%s: codes are %v, want one topic made and one refused", door, codes)
		}
		rests[i] = time.Duration(resp.ThrottleMillis) * time.Millisecond
	}
	like(t, "20 partitions at 1 a second, 11 at once", rests[0], rests[1])
}

func TestConnectionQuotaOfAnAddress(t *testing.T) {
	h := StartHawser(t)
	limit(t, h.Kafka, "connection_creation_rate", 1, "ip", "127.0.0.1")
	var served atomic.Int64
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			nc, err := net.Dial("tcp", h.Kafka)
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			_ = nc.SetDeadline(time.Now().Add(5 * time.Second))
			_, _ = nc.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff})
			var size [4]byte
			if _, err := io.ReadFull(nc, size[:]); err == nil {
				served.Add(1)
			}
		})
	}
	all.Wait()
	if n := served.Load(); n < 8 || n > 20 {
		t.Errorf("%d of 30 connections were served at 1 a second", n)
	}
}

// TestPerfToolIsThrottledAsKafka: Kafka's own tool reaches about the same rate under the same quota.
func TestPerfToolIsThrottledAsKafka(t *testing.T) {
	k, h := SharedKafka(t), StartHawser(t)
	rates := [2]float64{}
	var both sync.WaitGroup
	for i, door := range []string{k.Bootstrap(), h.Kafka} {
		CreateTopic(t, Client(t, door), "throttled-perf", 1, 1, nil)
		limit(t, door, "producer_byte_rate", 300_000, "client-id", "perf")
		settled(t, door, "perf")
		both.Go(func() {
			out, err := k.Run(context.Background(), "org.apache.kafka.tools.ProducerPerformance", "--topic", "throttled-perf", "--num-records", "5000", "--record-size", "1000", "--throughput", "-1",
				"--producer-props", "bootstrap.servers="+door, "client.id=perf", "--print-metrics")
			if err != nil {
				t.Error(err)
				return
			}
			sent := regexp.MustCompile(`5000 records sent, [\d.]+ records/sec \(([\d.]+) MB/sec\)`).FindStringSubmatch(out)
			if sent == nil {
				t.Errorf("no rate in %s", out)
				return
			}
			rates[i], _ = strconv.ParseFloat(sent[1], 64)
			if throttle := regexp.MustCompile(`produce-throttle-time-max:\S*\s+: ([\d.]+)`).FindStringSubmatch(out); throttle == nil || strings.TrimRight(throttle[1], "0.") == "" {
				t.Errorf("%s: the tool was never told to rest: %v", door, throttle)
			}
		})
	}
	both.Wait()
	t.Logf("MB/s at a quota of 0.3: Kafka %.3f, hawser %.3f", rates[0], rates[1])
	if rates[1] < rates[0]/1.5 || rates[1] > rates[0]*1.5 {
		t.Errorf("MB/s at a quota of 0.3: Kafka %.3f, hawser %.3f", rates[0], rates[1])
	}
}

// TestLinkRateEndToEnd: link.max.bytes.per.second holds for all mirrors of a link together, shows, and changes live.
func TestLinkRateEndToEnd(t *testing.T) {
	const rate, topics, size = 200_000, 3, 400_000
	w := newPairTo(t, SharedKafka(t), map[string]string{"link.max.bytes.per.second": fmt.Sprint(rate)})
	fill := func(name string) {
		var all []*kgo.Record
		for range size / 20_000 {
			all = append(all, &kgo.Record{Topic: name, Value: randomText(20_000)})
		}
		produce(t, w.source, all...)
	}
	name := func(i int) string { return fmt.Sprint("link-rate-", i) }
	for i := range topics {
		CreateTopic(t, w.source, name(i), 1, 1, nil)
		fill(name(i))
	}
	begun := time.Now()
	for i := range topics {
		w.h.CreateMirror("east", name(i))
	}
	for i := range topics {
		w.level(name(i), 1)
	}
	// A second's worth comes at once, and what comes last is paid afterwards: of 1.2 MB 0.6 MB must be waited for.
	took := time.Since(begun)
	t.Logf("1.2 MB of three mirrors at 0.2 MB/s came in %v", took)
	if took < 2500*time.Millisecond {
		t.Errorf("1.2 MB of three mirrors at 0.2 MB/s came in %v", took)
	}
	w.h.alter("east", map[string]string{"link.max.bytes.per.second": "-1"})
	begun = time.Now()
	for range 4 {
		fill(name(0))
	}
	w.level(name(0), 1)
	if took := time.Since(begun); took > 6*time.Second {
		t.Errorf("1.6 MB without a limit came in %v", took)
	}
	text, code := w.h.CLI("link", "configuration", "list", "east")
	if code != 0 || !strings.Contains(text, "link.max.bytes.per.second") {
		t.Errorf("the link's configs do not show the rate (%d): %s", code, text)
	}
}

// randomText is bytes that no codec makes smaller.
func randomText(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}
