//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const everyGroup = `{"groupFilters":[{"name":"*","patternType":"LITERAL","filterType":"INCLUDE"}]}`

// write appends n records with a value to a partition.
func write(t *testing.T, client *kgo.Client, topic string, partition int32, n int, value string) {
	t.Helper()
	var records []*kgo.Record
	for range n {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)})
	}
	if err := client.ProduceSync(testContext(t), records...).FirstErr(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

// byHand is a client that produces to the partitions it is told to.
func byHand(t *testing.T, bootstrap string) *kgo.Client {
	t.Helper()
	return Client(t, bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(64<<10))
}

func commitText(t *testing.T, admin *kadm.Client, group, topic string, partition int32, at int64, metadata string) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: at, LeaderEpoch: -1, Metadata: metadata})
	if err := admin.CommitAllOffsets(testContext(t), group, offsets); err != nil {
		t.Fatalf("commit for %s: %v", group, err)
	}
}

// committedAt reads a group's offset, -1 for none.
func committedAt(t *testing.T, admin *kadm.Client, group, topic string, partition int32) kadm.Offset {
	t.Helper()
	rs, err := admin.FetchOffsets(testContext(t), group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		t.Fatalf("fetch offsets of %s: %v", group, err)
	}
	if o, is := rs.Lookup(topic, partition); is {
		return o.Offset
	}
	return kadm.Offset{At: -1}
}

func waitCommittedAt(t *testing.T, admin *kadm.Client, group, topic string, partition int32, want int64) {
	t.Helper()
	eventually(t, 20*time.Second, fmt.Sprintf("%s is at %d", group, want), func() (bool, string) {
		got := committedAt(t, admin, group, topic, partition).At
		return got == want, fmt.Sprint(got)
	})
}

func configOf(t *testing.T, admin *kadm.Client, topic, name string) string {
	t.Helper()
	rs, err := admin.DescribeTopicConfigs(testContext(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rs[0].Configs {
		if c.Key == name {
			return c.MaybeValue()
		}
	}
	return ""
}

// TestC13_C33_C36_PartitionsAndConfigsFollow lets a stock source gain partitions and change configs.
func TestC13_C33_C36_PartitionsAndConfigsFollow(t *testing.T) {
	k := SharedKafka(t)
	source := byHand(t, k.Bootstrap())
	CreateTopic(t, source, "l-wide", 3, 1, map[string]string{"cleanup.policy": "compact", "retention.ms": "-1", "max.message.bytes": "2000000"})
	h := StartHawser(t)
	h.CreateLink("l", k.Bootstrap(), nil)
	h.CreateMirror("l", "l-wide")
	mirror := Client(t, h.Kafka)
	from, here := kadm.NewClient(source), kadm.NewClient(mirror)
	for name, want := range map[string]string{"cleanup.policy": "compact", "retention.ms": "-1", "max.message.bytes": "2000000", "min.insync.replicas": "1"} {
		if got := configOf(t, here, "l-wide", name); got != want {
			t.Errorf("at first sight %s=%s, want %s", name, got, want)
		}
	}
	ctx := testContext(t)
	if _, err := from.UpdatePartitions(ctx, 6, "l-wide"); err != nil {
		t.Fatal(err)
	}
	value := "delete"
	if _, err := from.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &value}}, "l-wide"); err != nil {
		t.Fatal(err)
	}
	for p := range int32(6) {
		eventually(t, 30*time.Second, "the new partition has a leader", func() (bool, string) {
			broker, _, _, err := leader(ctx, source, "l-wide", p)
			return err == nil && broker >= 0, fmt.Sprint(err)
		})
		write(t, source, "l-wide", p, 100, "x")
	}
	eventually(t, 30*time.Second, "the mirror has six partitions", func() (bool, string) {
		_, _, _, err := leader(ctx, mirror, "l-wide", 5)
		return err == nil, fmt.Sprint(err)
	})
	WaitLevel(t, source, mirror, "l-wide", 6, 60*time.Second)
	SameAll(t, source, mirror, "l-wide", 6)
	eventually(t, 20*time.Second, "cleanup.policy follows", func() (bool, string) {
		got := configOf(t, here, "l-wide", "cleanup.policy")
		return got == "delete", got
	})
	rs, err := here.UpdatePartitions(ctx, 9, "l-wide")
	if err == nil {
		err = rs.Error()
	}
	if !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("CreatePartitions on a mirror: %v", err)
	}
	hour := "3600000"
	altered, err := here.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &hour}}, "l-wide")
	if err != nil || altered[0].Err == nil || !strings.Contains(altered[0].ErrMessage, "retention.ms") {
		t.Errorf("C36: a synced config set on the mirror: %+v, %v", altered, err)
	}
}

