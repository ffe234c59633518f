package link

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/meta/metatest"
	"github.com/hawserio/hawser/partition"
)

// rig is a cluster with real metadata, and a source, partitions, group offsets and
// fetching that are scripted. What must never happen is checked where it would.
type rig struct {
	t       testing.TB
	meta    *meta.Meta
	parts   *fakeParts
	commits *fakeCommits
	source  *fakeSource
	links   *Links
	journal Journal // nil: nobody keeps one

	mu         sync.Mutex // guards what follows
	pools      []*fakePool
	copies     []*fakePool // of copies that are made anew
	dialed     []source.Config
	violations []string
	trace      []string
}

// The tests run side by side: they wait for each other's metadata more than they compute.
func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	return newSerialRig(t)
}

func newSerialRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, meta: metatest.New(t), source: newFakeSource()}
	r.parts = &fakeParts{rig: r, list: map[kafka.PartitionID]*fakePart{}}
	r.commits = &fakeCommits{rig: r, list: map[string]map[kafka.TopicPartition]group.Synced{}, members: map[string]bool{}}
	r.start()
	t.Cleanup(func() {
		r.links.Close()
		for _, v := range r.violated() {
			t.Error(v)
		}
	})
	return r
}

func (r *rig) env() Env {
	return Env{
		Metadata: r.meta, Partitions: r.parts, Commits: r.commits, Journal: r.journal,
		OpenTopic:      r.parts.open,
		ConfigsChanged: func(id kafka.TopicID) { r.note("configure %s", r.meta.Image().Topics[id].Name) },
		Dial: func(cfg source.Config) (Source, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.dialed = append(r.dialed, cfg)
			return r.source, nil
		},
		NewPool: func(_ fetcher.Source, cfg fetcher.Config, events func(fetcher.Event)) Fetches {
			p := &fakePool{rig: r, cfg: cfg, events: events, assigned: map[kafka.TopicPartition]fetcher.Assignment{}, status: map[kafka.TopicPartition]fetcher.Status{}}
			r.mu.Lock()
			defer r.mu.Unlock()
			if cfg.MemoryMax <= 256<<20/copyPart {
				r.copies = append(r.copies, p)
			} else {
				r.pools = append(r.pools, p)
			}
			return p
		},
		Logger: slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

func (r *rig) start() {
	r.links = New(r.env())
	if err := r.links.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// restart is a crash and a new start: memory is gone, what is stored is there.
func (r *rig) restart() {
	r.links.Close()
	r.start()
}

func (r *rig) violate(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

func (r *rig) violated() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.violations
	r.violations = nil
	return list
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace = append(r.trace, fmt.Sprintf(format, args...))
}

func (r *rig) traced() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.trace
	r.trace = nil
	return list
}

func (r *rig) pool() *fakePool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pools) == 0 {
		return nil
	}
	return r.pools[len(r.pools)-1]
}

// eventually waits until ok holds.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(15 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			r.t.Fatalf("does not come about: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// state waits until a topic's stored state is s.
func (r *rig) state(topic string, s mirror.State) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 15*time.Second)
	defer cancel()
	var last string
	r.meta.Watch(ctx, func(_, img *meta.Image) {
		if rec := img.Mirrors[img.TopicIDs[topic]]; rec != nil {
			if last = rec.State; last == s.String() {
				cancel()
			}
		}
	})
	if last != s.String() {
		r.t.Fatalf("topic %s is %s, want %s", topic, last, s)
	}
}

func (r *rig) status(topic, want string) {
	r.t.Helper()
	var info MirrorInfo
	r.eventually(topic+" is shown as "+want, func() bool {
		info, _, _ = r.links.MirrorOf(topic)
		return info.Status == want
	})
}

// fast is a link's configs with short periods.
func fast(more ...string) map[string]string {
	set := map[string]string{
		keyBootstrap: "source:9092", keyAvailabilityMs: "100", keyConfigSyncMs: "100", keyOffsetSyncMs: "100", keyAutoCreateMs: "100",
	}
	for i := 0; i < len(more); i += 2 {
		set[more[i]] = more[i+1]
	}
	return set
}

func (r *rig) link(name string, more ...string) {
	r.t.Helper()
	if _, err := r.links.Create(r.t.Context(), CreateSpec{Name: name, Configs: fast(more...), Validate: true}); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("link "+name+" is ACTIVE", func() bool {
		info, err := r.links.Describe(name)
		return err == nil && info.State == "ACTIVE"
	})
}

// mirror makes a mirror and waits until it is fetched.
func (r *rig) mirror(link, topic string) {
	r.t.Helper()
	info, err := r.links.CreateMirror(r.t.Context(), link, MirrorSpec{SourceTopic: topic})
	if err != nil {
		r.t.Fatal(err)
	}
	r.eventually(info.Topic+" is fetched", func() bool { return r.pool().fetches(info.Topic) == int(info.Partitions) })
}

