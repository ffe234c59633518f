package source

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hawserio/hawser/link/fetcher"
)

const (
	// lentLeast is the shortest answer, in bytes, that goes to lent memory: others cost little to make room for.
	lentLeast = 64 << 10
	// readAhead is what is read with an answer's length: a short one comes whole, in one call to the system.
	readAhead = 4 << 10
	// requestHead is a request's length, API key, version and correlation id; answerHead an answer's length and correlation id.
	requestHead = 12
	answerHead  = 8
)

// lent is a fetch under way whose answer goes to memory that the fetcher lent. The library makes room of its own for each answer: for
// megabytes that costs as much as reading them, to clear it and to collect it again.
type lent struct {
	mu      sync.Mutex // guards what follows
	memory  *fetcher.Memory
	used    bool
	body    []byte // of the answer, behind its header; nil for one that the library has
	version int16
}

// room is memory for an answer. The library may ask a second time over another connection, while the first may still be read from:
// that one has memory of its own then, and nobody uses the lent again.
func (l *lent) room(n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used {
		l.memory.Forget()
		return make([]byte, n)
	}
	l.used = true
	return l.memory.Take(n)
}

func (l *lent) put(version int16, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version, l.body = version, body
}

// answer is what came to the lent memory, resp itself if nothing did.
func (l *lent) answer(resp kmsg.Response) (*kmsg.FetchResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.body == nil {
		return resp.(*kmsg.FetchResponse), nil
	}
	read := kmsg.NewPtrFetchResponse()
	read.Version = l.version
	if err := read.ReadFrom(l.body); err != nil {
		return nil, fmt.Errorf("read the answer to a fetch: %w", err)
	}
	return read, nil
}

// lending is a connection that reads long answers to fetches into lent memory. What the library gets in their place is
// an answer that holds nothing, so that all else stays its own: order, time-outs, quotas, logins.
type lending struct {
	net.Conn
	current func() *lent // of the fetch that is written now; nil for none
	most    int64        // the longest answer that is read; the library refuses those beyond it
	in      *bufio.Reader

	mu      sync.Mutex // guards what follows: requests are written while answers are read
	to      *lent
	version int16
	id      int32 // correlation id

	// used by Read alone
	left int64  // of an answer that is passed on
	out  []byte // what is still to be given
}

func newLending(conn net.Conn, current func() *lent, most int32) *lending {
	return &lending{Conn: conn, current: current, most: int64(most), in: bufio.NewReaderSize(conn, readAhead)}
}

// Write is net.Conn's. The library writes each request in one call.
func (c *lending) Write(p []byte) (int, error) {
	if len(p) >= requestHead && int(binary.BigEndian.Uint32(p)) == len(p)-4 && binary.BigEndian.Uint16(p[4:]) == fetchKey {
		c.mu.Lock()
		c.to, c.version, c.id = c.current(), int16(binary.BigEndian.Uint16(p[6:])), int32(binary.BigEndian.Uint32(p[8:]))
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

// expects is the fetch that an answer belongs to, nil if it is not one to be put elsewhere.
func (c *lending) expects(id int32) (to *lent, version int16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.to == nil || c.id != id {
		return nil, 0
	}
	to, c.to = c.to, nil
	return to, c.version
}

// Read is net.Conn's.
func (c *lending) Read(p []byte) (int, error) {
	if len(c.out) == 0 && c.left == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.out) > 0 {
		n := copy(p, c.out)
		c.out = c.out[n:]
		return n, nil
	}
	n, err := c.in.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// next reads the head of an answer and decides where its body goes.
func (c *lending) next() error {
	head, err := c.in.Peek(4)
	if err != nil {
		if len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	length := int64(int32(binary.BigEndian.Uint32(head)))
	if length < lentLeast || length > c.most {
		c.left = 4 + max(length, 0)
		return nil
	}
	if head, err = c.in.Peek(answerHead); err != nil {
		return err
	}
	id := int32(binary.BigEndian.Uint32(head[4:]))
	to, version := c.expects(id)
	if to == nil {
		c.left = 4 + length
		return nil
	}
	if _, err := c.in.Discard(answerHead); err != nil {
		return err
	}
	body := to.room(int(length) - 4)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return err
	}
	return c.instead(to, id, version, body)
}

// instead keeps a body for the session and makes the empty answer that the library gets.
func (c *lending) instead(to *lent, id int32, version int16, body []byte) error {
	empty := kmsg.NewPtrFetchResponse()
	empty.Version = version
	c.out = binary.BigEndian.AppendUint32(make([]byte, 4, 64), uint32(id))
	if empty.IsFlexible() {
		tags := kbin.Reader{Src: body}
		kmsg.SkipTags(&tags)
		if err := tags.Complete(); err != nil {
			return fmt.Errorf("read the header of an answer to a fetch: %w", err)
		}
		body = tags.Src
		c.out = append(c.out, 0)
	}
	if version >= 1 && len(body) >= 4 {
		empty.ThrottleMillis = int32(binary.BigEndian.Uint32(body))
	}
	c.out = empty.AppendTo(c.out)
	binary.BigEndian.PutUint32(c.out, uint32(len(c.out)-4))
	to.put(version, body)
	return nil
}
