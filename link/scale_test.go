package link

import (
	"fmt"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/meta"
)

// The part of a failover that is this package's: a thousand topics with ten partitions each. The bound
// is five times what it must take on the reference machine.
func TestFailoverOfAThousandTopics(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand topics")
	}
	r := newRig(t)
	r.link("l")
	link := r.meta.Image().LinkByName("l")
	const topics, partitions = 1000, 10
	names := make([]string, topics)
	for i := range names {
		names[i] = fmt.Sprintf("t%04d", i)
	}
	for len(names) > 0 {
		chunk := names[:min(20, len(names))]
		names = names[len(chunk):]
		err := r.meta.Update(t.Context(), func(*meta.Image) ([]meta.Change, error) {
			var changes []meta.Change
			for _, n := range chunk {
				id := kafka.NewTopicID()
				states := &meta.Partitions{Topic: id, List: make([]meta.Partition, partitions)}
				for p := range states.List {
					states.List[p] = meta.Partition{Role: meta.RoleMirror, Generation: 1}
				}
				changes = append(changes, meta.PutTopic(&meta.Topic{ID: id, Name: n, Partitions: partitions}), meta.PutPartitions(states),
					meta.PutMirror(&meta.Mirror{Topic: id, Link: link.ID, SourceTopic: n, State: mirror.Active.String()}))
			}
			return changes, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for id := range r.meta.Image().Topics {
		if err := r.parts.open(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	r.eventually("all are fetched", func() bool {
		p := r.pool()
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.assigned) == topics*partitions
	})
	begun := time.Now()
	out, err := r.links.Order(t.Context(), "l", Failover, nil, "t.*", false)
	if err != nil || len(out) != topics {
		t.Fatalf("%d outcomes, %v", len(out), err)
	}
	answered := time.Since(begun)
	r.eventually("all are stopped", func() bool {
		for _, m := range r.meta.Image().Mirrors {
			if m.State != mirror.Stopped.String() {
				return false
			}
		}
		return true
	})
	took := time.Since(begun)
	t.Logf("answered after %v, stopped after %v", answered, took)
	if took > 10*time.Second {
		t.Errorf("failover of %d topics took %v", topics, took)
	}
}
