package metatest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

// Run is the contract of a metadata store. open gives a new, empty store for each call.
func Run(t *testing.T, open func(t *testing.T) *meta.Meta) {
	for _, c := range []struct {
		name string
		test func(*testing.T, context.Context, *meta.Meta)
	}{
		{"identity", testIdentity},
		{"update shows at once", testUpdate},
		{"names are taken once", testNames},
		{"all or nothing", testAllOrNothing},
		{"concurrent updates all count", testConcurrent},
		{"kept records guard", testKeep},
		{"partition states", testPartitions},
		{"partition states of a deleted topic", testPartitionsGone},
		{"partition states raced", testPartitionsRaced},
		{"watch", testWatch},
		{"producer ids", testProducerIDs},
		{"access records", testAccess},
		{"close", testClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			c.test(t, ctx, open(t))
		})
	}
}

// change is an Update whose decision is made already.
func change(changes ...meta.Change) func(*meta.Image) ([]meta.Change, error) {
	return func(*meta.Image) ([]meta.Change, error) { return changes, nil }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newTopic(name string, partitions int32) (*meta.Topic, *meta.Partitions) {
	topic := &meta.Topic{ID: kafka.NewTopicID(), Name: name, Partitions: partitions, ReplicationFactor: 1}
	return topic, &meta.Partitions{Topic: topic.ID, List: make([]meta.Partition, partitions)}
}

func testIdentity(t *testing.T, _ context.Context, m *meta.Meta) {
	c := m.Image().Cluster
	if len(c.ID) != 22 || len(c.Incarnation) != 22 || c.ID == c.Incarnation || c.ProducerPrefix == 0 || c.ProducerPrefix >= 1<<31 {
		t.Fatalf("cluster is %+v", c)
	}
}

func testUpdate(t *testing.T, ctx context.Context, m *meta.Meta) {
	topic, states := newTopic("orders", 3)
	topic.Configs = map[string]string{"retention.ms": "5"}
	before := m.Image()
	must(t, m.Update(ctx, change(meta.PutTopic(topic), meta.PutPartitions(states))))
	img := m.Image()
	if got := img.TopicByName("orders"); got == nil || got.ID != topic.ID || got.Configs["retention.ms"] != "5" {
		t.Fatalf("topic = %+v", got)
	}
	if len(before.Topics) != 0 || before.Revision >= img.Revision {
		t.Fatal("an image changed after it was handed out")
	}
	topic.Configs["retention.ms"] = "6" // ours, not the image's
	if img.Topics[topic.ID].Configs["retention.ms"] != "5" {
		t.Fatal("the image shares what the caller gave")
	}
	must(t, m.Update(ctx, change(meta.PutConfigs("", map[string]string{"a": "1"}), meta.PutConfigs("7", map[string]string{"b": "2"}))))
	if c := m.Image().Configs; c[""]["a"] != "1" || c["7"]["b"] != "2" {
		t.Fatalf("configs = %v", c)
	}
	must(t, m.Update(ctx, change(meta.PutConfigs("", nil))))
	if _, ok := m.Image().Configs[""]; ok {
		t.Fatal("configs are still there")
	}
	revision := m.Image().Revision
	must(t, m.Update(ctx, change()))
	must(t, m.Update(ctx, change(meta.DeleteMirror(kafka.NewTopicID()))))
	if m.Image().Revision != revision {
		t.Fatal("nothing was changed, and the revision moved")
	}
	errMine := errors.New("mine")
	if err := m.Update(ctx, func(*meta.Image) ([]meta.Change, error) { return nil, errMine }); !errors.Is(err, errMine) {
		t.Fatalf("an error of decide came back as %v", err)
	}
}

func testNames(t *testing.T, ctx context.Context, m *meta.Meta) {
	first, _ := newTopic("orders", 1)
	second, _ := newTopic("orders", 1)
	must(t, m.Update(ctx, change(meta.PutTopic(first))))
	calls := 0
	err := m.Update(ctx, func(*meta.Image) ([]meta.Change, error) {
		calls++
		return []meta.Change{meta.PutTopic(second)}, nil
	})
	if !errors.Is(err, meta.ErrConflict) || calls != 10 {
		t.Fatalf("taken name: %v after %d calls; want ErrConflict after 10", err, calls)
	}
	// Freed and taken in one update.
	must(t, m.Update(ctx, change(meta.DeleteTopic(first.ID, "orders"),
		meta.PutDeletion(&meta.Deletion{Topic: first.ID, Name: "orders", Partitions: 1}), meta.PutTopic(second))))
	img := m.Image()
	if img.TopicIDs["orders"] != second.ID || img.Topics[first.ID] != nil || img.Deletions[first.ID] == nil {
		t.Fatalf("after replacing: %+v", img.TopicIDs)
	}
	// Many at once: one gets the name.
	link := func() *meta.Link { return &meta.Link{ID: kafka.NewTopicID(), Name: "dr"} }
	var wg sync.WaitGroup
	won := make(chan kafka.TopicID, 8)
	for range cap(won) {
		wg.Go(func() {
			l := link()
			errTaken := errors.New("taken")
			err := m.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
				if img.LinkByName("dr") != nil {
					return nil, errTaken
				}
				return []meta.Change{meta.PutLink(l)}, nil
			})
			if err == nil {
				won <- l.ID
			} else if !errors.Is(err, errTaken) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 || m.Image().LinkIDs["dr"] != <-won {
		t.Fatalf("%d got the name", len(won))
	}
	must(t, m.Update(ctx, change(meta.DeleteLink(m.Image().LinkIDs["dr"], "dr"))))
	if m.Image().LinkByName("dr") != nil || len(m.Image().Links) != 0 {
		t.Fatal("the link is still there")
	}
}

func testAllOrNothing(t *testing.T, ctx context.Context, m *meta.Meta) {
	topic, _ := newTopic("orders", 1)
	must(t, m.Update(ctx, change(meta.PutTopic(topic))))
	other, _ := newTopic("other", 1)
	calls := 0
	must(t, m.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		if calls++; calls == 1 { // somebody is quicker
			changed := *img.Topics[topic.ID]
			changed.Partitions = 2
			must(t, m.Update(ctx, change(meta.PutTopic(&changed))))
			stale := *topic
			return []meta.Change{meta.PutTopic(other), meta.PutTopic(&stale)}, nil
		}
		if img.Topics[topic.ID].Partitions != 2 || img.Topics[other.ID] != nil {
			t.Errorf("second call sees %+v, %+v", img.Topics[topic.ID], img.Topics[other.ID])
		}
		return nil, nil
	}))
	if calls != 2 || m.Image().Topics[other.ID] != nil {
		t.Fatalf("%d calls; half of a refused update: %v", calls, m.Image().Topics[other.ID])
	}
	many := make([]meta.Change, 61)
	for i := range many {
		many[i] = meta.PutConfigs(fmt.Sprint(i), map[string]string{"a": "b"})
	}
	if err := m.Update(ctx, change(many...)); err == nil {
		t.Fatal("61 changes were taken")
	}
	must(t, m.Update(ctx, change(many[:60]...)))
	sixty := make([]meta.Change, 60)
	for i := range sixty {
		topic, _ := newTopic(fmt.Sprint("t", i), 1)
		sixty[i] = meta.PutTopic(topic)
	}
	must(t, m.Update(ctx, change(sixty...)))
}

