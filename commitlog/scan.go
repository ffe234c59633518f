package commitlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/hawserio/hawser/kafka"
	"github.com/hawserio/hawser/kafka/batch"
)

// Scan walks batches from the one that holds from (or the next), in order, to where the log
// ended when Scan was called. The batch passed is valid until yield returns. headersOnly leaves out the payload (the
// Batch is then only HeaderSize long and its Payload empty). Headers are checked, CRCs are not. ErrOutOfRange as
// Read. What yield returns ends the walk and comes back as it is. A truncation meanwhile ends it with an error.
func (l *Log) Scan(from kafka.Offset, headersOnly bool, yield func(batch.Batch) error) error {
	return l.scan(from, headersOnly, func(b batch.Batch, _ int64) error { return yield(b) })
}

// maxSpots is more segments than a log has.
const maxSpots = 1 << 30

func (l *Log) scan(from kafka.Offset, headersOnly bool, yield func(batch.Batch, int64) error) error {
	end := l.EndOffset()
	for range lookTries {
		reached, err := l.scanOnce(span{from: from, upTo: end}, headersOnly, func(b batch.Batch, n int64) error {
			if b.BaseOffset() >= end {
				return nil // appended since
			}
			return yield(b, n)
		})
		if !errors.Is(err, errCleaned) {
			return err
		}
		from = reached // what is left of a segment's batches is in its rewritten like
	}
	return fmt.Errorf("scan log at offset %d: segments changed %d times meanwhile", from, lookTries)
}

// scanOnce scans until a segment was replaced and says how far it came.
func (l *Log) scanOnce(want span, headersOnly bool, yield func(batch.Batch, int64) error) (reached kafka.Offset, err error) {
	reached = want.from
	spots, err := l.spots(want.from, maxSpots, nil)
	if err != nil {
		return reached, err
	}
	for _, spot := range spots {
		if spot.st.base >= want.upTo {
			break
		}
		err := l.scanSegment(spot, want.from, headersOnly, yield)
		if err != nil {
			return reached, err
		}
		reached = max(reached, spot.st.next)
	}
	return reached, nil
}

func (l *Log) scanSegment(spot spot, from kafka.Offset, headersOnly bool, yield func(batch.Batch, int64) error) error {
	v, err := l.view(spot.seg, spot.st)
	if errors.Is(err, errGone) && !errors.Is(err, errCleaned) {
		return fmt.Errorf("scan log at segment %s: %w meanwhile", logName(spot.seg.base), err)
	}
	if err != nil {
		return err
	}
	defer v.file.release()
	s := scanner{file: v.file, pos: v.positionOf(from), end: v.size, chunk: walkChunk, heads: headersOnly}
	for {
		b, n, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read segment %s at %d: %w", logName(v.base), s.pos, err)
		}
		if b.NextOffset() <= from {
			continue
		}
		if err := yield(b, n); err != nil {
			return err
		}
	}
}
