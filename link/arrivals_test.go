package link

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/source"
)

// offered makes an offer and answers what is wanted, in a goroutine's channel.
func offered(t *testing.T, a *arrivals, wait time.Duration) <-chan peer.ConnectAnswer {
	t.Helper()
	got := make(chan peer.ConnectAnswer, 1)
	go func() {
		body, take, err := a.connect(t.Context(), peer.ConnectRequest{Phase: peer.Offer, WaitMs: int32(wait.Milliseconds())})
		if err != nil || take != nil {
			t.Errorf("offer: %v", err)
		}
		answer, err := peer.DecodeConnectAnswer(body)
		if err != nil {
			t.Errorf("offer: %v", err)
		}
		got <- answer
	}()
	return got
}

type dialled struct {
	conn net.Conn
	err  error
}

func dialling(t *testing.T, a *arrivals, address string, within time.Duration) <-chan dialled {
	t.Helper()
	got := make(chan dialled, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		conn, err := a.dial(ctx, "tcp", address)
		got <- dialled{conn, err}
	}()
	return got
}

// ready says that an offer's broker is reached, and gives the connection.
func ready(t *testing.T, a *arrivals, token int64) (near net.Conn) {
	t.Helper()
	_, take, err := a.connect(t.Context(), peer.ConnectRequest{Phase: peer.Ready, Token: token})
	if err != nil || take == nil {
		t.Fatalf("ready: %v", err)
	}
	near, far := net.Pipe()
	take(far, nil)
	return near
}

func (a *arrivals) inUse() int {
	_, lent := a.counts()
	return lent
}

func TestAConnectionArrivesForWhoNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		if idle := <-offered(t, a, time.Second); idle.Wanted {
			t.Errorf("nobody wants a connection, but %+v", idle)
		}
		offer := offered(t, a, time.Minute)
		conn := dialling(t, a, "broker:1", time.Minute)
		answer := <-offer
		if !answer.Wanted || answer.Address != "broker:1" {
			t.Fatalf("wanted %+v", answer)
		}
		near := ready(t, a, answer.Token)
		got := <-conn
		if got.err != nil || a.inUse() != 1 {
			t.Fatalf("%v, %d in use", got.err, a.inUse())
		}
		got.conn.Close()
		got.conn.Close()
		if _, err := near.Read(make([]byte, 1)); err == nil || a.inUse() != 0 {
			t.Errorf("closed, and read %v with %d in use", err, a.inUse())
		}
		// The address by which no broker in particular is asked for is not told.
		offer = offered(t, a, time.Minute)
		conn = dialling(t, a, anyBroker, time.Minute)
		if answer = <-offer; answer.Address != "" {
			t.Errorf("any broker is %q", answer.Address)
		}
		ready(t, a, answer.Token)
		(<-conn).conn.Close()
		if _, _, err := a.connect(t.Context(), peer.ConnectRequest{Phase: peer.Ready, Token: answer.Token}); kafka.CodeOf(err) != kafka.InvalidRequest {
			t.Errorf("ready twice: %v", err)
		}
	})
}

func TestWhoWaitsForAConnectionIsToldWhyNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		class := func(err error, want source.Class, words string) {
			t.Helper()
			var e *source.Error
			if !errors.As(err, &e) || e.Class != want || !strings.Contains(err.Error(), words) || e.Hint == "" {
				t.Errorf("%v, want %s and %q", err, want, words)
			}
		}
		begun := time.Now()
		class((<-dialling(t, a, anyBroker, 10*time.Second)).err, source.Timeout, "has offered no connection")
		if took := time.Since(begun); took >= 10*time.Second || took < 8*time.Second {
			t.Errorf("told after %v: it must be before who asked has given up", took)
		}
		// The other side says that it cannot: another offer would come to the same.
		offer, conn := offered(t, a, time.Minute), dialling(t, a, anyBroker, time.Minute)
		answer := <-offer
		if _, _, err := a.connect(t.Context(), peer.ConnectRequest{Phase: peer.Failed, Token: answer.Token, Code: "AUTHENTICATION_ERROR", Words: "no such user"}); err != nil {
			t.Fatal(err)
		}
		class((<-conn).err, source.Auth, "no such user")
		// It says nothing more: the next offer is taken.
		offer, conn = offered(t, a, time.Minute), dialling(t, a, anyBroker, time.Minute)
		lost := <-offer
		again := <-offered(t, a, time.Minute)
		if !again.Wanted || again.Token == lost.Token {
			t.Fatalf("after an offer that was lost: %+v", again)
		}
		ready(t, a, again.Token)
		got := <-conn
		if got.err != nil {
			t.Fatal(got.err)
		}
		got.conn.Close()
		// Who waited has given up when the connection comes: it is closed.
		offer, conn = offered(t, a, time.Minute), dialling(t, a, anyBroker, 2*time.Second)
		late := <-offer
		class((<-conn).err, source.Timeout, "did not become ready")
		if _, err := ready(t, a, late.Token).Read(make([]byte, 1)); err == nil {
			t.Error("a connection that nobody waits for stays open")
		}
		if n := a.inUse(); n != 0 {
			t.Errorf("%d are counted as in use", n)
		}
	})
}

func TestLentConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		ctx, cancel := context.WithCancel(t.Context())
		for range offersMax {
			go func() { _, _, _ = a.connect(ctx, peer.ConnectRequest{WaitMs: 60_000}) }()
		}
		synctest.Wait()
		if _, _, err := a.connect(ctx, peer.ConnectRequest{WaitMs: 60_000}); kafka.CodeOf(err) != kafka.ThrottlingQuotaExceeded {
			t.Errorf("one offer more than %d: %v", offersMax, err)
		}
		cancel()
		synctest.Wait()
		if idle := <-offered(t, a, time.Second); idle.Wanted {
			t.Error("an offer after all others have gone is wanted by nobody, but taken")
		}
		a.lent = lentMax
		if _, err := a.dial(t.Context(), "tcp", anyBroker); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("one connection more than %d: %v", lentMax, err)
		}
		a.lent = 0
	})
}

func TestSpliceCarriesBothWaysAndEndsWithEitherEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			a, b := net.Pipe()
			c, d := net.Pipe()
			done := make(chan struct{})
			go func() { splice(ctx, b, c); close(done) }()
			for _, pair := range [][2]net.Conn{{a, d}, {d, a}} {
				go func() { _, _ = pair[0].Write([]byte("word")) }()
				got := make([]byte, 4)
				if n, err := pair[1].Read(got); err != nil || string(got[:n]) != "word" {
					t.Fatalf("%q, %v", got[:n], err)
				}
			}
			switch i {
			case 0:
				a.Close()
			case 1:
				d.Close()
			default:
				cancel()
			}
			<-done
			for _, end := range []net.Conn{a, d} {
				if _, err := end.Read(make([]byte, 1)); err == nil {
					t.Error("one end was closed and the other is open")
				}
			}
			cancel()
		}
	})
}
