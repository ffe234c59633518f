package source

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/fetcher"
)

const (
	fetchKey = 1
	// restMost is how long a broker may tell its clients to rest, beside the request's own time: longer than any quota of Kafka's does.
	restMost = 15 * time.Second
	// lastByName is the last version of Fetch that names topics by name and not by id.
	lastByName = 12
)

// session is a fetch session (KIP-227) on a connection of its own. The first request names all
// partitions and opens the session at the broker; later ones name only what changed. A
// broker that has no room for sessions, or has dropped this one, is asked for everything again.
type session struct {
	cluster *Cluster
	broker  int32
	address string

	mu     sync.Mutex // guards client against Close during a Fetch
	client *kgo.Client
	closed bool

	byName bool // the client is held to versions that name topics by name
	id     int32
	epoch  int32 // 0: the next request names everything
	sent   map[kafka.TopicPartition]fetcher.Want
	names  map[kafka.TopicID]string

	roundTrip atomic.Int64 // ns, the least seen; 0 for none
	expected  atomic.Int64 // bytes that the answer under way may have
	lent      atomic.Pointer[lent]
}

var _ fetcher.Session = (*session)(nil)

// Session opens a session to a broker. It connects with the first Fetch.
func (c *Cluster) Session(ctx context.Context, broker int32) (fetcher.Session, error) {
	if err := c.gate(); err != nil {
		return nil, err
	}
	address, err := c.addressOf(ctx, broker)
	if err != nil {
		return nil, err
	}
	s := &session{cluster: c, broker: broker, address: address}
	s.expected.Store(batchUsual)
	if s.client, err = c.newClient([]string{address}, kgo.WithHooks(s), kgo.Dialer(s.dial)); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends the connection; a Fetch that waits returns. Calling it again does nothing.
func (s *session) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.client.Close()
	}
}

// OnBrokerE2E is kgo's hook: the quickest exchange but fetches, which may wait at the broker, is the round trip.
func (s *session) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	took := int64(e2e.DurationE2E())
	if key == fetchKey || e2e.WriteErr != nil || e2e.ReadErr != nil || took <= 0 {
		return
	}
	if least := s.roundTrip.Load(); least == 0 || took < least {
		s.roundTrip.Store(took)
	}
}

// RoundTrip is how long the broker takes to answer when it has nothing to do, 0 while unknown.
func (s *session) RoundTrip() time.Duration { return time.Duration(s.roundTrip.Load()) }

func (s *session) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.cluster.dialer.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newLending(s.cluster.watch(conn, address, s.expected.Load, &s.cluster.sizes), s.lent.Load, s.cluster.cfg.MaxReadBytes), nil
}

// Fetch asks once. See fetcher.Session.
func (s *session) Fetch(ctx context.Context, wanted []fetcher.Want, ask fetcher.Ask) ([]fetcher.Fetched, error) {
	if len(wanted) == 0 {
		s.reset()
		return nil, nil
	}
	client, err := s.prepare(wanted)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		req := s.request(wanted, ask)
		s.expected.Store(max(int64(req.MaxBytes), batchUsual) + fetchExtra + partitionExtra*int64(len(s.sent)))
		answer, err := s.send(ctx, client, req, ask)
		if err != nil {
			s.reset()
			return nil, s.cluster.classify(err, s.address)
		}
		if answer.ErrorCode == 0 {
			s.took(answer)
			return s.read(answer), nil
		}
		s.reset()
		switch code := kafka.ErrorCode(answer.ErrorCode); {
		case try > 0, !sessionError(code):
			return nil, answered(answer.ErrorCode, "a fetch from broker %d", s.broker)
		}
	}
}

// send bounds how long an exchange may take. The client library bounds it only once the request is written, and before
// that it obeys a broker that tells it to rest, for weeks if one wrong bit says so.
func (s *session) send(ctx context.Context, client *kgo.Client, req *kmsg.FetchRequest, ask fetcher.Ask) (*kmsg.FetchResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, ask.MaxWait+s.cluster.cfg.RequestTimeout+restMost)
	defer cancel()
	l := &lent{memory: ask.Memory}
	if ask.Memory != nil {
		s.lent.Store(l)
		defer s.lent.Store(nil)
	}
	resp, err := client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return nil, err
	}
	return l.answer(resp)
}

// sessionError reports errors that a session opened anew heals (KIP-227, KIP-516).
func sessionError(code kafka.ErrorCode) bool {
	switch code {
	case kafka.FetchSessionIDNotFound, kafka.InvalidFetchSessionEpoch, kafka.FetchSessionTopicIDError:
		return true
	}
	return false
}

// reset makes the next request name everything. It keeps the session's id, with which the broker
// closes the old session as it opens the new one.
func (s *session) reset() {
	s.epoch = 0
}

