package handler

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newTopic(name string, partitions int32, factor int16) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, factor
	return t
}

// assigned is a topic with a manual assignment; each element is one partition's replicas, -1 where the partition number repeats.
func assigned(name string, replicas map[int32][]int32, extra ...int32) kmsg.CreateTopicsRequestTopic {
	t := newTopic(name, -1, -1)
	add := func(number int32, nodes []int32) {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = number, nodes
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
	for number, nodes := range replicas {
		add(number, nodes)
	}
	for _, number := range extra {
		add(number, []int32{testNode})
	}
	return t
}

func configured(t kmsg.CreateTopicsRequestTopic, pairs ...string) kmsg.CreateTopicsRequestTopic {
	for i := 0; i < len(pairs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = pairs[i], &pairs[i+1]
		t.Configs = append(t.Configs, c)
	}
	return t
}

func create(c *client, version int16, validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) []kmsg.CreateTopicsResponseTopic {
	rq := kmsg.NewPtrCreateTopicsRequest()
	rq.Topics, rq.ValidateOnly = topics, validateOnly
	return ask[*kmsg.CreateTopicsResponse](c, version, rq).Topics
}

// The codes and messages are what Apache Kafka 4.1.0 answered to the same requests.
func TestC88_CreateTopicsRefusals(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("there.is", 1, nil)
	c := w.dial()
	nullConfig := newTopic("x", 1, 1)
	nullConfig.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
	withCount, withFactor := assigned("x", map[int32][]int32{0: {1}}), assigned("x", map[int32][]int32{0: {1}})
	withCount.NumPartitions, withFactor.ReplicationFactor = 1, 1
	for _, tc := range []struct {
		name    string
		topic   kmsg.CreateTopicsRequestTopic
		want    kafka.ErrorCode
		message string
	}{
		{"there already", newTopic("there.is", 1, 1), kafka.TopicAlreadyExists, "Topic 'there.is' already exists."},
		{"collides", newTopic("there_is", 1, 1), kafka.InvalidTopicException, "Topic 'there_is' collides with existing topic: there.is"},
		{"bad name", newTopic("a b", 1, 1), kafka.InvalidTopicException, "Topic name is invalid"},
		{"no name", newTopic("", 1, 1), kafka.InvalidTopicException, "the empty string is not allowed"},
		{"no partitions", newTopic("x", 0, 1), kafka.InvalidPartitions, "non-positive"},
		{"too many partitions", newTopic("x", 10_001, 1), kafka.PolicyViolation, "Excessively large number of partitions per request"},
		{"factor 0", newTopic("x", 1, 0), kafka.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value."},
		{"factor 3", newTopic("x", 1, 3), kafka.InvalidReplicationFactor, "Unable to replicate the partition 3 time(s)"},
		{"gap", assigned("x", map[int32][]int32{0: {1}, 2: {1}}), kafka.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence"},
		{"partition twice", assigned("x", map[int32][]int32{0: {1}}, 0), kafka.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition 0"},
		{"unknown broker", assigned("x", map[int32][]int32{0: {7}}), kafka.InvalidReplicaAssignment, "includes broker 7, but no such broker is registered."},
		{"no replica", assigned("x", map[int32][]int32{0: {}}), kafka.InvalidReplicaAssignment, "includes an empty replica list."},
		{"replica twice", assigned("x", map[int32][]int32{0: {1, 1}}), kafka.InvalidReplicaAssignment, "includes the broker 1 more than once."},
		{"count and assignment", withCount, kafka.InvalidRequest, "numPartitions was not set to -1."},
		{"factor and assignment", withFactor, kafka.InvalidRequest, "replication factor was not set to -1."},
		{"unknown config", configured(newTopic("x", 1, 1), "nope", "1"), kafka.InvalidConfig, "nope"},
		{"bad config", configured(newTopic("x", 1, 1), "retention.ms", "x"), kafka.InvalidConfig, "retention.ms"},
		{"null config", nullConfig, kafka.InvalidConfig, "Null value not supported for topic configs: retention.ms"},
		{"mirror without links", configured(newTopic("x", -1, -1), MirrorLinkConfig, "l"), kafka.InvalidConfig, "no cluster links"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := create(&client{t: t, nc: c.nc}, 7, false, tc.topic)
			if len(got) != 1 || got[0].ErrorCode != int16(tc.want) || got[0].ErrorMessage == nil || !strings.Contains(*got[0].ErrorMessage, tc.message) {
				t.Fatalf("got %+v, want %v with %q", got, tc.want, tc.message)
			}
		})
	}
	twice := create(c, 7, false, newTopic("x", 1, 1), newTopic("x", 1, 1), newTopic("y", 1, 1))
	if len(twice) != 2 || twice[0].ErrorCode != int16(kafka.InvalidRequest) || twice[1].ErrorCode != 0 {
		t.Fatalf("a name twice and another: %+v", twice)
	}
	if (worldTopics{w}).ByName("x") != nil {
		t.Fatal("a refused topic was made")
	}
}

func TestC88_CreateTopicsResult(t *testing.T) {
	w := newFullWorld(t).serve()
	c := w.dial()
	valid := create(c, 7, true, configured(newTopic("t", 3, 1), "retention.ms", "1000"))[0]
	if valid.ErrorCode != 0 || (worldTopics{w}).ByName("t") != nil {
		t.Fatalf("validate_only: %+v", valid)
	}
	made := create(c, 7, false, configured(newTopic("t", 3, 1), "retention.ms", "1000"))[0]
	if made.ErrorCode != 0 || made.NumPartitions != 3 || made.ReplicationFactor != 1 || kafka.TopicID(made.TopicID) != (worldTopics{w}).ByName("t").ID {
		t.Fatalf("%+v", made)
	}
	if len(made.Configs) != len(config.Topic.Keys()) {
		t.Fatalf("%d configs of %d", len(made.Configs), len(config.Topic.Keys()))
	}
	for _, row := range made.Configs {
		want := int8(kmsg.ConfigSourceDefaultConfig)
		if row.Name == "retention.ms" {
			want = int8(kmsg.ConfigSourceDynamicTopicConfig)
		}
		if row.Source != want {
			t.Errorf("%s has source %d", row.Name, row.Source)
		}
	}
	if got := create(c, 4, false, newTopic("defaults", -1, -1))[0]; got.ErrorCode != 0 {
		t.Fatalf("defaults: %+v", got)
	}
	if got := create(c, 2, false, assigned("by-hand", map[int32][]int32{0: {1}, 1: {1}}))[0]; got.ErrorCode != 0 {
		t.Fatalf("assignment: %+v", got)
	}
	if n := (worldTopics{w}).ByName("by-hand").Partitions; n != 2 {
		t.Fatalf("%d partitions", n)
	}
}

func grow(c *client, topic string, count int32, validateOnly bool) kafka.ErrorCode {
	rq := kmsg.NewPtrCreatePartitionsRequest()
	rq.ValidateOnly = validateOnly
	in := kmsg.NewCreatePartitionsRequestTopic()
	in.Topic, in.Count = topic, count
	rq.Topics = append(rq.Topics, in)
	return kafka.ErrorCode(ask[*kmsg.CreatePartitionsResponse](c, 3, rq).Topics[0].ErrorCode)
}

func TestC88_CreatePartitions(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 3, nil)
	c := w.dial()
	for _, tc := range []struct {
		topic    string
		count    int32
		validate bool
		want     kafka.ErrorCode
		after    int32
	}{
		{"nope", 3, false, kafka.UnknownTopicOrPartition, 3},
		{"t", 3, false, kafka.InvalidPartitions, 3},
		{"t", 2, false, kafka.InvalidPartitions, 3},
		{"t", -5, false, kafka.InvalidPartitions, 3},
		{"t", 1 << 30, false, kafka.InvalidPartitions, 3},
		{"t", 5, true, kafka.None, 3},
		{"t", 5, false, kafka.None, 5},
	} {
		if got := grow(c, tc.topic, tc.count, tc.validate); got != tc.want {
			t.Errorf("%s to %d: %v, want %v", tc.topic, tc.count, got, tc.want)
		}
		if n := (worldTopics{w}).ByName("t").Partitions; n != tc.after {
			t.Errorf("%s to %d: %d partitions", tc.topic, tc.count, n)
		}
	}
}

func describe(c *client, kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
	rq := kmsg.NewPtrDescribeConfigsRequest()
	in := kmsg.NewDescribeConfigsRequestResource()
	in.ResourceType, in.ResourceName, in.ConfigNames = kind, name, keys
	rq.Resources, rq.IncludeSynonyms, rq.IncludeDocumentation = append(rq.Resources, in), true, true
	return ask[*kmsg.DescribeConfigsResponse](c, 4, rq).Resources[0]
}

// only is the one config of a resource.
func only(t *testing.T, r kmsg.DescribeConfigsResponseResource) kmsg.DescribeConfigsResponseResourceConfig {
	t.Helper()
	if r.ErrorCode != 0 || len(r.Configs) != 1 {
		t.Fatalf("error %d (%v), %d configs", r.ErrorCode, r.ErrorMessage, len(r.Configs))
	}
	return r.Configs[0]
}

func alter(c *client, kind kmsg.ConfigResourceType, name string, op kmsg.IncrementalAlterConfigOp, pairs ...string) kmsg.IncrementalAlterConfigsResponseResource {
	rq := kmsg.NewPtrIncrementalAlterConfigsRequest()
	in := kmsg.NewIncrementalAlterConfigsRequestResource()
	in.ResourceType, in.ResourceName = kind, name
	for i := 0; i < len(pairs); i += 2 {
		e := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		e.Name, e.Op, e.Value = pairs[i], op, &pairs[i+1]
		in.Configs = append(in.Configs, e)
	}
	rq.Resources = append(rq.Resources, in)
	return ask[*kmsg.IncrementalAlterConfigsResponse](c, 1, rq).Resources[0]
}

const (
	topicKind  = kmsg.ConfigResourceTypeTopic
	brokerKind = kmsg.ConfigResourceTypeBroker
)

func TestC89_DescribeConfigs(t *testing.T) {
	w := newFullWorld(t).serve()
	// Set to what is the default anyway: it is set all the same.
	w.make("t", 1, map[string]string{"retention.ms": "604800000"})
	c := w.dial()
	set := only(t, describe(c, topicKind, "t", "retention.ms"))
	if set.Source != kmsg.ConfigSourceDynamicTopicConfig || *set.Value != "604800000" || set.ConfigType != kmsg.ConfigTypeLong || *set.Documentation == "" {
		t.Errorf("%+v", set)
	}
	unset := only(t, describe(c, topicKind, "t", "max.message.bytes"))
	if unset.Source != kmsg.ConfigSourceDefaultConfig || *unset.Value != "1048588" || unset.ConfigSynonyms[0].Name != "message.max.bytes" {
		t.Errorf("%+v", unset)
	}
	if r := alter(c, brokerKind, "", kmsg.IncrementalAlterConfigOpSet, "message.max.bytes", "2000000"); r.ErrorCode != 0 {
		t.Fatalf("%v", *r.ErrorMessage)
	}
	inherited := only(t, describe(c, topicKind, "t", "max.message.bytes"))
	if inherited.Source != kmsg.ConfigSourceDynamicDefaultBrokerConfig || *inherited.Value != "2000000" || len(inherited.ConfigSynonyms) != 2 {
		t.Errorf("%+v", inherited)
	}
	if all := describe(c, topicKind, "t"); len(all.Configs) != len(config.Topic.Keys()) {
		t.Errorf("%d configs of %d", len(all.Configs), len(config.Topic.Keys()))
	}
	for _, name := range []string{"num.partitions", "default.replication.factor"} {
		only(t, describe(c, brokerKind, "1", name))
	}
	if got := describe(c, brokerKind, ""); len(got.Configs) != 1 || got.Configs[0].Name != "message.max.bytes" {
		t.Errorf("cluster-wide: %+v", got.Configs)
	}
	for _, tc := range []struct {
		kind kmsg.ConfigResourceType
		name string
		want kafka.ErrorCode
	}{
		{topicKind, "nope", kafka.UnknownTopicOrPartition}, {topicKind, "a b", kafka.InvalidTopicException},
		{brokerKind, "x", kafka.InvalidRequest}, {brokerKind, "9", kafka.InvalidRequest}, {99, "x", kafka.InvalidRequest},
	} {
		if got := describe(c, tc.kind, tc.name); got.ErrorCode != int16(tc.want) {
			t.Errorf("%v %q: error %d, want %v", tc.kind, tc.name, got.ErrorCode, tc.want)
		}
	}
}

func TestC89_AlterConfigs(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, map[string]string{"retention.ms": "1", "segment.ms": "5000"})
	c := w.dial()
	set := func() map[string]string { return (worldTopics{w}).ByName("t").Configs }
	for _, tc := range []struct {
		name  string
		op    kmsg.IncrementalAlterConfigOp
		pairs []string
		want  kafka.ErrorCode
		key   string
		value string
	}{
		{"append", kmsg.IncrementalAlterConfigOpAppend, []string{"cleanup.policy", "compact"}, 0, "cleanup.policy", "delete,compact"},
		{"append what is there", kmsg.IncrementalAlterConfigOpAppend, []string{"cleanup.policy", "compact"}, 0, "cleanup.policy", "delete,compact"},
		{"subtract", kmsg.IncrementalAlterConfigOpSubtract, []string{"cleanup.policy", "compact"}, 0, "cleanup.policy", "delete"},
		{"set", kmsg.IncrementalAlterConfigOpSet, []string{"retention.ms", "2"}, 0, "retention.ms", "2"},
		{"bad value", kmsg.IncrementalAlterConfigOpSet, []string{"retention.ms", "x"}, kafka.InvalidConfig, "retention.ms", "2"},
		{"unknown", kmsg.IncrementalAlterConfigOpSet, []string{"nope", "x"}, kafka.InvalidConfig, "retention.ms", "2"},
		{"append to a number", kmsg.IncrementalAlterConfigOpAppend, []string{"retention.ms", "3"}, kafka.InvalidConfig, "retention.ms", "2"},
		{"twice", kmsg.IncrementalAlterConfigOpSet, []string{"retention.ms", "3", "retention.ms", "4"}, kafka.InvalidRequest, "retention.ms", "2"},
		{"unknown operation", 9, []string{"retention.ms", "3"}, kafka.InvalidRequest, "retention.ms", "2"},
		{"delete", kmsg.IncrementalAlterConfigOpDelete, []string{"retention.ms", ""}, 0, "retention.ms", ""},
	} {
		if r := alter(c, topicKind, "t", tc.op, tc.pairs...); r.ErrorCode != int16(tc.want) {
			t.Errorf("%s: error %d (%v), want %v", tc.name, r.ErrorCode, r.ErrorMessage, tc.want)
		}
		if got := set()[tc.key]; got != tc.value {
			t.Errorf("%s: %s=%q, want %q", tc.name, tc.key, got, tc.value)
		}
	}
	if r := alter(c, brokerKind, "1", kmsg.IncrementalAlterConfigOpSet, "num.partitions", "3"); r.ErrorCode != int16(kafka.InvalidRequest) {
		t.Errorf("a broker config that is not dynamic: error %d", r.ErrorCode)
	}
	whole := kmsg.NewPtrAlterConfigsRequest()
	in := kmsg.NewAlterConfigsRequestResource()
	in.ResourceType, in.ResourceName = topicKind, "t"
	in.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: text("7")}}
	whole.Resources, whole.ValidateOnly = append(whole.Resources, in), true
	if r := ask[*kmsg.AlterConfigsResponse](c, 2, whole).Resources[0]; r.ErrorCode != 0 || set()["segment.ms"] != "5000" {
		t.Fatalf("validate_only: error %d, now %v", r.ErrorCode, set())
	}
	whole.ValidateOnly = false
	if r := ask[*kmsg.AlterConfigsResponse](c, 2, whole).Resources[0]; r.ErrorCode != 0 || len(set()) != 1 || set()["retention.ms"] != "7" {
		t.Fatalf("AlterConfigs replaces the whole set: error %d, now %v", r.ErrorCode, set())
	}
}

