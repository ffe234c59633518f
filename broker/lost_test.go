package broker_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hawserio/hawser/broker"
	"github.com/hawserio/hawser/kafka"
	rest "github.com/hawserio/hawser/rest/client"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ordersWith makes a topic of two partitions with one record in each, and stops.
func ordersWith(t *testing.T, dir string) (partition0 string) {
	t.Helper()
	b := start(t, dir, nil)
	c := client(t, b, kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	id := create(t, c, "orders", 2)
	for p := range int32(2) {
		if err := c.ProduceSync(within(t), &kgo.Record{Partition: p, Value: []byte("old")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	stop(t, b)
	path := filepath.Join(dir, "data", fmt.Sprintf("%s-0", kafka.TopicID(id)))
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// producesTo tries one record without ever trying again.
func producesTo(t *testing.T, b *broker.Broker, p int32) error {
	t.Helper()
	c := client(t, b, kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordRetries(0), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	defer c.Close()
	return c.ProduceSync(within(t), &kgo.Record{Partition: p, Value: []byte("new")}).FirstErr()
}

// outOfService is what clients hear of such a partition, in metadata or from the partition itself.
func outOfService(err error) bool {
	return errors.Is(err, kerr.LeaderNotAvailable) || errors.Is(err, kerr.KafkaStorageError)
}

func endOf(t *testing.T, b *broker.Broker, p int32) (kafka.Offset, error) {
	t.Helper()
	list, err := kadm.NewClient(client(t, b)).ListEndOffsets(within(t), "orders")
	o, is := list.Lookup("orders", p)
	if !is {
		return -1, cmp.Or(err, errors.New("the answer lacks the partition"))
	}
	return kafka.Offset(o.Offset), o.Err
}

func TestAPartitionWhoseDirectoryIsGoneIsOutOfServiceUntilSomebodyDecides(t *testing.T) {
	dir := t.TempDir()
	path := ordersWith(t, dir)
	aside := filepath.Join(t.TempDir(), "kept")
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second start must not find a directory that the first made
		b := start(t, dir, nil)
		if err := producesTo(t, b, 0); !outOfService(err) {
			t.Errorf("produce to the lost partition: %v", err)
		}
		if _, err := endOf(t, b, 0); !outOfService(err) {
			t.Errorf("list the offsets of the lost partition: %v", err)
		}
		if end, err := endOf(t, b, 1); err != nil || end < 1 {
			t.Errorf("the other partition ends at %d, %v", end, err)
		}
		stop(t, b)
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Fatalf("the directory was made again: %v", err)
		}
	}
	if err := os.Rename(aside, path); err != nil {
		t.Fatal(err)
	}
	b := start(t, dir, nil)
	if end, err := endOf(t, b, 0); err != nil || end != 1 {
		t.Errorf("with its directory back, the partition ends at %d, %v", end, err)
	}
	stop(t, b)
}

func TestAnEmptyDirectoryGivesALostPartitionUp(t *testing.T) {
	dir := t.TempDir()
	path := ordersWith(t, dir)
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	stop(t, start(t, dir, nil))
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	b := start(t, dir, nil)
	if err := producesTo(t, b, 0); err != nil {
		t.Error(err)
	}
	if end, err := endOf(t, b, 0); err != nil || end != 1 {
		t.Errorf("the partition ends at %d, %v", end, err)
	}
}

func TestATopicWithALostPartitionCanBeDeletedAndGrown(t *testing.T) {
	dir := t.TempDir()
	path := ordersWith(t, dir)
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	b := start(t, dir, nil)
	admin := kadm.NewClient(client(t, b))
	if rs, err := admin.UpdatePartitions(within(t), 3, "orders"); err != nil || rs.Error() != nil {
		t.Fatal(err, rs)
	}
	if err := producesTo(t, b, 2); err != nil {
		t.Errorf("the new partition: %v", err)
	}
	if err := producesTo(t, b, 0); !outOfService(err) {
		t.Errorf("growing the topic brought the lost partition back: %v", err)
	}
	if _, err := admin.DeleteTopic(within(t), "orders"); err != nil {
		t.Fatal(err)
	}
	create(t, client(t, b), "orders", 1)
	if err := producesTo(t, b, 0); err != nil {
		t.Error(err)
	}
}

func TestAnEmptyUnknownDirectoryGoes(t *testing.T) {
	dir := t.TempDir()
	stop(t, start(t, dir, nil))
	left := filepath.Join(dir, "data", "AAAAAAAAAAAAAAAAAAAAAg-0") // of a creation that a crash cut short
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	b := start(t, dir, nil)
	defer stop(t, b)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	_ = filepath.WalkDir(filepath.Join(dir, "data"), func(path string, _ os.DirEntry, _ error) error {
		if strings.Contains(path, "AAAAAAAAAAAAAAAAAAAAAg") {
			t.Errorf("%s is left of it", path)
		}
		return nil
	})
}

func TestARefusedTopicLeavesNoDirectory(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, nil)
	c := client(t, b)
	create(t, c, "orders.eu", 1)
	before, _ := os.ReadDir(filepath.Join(dir, "data"))
	for _, name := range []string{"orders.eu", "orders_eu"} {
		if made, err := kadm.NewClient(c).CreateTopic(within(t), 1, 1, nil, name); err == nil && made.Err == nil {
			t.Fatalf("%s was made", name)
		}
	}
	if after, _ := os.ReadDir(filepath.Join(dir, "data")); len(after) != len(before) {
		t.Errorf("%d entries in the data directory, %d before", len(after), len(before))
	}
}

// spoil takes the log of one partition of a topic away from a broker that is stopped.
func spoil(t *testing.T, dir string, id kafka.TopicID, partition int32) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "data", fmt.Sprintf("%s-%d", id, partition), "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("partition %d has no log: %v", partition, err)
	}
	for _, log := range logs {
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
	}
}

// committedBy is what a group is told of its offset on orders-0.
func committedBy(t *testing.T, b *broker.Broker, group string, orders kafka.TopicID) (int64, error) {
	t.Helper()
	c := client(t, b)
	defer c.Close()
	rq := kmsg.NewPtrOffsetFetchRequest()
	rq.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group, MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "orders", TopicID: orders, Partitions: []int32{0}}}}}
	rs, err := c.Broker(1).Request(within(t), rq)
	if err != nil {
		return -1, err
	}
	one := rs.(*kmsg.OffsetFetchResponse).Groups[0]
	if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
		return -1, err
	}
	return one.Topics[0].Partitions[0].Offset, nil
}