// prepare gives the client to use. Where a topic has no id (a source that began before they were
// invented) versions that need ids are out of the question, and the connection is made anew.
func (s *session) prepare(wanted []fetcher.Want) (*kgo.Client, error) {
	if err := s.cluster.gate(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.byName || !withoutID(wanted) {
		return s.client, nil
	}
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(fetchKey, lastByName)
	client, err := s.cluster.newClient([]string{s.address}, kgo.WithHooks(s), kgo.Dialer(s.dial), kgo.MaxVersions(versions))
	if err != nil {
		return nil, err
	}
	s.client.Close()
	s.client, s.byName, s.id = client, true, 0
	s.reset()
	return client, nil
}

func withoutID(wanted []fetcher.Want) bool {
	for i := range wanted {
		if wanted[i].TopicID.IsZero() {
			return true
		}
	}
	return false
}

// request builds the difference between what the broker's session holds and what is wanted, and notes it
// as sent: after any failure the next request names everything.
func (s *session) request(wanted []fetcher.Want, ask fetcher.Ask) *kmsg.FetchRequest {
	if s.epoch == 0 {
		s.sent = make(map[kafka.TopicPartition]fetcher.Want, len(wanted))
		s.names = make(map[kafka.TopicID]string)
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(min(ask.MaxWait.Milliseconds(), math.MaxInt32))
	req.MinBytes = int32(max(ask.MinBytes, 0))
	req.MaxBytes = int32(min(ask.MaxBytes, math.MaxInt32))
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	var topic *kmsg.FetchRequestTopic
	for i := range wanted {
		w := &wanted[i]
		old, ok := s.sent[w.TopicPartition]
		if ok && old == *w {
			continue
		}
		if ok && old.TopicID != w.TopicID { // made anew: the old one would stay in the broker's session
			s.reset()
			return s.request(wanted, ask)
		}
		s.sent[w.TopicPartition] = *w
		if topic == nil || topic.Topic != w.TopicPartition.Topic {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = w.TopicPartition.Topic, w.TopicID
			req.Topics = append(req.Topics, t)
			topic = &req.Topics[len(req.Topics)-1]
			s.names[w.TopicID] = t.Topic
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = w.TopicPartition.Partition
		p.CurrentLeaderEpoch = int32(w.CurrentEpoch)
		p.LastFetchedEpoch = int32(w.LastEpoch)
		p.FetchOffset = int64(w.Offset)
		p.PartitionMaxBytes = int32(min(w.MaxBytes, math.MaxInt32))
		topic.Partitions = append(topic.Partitions, p)
	}
	if len(s.sent) > len(wanted) {
		req.ForgottenTopics = s.forget(wanted)
	}
	return req
}

// forget takes out of the session what is wanted no more.
func (s *session) forget(wanted []fetcher.Want) []kmsg.FetchRequestForgottenTopic {
	still := make(map[kafka.TopicPartition]struct{}, len(wanted))
	for i := range wanted {
		still[wanted[i].TopicPartition] = struct{}{}
	}
	var list []kmsg.FetchRequestForgottenTopic
	for tp, old := range s.sent {
		if _, ok := still[tp]; ok {
			continue
		}
		delete(s.sent, tp)
		if n := len(list); n == 0 || list[n-1].Topic != tp.Topic {
			t := kmsg.NewFetchRequestForgottenTopic()
			t.Topic, t.TopicID = tp.Topic, old.TopicID
			list = append(list, t)
		}
		last := &list[len(list)-1]
		last.Partitions = append(last.Partitions, tp.Partition)
	}
	return list
}

// took notes how the broker's session goes on.
func (s *session) took(answer *kmsg.FetchResponse) {
	s.id = answer.SessionID
	switch {
	case s.id == 0: // no room for a session: everything is named each time
		s.epoch = 0
	case s.epoch == math.MaxInt32:
		s.epoch = 1
	default:
		s.epoch++
	}
}

// read turns an answer into the fetcher's words. Partitions that were not asked for are dropped.
func (s *session) read(answer *kmsg.FetchResponse) []fetcher.Fetched {
	seen := make(map[kafka.TopicPartition]struct{})
	var list []fetcher.Fetched
	for i := range answer.Topics {
		t := &answer.Topics[i]
		name := t.Topic
		if answer.Version > lastByName {
			name = s.names[kafka.TopicID(t.TopicID)]
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			tp := kafka.TopicPartition{Topic: name, Partition: p.Partition}
			want, ok := s.sent[tp]
			if _, again := seen[tp]; again || !ok {
				continue
			}
			seen[tp] = struct{}{}
			list = append(list, fetcher.Fetched{
				TopicPartition: tp,
				Offset:         want.Offset,
				Err:            answered(p.ErrorCode, "partition %s", tp),
				HighWatermark:  kafka.Offset(p.HighWatermark),
				LogStart:       kafka.Offset(p.LogStartOffset),
				LastStable:     kafka.Offset(p.LastStableOffset),
				Diverging:      p.DivergingEpoch.EndOffset >= 0,
				DivergingEpoch: kafka.LeaderEpoch(p.DivergingEpoch.Epoch),
				DivergingEnd:   kafka.Offset(p.DivergingEpoch.EndOffset),
				Batches:        p.RecordBatches,
			})
		}
	}
	return list
}

// String names the session in logs.
func (s *session) String() string {
	return fmt.Sprintf("fetch session %d to broker %d at %s", s.id, s.broker, s.address)
}
