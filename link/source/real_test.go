package source_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// realKafka is a running Kafka's bootstrap address, for the tests that want one.
func realKafka(t *testing.T) string {
	address := os.Getenv("HAWSER_TEST_KAFKA")
	if address == "" {
		t.Skip("set HAWSER_TEST_KAFKA=host:port to run against a Kafka")
	}
	return address
}

func TestRealKafkaIsMirrored(t *testing.T) {
	b := newKafkaBed(t, nil)
	const records = 5000
	for i := range records {
		b.producer.Produce(b.ctx, &kgo.Record{Value: make([]byte, 100+i%1000)}, nil)
	}
	if err := b.producer.Flush(b.ctx); err != nil {
		t.Fatal(err)
	}
	probe, err := b.cluster.Probe(b.ctx)
	if err != nil || probe.ClusterID == "" {
		t.Fatal(probe, err)
	}
	pool := fetcher.New(b.cluster, fetcher.Config{}, func(e fetcher.Event) { t.Log("event", e) })
	defer pool.Close()
	a := b.assignment()
	pool.Assign([]fetcher.Assignment{a})
	target := a.Target.(*stubtest.Target)
	if !target.Await(b.ctx, func(o partition.Offsets) bool { return o.LogEnd >= records }) {
		t.Fatalf("mirror ends at %d: %+v", target.Offsets().LogEnd, pool.Status(b.tp))
	}
	if ok, text, err := pool.CaughtUp(b.ctx, b.topic); !ok || err != nil {
		t.Fatalf("%q, %v: %+v", text, err, pool.Status(b.tp))
	}

	// Quiet topics: the lag is a round trip.
	var worst time.Duration
	for i := range 50 {
		begun := time.Now()
		b.produce(1, "quiet")
		produced := time.Since(begun)
		if !target.Await(b.ctx, func(o partition.Offsets) bool { return o.LogEnd >= kafka.Offset(records+i+1) }) {
			t.Fatalf("mirror ends at %d: %+v", target.Offsets().LogEnd, pool.Status(b.tp))
		}
		worst = max(worst, time.Since(begun)-produced)
	}
	t.Logf("worst lag of 50 quiet records: %v", worst)
}

// kafkaBed is a real Kafka with a producer, an admin and a cluster under test.
type kafkaBed struct {
	*testing.T
	ctx      context.Context
	topic    string
	tp       kafka.TopicPartition
	producer *kgo.Client
	admin    *kadm.Client
	cluster  *source.Cluster
}

