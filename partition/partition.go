// Package partition is one partition on this broker: its role, epochs, high
// watermark, last stable offset, producers' sequences, waiting fetches. The
// handlers append and read here, the link's fetchers append mirrored bytes
// here. It refuses to know links, requests and connections.
//
// Invariant, asserted after every change:
// LogStartOffset <= LastStableOffset <= HighWatermark <= LogEndOffset.
// The high watermark is the synced end; nothing above it is shown.
package partition

import (
	"context"
	"log/slog"
	"time"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/meta"
	"github.com/hawserio/hawser/store"
)

// Stream is where the owner's entries are stored, in order and guarded: meta.Meta
// is one. Entries are written here first and acted on afterwards.
type Stream interface {
	UpdatePartitions(ctx context.Context, topics []kafka.TopicID, decide func(*meta.Partitions) (*meta.Partitions, error)) error
}

// Config is the owner's own settings.
type Config struct {
	ClusterID      string
	ProducerPrefix uint32        // a producer id with another high half is foreign (DESIGN section 6)
	SyncDelay      time.Duration // how long a mirror's bytes may wait for the shared sync: 10 ms
	SyncBytes      int64         // unsynced bytes of all partitions that start one at once: 32 MiB
	UnsyncedMax    int64         // and at which appends wait: 64 MiB
	Unsafe         bool          // no sync: the high watermark is the written end (comparison runs only)
	Logger         *slog.Logger
	Now            func() time.Time // time.Now where nil
}

// TopicConfig is what the partition must know of its topic's configs.
type TopicConfig struct {
	Log                  commitlog.Config
	MaxMessageBytes      int  // of one batch, compressed
	LogAppendTime        bool // message.timestamp.type
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64
	Compression          string // compression.type: producer, uncompressed, gzip, snappy, lz4, zstd
	Compacted            bool   // cleanup.policy has compact: records need keys
}

// Owner is all partitions of this broker and the one group commit they share.
type Owner struct{ ownerImpl }

// NewOwner makes an owner without partitions.
func NewOwner(cfg Config, st store.Store, stream Stream) *Owner { panic("partition: to be built") }

// Open opens the topic's partitions, making those that are new, recovers their
// logs and finishes what their entries say was begun (the markers of a stop, rule D1). A
// partition that cannot be opened (corrupt, or its log ends below a stored stop point)
// is there all the same and answers every call with why; the others work.
// Calling it again opens partitions that were added.
func (o *Owner) Open(topic *meta.Topic, states *meta.Partitions, cfg TopicConfig) error {
	panic("partition: to be built")
}

// Configure replaces the topic's configs on its open partitions.
func (o *Owner) Configure(topic kafka.TopicID, cfg TopicConfig) { panic("partition: to be built") }

// Get finds an open partition, nil if it is not here.
func (o *Owner) Get(id kafka.PartitionID) *Partition { panic("partition: to be built") }

// Delete closes the topic's partitions, wakes who waits on them and removes their directories. Repeatable.
func (o *Owner) Delete(topic kafka.TopicID, partitions int32) error { panic("partition: to be built") }

// StopMirrors stops mirroring on all partitions of the topics and opens them for
// producers (rule D1): refuse appends, sync, store stop point, raised epoch
// (rule E1) and role in as few transactions as may be, abort open transactions after the stop point, sync, open.
// It is repeatable: what is stored already is kept. link is the id written into the stop points.
func (o *Owner) StopMirrors(ctx context.Context, topics []kafka.TopicID, link string) error {
	panic("partition: to be built")
}

// UnsyncedBytes is what a crash would take now, in bytes, over all partitions.
func (o *Owner) UnsyncedBytes() int64 { panic("partition: to be built") }

// Close syncs and closes everything.
func (o *Owner) Close() error { panic("partition: to be built") }

// Partition is one open partition. All methods may be called at once by many.
type Partition struct{ impl }

// Offsets is a partition's marks at one moment.
type Offsets struct {
	LogStart      kafka.Offset      // first offset that may be read
	LastStable    kafka.Offset      // exclusive end for read_committed
	HighWatermark kafka.Offset      // exclusive end for everyone: the synced end
	LogEnd        kafka.Offset      // offset of the next record
	Epoch         kafka.LeaderEpoch // published leader epoch
	Role          meta.Role
	Generation    int64
	Size          int64 // bytes
}

