//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestC04_SourceTopicDeletedAndMadeAnew wants nothing of the new topic in the old one's mirror.
func TestC04_SourceTopicDeletedAndMadeAnew(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), map[string]string{"cluster.link.retry.timeout.ms": "5000"})
	topic, other := "c04", "c04-other"
	CreateTopic(t, w.source, topic, 1, 3, nil)
	CreateTopic(t, w.source, other, 1, 3, nil)
	produce(t, w.source, texts(topic, "old", 0, 100)...)
	w.h.CreateMirror("east", topic)
	w.h.CreateMirror("east", other)
	w.level(topic, 1)
	admin := kadm.NewClient(w.source)
	if rs, err := admin.DeleteTopics(testContext(t), topic); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	eventually(t, 60*time.Second, "the topic is made anew", func() (bool, string) {
		rs, err := admin.CreateTopic(testContext(t), 1, 3, nil, topic)
		return err == nil && rs.Err == nil, fmt.Sprint(err, rs.Err)
	})
	fresh := Client(t, w.k.Bootstrap(), kgo.RecordRetries(100))
	produce(t, fresh, texts(topic, "new", 0, 10)...)
	eventually(t, 60*time.Second, topic+" is FAILED", func() (bool, string) {
		if _, end := Ends(t, w.mirror, topic, 0); end != 100 {
			t.Fatalf("the mirror ends at %d, want 100", end)
		}
		m := w.h.Mirror("east", topic)
		return m.Status == "FAILED", fmt.Sprint(m.Raw)
	})
	t.Logf("it says %v", w.h.Mirror("east", topic).Raw)
	produce(t, w.source, texts(other, "r", 0, 10)...)
	w.level(other, 1)
	if m := w.h.Mirror("east", other); m.Status != "ACTIVE" {
		t.Errorf("another mirror of the link is %s", m.Status)
	}
	for i, v := range values(t, w.h.Kafka, topic, kgo.ReadCommitted(), 100) {
		if v != fmt.Sprintf("old-%d", i) {
			t.Fatalf("record %d is %q", i, v)
		}
	}
	w.h.Order("east", "failover", topic)
	w.h.WaitStatus("east", topic, "STOPPED", 30*time.Second)
	if rs, err := kadm.NewClient(w.mirror).DeleteTopics(testContext(t), topic); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	SameAll(t, w.source, w.mirror, topic, 1)
}