func newKafkaBed(t *testing.T, configs map[string]*string) *kafkaBed {
	t.Helper()
	address := realKafka(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	b := &kafkaBed{T: t, ctx: ctx, topic: "bed-" + kafka.NewTopicID().String()}
	b.tp = kafka.TopicPartition{Topic: b.topic}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic(b.topic), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	b.producer, b.admin = client, kadm.NewClient(client)
	b.create(configs)
	if b.cluster, err = source.Dial(source.Config{Bootstrap: []string{address}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.cluster.Close)
	return b
}

func (b *kafkaBed) create(configs map[string]*string) {
	b.Helper()
	if resp, err := b.admin.CreateTopic(b.ctx, 1, 1, configs, b.topic); err != nil || resp.Err != nil {
		b.Fatal(resp, err)
	}
}

func (b *kafkaBed) produce(n int, value string) {
	b.Helper()
	for range n {
		if err := b.producer.ProduceSync(b.ctx, &kgo.Record{Key: []byte("k"), Value: []byte(value)}).FirstErr(); err != nil {
			b.Fatal(err)
		}
	}
}

// fetch reads the partition from its start, once.
func (b *kafkaBed) fetch() fetcher.Fetched {
	b.Helper()
	leaders, err := b.cluster.Leaders(b.ctx, b.topic, true)
	if err != nil {
		b.Fatal(err)
	}
	session, err := b.cluster.Session(b.ctx, leaders.List[0].Broker)
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	want := fetcher.Want{TopicPartition: b.tp, TopicID: leaders.TopicID, LastEpoch: kafka.NoEpoch, CurrentEpoch: leaders.List[0].Epoch, MaxBytes: 1 << 20}
	got, err := session.Fetch(b.ctx, []fetcher.Want{want}, fetcher.Ask{MaxWait: time.Second, MinBytes: 1, MaxBytes: 1 << 20})
	if err != nil || len(got) != 1 || got[0].Err != nil {
		b.Fatal(got, err)
	}
	return got[0]
}

func (b *kafkaBed) assignment() fetcher.Assignment {
	b.Helper()
	topics, err := b.cluster.Topics(b.ctx, []string{b.topic})
	if err != nil || topics[0].Err != nil {
		b.Fatal(topics, err)
	}
	return fetcher.Assignment{Source: b.tp, SourceID: topics[0].ID, Mirror: b.tp, Target: stubtest.NewTarget(0)}
}

func TestRealKafkaTrimsRecreatesAndIsCaughtUp(t *testing.T) {
	b := newKafkaBed(t, nil)
	b.produce(20, "old")
	events := make(chan fetcher.Event, 100)
	pool := fetcher.New(b.cluster, fetcher.Config{}, func(e fetcher.Event) { events <- e })
	defer pool.Close()
	a := b.assignment()
	target := a.Target.(*stubtest.Target)
	pool.Assign([]fetcher.Assignment{a})
	until := func(what string, ok func(partition.Offsets) bool) {
		t.Helper()
		if !target.Await(b.ctx, ok) {
			t.Fatalf("%s: %+v %+v", what, target.Offsets(), pool.Status(b.tp))
		}
	}
	until("end 20", func(o partition.Offsets) bool { return o.LogEnd == 20 })
	trim := func(to int64) {
		t.Helper()
		offsets := make(kadm.Offsets)
		offsets.AddOffset(b.topic, 0, to, -1)
		if _, err := b.admin.DeleteRecords(b.ctx, offsets); err != nil {
			t.Fatal(err)
		}
	}
	trim(7)
	until("start 7", func(o partition.Offsets) bool { return o.LogStart == 7 })
	pool.Drop(b.topic)
	b.produce(20, "unseen")
	trim(30)
	pool.Assign([]fetcher.Assignment{a})
	until("end 40", func(o partition.Offsets) bool { return o.LogEnd == 40 && o.LogStart == 30 })
	if e := <-events; e.Kind != "lost" || e.From != 20 || e.To != 30 {
		t.Errorf("event %+v", e)
	}
	if ok, text, err := pool.CaughtUp(b.ctx, b.topic); !ok || err != nil {
		t.Errorf("caught up: %v %q %v", ok, text, err)
	}
	if _, err := b.admin.DeleteTopic(b.ctx, b.topic); err != nil {
		t.Fatal(err)
	}
	for { // Kafka forgets a name some time after it answered
		if resp, err := b.admin.CreateTopic(b.ctx, 1, 1, nil, b.topic); err == nil && resp.Err == nil {
			break
		}
		if b.ctx.Err() != nil {
			t.Fatal("the topic cannot be made anew")
		}
	}
	fresh, err := kgo.NewClient(kgo.SeedBrokers(realKafka(t)), kgo.DefaultProduceTopic(b.topic), kgo.UnknownTopicRetries(20))
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	b.producer = fresh
	b.produce(60, "new")
	for e := range events {
		if e.Fault == fetcher.TopicIDChanged {
			break
		}
		t.Log(e)
	}
	if o := target.Offsets(); o.LogEnd != 40 {
		t.Errorf("mirror ends at %d", o.LogEnd)
	}
}

func TestRealKafkaOpenTransactionIsNotCaughtUp(t *testing.T) {
	b := newKafkaBed(t, nil)
	client, err := kgo.NewClient(kgo.SeedBrokers(realKafka(t)), kgo.DefaultProduceTopic(b.topic), kgo.TransactionalID(b.topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	pool := fetcher.New(b.cluster, fetcher.Config{}, nil)
	defer pool.Close()
	a := b.assignment()
	pool.Assign([]fetcher.Assignment{a})
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(b.ctx, &kgo.Record{Value: []byte("undecided")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	target := a.Target.(*stubtest.Target)
	target.Await(b.ctx, func(o partition.Offsets) bool { return o.LogEnd == 1 })
	if ok, text, err := pool.CaughtUp(b.ctx, b.topic); ok || err != nil {
		t.Errorf("caught up: %v %q %v", ok, text, err)
	}
	if got := b.fetch(); got.LastStable != 0 || got.HighWatermark != 1 {
		t.Errorf("to a reader of what is uncommitted, too, the source says how far all is decided: %+v", got)
	}
	if err := client.EndTransaction(b.ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	target.Await(b.ctx, func(o partition.Offsets) bool { return o.LogEnd == 2 })
	if ok, text, err := pool.CaughtUp(b.ctx, b.topic); !ok || err != nil {
		t.Errorf("caught up: %v %q %v", ok, text, err)
	}
}

func TestRealKafkaGroupsAndConfigs(t *testing.T) {
	b := newKafkaBed(t, map[string]*string{"max.message.bytes": kadm.StringPtr("1234567")})
	b.produce(3, "v")
	commit := make(kadm.Offsets)
	commit.Add(kadm.Offset{Topic: b.topic, Partition: 0, At: 2, LeaderEpoch: -1, Metadata: "words"})
	group := "g-" + b.topic
	if _, err := b.admin.CommitOffsets(b.ctx, group, commit); err != nil {
		t.Fatal(err)
	}
	groups, err := b.cluster.Groups(b.ctx)
	if err != nil || !slices.Contains(groups, group) {
		t.Errorf("groups %v %v", groups, err)
	}
	offsets, err := b.cluster.GroupOffsets(b.ctx, []string{group, "none"}, []string{b.topic})
	want := source.GroupOffset{TopicPartition: b.tp, Offset: 2, Metadata: "words"}
	if g := offsets[group]; err != nil || g.Err != nil || len(g.List) != 1 || g.List[0] != want {
		t.Errorf("offsets %+v %v", offsets, err)
	}
	configs, err := b.cluster.TopicConfigs(b.ctx, []string{b.topic, "none"})
	if err != nil || configs[b.topic].Values["max.message.bytes"] != "1234567" || configs[b.topic].Values["retention.ms"] != "604800000" {
		t.Errorf("configs %+v %v", configs, err)
	}
	if kafka.CodeOf(configs["none"].Err) != kafka.UnknownTopicOrPartition {
		t.Errorf("configs of no topic: %v", configs["none"].Err)
	}
}

func TestRealKafkaACLs(t *testing.T) {
	b := newKafkaBed(t, nil)
	c := b.cluster
	seen, err := c.ACLs(b.ctx)
	if kafka.CodeOf(err) == kafka.SecurityDisabled {
		t.Skip("this Kafka has no authorizer")
	}
	if err != nil {
		t.Fatal(err)
	}
	builder := kadm.NewACLs().ResourcePatternType(kadm.ACLPatternPrefixed).Topics(b.topic).Allow("User:u").AllowHosts("*").Deny("User:v").DenyHosts("1.2.3.4").Operations(kadm.OpRead)
	if _, err := b.admin.CreateACLs(b.ctx, builder); err != nil {
		t.Fatal(err)
	}
	want := []meta.ACL{
		{ResourceType: "TOPIC", Resource: b.topic, PatternType: "PREFIXED", Principal: "User:u", Host: "*", Operation: "READ", Permission: "ALLOW"},
		{ResourceType: "TOPIC", Resource: b.topic, PatternType: "PREFIXED", Principal: "User:v", Host: "1.2.3.4", Operation: "READ", Permission: "DENY"},
	}
	for { // Kafka applies them a little later
		list, err := c.ACLs(b.ctx)
		if err != nil {
			t.Fatalf("%v; last seen %+v", err, seen)
		}
		if !slices.ContainsFunc(want, func(acl meta.ACL) bool { return !slices.Contains(list, acl) }) {
			return
		}
		seen = list
	}
}

func TestRealKafkaLogins(t *testing.T) {
	address := os.Getenv("HAWSER_TEST_KAFKA_SASL")
	if address == "" {
		t.Skip("set HAWSER_TEST_KAFKA_SASL=host:port of a SASL_PLAINTEXT listener with users alice and bob")
	}
	plain := `org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="ali;cex";`
	scram := `org.apache.kafka.common.security.scram.ScramLoginModule required username="bob" password="bobpw";`
	for mechanism, jaas := range map[string]string{"PLAIN": plain, "SCRAM-SHA-256": scram, "SCRAM-SHA-512": scram} {
		for _, wrong := range []string{"", "x"} {
			c, err := source.Dial(source.Config{Bootstrap: []string{address}, Security: source.Security{
				Protocol: "SASL_PLAINTEXT", Mechanism: mechanism, JAAS: strings.ReplaceAll(jaas, "required username=\"", "required username=\""+wrong)}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Probe(t.Context())
			if wrong == "" && err != nil {
				t.Errorf("%s: %v", mechanism, err)
			}
			if wrong != "" && classOf(t, err) != source.Auth {
				t.Errorf("%s with a wrong user: %v", mechanism, err)
			}
			c.Close()
		}
	}
}
