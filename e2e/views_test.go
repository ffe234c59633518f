//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestC07_ReadCommittedViewEqualsTheSources compares what readers of committed
// data get from interleaved transactions, from many start offsets.
func TestC07_ReadCommittedViewEqualsTheSources(t *testing.T) {
	w := newPair(t)
	topic := "c07"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	w.h.CreateMirror("east", topic)
	fillTransactions(t, w.k, topic, 0)
	fillTransactions(t, w.k, topic, 1)
	w.level(topic, 1)
	_, end := Ends(t, w.source, topic, 0)
	compare := func() {
		t.Helper()
		want, have := committedFrom(t, w.k.Bootstrap(), topic, end), committedFrom(t, w.h.Kafka, topic, end)
		for from, lines := range want {
			if !slices.Equal(lines, have[from]) {
				t.Fatalf("a read_committed reader from %d gets %d records from the source and %d from the mirror", from, len(lines), len(have[from]))
			}
		}
		for from := int64(0); from < end; from += 7 {
			listed := aborted(t, w.mirror, topic, from, 1)
			if !slices.IsSortedFunc(listed, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
				return int(a.FirstOffset - b.FirstOffset)
			}) {
				t.Errorf("aborted transactions from %d are not sorted: %v", from, listed)
			}
			if source := aborted(t, w.source, topic, from, 1); !sameAborted(source, listed) {
				t.Errorf("aborted transactions from %d: source %v, mirror %v", from, source, listed)
			}
			if listed := aborted(t, w.mirror, topic, from, 0); len(listed) > 0 {
				t.Errorf("a read_uncommitted fetch from %d lists %d aborted transactions", from, len(listed))
			}
		}
		for _, from := range []int64{0, 7, 14, end / 2} {
			sameText(t, kcatFrom(t, w.k.Bootstrap(), topic, from), kcatFrom(t, w.h.Kafka, topic, from))
			n := len(view(t, w.h.Kafka, topic, 0, from, end))
			sameText(t, saramaReads(t, w.k.Bootstrap(), topic, 0, from, n), saramaReads(t, w.h.Kafka, topic, 0, from, n))
		}
	}
	compare()
	n := len(view(t, w.k.Bootstrap(), topic, 0, 0, end))
	sameText(t, console(t, w.k, w.k.Bootstrap(), topic, n), console(t, w.k, w.h.Kafka, topic, n))
	w.restart()
	compare()
	SameAll(t, w.source, w.mirror, topic, 1)
}

// sameAborted compares the lists as sets: the source's order is its own.
func sameAborted(a, b []kmsg.FetchResponseTopicPartitionAbortedTransaction) bool {
	text := func(list []kmsg.FetchResponseTopicPartitionAbortedTransaction) []string {
		var out []string
		for _, one := range list {
			out = append(out, fmt.Sprintf("%d at %d", one.ProducerID, one.FirstOffset))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(text(a), text(b))
}

// committedFrom reads with read_committed from offsets 0, 7, 14 … up to end.
func committedFrom(t *testing.T, bootstrap, topic string, end int64) map[int64][]string {
	t.Helper()
	views := map[int64][]string{}
	for from := int64(0); from < end; from += 7 {
		views[from] = view(t, bootstrap, topic, 0, from, end)
	}
	return views
}

func kcatFrom(t *testing.T, bootstrap, topic string, from int64) string {
	t.Helper()
	out, err := exec.CommandContext(testContext(t), "kcat", "-b", bootstrap, "-C", "-t", topic, "-p", "0", "-e", "-q", "-o", fmt.Sprint(from),
		"-X", "check.crcs=true", "-X", "isolation.level=read_committed", "-X", "fetch.wait.max.ms=50", "-f", "%p %o %k %s\\n").Output()
	if err != nil {
		t.Fatalf("kcat %s %s: %v", bootstrap, topic, err)
	}
	return string(out)
}

// TestC17_ProducingToAMirrorIsRefusedAtOnce lets every client try to change a mirror.
func TestC17_ProducingToAMirrorIsRefusedAtOnce(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), allGroups("c17-"))
	topic, plain := "c17", "c17-plain"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	produce(t, w.source, texts(topic, "r", 0, 10)...)
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	CreateTopic(t, w.mirror, plain, 1, 1, nil)
	for _, client := range refusedProducers(t, w, topic) {
		t.Run(client.name, func(t *testing.T) {
			began := time.Now()
			words := client.try(t)
			if took := time.Since(began); took > client.within {
				t.Errorf("it took %v to be refused", took)
			}
			if !strings.Contains(words, client.words) {
				t.Errorf("it says %q, want %q in it", words, client.words)
			}
		})
	}
	t.Run("administration", func(t *testing.T) { administerMirror(t, w, topic) })
	t.Run("a transaction over a mirror and a plain topic", func(t *testing.T) { transactionOverMirror(t, w, topic, plain) })
	w.level(topic, 1)
	SameAll(t, w.source, w.mirror, topic, 1)
	if rs, err := kadm.NewClient(w.mirror).DeleteTopics(testContext(t), topic); err != nil || rs.Error() != nil {
		t.Errorf("delete the mirror topic: %v, %v", err, rs.Error())
	}
}

