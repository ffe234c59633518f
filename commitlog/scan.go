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
	spots, err := l.spots(from, maxSpots, nil)
	if err != nil {
		return err
	}
	for _, spot := range spots {
		if err := l.scanSegment(spot, from, headersOnly, yield); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) scanSegment(spot spot, from kafka.Offset, headersOnly bool, yield func(batch.Batch, int64) error) error {
	v, err := l.view(spot.seg, spot.st)
	if errors.Is(err, errGone) {
		return fmt.Errorf("scan log at segment %s: %w meanwhile", logName(spot.seg.base), err)
	}
	if err != nil {
		return err
	}
	defer v.file.release()
	s := scanner{file: v.file, pos: v.positionOf(from), end: v.size, chunk: walkChunk, heads: headersOnly}
	for {
		b, n, err := s.next()
		if err == io.EOF {
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
