package handler

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// emptied waits until the door has no connection any more.
func (w *world) emptied(within time.Duration) {
	w.t.Helper()
	for deadline := time.Now().Add(within); w.Connections() > 0; {
		if time.Now().After(deadline) {
			w.t.Fatalf("a connection whose client hung up is still there after %v", within)
		}
		time.Sleep(time.Millisecond) // the server tells nobody that a connection ended
	}
}

func TestJoinEndsWhenTheClientHangsUp(t *testing.T) {
	w := newFullWorld(t).serve()
	join := func(member string) *kmsg.JoinGroupRequest {
		rq := kmsg.NewPtrJoinGroupRequest()
		rq.Group, rq.MemberID, rq.SessionTimeoutMillis, rq.RebalanceTimeoutMillis, rq.ProtocolType = "g", member, 60_000, 60_000, "consumer"
		rq.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0}}}
		return rq
	}
	first := ask[*kmsg.JoinGroupResponse](w.dial(), 3, join(""))
	if first.ErrorCode != 0 {
		t.Fatalf("the first member: %+v", first)
	}
	// A second member waits for the first to join again, which it does not.
	second := w.dial()
	rq := join("")
	rq.SetVersion(3)
	second.write(rq)
	begun := time.Now()
	for w.Stats().Connections < 2 {
		time.Sleep(time.Millisecond) // the server tells nobody
	}
	_ = second.nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := second.read(rq); err == nil {
		t.Fatal("the second member was answered although the first had not joined again")
	}
	_ = second.nc.Close()
	for deadline := time.Now().Add(10 * time.Second); w.Connections() > 1; {
		if time.Now().After(deadline) {
			t.Fatalf("the wait goes on %v after the client hung up", time.Since(begun))
		}
		time.Sleep(time.Millisecond) // the server tells nobody
	}
}

func TestProduceEndsWhenTheClientHangsUp(t *testing.T) {
	w := newWorld(t, nil)
	waiting := make(chan struct{}, 1)
	w.table[0] = &api{key: 0, name: "Produce", min: 0, max: 13, handle: func(context.Context, *call, kmsg.Request) (kmsg.Response, error) {
		return &unsyncedAnswer{ProduceResponse: kmsg.NewPtrProduceResponse(), finish: func(ctx context.Context) {
			waiting <- struct{}{}
			<-ctx.Done()
		}}, nil
	}}
	w.serve()
	c := w.dial()
	rq := kmsg.NewPtrProduceRequest()
	rq.SetVersion(9)
	c.write(rq)
	<-waiting
	_ = c.nc.Close()
	w.emptied(10 * time.Second)
}
