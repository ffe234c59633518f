package partition

import (
	"errors"

	"github.com/hawserio/hawser/commitlog"
	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/meta"
)

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
	Offsets        Offsets   // without the size
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

// view is one consistent look at the marks.
type view struct {
	Offsets
	cuts        []meta.Cut
	jumps       []meta.Jump
	aborted     abortedIndex
	truncations int64
}

func (p *Partition) view() (view, error) {
	p.marks.mu.RLock()
	defer p.marks.mu.RUnlock()
	m := &p.marks
	if m.err != nil {
		return view{}, m.err
	}
	return view{p.offsets(), m.entry.Cuts, m.entry.Jumps, m.aborted, m.entry.Truncations}, nil
}

// end is how far a reader of this isolation level may see, exclusive.
func (v *view) end(isolation kafka.Isolation) kafka.Offset {
	if isolation == kafka.ReadCommitted {
		return v.LastStable
	}
	return v.HighWatermark
}

// checkEpoch compares what a client believes with the published epoch (KIP-320).
func (v *view) checkEpoch(current kafka.LeaderEpoch, name kafka.TopicPartition) error {
	switch {
	case current == kafka.NoEpoch || current == v.Epoch:
		return nil
	case current < v.Epoch:
		return kafka.Errorf(kafka.FencedLeaderEpoch, "The leader epoch %d in the request is older than that of partition %s, %d.",
			current, name, v.Epoch)
	}
	return kafka.Errorf(kafka.UnknownLeaderEpoch, "The leader epoch %d in the request is newer than that of partition %s, %d.",
		current, name, v.Epoch)
}

// Read answers at once with what there is, perhaps nothing. Errors are kafka.Error:
// OFFSET_OUT_OF_RANGE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
func (p *Partition) Read(r Read) (Answer, error) {
	// A cut between the look at the marks and the read of the log would show what is not synced yet: look again.
	const tries = 4
	for range tries {
		v, err := p.view()
		if err != nil {
			return Answer{}, err
		}
		answer, err := p.readAt(r, &v)
		if err == nil && answer.Slice.Length == 0 {
			return answer, nil // nothing of the log that a cut could have changed
		}
		after, viewErr := p.view()
		switch {
		case viewErr != nil:
			answer.Slice.Close()
			return Answer{}, viewErr
		case after.Generation != v.Generation:
			answer.Slice.Close()
			continue
		case errors.Is(err, commitlog.ErrOutOfRange):
			// The log start has just moved on, or a cut is being carried out.
			if after.LogStart == v.LogStart {
				return Answer{Offsets: v.Offsets}, nil
			}
			continue
		}
		return answer, err
	}
	return Answer{}, kafka.Errorf(kafka.NotLeaderForPartition, "Partition %s is changing; try again.", p.name)
}

func (p *Partition) readAt(r Read, v *view) (Answer, error) {
	answer := Answer{Offsets: v.Offsets}
	if err := v.checkEpoch(r.CurrentEpoch, p.name); err != nil {
		return answer, err
	}
	if r.Isolation == kafka.ReadCommitted {
		answer.Aborted = []Aborted{}
	}
	if r.LastEpoch != kafka.NoEpoch {
		epoch, end := p.epochView(v).end(r.LastEpoch)
		if end == kafka.NoOffset {
			return answer, p.outOfRange(r.From, v)
		}
		if epoch < r.LastEpoch || end < r.From {
			answer.Diverging, answer.DivergingEpoch, answer.DivergingEnd = true, epoch, end
			return answer, nil
		}
	}
	if r.From < v.LogStart || r.From > v.LogEnd {
		return answer, p.outOfRange(r.From, v)
	}
	end := v.end(r.Isolation)
	for at := r.From; ; at = answer.Slice.Next {
		from, upTo := v.unbroken(at, end)
		// A hole at the log's end is not in the log yet.
		if at >= upTo || at >= p.log.EndOffset() {
			return answer, nil
		}
		slice, err := p.log.Read(at, upTo, r.MaxBytes, r.AtLeastOne)
		if err != nil {
			if errors.Is(err, commitlog.ErrOutOfRange) {
				return answer, err
			}
			return answer, p.storageError("read the log", err)
		}
		answer.Slice = slice
		if slice.Length == 0 && slice.Next >= upTo {
			continue // a cleaner has removed all in front of a hole: a reader would wait there for ever
		}
		if r.Isolation == kafka.ReadCommitted {
			answer.Aborted = v.aborted.between(from, upTo)
		}
		return answer, nil
	}
}

// unbroken is how far an answer that begins at an offset may reach, exclusive, and from where on it needs aborted transactions. It does not
// reach across a hole in which markers were lost: a client would take an aborted producer's records behind it for aborted too.
func (v *view) unbroken(at, end kafka.Offset) (from, upTo kafka.Offset) {
	from, upTo = at, end
	for _, j := range v.jumps {
		switch {
		case from < j.From:
			upTo = min(upTo, j.From)
		case from < j.To:
			from = j.To // for the aborted transactions; the log itself looks behind the hole
		}
	}
	return from, upTo
}

func (p *Partition) outOfRange(offset kafka.Offset, v *view) error {
	return kafka.Errorf(kafka.OffsetOutOfRange, "Offset %d of partition %s is out of range: it holds [%d, %d).",
		offset, p.name, v.LogStart, v.HighWatermark)
}

func (p *Partition) epochView(v *view) epochView {
	inLog := p.log.Epochs()
	for len(inLog) > 0 && inLog[len(inLog)-1].Start >= v.LogEnd {
		inLog = inLog[:len(inLog)-1] // about to be cut off
	}
	return epochView{published: v.Epoch, inLog: inLog, cuts: v.cuts, logEnd: v.LogEnd}
}

// OffsetForLeaderEpoch answers the API of that name, with the rules E1 and E3: dead epochs answer the cut; an
// epoch above the log's last and not above the published one answers the log's last.
func (p *Partition) OffsetForLeaderEpoch(current, wanted kafka.LeaderEpoch) (kafka.LeaderEpoch, kafka.Offset, error) {
	v, err := p.view()
	if err == nil {
		err = v.checkEpoch(current, p.name)
	}
	if err != nil {
		return kafka.NoEpoch, kafka.NoOffset, err
	}
	epoch, end := p.epochView(&v).end(wanted)
	return epoch, end, nil
}

// OffsetForTime answers ListOffsets for a time, bounded by what the isolation level may see.
func (p *Partition) OffsetForTime(ms int64, isolation kafka.Isolation) (commitlog.TimedOffset, error) {
	return p.timed(isolation, func(upTo kafka.Offset) (commitlog.TimedOffset, error) { return p.log.OffsetForTime(ms, upTo) })
}

// MaxTimestamp answers ListOffsets for the largest timestamp (KIP-734), bounded likewise.
func (p *Partition) MaxTimestamp(isolation kafka.Isolation) (commitlog.TimedOffset, error) {
	return p.timed(isolation, func(upTo kafka.Offset) (commitlog.TimedOffset, error) { return p.log.MaxTimestamp(upTo) })
}

func (p *Partition) timed(isolation kafka.Isolation,
	find func(upTo kafka.Offset) (commitlog.TimedOffset, error)) (commitlog.TimedOffset, error) {
	none := commitlog.TimedOffset{Offset: kafka.NoOffset, Timestamp: -1, Epoch: kafka.NoEpoch}
	v, err := p.view()
	if err != nil {
		return none, err
	}
	found, err := find(v.end(isolation))
	if err != nil {
		return none, p.storageError("search the log by time", err)
	}
	if found.Offset < v.LogStart {
		return none, nil
	}
	return found, nil
}
