package handler

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// sessionEvictable is how long a session must rest before another may take its
	// place (Kafka's min.incremental.fetch.session.eviction.ms).
	sessionEvictable = 2 * time.Minute
	// sessionPartitionsMax bounds what all sessions remember together.
	sessionPartitionsMax = 1 << 20
	// Epochs with a meaning of their own (KIP-227).
	sessionFirstEpoch = 0
	sessionFinalEpoch = -1
)

// fetchWant is what a reader wants of one partition.
type fetchWant struct {
	fetchKey
	offset       kafka.Offset
	maxBytes     int32
	currentEpoch kafka.LeaderEpoch
	lastEpoch    kafka.LeaderEpoch
}

// fetchKey names a partition as the request does: by topic name before version 13, by id from there.
type fetchKey struct {
	topic  string
	id     kafka.TopicID
	number int32
}

// fetchSent is what an answer said of a partition.
type fetchSent struct {
	highWatermark, logStart kafka.Offset
	bytes                   int
	telling                 bool // an error or a diverging history: always sent
}

// sessionCache holds incremental fetch sessions, a bounded number of them.
type sessionCache struct {
	mu         sync.Mutex
	max        int
	now        func() time.Time
	byID       map[int32]*session
	partitions int // of all sessions
}

// session remembers what a reader wants, so that its requests and our answers
// need carry only what changed. Guarded by the cache's lock.
type session struct {
	id     int32
	epoch  int32 // expected of the next request
	naming naming
	used   time.Time
	parts  map[fetchKey]*sessionPart
	order  []*sessionPart // whom to serve first: those that were served come last
}

type sessionPart struct {
	want   fetchWant
	sent   fetchSent
	served bool // bytes, by the answer before
}

func newSessionCache(max int, now func() time.Time) *sessionCache {
	return &sessionCache{max: max, now: now, byID: map[int32]*session{}}
}

// fetchPlan is what one request has to be answered with.
type fetchPlan struct {
	parts   []fetchWant
	before  []fetchSent    // of an incremental request: what was sent last; nil for a full one
	sent    []fetchSent    // what is sent now
	asked   []*sessionPart // of an incremental request: the parts' memory
	session *session       // nil: none
	create  bool           // the reader would like a session
	naming  naming
}

