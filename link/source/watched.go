package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// answerMost is the longest answer taken to a question, in bytes. The library lays an answer out in
	// memory before anybody looks at it, and takes up to sixteen times its length for that.
	answerMost = 32 << 20
	// batchUsual is the largest batch that an answer to a fetch is believed to hold at once, in bytes:
	// what brokers take by default, and twice that.
	batchUsual = 2 << 20
	// fetchExtra and partitionExtra are what an answer to a fetch has beside batches, in bytes.
	fetchExtra     = 64 << 10
	partitionExtra = 512
	// stallTime is how long an answer may stop midway. A length that a flipped bit made longer is waited for in vain.
	stallTime = 5 * time.Second
	// secondTry is how long an answer of a length that was doubted once is taken.
	secondTry = 30 * time.Second
)

// sizes is what is known about how long answers to fetches may be. A broker gives a first batch whole
// however little was asked for, so a length beyond that is not refused for ever: once, and when
// the answer comes again on another connection it is taken, and that length is usual from then on.
type sizes struct {
	mu      sync.Mutex
	largest int64     // an answer that came whole
	doubted time.Time // when a length was refused
}

// allow reports whether an answer of length bytes is to be read where asked bytes are to be expected.
func (s *sizes) allow(length, asked int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if length <= max(asked, s.largest) || time.Since(s.doubted) < secondTry {
		return true
	}
	s.doubted = time.Now()
	return false
}

// ended notes that an answer longer than expected came whole, or did not.
func (s *sizes) ended(length int64, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubted = time.Time{}
	if whole {
		s.largest = max(s.largest, length)
	}
}

// watched is a connection whose answers' lengths are looked at before they are believed, and whose reads end
// when an answer stops midway. Every answer of the protocol, those of a login included, begins with its length.
type watched struct {
	net.Conn
	address string
	asked   func() int64 // bytes that the answer under way may have
	sizes   *sizes       // nil: what is longer than asked is refused
	stall   time.Duration

	mu    sync.Mutex // guards until, armed and the connection's read deadline
	until time.Time  // the deadline that the reader set; zero for none
	armed time.Time  // when the deadline for an answer's next bytes was last set; zero for not

	// used by Read alone
	head   [4]byte
	have   int   // bytes of head
	length int64 // of the answer under way
	left   int64 // bytes of it that are still to come
	beyond bool  // it is longer than asked
}

func (c *Cluster) watch(conn net.Conn, address string, asked func() int64, sizes *sizes) net.Conn {
	return &watched{Conn: conn, address: address, asked: asked, sizes: sizes,
		stall: min(stallTime, max(c.cfg.RequestTimeout/2, 50*time.Millisecond))}
}

// dialFor opens connections on which answers have at most so many bytes.
func (c *Cluster) dialFor(most int32) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := c.dialer.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return c.watch(conn, address, func() int64 { return int64(most) }, nil), nil
	}
}

// SetDeadline is net.Conn's.
func (w *watched) SetDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = t
	return w.Conn.SetDeadline(t)
}

// SetReadDeadline is net.Conn's.
func (w *watched) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = t
	w.armed = time.Time{}
	return w.Conn.SetReadDeadline(t)
}

// midway reports whether a part of an answer has come.
func (w *watched) midway() bool { return w.have > 0 }

// Read is net.Conn's. Its errors of an answer's length and of one that stops are *Error.
func (w *watched) Read(p []byte) (int, error) {
	if err := w.arm(); err != nil {
		return 0, err
	}
	n, err := w.Conn.Read(p)
	if refused := w.walk(p[:n]); refused != nil {
		return 0, refused
	}
	if err != nil && w.midway() {
		if w.beyond {
			w.sizes.ended(w.length, false)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !w.over() {
			err = &Error{Class: Timeout, Address: w.address, Err: fmt.Errorf("an answer stopped midway, %d of %d bytes came: %w",
				w.length-w.left, w.length, err),
				Hint: "Bytes were damaged or lost on the way, or the broker hangs."}
		}
	}
	return n, err
}

// over reports whether the reader's own deadline has passed.
func (w *watched) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.until.IsZero() && !time.Now().Before(w.until)
}

// arm bounds how long the rest of an answer may keep still. It leaves an earlier deadline of the reader alone.
func (w *watched) arm() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.midway() {
		if w.armed.IsZero() {
			return nil
		}
		w.armed = time.Time{}
		return w.Conn.SetReadDeadline(w.until)
	}
	if !w.armed.IsZero() && now.Sub(w.armed) < w.stall/8 {
		return nil
	}
	w.armed = now
	by := now.Add(w.stall)
	if !w.until.IsZero() && w.until.Before(by) {
		by = w.until
	}
	return w.Conn.SetReadDeadline(by)
}

// walk follows the answers in p. It returns an error for a length that cannot be right.
func (w *watched) walk(p []byte) error {
	for len(p) > 0 {
		if w.have < len(w.head) {
			n := copy(w.head[w.have:], p)
			w.have += n
			p = p[n:]
			if w.have < len(w.head) {
				return nil
			}
			if err := w.begin(); err != nil {
				return err
			}
		}
		n := min(int64(len(p)), w.left)
		w.left -= n
		p = p[n:]
		if w.left == 0 {
			if w.beyond {
				w.sizes.ended(w.length, true)
			}
			w.have, w.beyond = 0, false
		}
	}
	return nil
}

// begin judges an answer's length. Lengths beyond the library's own bound are left to it: it knows
// what other protocols' first bytes look like.
func (w *watched) begin() error {
	w.length = int64(int32(binary.BigEndian.Uint32(w.head[:])))
	w.left = max(w.length, 0)
	if alert, handshake := byte(21), byte(22); (w.head[0] == alert || w.head[0] == handshake) && w.head[1] == 3 {
		return &Error{Class: TLS, Address: w.address, Err: errors.New("the broker's listener speaks TLS, and was spoken to without"),
			Hint: "Set security.protocol to SSL, or where it wants a login to SASL_SSL."}
	}
	asked := w.asked()
	if w.length <= asked || w.length > mostMaxReadBytes {
		return nil
	}
	if w.sizes != nil && w.sizes.allow(w.length, asked) {
		w.beyond = true
		return nil
	}
	return &Error{Class: Other, Address: w.address, Err: fmt.Errorf("an answer claims to have %d bytes where at most %d can be right",
		w.length, asked),
		Hint: "Bytes were damaged on the way, or something between here and the broker does not speak Kafka's protocol."}
}