// fakeMirrors says that one topic is a mirror.
type fakeMirrors struct {
	w      *world
	mirror string
	orders []string
	made   []NewMirror
}

func (m *fakeMirrors) is(id kafka.TopicID) bool {
	t := worldTopics{m.w}.ByID(id)
	return t != nil && t.Name == m.mirror
}

func (m *fakeMirrors) Create(ctx context.Context, n NewMirror) (*meta.Topic, error) {
	m.made = append(m.made, n)
	return worldTopics{m.w}.Create(ctx, NewTopic{Name: n.Topic, Partitions: 4, ReplicationFactor: 1, Configs: n.Configs})
}

func (m *fakeMirrors) Validate(_ context.Context, n NewMirror) (*meta.Topic, error) {
	return &meta.Topic{Name: n.Topic, Partitions: 4, ReplicationFactor: 1}, nil
}

func (m *fakeMirrors) Order(_ context.Context, _ kafka.TopicID, order string) error {
	m.orders = append(m.orders, order)
	return nil
}

func (m *fakeMirrors) ValidateOrder(context.Context, kafka.TopicID, string) error {
	return kafka.Errorf(kafka.InvalidRequest, "wrong state")
}

func (m *fakeMirrors) Describe(id kafka.TopicID) []MirrorEntry {
	if !m.is(id) {
		return nil
	}
	return []MirrorEntry{{Name: MirrorLinkConfig, Value: "l"}, {Name: MirrorConfigPrefix + "state", Value: "ACTIVE"}}
}

