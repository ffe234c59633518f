//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// soak is random load and random trouble, from one seed.
type soak struct {
	t          *testing.T
	w          *pair
	random     *rand.Rand
	topics     []string
	partitions map[string]int32
	paused     map[string]bool
	writers    []*kgo.Client // one a codec
	open       *kgo.Client   // transactional
	inside     bool
	counts     map[string]int
}

// TestC20_EqualityUnderRandomLoad mixes everything for a while and then wants
// every topic to be the same on both sides, over the whole range that both hold.
func TestC20_EqualityUnderRandomLoad(t *testing.T) {
	seed := uint64(envInt("HAWSER_SOAK_SEED", int(time.Now().UnixNano()&0xffffff)))
	length := time.Duration(envInt("HAWSER_SOAK_SECONDS", 10)) * time.Second
	t.Logf("HAWSER_SOAK_SEED=%d", seed)
	w := newPairTo(t, SharedKafka(t), allGroups("c20-"))
	s := &soak{t: t, w: w, random: rand.New(rand.NewPCG(seed, 1)), partitions: map[string]int32{}, paused: map[string]bool{}, counts: map[string]int{}}
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		s.writers = append(s.writers, Client(t, w.k.Bootstrap(), kgo.ProducerBatchCompression(codec), kgo.RecordRetries(1<<20), kgo.RecordPartitioner(kgo.RoundRobinPartitioner())))
	}
	s.open = Client(t, w.k.Bootstrap(), kgo.TransactionalID("c20"), kgo.RecordRetries(1<<20))
	for i := range 6 {
		topic := fmt.Sprintf("c20-%d", i)
		s.topics, s.partitions[topic] = append(s.topics, topic), int32(1+s.random.IntN(3))
		CreateTopic(t, w.source, topic, s.partitions[topic], 3, map[string]string{"segment.bytes": "1048576"})
		w.h.CreateMirror("east", topic)
	}
	for end := time.Now().Add(length); time.Now().Before(end); {
		s.step()
	}
	t.Logf("did %v", s.counts)
	s.settle()
}

// step does one thing; writing is the most likely.
func (s *soak) step() {
	s.t.Helper()
	topic := s.topics[s.random.IntN(len(s.topics))]
	name, do := "write", func() { s.write(topic) }
	switch n := s.random.IntN(1000); {
	case n < 150:
		name, do = "transaction", func() { s.transact(topic) }
	case n < 170:
		name, do = "trim", func() { s.trim(topic) }
	case n < 180:
		name, do = "grow", func() { s.grow(topic) }
	case n < 183:
		name, do = "move leaders", func() { moveLeaders(s.t, s.w.k, topic) }
	case n < 190:
		name, do = "kill", func() { s.w.h.Kill(); s.w.h.Start() }
	case n < 193:
		name, do = "restart", s.w.restart
	case n < 210:
		name, do = "pause or resume", func() { s.pauseOrResume(topic) }
	case n < 220:
		name, do = "cut", func() { s.w.proxies[s.random.IntN(len(s.w.proxies))].Cut() }
	case n < 300:
		name, do = "commit", func() { s.commit(topic) }
	}
	s.counts[name]++
	do()
}

func (s *soak) write(topic string) {
	s.t.Helper()
	var records []*kgo.Record
	for i := range 1 + s.random.IntN(30) {
		r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", s.random.IntN(50)), Value: make([]byte, s.random.IntN(3000))}
		if i%7 == 0 {
			r.Value = nil
		}
		records = append(records, r)
	}
	produce(s.t, s.writers[s.random.IntN(len(s.writers))], records...)
}

// transact goes on with the open transaction, or ends it one way or the other.
func (s *soak) transact(topic string) {
	s.t.Helper()
	if s.inside && s.random.IntN(3) == 0 {
		s.end(kgo.TransactionEndTry(s.random.IntN(2) == 0))
		return
	}
	if !s.inside {
		if err := s.open.BeginTransaction(); err != nil {
			s.t.Fatal(err)
		}
		s.inside = true
	}
	produce(s.t, s.open, texts(topic, "tx", 0, 1+s.random.IntN(5))...)
}

func (s *soak) end(how kgo.TransactionEndTry) {
	s.t.Helper()
	if err := s.open.EndTransaction(testContext(s.t), how); err != nil {
		s.t.Fatalf("end transaction: %v", err)
	}
	s.inside = false
}

// trim asks once: after leader moves stock Kafka may not answer until its followers have caught up.
func (s *soak) trim(topic string) {
	ctx, cancel := context.WithTimeout(testContext(s.t), 2*time.Second)
	defer cancel()
	_, end := Ends(s.t, s.w.source, topic, 0)
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, At: s.random.Int64N(end + 1)})
	_, _ = kadm.NewClient(s.w.source).DeleteRecords(ctx, offsets)
}

func (s *soak) grow(topic string) {
	s.t.Helper()
	if s.partitions[topic] == 8 {
		return
	}
	rs, err := kadm.NewClient(s.w.source).UpdatePartitions(testContext(s.t), int(s.partitions[topic])+1, topic)
	if err != nil || rs.Error() != nil {
		s.t.Fatal(err, rs.Error())
	}
	s.partitions[topic]++
}

func (s *soak) pauseOrResume(topic string) {
	s.t.Helper()
	verb := "pause"
	if s.paused[topic] {
		verb = "resume"
	}
	s.w.h.Order("east", verb, topic)
	s.paused[topic] = !s.paused[topic]
}

func (s *soak) commit(topic string) {
	s.t.Helper()
	start, end := Ends(s.t, s.w.source, topic, 0)
	commit(s.t, s.w.source, fmt.Sprintf("c20-%d", s.random.IntN(5)), topic, start+s.random.Int64N(end-start+1))
}

// settle ends the trouble and compares.
func (s *soak) settle() {
	s.t.Helper()
	if s.inside {
		s.end(kgo.TryCommit)
	}
	for _, topic := range s.topics {
		if s.paused[topic] {
			s.pauseOrResume(topic)
		}
	}
	for _, topic := range s.topics {
		eventually(s.t, 60*time.Second, topic+" has all partitions", func() (bool, string) {
			d, err := kadm.NewClient(s.w.mirror).ListTopics(testContext(s.t), topic)
			return err == nil && len(d[topic].Partitions) == int(s.partitions[topic]), fmt.Sprint(len(d[topic].Partitions), err)
		})
		s.w.level(topic, s.partitions[topic])
		SameAll(s.t, s.w.source, s.w.mirror, topic, s.partitions[topic])
		if m := s.w.h.Mirror("east", topic); m.Status != "ACTIVE" || m.Lag != 0 {
			s.t.Errorf("%s is %s, error %s, lag %d", topic, m.Status, m.Error, m.Lag)
		}
	}
	for g := range 5 {
		group := fmt.Sprintf("c20-%d", g)
		for _, topic := range s.topics {
			want := committed(s.t, s.w.source, group, topic)
			if want < 0 {
				continue
			}
			start, end := Ends(s.t, s.w.source, topic, 0)
			waitCommitted(s.t, s.w.mirror, group, topic, min(max(want, start), end))
		}
	}
}