// A partition that cannot be read does not move what groups have committed on it, and groups whose offsets cannot be read
// are not told that they have none: they would begin anew, or skip what they have not read.
func TestCommittedOffsetsSurviveAPartitionOutOfService(t *testing.T) {
	dir := t.TempDir()
	ordersWith(t, dir)
	b := start(t, dir, nil)
	c := client(t, b)
	offsets := kadm.Offsets{}
	offsets.AddOffset("orders", 0, 1, -1)
	if err := kadm.NewClient(c).CommitAllOffsets(within(t), "readers", offsets); err != nil {
		t.Fatal(err)
	}
	listed, err := kadm.NewClient(c).ListTopics(within(t), "orders", kafka.ConsumerOffsetsTopic)
	if err != nil {
		t.Fatal(err)
	}
	orders, commits := kafka.TopicID(listed["orders"].ID), kafka.TopicID(listed[kafka.ConsumerOffsetsTopic].ID)
	many := int32(len(listed[kafka.ConsumerOffsetsTopic].Partitions))
	c.Close()
	stop(t, b)

	spoil(t, dir, orders, 0)
	b = start(t, dir, nil)
	happened(t, b, "partition_out_of_service", "orders-0")
	if at, err := committedBy(t, b, "readers", orders); at != 1 || err != nil {
		t.Errorf("with the topic's partition out of service the group is at %d, %v; want 1", at, err)
	}
	stop(t, b)

	spoil(t, dir, commits, kafka.PartitionFor("readers", many))
	b = start(t, dir, nil)
	if at, err := committedBy(t, b, "readers", orders); !errors.Is(err, kerr.CoordinatorNotAvailable) {
		t.Errorf("with its own partition out of service the group is at %d, %v; want COORDINATOR_NOT_AVAILABLE", at, err)
	}
}

// Metadata that is gone, with the partitions there, is no new cluster unless somebody says so: all topics would be gone.
func TestD7_LostMetadataIsNoNewBeginning(t *testing.T) {
	dir := t.TempDir()
	path := ordersWith(t, dir)
	lost := filepath.Join(dir, "meta")
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.Rename(lost, kept); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first try must not make the second one pass
		b, err := broker.Start(t.Context(), broker.Config{Dir: dir, Kafka: "127.0.0.1:0", NodeID: 1})
		if err == nil {
			stop(t, b)
			t.Fatal("a broker without its metadata began anew")
		}
		for _, word := range []string{"metadata is empty", lost, "--new-identity"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%v: lacks %q", err, word)
			}
		}
	}
	if err := os.RemoveAll(lost); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(kept, lost); err != nil {
		t.Fatal(err)
	}
	b := start(t, dir, nil)
	if end, err := endOf(t, b, 0); end != 1 || err != nil {
		t.Errorf("with the metadata back: end %d, %v", end, err)
	}
	stop(t, b)
	if err := os.RemoveAll(lost); err != nil {
		t.Fatal(err)
	}
	b, err := broker.Start(t.Context(), broker.Config{Dir: dir, Kafka: "127.0.0.1:0", NodeID: 1, NewIdentity: true})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, b)
	if _, err := os.Stat(filepath.Join(dir, "data", "set-aside", filepath.Base(path))); err != nil {
		t.Errorf("begun anew, the old partition is not set aside: %v", err)
	}
}

// A reversal needs the ends of all partitions: while one is out of service on either side it is refused before anything is frozen.
func TestAReversalIsRefusedWhileAPartitionIsOutOfService(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"A", "B"} {
		a, b := twoSites(t)
		a.create("t", 2)
		a.must(a.put("t", 2, 5, "both"))
		b.mirror("t")
		b.ends("t", 2, 5)
		s := a
		if broken == "B" {
			s = b
		}
		listed, err := kadm.NewClient(s.kgo).ListTopics(within(t), "t")
		s.must(err)
		s.again(func() { spoil(t, s.dir, kafka.TopicID(listed["t"].ID), 1) })
		b.refusedAtLast("reverse-and-start-mirror", "t", "partition 1 is out of service on cluster "+s.b.ClusterID())
		a.must(a.put("t", 1, 1, "still open"))
	}
}

// refusedAtLast is refused once both clusters have heard of each other again.
func (s *site) refusedAtLast(verb, topic, words string) {
	s.t.Helper()
	var last string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		one := s.order(verb, rest.Do, topic)[0]
		if one.ErrorMessage == nil {
			s.t.Fatalf("%s: %s %s is not refused", s.name, verb, topic)
		}
		if last = *one.ErrorMessage; strings.Contains(last, words) {
			return
		}
	}
	s.t.Fatalf("%s: %s %s is refused with %q, which lacks %q", s.name, verb, topic, last, words)
}