// TestC05_SourceLostItsTailInAnUncleanElection follows the source to its other history.
func TestC05_SourceLostItsTailInAnUncleanElection(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), allGroups("c05-"))
	topic := "c05"
	createOn(t, w.source, topic, []int32{2, 3}, map[string]string{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
	w.h.CreateMirror("east", topic)
	// The end of a chain, and a topic whose leader has more than it may show while the other replica is away (case C18).
	last := StartHawser(t)
	last.CreateLink("from-b", w.h.Kafka, nil)
	last.CreateMirror("from-b", topic)
	end := Client(t, last.Kafka)
	hidden := "c18"
	createOn(t, w.source, hidden, []int32{2, 3}, map[string]string{"min.insync.replicas": "2"})
	w.h.CreateMirror("east", hidden)
	load := Client(t, w.k.Bootstrap(), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.RecordRetries(1000))
	eventually(t, 30*time.Second, "both replicas are in sync", func() (bool, string) {
		d, err := kadm.NewClient(w.source).ListTopics(testContext(t), topic)
		return err == nil && len(d[topic].Partitions[0].ISR) == 2, fmt.Sprint(d[topic].Partitions[0].ISR, err)
	})
	// With acks=1 the follower may be stopped before it has fetched these, while it is still counted as in sync;
	// then the source begins anew at 0 and has 80 records at the end.
	everywhere := Client(t, w.k.Bootstrap(), kgo.RequiredAcks(kgo.AllISRAcks()))
	produce(t, everywhere, texts(topic, "both", 0, 100)...)
	w.level(topic, 1)
	produce(t, everywhere, texts(hidden, "shown", 0, 10)...)
	w.level(hidden, 1)
	w.k.Stop(t, 3)
	tail := hiddenTail(t, w, load, hidden)
	produce(t, load, texts(topic, "lost", 100, 150)...)
	commit(t, w.source, "c05-g", topic, 150)
	w.level(topic, 1)
	waitCommitted(t, w.mirror, "c05-g", topic, 150)
	WaitLevel(t, w.source, end, topic, 1, 60*time.Second)
	tail()
	w.k.Stop(t, 2)
	w.k.Start(t, 3)
	produce(t, load, texts(topic, "kept", 100, 180)...)
	w.k.Start(t, 2)
	w.level(topic, 1)
	SameAll(t, w.source, w.mirror, topic, 1)
	for range 10 { // while the source's replicas still find together
		for i, v := range values(t, w.h.Kafka, topic, kgo.ReadCommitted(), 180) {
			if i >= 100 && v != fmt.Sprintf("kept-%d", i) {
				t.Fatalf("record %d is %q", i, v)
			}
		}
	}
	eventually(t, 30*time.Second, "the group is within the mirror", func() (bool, string) {
		at := committed(t, w.mirror, "c05-g", topic)
		return at <= 180, fmt.Sprint(at)
	})
	text, err := os.ReadFile(w.h.logPath())
	fatal(t, err)
	if !regexp.MustCompile(`WARN.* topic=c05 partition=0 from=150 to=100 .*epoch`).Match(text) {
		t.Error("no line says that the mirror was cut from 150 to 100, with epochs")
	}
	if n, ok := w.h.Metric("hawser_events_total", `event="mirror_truncated"`); !ok || n < 1 {
		t.Errorf("hawser_events_total{event=mirror_truncated} is %v (%v)", n, ok)
	}
	if state, text := w.h.task("east", "ConsumerOffsetSync"); state != "ACTIVE" {
		t.Errorf("the task of group offsets is %s: %s", state, text)
	}
	WaitLevel(t, w.source, end, topic, 1, 60*time.Second)
	SameAll(t, w.source, end, topic, 1)
	if m := last.Mirror("from-b", topic); m.Status != "ACTIVE" {
		t.Errorf("the end of the chain is %v", m.Raw)
	}
	w.level(hidden, 1)
	SameAll(t, w.source, w.mirror, hidden, 1)
}

// hiddenTail writes records that the leader has and may not show, and wants the mirror not to have them; so does the function it returns,
// a while later.
func hiddenTail(t *testing.T, w *pair, load *kgo.Client, topic string) func() {
	t.Helper()
	produce(t, load, texts(topic, "hidden", 10, 20)...)
	check := func() {
		t.Helper()
		_, _, epoch, err := leader(testContext(t), w.source, topic, 0)
		fatal(t, err)
		_, written := EpochEnd(t, w.source, topic, 0, epoch)
		_, shown := Ends(t, w.source, topic, 0)
		if written != 20 || shown != 10 {
			t.Errorf("the source's leader has written up to %d and shows up to %d, want 20 and 10: this shows nothing", written, shown)
		}
		if _, end := Ends(t, w.mirror, topic, 0); end != shown {
			t.Errorf("the mirror ends at %d, the source shows up to %d", end, shown)
		}
	}
	check()
	return check
}

// createOn makes a topic of one partition on chosen brokers.
func createOn(t *testing.T, client *kgo.Client, topic string, brokers []int32, configs map[string]string) {
	t.Helper()
	rq := kmsg.NewPtrCreateTopicsRequest()
	rq.TimeoutMillis = 30_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, -1, -1
	ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	ra.Replicas = brokers
	rt.ReplicaAssignment = append(rt.ReplicaAssignment, ra)
	for name, value := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		rt.Configs = append(rt.Configs, c)
	}
	rq.Topics = append(rq.Topics, rt)
	rs, err := rq.RequestWith(testContext(t), client)
	if err == nil {
		err = kerr.ErrorForCode(rs.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
}

// TestC14_SourceLeadersMoveUnderLoad moves leaders and kills brokers while an idempotent load flows.
func TestC14_SourceLeadersMoveUnderLoad(t *testing.T) {
	const partitions = 6
	w := newPair(t)
	topic := again("c14")
	CreateTopic(t, w.source, topic, partitions, 3, nil)
	w.h.CreateMirror("east", topic)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	load := Client(t, w.k.Bootstrap(), kgo.RecordRetries(1<<20), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MaxBufferedRecords(2000))
	done := make(chan struct{})
	go func() {
		defer close(done)
		value := make([]byte, 2000)
		for ctx.Err() == nil {
			for range 10 {
				load.Produce(testContext(t), &kgo.Record{Topic: topic, Value: value}, nil)
			}
			pause(ctx, 10*time.Millisecond)
		}
		if err := load.Flush(testContext(t)); err != nil {
			t.Error(err)
		}
	}()
	still := standstills(t, w.source, w.mirror, topic, partitions)
	for round := range envInt("HAWSER_MOVES", 4) {
		moveLeaders(t, w.k, topic)
		if round == 1 || round == 2 {
			w.k.Kill(t, round+1)
			w.k.Start(t, round+1)
			waitInSync(t, w.source, topic, 3)
		}
	}
	cancel()
	<-done
	if longest := still(); longest > 15*time.Second {
		t.Errorf("a partition stood still for %v", longest)
	}
	w.level(topic, partitions)
	SameAll(t, w.source, w.mirror, topic, partitions)
	if s, _ := Ends(t, w.mirror, topic, 0); s != 0 {
		t.Errorf("the mirror starts at %d, want 0", s)
	}
	if m := w.h.Mirror("east", topic); m.Status != "ACTIVE" {
		t.Errorf("the mirror is %s, error %s", m.Status, m.Error)
	}
}

func waitInSync(t *testing.T, client *kgo.Client, topic string, replicas int) {
	t.Helper()
	eventually(t, 60*time.Second, "all replicas are in sync", func() (bool, string) {
		d, err := kadm.NewClient(client).ListTopics(testContext(t), topic)
		for _, p := range d[topic].Partitions {
			if len(p.ISR) < replicas {
				return false, fmt.Sprint(p.Partition, p.ISR)
			}
		}
		return err == nil, fmt.Sprint(err)
	})
}

// TestC23_GroupInUseOnTheDestinationIsNotRewound keeps a member here while the source's offset is lower.
func TestC23_GroupInUseOnTheDestinationIsNotRewound(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), allGroups("c23-"))
	topic := "c23"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	w.h.CreateMirror("east", topic)
	produce(t, w.source, texts(topic, "r", 0, 100)...)
	w.level(topic, 1)
	commit(t, w.source, "c23-g", topic, 50)
	waitCommitted(t, w.mirror, "c23-g", topic, 50)
	member := Client(t, w.h.Kafka, kgo.ConsumerGroup("c23-g"), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit())
	if have := pollOffsets(t, member, 50); have[0] != 50 {
		t.Fatalf("the member begins at %d, want 50", have[0])
	}
	if err := member.CommitUncommittedOffsets(testContext(t)); err != nil {
		t.Fatal(err)
	}
	commit(t, w.source, "c23-g", topic, 60)
	commit(t, w.source, "c23-other", topic, 33) // what shows that the task went on meanwhile
	waitCommitted(t, w.mirror, "c23-other", topic, 33)
	commit(t, w.source, "c23-other", topic, 34)
	waitCommitted(t, w.mirror, "c23-other", topic, 34)
	eventually(t, 30*time.Second, "the task tells of the group that is skipped", func() (bool, string) {
		state, text := w.h.task("east", "ConsumerOffsetSync")
		return state == "IN_ERROR" && strings.Contains(text, "CONSUMER_GROUP_IN_USE_ERROR") && strings.Contains(text, "c23-g") && !strings.Contains(text, "c23-other"), state + text
	})
	if at := committed(t, w.mirror, "c23-g", topic); at != 100 {
		t.Errorf("the group in use here is at %d, want 100", at)
	}
	if _, state := member.GroupMetadata(); state < 0 {
		t.Errorf("the member was put out")
	}
}

