package handler

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/source"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// echo answers a private request with its own body and remembers it.
type echo struct {
	mu    sync.Mutex
	asked []peer.Request
	who   []string
	err   error
	taken chan net.Conn // a Ready gives the connection away to it
}

func (e *echo) Connect(ctx context.Context, principal string, rq *peer.Request) ([]byte, func(net.Conn, error), error) {
	body, err := e.Answer(ctx, principal, rq)
	m, malformed := peer.DecodeConnectRequest(rq.Body)
	if e.taken == nil || malformed != nil {
		return body, nil, err
	}
	if m.Phase == peer.Offer { // nobody wants one: it waits until its connection ends
		<-ctx.Done()
		e.taken <- nil
		return nil, nil, ctx.Err()
	}
	return nil, func(conn net.Conn, err error) {
		if err == nil { // it speaks at once: the other end must not take that for a part of the answer
			_, err = conn.Write([]byte("first"))
		}
		if err != nil {
			conn = nil
		}
		e.taken <- conn
	}, nil
}

func (e *echo) Answer(_ context.Context, principal string, rq *peer.Request) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked, e.who = append(e.asked, *rq), append(e.who, principal)
	return rq.Body, e.err
}

// rights allows exactly these, as "OPERATION name".
type rights []string

func (r rights) AllowedSomewhere(string, string, kmsg.ACLOperation, kmsg.ACLResourceType) bool {
	return false
}

func (r rights) Allowed(_, _ string, op kmsg.ACLOperation, _ kmsg.ACLResourceType, name string) bool {
	return slices.Contains(r, op.String()+" "+name)
}

