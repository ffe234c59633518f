package commitlog

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// plainMax bounds a batch's records when they are looked at one by one, in bytes.
const plainMax = 256 << 20

// TimedOffset is a record found by its time.
type TimedOffset struct {
	Offset    kafka.Offset // NoOffset if there is none
	Timestamp int64        // Unix ms
	Epoch     kafka.LeaderEpoch
}

var notFound = TimedOffset{Offset: kafka.NoOffset, Timestamp: -1, Epoch: kafka.NoEpoch}

// OffsetForTime finds the first record at or above StartOffset and below upTo (exclusive) whose timestamp is at least ms.
func (l *Log) OffsetForTime(ms int64, upTo kafka.Offset) (TimedOffset, error) {
	found, err := l.retried(upTo, func(spots []spot, bounds bounds) (TimedOffset, error) {
		for _, spot := range spots {
			if spot.st.maxTime < ms {
				continue
			}
			found, err := l.firstAtLeast(spot, ms, bounds)
			if err != nil || found.Offset != kafka.NoOffset {
				return found, err
			}
		}
		return notFound, nil
	})
	if err != nil {
		return notFound, fmt.Errorf("find offset for time %d: %w", ms, err)
	}
	return found, nil
}

// MaxTimestamp finds the record at or above StartOffset and below upTo (exclusive) with the largest timestamp,
// the first of equals (KIP-734).
func (l *Log) MaxTimestamp(upTo kafka.Offset) (TimedOffset, error) {
	found, err := l.retried(upTo, l.latest)
	if err != nil {
		return notFound, fmt.Errorf("find offset of largest timestamp: %w", err)
	}
	return found, nil
}

// bounds are the offsets a search may find: start inclusive, upTo exclusive.
type bounds struct{ start, upTo kafka.Offset }

// retried looks in the segments that reach below upTo, once more when one was replaced meanwhile.
func (l *Log) retried(upTo kafka.Offset, look func([]spot, bounds) (TimedOffset, error)) (TimedOffset, error) {
	for range lookTries {
		start := l.StartOffset()
		spots, err := l.spots(start, maxSpots, nil)
		if errors.Is(err, ErrOutOfRange) {
			continue // the start moved
		}
		if err != nil {
			return notFound, err
		}
		for len(spots) > 0 && spots[len(spots)-1].seg.base >= upTo {
			spots = spots[:len(spots)-1]
		}
		found, err := look(spots, bounds{start, upTo})
		if !errors.Is(err, errGone) {
			return found, err
		}
	}
	return notFound, fmt.Errorf("segments changed %d times meanwhile", lookTries)
}

// firstAtLeast finds the first record of a segment that is not earlier than ms.
func (l *Log) firstAtLeast(spot spot, ms int64, in bounds) (TimedOffset, error) {
	v, err := l.view(spot.seg, spot.st)
	if err != nil {
		return notFound, err
	}
	defer v.file.release()
	// No batch before the last time entry below ms is late enough.
	from := in.start
	if i := sort.Search(len(v.times), func(i int) bool { return v.times[i].ms >= ms }); i > 0 {
		from = max(from, v.base+kafka.Offset(v.times[i-1].last))
	}
	s := scanner{file: v.file, pos: v.positionOf(from), end: v.size, chunk: walkChunk, heads: true}
	for {
		at := s.pos
		b, n, err := s.next()
		if errors.Is(err, io.EOF) || err == nil && b.BaseOffset() >= in.upTo {
			return notFound, nil
		}
		if err != nil {
			return notFound, fmt.Errorf("read segment %s at %d: %w", logName(v.base), at, err)
		}
		if b.MaxTimestamp() < ms || b.NextOffset() <= in.start {
			continue
		}
		found, err := v.pick(at, n, in, func(best TimedOffset, r batch.Record) bool {
			return best.Offset == kafka.NoOffset && r.Timestamp >= ms
		})
		if err != nil || found.Offset != kafka.NoOffset {
			return found, err
		}
	}
}

