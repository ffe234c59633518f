package handler

import (
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/quota"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakeQuotas says what the test wants it to.
type fakeQuotas struct {
	mu                        sync.Mutex
	rest                      time.Duration // after a produce, a fetch, a request
	strict                    bool
	produced, fetched, worked int
	mutated                   int
	refuse                    bool // connections
	max                       int
}

func (q *fakeQuotas) Produced(_, _ string, bytes int) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.produced += bytes
	return q.rest
}

func (q *fakeQuotas) Fetched(_, _ string, bytes int) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fetched += bytes
	return q.rest
}

func (q *fakeQuotas) FetchMax(string, string) (int, bool) { return q.max, q.max > 0 }

func (q *fakeQuotas) Worked(string, string, time.Duration) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.worked++
	return 0
}

func (q *fakeQuotas) Mutated(_, _ string, partitions int, mode quota.Mode) (time.Duration, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mutated += partitions
	if q.strict && mode == quota.Strict {
		return q.rest, kafka.ThrottlingQuotaExceeded
	}
	return q.rest, nil
}

func (q *fakeQuotas) Connected(string) time.Duration {
	if q.refuse {
		return q.rest
	}
	return 0
}

func (q *fakeQuotas) set(rest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rest = rest
}

const rested = 250 * time.Millisecond

// TestThrottledProducerIsAnsweredThenMuted: KIP-219's order.
func TestThrottledProducerIsAnsweredThenMuted(t *testing.T) {
	q := &fakeQuotas{}
	w := newFullWorld(t, func(_ *world, d *Deps) { d.Quotas = q }).serve()
	w.make("orders", 1, nil)
	c := w.dial()
	q.set(rested)
	begun := time.Now()
	rq := produceRequest(t, "orders", -1, rawBatch(t, 1, noProducer()))
	resp := ask[*kmsg.ProduceResponse](c, 9, rq)
	if got := time.Since(begun); got >= rested {
		t.Errorf("the answer itself was held back for %v", got)
	}
	if resp.ThrottleMillis != int32(rested.Milliseconds()) {
		t.Errorf("the answer says to rest %d ms", resp.ThrottleMillis)
	}
	q.set(0)
	ask[*kmsg.ApiVersionsResponse](c, 0, apiVersionsRequest())
	if got := time.Since(begun); got < rested {
		t.Errorf("the next request was answered after %v, while the connection is muted", got)
	}
	if q.produced == 0 || q.worked < 2 {
		t.Errorf("counted: %d bytes, %d requests", q.produced, q.worked)
	}
}

// TestThrottledFetchIsEmptyAndTheSessionGoesOn: what was not sent comes with the next answer.
func TestThrottledFetchIsEmptyAndTheSessionGoesOn(t *testing.T) {
	q := &fakeQuotas{}
	w := newFullWorld(t, func(_ *world, d *Deps) { d.Quotas = q }).serve()
	w.make("orders", 1, nil)
	c := w.dial()
	rq := produceRequest(t, "orders", -1, rawBatch(t, 3, noProducer()))
	produced(t, c, 9, rq)

	fetch := fetchRequest("orders", 0, 0)
	fetch.SessionEpoch = 0
	q.set(rested)
	first := ask[*kmsg.FetchResponse](c, 12, fetch)
	if len(first.Topics) != 0 || first.ErrorCode != 0 || first.SessionID != 0 || first.ThrottleMillis == 0 {
		t.Fatalf("a full fetch over the quota: %+v", first)
	}
	if q.fetched != 0 {
		t.Errorf("%d bytes that were not sent count", q.fetched)
	}
	q.set(0)
	full := ask[*kmsg.FetchResponse](c, 12, fetch)
	if len(full.Topics) != 1 || full.SessionID == 0 {
		t.Fatalf("after the rest: %+v", full)
	}
	produced(t, c, 9, rq)
	next := fetchRequest("orders", 3, 0)
	next.SessionID, next.SessionEpoch = full.SessionID, 1
	q.set(rested)
	over := ask[*kmsg.FetchResponse](c, 12, next)
	if len(over.Topics) != 0 || over.SessionID != full.SessionID || over.ErrorCode != 0 {
		t.Fatalf("an incremental fetch over the quota: %+v", over)
	}
	q.set(0)
	next.Topics, next.SessionEpoch = nil, 2
	more := ask[*kmsg.FetchResponse](c, 12, next)
	if len(more.Topics) != 1 || len(more.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Errorf("the session lost what was not sent: %+v", more)
	}
}

