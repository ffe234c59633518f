//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka/batch"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// xerial is how snappy streams of Java clients begin; others write a block as it is.
var xerial = []byte("\x82SNAPPY\x00")

// TestC10_CodecsAreKeptWhateverTheMirrorsOwnIs: compression.type of a mirror says nothing of what is mirrored, and counts
// from the moment on that its own producers write.
func TestC10_CodecsAreKeptWhateverTheMirrorsOwnIs(t *testing.T) {
	w := newPair(t)
	java := func(t *testing.T, k *Kafka, topic string, _ int) {
		k.Tool(t, producerPerf, "--topic", topic, "--num-records", "300", "--record-size", "1024", "--throughput", "-1", "--producer-props", "bootstrap.servers="+k.Bootstrap(), "compression.type=snappy", "linger.ms=50")
	}
	for _, c := range []struct {
		name   string
		codec  batch.Codec
		fill   func(*testing.T, *Kafka, string, int)
		rounds int
	}{
		{"none", batch.CodecNone, fillCodec("none"), 5},
		{"gzip", batch.CodecGzip, fillCodec("gzip"), 5},
		{"snappy", batch.CodecSnappy, fillCodec("snappy"), 5},
		{"snappy-java", batch.CodecSnappy, java, 1},
		{"lz4", batch.CodecLZ4, fillCodec("lz4"), 5},
		{"zstd", batch.CodecZstd, fillCodec("zstd"), 5},
	} {
		topic := again("c10-" + c.name)
		CreateTopic(t, w.source, topic, 1, 1, nil)
		for round := range c.rounds {
			c.fill(t, w.k, topic, round)
		}
		w.h.Must("POST", w.h.path("/links/east/mirrors"), map[string]any{
			"source_topic_name": topic, "configs": []map[string]string{{"name": "compression.type", "value": "gzip"}},
		})
		w.level(topic, 1)
		_, end := Ends(t, w.source, topic, 0)
		Same(t, w.source, w.mirror, topic, 0, 0, end)
		n := 0
		for b, err := range batch.Batches(Raw(t, w.mirror, topic, 0, 0, end)).All() {
			fatal(t, err)
			if n++; b.Codec() != c.codec {
				t.Errorf("%s: a batch of the mirror has codec %v", topic, b.Codec())
			}
			if framed := bytes.HasPrefix(b[batch.HeaderSize:], xerial); framed != (c.name == "snappy-java") {
				t.Errorf("%s: a batch of the mirror is framed: %v", topic, framed)
			}
		}
		if n < 10 {
			t.Errorf("%s: %d batches show little", topic, n)
		}
		w.h.Order("east", "failover", topic)
		w.h.WaitStatus("east", topic, "STOPPED", 30*time.Second)
		produce(t, Client(t, w.h.Kafka, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression())), kgo.StringRecord(strings.Repeat("after ", 100)))
		_, now := Ends(t, w.mirror, topic, 0)
		if b := firstBatch(t, Raw(t, w.mirror, topic, 0, now-1, now)); b.Codec() != batch.CodecGzip {
			t.Errorf("%s: after the failover a plain batch is stored with codec %v, though compression.type is gzip", topic, b.Codec())
		}
		if have := values(t, w.h.Kafka, topic, kgo.ReadCommitted(), int(now)); len(have) != int(now) {
			t.Errorf("%s: %d of %d records can be read", topic, len(have), now)
		}
	}
}

