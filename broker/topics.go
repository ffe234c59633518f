package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/handler"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
)

// topics makes, opens, grows and deletes topics: metadata first, then partitions.
// It implements handler.Topics.
type topics struct {
	b *Broker
	// open guards the opening and closing of partitions, so that two orders for
	// one topic do not open its logs twice.
	opening sync.Mutex
}

func newTopics(b *Broker) *topics { return &topics{b: b} }

// openAll opens the partitions of every topic, and puts directories of unknown
// topics aside (rule D7): one goes only if its deletion is on record.
func (t *topics) openAll(ctx context.Context) error {
	img := t.b.meta.Image()
	if err := t.sweep(ctx, img); err != nil {
		return err
	}
	limit := make(chan struct{}, 8)
	errs := make(chan error, len(img.Topics))
	for id := range img.Topics {
		limit <- struct{}{}
		go func() {
			defer func() { <-limit }()
			errs <- t.openFrom(img, id)
		}()
	}
	var all []error
	for range img.Topics {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

func (t *topics) sweep(ctx context.Context, img *meta.Image) error {
	found, err := t.b.store.Partitions()
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	kept := homes(img)
	dropped := droppedCopies(img)
	var g errgroup.Group
	g.SetLimit(directoriesAtOnce)
	for _, id := range found {
		if kept[id] {
			continue
		}
		g.Go(func() error { return t.clearAway(id, img.Deletions[id.Topic] != nil || dropped[id.Topic]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := t.forgetCopies(ctx, dropped); err != nil {
		return err
	}
	for id := range img.Deletions {
		if err := t.forgetDeletion(ctx, id); err != nil {
			return err
		}
	}
	t.withholdMissing(img, found)
	return nil
}

// clearAway removes a directory that no topic has where that is known to be right, and sets it aside otherwise (rule D7).
func (t *topics) clearAway(id kafka.PartitionID, deleted bool) error {
	if deleted || isEmpty(t.b.store, id) {
		if err := t.b.store.Remove(id); err != nil {
			return fmt.Errorf("remove left-over of deleted topic: %w", err)
		}
		return nil
	}
	where, err := t.b.store.SetAside(id)
	if err != nil {
		return fmt.Errorf("set unknown partition aside: %w", err)
	}
	t.b.events.Emit(event.DirectorySetAside{From: id.String(), To: where})
	return nil
}

func (t *topics) forgetDeletion(ctx context.Context, id kafka.TopicID) error {
	return t.b.meta.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		if img.Deletions[id] == nil {
			return nil, nil
		}
		return []meta.Change{meta.DeleteDeletion(id)}, nil
	})
}

// open opens the partitions of a topic that metadata holds.
func (t *topics) open(_ context.Context, id kafka.TopicID) error {
	t.opening.Lock()
	defer t.opening.Unlock()
	return t.openFrom(t.b.meta.Image(), id)
}

func (t *topics) openFrom(img *meta.Image, id kafka.TopicID) error {
	topic, states := img.Topics[id], img.Partitions[id]
	if topic == nil || states == nil {
		return errNoTopic
	}
	if err := t.b.owner.Open(topic, states, t.b.topicConfig(topic)); err != nil {
		return fmt.Errorf("open topic %s: %w", topic.Name, err)
	}
	return nil
}

// topicConfig is what partitions must know of a topic's configs: what was set on
// the topic, else the broker's dynamic and static values, else the default.
func (b *Broker) topicConfig(topic *meta.Topic) partition.TopicConfig {
	v := config.Topic.Values(topic.Configs, b.topicDefaults())
	return partition.TopicConfig{
		Log: commitlog.Config{
			SegmentBytes:  v.Int("segment.bytes"),
			SegmentAge:    segmentAge(v),
			IndexInterval: v.Int("index.interval.bytes"),
		},
		MaxMessageBytes:      int(v.Int("max.message.bytes")),
		LogAppendTime:        v.Text("message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMaxMs: v.Int("message.timestamp.before.max.ms"),
		TimestampAfterMaxMs:  v.Int("message.timestamp.after.max.ms"),
		Compression:          v.Text("compression.type"),
		Compacted:            slices.Contains(v.List("cleanup.policy"), "compact"),
		Retain:               retainPolicy(v),
	}
}

// topicDefaults is the broker's own values for topic keys, by the topic's names.
func (b *Broker) topicDefaults() map[string]string {
	node, cluster, static := (&configs{b}).Broker()
	return config.TopicDefaults(node, cluster, static)
}

// ByName implements handler.Topics.
func (t *topics) ByName(name string) *meta.Topic {
	img := t.b.meta.Image()
	return img.Topics[img.TopicIDs[name]]
}

// ByID implements handler.Topics.
func (t *topics) ByID(id kafka.TopicID) *meta.Topic { return t.b.meta.Image().Topics[id] }

// All implements handler.Topics.
func (t *topics) All() []*meta.Topic {
	return slices.SortedFunc(maps.Values(t.b.meta.Image().Topics), func(a, b *meta.Topic) int { return strings.Compare(a.Name, b.Name) })
}

func (t *topics) idOf(name string) (kafka.TopicID, bool) {
	id, ok := t.b.meta.Image().TopicIDs[name]
	return id, ok
}

func (t *topics) bounds(tp kafka.TopicPartition) (start, end kafka.Offset, ok bool) {
	id, ok := t.idOf(tp.Topic)
	if !ok {
		return 0, 0, false
	}
	p := t.b.owner.Get(kafka.PartitionID{Topic: id, Partition: tp.Partition})
	if p == nil {
		return 0, 0, false
	}
	if p.Err() != nil { // one that could not be opened says that it is empty
		return 0, kafka.NoOffset, true
	}
	marks := p.Offsets()
	return marks.LogStart, marks.HighWatermark, true
}

// mirrored says whether the topic is a mirror that was not stopped.
func (t *topics) mirrored(name string) bool {
	id, _ := t.idOf(name)
	state, is := t.b.turnState(id)
	return is && state.Live()
}

// Validate implements handler.Topics.
func (t *topics) Validate(_ context.Context, spec handler.NewTopic) (*meta.Topic, error) {
	if err := checkFree(t.b.meta.Image(), spec.Name); err != nil {
		return nil, err
	}
	spec, err := t.internalSpec(spec)
	if err != nil {
		return nil, err
	}
	return newTopic(kafka.TopicID{}, spec, time.Now()), nil
}

// checkFree refuses a name that is taken, or that Kafka holds to collide with one.
func checkFree(img *meta.Image, name string) error {
	if _, taken := img.TopicIDs[name]; taken {
		return kafka.Errorf(kafka.TopicAlreadyExists, "Topic '%s' already exists.", name)
	}
	if !strings.ContainsAny(name, "._") {
		return nil
	}
	key := kafka.CollisionKey(name)
	for other := range img.TopicIDs {
		if len(other) == len(name) && kafka.CollisionKey(other) == key {
			return kafka.Errorf(kafka.InvalidTopicException, "Topic '%s' collides with existing topic: %s", name, other)
		}
	}
	return nil
}

func newTopic(id kafka.TopicID, spec handler.NewTopic, now time.Time) *meta.Topic {
	return &meta.Topic{
		ID: id, Name: spec.Name, Partitions: spec.Partitions, ReplicationFactor: spec.ReplicationFactor,
		Configs: spec.Configs, CreatedMs: now.UnixMilli(),
	}
}

// Create implements handler.Topics.
func (t *topics) Create(ctx context.Context, spec handler.NewTopic) (*meta.Topic, error) {
	if err := checkFree(t.b.meta.Image(), spec.Name); err != nil {
		return nil, err
	}
	spec, err := t.internalSpec(spec)
	if err != nil {
		return nil, err
	}
	topic := newTopic(kafka.NewTopicID(), spec, time.Now())
	if err := t.make(topic.ID, 0, spec.Partitions); err != nil {
		return nil, err
	}
	err = t.b.meta.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		if err := checkFree(img, spec.Name); err != nil {
			return nil, err
		}
		states := &meta.Partitions{Topic: topic.ID, List: make([]meta.Partition, spec.Partitions)}
		for i := range states.List {
			states.List[i] = meta.Partition{Role: meta.RoleOpen}
		}
		return []meta.Change{meta.PutTopic(topic), meta.PutPartitions(states)}, nil
	})
	if err != nil {
		t.unmake(topic.ID, 0, spec.Partitions, err)
		return nil, err
	}
	t.b.events.Emit(event.TopicCreated{Topic: topic.Name, ID: topic.ID.String(), Partitions: topic.Partitions})
	if err := t.open(ctx, topic.ID); err != nil {
		return nil, err
	}
	return topic, nil
}

// mostPartitions is how many partitions a topic may have: their states are one record of the metadata.
const mostPartitions = 10_000

func checkCount(count int32) error {
	if count > mostPartitions {
		return kafka.Errorf(kafka.InvalidPartitions, "A topic may have %d partitions at most, not %d: spread the records over several "+
			"topics.", mostPartitions, count)
	}
	return nil
}

// Grow implements handler.Topics.
func (t *topics) Grow(ctx context.Context, id kafka.TopicID, count int32) error {
	if err := checkCount(count); err != nil {
		return err
	}
	if topic := t.ByID(id); topic != nil && count > topic.Partitions {
		if err := t.make(id, topic.Partitions, count); err != nil {
			return err
		}
	}
	err := t.b.meta.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		topic, states := img.Topics[id], img.Partitions[id]
		if topic == nil || states == nil {
			return nil, errNoTopic
		}
		if count <= topic.Partitions {
			return nil, kafka.Errorf(kafka.InvalidPartitions, "Topic currently has %d partitions, which is not fewer than the requested %d.",
				topic.Partitions, count)
		}
		wider := *topic
		wider.Partitions = count
		grown := &meta.Partitions{Topic: id, List: slices.Clone(states.List)}
		for int32(len(grown.List)) < count {
			grown.List = append(grown.List, meta.Partition{Role: meta.RoleOpen})
		}
		return []meta.Change{meta.PutTopic(&wider), meta.PutPartitions(grown)}, nil
	})
	if err != nil {
		return err
	}
	return t.open(ctx, id)
}

// Delete implements handler.Topics. The deletion is on record before anything is
// removed, so that a crash in the middle is finished at the next start.
func (t *topics) Delete(ctx context.Context, id kafka.TopicID) error {
	if err := t.b.links.CheckDeletion(ctx, id); err != nil {
		return err
	}
	var gone *meta.Topic
	var others []kafka.TopicID
	err := t.b.meta.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		topic := img.Topics[id]
		if topic == nil {
			return nil, errNoTopic
		}
		gone = topic
		if err := link.Forbids(img, id); err != nil {
			return nil, err
		}
		changes := []meta.Change{
			meta.DeleteTopic(id, topic.Name), meta.DeletePartitions(id),
			meta.PutDeletion(&meta.Deletion{Topic: id, Name: topic.Name, Partitions: topic.Partitions}),
		}
		if img.Mirrors[id] != nil {
			changes = append(changes, meta.DeleteMirror(id))
		}
		others = otherHomes(img, id)
		for _, home := range others {
			changes = append(changes, meta.PutDeletion(&meta.Deletion{Topic: home, Name: topic.Name, Partitions: topic.Partitions}))
			if img.Partitions[home] != nil {
				changes = append(changes, meta.DeletePartitions(home))
			}
		}
		return changes, nil
	})
	if err != nil {
		return err
	}
	t.b.events.Emit(event.TopicDeleted{Topic: gone.Name, ID: id.String()})
	t.b.links.TopicDeleted()
	t.b.groups.TopicDeleted(ctx, gone.Name)
	t.opening.Lock()
	defer t.opening.Unlock()
	if err := t.b.owner.Delete(id, gone.Partitions); err != nil {
		return fmt.Errorf("remove partitions of topic %s: %w", gone.Name, err)
	}
	for _, home := range others {
		if err := t.b.owner.DropCopy(ctx, id, home, gone.Partitions); err != nil {
			return fmt.Errorf("remove partitions of topic %s: %w", gone.Name, err)
		}
		if err := t.forgetDeletion(ctx, home); err != nil {
			return err
		}
	}
	return t.forgetDeletion(ctx, id)
}