// pick reads the batch of n bytes at a position and is the last record in bounds that better preferred to the one before.
func (v *view) pick(at, n int64, in bounds, better func(TimedOffset, batch.Record) bool) (TimedOffset, error) {
	raw := make([]byte, n)
	if got, err := v.file.ReadAt(raw, at); got < len(raw) {
		return notFound, fmt.Errorf("read segment %s at %d: %w", logName(v.base), at, err)
	}
	b, _, err := batch.Split(raw)
	if err != nil {
		return notFound, err
	}
	best := notFound
	for record, err := range b.Records(plainMax) {
		if err != nil {
			return notFound, err
		}
		if record.Offset >= in.start && record.Offset < in.upTo && better(best, record) {
			best = TimedOffset{Offset: record.Offset, Timestamp: record.Timestamp, Epoch: b.LeaderEpoch()}
		}
	}
	return best, nil
}

// latest finds the largest timestamp. Whole segments are compared by what is known of them;
// one that the bounds cut is read in part.
func (l *Log) latest(spots []spot, in bounds) (TimedOffset, error) {
	best := notFound
	// Records of a batch that the bounds cut may be earlier than its header says: so the
	// candidates are tried from the best on until one cannot be beaten.
	order := make([]int, len(spots))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return spots[order[i]].st.maxTime > spots[order[j]].st.maxTime })
	for _, i := range order {
		if spots[i].st.maxTime < max(best.Timestamp, 0) {
			break
		}
		found, err := l.latestIn(spots[i], in)
		if err != nil {
			return notFound, err
		}
		later := found.Timestamp > best.Timestamp || found.Timestamp == best.Timestamp && found.Offset < best.Offset
		if found.Offset != kafka.NoOffset && later {
			best = found
		}
	}
	return best, nil
}

// latestIn finds the largest timestamp of one segment in bounds.
func (l *Log) latestIn(spot spot, in bounds) (TimedOffset, error) {
	v, err := l.view(spot.seg, spot.st)
	if err != nil {
		return notFound, err
	}
	defer v.file.release()
	if v.maxTimeOffset >= in.start && v.maxTimeOffset < in.upTo {
		// Mostly the segment's latest batch is in bounds, and nothing else need be looked at.
		found, err := v.latestFrom(v.maxTimeOffset, bounds{in.start, v.maxTimeOffset + 1})
		if err != nil || found.Timestamp == v.maxTime {
			return found, err
		}
	}
	from := in.start
	if in.start <= v.base {
		// No batch before a time entry is later than it, and the batch it names is the first of its time.
		if i := sort.Search(len(v.times), func(i int) bool { return v.base+kafka.Offset(v.times[i].last) >= in.upTo }); i > 0 {
			from = v.base + kafka.Offset(v.times[i-1].last)
		}
	}
	return v.latestFrom(from, in)
}

// latestFrom finds the largest timestamp from the batch that holds offset from on.
func (v *view) latestFrom(from kafka.Offset, in bounds) (TimedOffset, error) {
	s := scanner{file: v.file, pos: v.positionOf(from), end: v.size, chunk: walkChunk, heads: true}
	best := notFound
	for {
		at := s.pos
		b, n, err := s.next()
		if errors.Is(err, io.EOF) || err == nil && b.BaseOffset() >= in.upTo {
			return best, nil
		}
		if err != nil {
			return notFound, fmt.Errorf("read segment %s at %d: %w", logName(v.base), at, err)
		}
		if b.MaxTimestamp() <= best.Timestamp || b.NextOffset() <= max(in.start, from) {
			continue
		}
		found, err := v.pick(at, n, in, func(best TimedOffset, r batch.Record) bool { return r.Timestamp > best.Timestamp })
		if err != nil {
			return notFound, err
		}
		if found.Timestamp > best.Timestamp {
			best = found
		}
	}
}
