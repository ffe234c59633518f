package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
)

// fakeSource is a source cluster.
type fakeSource struct {
	rights  map[string]source.Rights // what is not there is allowed
	mu      sync.Mutex               // guards what follows
	id      string
	err     error // of every call
	topics  map[string]source.Topic
	unknown map[string]int // by topic: answers that do not know it yet
	configs map[string]source.TopicConfigs
	groups  map[string]source.GroupOffsets
	starts  map[kafka.TopicPartition]kafka.Offset
	ends    map[kafka.TopicPartition]kafka.Offset
	brokers []source.Broker
	acls    []meta.ACL
	aclsErr error
	aclsOf  func() []meta.ACL // of the cluster that the source is; nil: acls
	probes  int
	other   *Links                // the source's own links, where it is a hawser
	asked   func(peer.Key) error  // looks at each question to it first
	deaf    error                 // why the offsets topic cannot be read
	watch   func(groups []string) // who is told of commits
	moving  int                   // how many of the next ListOffset are answered as by a leader that does not know yet
}

func newFakeSource() *fakeSource {
	return &fakeSource{
		id: "source-cluster-id-0001", topics: map[string]source.Topic{}, unknown: map[string]int{}, configs: map[string]source.TopicConfigs{}, groups: map[string]source.GroupOffsets{},
		starts: map[kafka.TopicPartition]kafka.Offset{}, ends: map[kafka.TopicPartition]kafka.Offset{},
		brokers: []source.Broker{{ID: 1, Address: "source:9092"}},
	}
}

// change changes the source under its lock.
func (s *fakeSource) change(fn func(*fakeSource)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s)
}

func (s *fakeSource) topic(name string, partitions int32, configs ...string) {
	s.change(func(s *fakeSource) {
		old := s.topics[name]
		if old.ID.IsZero() {
			old.ID = kafka.NewTopicID()
		}
		s.topics[name] = source.Topic{Name: name, ID: old.ID, Partitions: partitions}
		values := map[string]string{
			"max.message.bytes": "1048588", "cleanup.policy": "delete", "message.timestamp.type": "CreateTime",
			"message.timestamp.before.max.ms": "9223372036854775807", "message.timestamp.after.max.ms": "3600000",
			"retention.ms": "604800000", "retention.bytes": "-1", "delete.retention.ms": "86400000",
			"min.compaction.lag.ms": "0", "max.compaction.lag.ms": "9223372036854775807", "min.insync.replicas": "2", "compression.type": "producer",
		}
		for i := 0; i < len(configs); i += 2 {
			values[configs[i]] = configs[i+1]
		}
		s.configs[name] = source.TopicConfigs{Values: values}
	})
}

func (s *fakeSource) commit(group, topic string, p int32, offset kafka.Offset) {
	defer func() {
		s.mu.Lock()
		watch := s.watch
		s.mu.Unlock()
		if watch != nil {
			watch([]string{group})
		}
	}()
	s.change(func(s *fakeSource) {
		g := s.groups[group]
		tp := kafka.TopicPartition{Topic: topic, Partition: p}
		g.List = slices.DeleteFunc(slices.Clone(g.List), func(o source.GroupOffset) bool { return o.TopicPartition == tp })
		g.List = append(g.List, source.GroupOffset{TopicPartition: tp, Offset: offset})
		s.groups[group] = g
	})
}

func (s *fakeSource) Probe(context.Context) (source.Probe, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes++
	return source.Probe{ClusterID: s.id, Brokers: slices.Clone(s.brokers)}, s.err
}

func (s *fakeSource) Call(ctx context.Context, rq *peer.Request) ([]byte, error) {
	s.mu.Lock()
	other, err, asked := s.other, s.err, s.asked
	s.mu.Unlock()
	if err == nil && asked != nil {
		err = asked(rq.Ask.Key)
	}
	switch {
	case err != nil:
		return nil, err
	case other == nil:
		return nil, peer.ErrNotHawser
	}
	return other.Answer(ctx, "User:link", rq)
}

func (s *fakeSource) Hold(context.Context, string) (*source.Held, error) {
	return nil, errors.New("a scripted source holds no connections")
}

func (s *fakeSource) ProbeBrokers(_ context.Context, list []source.Broker) []source.Broker {
	return list
}

func (s *fakeSource) Topics(_ context.Context, names []string) ([]source.Topic, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if names == nil {
		names = slices.Sorted(maps.Keys(s.topics))
	}
	var list []source.Topic
	for _, n := range names {
		t, is := s.topics[n]
		if !is || s.unknown[n] > 0 {
			s.unknown[n]--
			t = source.Topic{Name: n, Err: kafka.UnknownTopicError(n)}
		}
		list = append(list, t)
	}
	return list, nil
}

func (s *fakeSource) TopicConfigs(_ context.Context, names []string) (map[string]source.TopicConfigs, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	out := map[string]source.TopicConfigs{}
	for _, n := range names {
		c := s.configs[n]
		out[n] = source.TopicConfigs{Values: maps.Clone(c.Values), Err: c.Err}
	}
	return out, nil
}