func (m *fakeMirrors) ReadOnly(id kafka.TopicID) error {
	if m.is(id) {
		return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is a mirror: it is read-only.", m.mirror)
	}
	return nil
}

func (m *fakeMirrors) CheckConfigs(id kafka.TopicID, names []string) error {
	if m.is(id) && slices.Contains(names, "cleanup.policy") {
		return kafka.Errorf(kafka.InvalidConfig, "cleanup.policy follows the source.")
	}
	return nil
}

func (m *fakeMirrors) ConfigsChanged(context.Context, kafka.TopicID, []string) {}

// newMirrorWorld has a live mirror m and an ordinary topic t.
func newMirrorWorld(t *testing.T) (*world, *fakeMirrors) {
	m := &fakeMirrors{mirror: "m"}
	w := newFullWorld(t, func(w *world, d *Deps) { m.w, d.Mirrors = w, m }).serve()
	w.make("t", 1, nil)
	w.make("m", 1, nil)
	if err := w.partition("m", 0).BecomeMirror(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return w, m
}

func TestC17_ProducingToAMirror(t *testing.T) {
	w, _ := newMirrorWorld(t)
	c := w.dial()
	idempotent := noProducer()
	idempotent.ProducerID, idempotent.ProducerEpoch, idempotent.BaseSequence = 7<<32|1, 0, 0
	for name, rq := range map[string]*kmsg.ProduceRequest{
		"plain": produceRequest(t, "m", 1, rawBatch(t, 1, noProducer())), "all": produceRequest(t, "m", -1, rawBatch(t, 1, noProducer())),
		"idempotent": produceRequest(t, "m", -1, rawBatch(t, 1, idempotent)),
	} {
		got := produced(t, c, 9, rq)
		if got.ErrorCode != int16(kafka.InvalidRequest) || got.ErrorMessage == nil || *got.ErrorMessage != "Cannot append records to read-only mirror topic 'm'" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	trim := kmsg.NewPtrDeleteRecordsRequest()
	in := kmsg.NewDeleteRecordsRequestTopic()
	in.Topic, in.Partitions = "m", []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}
	trim.Topics = append(trim.Topics, in)
	if got := ask[*kmsg.DeleteRecordsResponse](c, 2, trim).Topics[0].Partitions[0]; got.ErrorCode != int16(kafka.InvalidRequest) {
		t.Errorf("DeleteRecords: error %d", got.ErrorCode)
	}
	if got := grow(c, "m", 2, false); got != kafka.InvalidRequest {
		t.Errorf("CreatePartitions: %v", got)
	}
	if got := alter(c, topicKind, "m", kmsg.IncrementalAlterConfigOpSet, "cleanup.policy", "compact"); got.ErrorCode != int16(kafka.InvalidConfig) {
		t.Errorf("a synced config: error %d", got.ErrorCode)
	}
	if got := alter(c, topicKind, "m", kmsg.IncrementalAlterConfigOpSet, "segment.ms", "5000"); got.ErrorCode != 0 {
		t.Errorf("an unsynced config: error %d", got.ErrorCode)
	}
	if got := fetched(t, c, 12, fetchRequest("m", 0, 0)); got.ErrorCode != 0 {
		t.Errorf("consume: error %d", got.ErrorCode)
	}
	if got := commit(c, "m", 0, 0, nil); got != 0 {
		t.Errorf("OffsetCommit: %v", got)
	}
	gone := kmsg.NewPtrDeleteTopicsRequest()
	gone.TopicNames = []string{"m"}
	if got := ask[*kmsg.DeleteTopicsResponse](c, 5, gone).Topics[0]; got.ErrorCode != 0 {
		t.Errorf("DeleteTopics: error %d", got.ErrorCode)
	}
}

func TestMirrorsByAnyAdminClient(t *testing.T) {
	w, m := newMirrorWorld(t)
	c := w.dial()
	made := create(c, 7, false, configured(newTopic("new", -1, -1), MirrorLinkConfig, "l", MirrorSourceConfig, "src", "segment.ms", "5000"))[0]
	if made.ErrorCode != 0 || made.NumPartitions != 4 || len(m.made) != 1 {
		t.Fatalf("%+v", made)
	}
	if got := m.made[0]; got.Link != "l" || got.SourceTopic != "src" || got.ReplicationFactor != -1 || got.Configs["segment.ms"] != "5000" || len(got.Configs) != 1 {
		t.Fatalf("asked to make %+v", got)
	}
	if got := create(c, 7, true, configured(newTopic("v", -1, -1), MirrorLinkConfig, "l"))[0]; got.ErrorCode != 0 || (worldTopics{w}).ByName("v") != nil {
		t.Fatalf("validate_only: %+v", got)
	}
	if got := create(c, 7, false, configured(newTopic("x", 3, 1), MirrorLinkConfig, "l"))[0]; got.ErrorCode != int16(kafka.InvalidRequest) {
		t.Fatalf("a mirror with a count of its own: %+v", got)
	}
	if got := alter(c, topicKind, "m", kmsg.IncrementalAlterConfigOpSet, MirrorOrderConfig, "promote"); got.ErrorCode != 0 || !slices.Equal(m.orders, []string{"promote"}) {
		t.Fatalf("error %d, orders %v", got.ErrorCode, m.orders)
	}
	if got := alter(c, topicKind, "m", kmsg.IncrementalAlterConfigOpSet, MirrorConfigPrefix+"state", "ACTIVE"); got.ErrorCode != int16(kafka.InvalidConfig) {
		t.Fatalf("setting a state: error %d", got.ErrorCode)
	}
	state := only(t, describe(c, topicKind, "m", MirrorConfigPrefix+"state"))
	if *state.Value != "ACTIVE" || !state.ReadOnly {
		t.Fatalf("%+v", state)
	}
	if got := describe(c, topicKind, "t", MirrorConfigPrefix+"state"); len(got.Configs) != 0 {
		t.Fatalf("an ordinary topic has %+v", got.Configs)
	}
}

func commit(c *client, topic string, partition int32, offset int64, metadata *string) kafka.ErrorCode {
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Group, rq.Generation = "g", -1
	in := kmsg.NewOffsetCommitRequestTopic()
	in.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = partition, offset, metadata
	in.Partitions = append(in.Partitions, p)
	rq.Topics = append(rq.Topics, in)
	return kafka.ErrorCode(ask[*kmsg.OffsetCommitResponse](c, 9, rq).Topics[0].Partitions[0].ErrorCode)
}

func TestC85_OffsetCommitRules(t *testing.T) {
	w := newFullWorld(t).serve()
	made := w.make("t", 2, nil)
	c := w.dial()
	for _, tc := range []struct {
		name      string
		topic     string
		partition int32
		metadata  *string
		want      kafka.ErrorCode
	}{
		{"good", "t", 0, text("m"), 0},
		{"unknown topic", "nope", 0, nil, kafka.UnknownTopicOrPartition},
		{"unknown partition", "t", 9, nil, kafka.UnknownTopicOrPartition},
		{"negative partition", "t", -1, nil, kafka.UnknownTopicOrPartition},
		{"metadata too long", "t", 1, text(strings.Repeat("x", 4097)), kafka.OffsetMetadataTooLarge},
		{"metadata just fits", "t", 1, text(strings.Repeat("x", 4096)), 0},
	} {
		if got := commit(c, tc.topic, tc.partition, 0, tc.metadata); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	// Version 10 names topics by id; one that is unknown is answered for itself, in its place.
	rq := kmsg.NewPtrOffsetCommitRequest()
	rq.Group, rq.Generation = "g", -1
	for _, id := range []kafka.TopicID{kafka.NewTopicID(), made.ID} {
		in := kmsg.NewOffsetCommitRequestTopic()
		in.TopicID = id
		in.Partitions = append(in.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
		rq.Topics = append(rq.Topics, in)
	}
	topics := ask[*kmsg.OffsetCommitResponse](c, 10, rq).Topics
	if topics[0].TopicID != rq.Topics[0].TopicID || topics[0].Partitions[0].ErrorCode != int16(kafka.UnknownTopicID) ||
		topics[1].TopicID != rq.Topics[1].TopicID || topics[1].Partitions[0].ErrorCode != 0 {
		t.Errorf("by id: %+v", topics)
	}
	read := kmsg.NewPtrOffsetFetchRequest()
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = "g"
	for _, id := range []kafka.TopicID{kafka.NewTopicID(), made.ID} {
		in := kmsg.NewOffsetFetchRequestGroupTopic()
		in.TopicID, in.Partitions = id, []int32{1}
		group.Topics = append(group.Topics, in)
	}
	read.Groups = append(read.Groups, group)
	found := map[kafka.TopicID]kmsg.OffsetFetchResponseGroupTopicPartition{}
	for _, topic := range ask[*kmsg.OffsetFetchResponse](c, 10, read).Groups[0].Topics {
		found[topic.TopicID] = topic.Partitions[0]
	}
	if p := found[made.ID]; p.ErrorCode != 0 || p.Offset != 0 || p.Metadata == nil || len(*p.Metadata) != 4096 {
		t.Errorf("fetched by id: %+v", p)
	}
	if p := found[group.Topics[0].TopicID]; p.ErrorCode != int16(kafka.UnknownTopicID) || p.Offset != -1 {
		t.Errorf("an unknown id: %+v", p)
	}
}

func listOffset(c *client, version int16, ms int64, isolation int8) kmsg.ListOffsetsResponseTopicPartition {
	rq := kmsg.NewPtrListOffsetsRequest()
	rq.IsolationLevel = isolation
	in := kmsg.NewListOffsetsRequestTopic()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = ms
	in.Topic, in.Partitions = "t", append(in.Partitions, p)
	rq.Topics = append(rq.Topics, in)
	return ask[*kmsg.ListOffsetsResponse](c, version, rq).Topics[0].Partitions[0]
}

func TestC80_ListOffsetsAnswers(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	for range 3 { // offsets 0-2, 3-5, 6-8, each batch with the times 1000, 1001, 1002
		produced(t, c, 9, produceRequest(t, "t", -1, rawBatch(t, 3, noProducer())))
	}
	for _, isolation := range []int8{0, 1} {
		for _, tc := range []struct {
			ms                int64
			offset, timestamp int64
		}{
			{0, 0, 1000}, {1000, 0, 1000}, {1001, 1, 1001}, {1002, 2, 1002}, {1003, -1, -1},
			{timeLatest, 9, -1}, {timeEarliest, 0, -1}, {timeMaxTimestamp, 2, 1002}, {timeEarliestLocal, 0, -1}, {timeLatestTiered, -1, -1},
		} {
			got := listOffset(c, 10, tc.ms, isolation)
			if got.ErrorCode != 0 || got.Offset != tc.offset || got.Timestamp != tc.timestamp {
				t.Errorf("time %d, isolation %d: offset %d, time %d, error %d; want %d, %d", tc.ms, isolation, got.Offset, got.Timestamp, got.ErrorCode, tc.offset, tc.timestamp)
			}
			if wantEpoch := tc.offset >= 0; wantEpoch != (got.LeaderEpoch >= 0) {
				t.Errorf("time %d: epoch %d", tc.ms, got.LeaderEpoch)
			}
		}
	}
	for ms, first := range firstVersion {
		if got := listOffset(c, first-1, ms, 0); got.ErrorCode != int16(kafka.UnsupportedVersion) {
			t.Errorf("time %d in version %d: error %d", ms, first-1, got.ErrorCode)
		}
	}
}

func TestC81_OffsetForLeaderEpoch(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	produced(t, c, 9, produceRequest(t, "t", -1, rawBatch(t, 3, noProducer())))
	now := int32(w.partition("t", 0).Offsets().Epoch)
	for _, tc := range []struct {
		name            string
		current, wanted int32
		code            kafka.ErrorCode
		epoch           int32
		end             int64
	}{
		{"current", -1, now, 0, now, 3},
		{"believed current", now, now, 0, now, 3},
		{"fenced", now - 1, now, kafka.FencedLeaderEpoch, -1, -1},
		{"unknown", now + 1, now, kafka.UnknownLeaderEpoch, -1, -1},
		{"below the first", -1, -1, 0, -1, -1},
		{"from the future", -1, now + 5, 0, -1, -1},
	} {
		if tc.current == -1 && tc.name == "fenced" {
			continue // there is no older epoch than the first
		}
		rq := kmsg.NewPtrOffsetForLeaderEpochRequest()
		in := kmsg.NewOffsetForLeaderEpochRequestTopic()
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.CurrentLeaderEpoch, p.LeaderEpoch = tc.current, tc.wanted
		in.Topic, in.Partitions = "t", append(in.Partitions, p)
		rq.Topics = append(rq.Topics, in)
		got := ask[*kmsg.OffsetForLeaderEpochResponse](c, 4, rq).Topics[0].Partitions[0]
		if got.ErrorCode != int16(tc.code) || got.LeaderEpoch != tc.epoch || got.EndOffset != tc.end {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}

func TestDescribeTopicPartitionsByPages(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("a", 3, nil)
	w.make("b", 2, nil)
	c := w.dial()
	rq := kmsg.NewPtrDescribeTopicPartitionsRequest()
	rq.ResponsePartitionLimit = 2
	var pages []string
	for range 10 {
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](c, 0, rq)
		var page []string
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				page = append(page, kafka.TopicPartition{Topic: *topic.Topic, Partition: p.Partition}.String())
			}
		}
		pages = append(pages, strings.Join(page, " "))
		if resp.NextCursor == nil {
			break
		}
		next := kmsg.NewDescribeTopicPartitionsRequestCursor()
		next.Topic, next.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		rq.Cursor = &next
	}
	if got := strings.Join(pages, " | "); got != "a-0 a-1 | a-2 b-0 | b-1" {
		t.Fatalf("pages %s", got)
	}
}
