package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/fetcher"
	"github.com/hawserio/hawser/link/fetcher/stubtest"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/meta/metatest"
	"github.com/hawserio/hawser/partition"
	"github.com/hawserio/hawser/store/disk"
)

// real is a cluster of the real packages below links, with a stub broker as its source.
type real struct {
	*rig
	stub  *stubtest.Cluster
	owner *partition.Owner
	group *group.Coordinator
	dir   string
}

// stubSource adds to a real source what the stub brokers do not serve.
type stubSource struct {
	*source.Cluster
	script *fakeSource
}

func (s stubSource) TopicConfigs(ctx context.Context, names []string) (map[string]source.TopicConfigs, error) {
	return s.script.TopicConfigs(ctx, names)
}
func (s stubSource) Rights(ctx context.Context, topics []string) (map[string]source.Rights, error) {
	return s.script.Rights(ctx, topics)
}
func (s stubSource) Groups(ctx context.Context) ([]string, error) { return s.script.Groups(ctx) }
func (s stubSource) GroupOffsets(ctx context.Context, groups, topics []string) (map[string]source.GroupOffsets, error) {
	return s.script.GroupOffsets(ctx, groups, topics)
}

func newReal(t *testing.T) *real {
	t.Helper()
	t.Parallel()
	r := &real{rig: &rig{t: t, meta: metatest.New(t), source: newFakeSource()}, stub: stubtest.NewCluster(t, 2), dir: t.TempDir()}
	st, err := disk.Open(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	img := r.meta.Image()
	r.owner = partition.NewOwner(partition.Config{ClusterID: img.Cluster.ID, ProducerPrefix: img.Cluster.ProducerPrefix, Logger: log}, st, r.meta)
	r.group = group.New(group.Config{Logger: log, MetadataMaxBytes: 4096, SessionMax: time.Minute}, group.Env{
		OffsetsPartitions: 4, OffsetsPartition: r.offsetsPartition,
		Bounds: func(tp kafka.TopicPartition) (kafka.Offset, kafka.Offset, bool) {
			p := r.owner.Get(kafka.PartitionID{Topic: r.meta.Image().TopicIDs[tp.Topic], Partition: tp.Partition})
			if p == nil {
				return 0, 0, false
			}
			at := p.Offsets()
			return at.LogStart, at.HighWatermark, true
		},
		TopicID: func(name string) (kafka.TopicID, bool) { id, is := r.meta.Image().TopicIDs[name]; return id, is },
	})
	r.storeTopic(kafka.ConsumerOffsetsTopic, 4, meta.RoleOpen)
	if err := r.group.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.links = New(Env{
		Meta: r.meta, Owner: r.owner, Groups: r.group, OpenTopic: r.openTopic, Logger: log,
		Dial: func(cfg source.Config) (Source, error) {
			c, err := source.Dial(cfg)
			return stubSource{c, r.source}, err
		},
	})
	if err := r.links.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.links.Close()
		r.group.Close()
		if err := r.owner.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *real) storeTopic(name string, partitions int, role meta.Role) kafka.TopicID {
	r.t.Helper()
	id := kafka.NewTopicID()
	states := &meta.Partitions{Topic: id, List: make([]meta.Partition, partitions)}
	for p := range states.List {
		states.List[p].Role = role
	}
	err := r.meta.Update(r.t.Context(), func(*meta.Image) ([]meta.Change, error) {
		return []meta.Change{meta.PutTopic(&meta.Topic{ID: id, Name: name, Partitions: int32(partitions)}), meta.PutPartitions(states)}, nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.openTopic(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *real) openTopic(_ context.Context, id kafka.TopicID) error {
	img := r.meta.Image()
	return r.owner.Open(img.Topics[id], img.Partitions[id], partition.TopicConfig{Log: commitlog.Config{SegmentBytes: 1 << 20}, MaxMessageBytes: 1 << 20, TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: math.MaxInt64})
}

func (r *real) offsetsPartition(_ context.Context, n int32) (*partition.Partition, error) {
	p := r.owner.Get(kafka.PartitionID{Topic: r.meta.Image().TopicIDs[kafka.ConsumerOffsetsTopic], Partition: n})
	if p == nil {
		return nil, errors.New("no offsets partition")
	}
	return p, nil
}

func (r *real) at(topic string, p int32) *partition.Partition {
	return r.owner.Get(kafka.PartitionID{Topic: r.meta.Image().TopicIDs[topic], Partition: p})
}

// topic makes a topic on the stub, with the scripted configs.
func (r *real) topic(name string, partitions int) {
	r.source.topic(name, int32(partitions))
	r.stub.Create(name, kafka.NewTopicID(), partitions)
}

func (r *real) realLink(name string, more ...string) {
	r.t.Helper()
	r.link(name, append([]string{keyBootstrap, strings.Join(r.stub.Bootstrap(), ",")}, more...)...)
}

func plainBatch(t testing.TB, base kafka.Offset) batch.Batches {
	t.Helper()
	b, err := batch.Build(batch.Spec{BaseOffset: base, ProducerID: kafka.NoProducerID, ProducerEpoch: -1, BaseSequence: -1},
		[]batch.Record{{Offset: base, Timestamp: time.Now().UnixMilli(), Value: []byte("here")}})
	if err != nil {
		t.Fatal(err)
	}
	return batch.Batches(b)
}

// The way of the product in one test: link, mirror, bytes, lag, group offsets, failover, produce.
func TestMirrorThenFailOverWithTheRealPackages(t *testing.T) {
	r := newReal(t)
	r.topic("orders", 2)
	p0 := kafka.TopicPartition{Topic: "orders", Partition: 0}
	for range 10 {
		r.stub.Partition(p0).Produce(10, "value")
	}
	r.realLink("l", keyOffsetSync, "true", keyGroupFilters, `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`)
	if _, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "orders"}); err != nil {
		t.Fatal(err)
	}
	r.eventually("all records are here", func() bool { p := r.at("orders", 0); return p != nil && p.Offsets().HighWatermark == 100 })
	r.same(p0)
	r.eventually("lag is zero", func() bool {
		info, err := r.links.Mirror("l", "orders")
		return err == nil && info.Status == "ACTIVE" && info.Lags[0].Records == 0 && info.Lags[0].LastSourceFetch == 99
	})
	if _, err := r.at("orders", 0).Append(t.Context(), plainBatch(t, 0), nil); kafka.CodeOf(err) != kafka.InvalidRequest {
		t.Errorf("C17: produce to a mirror: %v", err)
	}
	r.source.commit("a", "orders", 0, 80)
	r.source.commit("b", "orders", 0, 250)
	r.eventually("group offsets are here, clamped", func() bool {
		a, b := r.committed("a", p0), r.committed("b", p0)
		return a == 80 && b == 100
	})
	r.stub.Broker(1).Stop()
	r.stub.Broker(2).Stop()
	r.status("orders", "SOURCE_UNAVAILABLE")
	r.obeyed("l", Failover, "orders")
	r.state("orders", mirror.Stopped)
	got, err := r.at("orders", 0).Append(t.Context(), plainBatch(t, 0), nil)
	if err != nil || got.Base != 100 {
		t.Errorf("first produce after the failover: %+v, %v", got, err)
	}
	state := r.meta.Image().Partitions[r.meta.Image().TopicIDs["orders"]].List[0]
	if state.Stop == nil || state.Stop.Offset != 100 || state.Role != meta.RoleOpen {
		t.Errorf("stored: %+v", state)
	}
}

func (r *real) committed(name string, tp kafka.TopicPartition) kafka.Offset {
	for _, c := range r.group.Committed(tp.Topic)[name] {
		if c.TopicPartition == tp {
			return c.Offset
		}
	}
	return kafka.NoOffset
}

// same compares a mirror partition with its source, byte for byte.
func (r *real) same(tp kafka.TopicPartition) {
	r.t.Helper()
	var got []byte
	p := r.at(tp.Topic, tp.Partition)
	for from := p.Offsets().LogStart; from < p.Offsets().HighWatermark; {
		answer, err := p.Read(partition.Read{From: from, MaxBytes: 1 << 20, AtLeastOne: true, CurrentEpoch: kafka.NoEpoch, LastEpoch: kafka.NoEpoch})
		if err != nil {
			r.t.Fatal(err)
		}
		bs, err := answer.Slice.Bytes()
		answer.Slice.Close()
		if err != nil {
			r.t.Fatal(err)
		}
		got = append(got, bs...)
		for len(bs) > 0 {
			b, rest, err := batch.Split(bs)
			if err != nil {
				r.t.Fatal(err)
			}
			from, bs = b.LastOffset()+1, rest
		}
	}
	if want := r.stub.Partition(tp).Bytes(); !bytes.Equal(got, want) {
		r.t.Errorf("%s: %d bytes here, %d at the source, or not the same", tp, len(got), len(want))
	}
}

func TestPromoteWithTheRealPackages(t *testing.T) {
	r := newReal(t)
	r.topic("orders", 1)
	tp := kafka.TopicPartition{Topic: "orders"}
	r.stub.Partition(tp).Produce(50, "value")
	r.realLink("l")
	if _, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "orders"}); err != nil {
		t.Fatal(err)
	}
	r.stub.Partition(tp).Undecided(40)
	r.obeyed("l", Promote, "orders")
	r.eventually("P5: an open transaction at the source is told", func() bool {
		info, _ := r.links.Mirror("l", "orders")
		return info.Status == "PENDING_STOPPED" && len(info.TransitionErrors) > 0 && strings.Contains(info.TransitionErrors[0].Text, "transaction")
	})
	r.stub.Partition(tp).Produce(5, "more")
	r.stub.Partition(tp).Undecided(-1)
	r.state("orders", mirror.Stopped)
	if at := r.at("orders", 0).Offsets(); at.LogEnd != 55 {
		t.Errorf("promoted at %d, the source ends at 55", at.LogEnd)
	}
	r.same(tp)
}

