package fetcher

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
	"github.com/hawserio/hawser/link/plan"
	"github.com/hawserio/hawser/partition"
)

// verdict is what a partition's loop does with it after an answer.
type verdict int

const (
	stay  verdict = iota // fetch on, perhaps after a wait
	leave                // its leader must be looked up
	mend                 // the source must be asked questions beside the loop
)

const (
	confirmWait = 2 * time.Second        // between questions whether the source's log start is where a fetch said
	corruptWait = 2 * time.Second        // longest wait between fetches of a batch that fails its CRC
	corruptRate = 500 * time.Millisecond // and the shortest (case C16)
	stuckWait   = 5 * time.Second        // between looks at what only an operator can change
)

// want builds the next fetch. The position is the mirror's log end and nothing else; with a splice
// to check it is the last batch's (rule E6).
func (q *part) want(l *loop, cfg *Config) (Want, bool) {
	o := q.Target.Offsets()
	if q.serial != l.serial {
		q.serial = l.serial
		q.splice.Store(q.splice.Load() || !q.aligned)
	}
	if !q.follow(o, cfg) {
		return Want{}, false
	}
	if q.ahead != nil && q.splice.Load() {
		return Want{}, false // first the append under way
	}
	leader := q.leader.Load()
	w := Want{
		TopicPartition: q.Source, TopicID: q.topicID,
		Offset: o.LogEnd, LastEpoch: kafka.NoEpoch, CurrentEpoch: leader.Epoch,
		MaxBytes: max(l.frame.partitionMax(cfg), q.maxBytes),
	}
	if q.splice.Load() {
		last, err := q.Target.LastBatch()
		if err != nil {
			q.fail(targetFault(err), fmt.Errorf("read the mirror's last batch: %w", err), stuckWait)
			return Want{}, false
		}
		q.splice.Store(last != nil)
		if last != nil {
			size, err := batch.SizeOf(last)
			if err != nil {
				q.fail(TargetFailed, fmt.Errorf("read the mirror's last batch: %w", err), stuckWait)
				return Want{}, false
			}
			w.Offset, w.MaxBytes = last.BaseOffset(), size
		}
	}
	splice := q.splice.Load()
	if !splice && !q.noEpoch {
		w.LastEpoch = q.lastEpoch(o)
	}
	if q.ahead != nil {
		w.Offset, w.LastEpoch = q.ahead.offset, q.ahead.epoch
	}
	q.asked = asked{generation: o.Generation, offset: w.Offset, epoch: leader.Epoch, splice: splice, ahead: q.ahead != nil}
	return w, true
}

// lastEpoch is the epoch of the mirror's last batch, NoEpoch for an empty log.
func (q *part) lastEpoch(o partition.Offsets) kafka.LeaderEpoch {
	if !q.last.known || q.last.generation != o.Generation || q.last.end != o.LogEnd {
		q.last = lastEpoch{generation: o.Generation, end: o.LogEnd, epoch: kafka.NoEpoch, known: true}
		if epochs := q.Target.Epochs(); len(epochs) > 0 && o.LogEnd > o.LogStart {
			q.last.epoch = epochs[len(epochs)-1].Epoch
		}
	}
	return q.last.epoch
}

// follow moves the mirror's log start after the source's, which Target does as far as its high watermark: so
// it is tried again when that has moved. It reports whether the partition can be fetched.
func (q *part) follow(o partition.Offsets, cfg *Config) bool {
	if cfg.KeepHoles || q.splice.Load() || q.start <= o.LogStart || o.HighWatermark <= o.LogStart {
		return true
	}
	if q.start > kafka.Offset(q.confirmed.Load()) {
		q.confirm()
	}
	start := min(q.start, kafka.Offset(q.confirmed.Load()))
	if start <= o.LogStart || q.followed == o.HighWatermark && q.followedTo == start {
		return true
	}
	q.followed, q.followedTo = o.HighWatermark, start
	err := q.target(func() error { return q.Target.FollowLogStart(q.ctx, o.Generation, start) })
	if err != nil && !errors.Is(err, partition.ErrStale) && !errors.Is(err, context.Canceled) {
		q.followed = -1
		q.fail(targetFault(err), fmt.Errorf("move the log start of %s to %d: %w", q.Mirror, start, err), stuckWait)
		return false
	}
	return true
}

// confirm asks the source for its log start over another connection, beside the loop: no single answer makes a mirror delete what it holds.
func (q *part) confirm() {
	if !q.confirming.CompareAndSwap(false, true) {
		return
	}
	claimed := q.start
	q.pool.wg.Go(func() {
		defer q.confirming.Store(false)
		select {
		case q.pool.repair <- struct{}{}:
		case <-q.ctx.Done():
			return
		}
		start, err := q.pool.src.ListOffset(q.ctx, q.Source, -2)
		<-q.pool.repair
		if err == nil && start > kafka.Offset(q.confirmed.Load()) {
			q.confirmed.Store(int64(start))
		}
		if err != nil || start < claimed {
			select { // it is asked again, but not at every fetch
			case <-time.After(confirmWait):
			case <-q.ctx.Done():
			}
		}
	})
}