// TestC21_C22_C24_C25_C28_GroupOffsetsFollow copies offsets of every kind from a stock source.
func TestC21_C22_C24_C25_C28_GroupOffsetsFollow(t *testing.T) {
	k := SharedKafka(t)
	source := byHand(t, k.Bootstrap())
	CreateTopic(t, source, "l-groups", 1, 1, nil)
	CreateTopic(t, source, "l-groups-2", 1, 1, nil)
	write(t, source, "l-groups", 0, 100, "x")
	write(t, source, "l-groups-2", 0, 100, "x")
	h := StartHawser(t)
	h.CreateLink("l", k.Bootstrap(), map[string]string{"consumer.offset.sync.enable": "true", "consumer.offset.group.filters": everyGroup})
	h.CreateMirror("l", "l-groups")
	h.CreateMirror("l", "l-groups-2")
	mirror := byHand(t, h.Kafka)
	WaitLevel(t, source, mirror, "l-groups", 1, 60*time.Second)
	from, here := kadm.NewClient(source), kadm.NewClient(mirror)

	texts := []string{"", "x", "é☃", "a\u0000b", strings.Repeat("m", 4000)}
	for i, text := range texts {
		commitText(t, from, fmt.Sprintf("lg-m%d", i), "l-groups", 0, int64(10+i), text)
	}
	commitText(t, from, "lg-zero", "l-groups", 0, 0, "")
	commitText(t, from, "lg-both", "l-groups", 0, 40, "")
	commitText(t, from, "lg-both", "l-groups-2", 0, 40, "")
	waitCommittedAt(t, here, "lg-zero", "l-groups", 0, 0)
	for i, text := range texts {
		group := fmt.Sprintf("lg-m%d", i)
		waitCommittedAt(t, here, group, "l-groups", 0, int64(10+i))
		if got := committedAt(t, here, group, "l-groups", 0); got.Metadata != text {
			t.Errorf("C25: metadata %.20q came as %.20q", text, got.Metadata)
		}
	}
	waitCommittedAt(t, here, "lg-both", "l-groups-2", 0, 40)

	commitText(t, from, "lg-both", "l-groups", 0, 10, "")
	waitCommittedAt(t, here, "lg-both", "l-groups", 0, 10) // C24

	// C29: promote carries the last commit; C28: a stopped mirror's offsets are left alone from then on.
	commitText(t, from, "lg-both", "l-groups-2", 0, 100, "")
	h.Order("l", "promote", "l-groups-2")
	h.WaitStatus("l", "l-groups-2", "STOPPED", 60*time.Second)
	if got := committedAt(t, here, "lg-both", "l-groups-2", 0).At; got != 100 {
		t.Errorf("C29: after promote lg-both is at %d, want 100", got)
	}
	commitText(t, from, "lg-both", "l-groups-2", 0, 1, "")
	commitText(t, from, "lg-both", "l-groups", 0, 11, "")
	waitCommittedAt(t, here, "lg-both", "l-groups", 0, 11)
	if got := committedAt(t, here, "lg-both", "l-groups-2", 0).At; got != 100 {
		t.Errorf("C28: on a stopped topic lg-both went to %d", got)
	}

	// C21: the mirror is held at 100 while the source goes on.
	h.Order("l", "pause", "l-groups")
	eventually(t, 20*time.Second, "the mirror is paused", func() (bool, string) { m := h.Mirror("l", "l-groups"); return m.Status == "PAUSED", m.Status })
	write(t, source, "l-groups", 0, 20, "later")
	commitText(t, from, "lg-ahead", "l-groups", 0, 115, "")
	waitCommittedAt(t, here, "lg-ahead", "l-groups", 0, 100)
	h.Order("l", "failover", "l-groups")
	h.WaitStatus("l", "l-groups", "STOPPED", 20*time.Second)
	write(t, mirror, "l-groups", 0, 10, "here")
	if got := committedAt(t, here, "lg-ahead", "l-groups", 0).At; got != 100 {
		t.Errorf("C21: after failover and ten records lg-ahead is at %d, want 100", got)
	}
}