// refusedProducer is a client that tries, and what it says.
type refusedProducer struct {
	name   string
	within time.Duration
	words  string
	try    func(*testing.T) string
}

func refusedProducers(t *testing.T, w *pair, topic string) []refusedProducer {
	record := func() *kgo.Record { return &kgo.Record{Topic: topic, Value: []byte("no")} }
	franz := func(options ...kgo.Opt) func(*testing.T) string {
		return func(t *testing.T) string {
			client := Client(t, w.h.Kafka, options...)
			return fmt.Sprint(client.ProduceSync(testContext(t), record()).FirstErr())
		}
	}
	// The others start a runtime of their own, which a busy machine makes slow.
	const runtime = 60 * time.Second
	return []refusedProducer{
		{"franz-go idempotent", 10 * time.Second, "INVALID_REQUEST", franz()},
		{"franz-go plain", 10 * time.Second, "INVALID_REQUEST", franz(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))},
		{"franz-go transactional", 10 * time.Second, "INVALID_REQUEST", func(t *testing.T) string {
			client := Client(t, w.h.Kafka, kgo.TransactionalID("c17-franz"))
			if err := client.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			err := client.ProduceSync(testContext(t), record()).FirstErr()
			if end := client.EndTransaction(testContext(t), kgo.TryAbort); end != nil {
				t.Errorf("abort: %v", end)
			}
			return fmt.Sprint(err)
		}},
		{"kcat", runtime, "Broker: Invalid request", func(t *testing.T) string {
			cmd := exec.CommandContext(testContext(t), "kcat", "-b", w.h.Kafka, "-P", "-t", topic, "-p", "0")
			cmd.Stdin = strings.NewReader("no\n")
			out, _ := cmd.CombinedOutput()
			return string(out)
		}},
		{"Java console producer", runtime, "read-only", func(t *testing.T) string {
			out, _ := runJava(testContext(t), w.k.libs, []byte("no\n"), "org.apache.kafka.tools.ConsoleProducer", "--sync", "--bootstrap-server", w.h.Kafka, "--topic", topic)
			return out
		}},
		{"Java verifiable producer", runtime, "read-only", func(t *testing.T) string {
			out, _ := w.k.Run(testContext(t), "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", w.h.Kafka, "--topic", topic, "--max-messages", "1")
			return out
		}},
		{"kafka-python", runtime, "InvalidRequest", func(t *testing.T) string { return python(t, "refused.py", w.h.Kafka, topic) }},
	}
}

// administerMirror tries what is refused on a mirror and what is not.
func administerMirror(t *testing.T, w *pair, topic string) {
	ctx, admin := testContext(t), kadm.NewClient(w.mirror)
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, At: 5})
	if rs, err := admin.DeleteRecords(ctx, offsets); err == nil && rs.Error() == nil {
		t.Error("DeleteRecords was obeyed")
	}
	if rs, err := admin.UpdatePartitions(ctx, 3, topic); err == nil && rs.Error() == nil {
		t.Error("CreatePartitions was obeyed")
	}
	alter := func(name, value string) error {
		rs, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
		if err != nil {
			return err
		}
		return rs[0].Err
	}
	if err := alter("cleanup.policy", "compact"); err == nil {
		t.Error("a synced config was changed")
	}
	if err := alter("segment.bytes", "16777216"); err != nil {
		t.Errorf("change a config that is not synced: %v", err)
	}
	commit(t, w.mirror, "local-c17", topic, 4)
	if have := committed(t, w.mirror, "local-c17", topic); have != 4 {
		t.Errorf("a group committed 4 on the mirror and is at %d", have)
	}
	if have := values(t, w.h.Kafka, topic, kgo.ReadCommitted(), 10); have[9] != "r-9" {
		t.Errorf("a reader gets %v", have)
	}
}

