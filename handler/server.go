package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hawserio/hawser/internal/descriptors"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/quota"
	"golang.org/x/sync/semaphore"
)

// Kafka's defaults of the Settings.
const (
	defaultRequestMaxBytes = 100 << 20
	defaultFetchMaxBytes   = 55 << 20
	defaultQueuedMaxBytes  = 512 << 20
	defaultMaxIdle         = 10 * time.Minute
	defaultMaxConnections  = 1<<31 - 1
	defaultFetchSessions   = 1000
	defaultMetadataPage    = 2000
	defaultLoginMaxBytes   = 512 << 10
)

// Server is the Kafka door: listeners and their connections.
type Server struct {
	Deps
	table    table
	counters *counters
	sessions *sessionCache
	memory   *semaphore.Weighted // what large requests may take together
	creating sync.Mutex          // one automatic creation at a time: clients ask for the same topic all at once
	noise    noise               // what clients do wrong, in lines of the log
	stopping chan struct{}       // closed when it begins to: what waits for nothing certain answers now
	// writeTimeout is the constant of that name; tests have less time.
	writeTimeout time.Duration
	ctx          context.Context // ends when the door closes: waits end
	cancel       context.CancelFunc
	wg           sync.WaitGroup

	mu        sync.Mutex
	listeners []*listener
	conns     map[*conn]struct{}
	perIP     map[string]int // connections by the client's address
	created   quota.Rate     // of new connections
	delayed   int            // connections that are refused after a rest
	draining  bool
}

// listener is a bound Listener.
type listener struct {
	Listener
	net  net.Listener
	host string
	port int32
	// The server's mu guards these.
	connections int
	created     quota.Rate // of new connections, where the listener has a limit of its own
}

// NewServer makes a door without listeners.
func NewServer(d Deps) *Server {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	d.Settings = d.Settings.withDefaults()
	s := &Server{Deps: d, table: newTable(&d), conns: map[*conn]struct{}{}, perIP: map[string]int{}}
	s.counters = newCounters(s.table)
	s.sessions = newSessionCache(d.Settings.FetchSessions, d.Now)
	s.memory = semaphore.NewWeighted(d.Settings.QueuedMaxBytes)
	s.noise.log = d.Logger
	s.stopping, s.writeTimeout = make(chan struct{}), writeTimeout
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (set Settings) withDefaults() Settings {
	orElse(&set.RequestMaxBytes, defaultRequestMaxBytes)
	orElse(&set.FetchMaxBytes, defaultFetchMaxBytes)
	orElse(&set.QueuedMaxBytes, defaultQueuedMaxBytes)
	set.QueuedMaxBytes = max(set.QueuedMaxBytes, int64(set.RequestMaxBytes)) // or the largest could never come
	orElse(&set.MaxIdle, defaultMaxIdle)
	orElse(&set.MaxConnections, defaultMaxConnections)
	orElse(&set.MaxPerIP, defaultMaxConnections)
	orElse(&set.FetchSessions, defaultFetchSessions)
	orElse(&set.MetadataPage, defaultMetadataPage)
	orElse(&set.LoginMaxBytes, defaultLoginMaxBytes)
	orElse(&set.Windows, quota.Windows{Count: 11, Size: time.Second})
	orElse(&set.NumPartitions, 1)
	orElse(&set.ReplicationFactor, 1)
	return set
}

func orElse[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Listen binds a listener; Serve accepts on it. A name is bound at most once.
func (s *Server) Listen(cfg Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if l.Name == cfg.Name {
			return fmt.Errorf("listen %s: there is a listener of this name already", cfg.Name)
		}
	}
	bound, err := descriptors.Listen(cfg.Address)
	if err != nil {
		return fmt.Errorf("listen %s: %w", cfg.Name, err)
	}
	l := &listener{Listener: cfg, net: bound, host: cfg.AdvertisedHost, port: cfg.AdvertisedPort}
	addr := bound.Addr().(*net.TCPAddr)
	if l.host == "" {
		l.host = addr.IP.String()
		if addr.IP.IsUnspecified() {
			l.host = "localhost"
		}
	}
	if l.port == 0 {
		l.port = int32(addr.Port)
	}
	s.listeners = append(s.listeners, l)
	return nil
}

// Addr is the bound address of a listener, "" if there is none of the name.
func (s *Server) Addr(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if l.Name == name {
			return l.net.Addr().String()
		}
	}
	return ""
}

