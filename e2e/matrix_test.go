//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// matrixPartitions is how many partitions the topic of a client's test has.
const matrixPartitions = 4

// client is a Kafka client that somebody else wrote, as the matrix drives it.
type client struct {
	codecs  []string
	create  func(t *testing.T, bootstrap, topic string, partitions int)
	produce func(t *testing.T, bootstrap, topic, codec, prefix string, n int)
	join    func(t *testing.T, bootstrap, topic, group string) *groupMember
}

var everyCodec = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func TestClients_Java(t *testing.T)          { matrix(t, javaClient(t)) }
func TestClients_JavaKIP848(t *testing.T)    { matrix(t, javaClient(t, "group.protocol=consumer")) }
func TestClients_Librdkafka(t *testing.T)    { matrix(t, librdkafkaClient()) }
func TestClients_Kcat(t *testing.T)          { matrix(t, kcatClient()) }
func TestClients_KafkaPython(t *testing.T)   { matrix(t, kafkaPythonClient()) }
func TestClients_FranzGo(t *testing.T)       { matrix(t, franzClient()) }
func TestClients_FranzGoKIP848(t *testing.T) { matrix(t, franzClient(kgo.ServerSideBalancer())) }
func TestClients_Sarama(t *testing.T)        { matrix(t, saramaClient()) }
func TestClients_SegmentioGo(t *testing.T)   { matrix(t, segmentioClient()) }
func TestClients_KafkaJS(t *testing.T)       { matrix(t, kafkaJSClient()) }
func TestClients_Platformatic(t *testing.T)  { matrix(t, platformaticClient()) }
func TestClients_JavaSticky(t *testing.T) {
	matrix(t, javaClient(t, "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor"))
}

// matrix takes a client through its whole day: topic, records of every codec, a group
// that grows to two members, a broker that is killed and comes back, and a new member
// that goes on where the old ones committed.
func matrix(t *testing.T, c client) {
	t.Parallel()
	h := StartHawser(t)
	const topic, group, n = "matrix", "readers", 1000
	c.create(t, h.Kafka, topic, matrixPartitions)
	want := map[string]bool{}
	send := func(codec, prefix string, n int) {
		t.Helper()
		c.produce(t, h.Kafka, topic, codec, prefix, n)
		for i := range n {
			want[fmt.Sprintf("%s-%d", prefix, i)] = true
		}
	}
	for _, codec := range c.codecs {
		send(codec, codec, n)
	}

	a := c.join(t, h.Kafka, topic, group)
	eventually(t, 60*time.Second, "the first member owns everything and reads", func() (bool, string) {
		return len(a.owns()) == matrixPartitions && len(a.keys()) > 0, a.String()
	})
	b := c.join(t, h.Kafka, topic, group)
	eventually(t, 60*time.Second, "two members share the partitions", func() (bool, string) {
		return shared2(a, b), a.String() + "; " + b.String()
	})
	send("none", "joined", n)
	sawAll(t, want, a, b)

	h.Kill()
	h.Start()
	send("none", "restarted", n)
	sawAll(t, want, a, b)
	a.stop()
	b.stop()
	noLag(t, h, group, topic)

	clear(want)
	send(c.codecs[len(c.codecs)-1], "later", n)
	last := c.join(t, h.Kafka, topic, group)
	sawAll(t, want, last)
	last.stop()
	for key := range last.keys() {
		if !want[key] {
			t.Fatalf("a member that came later was given %s, which had been committed", key)
		}
	}
	noLag(t, h, group, topic)
}

// shared2 says whether two members own every partition once, and each of them some.
func shared2(a, b *groupMember) bool {
	all := slices.Concat(a.owns(), b.owns())
	slices.Sort(all)
	return slices.Equal(all, []int32{0, 1, 2, 3}) && len(a.owns()) > 0 && len(b.owns()) > 0
}

// sawAll waits until the members together have read every key.
func sawAll(t *testing.T, want map[string]bool, members ...*groupMember) {
	t.Helper()
	eventually(t, 60*time.Second, "every record was read", func() (bool, string) {
		missing := maps.Clone(want)
		var words []string
		for _, m := range members {
			for key := range m.keys() {
				delete(missing, key)
			}
			words = append(words, m.String())
		}
		for key := range missing {
			return false, fmt.Sprintf("%d of %d are missing, one is %s; %s", len(missing), len(want), key, strings.Join(words, "; "))
		}
		return true, ""
	})
}

// noLag wants the group's committed offsets to be the partitions' ends.
func noLag(t *testing.T, h *Hawser, group, topic string) {
	t.Helper()
	admin := kadm.NewClient(Client(t, h.Kafka))
	eventually(t, 15*time.Second, "the group has no lag and no members", func() (bool, string) {
		groups, err := admin.ListGroups(testContext(t))
		if err != nil {
			return false, err.Error()
		}
		offsets, err := admin.FetchOffsets(testContext(t), group)
		if err != nil {
			return false, err.Error()
		}
		ends, err := admin.ListEndOffsets(testContext(t), topic)
		if err != nil {
			return false, err.Error()
		}
		for p := range int32(matrixPartitions) {
			o, _ := offsets.Lookup(topic, p)
			end, _ := ends.Lookup(topic, p)
			if o.Err != nil || end.Err != nil || o.At != end.Offset {
				return false, fmt.Sprintf("partition %d is committed at %d (%v) and ends at %d (%v)", p, o.At, o.Err, end.Offset, end.Err)
			}
		}
		return groups[group].State == "Empty", "state " + groups[group].State
	})
}
