package link

import (
	"context"
	"reflect"
	"slices"

	"github.com/hawserio/hawser/config"
	"github.com/hawserio/hawser/event"
	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/task"
	"github.com/hawserio/hawser/meta"
)

// makeTasks makes the link's tasks; start runs them.
func (r *running) makeTasks() {
	h := here{r}
	src := func() (task.Source, error) { return r.taskSource() }
	filters := func(of func(settings) plan.Filters) func() plan.Filters {
		return func() plan.Filters { return of(r.settingsNow()) }
	}
	r.configs = &task.Configs{Source: src, Here: h, Include: func() []string { return r.settingsNow().include }}
	r.offsets = &task.Offsets{
		Source: src, Here: h,
		Matches: func() func(string) bool { return r.settingsNow().groupFilters.MatchLocal },
		Crosses: func() func(string) bool { return r.otherFilters().MatchRemote },
		Prefix:  func() string { return r.settingsNow().groupPrefix },
		Count:   r.count,
	}
	r.backOffsets = &task.Offsets{
		Source: src, Here: origin{h},
		Matches: func() func(string) bool { return r.settingsNow().groupFilters.MatchRemote },
		Crosses: func() func(string) bool { return r.otherFilters().MatchLocal },
		Prefix:  func() string { return "" },
		Count:   r.count,
	}
	auto := &task.AutoCreate{
		Source: src, Here: h,
		Prefix:  func() string { return r.settingsNow().prefix },
		Filters: filters(func(s settings) plan.Filters { return s.topicFilters }),
		Cluster: r.ls.env.Metadata.Image().Cluster.ID,
	}
	acls := &task.ACLs{
		Source: src, Here: h, Match: r.aclMatch, FromHere: r.aclsFromHere,
		TopicPrefix: func() string { return r.settingsNow().prefix },
		GroupPrefix: func() string { return r.settingsNow().groupPrefix },
	}
	runner := func(name string, order func() task.Order, run func(context.Context) task.Result) *task.Runner {
		return task.NewRunner(name, order, run, func(from, to string, first plan.Problem) {
			r.ls.env.Events.Emit(event.TaskStateChanged{Link: r.name, Task: name, From: from, To: to, Code: first.Code, Text: first.Text})
		})
	}
	r.tasks = []*task.Runner{
		runner(task.TopicConfigsSync, r.configOrder, r.configs.Run),
		runner(task.ConsumerOffsetSync, r.offsetOrder, r.syncOffsets),
		runner(task.AutoCreateMirror, r.autoOrder, auto.Run),
		runner(task.ACLSync, r.aclOrder, acls.Run),
	}
}

func (r *running) configsRunner() *task.Runner { return r.tasks[0] }
func (r *running) offsetsRunner() *task.Runner { return r.tasks[1] }
func (r *running) autoRunner() *task.Runner    { return r.tasks[2] }
func (r *running) aclRunner() *task.Runner     { return r.tasks[3] }

func (r *running) settingsNow() settings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.set
}

func (r *running) count(c task.OffsetCounts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.Written += c.Written
	r.counts.Lowered += c.Lowered
	r.counts.Raised += c.Raised
	r.counts.Equal += c.Equal
}

// hold is the link's state that keeps tasks from running; r.mu is held.
func (r *running) hold() string {
	switch r.healthNow() {
	case mirror.LinkPaused:
		return task.StateLinkPaused
	case mirror.LinkFailed:
		return task.StateLinkFailed
	case mirror.LinkUnavailable:
		return task.StateLinkUnavailable
	case mirror.LinkUnknown:
		return task.StateUnknown
	}
	return ""
}

func (r *running) configOrder() task.Order {
	r.mu.Lock()
	defer r.mu.Unlock()
	return task.Order{Enabled: true, Hold: r.hold(), Period: r.set.configPeriod}
}

func (r *running) offsetOrder() task.Order {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := task.Order{Enabled: r.set.offsetSync, Hold: r.hold(), Period: r.set.offsetPeriod}
	if r.set.groupFilters.Empty() {
		o.Missing = keyOffsetSync + " is on but " + keyGroupFilters + " matches nothing: set filters"
	}
	return o
}