func testConcurrent(t *testing.T, ctx context.Context, m *meta.Meta) {
	const callers, each = 16, 10
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				err := m.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
					n := 0
					if text := img.Configs[""]["n"]; text != "" {
						if _, err := fmt.Sscan(text, &n); err != nil {
							return nil, err
						}
					}
					return []meta.Change{meta.PutConfigs("", map[string]string{"n": fmt.Sprint(n + 1)})}, nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := m.Image().Configs[""]["n"]; got != fmt.Sprint(callers*each) {
		t.Fatalf("counted to %s, want %d", got, callers*each)
	}
}

func testKeep(t *testing.T, ctx context.Context, m *meta.Meta) {
	l := &meta.Link{ID: kafka.NewTopicID(), Name: "dr"}
	must(t, m.Update(ctx, change(meta.PutLink(l))))
	errGone := errors.New("link is gone")
	calls := 0
	err := m.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		if calls++; calls == 1 {
			must(t, m.Update(ctx, change(meta.DeleteLink(l.ID, l.Name))))
		} else if img.Links[l.ID] == nil {
			return nil, errGone
		}
		return []meta.Change{meta.KeepLink(l.ID), meta.PutMirror(&meta.Mirror{Topic: kafka.NewTopicID(), Link: l.ID})}, nil
	})
	if !errors.Is(err, errGone) || len(m.Image().Mirrors) != 0 {
		t.Fatalf("err = %v, %d mirrors of a deleted link", err, len(m.Image().Mirrors))
	}
}