func (r *rig) order(link string, verb Verb, topics ...string) []Outcome {
	r.t.Helper()
	list, err := r.links.Order(r.t.Context(), link, verb, topics, "", false)
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// obeyed is order for orders that must succeed.
func (r *rig) obeyed(link string, verb Verb, topics ...string) {
	r.t.Helper()
	for _, o := range r.order(link, verb, topics...) {
		if o.Code != 0 {
			r.t.Fatalf("%s %s: %d %s", verb, o.Topic, o.Code, o.Text)
		}
	}
}

// fakeParts is partitions without logs.
type fakeParts struct {
	Partitions // what these tests never call
	rig        *rig
	// fail makes StopMirrors fail for topics.
	fail func(kafka.TopicID) error
	full error // Room's answer

	mu   sync.Mutex // guards what follows
	list map[kafka.PartitionID]*fakePart
}

type fakePart struct {
	fetcher.Target // what links never call
	Verifiable     // nor this, unless they verify
	parts          *fakeParts
	id             kafka.PartitionID
	mu             sync.Mutex // guards at and err
	at             partition.Offsets
	err            error
	producers      []partition.Producer
}

func (p *fakeParts) open(_ context.Context, id kafka.TopicID) error {
	img := p.rig.meta.Image()
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, state := range img.Partitions[id].List {
		pid := kafka.PartitionID{Topic: id, Partition: int32(n)}
		if p.list[pid] == nil {
			p.list[pid] = &fakePart{parts: p, id: pid, at: partition.Offsets{Role: state.Role, Generation: state.Generation}}
		}
	}
	return nil
}

func (p *fakeParts) Mirror(id kafka.PartitionID) MirrorPartition {
	if part := p.get(id); part != nil {
		return part
	}
	return nil
}

func (p *fakeParts) get(id kafka.PartitionID) *fakePart {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list[id]
}

func (r *rig) part(topic string, n int32) *fakePart {
	return r.parts.get(kafka.PartitionID{Topic: r.meta.Image().TopicIDs[topic], Partition: n})
}

// StopMirrors checks what must hold before a partition opens: it is stored that the mirror is stopping,
// nobody fetches into it, and no group stands beyond its end.
func (p *fakeParts) StopMirrors(ctx context.Context, topics []kafka.TopicID, link string) error {
	img := p.rig.meta.Image()
	p.rig.note("fence %d topics", len(topics))
	for _, id := range topics {
		if p.fail != nil {
			if err := p.fail(id); err != nil {
				return err
			}
		}
		name := img.Topics[id].Name
		// What was opened before a crash may be opened once more: it is stored a moment before the image shows it.
		opens := slices.ContainsFunc(img.Partitions[id].List, func(state meta.Partition) bool { return state.Role != meta.RoleOpen })
		if rec := img.Mirrors[id]; opens && (rec == nil || rec.State != mirror.Stopping.String()) {
			p.rig.violate("partitions of %s are opened before it is stored that it stops: state %s", name, rec.State)
		}
		if n := p.rig.pool().fetches(name); n > 0 {
			p.rig.violate("partitions of %s are opened while %d are fetched", name, n)
		}
		p.rig.commits.check(name, func(n int32) (kafka.Offset, bool) {
			part := p.get(kafka.PartitionID{Topic: id, Partition: n})
			at := part.Offsets()
			return at.LogEnd, at.Role != meta.RoleOpen
		})
	}
	return p.rig.meta.UpdatePartitions(ctx, topics, func(now *meta.Partitions) (*meta.Partitions, error) {
		for n := range now.List {
			state := &now.List[n]
			if state.Role == meta.RoleOpen {
				continue
			}
			part := p.get(kafka.PartitionID{Topic: now.Topic, Partition: int32(n)})
			part.mu.Lock()
			state.Role, state.Generation = meta.RoleOpen, state.Generation+1
			if state.Frozen == nil {
				state.Stop = &meta.StopPoint{Offset: part.at.LogEnd, Link: link}
			}
			state.Frozen = nil
			part.at.Role, part.at.Generation = state.Role, state.Generation
			part.mu.Unlock()
		}
		return now, nil
	})
}

func (p *fakeParts) Freeze(ctx context.Context, topic kafka.TopicID, turn string) ([]kafka.Offset, error) {
	return nil, p.setRole(ctx, topic, func(state *meta.Partition, end kafka.Offset) {
		state.Role, state.Frozen = meta.RoleFrozen, &meta.Freeze{Reversal: turn, End: end}
	})
}

func (p *fakeParts) Refreeze(context.Context, kafka.TopicID, string, string) error { return nil }

func (p *fakeParts) Unfreeze(ctx context.Context, topic kafka.TopicID, _ string) error {
	return p.setRole(ctx, topic, func(state *meta.Partition, _ kafka.Offset) { state.Role, state.Frozen = meta.RoleOpen, nil })
}

func (p *fakeParts) setRole(ctx context.Context, topic kafka.TopicID, set func(*meta.Partition, kafka.Offset)) error {
	return p.rig.meta.UpdatePartitions(ctx, []kafka.TopicID{topic}, func(now *meta.Partitions) (*meta.Partitions, error) {
		for n := range now.List {
			part := p.get(kafka.PartitionID{Topic: topic, Partition: int32(n)})
			part.mu.Lock()
			set(&now.List[n], part.at.LogEnd)
			part.at.Role = now.List[n].Role
			part.mu.Unlock()
		}
		return now, nil
	})
}

func (p *fakeParts) History(id kafka.PartitionID, _ kafka.Offset) (partition.History, error) {
	return partition.History{End: p.get(id).Offsets().LogEnd}, nil
}

func (p *fakeParts) Tail(kafka.PartitionID, kafka.Offset) int64 { return 0 }
func (p *fakeParts) Room(int64) error                           { return p.full }

func (p *fakePart) Offsets() partition.Offsets {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

func (p *fakePart) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// grow is what a fetcher does: the mirror gets longer.
func (p *fakePart) grow(to kafka.Offset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at.LogEnd, p.at.HighWatermark, p.at.LastStable = to, to, to
}

func (p *fakePart) BecomeMirror(ctx context.Context, start kafka.Offset) error {
	err := p.parts.rig.meta.UpdatePartitions(ctx, []kafka.TopicID{p.id.Topic}, func(now *meta.Partitions) (*meta.Partitions, error) {
		now.List[p.id.Partition].Role = meta.RoleMirror
		now.List[p.id.Partition].Generation++
		return now, nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at.Role, p.at.Generation = meta.RoleMirror, p.at.Generation+1
	p.at.LogStart, p.at.LogEnd, p.at.HighWatermark, p.at.LastStable = start, start, start, start
	return err
}

func (p *fakePart) Producers() []partition.Producer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.producers
}
func (p *fakePart) Epochs() []kafka.EpochStart      { return nil }
func (p *fakePart) LastBatch() (batch.Batch, error) { return nil, nil }

// fakeCommits is group offsets.
type fakeCommits struct {
	rig *rig
	// before runs inside CommitSynced before anything is looked at.
	before func()

	mu      sync.Mutex // guards what follows
	list    map[string]map[kafka.TopicPartition]group.Synced
	members map[string]bool
	writes  int
}

func (c *fakeCommits) CommitSynced(_ context.Context, name string, offsets []group.Synced, live func(kafka.TopicPartition) bool) (int, error) {
	if c.before != nil {
		c.before()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members[name] {
		return 0, kafka.Errorf(kafka.NonEmptyGroup, "group %s has members", name)
	}
	n := 0
	for _, o := range offsets {
		if !live(o.TopicPartition) {
			continue
		}
		if c.list[name] == nil {
			c.list[name] = map[kafka.TopicPartition]group.Synced{}
		}
		c.list[name][o.TopicPartition] = o
		n++
	}
	c.writes += n
	return n, nil
}

func (c *fakeCommits) Clamp(_ context.Context, topic string, ends []kafka.Offset) (int, error) {
	c.rig.note("clamp %s", topic)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, offsets := range c.list {
		for tp, o := range offsets {
			if tp.Topic == topic && o.Offset > ends[tp.Partition] {
				o.Offset = ends[tp.Partition]
				offsets[tp] = o
				n++
			}
		}
	}
	return n, nil
}

func (c *fakeCommits) Committed(topic string) map[string][]group.Synced {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string][]group.Synced{}
	for name, offsets := range c.list {
		for tp, o := range offsets {
			if tp.Topic == topic {
				out[name] = append(out[name], o)
			}
		}
	}
	return out
}

// set commits as a consumer would.
func (c *fakeCommits) set(name, topic string, p int32, offset kafka.Offset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list[name] == nil {
		c.list[name] = map[kafka.TopicPartition]group.Synced{}
	}
	tp := kafka.TopicPartition{Topic: topic, Partition: p}
	c.list[name][tp] = group.Synced{TopicPartition: tp, Offset: offset}
}

func (c *fakeCommits) get(name, topic string, p int32) (kafka.Offset, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, is := c.list[name][kafka.TopicPartition{Topic: topic, Partition: p}]
	return o.Offset, is
}

func (c *fakeCommits) written() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// check is GroupOffsetWithinMirror.
func (c *fakeCommits) check(topic string, end func(int32) (kafka.Offset, bool)) {
	for name, list := range c.Committed(topic) {
		for _, o := range list {
			if e, counts := end(o.TopicPartition.Partition); counts && o.Offset > e {
				c.rig.violate("group %s stands at %d on %s, whose mirror ends at %d", name, o.Offset, o.TopicPartition, e)
			}
		}
	}
}