func (r *running) autoOrder() task.Order {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := task.Order{Enabled: r.set.autoCreate, Hold: r.hold(), Period: r.set.autoPeriod}
	if r.set.topicFilters.Empty() {
		o.Missing = keyAutoCreate + " is on but " + keyTopicFilters + " matches nothing: set filters"
	}
	return o
}

func (r *running) aclOrder() task.Order {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := task.Order{Enabled: r.set.aclSync, Hold: r.hold(), Period: r.set.aclPeriod}
	if len(r.set.aclFilters) == 0 {
		o.Missing = keyACLSync + " is on but " + keyACLFilters + " matches nothing: set filters"
	}
	return o
}

// aclMatch is acl.filters as they are now.
func (r *running) aclMatch() func(plan.ACL) bool {
	filters := r.settingsNow().aclFilters
	return func(a plan.ACL) bool {
		return slices.ContainsFunc(filters, func(f config.ACLFilter) bool {
			return f.Match(config.ACL{
				ResourceType: a.ResourceType, PatternType: a.PatternType, Name: a.Resource,
				Operation: a.Operation, Permission: a.Permission, Principal: a.Principal, Host: a.Host,
			})
		})
	}
}

// pokeTasks makes tasks run at once whose configs have changed.
func (r *running) pokeTasks(before, now settings) {
	if before.autoCreate != now.autoCreate || !reflect.DeepEqual(before.topicFilters, now.topicFilters) || before.paused != now.paused {
		r.autoRunner().Poke()
	}
	if before.offsetSync != now.offsetSync || before.offsetPeriod != now.offsetPeriod ||
		!reflect.DeepEqual(before.groupFilters, now.groupFilters) || before.paused != now.paused {
		r.offsetsRunner().Poke()
	}
	if before.aclSync != now.aclSync || before.aclPeriod != now.aclPeriod || !reflect.DeepEqual(before.aclFilters, now.aclFilters) ||
		before.paused != now.paused {
		r.aclRunner().Poke()
	}
	if before.configPeriod != now.configPeriod || !reflect.DeepEqual(before.include, now.include) || before.paused != now.paused {
		r.configsRunner().Poke()
	}
}

// taskInfos describes the tasks; r.mu is not held.
func (r *running) taskInfos() []Task {
	var list []Task
	for _, t := range r.tasks {
		state, problems := t.Status()
		list = append(list, Task{Name: t.Name(), State: state, Errors: coded(problems)})
	}
	return list
}

func coded(problems []plan.Problem) []Coded {
	var list []Coded
	for _, p := range problems {
		list = append(list, Coded{p.Code, p.Text})
	}
	return list
}

// here is this cluster as the tasks change it.
type here struct{ r *running }

var _ task.Here = here{}

func taskMirror(m topicMirror) task.Mirror {
	return task.Mirror{
		ID: m.topic.ID, Topic: m.topic.Name, Source: m.rec.SourceTopic, SourceID: m.rec.SourceTopicID,
		Partitions: m.topic.Partitions, Configs: m.topic.Configs,
	}
}

func (h here) Mirrors() []task.Mirror {
	var list []task.Mirror
	for _, m := range mirrorsOf(h.r.ls.env.Metadata.Image(), h.r.id) {
		if m.state.Follows() {
			list = append(list, taskMirror(m))
		}
	}
	return list
}

func (h here) CheckConfig(name, value string) error {
	return config.Topic.Check(map[string]string{name: value})
}

// follows reports whether a mirror of this link still follows its source in an image.
func (h here) follows(img *meta.Image, id kafka.TopicID) bool {
	rec := img.Mirrors[id]
	if rec == nil || rec.Link != h.r.id || img.Topics[id] == nil {
		return false
	}
	state, err := mirror.ParseState(rec.State)
	return err == nil && state.Follows()
}