// answer takes what the source said.
func (q *part) answer(f *Fetched) verdict {
	if q.ctx.Err() != nil || f.Offset != q.asked.offset {
		return stay
	}
	if newer := q.hint.Load(); newer != nil && newer.Epoch > q.asked.epoch {
		return stay // answered under an epoch that is over
	}
	if f.Err != nil {
		return q.refused(f.Err)
	}
	if q.start != f.LogStart {
		q.followed = -1
	}
	q.proven = max(q.proven, q.asked.epoch)
	q.heard(f)
	if f.Diverging {
		return q.mend(plan.DoubtHistories)
	}
	if q.asked.splice {
		return q.spliced(f)
	}
	q.aligned = false
	if len(f.Batches) == 0 {
		if f.HighWatermark >= 0 && f.HighWatermark < q.asked.offset {
			return q.mend(plan.DoubtHistories)
		}
		if q.orphans(f) {
			return q.mend(plan.DoubtOpen)
		}
		q.well()
		return stay
	}
	return q.store(f)
}

// orphans reports whether a transaction is open in the mirror, which has all that the source has, and by this answer none is open there.
func (q *part) orphans(f *Fetched) bool {
	o := q.Target.Offsets()
	return plan.Orphans(f.Offset, plan.Ends{Stable: f.LastStable, High: f.HighWatermark, End: f.HighWatermark},
		plan.Ends{Stable: o.LastStable, High: o.HighWatermark, End: o.LogEnd})
}

// refused is an answer with an error.
func (q *part) refused(err error) verdict {
	backoff := q.pool.cfg.Load().Backoff
	switch kafka.CodeOf(err) {
	case kafka.OffsetOutOfRange:
		return q.mend(plan.DoubtRange)
	case kafka.NotLeaderForPartition, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch, kafka.LeaderNotAvailable,
		kafka.ReplicaNotAvailable, kafka.BrokerNotAvailable, kafka.KafkaStorageError, kafka.OffsetNotAvailable,
		kafka.UnknownTopicOrPartition, kafka.UnknownTopicID, kafka.InconsistentTopicID:
		// Common while leaders move; steer says what it is if it lasts. A topic that was not there for a moment may be another one, with the
		// same leader and epoch: where it has no id, only its bytes tell (rule E6).
		q.splice.Store(true)
		q.aligned = false
		q.wait(backoff)
		return leave
	case kafka.CorruptMessage:
		q.corrupt(err)
	case kafka.UnsupportedForMessageFormat, kafka.UnsupportedVersion:
		q.fail(OldFormat, err, stuckWait)
	default:
		q.fail(faultOf(err), err, max(backoff, missingWait))
	}
	return stay
}

// corrupt shows a bad batch and waits: at most two fetches a second.
func (q *part) corrupt(err error) {
	q.fail(CorruptBatch, err, corruptWait)
	if soonest := time.Now().Add(corruptRate); q.notBefore.Before(soonest) {
		q.notBefore = soonest
	}
}

// store appends an answer's whole batches, and judges what is behind them.
func (q *part) store(f *Fetched) verdict {
	cut := f.cut()
	if len(cut.whole) > 0 {
		if !q.append(f, cut) {
			return stay
		}
	}
	switch magic := batch.ErrMagic(0); {
	case cut.err == nil:
	case errors.As(cut.err, &magic):
		q.fail(OldFormat,
			fmt.Errorf("source topic '%s' partition %d holds message format %d at offset %d; only format 2 can be mirrored: let a "+
				"producer of version 0.11 or later write it anew",
				q.Source.Topic, q.Source.Partition, int8(magic), cut.at), stuckWait)
		return stay
	default:
		q.corrupt(fmt.Errorf("read what source partition %s sent for offset %d: %w", q.Source, q.asked.offset, cut.err))
		return stay
	}
	if len(cut.whole) == 0 {
		return q.nothingWhole(f, cut)
	}
	q.maxBytes, q.noEpoch = 0, q.reread
	q.well()
	return stay
}

// nothingWhole is an answer that holds no whole batch: the first is larger than what was asked for (case C11).
func (q *part) nothingWhole(f *Fetched, cut cut) verdict {
	if cut.need > q.maxBytes {
		q.maxBytes = cut.need
		return stay
	}
	q.corrupt(fmt.Errorf("source partition %s sent %d bytes for offset %d and no whole batch below its high watermark %d", q.Source,
		len(f.Batches), q.asked.offset, f.HighWatermark))
	return stay
}