func testPartitions(t *testing.T, ctx context.Context, m *meta.Meta) {
	const topics = 150
	var ids []kafka.TopicID
	for len(ids) < topics {
		var changes []meta.Change
		for range 30 {
			topic, states := newTopic(fmt.Sprint("t", len(ids)), 4)
			ids = append(ids, topic.ID)
			changes = append(changes, meta.PutTopic(topic), meta.PutPartitions(states))
		}
		must(t, m.Update(ctx, change(changes...)))
	}
	marks := make([]meta.BatchMark, 64)
	for i := range marks {
		marks[i] = meta.BatchMark{Base: kafka.Offset(1000 + 7*i), Epoch: kafka.LeaderEpoch(3 + i/9), CRC: uint32(i) * 0x1234567}
	}
	must(t, m.UpdatePartitions(ctx, ids, func(p *meta.Partitions) (*meta.Partitions, error) {
		for i := range p.List {
			p.List[i].Epoch++
			p.List[i].Stop = &meta.StopPoint{Offset: 77, Epoch: 5, Link: "l", LastBatches: marks}
		}
		return p, nil
	}))
	for _, id := range ids {
		for _, p := range m.Image().Partitions[id].List {
			if p.Epoch != 1 || p.Stop.Offset != 77 || p.Stop.Epoch != 5 || p.Stop.Link != "l" ||
				fmt.Sprint(p.Stop.LastBatches) != fmt.Sprint(marks) {
				t.Fatalf("partition is %+v %+v", p, p.Stop)
			}
		}
	}
	revision := m.Image().Revision
	must(t, m.UpdatePartitions(ctx, ids, func(p *meta.Partitions) (*meta.Partitions, error) {
		p.List[0].Epoch = 99 // of the copy
		return nil, nil
	}))
	if m.Image().Revision != revision || m.Image().Partitions[ids[0]].List[0].Epoch != 1 {
		t.Fatal("a decision to change nothing changed something")
	}
	errMine := errors.New("mine")
	refuse := func(*meta.Partitions) (*meta.Partitions, error) { return nil, errMine }
	if err := m.UpdatePartitions(ctx, ids, refuse); !errors.Is(err, errMine) {
		t.Fatalf("an error of decide came back as %v", err)
	}
}

func testPartitionsGone(t *testing.T, ctx context.Context, m *meta.Meta) {
	topic, states := newTopic("orders", 1)
	must(t, m.Update(ctx, change(meta.PutTopic(topic), meta.PutPartitions(states))))
	calls := 0
	err := m.UpdatePartitions(ctx, []kafka.TopicID{topic.ID}, func(p *meta.Partitions) (*meta.Partitions, error) {
		if calls++; calls == 1 {
			must(t, m.Update(ctx, change(meta.DeleteTopic(topic.ID, topic.Name), meta.DeletePartitions(topic.ID))))
		}
		return p, nil
	})
	var ke *kafka.Error
	if !errors.As(err, &ke) || ke.Code != kafka.UnknownTopicID || len(m.Image().Partitions) != 0 {
		t.Fatalf("err = %v, %d left", err, len(m.Image().Partitions))
	}
}