func (h here) SetConfigs(ctx context.Context, changes []task.ConfigChange) error {
	for len(changes) > 0 {
		chunk := changes[:min(batchMax/2, len(changes))] // two operations each
		changes = changes[len(chunk):]
		var done []kafka.TopicID
		err := h.r.ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
			var out []meta.Change
			done = done[:0]
			for _, c := range chunk {
				if !h.follows(img, c.Mirror.ID) {
					continue
				}
				topic := *img.Topics[c.Mirror.ID]
				topic.Configs = merged(topic.Configs, c.Set)
				out = append(out, meta.PutTopic(&topic), meta.KeepMirror(c.Mirror.ID))
				done = append(done, c.Mirror.ID)
			}
			return out, nil
		})
		if err != nil {
			return err
		}
		for _, id := range done {
			if tell := h.r.ls.env.ConfigsChanged; tell != nil {
				tell(id)
			}
		}
	}
	return nil
}

func merged(base, set map[string]string) map[string]string {
	out := make(map[string]string, len(base)+len(set))
	for name, value := range base {
		out[name] = value
	}
	for name, value := range set {
		out[name] = value
	}
	return out
}

func (h here) Widen(ctx context.Context, m task.Mirror, partitions int32) error {
	return h.r.widen(ctx, m.ID, partitions)
}

func (h here) Bound(tp kafka.TopicPartition) (plan.Bound, bool) { return h.bound(tp, meta.RoleMirror) }

// bound is what a partition holds now that is open in a role.
func (h here) bound(tp kafka.TopicPartition, role meta.Role) (plan.Bound, bool) {
	id, is := h.r.ls.env.Metadata.Image().TopicIDs[tp.Topic]
	if !is {
		return plan.Bound{}, false
	}
	part := h.r.ls.env.Partitions.Mirror(kafka.PartitionID{Topic: id, Partition: tp.Partition})
	if part == nil || part.Err() != nil { // one that could not be opened says that it is empty
		return plan.Bound{}, false
	}
	at := part.Offsets()
	if at.Role != role {
		return plan.Bound{}, false
	}
	return plan.Bound{Mirror: tp, Start: at.LogStart, End: at.HighWatermark, Generation: at.Generation}, true
}

func (h here) Committed(topic string) map[string][]plan.Commit {
	out := map[string][]plan.Commit{}
	for name, list := range h.r.ls.env.Commits.Committed(topic) {
		for _, c := range list {
			out[name] = append(out[name], plan.Commit{TopicPartition: c.TopicPartition, Offset: c.Offset, Metadata: c.Metadata})
		}
	}
	return out
}

func (h here) Commit(ctx context.Context, name string, copies []plan.Commit, bounds map[kafka.TopicPartition]plan.Bound) (int, error) {
	return h.commit(ctx, name, copies, func(tp kafka.TopicPartition) bool { return h.live(tp, bounds[tp]) })
}

func (h here) commit(ctx context.Context, name string, copies []plan.Commit, live func(kafka.TopicPartition) bool) (int, error) {
	list := make([]group.Synced, len(copies))
	for i, c := range copies {
		list[i] = group.Synced{TopicPartition: c.TopicPartition, Offset: c.Offset, Metadata: c.Metadata}
	}
	return h.r.ls.env.Commits.CommitSynced(ctx, name, list, live)
}

// live is asked under the coordinator's lock (rule G1): whether the mirror still follows and its partition is at the
// generation that the offsets were planned for. A stop stores STOPPING before it clamps, so that
// a copy planned before it cannot land behind the clamp.
func (h here) live(tp kafka.TopicPartition, b plan.Bound) bool {
	img := h.r.ls.env.Metadata.Image()
	id, is := img.TopicIDs[tp.Topic]
	if !is {
		return false
	}
	now, is := h.Bound(tp)
	return is && plan.StillCopied(b, now, h.follows(img, id))
}

func (h here) CreateMirror(ctx context.Context, name string) error {
	set := h.r.settingsNow()
	_, err := h.r.ls.CreateMirror(ctx, h.r.name, MirrorSpec{SourceTopic: name, MirrorTopic: set.prefix + name, Auto: true})
	return err
}

func (h here) ACLs() (copied, others []plan.ACL) {
	for _, a := range h.r.ls.env.Metadata.Image().ACLs {
		one := planACL(a)
		if a.Link == h.r.id {
			copied = append(copied, one)
		} else {
			others = append(others, one)
		}
	}
	return copied, others
}

