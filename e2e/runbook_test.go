//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// runbookStep is a block of commands, or what is done by hand between them.
type runbookStep struct{ commands, byHand string }

var runbookBold = regexp.MustCompile(`^\d+\. \*\*(.+)\.\*\*$`)

// readWalk reads the steps of one section of docs/runbook.md.
func readWalk(t *testing.T, title string) []runbookStep {
	t.Helper()
	text, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+title+"\n")
	if !found {
		t.Fatalf("docs/runbook.md has no section %q", title)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var steps []runbookStep
	block := false
	for line := range strings.Lines(section) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "```sh":
			block = true
			steps = append(steps, runbookStep{})
		case line == "```":
			block = false
		case block:
			steps[len(steps)-1].commands += line + "\n"
		default:
			if bold := runbookBold.FindStringSubmatch(line); bold != nil {
				steps = append(steps, runbookStep{byHand: bold[1]})
			}
		}
	}
	return steps
}

// walk runs a section of the runbook: its commands as they stand there, and for what is done by hand the function of that name.
//
// It gives what the commands printed.
func walk(t *testing.T, title, a, b string, byHand map[string]func()) string {
	t.Helper()
	s := newShell(t)
	tool := fmt.Sprintf("#!/bin/sh\nexec java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp '%s/*' org.apache.kafka.tools.consumer.group.ConsumerGroupCommand \"$@\"\n", os.Getenv("HAWSER_KAFKA_LIBS"))
	if err := os.WriteFile(filepath.Join(s.dir, "bin", "kafka-consumer-groups.sh"), []byte(tool), 0o755); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "A="+a, "B="+b)
	var printed strings.Builder
	for _, step := range readWalk(t, title) {
		if step.byHand != "" {
			do := byHand[step.byHand]
			if do == nil {
				t.Fatalf("the runbook says %q, which this test does not know", step.byHand)
			}
			do()
			delete(byHand, step.byHand)
			continue
		}
		ctx, cancel := context.WithTimeout(testContext(t), 90*time.Second)
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", step.commands)
		cmd.Dir, cmd.Env = s.dir, s.env
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Fatalf("%v:\n%s\n%s", err, step.commands, out)
		}
		t.Logf("%s%s", step.commands, out)
		printed.Write(out)
	}
	for left := range byHand {
		t.Errorf("the runbook does not say %q any more", left)
	}
	return printed.String()
}

// shop is what goes on around a walk: producers of orders, and the group billing.
type shop struct {
	t       *testing.T
	mu      sync.Mutex // guards what follows
	written map[string]bool
	read    map[string]int
	n       int
	stop    map[string]func() // by producers, consumers
}

func openShop(t *testing.T) *shop {
	return &shop{t: t, written: map[string]bool{}, read: map[string]int{}, stop: map[string]func(){}}
}

// run runs something until it is stopped by its name, or by the end of the test.
func (s *shop) run(name string, work func(context.Context)) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(testContext(s.t))
	done := make(chan struct{})
	go func() { defer close(done); work(ctx) }()
	s.stop[name] = sync.OnceFunc(func() { cancel(); <-done })
	s.t.Cleanup(s.stop[name])
}

// produce writes to orders; what is refused is tried again, as the application has to.
func (s *shop) produce(bootstrap string) {
	s.t.Helper()
	// Without the second option a record whose answer got lost with its broker is waited for without end.
	client := Client(s.t, bootstrap, kgo.RecordDeliveryTimeout(3*time.Second), kgo.AllowIdempotentProduceCancellation())
	s.run("producers", func(ctx context.Context) {
		for ctx.Err() == nil {
			s.mu.Lock()
			s.n++
			value := fmt.Sprintf("order-%d", s.n)
			s.mu.Unlock()
			err := client.ProduceSync(context.WithoutCancel(ctx), &kgo.Record{Topic: "orders", Value: []byte(value)}).FirstErr()
			if err == nil {
				s.mu.Lock()
				s.written[value] = true
				s.mu.Unlock()
			}
			pause(ctx, 5*time.Millisecond)
		}
	})
	s.flows("orders are written", func() int { return len(s.written) })
}

