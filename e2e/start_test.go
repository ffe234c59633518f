//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestStart_EmptyDirectoryToFirstProduce measures from exec to the first record that is acknowledged with acks=all.
func TestStart_EmptyDirectoryToFirstProduce(t *testing.T) {
	began := time.Now()
	h := StartHawser(t)
	ready := time.Since(began)
	client := Client(t, h.Kafka)
	CreateTopic(t, client, "first", 1, 1, nil)
	produce(t, client, texts("first", "r", 0, 1)...)
	produced := time.Since(began)
	t.Logf("ready after %v, first record acknowledged after %v", ready.Round(time.Millisecond), produced.Round(time.Millisecond))
	if produced > 5*time.Second {
		t.Errorf("first produce after %v, five times its bound of 1 s", produced)
	}
}

// TestStart_IdleMemory wants a broker that does nothing to take less than 120 MB.
func TestStart_IdleMemory(t *testing.T) {
	h := StartHawser(t)
	most := int64(0)
	for range 10 { // while it idles, as start-up may still let go of memory or take more
		most = max(most, residentKB(t, h.Pid))
		pause(testContext(t), 200*time.Millisecond)
	}
	t.Logf("idle: %d MB resident at most, %d MB at the end", most>>10, residentKB(t, h.Pid)>>10)
	if most > 120<<10 {
		t.Errorf("idle takes %d MB, the bound is 120 MB", most>>10)
	}
}

// residentKB reads VmRSS.
func residentKB(t *testing.T, pid int) int64 {
	t.Helper()
	return statusKB(t, pid, "VmRSS:")
}

// statusKB reads a line of a process's status: VmRSS: is what is resident now, VmHWM: the most that ever was.
func statusKB(t *testing.T, pid int, line string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for one := range bytes.Lines(text) {
		if fields := strings.Fields(string(one)); len(fields) >= 2 && fields[0] == line {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s", line)
	return 0
}

// TestStart_ThousandPartitions restarts a broker that has a thousand partitions with records in them, gently and after SIGKILL.
func TestStart_ThousandPartitions(t *testing.T) {
	const topics, partitions = 10, 100
	h := StartHawser(t)
	client := Client(t, h.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var names []string
	for i := range topics {
		names = append(names, fmt.Sprintf("many-%d", i))
	}
	if rs, err := kadm.NewClient(client).CreateTopics(testContext(t), partitions, 1, nil, names...); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	fill := func(value string) {
		var records []*kgo.Record
		for _, name := range names {
			for p := range int32(partitions) {
				records = append(records, &kgo.Record{Topic: name, Partition: p, Value: []byte(value)})
			}
		}
		produce(t, client, records...)
	}
	probes := int64(0) // records of starts, on the last partition of the last topic
	check := func(rounds int64) {
		t.Helper()
		ends, err := kadm.NewClient(client).ListEndOffsets(testContext(t), names...)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		ends.Each(func(o kadm.ListedOffset) {
			want := rounds
			if o.Topic == names[topics-1] && o.Partition == partitions-1 {
				want += probes
			}
			if n++; o.Err != nil || o.Offset != want {
				t.Errorf("%s-%d ends at %d (%v), want %d", o.Topic, o.Partition, o.Offset, o.Err, want)
			}
		})
		if n != topics*partitions {
			t.Errorf("%d partitions are there, want %d", n, topics*partitions)
		}
	}
	again := func(how string, end func()) {
		t.Helper()
		end()
		began := time.Now()
		h.Start()
		ready := time.Since(began)
		firstProduce(t, h, names[topics-1], partitions-1)
		produced := time.Since(began)
		probes++
		t.Logf("after %s: ready %v, record on the last partition acknowledged %v; %d MB resident", how, ready.Round(time.Millisecond), produced.Round(time.Millisecond), residentKB(t, h.Pid)>>10)
		if produced > 15*time.Second {
			t.Errorf("start with 1,000 partitions after %s took %v, five times its bound of 3 s", how, produced)
		}
	}
	fill("one")
	again("a stop", h.Stop)
	check(1)
	fill("two")
	again("SIGKILL", h.Kill)
	check(2)
}

// firstProduce writes one record with a client of its own, trying until it is taken.
func firstProduce(t *testing.T, h *Hawser, topic string, partition int32) {
	t.Helper()
	client := Client(t, h.Kafka, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithTimeout(testContext(t), 60*time.Second)
	defer cancel()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: []byte("start")}).FirstErr(); err != nil {
		t.Fatalf("first produce after a start: %v", err)
	}
}
