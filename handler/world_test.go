package handler

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/partition"
	"github.com/hawserio/hawser/store/disk"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// world is a door with what stands behind it, held in memory where it is not
// what is tested.
type world struct {
	*Server
	t       testing.TB
	mu      sync.Mutex
	topics  map[string]*meta.Topic
	node    map[string]string
	cluster map[string]string
	named   map[resource]map[string]string // of groups and client metrics
	lastID  kafka.ProducerID
	open    func(*meta.Topic) error // opens a topic's partitions; nil: none are ever open
	owner   *partition.Owner        // of a full world
	stream  *memoryStream
}

const (
	testCluster = "MkU3OEVBNTcwNTJENDM2Qg"
	testNode    = 1
	plain       = "PLAINTEXT"
)

// newWorld makes a door; change may alter what it is given. Without partitions, unless change brings them.
func newWorld(t testing.TB, change func(*world, *Deps)) *world {
	t.Helper()
	w := &world{t: t, topics: map[string]*meta.Topic{}, node: map[string]string{}, cluster: map[string]string{}}
	d := Deps{
		ClusterID: testCluster, NodeID: testNode, Topics: worldTopics{w}, Configs: worldConfigs{w},
		Partition: func(kafka.PartitionID) *partition.Partition { return nil },
		ProducerID: func(context.Context) (kafka.ProducerID, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.lastID++
			return 7<<32 | w.lastID, nil
		},
		LogDir: LogDir{Path: "/data"},
		Logger: slog.New(slog.NewTextHandler(testLog{t}, nil)),
	}
	if change != nil {
		change(w, &d)
	}
	w.Server = NewServer(d)
	if err := w.Listen(Listener{Name: plain, Address: "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	return w
}

// serve starts the door and ends it with the test.
func (w *world) serve() *world {
	done := make(chan error, 1)
	go func() { done <- w.Serve() }()
	w.t.Cleanup(func() {
		w.Close()
		if err := <-done; err != nil {
			w.t.Errorf("serve: %v", err)
		}
	})
	return w
}

// testLog writes a server's log to the test's.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "BUG:") {
		l.t.Errorf("%s", p)
	}
	return len(p), nil
}

type worldTopics struct{ w *world }

func (ts worldTopics) ByName(name string) *meta.Topic {
	ts.w.mu.Lock()
	defer ts.w.mu.Unlock()
	return ts.w.topics[name]
}

func (ts worldTopics) ByID(id kafka.TopicID) *meta.Topic {
	for _, t := range ts.All() {
		if t.ID == id {
			return t
		}
	}
	return nil
}

