//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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

// goOn writes until told to stop on one site alone, and remembers what was acknowledged and where it went.
func goOn(t *testing.T, h *Hawser, topic string, partitions int32, name string, n int) map[string]string {
	t.Helper()
	cl := Client(t, h.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i) % partitions, Value: fmt.Appendf(nil, "%s-%d", name, i)})
	}
	produce(t, cl, records...)
	at := map[string]string{}
	for _, r := range records {
		at[string(r.Value)] = fmt.Sprintf("%d@%d", r.Partition, r.Offset)
	}
	return at
}

// holds reads a topic on one site: where each value is.
func holds(t *testing.T, h *Hawser, topic string, partitions int32) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, r := range readCommitted(t, h.Kafka, topic, partitions) {
		if before := found[string(r.Value)]; before != "" {
			t.Errorf("%s holds %s twice, at %s and %d@%d", topic, r.Value, before, r.Partition, r.Offset)
		}
		found[string(r.Value)] = fmt.Sprintf("%d@%d", r.Partition, r.Offset)
	}
	return found
}

// quarantineOf finds the topics that keep what restores cut off.
func quarantineOf(t *testing.T, h *Hawser, topic string) []string {
	t.Helper()
	all, err := kadm.NewClient(Client(t, h.Kafka)).ListTopics(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all.Names(), func(name string) bool { return !strings.HasPrefix(name, "hawser.cut."+topic+".") })
}

func sameRecords(t *testing.T, w twins, topic string, partitions int32) map[string]string {
	t.Helper()
	WaitLevel(t, Client(t, w[0].Kafka), Client(t, w[1].Kafka), topic, partitions, 60*time.Second)
	a, b := holds(t, w[0], topic, partitions), holds(t, w[1], topic, partitions)
	for value, at := range a {
		if b[value] != at {
			t.Fatalf("%s: %s is at %s on the first side, at %q on the second", topic, value, at, b[value])
		}
	}
	if len(a) != len(b) {
		t.Fatalf("%s: the first side holds %d records, the second %d", topic, len(a), len(b))
	}
	return a
}

// TestDisasterRoundTrip fails over with the source dead, writes on both sides, restores the old source, and
// turns back. Every record of the survivor is on both sides; what the old source had alone is in the quarantine, at its offsets.
func TestDisasterRoundTrip(t *testing.T) {
	t.Parallel()
	const topic, partitions = "orders", 4
	w := startTwins(t)
	a, b := w[0], w[1]
	CreateTopic(t, Client(t, a.Kafka), topic, partitions, 1, nil)
	kept := goOn(t, a, topic, partitions, "before", 400)
	b.CreateMirror("ab", topic)
	WaitLevel(t, Client(t, a.Kafka), Client(t, b.Kafka), topic, partitions, 30*time.Second)
	commit(t, Client(t, a.Kafka), "readers", topic, 90)
	ids := [2]kadm.TopicID{topicIDOf(t, a, topic), topicIDOf(t, b, topic)}
	waitLinkDown := func() {
		b.WaitStatus("ab", topic, "SOURCE_UNAVAILABLE", 30*time.Second)
	}
	a.Kill()
	waitLinkDown()
	b.Order("ab", "failover", topic)
	b.WaitStatus("ab", topic, "STOPPED", 10*time.Second)
	maps.Copy(kept, goOn(t, b, topic, partitions, "survivor", 300))
	a.Start()
	lost := goOn(t, a, topic, partitions, "split", 200)
	commit(t, Client(t, a.Kafka), "readers", topic, 130)

	a.eventuallyOrder("ab", "truncate-and-restore", topic)
	a.WaitStatus("ab", topic, "ACTIVE", 60*time.Second)
	found := sameRecords(t, w, topic, partitions)
	if !maps.Equal(found, kept) {
		t.Fatalf("after the restore %d records are there, want the survivor's %d", len(found), len(kept))
	}
	if at := committed(t, Client(t, a.Kafka), "readers", topic); at != 100 {
		t.Errorf("the group that had read the lost tail is at %d, want the cut, 100", at)
	}
	cut := quarantineOf(t, a, topic)
	if len(cut) != 1 || !maps.Equal(holds(t, a, cut[0], partitions), lost) {
		t.Fatalf("the quarantine %v does not hold the %d records of the split at their offsets", cut, len(lost))
	}

	a.Order("ab", "reverse-and-start-mirror", topic) // which waits until the pledge of the restore is given back
	a.WaitStatus("ab", topic, "STOPPED", 30*time.Second)
	b.WaitStatus("ab", topic, "ACTIVE", 30*time.Second)
	maps.Copy(kept, goOn(t, a, topic, partitions, "home", 100))
	if found = sameRecords(t, w, topic, partitions); !maps.Equal(found, kept) {
		t.Fatalf("after the way back %d records are there, want %d", len(found), len(kept))
	}
	if q := quarantineOf(t, b, topic); len(q) != 0 {
		t.Errorf("the other side has a quarantine, too: %v", q)
	}
	// Case C96: kill, restart, failover, restore and reversal leave each side its own topic id.
	if now := [2]kadm.TopicID{topicIDOf(t, a, topic), topicIDOf(t, b, topic)}; now != ids || ids[0] == (kadm.TopicID{}) || ids[1] == (kadm.TopicID{}) {
		t.Errorf("the topic's ids were %v and are %v", ids, now)
	}
}

