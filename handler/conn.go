package handler

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/bits"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hawserio/hawser/group"
	"github.com/hawserio/hawser/kafka/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	readBuffer = 4 << 10
	// keepBuffer is how large a buffer may be to be used again.
	keepBuffer = 1 << 20
	// keepLarge is how large one of a producer's request may be.
	keepLarge = 64 << 20
	// otherMaxBytes bounds requests that carry no records: their decoded form takes
	// several times the memory of the bytes.
	otherMaxBytes = 16 << 20
	// writeTimeout is how long a reader may take no byte of an answer.
	writeTimeout = 60 * time.Second
	// writeChunk is how much is written under one such time-out.
	writeChunk = 1 << 20
	// reserveTimeout is how long a request waits for memory.
	reserveTimeout = 30 * time.Second
	// handshakeTimeout bounds the TLS handshake.
	handshakeTimeout = 30 * time.Second
)

// conn is one connection. Its goroutine reads a request, answers it, and only
// then reads the next: the order of answers is the protocol's promise. The one
// exception are produce requests that wait for the sync: the next ones are
// appended meanwhile, so that one sync serves several; their answers still go out in order.
type conn struct {
	server   *Server
	listener *listener
	net      net.Conn
	r        *bufio.Reader
	host     string
	login    *login
	frames   wire.FrameReader
	in       []byte        // the request's bytes, where nobody holds on to them after the answer
	begun    time.Time     // when the request under way came in
	out      []byte        // the answer's
	size     int           // bytes of the request
	resting  time.Duration // for how long to rest before the next request is read
	reserved int64         // bytes of the request beyond the first chunk, taken of Server.memory

	later     chan unsent // answers that wait for a sync, in order; nil until there was one
	laterDone sync.WaitGroup

	mu       sync.Mutex
	draining bool
	idle     bool // waiting for a request
}

func newConn(s *Server, l *listener, nc net.Conn) *conn {
	host, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err != nil {
		host = nc.RemoteAddr().String()
	}
	c := &conn{server: s, listener: l, net: nc, r: bufio.NewReaderSize(nc, readBuffer), host: "/" + host, login: newLogin(l)}
	c.frames = wire.FrameReader{R: c.r, Limit: c.limit, Progress: c.progress, Buffer: c.buffer, Larger: c.larger, Reserve: c.reserve}
	return c
}

// ip is the client's address, without the slash that Kafka puts before it.
func (c *conn) ip() string { return strings.TrimPrefix(c.host, "/") }

// serve answers requests until the connection or the context ends.
func (c *conn) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.close()
	defer c.endLater()
	log := c.server.Logger.With("listener", c.listener.Name, "client", c.host)
	if err := c.handshake(ctx); err != nil {
		c.server.noise.line(slog.LevelInfo, "TLS handshake failed", "listener", c.listener.Name, "client", c.host, "err", err)
		return
	}
	for {
		err := c.one(ctx)
		switch {
		case err == nil:
			c.mute(ctx)
			continue
		case c.drained(err):
			log.Debug("connection closed: the broker is stopping")
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
			c.hungUp(cancel)
		case errors.Is(err, os.ErrDeadlineExceeded):
			log.Debug("connection closed: idle or slow", "err", err)
		default:
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
				c.hungUp(cancel)
			}
			c.server.noise.line(slog.LevelInfo, "connection closed", "listener", c.listener.Name, "client", c.host, "err", err)
		}
		return
	}
}

// hungUp ends what still waits to be answered: nobody is there to hear it.
func (c *conn) hungUp(cancel context.CancelFunc) {
	c.close()
	cancel()
}

func (c *conn) handshake(ctx context.Context) error {
	tc, ok := c.net.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		return err
	}
	if c.listener.Principal == nil || c.listener.SASL != nil {
		return nil
	}
	state := tc.ConnectionState()
	name, err := c.listener.Principal(&state)
	if err == nil && name != "" {
		c.login.principal = name
	}
	return err
}

// errDrained says that the door is closing and the connection was at rest.
var errDrained = errors.New("the broker is stopping")

// one reads and answers one request.
func (c *conn) one(ctx context.Context) error {
	if err := c.rest(); err != nil {
		return err
	}
	if c.login.raw() {
		return c.rawToken()
	}
	defer c.release()
	frame, err := c.frames.Next()
	if err != nil {
		return err
	}
	c.server.counters.in.Add(int64(len(frame)))
	h, rest, err := wire.ParseHeader(frame)
	if err != nil {
		return err
	}
	c.size = len(frame)
	if h.Key == kmsg.Produce.Int16() {
		c.in = frame
	}
	return c.answer(ctx, h, rest)
}