func (ts worldTopics) All() (list []*meta.Topic) {
	ts.w.mu.Lock()
	defer ts.w.mu.Unlock()
	for _, t := range ts.w.topics {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *meta.Topic) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func (ts worldTopics) Validate(_ context.Context, n NewTopic) (*meta.Topic, error) {
	if ts.ByName(n.Name) != nil {
		return nil, kafka.Errorf(kafka.TopicAlreadyExists, "Topic '%s' already exists.", n.Name)
	}
	for _, t := range ts.All() {
		if kafka.CollisionKey(t.Name) == kafka.CollisionKey(n.Name) {
			return nil, kafka.Errorf(kafka.InvalidTopicException, "Topic '%s' collides with existing topic: %s", n.Name, t.Name)
		}
	}
	return &meta.Topic{Name: n.Name, Partitions: n.Partitions, ReplicationFactor: n.ReplicationFactor, Configs: n.Configs}, nil
}

func (ts worldTopics) Create(ctx context.Context, n NewTopic) (*meta.Topic, error) {
	t, err := ts.Validate(ctx, n)
	if err != nil {
		return nil, err
	}
	t.ID = kafka.NewTopicID()
	return t, ts.put(t)
}

func (ts worldTopics) put(t *meta.Topic) error {
	if ts.w.open != nil {
		if err := ts.w.open(t); err != nil {
			return err
		}
	}
	ts.w.mu.Lock()
	defer ts.w.mu.Unlock()
	ts.w.topics[t.Name] = t
	return nil
}

func (ts worldTopics) Delete(_ context.Context, id kafka.TopicID) error {
	t := ts.ByID(id)
	if t == nil {
		return kafka.UnknownTopicID
	}
	ts.w.mu.Lock()
	defer ts.w.mu.Unlock()
	delete(ts.w.topics, t.Name)
	return nil
}

func (ts worldTopics) Grow(_ context.Context, id kafka.TopicID, count int32) error {
	old := ts.ByID(id)
	if old == nil {
		return kafka.UnknownTopicID
	}
	t := *old
	t.Partitions = count
	return ts.put(&t)
}

type worldConfigs struct{ w *world }

func (cs worldConfigs) Broker() (node, cluster, static map[string]string) {
	cs.w.mu.Lock()
	defer cs.w.mu.Unlock()
	return cs.w.node, cs.w.cluster, map[string]string{}
}

func (cs worldConfigs) CheckBroker(string, map[string]string) error { return nil }

func (cs worldConfigs) UpdateBroker(_ context.Context, entity string, change func(map[string]string) (map[string]string, error)) error {
	cs.w.mu.Lock()
	defer cs.w.mu.Unlock()
	layer := &cs.w.node
	if entity == "" {
		layer = &cs.w.cluster
	}
	wanted, err := change(*layer)
	if err == nil {
		*layer = wanted
	}
	return err
}

func (cs worldConfigs) Resource(kind kmsg.ConfigResourceType, name string) map[string]string {
	cs.w.mu.Lock()
	defer cs.w.mu.Unlock()
	return cs.w.named[resource{kind, name}]
}

func (cs worldConfigs) Resources(kind kmsg.ConfigResourceType) (names []string) {
	cs.w.mu.Lock()
	defer cs.w.mu.Unlock()
	for r := range cs.w.named {
		if r.kind == kind {
			names = append(names, r.name)
		}
	}
	slices.Sort(names)
	return names
}

func (cs worldConfigs) UpdateResource(_ context.Context, kind kmsg.ConfigResourceType, name string, change func(map[string]string) (map[string]string, error)) error {
	wanted, err := change(cs.Resource(kind, name))
	if err != nil {
		return err
	}
	cs.w.mu.Lock()
	defer cs.w.mu.Unlock()
	if cs.w.named == nil {
		cs.w.named = map[resource]map[string]string{}
	}
	cs.w.named[resource{kind, name}] = wanted
	return nil
}

func (cs worldConfigs) UpdateTopic(_ context.Context, id kafka.TopicID, change func(map[string]string) (map[string]string, error)) error {
	old := worldTopics(cs).ByID(id)
	if old == nil {
		return kafka.UnknownTopicID
	}
	wanted, err := change(old.Configs)
	if err != nil {
		return err
	}
	t := *old
	t.Configs = wanted
	return worldTopics(cs).put(&t)
}

// client speaks the protocol without a client library's help.
type client struct {
	t  testing.TB
	nc net.Conn
	id *string
}

func (w *world) dial() *client {
	w.t.Helper()
	return dial(w.t, w.Addr(plain))
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { _ = nc.Close() })
	return &client{t: t, nc: nc}
}

// write sends a request.
func (c *client) write(rq kmsg.Request) {
	c.t.Helper()
	f := kmsg.NewRequestFormatter()
	if c.id != nil {
		f = kmsg.NewRequestFormatter(kmsg.FormatterClientID(*c.id))
	}
	if _, err := c.nc.Write(f.AppendRequest(nil, rq, 42)); err != nil {
		c.t.Fatalf("write %s: %v", kmsg.NameForKey(rq.Key()), err)
	}
}

