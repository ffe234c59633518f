package broker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hawserio/hawser/handler"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/meta"
)

// mirrors lets the Kafka door make, order and show mirror topics; it implements
// handler.Mirrors over link.Links.
type mirrors struct{ b *Broker }

// Create implements handler.Mirrors.
func (m *mirrors) Create(ctx context.Context, spec handler.NewMirror) (*meta.Topic, error) {
	_, err := m.b.links.CreateMirror(ctx, spec.Link, mirrorSpec(spec))
	if err != nil {
		return nil, kafkaError(err)
	}
	topic := m.b.topics.ByName(spec.Topic)
	if topic == nil {
		return nil, kafka.Errorf(kafka.UnknownTopicOrPartition, "Mirror topic '%s' was deleted as soon as it was made.", spec.Topic)
	}
	return topic, nil
}

// Validate implements handler.Mirrors.
func (m *mirrors) Validate(ctx context.Context, spec handler.NewMirror) (*meta.Topic, error) {
	topic, err := m.b.links.ValidateMirror(ctx, spec.Link, mirrorSpec(spec))
	if err != nil {
		return nil, kafkaError(err)
	}
	return topic, nil
}

func mirrorSpec(spec handler.NewMirror) link.MirrorSpec {
	return link.MirrorSpec{
		SourceTopic:       spec.SourceTopic,
		MirrorTopic:       spec.Topic,
		ReplicationFactor: max(0, spec.ReplicationFactor),
		Configs:           spec.Configs,
	}
}

// verbs are the orders an AdminClient may give, by their short names.
var verbs = map[string]link.Verb{
	"promote":              link.Promote,
	"failover":             link.Failover,
	"force-failover":       link.ForceFailover,
	"pause":                link.Pause,
	"resume":               link.Resume,
	"reverse-and-start":    link.ReverseAndStart,
	"reverse-and-pause":    link.ReverseAndPause,
	"truncate-and-restore": link.TruncateAndRestore,
}

// Order implements handler.Mirrors.
func (m *mirrors) Order(ctx context.Context, topic kafka.TopicID, order string) error {
	return m.give(ctx, topic, order, false)
}

// ValidateOrder implements handler.Mirrors.
func (m *mirrors) ValidateOrder(ctx context.Context, topic kafka.TopicID, order string) error {
	return m.give(ctx, topic, order, true)
}

func (m *mirrors) give(ctx context.Context, topic kafka.TopicID, order string, validateOnly bool) error {
	verb, ok := verbs[order]
	if !ok {
		return kafka.Errorf(kafka.InvalidConfig, "%s=%s is no order; it must be one of %s", handler.MirrorOrderConfig, order,
			strings.Join(slices.Sorted(maps.Keys(verbs)), ", "))
	}
	info, live, ok := m.of(topic)
	if verb == link.TruncateAndRestore && !live {
		return m.giveRestore(ctx, topic, info.Link, validateOnly)
	}
	if !ok {
		return kafka.Errorf(kafka.InvalidRequest, "The topic is not a mirror topic, so it takes no %s.", order)
	}
	return m.giveOver(ctx, info.Link, verb, info.Topic, validateOnly)
}

// giveRestore restores an ordinary topic over the link whose other side mirrored it: that of its record, else the one
// bidirectional link over which it can be restored.
func (m *mirrors) giveRestore(ctx context.Context, topic kafka.TopicID, over string, validateOnly bool) error {
	known := m.b.topics.ByID(topic)
	if known == nil {
		return errNoTopic
	}
	last := kafka.Errorf(kafka.InvalidRequest, "Topic '%s' cannot be restored: there is no bidirectional cluster link.", known.Name)
	for _, info := range m.b.links.List() {
		if info.Mode != "BIDIRECTIONAL" || over != "" && info.Name != over {
			continue
		}
		if last = m.giveOver(ctx, info.Name, link.TruncateAndRestore, known.Name, true); last != nil {
			continue
		}
		if validateOnly {
			return nil
		}
		return m.giveOver(ctx, info.Name, link.TruncateAndRestore, known.Name, false)
	}
	return last
}