// TestC04_C62_RecreatedTopicFailsItsMirror deletes a stock source's topic and makes it anew.
func TestC04_C62_RecreatedTopicFailsItsMirror(t *testing.T) {
	k := SharedKafka(t)
	source := byHand(t, k.Bootstrap())
	CreateTopic(t, source, "l-anew", 1, 1, nil)
	CreateTopic(t, source, "l-other", 1, 1, nil)
	write(t, source, "l-anew", 0, 100, "old")
	h := StartHawser(t)
	h.CreateLink("l", k.Bootstrap(), map[string]string{"cluster.link.retry.timeout.ms": "5000"})
	h.CreateMirror("l", "l-anew")
	h.CreateMirror("l", "l-other")
	mirror := byHand(t, h.Kafka)
	WaitLevel(t, source, mirror, "l-anew", 1, 60*time.Second)
	ctx := testContext(t)
	if _, err := kadm.NewClient(source).DeleteTopics(ctx, "l-anew"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the topic is made anew", func() (bool, string) {
		rs, err := kadm.NewClient(source).CreateTopics(ctx, 1, 1, nil, "l-anew")
		if err == nil {
			err = rs["l-anew"].Err
		}
		return err == nil, fmt.Sprint(err)
	})
	source = byHand(t, k.Bootstrap()) // the client library holds on to the old topic's id
	write(t, source, "l-anew", 0, 10, "new")
	h.WaitStatus("l", "l-anew", "FAILED", 60*time.Second)
	if m := h.Mirror("l", "l-anew"); m.Error != "SOURCE_TOPIC_ID_CHANGED" && m.Error != "SOURCE_TOPIC_MAY_BE_DELETED" {
		t.Errorf("error is %s", m.Error)
	}
	if _, end := Ends(t, mirror, "l-anew", 0); end != 100 {
		t.Errorf("the mirror ends at %d, want 100", end)
	}
	write(t, source, "l-other", 0, 5, "x")
	WaitLevel(t, source, mirror, "l-other", 1, 30*time.Second)
	h.Order("l", "failover", "l-anew")
	h.WaitStatus("l", "l-anew", "STOPPED", 20*time.Second)
	eventually(t, 20*time.Second, "STOPPED is stored: it is shown a little before", func() (bool, string) {
		text, err := os.ReadFile(h.logPath())
		return err == nil && strings.Contains(string(text), "mirrors stopped"), fmt.Sprint(err)
	})
	before := h.Mirror("l", "l-anew").Raw
	h.Stop()
	h.Start()
	after := h.Mirror("l", "l-anew").Raw
	if fmt.Sprint(before["state_time_ms"], before["mirror_lags"]) != fmt.Sprint(after["state_time_ms"], after["mirror_lags"]) {
		t.Errorf("C62: history before a restart %v, after it %v", before, after)
	}
	mirror = byHand(t, h.Kafka)
	if _, err := kadm.NewClient(mirror).DeleteTopics(ctx, "l-anew"); err != nil {
		t.Fatal(err)
	}
	h.CreateMirror("l", "l-anew")
	WaitLevel(t, source, mirror, "l-anew", 1, 30*time.Second)
	SameAll(t, source, mirror, "l-anew", 1)
}

