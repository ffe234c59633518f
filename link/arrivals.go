package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/source"
)

// anyBroker is the address by which a side that does not dial asks for a connection to any broker of the other one.
const anyBroker = "reversed-connection:0"

// Bounds of the connections that the other side of a link lends.
const (
	offersMax = 16  // waiting to be needed
	lentMax   = 512 // in use
)

// arrivals is where a side that does not dial gets its connections from: the other side opens some and offers them, and each is
// taken when one is needed.
type arrivals struct {
	wants chan *want

	mu      sync.Mutex // guards what follows
	offers  int
	lent    int
	pending map[int64]*want // offers that were accepted and are not ready yet, by token
}

// want is a connection that somebody waits for.
type want struct {
	address string
	got     chan arrived // room for one

	mu       sync.Mutex
	given    bool // guarded by mu: nobody waits any longer
	answered bool // guarded by mu
}

type arrived struct {
	conn net.Conn
	err  error // why this offer came to nothing
	last bool  // another offer would come to nothing as well
}

// deliver ends the wait. A connection that nobody waits for any longer is closed.
func (w *want) deliver(a arrived) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.given || w.answered {
		if a.conn != nil {
			a.conn.Close()
		}
		return
	}
	w.answered = true
	w.got <- a
}

// giveUp ends the wait from the other side.
func (w *want) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.given = true
	select {
	case a := <-w.got:
		if a.conn != nil {
			a.conn.Close()
		}
	default:
	}
}

func newArrivals() *arrivals {
	return &arrivals{wants: make(chan *want), pending: map[int64]*want{}}
}

// dial is a source.Config's: it takes an offered connection, or waits for one.
func (a *arrivals) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if address == anyBroker {
		address = ""
	}
	// Who asked has the same deadline: a little before it there is still time to say why.
	if deadline, is := ctx.Deadline(); is {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*9/10)
		defer cancel()
	}
	if err := a.reserve(); err != nil {
		return nil, err
	}
	for {
		w := &want{address: address, got: make(chan arrived, 1)}
		select {
		case a.wants <- w:
		case <-ctx.Done():
			a.giveBack()
			return nil, &source.Error{Class: source.Timeout, Err: errors.New("the other cluster has offered no connection"),
				Hint: "This half of the link does not dial. Create the other half, with connection.mode=OUTBOUND, or see its link_error."}
		}
		select {
		case got := <-w.got:
			if got.conn != nil {
				return &arrivedConn{Conn: got.conn, back: a.giveBack}, nil
			}
			if got.last {
				a.giveBack()
				return nil, got.err
			}
		case <-ctx.Done():
			w.giveUp()
			a.giveBack()
			return nil, &source.Error{Class: source.Timeout,
				Err:  errors.New("the other cluster has offered a connection, but it did not become ready"),
				Hint: "See the link_error of the other half of the link."}
		}
	}
}

func (a *arrivals) reserve() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lent >= lentMax {
		return &source.Error{Class: source.Other, Err: fmt.Errorf("%d connections of the other cluster are in use", a.lent),
			Hint: "Lower num.cluster.link.fetchers."}
	}
	a.lent++
	return nil
}

// counts is how many offers wait, and how many connections are in use.
func (a *arrivals) counts() (waiting, lent int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.offers, a.lent
}

func (a *arrivals) giveBack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lent--
}

// take ends the wait of a token's want, nil if nobody waits any longer.
func (a *arrivals) take(token int64) *want {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.pending[token]
	delete(a.pending, token)
	return w
}

// connect answers the other side's LinkConnect; see handler.Peers.
func (a *arrivals) connect(ctx context.Context, m peer.ConnectRequest) ([]byte, func(net.Conn, error), error) {
	if m.Phase == peer.Offer {
		answer, err := a.offer(ctx, time.Duration(m.WaitMs)*time.Millisecond)
		return answer.Encode(), nil, err
	}
	w := a.take(m.Token)
	switch {
	case w == nil:
		return nil, nil, kafka.Errorf(kafka.InvalidRequest, "Nobody waits for this connection any longer.")
	case m.Phase == peer.Failed:
		w.deliver(arrived{last: true, err: &source.Error{Class: classNamed(m.Code),
			Err:  errors.New("the other cluster cannot connect the link to itself: " + m.Words),
			Hint: "Put the local. configs of the link's other half right."}})
		return nil, nil, nil
	}
	return nil, func(conn net.Conn, err error) {
		w.deliver(arrived{conn: conn, err: err})
	}, nil
}

// classNamed is a class of the other side; what this version does not know is Other.
func classNamed(name string) source.Class {
	switch class := source.Class(name); class {
	case source.Auth, source.TLS, source.Timeout, source.Refused, source.Unresolvable:
		return class
	}
	return source.Other
}

// offer waits until a connection is wanted.
func (a *arrivals) offer(ctx context.Context, wait time.Duration) (peer.ConnectAnswer, error) {
	a.mu.Lock()
	full := a.offers >= offersMax
	if !full {
		a.offers++
	}
	a.mu.Unlock()
	if full {
		return peer.ConnectAnswer{}, kafka.Errorf(kafka.ThrottlingQuotaExceeded, "%d connections are offered on this link already.", offersMax)
	}
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.offers--
	}()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case w := <-a.wants:
		return a.accept(w), nil
	case <-t.C:
	case <-ctx.Done():
	}
	return peer.ConnectAnswer{}, nil
}

// readyMax is how long the side that offered a connection may take to reach its own broker.
const readyMax = 10 * time.Second

// accept pairs an offer with a want. Where the offer comes to nothing without a word, the want looks for another.
func (a *arrivals) accept(w *want) peer.ConnectAnswer {
	token := rand.Int64()
	a.mu.Lock()
	a.pending[token] = w
	a.mu.Unlock()
	time.AfterFunc(readyMax, func() {
		if late := a.take(token); late != nil {
			late.deliver(arrived{err: context.DeadlineExceeded})
		}
	})
	return peer.ConnectAnswer{Wanted: true, Address: w.address, Token: token}
}

// arrivedConn is counted until it is closed.
type arrivedConn struct {
	net.Conn
	once sync.Once
	back func()
}

// Close implements net.Conn.
func (c *arrivedConn) Close() error {
	c.once.Do(c.back)
	return c.Conn.Close()
}

// Connect answers a LinkConnect, by which the side that dials lends a connection to the other one.
func (ls *Links) Connect(ctx context.Context, _ string, rq *peer.Request) ([]byte, func(net.Conn, error), error) {
	q, err := ls.questionOf(rq)
	if err != nil {
		return nil, nil, err
	}
	if half := ls.halfOf(q.link); half.Connection != peer.Inbound {
		return nil, nil, kafka.Errorf(kafka.InvalidRequest, "Cluster link '%s' of cluster %s has %s=%s: it dials itself and takes no "+
			"connections.", half.Name, q.img.Cluster.ID, keyConnection, half.Connection)
	}
	m, err := peer.DecodeConnectRequest(rq.Body)
	if err != nil {
		return nil, nil, malformed(err)
	}
	r := ls.runningOf(q.link.ID)
	if r == nil {
		return nil, nil, kafka.Errorf(kafka.CoordinatorLoadInProgress, "Cluster link '%s' is being started.", q.link.Name)
	}
	return r.arrivals.connect(ctx, m)
}
