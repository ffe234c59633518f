package resttest

import (
	"context"
	"crypto/ed25519"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/rest"
)

// ClusterID is the id of the cluster of thin air.
const ClusterID = "hawserTestCluster_0001"

// Cluster is a cluster of thin air. Tests fill it through its fields and methods.
type Cluster struct {
	Links  *Links
	Topics *Topics
	Groups *Groups
	Check  *Checker
	Door   http.Handler
}

// New makes a cluster whose door is checked. with may change the door's dependencies.
func New(tb testing.TB, with ...func(*rest.Deps)) *Cluster {
	tb.Helper()
	c := &Cluster{Links: NewLinks(), Topics: &Topics{topics: map[string]*topic{}}, Groups: &Groups{}, Check: NewChecker(tb)}
	deps := rest.Deps{Cluster: Identity{}, Links: c.Links, Topics: c.Topics, Groups: c.Groups}
	for _, change := range with {
		change(&deps)
	}
	c.Door = c.Check.Wrap(tb, rest.Handler(deps))
	return c
}

// Serve opens the door on a port of this machine until the test ends, and answers its URL.
func (c *Cluster) Serve(tb testing.TB) string {
	srv := httptest.NewServer(c.Door)
	tb.Cleanup(srv.Close)
	return srv.URL
}

// Identity is who the cluster of thin air is.
type Identity struct{}

// ID is ClusterID.
func (Identity) ID() string { return ClusterID }

// Controller is broker 1.
func (Identity) Controller() int32 { return 1 }

// ReportKey is a fixed key.
func (Identity) ReportKey() ed25519.PublicKey { return reportKey.Public().(ed25519.PublicKey) }

var reportKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// Brokers is two, in the wrong order.
func (Identity) Brokers() []rest.Broker {
	return []rest.Broker{{ID: 2, Host: "b2.example", Port: 9092, Rack: "east"}, {ID: 1, Host: "b1.example", Port: 9092}}
}

// Topics is topics in memory.
type Topics struct {
	mu     sync.Mutex
	topics map[string]*topic // guarded by mu
}

type topic struct {
	rest.Topic
	set map[string]string
}

// defaults is the configs that every topic here has.
var defaults = map[string]string{"cleanup.policy": "delete", "retention.ms": "604800000"}

// Topics lists them in no order.
func (ts *Topics) Topics(context.Context) ([]rest.Topic, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var out []rest.Topic
	for _, t := range ts.topics {
		out = append(out, t.Topic)
	}
	return out, nil
}

func (ts *Topics) find(name string) (*topic, error) {
	if t, ok := ts.topics[name]; ok {
		return t, nil
	}
	return nil, kafka.UnknownTopicError(name)
}

// Topic finds one.
func (ts *Topics) Topic(_ context.Context, name string) (rest.Topic, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, err := ts.find(name)
	if err != nil {
		return rest.Topic{}, err
	}
	return t.Topic, nil
}

// CreateTopic makes one with a replica on broker 1.
func (ts *Topics) CreateTopic(_ context.Context, spec rest.TopicSpec) (rest.Topic, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if _, ok := ts.topics[spec.Name]; ok {
		return rest.Topic{}, kafka.Errorf(kafka.TopicAlreadyExists, "Topic '%s' already exists.", spec.Name)
	}
	if spec.ReplicationFactor > 2 {
		return rest.Topic{}, kafka.Errorf(kafka.InvalidReplicationFactor, "Replication factor: %d larger than available brokers: 2.", spec.ReplicationFactor)
	}
	if err := checkKnown(slices.Collect(maps.Keys(spec.Configs))); err != nil {
		return rest.Topic{}, err
	}
	t := &topic{Topic: rest.Topic{Name: spec.Name, ReplicationFactor: max(spec.ReplicationFactor, 1)}, set: maps.Clone(spec.Configs)}
	t.grow(max(spec.Partitions, 1))
	if !spec.ValidateOnly {
		ts.topics[spec.Name] = t
	}
	return t.Topic, nil
}

func (t *topic) grow(total int32) {
	for n := int32(len(t.Partitions)); n < total; n++ {
		t.Partitions = append(t.Partitions, rest.Partition{ID: n, Leader: 1, Replicas: []int32{1}, InSync: []int32{1}})
	}
}

func checkKnown(names []string) error {
	for _, name := range names {
		if _, ok := defaults[name]; !ok {
			return kafka.Errorf(kafka.InvalidConfig, "Unknown topic config name: %s", name)
		}
	}
	return nil
}

// DeleteTopic removes one.
func (ts *Topics) DeleteTopic(_ context.Context, name string) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	_, err := ts.find(name)
	delete(ts.topics, name)
	return err
}

// AddPartitions grows one.
func (ts *Topics) AddPartitions(_ context.Context, name string, total int32) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, err := ts.find(name)
	if err != nil {
		return err
	}
	if int(total) <= len(t.Partitions) {
		return kafka.Errorf(kafka.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", name, len(t.Partitions), total)
	}
	t.grow(total)
	return nil
}

// TopicConfigs lists the configs of one, in no order.
func (ts *Topics) TopicConfigs(_ context.Context, name string) ([]rest.TopicConfig, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, err := ts.find(name)
	if err != nil {
		return nil, err
	}
	return configsOf(t.set), nil
}

// DefaultTopicConfigs lists the defaults.
func (ts *Topics) DefaultTopicConfigs(context.Context, string) ([]rest.TopicConfig, error) {
	return configsOf(nil), nil
}

func configsOf(set map[string]string) []rest.TopicConfig {
	var out []rest.TopicConfig
	for name, value := range defaults {
		cfg := rest.TopicConfig{Name: name, Value: &value, Default: true, Source: "DEFAULT_CONFIG",
			Synonyms: []rest.Synonym{{Name: "log." + name, Value: &value, Source: "DEFAULT_CONFIG"}}}
		if own, ok := set[name]; ok {
			cfg.Value, cfg.Default, cfg.Source = &own, false, "DYNAMIC_TOPIC_CONFIG"
		}
		out = append(out, cfg)
	}
	return out
}

// AlterTopicConfigs changes the configs of one.
func (ts *Topics) AlterTopicConfigs(_ context.Context, change rest.TopicConfigChange) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, err := ts.find(change.Topic)
	if err != nil {
		return err
	}
	var names []string
	for _, c := range change.Changes {
		names = append(names, c.Name)
	}
	if err := checkKnown(names); err != nil || change.ValidateOnly {
		return err
	}
	if t.set == nil {
		t.set = map[string]string{}
	}
	for _, c := range change.Changes {
		delete(t.set, c.Name)
		if c.Value != nil {
			t.set[c.Name] = *c.Value
		}
	}
	return nil
}

// Groups is consumer groups in memory.
type Groups struct {
	List   []rest.Group
	LagsOf map[string][]rest.GroupLag
}

// Groups lists them.
func (gs *Groups) Groups(context.Context) ([]rest.Group, error) { return gs.List, nil }

// Group finds one.
func (gs *Groups) Group(_ context.Context, id string) (rest.Group, error) {
	for _, g := range gs.List {
		if g.ID == id {
			return g, nil
		}
	}
	return rest.Group{}, kafka.Errorf(kafka.GroupIDNotFound, "Consumer group '%s' cannot be found.", id)
}

// Lags lists the lags of one.
func (gs *Groups) Lags(ctx context.Context, id string) ([]rest.GroupLag, error) {
	if _, err := gs.Group(ctx, id); err != nil {
		return nil, err
	}
	return gs.LagsOf[id], nil
}