// linked is a connection to a world's door as a link has it.
func linked(t *testing.T, w *world) *source.Cluster {
	t.Helper()
	c, err := source.Dial(source.Config{Bootstrap: []string{w.Addr(plain)}, RequestTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestR9_PrivateKeysAreCheckedRowByRow(t *testing.T) {
	for _, row := range peer.Rows() {
		var all rights
		topics := []string(nil)
		if row.Cluster != kmsg.ACLOperationUnknown {
			all = append(all, row.Cluster.String()+" "+clusterResource)
		}
		if row.Topic != kmsg.ACLOperationUnknown {
			all = append(all, row.Topic.String()+" t", row.Topic.String()+" u")
			topics = []string{"t", "u"}
		}
		for without := range len(all) + 1 {
			have := slices.Clone(all)
			want := kafka.None
			if without < len(all) {
				have = slices.Delete(have, without, without+1)
				want = kafka.TopicAuthorizationFailed
				if strings.HasSuffix(all[without], clusterResource) {
					want = kafka.ClusterAuthorizationFailed
				}
			}
			e := &echo{}
			w := newWorld(t, func(_ *world, d *Deps) { d.Peers, d.Authorizer = e, have }).serve()
			rq := &peer.Request{Ask: peer.Ask{Key: row.Key, Topics: topics, Body: []byte("body")}, Link: kafka.TopicID{1}, Caller: "caller", Callee: testCluster}
			body, err := linked(t, w).Call(t.Context(), rq)
			if kafka.CodeOf(err) != want {
				t.Errorf("%s with %v: %v, want %v", row.Name, have, err, want)
			}
			if want == kafka.None && (string(body) != "body" || len(e.asked) != 1 || e.asked[0].Caller != "caller" || e.who[0] != Anonymous) {
				t.Errorf("%s: %q for %+v of %v", row.Name, body, e.asked, e.who)
			}
			if want != kafka.None && (len(e.asked) != 0 || !strings.Contains(err.Error(), "allow it to the link's principal")) {
				t.Errorf("%s: refused with %v, %d came through", row.Name, err, len(e.asked))
			}
		}
	}
}

func TestPrivateKeysRefuseWithWords(t *testing.T) {
	e := &echo{}
	w := newWorld(t, func(_ *world, d *Deps) { d.Peers = e }).serve()
	c := linked(t, w)
	for name, test := range map[string]struct {
		rq   peer.Request
		code kafka.ErrorCode
	}{
		"another cluster is wanted":         {peer.Request{Ask: peer.Ask{Key: peer.Hello}, Callee: "another"}, kafka.InconsistentClusterID},
		"no topics where there must be":     {peer.Request{Ask: peer.Ask{Key: peer.Freeze}}, kafka.InvalidRequest},
		"topics where there must not be":    {peer.Request{Ask: peer.Ask{Key: peer.Hello, Topics: []string{"t"}}}, kafka.InvalidRequest},
		"the answer says no":                {peer.Request{Ask: peer.Ask{Key: peer.Freeze, Topics: []string{"no"}}}, kafka.PolicyViolation},
		"a body that is longer than we may": {peer.Request{Ask: peer.Ask{Key: peer.Hello, Body: make([]byte, peer.BodyMax+1)}}, kafka.UnknownServerError},
	} {
		e.err = nil
		if test.code == kafka.PolicyViolation {
			e.err = kafka.Errorf(kafka.PolicyViolation, "Not today.")
		}
		_, err := c.Call(t.Context(), &test.rq)
		if kafka.CodeOf(err) != test.code {
			t.Errorf("%s: %v, want %v", name, err, test.code)
		}
		var unreached *source.Error
		if errors.As(err, &unreached) || errors.Is(err, peer.ErrNotHawser) {
			t.Errorf("%s: %v is told as something else than a refusal", name, err)
		}
	}
}

// A cluster that lists no private keys, as an Apache Kafka, and one that is not there are told apart.
func TestAClusterWithoutPrivateKeysIsNoHawser(t *testing.T) {
	w := newWorld(t, nil).serve()
	c := linked(t, w)
	if _, err := c.Call(t.Context(), &peer.Request{Ask: peer.Ask{Key: peer.Hello}}); !errors.Is(err, peer.ErrNotHawser) {
		t.Errorf("%v, want ErrNotHawser", err)
	}
	w.Close()
	var unreached *source.Error
	if _, err := c.Call(t.Context(), &peer.Request{Ask: peer.Ask{Key: peer.Hello}}); !errors.As(err, &unreached) {
		t.Errorf("%v, want that it is unreachable", err)
	}
}

// together answers nobody before so many are being asked at once.
type together struct {
	echo
	missing sync.WaitGroup
}

func (g *together) Answer(ctx context.Context, _ string, rq *peer.Request) ([]byte, error) {
	g.missing.Done()
	all := make(chan struct{})
	go func() { g.missing.Wait(); close(all) }()
	select {
	case <-all:
		return rq.Body, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A question that waits at the other side holds no other one up.
func TestPrivateQuestionsAreAskedSideBySide(t *testing.T) {
	const n = 16
	g := &together{}
	g.missing.Add(n)
	c := linked(t, newWorld(t, func(_ *world, d *Deps) { d.Peers = g }).serve())
	failed := make(chan error, n)
	for range n {
		go func() {
			_, err := c.Call(t.Context(), &peer.Request{Ask: peer.Ask{Key: peer.Freeze, Topics: []string{"t"}}})
			failed <- err
		}()
	}
	for range n {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// hold is a connection to a world's door that is held.
func hold(t *testing.T, w *world) *source.Held {
	t.Helper()
	held, err := linked(t, w).Hold(t.Context(), w.Advertised(plain))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(held.Close)
	return held
}

func connectRequest(phase peer.Phase) *peer.Request {
	return &peer.Request{Ask: peer.Ask{Key: peer.Connect, Body: peer.ConnectRequest{Phase: phase, WaitMs: 60_000}.Encode()}}
}

// A connection that its client gives away is whoever's takes it, in both directions, and ends with the door.
func TestAConnectionIsHandedOver(t *testing.T) {
	e := &echo{taken: make(chan net.Conn, 1)}
	w := newWorld(t, func(_ *world, d *Deps) { d.Peers = e }).serve()
	held := hold(t, w)
	if _, err := held.Call(t.Context(), connectRequest(peer.Ready)); err != nil {
		t.Fatal(err)
	}
	far, err := held.Take()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near := <-e.taken
	if near == nil {
		t.Fatal("the connection was not handed over")
	}
	first := make([]byte, 5)
	if _, err := io.ReadFull(far, first); err != nil || string(first) != "first" {
		t.Fatalf("the first word is %q, %v", first, err)
	}
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		word, got := []byte("ping"), make([]byte, 4)
		if _, err := pair[0].Write(word); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(pair[1], got); err != nil || string(got) != "ping" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if _, err := held.Take(); err == nil {
		t.Error("it was taken twice")
	}
	if w.Connections() == 0 {
		t.Error("a connection that was handed over is not counted")
	}
	begun := time.Now()
	stop, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	w.Shutdown(stop)
	if _, err := far.Read(make([]byte, 1)); err == nil || time.Since(begun) > 10*time.Second {
		t.Errorf("the door is closed and the connection reads %v after %v", err, time.Since(begun))
	}
	near.Close()
}

// Who waits for a connection to be needed may hang up, and does not keep the door from closing.
func TestAnOfferEndsWithItsConnectionAndWithTheDoor(t *testing.T) {
	for name, end := range map[string]func(*world, *source.Held){
		"the client hangs up": func(_ *world, held *source.Held) { held.Close() },
		"the door closes":     func(w *world, _ *source.Held) { go w.Shutdown(w.t.Context()) },
	} {
		e := &echo{taken: make(chan net.Conn, 1)}
		w := newWorld(t, func(_ *world, d *Deps) { d.Peers = e }).serve()
		held := hold(t, w)
		failed := make(chan error, 1)
		go func() {
			_, err := held.Call(t.Context(), connectRequest(peer.Offer))
			failed <- err
		}()
		for deadline := time.Now().Add(10 * time.Second); ; {
			e.mu.Lock()
			asked := len(e.asked)
			e.mu.Unlock()
			if asked == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the offer does not arrive", name)
			}
			runtime.Gosched()
		}
		end(w, held)
		select {
		case <-e.taken:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the offer still waits", name)
		}
		<-failed
	}
}
