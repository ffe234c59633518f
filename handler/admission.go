package handler

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/hawserio/hawser/quota"
)

const (
	// paceMost is the longest that accepting waits at a time for max.connection.creation.rate.
	paceMost = time.Second
	// delayedMax bounds the connections that are kept only to be closed after a rest.
	delayedMax = 1024
)

// SetLimits changes, while connections are served, how many may be there: of set only MaxConnections, MaxPerIP,
// PerIP, CreationRate and Listeners count. Connections that are there stay.
func (s *Server) SetLimits(set Settings) {
	set = set.withDefaults()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Settings.MaxConnections, s.Settings.MaxPerIP = set.MaxConnections, set.MaxPerIP
	s.Settings.PerIP, s.Settings.CreationRate, s.Settings.Listeners = set.PerIP, set.CreationRate, set.Listeners
}

// pace waits as long as the broker's and the listener's rate of new connections ask for; further ones wait in the system's backlog.
func (s *Server) pace(l *listener) {
	s.mu.Lock()
	rest := max(s.paceOf(&s.created, s.Settings.CreationRate), s.paceOf(&l.created, s.limitsOf(l).CreationRate))
	s.mu.Unlock()
	if rest == 0 {
		return
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stopping:
	case <-s.ctx.Done():
	}
}

// limitsOf is what the listener has of its own. It needs mu.
func (s *Server) limitsOf(l *listener) ListenerLimits {
	return s.Settings.Listeners[strings.ToLower(l.Name)]
}

// paceOf counts a new connection and says how long to wait for the rate; a limit of zero is none. It needs mu.
func (s *Server) paceOf(created *quota.Rate, limit int) time.Duration {
	if limit <= 0 {
		return 0
	}
	now := s.Now()
	created.Record(s.Settings.Windows, 1, now)
	rate, over := created.Measure(s.Settings.Windows, now)
	return min(quota.Throttle(rate, float64(limit), over), paceMost)
}

// start serves an accepted connection, or refuses it.
func (s *Server) start(l *listener, nc net.Conn) {
	if l.TLS != nil {
		nc = tls.Server(nc, l.TLS)
	}
	c := newConn(s, l, nc)
	if s.Quotas != nil {
		if rest := s.Quotas.Connected(c.ip()); rest > 0 {
			s.noise.line(slog.LevelInfo, "connection throttled", "listener", l.Name, "client", c.host, "rest", rest)
			s.refuseLater(nc, rest)
			return
		}
	}
	if err := s.admit(c); err != nil {
		if !errors.Is(err, errDrained) {
			s.noise.line(slog.LevelWarn, "connection refused", "listener", l.Name, "client", c.host, "err", err)
		}
		_ = nc.Close() // nothing was said on it
		return
	}
	go func() {
		defer s.wg.Done()
		c.serve(s.ctx)
		s.dismiss(c)
	}()
}

// refuseLater closes a connection after a rest: a client that is refused at once would be back at once (KIP-612).
func (s *Server) refuseLater(nc net.Conn, rest time.Duration) {
	s.mu.Lock()
	wait := !s.draining && s.delayed < delayedMax
	if wait {
		s.delayed++
		s.wg.Add(1)
	}
	s.mu.Unlock()
	if !wait {
		_ = nc.Close() // nothing was said on it
		return
	}
	go func() {
		defer s.wg.Done()
		timer := time.NewTimer(rest)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.stopping:
		}
		_ = nc.Close() // nothing was said on it
		s.mu.Lock()
		s.delayed--
		s.mu.Unlock()
	}()
}

// admit counts a connection in if there is room for it.
func (s *Server) admit(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	most, special := s.Settings.PerIP[c.ip()]
	if !special {
		most = s.Settings.MaxPerIP
	}
	own := s.limitsOf(c.listener).MaxConnections
	switch {
	case s.draining:
		return errDrained
	case len(s.conns) >= s.Settings.MaxConnections:
		return fmt.Errorf("%d connections are open (max.connections)", len(s.conns))
	case own != 0 && c.listener.connections >= max(own, 0):
		return fmt.Errorf("%d connections of this listener are open (max.connections of the listener)", c.listener.connections)
	case s.perIP[c.ip()] >= most:
		return fmt.Errorf("%d connections of this address are open (max.connections.per.ip)", s.perIP[c.ip()])
	}
	s.conns[c] = struct{}{}
	s.perIP[c.ip()]++
	c.listener.connections++
	s.wg.Add(1)
	return nil
}

func (s *Server) dismiss(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	c.listener.connections--
	if s.perIP[c.ip()]--; s.perIP[c.ip()] == 0 {
		delete(s.perIP, c.ip())
	}
}
