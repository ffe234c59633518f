//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hawserio/hawser/kafka/batch"
)

// heard is the records that the members of a group have read, by text.
type heard struct {
	mu    sync.Mutex
	count map[string]int
}

func (h *heard) add(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count[text]++
}

func (h *heard) distinct() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.count)
}

// joiner is one member of the group; it leaves in order when its context ends.
type joiner func(ctx context.Context, t *testing.T, h *Hawser, into *heard)

func goMember(options ...kgo.Opt) joiner {
	return func(ctx context.Context, t *testing.T, h *Hawser, into *heard) {
		options := append([]kgo.Opt{kgo.SeedBrokers(h.Kafka), kgo.ConsumerGroup("all"), kgo.ConsumeTopics("shared"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.AutoCommitInterval(500 * time.Millisecond)}, options...)
		client, err := kgo.NewClient(options...)
		if err != nil {
			t.Error(err)
			return
		}
		defer client.Close()
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { into.add(string(r.Value)) })
		}
		if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
			t.Logf("the last commit: %v", err)
		}
	}
}

// unheard tells of the records that no member has read: where they are, how far the group has committed there, and who has the partition.
func unheard(t *testing.T, h *Hawser, all *heard) string {
	client := Client(t, h.Kafka)
	admin := kadm.NewClient(client)
	lags, err := admin.Lag(testContext(t), "all")
	if err != nil {
		return err.Error()
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	var out strings.Builder
	for p := range int32(12) {
		start, end := Ends(t, client, "shared", p)
		for b, err := range batch.Batches(Raw(t, client, "shared", p, start, end)).All() {
			if err != nil {
				return err.Error()
			}
			for r, err := range b.Records(1 << 20) {
				if err == nil && all.count[string(r.Value)] == 0 {
					lag := lags["all"].Lag["shared"][p]
					owner := "nobody"
					if lag.Member != nil {
						owner = lag.Member.ClientID
					}
					fmt.Fprintf(&out, "%s at %d-%d of [%d,%d), committed %d, owned by %s, group %s; ", r.Value, p, r.Offset, start, end, lag.Commit.At, owner, lags["all"].State)
				}
			}
		}
	}
	return out.String()
}

// runMember runs a consumer that prints records, and asks it to leave when ctx ends.
func runMember(ctx context.Context, t *testing.T, into *heard, name string, args ...string) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Errorf("start %s: %v", name, err)
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "record ") {
			into.add(lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil && ctx.Err() == nil {
		t.Errorf("%s: %v", name, err)
	}
}

// kcatMember must be told to leave while nothing is written: a message that arrives then counts as consumed for kcat, is
// never printed, and is committed all the same, whatever enable.auto.commit says.
func kcatMember(ctx context.Context, t *testing.T, h *Hawser, into *heard) {
	runMember(ctx, t, into, "kcat", "-b", h.Kafka, "-G", "all", "-q", "-u", "-X", "auto.offset.reset=earliest", "-X", "partition.assignment.strategy=range",
		"-f", "%s\n", "shared")
}

func javaMember(properties ...string) joiner {
	return func(ctx context.Context, t *testing.T, h *Hawser, into *heard) {
		args := []string{"-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", os.Getenv("HAWSER_KAFKA_LIBS") + "/*", "org.apache.kafka.tools.consumer.ConsoleConsumer",
			"--bootstrap-server", h.Kafka, "--topic", "shared", "--group", "all", "--from-beginning", "--consumer-property", "auto.commit.interval.ms=500"}
		for _, p := range properties {
			args = append(args, "--consumer-property", p)
		}
		runMember(ctx, t, into, "java", args...)
	}
}

// TestC84_EveryClientInOneGroup lets consumers of every kind, of the classic and of the consumer protocol, join one group and
// leave it while records are written. Nothing is missed, and after each of them left the others go on.
func TestC84_EveryClientInOneGroup(t *testing.T) {
	h := StartHawser(t)
	client := Client(t, h.Kafka)
	CreateTopic(t, client, "shared", 12, 1, nil)
	all := &heard{count: map[string]int{}}
	members := []struct {
		name string
		run  joiner
	}{
		{"franz-go", goMember(kgo.Balancers(kgo.RangeBalancer()))},
		{"kcat", kcatMember},
		{"Java", javaMember("partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor")},
		{"franz-go, consumer protocol", goMember(kgo.ServerSideBalancer())},
		{"Java, consumer protocol", javaMember("group.protocol=consumer")},
	}
	ctx, cancel := context.WithTimeout(testContext(t), 4*time.Minute)
	defer cancel()
	var work sync.WaitGroup
	leave, left := make([]context.CancelFunc, len(members)), make([]chan struct{}, len(members))
	sent := 0
	write := func(n int) {
		for range n {
			sent++
			client.Produce(ctx, &kgo.Record{Topic: "shared", Partition: int32(sent % 12), Value: fmt.Appendf(nil, "record %d", sent)}, nil)
		}
		if err := client.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	caughtUp := func(when string) {
		for end := time.Now().Add(60 * time.Second); all.distinct() < sent; pause(ctx, 50*time.Millisecond) {
			if time.Now().After(end) || ctx.Err() != nil {
				t.Fatalf("%s: %d of %d records were read; missing: %s", when, all.distinct(), sent, unheard(t, h, all))
			}
		}
	}
	for i, m := range members {
		var own context.Context
		own, leave[i] = context.WithCancel(ctx)
		left[i] = make(chan struct{})
		work.Go(func() {
			defer close(left[i])
			m.run(own, t, h, all)
		})
		for range 10 {
			write(60)
			pause(ctx, 200*time.Millisecond)
		}
		caughtUp(m.name + " has joined")
	}
	for i, m := range members[:len(members)-1] {
		leave[i]()
		if m.name == "kcat" {
			<-left[i]
		}
		for range 10 {
			write(60)
			pause(ctx, 100*time.Millisecond)
		}
		caughtUp(m.name + " has left")
	}
	cancel()
	work.Wait()
	repeated := 0
	for _, n := range all.count {
		repeated += n - 1
	}
	t.Logf("%d records, %d read again by another member", sent, repeated)
}
