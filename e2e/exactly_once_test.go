//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// watched is a program that says lines, watched.
type watched struct {
	*groupMember
	said func(prefix string) []string
}

// startWatched runs a program until it is stopped and keeps what it says.
func startWatched(t *testing.T, cmd *exec.Cmd) *watched {
	t.Helper()
	var lines []string
	m := joinBy(t, func(m *groupMember, text string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.said = text
		lines = append(lines, text)
	}, cmd)
	return &watched{groupMember: m, said: func(prefix string) []string {
		m.mu.Lock()
		defer m.mu.Unlock()
		var found []string
		for _, l := range lines {
			if strings.HasPrefix(l, prefix) {
				found = append(found, l)
			}
		}
		return found
	}}
}

// TestTransactions_ReadProcessWrite kills the broker three times under a Java program
// that copies exactly once, and wants each input to come out once and the group's offsets
// to be the new ones as soon as a transaction has ended.
func TestTransactions_ReadProcessWrite(t *testing.T) {
	t.Parallel()
	const n, kills, group = 1000, 3, "copier"
	h := StartHawser(t)
	cl := Client(t, h.Kafka)
	CreateTopic(t, cl, "in", 2, 1, nil)
	CreateTopic(t, cl, "out", 2, 1, nil)
	var records []*kgo.Record
	for i := range n {
		key := fmt.Sprintf("in-%d", i)
		records = append(records, &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte(valueOf(key))})
	}
	produce(t, cl, records[:n/2]...)

	copier := startWatched(t, javaProgram(t, "Copy", h.Kafka, "in", "out", group))
	commits := func() int { return len(copier.said("at ")) }
	for i := range kills {
		before := commits()
		eventually(t, 60*time.Second, "transactions are under way", func() (bool, string) { return commits() > before+2*(i+1), copier.String() })
		h.Kill()
		h.Start()
		if i == 0 {
			produce(t, Client(t, h.Kafka), records[n/2:]...)
		}
	}
	fresh := Client(t, h.Kafka)
	admin := kadm.NewClient(fresh)
	eventually(t, 90*time.Second, "the group is at the end", func() (bool, string) {
		var at, end int64
		offsets, err := admin.FetchOffsets(testContext(t), group)
		if err != nil {
			return false, err.Error()
		}
		for p := range int32(2) {
			o, _ := offsets.Lookup("in", p)
			_, e := Ends(t, fresh, "in", p)
			at, end = at+o.At, end+e
		}
		return at == n && end == n, fmt.Sprintf("at %d of %d; the copier %s", at, end, copier)
	})
	copier.stop()
	if stale := copier.said("stale "); len(stale) > 0 {
		t.Errorf("after EndTxn %d offsets were not the new ones: %s", len(stale), stale[0])
	}
	out := map[string]int{}
	for _, r := range readCommitted(t, h.Kafka, "out", 2) {
		if string(r.Value) != valueOf(string(r.Key)) {
			t.Fatalf("%s came out as %q", r.Key, r.Value)
		}
		out[string(r.Key)]++
	}
	for _, r := range records {
		if out[string(r.Key)] != 1 {
			t.Errorf("%s came out %d times", r.Key, out[string(r.Key)])
		}
	}
	t.Logf("%d inputs, %d outputs, %d kills, %d transactions told, %d producers started again", n, len(out), kills, commits(), len(copier.said("again")))
}

// readCommitted reads a whole topic as read_committed consumers see it.
func readCommitted(t *testing.T, bootstrap, topic string, partitions int32) []*kgo.Record {
	t.Helper()
	ends := map[int32]int64{}
	from := map[int32]kgo.Offset{}
	plain := Client(t, bootstrap)
	for p := range partitions {
		start, end := Ends(t, plain, topic, p)
		if start < end {
			ends[p], from[p] = end, kgo.NewOffset().At(start)
		}
	}
	cl := Client(t, bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	var records []*kgo.Record
	for ctx := testContext(t); len(ends) > 0; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				records = append(records, r)
			}
			if r.Offset+1 >= ends[r.Partition] {
				delete(ends, r.Partition)
			}
		})
	}
	return records
}

// TestTransactions_StreamsExactlyOnce adds numbers up with Kafka Streams while the
// broker is killed, and wants exact sums.
func TestTransactions_StreamsExactlyOnce(t *testing.T) {
	t.Parallel()
	const n, keys = 2000, 5
	h := StartHawser(t)
	cl := Client(t, h.Kafka)
	CreateTopic(t, cl, "numbers", 2, 1, nil)
	CreateTopic(t, cl, "sums", 2, 1, nil)
	want := map[string]int64{}
	send := func(from, to int) {
		var records []*kgo.Record
		for i := from; i < to; i++ {
			key := fmt.Sprintf("k%d", i%keys)
			records = append(records, &kgo.Record{Topic: "numbers", Key: []byte(key), Value: []byte(strconv.Itoa(i))})
			want["sum-"+key] += int64(i)
		}
		produce(t, Client(t, h.Kafka), records...)
	}
	send(0, n/2)
	app := startWatched(t, javaProgram(t, "Sums", h.Kafka, "numbers", "sums", t.TempDir()))
	eventually(t, 90*time.Second, "first sums", func() (bool, string) {
		_, end := Ends(t, cl, "sums", 0)
		_, e := Ends(t, cl, "sums", 1)
		return end+e > 0, app.String()
	})
	h.Kill()
	h.Start()
	send(n/2, n)
	var last map[string]int64
	var updates int
	eventually(t, 90*time.Second, "the sums are exact", func() (bool, string) {
		last, updates = map[string]int64{}, 0
		for _, r := range readCommitted(t, h.Kafka, "sums", 2) {
			sum, err := strconv.ParseInt(string(r.Value), 10, 64)
			if err != nil {
				t.Fatalf("the sum of %s is %q", r.Key, r.Value)
			}
			last[string(r.Key)], updates = sum, updates+1
		}
		return updates >= n, fmt.Sprintf("%d updates, %v, want %v; the app %s", updates, last, want, app)
	})
	app.stop()
	for key, sum := range want {
		if last[key] != sum {
			t.Errorf("the sum of %s is %d, want %d", key, last[key], sum)
		}
	}
	if updates != n {
		t.Errorf("%d numbers gave %d updates", n, updates)
	}
}