// read reads the answer to rq, in the version given if it is another.
func (c *client) read(rq kmsg.Request) (kmsg.Response, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.nc, frame); err != nil {
		return nil, err
	}
	if corr := binary.BigEndian.Uint32(frame); corr != 42 {
		return nil, fmt.Errorf("correlation id %d", corr)
	}
	resp := rq.ResponseKind()
	resp.SetVersion(rq.GetVersion())
	body := frame[4:]
	if resp.IsFlexible() && rq.Key() != kmsg.ApiVersions.Int16() {
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// ask sends a request of a version and returns its answer.
func ask[Resp kmsg.Response](c *client, version int16, rq kmsg.Request) Resp {
	c.t.Helper()
	rq.SetVersion(version)
	c.write(rq)
	resp, err := c.read(rq)
	if err != nil {
		c.t.Fatalf("%s version %d: %v", kmsg.NameForKey(rq.Key()), version, err)
	}
	return resp.(Resp)
}

// closed fails unless the server closes the connection without another byte.
func (c *client) closed(why string) {
	c.t.Helper()
	var b [1]byte
	if n, err := c.nc.Read(b[:]); err == nil || n > 0 {
		c.t.Fatalf("%s: the connection stayed open", why)
	}
}

func address(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

func contextWithTimeout(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// newFullWorld has partitions, groups and configs as a broker has them.
func newFullWorld(t testing.TB, more ...func(*world, *Deps)) *world {
	t.Helper()
	st, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stream := &memoryStream{states: map[kafka.TopicID]*meta.Partitions{}}
	owner := partition.NewOwner(partition.Config{
		ClusterID: testCluster, ProducerPrefix: 7, SyncDelay: 10 * time.Millisecond, SyncBytes: 32 << 20, UnsyncedMax: 64 << 20,
		Logger: slog.New(slog.DiscardHandler),
	}, st, stream)
	t.Cleanup(func() {
		if err := owner.Close(); err != nil {
			t.Errorf("close partitions: %v", err)
		}
	})
	return newWorld(t, func(w *world, d *Deps) {
		w.owner, w.stream = owner, stream
		w.open = func(topic *meta.Topic) error {
			return owner.Open(topic, stream.grow(topic), topicConfig(topic))
		}
		d.Partition = owner.Get
		d.Groups = w.groups()
		for _, change := range more {
			change(w, d)
		}
	})
}

// topicConfig is the configs that matter to a partition, with Kafka's defaults.
func topicConfig(t *meta.Topic) partition.TopicConfig {
	return partition.TopicConfig{
		Log:                  commitlog.Config{SegmentBytes: 64 << 20, SegmentAge: time.Hour, IndexInterval: 4096},
		MaxMessageBytes:      1048588,
		LogAppendTime:        t.Configs["message.timestamp.type"] == "LogAppendTime",
		TimestampBeforeMaxMs: math.MaxInt64,
		TimestampAfterMaxMs:  math.MaxInt64,
		Compression:          "producer",
		Compacted:            t.Configs["cleanup.policy"] == "compact",
	}
}

func (w *world) groups() *group.Coordinator {
	topics := worldTopics{w}
	groups := group.New(group.Config{
		SessionMin: time.Millisecond, SessionMax: time.Minute, MaxSize: 1000, OffsetsRetention: time.Hour, MetadataMaxBytes: 4096,
		Logger: slog.New(slog.DiscardHandler),
	}, group.Env{
		OffsetsPartitions: 1,
		OffsetsPartition: func(ctx context.Context, n int32) (*partition.Partition, error) {
			t := topics.ByName(kafka.ConsumerOffsetsTopic)
			if t == nil {
				var err error
				if t, err = topics.Create(ctx, NewTopic{Name: kafka.ConsumerOffsetsTopic, Partitions: 1, ReplicationFactor: 1}); err != nil {
					return nil, err
				}
			}
			return w.owner.Get(kafka.PartitionID{Topic: t.ID, Partition: n}), nil
		},
		Bounds: func(tp kafka.TopicPartition) (start, end kafka.Offset, ok bool) {
			t := topics.ByName(tp.Topic)
			if !has(t, tp.Partition) {
				return 0, 0, false
			}
			o := w.partition(tp.Topic, tp.Partition).Offsets()
			return o.LogStart, o.HighWatermark, true
		},
		TopicID: func(name string) (kafka.TopicID, bool) {
			t := topics.ByName(name)
			if t == nil {
				return kafka.TopicID{}, false
			}
			return t.ID, true
		},
	})
	if err := groups.Load(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(groups.Close)
	return groups
}

// partition is an open partition of a topic that is there.
func (w *world) partition(topic string, number int32) *partition.Partition {
	t := worldTopics{w}.ByName(topic)
	return w.owner.Get(kafka.PartitionID{Topic: t.ID, Partition: number})
}

// make makes a topic.
func (w *world) make(name string, partitions int32, configs map[string]string) *meta.Topic {
	w.t.Helper()
	t, err := worldTopics{w}.Create(w.t.Context(), NewTopic{Name: name, Partitions: partitions, ReplicationFactor: 1, Configs: configs})
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// memoryStream is the owner's stream of entries without a store behind it.
type memoryStream struct {
	mu     sync.Mutex
	states map[kafka.TopicID]*meta.Partitions
}

// grow gives new partitions their first state.
func (s *memoryStream) grow(t *meta.Topic) *meta.Partitions {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, now := s.states[t.ID], &meta.Partitions{Topic: t.ID}
	if old != nil {
		now.List = slices.Clone(old.List)
	}
	for int32(len(now.List)) < t.Partitions {
		now.List = append(now.List, meta.Partition{Role: meta.RoleOpen, Epoch: 1})
	}
	s.states[t.ID] = now
	return now
}

func (s *memoryStream) UpdatePartitions(_ context.Context, topics []kafka.TopicID, decide func(*meta.Partitions) (*meta.Partitions, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range topics {
		now := &meta.Partitions{Topic: id, List: slices.Clone(s.states[id].List)}
		wanted, err := decide(now)
		if err != nil {
			return err
		}
		if wanted != nil {
			s.states[id] = wanted
		}
	}
	return nil
}