func testPartitionsRaced(t *testing.T, ctx context.Context, m *meta.Meta) {
	topic, states := newTopic("orders", 1)
	must(t, m.Update(ctx, change(meta.PutTopic(topic), meta.PutPartitions(states))))
	const callers, each = 8, 10
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				err := m.UpdatePartitions(ctx, []kafka.TopicID{topic.ID}, func(p *meta.Partitions) (*meta.Partitions, error) {
					p.List[0].Generation++
					return p, nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := m.Image().Partitions[topic.ID].List[0].Generation; got != callers*each {
		t.Fatalf("generation is %d, want %d", got, callers*each)
	}
}

func testWatch(t *testing.T, ctx context.Context, m *meta.Meta) {
	watching, stop := context.WithCancel(ctx)
	var last *meta.Image
	seen := make(chan int, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Watch(watching, func(old, img *meta.Image) {
			if old != last || old != nil && old.Revision >= img.Revision {
				t.Errorf("pair of images does not follow the one before")
			}
			last = img
			if len(img.Configs) == 20 || old == nil {
				seen <- len(img.Configs)
			}
		})
	}()
	if n := <-seen; n != 0 {
		t.Errorf("first call shows %d records", n)
	}
	for i := range 20 {
		must(t, m.Update(ctx, change(meta.PutConfigs(fmt.Sprint(i), map[string]string{"a": "b"}))))
	}
	select {
	case <-seen:
	case <-ctx.Done():
		t.Fatal("the last image was not shown")
	}
	stop()
	<-done
}

func testProducerIDs(t *testing.T, ctx context.Context, m *meta.Meta) {
	prefix := m.Image().Cluster.ProducerPrefix
	seen := map[kafka.ProducerID]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	draw := func() {
		first, err := m.ProducerIDs(ctx, 5)
		mu.Lock()
		defer mu.Unlock()
		for id := first; err == nil && id < first+5; id++ {
			if seen[id] || uint32(id>>32) != prefix || id < 0 {
				t.Errorf("id %d drawn twice, or of another prefix", id)
			}
			seen[id] = true
		}
		if err != nil {
			t.Error(err)
		}
	}
	for range 8 {
		wg.Go(func() {
			for range 5 {
				draw()
			}
		})
	}
	wg.Wait()
	high := kafka.ProducerID(prefix)<<32 + 1_000_000
	must(t, m.RaiseProducerIDs(ctx, high))
	must(t, m.RaiseProducerIDs(ctx, high-5))
	must(t, m.RaiseProducerIDs(ctx, kafka.ProducerID(prefix+1)<<32+1<<31))
	if first, err := m.ProducerIDs(ctx, 1); err != nil || first != high+1 {
		t.Fatalf("after an id seen in a log: %d, %v; want %d", first, err, high+1)
	}
	must(t, m.RaiseProducerIDs(ctx, kafka.ProducerID(prefix)<<32+(1<<32-1)))
	if id, err := m.ProducerIDs(ctx, 1); err == nil {
		t.Fatalf("id %d of an exhausted prefix", id)
	}
}

func testAccess(t *testing.T, ctx context.Context, m *meta.Meta) {
	acl := &meta.ACL{ResourceType: "TOPIC", Resource: "a/b", PatternType: "LITERAL", Principal: "User:x", Host: "*", Operation: "READ",
		Permission: "ALLOW"}
	scram := &meta.Scram{User: "us/er", Mechanism: "SCRAM-SHA-256", Salt: meta.NewSecret("salt"), StoredKey: meta.NewSecret("stored"),
		ServerKey: meta.NewSecret("server"), Iterations: 4096}
	quota := &meta.Quota{Entity: meta.QuotaEntity{User: "u", ClientID: meta.DefaultEntity},
		Values: map[string]float64{"consumer_byte_rate": 1e6}}
	must(t, m.Update(ctx, change(meta.PutACL(acl), meta.PutScram(scram), meta.PutQuota(quota))))
	img := m.Image()
	key := meta.ScramKey{User: "us/er", Mechanism: "SCRAM-SHA-256"}
	if got := img.Scrams[key]; got == nil || *got != *scram {
		t.Fatalf("credentials = %+v", got)
	}
	if got := img.ACLs[acl.Key()]; got == nil || *got != *acl {
		t.Fatalf("ACL = %+v", got)
	}
	if got := img.Quotas[quota.Entity]; got == nil || got.Values["consumer_byte_rate"] != 1e6 {
		t.Fatalf("quota = %+v", got)
	}
	must(t, m.Update(ctx, change(meta.DeleteACL(acl), meta.DeleteScram(key), meta.PutQuota(&meta.Quota{Entity: quota.Entity}))))
	if img = m.Image(); len(img.ACLs)+len(img.Scrams)+len(img.Quotas) != 0 {
		t.Fatal("not all of it is gone")
	}
}

func testClose(t *testing.T, ctx context.Context, m *meta.Meta) {
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		m.Watch(ctx, func(_, _ *meta.Image) {})
	}()
	must(t, m.Close())
	<-waiting
	err := m.Update(ctx, change(meta.PutConfigs("", map[string]string{"a": "b"})))
	if !errors.Is(err, meta.ErrClosed) {
		t.Fatalf("Update after Close: %v", err)
	}
	if _, err := m.ProducerIDs(ctx, 1); !errors.Is(err, meta.ErrClosed) {
		t.Fatalf("ProducerIDs after Close: %v", err)
	}
}
