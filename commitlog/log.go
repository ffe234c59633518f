// Package commitlog keeps the batches of one partition in offset order:
// segments, sparse indexes, the leader-epoch cache, truncation, recovery.
// partition calls it, under its lock for writes. It knows no roles, no
// producers' rules and no network; it stores the bytes it is given.
//
// A segment is record batches v2 end to end, Kafka's own .log file. Indexes,
// epoch cache and snapshots can be deleted and are rebuilt.
package commitlog

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/store"
)

// ErrOutOfRange says that an offset is below the log's start or above its end.
var ErrOutOfRange = errors.New("offset is not in the log")

// ErrCorrupt says that bytes which had been synced are not what was written.
var ErrCorrupt = errors.New("log is corrupt")

var errClosed = errors.New("log is closed")

// Config bounds segments and indexes.
type Config struct {
	SegmentBytes  int64         // a segment is rolled before it would pass this many bytes
	SegmentAge    time.Duration // and when its first record is older than this
	IndexInterval int64         // bytes of log between two index entries
}

// withDefaults fills in what was left out, with Kafka's defaults, and bounds the rest.
func (c Config) withDefaults() Config {
	if c.SegmentBytes <= 0 || c.SegmentBytes > maxPosition {
		c.SegmentBytes = 1 << 30
	}
	if c.SegmentAge <= 0 {
		c.SegmentAge = 7 * 24 * time.Hour
	}
	if c.IndexInterval <= 0 {
		c.IndexInterval = 4 << 10
	}
	return c
}

// Log is one partition's log. Append, Truncate, Reset and the other writers must
// be called by one at a time; readers may run beside them.
type Log struct {
	dir store.Dir // changed by TakeOver, under syncMu, mu and the writer's lock together
	cfg atomic.Pointer[Config]

	// syncMu is held by what makes things durable or changes which files there are: Sync,
	// SetStart, Truncate, Reset, Close. It is taken before mu.
	syncMu     sync.Mutex
	generation uint64 // of the checkpoint; guarded by syncMu
	markBuf    []byte // guarded by syncMu
	owed       *mark  // what the mark is to say, and does not yet; guarded by syncMu
	marked     mark   // what it says, zero if it was not written since the log was opened; guarded by syncMu
	markSent   tail   // the mark that was last set on its way to the disk; guarded by syncMu

	// mu guards what readers see. It is held only to look and to publish, never across input or output.
	mu      sync.RWMutex
	segs    []*segment // oldest first; a removal makes a new slice, so that readers may keep theirs
	start   kafka.Offset
	end     kafka.Offset
	synced  kafka.Offset
	epochs  []kafka.EpochStart
	cleaned cleaned
	// unsynced is bytes appended since the last Sync.
	unsynced int64
	newNames bool  // a segment file was made since the last SyncDir
	stale    bool  // the checkpoint lacks a segment
	newEpoch bool  // the checkpoint lacks an epoch, which a recovery would find where it reads
	changed  bool  // anything was written since Open: Close has work to do
	failed   error // an earlier write or sync failed; the log is for reading only
	closed   bool

	opened openList

	// cached is how many of the newest bytes stay in the system's memory once they are synced; 0 for all.
	cached atomic.Int64

	// The writer's own.
	scratch   index
	newEpochs []kafka.EpochStart
	writeback int64 // position in the active segment up to which write-back was asked for
}

// Recovery is what Open had to do.
type Recovery struct {
	Clean        bool         // the log was closed in order: nothing was scanned
	ScannedBytes int64        // bytes of log read to check them
	TornBytes    int64        // bytes cut off the end: a write that a crash interrupted
	RebuiltFiles []string     // indexes and caches made anew
	StartLost    bool         // the checkpoint was lost or damaged: the log starts where its oldest segment does
	FormerEnd    kafka.Offset // end that the file sizes suggested before the cut, -1 if unknown
}

// StartOffset is the first offset a reader may ask for, inclusive.
func (l *Log) StartOffset() kafka.Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.start
}

// EndOffset is the offset the next batch gets at least; exclusive end of the log.
func (l *Log) EndOffset() kafka.Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.end
}

// SyncedEnd is the end of what a crash cannot take, exclusive.
func (l *Log) SyncedEnd() kafka.Offset {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.synced
}

// UnsyncedBytes is how many bytes Append has written since the last Sync.
func (l *Log) UnsyncedBytes() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.unsynced
}

// Size is the bytes in all segments.
func (l *Log) Size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var size int64
	for _, g := range l.segs {
		size += g.size
	}
	return size
}

// Segments describes the segments, oldest first, for retention and tools. An empty log may have none.
func (l *Log) Segments() []SegmentInfo {
	l.mu.RLock()
	defer l.mu.RUnlock()
	infos := make([]SegmentInfo, len(l.segs))
	for i, g := range l.segs {
		infos[i] = SegmentInfo{Base: g.base, Next: g.next, Bytes: g.size, MaxTimestamp: g.maxTime, Created: g.created,
			Active: i == len(l.segs)-1}
	}
	return infos
}

// SegmentInfo describes a segment.
type SegmentInfo struct {
	Base         kafka.Offset // first offset it may hold
	Next         kafka.Offset // exclusive end
	Bytes        int64
	MaxTimestamp int64 // Unix ms, -1 if it holds no record
	Created      int64 // Unix ms of the first append; after a recovery the first batch's time, 0 if it had none
	Active       bool
}

// Configure replaces the bounds, for batches appended from now on.
func (l *Log) Configure(cfg Config) {
	cfg = cfg.withDefaults()
	l.cfg.Store(&cfg)
}

// KeepCached says how many bytes at the log's end stay in the system's memory once they are synced, 0 for
// all: it counts for what is synced from now on. Whoever writes much that is not read soon keeps little: the memory is
// then there for what is, and need not be found anew for each byte.
func (l *Log) KeepCached(bytes int64) { l.cached.Store(bytes) }

// Dir is the directory, for small files that partition keeps beside the log
// (producer snapshots): names must not end in .log, .index or .timeindex, nor begin with "log-".
func (l *Log) Dir() store.Dir {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.dir
}

// active is the segment that takes batches, nil if the next append makes one. It needs mu.
func (l *Log) active() *segment {
	if len(l.segs) == 0 || l.segs[len(l.segs)-1].sealed.Load() {
		return nil
	}
	return l.segs[len(l.segs)-1]
}

// usable says why nothing can be written, nil if it can. Called with mu held.
func (l *Log) usable() error {
	if l.closed {
		return errClosed
	}
	if l.failed != nil {
		return fmt.Errorf("log is for reading only until it is opened again: %w", l.failed)
	}
	return nil
}

// fail makes the log read-only: what is on disk is no longer known.
func (l *Log) fail(err error) error {
	if !errors.Is(err, store.ErrFailed) {
		err = fmt.Errorf("%w: %w", store.ErrFailed, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
	return err
}