// ID names the partition; Name is the topic's name when it was opened.
func (p *Partition) ID() kafka.PartitionID      { panic("partition: to be built") }
func (p *Partition) Name() kafka.TopicPartition { panic("partition: to be built") }

// Offsets reads the marks.
func (p *Partition) Offsets() Offsets { panic("partition: to be built") }

// Err says why the partition is out of service, nil if it works.
func (p *Partition) Err() error { panic("partition: to be built") }

// Appended says where batches went.
type Appended struct {
	Base          kafka.Offset // offset of the first record; for a duplicate, where it was stored before
	Next          kafka.Offset // exclusive end: wait for it with WaitSynced
	LogAppendTime int64        // Unix ms, -1 with create time
	LogStart      kafka.Offset
	Duplicate     bool
}

// Append validates one producer's batch fully, gives it the next offsets and the
// published epoch, and writes it. bs is written into and is the caller's again on return.
// Errors are kafka.Error: on a mirror INVALID_REQUEST "Cannot append records to
// read-only mirror topic '<t>'". currentEpoch is what the client believes, NoEpoch for no belief.
// Transactional batches need confirm (rule P2): the coordinator's word that this partition is in the producer's ongoing
// transaction; a nil confirm refuses them.
func (p *Partition) Append(ctx context.Context, bs batch.Batches, confirm func(kafka.ProducerID, int16) error) (Appended, error) {
	panic("partition: to be built")
}

// AppendMarker ends the producer's transaction here (WriteTxnMarkers, a coordinator's own). On a
// partition that is not open it succeeds without writing, as for a producer that has none open (rule R5).
func (p *Partition) AppendMarker(ctx context.Context, id kafka.ProducerID, epoch int16, marker batch.Marker, coordinatorEpoch int32) (Appended, error) {
	panic("partition: to be built")
}

// WaitSynced returns once everything below next (exclusive) is synced and so shown.
func (p *Partition) WaitSynced(ctx context.Context, next kafka.Offset) error {
	panic("partition: to be built")
}

// Mirrored is bytes of a source, with what a fetcher knows about them.
type Mirrored struct {
	Generation int64         // as Offsets said when the fetch was asked
	FetchedAt  kafka.Offset  // the offset the fetch was asked at; must be LogEnd now (rule D3)
	Batches    batch.Batches // whole batches; the caller's again on return
}

// ErrStale says that a mirrored append names a generation or position that is no longer current.
// The fetcher asks Offsets and fetches again.
var ErrStale error = kafka.Errorf(kafka.FencedLeaderEpoch, "the partition has moved on since this was fetched")

// AppendMirrored stores the source's bytes as they are: offsets, epochs, producer
// ids, timestamps, codec, CRC. It checks magic, CRC, order of offsets and epochs. Batches that end below
// LogEnd are dropped; one that overlaps it without being whole is an error. It
// returns before the sync, and waits when too much is unsynced. Errors: ErrStale; batch.ErrMagic,
// batch.ErrCRC wrapped; kafka.Error else.
func (p *Partition) AppendMirrored(ctx context.Context, m Mirrored) error {
	panic("partition: to be built")
}

// FollowLogStart moves a mirror's log start to the source's, as far as its high watermark (rule D4).
func (p *Partition) FollowLogStart(ctx context.Context, generation int64, source kafka.Offset) error {
	panic("partition: to be built")
}

// JumpTo is for a source that has removed what the mirror has not got yet: the mirror goes on at offset,
// which is at least LogEnd. With keep the older records stay and the gap is a hole; else the log is emptied
// and starts there. Open transactions end as aborted in the index (rule D5), without a byte written. lost is the number of offsets passed over.
func (p *Partition) JumpTo(ctx context.Context, generation int64, offset kafka.Offset, keep bool) (lost int64, err error) {
	panic("partition: to be built")
}

// TruncateMirror cuts a mirror's log to offset because its source diverged: it stores a
// strictly greater published epoch first (rule E2), then cuts and wakes readers.
func (p *Partition) TruncateMirror(ctx context.Context, generation int64, offset kafka.Offset, reason string) error {
	panic("partition: to be built")
}

