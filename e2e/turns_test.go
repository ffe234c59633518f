//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// twins are two hawsers with the two halves of the link "ab".
type twins [2]*Hawser

// startTwins starts both and links them in both directions.
func startTwins(t *testing.T) twins {
	t.Helper()
	w := twins{StartHawser(t), StartHawser(t)}
	id := ""
	for i, h := range w {
		other := w[1-i]
		var list []map[string]string
		for name, value := range fastLink {
			list = append(list, map[string]string{"name": name, "value": value})
		}
		for name, value := range map[string]string{"bootstrap.servers": other.Kafka, "link.mode": "BIDIRECTIONAL", "availability.check.ms": "500"} {
			list = slices.DeleteFunc(list, func(e map[string]string) bool { return e["name"] == name })
			list = append(list, map[string]string{"name": name, "value": value})
		}
		body := map[string]any{"remote_cluster_id": other.Cluster, "configs": list}
		if id != "" {
			body["cluster_link_id"] = id
		}
		made := h.Must("POST", h.path("/links?link_name=ab"), body)
		id, _ = made["cluster_link_id"].(string)
	}
	return w
}

// tally is what producers know of their records when they are done: each value has one fate.
type tally struct {
	mu      sync.Mutex
	acked   []string
	unknown []string
	failed  []string
	acks    []ack
}

// ack is an accepted write: when it was asked and answered, and by whom.
type ack struct {
	asked, answered time.Time
	site            int
}

func (t *tally) add(fate *[]string, values ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*fate = append(*fate, values...)
}

func (t *tally) accepted(site int, asked time.Time, values ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked = append(t.acked, values...)
	t.acks = append(t.acks, ack{asked, time.Now(), site})
}

// rider is a producer that nobody stops: where it is refused it goes to the other site.
type rider struct {
	*tally
	sites      twins
	topic      string
	partitions int32
	name       string
	kills      *atomic.Int64
	options    []kgo.Opt
	site       int
	client     *kgo.Client
	n          int
}

func (r *rider) open(t *testing.T) *kgo.Client {
	if r.client == nil {
		client, err := kgo.NewClient(append([]kgo.Opt{
			kgo.SeedBrokers(r.sites[r.site].Kafka), kgo.MetadataMinAge(10 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }), kgo.ProducerLinger(0), kgo.RequiredAcks(kgo.AllISRAcks()),
		}, r.options...)...)
		if err != nil {
			t.Error(err)
			return nil
		}
		r.client = client
	}
	return r.client
}

func (r *rider) leave() {
	if r.client != nil {
		r.client.CloseAllowingRebalance()
		r.client = nil
	}
	r.site = 1 - r.site
}

func (r *rider) next() *kgo.Record {
	r.n++
	return &kgo.Record{Topic: r.topic, Partition: int32(r.n) % r.partitions, Value: fmt.Appendf(nil, "%s-%d", r.name, r.n)}
}

// ride writes one record after the other until ctx ends.
func (r *rider) ride(ctx context.Context, t *testing.T) {
	defer func() {
		if r.client != nil {
			r.client.Close()
		}
	}()
	for ctx.Err() == nil {
		client := r.open(t)
		if client == nil {
			return
		}
		record, kills, asked := r.next(), r.kills.Load(), time.Now()
		err := client.ProduceSync(context.WithoutCancel(ctx), record).FirstErr()
		r.settle(err, kills, asked, string(record.Value))
	}
}

// settle writes down what became of values, and goes to the other site after a refusal.
func (r *rider) settle(err error, kills int64, asked time.Time, values ...string) {
	switch {
	case err == nil:
		r.accepted(r.site, asked, values...)
		return
	case errors.Is(err, kerr.InvalidRequest) && kills == r.kills.Load():
		r.add(&r.failed, values...)
	default:
		r.add(&r.unknown, values...) // it may have been written before the broker was killed
	}
	r.leave()
	pause(context.Background(), 2*time.Millisecond)
}