// buffers is memory for requests and answers that nobody holds on to. Connections at rest have none of it.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// largeBuffers is memory for producers' requests of many batches: finding fresh memory for each page of one costs more than
// to copy the records into the log.
var largeBuffers = sync.Pool{New: func() any { return new([]byte) }}

func takeBuffer() []byte { return *buffers.Get().(*[]byte) }

func giveBuffer(b []byte) {
	b = b[:0]
	switch {
	case cap(b) == 0 || cap(b) > keepLarge:
	case cap(b) > keepBuffer:
		largeBuffers.Put(&b)
	default:
		buffers.Put(&b)
	}
}

// buffer gives memory for a producer's request, whose bytes are done with once they are in the log. Other
// requests get their own: who coordinates groups keeps parts of them.
func (c *conn) buffer(key int16, size int) []byte {
	if key != kmsg.Produce.Int16() || size > keepBuffer {
		return nil
	}
	b := takeBuffer()
	if n := int64(cap(b)); c.server.memory.TryAcquire(n) {
		c.reserved += n
		return b
	}
	giveBuffer(b) // it would be more than its share: let the request grow one of its own
	return nil
}

// larger moves what has come of a producer's request into memory for n bytes that a large one had before.
func (c *conn) larger(key int16, frame []byte, n int) []byte {
	if key != kmsg.Produce.Int16() || n <= keepBuffer || n > keepLarge {
		return nil
	}
	size := 1 << bits.Len(uint(n-1)) // so that what one request leaves fits the next
	if !c.server.memory.TryAcquire(int64(size - n)) {
		return nil
	}
	c.reserved += int64(size - n)
	b := *largeBuffers.Get().(*[]byte)
	if cap(b) < n || cap(b) > size {
		b = make([]byte, 0, size)
	}
	b = append(b[:0], frame...)
	giveBuffer(frame)
	return b
}

// reserve takes memory of what all large requests may have together, and waits for it.
func (c *conn) reserve(bytes int) error {
	ctx, cancel := context.WithTimeout(c.server.ctx, reserveTimeout)
	defer cancel()
	if err := c.server.memory.Acquire(ctx, int64(bytes)); err != nil {
		return fmt.Errorf("no memory for the request within %v: %d bytes of requests are being read already (queued.max.request.bytes)",
			reserveTimeout, c.server.Settings.QueuedMaxBytes)
	}
	c.reserved += int64(bytes)
	return nil
}

// release gives back what a request and its answer took.
func (c *conn) release() {
	giveBuffer(c.in)
	giveBuffer(c.out)
	c.in, c.out = nil, nil
	c.server.memory.Release(c.reserved)
	c.reserved = 0
}

// rest marks the connection as between two requests.
func (c *conn) rest() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining && c.r.Buffered() == 0 {
		return errDrained
	}
	c.idle = true
	return nil
}

// progress is called before each wait for bytes of a request.
func (c *conn) progress() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining && c.idle && c.r.Buffered() == 0 {
		return errDrained
	}
	if idle := c.server.Settings.MaxIdle; idle > 0 {
		return c.net.SetReadDeadline(c.server.deadline(idle))
	}
	return c.net.SetReadDeadline(time.Time{})
}

// deadline counts from the real clock, which is what the network's deadlines obey.
func (s *Server) deadline(d time.Duration) time.Time { return time.Now().Add(d) }

func (c *conn) limit(key int16) int32 {
	// The first bytes of a request have come.
	c.mu.Lock()
	c.idle = false
	c.mu.Unlock()
	if c.login.principal == "" {
		return c.server.Settings.LoginMaxBytes // strangers get little memory
	}
	if key == kmsg.Produce.Int16() {
		return c.server.Settings.RequestMaxBytes
	}
	return min(c.server.Settings.RequestMaxBytes, otherMaxBytes)
}

