package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/mirror"
	"github.com/hawserio/hawser/link/peer"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/link/source"
	"github.com/hawserio/hawser/meta"
)

// Listener is one of this cluster's own listeners, as a link reaches it.
type Listener struct {
	Name       string
	Advertised string // host:port as clients are told
	Dial       string // host:port that reaches it from here
}

// How a side that dials for both holds connections ready.
const (
	offersReady  = 4 // connections offered at any time
	offerWaitMax = 20 * time.Second
)

// lender opens connections to the other cluster of a link, which cannot dial, and lends them to it: each waits there until it is
// needed, then its bytes go to and from one of this cluster's own brokers, where the link has logged in with its local. configs. So
// the broker serves the other cluster as it serves any client, with that user's rights.
type lender struct {
	ls     *Links
	link   *meta.Link
	src    Source // the other cluster
	near   Source // this one, by the local. configs
	setup  settings
	cancel context.CancelFunc
	wait   sync.WaitGroup
	lent   chan struct{} // a token for each connection, offered or lent

	waiting atomic.Int32 // connections that are offered

	mu    sync.Mutex
	fault error // guarded by mu: of the last try
}

func (ls *Links) newLender(ctx context.Context, rec *meta.Link, src Source, set settings) (*lender, error) {
	near, err := ls.dialNear(set)
	if err != nil {
		return nil, err
	}
	l := &lender{ls: ls, link: rec, src: src, near: near, setup: set, lent: make(chan struct{}, lentMax)}
	ctx, l.cancel = context.WithCancel(ctx)
	for range offersReady {
		l.wait.Go(func() { l.loop(ctx) })
	}
	return l, nil
}

// close ends all connections that are offered and lent.
func (l *lender) close() {
	if l == nil {
		return
	}
	l.cancel()
	l.wait.Wait()
	l.near.Close()
}

// dialNear is this cluster as the link itself reaches it.
func (ls *Links) dialNear(set settings) (Source, error) {
	if ls.env.Local == nil {
		return nil, errors.New("this cluster has no listeners that a link could reach it by")
	}
	own, err := ls.env.Local(set.localListener, set.local.Security.Protocol)
	if err != nil {
		return nil, err
	}
	cfg := set.local
	cfg.Bootstrap, cfg.Map = []string{own.Advertised}, map[string]string{own.Advertised: own.Dial}
	cfg.Logger = ls.env.Logger
	return ls.env.Dial(cfg)
}

// loop offers one connection after the other.
func (l *lender) loop(ctx context.Context) {
	pause := l.setup.backoff
	for ctx.Err() == nil {
		err := l.offer(ctx)
		if ctx.Err() != nil {
			return
		}
		l.note(err)
		if err == nil {
			pause = l.setup.backoff
			continue
		}
		l.ls.env.Logger.Debug("connection to the other cluster of a link ended", "link", l.link.Name, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, l.setup.backoffMax)
	}
}

func (l *lender) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = err
}

// problem is why connections cannot be lent; empty where they can.
func (l *lender) problem() plan.Problem {
	if l == nil {
		return plan.Problem{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		return plan.Problem{}
	}
	return plan.Problem{Code: codeOf(l.fault), Text: l.fault.Error()}
}

func (l *lender) call(ctx context.Context, far *source.Held, m peer.ConnectRequest) (peer.ConnectAnswer, error) {
	rq := &peer.Request{Ask: peer.Ask{Key: peer.Connect, Body: m.Encode()}, Link: l.link.ID,
		Caller: l.ls.env.Metadata.Image().Cluster.ID, Callee: l.link.RemoteClusterID}
	body, err := far.Call(ctx, rq)
	if err != nil || m.Phase != peer.Offer {
		return peer.ConnectAnswer{}, err
	}
	return peer.DecodeConnectAnswer(body)
}

// offer opens a connection, waits until it is needed and lends it.
func (l *lender) offer(ctx context.Context) error {
	select {
	case l.lent <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	back := func() { <-l.lent }
	far, answer, err := l.wanted(ctx)
	if err != nil {
		back()
		return err
	}
	defer far.Close()
	near, err := l.reachNear(ctx, answer.Address)
	if err != nil {
		back()
		_, told := l.call(ctx, far, peer.ConnectRequest{Phase: peer.Failed, Token: answer.Token, Code: codeOf(err), Words: err.Error()})
		return errors.Join(&nearError{err}, told)
	}
	_, err = l.call(ctx, far, peer.ConnectRequest{Phase: peer.Ready, Token: answer.Token})
	var taken net.Conn
	if err == nil {
		taken, err = far.Take()
	}
	if err != nil {
		back()
		near.Close()
		return fmt.Errorf("lend a connection: %w", err)
	}
	l.wait.Go(func() {
		defer back()
		splice(ctx, taken, near)
	})
	return nil
}

// wanted opens a connection and offers it until the other side needs one.
func (l *lender) wanted(ctx context.Context) (*source.Held, peer.ConnectAnswer, error) {
	far, err := l.src.Hold(ctx, "")
	if err != nil {
		return nil, peer.ConnectAnswer{}, fmt.Errorf("connect to the other cluster: %w", err)
	}
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	wait := min(l.setup.source.RequestTimeout/2, offerWaitMax)
	for {
		answer, err := l.call(ctx, far, peer.ConnectRequest{Phase: peer.Offer, WaitMs: int32(wait.Milliseconds())})
		switch {
		case err != nil:
			far.Close()
			return nil, answer, fmt.Errorf("offer a connection: %w", err)
		case answer.Wanted:
			return far, answer, nil
		case ctx.Err() != nil:
			far.Close()
			return nil, answer, ctx.Err()
		}
		l.note(nil)
	}
}

// reachNear connects and logs in to one of this cluster's own brokers.
func (l *lender) reachNear(ctx context.Context, address string) (net.Conn, error) {
	held, err := l.near.Hold(ctx, address)
	if err != nil {
		return nil, err
	}
	return held.Take()
}

// splice carries bytes between two connections until one of them ends, and closes both.
func splice(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { a.Close(); b.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // either end may end it, in any way
			pair[0].Close()
			pair[1].Close()
		})
	}
	both.Wait()
}

