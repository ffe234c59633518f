package handler

import (
	"context"
	"slices"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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
func newMirrorWorld(t *testing.T, may ...Authorizer) (*world, *fakeMirrors) {
	m := &fakeMirrors{mirror: "m"}
	w := newFullWorld(t, func(w *world, d *Deps) {
		m.w, d.Mirrors = w, m
		for _, one := range may {
			d.Authorizer = one
		}
	}).serve()
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
	if got := alter(c, topicKind, "m", kmsg.IncrementalAlterConfigOpSet, MirrorOrderConfig, ""); got.ErrorCode != 0 || !slices.Equal(m.orders, []string{"promote", ""}) {
		t.Fatalf("an order without a word is for the link to refuse: error %d, orders %v", got.ErrorCode, m.orders)
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
