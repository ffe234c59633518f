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
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/store"
)

// ErrOutOfRange says that an offset is below the log's start or above its end.
var ErrOutOfRange = errors.New("offset is not in the log")

// ErrCorrupt says that bytes which had been synced are not what was written.
var ErrCorrupt = errors.New("log is corrupt")

// Config bounds segments and indexes.
type Config struct {
	SegmentBytes  int64         // a segment is rolled before it would pass this many bytes
	SegmentAge    time.Duration // and when its first record is older than this
	IndexInterval int64         // bytes of log between two index entries
}

// Log is one partition's log. Append, Truncate, Reset and the other writers must
// be called by one at a time; readers may run beside them.
type Log struct{ impl }

// Recovery is what Open had to do.
type Recovery struct {
	Clean        bool         // the log was closed in order: nothing was scanned
	ScannedBytes int64        // bytes of log read to check them
	TornBytes    int64        // bytes cut off the end: a write that a crash interrupted
	RebuiltFiles []string     // indexes and caches made anew
	FormerEnd    kafka.Offset // end that the file sizes suggested before the cut, -1 if unknown
}

// Open opens or makes the log in dir. It tells a torn tail, which it cuts, from
// corruption of synced bytes, for which it returns an error that wraps ErrCorrupt
// and names file and position, by the synced-up-to mark (protocol rule D6): above
// the mark, a bad region that is followed by a valid batch, or that lies below a
// later segment, is corruption as well.
func Open(dir store.Dir, cfg Config) (*Log, Recovery, error) { panic("commitlog: to be built") }

// StartOffset is the first offset a reader may ask for, inclusive.
func (l *Log) StartOffset() kafka.Offset { panic("commitlog: to be built") }

// EndOffset is the offset the next batch gets at least; exclusive end of the log.
func (l *Log) EndOffset() kafka.Offset { panic("commitlog: to be built") }

// SyncedEnd is the end of what a crash cannot take, exclusive.
func (l *Log) SyncedEnd() kafka.Offset { panic("commitlog: to be built") }

// UnsyncedBytes is how many bytes Append has written since the last Sync.
func (l *Log) UnsyncedBytes() int64 { panic("commitlog: to be built") }

// LastEpoch is the leader epoch of the last batch ever appended that is still in the
// epoch cache, NoEpoch for a log that never held one.
func (l *Log) LastEpoch() kafka.LeaderEpoch { panic("commitlog: to be built") }

// Size is the bytes in all segments.
func (l *Log) Size() int64 { panic("commitlog: to be built") }

// Append writes batches as they are. The first base offset must be at least
// EndOffset, unless the log is empty, when it may be below it so long as the
// batch ends above (a mirror's first batch may begin below its log start);
// offsets must rise, gaps are legal; epochs must not fall. bs is the caller's
// again on return. now decides SegmentAge only.
func (l *Log) Append(bs batch.Batches, now time.Time) error { panic("commitlog: to be built") }

// Sync makes durable all that was appended before the call and returns the new
// SyncedEnd. It may run beside Append and reads.
func (l *Log) Sync() (kafka.Offset, error) { panic("commitlog: to be built") }

// Read finds the batches from the one that holds offset from (or, if from lies in
// a gap, the next one) to the last that begins below upTo (exclusive), at most maxBytes of them but
// always at least one whole batch when atLeastOne is set. from may be EndOffset: an empty Slice. Else
// ErrOutOfRange. The Slice must be closed.
func (l *Log) Read(from, upTo kafka.Offset, maxBytes int, atLeastOne bool) (Slice, error) {
	panic("commitlog: to be built")
}

// Slice is a run of whole batches in one segment file. It holds the file open
// until Close, whatever truncation or retention does.
type Slice struct {
	File     store.File // nil for an empty slice
	Position int64
	Length   int64
	release  func()
}

// Bytes reads the run into memory.
func (s Slice) Bytes() (batch.Batches, error) { panic("commitlog: to be built") }

// Close lets go of the file.
func (s Slice) Close() {
	if s.release != nil {
		s.release()
	}
}

// Scan walks batches from the one that holds from, in order, to the end.
// The batch passed is valid until yield returns. headersOnly leaves out the payload (the
// Batch is then only HeaderSize long and its Payload empty).
func (l *Log) Scan(from kafka.Offset, headersOnly bool, yield func(batch.Batch) error) error {
	panic("commitlog: to be built")
}

// EpochEnd answers OffsetForLeaderEpoch from the epochs of batches in the log
// (protocol rule E3): the largest epoch in the log that is <= epoch, and where it
// ends (exclusive): the start of the next one, or EndOffset. (NoEpoch, NoOffset) if epoch is below the first.
func (l *Log) EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	panic("commitlog: to be built")
}

// Epochs is the epoch cache: each epoch with the offset of its first batch, rising.
func (l *Log) Epochs() []kafka.EpochStart { panic("commitlog: to be built") }

// EpochAt is the epoch of the batch that holds the offset, or of the one before it.
func (l *Log) EpochAt(offset kafka.Offset) kafka.LeaderEpoch { panic("commitlog: to be built") }

// TimedOffset is a record found by its time.
type TimedOffset struct {
	Offset    kafka.Offset // NoOffset if there is none
	Timestamp int64        // Unix ms
	Epoch     kafka.LeaderEpoch
}

// OffsetForTime finds the first record below upTo (exclusive) whose timestamp is at least ms.
func (l *Log) OffsetForTime(ms int64, upTo kafka.Offset) (TimedOffset, error) {
	panic("commitlog: to be built")
}

// MaxTimestamp finds the record below upTo (exclusive) with the largest timestamp, the first of equals (KIP-734).
func (l *Log) MaxTimestamp(upTo kafka.Offset) (TimedOffset, error) {
	panic("commitlog: to be built")
}

// SetStart moves the start forward, durably, at most to EndOffset, and deletes the
// segments that lie wholly below it. A lower offset is no error and changes nothing.
func (l *Log) SetStart(offset kafka.Offset) error { panic("commitlog: to be built") }

// Truncate cuts every batch that ends above offset, durably; afterwards EndOffset is at
// most offset. Readers that hold a Slice keep their bytes (protocol rule T9).
func (l *Log) Truncate(offset kafka.Offset) error { panic("commitlog: to be built") }

// Reset empties the log, durably, and makes offset its start and end. Epochs are forgotten.
func (l *Log) Reset(offset kafka.Offset) error { panic("commitlog: to be built") }

// Segments describes the segments, oldest first, for retention and tools.
func (l *Log) Segments() []SegmentInfo { panic("commitlog: to be built") }

// SegmentInfo describes a segment.
type SegmentInfo struct {
	Base         kafka.Offset // first offset it may hold
	Next         kafka.Offset // exclusive end
	Bytes        int64
	MaxTimestamp int64 // Unix ms, -1 if it holds no record
	Active       bool
}

// Dir is the directory, for small files that partition keeps beside the log
// (producer snapshots): names must not end in .log, .index or .timeindex.
func (l *Log) Dir() store.Dir { panic("commitlog: to be built") }

// Close syncs, writes what makes the next Open quick, and closes the files.
func (l *Log) Close() error { panic("commitlog: to be built") }

type impl struct{}
