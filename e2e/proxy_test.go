//go:build e2e

package e2e

import (
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between a broker and its source: it counts what comes back, and
// can delay, cut and refuse. bootstrap.address.map sends the link through it.
type Proxy struct {
	target   string
	listener net.Listener
	Back     atomic.Int64 // bytes from the target
	Dials    atomic.Int64 // connections that it was asked for
	Fetches  atomic.Int64 // Fetch requests that went through, on connections without TLS
	delay    atomic.Int64 // nanoseconds each chunk from the target is held back
	refuse   atomic.Bool
	swallow  atomic.Bool // nothing goes through, either way, and nobody is told
	mu       sync.Mutex  // guards conns
	conns    map[net.Conn]struct{}
}

// NewProxy listens on loopback before a target.
func NewProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: listener, conns: map[net.Conn]struct{}{}}
	go p.accept()
	t.Cleanup(func() {
		listener.Close()
		p.Cut()
	})
	return p
}

// Addr is where to dial it.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.Dials.Add(1)
		if p.refuse.Load() {
			c.Close()
			continue
		}
		go p.serve(c)
	}
}

func (p *Proxy) serve(near net.Conn) {
	far, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		near.Close()
		return
	}
	p.mu.Lock()
	p.conns[near], p.conns[far] = struct{}{}, struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(hole{p, far}, io.TeeReader(near, &counter{proxy: p}))
		near.Close()
		far.Close()
	})
	both.Go(func() { p.back(near, far); near.Close(); far.Close() })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, near)
	delete(p.conns, far)
	p.mu.Unlock()
}

// counter follows the frames of a connection and counts the Fetch requests among them.
type counter struct {
	proxy *Proxy
	head  []byte // of the frame that begins: 4 bytes of size, 2 of key
	left  int    // bytes of the frame still to come after the head
}

func (c *counter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if c.left > 0 {
			step := min(c.left, len(b))
			c.left -= step
			b = b[step:]
			continue
		}
		c.head = append(c.head, b[0])
		b = b[1:]
		if len(c.head) == 6 {
			c.left = (int(c.head[0])<<24 | int(c.head[1])<<16 | int(c.head[2])<<8 | int(c.head[3])) - 2
			if c.head[4] == 0 && c.head[5] == 1 {
				c.proxy.Fetches.Add(1)
			}
			c.head = c.head[:0]
		}
	}
	return n, nil
}

func (p *Proxy) back(near, far net.Conn) {
	buffer := make([]byte, 256<<10)
	for {
		n, err := far.Read(buffer)
		if n > 0 && !p.swallow.Load() {
			p.Back.Add(int64(n))
			if d := time.Duration(p.delay.Load()); d > 0 {
				time.Sleep(d)
			}
			if _, err := near.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Cut closes every connection that goes through.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// Swallow lets nothing through any more, as a cable that is cut: connections stay and are silent. Mend ends that for new
// connections and for those that have lost nothing.
func (p *Proxy) Swallow() { p.swallow.Store(true) }
func (p *Proxy) Mend()    { p.swallow.Store(false) }

// hole is a connection's way to the target.
type hole struct {
	proxy *Proxy
	far   net.Conn
}

func (h hole) Write(b []byte) (int, error) {
	if h.proxy.swallow.Load() {
		return len(b), nil
	}
	return h.far.Write(b)
}

// Refuse closes all connections and new ones at once, until Allow.
func (p *Proxy) Refuse() { p.refuse.Store(true); p.Cut() }

// Allow ends Refuse.
func (p *Proxy) Allow() { p.refuse.Store(false) }

// ProxyAll puts a proxy before each broker of a Kafka and returns the value for
// bootstrap.address.map, the bootstrap addresses, and the proxies.
func ProxyAll(t *testing.T, k *Kafka) (mapping, bootstrap string, proxies []*Proxy) {
	t.Helper()
	for _, node := range k.nodes {
		target := "127.0.0.1:" + strconv.Itoa(node.port)
		p := NewProxy(t, target)
		proxies = append(proxies, p)
		if mapping != "" {
			mapping += ","
			bootstrap += ","
		}
		mapping += target + "=" + p.Addr()
		bootstrap += p.Addr()
	}
	return mapping, bootstrap, proxies
}
