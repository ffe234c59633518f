// Package descriptors keeps file descriptors free for the logs and the metadata. A log that cannot open a file in the
// middle of a sync is out of service until the broker is started again, and etcd ends the process; so clients'
// connections and files that stay open are refused some descriptors earlier. handler and broker use it for their
// listeners, store/disk for files.
package descriptors

import (
	"errors"
	"net"
	"sync"
	"syscall"
)

const (
	// keptMost and keptLeast bound how many descriptors connections leave free, an eighth of the limit otherwise. A sync opens
	// two for a moment, and the workers that sync are 32.
	keptMost  = 512
	keptLeast = 24
)

// ErrFew says that descriptors run low; matched with errors.Is.
var ErrFew = errors.New("too many files and connections are open: raise the limit of open files (ulimit -n, LimitNOFILE) and " +
	"restart, or close connections")

// Limit is how many descriptors this process may have, 0 where the system does not say.
var Limit = sync.OnceValue(limit)

// kept is how many of them connections leave free; files that stay open leave as many more.
func kept(limit int) int { return min(max(limit/8, keptLeast), keptMost) }

// OneMore says whether a file that stays open may be opened now: ErrFew where not.
func OneMore() error {
	most := Limit()
	if most == 0 {
		return nil
	}
	if next, err := lowest(); err != nil || next >= most-2*kept(most) {
		return ErrFew
	}
	return nil
}

// Listen opens a TCP port whose connections leave descriptors free: Accept answers one that does not, closed, with a
// temporary error, as it does where the system has no more.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return &listener{Listener: l, limit: Limit()}, nil
}

type listener struct {
	net.Listener
	limit int
}

// few is a temporary error to servers that ask net.Error.
type few struct{ error }

func (few) Temporary() bool { return true }
func (few) Timeout() bool   { return false }
func (e few) Unwrap() error { return e.error }

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.limit == 0 {
		return c, err
	}
	if number(c) < l.limit-kept(l.limit) {
		return c, nil
	}
	if err := c.Close(); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		return nil, few{errors.Join(ErrFew, err)}
	}
	return nil, few{ErrFew}
}

// number is a connection's descriptor, -1 where it has none. The system hands out the lowest that is free, so it tells how many are taken.
func number(c net.Conn) int {
	n := -1
	sc, ok := c.(syscall.Conn)
	if !ok {
		return n
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return n
	}
	_ = raw.Control(func(fd uintptr) { n = int(fd) })
	return n
}
