//go:build bench

package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTransactions has 8 producers commit transactions of 1 to 100 records over 10 partitions.
func TestTransactions(t *testing.T) {
	const producers, partitions, during = 8, 10, 3 * time.Second
	all := pairs(t)
	for _, records := range []int{1, 10, 100} {
		for _, p := range all {
			inTurn(t, p, fmt.Sprintf("transactions of %d records", records), func(b broker, topic string) figures {
				createTopic(t, b.client, topic, partitions, b.configs)
				defer deleteTopic(t, b.client, topic)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var ended atomic.Int64
				var stop atomic.Bool
				var running sync.WaitGroup
				var before float64
				ready := make(chan struct{})
				for n := range producers {
					c := client(t, b.address, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(0), kgo.TransactionalID(fmt.Sprintf("%s-%d", topic, n)))
					defer c.Close()
					transact(ctx, t, c, records) // the coordinator's topic is made with the first
					running.Go(func() {
						<-ready
						for !stop.Load() && transact(ctx, t, c, records) {
							ended.Add(1)
						}
					})
				}
				before = cpuSeconds(t, b.pid)
				close(ready)
				pause(ctx, during)
				done, used := ended.Load(), cpuSeconds(t, b.pid)-before
				stop.Store(true)
				running.Wait()
				var f figures
				f.add("transactions/s", float64(done)/during.Seconds())
				f.add("cpu µs/transaction", used*1e6/float64(done))
				return f
			})
		}
	}
}

// transact commits a transaction and reports whether that worked.
func transact(ctx context.Context, t *testing.T, c *kgo.Client, records int) bool {
	if err := c.BeginTransaction(); err != nil {
		t.Error(err)
		return false
	}
	value := make([]byte, 100)
	for range records {
		c.Produce(ctx, &kgo.Record{Value: value}, nil)
	}
	err := c.Flush(ctx)
	if err == nil {
		err = c.EndTransaction(ctx, kgo.TryCommit)
	}
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// TestCommits has 8 clients commit offsets, each of a group of its own, of 1 and of 100 partitions at a time.
func TestCommits(t *testing.T) {
	const clients, during = 8, 3 * time.Second
	all := pairs(t)
	for _, partitions := range []int32{1, 100} {
		for _, p := range all {
			inTurn(t, p, fmt.Sprintf("commits of %d partitions", partitions), func(b broker, topic string) figures {
				createTopic(t, b.client, topic, partitions, nil)
				defer deleteTopic(t, b.client, topic)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var committed atomic.Int64
				var stop atomic.Bool
				var running sync.WaitGroup
				offsets := kadm.Offsets{}
				for n := range partitions {
					offsets.AddOffset(topic, n, 0, -1)
				}
				ready := make(chan struct{})
				for n := range clients {
					admin, group := kadm.NewClient(client(t, b.address)), fmt.Sprintf("%s-%d", topic, n)
					defer admin.Close()
					if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
						t.Fatal(err)
					}
					running.Go(func() {
						<-ready
						for !stop.Load() {
							if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
								t.Error(err)
								return
							}
							committed.Add(1)
						}
					})
				}
				before := cpuSeconds(t, b.pid)
				close(ready)
				pause(ctx, during)
				done, used := committed.Load(), cpuSeconds(t, b.pid)-before
				stop.Store(true)
				running.Wait()
				var f figures
				f.add("commits/s", float64(done)/during.Seconds())
				f.add("cpu µs/commit", used*1e6/float64(done))
				return f
			})
		}
	}
}

// TestGroups has 500 members join one group, and makes 1,000 groups of a member each.
func TestGroups(t *testing.T) {
	for _, p := range pairs(t)[1:] {
		inTurn(t, p, "500 members join", func(b broker, topic string) figures { return join(t, b, topic, 500, 1) })
		inTurn(t, p, "1000 groups", func(b broker, topic string) figures { return join(t, b, topic, 1000, 1000) })
	}
}

// join has members join groups, the classic way, with raw requests: what is measured is the broker. It ends when all are
// in the same generation.
func join(t *testing.T, b broker, topic string, members, groups int) figures {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	clients := make([]*kgo.Client, members)
	for n := range clients {
		clients[n] = client(t, b.address)
		defer clients[n].Close()
		if err := clients[n].Ping(ctx); err != nil {
			t.Fatal(err)
		}
	}
	begun, before := time.Now(), cpuSeconds(t, b.pid)
	var joined sync.WaitGroup
	var generations sync.Map
	for n, c := range clients {
		joined.Go(func() {
			m := &member{client: c, group: fmt.Sprintf("%s-%d", topic, n%groups), want: members / groups}
			if err := m.join(ctx); err != nil {
				t.Error(err)
			}
			generations.Store(fmt.Sprint(m.group, m.generation), true)
		})
	}
	joined.Wait()
	took := time.Since(begun)
	different := 0
	generations.Range(func(any, any) bool { different++; return true })
	if different != groups {
		t.Fatalf("%s: %d generations of %d groups", b.name, different, groups)
	}
	var f figures
	f.add("ms", ms(took))
	f.add("cpu ms", (cpuSeconds(t, b.pid)-before)*1000)
	return f
}

type member struct {
	client     *kgo.Client
	group      string
	want       int // members of the group in the end
	id         string
	generation int32
}

// join joins until the group has all its members.
func (m *member) join(ctx context.Context) error {
	for {
		rq := kmsg.NewPtrJoinGroupRequest()
		rq.Group, rq.MemberID, rq.ProtocolType, rq.SessionTimeoutMillis, rq.RebalanceTimeoutMillis = m.group, m.id, "consumer", 60_000, 60_000
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name, protocol.Metadata = "range", make([]byte, 64)
		rq.Protocols = append(rq.Protocols, protocol)
		rs, err := rq.RequestWith(ctx, m.client)
		if err != nil {
			return err
		}
		m.id = rs.MemberID
		if rs.ErrorCode != 0 {
			continue // MEMBER_ID_REQUIRED, and the coordinator being found
		}
		m.generation = rs.Generation
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Group, sync.MemberID, sync.Generation = m.group, m.id, m.generation
		for _, other := range rs.Members { // the leader's are all
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = other.MemberID, make([]byte, 64)
			sync.GroupAssignment = append(sync.GroupAssignment, a)
		}
		if len(rs.Members) > 0 && len(rs.Members) < m.want {
			continue // others are on their way: joining again begins the next generation
		}
		synced, err := sync.RequestWith(ctx, m.client)
		if err != nil {
			return err
		}
		if synced.ErrorCode == 0 {
			return nil
		}
	}
}