// TestC24_ResetToAnOlderOffsetComesOver wants idle groups to follow back and forth.
func TestC24_ResetToAnOlderOffsetComesOver(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), allGroups("c24-"))
	const topic = "c24"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	w.h.CreateMirror("east", topic)
	produce(t, w.source, texts(topic, "r", 0, 100)...)
	w.level(topic, 1)
	for _, at := range []int64{100, 10, 100, 0} {
		commit(t, w.source, "c24-g", topic, at)
		waitCommitted(t, w.mirror, "c24-g", topic, at)
	}
}

// TestC59_PauseAndRestart wants a paused mirror to stay so, and to go on from its end.
func TestC59_PauseAndRestart(t *testing.T) {
	w := newPair(t)
	topic := "c59"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	w.h.CreateMirror("east", topic)
	produce(t, w.source, texts(topic, "r", 0, 100)...)
	w.level(topic, 1)
	w.h.Order("east", "pause", topic)
	w.h.WaitStatus("east", topic, "PAUSED", 30*time.Second)
	produce(t, w.source, texts(topic, "r", 100, 200)...)
	w.restart()
	alter := func(name, value string) {
		t.Helper()
		w.h.Must("PUT", w.h.path("/links/east/configs:alter"), map[string]any{"data": []map[string]string{{"name": name, "value": value, "operation": "SET"}}})
	}
	alter("metadata.max.age.ms", "2000")
	w.h.Kill()
	w.h.Start()
	still := func(status string) {
		t.Helper()
		pause(testContext(t), time.Second)
		if _, end := Ends(t, w.mirror, topic, 0); end != 100 {
			t.Errorf("the paused mirror ends at %d, want 100", end)
		}
		if m := w.h.Mirror("east", topic); m.Status != status {
			t.Errorf("the mirror is %s, want %s", m.Status, status)
		}
		if err := w.mirror.ProduceSync(testContext(t), texts(topic, "no", 0, 1)...).FirstErr(); err == nil {
			t.Error("a paused mirror took a record")
		}
	}
	still("PAUSED")
	alter("cluster.link.paused", "true")
	w.h.Order("east", "resume", topic)
	w.h.WaitStatus("east", topic, "LINK_PAUSED", 30*time.Second)
	still("LINK_PAUSED")
	alter("cluster.link.paused", "false")
	w.level(topic, 1)
	SameAll(t, w.source, w.mirror, topic, 1)
}

