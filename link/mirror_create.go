package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
)

const (
	// createMax bounds creating one mirror.
	createMax = 15 * time.Second
	// startsAtOnce is how many partitions ask where to start at once.
	startsAtOnce = 16
	// startTries and startPause let the leaders of a topic that was made a moment ago come to know of it.
	startTries = 20
	startPause = 100 * time.Millisecond
	// topicTries let the broker that is asked come to know of such a topic: another may have answered whoever made it.
	topicTries = 10
)

// CreateMirror makes a mirror topic: the source is asked, then topic, partitions and
// mirror are stored in one transaction with the source's configs in place (case C33), the partitions open as
// mirrors, and fetching starts.
func (ls *Links) CreateMirror(ctx context.Context, link string, spec MirrorSpec) (MirrorInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, createMax)
	defer cancel()
	r, rec, made, err := ls.planMirror(ctx, link, spec)
	if err != nil {
		return MirrorInfo{}, err
	}
	name := made.topic.Name
	if spec.ValidateOnly {
		return MirrorInfo{Link: link, Topic: name, SourceTopic: made.mirror.SourceTopic, Partitions: made.topic.Partitions}, nil
	}
	defer r.settingUp(made.topic.ID)()
	if err := ls.storeMirror(ctx, rec, made); err != nil {
		return MirrorInfo{}, err
	}
	if err := r.open(ctx, made.topic.ID, made.starts); err != nil {
		// What is stored is finished in the background, and after a restart.
		ls.env.Logger.Warn("new mirror is not open yet", "link", link, "topic", name, "error", err)
	}
	r.wake()
	ls.env.Events.Emit(event.MirrorCreated{Link: link, Topic: name, SourceTopic: made.mirror.SourceTopic,
		Partitions: made.topic.Partitions, Auto: spec.Auto})
	info, err := ls.Mirror(link, name)
	if err != nil {
		return MirrorInfo{}, err
	}
	return info, nil
}

// collision finds a topic whose name differs from name only in '.' and '_'; "" for none.
func collision(img *meta.Image, name string) string {
	key := kafka.CollisionKey(name)
	for other := range img.TopicIDs {
		if len(other) == len(name) && other != name && kafka.CollisionKey(other) == key {
			return other
		}
	}
	return ""
}

// ValidateMirror is CreateMirror without the creation: the topic that it would make.
func (ls *Links) ValidateMirror(ctx context.Context, link string, spec MirrorSpec) (*meta.Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, createMax)
	defer cancel()
	_, _, made, err := ls.planMirror(ctx, link, spec)
	if err != nil {
		return nil, err
	}
	return made.topic, nil
}

// planMirror finds out what a mirror would be, or why it cannot be.
func (ls *Links) planMirror(ctx context.Context, link string, spec MirrorSpec) (*running, *meta.Link, *newMirror, error) {
	img, rec, err := ls.named(link)
	if err != nil {
		return nil, nil, nil, err
	}
	r := ls.runningOf(rec.ID)
	if r == nil {
		return nil, nil, nil, &Error{Kind: Internal, Code: string(mirror.InternalError), Text: "Cluster link '" + link +
			"' is not running yet.", Hint: "Try again."}
	}
	set := r.settingsNow()
	if set.mode == peer.Source {
		return nil, nil, nil, badRequest("Cluster link '%s' is a SOURCE half, which holds no mirror topics: create them on its other "+
			"half, on cluster %s.", link, rec.RemoteClusterID)
	}
	if spec.SourceTopic == "" {
		spec.SourceTopic = strings.TrimPrefix(spec.MirrorTopic, set.prefix)
	}
	name, err := plan.MirrorName(set.prefix, spec.SourceTopic, spec.MirrorTopic)
	if err != nil {
		return nil, nil, nil, refused(err)
	}
	if err := nameFree(img, name); err != nil {
		return nil, nil, nil, err
	}
	made, err := r.readSource(ctx, set, spec, name)
	if err != nil {
		return nil, nil, nil, err
	}
	return r, rec, made, nil
}