// rideInTransactions writes three records at a time in a transaction, until ctx ends.
func (r *rider) rideInTransactions(ctx context.Context, t *testing.T) {
	defer func() {
		if r.client != nil {
			r.client.Close()
		}
	}()
	for ctx.Err() == nil {
		client := r.open(t)
		if client == nil {
			return
		}
		records := []*kgo.Record{r.next(), r.next(), r.next()}
		var values []string
		for _, record := range records {
			values = append(values, string(record.Value))
		}
		asked := time.Now()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		err := client.BeginTransaction()
		if err == nil {
			err = client.ProduceSync(bounded, records...).FirstErr()
		}
		if err != nil {
			// Not committed, so that nobody who reads what is committed may see it.
			_ = client.EndTransaction(bounded, kgo.TryAbort)
			cancel()
			r.add(&r.failed, values...)
			r.leave()
			continue
		}
		err = client.EndTransaction(bounded, kgo.TryCommit)
		cancel()
		if err == nil {
			r.accepted(r.site, asked, values...)
			continue
		}
		r.add(&r.unknown, values...)
		r.leave()
	}
}

// TestReverseUnderLoad turns source and mirror round and round under idempotent and transactional producers that
// nobody stops, and kills either side right after every second order. What was acknowledged is there once, what failed is not, and never
// do both sides take records.
func TestReverseUnderLoad(t *testing.T) {
	t.Parallel()
	turns := envInt("HAWSER_REVERSALS", 20)
	const topic, partitions = "turn", 20
	w := startTwins(t)
	clients := [2]*kgo.Client{Client(t, w[0].Kafka), Client(t, w[1].Kafka)}
	CreateTopic(t, clients[0], topic, partitions, 1, nil)
	w[1].CreateMirror("ab", topic)
	var sum tally
	var kills atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var riders sync.WaitGroup
	for i := range 2 {
		plain := &rider{tally: &sum, sites: w, topic: topic, partitions: partitions, name: fmt.Sprintf("plain%d", i), kills: &kills}
		riders.Go(func() { plain.ride(ctx, t) })
		id := fmt.Sprintf("tx%d", i)
		tx := &rider{tally: &sum, sites: w, topic: topic, partitions: partitions, name: id, kills: &kills, options: []kgo.Opt{kgo.TransactionalID(id), kgo.TransactionTimeout(10 * time.Second)}}
		riders.Go(func() { tx.rideInTransactions(ctx, t) })
	}
	source := 0
	var orders []time.Time
	for turn := range turns {
		pause(ctx, time.Duration(100+rand.IntN(100))*time.Millisecond)
		w[1-source].WaitStatus("ab", topic, "ACTIVE", 60*time.Second)
		if turn%2 == 0 {
			orders = append(orders, time.Now())
		} else {
			orders = append(orders, time.Time{})
		}
		w[1-source].Order("ab", "reverse-and-start-mirror", topic)
		if turn%2 == 1 {
			victim := w[rand.IntN(2)]
			pause(ctx, time.Duration(rand.IntN(30))*time.Millisecond)
			kills.Add(1)
			victim.Kill()
			kills.Add(1)
			victim.Start()
		}
		w[1-source].WaitStatus("ab", topic, "STOPPED", 60*time.Second)
		w[source].WaitStatus("ab", topic, "ACTIVE", 60*time.Second)
		source = 1 - source
	}
	pause(ctx, 200*time.Millisecond)
	stop()
	riders.Wait()
	WaitLevel(t, Client(t, w[source].Kafka), Client(t, w[1-source].Kafka), topic, partitions, 60*time.Second)
	checkTally(t, w, topic, partitions, &sum)
	checkOneWritable(t, &sum)
	windows := readOnlyWindows(&sum, orders)
	p50, p99 := windows[len(windows)/2], windows[len(windows)-1]
	t.Logf("%d reversals, %d kills; acknowledged %d, unknown %d, failed %d; read-only for p50 %v, p99 %v of %d reversals without a kill",
		turns, kills.Load()/2, len(sum.acked), len(sum.unknown), len(sum.failed), p50, p99, len(windows))
	if p99 > 5*time.Second {
		t.Errorf("read-only for %v (bound 1 s; a loaded machine gets five)", p99)
	}
}