// transactionOverMirror adds a mirror and a plain topic to one transaction: the mirror is refused, the rest can be aborted (C17.2).
func transactionOverMirror(t *testing.T, w *pair, topic, plain string) {
	ctx := testContext(t)
	client := Client(t, w.h.Kafka, kgo.TransactionalID("c17-both"))
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	good := client.ProduceSync(ctx, &kgo.Record{Topic: plain, Value: []byte("aborted")}).FirstErr()
	bad := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("refused")}).FirstErr()
	if good != nil || bad == nil {
		t.Errorf("produce to the plain topic: %v; to the mirror: %v", good, bad)
	}
	if err := client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Errorf("abort: %v", err)
	}
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, client, &kgo.Record{Topic: plain, Value: []byte("kept")})
	if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Errorf("commit the next transaction: %v", err)
	}
	if have := values(t, w.h.Kafka, plain, kgo.ReadCommitted(), 1); have[0] != "kept" {
		t.Errorf("the plain topic reads %v", have)
	}
	if s := stable(t, w.mirror, topic); s != 10 {
		t.Errorf("the mirror's last stable offset is %d, want 10", s)
	}
}

// TestC93_LongPollWakesAtOnce measures from a produce to a reader that waits up to 30 s.
func TestC93_LongPollWakesAtOnce(t *testing.T) {
	w := newPair(t)
	mirrored, plain, committedTopic := "c93", "c93-plain", "c93-transactions"
	for _, topic := range []string{mirrored} {
		CreateTopic(t, w.source, topic, 1, 1, nil)
		w.h.CreateMirror("east", topic)
	}
	CreateTopic(t, w.mirror, plain, 1, 1, nil)
	CreateTopic(t, w.mirror, committedTopic, 1, 1, nil)
	n := envInt("HAWSER_WAKES", 200)
	bound := 250 * time.Millisecond
	for _, way := range []struct {
		name, topic string
		producer    *kgo.Client
		commit      bool
	}{
		{"produced here", plain, w.mirror, false},
		{"mirrored", mirrored, w.source, false},
		{"committed here", committedTopic, Client(t, w.h.Kafka, kgo.TransactionalID("c93")), true},
	} {
		t.Run(way.name, func(t *testing.T) {
			// A machine with other work has bad moments: what counts is that one of three turns is good.
			for range 3 {
				waits := wakes(t, w.h.Kafka, way.topic, way.producer, way.commit, n)
				slices.Sort(waits)
				p50, p99 := waits[n/2], waits[n*99/100]
				t.Logf("%d records reach a waiting reader after %v (median), %v (p99), %v (longest)", n, p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond), waits[n-1].Round(10*time.Microsecond))
				if p99 <= bound {
					return
				}
			}
			t.Errorf("p99 was above %v, five times its bound, in each of three turns", bound)
		})
	}
}

// wakes produces n records one by one and measures from the moment before each to the reader's having it.
func wakes(t *testing.T, bootstrap, topic string, producer *kgo.Client, inTransaction bool, n int) []time.Duration {
	t.Helper()
	ctx := testContext(t)
	_, end := Ends(t, Client(t, bootstrap), topic, 0)
	reader := Client(t, bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(end)}}),
		kgo.FetchMaxWait(30*time.Second), kgo.FetchMinBytes(1), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer reader.Close()
	got := make(chan time.Time)
	go func() {
		for {
			fetches := reader.PollFetches(ctx)
			if fetches.IsClientClosed() || ctx.Err() != nil {
				return
			}
			now := time.Now()
			fetches.EachRecord(func(*kgo.Record) { got <- now })
		}
	}()
	var waits []time.Duration
	for i := range n + 1 {
		from := time.Now()
		if inTransaction {
			if err := producer.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
		}
		produce(t, producer, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)})
		if inTransaction {
			from = time.Now()
			if err := producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case at := <-got:
			if i > 0 { // the first one also pays for finding the leader
				waits = append(waits, at.Sub(from))
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("record %d did not reach the reader", i)
		}
	}
	return waits
}