// begin reads the session part of a request. The errors are for the whole answer.
func (sc *sessionCache) begin(rq *kmsg.FetchRequest, version int16, scratch *fetchScratch) (*fetchPlan, error) {
	mode := byName
	if version >= 13 {
		mode = byID
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if rq.SessionEpoch == sessionFirstEpoch || rq.SessionEpoch == sessionFinalEpoch {
		sc.remove(sc.byID[rq.SessionID])
		create := rq.SessionEpoch == sessionFirstEpoch && version >= 7
		return &fetchPlan{parts: wants(rq), sent: scratch.sent, create: create, naming: mode}, nil
	}
	s := sc.byID[rq.SessionID]
	switch {
	case s == nil:
		return nil, kafka.FetchSessionIDNotFound
	case s.naming != mode:
		return nil, kafka.FetchSessionTopicIDError
	case s.epoch != rq.SessionEpoch:
		return nil, kafka.InvalidFetchSessionEpoch
	}
	if !sc.update(s, rq) {
		sc.remove(s)
		return nil, kafka.FetchSessionIDNotFound
	}
	s.used, s.epoch = sc.now(), nextEpoch(s.epoch)
	for _, part := range s.order {
		scratch.wants = append(scratch.wants, part.want)
		scratch.before = append(scratch.before, part.sent)
		scratch.asked = append(scratch.asked, part)
	}
	return &fetchPlan{session: s, naming: mode, parts: scratch.wants, before: scratch.before, sent: scratch.sent, asked: scratch.asked}, nil
}

// nextEpoch counts from 1 on: 0 and -1 mean something else.
func nextEpoch(epoch int32) int32 { return max(1, epoch+1) }

func wants(rq *kmsg.FetchRequest) []fetchWant {
	var list []fetchWant
	for _, topic := range rq.Topics {
		for _, p := range topic.Partitions {
			list = append(list, fetchWant{
				fetchKey: fetchKey{topic.Topic, topic.TopicID, p.Partition},
				offset:   kafka.Offset(p.FetchOffset), maxBytes: p.PartitionMaxBytes,
				currentEpoch: kafka.LeaderEpoch(p.CurrentLeaderEpoch), lastEpoch: kafka.LeaderEpoch(p.LastFetchedEpoch),
			})
		}
	}
	return list
}

// update changes what the session wants; false if that is more than can be remembered.
func (sc *sessionCache) update(s *session, rq *kmsg.FetchRequest) bool {
	for _, want := range wants(rq) {
		if part := s.parts[want.fetchKey]; part != nil {
			part.want = want
			continue
		}
		if sc.partitions >= sessionPartitionsMax {
			return false
		}
		sc.add(s, want, fetchSent{highWatermark: -1, logStart: -1})
	}
	if len(rq.ForgottenTopics) == 0 {
		return true
	}
	for _, topic := range rq.ForgottenTopics {
		for _, number := range topic.Partitions {
			key := fetchKey{topic.Topic, topic.TopicID, number}
			if _, ok := s.parts[key]; ok {
				delete(s.parts, key)
				sc.partitions--
			}
		}
	}
	kept := s.order[:0]
	for _, part := range s.order {
		if s.parts[part.want.fetchKey] == part {
			kept = append(kept, part)
		}
	}
	clear(s.order[len(kept):])
	s.order = kept
	return true
}

func (sc *sessionCache) add(s *session, want fetchWant, sent fetchSent) {
	part := &sessionPart{want: want, sent: sent}
	s.parts[want.fetchKey] = part
	s.order = append(s.order, part)
	sc.partitions++
}

// omits reports whether partition i of an incremental answer says nothing new.
func (plan *fetchPlan) omits(i int, sent fetchSent) bool {
	if plan.before == nil || sent.bytes > 0 || sent.telling {
		return false
	}
	return sent.highWatermark == plan.before[i].highWatermark && sent.logStart == plan.before[i].logStart
}

// end remembers what was sent and returns the session id for the answer, 0 for none.
func (sc *sessionCache) end(plan *fetchPlan) int32 {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if plan.session != nil {
		sc.remember(plan)
		return plan.session.id
	}
	if !plan.create || !sc.room(len(plan.parts)) {
		return 0
	}
	s := &session{id: sc.freshID(), epoch: 1, naming: plan.naming, used: sc.now(), parts: map[fetchKey]*sessionPart{}}
	for i, want := range plan.parts {
		if s.parts[want.fetchKey] == nil {
			sc.add(s, want, plan.sent[i].remembered())
		}
	}
	sc.byID[s.id] = s
	return s.id
}

// remembered is what to compare the next answer with: after an error anything is news.
func (sent fetchSent) remembered() fetchSent {
	if sent.telling {
		return fetchSent{highWatermark: -1, logStart: -1}
	}
	return sent
}

// remember stores what was sent, and moves the partitions that got bytes behind the others.
func (sc *sessionCache) remember(plan *fetchPlan) {
	s, served := plan.session, 0
	for i, part := range plan.asked {
		sent := plan.sent[i]
		// One that was forgotten meanwhile, by a request on another connection, is nobody's memory any more.
		part.sent, part.served = sent.remembered(), sent.bytes > 0
		if part.served {
			served++
		}
	}
	if served == 0 || served == len(s.order) {
		return
	}
	last := make([]*sessionPart, 0, served)
	kept := s.order[:0]
	for _, part := range s.order {
		if part.served {
			last = append(last, part)
		} else {
			kept = append(kept, part)
		}
	}
	s.order = append(kept, last...)
}

// room makes place for one more session, of n partitions, if it may.
func (sc *sessionCache) room(n int) bool {
	for len(sc.byID) >= sc.max || sc.partitions+n > sessionPartitionsMax {
		var stalest *session
		for _, s := range sc.byID {
			if stalest == nil || s.used.Before(stalest.used) {
				stalest = s
			}
		}
		if stalest == nil || sc.now().Sub(stalest.used) < sessionEvictable {
			return false
		}
		sc.remove(stalest)
	}
	return true
}

func (sc *sessionCache) remove(s *session) {
	if s == nil || sc.byID[s.id] != s {
		return
	}
	delete(sc.byID, s.id)
	sc.partitions -= len(s.parts)
}

func (sc *sessionCache) freshID() int32 {
	for {
		id := rand.Int32()
		if _, taken := sc.byID[id]; id > 0 && !taken {
			return id
		}
	}
}