// TestC60_PromoteWithProducersThatNeverStop also kills the broker while it waits (case C105).
func TestC60_C105_PromoteWithProducersThatNeverStop(t *testing.T) {
	w := newPair(t)
	topic := "c60"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	open := Client(t, w.k.Bootstrap(), kgo.TransactionalID("c60"))
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, open, texts(topic, "tx", 0, 5)...)
	f := startFlow(t, w.source, []string{topic})
	w.h.Order("east", "promote", topic)
	w.h.WaitStatus("east", topic, "PENDING_STOPPED", 30*time.Second)
	w.h.Kill()
	w.h.Start()
	_, from := Ends(t, w.mirror, topic, 0)
	eventually(t, 30*time.Second, "it goes on mirroring after the kill", func() (bool, string) {
		_, end := Ends(t, w.mirror, topic, 0)
		return end > from, fmt.Sprint(end)
	})
	if m := w.h.Mirror("east", topic); m.Status != "PENDING_STOPPED" {
		t.Errorf("with an open transaction the mirror is %s: %v", m.Status, m.Raw)
	}
	f.stop()
	if err := w.source.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if err := open.EndTransaction(testContext(t), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	w.h.WaitStatus("east", topic, "STOPPED", 60*time.Second)
	SameAll(t, w.source, w.mirror, topic, 1)
	_, end := Ends(t, w.mirror, topic, 0)
	if s := stable(t, w.mirror, topic); s != end {
		t.Errorf("the last stable offset is %d, the end %d", s, end)
	}
	produce(t, w.mirror, texts(topic, "here", 0, 1)...)
}

// TestC61_StatusTellsTheTruthWhenNothingArrives takes the source away and gives it back.
func TestC61_StatusTellsTheTruthWhenNothingArrives(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), map[string]string{"availability.check.ms": "1000", "availability.check.consecutive.failure.threshold": "2"})
	topic := "c61"
	CreateTopic(t, w.source, topic, 1, 1, nil)
	w.h.CreateMirror("east", topic)
	w.level(topic, 1)
	w.refuse()
	began := time.Now()
	w.h.WaitStatus("east", topic, "SOURCE_UNAVAILABLE", 60*time.Second)
	down := time.Since(began)
	if v, ok := w.h.Metric("hawser_link_state", `link="east"`, `state="UNAVAILABLE"`); !ok || v != 1 {
		t.Errorf("hawser_link_state{state=UNAVAILABLE} is %v (%v)", v, ok)
	}
	w.allow()
	began = time.Now()
	w.h.WaitStatus("east", topic, "ACTIVE", 60*time.Second)
	t.Logf("SOURCE_UNAVAILABLE after %v, ACTIVE %v after the source is back", down.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	produce(t, w.source, texts(topic, "r", 0, 10)...)
	w.level(topic, 1)
}

