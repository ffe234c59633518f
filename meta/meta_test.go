package meta_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/meta/metatest"
)

func TestUpdate(t *testing.T) {
	start := time.Now()
	m := metatest.New(t)
	t.Logf("ready after %v", time.Since(start))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	topic := &meta.Topic{ID: kafka.NewTopicID(), Name: "orders", Partitions: 3, ReplicationFactor: 1, Configs: map[string]string{"retention.ms": "5"}}
	states := &meta.Partitions{Topic: topic.ID, List: make([]meta.Partition, 3)}
	put := func(*meta.Image) ([]meta.Change, error) {
		return []meta.Change{meta.PutTopic(topic), meta.PutPartitions(states)}, nil
	}
	before := m.Image()
	if err := m.Update(ctx, put); err != nil {
		t.Fatal(err)
	}
	if got := m.Image().TopicByName("orders"); got == nil || got.Configs["retention.ms"] != "5" {
		t.Fatalf("topic = %+v", got)
	}
	if len(before.Topics) != 0 {
		t.Fatal("an image changed after it was handed out")
	}

	// Another id under the same name.
	other := &meta.Topic{ID: kafka.NewTopicID(), Name: "orders", Partitions: 1}
	calls := 0
	err := m.Update(ctx, func(*meta.Image) ([]meta.Change, error) {
		calls++
		return []meta.Change{meta.PutTopic(other)}, nil
	})
	if !errors.Is(err, meta.ErrConflict) || calls != 10 {
		t.Fatalf("taken name: err %v after %d calls; want ErrConflict after 10", err, calls)
	}

	// Deleting and taking the name in one update.
	err = m.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
		return []meta.Change{
			meta.DeleteTopic(topic.ID, "orders"), meta.DeletePartitions(topic.ID),
			meta.PutDeletion(&meta.Deletion{Topic: topic.ID, Name: "orders", Partitions: 3}),
			meta.PutTopic(other),
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	img := m.Image()
	if img.TopicIDs["orders"] != other.ID || img.Topics[topic.ID] != nil || img.Partitions[topic.ID] != nil || img.Deletions[topic.ID] == nil {
		t.Fatalf("after replacing: %+v", img)
	}

	errMine := errors.New("mine")
	if err := m.Update(ctx, func(*meta.Image) ([]meta.Change, error) { return nil, errMine }); err != errMine {
		t.Fatalf("an error of decide came back as %v", err)
	}
}

func TestConcurrentUpdatesAllCount(t *testing.T) {
	m := metatest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const callers, each = 16, 20
	var wg sync.WaitGroup
	var conflicts atomic.Int64
	for range callers {
		wg.Go(func() {
			for range each {
				err := m.Update(ctx, func(img *meta.Image) ([]meta.Change, error) {
					n := 0
					fmt.Sscan(img.Configs[""]["n"], &n)
					return []meta.Change{meta.PutConfigs("", map[string]string{"n": fmt.Sprint(n + 1)})}, nil
				})
				if errors.Is(err, meta.ErrConflict) {
					conflicts.Add(1)
					t.Log(err)
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	want := fmt.Sprint(callers*each - conflicts.Load())
	if got := m.Image().Configs[""]["n"]; got != want {
		t.Fatalf("counted to %s, want %s", got, want)
	}
	t.Logf("%d of %d gave up", conflicts.Load(), callers*each)
}

func TestUpdatePartitionsOfManyTopics(t *testing.T) {
	m := metatest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var ids []kafka.TopicID
	for i := range 1000 {
		ids = append(ids, kafka.NewTopicID())
		if i%20 != 19 {
			continue
		}
		err := m.Update(ctx, func(*meta.Image) (cs []meta.Change, err error) {
			for j := i - 19; j <= i; j++ {
				cs = append(cs,
					meta.PutTopic(&meta.Topic{ID: ids[j], Name: fmt.Sprint("t", j), Partitions: 10}),
					meta.PutPartitions(&meta.Partitions{Topic: ids[j], List: make([]meta.Partition, 10)}))
			}
			return cs, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	err := m.UpdatePartitions(ctx, ids, func(p *meta.Partitions) (*meta.Partitions, error) {
		for i := range p.List {
			p.List[i].Epoch++
			p.List[i].Stop = &meta.StopPoint{Offset: 77, LastBatches: make([]meta.BatchMark, 64)}
		}
		return p, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("10,000 partitions of 1,000 topics in %v", time.Since(start))
	img := m.Image()
	for _, id := range ids {
		for _, p := range img.Partitions[id].List {
			if p.Epoch != 1 || p.Stop.Offset != 77 {
				t.Fatalf("partition is %+v", p)
			}
		}
	}
}

func TestProducerIDsAreDrawnOnce(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := map[kafka.ProducerID]bool{}
	var prefix uint32
	for range 2 {
		m, err := meta.Open(ctx, meta.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		c := m.Image().Cluster
		if prefix != 0 && c.ProducerPrefix != prefix {
			t.Fatalf("prefix %d became %d", prefix, c.ProducerPrefix)
		}
		prefix = c.ProducerPrefix
		if prefix == 0 || prefix >= 1<<31 {
			t.Fatalf("prefix %d is not 31 bits and more than 0", prefix)
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 10 {
					first, err := m.ProducerIDs(ctx, 5)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for id := first; id < first+5; id++ {
						if seen[id] || uint32(id>>32) != prefix || id < 0 {
							t.Errorf("id %d drawn twice, or of another prefix", id)
						}
						seen[id] = true
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
