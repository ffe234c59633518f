//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pair is a stock Kafka and a hawser with a link "east" to it, and a client for each.
type pair struct {
	t       *testing.T
	k       *Kafka
	h       *Hawser
	source  *kgo.Client
	mirror  *kgo.Client
	proxies []*Proxy
}

// newPair starts a hawser beside the shared Kafka. The link goes through proxies,
// so that a test can take the source away without ending it for the other tests.
func newPair(t *testing.T, args ...string) *pair {
	t.Helper()
	return newPairTo(t, SharedKafka(t), nil, args...)
}

func newPairTo(t *testing.T, k *Kafka, configs map[string]string, args ...string) *pair {
	t.Helper()
	w := &pair{t: t, k: k, source: Client(t, k.Bootstrap())}
	mapping, bootstrap, proxies := ProxyAll(t, k)
	w.proxies = proxies
	w.h = StartHawser(t, args...)
	all := map[string]string{"bootstrap.address.map": mapping}
	for key, value := range configs {
		all[key] = value
	}
	w.h.CreateLink("east", bootstrap, all)
	w.mirror = Client(t, w.h.Kafka)
	return w
}

// refuse takes the source away: nobody reaches it until allow.
func (w *pair) refuse() {
	for _, p := range w.proxies {
		p.Refuse()
	}
}

// allow ends refuse.
func (w *pair) allow() {
	for _, p := range w.proxies {
		p.Allow()
	}
}

// restart stops and starts the hawser.
func (w *pair) restart() {
	w.t.Helper()
	w.h.Stop()
	w.h.Start()
}

// level waits until the mirror has both ends of the source.
func (w *pair) level(topic string, partitions int32) {
	w.t.Helper()
	WaitLevel(w.t, w.source, w.mirror, topic, partitions, 60*time.Second)
}

// texts makes records with the values "prefix-i" for i of [from, to).
func texts(topic, prefix string, from, to int) []*kgo.Record {
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%s-%d", prefix, i)})
	}
	return records
}

// commit commits a group's offset of partition 0.
func commit(t *testing.T, client *kgo.Client, group, topic string, offset int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, offset, -1)
	rs, err := kadm.NewClient(client).CommitOffsets(testContext(t), group, offsets)
	if err == nil {
		err = rs.Error()
	}
	if err != nil {
		t.Fatalf("commit %s at %d: %v", group, offset, err)
	}
}

// committed reads a group's offset of partition 0; -1 if there is none.
func committed(t *testing.T, client *kgo.Client, group, topic string) int64 {
	t.Helper()
	rs, err := kadm.NewClient(client).FetchOffsetsForTopics(testContext(t), group, topic)
	if err != nil {
		t.Fatalf("fetch offsets of %s: %v", group, err)
	}
	o, ok := rs.Lookup(topic, 0)
	if !ok {
		return -1
	}
	if o.Err != nil {
		t.Fatalf("fetch offsets of %s: %v", group, o.Err)
	}
	return o.At
}

// waitCommitted waits until the group's offset is the one wanted.
func waitCommitted(t *testing.T, client *kgo.Client, group, topic string, want int64) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("group %s is at %d", group, want), func() (bool, string) {
		have := committed(t, client, group, topic)
		return have == want, fmt.Sprintf("it is at %d", have)
	})
}

// stable is where a read_committed reader's view ends.
func stable(t *testing.T, client *kgo.Client, topic string) int64 {
	t.Helper()
	rs, err := kadm.NewClient(client).ListCommittedOffsets(testContext(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := rs.Lookup(topic, 0)
	if !ok || o.Err != nil {
		t.Fatalf("last stable offset of %s: %v", topic, o.Err)
	}
	return o.Offset
}

// values reads partition 0 from its start as one kind of reader and returns the values of the first records wanted.
func values(t *testing.T, bootstrap, topic string, isolation kgo.IsolationLevel, want int) []string {
	t.Helper()
	list, err := tryValues(testContext(t), bootstrap, topic, isolation, want)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func tryValues(ctx context.Context, bootstrap, topic string, isolation kgo.IsolationLevel, want int) ([]string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(splitComma(bootstrap)...), kgo.FetchIsolationLevel(isolation),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(2*time.Second),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var list []string
	first, last := int64(-1), int64(-1)
	for len(list) < want {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("reader of %s is stuck after %d of %d records, from offset %d to %d", topic, len(list), want, first, last)
		}
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			list = append(list, string(r.Value))
			if last = r.Offset; first < 0 {
				first = last
			}
		})
	}
	return list, nil
}

// produceRaw sends one batch as it is and returns the code and the base offset of the answer.
func produceRaw(t *testing.T, client *kgo.Client, topic string, partition int32, b batch.Batch) (code int16, base int64) {
	t.Helper()
	ctx := testContext(t)
	broker, id, _, err := leader(ctx, client, topic, partition)
	if err != nil {
		t.Fatal(err)
	}
	rq := kmsg.NewPtrProduceRequest()
	rq.Acks, rq.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, bytes.Clone(b)
	rt.Partitions = append(rt.Partitions, rp)
	rq.Topics = append(rq.Topics, rt)
	answer, err := client.Broker(int(broker)).RetriableRequest(ctx, rq)
	if err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
	p := answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return p.ErrorCode, p.BaseOffset
}

// producerID asks a cluster for a producer id of its own.
func producerID(t *testing.T, client *kgo.Client) int64 {
	t.Helper()
	rs, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(testContext(t), client)
	if err == nil {
		err = kerr.ErrorForCode(rs.ErrorCode)
	}
	if err != nil {
		t.Fatalf("get a producer id: %v", err)
	}
	return rs.ProducerID
}

// Metric reads one sample of /metrics; labels is a part of its text, such as `topic="t"`.
func (h *Hawser) Metric(name string, labels ...string) (float64, bool) {
	h.t.Helper()
	rs, err := http.Get(h.HTTP + "/metrics")
	if err != nil {
		h.t.Fatal(err)
	}
	defer rs.Body.Close()
	text, err := io.ReadAll(rs.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^`+name+`(?:\{(.*)\})? (\S+)$`).FindAllSubmatch(text, -1) {
		fits := true
		for _, label := range labels {
			fits = fits && strings.Contains(string(found[1]), label)
		}
		if fits {
			value, err := strconv.ParseFloat(string(found[2]), 64)
			return value, err == nil
		}
	}
	return 0, false
}