// TestMutationsAreRefusedFromTheStrictVersionsOn: older ones are served and rest.
func TestMutationsAreRefusedFromTheStrictVersionsOn(t *testing.T) {
	q := &fakeQuotas{strict: true}
	w := newFullWorld(t, func(_ *world, d *Deps) { d.Quotas = q }).serve()
	w.make("old", 1, nil)
	c := w.dial()
	q.set(20 * time.Millisecond)
	for version, want := range map[int16]kafka.ErrorCode{5: 0, 6: kafka.ThrottlingQuotaExceeded, 7: kafka.ThrottlingQuotaExceeded} {
		rq := kmsg.NewPtrCreateTopicsRequest()
		rq.Topics = []kmsg.CreateTopicsRequestTopic{newTopic("made", 3, 1)}
		resp := ask[*kmsg.CreateTopicsResponse](c, version, rq)
		if got := kafka.ErrorCode(resp.Topics[0].ErrorCode); got != want || resp.ThrottleMillis != 20 {
			t.Errorf("CreateTopics v%d: %v, %d ms", version, got, resp.ThrottleMillis)
		}
		if want == 0 {
			if err := w.Topics.Delete(t.Context(), w.Topics.ByName("made").ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if w.Topics.ByName("made") != nil {
		t.Error("a topic was made over the quota")
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TopicNames = []string{"old"}
	if resp := ask[*kmsg.DeleteTopicsResponse](c, 5, del); kafka.ErrorCode(resp.Topics[0].ErrorCode) != kafka.ThrottlingQuotaExceeded || w.Topics.ByName("old") == nil {
		t.Errorf("DeleteTopics v5: %+v", resp.Topics)
	}
	if got := grow(c, "old", 4, false); got != kafka.ThrottlingQuotaExceeded {
		t.Errorf("CreatePartitions: %v", got)
	}
}

func TestThrottledConnectionIsClosedAfterARest(t *testing.T) {
	q := &fakeQuotas{refuse: true, rest: rested}
	w := newWorld(t, func(_ *world, d *Deps) { d.Quotas = q }).serve()
	begun := time.Now()
	c := w.dial()
	c.closed("a connection over the quota")
	if got := time.Since(begun); got < rested {
		t.Errorf("closed after %v, before the rest was over", got)
	}
}

func TestMutedConnectionEndsWithTheDoorAndTheClient(t *testing.T) {
	q := &fakeQuotas{}
	w := newFullWorld(t, func(_ *world, d *Deps) { d.Quotas = q })
	w.make("orders", 1, nil)
	w.serve()
	q.set(time.Hour)
	for _, end := range []func(*client){func(c *client) { _ = c.nc.Close() }, func(*client) { w.Close() }} {
		c := w.dial()
		produced(t, c, 9, produceRequest(t, "orders", -1, rawBatch(t, 1, noProducer())))
		end(c)
		for w.Connections() > 0 {
			time.Sleep(time.Millisecond) // the server tells nobody that a connection ended
		}
	}
}

func TestLimitsChangeWhileServed(t *testing.T) {
	w := newWorld(t, nil).serve()
	ask[*kmsg.ApiVersionsResponse](w.dial(), 0, apiVersionsRequest())
	w.SetLimits(Settings{MaxConnections: 1})
	w.dial().closed("the second at max.connections=1")
	w.SetLimits(Settings{MaxConnections: 2})
	ask[*kmsg.ApiVersionsResponse](w.dial(), 0, apiVersionsRequest())
}

// TestAcceptingIsPaced: a window's worth passes at once, then each waits.
func TestAcceptingIsPaced(t *testing.T) {
	w := newWorld(t, func(_ *world, d *Deps) {
		d.Settings.CreationRate, d.Settings.Windows = 20, quota.Windows{Count: 2, Size: 100 * time.Millisecond}
	}).serve()
	begun := time.Now()
	for range 8 {
		ask[*kmsg.ApiVersionsResponse](w.dial(), 0, apiVersionsRequest())
	}
	if got := time.Since(begun); got < 150*time.Millisecond {
		t.Errorf("8 connections at 20 a second were taken in %v", got)
	}
}