// A source topic made anew is never spliced on, and its mirror says so.
func TestC04_RecreatedTopicWithTheRealPackages(t *testing.T) {
	r := newReal(t)
	r.topic("orders", 1)
	tp := kafka.TopicPartition{Topic: "orders"}
	r.stub.Partition(tp).Produce(100, "old")
	r.realLink("l", "metadata.max.age.ms", "200")
	if _, err := r.links.CreateMirror(t.Context(), "l", MirrorSpec{SourceTopic: "orders"}); err != nil {
		t.Fatal(err)
	}
	r.eventually("mirrored", func() bool { return r.at("orders", 0).Offsets().HighWatermark == 100 })
	r.stub.Create("orders", kafka.NewTopicID(), 1)
	r.stub.Partition(tp).Produce(200, "new")
	r.state("orders", mirror.Failed)
	if at := r.at("orders", 0).Offsets(); at.LogEnd != 100 {
		t.Errorf("the mirror ends at %d, want 100", at.LogEnd)
	}
	if info, _ := r.links.Mirror("l", "orders"); info.Err != "SOURCE_TOPIC_ID_CHANGED" {
		t.Errorf("%+v", info)
	}
}

// The budget's failover, without the network: HAWSER_FAILOVER_TOPICS=1000 runs it in full.
func TestFailoverBudgetWithTheRealPackages(t *testing.T) {
	topics, partitions, groups := 40, 10, 20
	if n, err := strconv.Atoi(os.Getenv("HAWSER_FAILOVER_TOPICS")); err == nil {
		topics, groups = n, n/2
	}
	r := newReal(t)
	r.realLink("l")
	link := r.meta.Image().LinkByName("l")
	var g errgroup.Group
	g.SetLimit(8)
	for i := range topics {
		name := fmt.Sprintf("t%04d", i)
		r.source.topic(name, int32(partitions))
		r.stub.Create(name, kafka.NewTopicID(), partitions)
		g.Go(func() error {
			id := r.storeTopic(name, partitions, meta.RoleFrozen)
			if err := r.fill(id, name, partitions); err != nil {
				return err
			}
			if err := r.leaveOpen(id, kafka.ProducerID(i)); err != nil {
				return err
			}
			return r.meta.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) {
				return []meta.Change{meta.PutMirror(&meta.Mirror{Topic: id, Link: link.ID, SourceTopic: name, State: mirror.Paused.String()})}, nil
			})
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range groups {
		tp := kafka.TopicPartition{Topic: fmt.Sprintf("t%04d", i%topics), Partition: int32(i % partitions)}
		if _, err := r.group.CommitSynced(t.Context(), fmt.Sprintf("g%d", i), []group.Synced{{TopicPartition: tp, Offset: 5}}, func(kafka.TopicPartition) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	if _, err := r.links.Order(t.Context(), "l", Failover, nil, "t.*", false); err != nil {
		t.Fatal(err)
	}
	answered := time.Since(begun)
	r.eventually("the last partition takes records", func() bool {
		for i := range topics {
			for p := range partitions {
				if r.at(fmt.Sprintf("t%04d", i), int32(p)).Offsets().Role != meta.RoleOpen {
					return false
				}
			}
		}
		return true
	})
	if _, err := r.at(fmt.Sprintf("t%04d", topics-1), int32(partitions-1)).Append(t.Context(), plainBatch(t, 0), nil); err != nil {
		t.Error(err)
	}
	took := time.Since(begun)
	t.Logf("%d topics, %d partitions, %d groups, %d open transactions: answered after %v, last partition open after %v", topics, topics*partitions, groups, topics, answered, took)
	if took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	for i := range topics {
		r.state(fmt.Sprintf("t%04d", i), mirror.Stopped)
		if at := r.at(fmt.Sprintf("t%04d", i), 0).Offsets(); at.LastStable != at.LogEnd || at.LogEnd < 12 {
			t.Errorf("t%04d-0 has its last stable offset at %d and ends at %d: the open transaction has no end", i, at.LastStable, at.LogEnd)
		}
	}
}

// leaveOpen appends a record of a transaction that has no end to a topic's first partition.
func (r *real) leaveOpen(id kafka.TopicID, producer kafka.ProducerID) error {
	b, err := batch.Build(batch.Spec{BaseOffset: 10, ProducerID: producer, Transactional: true}, []batch.Record{{Offset: 10, Timestamp: 1, Value: []byte("open")}})
	if err != nil {
		return err
	}
	part := r.owner.Get(kafka.PartitionID{Topic: id})
	return part.AppendMirrored(r.t.Context(), partition.Mirrored{Generation: part.Offsets().Generation, FetchedAt: 10, Batches: batch.Batches(b)})
}

// fill makes the partitions mirrors with ten records each.
func (r *real) fill(id kafka.TopicID, name string, partitions int) error {
	for p := range partitions {
		part := r.owner.Get(kafka.PartitionID{Topic: id, Partition: int32(p)})
		if err := part.BecomeMirror(r.t.Context(), 0); err != nil {
			return err
		}
		err := part.AppendMirrored(r.t.Context(), partition.Mirrored{Generation: part.Offsets().Generation, Batches: batch.Batches(stubtest.Build(0, 0, 10, name))})
		if err != nil {
			return err
		}
	}
	return nil
}

var _ fetcher.Target = (*partition.Partition)(nil)