// append stores whole batches. It reports false after showing why it could not.
func (q *part) append(f *Fetched, c cut) bool {
	if epoch := c.last.LeaderEpoch(); q.asked.epoch >= 0 && epoch > q.asked.epoch && q.odd != (oddEpoch{c.last.BaseOffset(), epoch}) {
		// No CRC covers it. It is taken once a second answer has it too.
		q.odd = oddEpoch{c.last.BaseOffset(), epoch}
		q.wait(q.pool.cfg.Load().Backoff)
		return false
	}
	behind := c.behind(f.HighWatermark)
	put := func(bs batch.Batches) error {
		return q.target(func() error {
			return q.Target.AppendMirrored(q.ctx, partition.Mirrored{Generation: q.asked.generation, FetchedAt: q.asked.offset, Batches: bs,
				Behind: behind})
		})
	}
	gaps := q.epochGaps(c.whole, c.last)
	err := put(c.whole)
	if errors.Is(err, batch.ErrCRC) {
		// What stands before the bad batch is good, and should not wait for it.
		if good := goodPrefix(c.whole); len(good) > 0 && put(good) == nil {
			q.stored(lastOf(good), len(good))
		}
	}
	if err == nil {
		q.stored(c.last, len(c.whole))
		q.pool.refine(q, q.asked.generation, gaps)
		return true
	}
	q.notStored(err)
	return false
}

// stored notes an append.
func (q *part) stored(last batch.Batch, bytes int) {
	q.last = lastEpoch{generation: q.asked.generation, end: last.NextOffset(), epoch: last.LeaderEpoch(), known: true}
	q.suspect = suspicion{}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.status.LastFetched = last.LastOffset()
	q.status.FetchedBytes += int64(bytes)
}

// notStored says why an append was refused.
func (q *part) notStored(err error) {
	var magic batch.ErrMagic
	where := fmt.Sprintf("append to %s what the source sent for offset %d", q.Mirror, q.asked.offset)
	switch {
	case errors.Is(err, context.Canceled):
	case errors.Is(err, partition.ErrStale):
		// The mirror moved on. Its offsets are asked again; only if that lasts is there something to wait for.
		if q.tries++; q.tries > 3 {
			q.notBefore = time.Now().Add(100 * time.Millisecond)
		}
	case errors.Is(err, batch.ErrCRC):
		q.corrupt(fmt.Errorf("%s: %w", where, err))
	case errors.As(err, &magic):
		q.fail(OldFormat, fmt.Errorf("%s: %w", where, err), stuckWait)
	case errors.Is(err, partition.ErrOverlap):
		q.fail(OverlappingBatch, fmt.Errorf("%s: %w", where, err), stuckWait)
	case errors.Is(err, partition.ErrEpochBack):
		q.fail(AppendEpochBack, fmt.Errorf("%s: %w", where, err), stuckWait)
	default:
		q.fail(targetFault(err), fmt.Errorf("%s: %w", where, err), stuckWait)
	}
}

// targetFault says which fault it is that the mirror's own partition answered an error.
func targetFault(err error) Fault {
	switch {
	case errors.Is(err, partition.ErrNoRoom):
		return TargetFull
	case kafka.CodeOf(err) == kafka.KafkaStorageError:
		return TargetOffline
	}
	return TargetFailed
}

// cut is an answer's bytes taken apart.
type cut struct {
	whole batch.Batches // whole batches below the high watermark
	last  batch.Batch   // of whole; nil for none
	need  int           // size of a first batch that did not fit, 0 if that was not so
	err   error         // why the walk ended early, nil for the end or a part of a batch
	at    kafka.Offset  // where it did
}

// behind estimates how many bytes the source has above the batches: as many for an offset as these have.
func (c cut) behind(highWatermark kafka.Offset) int64 {
	first, _, err := batch.Head(c.whole)
	if err != nil || highWatermark <= c.last.NextOffset() {
		return 0
	}
	each := float64(len(c.whole)) / float64(c.last.NextOffset()-first.BaseOffset())
	return int64(each * float64(highWatermark-c.last.NextOffset()))
}

// cut is the answer's bytes taken apart. They are walked once: for small batches that costs as much as anything that is done with them.
func (f *Fetched) cut() cut {
	if f.walked == nil {
		c := cutWhole(f.Batches, f.HighWatermark)
		f.walked = &c
	}
	return *f.walked
}

// cutWhole walks the batches of an answer up to the source's high watermark. A part of a batch at the end is
// how Kafka's answers end. Headers are checked, CRCs are not.
func cutWhole(bs batch.Batches, highWatermark kafka.Offset) cut {
	c := cut{}
	used := 0
	for b, err := range bs.All() {
		rest := bs[used:]
		if errors.Is(err, batch.ErrShort) {
			if size, err := batch.SizeOf(rest); err == nil && used == 0 {
				c.need = size
			} else if err != nil && !errors.Is(err, batch.ErrShort) {
				c.err = err
			}
			break
		}
		if err != nil {
			c.err = err
			if len(rest) >= 8 {
				c.at = kafka.Offset(binary.BigEndian.Uint64(rest))
			}
			break
		}
		if b.NextOffset() > highWatermark {
			break
		}
		c.last = b
		used += len(b)
	}
	c.whole = bs[:used]
	return c
}

// goodPrefix is the batches before the first that fails its CRC.
func goodPrefix(bs batch.Batches) batch.Batches {
	used := 0
	for b, err := range bs.All() {
		if err != nil || b.CheckCRC() != nil {
			break
		}
		used += len(b)
	}
	return bs[:used]
}

func lastOf(bs batch.Batches) (last batch.Batch) {
	for b, err := range bs.All() {
		if err == nil {
			last = b
		}
	}
	return last
}
