package handler

import (
	"fmt"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clock is a time that moves when told to.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func sessionRequest(id, epoch int32, topics ...string) *kmsg.FetchRequest {
	rq := kmsg.NewPtrFetchRequest()
	rq.SessionID, rq.SessionEpoch = id, epoch
	for _, name := range topics {
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = name
		topic.Partitions = append(topic.Partitions, kmsg.NewFetchRequestTopicPartition())
		rq.Topics = append(rq.Topics, topic)
	}
	return rq
}

// open makes a session over the topics and returns its id.
func open(t *testing.T, sc *sessionCache, version int16, topics ...string) int32 {
	t.Helper()
	plan, err := sc.begin(sessionRequest(0, 0, topics...), version, new(fetchScratch))
	if err != nil {
		t.Fatal(err)
	}
	return end(sc, plan, make([]fetchSent, len(plan.parts))...)
}

// end ends a fetch of which so much was sent.
func end(sc *sessionCache, plan *fetchPlan, sent ...fetchSent) int32 {
	plan.sent = sent
	return sc.end(plan)
}

func names(plan *fetchPlan) (list []string) {
	for _, want := range plan.parts {
		list = append(list, want.topic)
	}
	return list
}

func TestSessionRemembersAndForgets(t *testing.T) {
	sc := newSessionCache(10, time.Now)
	id := open(t, sc, 12, "a", "b", "c")
	if id <= 0 {
		t.Fatalf("session id %d", id)
	}
	rq := sessionRequest(id, 1, "d")
	forget := kmsg.NewFetchRequestForgottenTopic()
	forget.Topic, forget.Partitions = "b", []int32{0}
	rq.ForgottenTopics = append(rq.ForgottenTopics, forget)
	plan, err := sc.begin(rq, 12, new(fetchScratch))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(names(plan)); got != "[a c d]" {
		t.Fatalf("the session wants %s", got)
	}
	// a got bytes: it is served last next time.
	sent := make([]fetchSent, 3)
	sent[0].bytes = 10
	if got := end(sc, plan, sent...); got != id {
		t.Fatalf("session id %d became %d", id, got)
	}
	plan, err = sc.begin(sessionRequest(id, 2), 12, new(fetchScratch))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(names(plan)); got != "[c d a]" {
		t.Fatalf("the next one to be served first: %s", got)
	}
}

func TestSessionAnswersOnlyWhatChanged(t *testing.T) {
	sc := newSessionCache(10, time.Now)
	plan, _ := sc.begin(sessionRequest(0, 0, "a"), 12, new(fetchScratch))
	if plan.omits(0, fetchSent{}) {
		t.Fatal("a full answer left a partition out")
	}
	id := end(sc, plan, fetchSent{highWatermark: 5, logStart: 1})
	next := int32(1)
	for _, tc := range []struct {
		name  string
		sent  fetchSent
		omits bool
	}{
		{"nothing new", fetchSent{highWatermark: 5, logStart: 1}, true},
		{"high watermark", fetchSent{highWatermark: 6, logStart: 1}, false},
		{"nothing new again", fetchSent{highWatermark: 6, logStart: 1}, true},
		{"log start", fetchSent{highWatermark: 6, logStart: 2}, false},
		{"bytes", fetchSent{highWatermark: 6, logStart: 2, bytes: 1}, false},
		{"error", fetchSent{highWatermark: -1, logStart: -1, telling: true}, false},
		{"same error", fetchSent{highWatermark: -1, logStart: -1, telling: true}, false},
		{"well again", fetchSent{highWatermark: 6, logStart: 2}, false},
	} {
		plan, err := sc.begin(sessionRequest(id, next), 12, new(fetchScratch))
		if err != nil {
			t.Fatal(err)
		}
		next++
		if got := plan.omits(0, tc.sent); got != tc.omits {
			t.Fatalf("%s: omitted %v", tc.name, got)
		}
		end(sc, plan, tc.sent)
	}
}

func TestSessionErrors(t *testing.T) {
	sc := newSessionCache(10, time.Now)
	id := open(t, sc, 12, "a")
	for _, tc := range []struct {
		name    string
		id      int32
		epoch   int32
		version int16
		want    kafka.ErrorCode
	}{
		{"unknown session", id + 1, 1, 12, kafka.FetchSessionIDNotFound},
		{"epoch skipped", id, 2, 12, kafka.InvalidFetchSessionEpoch},
		{"names became ids", id, 1, 13, kafka.FetchSessionTopicIDError},
		{"right", id, 1, 12, kafka.None},
		{"epoch repeated", id, 1, 12, kafka.InvalidFetchSessionEpoch},
		{"final epoch closes", id, -1, 12, kafka.None},
		{"closed", id, 2, 12, kafka.FetchSessionIDNotFound},
	} {
		if _, err := sc.begin(sessionRequest(tc.id, tc.epoch), tc.version, new(fetchScratch)); kafka.CodeOf(err) != tc.want {
			t.Fatalf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	if len(sc.byID) != 0 || sc.partitions != 0 {
		t.Fatalf("%d sessions with %d partitions left", len(sc.byID), sc.partitions)
	}
}

func TestSessionCacheIsBounded(t *testing.T) {
	at := &clock{time.Unix(1000, 0)}
	sc := newSessionCache(2, at.now)
	first := open(t, sc, 12, "a")
	second := open(t, sc, 12, "b")
	if id := open(t, sc, 12, "c"); id != 0 {
		t.Fatalf("a third session, %d, although both others are in use", id)
	}
	at.at = at.at.Add(sessionEvictable)
	if _, err := sc.begin(sessionRequest(second, 1), 12, new(fetchScratch)); err != nil {
		t.Fatal(err)
	}
	third := open(t, sc, 12, "c")
	if third == 0 {
		t.Fatal("a session that rested long enough was not evicted")
	}
	if _, err := sc.begin(sessionRequest(first, 1), 12, new(fetchScratch)); kafka.CodeOf(err) != kafka.FetchSessionIDNotFound {
		t.Fatalf("the stalest session is there: %v", err)
	}
	if len(sc.byID) != 2 || sc.partitions != 2 {
		t.Fatalf("%d sessions with %d partitions", len(sc.byID), sc.partitions)
	}
}

func TestSessionEpochsWrap(t *testing.T) {
	if got := nextEpoch(1<<31 - 1); got != 1 {
		t.Fatalf("after the largest epoch comes %d", got)
	}
}