// nearError says that the link could not log in to its own cluster.
type nearError struct{ err error }

func (e *nearError) Error() string {
	return "the link cannot connect to its own cluster by its local. configs: " + e.err.Error()
}

func (e *nearError) Unwrap() error { return e.err }

func (e *nearError) code() mirror.Reason {
	switch reason := mirror.Reason(codeOf(e.err)); reason {
	case mirror.Authentication, mirror.TLSError:
		return mirror.BrokerAuthentication
	case mirror.Authorization:
		return mirror.BrokerAuthorization
	default:
		return reason
	}
}

// counts is how many connections wait to be needed, and how many are in use.
func (l *lender) counts() (waiting, lent int) {
	if l == nil {
		return 0, 0
	}
	waiting = int(l.waiting.Load())
	return waiting, max(len(l.lent)-waiting, 0)
}

// lending counts the link's lent connections, at whichever end this is.
func (r *running) lending() (waiting, lent int) {
	r.mu.Lock()
	l := r.lender
	r.mu.Unlock()
	if l != nil {
		return l.counts()
	}
	return r.arrivals.counts()
}

// tendLender starts and ends the lending of connections as the halves of the link say.
func (r *running) tendLender(ctx context.Context) {
	r.mu.Lock()
	old, src, set, rec := r.lender, r.src, r.set, r.rec
	lends := src != nil && !set.paused && r.ls.lends(rec, r.other.half)
	r.mu.Unlock()
	if lends == (old != nil) && (old == nil || old.src == src) {
		return
	}
	old.close()
	var made *lender
	var err error
	if lends {
		if made, err = r.ls.newLender(ctx, rec, src, set); err != nil {
			r.ls.env.Logger.Warn("link cannot lend connections", "link", r.name, "error", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lender, r.lendErr = made, err
}

// lends reports whether a half opens connections for the other one.
func (ls *Links) lends(rec *meta.Link, other *peer.LinkHalf) bool {
	half := peer.LinkHalf{
		Mode:       orDefault(rec.Configs, keyMode, peer.Destination),
		Connection: orDefault(rec.Configs, keyConnection, peer.Outbound),
	}
	return half.Lends(other)
}

// lendProblem is why connections are not lent that should be; r.mu is held.
func (r *running) lendProblem() plan.Problem {
	if r.lendErr != nil {
		return plan.Problem{Code: codeOf(r.lendErr), Text: (&nearError{r.lendErr}).Error()}
	}
	return r.lender.problem()
}

// tryLending checks, before a half that lends connections is made, that the link can log in to its own cluster and that the other
// one will take connections.
func (ls *Links) tryLending(ctx context.Context, src Source, own *meta.Link, set settings) error {
	near, err := ls.dialNear(set)
	if err == nil {
		defer near.Close()
		_, err = near.Probe(ctx)
	}
	if err != nil {
		failed := &nearError{err}
		return &Error{Kind: BadRequest, Code: string(failed.code()), Err: err, Text: "Cannot create the link: " + failed.Error() + ".",
			Hint: "Set local.listener.name, local.security.protocol and the local.sasl. and local.ssl. configs as a client of this cluster would."}
	}
	ask := peer.Ask{Key: peer.Connect, Body: peer.ConnectRequest{}.Encode()}
	_, err = src.Call(ctx, &peer.Request{Ask: ask, Link: own.ID, Caller: ls.env.Metadata.Image().Cluster.ID, Callee: own.RemoteClusterID})
	switch {
	case err == nil:
		return nil
	case kafkaReason(err) == mirror.Authorization:
		out := refused(err)
		out.Kind = Forbidden
		return out
	case kafka.CodeOf(err) == kafka.ThrottlingQuotaExceeded:
		return nil
	}
	return unreachable("offer connections to the other cluster", err)
}
