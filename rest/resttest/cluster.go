package resttest

import (
	"context"
	"crypto/ed25519"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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
	Users  *Users
	Check  *Checker
	Door   http.Handler
}

// New makes a cluster whose door is checked. with may change the door's dependencies.
func New(tb testing.TB, with ...func(*rest.Deps)) *Cluster {
	tb.Helper()
	c := &Cluster{Links: NewLinks(), Topics: &Topics{topics: map[string]*topic{}}, Groups: &Groups{}, Users: &Users{}, Check: NewChecker(tb)}
	deps := rest.Deps{Cluster: Identity{}, Links: c.Links, Topics: c.Topics, Groups: c.Groups, Configs: &Configs{}, Users: c.Users}
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
		return rest.Topic{}, kafka.Errorf(kafka.InvalidReplicationFactor, "Replication factor: %d larger than available brokers: 2.",
			spec.ReplicationFactor)
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
		return kafka.Errorf(kafka.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", name,
			len(t.Partitions), total)
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

// Configs is the configs of brokers in memory, by broker; rest.EveryBroker is the defaults of all.
type Configs struct {
	mu  sync.Mutex
	set map[int32]map[string]string // guarded by mu
}

// BrokerConfigs is two configs of a broker, one of them a secret, or what was set for all.
func (cs *Configs) BrokerConfigs(_ context.Context, broker int32) ([]rest.TopicConfig, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var out []rest.TopicConfig
	for name, value := range cs.set[broker] {
		out = append(out, rest.TopicConfig{Name: name, Value: &value, Source: "DYNAMIC_BROKER_CONFIG",
			Synonyms: []rest.Synonym{{Name: name, Value: &value, Source: "DYNAMIC_BROKER_CONFIG"}}})
	}
	if broker != rest.EveryBroker {
		secret, id := "hidden-secret", "1"
		out = append(out, rest.TopicConfig{Name: "ssl.keystore.password", Value: &secret, Sensitive: true, Source: "STATIC_BROKER_CONFIG"},
			rest.TopicConfig{Name: "node.id", Value: &id, Default: true, ReadOnly: true})
	}
	return out, nil
}

// AlterBrokerConfigs knows the names of defaults, with log. before them.
func (cs *Configs) AlterBrokerConfigs(_ context.Context, change rest.BrokerConfigChange) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range change.Changes {
		if _, ok := defaults[strings.TrimPrefix(c.Name, "log.")]; !ok {
			return kafka.Errorf(kafka.InvalidConfig, "Unknown broker config name: %s", c.Name)
		}
	}
	if change.ValidateOnly {
		return nil
	}
	if cs.set == nil {
		cs.set = map[int32]map[string]string{}
	}
	if cs.set[change.Broker] == nil {
		cs.set[change.Broker] = map[string]string{}
	}
	for _, c := range change.Changes {
		delete(cs.set[change.Broker], c.Name)
		if c.Value != nil {
			cs.set[change.Broker][c.Name] = *c.Value
		}
	}
	return nil
}

// Users is users in memory.
type Users struct {
	mu       sync.Mutex
	list     []rest.User       // guarded by mu
	Password map[string]string // by user, as last set
}

// Users lists them.
func (us *Users) Users(context.Context) ([]rest.User, error) {
	us.mu.Lock()
	defer us.mu.Unlock()
	return slices.Clone(us.list), nil
}

// SetUser makes one, or one anew.
func (us *Users) SetUser(ctx context.Context, change rest.UserChange) error {
	user := rest.User{Name: change.Name}
	mechanisms := change.Mechanisms
	if len(mechanisms) == 0 {
		mechanisms = []string{"SCRAM-SHA-256", "SCRAM-SHA-512"}
	}
	for _, mechanism := range mechanisms {
		if !strings.HasPrefix(mechanism, "SCRAM-SHA-") {
			return kafka.Errorf(kafka.UnsupportedSaslMechanism, "Unknown mechanism %s", mechanism)
		}
		user.Credentials = append(user.Credentials, rest.Credential{Mechanism: mechanism, Iterations: change.Iterations})
	}
	if err := us.DeleteUser(ctx, change.Name, mechanisms); err != nil {
		return err
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	if us.Password == nil {
		us.Password = map[string]string{}
	}
	us.list, us.Password[change.Name] = append(us.list, user), change.Password
	return nil
}

// DeleteUser takes credentials away.
func (us *Users) DeleteUser(_ context.Context, name string, mechanisms []string) error {
	us.mu.Lock()
	defer us.mu.Unlock()
	for i := range us.list {
		if us.list[i].Name == name {
			us.list[i].Credentials = slices.DeleteFunc(slices.Clone(us.list[i].Credentials),
				func(c rest.Credential) bool { return slices.Contains(mechanisms, c.Mechanism) })
		}
	}
	us.list = slices.DeleteFunc(us.list, func(u rest.User) bool { return len(u.Credentials) == 0 })
	return nil
}