func (h here) ChangeACLs(ctx context.Context, changes []plan.ACLChange) error {
	for chunk := range slices.Chunk(changes, batchMax-1) {
		err := h.r.ls.env.Metadata.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
			if img.Links[h.r.id] == nil {
				return nil, nil
			}
			out := []meta.Change{meta.KeepLink(h.r.id)}
			for _, c := range chunk {
				a := metaACL(c.ACL, h.r.id)
				now := img.ACLs[a.Key()]
				switch {
				case c.Remove && now != nil && now.Link == h.r.id:
					out = append(out, meta.DeleteACL(a))
				case !c.Remove && now == nil:
					out = append(out, meta.PutACL(a))
				}
			}
			return out, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (h here) Names() task.Names { return newTakenNames(h.r.ls.env.Metadata.Image(), h.r.id) }

func (h here) Code(err error) string { return codeOf(err) }

// takenNames is which topic names are taken, in one image.
type takenNames struct {
	img      *meta.Image
	link     kafka.TopicID
	collides map[string]string
}

func newTakenNames(img *meta.Image, link kafka.TopicID) takenNames {
	t := takenNames{img, link, make(map[string]string, len(img.TopicIDs))}
	for name := range img.TopicIDs {
		t.collides[kafka.CollisionKey(name)] = name
	}
	return t
}

func (t takenNames) Taken(name, source string) plan.Taken {
	id, is := t.img.TopicIDs[name]
	if !is {
		return plan.Free
	}
	if rec := t.img.Mirrors[id]; rec != nil && rec.Link == t.link && rec.SourceTopic == source {
		return plan.Ours
	}
	return plan.Foreign
}

func (t takenNames) Collides(name string) string {
	other := t.collides[kafka.CollisionKey(name)]
	if other == name {
		return ""
	}
	return other
}

// taskSource is the present source as tasks ask it.
func (r *running) taskSource() (task.Source, error) {
	src, err := r.source()
	if err != nil {
		return nil, err
	}
	return tasked{src}, nil
}

// source is the present connection, or why there is none.
func (r *running) source() (Source, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.src == nil {
		if r.setErr != nil {
			return nil, r.setErr
		}
		return nil, kafka.Errorf(kafka.NetworkException, "the link is being connected")
	}
	return r.src, nil
}

// tasked puts a source's answers in the tasks' words.
type tasked struct{ src Source }

func (t tasked) Topics(ctx context.Context, names []string) ([]task.Topic, error) {
	list, err := t.src.Topics(ctx, names)
	out := make([]task.Topic, len(list))
	for i, one := range list {
		out[i] = task.Topic{Name: one.Name, ID: one.ID, Partitions: one.Partitions, Internal: one.Internal, Err: one.Err}
	}
	return out, err
}

func (t tasked) TopicConfigs(ctx context.Context, names []string) (map[string]task.TopicConfigs, error) {
	list, err := t.src.TopicConfigs(ctx, names)
	out := make(map[string]task.TopicConfigs, len(list))
	for name, one := range list {
		out[name] = task.TopicConfigs{Values: one.Values, Err: one.Err}
	}
	return out, err
}

func (t tasked) ACLs(ctx context.Context) ([]plan.ACL, error) {
	list, err := t.src.ACLs(ctx)
	out := make([]plan.ACL, len(list))
	for i, a := range list {
		out[i] = planACL(&a)
	}
	return out, err
}

func (t tasked) Groups(ctx context.Context) ([]string, error) { return t.src.Groups(ctx) }

func (t tasked) GroupOffsets(ctx context.Context, groups, topics []string) (map[string]task.GroupOffsets, error) {
	list, err := t.src.GroupOffsets(ctx, groups, topics)
	out := make(map[string]task.GroupOffsets, len(list))
	for name, one := range list {
		g := task.GroupOffsets{Err: one.Err}
		for _, c := range one.List {
			g.List = append(g.List, plan.Commit{TopicPartition: c.TopicPartition, Offset: c.Offset, Metadata: c.Metadata})
		}
		out[name] = g
	}
	return out, err
}