// TestC59_PauseHoldsOverARestart pauses a topic and then the whole link.
func TestC59_PauseHoldsOverARestart(t *testing.T) {
	k := SharedKafka(t)
	source := byHand(t, k.Bootstrap())
	CreateTopic(t, source, "l-pause", 1, 1, nil)
	write(t, source, "l-pause", 0, 10, "x")
	h := StartHawser(t)
	h.CreateLink("l", k.Bootstrap(), nil)
	h.CreateMirror("l", "l-pause")
	mirror := Client(t, h.Kafka)
	WaitLevel(t, source, mirror, "l-pause", 1, 60*time.Second)
	h.Order("l", "pause", "l-pause")
	h.Stop()
	h.Start()
	mirror = Client(t, h.Kafka)
	h.WaitStatus("l", "l-pause", "PAUSED", 10*time.Second)
	write(t, source, "l-pause", 0, 10, "y")
	pause(testContext(t), 3*time.Second)
	if _, end := Ends(t, mirror, "l-pause", 0); end != 10 {
		t.Errorf("a paused mirror grew to %d", end)
	}
	h.Order("l", "resume", "l-pause")
	WaitLevel(t, source, mirror, "l-pause", 1, 30*time.Second)
	h.Must("PUT", h.path("/links/l/configs/cluster.link.paused"), map[string]any{"value": "true"})
	h.WaitStatus("l", "l-pause", "LINK_PAUSED", 10*time.Second)
	h.Must("PUT", h.path("/links/l/configs/cluster.link.paused"), map[string]any{"value": "false"})
	h.WaitStatus("l", "l-pause", "ACTIVE", 10*time.Second)
	write(t, source, "l-pause", 0, 10, "z")
	WaitLevel(t, source, mirror, "l-pause", 1, 30*time.Second)
	SameAll(t, source, mirror, "l-pause", 1)
}

// TestC60_PromoteUnderLoadLosesNothing promotes while a producer goes on, and then stops it.
func TestC60_PromoteUnderLoadLosesNothing(t *testing.T) {
	k := SharedKafka(t)
	source := byHand(t, k.Bootstrap())
	CreateTopic(t, source, "l-busy", 2, 1, nil)
	h := StartHawser(t)
	h.CreateLink("l", k.Bootstrap(), nil)
	h.CreateMirror("l", "l-busy")
	mirror := byHand(t, h.Kafka)
	load, stop := context.WithCancel(testContext(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; load.Err() == nil; i++ {
			source.Produce(testContext(t), &kgo.Record{Topic: "l-busy", Partition: int32(i % 2), Value: []byte("load")}, nil)
			pause(load, 2*time.Millisecond)
		}
		_ = source.Flush(testContext(t))
	}()
	pause(load, 2*time.Second)
	h.Order("l", "promote", "l-busy")
	pause(load, 3*time.Second)
	if m := h.Mirror("l", "l-busy"); m.Status == "STOPPED" {
		_, sourceEnd := Ends(t, source, "l-busy", 0)
		t.Logf("promoted between two records; the source ends at %d now", sourceEnd)
	}
	stop()
	<-done
	h.WaitStatus("l", "l-busy", "STOPPED", 30*time.Second)
	for p := range int32(2) {
		_, there := Ends(t, source, "l-busy", p)
		_, here := Ends(t, mirror, "l-busy", p)
		Same(t, source, mirror, "l-busy", p, 0, min(there, here))
		if here > there {
			t.Errorf("partition %d: the mirror ends at %d, the source at %d", p, here, there)
		}
	}
	write(t, mirror, "l-busy", 0, 1, "here")
}