// Door is a bound listener.
type Door struct {
	Name       string
	Protocol   string // Kafka's security.protocol
	Bound      string // host:port that is listened on
	Advertised string // host:port as clients are told
}

// Doors lists the bound listeners, in the order in which they were bound.
func (s *Server) Doors() []Door {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Door
	for _, l := range s.listeners {
		protocol := "PLAINTEXT"
		switch {
		case l.TLS != nil && l.SASL != nil:
			protocol = "SASL_SSL"
		case l.TLS != nil:
			protocol = "SSL"
		case l.SASL != nil:
			protocol = "SASL_PLAINTEXT"
		}
		list = append(list, Door{l.Name, protocol, l.net.Addr().String(), net.JoinHostPort(l.host, strconv.Itoa(int(l.port)))})
	}
	return list
}

// Advertised is host:port as clients of a listener are told, "" if there is none of the name.
func (s *Server) Advertised(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if l.Name == name {
			return net.JoinHostPort(l.host, strconv.Itoa(int(l.port)))
		}
	}
	return ""
}

// Serve accepts connections on all listeners until Close or Shutdown, then
// returns nil; or until a listener fails.
func (s *Server) Serve() error {
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- s.accept(l) }()
	}
	var first error
	for range listeners {
		if err := <-failed; err != nil && first == nil {
			first = err
			s.Close()
		}
	}
	return first
}

func (s *Server) accept(l *listener) error {
	pause := 5 * time.Millisecond
	for {
		nc, err := l.net.Accept()
		switch {
		case err == nil:
			pause = 5 * time.Millisecond
			s.pace(l)
			s.start(l, nc)
		case errors.Is(err, net.ErrClosed):
			return nil
		case isTemporary(err):
			// Out of file descriptors, or the client was gone before we looked. Connections
			// that end make room; a door that gives up would stay shut.
			s.Logger.Warn("cannot accept a connection, trying again", "listener", l.Name, "err", err)
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
				return nil
			}
			pause = min(2*pause, time.Second)
		default:
			return fmt.Errorf("accept on listener %s: %w", l.Name, err)
		}
	}
}

// isTemporary asks what net still answers by an otherwise deprecated method.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// Connections is how many connections are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Shutdown stops accepting, lets requests that were read get their answer, and
// closes; when ctx ends first it closes at once.
func (s *Server) Shutdown(ctx context.Context) {
	s.stop((*conn).drain)
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.Close()
}

// Close closes listeners and connections at once and waits for their goroutines.
func (s *Server) Close() {
	s.cancel()
	s.stop((*conn).close)
	s.wg.Wait()
	s.noise.close()
}

// stop closes the listeners, ends what waits for nothing certain, and has every connection ended in the way given.
func (s *Server) stop(end func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		close(s.stopping)
	}
	s.draining = true
	for _, l := range s.listeners {
		_ = l.net.Close() // Serve sees it
	}
	for c := range s.conns {
		end(c)
	}
}

// self is this broker as clients of a listener see it.
func (s *Server) self(l *listener) (id int32, host string, port int32, rack *string) {
	if s.Rack != "" {
		rack = &s.Rack
	}
	return s.NodeID, l.host, l.port, rack
}

// has reports whether the topic has the partition.
func has(t *meta.Topic, partition int32) bool {
	return t != nil && partition >= 0 && partition < t.Partitions
}