// TestC37_ChangeToDeleteWhileTheMirrorCompacts: the cleaner is busy when the source's policy changes; what the source
// has afterwards the mirror has too, and compacting again works.
func TestC37_ChangeToDeleteWhileTheMirrorCompacts(t *testing.T) {
	keys := envInt("HAWSER_C37_KEYS", 20_000)
	w := newPairTo(t, SharedKafka(t), fastLink, "--set", "log.cleaner.backoff.ms=50", "--set", "log.cleaner.io.max.bytes.per.second=2000000")
	const topic = "c37"
	CreateTopic(t, w.source, topic, 1, 1, map[string]string{"cleanup.policy": "compact", "segment.bytes": "1048576"})
	w.h.Must("POST", w.h.path("/links/east/mirrors"), map[string]any{
		"source_topic_name": topic, "configs": []map[string]string{{"name": "segment.bytes", "value": "1048576"}, {"name": "min.cleanable.dirty.ratio", "value": "0.01"}},
	})
	update := func(round string) (from int64) {
		_, from = Ends(t, w.source, topic, 0)
		var all []*kgo.Record
		for i := range keys {
			all = append(all, &kgo.Record{Topic: topic, Key: fmt.Append(nil, "key-", i), Value: []byte(round + strings.Repeat("x", 80))})
		}
		produce(t, w.source, all...)
		return from
	}
	update("first")
	update("second") // there is something to clean
	w.level(topic, 1)
	alterTopic(t, w.source, topic, "cleanup.policy", "delete")
	from := update("third")
	w.level(topic, 1)
	eventually(t, 30*time.Second, "the mirror's policy is delete", func() (bool, string) {
		now := describedConfig(t, w.mirror, topic, "cleanup.policy")
		return now == "delete", now
	})
	_, end := Ends(t, w.source, topic, 0)
	Same(t, w.source, w.mirror, topic, 0, from, end)
	alterTopic(t, w.source, topic, "cleanup.policy", "compact")
	eventually(t, 30*time.Second, "the mirror's policy is compact again", func() (bool, string) {
		now := describedConfig(t, w.mirror, topic, "cleanup.policy")
		return now == "compact", now
	})
	update("fourth")
	w.level(topic, 1)
	cleanerRests(t, w.h)
	newest := map[string]bool{}
	start, end := Ends(t, w.mirror, topic, 0)
	for b, err := range batch.Batches(Raw(t, w.mirror, topic, 0, start, end)).All() {
		fatal(t, err)
		for r, err := range b.Records(64 << 20) {
			fatal(t, err)
			if bytes.HasPrefix(r.Value, []byte("fourth")) {
				newest[string(r.Key)] = true
			}
		}
	}
	if len(newest) != keys {
		t.Errorf("the mirror has the newest record of %d of %d keys", len(newest), keys)
	}
}

func alterTopic(t *testing.T, client *kgo.Client, topic, name, value string) {
	t.Helper()
	rq := kmsg.NewPtrIncrementalAlterConfigsRequest()
	rq.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Op: kmsg.IncrementalAlterConfigOpSet, Value: &value}}}}
	resp, err := rq.RequestWith(testContext(t), client)
	fatal(t, err)
	if code := resp.Resources[0].ErrorCode; code != 0 {
		t.Fatalf("set %s of %s: code %d", name, topic, code)
	}
}

func describedConfig(t *testing.T, client *kgo.Client, topic, name string) string {
	t.Helper()
	rq := kmsg.NewPtrDescribeConfigsRequest()
	rq.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic, ConfigNames: []string{name}}}
	resp, err := rq.RequestWith(testContext(t), client)
	fatal(t, err)
	if c := resp.Resources[0].Configs; len(c) == 1 && c[0].Value != nil {
		return *c[0].Value
	}
	return ""
}