// consume reads orders as the group, commits what it has read, and leaves well.
func (s *shop) consume(bootstrap string) {
	s.t.Helper()
	client := Client(s.t, bootstrap, kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	s.run("consumers", func(ctx context.Context) {
		defer client.CloseAllowingRebalance()
		for {
			fetches := client.PollFetches(ctx)
			s.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) { s.read[string(r.Value)]++ })
			s.mu.Unlock()
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			err := client.CommitUncommittedOffsets(end)
			cancel()
			if err != nil {
				s.t.Logf("commit: %v", err)
			}
			if ctx.Err() != nil {
				return
			}
		}
	})
}

// reads waits until orders are read again.
func (s *shop) reads() {
	s.t.Helper()
	s.flows("orders are read", func() int { return len(s.read) })
}

func (s *shop) flows(what string, count func() int) {
	s.t.Helper()
	locked := func() int { s.mu.Lock(); defer s.mu.Unlock(); return count() }
	before := locked()
	eventually(s.t, 30*time.Second, what, func() (bool, string) { return locked() > before+5, fmt.Sprint(locked()) })
}

// settle waits until all that was written is read, and wants nothing read more than so many times.
func (s *shop) settle(most int) {
	s.t.Helper()
	eventually(s.t, 30*time.Second, "every acknowledged order is read", func() (bool, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		left := 0
		for value := range s.written {
			if s.read[value] == 0 {
				left++
			}
		}
		return left == 0, fmt.Sprintf("%d of %d are not", left, len(s.written))
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for value, times := range s.read {
		if times > most {
			s.t.Errorf("%s was read %d times", value, times)
		}
	}
}

// keepOnly takes off the books what a cluster does not have: it was lost with another, as the runbook says.
func (s *shop) keepOnly(bootstrap string) {
	s.t.Helper()
	client := Client(s.t, bootstrap)
	_, end := Ends(s.t, client, "orders", 0)
	there := values(s.t, bootstrap, "orders", kgo.ReadUncommitted(), int(end))
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := 0
	for value := range s.written {
		if !slices.Contains(there, value) {
			delete(s.written, value)
			lost++
		}
	}
	s.t.Logf("%d of %d acknowledged orders were not mirrored yet", lost, lost+len(s.written))
}

// do is an order of the walk as one line.
func do(list ...func()) func() {
	return func() {
		for _, one := range list {
			one()
		}
	}
}

// runbookKafka is a stock Kafka with an empty topic orders.
func runbookKafka(t *testing.T) *Kafka {
	t.Helper()
	k := GuardedKafka(t)
	client := Client(t, k.Bootstrap())
	admin := kadm.NewClient(client)
	if rs, err := admin.DeleteTopics(testContext(t), "orders"); err == nil && rs.Error() == nil {
		eventually(t, 30*time.Second, "the topic of another walk is gone", func() (bool, string) {
			list, err := admin.ListTopics(testContext(t), "orders")
			return err == nil && !list.Has("orders"), fmt.Sprint(err)
		})
	}
	CreateTopic(t, Client(t, k.Bootstrap()), "orders", 1, 1, nil)
	return k
}

// TestRunbook_Migrate changes over with clients at work: nothing is lost, nothing read twice.
func TestRunbook_Migrate(t *testing.T) {
	k, h, s := runbookKafka(t), StartHawser(t), openShop(t)
	s.produce(k.Bootstrap())
	s.consume(k.Bootstrap())
	s.reads()
	walk(t, "Migrate", k.Bootstrap(), h.Kafka, map[string]func(){
		"Stop the producers":       do(func() { s.stop["producers"]() }, func() { s.settle(1) }),
		"Stop the consumers":       func() { s.stop["consumers"]() },
		"Start the consumers on B": func() { s.consume(h.Kafka) },
		"Start the producers on B": func() { s.produce(h.Kafka) },
	})
	s.reads()
	s.stop["producers"]()
	s.settle(1)
}

// TestRunbook_FailOver loses the source under load: what was mirrored is kept, and nobody skips a record of it.
func TestRunbook_FailOver(t *testing.T) {
	a, b, s := StartHawser(t), StartHawser(t), openShop(t)
	CreateTopic(t, Client(t, a.Kafka), "orders", 1, 1, nil)
	s.produce(a.Kafka)
	s.consume(a.Kafka)
	s.reads()
	walk(t, "Fail over", a.Kafka, b.Kafka, map[string]func(){
		"A is lost":                do(s.reads, a.Kill, func() { s.stop["producers"]() }, func() { s.stop["consumers"]() }),
		"Start the consumers on B": do(func() { s.keepOnly(b.Kafka) }, func() { s.consume(b.Kafka) }),
		"Start the producers on B": func() { s.produce(b.Kafka) },
	})
	s.reads()
	s.stop["producers"]()
	s.settle(2)
}

// TestRunbook_MoveOneConsumerGroup moves a group to the mirror while producers go on at the source.
func TestRunbook_MoveOneConsumerGroup(t *testing.T) {
	k, h, s := runbookKafka(t), StartHawser(t), openShop(t)
	s.produce(k.Bootstrap())
	s.consume(k.Bootstrap())
	s.reads()
	walk(t, "Move one consumer group", k.Bootstrap(), h.Kafka, map[string]func(){
		"Stop the group's consumers on A":  func() { s.stop["consumers"]() },
		"Start the group's consumers on B": do(func() { s.consume(h.Kafka) }, s.reads),
	})
	s.stop["producers"]()
	s.settle(1)
	if m := h.Mirror("from-a", "orders"); m.Status != "ACTIVE" {
		t.Errorf("the mirror is %v", m.Raw)
	}
}

// TestRunbook_Reverse turns source and mirror, and turns them back, with clients that go along.
func TestRunbook_Reverse(t *testing.T) {
	a, b, s := StartHawser(t), StartHawser(t), openShop(t)
	CreateTopic(t, Client(t, a.Kafka), "orders", 1, 1, nil)
	s.produce(a.Kafka)
	s.consume(a.Kafka)
	s.reads()
	walk(t, "Reverse", a.Kafka, b.Kafka, map[string]func(){
		"Move the producers to B": do(func() { s.stop["producers"]() }, func() { s.produce(b.Kafka) }),
		"Move the consumers to B": do(func() { s.stop["consumers"]() }, func() { s.consume(b.Kafka) }, s.reads),
		"Move the producers to A": do(func() { s.stop["producers"]() }, func() { s.produce(a.Kafka) }),
	})
	s.reads()
	s.stop["producers"]()
	s.settle(3)
	SameAll(t, Client(t, a.Kafka), Client(t, b.Kafka), "orders", 1)
}

// cutOff is a hawser whose link's listener is behind a proxy; clients of the site itself have another.
func cutOff(t *testing.T) (h *Hawser, linkAddress string, proxy *Proxy) {
	t.Helper()
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	proxy = NewProxy(t, fmt.Sprintf("127.0.0.1:%d", ports[1]))
	file := filepath.Join(t.TempDir(), "server.properties")
	text := fmt.Sprintf(`listeners=PLAINTEXT://127.0.0.1:%d,LINKS://127.0.0.1:%d
advertised.listeners=PLAINTEXT://127.0.0.1:%d,LINKS://%s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LINKS:PLAINTEXT
`, ports[0], ports[1], ports[0], proxy.Addr())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return StartHawser(t, "--config", file), proxy.Addr(), proxy
}

// TestRunbook_Restore cuts a site off, lets both be written to, and makes the first one a mirror and then the source again.
func TestRunbook_Restore(t *testing.T) {
	a, links, proxy := cutOff(t)
	b, s := StartHawser(t), openShop(t)
	CreateTopic(t, Client(t, a.Kafka), "orders", 1, 1, nil)
	s.produce(a.Kafka)
	printed := walk(t, "Restore", links, b.Kafka, map[string]func(){
		"A is cut off, and takes a few more records": func() {
			s.stop["producers"]()
			WaitLevel(t, Client(t, a.Kafka), Client(t, b.Kafka), "orders", 1, 30*time.Second)
			proxy.Refuse()
			produce(t, Client(t, a.Kafka), texts("orders", "cut-off", 0, 3)...)
		},
		"Start the producers on B": func() { s.produce(b.Kafka) },
		"A is back":                proxy.Allow,
		"Stop the producers":       func() { s.stop["producers"]() },
		"Start the producers on A": func() { s.produce(a.Kafka) },
	})
	for i := range 3 {
		if want := fmt.Sprintf("cut-off-%d", i); !strings.Contains(printed, want) {
			t.Errorf("the quarantine was not shown to have %s", want)
		}
	}
	s.stop["producers"]()
	WaitLevel(t, Client(t, a.Kafka), Client(t, b.Kafka), "orders", 1, 30*time.Second)
	SameAll(t, Client(t, a.Kafka), Client(t, b.Kafka), "orders", 1)
	before := len(s.written)
	s.keepOnly(a.Kafka)
	if len(s.written) != before {
		t.Errorf("%d acknowledged orders are gone", before-len(s.written))
	}
}