func (m *mirrors) giveOver(ctx context.Context, over string, verb link.Verb, topic string, validateOnly bool) error {
	outcomes, err := m.b.links.Order(ctx, over, verb, []string{topic}, "", validateOnly)
	if err != nil {
		return kafkaError(err)
	}
	for _, outcome := range outcomes {
		if outcome.Code != 0 {
			return kafka.Errorf(kafka.InvalidRequest, "%s", outcome.Text)
		}
	}
	return nil
}

func (m *mirrors) of(topic kafka.TopicID) (info link.MirrorInfo, live, ok bool) {
	known := m.b.topics.ByID(topic)
	if known == nil {
		return link.MirrorInfo{}, false, false
	}
	return m.b.links.MirrorOf(known.Name)
}

// entryDocs says what the entries that describe a mirror mean, by the last part of their names.
var entryDocs = map[string]string{
	"error":          "Why the mirror is in trouble, NO_ERROR if it is not.",
	"lag":            "Records that the partition furthest behind has still to mirror.",
	"link":           "The cluster link that owns the mirror.",
	"lost.records":   "Records that the source removed before they were mirrored.",
	"source.cluster": "The source cluster's id.",
	"source.topic":   "The topic on the source cluster.",
	"state":          "The mirror's status, as REST shows it.",
}

// Describe implements handler.Mirrors.
func (m *mirrors) Describe(topic kafka.TopicID) []handler.MirrorEntry {
	info, _, ok := m.of(topic)
	if !ok {
		return nil
	}
	var list []handler.MirrorEntry
	add := func(name, value string) {
		list = append(list, handler.MirrorEntry{Name: name, Value: value, Doc: entryDocs[strings.TrimPrefix(name, handler.MirrorConfigPrefix)]})
	}
	for _, e := range m.b.links.Entries(info.Topic) {
		if e.Value != nil {
			add(e.Name, *e.Value)
		}
	}
	var lost int64
	for _, p := range info.Lags {
		lost += p.Lost
	}
	add(handler.MirrorConfigPrefix+"lost.records", strconv.FormatInt(lost, 10))
	return sorted(list, func(e handler.MirrorEntry) string { return e.Name })
}

// ReadOnly implements handler.Mirrors.
func (m *mirrors) ReadOnly(topic kafka.TopicID) error {
	info, live, ok := m.of(topic)
	if !ok || !live {
		return nil
	}
	return kafka.Errorf(kafka.InvalidRequest, "Topic '%s' is a read-only mirror of '%s' over link '%s'; promote it or fail it over "+
		"first.", info.Topic, info.SourceTopic, info.Link)
}

// CheckConfigs implements handler.Mirrors.
func (m *mirrors) CheckConfigs(topic kafka.TopicID, names []string) error {
	info, live, ok := m.of(topic)
	if !ok || !live {
		return nil
	}
	return kafkaError(m.b.links.CheckConfigChange(info.Topic, names))
}

// ConfigsChanged implements handler.Mirrors. What was set by hand is among the
// topic's own configs already; the sync task leaves names alone that it does not own.
func (m *mirrors) ConfigsChanged(context.Context, kafka.TopicID, []string) {}

// kafkaError gives an order's failure the code that Kafka has for it.
func kafkaError(err error) error {
	var failed *link.Error
	if !errors.As(err, &failed) {
		return err
	}
	code := map[link.Kind]kafka.ErrorCode{
		link.BadRequest:  kafka.InvalidRequest,
		link.NotFound:    kafka.UnknownTopicOrPartition,
		link.Exists:      kafka.TopicAlreadyExists,
		link.InUse:       kafka.InvalidRequest,
		link.WrongState:  kafka.InvalidRequest,
		link.Unreachable: kafka.BrokerNotAvailable,
		link.Forbidden:   kafka.ClusterAuthorizationFailed,
	}[failed.Kind]
	if code == kafka.None {
		code = kafka.UnknownServerError
	}
	return kafka.Errorf(code, "%s", failed.Error())
}