func nameFree(img *meta.Image, name string) error {
	if _, is := img.TopicIDs[name]; is {
		return &Error{Kind: Exists, Code: string(mirror.TopicExists), Text: fmt.Sprintf("Topic '%s' already exists.", name),
			Hint: "A mirror topic is always a new topic: delete the one that is there, or mirror over a link with a prefix."}
	}
	if other := collision(img, name); other != "" {
		return &Error{Kind: BadRequest, Code: string(mirror.InvalidTopic),
			Text: fmt.Sprintf("Topic '%s' collides with existing topic '%s': they differ only in '.' and '_'.", name, other),
			Hint: "Mirror over a link with a prefix, or delete the topic that is there."}
	}
	return nil
}

// newMirror is a mirror to be stored.
type newMirror struct {
	topic  *meta.Topic
	mirror *meta.Mirror
	starts []kafka.Offset // by partition
}

// readSource asks the source for all that a new mirror needs.
func (r *running) readSource(ctx context.Context, set settings, spec MirrorSpec, name string) (*newMirror, error) {
	if err := plan.CheckOverrides(spec.Configs, set.include); err != nil {
		return nil, badRequest("%v.", err)
	}
	if err := config.Topic.Check(spec.Configs); err != nil {
		return nil, badRequest("%v", err)
	}
	src, err := r.source()
	if err != nil {
		return nil, unreachable("reach the source cluster", err)
	}
	r.mu.Lock()
	contact := r.contact
	r.mu.Unlock()
	if contact.Reach == plan.Misconfigured {
		return nil, &Error{Kind: Unreachable, Code: contact.Problem.Code, Text: "The link cannot use its source: " + contact.Problem.Text,
			Hint: mirror.Explain(mirror.Reason(contact.Problem.Code)).Remedy}
	}
	topic, configs, err := askTopic(ctx, src, spec.SourceTopic)
	if err != nil {
		return nil, err
	}
	if err := r.refuseLoop(ctx, name, spec.SourceTopic, configs); err != nil {
		return nil, err
	}
	synced, skipped := plan.Reconfigure(plan.ConfigFacts{Source: configs, Mirror: nil, Include: set.include, Check: here{r}.CheckConfig})
	for _, s := range skipped {
		if s.Vital {
			return nil, &Error{Kind: BadRequest, Code: string(mirror.PolicyViolation),
				Text: fmt.Sprintf("The source topic has %s=%s, which this cluster does not take: %v.", s.Name, s.Value, s.Err)}
		}
		r.ls.env.Logger.Warn("config of the source topic is not taken here", "link", r.name, "topic", name, "config", s.Name, "error", s.Err)
	}
	starts, err := askStarts(ctx, src, topic, set.startSpec)
	if err != nil {
		return nil, err
	}
	replicas := spec.ReplicationFactor
	if replicas <= 0 {
		replicas = r.ls.env.ReplicationFactor
	}
	id, now := kafka.NewTopicID(), r.ls.env.Now().UnixMilli()
	made := &newMirror{starts: starts}
	made.topic = &meta.Topic{ID: id, Name: name, Partitions: topic.Partitions, ReplicationFactor: replicas,
		Configs: merged(spec.Configs, synced), CreatedMs: now}
	made.mirror = &meta.Mirror{
		Topic: id, Link: r.id, SourceTopic: topic.Name, SourceTopicID: topic.ID, State: mirror.Active.String(), StateMs: now,
		StartSpec: set.startSpec, Overrides: maps.Clone(spec.Configs), Kin: r.askKin(ctx, topic.Name, topic.ID),
	}
	if plan.Compacts(made.topic.Configs["cleanup.policy"]) {
		made.mirror.LevelMs = now // what is deleted from now on is missed if it is away for too long (rule T3)
	}
	return made, nil
}

// askTopic reads a source topic and its configs. One that is not there is asked for again for a second.
func askTopic(ctx context.Context, src Source, name string) (source.Topic, map[string]string, error) {
	for try := 1; ; try++ {
		topic, configs, err := readTopic(ctx, src, name)
		var told *Error
		if err == nil || try == topicTries || !errors.As(err, &told) || told.Kind != NotFound {
			return topic, configs, err
		}
		select {
		case <-ctx.Done():
			return topic, configs, err
		case <-time.After(startPause):
		}
	}
}

