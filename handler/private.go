package handler

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/wire"
	"github.com/hawserio/hawser/link/peer"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Peers answers what the other cluster of a link asks by the private API keys; broker plugs link in.
type Peers interface {
	// Answer is asked when the caller's rights were checked, on the cluster and on every topic that rq names; it must not
	// touch others. Errors are kafka.Error with words for the operator of the other cluster.
	Answer(ctx context.Context, principal string, rq *peer.Request) (body []byte, err error)
	// Connect answers peer.Connect. ctx ends with the connection; the answer may take as long as the request allows. take,
	// where it is not nil, is called once: with the connection after the answer was sent, to be used and closed by whoever takes it, or
	// with the error that kept it from being sent.
	Connect(ctx context.Context, principal string, rq *peer.Request) (body []byte, take func(net.Conn, error), err error)
}

// peerAnswerMax bounds an answer: less than request.timeout.ms of the links that ask.
const peerAnswerMax = 25 * time.Second

// privateRows makes rows of package peer's table.
func privateRows() []api {
	var list []api
	for _, row := range peer.Rows() {
		handle := private(row)
		if row.Key == peer.Connect {
			handle = connect(row)
		}
		list = append(list, api{key: int16(row.Key), name: row.Name, min: row.Min, max: row.Max, handle: handle, note: row.Doc})
	}
	return list
}

// private answers a key of package peer's table: it checks what the row needs and passes the request on.
func private(row peer.Row) handle {
	return on(func(ctx context.Context, c *call, rq *peer.Request) (kmsg.Response, error) {
		ctx, cancel := context.WithTimeout(ctx, peerAnswerMax)
		defer cancel()
		err := c.mayAsk(row, rq)
		var body []byte
		if err == nil {
			body, err = c.Peers.Answer(ctx, c.from.Principal, rq)
		}
		return c.peerAnswer(row, rq, body, err), nil
	})
}

// peerAnswer is an answer's envelope.
func (c *call) peerAnswer(row peer.Row, rq *peer.Request, body []byte, err error) *peer.Answer {
	resp := rq.ResponseKind().(*peer.Answer)
	resp.Cluster, resp.Body = c.ClusterID, body
	if err == nil && len(resp.Body) > peer.BodyMax {
		err = kafka.Errorf(kafka.MessageTooLarge, "The answer to %s has %d bytes, more than %d: ask for fewer topics at once.",
			row.Name, len(resp.Body), peer.BodyMax)
	}
	if err != nil {
		resp.Code, resp.Words, resp.Body = kafka.CodeOf(err), *kafka.MessageOf(err), nil
	}
	return resp
}

// connect answers peer.Connect: from some answer on it is this side that asks on the connection.
func connect(row peer.Row) handle {
	return on(func(ctx context.Context, c *call, rq *peer.Request) (kmsg.Response, error) {
		if err := c.mayAsk(row, rq); err != nil {
			return c.peerAnswer(row, rq, nil, err), nil
		}
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-c.stopping:
				cancel()
			case <-waiting.Done():
			}
		}()
		defer c.conn.watchGone(cancel)()
		body, take, err := c.Peers.Connect(waiting, c.from.Principal, rq)
		answer := c.peerAnswer(row, rq, body, err)
		if take == nil {
			return answer, nil
		}
		return &handedOver{answer, take}, nil
	})
}

// handedOver is the last answer on a connection that is given away.
type handedOver struct {
	*peer.Answer
	take func(net.Conn, error)
}

func (h *handedOver) writeTo(c *conn, correlationID int32) error {
	c.out = wire.AppendResponse(takeBuffer(), correlationID, h.Answer)
	err := c.write(c.out)
	switch {
	case err != nil:
	case c.r.Buffered() > 0:
		err = errors.New("the client went on talking on a connection that it gave away")
	default:
		err = c.net.SetDeadline(time.Time{})
	}
	if err != nil {
		h.take(nil, err)
		return err
	}
	lent := &lentConn{Conn: c.net, ended: make(chan struct{})}
	h.take(lent, nil)
	select { // it stays one of the door's connections: they are counted, and closed when it stops
	case <-lent.ended:
	case <-c.server.stopping:
	case <-c.server.ctx.Done():
	}
	return io.EOF
}

// lentConn is a connection that somebody else uses.
type lentConn struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

// Close implements net.Conn.
func (l *lentConn) Close() error {
	l.once.Do(func() { close(l.ended) })
	return l.Conn.Close()
}

// mayAsk checks addressee and rights (rule R9).
func (c *call) mayAsk(row peer.Row, rq *peer.Request) error {
	if rq.Callee != "" && rq.Callee != c.ClusterID {
		return kafka.Errorf(kafka.InconsistentClusterID, "This is cluster %s, not %s: check the link's bootstrap.servers.",
			c.ClusterID, rq.Callee)
	}
	if row.Cluster != kmsg.ACLOperationUnknown && !c.clusterAllowed(row.Cluster) {
		return kafka.Errorf(kafka.ClusterAuthorizationFailed, "%s needs %s on cluster %s: allow it to the link's principal, %s.",
			row.Name, row.Cluster, c.ClusterID, c.from.Principal)
	}
	if row.Topic == kmsg.ACLOperationUnknown {
		if len(rq.Topics) > 0 {
			return kafka.Errorf(kafka.InvalidRequest, "%s names no topics.", row.Name)
		}
		return nil
	}
	if len(rq.Topics) == 0 {
		return kafka.Errorf(kafka.InvalidRequest, "%s must name its topics.", row.Name)
	}
	for _, topic := range rq.Topics {
		if !c.topicAllowed(row.Topic, topic) {
			return kafka.Errorf(kafka.TopicAuthorizationFailed,
				"%s needs %s on topic '%s' of cluster %s: allow it to the link's principal, %s.",
				row.Name, row.Topic, topic, c.ClusterID, c.from.Principal)
		}
	}
	return nil
}