func (s *fakeSource) Rights(context.Context, []string) (map[string]source.Rights, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.rights), s.err
}

func (s *fakeSource) Groups(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.groups)), s.err
}

func (s *fakeSource) GroupOffsets(_ context.Context, groups, topics []string) (map[string]source.GroupOffsets, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]source.GroupOffsets{}
	for _, g := range groups {
		got := source.GroupOffsets{Err: s.groups[g].Err}
		for _, o := range s.groups[g].List {
			if slices.Contains(topics, o.TopicPartition.Topic) {
				got.List = append(got.List, o)
			}
		}
		out[g] = got
	}
	return out, s.err
}

func (s *fakeSource) WatchCommits(ctx context.Context, changed func(groups []string)) error {
	s.mu.Lock()
	deaf := s.deaf
	if deaf == nil {
		s.watch = changed
	}
	s.mu.Unlock()
	if deaf != nil {
		return deaf
	}
	<-ctx.Done()
	s.change(func(s *fakeSource) { s.watch = nil })
	return ctx.Err()
}

func (s *fakeSource) ACLs(context.Context) ([]meta.ACL, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	if s.aclsOf != nil {
		return s.aclsOf(), s.aclsErr
	}
	return slices.Clone(s.acls), s.aclsErr
}

func (s *fakeSource) ListOffset(_ context.Context, tp kafka.TopicPartition, spec int64) (kafka.Offset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moving > 0 {
		s.moving--
		return -1, kafka.Errorf(kafka.NotLeaderForPartition, "source answers for partition %s", tp)
	}
	switch spec {
	case startEarliest:
		return s.starts[tp], s.err
	case startLatest:
		return s.ends[tp], s.err
	}
	return -1, s.err
}

func (s *fakeSource) Leaders(context.Context, string, bool) (fetcher.Leaders, error) {
	return fetcher.Leaders{}, nil
}
func (s *fakeSource) Session(context.Context, int32) (fetcher.Session, error) { return nil, nil }
func (s *fakeSource) EpochEnd(context.Context, kafka.TopicPartition, kafka.LeaderEpoch, kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error) {
	return -1, -1, nil
}
func (s *fakeSource) LastStable(context.Context, kafka.TopicPartition) (kafka.Offset, error) {
	return -1, nil
}
func (s *fakeSource) Close() {}

// fakePool is fetching that is told what to find.
type fakePool struct {
	rig    *rig
	cfg    fetcher.Config
	events func(fetcher.Event)

	mu       sync.Mutex // guards what follows
	assigned map[kafka.TopicPartition]fetcher.Assignment
	status   map[kafka.TopicPartition]fetcher.Status
	level    func(topic string) (bool, string)
	asked    int
	looks    int // how often a status was asked for
	closed   bool
}

func (p *fakePool) Assign(list []fetcher.Assignment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rig.note("assign %d", len(list))
	clear(p.assigned)
	for _, a := range list {
		p.assigned[a.Mirror] = a
	}
}

func (p *fakePool) fetches(topic string) int {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for tp := range p.assigned {
		if tp.Topic == topic {
			n++
		}
	}
	return n
}

func (p *fakePool) Reconfigure(cfg fetcher.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cfg = cfg
}

func (p *fakePool) Status(tp kafka.TopicPartition) fetcher.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, is := p.status[tp]
	p.looks++
	if a, assigned := p.assigned[tp]; !is && assigned && strings.HasSuffix(tp.Topic, " (copy)") {
		return fetcher.Status{SourceEnd: a.Target.Offsets().LogEnd, Compared: true, LastContact: time.Now()} // it has all there is
	}
	if !is {
		return fetcher.Status{SourceEnd: -1, SourceStart: -1, LastFetched: -1, LagRecords: -1, LastContact: time.Now()}
	}
	return s
}

// fault makes a partition faulty since a time.
func (p *fakePool) fault(topic string, n int32, f fetcher.Fault, since time.Time) {
	tp := kafka.TopicPartition{Topic: topic, Partition: n}
	p.mu.Lock()
	p.status[tp] = fetcher.Status{Fault: f, Err: fmt.Errorf("scripted %s", f), Since: since, LagRecords: -1, LastFetched: -1}
	p.mu.Unlock()
	p.events(fetcher.Event{Mirror: tp, Kind: eventFault, Fault: f, Err: fmt.Errorf("scripted %s", f)})
}

func (p *fakePool) heal(topic string, n int32) {
	tp := kafka.TopicPartition{Topic: topic, Partition: n}
	p.mu.Lock()
	delete(p.status, tp)
	p.mu.Unlock()
	p.events(fetcher.Event{Mirror: tp, Kind: eventHealed})
}

func (p *fakePool) CaughtUp(_ context.Context, topic string) (bool, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.level == nil {
		return true, "", nil
	}
	ok, text := p.level(topic)
	return ok, text, nil
}

func (p *fakePool) script(level func(string) (bool, string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level = level
}

func (p *fakePool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.assigned)
	p.closed = true
}