func readTopic(ctx context.Context, src Source, name string) (source.Topic, map[string]string, error) {
	list, err := src.Topics(ctx, []string{name})
	if err != nil {
		return source.Topic{}, nil, unreachable("read the source topic", err)
	}
	topic := source.Topic{Name: name, Err: kafka.UnknownTopicError(name)}
	for _, one := range list {
		if one.Name == name {
			topic = one
		}
	}
	if topic.Err != nil {
		return topic, nil, topicError(name, "READ and DESCRIBE it", topic.Err)
	}
	configs, err := src.TopicConfigs(ctx, []string{name})
	if err != nil {
		return topic, nil, unreachable("read the configs of the source topic", err)
	}
	answer := configs[name]
	if answer.Err != nil {
		return topic, nil, topicError(name, "DESCRIBE_CONFIGS of it", answer.Err)
	}
	return topic, answer.Values, nil
}

// topicError words what the source says of a topic.
func topicError(name, right string, err error) error {
	switch kafka.CodeOf(err) {
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicID:
		return &Error{Kind: NotFound, Code: string(mirror.UnknownTopicOrPartition), Text: "Topic '" + name +
			"' does not exist on the source cluster.",
			Hint: "Check the name; a principal that may not DESCRIBE the topic is told the same.", Err: err}
	case kafka.TopicAuthorizationFailed, kafka.ClusterAuthorizationFailed:
		return &Error{Kind: Forbidden, Code: string(mirror.Authorization),
			Text: "Topic authorization failed on the source cluster for topic '" + name + "'.",
			Hint: "The link's principal must be allowed to " + right + ".", Err: err}
	}
	return unreachable("read the source topic '"+name+"'", err)
}

// askStarts finds the offset at which each partition's mirror begins.
func askStarts(ctx context.Context, src Source, topic source.Topic, text string) ([]kafka.Offset, error) {
	spec, err := parseStart(text)
	if err != nil {
		return nil, badRequest("%v.", err)
	}
	starts := make([]kafka.Offset, topic.Partitions)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(startsAtOnce)
	for p := range topic.Partitions {
		g.Go(func() error {
			offset, err := startOf(ctx, src, kafka.TopicPartition{Topic: topic.Name, Partition: p}, spec)
			starts[p] = offset
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, topicError(topic.Name, "READ and DESCRIBE it", err)
	}
	return starts, nil
}

// startOf asks one partition. No record as new as the time asked for is the end, as for a consumer.
func startOf(ctx context.Context, src Source, tp kafka.TopicPartition, spec int64) (kafka.Offset, error) {
	offset, err := askStart(ctx, src, tp, spec)
	if err == nil && offset < 0 {
		offset, err = askStart(ctx, src, tp, startLatest)
	}
	return max(offset, 0), err
}

// askStart asks again while the source says that its leaders are on the move: metadata shows
// the leader of a new topic before that broker knows that it leads.
func askStart(ctx context.Context, src Source, tp kafka.TopicPartition, spec int64) (kafka.Offset, error) {
	for try := 1; ; try++ {
		offset, err := src.ListOffset(ctx, tp, spec)
		if err == nil || try == startTries || !kafka.CodeOf(err).Retriable() {
			return offset, err
		}
		select {
		case <-ctx.Done():
			return offset, err
		case <-time.After(startPause):
		}
	}
}

// storeMirror stores topic, partitions and mirror at once. The partitions are frozen until
// each has its start: nobody writes to them before.
func (ls *Links) storeMirror(ctx context.Context, link *meta.Link, made *newMirror) error {
	states := &meta.Partitions{Topic: made.topic.ID, List: make([]meta.Partition, made.topic.Partitions)}
	for p := range states.List {
		states.List[p] = meta.Partition{Role: meta.RoleFrozen}
	}
	err := ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		if img.Links[link.ID] == nil {
			return nil, noLink(link.Name)
		}
		if err := nameFree(img, made.topic.Name); err != nil {
			return nil, err
		}
		return []meta.Change{meta.PutTopic(made.topic), meta.PutPartitions(states), meta.PutMirror(made.mirror), meta.KeepLink(link.ID)}, nil
	})
	if err != nil {
		return internal("store the mirror topic", err)
	}
	return nil
}