// TestC61_SilentNetwork loses every packet for a while: nobody hears that a connection is gone.
func TestC61_SilentNetwork(t *testing.T) {
	w := newPairTo(t, SharedKafka(t), map[string]string{"availability.check.ms": "1000", "availability.check.consecutive.failure.threshold": "2",
		"request.timeout.ms": "2000", "replica.socket.timeout.ms": "2000", "socket.connection.setup.timeout.ms": "2000"})
	topic := "c61-silent"
	CreateTopic(t, w.source, topic, 3, 3, nil)
	w.h.CreateMirror("east", topic)
	w.level(topic, 3)
	for _, p := range w.proxies {
		p.Swallow()
	}
	began := time.Now()
	load := Client(t, w.k.Bootstrap(), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	produce(t, load, texts(topic, "r", 0, 30)...)
	w.h.WaitStatus("east", topic, "SOURCE_UNAVAILABLE", 60*time.Second)
	down := time.Since(began)
	for _, p := range w.proxies {
		p.Mend()
	}
	began = time.Now()
	w.level(topic, 3)
	level := time.Since(began)
	w.h.WaitStatus("east", topic, "ACTIVE", 60*time.Second)
	t.Logf("SOURCE_UNAVAILABLE after %v; level %v after the network is back", down.Round(time.Millisecond), level.Round(time.Millisecond))
	SameAll(t, w.source, w.mirror, topic, 3)
}

// TestC61_StoppedProcess holds hawser with SIGSTOP longer than its sessions last, and lets it go on.
func TestC61_StoppedProcess(t *testing.T) {
	w := newPair(t)
	topic := "c61-held"
	CreateTopic(t, w.source, topic, 3, 3, nil)
	w.h.CreateMirror("east", topic)
	load := Client(t, w.k.Bootstrap(), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	produce(t, load, texts(topic, "r", 0, 30)...)
	w.level(topic, 3)
	if err := syscall.Kill(w.h.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		produce(t, load, texts(topic, "r", 30+30*i, 60+30*i)...)
		pause(testContext(t), time.Duration(envInt("HAWSER_HELD_MS", 800))*time.Millisecond)
	}
	for _, p := range w.proxies {
		p.Cut()
	}
	if err := syscall.Kill(w.h.Pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.level(topic, 3)
	SameAll(t, w.source, w.mirror, topic, 3)
	w.h.WaitStatus("east", topic, "ACTIVE", 30*time.Second)
}

// TestC108_MirrorDeletedAndMadeAgain kills the broker right after the delete.
func TestC108_MirrorDeletedAndMadeAgain(t *testing.T) {
	w := newPair(t)
	topic := "c108"
	CreateTopic(t, w.source, topic, 4, 1, nil)
	client := Client(t, w.k.Bootstrap(), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	produce(t, client, texts(topic, "r", 0, 400)...)
	w.h.CreateMirror("east", topic)
	w.level(topic, 4)
	_, old, _, err := leader(testContext(t), w.mirror, topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	if rs, err := kadm.NewClient(w.mirror).DeleteTopics(testContext(t), topic); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	w.h.Kill()
	w.h.Start()
	produce(t, client, texts(topic, "r", 400, 500)...)
	w.h.CreateMirror("east", topic)
	w.level(topic, 4)
	SameAll(t, w.source, w.mirror, topic, 4)
	eventually(t, 60*time.Second, "nothing is left of the old topic", func() (bool, string) {
		left := directoriesOf(t, w.h, old)
		return len(left) == 0, strings.Join(left, " ")
	})
}

func directoriesOf(t *testing.T, h *Hawser, id kafka.TopicID) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(h.dir, "data", "data"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.Contains(e.Name(), id.String()) {
			names = append(names, e.Name())
		}
	}
	return slices.Clip(names)
}