// BecomeMirror stores the mirror role for a new, empty topic's partition that starts at offset start.
func (p *Partition) BecomeMirror(ctx context.Context, start kafka.Offset) error {
	panic("partition: to be built")
}

// Epochs is the epoch cache, rising; EpochEnd answers as commitlog.EpochEnd, for the fetcher's search for divergence.
func (p *Partition) Epochs() []kafka.EpochStart { panic("partition: to be built") }
func (p *Partition) EpochEnd(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset) {
	panic("partition: to be built")
}

// LastBatch is the header (batch.HeaderSize bytes) of the last batch in the log, nil for an empty log: the splice check (rule E6).
func (p *Partition) LastBatch() (batch.Batch, error) { panic("partition: to be built") }

// Read asks for batches.
type Read struct {
	From         kafka.Offset
	MaxBytes     int
	AtLeastOne   bool // one whole batch even if it is larger than MaxBytes
	Isolation    kafka.Isolation
	CurrentEpoch kafka.LeaderEpoch // what the reader believes; NoEpoch skips the check
	LastEpoch    kafka.LeaderEpoch // epoch of the reader's last batch (lastFetchedEpoch); NoEpoch skips
}

// Answer is what a read found. Close the Slice.
type Answer struct {
	Slice          commitlog.Slice
	Offsets        Offsets
	Aborted        []Aborted // with ReadCommitted: sorted by FirstOffset; else nil
	Diverging      bool      // the reader's history is not ours (KIP-595): no data
	DivergingEpoch kafka.LeaderEpoch
	DivergingEnd   kafka.Offset
}

// Aborted says that the producer's records from FirstOffset (inclusive) to its next ABORT marker are void.
type Aborted struct {
	Producer    kafka.ProducerID
	FirstOffset kafka.Offset
}

// Read answers at once with what there is, perhaps nothing. Errors are kafka.Error:
// OFFSET_OUT_OF_RANGE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
func (p *Partition) Read(r Read) (Answer, error) { panic("partition: to be built") }

// Waiter is woken by partitions it was given to; one may watch many. C has room for one.
type Waiter struct{ C chan struct{} }

// NewWaiter makes a waiter.
func NewWaiter() *Waiter { return &Waiter{C: make(chan struct{}, 1)} }

// Watch wakes w when more may be readable, or when the partition's role, epoch or health changes, until Unwatch.
func (p *Partition) Watch(w *Waiter)   { panic("partition: to be built") }
func (p *Partition) Unwatch(w *Waiter) { panic("partition: to be built") }

// OffsetForLeaderEpoch answers the API of that name, with the rules E1 and E3: dead epochs answer the cut; an
// epoch above the log's last and not above the published one answers the log's last.
func (p *Partition) OffsetForLeaderEpoch(current, wanted kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error) {
	panic("partition: to be built")
}

// OffsetForTime and MaxTimestamp answer ListOffsets, bounded by what the isolation level may see.
func (p *Partition) OffsetForTime(ms int64, isolation kafka.Isolation) (commitlog.TimedOffset, error) {
	panic("partition: to be built")
}
func (p *Partition) MaxTimestamp(isolation kafka.Isolation) (commitlog.TimedOffset, error) {
	panic("partition: to be built")
}

// EpochAt is the epoch of the batch that holds offset or precedes it, for ListOffsets' answer.
func (p *Partition) EpochAt(offset kafka.Offset) kafka.LeaderEpoch { panic("partition: to be built") }

// DeleteRecords moves the log start forward; NoOffset means the high watermark. Refused on a mirror.
func (p *Partition) DeleteRecords(to kafka.Offset) (logStart kafka.Offset, err error) {
	panic("partition: to be built")
}

// Producer describes a producer's state for DescribeProducers.
type Producer struct {
	ID               kafka.ProducerID
	Epoch            int16
	LastSequence     int32
	LastTimestamp    int64 // Unix ms
	CoordinatorEpoch int32
	TxnStart         kafka.Offset // NoOffset if none is open
}

// Producers lists the producers known here.
func (p *Partition) Producers() []Producer { panic("partition: to be built") }

type impl struct{}
type ownerImpl struct{}