// open opens a mirror's partitions and gives those that have no role yet their starts.
func (r *running) open(ctx context.Context, id kafka.TopicID, starts []kafka.Offset) error {
	if err := r.ls.env.OpenTopic(ctx, id); err != nil {
		return fmt.Errorf("open the partitions: %w", err)
	}
	var g errgroup.Group
	for p, start := range starts {
		part := r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: id, Partition: int32(p)})
		if part == nil || start < 0 {
			continue
		}
		g.Go(func() error {
			if err := part.BecomeMirror(ctx, start); err != nil {
				return fmt.Errorf("make partition %d a mirror: %w", p, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// widen adds partitions that the source topic has gained. They begin at the source's start, whatever
// the start spec says: nothing of them was skipped on purpose.
func (r *running) widen(ctx context.Context, id kafka.TopicID, partitions int32) error {
	defer r.settingUp(id)()
	err := r.ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		old, states := img.Topics[id], img.Partitions[id]
		if !(here{r}).follows(img, id) || states == nil || old.Partitions >= partitions {
			return nil, nil
		}
		topic := *old
		topic.Partitions = partitions
		next := &meta.Partitions{Topic: id, List: append([]meta.Partition(nil), states.List...)}
		for len(next.List) < int(partitions) {
			next.List = append(next.List, meta.Partition{Role: meta.RoleFrozen})
		}
		return []meta.Change{meta.PutTopic(&topic), meta.PutPartitions(next), meta.KeepMirror(id)}, nil
	})
	if err != nil {
		return err
	}
	r.ls.env.Logger.Info("mirror widened", "link", r.name, "topic_id", id.String(), "partitions", partitions)
	return r.setUp(ctx, id)
}

// settingUp keeps finishSetUps away from a mirror until the returned function is called.
func (r *running) settingUp(id kafka.TopicID) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.creating[id] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.creating, id)
	}
}

// unfinished reports whether a mirror has partitions without a start: its creation or widening was
// interrupted.
func (r *running) unfinished(img *meta.Image, m topicMirror) bool {
	states := img.Partitions[m.topic.ID]
	if states == nil || !m.state.Follows() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.creating[m.topic.ID] && slices.ContainsFunc(states.List, func(s meta.Partition) bool {
		return s.Role == meta.RoleFrozen && s.Frozen == nil
	})
}

// finishSetUps sets up what creations and widenings left unfinished.
func (r *running) finishSetUps(ctx context.Context) {
	if _, is := r.linkProblem(); is {
		return
	}
	img := r.ls.env.Metadata.Image()
	for _, m := range mirrorsOf(img, r.id) {
		if !r.unfinished(img, m) {
			continue
		}
		if err := r.setUp(ctx, m.topic.ID); err != nil {
			r.ls.env.Logger.Warn("new mirror partitions are not set up yet", "link", r.name, "topic", m.topic.Name, "error", err)
		}
	}
}

// setUp finishes what CreateMirror or widen began: partitions that are frozen on a mirror that follows have
// no start yet. The first partitions of a topic start where its spec says, later ones at the source's start.
func (r *running) setUp(ctx context.Context, id kafka.TopicID) error {
	img := r.ls.env.Metadata.Image()
	topic, rec, states := img.Topics[id], img.Mirrors[id], img.Partitions[id]
	if topic == nil || rec == nil || states == nil {
		return nil
	}
	src, err := r.source()
	if err != nil {
		return err
	}
	spec, err := parseStart(rec.StartSpec)
	if err != nil {
		return err
	}
	if anyMirror(states) {
		spec = startEarliest
	}
	starts := make([]kafka.Offset, len(states.List))
	for p, state := range states.List {
		starts[p] = kafka.NoOffset
		if state.Role != meta.RoleFrozen {
			continue
		}
		if starts[p], err = startOf(ctx, src, kafka.TopicPartition{Topic: rec.SourceTopic, Partition: int32(p)}, spec); err != nil {
			return fmt.Errorf("ask where partition %d starts: %w", p, err)
		}
	}
	if err := r.open(ctx, id, starts); err != nil {
		return err
	}
	r.wake()
	return nil
}

func anyMirror(states *meta.Partitions) bool {
	for _, s := range states.List {
		if s.Role == meta.RoleMirror {
			return true
		}
	}
	return false
}
