package meta

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	etcdTickMs     = 25
	etcdElectionMs = 250
	maxTxnOps      = 128 // an external etcd's default: one limit for both
	startTimeout   = time.Minute
)

// embedded is an etcd of one member in this process. It listens nowhere.
type embedded struct {
	server *embed.Etcd
	client *clientv3.Client
	lock   *os.File
}

func startEmbedded(ctx context.Context, cfg Config) (*embedded, error) {
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	e := &embedded{lock: lock}
	if err := e.start(ctx, cfg); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *embedded) start(ctx context.Context, cfg Config) error {
	smallerLog()
	if err := inspect(cfg.Dir); err != nil {
		return err
	}
	var err error
	if e.server, err = startEtcd(cfg); err != nil {
		return fmt.Errorf("start embedded etcd: %w", err)
	}
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case <-e.server.Server.ReadyNotify():
	case <-e.server.Server.StopNotify():
		return errors.New("start embedded etcd: it stopped by itself; its log says why")
	case err := <-e.server.Err():
		return fmt.Errorf("start embedded etcd: %w", err)
	case <-timer.C:
		return fmt.Errorf("start embedded etcd: not ready after %v", startTimeout)
	case <-ctx.Done():
		return fmt.Errorf("start embedded etcd: %w", ctx.Err())
	}
	e.client = v3client.New(e.server.Server)
	return nil
}

// startEtcd is embed.StartEtcd, whose panics and fatal errors become errors: what inspect did not see is damage all the same.
func startEtcd(cfg Config) (server *embed.Etcd, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			f := filesIn(cfg.Dir)
			server, err = nil, f.damaged(filepath.Dir(f.snap), fmt.Errorf("etcd does not start with its files: %v", p))
		}
	}()
	var running atomic.Bool
	hook := fatal{&running, cfg.Logger, zapcore.WriteThenFatal.OnWrite}
	server, err = embed.StartEtcd(etcdConfig(cfg, zap.WithFatalHook(hook)))
	running.Store(true)
	return server, err
}

// fatal is what follows a fatal error of etcd's: while it starts a panic, which startEtcd catches, and then the end of the process as ever.
type fatal struct {
	running *atomic.Bool
	log     *slog.Logger
	end     func(*zapcore.CheckedEntry, []zapcore.Field)
}

// OnWrite is called when the error's line has been written.
func (f fatal) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	if f.running.Load() {
		f.log.Error("the metadata cannot be read or written any more, and what the disk holds of the last writes is not known: "+
			"the broker ends. Put the disk right and start it again: it goes on with what is whole",
			append([]any{"why", e.Message}, slogArgs(fields)...)...)
		f.end(e, fields)
	}
	panic(fmt.Sprint(append([]any{e.Message}, slogArgs(fields)...)...))
}

// smallerLog has etcd reserve 16 MB for a file of its log instead of 64: it reserves two at once and
// keeps five, which a small volume has no room for.
var smallerLog = sync.OnceFunc(func() { wal.SegmentSizeBytes = 16 << 20 })

func etcdConfig(cfg Config, opts ...zap.Option) *embed.Config {
	c := embed.NewConfig()
	c.Name = "hawser"
	c.Dir = filepath.Join(cfg.Dir, "etcd")
	// No listeners: the advertised URLs stay, since etcd wants them to agree with the initial cluster.
	c.ListenClientUrls = nil
	c.ListenPeerUrls = nil
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.TickMs = etcdTickMs
	c.ElectionMs = etcdElectionMs
	c.QuotaBackendBytes = cfg.QuotaBytes
	c.MaxTxnOps = maxTxnOps
	c.MaxRequestBytes = recordBytes + txnBytes
	c.AutoCompactionMode = embed.CompactorModePeriodic
	c.AutoCompactionRetention = "5m"
	c.UnsafeNoFsync = cfg.UnsafeNoFsync
	c.LogLevel = "warn"
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(&zapToSlog{log: cfg.Logger.With("part", "etcd")}, opts...))
	return c
}

// lockDir keeps a second process out; etcd itself would wait for ever.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("directory %s is in use by another process: %w", dir, err)
	}
	return f, nil
}

// close stops the server. The client has no connection of its own.
func (e *embedded) close() error {
	var err error
	if e.client != nil {
		err = e.client.Close()
		if errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	if e.server != nil {
		e.server.Close()
	}
	return errors.Join(err, e.lock.Close())
}

// needless is warnings of things that do not exist here: nothing listens and
// nobody logs in to an etcd inside the process.
var needless = []string{
	"Running http and grpc server on single port. This is not recommended for production.",
	"simple token is not cryptographically signed",
	"Failed to detect schema version", // of a new one: it has none yet
}

// zapToSlog hands etcd's log lines to ours. etcd's Info is our Debug: what it
// finds worth telling is of little worth to who runs a broker.
type zapToSlog struct{ log *slog.Logger }

func slogLevel(l zapcore.Level) slog.Level {
	switch {
	case l <= zapcore.InfoLevel:
		return slog.LevelDebug
	case l == zapcore.WarnLevel:
		return slog.LevelInfo
	}
	return slog.LevelError
}

func (z *zapToSlog) Enabled(l zapcore.Level) bool {
	return z.log.Enabled(context.Background(), slogLevel(l))
}

func (z *zapToSlog) With(fields []zapcore.Field) zapcore.Core {
	return &zapToSlog{log: z.log.With(slogArgs(fields)...)}
}

func (z *zapToSlog) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if z.Enabled(e.Level) {
		return ce.AddCore(e, z)
	}
	return ce
}

func (z *zapToSlog) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slogLevel(e.Level)
	if e.Message == harmlessError || slices.Contains(needless, e.Message) {
		level = slog.LevelDebug
	}
	z.log.Log(context.Background(), level, e.Message, slogArgs(fields)...)
	return nil
}

// harmlessError is said by every new etcd that is asked for its version before
// its first snapshot; it tries again by itself.
const harmlessError = "failed to update storage version"

func (z *zapToSlog) Sync() error { return nil }

func slogArgs(fields []zapcore.Field) []any {
	enc := zapcore.NewMapObjectEncoder()
	args := make([]any, 0, 2*len(fields))
	for _, f := range fields {
		f.AddTo(enc)
		if v, ok := enc.Fields[f.Key]; ok {
			args = append(args, f.Key, v)
		}
	}
	return args
}