func topicIDOf(t *testing.T, h *Hawser, topic string) kadm.TopicID {
	t.Helper()
	details, err := kadm.NewClient(Client(t, h.Kafka)).ListTopics(testContext(t), topic)
	fatal(t, err)
	return details[topic].ID
}

// eventuallyOrder gives an order until the other cluster has been heard of again.
func (h *Hawser) eventuallyOrder(link, verb string, topic string) {
	h.t.Helper()
	eventually(h.t, 30*time.Second, verb+" is taken", func() (bool, string) {
		answer := h.Must("POST", h.path("/links/%s/mirrors:%s", link, verb), map[string]any{"mirror_topic_names": []string{topic}})
		text, _ := answer["data"].([]any)[0].(map[string]any)["error_message"].(string)
		return text == "", text
	})
}

// TestC58_FailoversBackAndForth fails over to the other side ten times, writes on both, restores, and kills a side once
// in each round.
func TestC58_FailoversBackAndForth(t *testing.T) {
	t.Parallel()
	const topic, partitions = "c58", 3
	w := startTwins(t)
	CreateTopic(t, Client(t, w[0].Kafka), topic, partitions, 1, nil)
	kept := goOn(t, w[0], topic, partitions, "first", 50)
	w[1].CreateMirror("ab", topic)
	old := 0
	for round := range 10 {
		next := 1 - old
		WaitLevel(t, Client(t, w[old].Kafka), Client(t, w[next].Kafka), topic, partitions, 30*time.Second)
		w[next].eventuallyOrder("ab", "failover", topic)
		w[next].WaitStatus("ab", topic, "STOPPED", 30*time.Second)
		maps.Copy(kept, goOn(t, w[next], topic, partitions, fmt.Sprintf("kept%d", round), 50))
		goOn(t, w[old], topic, partitions, fmt.Sprintf("lost%d", round), 20+round)
		w[old].eventuallyOrder("ab", "truncate-and-restore", topic)
		victim := w[rand.IntN(2)]
		pause(t.Context(), time.Duration(rand.IntN(60))*time.Millisecond)
		victim.Kill()
		victim.Start()
		w[old].WaitStatus("ab", topic, "ACTIVE", 60*time.Second)
		if found := sameRecords(t, w, topic, partitions); !maps.Equal(found, kept) {
			t.Fatalf("round %d: %d records are there, want %d", round, len(found), len(kept))
		}
		old = next
	}
	total := 0
	for _, h := range w {
		for _, cut := range quarantineOf(t, h, topic) {
			total += len(holds(t, h, cut, partitions))
		}
	}
	if want := 10*20 + 45; total != want {
		t.Errorf("the quarantines hold %d records, want %d", total, want)
	}
}