func (c *conn) answer(ctx context.Context, h wire.Header, rest []byte) error {
	row, rq := c.server.table.request(h.Key, h.Version)
	if row == nil {
		if h.Key == wire.ApiVersionsKey {
			c.settle()
			return c.send(h.CorrelationID, c.server.unknownApiVersions())
		}
		return fmt.Errorf("API key %d version %d is not served", h.Key, h.Version)
	}
	if err := c.account(h, rest); err != nil {
		return err
	}
	if err := wire.Decode(rq, rest); err != nil {
		return err
	}
	if err := c.checkElements(h, rq); err != nil {
		return err
	}
	if err := c.login.check(h.Key, c.server.Now()); err != nil {
		return err
	}
	call := &call{Server: c.server, listener: c.listener, conn: c, version: h.Version, clientID: h.ClientID, size: c.size,
		begun: time.Now()}
	call.from = group.Client{Host: c.host, Principal: c.login.principal}
	if h.ClientID != nil {
		call.from.ID = *h.ClientID
	}
	if h.Key != kmsg.Produce.Int16() {
		c.settle()
	}
	resp, err := c.run(ctx, row, call, rq)
	if err != nil {
		return err
	}
	c.resting = call.charge(row, resp)
	if resp == nil {
		return nil
	}
	resp.SetVersion(h.Version)
	if h.Key == kmsg.Produce.Int16() {
		return c.sendLater(ctx, h.CorrelationID, resp)
	}
	return c.send(h.CorrelationID, resp)
}

// run calls the handler. A panic is our fault: it costs the client its connection, not everyone's.
func (c *conn) run(ctx context.Context, row *api, call *call, rq kmsg.Request) (resp kmsg.Response, err error) {
	defer func() {
		if r := recover(); r != nil {
			c.server.Logger.Error("BUG: a request's handler failed",
				"api", row.name, "version", call.version, "panic", r, "stack", string(debug.Stack()))
			resp, err = nil, fmt.Errorf("%s version %d: handler failed", row.name, call.version)
		}
	}()
	counts, begun := c.server.counters.apis[row.key], call.begun
	c.begun = begun
	defer func() {
		took := time.Since(begun)
		counts.requests.Add(1)
		counts.nanos.Add(int64(took))
		if row.key == kmsg.Fetch.Int16() {
			c.server.counters.fetch.Observe(took)
		}
	}()
	resp, err = row.handle(ctx, call, rq)
	call.audit(row.name, rq, resp)
	return resp, err
}

// rawToken reads and answers one bare SASL frame. A failure has no answer in
// this form: it closes the connection.
func (c *conn) rawToken() error {
	token, err := c.frames.Token(c.server.Settings.LoginMaxBytes)
	if err != nil {
		return err
	}
	answer, _, err := c.login.step(token, c.server.Now())
	if err != nil {
		c.delayRefusal(c.server.ctx)
		return fmt.Errorf("authenticate: %w", err)
	}
	c.out = binary.BigEndian.AppendUint32(c.out[:0], uint32(len(answer)))
	c.out = append(c.out, answer...)
	return c.write(c.out)
}

// delayRefusal holds back the answer to a failed login, so that guessing is slow.
func (c *conn) delayRefusal(ctx context.Context) {
	if c.server.Settings.FailedLoginDelay <= 0 {
		return
	}
	timer := time.NewTimer(c.server.Settings.FailedLoginDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// streamed is an answer that writes its own bytes.
type streamed interface {
	writeTo(c *conn, correlationID int32) error
}

func (c *conn) send(correlationID int32, resp kmsg.Response) error {
	if s, ok := resp.(streamed); ok {
		return s.writeTo(c, correlationID)
	}
	c.out = wire.AppendResponse(takeBuffer(), correlationID, resp)
	return c.write(c.out)
}

// write writes b, a chunk at a time, each within writeTimeout.
func (c *conn) write(b []byte) error {
	for len(b) > 0 {
		if err := c.net.SetWriteDeadline(c.server.deadline(c.server.writeTimeout)); err != nil {
			return err
		}
		n, err := c.net.Write(b[:min(len(b), writeChunk)])
		if err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
		c.server.counters.out.Add(int64(n))
		b = b[n:]
	}
	return nil
}

// drain lets the requests under way finish and ends the wait for another one.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	if c.idle {
		_ = c.net.SetReadDeadline(time.Unix(1, 0)) // a connection that is gone waits no longer anyway
	}
}

// drained reports whether an error is only that the door closes.
func (c *conn) drained(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Is(err, errDrained) || c.draining && c.idle && errors.Is(err, os.ErrDeadlineExceeded)
}

func (c *conn) close() { _ = c.net.Close() } // what could be sent was

// watchGone calls gone when the client hangs up while its request waits. stop
// ends the watch; it must be called before the next request is read.
func (c *conn) watchGone(gone func()) (stop func()) {
	if c == nil || c.r.Buffered() > 0 {
		return func() {} // it has said more already, so it was there just now
	}
	if err := c.net.SetReadDeadline(time.Time{}); err != nil {
		gone()
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := c.r.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			gone()
		}
	}()
	return func() {
		_ = c.net.SetReadDeadline(time.Unix(1, 0)) // ends the Peek; a dead connection ended it already
		<-done
	}
}
