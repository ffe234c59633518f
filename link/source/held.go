package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/link/peer"
)

// Held is one connection to one broker, connected and logged in, that is spoken on until it is taken over raw. It is not
// replaced when it breaks.
type Held struct {
	cluster *Cluster
	client  *kgo.Client
	address string
	dialled atomic.Bool
	conn    heldConn
}

// Hold connects to the broker that advertises an address, or with "" to any, and logs in.
func (c *Cluster) Hold(ctx context.Context, address string) (*Held, error) {
	if err := c.gate(); err != nil {
		return nil, err
	}
	probe, err := c.Probe(ctx)
	if err != nil {
		return nil, err
	}
	if address, err = pick(probe, address); err != nil {
		return nil, err
	}
	h := &Held{cluster: c, address: address}
	// As long as the client library allows: what is held waits for its turn.
	h.client, err = c.newClient([]string{address}, kgo.Dialer(h.dial), kgo.ConnIdleTimeout(15*time.Minute))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	if _, err := h.ask(ctx, kmsg.NewPtrApiVersionsRequest()); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// pick finds a broker by its address: nobody else is dialled on the word of the other side.
func pick(probe Probe, address string) (string, error) {
	if address == "" && len(probe.Brokers) > 0 {
		return probe.Brokers[rand.IntN(len(probe.Brokers))].Address, nil
	}
	for _, broker := range probe.Brokers {
		if broker.Address == address {
			return address, nil
		}
	}
	return "", kafka.Errorf(kafka.BrokerNotAvailable, "no broker of cluster %s advertises the address %q", probe.ClusterID, address)
}

func (h *Held) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if h.dialled.Swap(true) {
		return nil, &Error{Class: Refused, Address: address, Err: errors.New("the connection has ended"), Hint: hints[Refused]}
	}
	conn, err := h.cluster.dialFor(answerMost)(ctx, network, address)
	if err != nil {
		return nil, err
	}
	h.conn.put(conn)
	return &h.conn, nil
}

func (h *Held) ask(ctx context.Context, rq kmsg.Request) (kmsg.Response, error) {
	seeds := h.client.SeedBrokers()
	if len(seeds) == 0 {
		return nil, errClosed
	}
	resp, err := seeds[0].Request(ctx, rq)
	return resp, h.cluster.classify(err, h.address)
}

// Call sends a private request on this very connection; see Cluster.Call.
func (h *Held) Call(ctx context.Context, rq *peer.Request) ([]byte, error) {
	if err := rq.Check(); err != nil {
		return nil, err
	}
	resp, err := h.ask(ctx, rq)
	if err != nil {
		return nil, err
	}
	answer := resp.(*peer.Answer)
	return answer.Body, answer.Err()
}

// Take lets the client library go and gives the connection away: between two requests nothing reads from it. Who takes it closes it.
func (h *Held) Take() (net.Conn, error) {
	conn, err := h.conn.take()
	h.client.Close()
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		conn.Close()
		return nil, fmt.Errorf("take over the connection to %s: %w", h.address, err)
	}
	return conn, nil
}

// Close ends the connection unless it was taken.
func (h *Held) Close() { h.client.Close() }

// heldConn is a connection that the client library can be made to let go of. The library reads ahead, so it is
// given one answer at a time: what comes after the last one is not its own.
type heldConn struct {
	net.Conn
	head [4]byte // the size of the answer that is being read, as far as it has come
	have int
	left int // of the answer's bytes

	mu    sync.Mutex // guards what follows
	ended bool       // closed, or taken
}

func (c *heldConn) put(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Conn = conn
}

func (c *heldConn) take() (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.Conn == nil {
		return nil, net.ErrClosed
	}
	c.ended = true
	return c.Conn, nil
}

// Read implements net.Conn; it ends with the answer.
func (c *heldConn) Read(p []byte) (int, error) {
	if c.left > 0 {
		n, err := c.Conn.Read(p[:min(len(p), c.left)])
		c.left -= n
		return n, err
	}
	n, err := c.Conn.Read(p[:min(len(p), len(c.head)-c.have)])
	c.have += copy(c.head[c.have:], p[:n])
	if c.have == len(c.head) {
		c.have, c.left = 0, max(int(int32(binary.BigEndian.Uint32(c.head[:]))), 0)
	}
	return n, err
}

// Close implements net.Conn; it does nothing once the connection was taken.
func (c *heldConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	c.ended = true
	return c.Conn.Close()
}
