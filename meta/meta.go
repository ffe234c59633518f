package meta

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/hawserio/hawser/event"
)

// ErrConflict says that a record changed under an Update more often than it may.
var ErrConflict = errors.New("metadata changed meanwhile")

// ErrReadOnly says that the metadata store takes no ordinary writes: its space
// is nearly used up (protocol rule D8). Partition and mirror states may still be written.
var ErrReadOnly = errors.New("metadata store is read-only: out of space")

// ErrClosed says that the store was closed, or has stopped after an error that Err tells.
var ErrClosed = errors.New("metadata store is closed")

// Config says where the metadata lives.
type Config struct {
	Dir    string // embedded etcd's directory, and that of the key file that seals secrets
	NodeID int32
	// ClusterID is wanted when the store is new; empty draws one. For a store that
	// exists it must be empty or equal.
	ClusterID   string
	NewIdentity bool // draw incarnation and producer prefix anew
	// MayBegin says why an empty store must not become a new cluster; asked before anything is written to it. nil: it may.
	MayBegin func() error
	// ForgetSecrets opens a store whose key file is lost: the links lose their
	// passwords, which must be set again.
	ForgetSecrets bool
	Logger        *slog.Logger
	// Events is told when ordinary writes begin and cease to be refused; the Logger where nil.
	Events event.Sink
	// Endpoints of an external etcd; empty means embedded.
	Endpoints []string
	// TLS of the external etcd; nil for plaintext. User and Password log in to it; none where empty.
	TLS            *tls.Config
	User, Password string
	// CompactEvery is how much history an external etcd keeps at the least: what is older goes. Zero leaves
	// its history alone, for an etcd that others compact.
	CompactEvery time.Duration
	// QuotaBytes is the space the embedded etcd may use, and what is believed of an
	// external one that does not tell; 0 means 8 GiB. At 70 % ordinary writes are refused.
	QuotaBytes int64
	// UnsafeNoFsync is for tests alone: a power loss loses what was acknowledged.
	UnsafeNoFsync bool
}

// Meta is an open metadata store.
type Meta struct {
	cfg      Config
	log      *slog.Logger
	client   *clientv3.Client
	embedded *embedded // nil with an external etcd
	sealer   *sealer
	schema   schema

	image   atomic.Pointer[Image]
	space   atomic.Pointer[Space]
	lane    chan struct{} // a token; see type lane
	alarmed atomic.Bool   // the embedded etcd refused for lack of space, and its alarm was not lifted since
	written atomic.Int64  // bytes since an external etcd's space was last asked for
	crowded atomic.Bool
	refused chan struct{} // holds one token when a write was refused for lack of space
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
	closing sync.Once
	closed  error // what Close came to

	mu       sync.Mutex // guards the fields below, and the order of images
	waiters  map[*waiter]struct{}
	watchers map[chan struct{}]struct{}
	failed   error         // why nothing goes on; nil while all is well
	stopped  chan struct{} // closed with the first error, and by Close
}

// Open starts the embedded etcd, or connects to an external one, and reads
// everything. ctx bounds the opening only.
func Open(ctx context.Context, cfg Config) (*Meta, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Events == nil {
		cfg.Events = event.Log(cfg.Logger)
	}
	if cfg.QuotaBytes == 0 {
		cfg.QuotaBytes = defaultQuota
	}
	if cfg.Dir == "" {
		return nil, errors.New("open metadata: no directory given")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open metadata: %w", err)
	}
	m := &Meta{
		cfg:      cfg,
		log:      cfg.Logger,
		refused:  make(chan struct{}, 1),
		lane:     make(chan struct{}, 1),
		waiters:  make(map[*waiter]struct{}),
		watchers: make(map[chan struct{}]struct{}),
		stopped:  make(chan struct{}),
	}
	if err := m.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open metadata in %s: %w", cfg.Dir, err), m.Close())
	}
	return m, nil
}

func (m *Meta) open(ctx context.Context) error {
	var err error
	if len(m.cfg.Endpoints) > 0 {
		m.client, err = connect(ctx, m.cfg)
	} else {
		m.embedded, err = startEmbedded(ctx, m.cfg)
		if err == nil {
			m.client = m.embedded.client
		}
	}
	if err != nil {
		return err
	}
	if err := m.identify(ctx); err != nil {
		return err
	}
	m.schema = newSchema(m.sealer)
	img, err := m.load(ctx)
	if err != nil {
		return m.damagedBy(err)
	}
	m.image.Store(img)
	m.measureSpace(ctx)

	running, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.tasks.Go(func() { m.follow(running) })
	m.tasks.Go(func() { m.watchSpace(running) })
	switch {
	case m.embedded != nil:
		m.tasks.Go(func() { m.watchServer(running) })
	case m.cfg.CompactEvery > 0:
		m.tasks.Go(func() { m.compactExternal(running) })
	}
	return m.forgetSecrets(ctx)
}

// damagedBy says of a record that cannot be read that the embedded etcd's database is damaged.
func (m *Meta) damagedBy(err error) error {
	var syntax *json.SyntaxError
	if m.embedded == nil || !errors.Is(err, errNoRecord) && !errors.As(err, &syntax) {
		return err
	}
	f := filesIn(m.cfg.Dir)
	return f.damaged(f.db, err)
}

// forgetSecrets writes the links without the secrets that could not be opened,
// and removes the users, so that the next start needs no permission to forget.
func (m *Meta) forgetSecrets(ctx context.Context) error {
	m.sealer.forget = false
	var changes []Change
	for id := range m.sealer.forgot {
		changes = append(changes, PutLink(m.Image().Links[id]))
	}
	for k := range m.sealer.forgotUsers {
		changes = append(changes, DeleteScram(k))
	}
	for part := range slices.Chunk(changes, maxChanges) {
		if err := m.Update(ctx, func(*Image) ([]Change, error) { return part, nil }); err != nil {
			return fmt.Errorf("forget secrets: %w", err)
		}
	}
	return nil
}

// Image is the newest known image. It never goes back.
func (m *Meta) Image() *Image { return m.image.Load() }

// Failed is closed when the store has stopped: Err then says why.
func (m *Meta) Failed() <-chan struct{} { return m.stopped }

// Err is why the store has stopped; nil while it works.
func (m *Meta) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// Close stops the embedded etcd. Calls that wait return ErrClosed. A second
// Close does nothing.
func (m *Meta) Close() error {
	m.closing.Do(func() { m.closed = m.close() })
	return m.closed
}

func (m *Meta) close() error {
	m.fail(ErrClosed)
	if m.cancel != nil {
		m.cancel()
	}
	m.tasks.Wait()
	if m.embedded != nil {
		return m.embedded.close()
	}
	if m.client != nil {
		if err := m.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("close metadata client: %w", err)
		}
	}
	return nil
}

// fail stops everything that waits. Only the first error counts.
func (m *Meta) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return
	}
	m.failed = err
	close(m.stopped)
}

// watchServer notices when the embedded etcd has stopped by itself, as it does when its disk fails.
func (m *Meta) watchServer(ctx context.Context) {
	select {
	case <-ctx.Done():
	case err := <-m.embedded.server.Err():
		m.fail(fmt.Errorf("embedded etcd stopped: %w", err))
	case <-m.embedded.server.Server.StopNotify():
		m.fail(errors.New("embedded etcd stopped by itself; its log says why"))
	}
}