// TestC83_CoordinatorsAreAmongTheBrokersOfTheMetadata: for 300 groups, while the broker restarts, whoever is named is
// one of the brokers that the metadata shows, at the same address.
func TestC83_CoordinatorsAreAmongTheBrokersOfTheMetadata(t *testing.T) {
	h := StartHawser(t)
	ctx, stop := context.WithCancel(t.Context())
	var looks, named atomic.Int64
	var all sync.WaitGroup
	t.Cleanup(func() { stop(); all.Wait() })
	all.Go(func() {
		for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
			once, cancel := context.WithTimeout(ctx, 5*time.Second)
			n, err := coordinatorsIn(once, h.Kafka)
			cancel()
			if err != nil {
				t.Error(err)
			}
			looks.Add(1)
			named.Add(int64(n))
		}
	})
	for range 3 {
		before := named.Load()
		eventually(t, 30*time.Second, "every group has a coordinator", func() (bool, string) {
			return named.Load() >= before+600, fmt.Sprint(looks.Load(), " looks")
		})
		h.Kill()
		h.Start()
	}
	stop()
	all.Wait()
	t.Logf("%d coordinators in %d looks", named.Load(), looks.Load())
}

// coordinatorsIn asks for the coordinators of 300 groups and for the brokers. An answer that cannot be had does not count.
func coordinatorsIn(ctx context.Context, bootstrap string) (named int, err error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RequestRetries(0))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.SetVersion(4)
	for i := range 300 {
		find.CoordinatorKeys = append(find.CoordinatorKeys, fmt.Sprint("c83-", i))
	}
	metadata, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, c)
	if err != nil {
		return 0, nil
	}
	answer, err := c.SeedBrokers()[0].Request(ctx, find)
	if err != nil {
		return 0, nil
	}
	for _, found := range answer.(*kmsg.FindCoordinatorResponse).Coordinators {
		if found.ErrorCode != 0 {
			continue
		}
		named++
		if !slices.ContainsFunc(metadata.Brokers, func(b kmsg.MetadataResponseBroker) bool {
			return b.NodeID == found.NodeID && b.Host == found.Host && b.Port == found.Port
		}) {
			return named, fmt.Errorf("group %s is coordinated by %d at %s:%d, which the metadata does not have: %+v", found.Key, found.NodeID, found.Host, found.Port, metadata.Brokers)
		}
	}
	return named, nil
}

// TestTwentyCompactedTopicsAreEqualByTheRule updates twenty compacted topics while both sides' cleaners work, and
// compares each again and again under load: not one alarm may be false.
func TestTwentyCompactedTopicsAreEqualByTheRule(t *testing.T) {
	const topics, keys = 20, 200 // 600 kB a round each: a segment is full every other round
	rounds := envInt("HAWSER_COMPACT_ROUNDS", 6)
	h := StartHawser(t, "--set", "log.cleaner.backoff.ms=50")
	dst := StartHawser(t, "--set", "log.cleaner.backoff.ms=50")
	source, mirror := Client(t, h.Kafka), Client(t, dst.Kafka)
	dst.CreateLink("east", h.Kafka, fastLink)
	configs := map[string]string{"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "3600000"}
	name := func(i int) string { return fmt.Sprint("equal-", i) }
	for i := range topics {
		CreateTopic(t, source, name(i), 1, 1, configs)
		dst.Must("POST", dst.path("/links/east/mirrors"), map[string]any{
			"source_topic_name": name(i), "configs": []map[string]string{{"name": "segment.bytes", "value": "1048576"}, {"name": "min.cleanable.dirty.ratio", "value": "0.01"}},
		})
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range rounds {
		var all []*kgo.Record
		for i := range topics {
			for range 600 {
				r := &kgo.Record{Topic: name(i), Key: fmt.Append(nil, rng.IntN(keys)), Value: fmt.Append(nil, rng.Int64(), strings.Repeat("v", 1000))}
				if rng.IntN(20) == 0 {
					r.Value = nil
				}
				all = append(all, r)
			}
		}
		produce(t, source, all...)
		for i := range topics {
			WaitLevel(t, source, mirror, name(i), 1, time.Minute)
			sameByTheRule(t, source, mirror, name(i)) // the cleaners go on meanwhile
		}
	}
	cleanerRests(t, h)
	cleanerRests(t, dst)
	for i := range topics {
		sameByTheRule(t, source, mirror, name(i))
	}
}