// internalSpec completes an internal topic's spec, and refuses one that its coordinator could not use: it took the number of
// partitions from the configuration when it began, and its log must be compacted, not aged. Others are left as they are.
func (t *topics) internalSpec(spec handler.NewTopic) (handler.NewTopic, error) {
	var key string
	var count int32
	switch spec.Name {
	case kafka.ConsumerOffsetsTopic:
		key, count = "offsets.topic.num.partitions", t.offsetsPartitions()
	case kafka.TransactionStateTopic:
		key, count = "transaction.state.log.num.partitions", t.statePartitions()
	default:
		return spec, checkCount(spec.Partitions)
	}
	configs := map[string]string{"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
	maps.Copy(configs, spec.Configs)
	switch {
	case spec.Partitions != count:
		return spec, kafka.Errorf(kafka.InvalidPartitions, "Topic '%s' is internal and has %d partitions, not %d: that is set by %s "+
			"before the broker starts.", spec.Name, count, spec.Partitions, key)
	case configs["cleanup.policy"] != "compact":
		return spec, kafka.Errorf(kafka.InvalidConfig, "Topic '%s' is internal: its cleanup.policy is compact.", spec.Name)
	}
	spec.Configs = configs
	return spec, nil
}

// offsetsPartitions is how many partitions the offsets topic has, or will have.
func (t *topics) offsetsPartitions() int32 {
	if topic := t.ByName(kafka.ConsumerOffsetsTopic); topic != nil {
		return topic.Partitions
	}
	return int32(t.b.values.Int("offsets.topic.num.partitions"))
}

// offsetsPartition is one partition of the offsets topic, which is made on first need.
func (t *topics) offsetsPartition(ctx context.Context, n int32) (*partition.Partition, error) {
	return t.internal(ctx, kafka.ConsumerOffsetsTopic, t.offsetsPartitions(), n)
}

func (t *topics) internal(ctx context.Context, name string, count, n int32) (*partition.Partition, error) {
	topic := t.ByName(name)
	if topic == nil {
		made, err := t.Create(ctx, handler.NewTopic{Name: name, Partitions: count, ReplicationFactor: 1})
		switch {
		case errors.Is(err, kafka.TopicAlreadyExists): // another request was faster
			topic = t.ByName(name)
		case err != nil:
			return nil, fmt.Errorf("make topic %s: %w", name, err)
		default:
			topic = made
		}
	}
	if topic == nil {
		return nil, kafka.Errorf(kafka.CoordinatorNotAvailable, "Topic %s was deleted.", name)
	}
	p := t.b.owner.Get(kafka.PartitionID{Topic: topic.ID, Partition: n})
	if p == nil {
		return nil, kafka.Errorf(kafka.CoordinatorNotAvailable, "Partition %d of topic %s is not open.", n, name)
	}
	return p, nil
}