// checkTally wants both sides to hold the same committed records, and every value's fate to be what its producer was told.
func checkTally(t *testing.T, w twins, topic string, partitions int32, sum *tally) {
	t.Helper()
	var found [2]map[string]string
	for i, h := range w {
		found[i] = map[string]string{}
		for _, r := range readCommitted(t, h.Kafka, topic, partitions) {
			at := fmt.Sprintf("%d@%d", r.Partition, r.Offset)
			if before := found[i][string(r.Value)]; before != "" {
				t.Errorf("site %d holds %s twice, at %s and %s", i, r.Value, before, at)
			}
			found[i][string(r.Value)] = at
		}
	}
	for value, at := range found[0] {
		if found[1][value] != at {
			t.Fatalf("%s is at %s on the first side and at %q on the second", value, at, found[1][value])
		}
	}
	if len(found[0]) != len(found[1]) {
		t.Errorf("the first side holds %d records, the second %d", len(found[0]), len(found[1]))
	}
	missing := 0
	for _, value := range sum.acked {
		if found[0][value] == "" {
			if missing++; missing <= 10 {
				t.Errorf("%s was acknowledged and is not there", value)
			}
		}
	}
	if missing > 0 {
		t.Errorf("%d acknowledged records are missing", missing)
	}
	for _, value := range sum.failed {
		if at := found[0][value]; at != "" {
			t.Errorf("%s was refused and is there, at %s", value, at)
		}
	}
	if known := len(sum.acked) + len(sum.unknown); len(found[0]) > known {
		t.Errorf("%d records are there, at most %d were written", len(found[0]), known)
	}
}

// checkOneWritable wants no side to accept what it was asked after the other side, in a later turn, had accepted something.
func checkOneWritable(t *testing.T, sum *tally) {
	t.Helper()
	acks := slices.Clone(sum.acks)
	slices.SortFunc(acks, func(a, b ack) int { return a.answered.Compare(b.answered) })
	// In each run of one side's answers, none of the other side's may have been asked after the run began and answered before it ended.
	var runs []ack // asked is the first answer, answered the last of a run
	for _, a := range acks {
		if n := len(runs); n > 0 && runs[n-1].site == a.site {
			runs[n-1].answered = a.answered
			continue
		}
		runs = append(runs, ack{a.answered, a.answered, a.site})
	}
	for _, a := range acks {
		for _, run := range runs {
			if a.site != run.site && a.asked.After(run.asked) && a.answered.Before(run.answered) {
				t.Fatalf("side %d accepted at %v what it was asked at %v, while side %d accepted records from %v to %v", a.site, a.answered, a.asked, run.site, run.asked, run.answered)
			}
		}
	}
	if len(runs) < 2 {
		t.Errorf("the producers never changed sides")
	}
}

// readOnlyWindows is for how long nobody accepted anything around each order without a kill, rising.
func readOnlyWindows(sum *tally, orders []time.Time) []time.Duration {
	acks := slices.Clone(sum.acks)
	slices.SortFunc(acks, func(a, b ack) int { return a.answered.Compare(b.answered) })
	var list []time.Duration
	for i, at := range orders {
		if at.IsZero() {
			continue
		}
		end := time.Now()
		if i+1 < len(orders) && !orders[i+1].IsZero() {
			end = orders[i+1]
		}
		var last time.Time
		side := -1
		for _, a := range acks {
			switch {
			case a.answered.Before(at):
				last, side = a.answered, a.site
			case a.answered.After(end):
			case a.site == side:
				last = a.answered
			case side >= 0:
				list = append(list, a.answered.Sub(last))
				side = -1
			}
			if side == -1 && a.answered.After(at) {
				break
			}
		}
	}
	slices.Sort(list)
	return list
}
