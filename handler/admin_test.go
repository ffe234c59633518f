package handler

import (
	"slices"
	"strings"
	"testing"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/kafka"
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

func TestInternalConfigsAreShownOnlyWhereTheyAreSet(t *testing.T) {
	c := newFullWorld(t).serve().dial()
	for topic, want := range map[string]int{"set": 1, "unset": 0} {
		rq := newTopic(topic, 1, 1)
		if want == 1 {
			rq = configured(rq, "internal.segment.bytes", "1000")
		}
		shown := 0
		for _, config := range create(c, 7, false, rq)[0].Configs {
			if config.Name == "internal.segment.bytes" {
				shown++
			}
		}
		if shown != want {
			t.Errorf("%s: shown %d times, want %d", topic, shown, want)
		}
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
	if len(made.Configs) != len(config.Topic.Keys())-1 {
		t.Fatalf("%d configs of %d", len(made.Configs), len(config.Topic.Keys())-1)
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
	if all := describe(c, topicKind, "t"); len(all.Configs) != len(config.Topic.Keys())-1 { // all but the internal one
		t.Errorf("%d configs of %d", len(all.Configs), len(config.Topic.Keys())-1)
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

// What Apache Kafka 4.1 answers where a topic's default comes from a broker config of another unit.
func TestC89_DescribeConfigsOfOtherUnits(t *testing.T) {
	w := newFullWorld(t).serve()
	w.make("t", 1, nil)
	c := w.dial()
	check := func(when, value string, source kmsg.ConfigSource, names ...string) {
		t.Helper()
		got := only(t, describe(c, topicKind, "t", "retention.ms"))
		var from []string
		for _, s := range got.ConfigSynonyms {
			from = append(from, s.Name)
		}
		if *got.Value != value || got.Source != source || !slices.Equal(from, names) {
			t.Errorf("%s: %s of %v from %q, want %s of %v from %q", when, *got.Value, got.Source, from, value, source, names)
		}
	}
	check("unset", "604800000", kmsg.ConfigSourceDefaultConfig)
	w.mu.Lock()
	w.node = map[string]string{"log.retention.hours": "2"}
	w.mu.Unlock()
	check("hours", "7200000", kmsg.ConfigSourceDefaultConfig)
	if r := alter(c, brokerKind, "", kmsg.IncrementalAlterConfigOpSet, "log.retention.ms", "5000"); r.ErrorCode != 0 {
		t.Fatalf("%v", *r.ErrorMessage)
	}
	check("both", "5000", kmsg.ConfigSourceDynamicDefaultBrokerConfig, "log.retention.ms", "log.retention.hours")
	if r := alter(c, topicKind, "t", kmsg.IncrementalAlterConfigOpSet, "retention.ms", "7"); r.ErrorCode != 0 {
		t.Fatalf("%v", *r.ErrorMessage)
	}
	check("the topic's own", "7", kmsg.ConfigSourceDynamicTopicConfig, "retention.ms", "log.retention.ms", "log.retention.hours")
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
	if r := alter(c, kmsg.ConfigResourceTypeBrokerLogger, "1", kmsg.IncrementalAlterConfigOpSet, "no.such", "INFO"); r.ErrorCode != int16(kafka.InvalidConfig) {
		t.Errorf("a logger's level: error %d", r.ErrorCode)
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

// The codes are those that Apache Kafka 4.1 answered.
func TestC89_ConfigsOfGroupsAndClientMetrics(t *testing.T) {
	w := newFullWorld(t).serve()
	c := w.dial()
	const group, metrics = kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics
	value := func(kind kmsg.ConfigResourceType, name, key string) (string, kmsg.ConfigSource) {
		t.Helper()
		for _, e := range describe(c, kind, name).Configs {
			if e.Name == key {
				return *e.Value, e.Source
			}
		}
		t.Fatalf("%s has no config %s", name, key)
		return "", 0
	}
	if got, source := value(group, "g", "consumer.session.timeout.ms"); got != "45000" || source != kmsg.ConfigSourceDefaultConfig {
		t.Errorf("a group's session is %s by %v", got, source)
	}
	for _, row := range []struct {
		kind             kmsg.ConfigResourceType
		name, key, value string
		want             kafka.ErrorCode
	}{
		{group, "g", "consumer.session.timeout.ms", "50000", kafka.None}, {group, "g", "consumer.session.timeout.ms", "1000", kafka.InvalidConfig},
		{group, "g", "consumer.session.timeout.ms", "100000", kafka.InvalidConfig}, {group, "g", "consumer.heartbeat.interval.ms", "100", kafka.InvalidConfig},
		{group, "g", "consumer.heartbeat.interval.ms", "x", kafka.InvalidConfig}, {group, "g", "nonsense", "1", kafka.InvalidConfig},
		{group, "", "consumer.heartbeat.interval.ms", "6000", kafka.InvalidRequest}, {group, "h", "share.auto.offset.reset", "earliest", kafka.None},
		{metrics, "m", "interval.ms", "60000", kafka.None}, {metrics, "m", "interval.ms", "1", kafka.InvalidRequest}, {metrics, "m", "match", "client_id=.*", kafka.None},
		{metrics, "m", "match", "nonsense=.*", kafka.InvalidConfig}, {metrics, "m", "match", "client_id=[", kafka.InvalidConfig}, {metrics, "m", "nonsense", "1", kafka.InvalidRequest},
		{metrics, "", "interval.ms", "60000", kafka.InvalidRequest},
	} {
		if got := kafka.ErrorCode(alter(c, row.kind, row.name, 0, row.key, row.value).ErrorCode); got != row.want {
			t.Errorf("%v %q %s=%s: %v, want %v", row.kind, row.name, row.key, row.value, got, row.want)
		}
	}
	if got, source := value(group, "g", "consumer.session.timeout.ms"); got != "50000" || source != kmsg.ConfigSourceGroupConfig {
		t.Errorf("the group's session is %s by %v", got, source)
	}
	if got, source := value(metrics, "m", "match"); got != "client_id=.*" || source != kmsg.ConfigSourceClientMetricsConfig {
		t.Errorf("the subscription matches %s by %v", got, source)
	}
	if synonyms := only(t, describe(c, metrics, "m", "match")).ConfigSynonyms; len(synonyms) != 1 {
		t.Errorf("the subscription's synonyms are %+v", synonyms)
	}
	listed := map[string]bool{}
	for _, r := range ask[*kmsg.ListConfigResourcesResponse](c, 1, kmsg.NewPtrListConfigResourcesRequest()).ConfigResources {
		listed[kmsg.ConfigResourceType(r.Type).String()+" "+r.Name] = true
	}
	for _, want := range []string{"GROUP_CONFIG g", "GROUP_CONFIG h", "CLIENT_METRICS m"} {
		if !listed[want] {
			t.Errorf("%s is not listed: %v", want, listed)
		}
	}
}
